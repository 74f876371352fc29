"""Features of a table's row: one coordinate per category or knot, so that a linear classifier is a list of points."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

CONSTANT = 1.0
"""Constant coordinate before the division, about as long as the features of a column."""


@dataclass(frozen=True)
class RowFeatures:
    """Features of encoded rows, of norm at most 1: X (n, d) in [-1, 1] -> (n, D).

        phi = (z - 1 / width, CONSTANT) / L,   L = sqrt(sum over columns of (1 - 1 / width) + CONSTANT^2)

    z has `width` coordinates per column, which sum to 1: an indicator per category; for a number, hat functions
    max(0, 1 - (knots - 1) |u - k / (knots - 1)|), k = 0 .. knots - 1, of its position u between the bounds on the
    schema's scale; one more indicator where values may be missing. The squared norm of z - 1 / width is at most
    1 - 1 / width. The order is that of the columns, and the constant is last.

    Args:
        pieces: (kind, start, width) of the coordinates of an encoded row, as `pieces_of` returns them.
        knots: number of knots of a number, >= 2.
    """

    pieces: tuple[tuple[str, int, int], ...]
    knots: int

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of features of each column."""
        each = {"categories": lambda width: [width], "gapped": lambda width: [self.knots + 1]}
        runs = (each.get(kind, lambda width: [self.knots] * width)(width) for kind, _, width in self.pieces)
        return tuple(width for run in runs for width in run)

    @property
    def length(self) -> float:
        """Returns L, the divisor."""
        return math.sqrt(sum(1.0 - 1.0 / width for width in self.widths) + CONSTANT**2)

    def __call__(self, X: Array) -> Array:
        parts = [self._part(kind, X[:, start : start + width]) for kind, start, width in self.pieces]
        constant = jnp.full((len(X), 1), CONSTANT, X.dtype)
        return jnp.concatenate([*parts, constant], 1) / self.length

    def _part(self, kind: str, X: Array) -> Array:
        if kind == "categories":
            return X - 1.0 / X.shape[1]
        if kind == "gapped":
            value, gap = X[:, :1], X[:, 1:]
            return jnp.concatenate([self._hats(value) * (1.0 - gap), gap], 1) - 1.0 / (self.knots + 1)
        return self._hats(X) - 1.0 / self.knots

    def _hats(self, X: Array) -> Array:
        """Returns hat functions of numbers (n, k), (n, k knots)."""
        places = (X[:, :, None] + 1.0) / 2.0 * (self.knots - 1)
        hats = jnp.maximum(0.0, 1.0 - jnp.abs(places - jnp.arange(self.knots, dtype=X.dtype)))
        return hats.reshape(len(X), -1)
