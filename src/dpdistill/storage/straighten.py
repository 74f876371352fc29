"""Deskews, centres and rescales images, each by its own moments: for handwriting."""

from __future__ import annotations

import numpy as np
from PIL import Image

from dpdistill.schema import DataError
from dpdistill.storage.growable_array import slices
from dpdistill.storage.parsed import require_unmasked

MOST_SLANT = 0.6
LEAST_ZOOM, MOST_ZOOM = 0.6, 1.6
STRENGTH, HEIGHT, WIDTH = 0.7, 0.36, 0.28
FAINT = 1e-6


def straighten_images(X: np.ndarray) -> np.ndarray:
    """Returns images sheared, moved and scaled by the moments of their strokes.

    Strokes are the differences from the border's median colour. With these as weights over [-1, 1]^2, m the means, s
    the deviations of rows, and of columns without slant:

        x'(r, c) = x(m_r + z_r r, m_c + slant z_r r + z_c c),   z = clip((s / target)^0.7, 0.6, 1.6)

    Persons differ in the slant and size of their letters. Pixels from outside of an image have its border's colour.
    Each image is changed independently of the others; an image that is not finite stays unchanged.

    Args:
        X: images, (n, h, w, c), whole numbers or floats; strokes may be lighter or darker than the background.

    Returns:
        (n, h, w, c), uint8 if X is, else float32.

    Raises:
        DataError: X of another shape, or masked values.

    Source: LeCun et al., 1998 (Gradient-based learning applied to document recognition), deslanted digits; sizes: ours.
    """
    require_unmasked(X, "images")
    if X.ndim != 4 or not min(X.shape[1:]):
        raise DataError(f"Expected images of shape (n, h, w, c); got {X.shape}.")
    straightened = np.empty(X.shape, np.uint8 if X.dtype == np.uint8 else np.float32)
    for rows in slices(X):
        for i, image in enumerate(X[rows], rows.start):
            with np.errstate(over="ignore"):
                straightened[i] = _straightened(image.astype(straightened.dtype, copy=False))
    return straightened


def _straightened(x: np.ndarray) -> np.ndarray:
    """Straightens one image, (h, w, c)."""
    if not np.isfinite(x).all():
        return x
    wide = x.astype(np.float64)
    ground = np.median(np.concatenate([wide[0], wide[-1], wide[:, 0], wide[:, -1]]), 0).astype(x.dtype)
    affine = _affine(np.abs(wide - ground).mean(2))
    size = (x.shape[1], x.shape[0])
    how = Image.Transform.AFFINE, _pixels(affine, size), Image.Resampling.BILINEAR
    planes = [Image.fromarray(np.ascontiguousarray(plane)) for plane in np.moveaxis(x, 2, 0)]
    moved = [plane.transform(size, *how, fillcolor=colour.item()) for plane, colour in zip(planes, ground, strict=True)]
    return np.stack([np.asarray(plane) for plane in moved], 2)


def _affine(strokes: np.ndarray) -> np.ndarray:
    """Returns the affine map (2, 3) in [-1, 1] from an upright image's row, column and 1 to strokes (h, w)."""
    weight = strokes / max(strokes.max(), 1e-30) + FAINT
    weight = weight / weight.sum()
    rows, columns = np.linspace(-1.0, 1.0, weight.shape[0])[:, None], np.linspace(-1.0, 1.0, weight.shape[1])
    # Sums instead of matrix products, whose rounding may depend on a record's memory address.
    middle = (weight * rows).sum(), (weight * columns).sum()
    rows, columns = rows - middle[0], columns - middle[1]
    high, wide, across = ((weight * moment).sum() for moment in (rows**2, columns**2, rows * columns))
    slant = min(max(across / (high + 1e-3), -MOST_SLANT), MOST_SLANT)
    wide = wide - 2 * slant * across + slant**2 * high
    zoom = [_zoom(high, HEIGHT), _zoom(wide, WIDTH)]
    return np.array([[zoom[0], 0.0, middle[0]], [slant * zoom[0], zoom[1], middle[1]]])


def _zoom(variance: float, target: float) -> float:
    return min(max((max(variance, 1e-4) ** 0.5 / target) ** STRENGTH, LEAST_ZOOM), MOST_ZOOM)


def _pixels(affine: np.ndarray, size: tuple[int, int]) -> tuple[float, ...]:
    """Returns the map in Pillow's terms: from pixels (x, y) to pixels, whose centres lie at halves."""
    half_w, half_h = (max(side - 1, 1) / 2 for side in size)
    (rr, rc, r), (cr, cc, c) = affine
    columns, rows = (cc, cr * half_w / half_h), (rc * half_h / half_w, rr)
    column = half_w * (1 + c - columns[0]) - half_h * columns[1]
    row = half_h * (1 + r - rows[1]) - half_w * rows[0]
    return (*columns, column + 0.5 - 0.5 * sum(columns), *rows, row + 0.5 - 0.5 * sum(rows))
