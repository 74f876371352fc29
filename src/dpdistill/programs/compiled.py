"""The compiled programs that touch records: each maps what ONE record or unit is to numbers, row by row of a chunk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.query import ByValue, Params


@contextmanager
def as_tested() -> Iterator[None]:
    """Programs run as they were tested, whatever is set outside."""
    settings = (jax.enable_x64(False), jax.default_matmul_precision("highest"), jax.disable_jit(False))
    with ExitStack() as stack:
        for context in (*settings, jax.debug_nans(False), jax.debug_infs(False), np.errstate(all="ignore")):
            stack.enter_context(context)
        yield


@partial(jax.jit, static_argnums=(0, 6))
def grid_rows(
    query: ByValue, params: Params, X: jax.Array, y: jax.Array, float_clip: Any, step: Any, rows_per_unit: int = 1
) -> jax.Array:
    """Contributions of a chunk, clipped in float and rounded to the grid: (rows, d) int32; not finite is zero.

    Of a unit, whose rows follow each other, the clipped contributions are added up, by class where the query is: the
    sum stands in the first row of the class, the others are zeros, and the rows together are clipped once more.
    """

    def row(x: jax.Array, label: jax.Array) -> jax.Array:
        return _clipped(query.value.contribution(params, x, label).ravel().astype(jnp.float32), float_clip)

    def unit(X: jax.Array, y: jax.Array) -> jax.Array:
        v = jnp.where((y >= 0)[:, None], jax.vmap(row)(X, y), 0.0)
        block = y if query.value.by_class else jnp.where(y >= 0, 0, -1)
        same = block[:, None] == block[None, :]
        first = ~jnp.any(jnp.tril(same, -1), axis=1)
        sums = jnp.where(first[:, None], same.astype(jnp.float32) @ v, 0.0)
        # A sum that stands beside a record of no known class, or where there is none, would be dropped with it.
        return jnp.rint(_clipped(sums.ravel(), float_clip).reshape(sums.shape) / step).astype(jnp.int32)

    if rows_per_unit == 1:
        return jax.vmap(lambda x, label: jnp.rint(row(x, label) / step).astype(jnp.int32))(X, y)
    grouped = (a.reshape(-1, rows_per_unit, *a.shape[1:]) for a in (X, y))
    found = jax.vmap(unit)(*grouped)
    return found.reshape(len(y), -1)


def _clipped(v: jax.Array, float_clip: Any) -> jax.Array:
    """A vector scaled down to the norm float_clip; zeros where it is not finite."""
    largest = jnp.abs(v).max(initial=0.0)
    unit = v / jnp.where(largest > 0, largest, 1.0)
    norm = largest * jnp.sqrt(jnp.sum(jnp.square(unit)))
    v = v * jnp.minimum(1.0, float_clip / jnp.where(norm > 0, norm, 1.0))
    finite = jnp.isfinite(norm) & jnp.all(jnp.isfinite(v))
    return jnp.where(finite, v, 0.0)


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
