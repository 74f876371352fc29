"""Public facts about one column of a table: what its cells may hold, and which values a synthetic row may have."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from dpdistill.schema import times
from dpdistill.schema.errors import (
    DataError,
    require_harmless,
    require_ordered,
    require_trimmed,
    require_writable,
)
from dpdistill.schema.facts import STRICT, StrictBool, StrictFloat, StrictInt
from dpdistill.schema.number_text import number_key, same_spelling

Kind = Literal["numeric", "integer", "date", "datetime", "duration", "ordinal", "categorical"]
KINDS: tuple[str, ...] = get_args(Kind)
SCALES = ("linear", "log")
LARGEST, LARGEST_WHOLE = 1e30, 2**53
"""Largest magnitude of the bounds of numeric and of integer columns: a double holds every whole number up to 2^53."""
MOST_PLACES = 12
INDEX = re.compile("__index_level_[0-9]+__")
"""Names that pandas gives to the row index in Parquet files, where the index is no column."""
LATER = ("places", "step", "resolution", "format", "zone")
"""Facts that files state only where a column has them, so that earlier files stay as they are."""


def require_no_index(name: str) -> None:
    """Raises for a name that pandas takes for an index.

    Raises:
        DataError: such a name.
    """
    if INDEX.fullmatch(name):
        raise DataError(
            f"Expected a column's name other than {name!r}, which names an index in Parquet files: rename it."
        )


def require_told_apart(groups: Sequence[tuple[str, ...]]) -> None:
    """Raises if two categories or classes mean one number, or are one text in two forms of Unicode.

    Raises:
        DataError: two such names.
    """
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
        kind: numeric, integer, date, datetime, duration, ordinal (categories in order) or categorical.
        bounds: (low, high) of a number or time, else None; values outside are clamped. At most 1e30 in magnitude; of
            an integer column at most 2^53, and with at least two whole numbers between them. Bounds of dates and
            datetimes may be texts such as 2020-01-31 and are kept as codes (`times`), those of durations are codes.
        scale: linear, or log for heavy tails: log(1 + x - low), and sign(x) log(1 + |x|) where 0 is between the bounds.
        categories: categories of an ordinal or categorical column, in order, else none.
        other: the category for unknown values, or None.
        missing: whether values may be missing.
        places: decimal places of a numeric column in synthetic rows, 0 to 12, or None.
        step: distance of the values that synthetic rows may have, multiples of it, or None.
        resolution: unit of a time: day, hour, minute or second; None for the day of a date, else for the second.
        format: how files write a time as text, such as %d/%m/%Y; None for the standard form.
        zone: time zone of a datetime, such as UTC or Europe/Berlin; None for a clock without zone.

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
    places: StrictInt | None = None
    step: StrictFloat | None = None
    resolution: str | None = None
    format: str | None = None
    zone: str | None = None

    def __post_init__(self) -> None:
        name = f"column {self.name!r}"
        require_ordered(f"the categories of {name}", self.categories)
        require_trimmed("the name of a column", self.name)
        require_trimmed(f"each category of {name}", *self.categories)
        for require in (require_writable, require_harmless):
            require("the name of a column", self.name)
            require(f"each category of {name}", *self.categories)
        require_no_index(self.name)
        if self.kind not in KINDS:
            raise DataError(f"Expected kind of {name} among {', '.join(KINDS)}; got {self.kind!r}.")
        if self.scale not in SCALES:
            raise DataError(f"Expected scale of {name} among {', '.join(SCALES)}; got {self.scale!r}.")
        if self.is_number:
            self._check_number(name)
            return
        if any(getattr(self, fact) is not None for fact in LATER):
            raise DataError(f"Expected no {', '.join(LATER)} of {name}, which is {self.kind}.")
        if self.bounds is not None or self.scale != "linear":
            raise DataError(f"Expected no bounds and no scale of {name}, which is {self.kind}.")
        if len(self.categories) < 2 or len(set(self.categories)) != len(self.categories):
            raise DataError(
                f"Expected at least 2 distinct categories of {name}; got {', '.join(self.categories) or 'none'}."
            )
        require_told_apart([(text,) for text in self.categories])
        if self.other is not None and self.other not in self.categories:
            raise DataError(f"Expected other={self.other!r} of {name} among its categories.")

    def _check_number(self, name: str) -> None:
        """Refuses contradicting facts of a number or time, and keeps bounds as numbers."""
        if self.is_time:
            facts = times.facts_of(name, self.kind, self.resolution, self.format, self.zone)
            if isinstance(self.bounds, tuple):
                object.__setattr__(
                    self, "bounds", tuple(times.code_of_bound(name, facts, bound) for bound in self.bounds)
                )
        elif any(fact is not None for fact in (self.resolution, self.format, self.zone)):
            raise DataError(f"Expected no resolution, format or zone of {name}, which is {self.kind}.")
        if self.bounds is None or not -math.inf < self.bounds[0] < self.bounds[1] < math.inf:
            got = "None" if self.bounds is None else f"{self.bounds[0]:g} and {self.bounds[1]:g}"
            raise DataError(f"Expected bounds low < high of {name}, both finite; got {got}.")
        self._check_bounds(*self.bounds)
        object.__setattr__(self, "bounds", tuple(map(float, self.bounds)))  # 5 is written as 5.0, as it is read
        if self.categories or self.other is not None:
            raise DataError(f"Expected no categories of {name}, which is {self.kind}.")
        self._check_grid(name)

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
        if self.is_time:
            times.check_bounds(f"column {self.name!r}", self.time, low, high)
            if self.kind != "duration" and self.scale == "log":
                raise DataError(f"Expected scale linear of column {self.name!r}, which is a {self.kind}.")

    def _check_grid(self, name: str) -> None:
        """Refuses decimal places and steps without two exact values between the bounds."""
        if self.places is not None and (self.kind != "numeric" or not 0 <= self.places <= MOST_PLACES):
            raise DataError(
                f"Expected places of {name} from 0 to {MOST_PLACES}, of a numeric column; got {self.places}."
            )
        if self.step is not None and not (0 < self.step < LARGEST and (self.kind == "numeric" or self.step % 1 == 0)):
            raise DataError(f"Expected step > 0 of {name}, whole unless it is numeric; got {self.step!r}.")
        if self.grid is None:
            return
        (step, parts), (first, last) = self.grid, self._ends
        if self.places is not None and self.step is not None and 10**self.places % parts:
            raise DataError(f"Expected step of {name} with at most its {self.places} places; got {self.step!r}.")
        if last - first < 1 or max(-first, last) * step > LARGEST_WHOLE:
            raise DataError(
                f"Expected at least two multiples of {Fraction(step, parts)} between the bounds of {name}, of at most "
                "2^53 parts: state other bounds, places or step."
            )

    @property
    def is_number(self) -> bool:
        """Returns whether the column has bounds: a number, or a time."""
        return self.kind not in ("ordinal", "categorical")

    @property
    def is_time(self) -> bool:
        return self.kind in times.KINDS

    @property
    def is_whole(self) -> bool:
        """Returns whether every value is a whole number, as codes of times are."""
        return self.kind == "integer" or self.is_time

    @cached_property
    def time(self) -> times.Facts:
        """Facts of a column of times, with the defaults."""
        return times.facts_of(f"column {self.name!r}", self.kind, self.resolution, self.format, self.zone)

    @cached_property
    def grid(self) -> tuple[int, int] | None:
        """Distance (step, parts) of the values of synthetic rows, which are whole multiples of step / parts."""
        if self.step is not None:
            step = Fraction(repr(float(self.step)))
            return step.numerator, step.denominator
        return (1, 1) if self.is_whole else None if self.places is None else (1, 10**self.places)

    @cached_property
    def _ends(self) -> tuple[int, int]:
        """Least and largest multiple of the grid between the bounds."""
        (step, parts), (low, high) = self.grid or (1, 1), self.bounds or (0.0, 0.0)
        return (
            math.ceil(Fraction(repr(float(low))) * parts / step),
            math.floor(Fraction(repr(float(high))) * parts / step),
        )

    @property
    def ends(self) -> tuple[float, float]:
        """Least and largest value of a synthetic row."""
        if self.grid is None:
            return self.bounds or (0.0, 0.0)
        step, parts = self.grid
        first, last = self._ends
        return first * step / parts, last * step / parts

    def snap(self, values: np.ndarray, toward: Callable[[Any], Any] = np.rint) -> np.ndarray:
        """Returns the nearest values (n,) that a synthetic row may have; NaN stays.

        Args:
            values: numbers or codes, (n,).
            toward: np.rint for the nearest value, ties to even; np.floor or np.ceil for a neighbour on one side.
        """
        if self.grid is None:
            return np.clip(values, *self.ends)
        step, parts = self.grid
        multiples = values * parts / step
        nearest = np.rint(multiples)
        exact = nearest * step / parts == values  # such as 0.29, whose hundredfold is 28.999999999999996
        return np.clip(np.where(exact, nearest, toward(multiples)), *self._ends) * step / parts + 0.0

    def text(self, value: float) -> str:
        """Returns a time as a text in the standard form of bounds; a duration as a number with its unit."""
        if self.kind == "duration":
            return f"{value:,.0f} {self.time.resolution}s"
        return times.bound_text(self.time, round(value))

    def to_json(self) -> dict[str, Any]:
        """Returns the facts as files store them."""
        return {name: fact for name, fact in asdict(self).items() if name not in LATER or fact is not None}

    @property
    def width(self) -> int:
        """Number of coordinates of an encoded value: one per category, or one; one more if values may be missing."""
        return (len(self.categories) if self.kind == "categorical" else 1) + self.missing
