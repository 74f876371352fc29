"""The command that distils: what is asked, what is refused before a record is read, and what is said of the result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dpdistill.cli.options import LABELS, MAX_SEED, SOURCES, SQL, WITHOUT_PRIVACY, check_method
from dpdistill.cli.reading import public_images, read_records
from dpdistill.cli.terminal import Bar, give, note, say, working
from dpdistill.schema import DataError


def distill(
    context: typer.Context,
    data: Annotated[str | None, typer.Argument(metavar="DATA", help=SOURCES)] = None,
    *,
    to: Annotated[str, typer.Option("--out", help="Folder for the result; it may be shared.")],
    method: Annotated[
        str | None, typer.Option(help="See `dpdistill methods`; dos-kip if left out, dp-merf for tables.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="A paper's recipe, see `dpdistill methods --recipes`, or a .yaml file.")
    ] = None,
    per_class: Annotated[int | None, typer.Option(help="Synthetic records a class; 10 if left out.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget; 1 if left out.")] = None,
    delta: Annotated[float | None, typer.Option(help="Privacy budget; 1e-5 if left out.")] = None,
    adjacency: Annotated[str | None, typer.Option(help="add-remove (if left out) or replace-one.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, max=MAX_SEED, metavar="<int>", help="Fixes everything public, never the noise; 0 if left out."
        ),
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A recipe field: field=value.")] = None,
    schema: Annotated[
        str | None, typer.Option(help="The schema.yaml of a table; DATA is CSV, Parquet or a database.")
    ] = None,
    sql: Annotated[str | None, typer.Option(help=SQL)] = None,
    classes: Annotated[str | None, typer.Option(help="Number of classes, or names: 10 or cat,dog.")] = None,
    bounds: Annotated[str | None, typer.Option(help="Lowest and highest raw value: 0,255.")] = None,
    resize: Annotated[str | None, typer.Option(help="Side of the square that images are resized to.")] = None,
    channels: Annotated[
        int | None, typer.Option(help="1 (grey) or 3 (colour), for images in files of their own.")
    ] = None,
    labels: Annotated[str | None, typer.Option(help=LABELS)] = None,
    public: Annotated[
        str | None,
        typer.Option(help="Images that you say are public, for a method's subspace (dos): as DATA; drawn if left out."),
    ] = None,
    unit_column: Annotated[
        str | None,
        typer.Option(
            help="Protect persons: the column (CSV, Parquet) or array (.npz) that names the person of each record; of "
            "class folders a word for it, and files are named PERSON_*.png."
        ),
    ] = None,
    rows_per_unit: Annotated[
        int | None, typer.Option(help="Most records of a person that are used, drawn at random; with --unit-column.")
    ] = None,
    lenient: Annotated[bool, typer.Option("--lenient/--strict", help="Let bad records contribute nothing.")] = False,
    ledger: Annotated[
        str | None, typer.Option(help="File that adds up all runs on this data set; new: with --cap.")
    ] = None,
    cap: Annotated[float | None, typer.Option(help="Epsilon that all runs in --ledger may spend together.")] = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="DIR.run of a finished run: use its releases again, free.")
    ] = None,
    non_private: Annotated[
        bool, typer.Option("--non-private", help="No noise and no guarantee: epsilon is infinite.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier result, and pay for a new run.")
    ] = False,
    class_size: Annotated[
        int | None,
        typer.Option(min=1, metavar="<int>", help="Records of a class, if that is public: how loud they are is told."),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what the run would cost and show, and stop.")] = False,
) -> None:
    """Distil private records into a tiny synthetic set under a privacy budget."""
    stated = {k: v for k, v in (("epsilon", epsilon), ("delta", delta), ("adjacency", adjacency)) if v is not None}
    _refuse_contradictions(context.params, stated)
    check_method(method)
    protects = _protected(unit_column, rows_per_unit, schema, from_ is None and not non_private)
    from dpdistill.cli.plan import say_caution
    from dpdistill.run.handover import output_folder, owner_folder

    settings, row, published = set_ or (), *_published(recipe)
    budget = _budget(row, stated, protects)
    if row and (row.epsilon, row.delta) != (budget.epsilon, budget.delta) and row.epsilon is not None:
        published = None  # what a paper's recipe is called states its budget
    named = row.method if row else method or ("dos-kip" if schema is None else "dp-merf")
    path, replaces = output_folder(to, overwrite)
    say_caution(None if non_private else budget)
    # What is wrong with the records is said before JAX is imported, unless a recipe or a ledger is to be checked first.
    reads_first = data is not None and not (settings or per_class is not None or ledger or cap or public or recipe)
    reads_first &= non_private or named not in WITHOUT_PRIVACY
    how = (data, schema, classes, bounds, resize, channels, not lenient)
    which = {"sql": sql, "labels": labels, "unit": protects.get("unit")}
    records = read_records(*how, **which) if reads_first else None
    fields = {"per_class": per_class, "auxiliary": public_images(public, resize, channels)}
    if from_ is not None:
        result = _finish_again(from_, method, settings, fields, stated)
    else:
        paid: dict[str, Any] = {"ledger": ledger, "cap": cap, "seed": seed or 0, "named": published}
        paid |= {"run_dir": owner_folder(path), "overwrite": overwrite}
        distiller = _checked_recipe(named, settings, row, fields, None if non_private else budget, paid)
        records = read_records(*how, **which) if records is None else records
        _say_outlook(distiller, None if non_private else budget, records.schema, class_size, seed or 0, plan)
        if plan:
            return
        result = _run(records, distiller, None if non_private else budget, path.name, paid)
    with working("writing the certificate and the report"):
        result.save(path, replaces)
    _say_result(path, result)


def _refuse_contradictions(given: dict[str, Any], stated: dict[str, Any]) -> None:
    """Refuse options of `distill` that exclude each other, given all of them and what is stated of the budget."""
    pictured = any(given[name] for name in ("classes", "bounds", "resize", "channels", "labels"))
    again, ledger, non_private = given["from_"] is not None, given["ledger"], given["non_private"]
    drawn = given["seed"] is not None or ledger or non_private
    for wrong, sentence in (
        ((given["data"] is None) != again, "Expected either DATA or --from DIR.run: one of the two."),
        (given["cap"] is not None and ledger is None, "Expected --ledger FILE with --cap."),
        (
            given["public"] and given["data"] and _place(given["public"]) == _place(given["data"]),
            "The images of --public are the private ones of DATA: name others, or leave it out.",
        ),
        (
            non_private and stated,
            "With --non-private there is no budget: leave --epsilon, --delta and --adjacency out.",
        ),
        (non_private and ledger, "A run without a privacy guarantee cannot join a ledger: its epsilon is infinite."),
        (
            again and (given["plan"] or given["class_size"]),
            "With --from nothing is paid: leave --plan and --class-size out.",
        ),
        (
            given["recipe"] and (given["method"] or again),
            "A recipe states its method, and a run its recipe: leave --method and --from out with --recipe.",
        ),
        (again and drawn, "With --from nothing is drawn or paid: leave --seed, --ledger and --non-private out."),
        (
            again and (pictured or given["schema"] or given["sql"] or given["lenient"]),
            "With --from no record is read: leave out how they are read.",
        ),
        (
            given["schema"] and pictured,
            "With --schema leave --classes, --bounds, --resize, --channels and --labels out: it states all.",
        ),
    ):
        if wrong:
            raise DataError(sentence)


def _place(source: str) -> Path:
    """Where a source is, as the part of it that is distilled: "set.npz:train" is "set.npz"."""
    return Path(source if source.startswith("digits:") else source.removesuffix(":train")).resolve()


def _protected(column: str | None, rows: int | None, schema: str | None, anew: bool) -> dict[str, Any]:
    """The budget's unit and rows_per_unit, as stated here or in schema.yaml; nothing for single records.

    Without a new guarantee, one of both is an error, and what schema.yaml states does not count.
    """
    if not anew:
        if column is not None or rows is not None:
            raise DataError("With --from or --non-private leave --unit-column and --rows-per-unit out.")
        return {}
    if schema is not None and column is None:
        from dpdistill.data.tables.schema_file import read_reviewed

        column = read_reviewed(schema).unit_column
        if column is not None and rows is None:
            raise DataError(f"{schema} states unit_column {column!r:.80}: state --rows-per-unit as well.")
    if (column is None) != (rows is None):
        raise DataError("Expected --unit-column and --rows-per-unit together.")
    return {} if column is None else {"unit": column, "rows_per_unit": rows}


def _finish_again(
    run_dir: str, method: str | None, settings: list[str] | tuple, fields: dict[str, Any], stated: dict[str, Any]
) -> Any:
    """Another result from the releases of a run; what is stated of its budget must be so."""
    from dpdistill import run
    from dpdistill.cli.recipes import build_again
    from dpdistill.ledger.run import RunLedger

    recipe = build_again(run_dir, method, settings, **fields)
    paid = replace(RunLedger.read(Path(run_dir)).schedule.budget, **stated) if stated else None
    with Bar() as bar:
        return run.finish_again(run_dir, recipe, budget=paid, progress=bar)


def _checked_recipe(
    name: str, settings: list[str] | tuple, row: Any, fields: dict[str, Any], budget: Any, paid: dict[str, Any]
) -> Any:
    """The method, that it can be run under the budget, and that a ledger takes it."""
    from dpdistill import run
    from dpdistill.cli.recipes import build

    recipe = build(name, settings, row.fields if row else {}, **fields)
    if budget is not None:
        run.check_private(recipe)
        run.check_ledger(recipe, budget, **paid)
    return recipe


def _run(records: Any, recipe: Any, budget: Any, label: str, paid: dict) -> Any:
    from dpdistill import run

    ledger = paid["ledger"]
    if ledger is not None and not Path(ledger).exists():
        note(f"{ledger} is a new ledger: this is the first run in it.")
    with Bar() as bar:
        if budget is None:
            return run.distill_without_privacy(records, recipe, seed=paid["seed"], named=paid["named"], progress=bar)
        return run.distill(records, recipe, budget, label=label, progress=bar, **paid)


def _published(recipe: str | None) -> tuple[Any, str | None]:
    """The row of a published recipe, and its name where it is one of the package's; (None, None) without any."""
    if recipe is None:
        return None, None
    from dpdistill.cli.recipes import recipe_at

    return recipe_at(recipe)


