"""Reads untrusted files: every failure is one sentence, gzip is found by content, and sizes are limited."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dpdistill.schema import DataError, hide_secrets

MAX_UNPACKED = 4 << 30
GZIP_MAGIC = b"\x1f\x8b"
_GZIP_MAX_RATIO = 1_100
_CHUNK = 1 << 20
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]*://")
_ELSEWHERE = ("http", "https", "ftp", "sftp", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hdfs", "hf")
PARTS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
"""Parts of a data set by the names of folders and files."""
_PART = re.compile(rf"({'|'.join(PARTS)})(?![a-z])", re.IGNORECASE)
_OF_SYSTEMS = ("__MACOSX", "@eaDir", "$RECYCLE.BIN", "System Volume Information", "Thumbs.db", "desktop.ini")


def named_part(name: str) -> str | None:
    """Returns the part of a data set by a folder's name, in any case; None if the name is no part."""
    return PARTS.get(name.lower())


def is_address(source: object) -> bool:
    """Returns whether a text is the address of a database, such as postgresql://host/name, and not a path."""
    return isinstance(source, str) and _ADDRESS.match(source) is not None


def refuse_elsewhere(source: str) -> None:
    """Refuses an address of files on other machines, which are not fetched.

    Raises:
        DataError: the address is on another machine.
    """
    if source.partition("://")[0].lower() in _ELSEWHERE and is_address(source):
        raise DataError(f"{show(source)} is on another machine: download it first and name the local file or folder.")


def show(path: str | os.PathLike) -> str:
    """Returns a path as one line: unprintable characters are escaped, and passwords are hidden."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in hide_secrets(os.fspath(path)))


@contextmanager
def reading(path: str | os.PathLike) -> Iterator[None]:
    """Turns every failure of the file system or of gzip into a DataError that names the path."""
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"{show(path)} does not exist.") from None
    except gzip.BadGzipFile:
        raise DataError(f"{show(path)} is damaged: its gzip checksum or header is wrong.") from None
    except EOFError:
        raise DataError(f"{show(path)} is truncated: its gzip stream ends early.") from None
    except zlib.error:
        raise DataError(f"{show(path)} is damaged: its gzip stream cannot be unpacked.") from None
    except MemoryError:
        raise DataError(f"{show(path)} does not fit into memory.") from None
    except OSError as error:
        raise DataError(f"{show(path)} cannot be read: {error.strerror or 'input/output error'}.") from None


def require_file(path: Path) -> int:
    """Returns the size of a regular file in bytes.

    Raises:
        DataError: missing, empty, a folder, or a device.
    """
    with reading(path):
        size = path.stat().st_size
        if path.is_dir():
            raise DataError(f"{show(path)} is a folder; expected a file.")
        if not path.is_file():
            raise DataError(f"{show(path)} is not a regular file.")
    if size == 0:
        raise DataError(f"{show(path)} is empty.")
    return size


def is_gzip(path: Path) -> bool:
    """Returns whether the content of a regular file begins like gzip."""
    require_file(path)
    with reading(path), path.open("rb") as file:
        return file.read(2) == GZIP_MAGIC


def head(path: Path, size: int) -> bytes:
    """Returns the first bytes of a file, decompressed if it is gzip."""
    opener = gzip.open if is_gzip(path) else open
    with reading(path), opener(path, "rb") as file:
        return file.read(size)


def unpacking(path: Path, expected: int | None = None) -> Iterator[bytes]:
    """Yields the content of a gzip file in chunks, to its end so that its checksum is tested.

    Args:
        path: a gzip file.
        expected: number of bytes that its header promises, or None; at most one more byte is read.

    Raises:
        DataError: damaged, truncated, or larger than 4 GiB.
    """
    limit, size = MAX_UNPACKED if expected is None else expected, 0
    if limit > MAX_UNPACKED:
        raise DataError(f"{show(path)} is too large to be unpacked in memory: gunzip it first.")
    if expected is not None and expected > _GZIP_MAX_RATIO * (require_file(path) + 64):
        raise DataError(f"{show(path)} is truncated: its header promises {expected} bytes.")
    with reading(path), gzip.open(path, "rb") as file:
        while size <= limit and (chunk := file.read(min(_CHUNK, limit + 1 - size))):
            size += len(chunk)
            yield chunk
    if expected is None and size > limit:
        raise DataError(f"{show(path)} is too large to be unpacked in memory: gunzip it first.")


def list_files(folder: Path) -> list[str]:
    """Returns the sorted names of a folder's files, without hidden ones."""
    with reading(folder), os.scandir(folder) as entries:
        return sorted(e.name for e in entries if not e.name.startswith(".") and not os.path.isdir(e))


def list_folders(folder: Path) -> list[str]:
    """Returns the sorted names of a folder's folders, without hidden ones and those of operating systems."""
    with reading(folder), os.scandir(folder) as entries:
        return sorted(e.name for e in entries if not is_hidden(e.name) and os.path.isdir(e))


def is_hidden(name: str) -> bool:
    """Returns whether a name is hidden, or belongs to a folder that operating systems create (such as `__MACOSX`)."""
    return name.startswith(".") or name in _OF_SYSTEMS


def single_part(source: str, part: str) -> tuple[str, ...]:
    """Returns a note if another part than training is requested of a source with a single part."""
    return (f"The {source} has a single part: all of it is read as the {part} part.",) if part != "train" else ()


def require_part(folder: Path, part: str, parts: Iterable[str]) -> None:
    """Refuses a part that a format does not have.

    Raises:
        DataError: the format has other parts.
    """
    if part not in parts:
        raise DataError(f"{show(folder)} has no part '{part}': its format has {' and '.join(parts)}.")


def part_of(name: str) -> str | None:
    """Returns the part of a data set in a file's name, such as train-00000-of-00002.parquet."""
    match = _PART.match(name)
    return PARTS[match.group(1).lower()] if match else None


def plain_first(name: str) -> tuple[bool, str]:
    """Returns the sort key of a file name: a plain file precedes the gzip file of the same name."""
    return name.lower().endswith(".gz"), name
