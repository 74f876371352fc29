"""Errors of the counts of a synthetic table: all columns, pairs and sampled triples, the label included."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from dpdistill.evaluation.bins import total_variation

MOST_TABLES = {1: 1 << 20, 2: 1000, 3: 150}
"""Most tables of each number of columns; of more, a sample."""
MOST_CELLS = 1 << 16
"""Most cells of a table that is compared."""
ALL_CELLS = 1 << 23
"""Most cells of all tables together: 64 MiB of counts."""
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
