"""Commands about what there is: report, verify, methods, account, budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from dpdistill.cli.options import Folder
from dpdistill.cli.terminal import FAILED, add_row, epsilon_text, give, say, show_table, table, working
from dpdistill.schema import DataError


def report(folder: Folder) -> None:
    """Write the page of a result, report.html, anew."""
    from dpdistill.report import write_report

    page = write_report(folder)
    give(page=str(page))
    say(str(page))


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


def methods(
    recipes: Annotated[bool, typer.Option("--recipes", help="List recipes by name: own ones and papers'.")] = False,
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
    """Every recipe by its name, and what the package does otherwise than its paper."""
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
    say("dpdistill distill DATA --recipe NAME --out DIR; -ipc10 may be left out. Options beside it override it.")


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
    from dpdistill.cli.outlook import say_caution
    from dpdistill.query import Stage

    if (epsilon is None) == (noise_multiplier is None):
        raise DataError("Expected one of --epsilon and --noise-multiplier.")
    stage = Stage(rounds, sampling_prob)
    if epsilon is not None:
        schedule = calibrate((stage,), Budget(epsilon, delta, adjacency))  # type: ignore[arg-type]
    else:
        assert noise_multiplier is not None
        schedule = Schedule((stage,), (noise_multiplier,), Budget(1.0, delta, adjacency))  # type: ignore[arg-type]
    if epsilon is None and (found := schedule.epsilon()) > 0.0:
        schedule = replace(schedule, budget=replace(schedule.budget, epsilon=found))
    say_caution(schedule.budget)
    epsilons, sigma = schedule.epsilons(), schedule.noise_multipliers[0]
    releases = "1 release" if rounds == 1 else f"{rounds} releases"
    say(f"noise_multiplier = {sigma:.6g} for {releases} at sampling_prob = {sampling_prob:g}, {adjacency}")
    give(noise_multiplier=sigma, rounds=rounds, sampling_prob=sampling_prob, adjacency=adjacency)
    give(epsilons={f"{d:g}": e for d, e in epsilons.items()})
    for d, e in epsilons.items():
        say(f"epsilon = {epsilon_text(e)} at delta = {d:g}", mark="  ")


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
    say(f"Spent together: epsilon = {epsilon_text(summary.spent)}{delta}")
    left = epsilon_text(summary.left)
    say(f"Cap: epsilon = {summary.cap:g}; one more full-batch run of epsilon = {left} still fits.")
