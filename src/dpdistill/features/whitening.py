"""Features whose channels are decorrelated by their second moment on generated images, without any records."""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.features.scattering import ScatterNet
from dpdistill.features.unit import unit_rows
from dpdistill.public_images.image_source import Drawn, Silhouettes
from dpdistill.public_images.pictures import pictures_for
from dpdistill.recipe import features as recipe
from dpdistill.recipe.parts import implement


class WhiteScatterNet(recipe.WhiteScatterNet):
    """Features phi(x) = P S(x) / ||P S(x)||, P = (Sigma + strength tr(Sigma) / channels I)^-1/2, at every position.

    Sigma is the second moment of a ScatterNet's channels over positions and over generated images of overlapping
    ellipses (`dead_leaves`, 2,000 up to 64 x 64 pixels), or over other generated images: a constant. Noise on a linear
    classifier is relative to a record's norm, so shrinking features that all records share improves accuracy.

    Args:
        scattering: the transform, standardised within the record or not.
        strength: factor of the added identity, > 0; large values leave the features unchanged.
        pictures: other generated images instead of overlapping ellipses.

    Raises:
        ValueError: strength <= 0, or images that are not generated.

    Source: ours.
    """

    scattering: ScatterNet

    def __post_init__(self) -> None:
        object.__setattr__(self, "scattering", implement(self.scattering, ScatterNet))
        super().__post_init__()

    def __call__(self, X: Array) -> Array:
        """Returns features (n, d) of norm 1 of X (n, h, w, colours)."""
        if recipe.SHAPES_ONLY.get():
            P = jnp.eye(self.scattering.channels * X.shape[3], dtype=X.dtype)
        else:
            P = jnp.asarray(_whitening(self.scattering, X.shape[1:], self.strength, self.pictures), X.dtype)
        S = self.scattering(X).reshape(len(X), len(P), -1)
        return unit_rows(jnp.einsum("ce,nep->ncp", P, S).reshape(len(X), -1))


@lru_cache(maxsize=8)
def _whitening(
    scattering: ScatterNet, shape: tuple[int, ...], strength: float, of: Drawn | Silhouettes | None = None
) -> np.ndarray:
    """Returns P (channels, channels); channels of all colours."""
    channels = scattering.channels * shape[2]
    pictures = dead_leaves(shape, pictures_for(shape), seed=0) if of is None else of.images(shape)
    sigma = np.zeros((channels, channels))
    with jax.ensure_compile_time_eval(), jax.enable_x64(False):
        transform = jax.jit(scattering.__call__)
        for i in range(0, len(pictures), 50):
            S = np.asarray(transform(pictures[i : i + 50]), np.float64)
            S = S.reshape(len(S), channels, -1)
            sigma += np.einsum("ncp,nep->ce", S, S, optimize=True)
    values, vectors = np.linalg.eigh(sigma)
    values = np.maximum(values, 0.0) + strength * np.trace(sigma) / channels
    return (vectors / np.sqrt(values / values.mean())) @ vectors.T


def dead_leaves(shape: tuple[int, ...], n: int, seed: int) -> np.ndarray:
    """Returns n random images in [-1, 1] of one to fourteen overlapping ellipses of uniform random colours.

    Args:
        shape: (height, width, colours).
        n: number of images.
        seed: public seed.

    Source: Lee, Mumford & Huang, 2001 (Occlusion models for natural images).
    """
    rng, (h, w, colours) = np.random.default_rng(seed), shape
    rows, columns = np.mgrid[:h, :w]
    X = np.empty((n, h, w, colours), np.float32)
    for image in X:
        image[:] = rng.uniform(-1, 1, colours)
        for _ in range(rng.integers(1, 15)):
            radius, aspect, angle = (
                max(h, w) * np.exp(rng.uniform(-3.0, -0.7)),
                rng.uniform(0.2, 1.0),
                rng.uniform(0, np.pi),
            )
            y, x = rows - rng.uniform(0, h), columns - rng.uniform(0, w)
            along, across = y * np.cos(angle) + x * np.sin(angle), x * np.cos(angle) - y * np.sin(angle)
            distance = (along / radius) ** 2 + (across / (radius * aspect)) ** 2
            cover = 1.0 / (1.0 + np.exp(np.clip((distance - 1.0) * radius * aspect, -30.0, 30.0)))[..., None]
            image[:] = image * (1.0 - cover) + cover * rng.uniform(-1, 1, colours)
    return X
