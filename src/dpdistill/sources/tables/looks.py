"""Guesses a column's facts from its records, for a draft of the owner only."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from dpdistill.schema import Column, DataError
from dpdistill.schema.column import LARGEST, LARGEST_WHOLE
from dpdistill.schema.number_text import COMMA_NUMBER, NUMBER, TRUTH, number_key, with_point
from dpdistill.sources.tables.cells import Cell, Fault, Marks, cell_of
from dpdistill.sources.tables.codes import Values, tally
from dpdistill.sources.tables.time_looks import TimeLook

MARKS = ("?", "-", "--", "N/A", "n/a", "#N/A", "None", "NULL", "<NA>")
"""Common marks of a missing value."""
MAX_CATEGORIES = 100
_SAMPLE = 2_000
_PADDED = re.compile("[+-]?0[0-9]")
_IDENTIFIER = re.compile(r"(^|[_\W])(id|uuid|guid|identifier|index)$|[a-z]ID$", re.IGNORECASE)


@dataclass
class Look:
    """Statistics of a column, collected in batches."""

    name: str
    missing: Marks
    typed: bool = False
    decimal: str = "."
    may_have_commas: bool = False
    texts: set[str] = field(default_factory=set)
    marks: set[str] = field(default_factory=set)
    sample: list[np.ndarray] = field(default_factory=list)
    low: float = math.inf
    high: float = -math.inf
    known: int = 0
    gaps: bool = False
    numbers: bool = True
    whole: bool = True
    padded: bool = False
    commas: bool = True
    distinct: bool = True
    unusable: str = ""
    times: TimeLook = field(init=False)

    def __post_init__(self) -> None:
        self.times = TimeLook(self.name)

    def add(self, values: Values) -> None:
        """Adds a batch."""
        seen: dict[Cell, int] = {}
        if not self.unusable and self.times.add_typed(values):
            return
        try:
            for value, count in tally(values):
                cell = cell_of(value)
                if cell is None or self.missing.hold(cell):
                    self.gaps = True
                    continue
                if self.typed:
                    self.numbers &= cell.typed
                    self.whole &= not (isinstance(value, float) or (isinstance(value, Decimal) and _scale(value) > 0))
                if cell.text in MARKS:
                    self.marks.add(cell.text)
                    continue
                seen[cell] = seen.get(cell, 0) + count
        except Fault as fault:
            self.unusable = self.unusable or str(fault)
            return
        if seen:
            self._add(seen)

    def _add(self, seen: dict[Cell, int]) -> None:
        texts = {number_key(cell.text) if cell.typed and cell.text not in TRUTH else cell.text for cell in seen}
        counts = np.array([*seen.values()])
        self.known += int(counts.sum())
        self.distinct &= bool((counts == 1).all()) and self.texts.isdisjoint(texts)
        if len(self.texts) <= MAX_CATEGORIES:
            self.texts |= texts
        self.times.add_texts(texts)
        self.padded |= any(_PADDED.match(cell.text) for cell in seen if not cell.typed)
        self.commas &= all(COMMA_NUMBER.fullmatch(text) or NUMBER.fullmatch(text) for text in texts)
        plain = [cell.text if cell.typed else with_point(cell.text, self.decimal) for cell in seen]
        plain = [TRUTH.get(text.lower(), text) for text in plain]
        numbers = [float(text) if NUMBER.fullmatch(text) else math.nan for text in plain]
        self.numbers &= bool(np.isfinite(numbers).all()) and not self.padded
        if self.numbers:
            x = np.repeat(numbers, counts)
            self.low, self.high = min(self.low, float(x.min())), max(self.high, float(x.max()))
            self.whole &= bool((x == np.rint(x)).all())
            self.sample.append(np.sort(x)[:: max(1, len(x) // _SAMPLE)])

    @property
    def marks_found(self) -> set[str]:
        """Returns the texts of MARKS that mean a missing value here; a minus does not if there is a plus."""
        return self.marks - {"-", "--"} if "+" in self.texts else self.marks

    @property
    def has_commas(self) -> bool:
        """Returns whether all values would be numbers with a decimal comma."""
        return self.commas and not self.numbers and self.may_have_commas

    def choices(self) -> tuple[str, ...]:
        """Returns the distinct values in order, if there are few."""
        texts = self.texts | (self.marks - self.marks_found)
        if len(texts) > MAX_CATEGORIES or self.unusable:
            return ()
        by_key = {number_key(text): text for text in sorted(texts, reverse=True)}  # one of several spellings
        is_number = self.numbers and all(with_point(text, self.decimal) == text for text in texts)
        if not is_number or all(text.lower() in TRUTH for text in texts):
            return tuple(sorted(by_key.values()))
        return tuple(sorted(by_key, key=float))

    def guess(self) -> Column | str:
        """Returns a column, or the reason for leaving it out."""
        if self.unusable:
            return self.unusable.partition(":")[0]
        if self.times.typed:
            return self._time() or "holds dates and times of several kinds"
        if not self.known:
            return "holds no value"
        choices = self.choices()
        if len(choices) == 1:
            return "never varies"
        if time := self._time():
            return time
        has_gaps = bool(self.gaps or self.marks_found)
        is_flag = self.whole and self.high - self.low == 1
        if self.numbers and not is_flag:
            if self._names_rows():
                return "looks like identifiers"
            most = max(-self.low, self.high)
            if most > LARGEST:
                return f"holds numbers beyond {LARGEST:g}"
            whole = self.whole and most <= LARGEST_WHOLE
            bounds = _nice_bounds(self.low, self.high, whole)
            scale = "log" if self._has_long_tail(bounds) else "linear"
            return Column(self.name, "integer" if whole else "numeric", bounds, scale, missing=has_gaps)
        if not choices or (self.distinct and len(choices) > 10) or (self.has_commas and self._has_signs()):
            if self.padded:
                return "holds codes with leading zeros, such as postcodes: declare categories, or shorter codes"
            if self.has_commas:
                return "holds numbers with a comma; draft with --decimal , if the comma is the decimal separator"
            return "holds too many different texts: free text or identifiers"
        try:
            return Column(self.name, "categorical", categories=choices, missing=has_gaps)
        except DataError:
            return "holds texts that are no valid categories, such as texts that begin with +, -, = or @: rename them"

    def _time(self) -> Column | str | None:
        """Returns a column of dates or times, the reason for leaving it out, or None for other values."""
        span, missing = self.times.span, bool(self.gaps or self.marks_found)
        if self.times.typed and (self.known or span.low == span.high):
            return "holds times among other values" if self.known else "never varies"
        return self.times.guess(missing)

    def _has_signs(self) -> bool:
        return any(text.startswith(("-", "+")) for text in self.texts)

    def _names_rows(self) -> bool:
        consecutive = self.high - self.low == self.known - 1 and self.known > 10
        return self.whole and self.distinct and (consecutive or _IDENTIFIER.search(self.name) is not None)

    def _has_long_tail(self, bounds: tuple[float, float]) -> bool:
        lowest, most = np.quantile(np.concatenate(self.sample), (0.0, 0.9))
        span = bounds[1] - bounds[0]
        return span >= 100 and span > 20 * (most - lowest)


def _nice_bounds(low: float, high: float, whole: bool) -> tuple[float, float]:
    """Returns round numbers around an interval, which look like public bounds: 17 to 90 gives 0 to 100."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= span * (1 - 1e-9)) / 5
    bottom, top = math.floor(low / step) * step, math.ceil(high / step) * step
    bottom = 0.0 if 0 <= low <= span else bottom
    bottom, top, most = float(f"{bottom:.12g}"), float(f"{max(top, bottom + step):.12g}"), LARGEST
    if whole:
        bottom, top, most = float(math.floor(min(bottom, low))), float(math.ceil(max(top, high))), LARGEST_WHOLE
    return max(bottom, -float(most)), min(top, float(most))


def _scale(value: Decimal) -> int:
    """Returns the number of digits after the point."""
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0
