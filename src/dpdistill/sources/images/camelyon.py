"""Reads Camelyon17 as WILDS lays it out: metadata.csv, and patches/patient_*/patch_*.png."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from dpdistill.schema import DataError
from dpdistill.sources.formats import ImageFormat
from dpdistill.sources.images.decode import Picture, raw_pictures, require_stated
from dpdistill.sources.images.folders import decode_file
from dpdistill.sources.images.medical import inner_path, rows_of
from dpdistill.storage.files import show
from dpdistill.storage.options import Stated
from dpdistill.storage.parsed import Parsed

TABLE, PATCHES = "metadata.csv", "patches"
CLASSES = ("normal", "tumor")
UNITS = ("patient", "slide")
VALIDATION, TEST = "1", "2"
"""Hospitals whose patches are the validation and the test part."""


def load_folder(folder: Path, part: str, stated: Stated) -> Parsed:
    """Reads the patches of a part: the first three hospitals' training patches, hospital 1 or hospital 2.

    Args:
        folder: holds metadata.csv and patches.
        part: "train", "val" or "test".
        stated: stated facts; the unit is patient or slide.

    Raises:
        DataError: another unit, a missing column or file, or patches that are no images.

    Source: Bandi et al., 2019 (Camelyon17); Koh et al., 2021 (WILDS), for layout and parts.
    """
    require_stated(stated)
    if stated.unit not in (None, *UNITS):
        raise DataError(f"Expected the unit patient or slide of Camelyon17; got {stated.unit!r:.80}.")
    return raw_pictures(_pictures(folder, part, stated), stated, CLASSES)


def _pictures(folder: Path, part: str, stated: Stated) -> Iterator[Picture]:
    columns = ("patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split")
    for row in rows_of(folder / TABLE, columns):
        if _part(row) != part:
            continue
        where = f"patient_{row['patient'].zfill(3)}_node_{row['node']}"
        name = f"{PATCHES}/{where}/patch_{where}_x_{row['x_coord']}_y_{row['y_coord']}.png"
        read = partial(decode_file, inner_path(folder, name), stated)
        label = int(row["tumor"]) if re.fullmatch("[0-9]{1,5}", row["tumor"]) else None
        yield Picture(show(name), read, label, None if stated.unit is None else row[stated.unit])


def _part(row: dict[str, str]) -> str:
    """Returns the part of a patch; empty for training hospitals' patches that are held out."""
    other = "train" if row["split"] == "0" else ""
    return {VALIDATION: "val", TEST: "test"}.get(row["center"], other)


FORMAT = ImageFormat(
    name="camelyon",
    title="Camelyon17's folder",
    rank=66,
    load_folder=load_folder,
    holds_folder=lambda _, names: {TABLE, PATCHES} <= {*names},
    channels=True,
    units="Camelyon17's folder",
)
