"""Linear (ghost) queries: norms first, then one weighted sum in float64; no per-record contribution is formed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.private.noise import Entropy, rounded_gaussian
from dpdistill.query import LinearQuery, Params

Chunk = tuple[np.ndarray, np.ndarray, int]
SLACK = 5e-4
SLACK_TEXT = f"float64 ghost sum, bound E = {SLACK / 2} clip_norm: noise for a sensitivity of at most 1.001 clip_norm"
"""What a certificate says of the arithmetic of linear queries."""


@partial(jax.jit, static_argnums=0)
def _prepare(query: LinearQuery, params: Params) -> Params:
    return query.prepare(params)


def prepared(query: LinearQuery, params: Params) -> Params:
    """What the query's other parts are given. A plain number counts as float64: beside float32 it would round."""
    return _prepare(query, jax.tree.map(np.asarray, params))


@partial(jax.jit, static_argnums=0)
def _coefficients(query: LinearQuery, params: Params, X: np.ndarray, y: np.ndarray) -> Any:
    return query.coefficients(params, X, y)


@partial(jax.jit, static_argnums=0)
def _norms(query: LinearQuery, params: Params, coefficients: Any) -> jax.Array:
    return query.norms(params, coefficients)


@partial(jax.jit, static_argnums=0)
def _weighted_sum(query: LinearQuery, params: Params, coefficients: Any, w: np.ndarray) -> jax.Array:
    # The rows that are left out are replaced by zeros, not multiplied: 0 * NaN is NaN.
    def keep(a: jax.Array) -> jax.Array:
        return jnp.where((w > 0).reshape(-1, *[1] * (a.ndim - 1)), a, jnp.zeros((), a.dtype))

    return query.weighted_sum(params, jax.tree.map(keep, coefficients), w)


def release_linear(
    query: LinearQuery,
    params: Params,
    chunks: Iterable[Chunk],
    shape: tuple[int, ...],
    classes: int,
    noise_multiplier: float,
    entropy: Entropy,
) -> tuple[np.ndarray, float]:
    """Noised sum of clipped contributions from their norm bounds.

        scale_i = min(1, C / bound_i),   sum rounded to the step gamma,   stddev = noise_multiplier Delta

    Args:
        query: norm bounds and weighted sums in float64, with the worst-case error e of one record's arithmetic.
        params: its parameters.
        chunks: records in chunks of one shape.
        shape: of one contribution.
        classes: labels outside 0 .. classes - 1 contribute nothing.
        noise_multiplier: stddev / Delta, > 0.
        entropy: source of the noise.

    Returns:
        The release (float64) and its standard deviation.

    Raises:
        ValueError: an error bound that is negative or too large for the clip norm, or for so many records.

    Guarantee:
        Sensitivity Delta = C + gamma sqrt(d) + 2 E <= 1.001 C under add-or-remove, 2 Delta under replace-one, with
        E = 2.5e-4 C whatever e and the number of records. For n records in m chunks the sum is off by at most

            n e + m 2^-52 n C,

        e a record and, for each of the m additions, half a unit in the last place (2^-53) of a sum of norm at most n C;
        the other half pays for the rounding of the scales. More than E is refused: that a data set is so large is not
        private (with e = 0 and chunks of 128, beyond ten million records). As for every query, a record's
        coefficients and its norm bound must not depend on its place in a chunk.
    """
    d, C, error = math.prod(shape), query.clip_norm, query.error_bound
    E = SLACK / 2 * C
    if not 0.0 <= error <= E:
        raise ValueError(f"Expected 0 <= error_bound={error} <= {SLACK / 2} clip_norm.")
    step, sensitivity = step_and_sensitivity(C, d)
    with jax.enable_x64(True), np.errstate(all="ignore"):
        total, rows, additions = np.zeros(shape, np.float64), 0, 0
        params = prepared(query, params)
        for X, y, valid in chunks:
            finite = np.isfinite(X.reshape(len(y), -1).sum(1))
            known = finite & (np.arange(len(y)) < valid) & (y >= 0) & (y < classes)
            coefficients = _coefficients(query, params, *_only(known, X, y))
            bounds = np.asarray(_norms(query, params, coefficients))
            usable = known & np.isfinite(bounds) & (bounds >= 0)
            w = np.where(usable, np.minimum(1.0, C / np.maximum(np.where(usable, bounds, 1.0), 1e-300)), 0.0)
            total += np.asarray(_weighted_sum(query, params, coefficients, w))
            rows, additions = rows + valid, additions + 1
    if not rows * error + additions * 2.0**-52 * rows * C <= E:
        raise ValueError("The records are too many for the error bound.")
    if not np.isfinite(total).all():
        raise ValueError("The weighted sum is not finite.")
    noise = rounded_gaussian(shape, noise_multiplier * sensitivity / step, entropy)
    return (np.rint(total / step) + noise) * step, noise_multiplier * sensitivity


def sum_linear(
    query: LinearQuery, params: Params, chunks: Iterable[Chunk], shape: tuple[int, ...], classes: int
) -> np.ndarray:
    """Plain sum of the contributions, neither clipped nor noised: for the curator that gives no guarantee."""
    total = np.zeros(shape, np.float64)
    with jax.enable_x64(True):
        params = prepared(query, params)
        for X, y, valid in chunks:
            known = np.isfinite(X.reshape(len(y), -1).sum(1)) & (np.arange(len(y)) < valid) & (y >= 0) & (y < classes)
            coefficients = _coefficients(query, params, *_only(known, X, y))
            total += np.asarray(_weighted_sum(query, params, coefficients, known.astype(np.float64)))
    return total


def step_and_sensitivity(clip_norm: float, dimension: int) -> tuple[float, float]:
    """(gamma, Delta) of a linear query: public facts, whatever the records are."""
    # A power of two: multiples of the step below 2**53 of them are exact in float64.
    step = 2.0 ** math.floor(math.log2(SLACK * clip_norm / math.sqrt(dimension)))
    return step, clip_norm + step * math.sqrt(dimension) + SLACK * clip_norm


def _only(kept: np.ndarray, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The other rows are replaced by zeros; where there are none, nothing is copied."""
    if kept.all():
        return X, y
    return np.where(kept.reshape(-1, *[1] * (X.ndim - 1)), X, 0), np.where(kept, y, 0)
