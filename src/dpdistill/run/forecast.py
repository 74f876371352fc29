"""Forecasts a run before anything is paid: its noise from public facts, and its time, memory and disk on this machine."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import numpy as np

from dpdistill.accounting.outlook import HOPELESS, least_epsilon, records_heard
from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.method import Distilled, Method
from dpdistill.private.checks import check_query
from dpdistill.programs import compiled
from dpdistill.query import ByValue, Compute, Encoder, LinearQuery, Params, Query, Release, Stage
from dpdistill.run.checkpoint import EVERY
from dpdistill.run.start import queries_of
from dpdistill.run.work import NOTHING, DryRun, Work, dry_run, seconds_each
from dpdistill.schema import AnySchema, DataError
from dpdistill.storage.memory import check_set_size, machine_memory

try:
    import resource
except ImportError:  # Windows
    resource = None

LARGE_CLASS = 10_000
"""Records of a class that few data sets exceed: what is hopeless for so many is hopeless, whatever is stated."""
ROUNDS = 12
"""Rounds of a stage that are counted, the others as their mean: some methods do more in every tenth."""
STEPS = {"steps": 8, "generator_steps": 8}
"""Steps of `finish` that are counted, by the field that states them; then three times as many."""
LESSON = {"taught": 5, "pictures": 64}
"""Networks that learn between two rounds, and their pictures, that are counted; then two and three times as many."""
NOISE, COMMIT = 1e-7, 5e-3
"""Seconds to draw the noise of a number, and to commit a release to the ledger."""
SUMMED = 10
"""Operations of the host on each number of a chunk's contributions: they are checked and added up as integers."""


@dataclass(frozen=True)
class Outlook:
    """Public facts about the main kind of release of a run.

    Args:
        schedule: the noise of every round.
        coordinates: numbers of one sum.
        by_class: every class has a sum of its own; otherwise there is one sum over all records.
        records: equal ones, of a class or of all, whose sum is as long as its noise.
        stated: records of a class that the caller stated, or None.
        classes: number of classes.
        least_epsilon: the smallest epsilon that is not hopeless; None where this one is not, or where none is.
    """

    schedule: Schedule
    coordinates: int
    by_class: bool
    records: float
    stated: int | None
    classes: int
    least_epsilon: float | None

    @property
    def ratio(self) -> float | None:
        """Signal-to-noise ratio of the stated number of records; None where none was stated."""
        return None if self.stated is None else self.heard_from(self.stated)

    @property
    def hopeless(self) -> bool:
        """Returns whether the stated number of records, or else LARGE_CLASS, is drowned by the noise."""
        return self.heard_from(self.reference) < HOPELESS

    @property
    def reference(self) -> int:
        """Records of a class by which hope is judged: those stated, or LARGE_CLASS."""
        return LARGE_CLASS if self.stated is None else self.stated

    def heard_from(self, class_size: int) -> float:
        """Signal-to-noise ratio of that many records a class, if they are equal."""
        return class_size * (1 if self.by_class else self.classes) / self.records


def outlook(method: Method, budget: Budget, schema: AnySchema, class_size: int | None = None, seed: int = 0) -> Outlook:
    """Returns how large the noise of a run is compared with one class, found without a record.

    Args:
        method: a distiller.
        budget: what may be spent.
        schema: of the records.
        class_size: records of a class, where that is publicly known, >= 1; never the private count.
        seed: of the run.

    Raises:
        ValueError: a class_size < 1, a plan that cannot be calibrated, or a recipe that does not fit the schema.
    """
    if class_size is not None and class_size < 1:
        raise ValueError(f"Expected class_size={class_size} >= 1.")
    plan, stage, classes = method.plan(), method.main_stage, len(schema.classes)
    schedule = calibrate(plan, budget)
    query, params = queries_of(method, schema, seed)[stage]
    coordinates = math.prod(check_query(query, params, schema))
    heard = records_heard(schedule, coordinates, stage)
    known = Outlook(schedule, coordinates, query.by_class, heard, class_size, classes, None)
    if not known.hopeless:
        return known
    records = known.reference * (1 if query.by_class else classes)
    return replace(known, least_epsilon=least_epsilon(plan, budget, coordinates, records, stage=stage))


def check_size(method: Method, schema: AnySchema, available: int | None = None) -> None:
    """Refuse more synthetic records, or more of what a method holds beside them, than this machine's memory can hold.

    Args:
        method: a distiller; of one without per_class records only what it holds beside them is looked at.
        schema: of the records.
        available: bytes; None for this machine's.

    Raises:
        DataError: with the largest size that fits, or what is held.
    """
    available = available or machine_memory()
    if available is not None and (held := method.finish_bytes(schema)) > available:
        raise DataError(
            f"Expected a recipe whose synthetic set is made within the {available / 2**30:.3g} GiB of memory of this "
            f"machine; {method.name} would hold {held / 2**30:.3g} GiB: take fewer networks or a smaller subspace."
        )
    per_class = getattr(method, "per_class", None)
    if per_class is not None:
        check_set_size(per_class, schema, hasattr(method, "kernel"), available)


