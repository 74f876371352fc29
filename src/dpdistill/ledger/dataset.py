"""The ledger of a data set: the joint spending of all its runs, under one cap."""

from __future__ import annotations

import getpass
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date as Date
from numbers import Real
from pathlib import Path
from typing import Any

from dpdistill.accounting.bounds import Group
from dpdistill.accounting.pld import compose
from dpdistill.accounting.schedule import MAX_EPSILON, MIN_EPSILON, Budget, Schedule, calibrate
from dpdistill.errors import LedgerError
from dpdistill.ledger import dataset_rows as rows
from dpdistill.ledger.chain import Entry
from dpdistill.ledger.dataset_rows import LedgerRun, Nonces
from dpdistill.ledger.register import Register
from dpdistill.ledger.store import store_of
from dpdistill.query import Stage


@dataclass(frozen=True)
class LedgerSummary:
    """Joint spending of the runs on a data set.

    Args:
        runs: the runs, in order.
        delta: the delta of the first run, at which all are composed; None before it.
        adjacency: the relation of all runs; None before the first.
        cap: the epsilon that all runs may spend together.
        spent: their composed epsilon.
        left: the largest epsilon of one more full-batch run that still fits the cap, rounded down. It is not cap -
            spent: epsilons do not add up.
        head: head of the ledger's chain; None for a ledger of an earlier version that no run has used since.
    """

    runs: tuple[LedgerRun, ...]
    delta: float | None
    adjacency: str | None
    cap: float
    spent: float
    left: float
    head: str | None = None


