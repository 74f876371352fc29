"""What a run takes on this machine, before anything is paid: its own steps, timed on random records."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import count
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.accounting.schedule import Schedule
from dpdistill.ledger.run import MEMORY, RunLedger
from dpdistill.method import Distilled, Method
from dpdistill.private.curator import Curator
from dpdistill.programs.compiled import encode_rows
from dpdistill.query import ByValue, Compute, Encoder, Query, Release, Stage
from dpdistill.run.checkpoint import EVERY
from dpdistill.run.non_private import NonPrivateCurator
from dpdistill.schema import AnySchema
from dpdistill.storage.records import Records

try:
    import resource
except ImportError:  # Windows
    resource = None

ROUNDS = 12
"""Rounds of a stage that are tried: some methods do more in every tenth."""
LEAST_ROUNDS = 3
ENOUGH = 2.0
"""Seconds after which a part of a trial is long enough."""
MOST_BYTES = 1 << 26
"""Of random records."""
MORE, TOLD = 8, 0.1
"""So many times the random records of before, until a round takes twice as long, and so many seconds longer."""
STEPS = {"steps": 60, "generator_steps": 70}
"""Steps of `finish` that are tried, by the field that counts them: different ones, so that each is told by its own.

Generators report every 50th step, and what is slow before the first report is not repeated.
"""
LESSON = {"taught": 5, "pictures": 64}
"""Networks that learn between two rounds, and their pictures, that are tried; then two and three times as many."""


@dataclass(frozen=True)
class Capacity:
    """What a run of some number of records takes here; an estimate.

    Args:
        records: how many.
        compiling: seconds until programs are compiled and tested.
        encoding: seconds for features of all records, which are made once.
        releasing: seconds of all rounds.
        finishing: seconds of all steps after the last round.
        memory: bytes that this process has had at most, and that a run needs beside records and features.
        features: bytes of the records' features, which are kept in memory or in the owner's folder.
        disk: bytes of ledger, checkpoints and synthetic records.
    """

    records: int
    compiling: float
    encoding: float
    releasing: float
    finishing: float
    memory: int
    features: int
    disk: int

    @property
    def seconds(self) -> float:
        """Of all parts."""
        return self.compiling + self.encoding + self.releasing + self.finishing


def capacity(
    method: Method, schema: AnySchema, records: int, schedule: Schedule | None = None, seed: int = 0
) -> Capacity:
    """Returns what a run takes, found by trying its parts on random records: no record of anybody is read.

        seconds = compiling + n encoding + sum over the stages of rounds (a + b chunks(n))

    a and b are those of two numbers of random records; chunks(n) is what the places of n records need. Steps of
    `finish` are timed on random releases, from which the time of more steps follows. Networks that learn between two
    rounds are timed on few pictures and take longer by as many as there are.

    Args:
        method: a distiller.
        schema: of the records.
        records: how many, >= 1: a public number, or one that only the owner is told the answer for.
        schedule: the noise of every round; None without a guarantee.
        seed: of the run.

    Raises:
        ValueError: records < 1, or a recipe that does not fit the schema.
    """
    if records < 1:
        raise ValueError(f"Expected records={records} >= 1.")
    began = time.perf_counter()
    key, whole, method = jax.random.key(seed), method, _fewer(method, LESSON)
    plan, t, state, ledger = method.plan(), 0, method.init(key, schema), 0.0
    more = _bytes(jax.tree.leaves(whole.init(key, schema))) - _bytes(jax.tree.leaves(state))
    parts, encoders = np.array([_since(began), 0.0, 0.0]), {}
    for k, stage in enumerate(plan):
        trial = _Trial(method, schema, stage, schedule and schedule.noise_multipliers[k], schedule, records, whole)
        found = trial.run(state, t, encoders, last=k + 1 == len(plan))
        parts, state, t = parts + found.seconds, found.state, t + stage.rounds
        # A checkpoint frees the values of the rounds that it includes.
        rounds = min(stage.rounds, 1 + EVERY * stage.rounds / max(found.seconds[2], 1e-9))
        ledger += found.release.value.nbytes * rounds
    finishing, made = _finish(method, state, schema)
    compiling, encoding, releasing = map(float, parts)
    rows, kept = rows_per_unit(schedule), encoders if t > 1 else ()
    return Capacity(
        records=records,
        compiling=compiling,
        encoding=encoding,
        releasing=releasing,
        finishing=finishing,
        memory=_peak(),
        features=sum(_feature_bytes(key.value, schema, size, records / rows, rows) for key, size in kept),
        disk=int(ledger) + 2 * (_bytes(jax.tree.leaves(state)) + more) + _set_bytes(made),
    )


class _Found(NamedTuple):
    """Of a stage: seconds of compiling, encoding and releasing, the state that comes next, one of its releases."""

    seconds: np.ndarray
    state: Any
    release: Release


@dataclass(frozen=True)
class _Trial:
    """A stage of a plan on random records, by the curator that the run would have."""

    method: Method
    schema: AnySchema
    stage: Stage
    noise_multiplier: float | None
    schedule: Schedule | None
    records: int
    whole: Method
    """The method with all that it learns from between two rounds."""

    def run(self, state: object, t: int, encoders: dict[tuple[ByValue, int], float], last: bool) -> _Found:
        """Returns what the stage takes.

        Args:
            state: before the stage.
            t: its first round.
            encoders: seconds a chunk of those of earlier stages, to which its own is added.
            last: whether no stage follows: then the state need not be that after all rounds.
        """
        began = time.perf_counter()
        query, _ = self.method.ask(state)
        first, size = _since(began), self._size(query)
        few = min(self.records, size * rows_per_unit(self.schedule))
        curator, numbers = self._curator(few), count()
        cold, _, _ = self._rounds(state, t, curator, numbers)
        warm, after, release = self._rounds(state, t, curator, numbers, len(cold))
        encoding, key = 0.0, (ByValue(query.encoder), size)
        if query.encoder is not None and key not in encoders:
            encoders[key] = _encoder_seconds(query.encoder, self.schema, size)
            encoding = encoders[key] * self._chunks(self.records, size)
        a_chunk = encoders.get(key, 0.0)
        compiling = first + max(0.0, sum(cold) - sum(warm) - a_chunk * self._chunks(few, size))
        rounds = self._seconds_of_round(state, t, size, warm, a_chunk) * self.stage.rounds
        rounds += self._lesson(state, replace(release, round=t))
        for later in () if last else range(t + len(cold), t + self.stage.rounds):
            after = self.method.tell(after, replace(release, round=later))
        return _Found(np.array([compiling, encoding, rounds]), after, release)

    def _lesson(self, state: object, release: Release) -> float:
        """Seconds of what is learned after the first round of the stage beyond what the trial has learned.

        Of a networks and p pictures: (by_picture + a by_both) p and what does not depend on them.
        """
        (a, p), (networks, pictures) = (
            [vars(method).get(name, 0) for name in LESSON] for method in (self.method, self.whole)
        )
        networks = min(networks, vars(self.whole).get("networks", networks))  # no more learn than there are
        if networks * pictures <= a * p:
            return 0.0

        def seconds(**more: int) -> float:
            method, began = replace(self.method, **more), time.perf_counter()
            method.tell(state, release)
            return _since(began)

        seconds(taught=2 * a, pictures=3 * p)  # which compiles
        few, longer, both = seconds(), seconds(pictures=3 * p), seconds(taught=2 * a, pictures=3 * p)
        by_both = max(0.0, both - longer) / (3 * a * p)
        by_picture = max(0.0, (longer - few) / (2 * p) - a * by_both)
        return by_picture * (pictures - p) + by_both * (networks * pictures - a * p)

    def _seconds_of_round(self, state: object, t: int, size: int, warm: list[float], encoding: float) -> float:
        """Of a round over all records: on the line through those of a few random records and of many."""
        few, seconds = min(self.records, size * rows_per_unit(self.schedule)), float(np.median(warm))
        many, most, longer = few, self._most(size, encoding), seconds
        while many < most and longer - seconds < max(seconds, TOLD):
            many = min(most, MORE * many)
            curator, numbers = self._curator(many), count()
            self._rounds(state, t, curator, numbers, 2)  # which encode and test: once more where parameters were zeros
            longer = float(np.median(self._rounds(state, t, curator, numbers, LEAST_ROUNDS)[0]))
        low, high, wanted = (self._chunks(n, size, self.stage.sampling_prob) for n in (few, many, self.records))
        slope = max(0.0, longer - seconds) / max(high - low, 1e-9)
        return float(np.mean(warm)) + slope * (wanted - low)

    def _rounds(
        self, state: Any, t: int, curator: Any, numbers: Iterator[int], most: int = ROUNDS
    ) -> tuple[list[float], Any, Release]:
        """Seconds of each of some rounds, the state after them, and the last release.

        The last round of the stage is repeated where there are fewer.
        """
        seconds: list[float] = []
        told, release = state, None
        while len(seconds) < most and (len(seconds) < LEAST_ROUNDS or sum(seconds[1:]) < ENOUGH):
            began, i = time.perf_counter(), min(len(seconds), self.stage.rounds - 1)
            state = told if len(seconds) == i else state
            release = replace(curator.release(next(numbers), *self.method.ask(state)), round=t + i)
            told = self.method.tell(state, release)
            seconds.append(_since(began))
        assert release is not None
        return seconds, told, release

    def _curator(self, n: int) -> Any:
        """A curator of random records, with rounds for two tries."""
        rows = rows_per_unit(self.schedule)
        units = None if self.schedule is None or self.schedule.budget.unit is None else np.arange(n) // rows
        rng, stage = np.random.default_rng(0), replace(self.stage, rounds=2 * ROUNDS)
        raw = self.schema.from_unit(rng.uniform(-1.0, 1.0, (n, *self.schema.shape)))
        records = Records(raw, rng.integers(0, len(self.schema.classes), n), self.schema, (), units)
        if self.schedule is None:
            return NonPrivateCurator(records, [stage.sampling_prob] * stage.rounds, 0)
        assert self.noise_multiplier is not None
        schedule = Schedule((stage,), (self.noise_multiplier,), self.schedule.budget)
        return Curator(records, schedule, RunLedger.open(MEMORY, {}, schedule, b"random records"))

    def _size(self, query: Query) -> int:
        """Units of a chunk."""
        k = rows_per_unit(self.schedule)
        return Compute().units_of(query, self.schema, self.stage.sampling_prob, k)

    def _chunks(self, n: int, size: int, sampling_prob: float = 1.0) -> float:
        return chunks(n * sampling_prob / rows_per_unit(self.schedule), size)

    def _most(self, size: int, encoding: float) -> int:
        """So many random records that encoding them takes ENOUGH seconds; never more than all."""
        most = min(self.records, MOST_BYTES // (4 * self.schema.dimension))
        return min(most, int(size * rows_per_unit(self.schedule) * ENOUGH / encoding)) if encoding else most


def rows_per_unit(schedule: Schedule | None) -> int:
    """The most records that stand together in a chunk."""
    return 1 if schedule is None else schedule.budget.rows_per_unit


def chunks(n: float, size: int) -> float:
    """Chunks that n units at independent places need on average: as many as the fullest of `size` places holds."""
    return float(np.random.default_rng(0).poisson(n / size, (100, size)).max(1).mean())


def _finish(method: Method, state: object, schema: AnySchema) -> tuple[float, Distilled]:
    """Seconds of `finish`, and what it makes; steps beyond those of a trial take what the last of these took."""
    short = _fewer(method, STEPS)
    wanted = {tried: full for name, tried in STEPS.items() if (full := getattr(method, name, 0)) > tried}
    reports: dict[int, list[tuple[int, float]]] = {}
    began = time.perf_counter()

    def progress(stage: str, done: int, total: int) -> None:
        reports.setdefault(total, []).append((done, _since(began)))

    made = short.finish(state, schema, progress)
    seconds = whole = _since(began)
    for steps, full in wanted.items():
        (first, start), (end, stop) = (0, 0.0), (steps, whole)
        if len(heard := reports.get(steps, [])) > 1:
            (first, start), (end, stop) = heard[0], heard[-1]
        seconds += (full - steps) * (stop - start) / (end - first)
    return seconds, made


def _fewer(method: Method, most: dict[str, int]) -> Method:
    """The method with no more in these fields, where it has them, than a trial takes."""
    named = {field.name for field in fields(method)} & {*most}
    return replace(method, **{name: most[name] for name in named if getattr(method, name) > most[name]})


def _since(began: float) -> float:
    """Seconds until all that was asked of the device is done."""
    jax.block_until_ready(jax.live_arrays())
    return time.perf_counter() - began


def _encoder_seconds(encoder: Encoder, schema: AnySchema, size: int) -> float:
    """Of a compiled call for a chunk of random records: the median of a few."""
    X, same = np.random.default_rng(0).uniform(-1.0, 1.0, (size, *schema.shape)).astype(np.float32), ByValue(encoder)

    def once() -> float:
        began = time.perf_counter()
        with jax.enable_x64(False), jax.default_matmul_precision("highest"):
            np.asarray(encode_rows(same, X))
        return time.perf_counter() - began

    once()
    seconds: list[float] = []
    while len(seconds) < LEAST_ROUNDS or (len(seconds) < ROUNDS and sum(seconds) < ENOUGH):
        seconds.append(once())
    return float(np.median(seconds))


def _feature_bytes(encoder: Encoder, schema: AnySchema, size: int, units: float, rows: int) -> int:
    one = jax.eval_shape(encoder, jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32))
    return int(chunks(units, size) * size * rows) * one.size * one.dtype.itemsize


def _bytes(leaves: Any) -> int:
    return sum(np.asarray(leaf).nbytes for leaf in leaves)


def _set_bytes(made: Distilled) -> int:
    """Of the arrays of a synthetic set, and of its generator's."""
    arrays = [made.X, made.y, made.targets, made.classifier, made.soft_labels, *(made.training or ())]
    generator = getattr(made.generator, "weights", ())
    return _bytes([array for array in (*arrays, *generator) if array is not None])


def _peak() -> int:
    """Bytes of memory that this process has had at most; 0 where the system does not tell."""
    if resource is None:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
