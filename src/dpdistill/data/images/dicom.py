"""Pictures of DICOM files through pydicom: grey values in the units of their modality; the caller states the window."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image

from dpdistill.schema import DataError

_AT, _MAGIC = 128, b"DICM"
_INSTALL = "DICOM files need pydicom: pip install 'dpdistill[dicom]'."


def is_dicom(content: Path | IO[bytes]) -> bool:
    """Whether a file has the mark of DICOM, behind its preamble of 128 bytes."""
    if isinstance(content, Path):
        with content.open("rb") as file:
            return is_dicom(file)
    content.seek(0)
    start = content.read(_AT + len(_MAGIC))
    content.seek(0)
    return start[_AT:] == _MAGIC


def read_values(content: Path | IO[bytes], title: str, window: tuple[float, float] | None) -> np.ndarray:
    """The values of one DICOM image, (h, w) float32: slope times stored value plus intercept (Hounsfield units for CT).

    In a picture that shows low values white (MONOCHROME1) they are mirrored within the window, so that high is white.

    Args:
        content: of a DICOM file.
        title: what to call it in a sentence.
        window: (low, high), the bounds that the caller states; values outside are clamped where records are scaled.

    Raises:
        DataError: pydicom is not installed, no window is stated, or anything but a single grey image.
    """
    try:
        import pydicom
        from pydicom.pixels.processing import apply_modality_lut
    except ImportError:
        raise DataError(_INSTALL) from None
    if window is None:
        raise DataError(f"{title} is a DICOM image: state its window in the units of its modality (--bounds LOW,HIGH).")
    try:
        image = pydicom.dcmread(content)
        rows, columns = int(image.Rows), int(image.Columns)
        frames, samples = int(image.get("NumberOfFrames") or 1), int(image.get("SamplesPerPixel", 1))
    except Exception:  # pydicom raises many types on damaged input
        raise DataError(f"{title} is not a DICOM image, or is damaged.") from None
    if frames > 1:
        raise DataError(f"{title} has {frames} frames; expected a single image.")
    if samples != 1:
        raise DataError(f"{title} is a DICOM image in colour: expected a grey one.")
    if rows * columns > (Image.MAX_IMAGE_PIXELS or rows * columns):
        raise DataError(f"{title} has too many pixels to be decoded safely.")
    try:
        stored = image.pixel_array
        values = np.asarray(apply_modality_lut(stored, image), np.float32).reshape(rows, columns)
    except (RuntimeError, NotImplementedError):
        raise DataError(
            f"{title} is compressed in a way that needs a plug-in of pydicom: see its documentation."
        ) from None
    except Exception:
        raise DataError(f"{title} is damaged: its DICOM image cannot be decoded.") from None
    return window[0] + window[1] - values if image.get("PhotometricInterpretation") == "MONOCHROME1" else values
