"""Reads a folder of class folders of images: DIR/<class>/*.png, or DIR/train/<class>/ and DIR/test/<class>/."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from dpdistill.schema import DataError
from dpdistill.sources.formats import ImageFormat
from dpdistill.sources.images import dicom
from dpdistill.sources.images.decode import FORMATS, Picture, decode, raw_pictures, require_stated
from dpdistill.sources.images.tree import SUFFIXES, Content, Parts, read_tree
from dpdistill.storage.files import list_files, list_folders, reading, require_file, show
from dpdistill.storage.options import Stated
from dpdistill.storage.parsed import Parsed

_BARE = re.compile(r"[^.]+|[\d.]+")  # DICOM files are often named by numbers, without a suffix
_DEPTH = 4
"""Depth of the search: a part, a class, and folders inside a class by mistake."""


def load_folder(folder: Path, part: str, stated: Stated) -> Parsed:
    """Reads the images of class folders, in the order of folder and file names.

    Args:
        folder: the folder.
        part: "train", "val" or "test", used if the folder has folders of these names.
        stated: stated facts; by default classes are the sorted names of the (training) folders. With a unit, file names
            begin with the unit's name: p017 in p017_scan2.png; a name without "_" has no unit.

    Raises:
        DataError: no images, mixed sizes, a file that is not an image, an unreadable folder, a link to a folder already
            read, and as `read_tree`.
    """
    require_stated(stated)
    folders: dict[Parts, Content] = {}
    links: list[str] = []
    _walk(folder, folder, (), folders, links, stated.strict)
    tree = read_tree(show(folder), folders, part, stated, "folder", around=0)
    pictures = _pictures(folder, tree.labels, stated)
    notes = (*tree.notes, *links, *([_example(folder, tree.labels)] if stated.unit else []))
    return raw_pictures(pictures, stated, tree.classes, notes, tree.inferred)


def _example(root: Path, labels: dict[Parts, str]) -> str:
    """Returns a note on the part of file names that names the person, with the first file as an example."""
    files = (name for parts in sorted(labels) for name in list_files(root.joinpath(*parts)))
    first = next((name for name in files if "_" in name and name.lower().endswith(SUFFIXES)), None)
    example = "no file has one" if first is None else f"{show(first)} belongs to person {show(_person(first))}"
    return f'Persons are named by the text before the first "_" of file names: {example}.'


def _person(file: str) -> str:
    """Returns the person of p017_scan2.png, p017; empty for a name without "_"."""
    return file.partition("_")[0] * ("_" in file)


def _walk(root: Path, folder: Path, path: Parts, folders: dict[Parts, Content], links: list[str], strict: bool) -> None:
    """Counts the files of a folder and its subfolders, and notes links to other folders.

    Raises:
        DataError: a link to a folder in or around the root, whose images would be read twice, if strict.
    """
    content = folders[path] = Content()
    for name in list_files(folder):
        if _is_picture(folder / name):
            content.pictures += 1
        else:
            content.leave_out(name)
    for name in list_folders(folder) if len(path) < _DEPTH else []:
        below = folder / name
        if below.is_symlink() and _is_within(root, below):
            if strict:
                raise DataError(f"{show(below)} is a link to a folder that is read already: remove it.")
            continue
        if below.is_symlink():
            links.append(f"{show(below)} is a link to another folder, which is read.")
        _walk(root, below, (*path, name), folders, links, strict)


def _is_within(root: Path, link: Path) -> bool:
    """Returns whether a link leads into a folder, to the folder itself, or to an outer folder."""
    root, target = root.resolve(), link.resolve()
    return target == root or target in root.parents or root in target.parents


def _pictures(root: Path, labels: dict[Parts, str], stated: Stated) -> Iterator[Picture]:
    """Yields the images of class folders, listing one folder at a time."""
    number = 0
    for parts in sorted(labels):
        folder = root.joinpath(*parts)
        for file in filter(lambda name: _is_picture(folder / name), list_files(folder)):
            path, number = folder / file, number + 1
            title = f"Image {number} of {show(root)}, by the names of its folders and files,"
            unit = _person(file)
            read = partial(decode_file, path, stated)
            yield Picture(title if stated.unit else show(path), read, labels[parts], unit)


def _is_picture(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES) or _is_bare(path)


def _is_bare(path: Path) -> bool:
    """Returns whether a file without a suffix is a DICOM image; an unreadable file is none."""
    try:
        return _BARE.fullmatch(path.name) is not None and path.is_file() and dicom.is_dicom(path)
    except OSError:
        return False


def decode_file(path: Path, stated: Stated) -> np.ndarray:
    """Returns one image as (h, w, channels).

    Raises:
        DataError: as `decode`, and for a path without a file.
    """
    require_file(path)
    with reading(path):
        return decode(path, show(path), stated, FORMATS.get(path.suffix.lower(), ("PNG", "JPEG")))


FORMAT = ImageFormat(
    name="folders",
    rank=80,
    load_folder=load_folder,
    holds_folder=lambda path, _: bool(list_folders(path)),
    channels=True,
    units="class folders",
)
