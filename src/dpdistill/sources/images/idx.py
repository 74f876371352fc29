"""Reads IDX files of MNIST and related data sets: big-endian header, one unsigned byte per pixel, plain or gzip."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from dpdistill.schema import DataError
from dpdistill.sources.formats import ImageFormat, of_single_part
from dpdistill.sources.images import cifar
from dpdistill.storage.files import head, is_gzip, list_files, plain_first, require_file, require_part, show, unpacking
from dpdistill.storage.growable_array import joined_chunks
from dpdistill.storage.memory import Memory
from dpdistill.storage.parsed import Parsed

IMAGES_MAGIC = 0x00000803
LABELS_MAGIC = 0x00000801
DIGITS = tuple(str(k) for k in range(10))
NOTE = "Classes default to 0-9: pass --classes to change."

_PARTS = {"train": "train", "test": "(?:t10k|test)"}
_PATTERN = r"(?:.*[-_.])?{part}[-_.]{kind}[-_.]idx\d[-.]ubyte(?:\.gz)?"


def find(names: list[str], part: str, kind: str) -> list[str]:
    """Returns the names of the IDX files of a part (train, test) and kind (images, labels)."""
    pattern = re.compile(_PATTERN.format(part=_PARTS[part], kind=kind), re.IGNORECASE)
    return [name for name in names if pattern.fullmatch(name)]


def holds_idx(names: list[str]) -> bool:
    """Returns whether a folder with these file names holds IDX files."""
    return any(find(names, part, kind) for part in _PARTS for kind in ("images", "labels"))


def load_folder(folder: Path, part: str, memory: Memory) -> Parsed:
    """Reads images and labels of one part from a folder of IDX files.

    Raises:
        DataError: a missing, ambiguous, truncated or foreign file, or different numbers of images and labels.
    """
    require_part(folder, part, _PARTS)
    return load_file(_one(folder, find(list_files(folder), part, "images"), f"{part} images"), memory)


def load_file(path: Path, memory: Memory) -> Parsed:
    """Reads an IDX file of images, with the file of labels in the same folder.

    Raises:
        DataError: a missing, truncated or foreign file, or different numbers of images and labels.
    """
    X = read_array(path, IMAGES_MAGIC, memory)
    labels = _labels_beside(path)
    y = read_array(labels, LABELS_MAGIC, memory)
    if len(X) != len(y):
        raise DataError(f"{show(path)} has {len(X)} images but {show(labels)} has {len(y)} labels.")
    return Parsed.of(X, y, classes=DIGITS, bounds=(0.0, 255.0), notes=(NOTE,))


def read_array(path: Path, magic: int, memory: Memory) -> np.ndarray:
    """Reads an IDX array of unsigned bytes, memory-mapped unless gzip.

    Args:
        path: the file.
        magic: 0x00000803 for images (n, h, w), 0x00000801 for labels (n,).
        memory: memory limit of unpacked arrays.

    Raises:
        DataError: wrong magic, or a size that differs from the header's.
    """
    rank = magic & 0xFF
    start = 4 + 4 * rank
    header = head(path, start)
    found = int.from_bytes(header[:4], "big")
    if len(header) >= 4 and found != magic:
        raise DataError(f"{show(path)} has the IDX magic 0x{found:08x}; expected 0x{magic:08x}.")
    if len(header) < start:
        raise DataError(f"{show(path)} is truncated: its IDX header needs {start} bytes.")
    shape = tuple(int.from_bytes(header[4 + 4 * i : 8 + 4 * i], "big") for i in range(rank))
    if not all(1 <= side <= 1 << 16 for side in shape[1:]):
        raise DataError(f"{show(path)} has images of {shape[1]}x{shape[2]} pixels; expected 1 to 65536 a side.")
    expected = start + math.prod(shape)
    content = joined_chunks(unpacking(path, expected), memory) if is_gzip(path) else None
    actual = require_file(path) if content is None else len(content)
    if actual < expected:
        raise DataError(f"{show(path)} is truncated: {actual} bytes where its header promises {expected}.")
    if actual > expected:
        raise DataError(f"{show(path)} is longer than the {expected} bytes that its header promises.")
    if content is not None:
        return content[start:].reshape(shape)
    if shape[0] == 0:
        return np.empty(shape, np.uint8)
    return np.memmap(path, np.uint8, mode="r", offset=start, shape=shape)


def _stem(name: str) -> str:
    return re.sub(r"\.gz$", "", name.lower()).replace(".", "-").replace("_", "-")


def _one(folder: Path, found: list[str], what: str) -> Path:
    if not found:
        raise DataError(f"{show(folder)} has no file of {what} (such as train-images-idx3-ubyte.gz).")
    if len({_stem(name) for name in found}) > 1:
        raise DataError(f"{show(folder)} has several files of {what}: name one of them, such as {show(found[0])}.")
    return folder / min(found, key=plain_first)


def _labels_beside(path: Path) -> Path:
    wanted = _stem(path.name).replace("images", "labels").replace("idx3", "idx1")
    if wanted == _stem(path.name):
        raise DataError(f"{show(path)} needs a name with 'images', from which the name of the file of labels follows.")
    found = [name for name in list_files(path.parent) if _stem(name) == wanted]
    if not found:
        raise DataError(f"{show(path)} has no file of labels: expected {show(wanted)} or {show(wanted)}.gz next to it.")
    return path.parent / min(found, key=plain_first)


def _holds_file(path: Path) -> bool:
    """Returns whether a file holds IDX images, and is not a CIFAR file by its name; refuses a file of labels."""
    if cifar.is_plain(path) or (start := head(path, 4))[:2] == b"PK":
        return False
    named_cifar = cifar.NAMED.fullmatch(path.name) is not None
    if start == IMAGES_MAGIC.to_bytes(4, "big") and not (named_cifar and cifar.is_whole(cifar.length(path))):
        return True
    if start == LABELS_MAGIC.to_bytes(4, "big") and not named_cifar:
        raise DataError(f"{show(path)} is a file of labels; name the images, or the folder of both.")
    if re.search(r"idx\d?[-.]ubyte", path.name, re.IGNORECASE):
        raise DataError(f"{show(path)} has the magic 0x{start.hex()}; expected 0x{IMAGES_MAGIC:08x} of IDX images.")
    return False


FORMAT = ImageFormat(
    name="idx",
    title="IDX files",
    rank=10,
    load_file=lambda path, part, stated: of_single_part(load_file(path, stated.memory), part),
    load_folder=lambda path, part, stated: load_folder(path, part, stated.memory),
    holds_file=_holds_file,
    holds_folder=lambda _, names: holds_idx(names),
)
