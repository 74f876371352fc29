"""Values of a table's columns as codes: numbers, indices of categories and classes; NaN where one is missing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from dpdistill.data.number_text import COMMA_NUMBER, NUMBER, PLAIN, TRUTH, is_negative, number_key, with_point
from dpdistill.schema import Column, DataError, TableSchema

_COMPUTE: Any = pyarrow.compute  # which makes its functions when it is imported
_NUMBERS = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal)
_LARGEST = float(np.finfo(np.float32).max)
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?", re.ASCII)
_IGNORE = "list the column under ignored"


class Fault(Exception):
    """A value, or a column, that cannot be encoded, in words."""


Encode = Callable[[pa.Array], tuple[np.ndarray, dict[int, str]]]


def encoder(column: Column, missing: Iterable[str], decimal: str = ".") -> Encode:
    """The map from a batch of a column's values to codes (n,), float64, and the faults in words, by row.

    A number is its own code, a category has its index; NaN where a value is missing or at fault.

    Args:
        column: as it is declared.
        missing: texts that stand for a missing value.
        decimal: what fractions begin with in texts that are numbers.
    """
    absent = _absent(None if column.missing else "the value is missing: declare `missing: true` if it may be")
    if column.is_number:
        return _numbers(column, frozenset(missing), absent, decimal)
    index = {name: i for i, name in enumerate(column.categories)}
    advice = f"is not one of its {len(index)} categories: add it, declare a category `other`, or {_IGNORE}"
    return _choices(index, frozenset(missing), absent, advice, None if column.other is None else index[column.other])


def label_encoder(schema: TableSchema, missing: Iterable[str]) -> Encode:
    """The map from a batch of labels to class indices (n,), float64, and the faults in words, by row."""
    index = {name: k for k, name in enumerate(schema.classes)}
    index |= {value: k for k, group in enumerate(schema.label_values) for value in group}
    advice = f"stands for none of the {len(schema.classes)} classes"
    return _choices(index, frozenset(missing), _absent("the label is missing"), advice, None)


def unit_encoder(missing: Iterable[str], index: dict[str, int]) -> Encode:
    """The map from a batch of names of units to their indices (n,), float64, in the order in which they first come.

    A fault says that one is missing, as it is where a number is negative; no text here shows what names a unit.

    Args:
        missing: texts that stand for a missing name.
        index: filled with the indices by name.
    """

    absent, marks = _absent("the row has no unit"), frozenset(missing)

    def code(text: str) -> float:
        key = number_key(text)
        if is_negative(key):
            return absent()
        return float(index.setdefault(key, len(index)))

    def encode(values: pa.Array) -> tuple[np.ndarray, dict[int, str]]:
        if pa.types.is_temporal(values.type) or pa.types.is_nested(values.type):
            raise Fault("names units by dates, times or lists: turn them into numbers or texts")
        return _by_distinct(cleaned(values, marks), code, absent)

    return encode


def _absent(fault: str | None) -> Callable[[], float]:
    """What a missing value is: NaN, or a fault."""

    def code() -> float:
        if fault is not None:
            raise Fault(fault)
        return math.nan

    return code


def _numbers(column: Column, missing: frozenset[str], absent: Callable[[], float], decimal: str) -> Encode:
    whole = column.kind == "integer"

    def code(text: str, mark: str) -> float:
        shown, text = repr(text[:80]), TRUTH.get(text.lower(), text)
        plain = with_point(text, mark)
        if not NUMBER.fullmatch(plain):
            if text.lower().strip("+-") in ("inf", "infinity"):
                raise Fault(f"{shown} is not finite")
            if DATE.fullmatch(text):
                raise Fault(f"{shown} is a date: turn it into a number (a year, days since another date), or {_IGNORE}")
            if mark == "." and "," in text and COMMA_NUMBER.fullmatch(text):
                raise Fault(
                    f"{shown} has a comma: if fractions begin there, and something else separates the fields, write "
                    "`csv: {decimal: ','}`"
                )
            raise Fault(f"{shown} is not a number: declare categories, or {_IGNORE} (free text, identifiers)")
        number = float(plain)
        if not math.isfinite(number):
            raise Fault(f"{shown} is not finite")
        if whole and not number.is_integer():
            raise Fault(f"{shown} is not a whole number: declare the column numeric")
        return number

    def quick(values: pa.Array) -> np.ndarray | None:
        """The numbers of a batch without any fault; None where there may be one."""
        if values.null_count and not column.missing:
            return None
        try:
            numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        except pa.ArrowException:
            return None
        known = numbers if not values.null_count else numbers[values.is_valid().to_numpy(zero_copy_only=False)]
        if not np.isfinite(known).all() or (whole and (known != np.rint(known)).any()):
            return None
        return numbers

    def encode(values: pa.Array) -> tuple[np.ndarray, dict[int, str]]:
        values = cleaned(values, missing)
        mark = decimal if pa.types.is_large_string(values.type) else "."
        codes = quick(values) if mark == "." else None
        codes, faults = _by_distinct(values, partial(code, mark=mark), absent) if codes is None else (codes, {})
        return np.clip(codes, -_LARGEST, _LARGEST), faults

    return encode


def _choices(
    index: dict[str, int], missing: frozenset[str], absent: Callable[[], float], advice: str, other: int | None
) -> Encode:
    by_key: dict[str, int] = {}
    marks = {number_key(text) for text in missing}
    for text, i in index.items():
        if by_key.setdefault(number_key(text), i) != i:
            # Which of them a number means would depend on the type of the column, which other rows decide.
            raise DataError(f"Two categories or classes mean the number {text[:80]!r}: declare one of them.")

    def code(text: str) -> float:
        key = number_key(text)
        if key in marks and key not in by_key:
            return absent()
        found = index.get(text, by_key.get(key, other))
        if found is None:
            raise Fault(f"{text[:80]!r} {advice}")
        return found

    return lambda values: _by_distinct(cleaned(values, frozenset()), code, absent)


def cleaned(values: pa.Array, missing: frozenset[str]) -> pa.Array:
    """Values as numbers, truth values or trimmed texts; null where one is missing.

    What is missing is so by its value: whether a column comes as numbers or as texts may depend on other rows.

    Raises:
        Fault: values of a type that has no codes, such as dates.
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = values.type
    if pa.types.is_floating(kind):
        values = values.cast(pa.float32()) if pa.types.is_float16(kind) else values
        values = _without(values, _COMPUTE.is_nan(values))
    if any(is_number(kind) for is_number in _NUMBERS):
        numbers = [float(text) for text in missing if NUMBER.fullmatch(text)]
        return _without(values, _COMPUTE.is_in(values.cast(pa.float64(), safe=False), pa.array(numbers, pa.float64())))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind) or kind == pa.string_view():
        texts = _COMPUTE.utf8_trim_whitespace(values.cast(pa.large_string()))
        return _without(texts, _COMPUTE.is_in(texts, pa.array(_marked(texts, missing), texts.type)))
    words = "dates or times" if pa.types.is_temporal(kind) else f"values of type {kind}"
    raise Fault(f"holds {words}: turn them into numbers or categories, or {_IGNORE}")


