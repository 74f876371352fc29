"""Features of a record that is deskewed, centred and rescaled first."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from dpdistill.networks.augment import resample
from dpdistill.recipe import features as recipe

MOST_SLANT = 0.6
LEAST_ZOOM, MOST_ZOOM = 0.6, 1.6
DARK = 1e-6


class Deskewed(recipe.Deskewed):
    """Features phi(x'), x' the record sheared, moved and scaled by its own moments: for handwriting and other strokes.

    A record's lightness above its darkest pixel, as a distribution over [-1, 1]^2, gives

        m_r, m_c     means of row and column: the middle of x' is there
        v_rc / v_rr  slope of columns over rows: x' has none
        s_r, s_c     deviations of rows, and of columns without the slope: in x' (s / target)^(1 - strength) target

    Persons differ in the slant and size of their letters, which a classifier of few and noisy directions cannot learn
    to ignore. The map depends on one record only.

    Args:
        encoder: frozen and hashable, X (n, h, w, c) -> (n, d).
        strength: strength of the rescaling, in [0, 1]; 0 keeps the size, 1 makes all deviations the targets.
        height: target of s_r, in halves of a side, > 0.
        width: target of s_c, in halves of a side, > 0.

    Raises:
        ValueError: a strength, height or width out of its range.

    Source: LeCun et al., 1998 (Gradient-based learning applied to document recognition), deslanted digits; sizes: ours.
    """

    def __call__(self, X: Array) -> Array:
        """Returns features of X (n, h, w, colours) in [-1, 1]."""
        return self.encoder(jax.vmap(self.upright)(X))

    def upright(self, x: Array) -> Array:
        """Returns one straightened record (h, w, colours); pixels from outside are its darkest pixel."""
        darkest, grey = x.min(), x.mean(2)
        weight = grey - grey.min() + DARK
        weight = weight / weight.sum()
        rows, columns = jnp.linspace(-1.0, 1.0, x.shape[0])[:, None], jnp.linspace(-1.0, 1.0, x.shape[1])[None]
        middle = jnp.sum(weight * rows), jnp.sum(weight * columns)
        rows, columns = rows - middle[0], columns - middle[1]
        high, across = jnp.sum(weight * jnp.square(rows)), jnp.sum(weight * rows * columns)
        slant = jnp.clip(across / (high + 1e-3), -MOST_SLANT, MOST_SLANT)
        wide = jnp.sum(weight * jnp.square(columns - slant * rows))
        zoom = self._zoom(high, self.height), self._zoom(wide, self.width)
        affine = jnp.stack([zoom[0], 0.0 * slant, middle[0], slant * zoom[0], zoom[1], middle[1]]).reshape(2, 3)
        return resample(affine, x, jnp.broadcast_to(darkest, x.shape[2:]))

    def _zoom(self, variance: Array, target: float) -> Array:
        scale = jnp.sqrt(jnp.maximum(variance, 1e-4)) / target
        return jnp.clip(scale**self.strength, LEAST_ZOOM, MOST_ZOOM)
