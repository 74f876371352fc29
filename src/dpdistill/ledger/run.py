"""The ledger of a run: its releases, each round paid for once."""

from __future__ import annotations

import json
import math
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import numpy as np

from dpdistill.accounting.schedule import Schedule
from dpdistill.errors import LedgerError, LedgerUnusable
from dpdistill.ledger import run_rows as rows
from dpdistill.ledger.database import (
    check_format,
    connect,
    is_new,
    is_of_the_disk,
    transaction,
    usable,
)
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.folder import RUN_LEDGER, archive_ledger, lock_folder, make_folder
from dpdistill.ledger.run_rows import RunRecord
from dpdistill.query import Event, Release

MEMORY = ":memory:"
PART = 1 << 28
"""Bytes of a value in one row: SQLite holds fewer than 10^9."""


class RunLedger:
    """The releases of one run: every round is committed once, before it is released.

    Guarantee:
        A round's event and value are committed in one synced transaction. So a run killed at any moment has paid for
        every value that was released, and replays a committed round instead of drawing it again. A copy of the owner's
        folder is another run that only a data set's ledger can detect: see `DatasetLedger`.
    """

    def __init__(self, db: sqlite3.Connection, lock: int | None) -> None:
        self._db, self._lock = db, lock
        self._dataset: DatasetLedger | None = None
        run_id, schedule, joined = db.execute("SELECT run_id, schedule, joined FROM run").fetchone()
        self.run_id: str = run_id
        """Random name, fixed at creation, by which a data set's ledger identifies the run."""
        self._schedule, self._joined = Schedule.from_json(schedule), bool(joined)
        self.paid = self.resume_at > 0
        """True if a round is committed here, the run is in a data set's ledger, or this is unknown."""

    @classmethod
    def open(
        cls, folder: str | Path, recipe: dict, schedule: Schedule, digest: bytes, overwrite: bool = False
    ) -> RunLedger:
        """Starts or resumes the ledger of a run and locks it until it is closed.

        Args:
            folder: the owner's folder of the run, created with mode 0700; ":memory:" keeps the ledger in memory.
            recipe: the recipe as JSON values.
            schedule: payment of every round.
            digest: digest of the records, keyed by `digest_key`.
            overwrite: archive an existing ledger (ledger-001.sqlite, ...) and start a new one.

        Raises:
            LedgerError: another process has locked it, it belongs to another run, or it cannot be read.
        """
        texts = {"recipe": _canonical(recipe), "schedule": schedule.to_json()}
        with ExitStack() as undo:
            lock = None
            if str(folder) == MEMORY:
                db = sqlite3.connect(MEMORY, isolation_level=None)
            else:
                folder = make_folder(Path(folder))
                lock = lock_folder(folder)
                undo.callback(os.close, lock)
                if overwrite:
                    archive_ledger(folder)
                db = connect(folder / RUN_LEDGER, "WAL")
            undo.callback(db.close)
            rows.start(db, texts, digest, folder)
            ledger = cls(db, lock)
            undo.pop_all()
            return ledger

    def join(self, dataset: DatasetLedger, label: str) -> None:
        """Pays for the run in a data set's ledger, which gets a note of every following round.

        Args:
            dataset: the data set's ledger, bound to the records of this run.
            label: name of the run there, chosen by the owner.

        Raises:
            LedgerError: as `DatasetLedger.reserve`.
        """
        # Noted here first: once the data set's ledger knows the run, every round must be noted there.
        with usable("The run's ledger"), transaction(self._db):
            self._db.execute("UPDATE run SET joined = 1")
        self._joined = True
        try:
            with self._paying():
                dataset.reserve(self.run_id, label, self._schedule, rows.nonces(self._db))
        except LedgerUnusable:  # an earlier start may have paid, or this one whose answer was lost
            self.paid = self.paid or _may_hold(dataset, self.run_id)
            raise
        self._dataset = dataset

    @staticmethod
    def find(folder: str | Path) -> RunRecord | None:
        """Reads a run's ledger like `read`; returns None if no run was started."""
        path = Path(folder) / RUN_LEDGER
        if not path.exists():
            return None
        with closing(connect(path, create=False)) as db:
            try:
                if is_new(db):  # killed before its first transaction
                    return None
                check_format(db, path, rows.FORMAT)
                with transaction(db, "BEGIN"):
                    return rows.record(db)
            except LedgerError:
                raise
            except (sqlite3.Error, KeyError, TypeError, ValueError) as error:
                if is_of_the_disk(error):
                    raise LedgerUnusable(f"{path} cannot be read: {error}.") from None
                raise LedgerError(f"{path} is damaged.") from None

    @staticmethod
    def read(folder: str | Path) -> RunRecord:
        """Reads a run's ledger without locking or changing it.

        Args:
            folder: the owner's folder of the run.

        Raises:
            LedgerError: the folder has no ledger, or it cannot be read.
        """
        result = RunLedger.find(folder)
        if result is None:
            raise LedgerError(f"There is no ledger at {Path(folder) / RUN_LEDGER}.")
        return result

    @property
    def resume_at(self) -> int:
        """Number of the first round that is not committed."""
        return self._db.execute("SELECT COALESCE(MAX(round) + 1, 0) FROM rounds").fetchone()[0]

    def lookup(self, round: int) -> Release | None:
        """Returns the release of a round, or None if the round is not committed.

        Args:
            round: number of the round, >= 0.

        Raises:
            LedgerError: its value was dropped, or the run belongs to a data set's ledger that it has not joined.
        """
        self._check_joined()
        columns = "noise_multiplier, sampling_prob, stddev, dtype, shape, value"
        with usable("The run's ledger"):
            row = self._db.execute(f"SELECT {columns} FROM rounds WHERE round = ?", (round,)).fetchone()
        if row is None:
            return None
        noise_multiplier, sampling_prob, stddev, dtype, shape, value = row
        if value is None:
            raise LedgerError(f"The value of round {round} was dropped after its checkpoint: resume from a checkpoint.")
        with usable("The run's ledger"):
            further = self._db.execute("SELECT value FROM further WHERE round = ? ORDER BY part", (round,))
            content = b"".join([value, *(part for (part,) in further)])
        array = np.frombuffer(content, np.dtype(dtype)).reshape(json.loads(shape)).copy()
        return Release(round, array, stddev, Event(noise_multiplier, sampling_prob))

    def commit(self, round: int, event: Event, value: np.ndarray, stddev: float) -> Release:
        """Pays for a round and stores it, in one synced transaction, and then notes it in the data set's ledger, if
        any.

        Args:
            round: number of the round: the first that is not committed.
            event: cost of the round, equal to the schedule's event.
            value: noised sum, a numeric array.
            stddev: standard deviation of its noise, > 0, finite.

        Returns:
            The release as read back: the only one to hand out.

        Raises:
            LedgerError: the round is committed, out of order or not in the schedule, its event deviates from the
                schedule, a ledger cannot be written, or the run was resumed in a copy of its folder.

        Guarantee:
            A value is released only after its event is on the disk: when this raises, nothing was released.
        """
        if not 0.0 < stddev < math.inf:
            raise LedgerError(f"Expected 0 < stddev={stddev} < inf.")
        value = np.ascontiguousarray(value) if np.ndim(value) else np.array(value)
        if value.dtype.kind not in "fiu":
            raise LedgerError(f"Expected value of numbers; got dtype {value.dtype}.")
        self._check_joined()
        row = (round, event.noise_multiplier, event.sampling_prob, float(stddev))
        content = value.reshape(-1).view(np.uint8)
        first, *further = (content[at : at + PART].data for at in range(0, max(1, content.size), PART))
        row = (*row, value.dtype.str, json.dumps(value.shape), first)
        try:
            with self._paying(), transaction(self._db):
                self._check_round(round, event)
                self._db.execute("INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                parts = ((round, i, part) for i, part in enumerate(further, 1))
                self._db.executemany("INSERT INTO further VALUES (?, ?, ?)", parts)
                self._db.execute("UPDATE run SET previous = nonce, nonce = ?", (secrets.token_hex(16),))
        except (sqlite3.Error, OverflowError) as error:
            raise LedgerUnusable(f"Round {round} could not be written to the ledger: {error}.") from None
        if self._dataset is not None:
            try:
                self._dataset.advance(self.run_id, rows.nonces(self._db))
            except BaseException:
                self.close()  # a following `lookup` must not release the round either
                raise
        stored = self.lookup(round)
        assert stored is not None
        return stored

    def complete(self) -> str | None:
        """Notes in the data set's ledger that all rounds are released; a second call changes nothing.

        Returns:
            The head of that ledger for certificates, which this ledger keeps; None without a data set's ledger.

        Raises:
            LedgerError: a round is missing, or a ledger cannot be written.
        """
        if self.resume_at != self._schedule.rounds:
            raise LedgerError(f"Expected {self._schedule.rounds} rounds to be committed; {self.resume_at} are.")
        if self._dataset is None:
            return None
        head = self._dataset.complete(self.run_id)
        with usable("The run's ledger"), transaction(self._db):
            self._db.execute("INSERT OR REPLACE INTO head VALUES (1, ?)", (head,))
        return head

    @contextmanager
    def _paying(self) -> Iterator[None]:
        """Counts the round as paid before its transaction; only an error that rolled it back revokes that."""
        before, self.paid = self.paid, True
        try:
            yield
        except (LedgerError, sqlite3.Error, OverflowError):
            self.paid = before
            raise

    def _check_joined(self) -> None:
        if self._joined and self._dataset is None:
            raise LedgerError("This run is paid in a data set's ledger: state the ledger again (--ledger FILE).")

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
        """Drops values of earlier rounds, once a synced checkpoint includes them; events stay.

        Args:
            before: the first round to keep, >= 0.
        """
        with usable("The run's ledger"), transaction(self._db):
            self._db.execute("UPDATE rounds SET value = NULL WHERE round < ?", (before,))
            self._db.execute("DELETE FROM further WHERE round < ?", (before,))

    def events(self) -> tuple[Event, ...]:
        """Events of the committed rounds, in order."""
        return rows.events(self._db)

    def close(self) -> None:
        """Closes the ledger and unlocks it; closing twice is allowed."""
        self._db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> RunLedger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _may_hold(dataset: DatasetLedger, run_id: str) -> bool:
    """Returns whether a data set's ledger has a run, or cannot be read."""
    try:
        return dataset.holds(run_id)
    except LedgerError:
        return True


def _canonical(recipe: dict) -> str:
    try:
        return json.dumps(recipe, sort_keys=True)
    except (TypeError, ValueError):
        raise LedgerError("The recipe cannot be written as JSON.") from None
