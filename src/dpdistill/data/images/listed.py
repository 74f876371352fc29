"""A CSV file that lists images with their labels, and the units that they are of: file,label,patient."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from dpdistill.data.files import head, reading, require_file, show, single_part
from dpdistill.data.images.decode import Picture, raw_pictures, require_stated
from dpdistill.data.images.folders import decode_file
from dpdistill.data.options import Stated
from dpdistill.data.raw import Raw
from dpdistill.schema import DataError

FILE, LABEL = "file", "label"


def lists_images(path: Path) -> bool:
    """Whether a file is a CSV that begins with a header of the columns file and label."""
    if not re.search(r"\.csv$", path.name, re.IGNORECASE):
        return False
    first = head(path, 1 << 12).decode("utf-8-sig", "replace").splitlines()[:1]
    return {FILE, LABEL} <= set(next(csv.reader(first), []))


def load_file(path: Path, part: str, stated: Stated) -> Raw:
    """The pictures that a CSV lists in its column file, relative to its folder.

    Args:
        path: the CSV.
        part: a list has one part, which is read whole.
        stated: by the caller; the unit is the column that names that of each image.

    Raises:
        DataError: no such column, a row of another length, no images, or files as in class folders.
    """
    require_stated(stated)
    require_file(path)
    return raw_pictures(_pictures(path, stated), stated, notes=single_part("list", part))


def _pictures(path: Path, stated: Stated) -> Iterator[Picture]:
    unit, number = stated.unit, 0
    with _rows(path) as rows:
        header = next(rows, [])
        for name in (FILE, LABEL, unit):
            if name is not None and header.count(name) != 1:
                raise DataError(f"{show(path)} lacks the column {name!r:.80}, or has it twice.")
        for line, row in enumerate(filter(None, rows), 2):
            if len(row) != len(header):
                raise DataError(f"{show(path)} has another number of fields in line {line} than in its header.")
            cells, number = dict(zip(header, map(str.strip, row), strict=True)), number + 1
            title = f"Image {number} that {show(path)} lists" if unit else show(cells[FILE])
            read = partial(decode_file, path.parent / cells[FILE], stated)
            yield Picture(title, read, cells[LABEL], None if unit is None else cells[unit])
    if not number:
        raise DataError(f"{show(path)} lists no images.")


@contextmanager
def _rows(path: Path) -> Iterator[Iterator[list[str]]]:
    with reading(path):
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                yield csv.reader(file)
        except (UnicodeDecodeError, csv.Error):
            raise DataError(f"{show(path)} cannot be read as a CSV in UTF-8.") from None
