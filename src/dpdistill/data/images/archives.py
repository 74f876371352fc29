"""A zip or tar archive of class folders of images, read where it lies: nothing is written to the disk."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from dpdistill.data.files import MAX_UNPACKED, head, is_gzip, named_part, reading, require_file, show, single_part
from dpdistill.data.images.decode import FORMATS, Picture, decode, raw_pictures, require_stated
from dpdistill.data.images.folders import IMAGES, SUFFIXES, class_names, require_printable
from dpdistill.data.options import Stated
from dpdistill.data.raw import Raw
from dpdistill.schema import DataError

MAX_MEMBER = 256 << 20
"""Of bytes of one picture, unpacked."""
_TAR_AT, _TAR_MAGIC = 257, b"ustar"
_AWAY = re.compile(r"/|[A-Za-z]:|(.*/)?\.\.(/|$)")

Parts = tuple[str, ...]


class _Member(NamedTuple):
    """What is in an archive; only files can be read."""

    name: str
    size: int
    is_folder: bool
    is_file: bool
    read: Callable[[], IO[bytes]]


def holds_pictures(path: Path) -> bool:
    """Whether a zip archive holds pictures, rather than the arrays of a .npz file; for a damaged one, by its name."""
    try:
        with _opened(path) as members:
            names = [member.name.lower() for member in members]
    except DataError:
        return path.suffix.lower() == ".zip"
    return not any(name.endswith(".npy") for name in names) and any(name.endswith(SUFFIXES) for name in names)


def is_tar(path: Path) -> bool:
    """Whether a file is a tar archive, gzip or not."""
    start = head(path, _TAR_AT + len(_TAR_MAGIC))
    return start[_TAR_AT:] == _TAR_MAGIC


def load_archive(path: Path, part: str, stated: Stated) -> Raw:
    """Images of the class folders in an archive, in the order of their names; one folder around all is passed over.

    Args:
        path: a zip or tar archive, or a tar archive in gzip.
        part: "train", "val" or "test", used when the archive has folders of these names.
        stated: classes are the names of the (training) folders, sorted, if they are not stated.

    Raises:
        DataError: no images, a damaged archive, mixed sizes, a file that is not an image; names that lead out of the
            archive, are there twice or are links; more than is safely unpacked.
    """
    require_file(path)
    require_stated(stated)
    title = show(path)
    with _opened(path) as members:
        folders, files = _tree(title, members)
    names, labels, training, notes = _part_of(title, folders, files, part)
    if not labels:
        raise DataError(f"{title} has no {IMAGES} in class folders (<class>/*.png).")
    for name in names:
        require_printable(title, name)
    classes, noted = class_names(title, names, training, stated)
    return raw_pictures(_pictures(path, labels, stated), stated, classes, (*notes, *noted))


def _pictures(path: Path, labels: dict[str, str], stated: Stated) -> Iterator[Picture]:
    """The labelled pictures of an archive in its own order, each with its place by name."""
    places = {name: i for i, name in enumerate(sorted(labels, key=lambda name: name.split("/")))}
    with _opened(path) as members:
        for member in members:
            if (name := member.name) in places:
                read = partial(_read, path, member, stated)
                yield Picture(f"{show(name)} in {show(path)}", read, labels[name], place=places[name])


def _read(path: Path, member: _Member, stated: Stated) -> Any:
    title = show(path)
    with _whole(path), member.read() as file:
        content = io.BytesIO(file.read(MAX_MEMBER))
    formats = FORMATS.get(PurePosixPath(member.name).suffix.lower(), ("PNG", "JPEG"))
    return decode(content, f"{show(member.name)} in {title}", stated, formats)


def _tree(title: str, members: Iterator[_Member]) -> tuple[set[Parts], dict[str, Parts]]:
    """(folders, pictures by name), each as the parts of its path; what is hidden is left out.

    Raises:
        DataError: a name that leads out of the archive; a picture that is a link, is there twice or is too large.
    """
    folders: set[Parts] = set()
    files: dict[str, Parts] = {}
    for member in members:
        shown = show(member.name)
        if _AWAY.match(member.name):
            raise DataError(f"{title} holds {shown}, a name that leads out of the archive.")
        parts = PurePosixPath(member.name).parts
        if any(part.startswith((".", "__MACOSX")) for part in parts):
            continue
        folders.update(parts[:i] for i in range(1, len(parts) + member.is_folder))
        if member.is_folder or not member.name.lower().endswith(SUFFIXES):
            continue
        if member.name in files:
            raise DataError(f"{title} holds {shown} twice.")
        if not member.is_file:
            raise DataError(f"{title} holds {shown} as a link or a device; expected a file.")
        if member.size > MAX_MEMBER:
            raise DataError(f"{title} holds {shown} of {member.size >> 20} MiB; expected at most {MAX_MEMBER >> 20}.")
        files[member.name] = parts
    around = {parts[0] for parts in folders}
    if len(around) == 1 and not any(map(named_part, around)) and min(map(len, files.values()), default=0) > 2:
        return {parts[1:] for parts in folders if parts[1:]}, {name: parts[1:] for name, parts in files.items()}
    return folders, files


def _part_of(
    title: str, folders: set[Parts], files: dict[str, Parts], part: str
) -> tuple[list[str], dict[str, str], list[str], tuple[str, ...]]:
    """(class folders, classes of the pictures by name, class folders of the training part, notes) of a part."""
    split = {parts[0] for parts in files.values() if len(parts) == 3 and named_part(parts[0])}
    if not split:
        names = sorted(parts[0] for parts in folders if len(parts) == 1)
        labels = {name: parts[0] for name, parts in files.items() if len(parts) == 2}
        return names, labels, names, single_part("archive", part)

    def below(wanted: str) -> list[str]:
        return sorted({parts[1] for parts in folders if len(parts) == 2 and named_part(parts[0]) == wanted})

    if part not in map(named_part, split):
        raise DataError(f"{title} has no folder '{part}' with class folders.")
    labels = {name: parts[1] for name, parts in files.items() if len(parts) == 3 and named_part(parts[0]) == part}
    return below(part), labels, below("train") or below(part), ()


@contextmanager
def _opened(path: Path) -> Iterator[Iterator[_Member]]:
    """The members of an archive, in its own order; tar is read as a stream, so that gzip is unpacked once."""
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
    """What is wrong with an archive is said in one sentence."""
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
    """A stream that is refused where gzip grows beyond what is safely unpacked."""

    def __init__(self, file: Any, title: str) -> None:
        self._file, self._title, self._read = file, title, 0

    def read(self, size: int) -> bytes:
        content = self._file.read(size)
        self._read += len(content)
        if self._read > MAX_UNPACKED and isinstance(self._file, gzip.GzipFile):
            raise DataError(f"{self._title} is too large to be unpacked in memory: gunzip it first.")
        return content
