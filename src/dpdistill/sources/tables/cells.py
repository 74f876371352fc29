"""Reads one cell of a table to a code, `read(value) -> code`, by the cell and public facts alone.

A code is a number, the index of a category or of a class, or NaN for a missing value. No function here depends on a
second cell, the type of a column or a batch. Tests compare the faster functions for whole columns (`codes`).
"""

from __future__ import annotations

import datetime
import math
import re
import unicodedata
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, cast

import numpy as np

from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.schema.number_text import COMMA_NUMBER, NUMBER, TRUTH, decimal_text, number_key, with_point
from dpdistill.storage.unit_names import unit_key

LARGEST = float(np.finfo(np.float32).max)
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?", re.ASCII)
IGNORE = "list the column under ignored"
FORMS = "One name looks the same in another Unicode form (é is one character, or two): use one form."
_MAX_BITS = 4_000
_TIMES = cast(tuple[type, ...], (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64))
_BYTES = (bytes, bytearray, memoryview)


class Fault(Exception):
    """Error about a value or column that cannot be encoded."""


class Cell(NamedTuple):
    """Value that is not missing.

    Args:
        text: the stripped text, or the shortest text of a number.
        typed: True if the type of the value is a number or a truth value, independently of the decimal separator.
    """

    text: str
    typed: bool


Read = Callable[[Any], float]
"""Type of a reader from a cell to its code; raises Fault for a value that cannot be encoded."""


def cell_of(value: object) -> Cell | None:
    """Returns the text of a Python value, and whether its type is a number; None for a missing value.

    Args:
        value: value from pandas, Arrow or a database driver.

    Raises:
        Fault: a value of another type, such as a date.
    """
    match value:
        case None:
            return None
        case str():
            return Cell(str.strip(value), False)
        case np.timedelta64() if not np.isnat(value):  # which NumPy counts among its integers
            raise Fault(_what_it_is(value))
        case np.timedelta64():
            return None
        case bool() | np.bool_():
            return Cell("true" if bool(value) else "false", True)
        case int() | np.integer():
            return Cell(_whole_text(int(value)), True)
        case float() | np.floating():
            return None if math.isnan(value) else Cell(_float_text(value), True)
        case Decimal():
            return None if value.is_nan() else Cell(decimal_text(value), True)
        case uuid.UUID():
            return Cell(str(value), False)
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, np.datetime64) and np.isnat(value)):
        return None
    raise Fault(_what_it_is(value))


def _whole_text(value: int) -> str:
    if value.bit_length() > _MAX_BITS:  # Python cannot print larger integers
        raise Fault("the value is a whole number of more than 1,000 digits")
    return str(value)


def _float_text(value: Any) -> str:
    """Returns the shortest text that reads back to the same value at its precision."""
    kind = getattr(value, "dtype", None)
    text = str(np.float32(value)) if kind in (np.float16, np.float32) else repr(float(value))
    return text.removesuffix(".0")


def _what_it_is(value: object) -> str:
    if isinstance(value, _TIMES):
        return f"the value is a date or a time: declare the kind date, datetime or duration, or {IGNORE}"
    if isinstance(value, _BYTES):
        return f"the value is bytes: decode it into a text, or {IGNORE}"
    return f"the value is of type {type(value).__name__}: turn it into a number or a text, or {IGNORE}"


@dataclass(frozen=True)
class Marks:
    """Texts that stand for a missing value.

    Args:
        texts: the texts as written.
        keys: `number_key` of each.
        numbers: their numbers under the decimal separator of texts.
    """

    texts: frozenset[str]
    keys: frozenset[str]
    numbers: frozenset[float]

    @classmethod
    def of(cls, missing: Iterable[str], decimal: str = ".") -> Marks:
        """Returns the marks of `csv.missing`; a number with a point keeps its meaning if a comma is not possible."""
        texts = frozenset(text.strip() for text in missing)
        plain = [with_point(text, decimal) or text for text in texts]
        return cls(
            texts,
            frozenset(map(number_key, texts)),
            frozenset(filter(math.isfinite, (float(t) for t in plain if NUMBER.fullmatch(t)))),
        )

    def hold(self, cell: Cell) -> bool:
        """Returns whether a cell of a column of texts stands for a missing value."""
        if cell.typed:
            return bool(self.numbers) and float(TRUTH.get(cell.text, cell.text)) in self.numbers
        return number_key(cell.text) in self.keys


