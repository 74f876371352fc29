"""Public facts about a table: columns with bounds or categories, the label's classes, the unit."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dpdistill.schema.column import Column, require_no_index, require_told_apart
from dpdistill.schema.constraints import Combination, Rules
from dpdistill.schema.errors import (
    DataError,
    require_harmless,
    require_ordered,
    require_printable,
    require_trimmed,
    require_writable,
)
from dpdistill.schema.facts import STRICT, StrictFloat, read_facts

UNLABELLED = ("rows",)
"""Classes of a table without a label: a single one, which no file names."""
LATER = ("constraints", "combinations", "target", "edges")
"""Facts that files state only where a table has them, so that earlier files stay as they are."""
TARGETS = ("numeric", "integer", "duration")
"""Kinds of a column that can be predicted as a number."""
BINS, MOST_EDGES = 8, 99
"""Number of bins of a number to predict if the owner states none; most edges between bins."""
LONGEST = 4 << 20
"""Most characters of a schema as JSON: the reader of synthetic.npz refuses longer ones."""


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

    numbers: np.ndarray  # raw columns with one coordinate: numbers, times, ordinal
    number_at: np.ndarray
    low: np.ndarray
    high: np.ndarray
    log: np.ndarray
    whole: np.ndarray
    gridded: tuple[tuple[int, Column], ...]  # the ones among them with a stated step or number of places
    gaps: np.ndarray  # the ones among them that may be missing, with an indicator
    gap_at: np.ndarray
    categorical: np.ndarray
    category_at: np.ndarray
    width: np.ndarray  # categories, without the coordinate for missing
    gap: np.ndarray  # whether missing has a coordinate


def scale_ends(column: Column) -> tuple[float, float]:
    """Returns the bounds of a number on its scale: the encodings -1 and 1 stand for them."""
    low, high = column.bounds or (0.0, 0.0)
    zero, log = _zero(low, high), column.scale == "log"
    return float(_scaled(low - zero, log)), float(_scaled(high - zero, log))


def equal_edges(column: Column, bins: int) -> tuple[float, ...]:
    """Returns the edges between bins of equal length on a column's scale, (bins - 1,); whole for whole numbers.

    Raises:
        DataError: fewer than 2 or more than 100 bins.
    """
    if not 2 <= bins <= MOST_EDGES + 1:
        raise DataError(f"Expected bins={bins} of column {column.name!r:.80} from 2 to {MOST_EDGES + 1}.")
    low, high = column.bounds or (0.0, 0.0)
    edges = from_share(np.arange(1, bins) / bins, low, high, column.scale == "log")
    edges = np.ceil(edges) if column.is_whole else np.array([float(f"{edge:.6g}") for edge in edges])
    inside = (edges > column.ends[0]) & (edges <= column.ends[1])
    return tuple(np.unique(edges[inside]).tolist())


@dataclass(frozen=True)
class TableSchema:
    """Columns, label and unit of a table, stated by its owner, never by the records.

    A raw row has one number per column: a value, or the index of a category; NaN if missing. An encoded row has numbers
    scaled to [-1, 1] by the bounds, one coordinate in {0, 1} per category, and indicators in {0, 1} of missing values.

    Args:
        columns: all columns but the label.
        label: name of the label's column, or None for a table without a label.
        classes: names of the classes, in the order of their indices; UNLABELLED for a table without a label.
        labels: values of the label's column that stand for a class, a tuple a class; the names themselves if empty.
        unit: the meaning of one row, in words: "row", "patient".
        constraints: texts such as `left <= right`, which every synthetic row obeys (`constraints`).
        combinations: combinations of categories that synthetic rows may have.
        target: name of the column with the number to predict, of a table without another label; its classes are bins
            of this number. None for a table with a label, or with neither.
        edges: numbers between the bounds of the target at which a new bin begins, increasing; `equal_edges` if empty.

    Raises:
        DataError: facts that contradict each other, a text that a spreadsheet may run as a formula, or what a
            synthetic table cannot be written with.
    """

    __pydantic_config__ = STRICT
    columns: tuple[Column, ...]
    label: str | None = None
    classes: tuple[str, ...] = ()
    labels: tuple[tuple[str, ...], ...] = ()
    unit: str = "row"
    constraints: tuple[str, ...] = ()
    combinations: tuple[Combination, ...] = ()
    target: str | None = None
    edges: tuple[StrictFloat, ...] = ()

    def __post_init__(self) -> None:
        for name in ("columns", "classes", "labels", "constraints", "combinations", "edges"):
            require_ordered(name, getattr(self, name))
        names = [column.name for column in self.columns]
        require_trimmed("unit", self.unit)
        require_writable("unit", self.unit)
        if not names:
            raise DataError("Expected at least one column besides the label.")
        if self.target is None and self.edges:
            raise DataError("Expected edges of a number to predict; got a table without such a label.")
        if self.target is not None:
            self._check_target(self.target, names)
        elif self.label is None:
            self._check_unlabelled(names)
        else:
            self._check_label(self.label, names)
        if (characters := len(json.dumps(self.to_json()))) > LONGEST:
            raise DataError(
                f"Expected a schema of at most {LONGEST:,} characters as JSON; got {characters:,}: declare fewer "
                "categories, with `other` for the rest."
            )
        _ = self.rules  # refuses contradictions

    def _check_unlabelled(self, names: list[str]) -> None:
        if self.labels or self.classes not in ((), UNLABELLED):
            raise DataError(
                f"Expected the label of the classes {', '.join(self.classes)}; got a table without a label."
            )
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise DataError(f"Expected distinct column names; {twice!r} is named twice.")
        object.__setattr__(self, "classes", UNLABELLED)

    def _check_target(self, target: str, names: list[str]) -> None:
        """Refuses a number to predict without bounds or bins, and names the bins."""
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise DataError(f"Expected distinct column names; {twice!r} is named twice.")
        if self.label is not None or self.labels:
            raise DataError(f"Expected one label; got {self.label!r:.80} and the number {target!r:.80}.")
        column = next((column for column in self.columns if column.name == target), None)
        if column is None or column.kind not in TARGETS:
            raise DataError(
                f"Expected the label {target!r:.80} among the columns of kind {', '.join(TARGETS)}; a label of another "
                "kind has classes and does not stand under columns."
            )
        if column.missing:
            raise DataError(f"Expected no missing values of the label {target!r:.80}: leave such rows out.")
        if len(names) < 2:
            raise DataError("Expected at least one column besides the label.")
        if not self.edges:
            object.__setattr__(self, "edges", equal_edges(column, BINS))
        (low, high), edges = column.ends, self.edges
        ordered = all(a < b for a, b in zip((low, *edges), edges, strict=False)) and edges[-1] <= high
        if not ordered or len(edges) > MOST_EDGES:
            raise DataError(
                f"Expected at most {MOST_EDGES} increasing edges above {low:g} and at most {high:g}, between which the "
                f"numbers of {target!r:.80} lie; got {', '.join(f'{edge:g}' for edge in edges):.80}."
            )
        object.__setattr__(self, "edges", tuple(map(float, edges)))
        texts = [f"{x:.10g}" for x in (low, *edges, high)]
        names_of_bins = tuple(f"{a} to {b}" for a, b in pairwise(texts))
        if self.classes not in ((), names_of_bins):
            raise DataError(f"Expected no classes of {target!r:.80}, which is a number: state edges of its bins.")
        object.__setattr__(self, "classes", names_of_bins)

    def _check_label(self, label: str, names: list[str]) -> None:
        require_trimmed("label", label)
        require_trimmed("each class and its values", *self.classes, *(text for group in self.labels for text in group))
        if len({*names, label}) != len(names) + 1:
            twice = next(name for name in (*names, label) if (*names, label).count(name) > 1)
            raise DataError(f"Expected distinct column names; {twice!r} is named twice.")
        if len(self.classes) < 2 or len(set(self.classes)) != len(self.classes):
            raise DataError(
                f"Expected at least 2 distinct classes of {self.label!r}; got {', '.join(self.classes) or 'none'}."
            )
        for require in (require_writable, require_harmless):
            require("the name of the label", label)
            require("each class", *self.classes)
        require_no_index(label)
        require_printable("class names", *self.classes)
        require_writable(f"each value of {self.label!r}", *(text for group in self.labels for text in group))
        values = [value for group in self.label_values for value in group]
        if len(self.label_values) != len(self.classes) or len(set(values)) != len(values) or () in self.labels:
            raise DataError(f"Expected distinct values of {self.label!r} for each of {len(self.classes)} classes.")
        require_told_apart(self.label_values)

    @cached_property
    def rules(self) -> Rules | None:
        """Constraints, which `from_unit` makes every row obey; None without constraints."""
        return Rules(self) if self.constraints or self.combinations else None

    @property
    def label_values(self) -> tuple[tuple[str, ...], ...]:
        """Returns the values of the label's column, a tuple per class."""
        return self.labels or tuple((name,) for name in self.classes)

    def __str__(self) -> str:
        return f"{len(self.columns)} columns, {self.classes_text}"

    @property
    def classes_text(self) -> str:
        """Returns the number of classes in words."""
        if self.target is not None:
            return f"the number {self.target} to predict"
        return "no label" if self.label is None else f"{len(self.classes)} classes"

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of the columns, and of the label's column if there is one."""
        return (*(column.name for column in self.columns), *([] if self.label is None else [self.label]))

    @cached_property
    def target_column(self) -> int | None:
        """Index of the column with the number to predict; None without one."""
        return None if self.target is None else [column.name for column in self.columns].index(self.target)

    @property
    def target_at(self) -> int:
        """Coordinate of the number to predict in an encoded row."""
        if self.target_column is None:
            raise ValueError("Expected a table with a number to predict.")
        return self.offsets[self.target_column]

    @property
    def outputs(self) -> int:
        """Number of outputs of a released classifier: one per class, or mean and standard deviation of the target."""
        return len(self.classes) if self.target is None else 2

    @cached_property
    def inputs(self) -> TableSchema:
        """Facts about the columns from which the label is predicted: without a number to predict, this table itself."""
        if self.target is None:
            return self
        return TableSchema(tuple(column for column in self.columns if column.name != self.target), unit=self.unit)

    def bins(self, X: np.ndarray) -> np.ndarray:
        """Returns the class of each raw row (n, columns) of a table with a target: the bin of its number, (n,), int64.

        Numbers outside the bounds are in the first or last bin; -1 for a number that is not finite.
        """
        if self.target_column is None:
            raise ValueError("Expected a table with a number to predict.")
        values = np.asarray(X, np.float64)[:, self.target_column]
        return np.where(np.isfinite(values), np.searchsorted(self.edges, values, side="right"), -1).astype(np.int64)

    def settle(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns encoded rows whose target lies in the bin of their class, and the classes of the final rows.

        Args:
            X: encoded rows, (n, d), of any values in [-1, 1].
            y: classes, (n,).

        Returns:
            (X, y): rounded rows, float32, and classes, (n,), int32; as given for a table without a target.
        """
        if self.target_column is None:
            return X, y
        raw, column = self.from_unit(X), self.columns[self.target_column]
        low, high = column.ends
        first, last = np.array([low, *self.edges])[y], np.array([*self.edges, high])[y]
        raw[:, self.target_column] = column.snap(np.clip(raw[:, self.target_column], first, last))
        over = (raw[:, self.target_column] >= last) & (y < len(self.edges))  # an edge belongs to the upper bin
        step = (last - first) * 1e-3 if column.grid is None else column.grid[0] / column.grid[1]
        raw[:, self.target_column] -= np.where(over, step, 0.0)
        X = self.to_unit(raw)
        return X, self.bins(self.from_unit(X)).astype(np.int32)

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
            np.array([c.kind == "ordinal" or c.is_whole for _, _, c in numbers], bool),
            tuple((k, c) for k, (_, _, c) in enumerate(numbers) if c.step is not None or c.places is not None),
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

        Coordinates are clamped to [-1, 1]; -1 is the lower bound and 1 the upper one. Integers and times are whole
        numbers, rounded to the nearest (ties to even). Numbers with a stated step or places are the nearest multiples;
        other numbers have the digits that their encoding has. Every row obeys the constraints.
        """
        at, U = self._layout, np.clip(np.asarray(U, np.float64), -1.0, 1.0)
        X = np.empty((len(U), len(self.columns)), np.float64)
        values = from_share((U[:, at.number_at] + 1.0) / 2.0, at.low, at.high, at.log)
        whole = np.clip(np.rint(values), np.ceil(at.low), np.floor(at.high))
        rounded = np.clip(_rounded(values, at.low, at.high, at.log), at.low, at.high)
        exact = np.where(at.whole, whole, rounded)
        for k, column in at.gridded:
            exact[:, k] = column.snap(values[:, k])
        X[:, at.numbers] = exact + 0.0  # no negative zero
        X[:, at.gaps] = np.where(U[:, at.gap_at] > 0.5, np.nan, X[:, at.gaps])
        for column, start, width, gap in zip(at.categorical, at.category_at, at.width, at.gap, strict=True):
            slot = U[:, start : start + width + gap].argmax(1)
            X[:, column] = np.where(slot == width, np.nan, slot)
        return X if self.rules is None else self.rules.obey(X)

    def to_json(self) -> dict:
        """Returns the facts as files store them."""
        facts = {name: fact for name, fact in asdict(self).items() if fact or name not in LATER}
        return {**facts, "columns": tuple(column.to_json() for column in self.columns)}

    @classmethod
    def from_json(cls, data: dict) -> TableSchema:
        """Returns the schema that `to_json` wrote.

        Raises:
            TypeError: another type or an unknown key.
            DataError: facts that contradict each other.
        """
        return read_facts(cls, data)
