"""`dpdistill fill`: fills empty cells of a table from synthetic rows."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.api.options import MAX_SEED
from dpdistill.cli.listener import Terminal
from dpdistill.cli.options import Folder
from dpdistill.cli.terminal import give, say, warn


def fill(
    folder: Folder,
    rows: Annotated[str, typer.Argument(metavar="FILE", help="A table with the columns of DIR and empty cells.")],
    *,
    out: Annotated[str, typer.Option(rich_help_panel="Output", help="A new .csv, .parquet, .feather or .arrow file.")],
    schema: Annotated[
        str | None,
        typer.Option(rich_help_panel="Data", help="The schema.yaml of FILE if its file format differs from DIR's."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, max=MAX_SEED, metavar="<int>", rich_help_panel="Output", help="Public seed of the draws."),
    ] = 1,
) -> None:
    """Fill the empty cells of a table, at no further cost.

    The empty cells of a row come from one synthetic row, drawn among the ten that differ least in the known cells.
    """
    found = dp.fill(folder, rows, out, schema=schema, seed=seed, listener=Terminal())
    give(out=str(found.path), rows=len(found.y), cells=found.cells, broken=found.broken, donors=found.donors)
    say(f"{found.path}: {found.cells:,} empty cells of {len(found.y):,} rows filled, at no further epsilon.")
    if found.broken:
        warn(f"{found.broken:,} rows break a constraint: their own values do, or no similar synthetic row fits.")