class DatasetLedger:
    """The ledger of a data set across runs: `begin` creates its file and fixes the cap; its first run fixes the
    records.

    Args:
        file: the ledger's file, or postgresql://user@host/database#ledger. No run creates it: a missing, empty or
            truncated file is refused.

    Guarantee:
        *Cap.* All reserved runs together are (cap, delta)-DP at the first run's delta, if their schedules were fixed
        beforehand. For runs of full batches alone that also holds when a schedule was chosen after seeing earlier
        releases: the sum of their mu^2 is a filter of Gaussian differential privacy. For runs with sampling that were
            chosen so, it
        is not proven: the privacy loss distributions are composed as if the schedules had been fixed.

        *Copies.* However often a run's folder is copied or restored, no round is released with two values. With every
        round the run's ledger draws a random nonce, in the round's transaction, and keeps the previous one; this file
        keeps one nonce per run. A round is released, and a run resumes, only after `advance` or `reserve` has found one
        of the folder's two nonces here and replaced it by the later one. So once round t is released by a folder with
        nonces (a, b), b or a later one is here. Only that folder, and copies made of it since, have b, with the same
        value of round t. All others have a and older nonces, or their own b', which was refused here before its round
        was released; they are refused for ever, as the nonce here never returns to an earlier one.

        *Crashes.* The folder that ran last is never locked out: killed between the two commits it has (a, b), and a is
        here; killed at any other moment, its later nonce is here.

        *Restored copies of this file.* Every payment adds an entry to a chain of hashes, and a certificate states the
        chain's head. A file restored from a copy lacks the heads of later certificates: `check_heads` shows that.
        Without these certificates a folder and a file restored together look like the first ones.

    Source:
        Smith and Thakurta 2022, Fully Adaptive Composition for Gaussian Differential Privacy (the filter).
    """

    def __init__(self, file: str | os.PathLike) -> None:
        self._store = store_of(file)
        self.name = self._store.name

    @classmethod
    def begin(cls, file: str | os.PathLike, cap: float) -> DatasetLedger:
        """Creates the file of a new ledger atomically.

        Args:
            file: path; neither a file nor the journal of an earlier ledger may exist there.
            cap: the epsilon that all runs may spend together, > 0; it never changes.

        Returns:
            The ledger, without runs and not yet bound to records.

        Raises:
            LedgerError: a cap that is not positive and finite, an existing file, or a file that cannot be created.
        """
        if isinstance(cap, bool) or not isinstance(cap, Real) or not 0.0 < cap < math.inf:
            raise LedgerError(f"Expected 0 < cap={cap!r:.80} < inf.")
        ledger = cls(file)
        ledger._store.begin(float(cap))
        return ledger

    def bind(self, digest_of: Callable[[bytes], bytes]) -> None:
        """Binds the ledger to the records of the runs, before any release; the first call decides.

        Args:
            digest_of: digest of the records by a key of 32 bytes, which belongs to this ledger.

        Raises:
            LedgerError: the ledger belongs to other records, or the file has no ledger.
        """
        with self._store.reading() as db:
            key = rows.terms(db, self.name)[1]
        digest = digest_of(key)
        with self._store.writing() as db:
            stored = rows.terms(db, self.name)[2]
            if stored is None:
                db.execute("UPDATE ledger SET digest = ?", (digest,))
            elif stored != digest:
                raise LedgerError(
                    f"{self.name} is the ledger of other records (or of these, read with other options): use the"
                    " ledger of this data set, or begin one for it: dpdistill budget new FILE --cap EPSILON."
                )

    def reserve(
        self,
        run_id: str,
        label: str,
        schedule: Schedule,
        nonces: Nonces,
        date: str | None = None,
        payer: str | None = None,
    ) -> float:
        """Pays for all rounds of a run, before it reads any record; a run in the ledger pays nothing again.

        Args:
            run_id: the run's random name, `RunLedger.run_id`.
            label: name of the run, chosen by the owner.
            schedule: schedule of the run, which states its cost.
            nonces: nonces of the run's folder.
            date: ISO date, today's by default.
            payer: name of the person who pays; by default DPDISTILL_USER, else the user's name on this machine.

        Returns:
            The composed epsilon of all runs, this one included.

        Raises:
            LedgerError: the run would exceed the cap of the ledger or of a register, states another relation or
                schedule, was resumed in another copy of its folder, no records are bound, or the file is no ledger.
        """
        day, payer = date or Date.today().isoformat(), _user() if payer is None else payer
        run = LedgerRun(run_id, label, day, schedule, nonces[1], payer)
        with self._store.registers(lock=True) as registers, self._store.writing() as db:
            (cap, _, digest), runs = rows.terms(db, self.name), rows.runs(db)
            rows.checked_chain(db, cap, self.name)
            if digest is None:
                raise LedgerError(f"Expected the records of {self.name} to be stated before a run on them is paid.")
            spent = self._admit(runs, cap, run, nonces)
            if any(other.run_id == run_id for other in runs):  # paid already
                db.execute("UPDATE runs SET nonce = ? WHERE run_id = ?", (run.nonce, run_id))
            else:
                self._admit_in(registers, (*runs, run))
                rows.add_run(db, run)
        return spent

    def advance(self, run_id: str, nonces: Nonces) -> None:
        """Notes that a run has committed a round, before the round is released.

        Args:
            run_id: a reserved run.
            nonces: nonces of the run's folder: of the previous round, and of this round.

        Raises:
            LedgerError: the run was resumed in another copy of its folder, or the file cannot be written.
        """
        with self._store.writing() as db:
            result = db.execute("SELECT nonce FROM runs WHERE run_id = ?", (run_id,)).fetchone()
            self._check_latest(result[0] if result else "", nonces)
            db.execute("UPDATE runs SET nonce = ? WHERE run_id = ?", (nonces[1], run_id))

    def complete(self, run_id: str) -> str:
        """Notes in the chain that the last round of a run is released; a second call changes nothing.

        Args:
            run_id: a reserved run.

        Returns:
            The head of the chain for the run's certificates, 64 hexadecimal digits.

        Raises:
            LedgerError: the run is not in the ledger, or the file cannot be written.
        """
        with self._store.writing() as db:
            if db.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone() is None:
                raise LedgerError(f"Run {run_id} is not in {self.name}: it cannot be complete.")
            return rows.complete(db, run_id)

    def holds(self, run_id: str) -> bool:
        """Returns whether a run is paid in the ledger.

        Raises:
            LedgerError: the file has no ledger, or cannot be read.
        """
        with self._store.reading() as db:
            return db.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone() is not None

    def chain(self) -> tuple[Entry, ...]:
        """Returns the entries of the chain, checked; none for a ledger of an earlier version.

        Raises:
            LedgerError: the file has no ledger, or its runs are not those of its chain.
        """
        return self._read()[2]

    def check_first(self, epsilon: float) -> None:
        """Refuses a file that is no ledger, and an epsilon over the cap for a first run; nothing is composed.

        Args:
            epsilon: epsilon of the budget.

        Raises:
            LedgerError: no ledger, an epsilon over the cap, or a folder that cannot be written to.
        """
        self._store.check_writable()
        cap, runs, _ = self._read()
        if not runs and epsilon > cap:
            raise LedgerError(f"Expected a run within the cap of {cap} in {self.name}; got epsilon={epsilon:g}.")

    def check(self, schedule: Schedule, run_id: str = "", nonces: Nonces = ("", "")) -> float:
        """Raises the errors of `reserve` without writing anything, to refuse a run before its records are opened.

        Args:
            schedule: schedule of the run, which states its cost.
            run_id: its random name; empty for a run without one.
            nonces: nonces of its folder.

        Returns:
            The composed epsilon of all runs, this one included.

        Raises:
            LedgerError: as `reserve`.
        """
        cap, runs, _ = self._read()
        run = LedgerRun(run_id, "", "", schedule, nonces[1])
        spent = self._admit(runs, cap, run, nonces)
        if all(other.run_id != run_id for other in runs):
            with self._store.registers() as registers:
                self._admit_in(registers, (*runs, run))
        return spent

    def summary(self) -> LedgerSummary:
        """Returns the runs, their joint spending, and the epsilon that still fits.

        Raises:
            LedgerError: the file has no ledger.
        """
        cap, runs, entries = self._read()
        delta, adjacency = _terms(runs)
        left, head = _left(runs, delta, adjacency, cap), entries[-1].head if entries else None
        return LedgerSummary(runs, delta, adjacency, cap, self._spent(runs), left, head)

    def _admit(self, runs: tuple[LedgerRun, ...], cap: float, run: LedgerRun, nonces: Nonces) -> float:
        """Returns the composed epsilon with the run; a run in the ledger pays nothing again, one over the cap is
        refused.
        """
        known = next((other for other in runs if other.run_id == run.run_id), None)
        if known is not None:
            if known.schedule != run.schedule:
                raise LedgerError(f"Run {run.run_id} is in {self.name} with another schedule.")
            self._check_latest(known.nonce, nonces)
            return self._spent(runs)
        spent = self._spent((*runs, run))
        if spent > cap:
            together = f"With this run the data set would have spent epsilon={spent:.6g}"
            raise LedgerError(f"{together}, over the cap of {cap} in {self.name}.")
        return spent

    def _admit_in(self, registers: Iterable[Register], runs: tuple[LedgerRun, ...]) -> None:
        """Refuses the runs of this ledger if they exceed the cap of a register together with those of its others."""
        for register in registers:
            own = Path(self.name).resolve().name
            others = {name: DatasetLedger(register.folder / name)._read()[1] for name in {*register.ledgers} - {own}}
            register.admit(others | {own: runs})

    def _check_latest(self, nonce: str, nonces: Nonces) -> None:
        if nonce not in nonces:
            raise LedgerError(
                f"{self.name} shows that this run was resumed elsewhere: its DIR.run here is a copy, or came from one."
                " Resume in the folder that ran last, or move this DIR.run away to pay for a new run."
            )

    def _spent(self, runs: tuple[LedgerRun, ...]) -> float:
        delta, adjacency = _terms(runs)
        if len({run.schedule.budget.adjacency for run in runs}) > 1:
            raise LedgerError(f"The runs in {self.name} protect {adjacency}; one of another relation cannot join them.")
        if len({run.schedule.budget.unit for run in runs}) > 1:
            unit = runs[0].schedule.budget.unit or "record"
            raise LedgerError(f"The runs in {self.name} protect one {unit}; a run for another unit cannot join them.")
        try:
            return 0.0 if delta is None else compose(_groups(runs), delta, adjacency)
        except ValueError as error:
            raise LedgerError(f"The spending of the runs in {self.name} cannot be composed: {error}") from None

    def _read(self) -> tuple[float, tuple[LedgerRun, ...], tuple[Entry, ...]]:
        """Returns the cap, the runs and the checked chain."""
        with self._store.reading() as db:
            cap, runs = rows.terms(db, self.name)[0], rows.runs(db)
            return cap, runs, rows.checked_chain(db, cap, self.name)


