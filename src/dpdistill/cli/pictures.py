"""Pictures that are nobody's records: of a generator, or for a released classifier to score."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpdistill.cli.terminal import working
from dpdistill.method import Distilled
from dpdistill.recipe.names import PICTURES, kinds_of
from dpdistill.schema import AnySchema, DataError, TableSchema

__all__ = ["MORE_IMAGES", "PICTURES", "check_generator", "generate", "kinds_of", "make_pictures"]

MORE_IMAGES = (
    "A run of dos or dos-kip gets a generator at no further cost: `dpdistill distill --from DIR.run "
    "--set generator_steps=2000 --out OTHER`. Otherwise distil anew with dos-kip or decoupled-kip (a classifier for "
    "--kind drawn) or dp-ntk (a generator)."
)
MORE_ROWS = "For more rows distil anew, at a cost, with dp-merf, dp-hp or dp-ntk: they have a generator."
"""What to do where a folder cannot make more records."""


def check_generator(folder: str, schema: AnySchema) -> None:
    """Refuse a folder without a generator.

    Raises:
        DataError: with what gives one.
    """
    from dpdistill.folder.layout import GENERATOR
    from dpdistill.storage.files import show

    if not (Path(folder) / GENERATOR).is_file():
        more = MORE_ROWS if isinstance(schema, TableSchema) else MORE_IMAGES
        raise DataError(f"{show(folder)} has no generator: its records are all there are. {more}")


def generate(folder: str, n: int, distilled: Distilled, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """n records of a folder's generator in [-1, 1], and their classes.

    Raises:
        DataError: the folder has no generator, or a damaged one.
    """
    check_generator(folder, distilled.schema)
    from dpdistill.evaluation.student import generate

    return generate(folder, n, distilled, seed)


def make_pictures(pictures: str, n: int, folder: str, distilled: Distilled, seed: int) -> np.ndarray:
    """n pictures as `evaluate.student.make_pictures` makes them, while something moves on a terminal."""
    if "generated" in kinds_of(pictures):
        check_generator(folder, distilled.schema)
    from dpdistill.evaluation.student import make_pictures

    with working(f"making {pictures} pictures"):
        return make_pictures(pictures, n, folder, distilled, seed)
