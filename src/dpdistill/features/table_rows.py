"""Features of a table's row: one coordinate per category or knot, so that a linear classifier is a list of points."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

CONSTANT = 1.0
"""Constant coordinate of the features before they are divided: about as long as the coordinates of a column."""


@dataclass(frozen=True)
class RowIndicators:
    """Indicators z of encoded rows and a constant 1: X (n, d) in [-1, 1] -> (n, D).

    A column has `width` indicators, >= 0, which sum to 1. A category has one. A number has hat functions
    max(0, 1 - |(knots - 1) u - k|), k = 0 .. knots - 1, of its position u between the bounds on the schema's scale.
    A missing value has one more, where values may be missing. The order is that of the columns; the constant is last.

    Args:
        pieces: (kind, start, width) of the coordinates of an encoded row, as `pieces_of` returns them.
        knots: number of knots of a number, >= 2.
    """

    pieces: tuple[tuple[str, int, int], ...]
    knots: int

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of indicators of each column."""
        found: list[int] = []
        for kind, _, width in self.pieces:
            found += [self.knots] * width if kind == "numbers" else [self.knots + 1 if kind == "gapped" else width]
        return tuple(found)

    def __call__(self, X: Array) -> Array:
        parts = [self._part(kind, X[:, start : start + width]) for kind, start, width in self.pieces]
        return jnp.concatenate([*parts, jnp.ones((len(X), 1), X.dtype)], 1)

    def _part(self, kind: str, X: Array) -> Array:
        if kind == "categories":
            return X
        if kind == "gapped":
            value, gap = X[:, :1], X[:, 1:]
            return jnp.concatenate([self._hats(value) * (1.0 - gap), gap], 1)
        return self._hats(X)

    def _hats(self, X: Array) -> Array:
        """Returns hat functions of numbers (n, k), (n, k knots)."""
        places = (X[:, :, None] + 1.0) / 2.0 * (self.knots - 1)
        hats = jnp.maximum(0.0, 1.0 - jnp.abs(places - jnp.arange(self.knots, dtype=X.dtype)))
        return hats.reshape(len(X), -1)


@dataclass(frozen=True)
class RowFeatures(RowIndicators):
    """Features of encoded rows, of norm at most 1: X (n, d) in [-1, 1] -> (n, D).

        phi = (z - 1 / width, CONSTANT) / L,   L = sqrt(sum over columns of (1 - 1 / width) + CONSTANT^2)

    The indicators z of a column are at least 0 and sum to 1, so that ||z - 1 / width||^2 <= 1 - 1 / width.
    """

    @property
    def length(self) -> float:
        """Returns L, the divisor."""
        return math.sqrt(sum(1.0 - 1.0 / width for width in self.widths) + CONSTANT**2)

    def __call__(self, X: Array) -> Array:
        centre = [1.0 / width for width in self.widths for _ in range(width)]
        moved = jnp.array([*centre, 1.0 - CONSTANT], X.dtype)
        return (super().__call__(X) - moved) / self.length

    def points(self, W: np.ndarray) -> np.ndarray:
        """Returns weights (D, classes) of the indicators with the same scores as the weights W of the features.

        The points of a column sum to 0 for each class; the last row is the intercept.
        """
        points = W / self.length
        points[-1] *= CONSTANT
        for start, width in zip(np.cumsum((0, *self.widths)), self.widths, strict=False):
            points[start : start + width] -= points[start : start + width].mean(0)
        return points
