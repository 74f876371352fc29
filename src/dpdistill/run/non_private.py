"""Plain sums instead of the curator's: no clip, no noise, no guarantee."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.private.aggregator import sum_rows
from dpdistill.private.chunking import ChunkedRecords, Numbers
from dpdistill.private.linear import add_groups
from dpdistill.private.noise import SeededEntropy
from dpdistill.programs.checks import abstract, types_of
from dpdistill.query import ByValue, Compute, LinearQuery, Params, Query, Release
from dpdistill.schema import AnySchema
from dpdistill.storage.records import Records, Unshown


class NonPrivateCurator(Unshown):
    """Answers with plain sums (epsilon is infinite). On request only.

    Args:
        records: the records.
        sampling_probs: Poisson sampling probabilities by round.
        seed: seed of the samples.
        compute: numbers of records that a compiled program takes at once.
    """

    noise_kind = "none"

    def __init__(
        self, records: Records, sampling_probs: list[float], seed: int, compute: Compute | None = None
    ) -> None:
        self._sampling_probs, self._seed, self._compute = sampling_probs, seed, compute or Compute()
        self._schema, self._records = records.schema, ChunkedRecords(records, SeededEntropy(seed))
        self._numbers = Numbers()

    def release(self, t: int, query: Query, params: Params) -> Release:
        """Returns the plain sum of round t over a Poisson sample, without rows that are not finite."""
        shape = shape_of(ByValue(query), self._schema, *types_of(params))
        sampled, q, classes = None, self._sampling_probs[t], len(self._schema.classes)
        if q < 1.0:
            sampled = np.flatnonzero(np.random.default_rng((self._seed, t)).random(len(self._records)) < q)
        size = self._compute.units_of(query, self._schema, q)
        number = None
        if query.encoder is not None and len(self._sampling_probs) > 1:
            number = self._numbers[ByValue(query.encoder), size]
            self._records.fill(query.encoder, size, number)
        chunks = self._records.chunks(query.encoder, sampled, size, number=number)
        if isinstance(query, LinearQuery):
            groups: list[np.ndarray] = [np.zeros(shape)]
            add_groups(
                query, params, chunks, shape, classes, math.inf, 1, lambda part: groups.append(groups.pop() + part)
            )
            return Release(t, groups[0], 0.0, None)
        rows_of = partial(plain_rows, ByValue(query), params)
        total = sum_rows(chunks, rows_of, _finite, query.by_class, classes, shape, np.float64)
        return Release(t, total, 0.0, None)


@lru_cache(maxsize=256)
def shape_of(same: ByValue, schema: AnySchema, structure: Any, leaves: tuple) -> tuple[int, ...]:
    """Returns the shape of one contribution; cached, since tracing takes longer than a small round."""
    query, x = same.value, jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32)
    if query.encoder is not None:
        x = jax.eval_shape(query.encoder, x)
    one, label = jax.ShapeDtypeStruct(x.shape[1:], x.dtype), jax.ShapeDtypeStruct((), jnp.int32)
    return tuple(jax.eval_shape(query.contribution, abstract(structure, leaves), one, label).shape)


@partial(jax.jit, static_argnums=0)
def plain_rows(query: ByValue, params: Params, X: jax.Array, y: jax.Array) -> jax.Array:
    """Returns the unchanged contributions of a chunk, (rows, d)."""
    return jax.vmap(lambda x, label: query.value.contribution(params, x, label).ravel())(X, y)


def _finite(rows: np.ndarray) -> np.ndarray:
    return np.asarray(np.isfinite(rows).all(1))