def read_number(column: Column, marks: Marks, decimal: str = ".") -> Read:
    """Returns the reader of a numeric or integer column: a number is its code, clipped to the range of float32.

    Args:
        column: the declared column.
        marks: marks of a missing value.
        decimal: decimal separator of numbers in texts.
    """
    absent, whole = absent_of(column), column.kind == "integer"

    def read(value: object) -> float:
        cell = cell_of(value)
        if cell is None or (not cell.typed and cell.text in marks.texts):
            return absent()
        text = TRUTH.get(cell.text.lower(), cell.text)
        plain = text if cell.typed else with_point(text, decimal)
        if not NUMBER.fullmatch(plain):
            raise Fault(_no_number(cell.text, decimal))
        number = float(plain)
        if number in marks.numbers:
            return absent()
        if not math.isfinite(number):
            raise Fault(f"{cell.text[:80]!r} is not finite")
        if whole and not number.is_integer():
            raise Fault(f"{cell.text[:80]!r} is not a whole number: declare the column numeric")
        return min(max(number, -LARGEST), LARGEST) + 0.0  # turns -0.0 into 0.0

    return read


def _no_number(text: str, decimal: str) -> str:
    """Returns why a text is no finite number, with advice."""
    shown = repr(text[:80])
    if text.lower().strip("+-") in ("inf", "infinity"):
        return f"{shown} is not finite"
    if DATE.fullmatch(text):
        return f"{shown} is a date: declare the kind date or datetime with its format, or {IGNORE}"
    if decimal == "." and "," in text and COMMA_NUMBER.fullmatch(text):
        return f"{shown} has a comma: if the comma is the decimal separator, write `csv: {{decimal: ','}}`"
    return f"{shown} is not a number: declare categories, or {IGNORE} (free text, identifiers)"


def read_category(column: Column, marks: Marks) -> Read:
    """Returns the reader of a categorical or ordinal column, to the index of a category."""
    index = {name: i for i, name in enumerate(column.categories)}
    advice = f"is not one of its {len(index)} categories: add it, declare a category `other`, or {IGNORE}"
    return _choice(index, marks, absent_of(column), advice, None if column.other is None else index[column.other])


def read_label(schema: TableSchema, marks: Marks) -> Read:
    """Returns the reader of the label, to the index of a class."""
    if schema.label is None:
        raise DataError("Expected a table with a label; got one without.")
    index = {name: k for k, name in enumerate(schema.classes)}
    index |= {value: k for k, group in enumerate(schema.label_values) for value in group}

    def absent() -> float:
        raise Fault("the label is missing")

    return _choice(index, marks, absent, f"is none of the {len(schema.classes)} classes", None)


def read_unit(marks: Marks, index: dict[str, int]) -> Read:
    """Returns the reader of the column of units, to indices in the order of first appearance.

    The index of a unit depends on earlier rows. That does not change any sum, since only equality of indices is used.
    A fault states that a unit is missing; no message shows the name of a unit.

    Args:
        marks: marks of a missing name, besides `unit_names.NO_UNIT` and negative numbers.
        index: mapping from names to indices, which the reader fills.
    """

    def read(value: object) -> float:
        try:
            cell = cell_of(value)
        except Fault:
            raise Fault(
                f"the row has a unit of type {type(value).__name__}: turn units into numbers or texts"
            ) from None
        key = None if cell is None or marks.hold(cell) else unit_key(cell.text)
        if key is None:
            raise Fault("the row has no unit")
        return float(index.setdefault(key, len(index)))

    return read


def absent_of(column: Column) -> Callable[[], float]:
    """Returns the function for a missing value: NaN, or a fault."""

    def absent() -> float:
        if not column.missing:
            raise Fault("the value is missing: declare `missing: true` if it may be")
        return math.nan

    return absent


def _choice(index: dict[str, int], marks: Marks, absent: Callable[[], float], advice: str, other: int | None) -> Read:
    by_key: dict[str, int] = {}
    for text, i in index.items():
        if by_key.setdefault(number_key(text), i) != i:
            raise DataError(f"Two categories or classes mean the number {text[:80]!r}: declare one of them.")

    def read(value: object) -> float:
        cell = cell_of(value)
        if cell is None:
            return absent()
        key = number_key(cell.text)
        if key not in by_key and marks.hold(cell):
            return absent()
        found = by_key.get(key, other)
        if found is None:
            alike = like(cell.text, index)
            form = "differs only by its Unicode form from a declared value (é may be one character or two)"
            raise Fault(f"{cell.text[:80]!r} {f'{form}: use one form' if alike else advice}")
        return float(found)

    return read


def like(text: str, others: Iterable[str]) -> bool:
    """Returns whether another text differs by its Unicode form alone (é may be one character or two)."""
    plain = unicodedata.normalize("NFC", text)
    return any(plain == unicodedata.normalize("NFC", other) for other in others)
