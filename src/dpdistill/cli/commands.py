"""Commands: distil, report, verify, account."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dpdistill.cli.options import MAX_SEED, SOURCES, Folder
from dpdistill.cli.terminal import Bar, add_row, err, out, plain, run_app, say, table, working
from dpdistill.schema import DataError

app = typer.Typer(
    help="Distil a private labelled data set into a tiny synthetic one that may be shared.",
    epilog="Try: dpdistill distill digits:train --out demo",
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.", is_eager=True)] = False,
) -> None:
    from dpdistill import __version__

    if version:
        say(f"dpdistill {__version__}")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def distill(
    data: Annotated[str | None, typer.Argument(metavar="DATA", help=SOURCES)] = None,
    *,
    to: Annotated[str, typer.Option("--out", help="Folder for the result; it may be shared.")],
    method: Annotated[
        str | None, typer.Option(help="See `dpdistill methods`; dos-kip if left out, dp-merf for tables.")
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
    schema: Annotated[str | None, typer.Option(help="The schema.yaml of a table; DATA is CSV or Parquet.")] = None,
    classes: Annotated[str | None, typer.Option(help="Number of classes, or names: 10 or cat,dog.")] = None,
    bounds: Annotated[str | None, typer.Option(help="Lowest and highest raw value: 0,255.")] = None,
    resize: Annotated[str | None, typer.Option(help="Side of the square that images are resized to.")] = None,
    channels: Annotated[int | None, typer.Option(help="1 (grey) or 3 (colour), for class folders of images.")] = None,
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
) -> None:
    """Distil private records into a tiny synthetic set under a privacy budget."""
    from dpdistill import run
    from dpdistill.accounting.schedule import Budget
    from dpdistill.cli.recipes import build, build_again
    from dpdistill.run.handover import output_folder, owner_folder

    stated = {k: v for k, v in (("epsilon", epsilon), ("delta", delta), ("adjacency", adjacency)) if v is not None}
    if (data is None) == (from_ is None):
        raise DataError("Expected either DATA or --from DIR.run: one of the two.")
    if cap is not None and ledger is None:
        raise DataError("Expected --ledger FILE with --cap.")
    if non_private and stated:
        raise DataError("With --non-private there is no budget: leave --epsilon, --delta and --adjacency out.")
    if non_private and ledger is not None:
        raise DataError("A run without a privacy guarantee cannot join a ledger: its epsilon is infinite.")
    if from_ is not None and (seed is not None or ledger is not None or non_private):
        raise DataError("With --from nothing is drawn or paid: leave --seed, --ledger and --non-private out.")
    pictured = any((classes, bounds, resize, channels))
    if from_ is not None and (pictured or schema or lenient):
        raise DataError("With --from no record is read: leave out how they are read.")
    if schema is not None and pictured:
        raise DataError("With --schema leave --classes, --bounds, --resize and --channels out: it states all.")
    protects = _protected(unit_column, rows_per_unit, schema, from_ is None and not non_private)
    settings, budget = set_ or (), Budget(**{"epsilon": 1.0, **stated, **protects})
    if from_ is not None:
        recipe = build_again(from_, method, settings, per_class=per_class)
    else:
        recipe = build(method or ("dos-kip" if schema is None else "dp-merf"), settings, per_class=per_class)
    path, replace = output_folder(to, overwrite)
    _caution(None if non_private else budget)
    if data is None:
        assert from_ is not None
        with Bar() as bar:
            result = run.finish_again(from_, recipe, budget=budget if stated else None, progress=bar)
    else:
        paid: dict[str, Any] = {"ledger": ledger, "cap": cap, "seed": seed or 0}
        paid |= {"run_dir": owner_folder(path), "overwrite": overwrite}
        if not non_private:
            run.check_private(recipe)
            run.check_ledger(recipe, budget, **paid)
        records = read_records(data, schema, classes, bounds, resize, channels, not lenient, unit=protects.get("unit"))
        if ledger is not None and not Path(ledger).exists():
            err.print(plain(f"{ledger} is a new ledger: this is the first run in it."), markup=False)
        with Bar() as bar:
            if non_private:
                result = run.distill_without_privacy(records, recipe, seed=seed or 0, progress=bar)
            else:
                result = run.distill(records, recipe, budget, label=path.name, progress=bar, **paid)
    with working("writing the certificate and the report"):
        result.save(path, replace)
    _say_result(path, result)


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


def read_records(data: str, schema: str | None, *stated: Any, unit: str | None = None) -> Any:
    """The records, a table's where there is a schema, with a note on whatever the owner should know of them."""
    with working("reading the records"):
        if schema is None:
            from dpdistill.data import load

            records = load(data, "train", *stated, unit=unit)
        else:
            from dpdistill.data.tables.load import load_table
            from dpdistill.data.tables.schema_file import read_reviewed, with_units, without_units

            table_file = read_reviewed(schema)
            table_file = without_units(table_file) if unit is None else with_units(table_file, unit)
            records = load_table(data, table_file, strict=stated[-1])
    for note in records.notes:
        err.print(plain(note), markup=False)
    return records


