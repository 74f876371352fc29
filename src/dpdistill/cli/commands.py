"""Commands: distil, report, verify, account."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import typer

from dpdistill.cli.common import versions, with_common_options
from dpdistill.cli.options import LABELS, MAX_SEED, SOURCES, SQL, WITHOUT_PRIVACY, Folder, check_method, table_source
from dpdistill.cli.terminal import (
    FAILED,
    Bar,
    add_row,
    give,
    note,
    run_app,
    say,
    show_table,
    table,
    warn,
    working,
)
from dpdistill.schema import DataError

app = typer.Typer(
    help="Distil a private labelled data set into a tiny synthetic one that may be shared.",
    epilog="Try: dpdistill demo",
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the versions that matter.")] = False,
) -> None:
    if version:
        found = versions()
        give(**found)
        say(f"dpdistill {found['dpdistill']}")
        say(", ".join(f"{name} {number or 'not installed'}" for name, number in [*found.items()][1:]))
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
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
    from dpdistill.run.handover import output_folder, owner_folder

    settings, row, published = set_ or (), *_published(recipe)
    budget = _budget(row, stated, protects)
    if row and (row.epsilon, row.delta) != (budget.epsilon, budget.delta) and row.epsilon is not None:
        published = None  # what a paper's recipe is called states its budget
    named = row.method if row else method or ("dos-kip" if schema is None else "dp-merf")
    path, replaces = output_folder(to, overwrite)
    _caution(None if non_private else budget)
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


def public_images(data: str | None, resize: str | None, channels: int | None) -> Any:
    """Images that the caller says are public; None without any."""
    if data is None:
        return None
    from dpdistill.data import load
    from dpdistill.encode.auxiliary import PublicImages

    with working("reading the public images"):
        records = load(data, resize=resize, channels=channels, strict=False)
        return PublicImages.of(X[:valid] for X, _, valid in records.chunks(None, 1000))


def _refuse_contradictions(given: dict[str, Any], stated: dict[str, Any]) -> None:
    """Refuse options of `distill` that exclude each other, given all of them and what is stated of the budget."""
    pictured = any(given[name] for name in ("classes", "bounds", "resize", "channels", "labels"))
    again, ledger, non_private = given["from_"] is not None, given["ledger"], given["non_private"]
    drawn = given["seed"] is not None or ledger or non_private
    for wrong, sentence in (
        ((given["data"] is None) != again, "Expected either DATA or --from DIR.run: one of the two."),
        (given["cap"] is not None and ledger is None, "Expected --ledger FILE with --cap."),
        (
            given["public"] and given["data"] and Path(given["public"]).resolve() == Path(given["data"]).resolve(),
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


def read_records(
    data: Any,
    schema: str | None,
    *stated: Any,
    sql: str | None = None,
    labels: str | None = None,
    unit: str | None = None,
) -> Any:
    """The records, a table's where there is a schema, with a note on whatever the owner should know of them."""
    if sql is not None and schema is None:
        raise DataError("Expected --schema SCHEMA with --sql: the rows of a query are a table.")
    with working("reading the records"):
        if schema is None:
            from dpdistill.data import load

            records = load(data, "train", *stated, labels=labels, unit=unit)
        else:
            from dpdistill.data.tables.load import load_table
            from dpdistill.data.tables.schema_file import read_reviewed, with_units, without_units

            table_file = read_reviewed(schema)
            table_file = without_units(table_file) if unit is None else with_units(table_file, unit)
            records = load_table(table_source(data, sql), table_file, strict=stated[-1])
    for each in records.notes:
        note(each)
    return records


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


def _caution(budget: Any) -> None:
    """What a large delta or epsilon means is said before it is spent."""
    from dpdistill.cli.plan import say_large_epsilon

    if budget is not None and budget.caution is not None:
        warn(budget.caution)
    if budget is not None:
        say_large_epsilon(budget)


@app.command()
def report(folder: Folder) -> None:
    """Write the page of a result, report.html, anew."""
    from dpdistill.report import write_report

    page = write_report(folder)
    give(page=str(page))
    say(str(page))


@app.command()
def verify(
    folder: Folder,
    run: Annotated[str | None, typer.Option(help="The owner's folder of the run; DIR.run if it is there.")] = None,
) -> None:
    """Re-check a shared folder: every file, the recipe, arithmetic, plan and ledger. Exit code 1 if a check fails."""
    from dpdistill import verification

    with working("checking"):
        result = verification.verify(folder, run)
    for item in result.checks:
        mark, style = {True: ("ok", "green"), False: ("FAIL", "bold red"), None: ("", None)}[item.passed]
        say(f"{item.name}: {item.detail}", mark=f"{mark:5}", style=style)
    checks = [{"name": item.name, "passed": item.passed, "detail": item.detail} for item in result.checks]
    give(passed=bool(result.passed), checks=checks)
    if not result.passed:
        raise typer.Exit(FAILED)