def _marked(texts: pa.Array, missing: frozenset[str]) -> list[str]:
    """The texts that mean something missing: those of `missing`, and all that stand for one of its numbers."""
    marks = {number_key(text) for text in missing}
    if not any(PLAIN.fullmatch(mark) for mark in marks):
        return sorted(missing)
    found = {text for text in _COMPUTE.unique(texts).to_pylist() if text is not None and number_key(text) in marks}
    return sorted(found | missing)


def _without(values: pa.Array, absent: pa.Array) -> pa.Array:
    return _COMPUTE.if_else(absent, pa.scalar(None, values.type), values)


def _by_distinct(
    values: pa.Array, code: Callable[[str], float], absent: Callable[[], float]
) -> tuple[np.ndarray, dict[int, str]]:
    """Codes of a batch, from those of its distinct values, and the faults in words, by row."""
    encoded = values.dictionary_encode()
    texts = encoded.dictionary.cast(pa.large_string()).to_pylist()
    table, wrong = np.full(len(texts) + 1, math.nan), {}
    for i, text in enumerate([*texts, None]):
        try:
            table[i] = absent() if text is None else code(text)
        except Fault as fault:
            wrong[i] = str(fault)
    at = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(np.isin(at, list(wrong))) if wrong else ()
    return table[at], {int(row): wrong[int(at[row])] for row in rows}
