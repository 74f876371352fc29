"""Features that do not tell a record from its mirror image."""

from __future__ import annotations

from jax import Array

from dpdistill.features.unit import unit_rows
from dpdistill.recipe import features as recipe


class Mirrored(recipe.Mirrored):
    """phi(x) + phi(mirror image of x), divided by its norm: for photographs, never for digits.

    Half of what tells records apart is gone, and with it half of what a private classifier would learn from noise.

    Args:
        encoder: frozen and hashable, X (n, h, w, c) -> (n, d).
    """

    def __call__(self, X: Array) -> Array:
        """Features (n, d) of norm 1 of X (n, h, w, c)."""
        return unit_rows(self.encoder(X) + self.encoder(X[:, :, ::-1]))
