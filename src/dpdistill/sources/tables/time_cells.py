"""Reads one cell of a column of dates, datetimes or durations to a code, by the cell and public facts alone.

Values finer than the resolution are rounded down. Nothing is guessed: texts have the stated format, and times with a
time zone are read only where the schema states one.
"""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from dpdistill.schema import Column
from dpdistill.schema.column import LARGEST_WHOLE
from dpdistill.schema.number_text import NUMBER, TRUTH, with_point
from dpdistill.schema.times import DAYS, EPOCH, EPOCH_MS, NUMBERS, Facts, reader, tokens_of_format
from dpdistill.sources.tables.cells import IGNORE, Fault, Marks, Read, absent_of, cell_of

_TYPES = pa.types
_COMPUTE: Any = pyarrow.compute  # functions are created at import, so that types are unknown
_PARTS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Parts of a second in Arrow's units."""
_FACTORS = {EPOCH: Fraction(1), EPOCH_MS: Fraction(1, 1_000)} | {name: Fraction(n) for name, n in NUMBERS.items()}
"""Seconds of one unit of the formats that are numbers."""


def read_time(column: Column, marks: Marks, decimal: str = ".") -> Read:
    """Returns the reader of a date, datetime or duration: the number of whole units, rounded down.

    Args:
        column: the declared column.
        marks: marks of a missing value.
        decimal: decimal separator of numbers in texts.
    """
    facts, absent = column.time, absent_of(column)
    factor = _FACTORS.get(facts.format)
    parse = None if factor is not None else reader(facts)

    def read(value: object) -> float:
        if _is_missing(value):
            return absent()
        seconds = _typed(value, facts)
        if seconds is not None:
            return _code(seconds, facts)
        cell = cell_of(value)
        if cell is None or (not cell.typed and cell.text in marks.texts) or (cell.text and marks.hold(cell)):
            return absent()
        text = TRUTH.get(cell.text.lower(), cell.text)
        if parse is None:
            number = _number(text if cell.typed else with_point(text, decimal))
            if number is None:
                raise Fault(_no_time(cell.text, facts))
            return _code(number * (factor or 1), facts)
        moment = parse(text)
        if moment is None:
            raise Fault(_no_time(cell.text, facts))
        return _code(moment.seconds - (moment.offset or 0), facts)

    return read


def _is_missing(value: Any) -> bool:
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return type(value).__name__ == "NaTType"


