"""Reads SVHN's cropped digits: MATLAB files with X (32, 32, 3, n) and y (n, 1), where label 10 means 0."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from dpdistill.schema import DataError
from dpdistill.sources.formats import ImageFormat, of_single_part
from dpdistill.sources.images.idx import DIGITS, NOTE
from dpdistill.storage.files import MAX_UNPACKED, head, list_files, part_of, reading, show
from dpdistill.storage.parsed import Parsed

MAGIC, MAGIC_HDF5 = b"MATLAB 5.0 MAT-file", b"MATLAB 7.3 MAT-file"
_FILE = re.compile(r"(train|test|extra)_32x32\.mat", re.IGNORECASE)


def holds_svhn(names: list[str]) -> bool:
    """Returns whether a folder with these file names holds SVHN files."""
    return any(_FILE.fullmatch(name) for name in names)


def load_folder(folder: Path, part: str) -> Parsed:
    """Reads train_32x32.mat or test_32x32.mat.

    Raises:
        DataError: no file of that part, or a damaged or foreign one.
    """
    found = [name for name in list_files(folder) if _FILE.fullmatch(name) and part_of(name) == part]
    if not found:
        raise DataError(f"{show(folder)} has no file of the {part} part ({part}_32x32.mat).")
    return load_file(folder / found[0])


def load_file(path: Path) -> Parsed:
    """Reads one file: X (n, h, w, 3) uint8, y (n,).

    Raises:
        DataError: no arrays X and y of these shapes, or a damaged file.
    """
    arrays = _read(path)
    X, y = arrays["X"].transpose(3, 0, 1, 2), arrays["y"].reshape(-1)
    return Parsed.of(X, np.where(y == 10, 0, y), classes=DIGITS, bounds=(0.0, 255.0), notes=(NOTE,))


def _read(path: Path) -> Any:
    from scipy.io import loadmat, whosmat

    if head(path, len(MAGIC_HDF5)) == MAGIC_HDF5:
        raise DataError(f"{show(path)} is a MATLAB 7.3 file, which is not read: save it with -v7.")
    with reading(path):
        try:
            found = {name: (shape, kind) for name, shape, kind in whosmat(path)}
            X, y = found.get("X", ((), "")), found.get("y", ((), ""))
            if len(X[0]) != 4 or X[0][2] != 3 or X[1] != "uint8" or math.prod(y[0]) != X[0][3] or len(y[0]) != 2:
                listed = ", ".join(f"{show(name)} {shape} {kind}" for name, (shape, kind) in sorted(found.items())[:8])
                expected = "the arrays of SVHN, X (32, 32, 3, n) uint8 and y (n, 1)"
                raise DataError(f"Expected {expected} in {show(path)}; got {listed or 'none'}.")
            if math.prod(X[0]) > MAX_UNPACKED:
                raise DataError(f"{show(path)} is too large to be unpacked in memory: save it as .npz.")
            arrays = loadmat(path, variable_names=["X", "y"])
            if (arrays["X"].shape, arrays["y"].shape) != (X[0], y[0]) or arrays["y"].dtype.kind not in "uif":
                raise ValueError
            return arrays
        except (DataError, MemoryError, PermissionError):
            raise
        except Exception:  # scipy raises many types on damaged input
            raise DataError(f"{show(path)} is damaged or truncated: it cannot be read as a MATLAB file.") from None


FORMAT = ImageFormat(
    name="svhn",
    title="SVHN's .mat",
    rank=40,
    load_file=lambda path, part, _: of_single_part(load_file(path), part),
    load_folder=lambda path, part, _: load_folder(path, part),
    holds_file=lambda path: head(path, 4) == MAGIC[:4],
    holds_folder=lambda _, names: holds_svhn(names),
)
