"""`dpdistill audit set`: compares a set with its private records."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.api.audit_options import MemberReading
from dpdistill.api.options import SOURCES, TABLES
from dpdistill.cli.audit import app, say_page, say_rates
from dpdistill.cli.expand import expand
from dpdistill.cli.listener import Terminal
from dpdistill.cli.options import Folder
from dpdistill.cli.terminal import say


@app.command("set")
@expand
def audit_set(
    folder: Folder,
    members: Annotated[
        str | None,
        typer.Option(rich_help_panel="Data", help=f"Records used in the run: {SOURCES} {TABLES}, with --sql."),
    ] = None,
    non_members: Annotated[
        str | None, typer.Option(rich_help_panel="Data", help="Records of the same kind, not used in the run.")
    ] = None,
    *,
    reading: MemberReading,
) -> None:
    """Compare a set with its private records, and run membership attacks. Writes DIR.audit."""
    found = dp.audit(folder, members, non_members, reading=reading, out=folder, listener=Terminal())
    left, sizes = found.left_out, found.sizes
    if any(left):
        say(f"Left out, since a run cannot use them: {left[0]:,} of {sizes[0]:,} members and {left[1]:,} of "
            f"{sizes[1]:,} non-members, of an unknown class or with a missing value.")  # fmt: skip
    if found.repeated:
        say(f"Warning: {found.repeated:,} of the {sizes[1]:,} non-members are equal to a member.")
    if found.marginals is not None:
        for one in found.marginals.workload:
            say(one.text)
    say_rates(found.membership)
    say_page(found, folder)
