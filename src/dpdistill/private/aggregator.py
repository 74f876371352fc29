"""Processes that hold records and add up their contributions; only integer sums leave, before noise, to the curator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Protocol

import jax
import numpy as np

from dpdistill.errors import CuratorError
from dpdistill.private.chunking import WHOLE, Chunk, ChunkedRecords, Shard
from dpdistill.private.grid import Grid
from dpdistill.private.linear import sum_limbs
from dpdistill.private.noise import Entropy
from dpdistill.private.sampling import poisson_coins
from dpdistill.programs import clipping
from dpdistill.programs.checks import types_of
from dpdistill.programs.jaxprs import Refused
from dpdistill.programs.self_test import check_rows
from dpdistill.query import ByValue, LinearQuery, Params, Query
from dpdistill.storage.memory import Memory
from dpdistill.storage.records import Records, Unshown


@dataclass(frozen=True, eq=False)
class Question:
    """The question of a round to the holders of records: public facts only.

    Args:
        query: a checked query.
        params: its parameters, a pytree of NumPy arrays.
        shape: shape of one contribution.
        size: units of a chunk.
        sampling_prob: probability of the coins.
        grid: grid of the integers; None for a linear query, which has limbs.
        features: number of the encoder and the size among those of the run, whose features are kept; None keeps none.
    """

    query: Query
    params: Params
    shape: tuple[int, ...]
    size: int
    sampling_prob: float
    grid: Grid | None
    features: int | None = None


class Holders(Protocol):
    """All holders of a run's records: in this process, or in others."""

    def __len__(self) -> int:
        """Returns the number of units; it is private."""
        ...

    def answer(self, question: Question, entropy: Entropy) -> np.ndarray:
        """Returns the integer sum of a round over all records; coins come from the entropy."""
        ...


class LocalAggregator(Unshown):
    """Holds records in this process.

    Args:
        records: the private records.
        entropy: source of places; several holders of the same records have the same key.
        rows_per_unit: largest number of used records per unit, if units are protected.
        space: memory limit and folder of features.
    """

    def __init__(
        self, records: Records, entropy: Entropy, rows_per_unit: int | None = None, space: Memory | None = None
    ) -> None:
        self._schema, self._records = records.schema, ChunkedRecords(records, entropy, rows_per_unit, space)
        self._tested: set[tuple] = set()

    def __len__(self) -> int:
        return len(self._records)

    def answer(self, question: Question, entropy: Entropy) -> np.ndarray:
        """Returns the integer sum over all records."""
        return self.sum(question, entropy)

    def fill(self, question: Question, shard: Shard = WHOLE) -> None:
        """Computes the features of a shard that the question's sums need; sampled rounds need all features."""
        encoder = question.query.encoder
        if encoder is not None and question.features is not None:
            self._test(question)
            with clipping.as_tested():
                self._records.fill(encoder, question.size, question.features, shard)

    def sum(self, question: Question, entropy: Entropy, shard: Shard = WHOLE) -> np.ndarray:
        """Returns the integer sum over a shard, int64: of grid steps, or the limbs of a linear query.

        Args:
            question: the question of the round.
            entropy: source of the coins; every shard of a round has the same stream.
            shard: (i, n), the i-th of n.

        Raises:
            CuratorError: the query mixes rows of a chunk.
        """
        self._test(question)
        query, params, k = question.query, question.params, self._records.k
        for i in range(shard[1]) if question.sampling_prob < 1.0 else shard[:1]:
            self.fill(question, (i, shard[1]))
        with clipping.as_tested():
            # After this point no refusal depends on the coins: small samples would be more likely among those answered.
            sampled = None
            if question.sampling_prob < 1.0:
                sampled = np.flatnonzero(poisson_coins(len(self), question.sampling_prob, entropy))
            chunks = self._records.chunks(query.encoder, sampled, question.size, shard, question.features)
            classes, grid, same = len(self._schema.classes), question.grid, ByValue(query)
            if isinstance(query, LinearQuery):
                return sum_limbs(query, params, chunks, question.shape, classes, k)
            assert grid is not None

            def rows_of(X: np.ndarray, y: np.ndarray) -> jax.Array:
                return clipping.grid_rows(same, params, X, y, grid.float_clip, grid.step, k)

            def admissible(z: np.ndarray) -> np.ndarray:
                return grid.admissible(z, k)

            return sum_rows(chunks, rows_of, admissible, query.by_class, classes, question.shape, np.int64)

    def _test(self, question: Question) -> None:
        """Runs the self-test of the query's programs, once for all parameters of the same types."""
        query, params, size, k = question.query, question.params, question.size, self._records.k
        tested = ByValue(query), types_of(params), size
        try:
            with clipping.as_tested():
                if tested not in self._tested and check_rows(query, params, self._schema, size, k):
                    self._tested.add(tested)
        except Refused as error:
            raise CuratorError(str(error)) from None


def sum_rows(
    chunks: Iterable[Chunk],
    rows_of: Callable[[np.ndarray, np.ndarray], jax.Array],
    admissible: Callable[[np.ndarray], np.ndarray],
    by_class: bool,
    classes: int,
    shape: tuple[int, ...],
    dtype: type,
) -> np.ndarray:
    """Returns the sum of admissible rows (m, d) with a known label; by class, in the block of their class."""
    total = np.zeros((classes if by_class else 1, math.prod(shape)), dtype)

    def add(z: Any, y: np.ndarray) -> None:
        rows = np.asarray(z)
        if rows.shape != (len(y), total.shape[1]):
            raise ValueError("The rows have another length than the checked query's.")
        kept = (y >= 0) & (y < classes) & admissible(rows)
        block_of = y if by_class else np.zeros_like(y)
        for block in np.unique(block_of[kept]):
            total[block] += rows[kept & (block_of == block)].sum(0, dtype=dtype)

    started = ((rows_of(X, y.astype(np.int32)), y) for X, y in chunks)
    for one, _ in pairwise(chain(started, [(np.zeros(0), np.zeros(0))])):  # added while the next one is computed
        add(*one)
    return total.reshape((classes, *shape) if by_class else shape)
