"""Creates the ledger of a data set, summarises its runs, and compares its chain with certificates."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpdistill.accounting.schedule import Schedule
    from dpdistill.ledger.chain import Entry
    from dpdistill.ledger.dataset import LedgerSummary


def begin_ledger(file: str | os.PathLike, cap: float) -> Path | str:
    """Creates a data-set ledger, as `dpdistill budget new` does; runs never create one.

    Args:
        file: path of the new file, or postgresql://user@host/database#ledger.
        cap: maximum epsilon of all runs on the data set together, > 0.

    Returns:
        The path or the address, which `distill(ledger=)` takes.

    Raises:
        LedgerError: a cap that is not positive and finite, or a file that exists or cannot be written.
    """
    from dpdistill.ledger.dataset import DatasetLedger
    from dpdistill.ledger.store import is_address

    DatasetLedger.begin(file, cap)
    return str(file) if is_address(file) else Path(file)


def ledger_summary(file: str | os.PathLike) -> LedgerSummary:
    """Returns the epsilon that all runs of a data set's ledger spent together, and the remaining epsilon.

    Args:
        file: path of the ledger, or postgresql://user@host/database#ledger.

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


@dataclass(frozen=True)
class HeadCheck:
    """Comparison of one certificate with the chain of a ledger.

    Args:
        folder: folder or file of the certificate.
        found: True if the chain has the certificate's head; None if the certificate states none.
        detail: one sentence.
    """

    folder: str
    found: bool | None
    detail: str


def check_heads(certificates: Iterable[str | os.PathLike], ledger: str | os.PathLike) -> list[HeadCheck]:
    """Finds a ledger that was restored from a copy: compares the heads that certificates state with its chain.

    Args:
        certificates: shared folders, or their files certificate.json, of runs in the ledger.
        ledger: the data set's ledger.

    Returns:
        One comparison per certificate, in order.

    Raises:
        LedgerError: a missing file, a file that is no ledger, or runs that are not those of its chain.
        CertificateError: a folder without a certificate, or a certificate that cannot be read.

    Example:
        >>> all(check.found for check in check_heads(["shared"], "all.ledger"))  # doctest: +SKIP
        True
    """
    from dpdistill.ledger.dataset import DatasetLedger

    kept = DatasetLedger(ledger)
    entries = {entry.head: entry for entry in kept.chain()}
    schedules = {run.run_id: run.schedule for run in kept.summary().runs}
    return [_check_head(Path(each), entries, schedules) for each in certificates]


def _check_head(path: Path, entries: Mapping[str, Entry], schedules: Mapping[str, Schedule]) -> HeadCheck:
    from dpdistill.certificate.build import read_certificate
    from dpdistill.folder.layout import CERTIFICATE
    from dpdistill.ledger.chain import COMPLETE

    content = read_certificate(path.parent if path.name == CERTIFICATE else path)
    head = content.get("ledger_head")
    if head is None:
        return HeadCheck(
            str(path), None, "The certificate states no head: its run had no ledger, or an earlier version."
        )
    entry = entries.get(head) if isinstance(head, str) else None
    if entry is None or entry.kind != COMPLETE:
        lost = "it was restored from a copy that is older than this run, or it is the ledger of another data set"
        return HeadCheck(str(path), False, f"The ledger does not have the certificate's head: {lost}.")
    stated, paid = content.get("schedule"), json.loads(schedules[entry.run_id].to_json())
    unit = {"unit": None, "rows_per_unit": 1}
    if stated != paid | {"budget": unit | paid["budget"]}:
        return HeadCheck(str(path), False, f"Entry {entry.number} of the ledger was paid for another schedule.")
    return HeadCheck(
        str(path), True, f"The certificate's head is entry {entry.number} of {len(entries)} in the ledger."
    )