@dataclass(frozen=True)
class Capacity:
    """Forecast of what a run of some number of records takes on this machine.

    Args:
        records: how many.
        compiling: seconds until programs are compiled and tested.
        encoding: seconds for features of all records, which are made once.
        releasing: seconds of all rounds.
        finishing: seconds of all steps after the last round.
        memory: bytes that a run needs beside the features of records.
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
        """Returns the seconds of all parts."""
        return self.compiling + self.encoding + self.releasing + self.finishing


def capacity(
    method: Method, schema: AnySchema, records: int, schedule: Schedule | None = None, seed: int = 0
) -> Capacity:
    """Returns what a run takes on this machine, from the work of its programs, none of which is compiled or run.

        seconds = sum over kinds of work of (work x seconds of a unit on this machine) + seconds in Python and NumPy
        releasing = sum over the stages of rounds (a + b chunks(n)),   a, b of one round and one chunk

    Args:
        method: a distiller.
        schema: of the records.
        records: how many, >= 1: a public number, or one whose forecast only the owner sees.
        schedule: the noise of every round; None without a guarantee.
        seed: of the run.

    Raises:
        ValueError: records < 1, or a recipe that does not fit the schema.
    """
    if records < 1:
        raise ValueError(f"Expected records={records} >= 1.")
    each, rows = seconds_each(), 1 if schedule is None else schedule.budget.rows_per_unit
    small, asked = _fewer(method, LESSON), queries_of(method, schema, seed)
    start, held = small.init(jax.random.key(seed), schema), _bytes(method.init(jax.random.key(seed), schema))
    with compiled.as_tested(), dry_run() as dry:
        state, count = start, _Count(method, small, schema, records / rows, rows, dry)
        for stage, (query, params) in zip(method.plan(), asked, strict=True):
            state = count.stage(stage, query, params, small.at_round(start, count.rounds))
        made, finishing = count.finish(state)
    releasing = count.releasing.seconds_at(each)
    # A checkpoint frees the values of the rounds that it includes.
    ledger = sum(size * min(n, 1 + EVERY * n / max(releasing, 1e-9)) for n, size in count.released)
    return Capacity(
        records=records,
        compiling=count.starting.seconds_at(each),
        encoding=count.encoding.seconds_at(each),
        releasing=releasing,
        finishing=finishing.seconds_at(each),
        memory=_peak() + dry.memory,
        features=sum(count.features.values()) if count.rounds > 1 else 0,
        disk=int(ledger) + 2 * held + _set_bytes(made),
    )


class _Count:
    """Work of a run, added up stage by stage.

    Args:
        method: the method.
        small: the same with few networks that learn between two rounds, from few pictures.
        schema: of the records.
        units: how many there are, each of `rows` records.
        rows: the most records of a unit.
        dry: counts the programs.
    """

    def __init__(self, method: Method, small: Method, schema: AnySchema, units: float, rows: int, dry: DryRun) -> None:
        self.method, self.small, self.schema, self.units, self.rows, self.dry = method, small, schema, units, rows, dry
        self.starting = self.encoding = self.releasing = NOTHING
        self.released: list[tuple[int, int]] = []
        self.features: dict[tuple[ByValue, int], int] = {}
        self.rounds = 0

    def stage(self, stage: Stage, query: Query, params: Params, state: Any) -> Any:
        """Adds the work of a stage; returns the state after those of its rounds that were counted."""
        size, linear = Compute().units_of(query, self.schema, stage.sampling_prob, self.rows), isinstance(query, LinearQuery)
        places = size * self.rows
        shape = check_query(query, params, self.schema, size=places, rows_per_unit=self.rows)
        X, y = np.zeros((places, *self.schema.shape), np.float32), np.zeros(places, np.int32)
        if query.encoder is not None:
            X = self._features(query.encoder, X, size)
        value = np.random.default_rng(0).standard_normal((*[len(self.schema.classes)] * query.by_class, *shape))
        chunk = self._tested(lambda: _contributions(query, params, X, y, self.rows), X, 2 if linear else 1)
        chunk = chunk.plus(Work(numbers=SUMMED * math.prod(shape) * (1 if linear else places)))
        self._add(chunk, stage.rounds * chunks(self.units * stage.sampling_prob, size))
        self._add(Work(seconds=COMMIT + NOISE * value.size), stage.rounds)
        self.released.append((stage.rounds, value.nbytes))
        return self._told(stage, state, value)

    def finish(self, state: Any) -> tuple[Distilled, Work]:
        """Returns a synthetic set of public random numbers, and the work of all steps after the last round."""
        few = _fewer(self.small, STEPS)
        made, total = self._warm(lambda: few.finish(state, self.schema))
        one = total
        for name, least in STEPS.items():
            more = getattr(self.method, name, 0) - least
            if more > 0:
                longer = replace(few, **{name: 3 * least})
                _, work = self._warm(lambda: longer.finish(state, self.schema), False)  # noqa: B023 - called at once
                total = total.plus(work.plus(one, -1.0), more / (2 * least))
        return made, total

    def _add(self, work: Work, times: float = 1.0) -> None:
        self.releasing = self.releasing.plus(work, times)

    def _warm(self, function: Callable[[], Any], compiles: bool = True) -> tuple[Any, Work]:
        """Returns what a function returns, and its work once it is compiled; that of compiling it is added."""
        _, cold = self.dry.of(function)
        result, warm = self.dry.of(function)
        if compiles:
            tracing = max(0.0, cold.seconds - warm.seconds)
            self.starting = self.starting.plus(Work(equations=cold.equations, seconds=tracing))
        return result, warm

    def _tested(self, program: Callable[[], Any], X: np.ndarray, times: int = 1) -> Work:
        """Returns the work of a program that reads a chunk X; that of its self-tests is added."""
        work = self._warm(program)[1]._replace(seconds=0.0)
        halves = (4 if np.issubdtype(X.dtype, np.integer) else 1) * ((len(X) - 1).bit_length() - 1)
        self.starting = self.starting.plus(work, times * (9 + 2 * max(0, halves)))  # see programs/self_test.py
        return work

    def _features(self, encoder: Encoder, X: np.ndarray, size: int) -> np.ndarray:
        """Adds the work of the features of all records, unless it was; returns those of a chunk."""
        key, like = (ByValue(encoder), size), jax.eval_shape(encoder, X)
        made = np.zeros(like.shape, like.dtype)
        if key not in self.features:
            n = chunks(self.units, size)
            self.encoding = self.encoding.plus(self._tested(lambda: compiled.encode_rows(key[0], X), X), n)
            self.features[key] = int(n) * made.nbytes
        return made

    def _told(self, stage: Stage, state: Any, value: np.ndarray) -> Any:
        """Adds what is asked and learned in the rounds of a stage; returns the state after the last one counted."""

        def told(method: Method, state: Any, t: int) -> Any:
            method.ask(state)
            return method.tell(state, Release(t, value, 1.0, None))

        counted = min(stage.rounds, ROUNDS)
        for i in range(counted):
            t, before = self.rounds + i, state
            step = self._warm if i == 0 else self.dry.of
            state, work = step(lambda: told(self.small, before, t))  # noqa: B023 - called at once
            self._add(work, stage.rounds / counted)
            if i in (0, counted - 1):
                self._add(self._lesson(lambda method: told(method, before, t)))  # noqa: B023
        self.rounds += stage.rounds
        return state

    def _lesson(self, told: Callable[[Method], Any]) -> Work:
        """Returns the work of what more networks learn from more pictures than those that were counted.

        Of a networks and p pictures: (by_picture + a by_both) p and what does not depend on them.
        """
        (a, p), (networks, pictures) = (
            [vars(method).get(name, 0) for name in LESSON] for method in (self.small, self.method)
        )
        networks = min(networks, vars(self.method).get("networks", networks))  # no more learn than there are
        if networks * pictures <= a * p:
            return NOTHING

        def work(**more: int) -> Work:
            return self._warm(lambda: told(replace(self.small, **more)), False)[1]

        few, longer, both = work(), work(pictures=3 * p), work(taught=2 * a, pictures=3 * p)
        by_both = both.plus(longer, -1.0).times(1.0 / (3 * a * p))
        by_picture = longer.plus(few, -1.0).times(1.0 / (2 * p)).plus(by_both, -a)
        return by_picture.times(pictures - p).plus(by_both, networks * pictures - a * p)


def chunks(n: float, size: int) -> float:
    """Returns how many chunks n units at independent places need on average: as many as the fullest place holds."""
    return float(np.random.default_rng(0).poisson(n / size, (100, size)).max(1).mean())


def _contributions(query: Query, params: Params, X: np.ndarray, y: np.ndarray, rows: int) -> None:
    """Calls the programs that a chunk goes through."""
    same = ByValue(query)
    if not isinstance(query, LinearQuery):
        compiled.grid_rows(same, params, X, y, query.clip_norm, 1.0, rows)
        return
    with jax.enable_x64(True):
        ready = compiled.prepared(same, params)
        coefficients = compiled.coefficients(same, ready, X, y)
        compiled.norms(same, ready, coefficients)
        compiled.weighted_sum(same, ready, coefficients, np.ones(len(y)))


def _fewer(method: Method, most: dict[str, int]) -> Method:
    """Returns the method with no more in these fields, where it has them, than is counted."""
    named = {field.name for field in fields(method)} & {*most}
    return replace(method, **{name: most[name] for name in named if getattr(method, name) > most[name]})


def _bytes(tree: Any) -> int:
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(tree))


def _set_bytes(made: Distilled) -> int:
    """Returns the bytes of a synthetic set's arrays, and of its generator's."""
    arrays = [made.X, made.y, made.targets, made.classifier, made.soft_labels, *(made.training or ())]
    return _bytes([*arrays, *getattr(made.generator, "weights", ())])


def _peak() -> int:
    """Returns the most bytes of memory that this process has had; 0 where the system does not tell."""
    if resource is None:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
