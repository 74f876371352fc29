"""`dpdistill verify`: checks a shared folder."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.cli.options import Folder
from dpdistill.cli.terminal import FAILED, NOT_COMPARED, give, say, working


def verify(
    folder: Folder,
    run: Annotated[
        str | None,
        typer.Option(rich_help_panel="Output", help="The owner's folder of the run; DIR.run by default, if it exists."),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            rich_help_panel="Output", help="FILE.onnx of the recipe's public encoder; found by its hash by default."
        ),
    ] = None,
    signer: Annotated[
        str | None,
        typer.Option(
            rich_help_panel="Output",
            help="KEY.pub or allowed_signers: fails unless one of these signers signed the folder.",
        ),
    ] = None,
) -> None:
    """Re-check a shared folder: every file, the recipe, arithmetic, plan and ledger, and who signed it.

    A signature says who signed, never what was run. The last line and the exit code state the outcome: 0 PASSED, 1
    FAILED, 4 GUARANTEE PASSED, DOCUMENTS NOT COMPARED.
    """
    with working("checking"):
        result = dp.verify(folder, run, encoder, signer)
    for item in result.checks:
        mark, style = {True: ("ok", "green"), False: ("FAIL", "bold red"), None: ("", None)}[item.passed]
        say(f"{item.name}: {item.detail}", mark=f"{mark:5}", style=style)
    checks = [vars(item) for item in result.checks]
    give(outcome=result.outcome, passed=result.passed, checks=checks)
    say(result.outcome, style="bold green" if result.passed else "bold red")
    if not result.passed:
        raise typer.Exit(FAILED if result.outcome == "FAILED" else NOT_COMPARED)
