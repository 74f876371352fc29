"""Public bins of a table's columns: categories, single values, or intervals between the bounds on the scale."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from dpdistill.schema.table import Column, TableSchema, from_share, to_share

VALUES = 128
"""Most values of a whole number that have a bin each."""
EDGE = 2.0**-25
"""Part of a number's range: single precision puts a value at most half of it below its place. So a value on the edge of
two bins belongs to the upper one.
"""


class ColumnBins(NamedTuple):
    """Bins of a column; a missing value has one more, the last.

    Args:
        kind: categories; values, where each whole number or ordered category has a bin; or intervals of equal length
            on the scale.
        start: first coordinate of the column in an encoded row.
        size: number of bins without the one for a missing value.
        missing: whether values may be missing.
    """

    kind: Literal["categories", "values", "intervals"]
    start: int
    size: int
    missing: bool

    @property
    def cells(self) -> int:
        """Number of all bins."""
        return self.size + self.missing


def bins_of(schema: TableSchema, intervals: int, values: int = VALUES) -> tuple[ColumnBins, ...]:
    """Returns the bins of each column: `intervals` for a number with more than `values` whole values."""
    found = []
    for column, start in zip(schema.columns, schema.offsets, strict=True):
        if column.kind == "categorical":
            found.append(ColumnBins("categories", start, len(column.categories), column.missing))
        elif column.kind == "ordinal":
            found.append(ColumnBins("values", start, len(column.categories), column.missing))
        elif 0 < (whole := _values(column)) <= values:
            found.append(ColumnBins("values", start, whole, column.missing))
        else:
            found.append(ColumnBins("intervals", start, intervals, column.missing))
    return tuple(found)


def _values(column: Column) -> int:
    """Returns the number of values of a whole number on a linear scale, else 0."""
    low, high = column.bounds or (0.0, 0.0)
    whole = column.is_whole and column.scale == "linear" and low == math.floor(low) and high == math.ceil(high)
    return int(high - low) + 1 if whole else 0


def codes_of(X: np.ndarray, bins: tuple[ColumnBins, ...]) -> np.ndarray:
    """Returns the bin of each value, (n, columns), int64, of encoded rows (n, d)."""
    codes = np.empty((len(X), len(bins)), np.int64)
    for k, one in enumerate(bins):
        if one.kind == "categories":
            codes[:, k] = X[:, one.start : one.start + one.cells].argmax(1)
            continue
        share = (X[:, one.start].astype(np.float64) + 1.0) / 2.0
        at = np.rint(share * (one.size - 1)) if one.kind == "values" else np.floor((share + EDGE) * one.size)
        codes[:, k] = np.clip(at, 0, one.size - 1)
        if one.missing:
            codes[X[:, one.start + 1] > 0.5, k] = one.size
    return codes


def rows_of(
    codes: np.ndarray, bins: tuple[ColumnBins, ...], schema: TableSchema, rng: np.random.Generator
) -> np.ndarray:
    """Returns encoded rows (n, d), float32, of bins (n, columns): numbers are uniform within a bin on their scale."""
    X = np.zeros((len(codes), schema.dimension), np.float32)
    for k, (one, column) in enumerate(zip(bins, schema.columns, strict=True)):
        code = codes[:, k]
        if one.kind == "categories":
            X[np.arange(len(X)), one.start + code] = 1.0
            continue
        absent = code == one.size
        share = code / (one.size - 1) if one.kind == "values" else (code + rng.random(len(X))) / one.size
        if one.kind == "intervals" and column.is_whole:
            share = _whole_shares(code, share, one, column)
        X[:, one.start] = np.where(absent, 0.0, 2.0 * np.clip(share, 0.0, 1.0) - 1.0)
        if one.missing:
            X[:, one.start + 1] = absent
    return X


def _whole_shares(code: np.ndarray, share: np.ndarray, one: ColumnBins, column: Column) -> np.ndarray:
    """Returns the shares of whole numbers near those of other numbers, in the same bin if the bin has any."""

    low, high = column.bounds or (0.0, 0.0)
    log = column.scale == "log"
    first, last = (np.clip(edge, low, high) for edge in edges_of(one, column)[:, np.minimum(code, one.size - 1)])
    values = np.rint(from_share(np.clip(share, 0.0, 1.0), low, high, log))
    values = np.where(np.ceil(first) <= np.floor(last), np.clip(values, np.ceil(first), np.floor(last)), values)
    return to_share(values, low, high, log)


def edges_of(one: ColumnBins, column: Column) -> np.ndarray:
    """Returns the least and the largest value of each interval of a number, (2, size); bins share no whole number."""
    low, high = column.bounds or (0.0, 0.0)
    edges = from_share(np.arange(one.size + 1) / one.size, low, high, column.scale == "log")
    if column.is_whole:  # 105.00000000000001 is the edge 105
        edges = np.where(np.isclose(edges, np.rint(edges), rtol=1e-12, atol=1e-9), np.rint(edges), edges)
    last = edges[1:].copy()
    if column.is_whole:  # an edge belongs to the upper bin
        last[:-1] = np.ceil(last[:-1]) - 1.0
        last[-1] = math.floor(high)
    return np.stack([edges[:-1], last])
