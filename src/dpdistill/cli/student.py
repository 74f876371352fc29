"""`dpdistill student`: trains networks on a teacher's scores of images."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.api.options import SOURCES
from dpdistill.api.scoring import HeldOutImages, Networks, Regression
from dpdistill.api.student import Teaching
from dpdistill.cli.expand import expand
from dpdistill.cli.listener import Terminal
from dpdistill.cli.options import Folder, IncludeScores
from dpdistill.cli.terminal import give


@expand
def student(
    folder: Folder,
    test: Annotated[str, typer.Option(rich_help_panel="Data", help=f"Held-out images: {SOURCES}")],
    teacher: Annotated[
        str,
        typer.Option(
            rich_help_panel="Students of a teacher",
            help="Images that the teacher scores: drawn (procedurally generated), mixed (drawn images and those of "
            "DIR), generated, equal parts of several (drawn+generated), or DATA.",
        ),
    ],
    *,
    teaching: Teaching,
    networks: Networks,
    regression: Regression,
    held_out: HeldOutImages,
    include_scores: IncludeScores = False,
    out: Annotated[
        str | None,
        typer.Option(
            rich_help_panel="Output",
            help="New folder for the network: weights (safetensors), an ONNX file, and a statement of its guarantee.",
        ),
    ] = None,
) -> None:
    """Train networks on a teacher's scores of images, and score the networks on a test set.

    The teacher is the released classifier, or kernel ridge regression on the set of images.
    """
    found = dp.student(
        folder, test, teacher, teaching=teaching, networks=networks, regression=regression, held_out=held_out,
        include_scores=include_scores, out=out, listener=Terminal(),
    )  # fmt: skip
    give(scores=found.scores, out=out)
