"""The command that distils: its options, and what is said of the result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dpdistill.cli.asked import asked_of, prepared, workers_of
from dpdistill.cli.options import (
    MAX_SEED,
    SOURCES,
    SQL,
    Bounds,
    Cap,
    Channels,
    Classes,
    Labels,
    Ledger,
    Resize,
    Straighten,
)
from dpdistill.cli.reading import public_images
from dpdistill.cli.settings import check_settings
from dpdistill.cli.terminal import Bar, give, note, say, working
from dpdistill.run import payment
from dpdistill.schema import DataError, name_unit


def distill(
    context: typer.Context,
    data: Annotated[str | None, typer.Argument(metavar="DATA", help=SOURCES)] = None,
    *,
    to: Annotated[str, typer.Option("--out", help="Folder for the result; it may be shared.")],
    method: Annotated[
        str | None, typer.Option(help="See `dpdistill methods`; dos-kip if left out, dp-merf for tables.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="One by name, see `dpdistill methods --recipes`, or a .yaml file.")
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
    classes: Classes = None,
    bounds: Bounds = None,
    resize: Resize = None,
    channels: Channels = None,
    straighten: Straighten = False,
    labels: Labels = None,
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
        int | None, typer.Option(help="Most records of a person that are used, drawn at random; 4 if left out.")
    ] = None,
    lenient: Annotated[bool, typer.Option("--lenient/--strict", help="Let bad records contribute nothing.")] = False,
    memory: Annotated[
        str | None,
        typer.Option(help="What the records may take: 512M, 4G; half of all if left out. The rest is on the disk."),
    ] = None,
    ledger: Ledger = None,
    cap: Cap = None,
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
    workers: Annotated[
        int | None, typer.Option(min=1, metavar="<int>", help="Share the sums out to so many processes, a core each.")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster whose machines hold the --workers; `local` starts one.")
    ] = None,
    share: Annotated[
        str | None,
        typer.Option(help="Folder or address (s3://...) that all workers see: the records lie there for the run."),
    ] = None,
) -> None:
    """Distil private records into a tiny synthetic set under a privacy budget."""
    asked = asked_of(context.params)
    from dpdistill.run.output_folder import output_folder, owner_folder

    path, replaces = output_folder(to, overwrite)
    asked.caution()
    if from_ is not None:
        _check_owners(from_)
        images = public_images(public, resize, channels, public is not None and _straightened(from_))
        fields = {"per_class": per_class, "auxiliary": images}
        result = _finish_again(from_, method, set_ or (), fields, asked.stated)
    else:
        paid = asked.paid(context.params, owner_folder(path))
        if asked.budget is not None:
            payment.expect(payment.Payment(asked.budget, paid["run_dir"], None if ledger is None else Path(ledger)))
        distiller, records = prepared(context.params, asked, paid)
        asked.say_outlook(distiller, records.schema, class_size, paid["seed"], note)
        result = _run(records, distiller, asked.budget, path.name, paid, workers_of(context.params), memory)
    with working("writing the certificate and the report"):
        result.save(path, replaces)
    _say_result(path, result)


def _check_owners(run_dir: str) -> None:
    """Refuse the folder that may be shared: the releases lie beside it."""
    from dpdistill.folder.layout import CERTIFICATE

    if (Path(run_dir) / CERTIFICATE).is_file():
        raise DataError(f"{run_dir} is a folder that may be shared: --from takes its owner's folder, {run_dir}.run.")


def _straightened(run_dir: str) -> bool:
    """Whether the records of a run were straightened."""
    from dpdistill.ledger.run import RunLedger

    return RunLedger.read(run_dir).recipe["schema"].get("straightened", False)


def _finish_again(
    run_dir: str, method: str | None, settings: list[str] | tuple, fields: dict[str, Any], stated: dict[str, Any]
) -> Any:
    """Another result from the releases of a run; what is stated of its budget must be so."""
    from dpdistill.ledger.run import RunLedger

    check_settings(method or RunLedger.read(run_dir).recipe["method"], settings, fields["per_class"])
    from dpdistill import run
    from dpdistill.cli.recipes import build_again

    recipe = build_again(run_dir, method, settings, **fields)
    paid = replace(RunLedger.read(Path(run_dir)).schedule.budget, **stated) if stated else None
    with Bar() as bar:
        return run.finish_again(run_dir, recipe, budget=paid, progress=bar)


def _run(records: Any, recipe: Any, budget: Any, label: str, paid: dict, workers: Any, memory: str | None) -> Any:
    from dpdistill import run

    with Bar() as bar:
        if budget is None:
            return run.distill_without_privacy(records, recipe, seed=paid["seed"], named=paid["named"], progress=bar)
        return run.distill(records, recipe, budget, label=label, progress=bar, workers=workers, memory=memory, **paid)


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
    from dpdistill.publish.report.words import bound

    b, other = schedule.budget, group_privacy(schedule)
    whose = f"one {name_unit(b.unit)}, all records together"
    say(f"It holds for {whose}; of each at most {b.rows_per_unit} are used, drawn at random.")
    found = "is not computed for this plan" if other is None else f"would be epsilon = {bound(other)}"
    say(f"With this noise for single records, group privacy for {b.rows_per_unit} of them {found}.")