def _code(seconds: Any, facts: Facts) -> float:
    return float(min(max(seconds // facts.unit, -LARGEST_WHOLE), LARGEST_WHOLE))


def _typed(value: Any, facts: Facts) -> int | None:
    """Returns the seconds of a value whose type is a time; None for another type."""
    match value:
        case datetime.datetime():
            _check_kind(facts, "datetime", value.tzinfo is not None)
            clock = value.hour * 3_600 + value.minute * 60 + value.second
            ahead = value.utcoffset() or datetime.timedelta()
            exact = ((value.toordinal() + DAYS) * 86_400 + clock) * 1_000_000 + value.microsecond
            return (exact - ahead // datetime.timedelta(microseconds=1)) // 1_000_000
        case datetime.date():
            _check_kind(facts, "date", False)
            return (value.toordinal() + DAYS) * 86_400
        case datetime.time():
            _check_kind(facts, "time", value.tzinfo is not None)
            return value.hour * 3_600 + value.minute * 60 + value.second
        case datetime.timedelta():
            _check_kind(facts, "duration", False)
            return value.days * 86_400 + value.seconds
        case np.datetime64():
            _check_kind(facts, "datetime", False)
            return int(value.astype("datetime64[s]").astype(np.int64))
        case np.timedelta64():
            _check_kind(facts, "duration", False)
            if np.datetime_data(value)[0] in ("Y", "M"):
                raise Fault("the value is a number of months, which have no fixed length: turn it into days")
            return int(value.astype("timedelta64[s]").astype(np.int64))
    return None


def _check_kind(facts: Facts, kind: str, zoned: bool) -> None:
    """Refuses a time of another kind, or with a time zone where the schema states none, and the other way round."""
    if fault := _mismatch(facts, kind, zoned):
        raise Fault(fault)


def _mismatch(facts: Facts, kind: str, zoned: bool) -> str:
    if (facts.kind == "duration") != (kind in ("duration", "time")) or (kind == "time" and zoned):
        is_length = kind in ("duration", "time")
        found = "a time of a zone" if is_length and zoned else f"a {kind}"
        return f"the value is {found}: declare the kind {'duration' if is_length else kind}, or {IGNORE}"
    if facts.kind != "duration" and zoned and facts.zone is None:
        advice = "declare the kind datetime with a zone" if facts.kind == "date" else "state it (`zone: UTC`)"
        return f"the value has a time zone, and the schema states none: {advice}"
    if facts.zone is not None and not zoned:
        return "the value has no time zone, and the schema states one: leave out `zone` for times of a clock"
    return ""


def _number(text: str) -> Any:
    """Returns the exact number in a text, with limits for very long exponents; None for no finite number."""
    if not NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        return None
    number = Decimal(text)
    if number and number.adjusted() < -40:
        return Fraction(-1 if number < 0 else 1, 10**40)
    return Fraction(number) if number.adjusted() < 40 else Fraction(int(math.copysign(10**40, number)))


def _no_time(text: str, facts: Facts) -> str:
    what = {EPOCH: "seconds since 1970", EPOCH_MS: "milliseconds since 1970"}.get(facts.format, facts.format)
    kind = f"a number of {what}" if facts.format in _FACTORS else f"a {facts.kind} of the format {what}"
    return f"{text[:80]!r} is not {kind}: state the format that the records have, or {IGNORE}"


def is_temporal(kind: Any) -> bool:
    """Returns whether an Arrow type is a date, time or duration that `codes_of_times` reads."""
    kinds = (_TYPES.is_timestamp, _TYPES.is_date, _TYPES.is_time, _TYPES.is_duration)
    return any(is_kind(kind) for is_kind in kinds)


def codes_of_times(column: Column, values: pa.Array) -> tuple[np.ndarray, dict[int, str]]:
    """Returns the codes of an Arrow array of times, (n,), and faults by row: equal to `read_time` cell by cell."""
    facts, kind = column.time, values.type
    known = values.is_valid().to_numpy(zero_copy_only=False)
    wide = pa.int32() if _TYPES.is_date32(kind) or _TYPES.is_time32(kind) else pa.int64()
    counts = values.view(wide).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    fault = _mismatch(facts, *_described(kind))
    wrong = {int(row): fault for row in np.flatnonzero(known)} if fault else {}
    if not column.missing:
        absent = "the value is missing: declare `missing: true` if it may be"
        wrong |= {int(row): absent for row in np.flatnonzero(~known)}
    if _TYPES.is_date32(kind):
        codes = np.floor_divide(counts * 86_400, facts.unit)
    else:
        codes = np.floor_divide(counts, facts.unit * _PARTS["ms" if _TYPES.is_date64(kind) else kind.unit])
    codes = np.clip(codes, -LARGEST_WHOLE, LARGEST_WHOLE).astype(np.float64)
    return np.where(known & (not fault), codes, math.nan), wrong


_WIDTHS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}
"""Parts of a format that have a fixed number of digits in most files."""


def quick_texts(column: Column, marks: Marks, texts: pa.Array) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns codes of an array of texts, (n,), and which of them are certain; None for a format without fixed widths.

    Texts of exactly the format's width, with digits and signs in their places and values in their ranges, have the code
    that `read_time` returns. All others are left to it.
    """
    facts, width, starts, signs = column.time, 0, {}, {}
    for dash, letter, other in tokens_of_format(facts.format):
        if dash or (letter and letter not in _WIDTHS) or (other and not other.isascii()):
            return None
        starts |= {letter: width} if letter else {}
        signs |= {} if letter else {width: ord(other)}
        width += _WIDTHS.get(letter, 1)
    marked = any(len(mark) == width for mark in marks.texts)
    if facts.kind == "duration" or not {"Y", "m", "d"} <= {*starts} or not signs or marked:
        return None
    fits = np.equal(_COMPUTE.binary_length(texts).fill_null(0).to_numpy(zero_copy_only=False), width)
    kept = texts.filter(pa.array(fits))
    cells = np.frombuffer(b"".join(kept.cast(pa.large_binary()).to_pylist()), np.uint8).reshape(-1, width)
    good = np.ones(len(cells), bool)
    for place in range(width):
        sign = signs.get(place)
        good &= cells[:, place] == sign if sign is not None else (cells[:, place] >= 48) & (cells[:, place] <= 57)
    parts = {letter: np.zeros(len(cells), np.int64) for letter in "HMS"}
    for letter, start in starts.items():
        digits = cells[:, start : start + _WIDTHS[letter]].astype(np.int64) - 48
        parts[letter] = digits @ 10 ** np.arange(digits.shape[1])[::-1]
    year, month, day = parts["Y"], parts["m"], parts["d"]
    good &= (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    good &= (parts["H"] <= 23) & (parts["M"] <= 59) & (parts["S"] <= 59)
    months = np.where(good, (year - 1970) * 12 + month - 1, 0)
    first, after = ((months + k).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) for k in (0, 1))
    days = first + day - 1
    good &= days < after
    seconds = days * 86_400 + parts["H"] * 3_600 + parts["M"] * 60 + parts["S"]
    codes, certain = np.full(len(texts), math.nan), np.zeros(len(texts), bool)
    codes[fits], certain[fits] = np.floor_divide(seconds, facts.unit), good
    return codes, certain


def _described(kind: Any) -> tuple[str, bool]:
    """Returns the kind of an Arrow type in words, and whether it has a time zone."""
    if _TYPES.is_timestamp(kind):
        return "datetime", kind.tz is not None
    return ("date" if _TYPES.is_date(kind) else "time" if _TYPES.is_time(kind) else "duration"), False
