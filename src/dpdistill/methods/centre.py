"""What all classes share: the pilot without the noise that no picture has, and pictures of nobody around it."""

from __future__ import annotations

import numpy as np
from scipy.fft import dctn, idctn

from dpdistill.public_images.image_source import Drawn

PICTURES = Drawn(pictures=200, seed=0)
"""On so many pictures the mean features of a network differ from that of many by a tenth of a record's."""


def denoised(means: np.ndarray, stddev: np.ndarray) -> np.ndarray:
    """Released means of pixels without most of their noise: the Wiener filter, in rings of like frequencies.

        m_f  <-  p / (p + s^2) m_f,       p = mean over means and the ring of f of (m_f^2 - s^2), at least 0

    m_f are coefficients of a cosine transform; s is the noise, the same in all of them. Rings of high frequencies hold
    little of what means are, and much of the noise.

    Args:
        means: (n, h, w, c), released.
        stddev: of their noise in each pixel, (n,), in the same units: all above zero, or all zero, which changes
            nothing. Means count for p by 1 / s^2.

    Returns:
        (n, h, w, c): post-processing.
    """
    if not stddev.any():
        return means
    _, h, w, _ = means.shape
    unit, ring = stddev.min(), np.rint(np.hypot(*np.indices((h, w)))).astype(int)
    noise, found = np.square(stddev / unit)[:, None, None, None], _frequencies(means / unit)
    above = np.average(np.square(found) - noise, axis=0, weights=1 / noise.ravel()).mean(-1)
    power = np.bincount(ring.ravel(), above.ravel()) / np.bincount(ring.ravel())
    with np.errstate(divide="ignore"):
        kept = found / (1.0 + noise / np.maximum(power, 0.0)[ring][..., None])
    return unit * np.asarray(idctn(kept, axes=(1, 2), norm="ortho"))


def pictures_around(means: np.ndarray) -> np.ndarray:
    """Drawn pictures, each moved to one of the means (classes, h, w, c) in turn, in [-1, 1].

    Features of a mean alone, which is smooth, are far from those of records. Every mean has as many pictures, so that
    there are more than PICTURES where their number is no multiple of that of the means.
    """
    pictures = PICTURES.images(means.shape[1:])
    i = np.arange(-(-len(pictures) // len(means)) * len(means))
    moved = means[i % len(means)] + (pictures - pictures.mean(0))[i % len(pictures)]
    return np.clip(moved, -1.0, 1.0).astype(np.float32)


def _frequencies(images: np.ndarray) -> np.ndarray:
    """Cosine transforms (n, h, w, c) of images, which keep their norms."""
    return np.asarray(dctn(images.astype(np.float64), axes=(1, 2), norm="ortho"))
