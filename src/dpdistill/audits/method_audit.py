"""Audits a method: replays a run on changed records with the same releases, and compares all outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.audits.hidden_arrays import held
from dpdistill.audits.neighbours import (
    choose,
    random_records,
    rarest,
    with_all_but_one_replaced,
    with_one_replaced,
    without,
)
from dpdistill.audits.new_process import OPENED, Job, packed, replay_fresh
from dpdistill.audits.noiseless_sums import Exact
from dpdistill.audits.observe import Observation, differences, observe
from dpdistill.audits.replay import Procedure, Recording, Tape
from dpdistill.method import Method, Progress, no_progress
from dpdistill.query import ROUNDING_SHARE, LinearQuery
from dpdistill.storage.records import Records

TOLERANCE = 1e-6
"""Tolerance on a sum's movement over the clip norm, for float64 sums: far below the paid rounding error."""
SAME, ALL = "no record changed", "all records replaced"
FRESH, FRESH_TWICE = f"{ALL}, in a fresh process", f"{ALL} in two ways, in two fresh processes"


@dataclass(frozen=True)
class Replay:
    """One replay on changed records with the recorded releases.

    Args:
        change: description of the changed records.
        moved: movement of each round's sum over the paid sensitivity, at most 1; empty if more than one record differs.
        differ: other outputs that differ in any bit; must be empty.
    """

    change: str
    moved: tuple[float, ...] = ()
    differ: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        """Returns whether there is a difference that the budget does not cover."""
        return bool(self.differ) or max(self.moved, default=0.0) > 1.0


@dataclass(frozen=True, eq=False)
class Replays:
    """Replays of a method, with their results.

    Args:
        result: result of the recorded, paid run.
        replays: all replays.
        chosen: indices of the records removed and replaced one by one, with the reason for each.
        records: number of private records.
        held: descriptions of arrays and records in the method's code outside its fields.
        not_tried: descriptions of replays that were not possible.
    """

    result: run.Result
    replays: tuple[Replay, ...]
    chosen: Mapping[int, str]
    records: int
    held: tuple[str, ...] = ()
    not_tried: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        """Returns whether any replay or the method's code reveals more than the budget covers."""
        return bool(self.held) or any(each.found for each in self.replays)

    @property
    def undecided(self) -> bool:
        """Returns whether two runs on the same records and releases differ, so that no conclusion is possible."""
        return any(each.found for each in self.replays if each.change == SAME)

    @property
    def largest(self) -> float:
        """Returns the largest movement of a sum over the paid sensitivity."""
        return max((m for each in self.replays for m in each.moved), default=0.0)

    def __str__(self) -> str:
        if self.undecided:
            return "Nothing can be said: two runs on the same records and releases differ"
        n = len(self.chosen)
        tried = f"for the {n:,} record{'s' * (n != 1)} tried, of {self.records:,}, in {len(self.replays):,} replays"
        return f"{'A leak was found' if self.found else 'No leak was found'} {tried}"


def replay_method(
    records: Records,
    method: Method | Callable[[Records], Method],
    budget: Budget,
    *,
    chosen: int | Iterable[int] = 3,
    seed: int = 0,
    distill: Callable[..., run.Result] = run.distill,
    fresh: bool = True,
    private_files: Iterable[str] = (),
    progress: Progress = no_progress,
    **paid: Any,
) -> Replays:
    """Runs a method once, and replays it on changed records with the recorded releases.

    Every output, state, file, log line and message of these replays must equal that of the first bit for bit, since a
    method may learn of records by releases alone. The replays: no record changed (a control), each chosen record
    removed and replaced, all records but one replaced, and all replaced in a process that has never seen the records.
    Each sum without noise must move by at most the sensitivity where one record is removed or replaced.

    Args:
        records: the private records.
        method: a private method; or a function from records to one, if building the method reads the records. The
            function is called again for every replay.
        budget: budget of the run, for single records.
        chosen: number of records to try (single members of a class, outliers and duplicates first), or their indices.
        seed: seed of everything public, and of the choice.
        distill: called instead of `run.distill`; must pass its keyword arguments on to it.
        fresh: also replay with all records replaced in a new process, which takes a few seconds.
        private_files: files and folders of the records; a method that opens one of them in a replay is detected.
        progress: receives the rounds and steps of the first run, and the replays.
        paid: further arguments of the first run: ledger, label, workers, entropy.

    Raises:
        ValueError: a budget that protects units, or an index out of range.

    Guarantee: none: this reads the private records. The run's result alone is covered by its certificate.
    Source: after dp-recorder (arXiv 2602.17454).
    """
    if budget.unit is not None:
        raise ValueError("Expected a budget of single records: one record is removed, not all of a unit.")
    tried = _tried(records, chosen, seed)
    procedure = Procedure(method, distill, budget, seed)
    tape = Tape()
    result, first = observe(procedure, records, tape, progress, **paid)
    assert result is not None
    replaying = _Replaying(procedure, tape.recordings, first, budget.adjacency, seed)
    jobs, replays = replaying.jobs(records, tried), []
    for done, job in enumerate(jobs):
        replays.append(job())
        progress("replaying", done + 1, len(jobs) + 1)
    made, not_tried = replaying.all_replaced(records, tuple(private_files), fresh)
    progress("replaying", len(jobs) + 1, len(jobs) + 1)
    replays.append(made)
    holds = held(method) if isinstance(method, Method) else ()  # a function builds its method from the records
    return Replays(result, tuple(replays), tried, len(records), holds, not_tried)


