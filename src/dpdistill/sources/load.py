"""Reads records from files of any format, recognised by content."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpdistill.schema import DataError, Schema
from dpdistill.schema.public_facts import CLASSES
from dpdistill.sources.formats import ImageFormat, image_formats, image_titles, listed, table_formats
from dpdistill.sources.images import dicom, digits, objects, parquet
from dpdistill.storage.files import (
    PARTS,
    head,
    is_address,
    list_files,
    list_folders,
    named_part,
    reading,
    refuse_elsewhere,
    require_file,
    show,
)
from dpdistill.storage.memory import Memory
from dpdistill.storage.options import Bounds, Classes, Stated, parse_bounds, parse_classes, parse_resize
from dpdistill.storage.parsed import Parsed
from dpdistill.storage.records import Records

_FOREIGN = {
    b"\x89PNG": "is a single image; name the folder that holds the class folders",
    b"\xff\xd8\xff": "is a single image; name the folder that holds the class folders",
    b"II*\0": "is a single image; name the folder that holds the class folders",
    b"MM\0*": "is a single image; name the folder that holds the class folders",
    b"SQLi": "is a database, whose tables need a schema: state --schema and --sql 'SELECT ...'",
    b"\x93NUMPY": "is an array without labels; save X and y in one .npz",
    b"\x80": "looks like a Python pickle, which is never loaded; use the binary version of the data set",
}


DIGITS, OBJECT = "digits", "object"
"""Names of sources that are no files: the package's own digits, and a data set object."""
FOLDERS = "class folders"
"""Sources whose file names name units, as `ImageFormat.units` calls them."""


def load(
    source: object,
    part: str = "train",
    classes: Classes | None = None,
    bounds: Bounds | None = None,
    resize: int | str | None = None,
    channels: int | None = None,
    strict: bool = True,
    *,
    labels: str | None = None,
    like: Schema | None = None,
    unit: str | None = None,
    straighten: bool = False,
    memory: int | str | None = None,
    scratch: str | os.PathLike | None = None,
) -> Records:
    """Reads labelled images; public facts come from the format or the caller, except `public_facts.INFERRED`.

    Unstated facts may come from the records: classes of class folders, the size of image files, the channels of
    items. `schema.inferred` and the notes list such facts.

    Args:
        source: a folder of IDX files, of CIFAR binary files, of SVHN's .mat files, of Parquet files with images or of
            class folders; one IDX, CIFAR, .npz (X and y, or MedMNIST's), .mat or Parquet file, a zip or tar archive of
            class folders; a CSV file with the columns file and label; "digits:train", "digits:test"; or a data set
            object, see `load_object`. A path may end with a part: "pathmnist.npz:val".
        part: "train", "val" or "test"; a source with a single part is read completely.
        classes: number of classes, "cat,dog" or names; None for the format's classes. Integer labels keep the source's
            meaning: names that the source states stand for its numbers, in any order here; names that are integers
            ("1,2,3") stand for themselves; other classes are numbered from 0.
        bounds: (low, high) or "low,high" of a raw value; None for the format's bounds. Required for images with more
            than 8 bits per value, and for DICOM images, whose window they are.
        resize: side of the square to which images are resized (bilinear), or None.
        channels: 1 or 3, for image files, lists, archives, Parquet and items; None for 3, or for those of the first
            item.
        strict: stop at a bad record; otherwise a bad record gets the label -1 and contributes nothing.
        labels: label kind where a source has several: "fine" or "coarse" of CIFAR-100, or a column's name.
        like: a schema whose classes, bounds, size, channels and straightening replace the other options.
        unit: name of the unit that several images may belong to: a column of a CSV file or an array of a .npz file. In
            class folders file names begin with the unit (p017 in p017_scan2.png).
        straighten: deskew, centre and rescale each image by its own strokes, for handwriting: `straighten_images`.
        memory: memory limit of the records, in bytes or as "512M" or "4G"; None for half of the machine's. Larger
            records lie in unnamed temporary files, which disappear with the process. Mapped files are not copied.
        scratch: folder for those files; None for the system's temporary folder.

    Returns:
        The records; their `notes` are sentences for the owner about the origin of public facts.

    Raises:
        DataError: anything that cannot be read.
    """
    source, part = part_named(source, part)
    if part not in PARTS.values():
        raise DataError(f"Expected part={part!r} to be 'train', 'val' or 'test'.")
    stated = Stated(
        None if classes is None else parse_classes(classes),
        None if bounds is None else parse_bounds(bounds),
        None if resize is None else parse_resize(resize),
        channels,
        labels,
        strict,
        unit,
        straighten,
        Memory.of(memory, scratch),
    )
    title = show(source) if isinstance(source, str) else objects.TITLE
    form = recognise(source)
    if like is not None:
        stated = _stated_by(like, form, stated)
    elif channels is not None and not _has_channels(form):
        raise DataError(f"{title} has fixed channels: leave out --channels, which is for folders of images.")
    if labels is not None and form != OBJECT and not _format(form).labels:
        several = listed((*(each.labels for each in image_formats()), "data sets"), "and")
        raise DataError(f"{title} has a single label per image: leave out --labels, which is for {several}.")
    if unit is not None and not _format(form).units:
        able = listed(each.units for each in image_formats())
        raise DataError(f"{title} does not state which images belong to one {unit}: use {able}.")
    with reading(title):
        raw = _read(source, form, part, stated)
        if like is not None and raw.straightened and not like.straightened:
            raise DataError(f"{title} holds straightened images: they cannot be compared with others.")
        if stated.classes is not None:
            raw = replace(raw, notes=tuple(note for note in raw.notes if not note.startswith("Classes default")))
        records = Records.from_parsed(raw, stated, title)
    _refuse_nothing(title, records, part, strict)
    return records


