"""The ledger of a run: what it has released, each round paid for once."""

from __future__ import annotations

import fcntl
import json
import math
import os
import secrets
import sqlite3
import tempfile
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpdistill.accounting.schedule import Schedule
from dpdistill.ledger.database import (
    LedgerError,
    check_format,
    connect,
    create_tables,
    is_new,
    sync_folder,
    transaction,
)
from dpdistill.query import Event

MEMORY = ":memory:"
RUN_LEDGER = "ledger.sqlite"
_RUN_FORMAT = 0x64700001

_RUN_TABLES = (
    "CREATE TABLE run (id INTEGER PRIMARY KEY CHECK (id = 1), run_id TEXT NOT NULL, recipe TEXT NOT NULL,"
    " schedule TEXT NOT NULL, digest BLOB)",
    "CREATE TABLE rounds (round INTEGER PRIMARY KEY, noise_multiplier REAL NOT NULL, sampling_prob REAL NOT NULL,"
    " stddev REAL NOT NULL, dtype TEXT NOT NULL, shape TEXT NOT NULL, value BLOB, params BLOB)",
)


@dataclass(frozen=True, eq=False)
class StoredRelease:
    """A committed round, as read back from the ledger.

    Args:
        round: number of the round, from 0.
        value: noised sum, with the dtype and shape it was committed with.
        stddev: standard deviation of the noise, > 0, in the units of value.
        event: what was paid.
        params: the parameters or state that asked for it, as bytes.
    """

    round: int
    value: np.ndarray
    stddev: float
    event: Event
    params: bytes


@dataclass(frozen=True)
class RunRecord:
    """What a run's ledger says about it: the recipe, the schedule, and the events of the committed rounds."""

    recipe: dict
    schedule: Schedule
    events: tuple[Event, ...]


