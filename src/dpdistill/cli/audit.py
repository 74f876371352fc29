"""Attacks and comparisons with the private records, for their owner: not covered by epsilon."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpdistill.cli.options import (
    MAX_SEED,
    SOURCES,
    SQL,
    Bounds,
    Cap,
    Channels,
    Classes,
    Folder,
    Labels,
    Ledger,
    Resize,
    Straighten,
    by_default,
    refuse_cap,
    table_source,
)
from dpdistill.cli.owners_page import owners_folder, write_page
from dpdistill.cli.reading import check_source, read_records
from dpdistill.cli.settings import check_kind, check_method, check_names, check_settings
from dpdistill.cli.terminal import Bar, note, say, working
from dpdistill.recipe import choices
from dpdistill.recipe.methods import DEFAULTS
from dpdistill.schema import DataError, Schema, TableSchema

Members = Annotated[
    str | None,
    typer.Option(help=f"Records that it was made from: {SOURCES} CSV or Parquet, or a database, with --sql."),
]
Sql = Annotated[str | None, typer.Option(help=SQL)]
SchemaFile = Annotated[str | None, typer.Option(help="The schema.yaml of a table.")]
Data = Annotated[str, typer.Argument(metavar="DATA", help=SOURCES)]
Out = Annotated[str, typer.Option("--out", help="Name of the result: its owner's page goes to DIR.audit.")]
Named = Annotated[str, typer.Option("--method", help="See `dpdistill methods`.")]
Fields = Annotated[list[str] | None, typer.Option("--set", help="A recipe field: field=value.")]
Epsilon = Annotated[float, typer.Option(help="Privacy budget of a run.")]
Delta = Annotated[float, typer.Option(help="Privacy budget of a run.")]
Seed = Annotated[int, typer.Option(min=0, max=MAX_SEED, metavar="<int>", help="Of everything public.")]


app = typer.Typer(
    cls=by_default("set"),
    no_args_is_help=True,
    help="Attack a set, a run, a method or a network, for the owner of the records: not covered by epsilon.",
)


@app.command("set")
def audit_set(
    folder: Folder,
    members: Members = None,
    others: Annotated[
        str | None, typer.Option("--non-members", help="Records of the same kind that it was not made from.")
    ] = None,
    schema: SchemaFile = None,
    sql: Annotated[str | None, typer.Option(help=SQL.replace("DATA", "--members"))] = None,
    others_sql: Annotated[
        str | None, typer.Option("--non-members-sql", help=SQL.replace("DATA", "--non-members"))
    ] = None,
    labels: Labels = None,
) -> None:
    """Compare a set with the records it stands for, and ask who was among them. Writes DIR.audit."""
    from dpdistill.folder.save import read_distilled

    distilled = read_distilled(folder)
    owners_folder(folder)
    facts = distilled.schema
    if members is None or (others is None and not isinstance(facts, TableSchema)):
        raise DataError("Expected --members DATA, and of images --non-members DATA as well: records to compare with.")
    if others is None and others_sql is not None:
        raise DataError("Expected --non-members with --non-members-sql.")
    table = isinstance(facts, TableSchema)
    check_source(members, table, sql)
    if others is not None:
        check_source(others, table, others_sql)
    with working("reading the records"):
        inside = _read(members, facts, schema, sql, labels=labels)
        outside = None if others is None else _read(others, facts, schema, others_sql, "test", labels)
    # What cannot be read is refused before JAX is imported.
    from dpdistill.audits.chapters import membership_chapter
    from dpdistill.audits.marginals import compare_marginals
    from dpdistill.audits.marginals_page import marginal_chapters, to_json
    from dpdistill.audits.membership import attack_membership, on_both_sides

    chapters, results = [], {}
    if isinstance(facts, TableSchema):
        comparison = compare_marginals(distilled, inside)
        chapters, results = marginal_chapters(comparison, facts), to_json(comparison, facts)
    if outside is not None:
        with working("attacking"):
            found = attack_membership(distilled, inside, outside)
            same = on_both_sides(inside, outside)
        _say_left_out(inside, outside, found["distance"])
        if same:
            say(f"Warning: {same:,} of the {len(outside):,} other records are the same as a member's.")
        more, said = membership_chapter(found, _schedule(folder))
        chapters, results = [*chapters, more], {**results, **said}
        _say_rates(found)
    write_page(folder, "audit", "A set beside the records it stands for", f"Of {Path(folder).name}.", chapters, results)


@app.command("run")
def audit_run(
    data: Data,
    *,
    to: Out,
    method: Annotated[str | None, typer.Option(help="See `dpdistill methods`.")] = None,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-5,
    canaries: Annotated[int, typer.Option(min=100, help="Records that are nobody's; about half of them enter.")] = 1000,
    leak: Annotated[
        str | None, typer.Option(help="Plant a leak, to see that it is found: noised-again, same-noise, real-start.")
    ] = None,
    set_: Fields = None,
    schema: SchemaFile = None,
    sql: Sql = None,
    classes: Classes = None,
    bounds: Bounds = None,
    resize: Resize = None,
    channels: Channels = None,
    straighten: Straighten = False,
    labels: Labels = None,
    seed: Seed = 0,
    ledger: Ledger = None,
    cap: Cap = None,
) -> None:
    """Distil the records beside canaries, and bound epsilon from below by what can be guessed.

    It is a run, and pays like one: name the data set's ledger. What it distils is not handed out: canaries are in it.
    """
    refuse_cap(cap)
    name = method or DEFAULTS[Schema if schema is None else TableSchema]
    check_names("leak", [] if leak is None else [leak], choices.LEAKS)
    check_recipe(name, set_, epsilon, delta, schema is not None)
    check_source(data, schema is not None, sql)
    from dpdistill import run
    from dpdistill.accounting.schedule import Budget
    from dpdistill.audits.canaries import audit_one_run
    from dpdistill.audits.chapters import canary_chapter
    from dpdistill.audits.leaks import LEAKS
    from dpdistill.cli.recipes import build

    recipe = build(name, set_ or ())
    budget = Budget(epsilon, delta)
    run.check_private(recipe)
    run.check_ledger(recipe, budget, ledger, seed=seed)
    owners_folder(to)
    records = records_of(data, schema, sql, classes, bounds, resize, channels, straighten, labels)
    with Bar() as bar:
        found = audit_one_run(
            records,
            recipe,
            budget,
            canaries=canaries,
            seed=seed,
            distill=run.distill if leak is None else LEAKS[leak],
            progress=bar,
            ledger=ledger,
        )
    made, results = canary_chapter(found)
    for name, each in found.bounds.items():
        say(f"{name}: {found.correct[name]} of {found.guesses[name]} right, epsilon is at least {each:.2f}")
    say(f"epsilon is at least {found.bound:.2f} at {100 * found.confidence:g} % confidence; certified: {epsilon:g}.")
    what = f"{recipe.name} on {len(found.included)} canaries among the records"
    what += "" if leak is None else f", with a leak planted: {leak}"
    write_page(to, "canaries", "What one run gives away", f"{what}.", [made], results)


@app.command("shadows")
def audit_shadows(
    data: Data,
    *,
    to: Out,
    method: Named,
    set_: Fields = None,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-5,
    no_privacy: Annotated[
        bool, typer.Option("--no-privacy", help="Without noise, for comparison; always so for dm and kip.")
    ] = False,
    runs: Annotated[int, typer.Option(min=4, help="Runs, each on half of the records.")] = 16,
    schema: SchemaFile = None,
    sql: Sql = None,
    classes: Classes = None,
    bounds: Bounds = None,
    resize: Resize = None,
    channels: Channels = None,
    straighten: Straighten = False,
    labels: Labels = None,
    seed: Seed = 0,
) -> None:
    """Distil halves of the records many times, and tell from a set who was in its half. Nothing is handed out."""
    check_recipe(method, set_, epsilon, delta, schema is not None, private=False)
    owners_folder(to)
    records = records_of(data, schema, sql, classes, bounds, resize, channels, straighten, labels)
    from dpdistill.accounting.schedule import Budget, calibrate
    from dpdistill.audits.chapters import membership_chapter
    from dpdistill.audits.shadows import attack_by_shadows
    from dpdistill.cli.recipes import build

    recipe = build(method, set_ or ())
    budget = Budget(epsilon, delta) if recipe.private and not no_privacy else None
    schedule = None if budget is None else calibrate(recipe.plan(), budget)
    with Bar() as bar:
        found = attack_by_shadows(records, recipe, budget, runs=runs, seed=seed, progress=bar)
    made, results = membership_chapter(found, schedule, runs)
    _say_rates(found)
    paid = "without privacy" if budget is None else f"epsilon {epsilon:g}, delta {delta:g}"
    write_page(to, "shadows", f"Who was in, by {runs} shadows", f"{recipe.name}, {paid}.", [made], results)


def check_recipe(
    method: str, settings: list[str] | None, epsilon: float, delta: float, table: bool, private: bool = True
) -> None:
    """Refuse, before JAX is imported, what cannot be run."""
    from dpdistill.accounting.schedule import Budget, check_affordable

    check_method(method)
    check_kind(method, table, private)
    check_settings(method, settings or ())
    check_affordable(Budget(epsilon, delta).epsilon)


def _say_left_out(inside: Any, outside: Any, used: Any) -> None:
    """How many records are on neither side: of an unknown class, or with a missing value."""
    left = len(inside) - len(used.members), len(outside) - len(used.others)
    if any(left):
        say(f"Left out, since no set can be made from them: {left[0]:,} of {len(inside):,} members and {left[1]:,} of "
            f"{len(outside):,} others, of an unknown class or with a missing value.")  # fmt: skip


def _say_rates(found: Any) -> None:
    """How many members each attack on membership recognises."""
    for name, roc in found.items():
        low = roc.true_positives(0.001)
        say(f"by {name}: {100 * low.value:.2f} % of the members recognised at 0.1 % wrong, area {roc.area:.3f}")


def _read(
    data: str, facts: Any, schema: str | None, sql: str | None, part: str = "train", labels: str | None = None
) -> Any:
    """Records as a set's facts have them."""
    if not isinstance(facts, TableSchema):
        if sql is not None:
            raise DataError("The set holds images: --sql and --non-members-sql are for tables.")
        if schema is not None:
            raise DataError("The set holds images: --schema is for tables.")
        from dpdistill.sources.load import load

        h, w, _ = facts.shape
        records = load(data, part, like=facts, labels=labels, strict=h != w)  # bad pictures have the size of a square
        for each in records.notes:
            note(each)
        return records
    if labels is not None:
        raise DataError("The set is a table: --labels is for images.")
    if schema is None:
        raise DataError("Expected --schema SCHEMA: the set is a table.")
    from dpdistill.sources.tables.load import load_table
    from dpdistill.sources.tables.schema_file import read_schema, without_units

    table_file = without_units(read_schema(schema))
    if table_file.schema != facts:
        raise DataError(f"{schema} does not state the columns and classes of the set.")
    return load_table(table_source(data, sql), table_file, strict=False)


