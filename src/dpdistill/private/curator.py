"""The curator: the only reader of private records while distilling. What it hands out is noised and paid for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from itertools import chain, pairwise
from typing import Any

import jax
import numpy as np

from dpdistill.accounting.schedule import Schedule
from dpdistill.data.records import Records, Unshown
from dpdistill.ledger.database import LedgerError
from dpdistill.ledger.run import RunLedger
from dpdistill.private import programs
from dpdistill.private.checks import CuratorError, check_query, types_of
from dpdistill.private.grid import Grid, make_grid
from dpdistill.private.linear import most_records, release_linear
from dpdistill.private.noise import Entropy, SystemEntropy, rounded_gaussian
from dpdistill.private.placed import Chunk, PlacedRecords
from dpdistill.private.sampling import poisson_coins
from dpdistill.private.self_test import check_rows
from dpdistill.query import MOST_ROWS, ByValue, Compute, LinearQuery, Params, Query, Release


def sum_rows(
    chunks: Iterable[Chunk],
    rows_of: Callable[[np.ndarray, np.ndarray], jax.Array],
    admissible: Callable[[np.ndarray], np.ndarray],
    by_class: bool,
    classes: int,
    shape: tuple[int, ...],
    dtype: type,
) -> np.ndarray:
    """Sum of the rows (m, d) that are admissible and of a known label; by class, in the block of their class."""
    total = np.zeros((classes if by_class else 1, math.prod(shape)), dtype)

    def add(z: Any, y: np.ndarray) -> None:
        rows = np.asarray(z)
        if rows.shape != (len(y), total.shape[1]):
            raise ValueError("The rows are of another length than the checked query's.")
        kept = (y >= 0) & (y < classes) & admissible(rows)
        block_of = y if by_class else np.zeros_like(y)
        for block in np.unique(block_of[kept]):
            total[block] += rows[kept & (block_of == block)].sum(0, dtype=dtype)

    started = ((rows_of(X, y.astype(np.int32)), y) for X, y in chunks)
    for one, _ in pairwise(chain(started, [(np.zeros(0), np.zeros(0))])):  # it is added while the next one is computed
        add(*one)
    return total.reshape((classes, *shape) if by_class else shape)


class Curator(Unshown):
    """Answers queries with noised sums, each paid for in the ledger before it is handed out.

    Args:
        records: the private records; with units where the schedule's budget names one, and only there.
        schedule: what every round pays; no deviation is accepted.
        ledger: where releases are committed.
        entropy: source of noise, coins and places; anything but the operating system's is for tests.
        compute: how many records a compiled program takes at once.

    Guarantee:
        The release of round t is S + N(0, (noise_multiplier clip_norm)^2) rounded to the grid, S a sum over a Poisson
        sample of integer contributions, each of norm at most clip_norm whatever the query's float arithmetic did. A
        record's integers are a function of its content and its own place, so removing a record takes its own away and
        leaves the joint law of all others: sensitivity clip_norm under add-or-remove, 2 clip_norm under replace-one.
        That no arithmetic crosses the rows of a chunk is tested on this machine before a program sees a record.

        Where the budget protects units, at most k records of each, chosen among its own alone, enter by one coin, and
        clip_norm is one record's share: noise and sensitivity, which are the unit's, are k times the above.
    """

    def __init__(
        self,
        records: Records,
        schedule: Schedule,
        ledger: RunLedger,
        entropy: Entropy | None = None,
        compute: Compute | None = None,
    ) -> None:
        self._schedule, self._ledger, self._entropy = schedule, ledger, entropy or SystemEntropy()
        self._schema, self._compute = records.schema, compute or Compute()
        budget = schedule.budget
        if (records.units is None) != (budget.unit is None):
            raise CuratorError("Expected records with units where the budget protects a unit, and only there.")
        self._records = PlacedRecords(records, self._entropy, None if budget.unit is None else budget.rows_per_unit)
        self._tested: set[tuple] = set()

    @property
    def noise_kind(self) -> str:
        """Where the noise comes from, as the certificate says it."""
        return self._entropy.kind

    def release(self, t: int, query: Query, params: Params) -> Release:
        """The noised answer of round t: drawn and paid for once, replayed ever after.

        Args:
            t: number of the round, from 0, in the schedule's order.
            query: what is asked; the same fields for a whole stage, so that it compiles once.
            params: its parameters of this round, a pytree of arrays.

        Raises:
            CuratorError: a query that is refused, or a round that could not be answered.
            LedgerError: the round is out of order or could not be committed.
        """
        stored = self._ledger.lookup(t)
        if stored is None:
            stored = self._paid(t, query, jax.tree.map(np.asarray, params))
        if isinstance(stored, Exception):
            raise stored  # made anew: no frame of its traceback has seen a record or a value that is not paid for
        return Release(stored.round, stored.value, stored.stddev, stored.event)

    def _paid(self, t: int, query: Query, params: Params) -> Any:
        """The committed release, or the error to raise: programs run as they were tested, whatever is set outside."""
        settings = (jax.enable_x64(False), jax.default_matmul_precision("highest"), jax.disable_jit(False))
        with ExitStack() as stack:
            for context in (*settings, jax.debug_nans(False), jax.debug_infs(False), np.errstate(all="ignore")):
                stack.enter_context(context)
            try:
                shape = check_query(query, params, self._schema, size=self._size(t, query))
                value, stddev = self._draw(t, query, params, shape)
            except CuratorError as error:
                return CuratorError(str(error))
            except Exception:
                return CuratorError(f"Round {t} could not be answered; nothing was released and nothing was paid.")
            try:
                return self._ledger.commit(t, self._schedule.event(t), value, stddev)
            except LedgerError as error:
                return LedgerError(str(error))

    def _size(self, t: int, query: Query) -> int:
        full, chunk = self._schedule.event(t).sampling_prob == 1.0, self._compute.chunk
        return chunk if not isinstance(query, LinearQuery) else self._compute.block if full else min(chunk, MOST_ROWS)

    def _draw(self, t: int, query: Query, params: Params, shape: tuple[int, ...]) -> tuple[np.ndarray, float]:
        event, n, size = self._schedule.event(t), len(self._records), self._size(t, query)
        noise_multiplier = event.noise_multiplier * self._schedule.budget.rows_per_unit  # a unit may move k shares
        tested = ByValue(query), types_of(params), size
        if tested not in self._tested and check_rows(query, params, self._schema, size):
            self._tested.add(tested)
        # From here on nothing is refused for the coins: small samples would be more likely among those answered.
        if isinstance(query, LinearQuery) and n > most_records(query):
            raise CuratorError("The data set has more records than the error bound of this query allows.")
        sampled = None
        if event.sampling_prob < 1.0:
            coins = poisson_coins(self._records.units, event.sampling_prob, self._entropy)
            sampled = np.flatnonzero(coins[self._records.unit_of])
        chunks = self._records.chunks(query.encoder, sampled, size)
        if isinstance(query, LinearQuery):
            classes = len(self._schema.classes)
            return release_linear(query, params, chunks, shape, classes, noise_multiplier, self._entropy)
        grid = make_grid(query.clip_norm, noise_multiplier, math.prod(shape), n)
        total = self._sum(query, params, chunks, grid, shape)
        noise = rounded_gaussian(total.shape, noise_multiplier * grid.K, self._entropy)
        return (total + noise).astype(np.float64) * grid.step, noise_multiplier * query.clip_norm

    def _sum(
        self, query: Query, params: Params, chunks: Iterable[Chunk], grid: Grid, shape: tuple[int, ...]
    ) -> np.ndarray:
        """The integer sum of the admissible contributions, before the noise."""
        same, classes = ByValue(query), len(self._schema.classes)

        def rows_of(X: np.ndarray, y: np.ndarray) -> jax.Array:
            return programs.grid_rows(same, params, X, y, grid.float_clip, grid.step)

        return sum_rows(chunks, rows_of, grid.admissible, query.by_class, classes, shape, np.int64)
