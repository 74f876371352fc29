"""The account of an organisation: all ledgers in a folder, and their registers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpdistill.errors import LedgerError
from dpdistill.ledger.dataset import DatasetLedger, LedgerSummary
from dpdistill.ledger.dataset_rows import FORMAT, WITHOUT_CHAIN, LedgerRun
from dpdistill.ledger.register import read_registers

_MAGIC, _VERSION = b"SQLite format 3\0", slice(60, 64)
"""Beginning of a ledger's file, and the bytes that hold its format."""


@dataclass(frozen=True)
class RegisterSummary:
    """Joint spending of the data sets about the same persons.

    Args:
        name: name of the register.
        cap: the epsilon that all runs on its data sets may spend together.
        delta: the delta at which they are composed.
        ledgers: file names of its ledgers.
        spent: their composed epsilon; None if it cannot be composed.
        fault: why it cannot be composed; empty if it can.
    """

    name: str
    cap: float
    delta: float
    ledgers: tuple[str, ...]
    spent: float | None
    fault: str = ""


@dataclass(frozen=True)
class HouseSummary:
    """The account of an organisation.

    Args:
        ledgers: summary by file name, sorted by name.
        registers: the registers, in the order of registers.toml.
        faults: why a ledger cannot be read, by file name.
    """

    ledgers: dict[str, LedgerSummary]
    registers: tuple[RegisterSummary, ...]
    faults: dict[str, str]

    @property
    def payments(self) -> tuple[tuple[str, LedgerRun], ...]:
        """Returns (file name of the ledger, run) of all runs, by date and then by ledger."""
        found = [(name, run) for name, summary in self.ledgers.items() for run in summary.runs]
        return tuple(sorted(found, key=lambda each: (each[1].date, each[0])))


def summarise_database(address: str) -> HouseSummary:
    """Returns the account of all ledgers in a PostgreSQL database, postgresql://user@host/database.

    Raises:
        LedgerError: the database cannot be reached, or has no ledger.
    """
    from dpdistill.ledger.postgres import ledgers_in

    found = _read({each.partition("#")[2]: each for each in ledgers_in(address)})
    if not found.ledgers and not found.faults:
        raise LedgerError("Expected ledgers in the database; it has none: dpdistill budget new ADDRESS#NAME makes one.")
    return found


def _read(places: Mapping[str, str | os.PathLike]) -> HouseSummary:
    """Returns the account of ledgers by name, without registers."""
    ledgers: dict[str, LedgerSummary] = {}
    faults: dict[str, str] = {}
    for name, place in places.items():
        try:
            ledgers[name] = DatasetLedger(place).summary()
        except LedgerError as error:
            faults[name] = str(error)
    return HouseSummary(ledgers, (), faults)


def summarise(folder: Path) -> HouseSummary:
    """Returns the account of all ledgers in a folder; a ledger that cannot be read is named with its fault.

    Raises:
        LedgerError: the folder has no ledger, or registers.toml cannot be used.
    """
    found = _read({path.name: path for path in sorted(folder.iterdir()) if is_ledger(path)})
    ledgers, faults = found.ledgers, found.faults
    if not ledgers and not faults:
        raise LedgerError(f"Expected data sets' ledgers in {folder}; it has none: dpdistill budget new makes one.")
    runs = {name: summary.runs for name, summary in ledgers.items()}
    registers = []
    for each in read_registers(folder):
        spent, fault = None, ""
        try:
            missing = [name for name in each.ledgers if name not in runs]
            spent = None if missing else each.spent(runs)
            fault = f"{missing[0]} cannot be read" if missing else ""
        except LedgerError as error:
            fault = str(error)
        registers.append(RegisterSummary(each.name, each.cap, each.delta, each.ledgers, spent, fault))
    return HouseSummary(ledgers, tuple(registers), faults)


def is_ledger(path: Path) -> bool:
    """Returns whether a file is a data set's ledger, by its first bytes."""
    if not path.is_file() or not os.access(path, os.R_OK):
        return False
    with path.open("rb") as file:
        head = file.read(100)
    return head.startswith(_MAGIC) and int.from_bytes(head[_VERSION], "big") in (FORMAT, WITHOUT_CHAIN)
