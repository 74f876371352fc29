"""Turns a reader's parts of records into arrays: labels and units as indices, images of one size."""

from __future__ import annotations

import re
from collections.abc import Sequence, Sized
from typing import Any

import numpy as np
from PIL import Image

from dpdistill.schema import DataError
from dpdistill.schema.number_text import same_spelling
from dpdistill.storage.growable_array import GrowableArrays, forget, slices
from dpdistill.storage.memory import Memory
from dpdistill.storage.options import Stated, refuse_eight_bits
from dpdistill.storage.parsed import Parsed, titled
from dpdistill.storage.straighten import straighten_images
from dpdistill.storage.unit_names import unit_key


def gather(
    raw: Parsed, classes: tuple[str, ...], stated: Stated, title: str = ""
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Returns the arrays X, y and units of Records; each is in memory or mapped.

    Args:
        raw: output of a format reader.
        classes: names of the classes.
        stated: statements of the caller: size, straightening, bounds, strictness, memory.
        title: name of the source for error messages, or an empty text.

    Raises:
        DataError: a label, a unit or a value that cannot be used, or a fault in the files.
    """
    fits = raw.prepared or (raw.whole is not None and raw.whole.shape[1:3] == (stated.side, stated.side))
    side = None if fits else stated.side
    straighten = stated.straighten and not raw.straightened and not raw.prepared
    kept = raw.whole if side is None and not straighten else None
    rows_so_far, index = GrowableArrays(stated.memory), {}
    numbers = label_numbers(classes, raw.classes, title)
    for part in raw.parts:
        with titled(title):
            if not raw.prepared:
                _require_range(part.X.dtype, raw, stated)
            y = label_indices(part.y, classes, numbers, stated.strict, rows_so_far.rows)
            bad = not_finite(part.X)
            if bad.any() and stated.strict:
                first = rows_so_far.rows + int(np.argmax(bad))
                raise DataError(f"Record {first} has a value that is not finite (NaN or infinity).")
            y[bad] = -1
            columns = [y]
            if part.units is not None:
                columns.append(unit_indices(part.units, index, stated.strict, rows_so_far.rows))
            if kept is None:
                X = part.X if side is None else resize_images(part.X, side)
                columns.append(straighten_images(X) if straighten else X)
        rows_so_far.append(*columns, at=part.at)
        forget(part.X, part.units)
    y, *others = rows_so_far.arrays()
    X = others.pop() if kept is None else kept
    return X, y, ranked(others[0], index, stated.memory) if others else None


def _require_range(kind: np.dtype, raw: Parsed, stated: Stated) -> None:
    """Refuses an array whose type does not fit the bounds, or that needs bounds and has none."""
    if kind == np.uint8 and raw.bounds in (None, (0.0, 255.0)):
        refuse_eight_bits("The array of images", stated.bounds)
    elif raw.bounds is None and stated.bounds is None:
        raise DataError(f"Expected bounds for {kind} values: state them (--bounds LOW,HIGH).")


def label_numbers(classes: tuple[str, ...], own: tuple[str, ...] | None, title: str = "") -> list[int]:
    """Returns the whole number that stands for each class in integer labels.

    If the source names its classes, its own numbering applies, whatever the stated order. Other class names that are
    whole numbers stand for themselves. All other classes are numbered in the stated order.

    Args:
        classes: names in the stated order.
        own: names that the source states, or None.
        title: name of the source for error messages, or an empty text.

    Raises:
        DataError: some names are the source's own and have other numbers there.
    """
    at = {same_spelling(name): k for k, name in enumerate(own or ()) if own != _counted(own)}
    if classes == _counted(classes):
        return [*range(len(classes))]
    classes = tuple(map(same_spelling, classes))
    if all(name in at for name in classes):
        return [at[name] for name in classes]
    numeric = all(re.fullmatch("0|[1-9][0-9]*", name) for name in classes)
    numbers = [int(name) if numeric else k for k, name in enumerate(classes)]
    for name, number in zip(classes, numbers, strict=True):
        if at.get(name, number) != number:
            others = [name for name in classes if name not in at]
            raise DataError(
                f"{title or 'The source'} numbers the class {name!r:.80} as {at[name]}, not {number}, and has no class "
                f"{others[0]!r:.80}: state the class names of the source, in any order."
            )
    return numbers


def _counted(classes: Sized | None) -> tuple[str, ...]:
    """Returns the names "0", "1", ... of as many classes."""
    return tuple(str(k) for k in range(len(classes or ())))


def label_indices(
    y: np.ndarray | list[Any], classes: tuple[str, ...], numbers: Sequence[int], strict: bool = True, start: int = 0
) -> np.ndarray:
    """Returns class indices, (n,) int64, of labels (n,); -1 if unknown and not strict.

    Args:
        y: labels: whole numbers, also as floats, and names; each label is read independently of the others.
        classes: names of the classes.
        numbers: the whole number that stands for each class.
        strict: refuse unknown labels.
        start: number of the first record, for error messages.

    Raises:
        DataError: labels of another type, or an unknown label when strict.
    """
    if isinstance(y, np.ndarray) and y.dtype.kind not in "SUuifbO":
        raise DataError(f"Expected labels as whole numbers or class names; got {y.dtype}.")
    table: dict[Any, int] = {same_spelling(name): k for k, name in enumerate(classes)}
    table |= {number: k for k, number in enumerate(numbers)}
    labels = y.tolist() if isinstance(y, np.ndarray) else y
    indices = np.fromiter((table.get(label_key(label), -1) for label in labels), np.int64, len(labels))
    if strict and (indices < 0).any():
        first = int(np.argmax(indices < 0))
        label = labels[first]
        if label is None or label != label:
            raise DataError(f"Record {start + first} has no label.")
        shown = str(label.decode("utf-8", "replace") if isinstance(label, bytes) else label)[:80]
        raise DataError(
            f"Record {start + first} has the label {shown!r}, which is not one of the {len(classes)} classes."
        )
    return indices


def label_key(label: object) -> str | int | None:
    """Returns a label's canonical value: a name in one spelling, or a whole number; None for any other value."""
    if isinstance(label, bytes):
        label = label.decode("utf-8", "replace")
    if isinstance(label, str):
        return same_spelling(label)
    if isinstance(label, float):
        return int(label) if label.is_integer() else None
    return int(label) if isinstance(label, int | np.integer | np.bool_) else None


def unit_indices(units: np.ndarray, index: dict[str, int], strict: bool = True, start: int = 0) -> np.ndarray:
    """Returns numbers (n,) int64 of units given as whole numbers or texts; -1 if missing and not strict.

    Spellings of a name, and texts that mean "no unit", are treated as in tables (`unit_names`). No message shows the
    name of a unit.

    Args:
        units: names or numbers.
        index: filled with the numbers by name, in order of first occurrence.
        strict: refuse missing units.
        start: number of the first record, for error messages.

    Raises:
        DataError: another type, or a missing unit when strict.
    """
    if units.dtype.kind not in "SUuifO":
        raise DataError(f"Expected units as whole numbers or texts; got {units.dtype}.")
    if units.dtype.kind == "O":
        named = (_whole(unit) if isinstance(unit, float) else unit for unit in units.tolist())
        units = np.array(["" if unit is None or unit != unit else str(unit) for unit in named], np.str_)
    names, of_name = np.unique(units, return_inverse=True)
    keys = [unit_key(_whole(name)) for name in names.tolist()]
    numbers = np.array([-1 if key is None else index.setdefault(key, len(index)) for key in keys], np.int64)[of_name]
    if strict and (numbers < 0).any():
        raise DataError(f"Record {start + int(np.argmax(numbers < 0))} has no unit.")
    return numbers


def ranked(units: np.ndarray, index: dict, memory: Memory) -> np.ndarray:
    """Returns units numbered in the order of their names instead of their occurrence; -1 stays.

    Args:
        units: numbers, (n,) int64.
        index: the numbers by name.
        memory: limit of the memory for the result.
    """
    rank = np.full(len(index) + 1, -1, np.int64)  # the last entry stands for no unit
    order = sorted(index, key=lambda name: (isinstance(name, str), name))
    rank[[index[name] for name in order]] = np.arange(len(index))
    rows_so_far = GrowableArrays(memory)
    for rows in slices(units):
        rows_so_far.append(rank[units[rows]])
        forget(units)
    return rows_so_far.arrays()[0]


def _whole(name: str | bytes | int | float) -> str | bytes | int:
    """Returns a unit's name; whole numbers become floats if one is missing, and no other float names a unit."""
    if isinstance(name, float):
        return int(name) if name.is_integer() and abs(name) < 2**53 else ""
    return name


def not_finite(X: np.ndarray) -> np.ndarray:
    """Returns which records (n, h, w, c) hold NaN or infinity, (n,) bool."""
    return np.logical_not(np.isfinite(X).all(axis=(1, 2, 3))) if X.dtype.kind == "f" else np.zeros(len(X), bool)


def resize_images(X: np.ndarray, side: int) -> np.ndarray:
    """Resizes images (n, h, w, c) to (n, side, side, c), bilinear per channel; uint8 stays uint8, else float32.

    Raises:
        DataError: the result does not fit into memory.
    """
    if X.shape[1:3] == (side, side):
        return X
    dtype = np.uint8 if X.dtype == np.uint8 else np.float32
    try:
        resized = np.empty((len(X), side, side, X.shape[3]), dtype)
    except MemoryError:
        raise DataError(f"Images resized to {side}x{side} do not fit into memory: use a smaller resize.") from None
    with np.errstate(over="ignore"):
        for i in range(len(X)):
            for c in range(X.shape[3]):
                plane = Image.fromarray(np.ascontiguousarray(X[i, :, :, c], dtype))
                resized[i, :, :, c] = np.asarray(plane.resize((side, side), Image.Resampling.BILINEAR))
    return resized
