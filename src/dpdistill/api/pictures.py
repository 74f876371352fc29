"""Pictures that no private record is among: of a folder's generator, or for a released classifier to score."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpdistill.api.listener import SILENT, Listener
from dpdistill.schema import AnySchema, DataError, TableSchema

if TYPE_CHECKING:
    from dpdistill.method import Distilled

MORE_IMAGES = (
    "A run of dos or dos-kip gets a generator at no further cost: `dpdistill distill --from DIR.run "
    "--set generator_steps=2000 --out OTHER`. Otherwise distil anew with dos-kip or decoupled-kip (a classifier for "
    "--kind drawn) or dp-ntk (a generator)."
)
MORE_ROWS = "For more rows distil anew, at a cost, with dp-merf, dp-hp or dp-ntk: they have a generator."
"""The advice where a folder cannot make more records."""
PICTURES = {
    "drawn": "drawn by a program: no picture shows anything of a record",
    "generated": "made by the folder's generator: post-processing of the release",
    "mixed": "drawn by a program and mixed with the folder's synthetic images: post-processing of the release",
}
"""Kinds of pictures, and how a person reads of each; KIND+KIND are equal parts of both."""


def kinds_of(pictures: str) -> tuple[str, ...]:
    """Returns the kinds that "drawn+generated" names; none of them where the text names something else."""
    kinds = tuple(pictures.split("+"))
    return kinds if set(kinds) <= set(PICTURES) and len(set(kinds)) == len(kinds) else ()


def check_generator(folder: str | os.PathLike, schema: AnySchema) -> None:
    """Refuses a folder without a generator.

    Raises:
        DataError: with what gives one.
    """
    from dpdistill.folder.layout import GENERATOR
    from dpdistill.storage.files import show

    if not (Path(folder) / GENERATOR).is_file():
        more = MORE_ROWS if isinstance(schema, TableSchema) else MORE_IMAGES
        raise DataError(f"{show(folder)} has no generator: its records are all there are. {more}")


def generate(folder: str | os.PathLike, n: int, distilled: Distilled, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns n records of a folder's generator in [-1, 1], and their classes.

    Raises:
        DataError: the folder has no generator, or a damaged one.
    """
    from dpdistill.folder.save import read_generator
    from dpdistill.storage.files import show

    check_generator(folder, distilled.schema)
    from dpdistill.methods.generator import Generator

    arrays = read_generator(folder)
    try:
        generator = Generator.from_arrays(arrays, distilled.schema)
    except ValueError as error:
        raise DataError(f"{show(folder)}: {error}") from None
    return generator.sample(n, seed)


def make_pictures(
    pictures: str,
    n: int,
    folder: str | os.PathLike,
    distilled: Distilled,
    seed: int,
    listener: Listener = SILENT,
) -> np.ndarray:
    """Returns n pictures in [-1, 1] of the shape of a synthetic set's images: of one kind, or of several equally.

    All parts have one public seed, so that mixed pictures are made of the same drawn ones as the drawn part.

    Args:
        pictures: kinds, "drawn" or "drawn+generated".
        n: pictures, >= 1.
        folder: the shared folder, whose generator makes generated ones.
        distilled: its synthetic set.
        seed: public.
        listener: receives the note that pictures are being made.
    """
    from dpdistill.networks.mixing import mix_pictures
    from dpdistill.public_images.pictures import draw_pictures

    kinds = kinds_of(pictures)

    def of(kind: str, n: int) -> np.ndarray:
        if kind == "generated":
            return generate(folder, n, distilled, seed)[0]
        X = draw_pictures(n, distilled.schema.shape, seed)
        return mix_pictures(X, distilled.train_set[0], seed) if kind == "mixed" else X

    with listener.working(f"making {pictures} pictures"):
        sizes = [(n + i) // len(kinds) for i in range(len(kinds))]
        parts = [of(kind, size) for kind, size in zip(kinds, sizes, strict=True) if size]
    return parts[0] if len(parts) == 1 else np.random.default_rng(seed).permutation(np.concatenate(parts))
