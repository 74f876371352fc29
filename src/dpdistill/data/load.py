"""Records from files of any format, which is recognised by the content."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from dpdistill.data import files
from dpdistill.data.files import Raw, head, is_gzip, list_files, list_folders, reading, require_file, show, unpack
from dpdistill.data.images import cifar, digits, folders, idx, listed, npz
from dpdistill.data.options import Bounds, Classes, parse_bounds, parse_classes, parse_resize
from dpdistill.data.records import Records
from dpdistill.schema import DataError

_EXPECTED = "expected IDX files, CIFAR binary files, a .npz with X and y, or a folder of class folders of PNG or JPEG"
_FOREIGN = {
    b"\x89PNG": "is a single image; name the folder that holds the class folders",
    b"\xff\xd8\xff": "is a single image; name the folder that holds the class folders",
    b"\x93NUMPY": "is an array without labels; save X and y in one .npz",
    b"\x80": "looks like a Python pickle, which is never loaded; take the binary version of the data set",
}


def load(
    source: str | os.PathLike,
    part: str = "train",
    classes: Classes | None = None,
    bounds: Bounds | None = None,
    resize: int | str | None = None,
    channels: int | None = None,
    strict: bool = True,
    unit: str | None = None,
) -> Records:
    """Labelled images from files; shape, bounds and classes come from the format or the caller, never from a record.

    Args:
        source: a folder of IDX files, of CIFAR binary files or of class folders; one IDX, CIFAR or .npz file; a CSV
            file with the columns file and label; or "digits:train", "digits:test".
        part: "train" or "test"; a source with a single part is read whole.
        classes: number of classes, "cat,dog" or names; None for what the format states. When all names are whole
            numbers ("1,2,3"), the labels of IDX and CIFAR files are looked up among them; else they are indices.
        bounds: (low, high) or "low,high" of a raw value; None for what the format states.
        resize: side of the square to which images are resized (bilinear), or None.
        channels: 1 or 3, for class folders and lists of images; 3 if None.
        strict: stop at a bad record; otherwise it is kept with the label -1, and contributes nothing.
        unit: what several images may belong to: the name of a column of a CSV file or of an array of a .npz file that
            names the unit of each; in class folders the files' names begin with it (p017 in p017_scan2.png).

    Returns:
        The records; their `notes` are sentences for the owner, about where the public facts come from.

    Raises:
        DataError: anything that cannot be read, in one sentence.
    """
    if part not in ("train", "test"):
        raise DataError(f"Expected part={part!r} to be 'train' or 'test'.")
    names = None if classes is None else parse_classes(classes)
    limits = None if bounds is None else parse_bounds(bounds)
    side = None if resize is None else parse_resize(resize)
    raw = _read(os.fspath(source), part, names, side, channels, strict, unit)
    if names is None and raw.classes is None:
        raise DataError(f"{show(source)} does not state its classes: pass --classes (10, or cat,dog).")
    stated = tuple(note for note in raw.notes if names is None or not note.startswith("Classes default"))
    X_side = None if raw.resized else side
    try:
        numbered = names is not None and all(re.fullmatch("0|[1-9][0-9]*", name) for name in names)
        y = raw.y.astype(str) if raw.codes and numbered else raw.y
        return Records.from_arrays(
            raw.X,
            y,
            names or raw.classes or (),
            limits or raw.bounds,
            resize=X_side,
            strict=strict,
            notes=stated,
            units=raw.units,
        )
    except DataError as error:
        raise DataError(f"{show(source)}: {error}") from None
    except MemoryError:
        raise DataError(f"{show(source)} does not fit into memory.") from None


def _read(
    source: str,
    part: str,
    names: tuple[str, ...] | None,
    side: int | None,
    channels: int | None,
    strict: bool,
    unit: str | None,
) -> Raw:
    form = recognise(source)
    if channels is not None and form not in ("folders", "list"):
        raise DataError(f"{show(source)} has the channels of its format: --channels is for folders of images.")
    if unit is not None and form in ("digits", "idx", "cifar"):
        raise DataError(f"{show(source)} does not say which images are of one {unit}: take a .npz file or a CSV list.")
    path = Path(source)
    with reading(source):
        match form:
            case "digits":
                return digits.load_digits(source)
            case "idx" | "cifar":
                binary = idx if form == "idx" else cifar
                if path.is_dir():
                    return binary.load_folder(path, part)
                raw = binary.load_file(path)
                return replace(raw, notes=(*raw.notes, *files.single_part("file", part)))
            case "npz":
                return npz.load_file(path, part, unit)
            case "list":
                return listed.load_file(path, part, unit, side, channels, strict)
            case _:
                return folders.load_folder(path, part, names, side, channels, strict, unit is not None)


def recognise(source: str | os.PathLike) -> str:
    """The format of a source, by its content: "digits", "idx", "cifar", "npz", "list" or "folders".

    Raises:
        DataError: nothing there, or nothing that can be read.
    """
    text = os.fspath(source)
    if text.startswith(digits.PREFIX):
        return "digits"
    if not text or "\0" in text:
        raise DataError("Expected the path of a file or folder; got an empty or impossible one.")
    path = Path(text)
    with reading(text):
        path.stat()
        return _recognise_folder(path) if path.is_dir() else _recognise_file(path)


def _recognise_folder(path: Path) -> str:
    names = [*list_files(path), *list_folders(path)]
    if idx.holds_idx(names):
        return "idx"
    if cifar.holds_cifar(names):
        return "cifar"
    if list_folders(path):
        return "folders"
    raise DataError(f"{show(path)} holds no data set that is known: {_EXPECTED}.")


def _recognise_file(path: Path) -> str:
    size = require_file(path)
    start = head(path, 4)
    named_cifar = re.search(r"\.bin(\.gz)?$", path.name, re.IGNORECASE) is not None
    if start[:2] == b"PK":
        return "npz"
    if listed.lists_images(path):
        return "list"
    if start == idx.IMAGES_MAGIC.to_bytes(4, "big") and not (named_cifar and size % (cifar.IMAGE_BYTES + 1) == 0):
        return "idx"
    if start == idx.LABELS_MAGIC.to_bytes(4, "big") and not named_cifar:
        raise DataError(f"{show(path)} is a file of labels; name the images, or the folder of both.")
    if re.search(r"idx\d?[-.]ubyte", path.name, re.IGNORECASE):
        expected = idx.IMAGES_MAGIC
        raise DataError(f"{show(path)} has the magic 0x{start.hex()}; expected 0x{expected:08x} of IDX images.")
    if _is_cifar(path, size, named_cifar):
        return "cifar"
    for magic, sentence in _FOREIGN.items():
        if start.startswith(magic[:4]):
            raise DataError(f"{show(path)} {sentence}.")
    if start == b"PAR1" or re.search(r"\.((csv|tsv|data)(\.gz)?|parquet)$", path.name, re.IGNORECASE):
        raise DataError(
            f"{show(path)} looks like a table, which needs a schema: `dpdistill schema draft {show(path)}` writes one "
            "to be reviewed, and --schema names it."
        )
    raise DataError(f"{show(path)} is not a data set that is known: {_EXPECTED}, or a table with its schema.")


def _is_cifar(path: Path, size: int, named: bool) -> bool:
    if named:
        return True
    length = len(unpack(path)) if is_gzip(path) else size
    return length > 0 and length % (cifar.IMAGE_BYTES + 1) == 0
