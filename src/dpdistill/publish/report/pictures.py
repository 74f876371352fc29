"""Renders synthetic images as inline PNG, one row per class, for templates/images.html."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from typing import Any

import numpy as np

from dpdistill.publish.report.folder import Folder
from dpdistill.schema import Schema
from dpdistill.schema.image import FEW_PIXELS

MAX_IMAGES = 1000
SIDE, LARGEST = 96, 128
"""Pixels on a screen: the least length of an image's longer side, and the largest width of any image."""


def to_pixels(X: np.ndarray, schema: Schema) -> np.ndarray:
    """Returns raw values (m, h, w, c) as pixels: rint(255 (x - low) / (high - low)), clamped, (m, h, w, 1 or 3), uint8.

    One channel is grey; three are red, green, blue. For any other number of channels the mean is shown in grey.
    """
    low, high = schema.bounds
    X = np.asarray(X, np.float64)
    if X.shape[-1] not in (1, 3):
        X = X.mean(axis=-1, keepdims=True)
    return np.rint(np.clip((X - low) / (high - low), 0.0, 1.0) * 255.0).astype(np.uint8)


def png_uri(pixels: np.ndarray) -> str:
    """Returns one image (h, w, 1 or 3), uint8, as a PNG data URI of its own size; a browser enlarges the image.

    The rows are stored, not compressed: a compressor's bytes depend on its version, and a page must have the same bytes
    on every machine. Noisy images hardly compress anyway.
    """
    height, width, channels = pixels.shape
    rows = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0))).tobytes()  # each row follows the byte of filter 0
    blocks = [rows[start : start + 0xFFFF] for start in range(0, len(rows), 0xFFFF)]
    heads = (struct.pack("<BHH", k == len(blocks), len(part), len(part) ^ 0xFFFF) for k, part in enumerate(blocks, 1))
    stored = b"".join(head + part for head, part in zip(heads, blocks, strict=True))
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0),
        b"IDAT": b"\x78\x01" + stored + struct.pack(">I", zlib.adler32(rows)),
        b"IEND": b"",
    }
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks.items()
    )
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def shown_images(folder: Folder, schema: Schema) -> dict[str, Any]:
    """Returns at most MAX_IMAGES images as (class, count, PNG data URIs) per class, and their size on the page."""
    limit = max(1, MAX_IMAGES // len(schema.classes))
    height, width = schema.shape[:2]
    of_class = ((name, folder.X[folder.y == k]) for k, name in enumerate(schema.classes))
    rows = [(name, len(X), [png_uri(pixels) for pixels in to_pixels(X[:limit], schema)]) for name, X in of_class]
    return {
        "rows": rows,
        "limit": limit,
        "shortened": any(count > limit for _, count, _ in rows),
        "height": height,
        "width": width,
        "size": min(width * max(1, math.ceil(SIDE / max(height, width))), LARGEST),
        "smooth": width > LARGEST or max(height, width) < FEW_PIXELS,
    }
