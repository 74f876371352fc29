"""`dpdistill budget`: the ledger of a data set."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.cli.options import by_default
from dpdistill.cli.terminal import FAILED, add_row, epsilon_text, give, say, show_table, table

app = typer.Typer(
    cls=by_default("show"),
    help="Show the epsilon spent in a data set's ledger, create a ledger, or check it against certificates.",
)
LedgerFile = Annotated[str, typer.Argument(metavar="FILE", help="A data set's ledger.")]


@app.command("new")
def begin(
    file: LedgerFile,
    cap: Annotated[
        float,
        typer.Option(rich_help_panel="Privacy", help="Epsilon that all runs on the data set may spend together."),
    ],
) -> None:
    """Create the ledger of a data set, with a fixed cap. Do so once: a second ledger does not count earlier runs."""
    dp.begin_ledger(file, cap)
    give(ledger=file, cap=cap)
    say(f"{file} is a new ledger: all runs with --ledger {file} may spend epsilon = {cap:g} together.")
    say("Keep the ledger as long as the records exist, and never restore an older copy of it.")
    say(f"Keep the certificates elsewhere: dpdistill budget check DIR... --ledger {file} finds a restored copy.")


@app.command("show")
def show(file: LedgerFile) -> None:
    """Show the epsilon that all runs in a ledger spent together, and the remaining epsilon."""
    summary = dp.ledger_summary(file)
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


@app.command("check")
def check(
    certificates: Annotated[
        list[str],
        typer.Argument(metavar="DIR...", help="Shared folders, or their certificates, of runs in the ledger."),
    ],
    ledger: Annotated[str, typer.Option(rich_help_panel="Privacy", help="The data set's ledger.")],
) -> None:
    """Compare certificates with a ledger: finds a ledger that was restored from a copy, or was changed.

    The exit code is 1 if the ledger lacks the head of a certificate.
    """
    found = dp.check_heads(certificates, ledger)
    for each in found:
        mark, style = {True: ("ok", "green"), False: ("FAIL", "bold red"), None: ("", None)}[each.found]
        say(f"{each.folder}: {each.detail}", mark=f"{mark:5}", style=style)
    lost = [each for each in found if each.found is False]
    give(ledger=ledger, passed=not lost, certificates=[vars(each) for each in found])
    if lost:
        say("FAILED", style="bold red")
        raise typer.Exit(FAILED)
