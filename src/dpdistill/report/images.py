"""The synthetic images, a row per class, for templates/images.html."""

from __future__ import annotations

from typing import Any

from dpdistill.report.folder import Folder
from dpdistill.report.pictures import png_uri, to_pixels
from dpdistill.schema import Schema

MAX_IMAGES = 1000
SIDE, LARGEST = 64, 96


def shown_images(folder: Folder, schema: Schema) -> dict[str, Any]:
    """At most MAX_IMAGES images as (class, count, PNG data URIs) per class, and how large they are drawn."""
    limit = max(1, MAX_IMAGES // len(schema.classes))
    height, width = schema.shape[:2]
    rows = []
    for k, name in enumerate(schema.classes):
        X = folder.X[folder.y == k]
        rows.append((name, len(X), [png_uri(pixels) for pixels in to_pixels(X[:limit], schema)]))
    return {
        "rows": rows,
        "limit": limit,
        "shortened": any(count > limit for _, count, _ in rows),
        "height": height,
        "width": width,
        "size": min(width * max(1, round(SIDE / max(height, width))), LARGEST),
        "large": width > LARGEST,
    }
