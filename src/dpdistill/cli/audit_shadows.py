"""`dpdistill audit shadows`: attacks membership by a likelihood ratio from many runs on halves of the records."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.api.options import Account, BudgetChoice, Reading, RecipeChoice
from dpdistill.cli.audit import Data, Out, app, say_page, say_rates
from dpdistill.cli.expand import Fields, expand
from dpdistill.cli.listener import Terminal


@app.command("shadows")
@expand
def audit_shadows(
    data: Data,
    *,
    to: Out,
    choice: RecipeChoice,
    budget: BudgetChoice,
    non_private: Annotated[
        bool,
        typer.Option(
            "--non-private", rich_help_panel="Privacy", help="Without noise, for comparison; always so for dm and kip."
        ),
    ] = False,
    runs: Annotated[
        int, typer.Option(min=4, rich_help_panel="Attack", help="Number of runs, each on half of the records.")
    ] = 16,
    reading: Reading,
    account: Annotated[Account, Fields("seed")],
) -> None:
    """Distil halves of the records many times, and attack membership in each half. No set is written."""
    found = dp.audit_shadows(
        data, choice, budget, runs=runs, private=not non_private, reading=reading, seed=account.seed, out=to,
        listener=Terminal(),
    )  # fmt: skip
    say_rates(found.membership)
    say_page(found, to)
