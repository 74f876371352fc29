"""Reads .npz files with X and y, with X_train, y_train, X_test, y_test, or of MedMNIST. Never loads pickles."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from dpdistill.schema import DataError
from dpdistill.sources.formats import ImageFormat
from dpdistill.storage.atomic import write_atomically
from dpdistill.storage.files import MAX_UNPACKED, reading, require_file, show, single_part
from dpdistill.storage.growable_array import joined_chunks
from dpdistill.storage.memory import Memory
from dpdistill.storage.options import NOTHING, Stated
from dpdistill.storage.parsed import Parsed

_IMAGES = ("X", "x", "images")
_LABELS = ("y", "Y", "labels")
_READ = 1 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)


def load_file(path: Path, part: str, stated: Stated = NOTHING) -> Parsed:
    """Reads images, labels and units of a .npz file, with its `classes`, `bounds` and `straightened` if any.

    Args:
        path: the file.
        part: "train" or "test".
        stated: stated facts; the unit is the name of the array of each record's unit.

    Raises:
        DataError: not a .npz file, a missing array, an array of objects, a damaged or truncated member.
    """
    with open_archive(path) as archive:
        members = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
        if any(f"{name}_images" in members for name in ("train", "val", "test")):
            return _medmnist(path, archive, members, part, stated.memory)
        image_key, split = _key(members, _IMAGES, part)
        label_key, label_split = _key(members, _LABELS, part)
        if image_key is None or label_key is None or split != label_split:
            found = ", ".join(sorted(show(name) for name in members)[:8]) or "none"
            raise DataError(f"{show(path)} has no arrays X and y (or X_{part} and y_{part}); it has: {found}.")
        X = read_member(path, archive, members[image_key], stated.memory)
        y = read_member(path, archive, members[label_key], stated.memory)
        classes = read_member(path, archive, members["classes"]) if "classes" in members else None
        bounds = read_member(path, archive, members["bounds"]) if "bounds" in members else None
        straightened = "straightened" in members and _flag(path, read_member(path, archive, members["straightened"]))
        units = None
        if stated.unit is not None:
            key = f"{stated.unit}_{part}" if split else stated.unit
            if key not in members:
                raise DataError(f"{show(path)} has no array {key!r:.80} of units.")
            units = read_member(path, archive, members[key], stated.memory)
    notes = () if split else single_part("file", part)
    said = {
        "classes": _names(path, classes),
        "bounds": _limits(path, bounds),
        "notes": notes,
        "straightened": straightened,
    }
    return Parsed.of(X, y, units, show(path), **said)


def _medmnist(path: Path, archive: zipfile.ZipFile, members: dict[str, str], part: str, memory: Memory) -> Parsed:
    """Reads a part of a MedMNIST file: train_images (n, 28, 28) or (n, 28, 28, 3), and train_labels (n, 1)."""
    if absent := [name for name in (f"{part}_images", f"{part}_labels") if name not in members]:
        found = ", ".join(sorted(show(name) for name in members)[:8])
        raise DataError(f"{show(path)} has no array {absent[0]} of the {part} part; it has: {found}.")
    X, y = (read_member(path, archive, members[f"{part}_{what}"], memory) for what in ("images", "labels"))
    if X.ndim > 3 and X.shape[3:] not in ((1,), (3,)):
        raise DataError(
            f"{show(path)} has volumes of {'x'.join(map(str, X.shape[1:]))} values; expected images, (n, h, w) or "
            "(n, h, w, 3): MedMNIST's 3D sets cannot be distilled."
        )
    if y.ndim == 2 and y.shape[1] > 1:
        raise DataError(f"{show(path)} has {y.shape[1]} labels per image; expected a single label.")
    return Parsed.of(X, y, title=show(path))


def _key(members: dict[str, str], names: tuple[str, ...], part: str) -> tuple[str | None, bool]:
    for name in names:
        if f"{name}_{part}" in members:
            return f"{name}_{part}", True
    return next((name for name in names if name in members), None), False


def _names(path: Path, classes: np.ndarray | None) -> tuple[str, ...] | None:
    if classes is None:
        return None
    if classes.ndim != 1 or classes.dtype.kind not in "USui":
        raise DataError(f"{show(path)} has an array 'classes' that is not a list of names.")
    return tuple(c.decode("utf-8", "replace") if isinstance(c, bytes) else str(c) for c in classes.tolist())


def _limits(path: Path, bounds: np.ndarray | None) -> tuple[float, float] | None:
    if bounds is None:
        return None
    if bounds.shape != (2,) or bounds.dtype.kind not in "uif":
        raise DataError(f"{show(path)} has an array 'bounds' that is not two numbers.")
    return float(bounds[0]), float(bounds[1])


def _flag(path: Path, value: np.ndarray) -> bool:
    if value.dtype != bool or value.shape:
        raise DataError(f"{show(path)} has an array 'straightened' that is not true or false.")
    return bool(value)


def open_archive(path: Path) -> zipfile.ZipFile:
    """Opens a .npz file as a zip archive.

    Raises:
        DataError: not a zip archive, or a truncated one.
    """
    require_file(path)
    with reading(path):
        try:
            return zipfile.ZipFile(path)
        except OSError:
            raise
        except Exception:  # zipfile raises many types on damaged input
            raise DataError(f"{show(path)} is not a .npz file, or is truncated.") from None


def read_member(path: Path, archive: zipfile.ZipFile, member: str, memory: Memory = NOTHING.memory) -> np.ndarray:
    """Reads one array of a .npz file, memory-mapped if stored without compression.

    Raises:
        DataError: a damaged array, an array of objects, or a compressed array larger than 4 GiB.
    """
    name = show(member.removesuffix(".npy"))
    try:
        info = archive.getinfo(member)
        with archive.open(info) as file:
            shape, fortran, dtype = _header(file)
            offset = file.tell()
            count = math.prod(shape)
            if dtype.hasobject:
                raise DataError(f"{show(path)} has an array {name!r} of Python objects, which are never loaded.")
            if count * dtype.itemsize != info.file_size - offset or dtype.itemsize == 0:
                raise DataError(f"{show(path)} has an array {name!r} of another size than its header promises.")
            if info.compress_type == zipfile.ZIP_STORED and count and not info.flag_bits & 1:
                return _mapped(path, info, offset, shape, fortran, dtype)
            if count * dtype.itemsize > MAX_UNPACKED:
                raise DataError(f"{show(path)} is too large to be unpacked in memory: save it without compression.")
            content = joined_chunks(iter(lambda: file.read(_READ), b""), memory)
            if len(content) != count * dtype.itemsize:
                raise ValueError("wrong size")
            flat = content.view(dtype)
        return flat.reshape(shape[::-1]).transpose() if fortran else flat.reshape(shape)
    except (DataError, MemoryError):
        raise
    except Exception:  # numpy and zipfile raise many types on damaged input
        raise DataError(f"{show(path)} is damaged: its array {name!r} cannot be read.") from None


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
    if any(side < 0 for side in shape):
        raise ValueError("negative side")
    return shape, fortran, dtype


def _mapped(
    path: Path, info: zipfile.ZipInfo, offset: int, shape: tuple[int, ...], fortran: bool, dtype: np.dtype
) -> np.ndarray:
    with path.open("rb") as file:
        file.seek(info.header_offset)
        local = file.read(30)
    # local file header: lengths of the name and of the extra field at bytes 26 and 28, little-endian
    begin = info.header_offset + 30 + int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    return np.memmap(path, dtype, mode="r", offset=begin + offset, shape=shape, order="F" if fortran else "C")


def write_file(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes arrays without compression, atomically: equal arrays give equal bytes."""

    def write(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                info = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
                info.create_system, info.external_attr = 3, 0o644 << 16
                with archive.open(info, "w") as member:
                    np.lib.format.write_array(member, np.asarray(array, order="C"), (1, 0), allow_pickle=False)

    write_atomically(path, write)


def _holds_file(path: Path) -> bool:
    from dpdistill.sources.images import archives  # decodes images, which a synthetic set does not need

    return archives.is_zip(path) and not archives.holds_pictures(path)


FORMAT = ImageFormat(
    name="npz",
    title="a .npz with X and y, or MedMNIST's .npz",
    rank=30,
    load_file=load_file,
    holds_file=_holds_file,
    units="a .npz file",
)
