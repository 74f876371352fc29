"""Encodes columns of a table: distinct cells by `cells`, or all cells by Arrow where the result is equal."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from dpdistill.schema import Column, TableSchema
from dpdistill.sources.tables.cells import (
    IGNORE,
    LARGEST,
    Fault,
    Marks,
    Read,
    read_category,
    read_label,
    read_number,
    read_unit,
)
from dpdistill.sources.tables.time_cells import codes_of_times, is_temporal, quick_texts, read_time

_COMPUTE: Any = pyarrow.compute  # functions are created at import, so that types are unknown
_TYPES = pa.types

Values = pa.Array | Sequence[Any]
"""Type of a column's values: an array of one stated type, or Python values with individual types."""
Encode = Callable[[Values], tuple[np.ndarray, dict[int, str]]]
"""Type of an encoder's result: codes (n,), float64, NaN for missing or faulty values, and fault texts by row."""


def encoder(column: Column, missing: Iterable[str], decimal: str = ".") -> Encode:
    """Returns the encoder of a column: a number is its code, a category has its index.

    Args:
        column: as it is declared.
        missing: marks of a missing value.
        decimal: what fractions begin with in texts that are numbers.
    """
    marks = Marks.of(missing, decimal)
    if column.is_time:
        return partial(_encode_times, column, marks, read_time(column, marks, decimal))
    if not column.is_number:
        return partial(_encode, read_category(column, marks), None)
    return partial(_encode, read_number(column, marks, decimal), partial(_quick_numbers, column, marks, decimal))


def label_encoder(schema: TableSchema, missing: Iterable[str], decimal: str = ".") -> Encode:
    """Returns the encoder of labels to class indices."""
    return partial(_encode, read_label(schema, Marks.of(missing, decimal)), None)


def unit_encoder(missing: Iterable[str], index: dict[str, int], decimal: str = ".") -> Encode:
    """Returns the encoder of unit names, to indices in the order of first appearance.

    Args:
        missing: marks of a missing name, besides the fixed ones.
        index: filled with the indices by name.
        decimal: decimal separator in `missing`.
    """
    return partial(_encode, read_unit(Marks.of(missing, decimal), index), None)


def _encode(
    read: Read, quick: Callable[[pa.Array], np.ndarray | None] | None, values: Values
) -> tuple[np.ndarray, dict[int, str]]:
    if isinstance(values, pa.Array):
        values = decoded(values)
        codes = None if quick is None else quick(values)
        if codes is not None:
            return codes, {}
    cells, at = distinct(values)
    table, wrong = np.full(len(cells), math.nan), {}
    for i, cell in enumerate(cells):
        try:
            table[i] = read(cell)
        except Fault as fault:
            wrong[i] = str(fault)
    rows = np.flatnonzero(np.isin(at, list(wrong))) if wrong else ()
    return table[at], {int(row): wrong[int(at[row])] for row in rows}


def _encode_times(column: Column, marks: Marks, read: Read, values: Values) -> tuple[np.ndarray, dict[int, str]]:
    if isinstance(values, pa.Array):
        array: Any = values
        array = array.dictionary_decode() if _TYPES.is_dictionary(array.type) else array
        if is_temporal(array.type):
            return codes_of_times(column, array)
        if any(is_text(array.type) for is_text in _TEXTS):
            array = array.cast(pa.large_string())
            quick = quick_texts(column, marks, array)
            if quick is not None:
                codes, certain = quick
                rest = np.flatnonzero(~certain)
                codes[rest], faults = _encode(read, None, array.take(pa.array(rest)))
                return codes, {int(rest[row]): words for row, words in faults.items()}
    return _encode(read, None, values)


def decoded(values: pa.Array) -> pa.Array:
    """Returns an array without dictionary encoding.

    Raises:
        Fault: values of an unsupported type, such as dates.
    """
    if _TYPES.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = values.type
    if any(is_kind(kind) for is_kind in (*_NUMBERS, *_TEXTS, _TYPES.is_decimal, _TYPES.is_null)) or _is_uuid(kind):
        return values
    if _TYPES.is_temporal(kind):
        raise Fault(f"holds dates or times: declare the kind date, datetime or duration, or {IGNORE}")
    if _TYPES.is_binary(kind) or _TYPES.is_large_binary(kind) or _TYPES.is_fixed_size_binary(kind):
        raise Fault(f"holds bytes: decode them into texts, or {IGNORE}")
    raise Fault(f"holds values of type {kind}: turn them into numbers or texts, or {IGNORE}")


