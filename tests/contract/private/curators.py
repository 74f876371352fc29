"""The real curator on a ledger in memory, and entropies under which its noise is known."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
from scipy import stats

from dpdistill.accounting.schedule import Budget, Schedule
from dpdistill.ledger.run import RunLedger
from dpdistill.private import aggregator, checks
from dpdistill.private.curator import Curator
from dpdistill.private.grid import Grid, make_grid
from dpdistill.private.noise import SeededEntropy
from dpdistill.programs.checks import types_of
from dpdistill.query import MOST_ROWS, ByValue, Compute, Stage
from dpdistill.schema import AnySchema
from dpdistill.storage.records import Records

NOISE = 4.0


class NoNoise:
    """All bits set: the smallest quantile, so that every rounded Gaussian is 0; coins and places come from lists.

    Args:
        coins: of the first sampled round; tails where there are none.
        places: of the records; all records have the same place where there are none.
    """

    kind = "insecure: no noise"

    def __init__(self, coins: np.ndarray | None = None, places: Any = None) -> None:
        self._coins, self._places = coins, None if places is None else np.asarray(places, np.uint16)

    def bytes(self, n: int) -> bytes:
        if self._coins is not None and n == 8 * len(self._coins):
            coins, self._coins = self._coins, None
            return np.where(coins, np.uint64(0), np.uint64(2**64 - 1)).tobytes()
        if self._places is not None and n == 2 * len(self._places):
            return self._places.tobytes()
        return b"\xff" * n


class OnlyCoins:
    """Real coins for n records and no noise, told apart by the number of words asked for."""

    kind = "insecure: no noise"

    def __init__(self, n: int, seed: int) -> None:
        self._n, self._entropy = n, SeededEntropy(seed)

    def bytes(self, n: int) -> bytes:
        return self._entropy.bytes(n) if n in (8 * self._n, 2 * self._n) else b"\xff" * n


class OneQuantile:
    """The same word always: every Gaussian is one quantile of its law, about 1.5 standard deviations above 0."""

    kind = "insecure: no noise"
    tail = int(stats.norm.sf(1.5) * 2**54)

    def bytes(self, n: int) -> bytes:
        return np.full(-(-n // 8), self.tail << 11, np.uint64).tobytes()[:n]


def full_batches(rounds: int = 1, noise: float = NOISE) -> Schedule:
    return Schedule((Stage(rounds),), (noise,), Budget(1.0))


def memory_ledger(schedule: Schedule) -> RunLedger:
    return RunLedger.open(":memory:", {}, schedule, b"d" * 32)


def make_curator(
    records: Records, schedule: Schedule | None = None, entropy: Any = None, chunk: int = 64, ledger: Any = None
) -> Curator:
    """The real curator on a ledger in memory."""
    schedule = schedule or full_batches()
    return Curator(records, schedule, ledger or memory_ledger(schedule), entropy, Compute(chunk, min(chunk, MOST_ROWS)))


@contextlib.contextmanager
def tested_once() -> Iterator[None]:
    """Lets all curators of one check share the self-test of a query's programs, as the rounds of one curator do.

    The self-test runs on the same public numbers each time, and a check makes dozens of curators of one query.
    """
    test, passed = aggregator.check_rows, set()

    def once(query: Any, params: Any, schema: AnySchema, size: int, rows_per_unit: int = 1) -> bool:
        tested = ByValue(query), types_of(params), schema, size, rows_per_unit
        if tested not in passed and test(query, params, schema, size, rows_per_unit):
            passed.add(tested)
        return tested in passed

    with mock.patch.object(aggregator, "check_rows", once):
        yield


def grid_of(query: Any, params: Any, schema: AnySchema, n: int = 100) -> Grid:
    d = math.prod(checks.check_query(query, params, schema))
    return make_grid(query.clip_norm, NOISE, d, n)


def integer_sum(records: Records, query: Any, params: Any, chunk: int = 64, places: Any = None) -> np.ndarray:
    """The un-noised sum in grid steps, as the curator releases it when every noise is 0."""
    step = grid_of(query, params, records.schema).step
    value = make_curator(records, entropy=NoNoise(places=places), chunk=chunk).release(0, query, params).value
    assert np.isfinite(value).all(), "The sum is not finite."
    z = np.rint(value / step)
    np.testing.assert_allclose(z * step, value, rtol=1e-12)
    return z.astype(np.int64)


def norm(z: np.ndarray) -> float:
    """L2 norm of integers, without overflow."""
    return math.sqrt(sum(int(v) ** 2 for v in np.ravel(z)))
