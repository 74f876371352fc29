"""The command line."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from dpdistill.schema import DataError

app = typer.Typer(
    help="Distil a private labelled data set into a tiny synthetic one that may be shared.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

Data = Annotated[str, typer.Argument(help="IDX or CIFAR folder or file, .npz, class folders, or digits:train.")]
Folder = Annotated[str, typer.Argument(help="A folder that distill wrote.")]
ClassesOption = Annotated[str | None, typer.Option(help="Number of classes, or names: 10 or cat,dog.")]
BoundsOption = Annotated[str | None, typer.Option(help="Lowest and highest raw value: 0,255.")]
ResizeOption = Annotated[str | None, typer.Option(help="Side of the square that images are resized to.")]
ChannelsOption = Annotated[int | None, typer.Option(help="1 (grey) or 3 (colour), for class folders of images.")]
LenientOption = Annotated[bool, typer.Option("--lenient/--strict", help="Let bad records contribute nothing.")]


class _Bar:
    """Progress on the owner's terminal, with time left: rounds and steps of public loops, never records."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(
            *columns, TextColumn("left"), TimeRemainingColumn(), console=err, disable=not err.is_terminal
        )
        self._tasks: dict[str, Any] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(stage, total=total)
            if not err.is_terminal:
                err.print(f"{stage}: {total}")
        self._bar.update(self._tasks[stage], completed=done, total=total)

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


@app.command()
def distill(
    data: Annotated[
        str | None, typer.Argument(help="IDX or CIFAR folder or file, .npz, class folders, digits:train.")
    ] = None,
    to: Annotated[str, typer.Option("--out", help="Folder for the result; it may be shared.")] = "",
    method: Annotated[str, typer.Option(help="See `dpdistill methods`.")] = "dos",
    per_class: Annotated[int | None, typer.Option(help="Synthetic records a class. [default: 10]")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget. [default: 1]")] = None,
    delta: Annotated[float | None, typer.Option(help="Privacy budget. [default: 1e-5]")] = None,
    adjacency: Annotated[str | None, typer.Option(help="add-remove or replace-one. [default: add-remove]")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Fixes everything public; noise never follows it. [default: 0]")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A recipe field: field=value.")] = None,
    classes: ClassesOption = None,
    bounds: BoundsOption = None,
    resize: ResizeOption = None,
    channels: ChannelsOption = None,
    lenient: LenientOption = False,
    ledger: Annotated[str | None, typer.Option(help="File that adds up all runs on this data set.")] = None,
    cap: Annotated[float | None, typer.Option(help="Epsilon that all runs in --ledger may spend together.")] = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="DIR.run of a finished run: use its releases again, free.")
    ] = None,
    non_private: Annotated[bool, typer.Option(help="No noise and no guarantee: epsilon is infinite.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier result, and pay for a new run.")] = False,
) -> None:
    """Distil private records into a tiny synthetic set under a privacy budget."""
    from dpdistill import run
    from dpdistill.data import check_output, load
    from dpdistill.private.accounting import Budget
    from dpdistill.recipes import build

    if not to:
        raise DataError("Expected --out DIR: a folder for the result.")
    if (data is None) == (from_ is None):
        raise DataError("Expected either DATA or --from DIR.run: one of the two.")
    if cap is not None and ledger is None:
        raise DataError("Expected --ledger FILE with --cap.")
    recipe = build(method, set_ or (), per_class=per_class)
    stated = {k: v for k, v in (("epsilon", epsilon), ("delta", delta), ("adjacency", adjacency)) if v is not None}
    budget = Budget(**{"epsilon": 1.0, **stated})
    path = check_output(to, overwrite)
    run_dir = path.with_name(path.name + ".run")
    with _Bar() as bar:
        if from_ is not None:
            if seed is not None or ledger is not None or non_private:
                raise DataError(
                    "With --from nothing is drawn and nothing is paid: leave --seed, --ledger and --non-private out."
                )
            result = run.finish_again(from_, recipe, budget=budget if stated else None, progress=bar)
        else:
            assert data is not None
            if ledger is not None and not non_private:
                run.check_cap(recipe, budget, ledger, cap, run_dir)
            records = load(data, "train", classes, bounds, resize, channels, not lenient)
            for note in records.notes:
                err.print(note, markup=False)
            if non_private:
                if stated:
                    raise DataError(
                        "With --non-private there is no budget: leave --epsilon, --delta and --adjacency out."
                    )
                result = run.distill_without_privacy(records, recipe, seed=seed or 0, progress=bar)
            else:
                result = run.distill(
                    records, recipe, budget, seed=seed or 0, run_dir=run_dir, ledger=ledger, cap=cap,
                    label=path.name, overwrite=overwrite, progress=bar,
                )  # fmt: skip
    saved = result.save(path, overwrite)
    if result.schedule is None:
        out.print(f"{saved}: no privacy guarantee, epsilon is infinite.", markup=False)
    else:
        b = result.schedule.budget
        out.print(f"{saved}: epsilon = {result.epsilon:.4g} at delta = {b.delta:g} ({b.adjacency}).", markup=False)
        out.print(f"Share {saved.name}; keep {saved.name}.run to yourself.", markup=False)


