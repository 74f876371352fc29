"""A folder of class folders of PNG or JPEG images: DIR/<class>/*.png, or DIR/train/<class>/ and DIR/test/<class>/."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from dpdistill.data.files import Raw, list_files, list_folders, reading, require_file, show, single_part
from dpdistill.schema import DataError

SUFFIXES = (".png", ".jpg", ".jpeg")
_DEEP = ("I", "F")


def load_folder(
    folder: Path,
    part: str,
    classes: tuple[str, ...] | None,
    side: int | None,
    channels: int | None,
    strict: bool,
    units: bool = False,
) -> Raw:
    """Images of class folders, in the order of their folders' and files' names.

    Args:
        folder: the folder.
        part: "train" or "test", used when the folder has folders of these names.
        classes: class names stated by the caller, or None for the names of the (training) folders, sorted.
        side: side of the square to which images are resized, or None for the files' own size.
        channels: 3 (colour, when None) or 1 (grey): every image is converted to it.
        strict: stop at a file that is not an image; otherwise it is kept with a label that no class has.
        units: files are named after their units: p017 in p017_scan2.png. A name without "_" names none.

    Raises:
        DataError: no images, mixed sizes, a file that is not an image, an unreadable folder.
    """
    check_stated(side, channels, strict)
    root, notes = _part_folder(folder, part)
    names, files, labels = _listing(root)
    if not files:
        raise DataError(f"{show(root)} has no PNG or JPEG in its class folders (DIR/<class>/*.png).")
    if classes is None:
        split = _is_split(folder) and "train" in list_folders(folder)
        classes = tuple(list_folders(folder / "train") if split else names)
        notes.append(f"Classes are the folder names ({', '.join(classes[:20])}{', ...' if len(classes) > 20 else ''}).")
    elif strict and (unknown := [name for name in names if name not in classes]):
        raise DataError(f"{show(root)} has the class folder '{unknown[0]}', which is not one of the stated classes.")
    if channels is None:
        notes.append("Images are read in colour (3 channels): pass --channels 1 for grey.")
    called = (lambda i: f"Image {i + 1} of {show(root)}, by the names of its folders and files,") if units else None
    X, bad = decode_all(files, side, channels or 3, strict, called)
    if side is None:
        h, w = X.shape[1:3]
        notes.append(f"Image size {h}x{w} is taken from the files: pass --resize H to be independent of them.")
    y = ["" if i in bad else label for i, label in enumerate(labels)]
    named = np.array([file.name.partition("_")[0] * ("_" in file.name) for file in files])
    return Raw(X, np.array(y), classes, (0.0, 255.0), tuple(notes), resized=True, units=named if units else None)


def check_stated(side: int | None, channels: int | None, strict: bool) -> None:
    """Refuse what cannot be stated of image files.

    Raises:
        DataError: other channels than 1 and 3, or bad images that are to be left out without a size.
    """
    if channels not in (None, 1, 3):
        raise DataError(f"Expected channels={channels} to be 1 (grey) or 3 (colour).")
    if side is None and not strict:
        raise DataError("Bad images can be left out only when the size is stated: pass --resize H.")


def _part_folder(folder: Path, part: str) -> tuple[Path, list[str]]:
    if not _is_split(folder):
        return folder, [*single_part("folder", part)]
    if part not in list_folders(folder):
        raise DataError(f"{show(folder)} has no folder '{part}' with class folders.")
    return folder / part, []


def _is_split(folder: Path) -> bool:
    parts = [name for name in list_folders(folder) if name in ("train", "test")]
    return any(list_folders(folder / name) and not _image_names(folder / name) for name in parts)


def _image_names(folder: Path) -> list[str]:
    return [name for name in list_files(folder) if name.lower().endswith(SUFFIXES)]


def _listing(root: Path) -> tuple[list[str], list[Path], list[str]]:
    names = list_folders(root)
    for name in names:
        if not name.isprintable():
            raise DataError(f"{show(root)} has a class folder with a name that cannot be printed: {show(name)}.")
    files = [root / name / file for name in names for file in _image_names(root / name)]
    return names, files, [file.parent.name for file in files]


def decode_all(
    files: list[Path], side: int | None, channels: int, strict: bool, called: Callable[[int], str] | None = None
) -> tuple[np.ndarray, set[int]]:
    """All images (n, h, w, channels), uint8, and the indices of bad ones, which are left out where not strict.

    Args:
        files: the images, at least one.
        side: side of the square to which they are resized, or None for the files' own size.
        channels: 1 or 3.
        strict: stop at a bad image.
        called: what image i is called in messages, where its path names a person; None for its path.

    Raises:
        DataError: mixed sizes, or a bad image where strict.
    """

    def image(i: int) -> np.ndarray:
        try:
            return decode(files[i], side, channels)
        except DataError:
            if called is None:
                raise
        raise DataError(f"{called(i)} cannot be used: it is missing, damaged, or no PNG or JPEG of 8 bits a value.")

    first = (side, side) if side is not None else image(0).shape[:2]
    with reading(files[0].parent):
        X = np.zeros((len(files), *first, channels), np.uint8)
    bad = set()
    for i, path in enumerate(files):
        try:
            found = image(i)
        except DataError:
            if strict:
                raise
            bad.add(i)
            continue
        if found.shape != X.shape[1:]:
            names = (show(path), show(files[0])) if called is None else (called(i), called(0))
            raise DataError(
                f"{names[0]} is {found.shape[0]}x{found.shape[1]} pixels where {names[1]} is "
                f"{first[0]}x{first[1]}: pass --resize H."
            )
        X[i] = found
    return X, bad


def decode(path: Path, side: int | None, channels: int) -> np.ndarray:
    """One PNG or JPEG as (h, w, channels) uint8, resized to side x side (bilinear) if side is given.

    Raises:
        DataError: not an image, truncated, deeper than 8 bits, or too large to be decoded safely.
    """
    require_file(path)
    with reading(path):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                with Image.open(path, formats=("PNG", "JPEG")) as image:
                    if image.mode.startswith(_DEEP):
                        raise DataError(f"{show(path)} has more than 8 bits a value: convert it to 8 bits.")
                    pixels = image.convert("L" if channels == 1 else "RGB")
        except (DataError, MemoryError, PermissionError):
            raise
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise DataError(f"{show(path)} has too many pixels to be decoded safely.") from None
        except Exception:  # image decoders raise many types on damaged input
            raise DataError(f"{show(path)} is not a PNG or JPEG image, or is damaged.") from None
    if side is not None and pixels.size != (side, side):
        pixels = pixels.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(pixels).reshape(pixels.height, pixels.width, channels)
