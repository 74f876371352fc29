"""The compiled programs that touch records: each maps what ONE record is to numbers, row by row of a chunk."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.query import ByValue, Params


@partial(jax.jit, static_argnums=0)
def grid_rows(query: ByValue, params: Params, X: jax.Array, y: jax.Array, float_clip: Any, step: Any) -> jax.Array:
    """Contributions of a chunk, clipped in float and rounded to the grid: (rows, d) int32; not finite is zero."""

    def row(x: jax.Array, label: jax.Array) -> jax.Array:
        v = query.value.contribution(params, x, label).ravel().astype(jnp.float32)
        largest = jnp.abs(v).max(initial=0.0)
        unit = v / jnp.where(largest > 0, largest, 1.0)
        norm = largest * jnp.sqrt(jnp.sum(jnp.square(unit)))
        v = v * jnp.minimum(1.0, float_clip / jnp.where(norm > 0, norm, 1.0))
        finite = jnp.isfinite(norm) & jnp.all(jnp.isfinite(v))
        return jnp.where(finite, jnp.rint(v / step), 0.0).astype(jnp.int32)

    return jax.vmap(row)(X, y)


@partial(jax.jit, static_argnums=0)
def encode_rows(encoder: ByValue, X: jax.Array) -> jax.Array:
    """Features of a chunk, (rows, d): the encoder is given one record at a time."""
    return jax.vmap(lambda x: encoder.value(x[None])[0])(X)


@partial(jax.jit, static_argnums=0)
def _prepare(query: ByValue, params: Params) -> Params:
    return query.value.prepare(params)


def prepared(query: ByValue, params: Params) -> Params:
    """What the parts of a linear query are given. A plain number counts as float64: beside float32 it would round."""
    return _prepare(query, jax.tree.map(np.asarray, params))


@partial(jax.jit, static_argnums=0)
def coefficients(query: ByValue, params: Params, X: np.ndarray, y: np.ndarray) -> Any:
    """Coefficients of a block: a pytree of arrays, a row a record."""
    return jax.vmap(query.value.coefficients, (None, 0, 0))(params, X, y)


@partial(jax.jit, static_argnums=0)
def norms(query: ByValue, params: Params, found: Any) -> jax.Array:
    """Norm bounds of a block's contributions, (rows,); NaN where a coefficient is not finite."""

    def row(found: Any) -> jax.Array:
        finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(found)]
        return jnp.where(jnp.all(jnp.stack(finite)), query.value.norm(params, found), jnp.nan)

    return jax.vmap(row)(found)


@partial(jax.jit, static_argnums=0)
def weighted_sum(query: ByValue, params: Params, found: Any, w: np.ndarray) -> jax.Array:
    """The query's sum over a block. Rows of weight 0 are replaced by zeros, not multiplied: 0 * NaN is NaN."""

    def keep(a: jax.Array) -> jax.Array:
        return jnp.where((w > 0).reshape(-1, *[1] * (a.ndim - 1)), a, jnp.zeros((), a.dtype))

    return query.value.weighted_sum(params, jax.tree.map(keep, found), w)
