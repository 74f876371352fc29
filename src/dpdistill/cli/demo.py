"""`dpdistill demo`: a first result in seconds."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.cli.listener import Terminal
from dpdistill.cli.terminal import give, note, say
from dpdistill.schema import DataError


def demo(
    which: Annotated[
        str | None, typer.Argument(metavar="[together]", help="together: three owners, who do not pool their digits.")
    ] = None,
    to: Annotated[str, typer.Option("--out", rich_help_panel="Output", help="Folder for the result.")] = "demo",
    epsilon: Annotated[float, typer.Option(rich_help_panel="Privacy", help="Privacy budget.")] = 1.0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", rich_help_panel="Output", help="Replace an earlier result.")
    ] = False,
) -> None:
    """Distil scikit-learn's digits to one image per class in seconds, and compare them with the real digits."""
    from dpdistill.api.demo import CLASSIFIER

    if which not in (None, "together"):
        raise DataError(f"Expected `dpdistill demo` or `dpdistill demo together`; got {which[:40]!r}.")
    if which is None:
        shown = dp.demo(to, epsilon, overwrite=overwrite, listener=Terminal())
    else:
        if overwrite:
            raise DataError("Expected `dpdistill demo together` without --overwrite: name a new folder.")
        shown = dp.demo_together(to, epsilon, listener=Terminal())
    path, accuracy = shown.path, shown.accuracy_with_guarantee
    say(
        f"Accuracy with privacy (epsilon = {epsilon:g}): {accuracy:.1f} %, trained on {len(shown.result.y)} synthetic "
        "digits."
    )
    say(
        f"Accuracy without privacy: {shown.accuracy_without:.1f} %, trained on {shown.records:,} real digits. "
        f"Both: {CLASSIFIER} on pixels, one run."
    )
    note(f"Look at {path / 'synthetic.png'} and {path / 'report.html'}; `dpdistill verify {to}` re-checks them.")
    give(folder=str(path), epsilon=epsilon, accuracy_with_guarantee=accuracy, accuracy_without=shown.accuracy_without)