@app.command()
def evaluate(
    folder: Folder,
    test: Annotated[str, typer.Option(help="Held-out records.")],
    nets: Annotated[int, typer.Option(help="Independent nets.")] = 3,
    training: Annotated[str, typer.Option(help="quick, or paper (a thousand epochs).")] = "quick",
    flip: Annotated[bool, typer.Option(help="Mirror images while training: for photographs.")] = False,
    seed: Annotated[int, typer.Option(help="Of the nets.")] = 0,
    include_scores: Annotated[
        bool, typer.Option(help="Add the scores to DIR and its report: not covered by epsilon.")
    ] = False,
) -> None:
    """Train ConvNets on the synthetic records and score them on a test set."""
    from dpdistill.data import load, read_distilled
    from dpdistill.data.save import write_atomically
    from dpdistill.evaluate import TRAININGS, score_convnet
    from dpdistill.report import write_report

    if training not in TRAININGS:
        raise DataError(f"Unknown training {training!r}: choose among {', '.join(TRAININGS)}.")
    X, y, schema, expanded = read_distilled(folder)
    records = load(test, "test", schema.classes, schema.bounds, channels=None)
    if expanded is not None:
        X, y = expanded
    with _Bar() as bar:
        score = score_convnet(
            X, y, schema, records, nets=nets, training=TRAININGS[training], flip=flip, seed=seed, progress=bar
        )
    out.print(
        f"ConvNet accuracy: {score.mean:.2f} ± {score.std:.2f} % (mean ± std over {nets} nets, {training} training)"
    )
    if include_scores:
        content = {"ConvNet accuracy, %": {"mean": score.mean, "std": score.std}, "nets": nets, "training": training}
        text = json.dumps(content, indent=2) + "\n"
        write_atomically(Path(folder) / "scores.json", lambda file: file.write(text.encode()))
        write_report(folder)


@app.command()
def report(folder: Folder) -> None:
    """Write report.html anew."""
    from dpdistill.report import write_report

    out.print(str(write_report(folder)), markup=False)


@app.command()
def verify(
    folder: Folder,
    run: Annotated[str | None, typer.Option(help="The owner's folder of the run. [default: DIR.run if there]")] = None,
) -> None:
    """Re-check a certificate: arithmetic, plan, ledger and files. Exit code 1 if a check fails."""
    from dpdistill.private.verify import verify as check

    plan = _plan_of(folder)
    result = check(folder, plan, run)
    for item in result.checks:
        mark = {True: "[green]ok  [/green]", False: "[red]FAIL[/red]", None: "    "}[item.passed]
        out.print(mark, end=" ")
        out.print(f"{item.name}: {item.detail}", markup=False)
    if not result.passed:
        raise typer.Exit(1)


