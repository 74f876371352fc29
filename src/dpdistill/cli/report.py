"""`dpdistill report`: the page of a result."""

from __future__ import annotations

import dpdistill as dp
from dpdistill.cli.options import Folder
from dpdistill.cli.terminal import give, say


def report(folder: Folder) -> None:
    """Write the page of a result, report.html, again."""
    page = dp.report(folder)
    give(page=str(page))
    say(str(page))
