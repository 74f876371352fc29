"""Compiled programs that read records: each maps ONE record or unit to numbers, row by row of a chunk."""

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
    """Runs programs as they were tested, independent of outer settings."""
    settings = (jax.enable_x64(False), jax.default_matmul_precision("highest"), jax.disable_jit(False))
    with ExitStack() as stack:
        for context in (*settings, jax.debug_nans(False), jax.debug_infs(False), np.errstate(all="ignore")):
            stack.enter_context(context)
        yield


@partial(jax.jit, static_argnums=(0, 6))
def grid_rows(
    query: ByValue, params: Params, X: jax.Array, y: jax.Array, float_clip: Any, step: Any, rows_per_unit: int = 1
) -> jax.Array:
    """Returns contributions of a chunk, clipped in float and rounded to the grid: (rows, d) int32; not finite is zero.

    The clipped contributions of a unit's consecutive rows are added up, by class if the query is by class. The sum is
    in the first row of the class, the other rows are zeros, and the rows together are clipped once more.
    """

    def row(x: jax.Array, label: jax.Array) -> jax.Array:
        return _clipped(query.value.contribution(params, x, label).ravel().astype(jnp.float32), float_clip)

    def unit(X: jax.Array, y: jax.Array) -> jax.Array:
        v = jnp.where((y >= 0)[:, None], jax.vmap(row)(X, y), 0.0)
        block = y if query.value.by_class else jnp.where(y >= 0, 0, -1)
        same = block[:, None] == block[None, :]
        first = ~jnp.any(jnp.tril(same, -1), axis=1)
        sums = jnp.where(first[:, None], same.astype(jnp.float32) @ v, 0.0)
        # A sum in the row of a record with unknown class, or of a placeholder, would be dropped with that row.
        return jnp.rint(_clipped(sums.ravel(), float_clip).reshape(sums.shape) / step).astype(jnp.int32)

    if rows_per_unit == 1:
        return jax.vmap(lambda x, label: jnp.rint(row(x, label) / step).astype(jnp.int32))(X, y)
    grouped = (a.reshape(-1, rows_per_unit, *a.shape[1:]) for a in (X, y))
    result = jax.vmap(unit)(*grouped)
    return result.reshape(len(y), -1)


def _clipped(v: jax.Array, float_clip: Any) -> jax.Array:
    """Returns a vector scaled down to the norm float_clip; zeros if it is not finite."""
    largest = jnp.abs(v).max(initial=0.0)
    unit = v / jnp.where(largest > 0, largest, 1.0)
    norm = largest * jnp.sqrt(jnp.sum(jnp.square(unit)))
    v = v * jnp.minimum(1.0, float_clip / jnp.where(norm > 0, norm, 1.0))
    finite = jnp.isfinite(norm) & jnp.all(jnp.isfinite(v))
    return jnp.where(finite, v, 0.0)


@partial(jax.jit, static_argnums=0)
def encode_rows(encoder: ByValue, X: jax.Array) -> jax.Array:
    """Returns features of a chunk, (rows, d): the encoder gets one record at a time."""
    return jax.vmap(lambda x: encoder.value(x[None])[0])(X)


@partial(jax.jit, static_argnums=0)
def _prepare(query: ByValue, params: Params) -> Params:
    return query.value.prepare(params)


def prepared(query: ByValue, params: Params) -> Params:
    """Returns the parameters for the parts of a linear query; plain numbers become float64, as float32 rounds."""
    return _prepare(query, jax.tree.map(np.asarray, params))


@partial(jax.jit, static_argnums=0)
def coefficients(query: ByValue, params: Params, X: np.ndarray, y: np.ndarray) -> Any:
    """Returns the coefficients of a block: a pytree of arrays, with a row per record."""
    return jax.vmap(query.value.coefficients, (None, 0, 0))(params, X, y)


@partial(jax.jit, static_argnums=0)
def norms(query: ByValue, params: Params, found: Any) -> jax.Array:
    """Returns norm bounds of a block's contributions, (rows,); NaN if a coefficient is not finite."""

    def row(found: Any) -> jax.Array:
        finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(found)]
        return jnp.where(jnp.all(jnp.stack(finite)), query.value.norm(params, found), jnp.nan)

    return jax.vmap(row)(found)


@partial(jax.jit, static_argnums=0)
def weighted_sum(query: ByValue, params: Params, found: Any, w: np.ndarray) -> jax.Array:
    """Returns the query's sum over a block. Rows of weight 0 are replaced by zeros, not multiplied: 0 * NaN is NaN."""

    def keep(a: jax.Array) -> jax.Array:
        return jnp.where((w > 0).reshape(-1, *[1] * (a.ndim - 1)), a, jnp.zeros((), a.dtype))

    return query.value.weighted_sum(params, jax.tree.map(keep, found), w)
