"""SQLite for the ledgers: every error is one sentence, every commit is synced."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from dpdistill.errors import LedgerError, LedgerUnusable


class Tables(Protocol):
    """A connection inside a transaction: of SQLite, or one with the same statements."""

    def execute(self, sql: str, values: Sequence[Any] = ..., /) -> Any:
        """Runs one statement; its values are marked by "?"."""
        ...


def is_new(db: sqlite3.Connection) -> bool:
    """Returns whether the database has no tables."""
    return db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0] == 0


def create_tables(db: sqlite3.Connection, tables: tuple[str, ...], format: int) -> None:
    """Creates the tables and marks the file with its format."""
    for table in tables:
        db.execute(table)
    db.execute(f"PRAGMA user_version = {format}")


def check_format(db: sqlite3.Connection, name: object, format: int) -> None:
    """Raises LedgerError for a file of another kind or an earlier format."""
    if db.execute("PRAGMA user_version").fetchone()[0] != format:
        raise LedgerError(f"{name} has another kind or version of ledger: this version cannot use it.")


def connect(path: Path, journal: str = "", synchronous: str = "FULL", create: bool = True) -> sqlite3.Connection:
    """Returns a connection whose commits are synced to disk; raises LedgerError for a file that is no ledger."""
    if not create and not path.is_file():
        raise LedgerError(f"There is no ledger at {path}.")
    try:
        if create and not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            sync_folder(path.parent)
        db = sqlite3.connect(path, timeout=60.0, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise LedgerUnusable(f"{path} cannot be opened: {error}.") from None
    try:
        if journal:
            db.execute(f"PRAGMA journal_mode = {journal}")
        for pragma in (f"synchronous = {synchronous}", "fullfsync = 1", "checkpoint_fullfsync = 1"):
            db.execute(f"PRAGMA {pragma}")
    except sqlite3.Error as error:
        db.close()
        if is_of_the_disk(error):
            raise LedgerUnusable(f"{path} cannot be opened: {error}.") from None
        raise LedgerError(f"{path} is not a ledger: {error}.") from None
    return db


def is_of_the_disk(error: BaseException) -> bool:
    """Returns whether SQLite could not read or write, without any fault in the file's contents."""
    codes = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in codes


@contextmanager
def transaction(db: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Runs the block in one transaction: all of it is written or nothing."""
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def usable(name: object) -> Iterator[None]:
    """Turns an SQLite error about a ledger into one sentence."""
    try:
        yield
    except sqlite3.ProgrammingError:  # an error of this code: the file is unchanged
        raise
    except sqlite3.Error as error:
        raise LedgerUnusable(f"{name} cannot be used as a ledger: {error}.") from None


def sync_folder(folder: Path) -> None:
    """Syncs a folder's entries to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
