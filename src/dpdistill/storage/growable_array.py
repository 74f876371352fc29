"""Arrays that grow by rows: in memory, or in files if they are too large."""

from __future__ import annotations

import math
import mmap
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from dpdistill.storage.atomic import writing
from dpdistill.storage.memory import Memory

_BYTES, _ROWS = 1 << 22, 1 << 16
Places = slice | np.ndarray


class GrowableArrays:
    """Arrays of equally many rows that grow by rows: in memory up to a limit, beyond it in files.

    The files have mode 0600 and no name, on the disk of the owner's folder. They vanish with the last array that maps
    them and with the process, however it ends.
    """

    def __init__(self, memory: Memory) -> None:
        self.rows, self._memory, self._size = 0, memory, 0
        self._columns: list[_InMemory] | list[_InFile] = []

    def append(self, *arrays: np.ndarray, at: np.ndarray | None = None) -> None:
        """Appends rows.

        Args:
            arrays: the rows of each array; types may become larger from one call to the next.
            at: indices of the rows, for rows in another order; finally every index must be written once.

        Raises:
            DataError: a full disk, or a folder that cannot be written to.
        """
        self._columns = self._columns or [_InMemory(array) for array in arrays]
        in_memory = self._size <= self._memory.size
        self._size += sum(array.nbytes for array in arrays)
        if in_memory and self._size > self._memory.size:
            self._columns = [_InFile(column.finished(), self._memory.folder) for column in self._columns]
        places = slice(self.rows, self.rows + len(arrays[0])) if at is None else at
        for column, array in zip(self._columns, arrays, strict=True):
            column.write(places, array)
        self.rows += len(arrays[0])

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Returns all rows of each array, as read-only maps if they are in files, and empties this object."""
        columns, self._columns, self.rows, self._size = self._columns, [], 0, 0
        return tuple(column.finished() for column in columns)


class _InMemory:
    """Rows of one shape in an array that grows in place."""

    def __init__(self, like: np.ndarray) -> None:
        self._rows, self._end = np.empty((0, *like.shape[1:]), like.dtype), 0

    def write(self, places: Places, rows: np.ndarray) -> None:
        """Writes rows at their indices."""
        if (kind := np.promote_types(self._rows.dtype, rows.dtype)) != self._rows.dtype:
            self._rows = self._rows.astype(kind)
        end = places.stop if isinstance(places, slice) else int(places.max(initial=-1)) + 1
        self._end = max(self._end, end)
        if end > len(self._rows):
            self._resize(max(end, len(self._rows) * 9 // 8))
        self._rows[places] = rows

    def finished(self) -> np.ndarray:
        """Returns all rows."""
        self._resize(self._end)
        return self._rows

    def _resize(self, rows: int) -> None:
        self._rows.resize((rows, *self._rows.shape[1:]), refcheck=False)


class _InFile:
    """Rows of one shape in a file without a name."""

    def __init__(self, rows: np.ndarray, folder: Path | None) -> None:
        places = () if folder is None else (folder, *folder.parents)
        self._folder = next((place for place in places if place.is_dir()), Path(tempfile.gettempdir()))
        self._kind, self._shape, self._end = rows.dtype, rows.shape[1:], 0
        self._file = self._new()
        self._put(0, rows)

    def _new(self) -> IO[bytes]:
        with writing(self._folder):
            return tempfile.TemporaryFile(dir=self._folder)

    def write(self, places: Places, rows: np.ndarray) -> None:
        """Writes rows at their indices."""
        if (kind := np.promote_types(self._kind, rows.dtype)) != self._kind:
            self._widen(kind)
        if isinstance(places, slice):
            self._put(places.start, rows)
            return
        for place, row in zip(places.tolist(), rows, strict=True):
            self._put(place, row[None])

    def _put(self, place: int, rows: np.ndarray) -> None:
        with writing(self._folder):
            self._file.seek(place * self._row_bytes)
            for part in slices(rows):
                self._file.write(np.ascontiguousarray(rows[part], self._kind).data)
        self._end = max(self._end, place + len(rows))

    def _widen(self, kind: np.dtype) -> None:
        """Converts the written rows to a larger type."""
        earlier, narrow = self.finished(), self._file
        self._kind, self._file = kind, self._new()
        narrow.close()
        for part in slices(earlier):
            self._put(part.start, earlier[part])
            forget(earlier)

    @property
    def _row_bytes(self) -> int:
        return math.prod(self._shape) * self._kind.itemsize

    def finished(self) -> np.ndarray:
        """Returns all rows as a read-only map."""
        with writing(self._folder):
            self._file.flush()
        if self._end == 0:  # an empty file cannot be mapped
            return np.empty((0, *self._shape), self._kind)
        return np.memmap(self._file, self._kind, "r", shape=(self._end, *self._shape))

    def __del__(self) -> None:
        if file := getattr(self, "_file", None):  # maps keep the file themselves
            file.close()


def joined_chunks(chunks: Iterable[bytes], memory: Memory) -> np.ndarray:
    """Returns the concatenation of byte chunks as one array, uint8 (size,)."""
    rows_so_far = GrowableArrays(memory)
    rows_so_far.append(np.zeros(0, np.uint8))
    for chunk in chunks:
        rows_so_far.append(np.frombuffer(chunk, np.uint8))
    return rows_so_far.arrays()[0]


def slices(array: np.ndarray) -> Iterator[slice]:
    """Yields slices of the rows of an array, of some megabytes each; one empty slice for an array without rows."""
    step = max(1, min(_ROWS, _BYTES // max(1, math.prod(array.shape[1:]) * array.dtype.itemsize)))
    return (slice(start, min(start + step, len(array))) for start in range(0, max(1, len(array)), step))


def forget(*arrays: np.ndarray | None) -> None:
    """Releases the memory of read-only file maps; rows that are used again are read again."""
    for array in arrays:
        if isinstance(array, np.memmap) and array.mode == "r" and hasattr(mmap, "MADV_DONTNEED"):
            array._mmap.madvise(mmap.MADV_DONTNEED)  # pyright: ignore[reportAttributeAccessIssue]
