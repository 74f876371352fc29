"""`dpdistill audit run`: a run with canaries, and a lower bound on epsilon."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.api.options import Account, BudgetChoice, Reading, RecipeChoice
from dpdistill.cli.audit import Data, Out, app, say_page
from dpdistill.cli.expand import Fields, expand
from dpdistill.cli.listener import Terminal
from dpdistill.cli.options import Cap, refuse_cap
from dpdistill.cli.terminal import say


@app.command("run")
@expand
def audit_run(
    data: Data,
    *,
    to: Out,
    choice: RecipeChoice,
    budget: Annotated[BudgetChoice, Fields("epsilon", "delta")],
    canaries: Annotated[
        int,
        typer.Option(min=100, rich_help_panel="Attack", help="Number of random records; each enters by a fair coin."),
    ] = 1000,
    leak: Annotated[
        str | None,
        typer.Option(
            rich_help_panel="Attack",
            help="Plant a leak, to test its detection: noised-again, same-noise, real-start.",
        ),
    ] = None,
    reading: Reading,
    account: Annotated[Account, Fields("seed", "ledger")],
    cap: Cap = None,
) -> None:
    """Distil records and canaries, and bound epsilon from below by guesses about the canaries.

    The audit is a run and spends its budget: name the data set's ledger. Its set is not written: it contains canaries.
    """
    refuse_cap(cap)
    found = dp.audit_run(
        data, choice, budget, canaries=canaries, leak=leak, reading=reading, seed=account.seed, ledger=account.ledger,
        out=to, listener=Terminal(),
    )  # fmt: skip
    for name, each in found.bounds.items():
        say(f"{name}: {found.correct[name]} of {found.guesses[name]} right, epsilon is at least {each:.2f}")
    schedule = found.result.schedule
    certified = "nothing" if schedule is None else f"{schedule.budget.epsilon:g}"
    confidence = 100 * found.confidence
    say(f"epsilon is at least {found.bound:.2f} at {confidence:g} % confidence; certified: {certified}.")
    say_page(found, to)
