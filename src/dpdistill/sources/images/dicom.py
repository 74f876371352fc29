"""Reads DICOM images by pydicom: grey values in the units of their modality, or colours of 8 bits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image

from dpdistill.schema import DataError

_AT, _MAGIC = 128, b"DICM"
_INSTALL = "DICOM files need pydicom: pip install 'dpdistill[dicom]'."
_GREY, _PALETTE = ("MONOCHROME1", "MONOCHROME2"), "PALETTE COLOR"
_COLOURS = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT")
_PIXELS = ("PixelData", "FloatPixelData", "DoubleFloatPixelData")
_GROUPS = ("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence")
_TRANSFORMATION = {"RescaleSlope": 1, "RescaleIntercept": 0}
"""Elements that transform stored values into values, with the defaults of absent or empty elements."""


def is_dicom(content: Path | IO[bytes]) -> bool:
    """Returns whether a file has the mark of DICOM after its preamble of 128 bytes."""
    if isinstance(content, Path):
        with content.open("rb") as file:
            return is_dicom(file)
    content.seek(0)
    start = content.read(_AT + len(_MAGIC))
    content.seek(0)
    return start[_AT:] == _MAGIC


def read_picture(content: Path | IO[bytes], title: str, window: tuple[float, float] | None) -> Image.Image:
    """Returns the single image of a DICOM file, as a function of the file and the window alone.

    A grey image (mode F) holds slope times stored value plus intercept (Hounsfield units for CT), or the values of its
    modality table. An image with low values white (MONOCHROME1) is inverted within the window, so that high values are
    white. Padding gets the lower bound of the window. An image in colour, or with a palette, is RGB with 8 bits.

    Args:
        content: a DICOM file.
        title: what to call it in a sentence.
        window: stated bounds (low, high); values outside are clamped later, when records are scaled.

    Raises:
        DataError: pydicom or one of its packages is not installed; several frames; a grey image without a window; an
            image in colour with a window other than 0 to 255; or an image that is damaged or of an unknown kind.
    """
    try:
        import pydicom
    except ImportError:
        raise DataError(_INSTALL) from None
    try:
        image = pydicom.dcmread(content)
        pixels, frames = int(image.Rows) * int(image.Columns), int(image.get("NumberOfFrames") or 1)
        kind, samples = str(image.PhotometricInterpretation), int(image.get("SamplesPerPixel", 1))
        if not any(name in image for name in _PIXELS):
            raise ValueError
    except Exception:  # pydicom raises many types on damaged input
        raise DataError(f"{title} is not a DICOM image, or is damaged.") from None
    if frames > 1:
        raise DataError(f"{title} has {frames} frames; expected a single image: write each frame to a separate file.")
    if pixels > (Image.MAX_IMAGE_PIXELS or pixels):
        raise DataError(f"{title} has too many pixels to be decoded safely.")
    _require_decoder(image.file_meta.get("TransferSyntaxUID"), title)
    _require_plain(image, title)
    if (kind, samples) == (_PALETTE, 1) or (kind in _COLOURS and samples == 3):
        return _coloured(image, title, window)
    if kind in _GREY and samples == 1:
        return _grey(image, title, window)
    raise DataError(f"{title} is a DICOM image of the kind {kind[:20]!r}; expected a grey one, or RGB.")


def _require_decoder(syntax: Any, title: str) -> None:
    """Refuses a compression that pydicom cannot decode here, with the missing packages."""
    from pydicom.pixels.decoders.base import get_decoder

    if not getattr(syntax, "is_compressed", False):
        return
    try:
        decoder = get_decoder(syntax)
    except NotImplementedError:
        raise DataError(f"{title} is compressed as {syntax.name}, which pydicom does not decode.") from None
    if not decoder.is_available:
        needed = f"which needs a further package: pip install {_packages(decoder)}"
        raise DataError(f"{title} is compressed as {syntax.name}, {needed}.")


def _packages(decoder: Any) -> str:
    """Returns the missing pylibjpeg packages of a decoder, as arguments of pip."""
    lacking = next((text for text in decoder.missing_dependencies if text.startswith("pylibjpeg")), "")
    return " ".join(re.findall(r"([\w-]+)>=", lacking))


def _require_plain(image: Any, title: str) -> None:
    """Refuses images whose stored values pydicom would misread."""
    stored, highest = image.get("BitsStored"), image.get("HighBit")
    if isinstance(stored, int) and isinstance(highest, int) and highest >= stored:
        first = highest - stored + 1
        raise DataError(f"{title} keeps its values in bits {first} to {highest}; expected them from bit 0: convert it.")
    if "DoseGridScaling" in image:
        raise DataError(f"{title} is a grid of radiation doses; expected an image: leave it out.")
    if image.get("PixelPresentation") in ("COLOR", "MIXED"):
        raise DataError(f"{title} shows some of its grey values in colour; expected a grey image, or RGB: convert it.")


def _grey(image: Any, title: str, window: tuple[float, float] | None) -> Image.Image:
    from pydicom.pixels.processing import apply_modality_lut
    from pydicom.pixels.utils import pixel_array

    if window is None:
        raise DataError(f"{title} is a DICOM image: state its window in the units of its modality (--bounds LOW,HIGH).")
    try:
        _state_transformation(image)
        stored = pixel_array(image)
        # A table may begin below zero or be longer than the stored type can count.
        wide = stored if stored.dtype.kind == "f" else stored.astype(np.int64)
        values = np.asarray(apply_modality_lut(wide, image), np.float32).reshape(int(image.Rows), int(image.Columns))
        padded = _padding(stored, image)
    except Exception:
        raise _undecoded(image, title) from None
    if image.PhotometricInterpretation == "MONOCHROME1":
        values = window[0] + window[1] - values
    return Image.fromarray(np.where(padded, np.float32(window[0]), values))


def _state_transformation(image: Any) -> None:
    """Moves the elements that transform stored values to where pydicom looks for them, with defaults."""
    for name in _GROUPS:  # elements of a frame override elements of all frames
        for groups in (image.get(name) or [])[:1]:
            for stated in groups.get("PixelValueTransformationSequence") or ():
                for element in stated:
                    image[element.tag] = element
    for name, default in _TRANSFORMATION.items():
        if image.get(name) in (None, ""):
            setattr(image, name, default)
    if not float(image.RescaleSlope):
        raise ValueError("a slope of 0")


def _padding(stored: np.ndarray, image: Any) -> Any:
    """Returns a mask (h, w) of padding among the stored values."""
    padding = image.get("PixelPaddingValue")
    if padding is None or stored.dtype.kind == "f":
        return False
    limit = image.get("PixelPaddingRangeLimit")
    ends = np.array([padding, padding if limit is None else limit]).astype(stored.dtype)  # stated with another sign
    return (stored >= ends.min()) & (stored <= ends.max())


def _coloured(image: Any, title: str, window: tuple[float, float] | None) -> Image.Image:
    from pydicom.pixels.processing import apply_color_lut
    from pydicom.pixels.utils import pixel_array

    if window is not None and window != (0.0, 255.0):
        raise DataError(
            f"{title} is in colour, with values from 0 to 255, and takes no window; got the bounds "
            f"{window[0]:g},{window[1]:g}: leave out --bounds, and put grey DICOM images into another data set."
        )
    try:
        values = pixel_array(image)
        if of_palette := image.PhotometricInterpretation == _PALETTE:
            size, first, _ = image.RedPaletteColorLookupTableDescriptor
            values = apply_color_lut(np.clip(values.astype(np.int64), first, first + (size or 1 << 16) - 1), image)
            if values.dtype == np.uint8 and (size or 1 << 16) > 256:
                raise ValueError("pydicom counts no further than the type of the colours")
    except Exception:
        raise _undecoded(image, title) from None
    if of_palette and values.dtype == np.uint16:
        if 0 < values.max() <= 255:
            raise DataError(f"{title} has a palette of 16 bits that is nearly black: convert the image to RGB.")
        values = (values >> 8).astype(np.uint8)
    if values.dtype != np.uint8:
        raise DataError(f"{title} has more than 8 bits per value in colour: convert it to 8 bits.")
    return Image.fromarray(values)


def _undecoded(image: Any, title: str) -> DataError:
    """The error for pixels that pydicom cannot decode with the packages that are installed."""
    from pydicom.pixels.decoders.base import get_decoder

    syntax = image.file_meta.TransferSyntaxUID
    if "JPEG" not in syntax.name or not (packages := _packages(get_decoder(syntax))):
        return DataError(f"{title} is damaged: its DICOM image cannot be decoded.")
    return DataError(
        f"{title} is compressed as {syntax.name} and cannot be decoded: it is damaged, or needs a further package: "
        f"pip install {packages}."
    )
