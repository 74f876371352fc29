"""Dates, times and durations as whole numbers of a stated unit, and as texts of a stated format.

A code is a number of units: since 1970-01-01 00:00 for a date or datetime, in UTC if a time zone is stated; of length
for a duration. No function here depends on a locale or on the time zone of the machine.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from dpdistill.schema.errors import DataError

UNITS = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
"""Resolutions, in seconds."""
NUMBERS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
"""Formats of durations that are numbers, in seconds."""
EPOCH, EPOCH_MS = "epoch", "epoch ms"
"""Formats of datetimes that are whole numbers: seconds or milliseconds since 1970-01-01 00:00 UTC."""
KINDS = ("date", "datetime", "duration")
DAYS = -datetime.date(1970, 1, 1).toordinal()
FIRST = (datetime.date(1, 1, 2).toordinal() + DAYS) * 86_400
LAST = (datetime.date(9999, 12, 30).toordinal() + DAYS) * 86_400
"""Earliest and latest second: one day within the years 1 to 9999, so that no time zone leads out of them."""
_TWO_DIGITS = (-364 * 86_400, 36_158 * 86_400)
LONGEST = 10**12
"""Longest duration in seconds, 31,000 years."""
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
_SHORT = tuple(name[:3] for name in MONTHS)
_PARTS = {
    "Y": r"(?P<Y>[0-9]{4})",
    "y": r"(?P<y>[0-9]{2})",
    "m": r"(?P<m>[0-9]{1,2})",
    "d": r"(?P<d>[0-9]{1,2})",
    "b": rf"(?P<b>{'|'.join(_SHORT)})",
    "B": rf"(?P<B>{'|'.join(MONTHS)})",
    "H": r"(?P<H>[0-9]{1,2})",
    "I": r"(?P<I>[0-9]{1,2})",
    "p": r"(?P<p>[AP]M)",
    "M": r"(?P<M>[0-9]{1,2})",
    "S": r"(?P<S>[0-9]{1,2})(?:\.[0-9]{1,9})?",
    "z": r"(?P<z>Z|[+-][0-9]{2}:?[0-9]{2}(?::?[0-9]{2})?)",
}
_NUMBERS = {*"YymdHIMS"}
"""Letters of the parts that are digits."""
_TOKEN = re.compile(r"%(-?)([A-Za-z%])|([^%])", re.DOTALL)
_CLOCK = {"day": "", "hour": "H", "minute": "HM", "second": "HMS"}
"""Parts of a clock that write every unit of a resolution."""
_LENGTHS = {"H": 3_600, "M": 60, "S": 1}
Reader = Callable[[str], "Moment | None"]


class Moment(NamedTuple):
    """Result of reading a text.

    Args:
        seconds: seconds since 1970-01-01 00:00 of the clock that the text shows, or the length of a duration.
        offset: seconds by which that clock is ahead of UTC; None if the text does not say.
    """

    seconds: int
    offset: int | None = None


class Facts(NamedTuple):
    """Facts of a column of times.

    Args:
        kind: date, datetime or duration.
        resolution: day, hour, minute or second.
        format: text format, such as %d/%m/%Y; `epoch` or `epoch ms`; or a plural such as minutes for a duration.
        zone: name of a time zone, or None for times of a clock without zone.
    """

    kind: str
    resolution: str
    format: str
    zone: str | None

    @property
    def unit(self) -> int:
        """Seconds of one unit of a code."""
        return UNITS[self.resolution]


def facts_of(name: str, kind: str, resolution: str | None, format: str | None, zone: str | None) -> Facts:
    """Returns the facts of a column of times, with defaults for those that are not stated.

    Raises:
        DataError: facts that contradict each other, or a format that cannot hold every value.
    """
    resolution = resolution or ("day" if kind == "date" else "second")
    if resolution not in UNITS or (kind == "date") > (resolution == "day"):
        known = "day" if kind == "date" else ", ".join(UNITS)
        raise DataError(f"Expected resolution of {name}, which is a {kind}, among {known}; got {resolution!r:.80}.")
    if zone is not None:
        if kind != "datetime":
            raise DataError(f"Expected no time zone of {name}, which is a {kind}; got {zone!r:.80}.")
        _require_zone(name, zone)
    facts = Facts(kind, resolution, format or _default(kind, resolution, zone), zone)
    if kind == "duration":
        _check_duration(name, facts)
    elif (kind, facts.format) not in (("datetime", EPOCH), ("datetime", EPOCH_MS)):
        _check_calendar(name, facts)
    return facts


def _default(kind: str, resolution: str, zone: str | None) -> str:
    if kind == "duration":
        return f"{resolution}s"
    if kind == "date":
        return "%Y-%m-%d"
    return "%Y-%m-%d %H:%M:%S" if zone is None else "%Y-%m-%dT%H:%M:%SZ" if zone == "UTC" else "%Y-%m-%dT%H:%M:%S%z"


def _require_zone(name: str, zone: str) -> None:
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, KeyError):  # an unknown name is a KeyError
        raise DataError(
            f"Expected the time zone of {name} as a name such as UTC or Europe/Berlin; got {zone!r:.80}."
        ) from None


def _check_calendar(name: str, facts: Facts) -> None:
    parts = _parts(name, facts)
    clock = {"I" if letter == "H" and {"I", "p"} <= {*parts} else letter for letter in _CLOCK[facts.resolution]}
    month = next((letter for letter in "bB" if letter in parts), "m")
    if missing := sorted({"y" if "y" in parts else "Y", month, "d", *clock} - {*parts}):
        raise DataError(
            f"Expected a format of {name} that writes every {facts.resolution}, with %{', %'.join(missing)}; got "
            f"{facts.format!r:.80}."
        )
    if facts.zone is None and "z" in parts:
        raise DataError(f"Expected the time zone of {name}, as its format has %z: state `zone: UTC`, for instance.")
    if facts.zone not in (None, "UTC") and "z" not in parts:
        raise DataError(
            f"Expected a format of {name} with %z, the difference from UTC: without it an hour of autumn is there "
            f"twice in {facts.zone}. For times of a clock, state no zone."
        )


def _check_duration(name: str, facts: Facts) -> None:
    if facts.format in NUMBERS:
        finest = NUMBERS[facts.format]
    else:
        parts = _parts(name, facts)
        finest = _LENGTHS[parts[-1]] if parts in (["H", "M"], ["H", "M", "S"], ["M", "S"]) else LONGEST
    if finest > facts.unit:
        raise DataError(
            f"Expected the format of {name}, a duration, among {', '.join(NUMBERS)}, %H:%M, %H:%M:%S, %M:%S and %H%M, "
            f"which writes every {facts.resolution}; got {facts.format!r:.80}."
        )


def _parts(name: str, facts: Facts) -> list[str]:
    """Returns the letters of a format, in order."""
    tokens = _TOKEN.findall(facts.format)
    letters = [letter for _, letter, _ in tokens if letter and letter != "%"]
    plain = sum(2 + len(dash) if letter else 1 for dash, letter, _ in tokens) == len(facts.format)
    if not letters or not plain or len({*letters}) < len(letters) or not {*letters} <= {*_PARTS}:
        raise DataError(
            f"Expected the format of {name} with each of %{', %'.join(_PARTS)} at most once; got {facts.format!r:.80}."
        )
    if not facts.format.isprintable() or facts.format != facts.format.strip() or facts.format[0] in "=+-@":
        raise DataError(f"Expected the format of {name} without spaces around it and without a formula's first sign.")
    return letters


def tokens_of_format(format: str) -> list[tuple[str, str, str]]:
    """Returns the parts of a format, in order: (a dash or nothing, a letter after %, another character)."""
    return _TOKEN.findall(format)


@lru_cache(maxsize=256)
def reader(facts: Facts) -> Reader:
    """Returns the function from a stripped text to its moment; None for a text of another format."""
    if facts.format in (EPOCH, EPOCH_MS, *NUMBERS):
        raise ValueError(f"Expected a format of texts; got {facts.format}.")
    tokens, pattern = _TOKEN.findall(facts.format), ""
    is_number = [letter in _NUMBERS for _, letter, _ in tokens]
    for i, (_, letter, other) in enumerate(tokens):
        part = _PARTS.get(letter, "%") if letter else re.escape(other)
        if facts.kind == "duration" and is_number[i] and not any(is_number[:i]):
            part = part.replace("{1,2}", "{1,9}")
        elif is_number[i] and (any(is_number[max(i - 1, 0) : i]) or any(is_number[i + 1 : i + 2])):
            part = part.replace("{1,2}", "{2}")  # 2020115 could be two dates
        pattern += part
    match = re.compile(f"(?P<sign>-?){pattern}" if facts.kind == "duration" else pattern).fullmatch
    convert = _duration if facts.kind == "duration" else _calendar

    width = 2 * len(tokens) if all(is_number) and facts.kind == "duration" else 0

    def read(text: str) -> Moment | None:
        text = text.removesuffix(".0") if all(is_number) else text  # a number, of which programs make 517.0
        found = match(text.zfill(width))  # 517 is 05:17 with the format %H%M, 5 is 00:05
        return None if found is None else convert(found.groupdict())

    return read


def _duration(found: dict[str, Any]) -> Moment | None:
    parts = [(letter, int(found[letter])) for letter in "HMS" if found.get(letter)]
    if any(value > 59 for _, value in parts[1:]):
        return None
    seconds = sum(value * _LENGTHS[letter] for letter, value in parts)
    return Moment(-seconds if found["sign"] else seconds)


def _calendar(found: dict[str, Any]) -> Moment | None:
    year = int(found["Y"]) if found.get("Y") else int(found["y"]) + (2000 if int(found["y"]) < 69 else 1900)
    month = next((names.index(found[key]) + 1 for key, names in (("b", _SHORT), ("B", MONTHS)) if found.get(key)), 0)
    hour = int(found.get("H") or found.get("I") or 0)
    if found.get("p"):
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (found["p"] == "PM")
    try:
        days = datetime.date(year, month or int(found["m"]), int(found["d"])).toordinal() + DAYS
        clock = datetime.time(hour, int(found.get("M") or 0), int(found.get("S") or 0))
    except ValueError:
        return None
    seconds = days * 86_400 + clock.hour * 3_600 + clock.minute * 60 + clock.second
    return Moment(seconds, _offset(found.get("z")))


def _offset(text: str | None) -> int | None:
    if text is None or text == "Z":
        return None if text is None else 0
    digits = text[1:].replace(":", "").ljust(6, "0")
    seconds = int(digits[:2]) * 3_600 + int(digits[2:4]) * 60 + int(digits[4:])
    return -seconds if text[0] == "-" else seconds


def writer(facts: Facts) -> Callable[[int], str]:
    """Returns the function from a code to its text in the format of the column."""
    unit, zone = facts.unit, None if facts.zone is None else ZoneInfo(facts.zone)
    if facts.format in (EPOCH, EPOCH_MS):
        return lambda code: str(code * unit * (1_000 if facts.format == EPOCH_MS else 1))
    if facts.format in NUMBERS:
        return lambda code: str(code * unit // NUMBERS[facts.format])
    tokens = [(dash, letter, other) for dash, letter, other in _TOKEN.findall(facts.format)]

    def write(code: int) -> str:
        if facts.kind == "duration":
            return _write_duration(code * unit, tokens)
        when = moment_of(code * unit, zone)
        return "".join(_write_part(when, dash, letter) if letter else other for dash, letter, other in tokens)

    return write


def moment_of(seconds: int, zone: ZoneInfo | None = None) -> datetime.datetime:
    """Returns the time of a clock in a zone, or without one, from seconds since 1970-01-01 00:00."""
    when = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return when if zone is None else when.replace(tzinfo=datetime.UTC).astimezone(zone)


def _write_duration(seconds: int, tokens: list[tuple[str, str, str]]) -> str:
    rest, text, first = abs(seconds), "", True
    for _, letter, other in tokens:
        if not letter or letter == "%":
            text += other or "%"
            continue
        count, rest = divmod(rest, _LENGTHS[letter])
        text, first = text + (f"{count}" if first and count > 99 else f"{count:02d}"), False
    return f"-{text}" if seconds < 0 else text


def _write_part(when: datetime.datetime, dash: str, letter: str) -> str:
    match letter:
        case "Y":
            return f"{when.year:04d}"
        case "y":
            return f"{when.year % 100:02d}"
        case "b":
            return _SHORT[when.month - 1]
        case "B":
            return MONTHS[when.month - 1]
        case "p":
            return "PM" if when.hour >= 12 else "AM"
        case "z":
            return _write_offset(when)
        case "%":
            return "%"
    value = {"m": when.month, "d": when.day, "H": when.hour, "I": (when.hour + 11) % 12 + 1, "M": when.minute}
    return f"{value.get(letter, when.second):{'' if dash else '02'}d}"


def _write_offset(when: datetime.datetime) -> str:
    seconds = int((when.utcoffset() or datetime.timedelta()).total_seconds())
    hours, rest = divmod(abs(seconds), 3_600)
    minutes, rest = divmod(rest, 60)
    return f"{'-' if seconds < 0 else '+'}{hours:02d}{minutes:02d}{f'{rest:02d}' if rest else ''}"


def bound_code(facts: Facts, text: str) -> int:
    """Returns the code of a bound: a date such as 2020-01-31, or a time such as 2020-01-31 09:30, in UTC with a zone.

    Raises:
        ValueError: another text.
    """
    for format in ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S")[: 1 if facts.kind == "date" else 3]:
        moment = reader(Facts("datetime", "day", format, None))(text.strip().replace("T", " "))
        if moment is not None:
            return moment.seconds // facts.unit
    raise ValueError(text)


def bound_text(facts: Facts, code: int) -> str:
    """Returns the text from which `bound_code` reads a code."""
    when = moment_of(code * facts.unit)
    day = f"{when.year:04d}-{when.month:02d}-{when.day:02d}"
    seconds = f":{when.second:02d}" if when.second else ""
    return day if facts.kind == "date" else f"{day} {when.hour:02d}:{when.minute:02d}{seconds}"


def check_bounds(name: str, facts: Facts, low: float, high: float) -> None:
    """Refuses bounds of times that are no codes, or that a file cannot hold.

    Raises:
        DataError: such bounds.
    """
    first, last = (-LONGEST, LONGEST) if facts.kind == "duration" else (FIRST, LAST)
    if low % 1 or high % 1:
        raise DataError(f"Expected bounds of {name} as whole numbers of {facts.resolution}s; got {low!r} and {high!r}.")
    if low * facts.unit < first or high * facts.unit > last:
        most = f"of at most {LONGEST:,} seconds" if facts.kind == "duration" else "from 0001-01-02 to 9999-12-30"
        raise DataError(f"Expected bounds of {name} {most}.")
    if facts.kind == "duration":
        if low < 0 and facts.format not in NUMBERS:
            raise DataError(
                f"Expected bounds of {name} from 0 on for the format {facts.format}: a spreadsheet takes a text that "
                "begins with - for a formula. State a unit as format, such as minutes."
            )
    elif "%y" in facts.format and (low * facts.unit < _TWO_DIGITS[0] or high * facts.unit > _TWO_DIGITS[1]):
        raise DataError(
            f"Expected bounds of {name} from 1969-01-02 to 2068-12-30, which years of two digits (%y) mean."
        )


def code_of_bound(name: str, facts: Facts, bound: Any) -> Any:
    """Returns the code of a bound of a column: a text, a date of Python, or a code itself.

    Raises:
        DataError: a text that is no bound.
    """
    if isinstance(bound, datetime.date) and not getattr(bound, "tzinfo", None):
        bound = str(bound)
    if not isinstance(bound, str):
        return bound
    try:
        return float(bound) if facts.kind == "duration" else float(bound_code(facts, bound))
    except ValueError:
        form = "2020-01-31" if facts.kind == "date" else "2020-01-31 or 2020-01-31 09:30"
        kind = f"numbers of {facts.resolution}s" if facts.kind == "duration" else f"texts such as {form}"
        raise DataError(f"Expected bounds of {name}, which is a {facts.kind}, as {kind}; got {bound!r:.80}.") from None
