"""Pictures that are mixed of drawn ones and of released images: nearer to the classes, and still nobody's records."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.encode.augment import resample

TURN = 15.0
ZOOM = 0.2
SHIFT = 0.2
SHEAR = 0.2
LEAST = 0.3
PIECE = 500


def mix_pictures(pictures: np.ndarray, images: np.ndarray, seed: int) -> np.ndarray:
    """a A(image) + (1 - a) picture for each picture, a uniform in [0.3, 1], A a random affine map of a random image.

    A turns by up to 15 degrees, shears by 0.2, scales by up to exp(0.2) and moves by up to a tenth of a side.

    Args:
        pictures: drawn, (n, h, w, c) in [-1, 1].
        images: of a synthetic set, (m, h, w, c) in [-1, 1].
        seed: public.

    Returns:
        (n, h, w, c) in [-1, 1]: post-processing of the images.
    """
    rng, n = np.random.default_rng(seed), len(pictures)
    affine, which = _affine(n, rng), rng.integers(len(images), size=n)
    share = rng.uniform(LEAST, 1.0, (n, 1, 1, 1)).astype(np.float32)
    parts = [slice(i, i + PIECE) for i in range(0, n, PIECE)]
    moved = np.concatenate([np.asarray(_moved(affine[p], images[which[p]])) for p in parts])
    return np.clip(share * moved + (1 - share) * pictures, -1.0, 1.0)


def _affine(n: int, rng: np.random.Generator) -> np.ndarray:
    """(n, 2, 3) maps of coordinates in [-1, 1]."""
    angle, shear = np.deg2rad(rng.uniform(-TURN, TURN, n)), rng.uniform(-SHEAR, SHEAR, n)
    zoom, (down, right) = np.exp(rng.uniform(-ZOOM, ZOOM, (2, n))), rng.uniform(-SHIFT, SHIFT, (2, n))
    rows = np.stack([np.cos(angle) * zoom[0], -np.sin(angle) * zoom[1], down], 1)
    columns = np.stack([np.sin(angle) * zoom[0] + shear, np.cos(angle) * zoom[1], right], 1)
    return np.stack([rows, columns], 1).astype(np.float32)


@jax.jit
def _moved(affine: jax.Array, images: jax.Array) -> jax.Array:
    """Images under maps of their own; what comes in takes the image's mean colour."""
    return jax.vmap(lambda M, x: resample(M, x, jnp.mean(x, (0, 1))))(affine, images)
