"""Private records: raw values, labels and the public schema, behind an interface of fixed-shape chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from dpdistill.schema import DataError, Schema, TableSchema
from dpdistill.storage.growable_array import forget
from dpdistill.storage.options import Bounds, Classes, Stated, parse_bounds, parse_classes, parse_resize
from dpdistill.storage.parsed import Parsed, titled
from dpdistill.storage.prepare import gather


class Unshown:
    """Base class of holders of private records, which are never shown, pickled or copied."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: nothing about its records is shown>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Records are private: they cannot be pickled or copied.")


@dataclass(frozen=True, repr=False, eq=False)
class Records(Unshown):
    """Labelled images or table rows and their public facts. They are never shown and never pickled.

    Args:
        X: raw values of the schema's raw shape, (n, h, w, c) or (n, columns), integers or floats; may be memory-mapped.
        y: class indices, (n,), int64; -1 is an unknown label: such a record contributes nothing.
        schema: the public facts.
        notes: sentences shown to the owner while loading, about the origin of the public facts.
        units: unit (person) of each record, (n,), int64, any numbers >= 0; -1 is an unknown unit, whose records are
            never used. None if every record is a unit of its own.

    Raises:
        DataError: X, y, units and schema do not fit together.
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
        forget(self.y)

    @property
    def classes(self) -> int:
        """Number of classes of the schema."""
        return len(self.schema.classes)

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"<Records of {self.schema}; nothing else is shown>"

    def chunks(self, indices: np.ndarray | None, size: int) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
        """Yields records in chunks of one fixed shape, scaled to [-1, 1] by the bounds.

        Args:
            indices: indices of records, in this order, repeats allowed; None for all.
            size: rows of every chunk, >= 1.

        Returns:
            An iterator of (X, y, valid): X (size, ...) of the schema's shape, float32, y (size,) int64, the number of
            valid rows; the rows after them are zeros with label -1. Values that are not finite may be NaN.

        Raises:
            ValueError: size < 1, or an index outside of the records.
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
        """Returns these records followed by others of the same schema, in the type of the first; units are refused.

        Raises:
            DataError: records of units, or of another schema.
        """
        if self.units is not None or others.units is not None:
            raise DataError("Records of units cannot be joined with others.")
        if self.schema != others.schema:
            raise DataError("Records of two schemas cannot be joined.")
        X = np.concatenate([self.X, others.X.astype(self.X.dtype)])
        return Records(X, np.concatenate([self.y, others.y.astype(self.y.dtype)]), self.schema)

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the records of one chunk, scaled to [-1, 1] by the bounds.

        Args:
            rows: indices of records, (m,), int64; -1 is a placeholder.

        Returns:
            X (m, ...) of the schema's shape, float32, and y (m,), int64, -1 for placeholders. A row depends on its
            record and its index among the m alone. Values that are not finite may be NaN.
        """
        kept = rows >= 0
        raw = np.zeros((len(rows), *self.schema.raw_shape), self.X.dtype)
        raw[kept] = self.X[rows[kept]]
        with np.errstate(over="ignore", invalid="ignore"):
            X = np.asarray(self.schema.to_unit(raw), np.float32)
        y = np.full(len(rows), -1, np.int64)
        y[kept] = self.y[rows[kept]]
        forget(self.X, self.y)
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
        straighten: bool = False,
        strict: bool = True,
        notes: tuple[str, ...] = (),
        units: object = None,
    ) -> Records:
        """Returns records from arrays.

        Args:
            X: images, (n, h, w) or (n, h, w, c), whole numbers or floats.
            y: labels, (n,): whole numbers are class indices, texts are names of classes.
            classes: number of classes (named "0", "1", ...), "cat,dog", or a sequence of names; stated, never counted.
            bounds: (low, high) of a raw value or "low,high"; default 0,255 for uint8; values outside are clamped.
            resize: side of the square to which images are resized (bilinear), or None.
            straighten: deskew, centre and rescale each image by its own strokes, for handwriting (`straighten_images`);
                test images then need the same.
            strict: stop at a record that is not finite or has an unknown label; otherwise the record gets the label -1.
            notes: sentences shown to the owner while loading.
            units: names or numbers of the records' units (persons), (n,); None if every record is a unit of its own.

        Raises:
            DataError: shapes, types, labels or options that cannot be used.

        Example:
            >>> Records.from_arrays(np.zeros((2, 8, 8), np.uint8), [0, 1], classes=2)
            <Records of 8x8x1 values in [0, 255], 2 classes; nothing else is shown>
        """
        stated = Stated(
            parse_classes(classes),
            None if bounds is None else parse_bounds(bounds),
            None if resize is None else parse_resize(resize),
            strict=strict,
            straighten=straighten,
        )
        return cls.from_parsed(Parsed.of(X, y, units, classes=stated.classes, notes=tuple(notes)), stated)

    @classmethod
    def from_parsed(cls, raw: Parsed, stated: Stated, title: str = "") -> Records:
        """Returns records from the parts of a format reader.

        Args:
            raw: records, and facts that the format states.
            stated: statements of the caller, which override the format's.
            title: name of the source for error messages, or an empty text.

        Raises:
            DataError: classes or bounds that are not stated, or records that cannot be used.
        """
        if stated.classes is None and raw.classes is None:
            raise DataError(f"{title} does not state its classes: pass --classes (10, or cat,dog).")
        with titled(title):
            names = parse_classes(stated.classes or raw.classes or ())
            bounds = parse_bounds(stated.bounds or raw.bounds or (0.0, 255.0))
        X, y, units = gather(raw, names, stated, title)
        h, w, c = (int(side) for side in X.shape[1:])
        facts = Schema((h, w, c), bounds, names, stated.straighten or raw.straightened, raw.inferred)
        return cls(X, y, facts, (*raw.notes, *facts.inferred_sentences()), units)
