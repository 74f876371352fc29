"""Reads a zip or tar archive of class folders of images, without unpacking to disk."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from dpdistill.schema import DataError
from dpdistill.sources.formats import ImageFormat
from dpdistill.sources.images.decode import FORMATS, Picture, decode, raw_pictures, require_stated
from dpdistill.sources.images.tree import SUFFIXES, Content, Parts, read_tree
from dpdistill.storage.files import MAX_UNPACKED, head, is_gzip, is_hidden, reading, require_file, show
from dpdistill.storage.options import Stated
from dpdistill.storage.parsed import Parsed

MAX_MEMBER = 256 << 20
"""Largest unpacked image in bytes."""
_TAR_AT, _TAR_MAGIC = 257, b"ustar"
_AWAY = re.compile(r"/|[A-Za-z]:|(.*/)?\.\.(/|$)")


class _Member(NamedTuple):
    """Entry of an archive; only files can be read."""

    name: str
    size: int
    is_folder: bool
    is_file: bool
    read: Callable[[], IO[bytes]]


def holds_pictures(path: Path) -> bool:
    """Returns whether a zip archive holds images rather than .npz arrays; judges a damaged archive by its name."""
    try:
        with _opened(path) as members:
            names = [member.name.lower() for member in members]
    except DataError:
        return path.suffix.lower() == ".zip"
    arrays = any(name.endswith(".npy") and "/" not in name for name in names)
    return not arrays and any(name.endswith(SUFFIXES) for name in names)


def is_zip(path: Path) -> bool:
    """Returns whether a file is a zip archive."""
    return head(path, 2) == b"PK"


def is_tar(path: Path) -> bool:
    """Returns whether a file is a tar archive, gzip or not."""
    start = head(path, _TAR_AT + len(_TAR_MAGIC))
    return start[_TAR_AT:] == _TAR_MAGIC


def load_archive(path: Path, part: str, stated: Stated) -> Parsed:
    """Reads the images of the class folders in an archive, in the order of their names; skips one outer folder.

    Args:
        path: a zip or tar archive, or a tar archive in gzip.
        part: "train", "val" or "test", used if the archive has folders of these names.
        stated: stated facts; by default classes are the sorted names of the (training) folders.

    Raises:
        DataError: no images, a damaged archive, mixed sizes, a file that is not an image; a name that leads out of the
            archive, a repeated name or a link; more bytes than are safely unpacked; and as `read_tree`.
    """
    require_file(path)
    require_stated(stated)
    title = show(path)
    with _opened(path) as members:
        folders, files = _listed(title, members)
    tree = read_tree(title, folders, part, stated, "archive", around=1)
    labels = {name: tree.labels[parts] for name, parts in files.items() if parts in tree.labels}
    return raw_pictures(_pictures(path, labels, stated), stated, tree.classes, tree.notes, tree.inferred)


def _pictures(path: Path, labels: dict[str, str], stated: Stated) -> Iterator[Picture]:
    """Yields the labelled images of an archive in archive order, with their positions by name."""
    places = {name: i for i, name in enumerate(sorted(labels, key=lambda name: name.split("/")))}
    with _opened(path) as members:
        for member in members:
            if (name := member.name) in places:
                read = partial(_read, path, member, stated)
                yield Picture(f"{show(name)} in {show(path)}", read, labels[name], place=places[name])


def _read(path: Path, member: _Member, stated: Stated) -> Any:
    title, shown = show(path), show(member.name)
    if not member.is_file:
        raise DataError(f"{title} holds {shown} as a link or a device; expected a file.")
    if member.size > MAX_MEMBER:
        raise DataError(f"{title} holds {shown} of {member.size >> 20} MiB; expected at most {MAX_MEMBER >> 20}.")
    with _whole(path), member.read() as file:
        content = io.BytesIO(file.read(MAX_MEMBER))
    formats = FORMATS.get(PurePosixPath(member.name).suffix.lower(), ("PNG", "JPEG"))
    return decode(content, f"{shown} in {title}", stated, formats)


def _listed(title: str, members: Iterator[_Member]) -> tuple[dict[Parts, Content], dict[str, Parts]]:
    """Returns (contents of each folder, folders of the images by name), without hidden files.

    Raises:
        DataError: a name that leads out of the archive; a repeated image.
    """
    folders: defaultdict[Parts, Content] = defaultdict(Content)
    files: dict[str, Parts] = {}
    for member in members:
        if _AWAY.match(member.name):
            raise DataError(f"{title} holds {show(member.name)}, a name that leads out of the archive.")
        parts = PurePosixPath(member.name).parts
        if any(map(is_hidden, parts)):
            continue
        for i in range(len(parts) + member.is_folder):
            folders[parts[:i]]  # creates folders without an entry in the archive, too
        if member.is_folder:
            continue
        if not member.name.lower().endswith(SUFFIXES):
            folders[parts[:-1]].leave_out(member.name)
            continue
        if member.name in files:
            raise DataError(f"{title} holds {show(member.name)} twice.")
        files[member.name] = parts[:-1]
        folders[parts[:-1]].pictures += 1
    return dict(folders), files


@contextmanager
def _opened(path: Path) -> Iterator[Iterator[_Member]]:
    """Yields the entries of an archive in order; reads tar as a stream, so that gzip is unpacked once."""
    with _whole(path):
        if head(path, 2) == b"PK":
            with zipfile.ZipFile(path) as archive:
                yield (_zipped(path, archive, info) for info in archive.infolist())
        else:
            opener = gzip.open if is_gzip(path) else open
            with opener(path, "rb") as file:
                stream: Any = _Limited(file, show(path))
                with tarfile.open(fileobj=stream, mode="r|") as archive:
                    yield (_tarred(archive, info) for info in archive)


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Turns any error of a damaged archive into one sentence."""
    with reading(path):
        try:
            yield
        except (DataError, OSError, EOFError, MemoryError):
            raise
        except Exception:  # zipfile, zlib and tarfile raise many types on damaged input
            raise DataError(f"{show(path)} is damaged or truncated: it cannot be read as an archive.") from None


def _zipped(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    if info.flag_bits & 1:
        raise DataError(f"{show(path)} is encrypted: unpack it first.")
    name = info.filename.replace("\\", "/")
    return _Member(name, info.file_size, name.endswith("/"), True, lambda: archive.open(info))


def _tarred(archive: tarfile.TarFile, info: tarfile.TarInfo) -> _Member:
    return _Member(info.name, info.size, info.isdir(), info.isreg(), lambda: archive.extractfile(info) or io.BytesIO())


class _Limited:
    """Stream that refuses gzip content beyond the limit of safe unpacking."""

    def __init__(self, file: Any, title: str) -> None:
        self._file, self._title, self._read = file, title, 0

    def read(self, size: int) -> bytes:
        content = self._file.read(size)
        self._read += len(content)
        if self._read > MAX_UNPACKED and isinstance(self._file, gzip.GzipFile):
            raise DataError(f"{self._title} is too large to be unpacked in memory: gunzip it first.")
        return content


FORMAT = ImageFormat(
    name="archive",
    title="a folder, zip or tar of class folders of PNG, JPEG, TIFF, BMP, WebP or DICOM",
    rank=90,
    load_file=load_archive,
    holds_file=lambda path: is_zip(path) or is_tar(path),
    channels=True,
)
