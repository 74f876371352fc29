"""Reads CheXpert's folder: train.csv and valid.csv with one column per finding, and chest films by patient."""

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

CLASSES = ("absent", "present")
PATIENT = "patient"
_FOUND = {"1.0": 1, "1": 1, "0.0": 0, "0": 0, "": 0}
"""Class by cell; a blank cell is a finding that the report does not mention."""
_UNCERTAIN = ("-1.0", "-1")
"""Cells of films that are left out."""
_INNER = re.compile(r"(?:^|/)((?:train|valid|test)/(patient[0-9]+)/.+)$")


def load_folder(folder: Path, part: str, stated: Stated) -> Parsed:
    """Reads the films of a part with one finding as the label; films with an uncertain finding are left out.

    Args:
        folder: holds train.csv, valid.csv and the folders of patients.
        part: "train"; "val" and "test" read valid.csv, or "test" test.csv if it exists.
        stated: stated facts; `labels` is the finding's column, and the unit is patient.

    Raises:
        DataError: no finding stated, another unit, a missing column or file, or films that are no images.

    Source: Irvin et al., 2019 (CheXpert).
    """
    require_stated(stated)
    if stated.labels is None:
        raise DataError("Expected --labels with one finding of CheXpert, such as 'Pleural Effusion'.")
    if stated.unit not in (None, PATIENT):
        raise DataError(f"Expected the unit patient of CheXpert; got {stated.unit!r:.80}.")
    table = {"train": "train.csv", "test": "test.csv" if (folder / "test.csv").is_file() else "valid.csv"}
    films = _films(folder, table.get(part, "valid.csv"), stated)
    return raw_pictures(films, stated, CLASSES, (f"Films with an uncertain {stated.labels!r:.80} are left out.",))


def _films(folder: Path, table: str, stated: Stated) -> Iterator[Picture]:
    finding = str(stated.labels)
    for row in rows_of(folder / table, ("Path", finding)):
        if row[finding] in _UNCERTAIN:
            continue
        match = _INNER.search(row["Path"])
        if match is None:
            raise DataError(f"{show(folder / table)} has a path without a part and a patient.")
        read = partial(decode_file, inner_path(folder, match[1]), stated)
        title = "A film" if stated.unit else show(match[1])
        yield Picture(title, read, _FOUND.get(row[finding]), match[2] if stated.unit else None)


FORMAT = ImageFormat(
    name="chexpert",
    title="CheXpert's folder",
    rank=67,
    load_folder=load_folder,
    holds_folder=lambda _, names: {"train.csv", "valid.csv", "train"} <= {*names},
    channels=True,
    labels="CheXpert",
    units="CheXpert's folder",
)
