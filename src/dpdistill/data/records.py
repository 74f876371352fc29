"""Private records: raw values, labels and the public schema, behind an interface of fixed-shape chunks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from PIL import Image

from dpdistill.data.options import Bounds, Classes, parse_bounds, parse_classes, parse_resize
from dpdistill.schema import DataError, Schema, TableSchema

_CHUNK = 4_096
NOBODY = ("", "NA", "NaN", "nan", "null", "None")
"""Texts that say that an image has no unit."""


class Unshown:
    """What holds private records: it is never shown, pickled or copied."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: nothing about its records is shown>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("Records are private: they cannot be pickled or copied.")


@dataclass(frozen=True, repr=False, eq=False)
class Records(Unshown):
    """Labelled images or table rows and what is public about them. They are never shown and never pickled.

    Args:
        X: raw values of the schema's raw shape, (n, h, w, c) or (n, columns), integers or floats; may be memory-mapped.
        y: class indices, (n,), int64; -1 is an unknown label: such a record contributes nothing.
        schema: the public facts.
        notes: sentences shown to the owner while loading: where the public facts come from.
        units: which unit (person) each record is of, (n,), int64, any numbers >= 0; -1 is an unknown one, whose record
            is never used. None where every record stands for itself.

    Raises:
        DataError: X, y, units and schema do not belong together.
    """

    X: np.ndarray
    y: np.ndarray
    schema: Schema | TableSchema
    notes: tuple[str, ...] = ()
    units: np.ndarray | None = None

    def __post_init__(self) -> None:
        shape = self.schema.raw_shape
        if self.X.ndim != 1 + len(shape) or self.X.shape[1:] != shape or self.X.dtype.kind not in "uif":
            expected = ", ".join(map(str, ("n", *shape)))
            raise DataError(f"Expected numbers X of shape ({expected}); got {self.X.dtype} {self.X.shape}.")
        if self.y.shape != self.X.shape[:1]:
            kind = "images" if len(shape) == 3 else "rows"
            raise DataError(f"Expected as many labels as {kind}; got {self.y.shape} labels and {len(self.X)} {kind}.")
        if self.y.dtype != np.int64 or (self.y.size and not -1 <= self.y.min() <= self.y.max() < self.classes):
            raise DataError(f"Expected class indices y, int64, from -1 to {self.classes - 1}.")
        if self.units is not None and (self.units.shape != self.y.shape or self.units.dtype != np.int64):
            raise DataError("Expected units as int64, one for each record.")
        for name in ("X", "y") if self.units is None else ("X", "y", "units"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    @property
    def classes(self) -> int:
        """Number of classes of the schema."""
        return len(self.schema.classes)

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"<Records of {self.schema}; nothing else is shown>"

    def chunks(self, indices: np.ndarray | None, size: int) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
        """Records in chunks of one fixed shape, scaled to [-1, 1] by the bounds.

        Args:
            indices: which records, in this order, repeats allowed; None for all.
            size: rows of every chunk, >= 1.

        Returns:
            An iterator of (X, y, valid): X (size, ...) of the schema's shape, float32, y (size,) int64, the number of
            valid rows; the rows behind them are zeros with label -1. Values that are not finite may be NaN.

        Raises:
            ValueError: size < 1, or an index that is not that of a record.
        """
        if size < 1:
            raise ValueError(f"Expected size={size} >= 1.")
        if indices is not None:
            indices = np.asarray(indices, np.int64)
            if indices.ndim != 1 or (indices.size and not 0 <= indices.min() <= indices.max() < len(self)):
                raise ValueError("Expected a list of record indices, each at least 0 and below the number of records.")
        rows = np.arange(len(self)) if indices is None else indices

        def chunk(part: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
            X, y, valid = np.zeros((size, *self.schema.shape), np.float32), np.full(size, -1, np.int64), len(part)
            X[:valid], y[:valid] = self.take(part)
            return X, y, valid

        return (chunk(rows[start : start + size]) for start in range(0, len(rows), size))

    def joined(self, others: Records) -> Records:
        """These records and others of the same schema behind them, in the type of these; none of them has units.

        Raises:
            DataError: records of units.
        """
        if self.units is not None or others.units is not None:
            raise DataError("Records of units cannot be joined with others.")
        X = np.concatenate([self.X, others.X.astype(self.X.dtype)])
        return Records(X, np.concatenate([self.y, others.y.astype(self.y.dtype)]), self.schema)

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The records of one chunk, scaled to [-1, 1] by the bounds.

        Args:
            rows: indices of records, (m,), int64; -1 is a placeholder.

        Returns:
            X (m, ...) of the schema's shape, float32, and y (m,), int64, -1 for placeholders. A row depends on its
            record and its place among the m alone. Values that are not finite may be NaN.
        """
        kept = rows >= 0
        raw = np.zeros((len(rows), *self.schema.raw_shape), self.X.dtype)
        raw[kept] = self.X[rows[kept]]
        with np.errstate(over="ignore", invalid="ignore"):
            X = np.asarray(self.schema.to_unit(raw), np.float32)
        y = np.full(len(rows), -1, np.int64)
        y[kept] = self.y[rows[kept]]
        return X, y

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        classes: Classes,
        bounds: Bounds | None = None,
        *,
        resize: int | str | None = None,
        strict: bool = True,
        notes: tuple[str, ...] = (),
        units: Any = None,
    ) -> Records:
        """Records from arrays.

        Args:
            X: images, (n, h, w) or (n, h, w, c), whole numbers or floats.
            y: labels, (n,): whole numbers are class indices, texts are names of classes.
            classes: number of classes (named "0", "1", ...), "cat,dog", or a sequence of names; stated, never counted.
            bounds: (low, high) of a raw value or "low,high"; 0,255 for uint8 when left out; values outside are clamped.
            resize: side of the square to which images are resized (bilinear), or None.
            strict: stop at a record that is not finite or has an unknown label; otherwise it gets the label -1.
            notes: sentences shown to the owner while loading.
            units: names or numbers of the units (persons) that the records are of, (n,); None where every record stands
                for itself.

        Raises:
            DataError: shapes, types, labels or options that cannot be used.

        Example:
            >>> Records.from_arrays(np.zeros((2, 8, 8), np.uint8), [0, 1], classes=2)
            <Records of 8x8x1 values in [0, 255], 2 classes; nothing else is shown>
        """
        X, y = _image_array(X), _as_array(y, "y")
        if y.shape != X.shape[:1]:
            raise DataError(f"Expected as many labels as images; got labels of shape {y.shape} and {len(X)} images.")
        names = parse_classes(classes)
        if bounds is None and X.dtype != np.uint8:
            raise DataError(f"Expected bounds for {X.dtype} values: state them (--bounds LOW,HIGH).")
        limits = parse_bounds((0.0, 255.0) if bounds is None else bounds)
        labels = label_indices(y, names, strict)
        bad = not_finite(X)
        if bad.any() and strict:
            raise DataError(f"Record {int(np.argmax(bad))} has a value that is not finite (NaN or infinity).")
        labels[bad] = -1
        if resize is not None:
            X = resize_images(X, parse_resize(resize))
        h, w, c = (int(side) for side in X.shape[1:])
        persons = None if units is None else unit_indices(_as_array(units, "units"), len(X), strict)
        return cls(X, labels, Schema((h, w, c), limits, names), tuple(notes), persons)


def _as_array(values: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError:
        raise DataError(f"Expected {name} as one array; its rows have different lengths.") from None
    if array.dtype.hasobject:
        raise DataError(f"Expected numbers in {name}; got an array of Python objects.")
    return array


def _image_array(values: Any) -> np.ndarray:
    X = _as_array(values, "X")
    if X.ndim not in (3, 4) or min(X.shape[1:], default=0) < 1:
        raise DataError(f"Expected X of shape (n, h, w) or (n, h, w, c); got {X.shape}.")
    if X.dtype.kind not in "uif":
        raise DataError(f"Expected X as whole numbers or floats; got {X.dtype}.")
    return X[..., None] if X.ndim == 3 else X


def label_indices(y: np.ndarray, classes: tuple[str, ...], strict: bool = True) -> np.ndarray:
    """Class indices, (n,) int64, of labels (n,) given as whole numbers or as names; -1 where unknown if not strict.

    Raises:
        DataError: labels of another type, or an unknown label when strict.
    """
    if y.dtype.kind in "SU":
        table = {name: k for k, name in enumerate(classes)}
        texts = (t.decode("utf-8", "replace") if isinstance(t, bytes) else t for t in y.tolist())
        indices = np.fromiter((table.get(text, -1) for text in texts), np.int64, len(y))
    elif y.dtype.kind in "ui":
        indices = y.astype(np.int64)
        indices = np.where((indices >= 0) & (indices < len(classes)), indices, -1)
    else:
        raise DataError(f"Expected labels as whole numbers or class names; got {y.dtype}.")
    if strict and (indices < 0).any():
        first = int(np.argmax(indices < 0))
        label = str(y[first])[:80]
        raise DataError(f"Record {first} has the label {label!r}, which is not one of the {len(classes)} classes.")
    return indices


def unit_indices(units: np.ndarray, n: int, strict: bool = True) -> np.ndarray:
    """Indices (n,) int64 of units given as whole numbers or as texts; -1 where one is missing if not strict.

    Missing are empty texts, negative numbers, also as texts, and what tables take for missing. No message shows what
    names a unit.

    Raises:
        DataError: another shape or type, or a missing one when strict.
    """
    if units.shape != (n,):
        raise DataError("Expected as many units as records.")
    if units.dtype.kind in "SU":
        names, of_name = np.unique(np.char.strip(units), return_inverse=True)
        missing = np.array([_names_nobody(str(name)) for name in names.astype(str)], bool)[of_name]
    elif units.dtype.kind in "ui":
        missing = units < 0
    else:
        raise DataError(f"Expected units as whole numbers or texts; got {units.dtype}.")
    if strict and missing.any():
        raise DataError(f"Record {int(np.argmax(missing))} has no unit.")
    return np.where(missing, -1, np.unique(units, return_inverse=True)[1]).astype(np.int64)


def _names_nobody(text: str) -> bool:
    """Whether a text in the place of a unit says that there is none."""
    return text in NOBODY or re.fullmatch(r"-\d+(\.0*)?", text) is not None


def not_finite(X: np.ndarray) -> np.ndarray:
    """Which records hold NaN or infinity, (n,) bool, read in chunks."""
    bad = np.zeros(len(X), bool)
    if X.dtype.kind == "f":
        for start in range(0, len(X), _CHUNK):
            block = X[start : start + _CHUNK]
            bad[start : start + _CHUNK] = ~np.isfinite(block).all(axis=(1, 2, 3))
    return bad


def resize_images(X: np.ndarray, side: int) -> np.ndarray:
    """Images (n, h, w, c) resized to (n, side, side, c), bilinear, channel by channel; uint8 stays uint8, else float32.

    Raises:
        DataError: the result does not fit into memory.
    """
    if X.shape[1:3] == (side, side):
        return X
    dtype = np.uint8 if X.dtype == np.uint8 else np.float32
    try:
        resized = np.empty((len(X), side, side, X.shape[3]), dtype)
    except MemoryError:
        raise DataError(f"Images resized to {side}x{side} do not fit into memory: lower resize.") from None
    with np.errstate(over="ignore"):
        for i in range(len(X)):
            for c in range(X.shape[3]):
                plane = Image.fromarray(np.ascontiguousarray(X[i, :, :, c], dtype))
                resized[i, :, :, c] = np.asarray(plane.resize((side, side), Image.Resampling.BILINEAR))
    return resized
