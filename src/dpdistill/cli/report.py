"""`dpdistill report`: the page of a result."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.cli.options import Folder
from dpdistill.cli.terminal import give, say


def report(
    folder: Folder,
    title: Annotated[
        str | None,
        typer.Option(
            "--title",
            rich_help_panel="Output",
            help="Name of the set, the heading of the page; its classes by default.",
        ),
    ] = None,
) -> None:
    """Write the page of a result, report.html, again."""
    page = dp.report(folder, title)
    give(page=str(page))
    say(str(page))
