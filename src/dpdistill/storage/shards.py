"""Private records in folders for the owner's other processes: on a shared disk or in an object store."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dpdistill.schema import DataError, schema_from_json
from dpdistill.storage.records import Records

_ROWS = 4_096
_SCHEMA = "schema.json"


def write_parts(records: Records, address: str, parts: int = 1) -> None:
    """Writes private records as folders 0, 1, ... of X.npy, y.npy and units.npy: folder mode 0700, file mode 0600.

    All records of one unit are in the same part; records of unknown units are in no part.

    Args:
        records: private records.
        address: a folder, or a location that fsspec supports: "s3://bucket/folder"; created here.
        parts: number of parts, >= 1.

    Raises:
        DataError: a location that cannot be written to.
    """
    for part, rows in enumerate(_cut(records, parts)):
        with _place(address, part) as folder:
            for name in ("X", "y") if records.units is None else ("X", "y", "units"):
                _write_rows(folder / f"{name}.npy", getattr(records, name), rows)
            _owned(folder / _SCHEMA).write_text(json.dumps(records.schema.to_json()))


def open_part(address: str, part: int) -> Records:
    """Returns the records of a part, mapped from files; downloaded files have no name afterwards.

    Args:
        address: as given to `write_parts`.
        part: number of the part.

    Raises:
        DataError: a location that cannot be read.
    """
    try:
        if "://" not in address:
            return _opened(Path(address) / str(part))
        with tempfile.TemporaryDirectory() as folder:  # a map outlives the name of its file
            store, root = _store(address)
            store.get(f"{root}/{part}/", f"{folder}/part/", recursive=True)
            return _opened(Path(folder) / "part")
    except (OSError, ValueError):
        raise DataError(f"Part {part} of the records cannot be read.") from None


def _opened(path: Path) -> Records:
    schema = schema_from_json(json.loads((path / _SCHEMA).read_text()))
    X, y = np.load(path / "X.npy", mmap_mode="r"), np.load(path / "y.npy")
    units = path / "units.npy"
    return Records(X, y, schema, units=np.load(units) if units.exists() else None)


def remove_parts(address: str) -> None:
    """Removes the location that `write_parts` created."""
    if "://" not in address:
        shutil.rmtree(address, ignore_errors=True)
        return
    store, root = _store(address)
    if store.exists(root):
        store.rm(root, recursive=True)


def _cut(records: Records, parts: int) -> list[np.ndarray]:
    """Returns the indices of the records of each part."""
    if records.units is None:
        return np.array_split(np.arange(len(records)), parts)
    known, unit_of = np.unique(records.units, return_inverse=True)
    part_of = np.where(known >= 0, np.arange(len(known)) * parts // max(1, len(known)), -1)[unit_of]
    return [np.flatnonzero(part_of == part) for part in range(parts)]


@contextmanager
def _place(address: str, part: int) -> Iterator[Path]:
    """Yields a local folder of the owner, which is uploaded afterwards if the address is remote."""
    try:
        if "://" not in address:
            Path(address).mkdir(mode=0o700, parents=True, exist_ok=part > 0)
            folder = Path(address) / str(part)
            folder.mkdir(mode=0o700)
            yield folder
            return
        with tempfile.TemporaryDirectory() as name:
            yield Path(name)
            store, root = _store(address)
            store.put(f"{name}/", f"{root}/{part}/", recursive=True)
    except OSError as error:
        raise DataError(f"The records cannot be written to {address}: {error.strerror or 'no access'}.") from None


def _store(address: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs

        return url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise DataError(f"{address} needs fsspec and its own package: pip install 'dpdistill[ray]'. {error}") from None


def _write_rows(path: Path, array: np.ndarray, rows: np.ndarray) -> None:
    """Writes some rows of an array as .npy, with only a few in memory at a time."""
    with _owned(path).open("wb") as file:
        head = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False}
        np.lib.format.write_array_header_1_0(file, head | {"shape": (len(rows), *array.shape[1:])})
        for start in range(0, len(rows), _ROWS):
            file.write(np.ascontiguousarray(array[rows[start : start + _ROWS]]).data)


def _owned(path: Path) -> Path:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    return path
