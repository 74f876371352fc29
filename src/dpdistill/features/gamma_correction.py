"""Features of a gamma-corrected record: dark shades are resolved as well as light ones."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from dpdistill.recipe import features as recipe

OFFSET = 0.01


class GammaCorrected(recipe.GammaCorrected):
    """Features phi(2 v - 1), v = ((u + 0.01)^exponent - 0.01^exponent) / (1.01^exponent - 0.01^exponent), u = (x + 1) /
    2.

    Filters respond far less to a fold of black cloth than to one of white cloth: a root makes equal ratios of light
    about equal differences. The offset keeps the slope of black finite. For light objects on black.

    Args:
        encoder: frozen and hashable, X (n, h, w, c) -> (n, d).
        exponent: exponent of the light u in [0, 1], in (0, 1]; 1 changes nothing.

    Raises:
        ValueError: an exponent out of its range.

    Source: ours; gamma correction of images.
    """

    def __call__(self, X: Array) -> Array:
        """Returns features (n, d) of X (n, h, w, c) in [-1, 1]."""
        return self.encoder(2.0 * self.corrected((X + 1.0) / 2.0) - 1.0)

    def corrected(self, u: Array) -> Array:
        """Returns v of light u in [0, 1]; values below 0 are black."""
        return ((jnp.where(u < 0.0, 0.0, u) + OFFSET) ** self.exponent - OFFSET**self.exponent) / self._scale

    def units(self, X: Array) -> Array:
        """Returns the change of x per unit step of 2 v - 1: for exponent 1 / 3, 22 times as large for white as for
        black.
        """
        return (
            self._scale / self.exponent * (jnp.where(X < -1.0, 0.0, (X + 1.0) / 2.0) + OFFSET) ** (1.0 - self.exponent)
        )

    @property
    def _scale(self) -> float:
        return (1.0 + OFFSET) ** self.exponent - OFFSET**self.exponent
