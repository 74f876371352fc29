"""Options that the caller states about a data set: classes, bounds, size."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from dpdistill.schema import DataError
from dpdistill.schema.errors import require_ordered, require_printable
from dpdistill.schema.number_text import same_spelling
from dpdistill.storage.memory import Memory

MAX_CLASSES = 65_536
MAX_SIDE = 4_096
EIGHT_BITS = 256
"""Upper limit of 8-bit values: bounds above it are not those of 8-bit values."""

Classes = int | str | Iterable[Any]
Bounds = str | Sequence[float]


@dataclass(frozen=True)
class Stated:
    """Statements of the caller about images, known before any image is read.

    Args:
        classes: class names, or None to use the file format's.
        bounds: (low, high) of a raw value, or None to use the file format's.
        side: side of the square to which images are resized, or None for their original size.
        channels: 1 or 3, to which images are converted, or None for 3.
        labels: name of the labels to read if a source has several, or None.
        strict: stop at a bad record; otherwise the record is kept with the label -1.
        unit: the unit that several images may belong to, or None.
        straighten: deskew, centre and rescale images by their own moments.
        memory: limit of the memory for the records.
    """

    classes: tuple[str, ...] | None = None
    bounds: tuple[float, float] | None = None
    side: int | None = None
    channels: int | None = None
    labels: str | None = None
    strict: bool = True
    unit: str | None = None
    straighten: bool = False
    memory: Memory = field(default_factory=Memory.of)


NOTHING = Stated()


def parse_classes(classes: Classes) -> tuple[str, ...]:
    """Returns class names from a number, a text or a sequence of names.

    Args:
        classes: k or "k" for the names "0" to "k-1"; "cat,dog"; or a sequence of names; 2 to 65,536 classes.

    Returns:
        The names in the order of their indices.

    Raises:
        DataError: not a number of classes, a set of names, which has no order, or a name that is empty, repeated, not
            printable, or neither a text nor a whole number.
    """
    if isinstance(classes, str) and re.fullmatch(r"\s*-?[0-9]+\s*", classes):
        if len(classes) > 9:
            raise DataError(f"Expected 2 to {MAX_CLASSES} classes; got a number of {len(classes)} digits.")
        classes = int(classes)
    if isinstance(classes, Integral) and not isinstance(classes, bool):
        classes = int(classes)
        if not 2 <= classes <= MAX_CLASSES:
            raise DataError(f"Expected 2 <= classes={classes} <= {MAX_CLASSES}.")
        return tuple(str(k) for k in range(classes))
    if isinstance(classes, str):
        classes = [name.strip() for name in classes.split(",")]
    elif not isinstance(classes, Iterable) or isinstance(classes, bytes):
        raise DataError(f"Expected classes as a number or as names (cat,dog); got {classes!r}.")
    require_ordered("classes", classes)
    listed = tuple(classes)
    if odd := [name for name in listed if not isinstance(name, str | Integral)]:
        raise DataError(f"Expected class names as texts or whole numbers; got {odd[0]!r:.80}.")
    names = tuple(str(name) for name in listed)
    require_printable("class names", *names)
    if not 2 <= len(names) <= MAX_CLASSES:
        raise DataError(f"Expected 2 to {MAX_CLASSES} classes; got {len(names)}.")
    if len(set(map(same_spelling, names))) != len(names):
        raise DataError("Expected distinct class names; at least one is named twice.")
    return names


def parse_bounds(bounds: Bounds) -> tuple[float, float]:
    """Returns bounds (low, high) of a raw value from "0,255" or a pair of numbers.

    Raises:
        DataError: not two finite numbers low < high, or a set of them.
    """
    require_ordered("bounds", bounds)
    parts = bounds.split(",") if isinstance(bounds, str) else bounds
    try:
        low, high = (float(part) for part in parts if "_" not in str(part))
    except (TypeError, ValueError):
        shown = " and ".join(map(str, bounds)) if isinstance(bounds, list | tuple) else repr(bounds)
        raise DataError(f"Expected bounds as two numbers low,high; got {shown}.") from None
    if not -1e30 <= low < high <= 1e30:
        raise DataError(f"Expected bounds -1e30 <= low < high <= 1e30; got {low:g},{high:g}.")
    return low, high


def takes_eight_bits(bounds: tuple[float, float]) -> bool:
    """Returns whether these bounds can describe 8-bit values, from 0 to 255.

    Args:
        bounds: (low, high), as the caller states them.
    """
    low, high = bounds
    return low >= 0 and 1 < high <= EIGHT_BITS


def refuse_eight_bits(title: str, bounds: tuple[float, float] | None) -> None:
    """Refuses 8-bit values with bounds of another range: the images would be nearly white or nearly black.

    Args:
        title: name of the source in the sentence.
        bounds: as the caller states them, or None for 0 to 255.

    Raises:
        DataError: bounds of another range.
    """
    if bounds is None or takes_eight_bits(bounds):
        return
    low, high = bounds
    shade = "white" if high <= 1 else "black" if low >= 0 else "of one shade"
    raise DataError(
        f"{title} has 8 bits a value, from 0 to 255, and the bounds are {low:g},{high:g}: the images would be nearly "
        f"{shade}. Omit --bounds, or convert the values to floats if these bounds are right."
    )


def parse_resize(resize: int | str) -> int:
    """Returns the side H of the resized square image, 1 to 4,096 pixels.

    Raises:
        DataError: not a whole number in that range.
    """
    try:
        side = 0 if "_" in str(resize) else int(resize)
    except (TypeError, ValueError, OverflowError):
        side = 0
    if isinstance(resize, bool | float) or not 1 <= side <= MAX_SIDE:
        raise DataError(f"Expected resize={resize} as a whole number of pixels, 1 to {MAX_SIDE}.")
    return side
