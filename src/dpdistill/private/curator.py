"""The curator: the only reader of private records while distilling. All its answers are noised and paid for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from dpdistill.accounting.schedule import Schedule
from dpdistill.errors import CuratorError, LedgerError, OutOfMemory, Unanswered, is_out_of_memory
from dpdistill.ledger.run import RunLedger
from dpdistill.private.aggregator import Holders, LocalAggregator, Question
from dpdistill.private.checks import blocks_of, check_query
from dpdistill.private.chunking import Numbers
from dpdistill.private.grid import Grid, make_grid
from dpdistill.private.linear import most_records, release_linear
from dpdistill.private.noise import Entropy, SystemEntropy, rounded_gaussian
from dpdistill.programs import clipping
from dpdistill.query import ByValue, Compute, LinearQuery, Params, Query, Release
from dpdistill.storage.memory import Memory
from dpdistill.storage.records import Records, Unshown

UNANSWERED = "Round {} could not be answered and released nothing; the budget of the run stays reserved."
OUT_OF_MEMORY = (
    "Round {} needs more memory than this machine has: it was not answered and released nothing; the budget of the run "
    "stays reserved. Resume the run on a machine with more memory."
)
"""The sentence for a lack of memory: a fact of the machine and the plan, which no record decides."""


class Curator(Unshown):
    """Answers queries with noised sums, each paid for in the ledger before it is released.

    Args:
        records: the private records; with units if and only if the schedule's budget names a unit.
        schedule: payment of every round; no deviation is accepted.
        ledger: ledger in which releases are committed.
        entropy: source of noise, coins and places; any other than the operating system's is for tests.
        compute: numbers of records that a compiled program takes at once.
        space: memory limit and folder of features.
        holders: makes holders of the records in other processes, from the arguments of `LocalAggregator`.

    Guarantee:
        The release of round t is S + N(0, (noise_multiplier clip_norm)^2) rounded to the grid, S a sum over a Poisson
        sample of integer contributions, each of norm at most clip_norm for any result of the query's float arithmetic.
        A record's integers are a function of its content and its own place, so removing a record removes its own
        integers
        and leaves the joint law of all others: sensitivity clip_norm under add-or-remove, 2 clip_norm under
            replace-one.
        That no arithmetic crosses the rows of a chunk is tested on this machine before a program reads a record.

        If the budget protects units, all of this holds for units instead of records: at most k records of each, chosen
        among its own alone, enter by one coin, and their sum has norm at most clip_norm.
    """

    def __init__(
        self,
        records: Records,
        schedule: Schedule,
        ledger: RunLedger,
        entropy: Entropy | None = None,
        compute: Compute | None = None,
        space: Memory | None = None,
        holders: Callable[..., Holders] = LocalAggregator,
    ) -> None:
        self._schedule, self._ledger, self._entropy = schedule, ledger, entropy or SystemEntropy()
        self._schema, self._compute, budget = records.schema, compute or Compute(), schedule.budget
        if (records.units is None) != (budget.unit is None):
            raise CuratorError("Expected records with units if and only if the budget protects a unit.")
        most = None if budget.unit is None else budget.rows_per_unit
        self._holders = holders(records, self._entropy, most, space)
        self._numbers = Numbers()

    @property
    def noise_kind(self) -> str:
        """Origin of the noise, in the certificate's words."""
        return self._entropy.kind

    def release(self, t: int, query: Query, params: Params) -> Release:
        """Returns the noised answer of round t: drawn and paid for once, replayed afterwards.

        Args:
            t: number of the round, from 0, in the schedule's order.
            query: the query; its fields are equal for a whole stage, so that it compiles once.
            params: its parameters of this round, a pytree of arrays.

        Raises:
            CuratorError: a query that is refused, or a round that could not be answered.
            LedgerError: the round is out of order or could not be committed.
        """
        stored = self._ledger.lookup(t)
        if stored is None:
            stored = self._paid(t, query, jax.tree.map(np.asarray, params))
        if isinstance(stored, Exception):
            raise stored  # a new error: no frame of its traceback has held a record or an unpaid value
        return Release(stored.round, stored.value, stored.stddev, stored.event)

    def _paid(self, t: int, query: Query, params: Params) -> Any:
        """Returns the committed release, or the error to raise."""
        with clipping.as_tested():
            try:
                k = self._schedule.budget.rows_per_unit
                shape = check_query(query, params, self._schema, size=k * self._size(t, query), rows_per_unit=k)
                value, stddev = self._draw(t, query, params, shape)
            except CuratorError as error:
                return type(error)(str(error))
            except Exception as error:
                full = is_out_of_memory(error)
                return OutOfMemory(OUT_OF_MEMORY.format(t)) if full else Unanswered(UNANSWERED.format(t))
            try:
                return self._ledger.commit(t, self._schedule.event(t), value, stddev)
            except LedgerError as error:
                return type(error)(str(error))

    def _size(self, t: int, query: Query) -> int:
        """Returns the units of a chunk."""
        event, k = self._schedule.event(t), self._schedule.budget.rows_per_unit
        return self._compute.units_of(query, self._schema, event.sampling_prob, k)

    def _draw(self, t: int, query: Query, params: Params, shape: tuple[int, ...]) -> tuple[np.ndarray, float]:
        event, budget, grid = self._schedule.event(t), self._schedule.budget, None
        if isinstance(query, LinearQuery):
            # Checked before any coin is drawn: afterwards small samples would be more likely among those answered.
            if len(self._holders) * budget.rows_per_unit > most_records(query):
                raise CuratorError("The data set has more records than the error bound of this query allows.")
        else:
            d = math.prod(shape) * blocks_of(query, self._schema, budget.rows_per_unit)
            grid = make_grid(query.clip_norm, event.noise_multiplier, d, len(self._holders))
        size, number = self._size(t, query), None
        if query.encoder is not None and self._schedule.rounds > 1:
            number = self._numbers[ByValue(query.encoder), size]
        total = self._sum(Question(query, params, shape, size, event.sampling_prob, grid, number))
        return self._noised(query, total, event.noise_multiplier, grid)

    def _noised(self, query: Query, total: np.ndarray, noise_multiplier: float, grid: Grid | None) -> Any:
        """Returns (the integer sum with noise, the standard deviation of the noise)."""
        if grid is None:
            assert isinstance(query, LinearQuery)
            return release_linear(query, total, noise_multiplier, self._entropy)
        noise = rounded_gaussian(total.shape, noise_multiplier * grid.K, self._entropy)
        return (total + noise).astype(np.float64) * grid.step, noise_multiplier * query.clip_norm

    def _sum(self, question: Question) -> np.ndarray:
        """Returns the integer sum of the admissible contributions, before the noise."""
        return self._holders.answer(question, self._entropy)
