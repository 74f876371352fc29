"""Guesses kind, format and bounds of a column of dates or times from its records, for a draft of the owner only."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpdistill.schema import Column, times
from dpdistill.schema.times import EPOCH, UNITS, Facts
from dpdistill.sources.tables.cells import Fault, Marks
from dpdistill.sources.tables.codes import Values
from dpdistill.sources.tables.time_cells import codes_of_times, is_temporal, read_time

_DAYS = (
    *("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d %b %Y"),
    *("%d-%b-%Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%Y%m%d"),
)
_CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%SZ", "%H:%M:%S%z", "%I:%M %p", "%I:%M:%S %p")
CANDIDATES = (
    *(("date", format) for format in _DAYS),
    *(("datetime", f"{day}{gap}{clock}") for day in _DAYS for gap in (" ", "T") for clock in _CLOCKS),
    *(("duration", format) for format in ("%H:%M", "%H:%M:%S", "%M:%S")),
)
"""Kinds and formats that a draft tries on texts; the first that reads all texts is drafted, others are named."""
_TIME_NAME = re.compile(r"time|stamp|epoch|date|(^|_)(at|on|ts)$", re.IGNORECASE)
_SINCE, _UNTIL = 631_152_000, 2_524_608_000
"""Seconds of 1990 and 2050, between which whole numbers may be seconds since 1970."""
_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


@dataclass
class _Span:
    """Least and largest number of seconds, and the largest unit that divides all of them."""

    low: int = 10**18
    high: int = -(10**18)
    divisor: int = 0

    def add(self, seconds: np.ndarray) -> None:
        self.low, self.high = min(self.low, int(seconds.min())), max(self.high, int(seconds.max()))
        self.divisor = math.gcd(self.divisor, *map(int, np.unique(seconds % 86_400)), 86_400)


@dataclass
class TimeLook:
    """Statistics of a column that may hold times, collected in batches.

    Args:
        name: name of the column.
        readings: kinds and formats that read all texts so far.
        typed: kinds of values whose type is a time, and whether they have a time zone.
    """

    name: str
    readings: dict[tuple[str, str], _Span] | None = None
    typed: set[tuple[str, bool]] = field(default_factory=set)
    span: _Span = field(default_factory=_Span)
    gaps: bool = False

    def add_typed(self, values: Values) -> bool:
        """Adds a batch of values whose types are times, and returns True; False for a batch of other values."""
        if isinstance(values, pa.Array):
            array: Any = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values  # type: ignore
            if not is_temporal(array.type):
                return False
            kind, zoned = _described(array.type)
            seconds = codes_of_times(_plain(kind, zoned), array)[0]
            self._add(kind, zoned, seconds)
            return True
        known = [value for value in values if value is not None and type(value).__name__ not in ("NaTType", "NAType")]
        if not known or not all(isinstance(value, _TIMES) for value in known):
            return False
        for kind, zoned in {_described_value(value) for value in known}:
            read = read_time(_plain(kind, zoned), Marks.of(()))
            seconds = [_seconds(read, value) for value in known if _described_value(value) == (kind, zoned)]
            self._add(kind, zoned, np.array(seconds))
        self.gaps |= len(known) < len(values)
        return True

    def _add(self, kind: str, zoned: bool, seconds: np.ndarray) -> None:
        known = seconds[np.isfinite(seconds)].astype(np.int64)
        self.gaps |= len(known) < len(seconds)
        if len(known):
            self.typed.add((kind, zoned))
            self.span.add(known)

    def add_texts(self, texts: Iterable[str]) -> None:
        """Adds distinct texts: keeps the formats that read all of them."""
        texts = list(texts)
        if self.readings is None:
            self.readings = {candidate: _Span() for candidate in CANDIDATES}
            if _TIME_NAME.search(self.name):
                self.readings |= {("datetime", EPOCH): _Span(), ("duration", "%H%M"): _Span()}
        for candidate in [*self.readings]:
            seconds = _read(candidate, texts)
            if seconds is None:
                del self.readings[candidate]
            else:
                self.readings[candidate].add(seconds)

    def guess(self, missing: bool) -> Column | None:
        """Returns a column of times, or None."""
        if self.typed:
            (kind, zoned), *others = self.typed
            return None if others else _column(self.name, kind, None, self.span, missing or self.gaps, zoned)
        for (kind, format), span in (self.readings or {}).items():
            return _column(self.name, kind, format, span, missing, "%z" in format or format.endswith("Z"))
        return None

    @property
    def others(self) -> str:
        """Returns a sentence about further formats that read all texts, or an empty text."""
        formats = list({format.replace("%z", "Z"): format for _, format in reversed(self.readings or {})}.values())[
            ::-1
        ]
        if len(formats) < 2 or self.typed:
            return ""
        first, second = formats[:2]
        if {first[:2], second[:2]} == {"%d", "%m"}:
            return f"; 03/04/2026 is 3 April with the format {first}, and 4 March with {second}: state the right one"
        return f"; the format {second} reads the records, too: state the right one"


def _read(candidate: tuple[str, str], texts: list[str]) -> np.ndarray | None:
    kind, format = candidate
    if format == EPOCH:
        if not all(text.isascii() and text.isdigit() and _SINCE <= int(text) <= _UNTIL for text in texts):
            return None
        return np.array([int(text) for text in texts], np.int64)
    read, seconds = times.reader(Facts(kind, "second", format, None)), []
    if format == "%H%M" and any(len(text) > 4 for text in texts):
        return None
    for text in texts:
        moment = read(text)
        if moment is None or (format == "%Y%m%d" and not text.startswith(("19", "20"))):
            return None
        seconds.append(moment.seconds - (moment.offset or 0))
    return np.array(seconds, np.int64) if seconds else None


def _described(kind: Any) -> tuple[str, bool]:
    if pa.types.is_timestamp(kind):
        return "datetime", kind.tz is not None
    return ("date" if pa.types.is_date(kind) else "duration"), False


def _described_value(value: object) -> tuple[str, bool]:
    if isinstance(value, datetime.datetime | np.datetime64):
        return "datetime", getattr(value, "tzinfo", None) is not None
    return ("date" if isinstance(value, datetime.date) else "duration"), False


def _plain(kind: str, zoned: bool) -> Column:
    """Returns a column that reads values of a kind in seconds."""
    facts: dict[str, Any] = {"bounds": (0.0, 10.0), "missing": True, "zone": "UTC" if zoned else None}
    return Column("x", "datetime" if kind == "date" else kind, **facts)  # type: ignore[arg-type]


def _seconds(read: Any, value: object) -> float:
    try:
        return read(value)
    except Fault:
        return math.nan


def _column(name: str, kind: str, format: str | None, span: _Span, missing: bool, zoned: bool) -> Column:
    resolution = next(unit for unit, seconds in UNITS.items() if span.divisor % seconds == 0)
    if kind == "date" or (format is None and kind == "datetime" and resolution == "day" and not zoned):
        kind, resolution = "date", "day"
    unit = UNITS[resolution]
    low, high = _bounds(kind, format, span, unit)
    column: Any = {"missing": missing, "zone": "UTC" if zoned else None}
    column["resolution"] = None if resolution == ("day" if kind == "date" else "second") else resolution
    found = Column(name, kind, (low, high), **column)  # type: ignore[arg-type]
    return found if format in (None, found.time.format) else replace(found, format=format)


def _bounds(kind: str, format: str | None, span: _Span, unit: int) -> tuple[float, float]:
    """Returns bounds around a span that look like public ones: whole years, months or days."""
    if kind == "duration":
        day = 86_400 // unit - 1
        if span.low >= 0 and span.high < 86_400 and (format or "%H").startswith("%H"):
            return 0.0, float(day)
        return float(min(0, span.low // unit)), float(-(-span.high // unit) + 1)
    first, last = (times.moment_of(end) for end in (span.low, span.high))
    if span.high - span.low > 366 * 86_400:
        start, stop = datetime.datetime(first.year, 1, 1), datetime.datetime(last.year, 12, 31)
    else:
        start = first.replace(day=1, hour=0, minute=0, second=0)
        stop = (last.replace(day=28) + datetime.timedelta(days=4)).replace(day=1, hour=0, minute=0, second=0)
        stop -= datetime.timedelta(days=1)
    zero = datetime.datetime(1970, 1, 1)
    ends = [int((each - zero).total_seconds()) for each in (start, stop)]
    return float(ends[0] // unit), float((ends[1] + 86_400 - unit) // unit)
