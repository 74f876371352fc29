"""Decodes single PNG, JPEG, TIFF, BMP, WebP or DICOM images to arrays of one size, independently of each other."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
from PIL import Image, ImageOps

from dpdistill.schema import DataError
from dpdistill.schema.public_facts import IMAGE_SIZE
from dpdistill.sources.images import dicom
from dpdistill.storage.files import reading
from dpdistill.storage.options import EIGHT_BITS, Stated, refuse_eight_bits
from dpdistill.storage.parsed import Parsed, Part
from dpdistill.storage.straighten import straighten_images

FORMATS = {".png": ("PNG", "JPEG"), ".jpg": ("PNG", "JPEG"), ".jpeg": ("PNG", "JPEG"), ".jfif": ("PNG", "JPEG")}
FORMATS |= {".tif": ("TIFF",), ".tiff": ("TIFF",), ".bmp": ("BMP",), ".webp": ("WEBP",), ".gif": ("GIF",)}
ANY = ("PNG", "JPEG", "TIFF", "BMP", "WEBP", "GIF")
_DEEP = ("I", "F")
_PHOTOMETRIC, _LIGHT_IS_ZERO, _DARK_IS_ZERO = 262, 0, 1
"""TIFF tag PhotometricInterpretation; Pillow inverts images of 8 bits where needed, but not deeper images."""
_BITS, _KIND, _UNSIGNED, _SIGNED = 258, 339, 1, 2
"""TIFF tags BitsPerSample and SampleFormat."""
_FURTHER, _UNKNOWN, _SLICES = 338, 0, 32997
"""TIFF tags ExtraSamples, whose value 0 leaves the meaning of a channel open, and ImageDepth."""
_VALUES = 1 << 20


class Picture(NamedTuple):
    """One image before decoding, with known facts.

    Args:
        title: name of the image in sentences.
        read: returns its values, (h, w, channels); its error text is not shown where units are stated.
        label: an integer, or a name; None without a label.
        unit: unit of the image, or None.
        place: position among all images, if they arrive in another order; else None.
    """

    title: str
    read: Callable[[], np.ndarray]
    label: int | str | bytes | None
    unit: str | None = None
    place: int | None = None


def raw_pictures(
    pictures: Iterable[Picture],
    stated: Stated,
    classes: tuple[str, ...] | None = None,
    notes: Iterable[str] = (),
    inferred: tuple[str, ...] = (),
) -> Parsed:
    """Returns the images of a format with one image per file."""
    colour = () if stated.channels else ("Images are read in colour (3 channels): pass --channels 1 for grey.",)
    size = () if stated.side else (IMAGE_SIZE,)
    parts = stacked(pictures, stated)
    return Parsed(
        parts, classes=classes, bounds=(0.0, 255.0), notes=(*notes, *colour), prepared=True, inferred=(*inferred, *size)
    )


def stacked(pictures: Iterable[Picture], stated: Stated) -> Iterator[Part]:
    """Yields images of one size, decoded and straightened one by one: no record influences another record.

    The type of a part is the common type of its values, or one that holds all exactly. With lenient reading, bad
    images become zeros with a label of no class; an image of another shape than the stated one is bad, too.

    Raises:
        DataError: images of different sizes; and, unless bad records are left out, the errors of `read`.
    """
    side = stated.side or 1
    first, shape = "the shape that is stated", (side, side, stated.channels or 3)
    known = not stated.strict
    some: list[tuple[Picture, np.ndarray | None]] = []
    for picture in pictures:
        image = _read(picture, stated, shape if known else None, first)
        if image is not None and not known:
            first, shape, known = picture.title, image.shape, True
        some.append((picture, image))
        if len(some) * math.prod(shape) >= _VALUES:
            yield _part(some, shape, stated)
            some = []
    yield _part(some, shape, stated)


def _read(picture: Picture, stated: Stated, shape: tuple[int, ...] | None, first: str) -> np.ndarray | None:
    """Returns the values of an image, straightened if stated; None for a bad image with lenient reading."""
    try:
        image = picture.read()
    except DataError:
        if not stated.strict:
            return None
        if stated.unit is None:
            raise
        # The path may name a person.
        raise DataError(
            f"{picture.title} cannot be used: the file is missing, damaged, or of an unknown format."
        ) from None
    if shape is not None and image.shape != shape:
        if not stated.strict:
            return None
        _refuse_shape(image, picture.title, shape, first)
    return straighten_images(image[None])[0] if stated.straighten else image


def _refuse_shape(image: np.ndarray, title: str, shape: tuple[int, ...], first: str) -> NoReturn:
    (h, w, c), (height, width, channels) = image.shape, shape
    if c != channels:
        raise DataError(f"{title} has {c} channels where {first} has {channels}.")
    raise DataError(f"{title} is {h}x{w} pixels where {first} is {height}x{width}: pass --resize H.")


def _part(some: list[tuple[Picture, np.ndarray | None]], shape: tuple[int, ...], stated: Stated) -> Part:
    pictures = [picture for picture, _ in some]
    kinds = (image.dtype for _, image in some if image is not None)
    X = np.zeros((len(some), *shape), reduce(np.promote_types, kinds, np.dtype(np.uint8)))
    for x, (_, image) in zip(X, some, strict=True):
        x[...] = 0 if image is None else image
    labels = [None if image is None else picture.label for picture, image in some]
    units = None if stated.unit is None else np.array([picture.unit or "" for picture in pictures], np.str_)
    placed = any(picture.place is not None for picture in pictures)
    return Part(X, labels, units, np.array([picture.place for picture in pictures]) if placed else None)


def refused(fault: str) -> NoReturn:
    """Refuses an image instead of reading it.

    Raises:
        DataError: always, with the fault.
    """
    raise DataError(fault)


def require_stated(stated: Stated) -> None:
    """Refuses impossible statements about images.

    Raises:
        DataError: channels other than 1 and 3, or lenient reading without a size.
    """
    if stated.channels not in (None, 1, 3):
        raise DataError(f"Expected channels={stated.channels} to be 1 (grey) or 3 (colour).")
    if stated.side is None and not stated.strict:
        raise DataError("Bad images can be left out only when the size is stated: pass --resize H.")


def decode(content: Path | IO[bytes], title: str, stated: Stated, formats: tuple[str, ...] = ANY) -> np.ndarray:
    """Returns one image as (h, w, channels): uint8, or its deeper values; resized (bilinear) if stated.

    Args:
        content: a PNG, JPEG, TIFF, BMP, WebP or DICOM file.
        title: name of the image in sentences.
        stated: size, channels and bounds.
        formats: allowed formats, by Pillow's names.

    Raises:
        DataError: a file that is no image, truncated, too large to be decoded safely, or deeper than stated.
    """
    with reading(title), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dicom.is_dicom(content):
            return to_values(dicom.read_picture(content, title, stated.bounds), title, stated)
        try:
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(content, formats=formats) as image:
                return to_values(image, title, stated)
        except (DataError, MemoryError, PermissionError):
            raise
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise DataError(f"{title} has too many pixels to be decoded safely.") from None
        except Exception:  # image decoders raise many types on damaged input
            others = ", or has values or channels that are not read" if formats == ("TIFF",) else ""
            raise DataError(f"{title} is not a {' or '.join(formats)} image, or is damaged{others}.") from None


def to_values(image: Any, title: str, stated: Stated) -> np.ndarray:
    """Returns an image that Pillow opened as (h, w, channels): uint8, or its deeper values.

    Transparent images are composed over white; opaque images with an alpha channel keep their colours.

    Raises:
        DataError: several pages or frames, a volume, channels or values of unknown meaning, an image that is invisible
            on white, or values that are deeper than stated.
    """
    _require_single(image, title)
    if image.format == "TIFF":
        _require_known(image, title)
    if not image.mode.startswith(_DEEP):
        if ";16" in str(getattr(image, "tile", "")):
            raise DataError(f"{title} has more than 8 bits per value in colour: convert it to 8 bits.")
        refuse_eight_bits(title, stated.bounds)
        upright = _on_white(ImageOps.exif_transpose(image), title)
        return _brought(upright.convert("L" if stated.channels == 1 else "RGB"), stated)
    if image.has_transparency_data:
        raise DataError(f"{title} has transparent pixels and more than 8 bits per value: save it without transparency.")
    values = _light(image, title)
    low, high = stated.bounds or (0.0, 0.0)
    is_outside = image.mode != "F" and (high <= EIGHT_BITS or (low < 0 and values.dtype.kind == "u"))
    if stated.bounds is None or is_outside:
        raise DataError(
            f"{title} has more than 8 bits per value: state the bounds of a value (--bounds 0,65535), or convert it to "
            "8 bits."
        )
    return _brought(
        Image.fromarray(values.astype(np.float32)), stated, np.uint16 if values.dtype == np.uint16 else None
    )


def _require_single(image: Any, title: str) -> None:
    """Refuses pages, animations and volumes; a JPEG with further images (MPO) is its first one, the photograph."""
    frames = 1 if image.format == "MPO" else getattr(image, "n_frames", 1)
    if frames > 1:
        what = "pages" if image.format == "TIFF" else "frames"
        raise DataError(f"{title} has {frames} {what}; expected a single image.")


def _require_known(image: Any, title: str) -> None:
    """Refuses TIFF images that Pillow reads in part or with wrong values."""
    if (slices := image.tag_v2.get(_SLICES, 1)) > 1:
        raise DataError(f"{title} is a volume of {slices} slices; expected a single image.")
    if _UNKNOWN in image.tag_v2.get(_FURTHER, ()):
        raise DataError(f"{title} has a channel of unknown meaning (ExtraSamples 0): save it without this channel.")
    if _SIGNED in image.tag_v2.get(_KIND, ()) and not image.mode.startswith(_DEEP):
        raise DataError(f"{title} has values below zero in 8 bits: convert it to values from 0 to 255.")


def _on_white(image: Any, title: str) -> Any:
    """Returns an image composed over white, since invisible pixels may have any colour."""
    clear = image.convert("RGBA") if image.has_transparency_data else None
    if clear is None or np.asarray(clear)[..., 3].min() == 255:
        return image
    seen = Image.alpha_composite(Image.new("RGBA", image.size, "white"), clear).convert("RGB")
    if np.asarray(seen).min() == 255:
        raise DataError(
            f"{title} is invisible on white, the background of transparent images: save it with a background."
        )
    return seen


def _light(image: Any, title: str) -> np.ndarray:
    """Returns the deep values of an image, upright, with larger values lighter."""
    values = np.asarray(ImageOps.exif_transpose(image))
    if image.format == "TIFF" and image.tag_v2.get(_BITS) == (32,) and _SIGNED not in image.tag_v2.get(_KIND, ()):
        values = values.view(np.uint32) if values.dtype == np.int32 else values  # Pillow counts down from 2^31 on
    if image.format != "TIFF" or image.tag_v2.get(_PHOTOMETRIC, _DARK_IS_ZERO) != _LIGHT_IS_ZERO:
        return values
    if values.dtype != np.uint16:
        raise DataError(f"{title} has its largest value for black: invert the image.")
    return np.iinfo(np.uint16).max - values


def _brought(image: Image.Image, stated: Stated, kind: Any = None) -> np.ndarray:
    """Returns an image in the stated size and number of channels."""
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
