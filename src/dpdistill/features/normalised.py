"""Features that are normalised at every position, minus their mean over generated images."""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.features.unit import signed_power, unit_rows
from dpdistill.public_images.pictures import draw_pictures, pictures_for
from dpdistill.recipe import features as recipe


class Normalised(recipe.Normalised):
    """Intra-normalisation, centring and power normalisation of features that are channels at positions.

        u = x_p / sqrt(|x_p|^2 + floor mean_p |x_p|^2)   at every position p, together of norm 1
        phi = sign(v) |v|^power,  v = u - mean of u over `pictures_for` generated images,  of norm 1

    Features that all images share, and features that are large at one position, use up norm without distinguishing
    classes: noise on a linear classifier is relative to a record's norm.

    Args:
        encoder: frozen and hashable, X (n, h, w, c) -> (n, c * channels * positions).
        channels: number of channels for one colour.
        floor: floor of a position's squared norm, relative to the mean one, > 0.
        power: exponent of a feature's size, in (0, 1].
        pictures: other generated images for the mean.

    Raises:
        ValueError: a floor or power out of its range, or images that are not generated.

    Source: Perronnin et al., 2010 (Improving the Fisher kernel), power normalisation; Arandjelovic & Zisserman, 2013
    (All about VLAD), intra-normalisation; the generated images' mean is ours.
    """

    def __call__(self, X: Array) -> Array:
        """Returns features (n, d) of norm 1 of X (n, h, w, c)."""
        centred = self.at_positions(X)
        if not recipe.SHAPES_ONLY.get():
            centred -= jnp.asarray(_mean(self, X.shape[1:]), X.dtype)
        return unit_rows(signed_power(centred, self.power))

    def at_positions(self, X: Array) -> Array:
        """Returns u, (n, d) of norm 1.

        Raises:
            ValueError: features that are not channels at positions.
        """
        features, channels = self.encoder(X), self.channels * X.shape[3]
        if features.shape[1] % channels:
            raise ValueError(f"Expected features of {channels} channels at positions; got {features.shape[1]}.")
        x = features.reshape(len(X), channels, -1)
        squares = jnp.square(x).sum(1, keepdims=True)
        x = x / jnp.sqrt(squares + self.floor * squares.mean(2, keepdims=True) + 1e-12)
        return unit_rows(x.reshape(len(X), -1))


@lru_cache(maxsize=8)
def _mean(normalised: Normalised, shape: tuple[int, ...]) -> np.ndarray:
    of = normalised.pictures
    pictures = draw_pictures(pictures_for(shape), shape, seed=0) if of is None else of.images(shape)
    with jax.ensure_compile_time_eval(), jax.enable_x64(False):
        transform = jax.jit(normalised.at_positions)
        parts = [np.asarray(transform(pictures[i : i + 50]), np.float64) for i in range(0, len(pictures), 50)]
    return np.concatenate(parts).mean(0)