@app.command()
def methods(
    recipes: Annotated[bool, typer.Option("--recipes", help="List the recipes of papers in their place.")] = False,
) -> None:
    """List the methods and their recipe fields."""
    if recipes:
        _list_recipes()
        return
    from dpdistill.methods import METHODS
    from dpdistill.recipes import KERNELS, fields_of, shown

    for name, method in METHODS.items():
        title = f"{name}: {method.title.partition(': ')[2]}"
        listed = table("field", "default", "allowed", "use again", "meaning", title=title)
        for field in sorted(fields_of(name).values(), key=lambda field: field.metadata["finish"]):
            free = "free" if field.metadata["finish"] else "paid" if method.private else ""
            default, allowed = shown(field.default) or "none", str(field.metadata["allowed"])
            add_row(listed, field.name, default, allowed, free, field.metadata["help"])
        show_table(listed)
        say("")
    give(methods=_fields_listed(), kernels=[*KERNELS])
    say(f"Kernels: {', '.join(KERNELS)}.")
    say('"free" fields may change with --from: the releases of a finished run are used again at no cost.')


def _fields_listed() -> dict[str, Any]:
    """Every method's fields as --json has them."""
    from dpdistill.methods import METHODS
    from dpdistill.recipes import fields_of, shown

    return {
        name: {
            "title": method.title,
            "private": method.private,
            "fields": {
                field.name: {
                    "default": shown(field.default),
                    "allowed": str(field.metadata["allowed"]),
                    "free": bool(field.metadata["finish"]),
                    "meaning": field.metadata["help"],
                }
                for field in fields_of(name).values()
            },
        }
        for name, method in METHODS.items()
    }


def _list_recipes() -> None:
    """Every published recipe by its name, and what the package does otherwise than its paper."""
    from dpdistill.published import all_published, notes

    papers: dict[str, Any] = {}
    for row in all_published().values():
        papers.setdefault(row.paper, []).append(row)
    for paper, rows in papers.items():
        listed = table("recipe", "method", "epsilon", "source", title=paper)
        for row in rows:
            epsilon = "none" if row.epsilon is None else f"{row.epsilon:g}"
            add_row(listed, row.name, row.method, epsilon, row.where)
        show_table(listed)
        for each in notes().get(paper, ()):
            say(each)
        say("")
    give(
        recipes={
            row.name: {"method": row.method, "source": f"{row.paper}, {row.where}"} for row in all_published().values()
        }
    )
    say("dpdistill distill DATA --recipe NAME --out DIR; -ipc10 may be left out. What is stated beside it goes before.")


@app.command()
def account(
    epsilon: Annotated[float | None, typer.Option(help="Find the noise for this budget.")] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="Find the epsilon of this noise.")] = None,
    rounds: Annotated[int, typer.Option(help="Releases.")] = 1,
    sampling_prob: Annotated[float, typer.Option(help="Poisson sampling probability.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Of the budget.")] = 1e-5,
    adjacency: Annotated[str, typer.Option(help="add-remove or replace-one.")] = "add-remove",
) -> None:
    """What a noise multiplier costs, or what noise a budget needs."""
    from dpdistill.accounting.schedule import Budget, Schedule, calibrate
    from dpdistill.query import Stage

    if (epsilon is None) == (noise_multiplier is None):
        raise DataError("Expected one of --epsilon and --noise-multiplier.")
    stage = Stage(rounds, sampling_prob)
    if epsilon is not None:
        schedule = calibrate((stage,), Budget(epsilon, delta, adjacency))  # type: ignore[arg-type]
    else:
        assert noise_multiplier is not None
        schedule = Schedule((stage,), (noise_multiplier,), Budget(1.0, delta, adjacency))  # type: ignore[arg-type]
    if epsilon is None:
        schedule = replace(schedule, budget=replace(schedule.budget, epsilon=schedule.epsilon()))
    _caution(schedule.budget)
    epsilons, sigma = schedule.epsilons(), schedule.noise_multipliers[0]
    releases = "1 release" if rounds == 1 else f"{rounds} releases"
    say(f"noise_multiplier = {sigma:.6g} for {releases} at sampling_prob = {sampling_prob:g}, {adjacency}")
    give(noise_multiplier=sigma, rounds=rounds, sampling_prob=sampling_prob, adjacency=adjacency)
    give(epsilons={f"{d:g}": e for d, e in epsilons.items()})
    for d, e in epsilons.items():
        say(f"epsilon = {e:.4f} at delta = {d:g}", mark="  ")


@app.command()
def budget(file: Annotated[str, typer.Argument(metavar="FILE", help="A data set's ledger.")]) -> None:
    """What the runs in a ledger have spent together, and what is left."""
    from dpdistill.ledger.dataset import DatasetLedger

    summary = DatasetLedger(file).summary()
    listed = table("run", "date", "epsilon", "delta")
    for run in summary.runs:
        terms = run.schedule.budget
        add_row(listed, run.label, run.date, f"{terms.epsilon:.6g}", f"{terms.delta:g}")
    show_table(listed)
    runs = [{"run": r.label, "date": r.date, **vars(r.schedule.budget)} for r in summary.runs]
    give(runs=runs, spent=summary.spent, delta=summary.delta, adjacency=summary.adjacency)
    give(cap=summary.cap, left=summary.left)
    delta = "" if summary.delta is None else f" at delta = {summary.delta:g} ({summary.adjacency})"
    say(f"Spent together: epsilon = {summary.spent:.4f}{delta}")
    say(f"Cap: epsilon = {summary.cap:g}; one more full-batch run of epsilon = {summary.left:.4f} still fits.")


@lru_cache(maxsize=1)
def _command() -> Any:
    """All commands with the options that they share, made once a process."""
    return with_common_options(typer.main.get_command(app))


def main() -> None:
    """Entry point."""
    sys.exit(run_app(_command()))


if __name__ == "__main__":
    main()
