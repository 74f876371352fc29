"""Errors of the counts of a synthetic table: all columns, pairs and sampled triples, the label included."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpdistill.evaluation.bins import bin_indices, bin_names, total_variation
from dpdistill.method import Distilled
from dpdistill.schema import DataError, TableSchema
from dpdistill.storage.records import Records

MOST_TABLES = {1: 1 << 20, 2: 1000, 3: 150}
"""Most tables of each number of columns; of more, a sample."""
MOST_CELLS = 1 << 16
"""Most cells of a table that is compared."""
ALL_CELLS = 1 << 23
"""Most cells of all tables together: 64 MiB of counts."""
CHUNK = 1 << 16
"""Rows whose bins are computed at once."""
SEED = 0
"""Public seed of the sample."""


class WorkloadError(NamedTuple):
    """Total variation distance of tables of k columns, each in [0, 1].

    Args:
        k: number of columns of a table.
        tables: number of compared tables.
        mean: mean distance; NaN without tables.
        largest: largest distance; NaN without tables.
        columns: names of the columns of the table with the largest distance.
    """

    k: int
    tables: int
    mean: float
    largest: float
    columns: tuple[str, ...]

    @property
    def score(self) -> float:
        """Returns the k-marginal score, 1000 (1 - mean distance): 1000 is the best."""
        return 1000.0 * (1.0 - self.mean)

    @property
    def text(self) -> str:
        """Returns the line to print."""
        return (
            f"Counts of {self.k} column{'s' * (self.k > 1)}: mean total variation {self.mean:.3f}, largest "
            f"{self.largest:.3f}, of {self.tables:,} tables."
        )


@dataclass(frozen=True)
class WorkloadErrors:
    """Errors of the counts of a synthetic table compared with real rows; epsilon does not cover them.

    Args:
        errors: for tables of one, two and three columns, the label included; those that a table has.
    """

    errors: tuple[WorkloadError, ...]

    @property
    def listed(self) -> str:
        """Returns the lines to print: the errors, and the k-marginal score of the most columns."""
        last = self.errors[-1]
        score = f"k-marginal score of {last.k} columns (1,000 is the best): {last.score:.0f}."
        return "\n".join([*(one.text for one in self.errors), score])

    def to_json(self) -> dict[str, Any]:
        """Returns the errors for scores.json."""
        found: dict[str, Any] = {
            f"{one.k} column{'s' * (one.k > 1)}": {
                "mean total variation": round(one.mean, 4),
                "largest": round(one.largest, 4),
                "columns of the largest": list(one.columns),
                "tables": one.tables,
            }
            for one in self.errors
        }
        return {**found, "k-marginal score": round(self.errors[-1].score, 1)}


def workload(sizes: list[int], most_columns: int = 3) -> list[tuple[int, ...]]:
    """Returns the compared tables: attributes in increasing order.

    Args:
        sizes: number of bins of each attribute; columns, then the label if there is one.
        most_columns: most attributes of a table, 1 to 3.
    """
    rng, found, cells = np.random.default_rng(SEED), [], 0
    for k in range(1, most_columns + 1):
        most, count = MOST_TABLES[k], math.comb(len(sizes), k)
        if count <= most:
            tables = list(itertools.combinations(range(len(sizes)), k))
        else:  # a sample without all combinations of wide tables in memory
            drawn = (tuple(sorted(rng.choice(len(sizes), k, False).tolist())) for _ in range(8 * most))
            tables = sorted(list(dict.fromkeys(drawn))[:most])
        for table in tables:
            size = math.prod(sizes[a] for a in table)
            if size <= MOST_CELLS and cells + size <= ALL_CELLS:
                found.append(table)
                cells += size
    return found


class WorkloadCounts:
    """Counts of the rows in the cells of each table, added up in chunks.

    Args:
        sizes: number of bins of each attribute.
        most_columns: most attributes of a table, 1 to 3.
    """

    def __init__(self, sizes: list[int], most_columns: int = 3) -> None:
        self.tables, self._sizes = workload(sizes, most_columns), sizes
        self.counts = [np.zeros(math.prod(sizes[a] for a in table), np.int64) for table in self.tables]

    def add(self, codes: np.ndarray) -> None:
        """Adds rows, given the bin of each attribute, (n, attributes)."""
        for table, counts in zip(self.tables, self.counts, strict=True):
            place = np.ravel_multi_index(tuple(codes[:, a] for a in table), [self._sizes[a] for a in table])
            counts += np.bincount(place, minlength=len(counts))

    def distances(self, other: WorkloadCounts) -> dict[tuple[int, ...], float]:
        """Returns the total variation distance of each table from that of other rows with the same bins."""
        counts = zip(self.tables, self.counts, other.counts, strict=True)
        return {table: total_variation(p, q) for table, p, q in counts}

    def errors(self, other: WorkloadCounts, names: tuple[str, ...]) -> tuple[WorkloadError, ...]:
        """Returns the errors of these rows compared with others, for tables of 1, 2 and 3 columns.

        Args:
            other: counts of other rows with the same bins.
            names: name of each attribute.
        """
        found = {k: [] for k in MOST_TABLES}
        for table, distance in self.distances(other).items():
            found[len(table)].append((distance, tuple(names[a] for a in table)))
        return tuple(_error(k, distances) for k, distances in found.items())


def _error(k: int, distances: list[tuple[float, tuple[str, ...]]]) -> WorkloadError:
    if not distances:
        return WorkloadError(k, 0, math.nan, math.nan, ())
    largest, columns = max(distances)
    return WorkloadError(k, len(distances), float(np.mean([one for one, _ in distances])), largest, columns)


def rows_of(distilled: Distilled, test: Records) -> tuple[TableSchema, tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Returns the schema, and encoded rows and class indices of a synthetic table and of real rows.

    Synthetic rows are as published: decoded, with all constraints, and encoded again. Real rows of an unknown class or
    with a value that is not finite are left out.

    Raises:
        DataError: other columns, or no real rows.
    """
    schema = distilled.schema
    if not isinstance(schema, TableSchema) or getattr(test.schema, "columns", None) != schema.columns:
        raise DataError(
            f"Expected test rows with the same columns as the synthetic table ({schema}); got {test.schema}."
        )
    known = np.asarray(test.y) >= 0
    real, y = schema.to_unit(np.asarray(test.X)[known]), np.asarray(test.y)[known]
    kept = np.isfinite(real).all(1)
    if not kept.any():
        raise DataError("Expected at least one test row without bad values; got none.")
    made = schema.to_unit(schema.from_unit(distilled.X))
    return schema, (made, distilled.y), (real[kept], y[kept])


def score_counts(distilled: Distilled, test: Records) -> WorkloadErrors:
    """Returns the errors of the counts of a synthetic table compared with real rows, in the bins of the audit.

    Args:
        distilled: a synthetic table.
        test: real rows of the same columns.

    Raises:
        DataError: other columns, or no rows.
    """
    schema, *both = rows_of(distilled, test)
    names = (*(column.name for column in schema.columns), schema.label or "label")
    sizes = [*(len(bin_names(column)) for column in schema.columns), len(schema.classes)]
    labelled = len(sizes) - (schema.label is None)
    made, real = (WorkloadCounts(sizes[:labelled]) for _ in both)
    for counts, (U, y) in zip((made, real), both, strict=True):
        for start in range(0, len(U), CHUNK):
            part = slice(start, start + CHUNK)
            counts.add(np.column_stack([bin_indices(U[part], schema), y[part]])[:, :labelled])
    return WorkloadErrors(tuple(one for one in made.errors(real, names[:labelled]) if one.tables))
