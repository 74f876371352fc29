"""`dpdistill evaluate`: scores of a synthetic set on held-out records."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.api.evaluate import HeldOut, Scoring
from dpdistill.api.options import SOURCES, TABLES
from dpdistill.api.real_records import Reference
from dpdistill.api.scoring import Regression
from dpdistill.cli.expand import expand
from dpdistill.cli.listener import Terminal
from dpdistill.cli.options import Folder, IncludeScores
from dpdistill.cli.terminal import give


@expand
def evaluate(
    folder: Folder,
    test: Annotated[
        str, typer.Option(rich_help_panel="Data", help=f"Held-out records: {SOURCES} {TABLES}, with --sql.")
    ],
    *,
    held_out: HeldOut,
    scoring: Scoring,
    regression: Regression,
    reference: Reference,
    include_scores: IncludeScores = False,
) -> None:
    """Train models on the synthetic records and score them on a test set.

    Images: the released classifier and kernel ridge regression in seconds, then networks. Tables: errors
    of counts, then twelve classifiers; without a label, distances from the test rows.
    """
    found = dp.evaluate(
        folder, test, held_out=held_out, scoring=scoring, regression=regression, reference=reference,
        include_scores=include_scores, listener=Terminal(),
    )  # fmt: skip
    give(scores=found.scores)
