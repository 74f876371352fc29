"""Public facts about a table: columns with bounds or categories, the label's classes, the unit."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from dpdistill.schema.errors import (
    DataError,
    require_harmless,
    require_ordered,
    require_printable,
    require_trimmed,
    require_writable,
)
from dpdistill.schema.facts import STRICT, StrictBool, StrictFloat, read_facts
from dpdistill.schema.number_text import number_key, same_spelling

Kind = Literal["numeric", "integer", "ordinal", "categorical"]
KINDS: tuple[str, ...] = get_args(Kind)
SCALES = ("linear", "log")
LARGEST, LARGEST_WHOLE = 1e30, 2**53
"""Largest magnitude of the bounds of numeric and of integer columns: a double holds every whole number up to 2^53."""
INDEX = re.compile("__index_level_[0-9]+__")
"""Names that pandas gives to the row index in Parquet files, where the index is no column."""
LONGEST = 4 << 20
"""Most characters of a schema as JSON: the reader of synthetic.npz refuses longer ones."""


def _require_no_index(name: str) -> None:
    if INDEX.fullmatch(name):
        raise DataError(
            f"Expected a column's name other than {name!r}, which names an index in Parquet files: rename it."
        )


def _require_told_apart(groups: Sequence[tuple[str, ...]]) -> None:
    """Raises if two categories or classes mean one number, or are one text in two forms of Unicode."""
    owner: dict[str, int] = {}
    for k, group in enumerate(groups):
        for text in group:
            if owner.setdefault(number_key(text), k) != k:
                raise DataError(f"Two categories or classes mean the number {text[:80]!r}: declare one of them.")
    if len(set(map(same_spelling, owner))) < len(owner):
        raise DataError("Two categories or classes look the same: they are one text in two forms of Unicode.")


@dataclass(frozen=True)
class Column:
    """Public facts about a column.

    Args:
        name: name in the file.
        kind: numeric, integer, ordinal (categories in order) or categorical.
        bounds: (low, high) of a numeric or integer column, else None; values outside are clamped. At most 1e30 in
            magnitude; of an integer column at most 2^53, and with at least two whole numbers between them.
        scale: linear, or log for heavy tails: log(1 + x - low), and sign(x) log(1 + |x|) where 0 is between the bounds.
        categories: categories of an ordinal or categorical column, in order, else none.
        other: the category for unknown values, or None.
        missing: whether values may be missing.

    Raises:
        DataError: facts that contradict each other, a text that a spreadsheet may run as a formula, or what a
            synthetic table cannot be written with.
    """

    __pydantic_config__ = STRICT
    name: str
    kind: Kind
    bounds: tuple[StrictFloat, StrictFloat] | None = None
    scale: Literal["linear", "log"] = "linear"
    categories: tuple[str, ...] = ()
    other: str | None = None
    missing: StrictBool = False

    def __post_init__(self) -> None:
        name = f"column {self.name!r}"
        require_ordered(f"the categories of {name}", self.categories)
        require_trimmed("the name of a column", self.name)
        require_trimmed(f"each category of {name}", *self.categories)
        for require in (require_writable, require_harmless):
            require("the name of a column", self.name)
            require(f"each category of {name}", *self.categories)
        _require_no_index(self.name)
        if self.kind not in KINDS:
            raise DataError(f"Expected kind of {name} among {', '.join(KINDS)}; got {self.kind!r}.")
        if self.scale not in SCALES:
            raise DataError(f"Expected scale of {name} among {', '.join(SCALES)}; got {self.scale!r}.")
        if self.is_number:
            if self.bounds is None or not -math.inf < self.bounds[0] < self.bounds[1] < math.inf:
                got = "None" if self.bounds is None else f"{self.bounds[0]:g} and {self.bounds[1]:g}"
                raise DataError(f"Expected bounds low < high of {name}, both finite; got {got}.")
            self._check_bounds(*self.bounds)
            object.__setattr__(self, "bounds", tuple(map(float, self.bounds)))  # 5 is written as 5.0, as it is read
            if self.categories or self.other is not None:
                raise DataError(f"Expected no categories of {name}, which is {self.kind}.")
            return
        if self.bounds is not None or self.scale != "linear":
            raise DataError(f"Expected no bounds and no scale of {name}, which is {self.kind}.")
        if len(self.categories) < 2 or len(set(self.categories)) != len(self.categories):
            raise DataError(
                f"Expected at least 2 distinct categories of {name}; got {', '.join(self.categories) or 'none'}."
            )
        _require_told_apart([(text,) for text in self.categories])
        if self.other is not None and self.other not in self.categories:
            raise DataError(f"Expected other={self.other!r} of {name} among its categories.")

    def _check_bounds(self, low: float, high: float) -> None:
        """Refuses bounds without exact values between them."""
        got, most = f"column {self.name!r}; got {float(low)!r} and {float(high)!r}", max(-low, high)
        if self.kind == "integer" and most > LARGEST_WHOLE:
            raise DataError(
                f"Expected bounds from -2^53 to 2^53 of integer {got}: larger whole numbers are not exact. Declare the "
                "column numeric, or list it under ignored if it holds identifiers."
            )
        if most > LARGEST:
            raise DataError(f"Expected bounds from -1e30 to 1e30 of {got}: values outside the bounds are clamped.")
        if self.kind == "integer" and math.floor(high) - math.ceil(low) < 1:
            raise DataError(
                f"Expected at least two whole numbers between the bounds of integer {got}: state whole numbers as "
                "bounds, or declare the column numeric."
            )

    @property
    def is_number(self) -> bool:
        return self.kind in ("numeric", "integer")

    @property
    def width(self) -> int:
        """Number of coordinates of an encoded value: one per category, or one; one more if values may be missing."""
        return (len(self.categories) if self.kind == "categorical" else 1) + self.missing


def _scaled(x: Any, log: Any) -> np.ndarray:
    """Returns numbers on their scale: sign(x) log(1 + |x|) for log, else unchanged."""
    return np.where(log, np.sign(x) * np.log1p(np.abs(x)), x)


def _zero(low: Any, high: Any) -> np.ndarray:
    """Returns the number at which a scale begins: 0 if it is between the bounds, else low."""
    return np.where((low < 0) & (high > 0), 0.0, low)


def to_share(values: np.ndarray, low: Any, high: Any, log: Any) -> np.ndarray:
    """Returns the relative positions of numbers between their bounds, on their scale: 0 at low, 1 at high; clamped, NaN
    stays.
    """
    zero = _zero(low, high)
    first, last = _scaled(low - zero, log), _scaled(high - zero, log)
    return np.clip((_scaled(np.clip(values, low, high) - zero, log) - first) / (last - first), 0.0, 1.0)


def from_share(share: np.ndarray, low: Any, high: Any, log: Any) -> np.ndarray:
    """Returns the numbers for shares from to_share: exactly low at 0, exactly high at 1."""
    zero = _zero(low, high)
    first, last = _scaled(low - zero, log), _scaled(high - zero, log)
    scaled = first + share * (last - first)
    powers = np.sign(scaled) * np.expm1(np.abs(np.where(log, scaled, 0.0)))
    values = np.clip(np.where(log, powers, scaled) + zero, low, high)
    return np.where(share <= 0.0, low, np.where(share >= 1.0, high, values))


def _rounded(values: np.ndarray, low: np.ndarray, high: np.ndarray, log: np.ndarray) -> np.ndarray:
    """Rounds numbers to the decimal places that their encoding has; negative places round before the point.

    An encoded number is a float32 in [-1, 1] and cannot distinguish steps below a 2^25th of the bounds' distance on the
    scale: 8 digits are kept of that distance, times 1 + |x - zero|, the slope of a log scale. If a double cannot hold
    as many places, numbers stay unchanged.
    """
    zero = _zero(low, high)
    span = _scaled(high - zero, log) - _scaled(low - zero, log)
    decimals = 8 - np.floor(np.log10(span * np.where(log, 1.0 + np.abs(values - zero), 1.0)))
    power = 10.0 ** np.minimum(np.abs(decimals), 22.0)  # the largest exact one in a double
    whole = np.rint(np.where(decimals > 0, values * power, values / power))
    digits = np.where(decimals > 0, whole / power, whole * power)
    return np.where((decimals <= 22) & (np.abs(whole) < 2**53), digits, values)


class _Layout(NamedTuple):
    """Positions of columns in an encoded row; index arrays of raw columns and of coordinates."""

    numbers: np.ndarray  # raw columns with one coordinate: numeric, integer, ordinal
    number_at: np.ndarray
    low: np.ndarray
    high: np.ndarray
    log: np.ndarray
    whole: np.ndarray
    gaps: np.ndarray  # the ones among them that may be missing, with an indicator
    gap_at: np.ndarray
    categorical: np.ndarray
    category_at: np.ndarray
    width: np.ndarray  # categories, without the coordinate for missing
    gap: np.ndarray  # whether missing has a coordinate


@dataclass(frozen=True)
class TableSchema:
    """Columns, label and unit of a table, stated by its owner, never by the records.

    A raw row has one number per column: a value, or the index of a category; NaN if missing. An encoded row has numbers
    scaled to [-1, 1] by the bounds, one coordinate in {0, 1} per category, and indicators in {0, 1} of missing values.

    Args:
        columns: all columns but the label.
        label: name of the label's column.
        classes: names of the classes, in the order of their indices.
        labels: values of the label's column that stand for a class, a tuple a class; the names themselves if empty.
        unit: the meaning of one row, in words: "row", "patient".

    Raises:
        DataError: facts that contradict each other, a text that a spreadsheet may run as a formula, or what a
            synthetic table cannot be written with.
    """

    __pydantic_config__ = STRICT
    columns: tuple[Column, ...]
    label: str
    classes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...] = ()
    unit: str = "row"

    def __post_init__(self) -> None:
        for name in ("columns", "classes", "labels"):
            require_ordered(name, getattr(self, name))
        names = [column.name for column in self.columns]
        require_trimmed("label", self.label)
        require_trimmed("unit", self.unit)
        require_trimmed("each class and its values", *self.classes, *(text for group in self.labels for text in group))
        if not names:
            raise DataError("Expected at least one column besides the label.")
        if len({*names, self.label}) != len(names) + 1:
            twice = next(name for name in (*names, self.label) if (*names, self.label).count(name) > 1)
            raise DataError(f"Expected distinct column names; {twice!r} is named twice.")
        if len(self.classes) < 2 or len(set(self.classes)) != len(self.classes):
            raise DataError(
                f"Expected at least 2 distinct classes of {self.label!r}; got {', '.join(self.classes) or 'none'}."
            )
        for require in (require_writable, require_harmless):
            require("the name of the label", self.label)
            require("each class", *self.classes)
        _require_no_index(self.label)
        require_printable("class names", *self.classes)
        require_writable("unit", self.unit)
        require_writable(f"each value of {self.label!r}", *(text for group in self.labels for text in group))
        values = [value for group in self.label_values for value in group]
        if len(self.label_values) != len(self.classes) or len(set(values)) != len(values) or () in self.labels:
            raise DataError(f"Expected distinct values of {self.label!r} for each of {len(self.classes)} classes.")
        _require_told_apart(self.label_values)
        if (characters := len(json.dumps(self.to_json()))) > LONGEST:
            raise DataError(
                f"Expected a schema of at most {LONGEST:,} characters as JSON; got {characters:,}: declare fewer "
                "categories, with `other` for the rest."
            )

    @property
    def label_values(self) -> tuple[tuple[str, ...], ...]:
        """Returns the values of the label's column, a tuple per class."""
        return self.labels or tuple((name,) for name in self.classes)

    def __str__(self) -> str:
        return f"{len(self.columns)} columns, {len(self.classes)} classes"

    @property
    def raw_shape(self) -> tuple[int, ...]:
        """Shape of a raw row: (columns,)."""
        return (len(self.columns),)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an encoded row: (coordinates,)."""
        return (self.dimension,)

    @property
    def dimension(self) -> int:
        """Number of coordinates of an encoded row."""
        return sum(column.width for column in self.columns)

    @property
    def offsets(self) -> tuple[int, ...]:
        """First coordinate of each column."""
        ends = np.cumsum([column.width for column in self.columns])
        return (0, *map(int, ends[:-1]))

    @cached_property
    def _layout(self) -> _Layout:
        rows = list(zip(range(len(self.columns)), self.offsets, self.columns, strict=True))
        numbers = [(i, at, c) for i, at, c in rows if c.kind != "categorical"]
        categories = [(i, at, c) for i, at, c in rows if c.kind == "categorical"]
        bounds = [c.bounds or (0.0, len(c.categories) - 1.0) for _, _, c in numbers]
        gaps = [(i, at + 1) for i, at, c in numbers if c.missing]

        def whole(values: list) -> np.ndarray:
            return np.array(values, np.intp)

        return _Layout(
            whole([i for i, _, _ in numbers]),
            whole([at for _, at, _ in numbers]),
            np.array([low for low, _ in bounds], np.float64),
            np.array([high for _, high in bounds], np.float64),
            np.array([c.scale == "log" for _, _, c in numbers], bool),
            np.array([c.kind != "numeric" for _, _, c in numbers], bool),
            whole([i for i, _ in gaps]),
            whole([at for _, at in gaps]),
            whole([i for i, _, _ in categories]),
            whole([at for _, at, _ in categories]),
            whole([len(c.categories) for _, _, c in categories]),
            np.array([c.missing for _, _, c in categories], bool),
        )

    def to_unit(self, X: np.ndarray) -> np.ndarray:
        """Returns encoded rows (n, d) in [-1, 1], float32, of raw rows (n, columns); values outside the bounds are
        clamped.

        A row with NaN in a column without missing values gets NaN: such a record contributes nothing.
        """
        at, X = self._layout, np.asarray(X, np.float64)
        U = np.zeros((len(X), self.dimension), np.float32)
        U[:, at.number_at] = 2.0 * to_share(X[:, at.numbers], at.low, at.high, at.log) - 1.0
        absent = np.isnan(X[:, at.gaps])
        U[:, at.gap_at] = absent
        U[:, at.gap_at - 1] = np.where(absent, 0.0, U[:, at.gap_at - 1])
        codes = X[:, at.categorical]
        known = np.isfinite(codes)
        slots = np.where(known, np.clip(np.where(known, codes, 0.0), 0, at.width - 1), at.width).astype(np.intp)
        bad = ~known & ~at.gap
        np.put_along_axis(U, np.where(bad, 0, slots) + at.category_at, np.where(bad, np.nan, 1.0), 1)
        return U

    def from_unit(self, U: np.ndarray) -> np.ndarray:
        """Returns raw rows (n, columns), float64, of encoded rows (n, d), exactly within bounds; NaN for missing
        values.

        Coordinates are clamped to [-1, 1]; -1 is the lower bound and 1 the upper one. Integers are whole numbers, other
        numbers have the digits that their encoding has.
        """
        at, U = self._layout, np.clip(np.asarray(U, np.float64), -1.0, 1.0)
        X = np.empty((len(U), len(self.columns)), np.float64)
        values = from_share((U[:, at.number_at] + 1.0) / 2.0, at.low, at.high, at.log)
        whole = np.clip(np.rint(values), np.ceil(at.low), np.floor(at.high))
        rounded = np.clip(_rounded(values, at.low, at.high, at.log), at.low, at.high)
        X[:, at.numbers] = np.where(at.whole, whole, rounded) + 0.0  # no negative zero
        X[:, at.gaps] = np.where(U[:, at.gap_at] > 0.5, np.nan, X[:, at.gaps])
        for column, start, width, gap in zip(at.categorical, at.category_at, at.width, at.gap, strict=True):
            slot = U[:, start : start + width + gap].argmax(1)
            X[:, column] = np.where(slot == width, np.nan, slot)
        return X

    def to_json(self) -> dict:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict) -> TableSchema:
        """Returns the schema that `to_json` wrote.

        Raises:
            TypeError: another type or an unknown key.
            DataError: facts that contradict each other.
        """
        return read_facts(cls, data)
