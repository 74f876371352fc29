"""Tables of a run that releases marginals: their attributes, groups of bins, padded queries and released counts."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpdistill.methods.table_counts import CountsQuery
from dpdistill.schema import TableSchema
from dpdistill.schema.bins import ColumnBins, bins_of
from dpdistill.schema.counts import DIMENSIONS, Counts, Maps, shape_of, sizes_of

MOST_PAIRS = 1000
"""Most pairs of columns that are all candidates; wider tables have each column with the label, and neighbours."""
CELLS = 1 << 14
"""Most cells of all tables of a round of chosen marginals: the padded length of the release."""
BELOW = 1.0 - 2.0**-10
"""Length of a row's weights compared with the clip norm, so that clipping reduces no row."""
CLEAR = 3.0
"""Standard deviations of noise that a group of bins exceeds."""

KINDS = ("categories", "values", "intervals")


@dataclass(frozen=True)
class Layout:
    """Public facts about the tables of a run.

    Args:
        bins: bins of the columns.
        classes: number of classes.
        groups: most groups of a column in a coarse table.
    """

    bins: tuple[ColumnBins, ...]
    classes: int
    groups: int

    @classmethod
    def of(cls, schema: TableSchema, bins: int, groups: int) -> Layout:
        """Returns the layout for a schema."""
        return cls(bins_of(schema, bins), len(schema.classes), groups)

    @property
    def label(self) -> int:
        """Returns the attribute of the class; the next one is the constant."""
        return len(self.bins)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Returns the number of bins of each attribute but the constant."""
        return sizes_of(self.bins, self.classes)

    @property
    def ordered(self) -> tuple[bool, ...]:
        """Returns whether the bins of each attribute have an order."""
        return (*(one.kind != "categories" for one in self.bins), False)

    @cached_property
    def coarse_tables(self) -> tuple[tuple[int, ...], ...]:
        """Returns the attributes of the tables that choose: pairs of columns and the label."""
        columns = range(self.label)
        pairs = list(itertools.combinations(columns, 2))
        if len(pairs) > MOST_PAIRS:
            pairs = [(i,) for i in columns] + [(i, i + 1) for i in columns[:-1]]
        elif not pairs:
            pairs = [(0,)]
        return tuple((*pair, self.label) for pair in pairs)

    @property
    def coarse_cells(self) -> int:
        """Returns the padded length of the release of coarse tables."""
        most = [min(self.groups, size) for size in self.sizes[:-1]] + [self.classes]
        return sum(math.prod(most[a] for a in table) for table in self.coarse_tables)

    def array(self) -> np.ndarray:
        """Returns kind, start, size and missing of each column, (columns, 4), for a state."""
        return np.array([(KINDS.index(one.kind), one.start, one.size, one.missing) for one in self.bins], np.int32)

    @classmethod
    def from_array(cls, array: Any, classes: int, groups: int) -> Layout:
        """Returns the layout of `array`."""
        rows = np.asarray(array).tolist()
        bins = tuple(ColumnBins(KINDS[kind], start, size, bool(missing)) for kind, start, size, missing in rows)
        return cls(bins, classes, groups)

    def query(self, cells: int, tables: int) -> CountsQuery:
        """Returns the query of tables with so many cells."""
        return CountsQuery(self.bins, cells, tables)

    def params(self, maps: Maps, tables: Any, weights: np.ndarray, padded: int) -> dict[str, Any]:
        """Returns the parameters of the query of some tables, padded by unused ones.

        Args:
            maps: group of each bin, for each attribute.
            tables: attributes of each table.
            weights: of the tables, (M,).
            padded: number of tables with the unused ones.
        """
        table = np.zeros((self.label + 2, max(self.sizes)), np.int32)
        for row, groups in zip(table, maps, strict=False):
            row[: len(groups)] = groups
        attributes = np.full((padded, DIMENSIONS), self.label + 1, np.int32)
        shapes, padded_weights = np.zeros((padded, DIMENSIONS), np.int32), np.zeros(padded)
        for m, one in enumerate(tables):
            attributes[m, : len(one)] = one
            shapes[m] = [*shape_of(maps, one), *[1] * (DIMENSIONS - len(one))]
        padded_weights[: len(weights)] = weights
        return {"maps": table, "attributes": attributes, "shapes": shapes, "weights": padded_weights}


def weights_of(cells: list[int]) -> np.ndarray:
    """Returns the weights of tables, in proportion to the cube root of their cells, with length BELOW.

    Such weights minimise the sum of all absolute errors, sum_m cells_m / w_m, for tables with noise alone.
    """
    weights = np.cbrt(np.array(cells, np.float64))
    return BELOW * weights / np.linalg.norm(weights)


def read(value: np.ndarray, stddev: float, maps: Maps, tables: Any, weights: np.ndarray, place: int) -> list[Counts]:
    """Returns the counts of each table of a release, in the units of rows.

    Args:
        value: the release, weighted counts of the tables one behind the other.
        stddev: standard deviation of its noise.
        maps: group of each bin, for each attribute.
        tables: attributes of each table.
        weights: of the tables, (M,).
        place: of these groups in `ReleasedCounts.maps`.
    """
    found, start = [], 0
    for table, weight in zip(tables, weights.tolist(), strict=True):
        shape = shape_of(maps, table)
        end = start + math.prod(shape)
        found.append(Counts(table, value[start:end].reshape(shape) / weight, stddev / weight, place))
        start = end
    return found


def counted(params: dict[str, Any], codes: np.ndarray, cells: int) -> np.ndarray:
    """Returns the weighted counts of rows that the query of these parameters asks for, (cells,), without noise.

    Args:
        params: of `Layout.params`.
        codes: bins of the columns, class and constant of each row, (n, columns + 2).
        cells: numbers of the sum.
    """
    found, start = np.zeros(cells), 0
    for attributes, shape, weight in zip(params["attributes"], params["shapes"], params["weights"], strict=True):
        if size := int(shape.prod()):
            groups = tuple(params["maps"][a][codes[:, a]] for a in attributes)
            place = np.ravel_multi_index(groups, tuple(shape))
            found[start : start + size] = weight * np.bincount(place, minlength=size)
            start += size
    return found


def fine_groups(counts: np.ndarray, stddev: float, most: int, ordered: bool, missing: bool) -> np.ndarray:
    """Returns the group of each bin: groups exceed the noise, as far as the counts allow it; at most `most` groups.

    Neighbouring bins of an ordered column share a group; a missing value has its own. Rare categories share one.
    """
    if not ordered:
        rank = np.argsort(np.argsort(-counts, kind="stable"), kind="stable")
        kept = (counts > CLEAR * stddev) & (rank < most - 1)
        kept |= ~kept & ((~kept).sum() == 1)
        groups = np.where(kept, np.cumsum(kept) - 1, kept.sum())
        return groups
    values = counts[: len(counts) - missing]
    least = CLEAR * stddev
    while (groups := _runs(values, least)).max() + 1 > most - missing:
        least = 1.25 * max(least, values.sum() / (4.0 * most), 1e-9)
    return np.concatenate([groups, [groups.max() + 1]]) if missing else groups


def _runs(values: np.ndarray, least: float) -> np.ndarray:
    """Returns groups of neighbours whose sums exceed `least`; the rest belongs to the last group."""
    groups, group, held = np.zeros(len(values), np.int64), 0, 0.0
    for i, value in enumerate(values):
        groups[i] = group
        held += value
        if held > least:
            group, held = group + 1, 0.0
    return np.minimum(groups, max(group - 1, 0))


def coarse_groups(counts: np.ndarray, most: int, ordered: bool) -> np.ndarray:
    """Returns groups of about equal counts, at most `most`: of neighbours, or of categories of similar frequency."""
    if len(counts) <= most:
        return np.arange(len(counts))
    order = np.arange(len(counts)) if ordered else np.argsort(-counts, kind="stable")
    kept = np.maximum(counts, 0.0)
    groups, group, held, left = np.zeros(len(counts), np.int64), 0, 0.0, float(kept.sum())
    for bin in order:
        groups[bin] = group
        held += kept[bin]
        if group < most - 1 and held * (most - group) >= left:
            group, held, left = group + 1, 0.0, left - held
    return np.unique(groups, return_inverse=True)[1]
