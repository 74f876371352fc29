"""Stores per-record outputs of a fixed encoder. Outputs are records: in memory, or in a file only the owner reads."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import IO

import numpy as np

from dpdistill.storage.memory import Memory


class Features:
    """An array of rows, in memory or in a file; unwritten rows are zeros.

    Args:
        shape: (rows, ...).
        dtype: type of a number.
        space: memory limit and folder.
        name: name of a shared file.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, space: Memory, name: str) -> None:
        self._row, self._dtype = shape[1:], np.dtype(dtype)
        self._bytes = math.prod(self._row) * self._dtype.itemsize
        self._array = self._file = None
        self._done: set[tuple[int, int]] = set()
        self._marks = space.folder / name if space.shared and space.folder else None
        if not space.shared and shape[0] * self._bytes <= space.size:
            self._array = np.zeros(shape, dtype)
            return
        self._file = _opened(space, name)
        if self._file.seek(0, os.SEEK_END) not in (0, shape[0] * self._bytes):
            raise OSError("The file of features has another size.")
        os.truncate(self._file.fileno(), shape[0] * self._bytes)

    def __del__(self) -> None:
        if file := getattr(self, "_file", None):
            file.close()

    def filled(self, shard: tuple[int, int]) -> bool:
        """Returns whether the rows of a shard, the i-th of n, were written by this or by a process that shares the
        file.
        """
        return shard in self._done or (self._marks is not None and self._mark(shard).exists())

    def say_filled(self, shard: tuple[int, int]) -> None:
        """Marks the rows of a shard as written."""
        self._done.add(shard)
        if self._marks is not None:
            self._mark(shard).touch(0o600)

    def _mark(self, shard: tuple[int, int]) -> Path:
        assert self._marks is not None
        return self._marks.with_name(f"{self._marks.name}-{shard[0]}-of-{shard[1]}")

    def write(self, at: int, rows: np.ndarray) -> None:
        """Writes rows from index `at` on."""
        if self._file is None:
            assert self._array is not None
            self._array[at : at + len(rows)] = rows
            return
        left = np.ascontiguousarray(rows, self._dtype).data.cast("B")
        self._file.seek(at * self._bytes)
        while left:
            left = left[self._file.write(left) :]

    def read(self, at: int, n: int) -> np.ndarray:
        """Returns n rows from index `at` on. Files are read, not mapped: mapped pages would count as this process's
        memory.
        """
        if self._file is None:
            assert self._array is not None
            return self._array[at : at + n]
        rows = np.empty((n, *self._row), self._dtype)
        self._file.seek(at * self._bytes)
        if self._file.readinto(rows.reshape(-1).view(np.uint8).data) != rows.nbytes:  # type: ignore[attr-defined]
            raise OSError("Features could not be read again.")
        return rows


def _opened(space: Memory, name: str) -> IO[bytes]:
    if not space.shared:
        return tempfile.TemporaryFile(dir=space.folder, buffering=0)
    assert space.folder is not None
    return os.fdopen(os.open(space.folder / name, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0)
