"""The owner's folder of a run: its lock, the key of its records' digest, and archived ledgers."""

from __future__ import annotations

import os
import secrets
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from dpdistill.errors import LedgerError
from dpdistill.ledger.database import connect, sync_folder

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

RUN_LEDGER = "ledger.sqlite"
KEY = "key"
KEY_BYTES = 32
NO_LOCKS = (
    "Expected Linux or macOS, whose file locks and modes keep a run safe: on Windows make sets in WSL. Verifying,"
    " evaluating, sampling and exporting work here."
)


def make_folder(folder: Path) -> Path:
    """Returns the folder, created with mode 0700 if missing.

    Raises:
        LedgerError: it cannot be created, it has other files that other users may read, or the system has no file
            locks.
    """
    if fcntl is None:
        raise LedgerError(NO_LOCKS)
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True)
            sync_folder(folder.parent)
        elif folder.stat().st_mode & 0o077 and not _is_of_a_run(folder):
            raise LedgerError(f"{folder} holds files that are not a run's: name a new folder, or an empty one.")
        folder.chmod(0o700)
    except OSError as error:
        raise LedgerError(f"The run's folder cannot be created: {error}.") from None
    return folder


def _is_of_a_run(folder: Path) -> bool:
    """Returns whether a folder has a run, or nothing but files that operating systems create on a new disk."""
    names = {path.name for path in folder.iterdir()}
    return names <= {"lost+found", ".DS_Store"} or not names.isdisjoint({KEY, RUN_LEDGER})


def lock_folder(folder: Path) -> int:
    """Returns a file handle that locks the folder against other processes until it is closed.

    Raises:
        LedgerError: another process holds the lock, or the system has no file locks.
    """
    if fcntl is None:
        raise LedgerError(NO_LOCKS)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise LedgerError(f"Another process is using {folder}: wait until it ends.") from None
    return handle


def archive_ledger(folder: Path) -> None:
    """Renames the folder's ledger, if it exists, to ledger-001.sqlite, ledger-002.sqlite, ..."""
    path = folder / RUN_LEDGER
    if not path.exists():
        return
    number = 1
    while (archived := folder / f"ledger-{number:03d}.sqlite").exists():
        number += 1
    with suppress(LedgerError, sqlite3.Error), closing(connect(path)) as db:  # a damaged ledger is archived unchanged
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    # The main file last: until then the old ledger is complete, or was damaged earlier.
    for suffix in ("-wal", "-shm", ""):
        part = folder / (RUN_LEDGER + suffix)
        if part.exists():
            part.rename(f"{archived}{suffix}")
    sync_folder(folder)


def digest_key(folder: str | Path | None) -> bytes:
    """Returns the random 32-byte key of the records' digest; created once, kept in the owner's folder.

    Args:
        folder: the owner's folder of the run; None for a key that is not kept.

    Returns:
        The key.

    Raises:
        LedgerError: the file of the key is damaged.
    """
    if folder is None:
        return secrets.token_bytes(KEY_BYTES)
    folder = make_folder(Path(folder))
    path = folder / KEY
    if not path.exists():
        # A temporary file is linked: the key is complete or absent, and the first of two processes wins.
        handle, aside = tempfile.mkstemp(dir=folder, prefix="key-")
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(aside, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(aside)
        sync_folder(folder)
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise LedgerError(f"Expected a key of {KEY_BYTES} bytes in {path}; the file is damaged.")
    return key
