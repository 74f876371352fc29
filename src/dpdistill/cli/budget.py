"""`dpdistill budget`: the ledger of a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dpdistill as dp
from dpdistill.api.house import house_tables
from dpdistill.cli.options import by_default
from dpdistill.cli.terminal import FAILED, add_row, epsilon_text, give, say, say_table, show_table, table
from dpdistill.ledger.store import is_address
from dpdistill.schema import DataError, hide_secrets

if TYPE_CHECKING:
    from dpdistill.ledger.dataset import LedgerSummary

app = typer.Typer(
    cls=by_default("show"),
    help="Show the epsilon spent in a data set's ledger, create a ledger, or check it against certificates.",
)
LedgerFile = Annotated[
    str, typer.Argument(metavar="FILE", help="A data set's ledger, or postgresql://user@host/database#ledger.")
]


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
    file = hide_secrets(file)
    give(ledger=file, cap=cap)
    say(f"{file} is a new ledger: all runs with --ledger {file} may spend epsilon = {cap:g} together.")
    say("Keep the ledger as long as the records exist, and never restore an older copy of it.")
    say(f"Keep the certificates elsewhere: dpdistill budget check DIR... --ledger {file} finds a restored copy.")


@app.command("show")
def show(
    place: Annotated[
        str, typer.Argument(metavar="FILE", help="A data set's ledger, or a folder or database of ledgers.")
    ],
    page: Annotated[
        str | None, typer.Option(rich_help_panel="Output", help="Write the account of a folder as an HTML file, too.")
    ] = None,
) -> None:
    """Show the epsilon spent in a ledger, or in all ledgers of a folder: by whom, when, and what is left."""
    if Path(place).is_dir() or (is_address(place) and "#" not in place):
        _show_house(place, page)
    elif page is not None:
        raise DataError("Expected a folder of ledgers with --page.")
    else:
        _show_ledger(place)


def _show_house(folder: str, page: str | None) -> None:
    summary = dp.house_summary(folder)
    written = None if page is None else dp.write_house_page(folder, page)
    for part in house_tables(summary):
        if part.rows:
            say_table(part.header, part.rows, title=part.title)
            say("")
    ledgers = {name: _facts(each) for name, each in summary.ledgers.items()}
    give(ledgers=ledgers, registers=[vars(each) for each in summary.registers], faults=summary.faults)
    if written is not None:
        give(page=str(written))
        say(f"{page} is the account as a page, for the owner alone.")


def _facts(summary: LedgerSummary) -> dict[str, Any]:
    """Returns a ledger's summary for --json."""
    stated = [(run, vars(run.schedule.budget)) for run in summary.runs]
    runs = [{"run": run.label, "date": run.date, "payer": run.payer, **budget} for run, budget in stated]
    numbers = {name: getattr(summary, name) for name in ("spent", "delta", "adjacency", "cap", "left", "head")}
    return {"runs": runs, **numbers}


def _show_ledger(file: str) -> None:
    summary = dp.ledger_summary(file)
    listed = table("run", "date", "payer", "epsilon", "delta")
    for run in summary.runs:
        terms = run.schedule.budget
        add_row(listed, run.label, run.date, run.payer, f"{terms.epsilon:.6g}", f"{terms.delta:g}")
    show_table(listed)
    give(**_facts(summary))
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
    give(ledger=hide_secrets(ledger), passed=not lost, certificates=[vars(each) for each in found])
    if lost:
        say("FAILED", style="bold red")
        raise typer.Exit(FAILED)
