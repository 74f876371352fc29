"""Pictures as commands make them: `dpdistill.api.pictures` with a line on the terminal."""

from __future__ import annotations

import numpy as np

from dpdistill.api import pictures as api
from dpdistill.api.pictures import MORE_IMAGES, PICTURES, check_generator, generate, kinds_of
from dpdistill.cli.listener import Terminal
from dpdistill.method import Distilled

__all__ = ["MORE_IMAGES", "PICTURES", "check_generator", "generate", "kinds_of", "make_pictures"]


def make_pictures(pictures: str, n: int, folder: str, distilled: Distilled, seed: int) -> np.ndarray:
    """Returns n pictures in [-1, 1], as `dpdistill.api.pictures.make_pictures`."""
    return api.make_pictures(pictures, n, folder, distilled, seed, Terminal())
