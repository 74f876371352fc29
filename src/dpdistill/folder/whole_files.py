"""Reads files of a shared folder to the last byte: arrays and images as this package writes them, and nothing else.

Readers of zip archives and images skip unknown contents: comments, further members, bytes after the end. Here such
bytes are a fault. Contents that a library may write in several ways, such as compressed pixels, are decoded.
"""

from __future__ import annotations

import io
import math
import mmap
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from dpdistill.schema import DataError
from dpdistill.storage.files import reading, require_file, show

_LOCAL, _CENTRAL, _END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_ZIP_VERSION, _UNIX, _MODE, _FIRST_DAY = 20, 3, 0o644 << 16, 33
"""Header values that zipfile writes; the day is 1 January 1980."""
_NPY = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '([<|][a-zA-Z][0-9]{1,9})', 'fortran_order': False, 'shape': \(((?:[0-9]+, )*(?:[0-9]+,?)?)\), \} *\n"
)
_PNG = b"\x89PNG\r\n\x1a\n"
_COLOURS = {"L": (0, 1), "RGB": (2, 3)}
"""Colour type and channels of a PNG image by Pillow's mode."""
_SPARE = 1 << 12
"""Largest number of bytes by which compressed pixels may exceed the pixels."""


def read_whole_archive(path: Path) -> dict[str, np.ndarray]:
    """Returns all arrays of a .npz file by name, in their order, memory-mapped; other contents are refused.

    Raises:
        DataError: missing, damaged, or with a byte that this package does not write.
    """
    if require_file(path) < 22:
        raise _not_exact(path, "it is cut off")
    with reading(path), path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        members, arrays, at = [], {}, 0
        while content[at : at + 4] == _LOCAL:
            name, size, checksum, begin = _member(path, content, at)
            if name in arrays:
                raise _not_exact(path, f"it has two arrays {name!r}")
            arrays[name] = _array(path, name, content, begin, size)
            members.append((name, size, checksum, at))
            at = begin + size
        if content[at:] != _directory(members, at):
            raise _not_exact(path, "it has bytes after the directory of its arrays")
        return arrays


def _not_exact(path: Path, why: str) -> DataError:
    return DataError(f"{show(path.name)} is not as dpdistill writes it: {why}.")


def _member(path: Path, content: mmap.mmap, at: int) -> tuple[str, int, int, int]:
    """Returns (name, size, checksum, offset of its bytes) of the member at an offset."""
    header = content[at : at + 30]
    if len(header) < 30:
        raise _not_exact(path, "it is cut off")
    *fixed, checksum, packed, size, length, extra = struct.unpack("<4x5H3L2H", header)
    name, begin = content[at + 30 : at + 30 + length], at + 30 + length
    if fixed != [_ZIP_VERSION, 0, 0, 0, _FIRST_DAY] or packed != size or extra or not re.fullmatch(rb"\w+\.npy", name):
        raise _not_exact(path, "a member is compressed, dated, marked or named in another way")
    if begin + size > len(content) or zlib.crc32(memoryview(content)[begin : begin + size]) != checksum:
        raise _not_exact(path, "a member is damaged")
    return name.decode("ascii").removesuffix(".npy"), size, checksum, begin


def _array(path: Path, name: str, content: mmap.mmap, begin: int, size: int) -> np.ndarray:
    """Returns the array of a member; its header must state type and shape only, and no byte may be left over."""
    length = int.from_bytes(content[begin + 8 : begin + 10], "little")
    result = _HEADER.fullmatch(content[begin + 10 : begin + 10 + length])
    if content[begin : begin + 8] != _NPY or result is None or length + 10 > size or length > 1000:
        raise _not_exact(path, f"the header of its array {name!r} has another form")
    try:
        dtype = np.dtype(result[1].decode("ascii"))
    except TypeError:
        raise _not_exact(path, f"its array {name!r} has an unknown type") from None
    shape = tuple(int(side) for side in re.findall(rb"[0-9]+", result[2]))
    if dtype.hasobject or not dtype.itemsize or math.prod(shape) * dtype.itemsize != size - 10 - length:
        raise _not_exact(path, f"its array {name!r} has another size than its header states")
    if not math.prod(shape):
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", begin + 10 + length, shape)


def _directory(members: list[tuple[str, int, int, int]], at: int) -> bytes:
    """Returns the expected directory after the members, which begins at an offset."""
    entries = b""
    for name, size, checksum, offset in members:
        encoded = f"{name}.npy".encode("ascii")
        fixed = (_ZIP_VERSION, _UNIX, _ZIP_VERSION, 0, 0, 0, 0, _FIRST_DAY, checksum, size, size)
        ends = (len(encoded), 0, 0, 0, 0, _MODE, offset)
        entries += _CENTRAL + struct.pack("<4B4H3L5H2L", *fixed, *ends) + encoded
    return entries + _END + struct.pack("<4H2LH", 0, 0, len(members), len(members), len(entries), at, 0)


def is_whole_picture(path: Path, picture: Image.Image) -> bool:
    """Returns whether a PNG file shows an image; the file must have its pixels and nothing else.

    Args:
        path: path of the file.
        picture: grey or colour, with 8 bits per value.

    Raises:
        DataError: missing, damaged, of another size or kind, or with a chunk or a byte that is not of the pixels.
    """
    colour, channels = _COLOURS[picture.mode]
    raw = picture.height * (1 + picture.width * channels)
    if require_file(path) > raw + raw // 8 + _SPARE:
        raise _not_exact(path, "it is larger than its pixels")
    with reading(path):
        content = path.read_bytes()
    chunks = [*_chunks(path, content)]
    header = struct.pack(">2L5B", picture.width, picture.height, 8, colour, 0, 0, 0)
    kinds = [kind for kind, _ in chunks]
    if chunks[0] != (b"IHDR", header) or chunks[-1] != (b"IEND", b"") or {*kinds[1:-1]} != {b"IDAT"}:
        raise _not_exact(path, "it has contents besides the pixels, or another size or kind")
    stream = zlib.decompressobj()
    try:
        pixels = stream.decompress(b"".join(data for _, data in chunks[1:-1]), raw + 1)
    except zlib.error:
        raise _not_exact(path, "its pixels are damaged") from None
    if len(pixels) != raw or not stream.eof or stream.unused_data or stream.unconsumed_tail:
        raise _not_exact(path, "its number of pixels contradicts its size")
    with Image.open(io.BytesIO(content), formats=("PNG",)) as decoded:
        return np.array_equal(np.asarray(decoded), np.asarray(picture))


def _chunks(path: Path, content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields (type, data) of a PNG file's chunks, up to its last byte; at least one."""
    at = len(_PNG)
    if content[:at] != _PNG or len(content) == at:
        raise _not_exact(path, "it is no PNG image")
    while at < len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        kind, data = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        if content[at + 8 + length : at + 12 + length] != zlib.crc32(kind + data).to_bytes(4, "big"):
            raise _not_exact(path, "a chunk is damaged, or it has bytes after its end")
        yield kind, data
        at += 12 + length
