"""Creates the ledger of a data set, and summarises its runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpdistill.ledger.dataset import LedgerSummary


def begin_ledger(file: str | os.PathLike, cap: float) -> Path:
    """Creates a data-set ledger, as `dpdistill budget new` does; runs never create one.

    Args:
        file: path of the new file.
        cap: maximum epsilon of all runs on the data set together, > 0.

    Returns:
        The file's path, which `distill(ledger=)` takes.

    Raises:
        LedgerError: a cap that is not positive and finite, or a file that exists or cannot be written.
    """
    from dpdistill.ledger.dataset import DatasetLedger

    DatasetLedger.begin(file, cap)
    return Path(file)


def ledger_summary(file: str | os.PathLike) -> LedgerSummary:
    """Returns the epsilon that all runs of a data set's ledger spent together, and the remaining epsilon.

    Args:
        file: path of the ledger.

    Returns:
        The runs in order, their composed epsilon (`spent`), the cap, and the epsilon of one more full-batch run that
        still fits (`left`).

    Raises:
        LedgerError: a missing file, or a file that is no ledger.

    Example:
        >>> ledger_summary("all.ledger").left  # doctest: +SKIP
        1.2345
    """
    from dpdistill.ledger.dataset import DatasetLedger

    return DatasetLedger(file).summary()
