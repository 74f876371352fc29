"""The ledger of a data set: its beginning, and what its runs have spent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpdistill.ledger.dataset import LedgerSummary


def begin_ledger(file: str | os.PathLike, cap: float) -> Path:
    """Makes the file of a new data-set ledger, as `dpdistill budget new` does; no run ever makes one.

    Args:
        file: where; nothing may be there.
        cap: the epsilon that all runs on the data set may spend together, > 0.

    Returns:
        The file's path, which `distill(ledger=)` takes.

    Raises:
        LedgerError: a cap that is not positive and finite, a file that is there, or one that cannot be made.
    """
    from dpdistill.ledger.dataset import DatasetLedger

    DatasetLedger.begin(file, cap)
    return Path(file)


def ledger_summary(file: str | os.PathLike) -> LedgerSummary:
    """Returns what the runs in a data set's ledger have spent together, and what is left.

    Args:
        file: the ledger's file.

    Returns:
        The runs in order, their composed epsilon (`spent`), the cap, and the epsilon of one more full-batch run that
        still fits (`left`).

    Raises:
        LedgerError: a file that is missing, or no ledger.

    Example:
        >>> ledger_summary("all.ledger").left  # doctest: +SKIP
        1.2345
    """
    from dpdistill.ledger.dataset import DatasetLedger

    return DatasetLedger(file).summary()
