"""Examines a folder: locks, SQLite, space and permissions, on which ledgers depend."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from dpdistill.folder.layout import OWNERS
from dpdistill.ledger.database import connect, sync_folder, transaction
from dpdistill.machine.finding import PAYING, Finding

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

ENOUGH, LEAST = 1 << 30, 64 << 20
"""Free bytes below which a run may stop, and below which hardly any run ends."""
REMOTE = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "vboxsf", "drvfs"}
"""File systems of other machines, on which locks and SQLite depend on that machine's settings."""
MOST_NAMED = 5


def check_folder(folder: Path) -> Iterator[Finding]:
    """Yields the findings about a folder in which runs would lie; writes and removes a hidden folder inside.

    Args:
        folder: an existing folder.
    """
    if not folder.is_dir():
        yield Finding("folder", False, f"There is no folder {folder}: make it, or name another.", (PAYING,))
        return
    yield check_space(folder)
    yield from _file_system(folder)
    try:
        place = Path(tempfile.mkdtemp(dir=folder, prefix=".dpdistill-doctor-"))
    except OSError as error:
        yield Finding("folder", False, f"{folder} cannot be written to: {error.strerror}.", (PAYING, "budget new"))
        return
    try:
        for name, check, refused in _CHECKS:
            yield _tried(name, check, refused, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    yield check_permissions(folder)


def check_space(folder: Path) -> Finding:
    """Returns whether the file system has free space for a run."""
    free = shutil.disk_usage(folder).free
    stated = f"{free / 2**30:.1f} GiB" if free >= ENOUGH else f"{free >> 20} MiB"
    if free < LEAST:
        return Finding("space", False, f"Only {stated} are free in {folder}: a run would stop.", (PAYING,))
    if free < ENOUGH:
        return Finding("space", None, f"{stated} are free in {folder}: `dpdistill plan` states what a run needs.")
    return Finding("space", True, f"{stated} are free in {folder}.")


def _file_system(folder: Path) -> Iterator[Finding]:
    """Yields a remark about a file system of another machine, as far as Linux states its kind."""
    mounts = Path("/proc/self/mounts")
    if not mounts.is_file():
        return
    where, kind = "", "unknown"
    for line in mounts.read_text("utf-8", "replace").splitlines():
        at, name = line.split()[1:3]
        if folder.resolve().is_relative_to(at) and len(at) >= len(where):
            where, kind = at, name
    if kind in REMOTE:
        advice = "locks and SQLite depend on the settings of that machine. Keep ledgers on a disk of this machine"
        yield Finding("file system", None, f"{folder} lies on {kind}, a file system of another machine: {advice}.")


def _modes(place: Path) -> str:
    """Returns the fault of a file system that keeps no permissions; empty if there is none."""
    inner = place / "modes"
    inner.mkdir(mode=0o777)
    inner.chmod(0o700)
    if stat.S_IMODE(inner.stat().st_mode) != 0o700:
        return "permissions are not kept, so other users could read a run"
    return ""


def _locks(place: Path) -> str:
    """Returns the fault of a file system without locks between processes."""
    if fcntl is None:
        return "the system has no file locks: on Windows make sets in WSL"
    handles = [os.open(place / "lock", os.O_RDWR | os.O_CREAT, 0o600) for _ in range(2)]
    try:
        fcntl.flock(handles[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(handles[1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return ""
        return "two processes get the same lock, so a run could be paid twice"
    finally:
        for handle in handles:
            os.close(handle)


def _run_ledger(place: Path) -> str:
    """Returns the fault of a file system on which SQLite cannot write ahead, as the ledger of a run does."""
    with closing(connect(place / "run.sqlite", "WAL")) as db:
        if (mode := db.execute("PRAGMA journal_mode").fetchone()[0]) != "wal":
            return f"SQLite cannot write ahead (WAL): its journal is {mode!r}"
        db.execute("CREATE TABLE t (a)")
        with transaction(db):
            db.execute("INSERT INTO t VALUES (7)")
        with closing(connect(place / "run.sqlite", "WAL", create=False)) as other:
            return (
                "" if other.execute("SELECT a FROM t").fetchall() == [(7,)] else "SQLite does not share what is written"
            )


def _dataset_ledger(place: Path) -> str:
    """Returns the fault of a file system on which two processes could write a data set's ledger at once."""
    with closing(connect(place / "dataset.sqlite", "DELETE", "EXTRA")) as db:
        db.execute("CREATE TABLE t (a)")
        with closing(connect(place / "dataset.sqlite", "DELETE", "EXTRA", create=False)) as other:
            other.execute("PRAGMA busy_timeout = 0")
            with transaction(db):
                try:
                    other.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError:
                    return ""
            return "two connections write to one SQLite file at once, so a budget could be spent twice"


def _whole_files(place: Path) -> str:
    """Returns the fault of a file system on which files do not appear whole, or cannot be synced."""
    (place / "new").write_bytes(b"new")
    (place / "old").write_bytes(b"old")
    os.replace(place / "new", place / "old")
    os.link(place / "old", place / "linked")
    sync_folder(place)
    try:
        os.link(place / "old", place / "linked")
    except FileExistsError:
        return "" if (place / "linked").read_bytes() == b"new" else "a renamed file has its old contents"
    return "a link replaces a file, so two ledgers could begin at once"


_CHECKS: tuple[tuple[str, Callable[[Path], str], tuple[str, ...]], ...] = (
    ("modes", _modes, (PAYING,)),
    ("locks", _locks, (PAYING,)),
    ("ledger of a run", _run_ledger, (PAYING,)),
    ("ledger of a data set", _dataset_ledger, (PAYING, "budget new")),
    ("whole files", _whole_files, (PAYING, "budget new")),
)
"""Name of each check, the function that returns its fault, and what is refused with that fault."""


def _tried(name: str, check: Callable[[Path], str], refused: tuple[str, ...], place: Path) -> Finding:
    try:
        fault = check(place)
    except Exception as error:  # each file system fails in its own way
        reason = getattr(error, "strerror", None) or str(error).replace(str(place), "the folder").rstrip(".")
        fault = f"this folder cannot hold what a run writes ({reason})"
    if fault:
        return Finding(name, False, f"{fault[0].upper()}{fault[1:]}.", refused)
    return Finding(name, True, "Works in this folder.")


def check_permissions(folder: Path) -> Finding:
    """Returns whether other users can read the owner's folders DIR.run and DIR.audit that lie in a folder."""
    owned = [path for path in sorted(folder.iterdir()) if path.suffix in OWNERS and path.is_dir()]
    opened = [path.name for path in owned if path.stat().st_mode & 0o077]
    if opened:
        named = ", ".join(opened[:MOST_NAMED]) + (" and more" if len(opened) > MOST_NAMED else "")
        advice = "other users can read or change releases before they are shared: chmod 700"
        return Finding("permissions", False, f"Open to other users: {named}; {advice}.", ("the guarantee",))
    others = [path.name for path in owned if hasattr(os, "getuid") and path.stat().st_uid != os.getuid()]
    if others:
        return Finding("permissions", None, f"These folders belong to another user: {', '.join(others[:MOST_NAMED])}.")
    return Finding("permissions", True, f"All {len(owned)} owner's folders in {folder} are closed to other users.")
