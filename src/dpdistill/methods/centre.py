"""Denoises the pilot's class means, and generates procedural images around them."""

from __future__ import annotations

import numpy as np
from scipy.fft import dctn, idctn

from dpdistill.public_images.image_source import Drawn

PICTURES = Drawn(pictures=200, seed=0)
"""Number of images; mean features then differ from their limit by a tenth of a record's features."""


def denoised(means: np.ndarray, stddev: np.ndarray) -> np.ndarray:
    """Removes most of the noise of released pixel means by a Wiener filter, in rings of similar frequency.

        m_f  <-  p / (p + s^2) m_f,       p = mean over means and the ring of f of (m_f^2 - s^2), at least 0

    m_f are coefficients of a cosine transform; s is the noise, equal in all coefficients. Rings of high frequencies
    hold little signal and much noise.

    Args:
        means: (n, h, w, c), released.
        stddev: standard deviation of the noise per pixel, (n,), in the same units: all above zero, or all zero, which
            changes nothing. The weight of a mean in p is 1 / s^2.

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
    """Returns procedurally generated images, shifted to the means (classes, h, w, c) in turn, in [-1, 1].

    A mean alone is smooth, so that its features are far from the features of records. Every mean has the same number
    of images: PICTURES, rounded up to a multiple of the number of means.
    """
    pictures = PICTURES.images(means.shape[1:])
    i = np.arange(-(-len(pictures) // len(means)) * len(means))
    moved = means[i % len(means)] + (pictures - pictures.mean(0))[i % len(pictures)]
    return np.clip(moved, -1.0, 1.0).astype(np.float32)


def _frequencies(images: np.ndarray) -> np.ndarray:
    """Returns the orthonormal cosine transforms (n, h, w, c) of images."""
    return np.asarray(dctn(images.astype(np.float64), axes=(1, 2), norm="ortho"))
