"""Compares the columns of a synthetic table with the private records, singly and in pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from dpdistill.evaluation.bins import bin_indices, bin_names, total_variation
from dpdistill.evaluation.workload import WorkloadCounts, WorkloadError
from dpdistill.method import Distilled
from dpdistill.schema import DataError, TableSchema
from dpdistill.storage.records import Records

_CHUNK_VALUES = 1 << 19

Labelled = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class ColumnComparison:
    """Counts of the values of one column, in the records and in the synthetic set.

    Args:
        name: name of the column.
        values: names of the bins: categories, or the number of a bin from 0, and "missing" where that may be.
        real: records of a class in a bin, (classes, bins), int64.
        synthetic: synthetic rows of a class in a bin, (classes, bins), int64.
    """

    name: str
    values: tuple[str, ...]
    real: np.ndarray
    synthetic: np.ndarray

    @property
    def distance(self) -> float:
        """Returns the total variation distance over all rows, in [0, 1]."""
        return total_variation(self.real.sum(0), self.synthetic.sum(0))

    @property
    def distances(self) -> tuple[float, ...]:
        """Returns the total variation distance within each class, in [0, 1]; NaN for a class without rows on a side."""
        return tuple(total_variation(p, q) for p, q in zip(self.real, self.synthetic, strict=True))


@dataclass(frozen=True, eq=False)
class Correlations:
    """Differences of two correlation matrices over all pairs of different coordinates.

    Args:
        largest: max_{i<j} |R_ij - R'_ij|, in [0, 2]; 0 for a single coordinate.
        mean: the mean of |R_ij - R'_ij| over i < j, in [0, 2]; 0 for a single coordinate.
        pair: names of the two coordinates that differ most; empty where none differ.
    """

    largest: float
    mean: float
    pair: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Comparison of a synthetic table with its private records; not covered by epsilon.

    Args:
        classes: names of the classes.
        real_rows: records of each class, (classes,), int64.
        synthetic_rows: synthetic rows of each class, (classes,), int64.
        left_out: number of records that contribute nothing: with an unknown label or without a required value.
        columns: one comparison per column of the schema, in its order.
        correlations: differences of correlations of the encoded columns.
        workload: errors of the counts of tables of one, two and three columns.
    """

    classes: tuple[str, ...]
    real_rows: np.ndarray
    synthetic_rows: np.ndarray
    left_out: int
    columns: tuple[ColumnComparison, ...]
    correlations: Correlations
    workload: tuple[WorkloadError, ...]

    @property
    def real_shares(self) -> np.ndarray:
        """Returns the share of each class among the records, (classes,), in [0, 1]."""
        return self.real_rows / self.real_rows.sum()

    @property
    def synthetic_shares(self) -> np.ndarray:
        """Returns the share of each class among the synthetic rows, (classes,), in [0, 1]."""
        return self.synthetic_rows / self.synthetic_rows.sum()


