"""Reads a CSV file that lists images with labels and units: file,label,patient."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from dpdistill.schema import DataError
from dpdistill.sources.formats import ImageFormat
from dpdistill.sources.images.decode import Picture, raw_pictures, refused, require_stated
from dpdistill.sources.images.folders import decode_file
from dpdistill.storage.files import head, reading, require_file, show, single_part
from dpdistill.storage.options import Stated
from dpdistill.storage.parsed import Parsed

FILE, LABEL = "file", "label"


def lists_images(path: Path) -> bool:
    """Returns whether a file is a CSV whose header has the columns file and label."""
    if not re.search(r"\.csv$", path.name, re.IGNORECASE):
        return False
    first = head(path, 1 << 12).decode("utf-8-sig", "replace").splitlines()[:1]
    return {FILE, LABEL} <= set(next(csv.reader(first), []))


def load_file(path: Path, part: str, stated: Stated) -> Parsed:
    """Reads the images in a CSV's column file, with paths relative to the CSV's folder.

    Args:
        path: the CSV.
        part: ignored, since a list has a single part.
        stated: stated facts; the unit is the column that names the unit of each image.

    Raises:
        DataError: a missing column, a row of another length, no images, or the errors of class folders.
    """
    require_stated(stated)
    require_file(path)
    return raw_pictures(_pictures(path, stated), stated, notes=single_part("list", part))


def _pictures(path: Path, stated: Stated) -> Iterator[Picture]:
    """Yields the listed images; each line is parsed alone, so that an open quote cannot hide later lines."""
    unit, number = stated.unit, 0
    with reading(path), path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        header = _cells(path, next(file, ""), 1, True)
        for name in (FILE, LABEL, unit):
            if name is not None and header.count(name) != 1:
                raise DataError(f"{show(path)} lacks the column {name!r:.80}, or has it twice.")
        for line, text in enumerate(file, 2):
            if not text.strip():
                continue
            number += 1
            row = _cells(path, text, line, stated.strict)
            if len(row) != len(header):
                fault = f"{show(path)} has different numbers of fields in line {line} and in its header."
                if stated.strict:
                    raise DataError(fault)
                yield Picture(show(path), partial(refused, fault), None)
                continue
            cells = dict(zip(header, row, strict=True))
            title = f"Image {number} that {show(path)} lists" if unit else show(cells[FILE])
            read = partial(_decode, path.parent, cells[FILE], title, stated)
            yield Picture(title, read, _label(cells[LABEL], stated), None if unit is None else cells[unit])
    if not number:
        raise DataError(f"{show(path)} lists no images.")


def _cells(path: Path, text: str, line: int, strict: bool) -> list[str]:
    """Returns the stripped cells of a line; empty for an unreadable line with lenient reading.

    Raises:
        DataError: a line that is no CSV in UTF-8, if strict.
    """
    try:
        if strict:
            text.encode()
        return [cell.strip() for row in csv.reader([text.rstrip("\r\n")], strict=True) for cell in row]
    except (UnicodeEncodeError, csv.Error):
        if strict:
            raise DataError(f"{show(path)} cannot be read as a CSV in UTF-8: see line {line}.") from None
        return []


def _label(cell: str, stated: Stated) -> int | str | None:
    """Returns the name of a class, or an integer; None for an empty cell."""
    if cell in (stated.classes or ()) or not re.fullmatch("0|[1-9][0-9]{0,8}", cell):
        return cell or None
    return int(cell)


def _decode(folder: Path, name: str, title: str, stated: Stated) -> np.ndarray:
    if "\0" in name:
        raise DataError(f"{title} has a name that no file can have.")
    return decode_file(folder / name, stated)


FORMAT = ImageFormat(
    name="list",
    title="a CSV with the columns file and label",
    rank=60,
    load_file=load_file,
    holds_file=lists_images,
    channels=True,
    units="a CSV list",
)
