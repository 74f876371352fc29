"""Features of a record whose dark shades are told apart as well as its light ones."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from dpdistill.recipe import features as recipe

OFFSET = 0.01


class GammaCorrected(recipe.GammaCorrected):
    """phi(2 v - 1), v = ((u + 0.01)^exponent - 0.01^exponent) / (1.01^exponent - 0.01^exponent), u = (x + 1) / 2.

    Filters respond far less to a fold of black cloth than to one of white cloth: a root makes equal ratios of light
    about equal differences. The offset keeps the slope of black finite. For light objects on black.

    Args:
        encoder: frozen and hashable, X (n, h, w, c) -> (n, d).
        exponent: of the light u in [0, 1]; 1 leaves it, in (0, 1].

    Raises:
        ValueError: an exponent out of its range.

    Source: ours; gamma correction of images.
    """

    def __call__(self, X: Array) -> Array:
        """Features (n, d) of X (n, h, w, c) in [-1, 1]."""
        return self.encoder(2.0 * self.corrected((X + 1.0) / 2.0) - 1.0)

    def corrected(self, u: Array) -> Array:
        """v of light u in [0, 1]; below 0 it is black."""
        return ((jnp.where(u < 0.0, 0.0, u) + OFFSET) ** self.exponent - OFFSET**self.exponent) / self._scale

    def units(self, X: Array) -> Array:
        """How far x goes for a step of 2 v - 1: white 22 times as far as black, where exponent is 1 / 3."""
        return (
            self._scale / self.exponent * (jnp.where(X < -1.0, 0.0, (X + 1.0) / 2.0) + OFFSET) ** (1.0 - self.exponent)
        )

    @property
    def _scale(self) -> float:
        return (1.0 + OFFSET) ** self.exponent - OFFSET**self.exponent
