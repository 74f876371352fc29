"""Makes images without private records: images of a generator, and images for a teacher to score."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from dpdistill.api.listener import SILENT, Listener
from dpdistill.method import Distilled
from dpdistill.recipe.names import PICTURES, kinds_of
from dpdistill.schema import AnySchema, DataError, Schema, TableSchema

__all__ = ["MORE_IMAGES", "PICTURES", "check_generator", "generate", "kinds_of", "make_pictures", "pictures_of"]

Folder = str | os.PathLike

MORE_IMAGES = (
    "A run of dos or dos-kip gets a generator at no further cost: `dpdistill distill --from DIR.run "
    "--set generator_steps=2000 --out OTHER`. Otherwise distil anew with dos-kip or decoupled-kip (a classifier for "
    "--kind drawn) or dp-ntk (a generator)."
)
MORE_ROWS = "For more rows distil anew, at a cost, with dp-merf, dp-hp or dp-ntk: they have a generator."
"""Advice for folders without a generator."""


def check_generator(folder: Folder, schema: AnySchema) -> None:
    """Refuses a folder without a generator.

    Raises:
        DataError: such a folder, with methods that make a generator.
    """
    from dpdistill.folder.layout import GENERATOR
    from dpdistill.storage.files import show

    if not (Path(folder) / GENERATOR).is_file():
        more = MORE_ROWS if isinstance(schema, TableSchema) else MORE_IMAGES
        raise DataError(f"{show(folder)} has no generator, so it cannot make more records. {more}")


def generate(folder: Folder, n: int, distilled: Distilled, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns n records of a folder's generator in [-1, 1], and their classes.

    Raises:
        DataError: the folder has no generator, or a damaged one.
    """
    from dpdistill.folder.save import read_generator
    from dpdistill.storage.files import show

    check_generator(folder, distilled.schema)
    from dpdistill.methods.generator import Generator
    from dpdistill.methods.row_numbers import completed

    arrays = read_generator(folder)
    try:
        generator = Generator.from_arrays(arrays, distilled.schema)
    except ValueError as error:
        raise DataError(f"{show(folder)}: {error}") from None
    X, y = generator.sample(n, seed)
    return completed(distilled.classifier, distilled.schema, X, y, seed)


def make_pictures(
    pictures: str, n: int, folder: Folder, distilled: Distilled, seed: int, listener: Listener = SILENT
) -> np.ndarray:
    """Returns n images in [-1, 1] of a set's shape: of one kind, or of several in equal parts.

    All parts share one public seed, so that "mixed" uses the same procedurally generated images as "drawn".

    Args:
        pictures: kinds of PICTURES, such as "drawn+generated".
        n: number of images.
        folder: folder of the set.
        distilled: the set.
        seed: public seed.
        listener: receives a note that the images are being made.

    Raises:
        DataError: the kind "generated" for a folder without a generator.
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


def pictures_of(
    source: Any, number: int, folder: Folder, distilled: Distilled, seed: int, listener: Listener = SILENT
) -> tuple[str, np.ndarray]:
    """Returns a description of images for a teacher, and the images in [-1, 1].

    Args:
        source: kinds of PICTURES, or a path of images.
        number: number of images to make.
        folder: folder of the set.
        distilled: the set.
        seed: public seed.
        listener: receives a note that the images are being made.

    Raises:
        DataError: images that cannot be made or read.
    """
    if kinds_of(source):
        return f"{number:,} {source} pictures", make_pictures(source, number, folder, distilled, seed, listener)
    from dpdistill.evaluation.score import scaled
    from dpdistill.sources.load import load

    # The number and the path may be private, and scores may be added to the shared folder.
    assert isinstance(distilled.schema, Schema)
    return "pictures of the evaluator", scaled(load(source, "train", like=distilled.schema))[0]