def records_of(
    data: str,
    schema: str | None = None,
    sql: str | None = None,
    classes: str | None = None,
    bounds: str | None = None,
    resize: str | None = None,
    channels: int | None = None,
    straighten: bool = False,
    labels: str | None = None,
) -> Any:
    """Records as `dpdistill distill` reads them, each for itself."""
    if schema is not None:
        if classes or bounds or resize or channels is not None or straighten or labels:
            raise DataError(
                "With --schema leave --classes, --bounds, --resize, --channels, --straighten and --labels out: it "
                "states all."
            )
        from dpdistill.sources.tables.schema_file import read_reviewed

        if (column := read_reviewed(schema).unit_column) is not None:
            raise DataError(
                f"{schema} states unit_column {column!r:.80}, and an audit takes single rows: list it under ignored."
            )
    stated = (classes, bounds, resize, channels, True)
    return read_records(data, schema, *stated, sql=sql, labels=labels, straighten=straighten)


def _schedule(folder: str) -> Any:
    """What the set's certificate says was paid; None where it says nothing that can be used."""
    import json

    from dpdistill.accounting.schedule import Schedule
    from dpdistill.certificate.build import SYSTEM_NOISE, read_certificate
    from dpdistill.errors import CertificateError

    try:
        certificate = read_certificate(folder)
        if certificate["noise"] != SYSTEM_NOISE:
            return None
        return Schedule.from_json(json.dumps(certificate["schedule"]))
    except (CertificateError, TypeError, KeyError, ValueError):
        return None
