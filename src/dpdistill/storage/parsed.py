"""Output of file-format readers: records in parts, as they are in the files, and facts that the format states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpdistill.schema import DataError
from dpdistill.storage.growable_array import slices

_CHANNELS = 4
"""Most values of an image's pixel, as in RGBA; spectra have more, but fewer than rows or columns."""


class Part(NamedTuple):
    """A part of the records.

    Args:
        X: images, (k, h, w, c).
        y: labels, (k,): an array or a list of whole numbers and names; None for a record without a label.
        units: names or numbers of the records' units, (k,), or None.
        at: indices among all records, (k,), for parts in another order, or None.
    """

    X: np.ndarray
    y: np.ndarray | list[Any]
    units: np.ndarray | None = None
    at: np.ndarray | None = None


@dataclass(frozen=True, repr=False, eq=False)
class Parsed:
    """Facts of a file format, before the caller's statements are applied.

    Args:
        parts: the records, read once; at least one part, which may be empty.
        whole: the unchanged images of all parts in memory or as a file map; otherwise None.
        classes: class names that the format states, or None.
        bounds: bounds that the format states, or None.
        notes: sentences shown only to the owner while loading.
        prepared: whether each image already has the stated size, range and position in its own type.
        straightened: whether images are already deskewed.
        inferred: names of the public facts that are taken from the records, of `dpdistill.schema.public_facts`.
    """

    parts: Iterable[Part]
    whole: np.ndarray | None = None
    classes: tuple[str, ...] | None = None
    bounds: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    prepared: bool = False
    straightened: bool = False
    inferred: tuple[str, ...] = ()

    @classmethod
    def of(cls, X: Any, y: Any, units: object = None, title: str = "", **facts: Any) -> Parsed:
        """Returns the records of whole arrays.

        Args:
            X: images, (n, h, w) or (n, h, w, c), whole numbers or floats.
            y: labels, (n,) or (n, 1).
            units: units of the records, (n,), or None.
            title: name of the source for error messages, or an empty text.
            facts: further fields of Parsed.

        Raises:
            DataError: arrays of other shapes or types.
        """
        with titled(title):
            X, y = _as_array(X, "X"), _as_array(y, "y", objects=True)
            y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
            units = None if units is None else _as_array(units, "units", objects=True)
            _require(X, y, units)
        X = X[..., None] if X.ndim == 3 else X
        parts = (Part(X[rows], y[rows], None if units is None else units[rows]) for rows in slices(X))
        return cls(parts, X, **facts)


def _require(X: np.ndarray, y: np.ndarray, units: np.ndarray | None) -> None:
    """Refuses arrays that are no images, or of unequal lengths."""
    if X.ndim not in (3, 4) or min(X.shape[1:], default=0) < 1:
        raise DataError(f"Expected X of shape (n, h, w) or (n, h, w, c); got {X.shape}.")
    if X.ndim == 4 and X.shape[1] in (1, 3, 4) and X.shape[3] > 4:
        raise DataError(f"Expected X of shape (n, h, w, c); got {X.shape}: channels stand first, move them to the end.")
    if X.ndim == 4 and X.shape[3] > _CHANNELS and X.shape[3] >= min(X.shape[1:3]):
        raise DataError(
            f"Expected X of shape (n, h, w, c); got {X.shape}: volumes are not read, and channels stand at the end."
        )
    if X.dtype.kind not in "uif":
        raise DataError(f"Expected X as whole numbers or floats; got {X.dtype}.")
    if y.ndim == 2 and len(y) == len(X):
        raise DataError(
            f"Expected one label an image; got {y.shape[1]}: turn one-hot rows into numbers, argmax(axis=1)."
        )
    if y.shape != X.shape[:1]:
        raise DataError(f"Expected as many labels as images; got labels of shape {y.shape} and {len(X)} images.")
    if units is not None and units.shape != y.shape:
        raise DataError("Expected as many units as records.")


def require_unmasked(values: object, name: str) -> None:
    """Refuses masked values, in an array or in a list of arrays: NumPy would reveal the values under a mask.

    Raises:
        DataError: the values are masked.
    """
    if np.ma.is_masked(values) or (isinstance(values, list | tuple) and any(map(np.ma.is_masked, values))):
        raise DataError(f"Expected {name} without masked values: fill them (numpy.ma.filled), or remove the records.")


@contextmanager
def titled(title: str) -> Iterator[None]:
    """Prefixes the title of the source to errors, if the source has a title."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{title}: {error}" if title else str(error)) from None


def _as_array(values: object, name: str, objects: bool = False) -> np.ndarray:
    """Returns values as an array; of Python objects where allowed, such as names in a pandas column."""
    require_unmasked(values, name)
    if objects and isinstance(values, list | tuple) and not any(np.ndim(value) for value in values):
        array = np.empty(len(values), object)  # NumPy would choose one type for all and turn numbers into texts
        array[:] = values
        return array
    try:
        array = values if isinstance(values, np.memmap) else np.asarray(values)
    except ValueError:
        raise DataError(f"Expected {name} as one array; its rows have different lengths.") from None
    if array.dtype.hasobject and not objects:
        raise DataError(f"Expected numbers in {name}; got an array of Python objects.")
    return array
