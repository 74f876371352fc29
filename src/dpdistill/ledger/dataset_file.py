"""The file of a data set's ledger: made once and whole, and refused where it is not whole any more."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterable
from pathlib import Path

from dpdistill.ledger.database import LedgerError, connect, create_tables, sync_folder, transaction

_HEADER, _MAGIC = 100, b"SQLite format 3\0"


def make_database(path: Path, tables: tuple[str, ...], format: int, rows: Iterable[tuple[str, tuple]]) -> None:
    """Makes the file of a new ledger, whole or not at all.

    Args:
        path: where; nothing may be there, nor the journal of a ledger that was.
        tables: statements that make the tables.
        format: the mark of such files.
        rows: statements that fill them, and their values.

    Raises:
        LedgerError: a file that is there, or one that cannot be made.
    """
    for there in (path, *(Path(f"{path}{ending}") for ending in ("-journal", "-wal"))):
        if os.path.lexists(there):
            shown = f"`dpdistill budget {path}` shows what is in it" if there == path else "it is part of a ledger"
            raise LedgerError(f"Expected no file at {there} to begin a ledger; there is one: {shown}.")
    try:
        _make(path, tables, format, rows)
    except FileExistsError:
        raise LedgerError(f"Expected no file at {path} to begin a ledger; another process has made it.") from None
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(f"The ledger {path} cannot be made: {error}.") from None


def _make(path: Path, tables: tuple[str, ...], format: int, rows: Iterable[tuple[str, tuple]]) -> None:
    """Written aside and linked: another process that makes it at the same time is told."""
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    os.close(handle)
    try:
        db = connect(Path(aside), "DELETE", "EXTRA", create=False)
        try:
            with transaction(db):
                create_tables(db, tables, format)
                for statement, values in rows:
                    db.execute(statement, values)
        finally:
            db.close()
        os.link(aside, path)
    finally:
        os.unlink(aside)
    sync_folder(path.parent)


def check_database(path: Path) -> None:
    """Refuses what SQLite would take for a new database, or would complete with a neighbour's pages.

    Raises:
        LedgerError: a file that is missing, empty, cut off, no file, or no database, and one with a "-wal" beside it.
    """
    if not os.path.lexists(path):
        raise LedgerError(
            f"There is no ledger at {path}. Put the data set's ledger back there if it ever had one: a new one forgets"
            f" what was spent. Else begin it: dpdistill budget new {path} --cap EPSILON."
        )
    if not path.is_file():
        raise LedgerError(f"Expected a data set's ledger at {path}; it is a folder, a broken link or a device.")
    if os.path.lexists(f"{path}-wal"):
        raise LedgerError(f"Expected no file at {path}-wal: no ledger of a data set has one. Move it away.")
    try:
        with open(path, "rb") as file:
            header = file.read(_HEADER)
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror}.") from None
    if header[: len(_MAGIC)] != _MAGIC[: len(header)]:
        raise LedgerError(f"{path} is not a ledger: it is not an SQLite database.")
    if len(header) < _HEADER:
        raise LedgerError(damaged(path, "it is empty or cut off"))


def damaged(path: Path, how: str) -> str:
    """The sentence about a ledger that is damaged."""
    return f"The ledger {path} is damaged: {how}. Take its latest copy if no run was paid since, and begin no new one."
