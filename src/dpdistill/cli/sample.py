"""`dpdistill sample`: makes more records at no further cost."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.api.options import MAX_SEED
from dpdistill.cli.listener import Terminal
from dpdistill.cli.options import Folder
from dpdistill.cli.terminal import give, say


def sample(
    folder: Folder,
    *,
    n: Annotated[
        int, typer.Option("--n", min=1, metavar="<int>", rich_help_panel="Output", help="Number of rows or images.")
    ],
    to: Annotated[
        str,
        typer.Option(
            "--out",
            rich_help_panel="Output",
            help="For rows: a .csv, .parquet, .feather or .arrow file. For images: a .npz file, or a folder.",
        ),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            rich_help_panel="Output",
            help="Kind of images: generated (the default where DIR has a generator), drawn (procedural; the "
            "default otherwise), mixed with the images of DIR, or several: drawn+generated.",
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            rich_help_panel="Output",
            help="File format of images: dpimagebench writes OUT/gen/gen.npz for that benchmark.",
        ),
    ] = None,
    slopes: Annotated[
        bool,
        typer.Option(
            "--slopes",
            rich_help_panel="Output",
            help="For scored images in a .npz file: also write the gradient (slopes) of the margin between the two "
            "likeliest classes (margins). Multiply slopes by units, where there are any.",
        ),
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(
            rich_help_panel="Output",
            help="Rows of a table that fulfil a condition: 'age > 60 and ward = B'. At most a million rows are made.",
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(rich_help_panel="Output", metavar="<column>", help="Sort the rows of a table by this column."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0, max=MAX_SEED, metavar="<int>", rich_help_panel="Output", help="Public seed of the records."
        ),
    ] = 1,
) -> None:
    """Make more records, at no further cost.

    Tables: rows of the generator. Images: images of the generator with their classes, or procedurally generated
    images with the released classifier's scores.
    """
    made = dp.sample(
        folder, n, to, kind=kind, format=form, slopes=slopes, seed=seed, where=where, sort=sort, listener=Terminal()
    )
    give(out=str(made.path), records=n, kind=made.kind)
    if made.kind == "rows":
        say(f"{made.path}: {n:,} synthetic rows, at no further epsilon.")
        return
    labels = "their classes" if made.scores is None else "the released classifier's scores"
    say(f"{made.path}: {n:,} {made.kind} images with {labels}, at no further epsilon.")
