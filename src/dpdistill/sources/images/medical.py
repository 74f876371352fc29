"""Reads metadata files of medical image sets: rows of a CSV file, by column name."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from dpdistill.schema import DataError
from dpdistill.storage.files import reading, require_file, show


def rows_of(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Yields the rows of a CSV file by column name, with stripped cells.

    Args:
        path: the CSV file, in UTF-8.
        columns: columns that the file must have.

    Raises:
        DataError: no such file, a missing column, or a row of another length.
    """
    require_file(path)
    with reading(path), path.open(encoding="utf-8-sig", newline="") as file:
        table = csv.reader(file)
        header = [name.strip() for name in next(table, [])]
        if absent := [name for name in columns if header.count(name) != 1]:
            raise DataError(f"{show(path)} lacks the column {absent[0]!r:.80}, or has it twice.")
        for number, row in enumerate(table, 2):
            if row and len(row) != len(header):
                raise DataError(f"{show(path)} has different numbers of fields in line {number} and in its header.")
            if row:
                yield dict(zip(header, map(str.strip, row), strict=True))


def inner_path(folder: Path, name: str) -> Path:
    """Returns the path of a file below a folder.

    Raises:
        DataError: a name that leads out of the folder.
    """
    parts = PurePosixPath(name).parts
    if "\0" in name or not parts or parts[0] == "/" or ".." in parts:
        raise DataError(f"{show(folder)} lists a file outside of the folder.")
    return folder.joinpath(*parts)