def _user() -> str:
    """Returns the name of the person who pays: DPDISTILL_USER, else the user's name on this machine, if it has one."""
    try:
        return os.environ.get("DPDISTILL_USER") or getpass.getuser()
    except (OSError, KeyError):
        return ""


def _terms(runs: tuple[LedgerRun, ...]) -> tuple[float | None, Any]:
    return (runs[0].schedule.budget.delta, runs[0].schedule.budget.adjacency) if runs else (None, None)


def _groups(runs: tuple[LedgerRun, ...]) -> list[Group]:
    return [group for run in runs for group in run.schedule.groups]


def _left(runs: tuple[LedgerRun, ...], delta: float | None, adjacency: Any, cap: float) -> float:
    """Returns the largest epsilon of one more full-batch run, by bisection to a ten-thousandth; the lower end fits."""
    most = min(cap, MAX_EPSILON)
    if delta is None:
        return most
    groups, low, high = _groups(runs), 0.0, most
    while high - low > 1e-4 * most:
        middle = (low + high) / 2
        fits = middle >= MIN_EPSILON
        if fits:
            one_more = calibrate((Stage(1),), Budget(middle, delta, adjacency)).groups
            fits = compose([*groups, *one_more], delta, adjacency) <= cap
        low, high = (middle, high) if fits else (low, middle)
    return low
