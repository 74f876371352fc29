"""Commands about what there is: report, verify, methods, account, budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from dpdistill.cli.options import Folder, by_default
from dpdistill.cli.terminal import FAILED, NOT_COMPARED, add_row, epsilon_text, give, say, show_table, table, working
from dpdistill.schema import DataError


def report(folder: Folder) -> None:
    """Write the page of a result, report.html, anew."""
    from dpdistill.publish.report import write_report

    page = write_report(folder)
    give(page=str(page))
    say(str(page))


def verify(
    folder: Folder,
    run: Annotated[str | None, typer.Option(help="The owner's folder of the run; DIR.run if it is there.")] = None,
) -> None:
    """Re-check a shared folder: every file, the recipe, arithmetic, plan and ledger.

    The last line and the exit code say the outcome: 0 PASSED, 1 FAILED, 4 GUARANTEE PASSED, DOCUMENTS NOT COMPARED.
    """
    from dpdistill import verification

    with working("checking"):
        result = verification.verify(folder, run)
    for item in result.checks:
        mark, style = {True: ("ok", "green"), False: ("FAIL", "bold red"), None: ("", None)}[item.passed]
        say(f"{item.name}: {item.detail}", mark=f"{mark:5}", style=style)
    checks = [vars(item) for item in result.checks]
    give(outcome=result.outcome, passed=result.passed, checks=checks)
    say(result.outcome, style="bold green" if result.passed else "bold red")
    if not result.passed:
        raise typer.Exit(FAILED if result.outcome == "FAILED" else NOT_COMPARED)


def methods(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One method; all if left out.")] = None,
    recipes: Annotated[bool, typer.Option("--recipes", help="List recipes by name: own ones and papers'.")] = False,
) -> None:
    """List the methods and their recipe fields."""
    from dpdistill.recipe.build import fields_of
    from dpdistill.recipe.kernels import KERNELS
    from dpdistill.recipe.methods import RECIPES

    if recipes and name is not None:
        raise DataError("Expected NAME or --recipes, not both.")
    if recipes:
        _list_recipes()
        return
    if name is not None:
        fields_of(name)  # which refuses an unknown one
    listed = [*RECIPES] if name is None else [name]
    for each in listed:
        _show_fields(each)
    give(methods=_fields_listed(listed), kernels=[*KERNELS])
    if name is None or any(field.name == "kernel" for field in fields_of(name).values()):
        say(f"Kernels: {', '.join(KERNELS)}.")
    say('"free" fields may change with --from: the releases of a finished run are used again at no cost.')


def _show_fields(name: str) -> None:
    """A table of a method's fields: those that shape releases first."""
    from dpdistill.recipe.build import fields_of, shown
    from dpdistill.recipe.methods import RECIPES
    from dpdistill.recipe.rules import rules_of

    method = RECIPES[name]
    listed = table(
        *("field", "default", "allowed", "use again", "meaning"), title=f"{name}: {method.title.partition(': ')[2]}"
    )
    for field in sorted(fields_of(name).values(), key=lambda field: field.metadata["finish"]):
        free = "free" if field.metadata["finish"] else "paid" if method.private else ""
        default, allowed = shown(field.default) or "none", str(rules_of(method)[field.name])
        add_row(listed, field.name, default, allowed, free, field.metadata["help"])
    show_table(listed)
    say("")


def _fields_listed(names: list[str]) -> dict[str, Any]:
    """The fields of methods as --json has them."""
    from dpdistill.recipe.build import fields_of, shown
    from dpdistill.recipe.methods import RECIPES
    from dpdistill.recipe.rules import rules_of

    return {
        name: {
            "title": method.title,
            "private": method.private,
            "fields": {
                field.name: {
                    "default": shown(field.default),
                    "allowed": str(rules_of(method)[field.name]),
                    "free": bool(field.metadata["finish"]),
                    "meaning": field.metadata["help"],
                }
                for field in fields_of(name).values()
            },
        }
        for name, method in ((name, RECIPES[name]) for name in names)
    }


def _list_recipes() -> None:
    """Every recipe by its name, and what the package does otherwise than its paper."""
    from dpdistill.recipe.published import all_published, notes

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


budget = typer.Typer(
    cls=by_default("show"),
    help="What the runs in a data set's ledger have spent, or a new ledger.",
)
LedgerFile = Annotated[str, typer.Argument(metavar="FILE", help="A data set's ledger.")]


@budget.command("new")
def begin_ledger(
    file: LedgerFile,
    cap: Annotated[float, typer.Option(help="Epsilon that all runs on the data set may spend together.")],
) -> None:
    """Begin the ledger of a data set, with a cap that never changes. Once: a second ledger forgets what was spent."""
    from dpdistill.ledger.dataset import DatasetLedger

    DatasetLedger.begin(file, cap)
    give(ledger=file, cap=cap)
    say(f"{file} is a new ledger: all runs with --ledger {file} may spend epsilon = {cap:g} together.")
    say("Keep it for as long as the records exist, and never put an older copy of it back.")


@budget.command("show")
def show_ledger(file: LedgerFile) -> None:
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