def _tried(records: Records, chosen: int | Iterable[int], seed: int) -> dict[int, str]:
    if isinstance(chosen, int):
        return choose(records, chosen, seed)
    stated = {int(i): "stated" for i in chosen}
    for i in stated:
        if not 0 <= i < len(records):
            raise ValueError(f"Expected indices of records from 0 to {len(records) - 1}; got {i}.")
    return stated


@dataclass
class _Replaying:
    """Runner of replays of one recorded run."""

    procedure: Procedure
    recordings: list[Recording]
    first: Observation
    adjacency: str
    seed: int

    def jobs(self, records: Records, tried: Iterable[int]) -> list[Callable[[], Replay]]:
        """Returns the replays in this process, except that of all records replaced, as functions."""
        rounds = [each for recording in self.recordings for each in recording.rounds]
        exact, chosen = Exact(records), list(tried)
        whole = [exact.sum(*each) for each in rounds] if chosen else []

        def removed(i: int) -> Replay:
            moved = _moved(rounds, whole, exact.without(i), 1.0)
            return self._replay(without(records, i), f"record {i} removed", moved)

        def replaced(i: int) -> Replay:
            other = with_one_replaced(records, i, self.seed)
            moved = _moved(rounds, whole, exact.with_records(other), 2.0)
            return self._replay(other, f"record {i} replaced", moved)

        def others_replaced(i: int) -> Replay:
            return self._replay(with_all_but_one_replaced(records, i, self.seed), f"all but record {i} replaced")

        one_by_one = (removed, replaced) if self.adjacency == "add-remove" else (replaced,)
        jobs: list[Callable[[], Replay]] = [lambda: self._replay(records, SAME)]
        jobs += [partial(others_replaced, i) for i in chosen[:1]]
        return jobs + [partial(change, i) for i in chosen for change in one_by_one]

    def all_replaced(self, records: Records, private: tuple[str, ...], fresh: bool) -> tuple[Replay, tuple[str, ...]]:
        """Replays with all records replaced, if possible in a new process; returns impossible replays as well."""
        n, rare = _number(len(records), self.adjacency), rarest(records)
        job = self._job(records, n, rare, private) if fresh else None
        if job is None:
            why = "the method cannot be imported there" if fresh else "not asked for"
            other = random_records(records.schema, n, records.X.dtype, self.seed, rare)
            return self._replay(other, ALL), (f"{FRESH}: {why}",)
        seen = replay_fresh(job)
        if not (differ := differences(self.first, seen)):
            return Replay(FRESH), ()
        if any(name.endswith(OPENED) for name in differ):
            return Replay(FRESH, (), differ), ()
        # A new process may differ in low bits: then two new processes are compared with each other.
        n, other = n + (n != len(records)), (rare + 1) % records.classes
        again = self._job(records, n, other, private)
        assert again is not None
        if differences(seen, replay_fresh(again)):
            return Replay(FRESH, (), differ), ()
        return Replay(FRESH_TWICE), (f"{FRESH}, against the first run: other low bits of {', '.join(differ[:3])}",)

    def _job(self, records: Records, n: int, majority: int, private: tuple[str, ...]) -> bytes | None:
        asked = tuple(each.without_questions() for each in self.recordings)
        drawn = (records.schema, n, records.X.dtype.str, (self.seed, majority), majority)
        return packed(Job(self.procedure, asked, *drawn, private))

    def _replay(self, records: Records, change: str, moved: tuple[float, ...] = ()) -> Replay:
        _, seen = observe(self.procedure, records, Tape(self.recordings))
        return Replay(change, moved, differences(self.first, seen))


def _moved(rounds: list, whole: list[np.ndarray], rest: Exact, records: float) -> tuple[float, ...]:
    """Returns each sum's movement over the contribution of one record (removed) or two records (replaced)."""
    found = []
    for (query, params, release), total in zip(rounds, whole, strict=True):
        allowed = 1.0 + TOLERANCE + (ROUNDING_SHARE if isinstance(query, LinearQuery) else 0.0)
        moved = float(np.linalg.norm(total - rest.sum(query, params, release)))
        found.append(moved / (records * query.clip_norm * allowed))
    return tuple(found)


def _number(n: int, adjacency: str) -> int:
    """Returns the number of replacement records, changed if the number is private."""
    if adjacency == "replace-one":
        return n
    return n // 2 + 1 if n > 2 else n + 1
