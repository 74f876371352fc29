"""Pictures that are no records: images of a generator, and pictures for a teacher to score."""

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
"""Advice where a folder cannot make more records."""


def check_generator(folder: Folder, schema: AnySchema) -> None:
    """Refuses a folder without a generator.

    Raises:
        DataError: with what gives one.
    """
    from dpdistill.folder.layout import GENERATOR
    from dpdistill.storage.files import show

    if not (Path(folder) / GENERATOR).is_file():
        more = MORE_ROWS if isinstance(schema, TableSchema) else MORE_IMAGES
        raise DataError(f"{show(folder)} has no generator: its records are all there are. {more}")


def generate(folder: Folder, n: int, distilled: Distilled, seed: int) -> tuple[np.ndarray, np.ndarray]:
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
    pictures: str, n: int, folder: Folder, distilled: Distilled, seed: int, listener: Listener = SILENT
) -> np.ndarray:
    """Returns n pictures in [-1, 1] of the shape of a set's images: of one kind, or of several in equal parts.

    All parts have one public seed: mixed pictures are made of the same drawn ones that a part of drawn pictures has.

    Args:
        pictures: kinds of PICTURES, such as "drawn+generated".
        n: how many.
        folder: of the set.
        distilled: the set.
        seed: public.
        listener: receives a note while they are made.

    Raises:
        DataError: generated pictures of a folder without a generator.
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
    """Returns what pictures for a teacher are, and the pictures in [-1, 1].

    Args:
        source: kinds of PICTURES, or where pictures are.
        number: how many are made.
        folder: of the set.
        distilled: the set.
        seed: public.
        listener: receives a note while they are made.

    Raises:
        DataError: pictures that cannot be made or read.
    """
    if kinds_of(source):
        return f"{number:,} {source} pictures", make_pictures(source, number, folder, distilled, seed, listener)
    from dpdistill.evaluation.score import scaled
    from dpdistill.sources.load import load

    # Neither their number nor their place: they may be private, and scores may be added to the shared folder.
    assert isinstance(distilled.schema, Schema)
    return "pictures of the evaluator", scaled(load(source, "train", like=distilled.schema))[0]
