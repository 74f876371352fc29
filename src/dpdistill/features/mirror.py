"""Features that are equal for a record and its mirror image."""

from __future__ import annotations

from jax import Array

from dpdistill.features.unit import unit_rows
from dpdistill.recipe import features as recipe


class Mirrored(recipe.Mirrored):
    """Features phi(x) + phi(mirror image of x), divided by their norm: for photographs, never for digits.

    Half of the differences between records vanish, and with them half of the directions in which noise disturbs a
    private classifier.

    Args:
        encoder: frozen and hashable, X (n, h, w, c) -> (n, d).
    """

    def __call__(self, X: Array) -> Array:
        """Returns features (n, d) of norm 1 of X (n, h, w, c)."""
        return unit_rows(self.encoder(X) + self.encoder(X[:, :, ::-1]))
