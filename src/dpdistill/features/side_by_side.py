"""Features of two maps side by side: the sum of two kernels with public weights."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from dpdistill.features.unit import unit_rows
from dpdistill.recipe import encoders as recipe


class SideBySide(recipe.SideBySide):
    """Features of two maps, one after the other; their kernel is the weighted sum of the two kernels.

        phi(x) = (sqrt(1 - weight) phi_1(x) / ||phi_1(x)||, sqrt(weight) phi_2(x) / ||phi_2(x)||)

    Args:
        first: a feature map, X (n, h, w, c) -> (n, d).
        second: another one.
        weight: share of the second map in the squared norm, in (0, 1).

    Raises:
        ValueError: a weight out of its range.

    Guarantee: ||phi(x)|| <= 1 up to rounding, since each part is divided by its norm.
    Source: ours.
    """

    def __call__(self, X: Array) -> Array:
        """Returns features (n, d_1 + d_2) of norm 1 of X (n, h, w, c)."""
        first, second = (unit_rows(encoder(X)) for encoder in (self.first, self.second))
        return jnp.concatenate([(1 - self.weight) ** 0.5 * first, self.weight**0.5 * second], 1)