def _say_result(path: Path, result: Any) -> None:
    if result.schedule is None:
        say(f"{path}: no privacy guarantee, epsilon is infinite.")
        return
    b = result.schedule.budget
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
    """What a large delta means is said before it is spent."""
    if budget is not None and budget.caution is not None:
        err.print(plain(budget.caution), markup=False)


@app.command()
def report(folder: Folder) -> None:
    """Write the page of a result, report.html, anew."""
    from dpdistill.report import write_report

    say(str(write_report(folder)))


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
        out.print(f"{mark:5}", style=style, end="", markup=False)
        say(f"{item.name}: {item.detail}")
    if not result.passed:
        raise typer.Exit(1)


@app.command()
def methods() -> None:
    """List the methods and their recipe fields."""
    from dpdistill.methods import METHODS
    from dpdistill.recipes import KERNELS, fields_of, shown

    for name, method in METHODS.items():
        title = f"{name}: {method.title.partition(': ')[2]}"
        listed = table("field", "default", "allowed", "use again", "meaning", title=title)
        for field in sorted(fields_of(name).values(), key=lambda field: field.metadata["finish"]):
            free = "free" if field.metadata["finish"] else "paid" if method.private else ""
            default, allowed = shown(field.default) or "none", str(field.metadata["allowed"])
            add_row(listed, field.name, default, allowed, free, field.metadata["help"])
        out.print(listed, soft_wrap=False)
        say("")
    say(f"Kernels: {', '.join(KERNELS)}.")
    say('"free" fields may change with --from: the releases of a finished run are used again at no cost.')


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
    _caution(schedule.budget)
    epsilons, sigma = schedule.epsilons(), schedule.noise_multipliers[0]
    releases = "1 release" if rounds == 1 else f"{rounds} releases"
    say(f"noise_multiplier = {sigma:.6g} for {releases} at sampling_prob = {sampling_prob:g}, {adjacency}")
    for d, e in epsilons.items():
        out.print(f"  epsilon = {e:.4f} at delta = {d:g}")


@app.command()
def budget(file: Annotated[str, typer.Argument(metavar="FILE", help="A data set's ledger.")]) -> None:
    """What the runs in a ledger have spent together, and what is left."""
    from dpdistill.ledger.dataset import DatasetLedger

    summary = DatasetLedger(file).summary()
    listed = table("run", "date", "epsilon", "delta")
    for run in summary.runs:
        terms = run.schedule.budget
        add_row(listed, run.label, run.date, f"{terms.epsilon:.6g}", f"{terms.delta:g}")
    out.print(listed, soft_wrap=False)
    delta = "" if summary.delta is None else f" at delta = {summary.delta:g} ({summary.adjacency})"
    say(f"Spent together: epsilon = {summary.spent:.4f}{delta}")
    say(f"Cap: epsilon = {summary.cap:g}; one more full-batch run of epsilon = {summary.left:.4f} still fits.")


def main() -> None:
    """Entry point."""
    sys.exit(run_app(app))


if __name__ == "__main__":
    main()