def compare_marginals(distilled: Distilled, records: Records) -> Comparison:
    """Compares a synthetic table with the private records: each column, the classes, the correlations.

    Numbers fall into BINS equal bins of the encoded value, floor(BINS (u + 1) / 2); each category and a missing value
    are further bins. The synthetic rows are compared as published: integers rounded, one category per column. Records
    are read once, in chunks, into counts, means and products of coordinates.

    Args:
        distilled: synthetic rows of a table.
        records: the private records, of the same schema.

    Returns:
        Counts and distances. Nothing in it is covered by epsilon: it is for the owner of the records.

    Raises:
        DataError: no table, another schema, or no record that contributes.
    """
    schema = distilled.schema
    if not isinstance(schema, TableSchema) or not isinstance(records.schema, TableSchema):
        raise DataError("Expected rows of a table, synthetic and private: images have no columns to compare.")
    if schema != records.schema:
        raise DataError("Expected records of the synthetic table's schema; got records of another schema.")
    size = max(1, _CHUNK_VALUES // schema.dimension)
    real = _tally(_complete(records, size), schema)
    synthetic = _tally(_handed_out(distilled, schema, size), schema)
    if not real.rows.sum():
        raise DataError("Expected at least one record with a known label and all required values.")
    if not synthetic.rows.sum():
        raise DataError("Expected at least one synthetic row.")
    ends = np.cumsum(real.widths)[:-1]
    counts = (np.split(tally.counts, ends, axis=1) for tally in (real, synthetic))
    columns = tuple(
        ColumnComparison(column.name, bin_names(column), p, q)
        for column, p, q in zip(schema.columns, *counts, strict=True)
    )
    left_out = len(records) - int(real.rows.sum())
    correlations = _correlations(real.moments, synthetic.moments, schema)
    names = (*(column.name for column in schema.columns), schema.label or "label")
    errors = synthetic.tables.errors(real.tables, names)
    return Comparison(schema.classes, real.rows, synthetic.rows, left_out, columns, correlations, errors)


class Moments:
    """Mean and centred cross products of coordinates, accumulated in chunks, with a mask of constant coordinates.

    Chunks are merged as (n, m, C) + (n', m', C') = (n + n', m + (m' - m) n' / (n + n'),
    C + C' + (m' - m)(m' - m)^T n n' / (n + n')), which is accurate for spreads much smaller than the mean.

    Args:
        dimension: number of coordinates.

    Source:
        Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances, 1979.
    """

    def __init__(self, dimension: int) -> None:
        self.rows = 0
        self.mean = np.zeros(dimension)
        self.products = np.zeros((dimension, dimension))
        self.low = np.full(dimension, np.inf)
        self.high = np.full(dimension, -np.inf)

    def add(self, U: np.ndarray) -> None:
        """Adds rows (n, d), finite."""
        if not len(U):
            return
        self.low, self.high = np.minimum(self.low, U.min(0)), np.maximum(self.high, U.max(0))
        mean, rows = U.mean(0, np.float64), self.rows + len(U)
        centred, step = U - mean, mean - self.mean
        self.products += centred.T @ centred + np.outer(step, step) * (self.rows * len(U) / rows)
        self.mean += step * (len(U) / rows)
        self.rows = rows

    def correlations(self) -> np.ndarray:
        """Returns C_ij / sqrt(C_ii C_jj) in [-1, 1], (d, d); 0 in rows and columns of constant coordinates."""
        constant = ~(self.low < self.high)
        spread = np.sqrt(np.where(constant, 1.0, self.products.diagonal()))
        R = np.clip(self.products / np.outer(spread, spread), -1.0, 1.0)
        R[constant], R[:, constant] = 0.0, 0.0
        return R


@dataclass(frozen=True, eq=False)
class _Tally:
    rows: np.ndarray
    widths: list[int]
    counts: np.ndarray
    moments: Moments
    tables: WorkloadCounts


def _tally(chunks: Iterable[Labelled], schema: TableSchema) -> _Tally:
    """Returns rows per class, counts of all bins per class, (classes, bins of all columns), moments, and tables."""
    classes, widths = len(schema.classes), [len(bin_names(column)) for column in schema.columns]
    total, starts = sum(widths), np.cumsum([0, *widths[:-1]])
    rows, counts, moments = np.zeros(classes, np.int64), np.zeros((classes, total), np.int64), Moments(schema.dimension)
    tables = WorkloadCounts([*widths, classes])
    for U, y in chunks:
        rows += np.bincount(y, minlength=classes)
        bins = bin_indices(U, schema)
        tables.add(np.column_stack([bins, y]))
        flat = (bins + starts + y[:, None] * total).ravel()
        counts += np.bincount(flat, minlength=counts.size).reshape(counts.shape)
        moments.add(U)
    return _Tally(rows, widths, counts, moments, tables)


def _complete(records: Records, size: int) -> Iterator[Labelled]:
    for U, y, valid in records.chunks(None, size):
        kept = (y[:valid] >= 0) & np.isfinite(U[:valid]).all(1)
        yield U[:valid][kept], y[:valid][kept]


def _handed_out(distilled: Distilled, schema: TableSchema, size: int) -> Iterator[Labelled]:
    for start in range(0, len(distilled.y), size):
        rows = slice(start, start + size)
        yield schema.to_unit(schema.from_unit(distilled.X[rows])), distilled.y[rows].astype(np.int64)


def _correlations(real: Moments, synthetic: Moments, schema: TableSchema) -> Correlations:
    d, names = schema.dimension, coordinate_names(schema)
    gap = np.abs(real.correlations() - synthetic.correlations())
    np.fill_diagonal(gap, 0.0)
    i, j = divmod(int(gap.argmax()), d)
    pair = (names[i], names[j]) if gap[i, j] else ()
    return Correlations(float(gap[i, j]), float(gap.sum() / max(d * (d - 1), 1)), pair)


def coordinate_names(schema: TableSchema) -> tuple[str, ...]:
    """Returns the names of an encoded row's coordinates: "age", "sex = Male", "age missing"."""
    names: list[str] = []
    for column in schema.columns:
        if column.kind == "categorical":
            names += [f"{column.name} = {category}" for category in column.categories]
        else:
            names.append(column.name)
        if column.missing:
            names.append(f"{column.name} missing")
    return tuple(names)
