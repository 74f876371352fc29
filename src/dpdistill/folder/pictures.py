"""Renders records as 8-bit images: one per record, and a grid with one row per class."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dpdistill.schema.image import FEW_PIXELS

MAX_ROWS = 100
MAX_COLUMNS = 50
_TILE = 96
_WIDTH = 3_000
_GAP = 2
_WHITE = (255, 255, 255)


def to_picture(x: np.ndarray) -> Image.Image:
    """Returns one record (h, w, c) in [-1, 1] as an image: colour for 3 channels, else their mean in grey."""
    levels = np.round((np.clip(x, -1.0, 1.0) + 1.0) * 127.5)
    if levels.shape[2] == 3:
        return Image.fromarray(levels.astype(np.uint8))
    return Image.fromarray(np.round(levels.mean(axis=2)).astype(np.uint8))


def draw_grid(X: np.ndarray, y: np.ndarray, classes: tuple[str, ...]) -> Image.Image:
    """Returns a grid with a row per class: its name, then its records, enlarged; tiny images are smoothed.

    Args:
        X: records in [-1, 1], (m, h, w, c).
        y: class indices, (m,).
        classes: names; the first 100 classes and the first 50 records of each are drawn.
    """
    rows = [np.flatnonzero(y == k)[:MAX_COLUMNS] for k in range(min(len(classes), MAX_ROWS))]
    columns = max(1, *(len(row) for row in rows))
    height, width = X.shape[1:3]
    scale = max(1, min(_TILE // max(height, width), _WIDTH // (columns * width)))
    size = (width * scale, height * scale)
    names = [name[:24].encode("latin-1", "replace").decode("latin-1") for name in classes[:MAX_ROWS]]
    font = ImageFont.load_default()
    margin = 2 * _GAP + max(int(font.getbbox(name)[2]) for name in names)
    step = max(size[1], 14) + _GAP
    grid = Image.new("RGB", (margin + columns * (size[0] + _GAP), len(rows) * step + _GAP), _WHITE)
    draw = ImageDraw.Draw(grid)
    how = Image.Resampling.BICUBIC if max(height, width) < FEW_PIXELS else Image.Resampling.NEAREST
    for k, row in enumerate(rows):
        top = _GAP + k * step
        draw.text((_GAP, top + max(0, (size[1] - 12) // 2)), names[k], fill=(0, 0, 0), font=font)
        for j, i in enumerate(row):
            tile = to_picture(X[i]).convert("RGB").resize(size, how)
            grid.paste(tile, (margin + j * (size[0] + _GAP), top))
    return grid
