"""`dpdistill audit set`: a set is compared with the records that it was made from."""

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
        typer.Option(rich_help_panel="Data", help=f"Records that it was made from: {SOURCES} {TABLES}, with --sql."),
    ] = None,
    non_members: Annotated[
        str | None, typer.Option(rich_help_panel="Data", help="Records of the same kind that it was not made from.")
    ] = None,
    *,
    reading: MemberReading,
) -> None:
    """Compare a set with the records it stands for, and ask who was among them. Writes DIR.audit."""
    found = dp.audit(folder, members, non_members, reading=reading, out=folder, listener=Terminal())
    left, sizes = found.left_out, found.sizes
    if any(left):
        say(f"Left out, since no set can be made from them: {left[0]:,} of {sizes[0]:,} members and {left[1]:,} of "
            f"{sizes[1]:,} others, of an unknown class or with a missing value.")  # fmt: skip
    if found.repeated:
        say(f"Warning: {found.repeated:,} of the {sizes[1]:,} other records are the same as a member's.")
    say_rates(found.membership)
    say_page(found, folder)
