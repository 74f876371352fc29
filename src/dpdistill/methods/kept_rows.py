"""Rows of numbers in a file: public data of a method that are too large for memory."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Hashable
from functools import lru_cache
from pathlib import Path

import numpy as np


class KeptRows:
    """Arrays of one shape in a file, each written once; a mark behind all of them says that a row is complete.

    Args:
        path: the file, which is created if there is none; None for a temporary one without a name.
        rows: number of arrays.
        shape: shape of each, float32.
    """

    def __init__(self, path: Path | None, rows: int, shape: tuple[int, ...]) -> None:
        self._rows, self._shape, self._bytes = rows, shape, 4 * math.prod(shape)
        if path is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the rows
        else:
            self._file = os.fdopen(os.open(path, os.O_CREAT | os.O_RDWR, 0o600), "r+b")

    def __del__(self) -> None:
        if file := getattr(self, "_file", None):
            file.close()

    def read(self, t: int) -> np.ndarray | None:
        """Returns row t, or None if it was not written."""
        self._file.seek(self._rows * self._bytes + t)
        if self._file.read(1) != b"\x01":
            return None
        self._file.seek(t * self._bytes)
        return np.frombuffer(self._file.read(self._bytes), np.float32).reshape(self._shape)

    def write(self, t: int, row: np.ndarray) -> None:
        """Writes row t to the disk, and then its mark."""
        for at, content in ((t * self._bytes, np.float32(row).tobytes()), (self._rows * self._bytes + t, b"\x01")):
            self._file.seek(at)
            self._file.write(content)
            self._file.flush()
            os.fsync(self._file.fileno())


@lru_cache(maxsize=1)
def kept_rows(path: Path | None, rows: int, shape: tuple[int, ...], of: Hashable) -> KeptRows:
    """Returns the rows of a file, or those of a temporary file: for what they are of, such as a method and its key."""
    return KeptRows(path, rows, shape)
