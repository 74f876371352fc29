"""Pictures that are nobody's records: of a generator, or for a released classifier to score."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpdistill.cli.terminal import working
from dpdistill.method import Distilled
from dpdistill.schema import AnySchema, DataError, TableSchema

MORE_IMAGES = (
    "A run of dos or dos-kip gets a generator at no further cost: `dpdistill distill --from DIR.run "
    "--set generator_steps=2000 --out OTHER`. Otherwise distil anew with dos-kip or decoupled-kip (a classifier for "
    "--kind drawn) or dp-ntk (a generator)."
)
MORE_ROWS = "For more rows distil anew, at a cost, with dp-merf, dp-hp or dp-ntk: they have a generator."
"""What to do where a folder cannot make more records."""
PICTURES = {
    "drawn": "drawn by a program: no picture shows anything of a record",
    "generated": "made by the folder's generator: post-processing of the release",
    "mixed": "drawn by a program and mixed with the folder's synthetic images: post-processing of the release",
    "varied": "half of them mixed of drawn pictures and the folder's synthetic images, half made by its generator: "
    "post-processing of the release",
}
"""What kinds of pictures there are, and what a person is told of each."""
OF_GENERATOR, OF_IMAGES = ("generated", "varied"), ("mixed", "varied")
"""The kinds that need the folder's generator, and those that show its images."""


def check_generator(folder: str, schema: AnySchema) -> None:
    """Refuse a folder without a generator.

    Raises:
        DataError: with what gives one.
    """
    from dpdistill.data.files import show
    from dpdistill.data.folder import GENERATOR

    if not (Path(folder) / GENERATOR).is_file():
        more = MORE_ROWS if isinstance(schema, TableSchema) else MORE_IMAGES
        raise DataError(f"{show(folder)} has no generator: its records are all there are. {more}")


def generate(folder: str, n: int, distilled: Distilled, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """n records of a folder's generator in [-1, 1], and their classes.

    Raises:
        DataError: the folder has no generator, or a damaged one.
    """
    from dpdistill.data.files import show
    from dpdistill.data.save import read_generator

    check_generator(folder, distilled.schema)
    from dpdistill.methods.generator import Generator

    arrays = read_generator(folder)
    try:
        generator = Generator.from_arrays(arrays, distilled.schema)
    except ValueError as error:
        raise DataError(f"{show(folder)}: {error}") from None
    return generator.sample(n, seed)


def make_pictures(kind: str, n: int, folder: str, distilled: Distilled, seed: int) -> np.ndarray:
    """n pictures of a kind in [-1, 1], of the shape of a synthetic set's images."""
    if kind == "varied":
        parts = ("mixed", n - n // 2), ("generated", n // 2)
        X = np.concatenate([make_pictures(part, size, folder, distilled, seed) for part, size in parts])
        return X[np.random.default_rng(seed).permutation(n)]
    from dpdistill.encode.mixing import mix_pictures
    from dpdistill.encode.pictures import draw_pictures

    with working(f"making {kind} pictures"):
        if kind == "generated":
            return generate(folder, n, distilled, seed)[0]
        X = draw_pictures(n, distilled.schema.shape, seed)
        images, _ = distilled.train_set
        return mix_pictures(X, images, seed) if kind == "mixed" else X
