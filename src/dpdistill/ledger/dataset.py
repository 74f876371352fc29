"""The ledger of a data set: what all runs on it have spent together, under one cap."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date as Date
from pathlib import Path
from typing import Any

from dpdistill.accounting.schedule import Budget, Group, Schedule, calibrate, compose
from dpdistill.ledger.database import LedgerError, check_format, connect, create_tables, is_new, transaction
from dpdistill.query import Event, Stage

_DATASET_FORMAT = 0x64700002
_DATASET_TABLES = (
    "CREATE TABLE ledger (id INTEGER PRIMARY KEY CHECK (id = 1), cap REAL)",
    "CREATE TABLE runs (number INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, label TEXT NOT NULL,"
    " date TEXT NOT NULL, schedule TEXT)",
)


@dataclass(frozen=True)
class LedgerRun:
    """One run in a data set's ledger: its schedule is None when it had no privacy guarantee."""

    run_id: str
    label: str
    date: str
    schedule: Schedule | None


@dataclass(frozen=True)
class LedgerSummary:
    """What the runs on a data set have spent together.

    Args:
        runs: the runs, in order.
        delta: the delta of the first private run, at which all are composed; None before it.
        adjacency: the relation of all runs; None before the first private run.
        cap: the epsilon they may spend together, or None.
        spent: their composed epsilon; infinite when one of them had no guarantee.
        left: the largest epsilon of one more full-batch run that still fits the cap, rounded down; None without a cap.
            It is not cap - spent: epsilons do not add up.
    """

    runs: tuple[LedgerRun, ...]
    delta: float | None
    adjacency: str | None
    cap: float | None
    spent: float
    left: float | None


