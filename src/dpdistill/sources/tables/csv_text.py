"""Handles the text of CSV files: ends of rows, spaces before quotes, and error sentences."""

from __future__ import annotations

import re

NOT_UTF8 = "is not UTF-8 text: save it as CSV UTF-8, or convert it: iconv -f WINDOWS-1252 -t UTF-8 FILE > table.csv"
HEADER = "expected a line of names that ends in \\n or \\r\\n, with all its quotes closed"
_QUOTED = rb'(\A|[%s\r\n]) *("(?:[^"]|"")*+"?)'
RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")


def sentence(problem: str, before: int) -> str:
    """Returns a sentence for Arrow's error about a CSV file, after a number of earlier rows."""
    if ragged := RAGGED.search(problem):
        row, expected, found = ragged.groups()
        return f"has {found} fields in {f'row {before + int(row)}' if row else 'a row'}; expected {expected}"
    if "UTF8" in problem:
        return NOT_UTF8
    return "cannot be read as CSV: check its separator and quotes"


def end_of_rows(text: bytes, separator: str) -> int:
    """Returns the end of the last line outside quotes, which open only at the start of a field; 0 without one."""
    quoted = re.finditer(_QUOTED % re.escape(separator.encode()), text) if b'"' in text else ()
    stop = len(text)
    for field in [*quoted][::-1]:
        if end := _last_line_end(text, field.end(), stop):
            return end
        stop = field.start() + 1  # the line end or separator before it
    return _last_line_end(text, 0, stop)


def unspaced(rows: bytes, separator: str) -> bytes:
    """Removes spaces before opening quotes, which Arrow would read as text."""
    if separator == " " or b' "' not in rows:
        return rows
    return re.sub(_QUOTED % re.escape(separator.encode()), rb"\1\2", rows)


def _last_line_end(text: bytes, start: int, stop: int) -> int:
    return max(text.rfind(b"\n", start, stop), text.rfind(b"\r", start, stop)) + 1
