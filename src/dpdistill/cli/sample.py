"""`dpdistill sample`: more records at no further cost."""

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
    n: Annotated[int, typer.Option("--n", min=1, metavar="<int>", rich_help_panel="Output", help="Rows, or pictures.")],
    to: Annotated[
        str,
        typer.Option(
            "--out",
            rich_help_panel="Output",
            help="For rows: a .csv or .parquet file. For pictures: a .npz file, or a folder.",
        ),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            rich_help_panel="Output",
            help="Of pictures: generated (the default where DIR has a generator), drawn (otherwise), mixed with the "
            "images of DIR, or equal parts of several: drawn+generated.",
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            rich_help_panel="Output",
            help="Of pictures: dpimagebench writes OUT/gen/gen.npz as that benchmark reads it.",
        ),
    ] = None,
    slopes: Annotated[
        bool,
        typer.Option(
            "--slopes",
            rich_help_panel="Output",
            help="Of scored pictures, in a .npz file: also how the margin between the two likeliest classes (margins) "
            "changes with every pixel (slopes; times units, where there are any), for models that learn that, too.",
        ),
    ] = False,
    seed: Annotated[
        int,
        typer.Option(min=0, max=MAX_SEED, metavar="<int>", rich_help_panel="Output", help="Of what is made; public."),
    ] = 1,
) -> None:
    """More records, at no further cost.

    Tables: rows of the generator. Images: those of the generator with their classes, or pictures that a program draws,
    with the released classifier's scores.
    """
    made = dp.sample(folder, n, to, kind=kind, format=form, slopes=slopes, seed=seed, listener=Terminal())
    give(out=str(made.path), records=n, kind=made.kind)
    if made.kind == "rows":
        say(f"{made.path}: {n:,} synthetic rows; they cost no further epsilon.")
        return
    labels = "their classes" if made.scores is None else "the released classifier's scores"
    say(f"{made.path}: {n:,} {made.kind} pictures with {labels}; they cost no further epsilon.")