class DatasetLedger:
    """The ledger kept for a data set across runs; its cap is fixed by the first run.

    Args:
        file: the ledger's file, made by the first `reserve`.
        cap: the epsilon all runs may spend together, > 0; None states no cap at creation, and keeps it later.

    Raises:
        LedgerError: a cap that is not positive and finite.

    Guarantee:
        With a cap, all reserved runs together are (cap, delta)-DP at the first run's delta, if their schedules were
        fixed beforehand. For runs of full batches alone that also holds when a schedule was chosen after seeing earlier
        releases: the sum of their mu^2 is a filter of Gaussian differential privacy. For runs with sampling that were
        chosen so, it is not proven: the privacy loss distributions are composed as if the schedules had been fixed.

    Source:
        Smith and Thakurta 2022, Fully Adaptive Composition for Gaussian Differential Privacy (the filter).
    """

    def __init__(self, file: str | Path, cap: float | None = None) -> None:
        if cap is not None and not 0.0 < cap < math.inf:
            raise LedgerError(f"Expected 0 < cap={cap} < inf.")
        self._file, self._cap = Path(file), cap

    def reserve(self, run_id: str, label: str, schedule: Schedule | None, date: str | None = None) -> float:
        """Pay for all rounds of a run, before it reads any record; a run that is there already pays nothing again.

        Args:
            run_id: the run's random name, `RunLedger.run_id`.
            label: what the owner calls it.
            schedule: what it costs; None for a run without a privacy guarantee.
            date: ISO date, today's by default.

        Returns:
            The composed epsilon of all runs, this one included.

        Raises:
            LedgerError: it would exceed the cap, states another cap, relation or schedule, or the file is no ledger.
        """
        run = LedgerRun(run_id, label, date or Date.today().isoformat(), schedule)
        text = None if schedule is None else schedule.to_json()
        with self._open(create=True) as db, transaction(db):
            cap, runs = self._read_cap(db), _runs(db)
            spent = self._admit(runs, cap, run)
            if all(known.run_id != run_id for known in runs):
                row = (run_id, label, run.date, text)
                db.execute("INSERT INTO runs (run_id, label, date, schedule) VALUES (?, ?, ?, ?)", row)
        return spent

    def check(self, run_id: str | None, schedule: Schedule | None) -> float:
        """What `reserve` would say, without writing anything: for a refusal before any record is opened.

        Args:
            run_id: the run's random name; None for a run that has none yet.
            schedule: what it costs; None for a run without a privacy guarantee.

        Returns:
            The composed epsilon of all runs, this one included.

        Raises:
            LedgerError: as `reserve`.
        """
        cap, runs = self._cap, ()
        if self._file.exists():
            with self._open(create=False) as db, transaction(db, "BEGIN"):
                cap, runs = self._read_cap(db), _runs(db)
        return self._admit(runs, cap, LedgerRun(run_id or "", "", "", schedule))

    def _admit(self, runs: tuple[LedgerRun, ...], cap: float | None, run: LedgerRun) -> float:
        """Composed epsilon with the run: one that is there already pays nothing again, one over the cap is refused."""
        known = next((other for other in runs if other.run_id == run.run_id), None)
        if known is not None:
            if known.schedule != run.schedule:
                raise LedgerError(f"Run {run.run_id} is in {self._file} with another schedule.")
            return self._spent(runs)
        spent = self._spent((*runs, run))
        if cap is not None and spent > cap:
            raise LedgerError(self._over(runs, spent, cap))
        return spent

    def summary(self) -> LedgerSummary:
        """The runs, what they have spent together, and what still fits.

        Raises:
            LedgerError: there is no ledger in the file, or it has another cap.
        """
        with self._open(create=False) as db, transaction(db, "BEGIN"):
            cap, runs = self._read_cap(db), _runs(db)
        delta, adjacency = _terms(runs)
        spent = self._spent(runs)
        left = None if cap is None else _left(runs, delta, adjacency, cap)
        return LedgerSummary(runs, delta, adjacency, cap, spent, left)

    def _spent(self, runs: tuple[LedgerRun, ...]) -> float:
        delta, adjacency = _terms(runs)
        relations = {run.schedule.budget.adjacency for run in runs if run.schedule}
        if len(relations) > 1:
            raise LedgerError(
                f"The runs in {self._file} protect {adjacency}; one of another relation cannot join them."
            )
        if any(run.schedule is None for run in runs):
            return math.inf
        try:
            return 0.0 if delta is None else compose(_groups(runs), delta, adjacency)
        except ValueError as error:
            raise LedgerError(f"What the runs in {self._file} spend cannot be composed: {error}") from None

    def _over(self, runs: tuple[LedgerRun, ...], spent: float, cap: float) -> str:
        if math.isinf(spent):
            return f"A run without a privacy guarantee cannot join {self._file}: its cap is epsilon={cap}."
        return (
            f"With this run the data set would have spent epsilon={spent:.6g}, over the cap of {cap} in {self._file}."
        )

    def _read_cap(self, db: sqlite3.Connection) -> float | None:
        if is_new(db):
            create_tables(db, _DATASET_TABLES, _DATASET_FORMAT)
            db.execute("INSERT INTO ledger VALUES (1, ?)", (self._cap,))
        check_format(db, self._file, _DATASET_FORMAT)
        cap = db.execute("SELECT cap FROM ledger").fetchone()[0]
        if self._cap is not None and self._cap != cap:
            raise LedgerError(f"Expected the cap that {self._file} was made with, {cap}; got cap={self._cap}.")
        return cap

    @contextmanager
    def _open(self, create: bool) -> Iterator[sqlite3.Connection]:
        db = connect(self._file, "DELETE", "EXTRA", create)
        try:
            yield db
        except sqlite3.Error as error:
            raise LedgerError(f"{self._file} cannot be used as a ledger: {error}.") from None
        finally:
            db.close()


def _runs(db: sqlite3.Connection) -> tuple[LedgerRun, ...]:
    rows = db.execute("SELECT run_id, label, date, schedule FROM runs ORDER BY number").fetchall()
    try:
        return tuple(
            LedgerRun(run_id, label, date, Schedule.from_json(schedule) if schedule else None)
            for run_id, label, date, schedule in rows
        )
    except (KeyError, TypeError, ValueError):
        raise LedgerError("The data set's ledger is damaged: a run in it has no schedule.") from None


def _terms(runs: tuple[LedgerRun, ...]) -> tuple[float | None, Any]:
    first = next((run.schedule.budget for run in runs if run.schedule), None)
    return (first.delta, first.adjacency) if first else (None, None)


def _groups(runs: tuple[LedgerRun, ...]) -> list[Group]:
    return [group for run in runs if run.schedule for group in run.schedule.groups]


def _left(runs: tuple[LedgerRun, ...], delta: float | None, adjacency: Any, cap: float) -> float:
    """Bisection to cap / 10,000 over the epsilon of one more full-batch run; the lower end fits."""
    if delta is None:
        return cap
    groups, low, high = _groups(runs), 0.0, cap
    while high - low > 1e-4 * cap:
        middle = (low + high) / 2
        (noise_multiplier,) = calibrate((Stage(1),), Budget(middle, delta, adjacency)).noise_multipliers
        fits = compose([*groups, (1, Event(noise_multiplier))], delta, adjacency) <= cap
        low, high = (middle, high) if fits else (low, middle)
    return low
