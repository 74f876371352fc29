"""`dpdistill count`: an estimated number of private rows, with an interval."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.cli.options import Folder
from dpdistill.cli.terminal import give, say


def count(
    folder: Folder,
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="Conditions on columns: 'age>60 and ward=B', 'cost is missing'.")
    ],
) -> None:
    """Estimate how many private rows meet a question, at no further cost.

    DIR holds a table with released counts (--method aim). A released table gives a 95 % interval. Questions on columns
    that no table holds are answered by the synthetic rows, without an interval.
    """
    found = dp.count(folder, question)
    give(**vars(found))
    if found.low is not None and found.high is not None:
        say(f"{found.rows:,.0f} rows, 95 % interval {found.low:,.0f} to {found.high:,.0f}: from {found.source}.")
        if not found.exact:
            say(
                "The question splits groups of values that were counted together: the interval includes all their rows."
            )
    else:
        say(f"{found.rows:,.0f} rows, no interval: from {found.source}.")
        say(f"Why no interval: {found.reason}.")
