"""Sizes of features: rows of norm 1, signed powers."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def unit_rows(A: Array) -> Array:
    """Returns rows of (n, d) divided by their norms; a row of zeros stays, with a gradient of zero."""
    squares = jnp.sum(jnp.square(A), 1, keepdims=True)
    some = squares > 0
    return A * jnp.where(some, 1.0 / jnp.sqrt(jnp.where(some, squares, 1.0)), 0.0)


def signed_power(A: Array, exponent: float) -> Array:
    """Returns sign(a) |a|^exponent of every number, near zero proportional to a, so that the derivative is finite."""
    return A * (jnp.square(A) + 1e-8) ** ((exponent - 1) / 2)
