"""The file of a data set's ledger: created atomically once, and refused if it is damaged."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterable
from pathlib import Path

from dpdistill.ledger.database import LedgerError, connect, create_tables, sync_folder, transaction

_HEADER, _MAGIC = 100, b"SQLite format 3\0"


def make_database(path: Path, tables: tuple[str, ...], format: int, rows: Iterable[tuple[str, tuple]]) -> None:
    """Creates the file of a new ledger atomically.

    Args:
        path: path; neither a file nor the journal of an earlier ledger may exist there.
        tables: SQL statements that create the tables.
        format: number that marks such files.
        rows: SQL statements that fill the tables, and their values.

    Raises:
        LedgerError: an existing file, or one that cannot be created.
    """
    for there in (path, *(Path(f"{path}{ending}") for ending in ("-journal", "-wal"))):
        if os.path.lexists(there):
            shown = f"`dpdistill budget {path}` shows its contents" if there == path else "it is part of a ledger"
            raise LedgerError(f"Expected no file at {there} to begin a ledger; it exists: {shown}.")
    try:
        _make(path, tables, format, rows)
    except FileExistsError:
        raise LedgerError(f"Expected no file at {path} to begin a ledger; another process has created it.") from None
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(f"The ledger {path} cannot be created: {error}.") from None


def _make(path: Path, tables: tuple[str, ...], format: int, rows: Iterable[tuple[str, tuple]]) -> None:
    """Writes a temporary file and links it, which fails if another process creates the ledger at the same time."""
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
    """Refuses a file that SQLite would take for a new database, or would complete with pages from another file.

    Raises:
        LedgerError: a file that is missing, empty, truncated, no regular file, or no database, and one with a "-wal"
            file.
    """
    if not os.path.lexists(path):
        raise LedgerError(
            f"There is no ledger at {path}. Restore the data set's ledger if the data set had one: a new ledger"
            f" forgets earlier spending. Otherwise begin one: dpdistill budget new {path} --cap EPSILON."
        )
    if not path.is_file():
        raise LedgerError(f"Expected a data set's ledger at {path}; it is a folder, a broken link or a device.")
    if os.path.lexists(f"{path}-wal"):
        raise LedgerError(f"Expected no file at {path}-wal: a data set's ledger has no such file. Move it away.")
    try:
        with open(path, "rb") as file:
            header = file.read(_HEADER)
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror}.") from None
    if header[: len(_MAGIC)] != _MAGIC[: len(header)]:
        raise LedgerError(f"{path} is not a ledger: it is not an SQLite database.")
    if len(header) < _HEADER:
        raise LedgerError(damaged(path, "it is empty or truncated"))


def damaged(path: Path | str, how: str) -> str:
    """Returns the sentence about a damaged ledger."""
    return f"The ledger {path} is damaged: {how}. Restore its latest copy if no run was paid since; begin no new one."
