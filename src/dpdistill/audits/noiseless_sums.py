"""Computes the curator's sums and contributions without noise, for audits of the owner alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.private.aggregator import sum_rows
from dpdistill.private.checks import check_query
from dpdistill.private.chunking import Chunk, ChunkedRecords, Numbers
from dpdistill.private.grid import make_grid
from dpdistill.private.linear import FRACTION, step_and_sensitivity, sum_limbs
from dpdistill.private.noise import SystemEntropy
from dpdistill.programs import clipping
from dpdistill.query import ByValue, Compute, LinearQuery, Params, Query, Release
from dpdistill.storage.records import Records


class Exact:
    """Records of an audit with their contributions to a round, clipped like the curator's, without noise.

    Args:
        records: the private records.
        compute: number of records per compiled call.
    """

    def __init__(self, records: Records, compute: Compute | None = None) -> None:
        self._records, self._compute = records, compute or Compute()
        self._placed = ChunkedRecords(records, SystemEntropy())
        self._numbers = Numbers()

    def without(self, i: int) -> Exact:
        """Returns the records without one; all others keep their positions, hence their low bits."""
        kept = np.arange(len(self._records)) != i
        rest = Exact(Records(self._records.X[kept], self._records.y[kept], self._records.schema), self._compute)
        rest._placed._places = self._placed._places[kept]
        return rest

    def with_records(self, others: Records) -> Exact:
        """Returns the sums of as many other records, with record i at position i."""
        made = Exact(others, self._compute)
        made._placed._places = self._placed._places
        return made

    def sum(self, query: Query, params: Params, release: Release) -> np.ndarray:
        """Returns the sum over all records, in the shape of the release, float64."""
        with jax.default_matmul_precision("highest"):
            shape, classes = release.value.shape, len(self._records.schema.classes)
            if isinstance(query, LinearQuery):
                limbs = sum_limbs(query, params, self._chunks(query, self._compute.block), shape, classes)
                step, _ = step_and_sensitivity(query.clip_norm, math.prod(shape))
                return (limbs[0] + np.ldexp(limbs[1].astype(float), -FRACTION)) * step
            row = shape[1:] if query.by_class else shape
            grid, rows_of = self._rows(query, params, release, math.prod(row))
            chunks = self._chunks(query, self._compute.chunk)
            return sum_rows(chunks, rows_of, grid.admissible, query.by_class, classes, row, np.int64) * grid.step

    def _chunks(self, query: Query, size: int) -> Iterator[Chunk]:
        number = None
        if query.encoder is not None:
            number = self._numbers[ByValue(query.encoder), size]
            self._placed.fill(query.encoder, size, number)
        return self._placed.chunks(query.encoder, None, size, number=number)

    def contributions(self, query: Query, params: Params, release: Release) -> np.ndarray:
        """Returns each record's contribution to its class's block or the sum, (n, d), float64; zeros for none."""
        X, y = self._records.take(np.arange(len(self._records)))
        X, known = jnp.asarray(X), (y >= 0) & np.isfinite(X.reshape(len(X), -1)).all(1)
        with jax.default_matmul_precision("highest"):
            if query.encoder is not None:
                X = clipping.encode_rows(ByValue(query.encoder), X)
            labels = np.where(known, y, 0).astype(np.int32)
            if isinstance(query, LinearQuery):
                # In double precision like the curator: some queries require it.
                found = _clipped(ByValue(query), params, X, labels)
            else:
                shape = release.value.shape[1:] if query.by_class else release.value.shape
                grid, rows_of = self._rows(query, params, release, math.prod(shape))
                rows = np.asarray(rows_of(X, labels))
                found = np.where(grid.admissible(rows)[:, None], rows, 0) * grid.step
        return np.where(known[:, None], found, 0.0)

    def _rows(self, query: Query, params: Params, release: Release, dimension: int) -> Any:
        """Returns (grid, program of a chunk's integer rows) of a round."""
        noise_multiplier = release.stddev / query.clip_norm
        check_query(query, params, self._records.schema, noise_multiplier)
        grid = make_grid(query.clip_norm, noise_multiplier, dimension, len(self._records))
        same = ByValue(query)

        def rows_of(X: Any, y: np.ndarray) -> jax.Array:
            return clipping.grid_rows(same, params, X, y, grid.float_clip, grid.step)

        return grid, rows_of


def _clipped(query: ByValue, params: Params, X: Any, y: np.ndarray) -> np.ndarray:
    """Returns the contributions of a linear query, each formed alone and clipped, (n, d)."""
    with jax.enable_x64(True):
        found = np.float64(np.asarray(_formed(query, jax.tree.map(np.asarray, params), X, y)))
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    return found * np.minimum(1.0, query.value.clip_norm / np.maximum(norms, 1e-300))


# Parameters are arguments, never constants of the program: XLA on CPUs (jax 0.10.2) reads uninitialised memory
# where 500 and more rows meet a constant matrix of zeros, such as a classifier before its first step, and a maximum
# follows.
@partial(jax.jit, static_argnums=0)
def _formed(query: ByValue, params: Params, X: jax.Array, y: jax.Array) -> jax.Array:
    return jax.vmap(lambda params, x, label: query.value.contribution(params, x, label).ravel(), (None, 0, 0))(
        params, X, y
    )