_NUMBERS = (_TYPES.is_floating, _TYPES.is_integer, _TYPES.is_boolean)
_TEXTS = (_TYPES.is_string, _TYPES.is_large_string, lambda kind: kind == pa.string_view())


def _is_uuid(kind: Any) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid"


def distinct(values: Values) -> tuple[list[Any], np.ndarray]:
    """Returns the distinct cells of a column as Python values, and their indices by row, (n,) int.

    Values of distinct types are distinct: 1, 1.0 and True are three values.
    """
    if isinstance(values, pa.Array):
        return _distinct_of_array(values)
    return _distinct_of_list(values)


def _distinct_of_array(values: Any) -> tuple[list[Any], np.ndarray]:
    kind = values.type
    if _is_uuid(kind) or _TYPES.is_null(kind):
        return _distinct_of_list(values.to_pylist())
    if kind == pa.string_view():
        values = values.cast(pa.large_string())
    encoded = values.dictionary_encode()
    kept: Any = encoded.dictionary
    # as_py converts a float32 to a float with a different shortest text.
    cells = list(kept.to_numpy(zero_copy_only=False)) if _TYPES.is_floating(kind) else kept.to_pylist()
    return [*cells, None], encoded.indices.fill_null(len(cells)).to_numpy(zero_copy_only=False)


def tally(values: Values) -> list[tuple[Any, int]]:
    """Returns the distinct cells of a column as Python values, with their numbers of rows.

    Raises:
        Fault: an array of an unsupported type.
    """
    cells, at = distinct(decoded(values) if isinstance(values, pa.Array) else values)
    counts = np.bincount(at, minlength=len(cells))
    return [(cell, int(count)) for cell, count in zip(cells, counts, strict=True) if count]


def _distinct_of_list(values: Sequence[Any]) -> tuple[list[Any], np.ndarray]:
    index: dict[Hashable, int] = {}
    cells: list[Any] = []
    at = np.empty(len(values), np.intp)
    for row, value in enumerate(values):
        try:
            # Equal decimals may have two spellings, which are distinct texts.
            spelled = value.as_tuple() if isinstance(value, Decimal) else value
            place = index.setdefault((type(value), spelled), len(cells))
        except TypeError:  # a list is not hashable
            place = len(cells)
        if place == len(cells):
            cells.append(value)
        at[row] = place
    return cells, at


def _quick_numbers(column: Column, marks: Marks, decimal: str, values: pa.Array) -> np.ndarray | None:
    """Returns the codes of a numeric column without faults, by Arrow; None if there may be a fault."""
    kind = values.type
    if _TYPES.is_decimal(kind) or _is_uuid(kind):
        return None  # Arrow and Python round decimals differently
    if any(is_text(kind) for is_text in _TEXTS):
        if decimal != ".":
            return None
        values = _COMPUTE.utf8_trim_whitespace(values.cast(pa.large_string()))
        marked = _COMPUTE.is_in(values, pa.array(sorted(marks.texts), values.type))
        values = _COMPUTE.if_else(marked, pa.scalar(None, values.type), values)
    elif _TYPES.is_float16(kind) or _TYPES.is_float32(kind):
        values = _short_texts(values)
    try:
        numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        return None
    known = values.is_valid().to_numpy(zero_copy_only=False)
    if _TYPES.is_float64(kind):
        known &= ~np.isnan(numbers)
    known &= ~np.isin(numbers, list(marks.numbers))
    if not (column.missing or known.all()) or not np.isfinite(numbers[known]).all():
        return None
    if column.kind == "integer" and (numbers[known] != np.rint(numbers[known])).any():
        return None
    return np.where(known, np.clip(numbers, -LARGEST, LARGEST) + 0.0, math.nan)


def _short_texts(values: pa.Array) -> pa.Array:
    """Returns the shortest text of each value of single or half precision; null for a missing value."""
    values = values.cast(pa.float32())
    values = _COMPUTE.if_else(_COMPUTE.is_nan(values), pa.scalar(None, values.type), values)
    return values.cast(pa.large_string())
