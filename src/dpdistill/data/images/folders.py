"""A folder of class folders of images: DIR/<class>/*.png, or DIR/train/<class>/ and DIR/test/<class>/."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from dpdistill.data.files import list_files, list_folders, named_part, reading, require_file, show, single_part
from dpdistill.data.images import dicom
from dpdistill.data.images.decode import FORMATS, Picture, decode, raw_pictures, require_stated
from dpdistill.data.options import Stated
from dpdistill.data.raw import Raw
from dpdistill.schema import DataError

SUFFIXES = (*FORMATS, ".dcm", ".dicom")
IMAGES = "PNG, JPEG, TIFF, BMP, WebP or DICOM"
_BARE = re.compile(r"[^.]+|[\d.]+")  # DICOM files are often named by numbers, without a suffix


def load_folder(folder: Path, part: str, stated: Stated) -> Raw:
    """Images of class folders, in the order of their folders' and files' names.

    Args:
        folder: the folder.
        part: "train", "val" or "test", used when the folder has folders of these names.
        stated: classes are the names of the (training) folders, sorted, if they are not stated; with a unit, files are
            named after theirs: p017 in p017_scan2.png, and a name without "_" names none.

    Raises:
        DataError: no images, mixed sizes, a file that is not an image, an unreadable folder.
    """
    require_stated(stated)
    root, notes = _part_folder(folder, part)
    names = list_folders(root)
    for name in names:
        require_printable(show(root), name)
    if not any(_image_names(root / name) for name in names):
        raise DataError(f"{show(root)} has no {IMAGES} in its class folders (DIR/<class>/*.png).")
    training = names
    if _is_split(folder) and (found := _folders_of(folder).get("train")):
        training = list_folders(folder / found)
    classes, noted = class_names(show(root), names, training, stated)
    return raw_pictures(_pictures(root, names, stated), stated, classes, (*notes, *noted))


def _pictures(root: Path, names: list[str], stated: Stated) -> Iterator[Picture]:
    """The pictures of class folders, of which one is listed at a time."""
    number = 0
    for name in names:
        for file in _image_names(root / name):
            path, number = root / name / file, number + 1
            title = f"Image {number} of {show(root)}, by the names of its folders and files,"
            unit = file.partition("_")[0] * ("_" in file)
            yield Picture(title if stated.unit else show(path), partial(decode_file, path, stated), name, unit)


def class_names(title: str, names: list[str], training: list[str], stated: Stated) -> tuple[tuple[str, ...], list[str]]:
    """The classes of class folders, and where they come from.

    Args:
        title: what to call the folder of class folders.
        names: of its class folders.
        training: of the class folders of the training part.
        stated: by the caller.

    Raises:
        DataError: a class folder that is not one of the stated classes, when strict.
    """
    if stated.classes is None:
        listed = f"{', '.join(training[:20])}{', ...' if len(training) > 20 else ''}"
        return tuple(training), [f"Classes are the folder names ({listed})."]
    if stated.strict and (unknown := [name for name in names if name not in stated.classes]):
        raise DataError(f"{title} has the class folder '{unknown[0]}', which is not one of the stated classes.")
    return stated.classes, []


def _part_folder(folder: Path, part: str) -> tuple[Path, list[str]]:
    if not _is_split(folder):
        return folder, [*single_part("folder", part)]
    if part not in (found := _folders_of(folder)):
        raise DataError(f"{show(folder)} has no folder '{part}' with class folders.")
    return folder / found[part], []


def _folders_of(folder: Path) -> dict[str, str]:
    """Names of the folders of parts, by part."""
    return {part: name for name in reversed(list_folders(folder)) if (part := named_part(name)) is not None}


def _is_split(folder: Path) -> bool:
    parts = _folders_of(folder).values()
    return any(list_folders(folder / name) and not _image_names(folder / name) for name in parts)


def _image_names(folder: Path) -> list[str]:
    return [name for name in list_files(folder) if name.lower().endswith(SUFFIXES) or _is_bare(folder / name)]


def _is_bare(path: Path) -> bool:
    """Whether a file without a suffix is a DICOM image."""
    return _BARE.fullmatch(path.name) is not None and path.is_file() and dicom.is_dicom(path)


def require_printable(title: str, name: str) -> None:
    """Refuses the name of a class folder that cannot be printed."""
    if not name.isprintable():
        raise DataError(f"{title} has a class folder with a name that cannot be printed: {show(name)}.")


def decode_file(path: Path, stated: Stated) -> np.ndarray:
    """One picture as (h, w, channels).

    Raises:
        DataError: as `decode`, and for what is no file.
    """
    require_file(path)
    with reading(path):
        return decode(path, show(path), stated, FORMATS.get(path.suffix.lower(), ("PNG", "JPEG")))
