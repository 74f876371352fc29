"""Bins of a table's columns, and the distance of two distributions of counts."""

from __future__ import annotations

import numpy as np

from dpdistill.schema import Column, TableSchema
from dpdistill.schema.bins import bins_of, codes_of

BINS = 20


def total_variation(p: np.ndarray, q: np.ndarray) -> float:
    """Returns the total variation distance of two distributions of counts.

    TV = 1/2 sum_b |p_b / sum(p) - q_b / sum(q)|: the largest difference of the probabilities of any event, between
    0 (the same distribution) and 1 (nothing in common).

    Args:
        p: counts, (bins,), >= 0.
        q: counts, (bins,), >= 0.

    Returns:
        A number in [0, 1]; NaN where p or q counts nothing.

    Example:
        >>> total_variation(np.array([1, 3]), np.array([2, 2]))
        0.25
    """
    if not p.sum() or not q.sum():
        return float("nan")
    return float(min(1.0, np.abs(p / p.sum() - q / q.sum()).sum() / 2))


def bin_names(column: Column) -> tuple[str, ...]:
    """Returns the names of a column's bins: categories, or indices of bins of numbers; and "missing"."""
    names = tuple(map(str, range(BINS))) if column.is_number else column.categories
    return (*names, "missing") if column.missing else names


def bin_indices(U: np.ndarray, schema: TableSchema) -> np.ndarray:
    """Returns the bin of each value of encoded rows (n, d) in the order of bin_names, (n, columns), int64."""
    return codes_of(U, bins_of(schema, BINS, values=0))
