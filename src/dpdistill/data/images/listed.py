"""A CSV file that lists images with their labels, and the units that they are of: file,label,patient."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np

from dpdistill.data.files import Raw, head, reading, require_file, show, single_part
from dpdistill.data.images.decode import Stack, picture_notes, require_stated
from dpdistill.data.images.folders import decode_file
from dpdistill.data.options import Stated
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
    unit = stated.unit
    require_file(path)
    with reading(path):
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                header, *rows = csv.reader(file)
        except (UnicodeDecodeError, csv.Error):
            raise DataError(f"{show(path)} cannot be read as a CSV in UTF-8.") from None
    for name in (FILE, LABEL, unit):
        if name is not None and header.count(name) != 1:
            raise DataError(f"{show(path)} lacks the column {name!r:.80}, or has it twice.")
    rows = [row for row in rows if row]
    if wrong := next((i for i, row in enumerate(rows, 2) if len(row) != len(header)), None):
        raise DataError(f"{show(path)} has another number of fields in line {wrong} than in its header.")
    if not rows:
        raise DataError(f"{show(path)} lists no images.")
    columns = {name: [row[header.index(name)].strip() for row in rows] for name in (FILE, LABEL, unit) if name}
    stack = Stack(len(rows), stated)
    for i, name in enumerate(columns[FILE]):
        title = f"Image {i + 1} that {show(path)} lists" if unit else show(name)
        stack.put(i, title, lambda name=name: decode_file(path.parent / name, stated))
    y, notes = stack.labelled(columns[LABEL]), (*single_part("list", part), *picture_notes(stated, stack.X))
    units = None if unit is None else np.array(columns[unit])
    return Raw(stack.X, y, None, (0.0, 255.0), notes, resized=True, units=units)