def _refuse_nothing(title: str, records: Records, part: str, strict: bool) -> None:
    """Refuses a source without records, if strict, and class folders without a usable image."""
    if strict and not len(records):
        raise DataError(f"{title} has no records.")
    if part != "train" or not isinstance(records.schema, Schema) or CLASSES not in records.schema.inferred:
        return
    used = set(np.unique(np.asarray(records.y)).tolist())
    if absent := [name for k, name in enumerate(records.schema.classes) if k not in used]:
        raise DataError(
            f"{title} has the class folder '{absent[0]}' without a usable image: remove the folder, or state "
            "the classes (--classes) if that class has no records."
        )


def _format(form: str) -> ImageFormat:
    """Returns the format of a name; a format without facts for sources that are no files."""
    return next((each for each in image_formats() if each.name == form), ImageFormat(name=form))


def _has_channels(form: str) -> bool:
    return form == OBJECT or _format(form).channels


def is_class_folders(source: object) -> bool:
    """Returns whether a source is a folder of class folders, whose file names may name persons.

    Raises:
        DataError: a missing or unreadable source.
    """
    path = part_named(source, "train")[0]
    return isinstance(path, str) and not is_address(path) and _format(recognise(path)).units == FOLDERS


def part_named(source: object, part: str) -> tuple[Any, str]:
    """Returns a source, as text if it is a path, and its part, which may follow the path."""
    if not isinstance(source, str | os.PathLike):
        return source, part
    text = os.fspath(source)
    path, _, named = text.rpartition(":")
    is_other = text.startswith(digits.PREFIX) or is_address(text) or "\0" in text
    if (found := named_part(named)) is None or not path or is_other or os.path.exists(text):
        return text, part
    return path, found


def _stated_by(like: Schema, form: str, stated: Stated) -> Stated:
    """Returns a schema's facts; size and channels only for image files, since other formats have fixed ones."""
    h, w, c = like.shape
    stated = replace(stated, classes=like.classes, bounds=like.bounds, straighten=like.straightened)
    if not _has_channels(form):
        return stated
    return replace(stated, side=h if h == w else None, channels=c if c in (1, 3) else None)


def _read(source: Any, form: str, part: str, stated: Stated) -> Parsed:
    if form == OBJECT:
        return objects.load_object(source, part, stated)
    if form == DIGITS:
        return digits.load_digits(source)
    path = Path(source)
    read = _format(form).load_folder if path.is_dir() else _format(form).load_file
    assert read is not None, form
    return read(path, part, stated)


def recognise(source: object) -> str:
    """Returns the format of a source, by its content.

    Raises:
        DataError: a missing or unreadable source.
    """
    if not isinstance(source, str | os.PathLike):
        if not objects.is_data_set(source):
            raise DataError(f"Expected a path, or a data set of images and labels; got {type(source).__name__}.")
        return "object"
    text = os.fspath(source)
    if text.startswith(digits.PREFIX):
        return "digits"
    if not text or "\0" in text:
        raise DataError("Expected the path of a file or folder; got an empty or impossible one.")
    refuse_elsewhere(text)
    if is_address(text):
        raise DataError("A database holds tables, which need a schema: state --schema and --sql 'SELECT ...'.")
    path = Path(text)
    with reading(text):
        path.stat()
        return _recognise_folder(path) if path.is_dir() else _recognise_file(path)


def _recognise_folder(path: Path) -> str:
    names = [*list_files(path), *list_folders(path)]
    for each in image_formats():
        if each.holds_folder is not None and each.holds_folder(path, names):
            return each.name
    raise DataError(f"{show(path)} holds no known data set: expected {image_titles()}.")


def _recognise_file(path: Path) -> str:
    require_file(path)
    formats = image_formats()
    for each in formats:
        if each.is_file(path):
            return each.name
    for each in formats:
        if each.guess is not None and each.guess(path):
            return each.name
    start = head(path, 4)
    for magic, sentence in _FOREIGN.items():
        if start.startswith(magic[:4]):
            raise DataError(f"{show(path)} {sentence}.")
    if dicom.is_dicom(path):
        raise DataError(f"{show(path)} is a single image; name the folder that holds the class folders.")
    if start == parquet.MAGIC or path.name.lower().removesuffix(".gz").endswith(_of_tables()):
        raise DataError(
            f"{show(path)} looks like a table, which needs a schema: `dpdistill schema draft {show(path)}` writes one "
            "to be reviewed, and --schema names it."
        )
    raise DataError(f"{show(path)} is no known data set: expected {image_titles()}, or a table with its schema.")


def _of_tables() -> tuple[str, ...]:
    return tuple(ending for each in table_formats() for ending in each.endings)
