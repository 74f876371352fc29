"""Mixes generated images with released ones: closer to the classes, and still not private."""

from __future__ import annotations

import jax
import numpy as np

from dpdistill.networks.augment import resample

TURN = 5.0
ZOOM = 0.1
SHIFT = 0.1
SHEAR = 0.05
LEAST = 0.3
LEVEL = (0.5, 1.3)
CONTRAST = 1.2
PIECE = 500


def mix_pictures(pictures: np.ndarray, images: np.ndarray, seed: int) -> np.ndarray:
    """Mixes each released image with a generated one: half are overlays, half have their shades changed.

        over     a A(image) + (1 - a) picture,                       a uniform in [0.3, 1]
        shades   b + level (1 + contrast picture') (A(image) - b),   level and contrast uniform in [0.5, 1.3], [0, 1.2]

    A is a random affine map of a random image: it turns by up to 5 degrees, shears by 0.05, scales by up to exp(0.1)
    and moves by up to a twentieth of a side. b is the mean colour of the image's border, which also fills uncovered
    pixels; picture' is the picture of the previous record.

    Args:
        pictures: generated images, (n, h, w, c) in [-1, 1].
        images: images of a synthetic set, (m, h, w, c) in [-1, 1].
        seed: public seed.

    Returns:
        (n, h, w, c) in [-1, 1]: post-processing of the images.
    """
    rng, n = np.random.default_rng(seed), len(pictures)
    affine, which = _affine(n, rng), rng.integers(len(images), size=n)
    share, level, contrast = (
        rng.uniform(low, high, (n, 1, 1, 1)).astype(np.float32) for low, high in ((LEAST, 1.0), LEVEL, (0.0, CONTRAST))
    )
    parts, border = [slice(i, i + PIECE) for i in range(0, n, PIECE)], _border(images)[which]
    moved = np.concatenate([np.asarray(_moved(affine[p], images[which[p]], border[p])) for p in parts])
    background = border[:, None, None]
    over = share * moved + (1 - share) * pictures
    shades = background + level * (1 + contrast * np.roll(pictures, 1, 0)) * (moved - background)
    return np.clip(np.where(rng.uniform(size=(n, 1, 1, 1)) < 0.5, over, shades), -1.0, 1.0)


def _border(images: np.ndarray) -> np.ndarray:
    """Returns the mean colours (m, c) of the borders of images, repeated as columns."""
    sides = images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1]
    return np.stack([side.mean(1) for side in sides]).mean(0)


def _affine(n: int, rng: np.random.Generator) -> np.ndarray:
    """Returns random affine maps (n, 2, 3) of coordinates in [-1, 1]."""
    angle, shear = np.deg2rad(rng.uniform(-TURN, TURN, n)), rng.uniform(-SHEAR, SHEAR, n)
    zoom, (down, right) = np.exp(rng.uniform(-ZOOM, ZOOM, (2, n))), rng.uniform(-SHIFT, SHIFT, (2, n))
    rows = np.stack([np.cos(angle) * zoom[0], -np.sin(angle) * zoom[1], down], 1)
    columns = np.stack([np.sin(angle) * zoom[0] + shear, np.cos(angle) * zoom[1], right], 1)
    return np.stack([rows, columns], 1).astype(np.float32)


_moved = jax.jit(jax.vmap(resample))
