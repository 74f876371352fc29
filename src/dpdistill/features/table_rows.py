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

    @property
    def constant(self) -> float:
        """Returns the last feature, which is the same for every row."""
        return CONSTANT / self.length

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


@dataclass(frozen=True)
class GroupedFeatures(RowFeatures):
    """Features of encoded rows, of norm at most 1, where categories of a column share at most `groups` indicators.

    The categories of a longer column are dealt to the groups in a random order of a public seed. Then the indicators of
    the column are those of its groups: they are at least 0 and sum to 1, as in RowFeatures.

    Args:
        pieces: (kind, start, width) of the coordinates of an encoded row, as `pieces_of` returns them.
        knots: number of knots of a number, >= 2.
        groups: most indicators of a column of categories, >= 2.
    """

    groups: int

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(int(places.max()) + 1 for places in self._places)

    @property
    def _places(self) -> list[np.ndarray]:
        """Returns the group of each indicator of each column."""
        categories = [k == "categories" for k, _, width in self.pieces for _ in range(width if k == "numbers" else 1)]
        return [
            group_of(width, self.groups) if grouped else np.arange(width)
            for width, grouped in zip(super().widths, categories, strict=True)
        ]

    def _part(self, kind: str, X: Array) -> Array:
        if kind != "categories" or X.shape[1] <= self.groups:
            return super()._part(kind, X)
        return X @ jnp.asarray(np.eye(self.groups)[group_of(X.shape[1], self.groups)], X.dtype)

    def points(self, W: np.ndarray) -> np.ndarray:
        """Returns weights of the indicators of all categories and knots (D, outputs): a category has its group's."""
        found, rows, start = super().points(W), [], 0
        for places in self._places:
            points = found[start + places]
            rows.append(points - points.mean(0))
            found[-1] += points.mean(0)
            start += int(places.max()) + 1
        return np.concatenate([*rows, found[-1:]])


def group_of(width: int, groups: int) -> np.ndarray:
    """Returns the group of each of a column's categories, (width,): its own if there are at most `groups`."""
    return np.arange(width) if width <= groups else np.random.default_rng((width, groups)).permutation(width) % groups


@dataclass(frozen=True)
class RowsAndTarget:
    """Features of encoded rows and a number of the row, of norm at most 1: X (n, d) in [-1, 1] -> (n, size).

        v = (phi, weight x_target) / sqrt(1 + weight^2)

    The features phi have norm at most 1 and the number is clamped to [-1, 1].

    Args:
        features: the features phi, without the number.
        target: coordinate of the number.
        weight: length of the number compared with the features, > 0.
    """

    features: GroupedFeatures
    target: int
    weight: float

    @property
    def size(self) -> int:
        """Returns the number of coordinates of v."""
        return sum(self.features.widths) + 2

    def __call__(self, X: Array) -> Array:
        y = jnp.clip(X[:, self.target : self.target + 1], -1.0, 1.0)
        return jnp.concatenate([self.features(X), self.weight * y], 1) / math.sqrt(1.0 + self.weight**2)
