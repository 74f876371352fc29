"""Pictures for a released classifier to score, none of them a record."""

from __future__ import annotations

import numpy as np

from dpdistill.cli.terminal import working
from dpdistill.method import Distilled

PICTURES = {
    "drawn": "drawn by a program: no picture shows anything of a record",
    "mixed": "drawn by a program and mixed with the folder's synthetic images: post-processing of the release",
}
"""What kinds of pictures there are, and what a person is told of each."""


def make_pictures(kind: str, n: int, distilled: Distilled, seed: int) -> np.ndarray:
    """n pictures of a kind in [-1, 1], of the shape of a synthetic set's images."""
    from dpdistill.encode.mixing import mix_pictures
    from dpdistill.encode.pictures import draw_pictures

    with working(f"making {kind} pictures"):
        X = draw_pictures(n, distilled.schema.shape, seed)
        images, _ = distilled.training or (distilled.X, distilled.y)
        return mix_pictures(X, images, seed) if kind == "mixed" else X
