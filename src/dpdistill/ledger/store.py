"""Where a data set's ledger is kept: a file of SQLite, or a database of PostgreSQL."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from dpdistill.errors import LedgerError
from dpdistill.ledger import dataset_rows as rows
from dpdistill.ledger.database import Tables, connect, transaction, usable
from dpdistill.ledger.dataset_file import check_database, damaged, make_database
from dpdistill.ledger.register import Register, registers_of

_ADDRESS = re.compile(r"postgres(?:ql)?://")


class Store(Protocol):
    """The place of one ledger."""

    name: str
    """The place in messages, without a user's name or a password."""

    def begin(self, cap: float) -> None:
        """Creates the tables of a new ledger; raises LedgerError if there is one."""
        ...

    def check_writable(self) -> None:
        """Raises LedgerError if the place cannot be written to, as far as this is known without writing."""
        ...

    def reading(self) -> AbstractContextManager[Tables]:
        """Returns one transaction that reads one state of the ledger."""
        ...

    def writing(self) -> AbstractContextManager[Tables]:
        """Returns one transaction that no other one overlaps: all of it is synced to disk at the end, or nothing."""
        ...

    def registers(self, lock: bool = False) -> AbstractContextManager[tuple[Register, ...]]:
        """Returns the registers that have this ledger, locked against other payments if asked."""
        ...


def is_address(place: object) -> bool:
    """Returns whether a place is an address of PostgreSQL."""
    return isinstance(place, str) and _ADDRESS.match(place) is not None


def store_of(place: str | os.PathLike) -> Store:
    """Returns the store of a ledger.

    Args:
        place: path of a file, or postgresql://user@host/database#ledger.

    Raises:
        LedgerError: an address without the name of a ledger.
    """
    if not is_address(place):
        return SqliteStore(Path(place))
    from dpdistill.ledger.postgres import PostgresStore

    return PostgresStore(str(place))


def ledger_name(place: str | os.PathLike | None) -> str | None:
    """Returns the place of a ledger for messages, without a password; None for no ledger."""
    return None if place is None else store_of(place).name


class SqliteStore:
    """A ledger in a file of SQLite, with a rollback journal: every commit is synced."""

    def __init__(self, file: Path) -> None:
        self.file, self.name = file, str(file)

    def begin(self, cap: float) -> None:
        """Creates the file atomically; neither a file nor the journal of an earlier ledger may exist there."""
        make_database(self.file, rows.TABLES, rows.FORMAT, rows.first(cap))

    def check_writable(self) -> None:
        """Raises LedgerError for a folder that cannot be written to."""
        folder = self.file.resolve().parent
        if not os.access(folder, os.W_OK | os.X_OK):
            raise LedgerError(f"Expected --ledger in a folder that can be written to; {folder} cannot.")

    @contextmanager
    def reading(self) -> Iterator[Tables]:
        """Opens the file for one transaction that reads."""
        with self._open() as db, transaction(db, "BEGIN"):
            yield db

    @contextmanager
    def writing(self) -> Iterator[Tables]:
        """Opens the file for one transaction that writes; a ledger of an earlier version gets its chain first."""
        with self._open() as db, transaction(db):
            rows.add_chain(db, self.file)
            yield db

    def registers(self, lock: bool = False) -> AbstractContextManager[tuple[Register, ...]]:
        """Returns the registers in registers.toml next to the file."""
        return registers_of(self.file, lock)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        check_database(self.file)
        db = connect(self.file, "DELETE", "EXTRA", create=False)
        try:
            with usable(self.file):
                if db.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                    raise LedgerError(damaged(self.file, "SQLite finds it inconsistent"))
                rows.check_formats(db, self.file)
                yield db
        finally:
            db.close()