class RunLedger:
    """The releases of one run: every round is committed once, before it is handed out.

    Guarantee:
        A round's event, value and parameters are committed in one synced transaction, so a run killed at any moment
        has paid for every value anybody saw, and replays a committed round instead of drawing it again.
    """

    def __init__(self, db: sqlite3.Connection, lock: int | None, digest: bytes | None) -> None:
        self._db, self._lock = db, lock
        self.run_id: str = db.execute("SELECT run_id FROM run").fetchone()[0]
        """A random name, fixed at creation: what a data set's ledger knows the run by."""
        self._schedule = Schedule.from_json(db.execute("SELECT schedule FROM run").fetchone()[0])
        self._bound = db.execute("SELECT digest FROM run").fetchone()[0] is None
        if digest is not None:
            self.bind(digest)

    @classmethod
    def open(
        cls, folder: str | Path, recipe: dict, schedule: Schedule, digest: bytes | None = None, overwrite: bool = False
    ) -> RunLedger:
        """Start the ledger of a run, or resume it.

        Args:
            folder: the owner's folder of the run, made with mode 0700; ":memory:" keeps the ledger in memory.
            recipe: the recipe, JSON-able.
            schedule: what every round pays.
            digest: digest of the records, keyed by `digest_key`; None to `bind` it later.
            overwrite: archive a ledger that is there (ledger-001.sqlite, ...) and start anew.

        Returns:
            The ledger, locked for this process until it is closed.

        Raises:
            LedgerError: another process holds it, it belongs to another run, or it cannot be read.
        """
        texts = {"recipe": _canonical(recipe), "schedule": schedule.to_json()}
        with ExitStack() as undo:
            lock = None
            if str(folder) == MEMORY:
                db = sqlite3.connect(MEMORY, isolation_level=None)
            else:
                folder = _owner_folder(Path(folder))
                lock = _lock(folder)
                undo.callback(os.close, lock)
                if overwrite:
                    _archive(folder)
                db = connect(folder / RUN_LEDGER, "WAL")
            undo.callback(db.close)
            _start_run(db, texts, digest, folder)
            ledger = cls(db, lock, digest)
            undo.pop_all()
            return ledger

    @staticmethod
    def digest_key(folder: str | Path) -> bytes:
        """The random key of 32 bytes that the records' digest is keyed with; made once, kept in the owner's folder.

        Args:
            folder: the owner's folder of the run, or ":memory:" for a key that is not kept.

        Returns:
            The key.

        Raises:
            LedgerError: the file that holds it is damaged.
        """
        if str(folder) == MEMORY:
            return secrets.token_bytes(32)
        folder = _owner_folder(Path(folder))
        path = folder / "key"
        if not path.exists():
            # Written aside and linked: a key is there in full or not at all, and the first of two processes wins.
            handle, aside = tempfile.mkstemp(dir=folder, prefix="key-")
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(32))
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
        if len(key) != 32:
            raise LedgerError(f"Expected {path} to hold a key of 32 bytes; it is damaged.")
        return key

    @staticmethod
    def read(folder: str | Path) -> RunRecord:
        """Read a run's ledger without locking or changing it.

        Args:
            folder: the owner's folder of the run.

        Returns:
            Recipe, schedule and events.

        Raises:
            LedgerError: there is no ledger in it, or it cannot be read.
        """
        path = Path(folder) / RUN_LEDGER
        with closing(connect(path, create=False)) as db:
            try:
                check_format(db, path, _RUN_FORMAT)
                with transaction(db, "BEGIN"):
                    recipe, schedule = db.execute("SELECT recipe, schedule FROM run").fetchone()
                    return RunRecord(json.loads(recipe), Schedule.from_json(schedule), _events(db))
            except LedgerError:
                raise
            except (sqlite3.Error, KeyError, TypeError, ValueError):
                raise LedgerError(f"{path} is damaged.") from None

    @staticmethod
    def run_id_in(folder: str | Path) -> str | None:
        """The random name of the run in a folder, or None if there is no ledger in it."""
        path = Path(folder) / RUN_LEDGER
        if not path.exists():
            return None
        with closing(connect(path, create=False)) as db:
            try:
                if is_new(db):  # killed before its first transaction
                    return None
                check_format(db, path, _RUN_FORMAT)
                return db.execute("SELECT run_id FROM run").fetchone()[0]
            except (sqlite3.Error, TypeError):
                raise LedgerError(f"{path} is damaged.") from None

    def bind(self, digest: bytes) -> None:
        """State which records the run reads; a ledger bound to others is refused.

        Args:
            digest: digest of the records, keyed by `digest_key`.

        Raises:
            LedgerError: the ledger belongs to a run on other records.
        """
        with transaction(self._db):
            stored = self._db.execute("SELECT digest FROM run").fetchone()[0]
            if stored is None and self.resume_at == 0:
                self._db.execute("UPDATE run SET digest = ?", (digest,))
            elif stored != digest:
                raise _other_run("this ledger", ["records"])
        self._bound = True

    @property
    def resume_at(self) -> int:
        """Number of the first round that is not committed."""
        return self._db.execute("SELECT COALESCE(MAX(round) + 1, 0) FROM rounds").fetchone()[0]

    def lookup(self, round: int) -> StoredRelease | None:
        """The release of a round, or None if it is not committed.

        Args:
            round: number of the round, >= 0.

        Raises:
            LedgerError: its value was dropped.
        """
        row = self._db.execute(
            "SELECT noise_multiplier, sampling_prob, stddev, dtype, shape, value, params FROM rounds WHERE round = ?",
            (round,),
        ).fetchone()
        if row is None:
            return None
        noise_multiplier, sampling_prob, stddev, dtype, shape, value, params = row
        if value is None:
            raise LedgerError(f"The value of round {round} was dropped after its checkpoint: resume from a checkpoint.")
        array = np.frombuffer(value, np.dtype(dtype)).reshape(json.loads(shape)).copy()
        return StoredRelease(round, array, stddev, Event(noise_multiplier, sampling_prob), params)

    def commit(self, round: int, event: Event, value: np.ndarray, stddev: float, params: bytes = b"") -> StoredRelease:
        """Pay for a round and store it, in one synced transaction.

        Args:
            round: number of the round: the first that is not committed.
            event: what it costs, equal to the schedule's event of that round.
            value: noised sum, a numeric array.
            stddev: standard deviation of its noise, > 0, finite.
            params: the parameters or state that asked for it.

        Returns:
            The release as read back: the only one to hand out.

        Raises:
            LedgerError: the round is committed, out of order or not in the schedule, its event deviates from the
                schedule, the records are not stated, or the ledger cannot be written.

        Guarantee:
            A value is seen only after its event is on the disk: when this raises, nobody has seen it.
        """
        if not 0.0 < stddev < math.inf:
            raise LedgerError(f"Expected 0 < stddev={stddev} < inf.")
        value = np.ascontiguousarray(value) if np.ndim(value) else np.array(value)
        if value.dtype.kind not in "fiu":
            raise LedgerError(f"Expected value of numbers; got dtype {value.dtype}.")
        if not self._bound:
            raise LedgerError("Expected the records of this run to be stated before a round is committed.")
        row = (event.noise_multiplier, event.sampling_prob, float(stddev), value.dtype.str)
        blobs = (json.dumps(value.shape), value.tobytes(), params)
        try:
            with transaction(self._db):
                self._check_round(round, event)
                self._db.execute("INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (round, *row, *blobs))
        except sqlite3.Error as error:
            raise LedgerError(f"Round {round} could not be written to the ledger: {error}.") from None
        stored = self.lookup(round)
        assert stored is not None
        return stored

    def _check_round(self, round: int, event: Event) -> None:
        expected = self.resume_at
        if round < expected:
            raise LedgerError(f"Round {round} is committed already: it is replayed, never drawn again.")
        if round >= self._schedule.rounds:
            raise LedgerError(f"Round {round} is not in the schedule of {self._schedule.rounds} rounds.")
        if round > expected:
            raise LedgerError(f"Expected round {expected} next; got round {round}.")
        if event != self._schedule.event(round):
            raise LedgerError(f"The event of round {round} deviates from the schedule: {event}.")

    def drop_values(self, before: int) -> None:
        """Drop values and parameters of earlier rounds, once a synced checkpoint includes them; events stay.

        Args:
            before: the first round to keep, >= 0.
        """
        with transaction(self._db):
            self._db.execute("UPDATE rounds SET value = NULL, params = NULL WHERE round < ?", (before,))

    def events(self) -> tuple[Event, ...]:
        """The events of the committed rounds, in order."""
        return _events(self._db)

    def close(self) -> None:
        """Close the ledger and let other processes open it; closing twice is allowed."""
        self._db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> RunLedger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _events(db: sqlite3.Connection) -> tuple[Event, ...]:
    rows = db.execute("SELECT noise_multiplier, sampling_prob FROM rounds ORDER BY round").fetchall()
    return tuple(Event(*row) for row in rows)


def _canonical(recipe: dict) -> str:
    try:
        return json.dumps(recipe, sort_keys=True)
    except (TypeError, ValueError):
        raise LedgerError("The recipe cannot be written as JSON.") from None


def _other_run(name: object, differ: list[str]) -> LedgerError:
    what = " and ".join(differ)
    return LedgerError(f"Another run is kept in {name} (its {what} differ): --overwrite archives it and starts anew.")


def _start_run(db: sqlite3.Connection, texts: dict[str, str], digest: bytes | None, name: object) -> None:
    """Make the tables in one transaction with the run's row, or check that the row says the same."""
    try:
        with transaction(db):
            if is_new(db):
                create_tables(db, _RUN_TABLES, _RUN_FORMAT)
                row = (secrets.token_hex(16), texts["recipe"], texts["schedule"])
                db.execute("INSERT INTO run VALUES (1, ?, ?, ?, NULL)", row)
            check_format(db, name, _RUN_FORMAT)
            recipe, schedule, stored = db.execute("SELECT recipe, schedule, digest FROM run").fetchone()
            same = {"recipe": recipe == texts["recipe"], "schedule": schedule == texts["schedule"]}
            same["records"] = None in (digest, stored) or digest == stored
            if not all(same.values()):
                raise _other_run(name, [what for what in same if not same[what]])
    except sqlite3.Error as error:
        raise LedgerError(f"The ledger in {name} cannot be used: {error}.") from None


def _owner_folder(folder: Path) -> Path:
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True)
            sync_folder(folder.parent)
        folder.chmod(0o700)
    except OSError as error:
        raise LedgerError(f"The run's folder cannot be made: {error}.") from None
    return folder


def _lock(folder: Path) -> int:
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise LedgerError(f"Another process is using {folder}: wait until it ends.") from None
    return handle


def _archive(folder: Path) -> None:
    path = folder / RUN_LEDGER
    if not path.exists():
        return
    number = 1
    while (archived := folder / f"ledger-{number:03d}.sqlite").exists():
        number += 1
    with suppress(LedgerError, sqlite3.Error), closing(connect(path)) as db:  # a damaged one is archived as it is
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    # The main file last: until then the old ledger is whole, or was damaged before.
    for suffix in ("-wal", "-shm", ""):
        part = folder / (RUN_LEDGER + suffix)
        if part.exists():
            part.rename(f"{archived}{suffix}")
    sync_folder(folder)
