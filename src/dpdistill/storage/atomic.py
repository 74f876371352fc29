"""Writes files atomically: complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from dpdistill.schema import DataError
from dpdistill.storage.files import show


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Writes a temporary file in the same folder, then renames it."""
    unfinished = path.with_name(f".{path.name}.part")
    try:
        with unfinished.open("wb") as file:
            write(file)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Removes temporary files of `write_atomically` below a folder after a killed run."""
    for left in folder.rglob(".*.part"):
        left.unlink()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns a failure to write a file into a DataError of one sentence."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{show(path)} cannot be written: {error.strerror or 'input/output error'}.") from None
