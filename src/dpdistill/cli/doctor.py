"""`dpdistill doctor`: examines the machine."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.cli.terminal import FAILED, give, say, working


def doctor(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="Folder in which results and ledgers would lie.")
    ] = ".",
) -> None:
    """Examine this machine: versions, entropy, clock, devices, extras, and what ledgers need of a folder.

    The exit code is 1 if a command would be refused, or a guarantee would not hold.
    """
    with working("examining"):
        found = dp.doctor(folder)
    for each in found.findings:
        mark, style = {True: ("ok", "green"), False: ("FAIL", "bold red"), None: ("", None)}[each.passed]
        say(f"{each.name}: {each.detail}", mark=f"{mark:5}", style=style)
    give(passed=found.passed, refused=found.refused, findings=[vars(each) for each in found.findings])
    if not found.passed:
        say(f"REFUSED OR UNSAFE HERE: {', '.join(found.refused)}", style="bold red")
        raise typer.Exit(FAILED)
    say("FIT: no command is refused for this machine.", style="bold green")