def _budget(row: Any, stated: dict[str, Any], protects: dict[str, Any]) -> Any:
    """The budget: what is stated goes before the published recipe's."""
    from dpdistill.accounting.schedule import Budget

    of_row = {} if row is None or row.epsilon is None else {"epsilon": row.epsilon, "delta": row.delta}
    return Budget(**{"epsilon": 1.0, **of_row, **stated, **protects})


def _say_outlook(recipe: Any, budget: Any, schema: Any, class_size: int | None, seed: int, asked: bool) -> None:
    """What is public about the run, before anything is paid; sizes that cannot be are refused."""
    from dpdistill.cli.plan import say_outlook
    from dpdistill.run.outlook import check_size, outlook
    from dpdistill.run.recipe import check_kind

    check_kind(recipe, schema)
    check_size(recipe, schema)
    if budget is not None:
        say_outlook(outlook(recipe, budget, schema, class_size, seed), say if asked else note)
    elif asked:
        say("Plan: no noise and no budget, so that nothing is paid: epsilon is infinite.")


def _say_result(path: Path, result: Any) -> None:
    give(folder=str(path), epsilon=None if result.schedule is None else result.schedule.budget.epsilon)
    if result.schedule is None:
        say(f"{path}: no privacy guarantee, epsilon is infinite.")
        return
    b = result.schedule.budget
    give(delta=b.delta, adjacency=b.adjacency, run_folder=str(result.run_dir) if result.run_dir else None)
    say(f"{path}: epsilon = {b.epsilon:.10g} at delta = {b.delta:.10g} ({b.adjacency}).")
    if b.unit is not None:
        _say_unit(result.schedule)
    kept = f"keep {result.run_dir.name} to yourself" if result.run_dir else "its releases had been paid for"
    say(f"{path.name} may be shared; {kept}.")


def _say_unit(schedule: Any) -> None:
    """What is protected, and beside it what the same noise would give by group privacy."""
    from dpdistill.certificate.build import group_privacy

    b, other = schedule.budget, group_privacy(schedule)
    say(
        f"It holds for one {b.unit}, all records together; of each at most {b.rows_per_unit} are used, drawn at random."
    )
    found = "is not computed for this plan" if other is None else f"would be epsilon = {other:.4g}"
    say(f"With this noise for single records, group privacy for {b.rows_per_unit} of them {found}.")