def _plan_of(folder: str) -> Any:
    """The plan of the certificate's recipe, from the method itself; None if there is no such recipe."""
    from dpdistill.private.certificate import CertificateError, read_certificate
    from dpdistill.recipes import from_fields

    try:
        recipe = read_certificate(folder)["recipe"]
        return from_fields(recipe["method"], recipe["fields"]).plan()
    except (CertificateError, DataError, KeyError, TypeError, AttributeError):
        return None


@app.command()
def methods() -> None:
    """List the methods and their recipe fields."""
    from dpdistill.recipes import METHODS, fields_of

    for name, method in METHODS.items():
        table = Table(
            title=f"{name}: {method.title.partition(': ')[2]}", title_justify="left", box=None, pad_edge=False
        )
        for column in ("field", "default", "use again", "meaning"):
            table.add_column(column, overflow="fold")
        for field in fields_of(name).values():
            free = "free" if field.metadata["finish"] else "paid"
            default = ",".join(field.default) if isinstance(field.default, tuple) else str(field.default)
            table.add_row(field.name, default or "none", free, field.metadata["help"])
        out.print(table)
        out.print()
    out.print('"free" fields may change with --from: the releases of a finished run are used again at no cost.')


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
    from dpdistill.private.accounting import Budget, Schedule, calibrate
    from dpdistill.query import Stage

    if (epsilon is None) == (noise_multiplier is None):
        raise DataError("Expected one of --epsilon and --noise-multiplier.")
    stage = Stage(rounds, sampling_prob)
    if epsilon is not None:
        schedule = calibrate((stage,), Budget(epsilon, delta, adjacency))  # type: ignore[arg-type]
    else:
        assert noise_multiplier is not None
        schedule = Schedule((stage,), (noise_multiplier,), Budget(1.0, delta, adjacency))  # type: ignore[arg-type]
    out.print(
        f"noise_multiplier = {schedule.noise_multipliers[0]:.6g} for {rounds} rounds at q = {sampling_prob:g}, {adjacency}"
    )
    for d, e in schedule.epsilons().items():
        out.print(f"  epsilon = {e:.4f} at delta = {d:g}")


@app.command()
def budget(file: Annotated[str, typer.Argument(help="A data set's ledger.")]) -> None:
    """What the runs in a ledger have spent together, and what is left."""
    from dpdistill.private.ledger import DatasetLedger

    summary = DatasetLedger(file).summary()
    table = Table(box=None, pad_edge=False)
    for column in ("run", "date", "epsilon", "delta"):
        table.add_column(column)
    for run in summary.runs:
        spent = (
            ("infinite", "")
            if run.schedule is None
            else (f"{run.schedule.epsilon():.4g}", f"{run.schedule.budget.delta:g}")
        )
        table.add_row(run.label, run.date, *spent)
    out.print(table)
    spent = "infinite" if math.isinf(summary.spent) else f"{summary.spent:.4f}"
    delta = "" if summary.delta is None else f" at delta = {summary.delta:g} ({summary.adjacency})"
    out.print(f"Spent together: epsilon = {spent}{delta}")
    if summary.cap is not None:
        out.print(
            f"Cap: epsilon = {summary.cap:g}; one more full-batch run of epsilon = {summary.left:.4f} still fits."
        )


def main() -> None:
    """Entry point: errors a person can mend are one sentence and exit code 2."""
    from dpdistill.private.curator import CuratorError

    try:
        code = app(standalone_mode=False)
    except (ValueError, CuratorError) as error:
        message = " ".join(str(error).split())
        err.print(f"Error: {message}", markup=False)
        sys.exit(2)
    except OSError as error:
        err.print(f"Error: {error.strerror or 'input or output failed'}: {error.filename or ''}", markup=False)
        sys.exit(2)
    except KeyboardInterrupt:
        err.print("Stopped; the same command goes on where it stopped.")
        sys.exit(130)
    except Exception as error:
        shown = getattr(error, "format_message", None)
        if shown is None:
            raise
        err.print(f"Error: {shown()}", markup=False)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
