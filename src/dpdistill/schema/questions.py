"""Bins of a table's columns that a condition chooses, such as "age > 60 and ward = B"."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpdistill.schema.bins import ColumnBins, bins_of, edges_of
from dpdistill.schema.condition import Comparison, Condition
from dpdistill.schema.table import Column, TableSchema


class Chosen(NamedTuple):
    """Bins of an attribute that a condition chooses.

    Args:
        whole: whether all values of each bin fulfil the condition, (bins,), bool.
        some: whether some value of each bin may fulfil the condition, (bins,), bool.
    """

    whole: np.ndarray
    some: np.ndarray


def comparisons_of(condition: Condition) -> list[Comparison] | None:
    """Returns the comparisons that a condition joins by "and"; None for a condition with "or" or "not"."""
    if isinstance(condition, Comparison):
        return [condition]
    if condition.word != "and":
        return None
    found: list[Comparison] = []
    for part in condition.parts:
        inner = comparisons_of(part)
        if inner is None:
            return None
        found += inner
    return found


def bins_chosen(comparisons: list[Comparison], schema: TableSchema, intervals: int) -> dict[int, Chosen]:
    """Returns the bins that fulfil all comparisons, by the index of the column; the number of columns is the label.

    Args:
        comparisons: comparisons that are joined by "and".
        schema: schema of the table.
        intervals: bins of a number with many values.
    """
    bins, chosen = bins_of(schema, intervals), {}
    for comparison in comparisons:
        a = comparison.column
        if a == len(bins):
            met = comparison.met(np.arange(len(schema.classes)))
            found = Chosen(met, met)
        else:
            found = _bins_met(comparison, bins[a], schema.columns[a])
        before = chosen.get(a, found)
        chosen[a] = Chosen(before.whole & found.whole, before.some & found.some)
    return chosen


def _bins_met(comparison: Comparison, one: ColumnBins, column: Column) -> Chosen:
    """Returns the bins of a column that fulfil a comparison."""
    if one.kind != "intervals" or comparison.sign in ("missing", "known"):
        low = (column.bounds or (0.0, 0.0))[0] if column.is_number else 0.0
        met = comparison.met(low + np.arange(one.size))
        found = Chosen(met, met)
    else:
        first, last = edges_of(one, column)
        found = _intervals_met(comparison, first, last, column.is_whole)
    if not one.missing:
        return found
    absent = comparison.sign == "missing"
    return Chosen(np.append(found.whole, absent), np.append(found.some, absent))


def _intervals_met(comparison: Comparison, first: np.ndarray, last: np.ndarray, whole_numbers: bool) -> Chosen:
    """Returns the intervals, from `first` to `last`, that fulfil a comparison other than with a missing value."""
    if comparison.sign == "!=":
        equal = _equal(comparison.codes, first, last, whole_numbers)
        used = np.ceil(first) <= last if whole_numbers else np.ones(len(first), bool)
        return Chosen(~equal.some & used, ~equal.whole & used)
    if comparison.sign in ("=", "in"):
        return _equal(comparison.codes, first, last, whole_numbers)
    if whole_numbers:
        first, used = np.ceil(first), np.ceil(first) <= last
        least, most = comparison.met(first), comparison.met(last)
        return Chosen(least & most & used, (least | most) & used)
    value, strict = comparison.codes[0], comparison.sign in ("<", ">=")
    below = last <= value  # an edge belongs to the upper bin, and the upper bound to the last bin
    below[-1] &= last[-1] < value or not strict
    above = first >= value if strict else first > value
    return Chosen(below, ~above) if comparison.sign in ("<", "<=") else Chosen(above, ~below)


def _equal(codes: tuple[float, ...], first: np.ndarray, last: np.ndarray, whole_numbers: bool) -> Chosen:
    """Returns the intervals with one of some values; as a whole only if it has no other whole number."""
    codes = tuple(code for code in set(codes) if not whole_numbers or code == round(code))
    hits = np.sum([(first <= code) & (code <= last) for code in codes], axis=0) + np.zeros(len(first), int)
    numbers = np.floor(last) - np.ceil(first) + 1
    return Chosen((hits > 0) & (hits == numbers) & whole_numbers, hits > 0)
