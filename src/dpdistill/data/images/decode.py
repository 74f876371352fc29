"""Single pictures, PNG, JPEG, TIFF or DICOM, to arrays of one size; every record by itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image

from dpdistill.data.files import reading
from dpdistill.data.images import dicom
from dpdistill.data.options import Stated
from dpdistill.schema import DataError

FORMATS = {".png": ("PNG", "JPEG"), ".jpg": ("PNG", "JPEG"), ".jpeg": ("PNG", "JPEG")}
FORMATS |= {".tif": ("TIFF",), ".tiff": ("TIFF",)}
ANY = ("PNG", "JPEG", "TIFF")
_DEEP = ("I", "F")


class Stack:
    """An array that pictures of one size are put into, one by one.

    Its type is uint8, or what holds the deeper values among them: no value of a record depends on another record.
    """

    def __init__(self, count: int, stated: Stated) -> None:
        self.bad: set[int] = set()
        self._count, self._stated, self._first = count, stated, ""
        self._X: np.ndarray | None = None

    @property
    def X(self) -> np.ndarray:
        """The pictures, (count, h, w, channels); zeros where one is bad."""
        if self._X is None:
            side = self._stated.side or 1
            self._X = np.zeros((self._count, side, side, self._stated.channels or 3), np.uint8)
        return self._X

    def put(self, i: int, title: str, read: Callable[[], np.ndarray]) -> None:
        """Reads a picture into a place.

        Args:
            i: its place.
            title: what to call it in a sentence.
            read: its values, (h, w, channels); what it raises is not shown where units are stated.

        Raises:
            DataError: another size than the others have; and, where bad records are not left out, what `read` raises.
        """
        try:
            image = read()
        except DataError:
            if self._stated.strict and self._stated.unit is not None:  # the path may name a person
                raise DataError(
                    f"{title} cannot be used: it is missing, damaged, or no picture that is read."
                ) from None
            if self._stated.strict:
                raise
            self.bad.add(i)
            return
        if self._X is None:
            self._first, self._X = title, np.zeros((self._count, *image.shape), image.dtype)
        if image.shape != self._X.shape[1:]:
            (h, w, c), (height, width, channels) = image.shape, self._X.shape[1:]
            if c != channels:
                raise DataError(f"{title} has {c} channels where {self._first} has {channels}.")
            raise DataError(f"{title} is {h}x{w} pixels where {self._first} is {height}x{width}: pass --resize H.")
        if (kind := np.promote_types(self._X.dtype, image.dtype)) != self._X.dtype:
            self._X = self._X.astype(kind)
        self._X[i] = image

    def labelled(self, labels: list[str] | list[int]) -> np.ndarray:
        """The labels, with one that no class has where a picture is bad."""
        none = "" if isinstance(next(iter(labels), ""), str) else -1
        return np.array([none if i in self.bad else label for i, label in enumerate(labels)])


def require_stated(stated: Stated) -> None:
    """Refuses what cannot be stated about pictures.

    Raises:
        DataError: channels that no picture is converted to, or bad records left out without a size.
    """
    if stated.channels not in (None, 1, 3):
        raise DataError(f"Expected channels={stated.channels} to be 1 (grey) or 3 (colour).")
    if stated.side is None and not stated.strict:
        raise DataError("Bad images can be left out only when the size is stated: pass --resize H.")


def picture_notes(stated: Stated, X: np.ndarray) -> list[str]:
    """Where channels and size come from, when the caller does not state them."""
    notes = []
    if stated.channels is None:
        notes.append("Images are read in colour (3 channels): pass --channels 1 for grey.")
    if stated.side is None:
        h, w = X.shape[1:3]
        notes.append(f"Image size {h}x{w} is taken from the files: pass --resize H to be independent of them.")
    return notes


def decode(content: Path | IO[bytes], title: str, stated: Stated, formats: tuple[str, ...] = ANY) -> np.ndarray:
    """One picture as (h, w, channels): uint8, or its own values where they are deeper; resized (bilinear) if stated.

    Args:
        content: of a PNG, JPEG, TIFF or DICOM file.
        title: what to call it in a sentence.
        stated: size, channels and bounds.
        formats: names by which Pillow knows those that it may have.

    Raises:
        DataError: not a picture, truncated, too large to be decoded safely, or deeper than what is stated.
    """
    with reading(title):
        if dicom.is_dicom(content):
            return _brought(Image.fromarray(dicom.read_values(content, title, stated.bounds)), stated)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                with Image.open(content, formats=formats) as image:
                    return to_values(image, title, stated)
        except (DataError, MemoryError, PermissionError):
            raise
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise DataError(f"{title} has too many pixels to be decoded safely.") from None
        except Exception:  # image decoders raise many types on damaged input
            raise DataError(f"{title} is not a {' or '.join(formats)} image, or is damaged.") from None


def to_values(image: Any, title: str, stated: Stated) -> np.ndarray:
    """A picture that Pillow has opened as (h, w, channels): uint8, or its own values where they are deeper.

    Raises:
        DataError: several pages, or values that are deeper than what is stated.
    """
    if image.format == "TIFF" and image.n_frames > 1:
        raise DataError(f"{title} has {image.n_frames} pages; expected a single image.")
    if not image.mode.startswith(_DEEP):
        if ";16" in str(getattr(image, "tile", "")):
            raise DataError(f"{title} has more than 8 bits a value in colour: convert it to 8 bits.")
        return _brought(image.convert("L" if stated.channels == 1 else "RGB"), stated)
    values = np.asarray(image)
    if stated.bounds is None or (image.mode != "F" and stated.bounds[1] <= 255):
        raise DataError(
            f"{title} has more than 8 bits a value: state the bounds of a value (--bounds 0,65535), or convert it to "
            "8 bits."
        )
    return _brought(Image.fromarray(values.astype(np.float32)), stated, np.uint16 if values.dtype.kind == "u" else None)


def _brought(image: Image.Image, stated: Stated, kind: Any = None) -> np.ndarray:
    """A picture in the stated size, with as many channels as are stated."""
    side = stated.side
    if side is not None and image.size != (side, side):
        image = image.resize((side, side), Image.Resampling.BILINEAR)
    elif kind is not None:
        return _channels(np.asarray(image).astype(kind), stated)
    return _channels(np.asarray(image), stated)


def _channels(values: np.ndarray, stated: Stated) -> np.ndarray:
    values = values.reshape(*values.shape[:2], -1)
    wanted = stated.channels or 3
    return values if values.shape[2] == wanted else np.repeat(values, wanted, axis=2)
