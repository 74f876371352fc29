"""Adds up the work of a run stage by stage: its chunks, its rounds, and the steps after the last round."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import jax
import numpy as np

from dpdistill.accounting.schedule import Schedule
from dpdistill.method import Distilled, Method
from dpdistill.private.checks import check_query
from dpdistill.programs import clipping
from dpdistill.programs.checks import types_of
from dpdistill.query import ByValue, Compute, Encoder, LinearQuery, Params, Query, Release, Stage
from dpdistill.run.dry_run import NOTHING, DryRun, Work
from dpdistill.run.non_private import plain_rows, shape_of
from dpdistill.schema import AnySchema

ROUNDS = 12
"""Rounds of a stage that are counted, the others as the mean of those after the first: some do more in every tenth."""
LONG = 3.0
"""Seconds in Python and NumPy after which no further round is counted."""
STEPS = {"steps": 8, "generator_steps": 8}
"""Steps of `finish` that are counted, by the field that states them; then three times as many."""
LESSON = {"taught": 5, "pictures": 64}
"""Networks that learn between two rounds, and their pictures, that are counted; then two and three times as many."""
NOISE, COMMIT = 1e-7, 5e-3
"""Seconds to draw the noise of a number, and to commit a release to the ledger."""
SUMMED = 10
"""Operations of the host on each number of a chunk's contributions: they are checked and added up as integers."""


class Count:
    """Work of a run, added up stage by stage.

    Args:
        method: the method.
        small: the same with few networks that learn between two rounds, from few pictures.
        schema: of the records whose work is counted.
        whole: of the run's records, which may be larger images.
        records: how many.
        schedule: the noise of every round; None without a guarantee.
        dry: counts the programs.
        compute: numbers of records that a program takes at once.
    """

    def __init__(
        self,
        method: Method,
        small: Method,
        schema: AnySchema,
        whole: AnySchema,
        records: int,
        schedule: Schedule | None,
        dry: DryRun,
        compute: Compute,
    ) -> None:
        self.method, self.small, self.schema, self.whole = method, small, schema, whole
        self.dry, self.compute = dry, compute
        self.schedule, self.private = schedule, schedule is not None
        self.rows = 1 if schedule is None else schedule.budget.rows_per_unit
        self.units = records / self.rows
        self.starting = self.encoding = self.releasing = NOTHING
        self.released: list[tuple[int, int]] = []
        self.features: dict[tuple[ByValue, int], int] = {}
        self.rounds, self.tracing = 0, 0.0
        self.whole_stages = True

    def stage(self, stage: Stage, query: Query, params: Params, state: Any) -> Any:
        """Adds the work of a stage; returns the state after those of its rounds that were counted.

        Args:
            stage: the stage.
            query: its query.
            params: parameters of its first round.
            state: after the earlier stages if all of their rounds were counted (`whole_stages`), else any of the round.
        """
        size = self.compute.units_of(query, self.whole, stage.sampling_prob, self.rows)
        linear = isinstance(query, LinearQuery)
        places = size * self.rows
        if self.private:
            shape = check_query(query, params, self.schema, size=places, rows_per_unit=self.rows)
        else:
            shape = shape_of(ByValue(query), self.schema, *types_of(params))
        X, y = np.zeros((places, *self.schema.shape), np.float32), np.zeros(places, np.int32)
        if query.encoder is not None:
            X = self._features(query.encoder, X, size)
        value = np.random.default_rng(0).standard_normal((*[len(self.schema.classes)] * query.by_class, *shape))
        chunk = self._tested(lambda: self._contributions(query, params, X, y), X, 2 if linear else 1)
        chunk = chunk.plus(Work(numbers=SUMMED * math.prod(shape) * (1 if linear else places)))
        self._add(chunk, stage.rounds * chunks(self.units * stage.sampling_prob, size))
        self._add(Work(seconds=COMMIT + NOISE * value.size), stage.rounds)
        self.released.append((stage.rounds, value.nbytes))
        return self._told(stage, state, value)

    def finish(self, state: Any) -> tuple[Distilled, Work]:
        """Returns a synthetic set of public random numbers, and the work of all steps after the last round."""
        few = fewer(self.small, STEPS)
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
            self.starting = self.starting.plus(Work(equations=cold.equations))
            self.tracing += max(0.0, cold.seconds - warm.seconds)
        return result, warm

    def _tested(self, program: Callable[[], Any], X: np.ndarray, times: int = 1) -> Work:
        """Returns the work of a program that reads a chunk X; that of its self-tests is added."""
        work = self._warm(program)[1]._replace(seconds=0.0)
        halves = (4 if np.issubdtype(X.dtype, np.integer) else 1) * ((len(X) - 1).bit_length() - 1)
        self.starting = self.starting.plus(work, times * (9 + 2 * max(0, halves)))  # see programs/self_test.py
        return work

    def _contributions(self, query: Query, params: Params, X: np.ndarray, y: np.ndarray) -> None:
        """Calls the programs that a chunk goes through."""
        same = ByValue(query)
        if isinstance(query, LinearQuery):
            with jax.enable_x64(True):
                ready = clipping.prepared(same, params)
                coefficients = clipping.coefficients(same, ready, X, y)
                clipping.norms(same, ready, coefficients)
                clipping.weighted_sum(same, ready, coefficients, np.ones(len(y)))
        elif self.private:
            clipping.grid_rows(same, params, X, y, query.clip_norm, 1.0, self.rows)
        else:
            plain_rows(same, params, X, y)

    def _features(self, encoder: Encoder, X: np.ndarray, size: int) -> np.ndarray:
        """Adds the work of the features of all records, unless it was; returns those of a chunk."""
        key, like = (ByValue(encoder), size), jax.eval_shape(encoder, X)
        made = np.zeros(like.shape, like.dtype)
        if key not in self.features:
            n = chunks(self.units, size)
            self.encoding = self.encoding.plus(self._tested(lambda: clipping.encode_rows(key[0], X), X), n)
            self.features[key] = int(n) * made.nbytes
        return made

    def _told(self, stage: Stage, state: Any, value: np.ndarray) -> Any:
        """Adds what is asked and learned in the rounds of a stage; returns the state after the last one counted."""

        sigma = 1.0 if self.schedule is None else self.schedule.event(self.rounds).noise_multiplier

        def told(method: Method, state: Any, t: int) -> Any:
            query, _ = method.ask(state)
            stddev = sigma * query.clip_norm
            return method.tell(state, Release(t, method.example(state, value, stddev, self.units), stddev, None))

        later, began = [], time.process_time()
        for i in range(min(stage.rounds, ROUNDS)):
            t, before = self.rounds + i, state
            step = self._warm if i == 0 else self.dry.of
            state, work = step(lambda: told(self.small, before, t))  # noqa: B023 - called at once
            if i == 0:
                self._add(work)
                self._add(self._lesson(lambda method: told(method, before, t)))  # noqa: B023
            else:
                later.append(work)
            if later and time.process_time() - began > LONG:
                break
        self.whole_stages &= 1 + len(later) == stage.rounds
        for work in later:
            self._add(work, (stage.rounds - 1) / len(later))
        if later:
            self._add(self._lesson(lambda method: told(method, before, t)))
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


def fewer(method: Method, most: dict[str, int]) -> Method:
    """Returns the method with no more in these fields, where it has them, than is counted."""
    named = {field.name for field in fields(method)} & {*most}
    return replace(method, **{name: most[name] for name in named if getattr(method, name) > most[name]})
