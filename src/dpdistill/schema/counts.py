"""Released counts of a table's cells: what an archive holds, and estimates of how many rows have chosen bins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpdistill.schema.bins import ColumnBins, bins_of
from dpdistill.schema.errors import DataError
from dpdistill.schema.table import TableSchema

LEVEL = 1.959963984540054
"""Standard deviations of normal noise in a 95 % interval, on each side."""
DIMENSIONS = 3
"""Most attributes of a table."""

Maps = tuple[np.ndarray, ...]


class Counts(NamedTuple):
    """Released counts of one table.

    Args:
        attributes: columns of the table in increasing order; the number of columns stands for the label.
        values: noised counts, of the shape of the groups.
        stddev: standard deviation of their noise.
        maps: place of the groups of bins in `ReleasedCounts.maps`.
    """

    attributes: tuple[int, ...]
    values: np.ndarray
    stddev: float
    maps: int = 0


class Estimate(NamedTuple):
    """Estimated number of rows.

    Args:
        rows: estimate.
        stddev: standard deviation of the noise of the estimate.
        tables: number of released tables behind it.
    """

    rows: float
    stddev: float
    tables: int


class Bracket(NamedTuple):
    """95 % interval of a number of rows between the groups that are chosen as a whole and those chosen in part.

    Args:
        low: lower end.
        high: upper end.
    """

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class ReleasedCounts:
    """Released counts of the tables of a run, with the groups of bins that they count.

    Args:
        intervals: bins of a number with many values, which give the bins of every column.
        maps: for each kind of tables, the group of each bin of each attribute; the label is the last attribute.
        tables: the released tables.
    """

    intervals: int
    maps: tuple[Maps, ...]
    tables: tuple[Counts, ...]

    @property
    def total(self) -> float:
        """Returns the number of rows, >= 1."""
        return total_of([one for one in self.tables if len(one.attributes) == 1])

    def estimate(self, chosen: Mapping[int, np.ndarray]) -> Estimate | None:
        """Returns the number of rows whose bins are all chosen; None if no table answers this exactly.

        Each table that holds the attributes, and whose groups are chosen as a whole or not at all, gives the sum of its
        cells. The estimate is the mean of these sums, weighted by the precision of their noise.

        Args:
            chosen: for some attributes, whether each bin is chosen, (bins,), bool.
        """
        sums, precisions = [], []
        for table in self._holding(chosen):
            whole, some = self._groups(table, chosen, chosen)
            if all((one == other).all() for one, other in zip(whole, some, strict=True)):
                values = table.values[np.ix_(*whole)]
                sums.append(float(values.sum()))
                precisions.append(1.0 / (max(values.size, 1e-9) * max(table.stddev, 1e-9) ** 2))
        if not sums:
            return None
        precision = math.fsum(precisions)
        return Estimate(float(np.dot(sums, precisions) / precision), precision**-0.5, len(sums))

    def bracket(
        self, whole: Mapping[int, np.ndarray], some: Mapping[int, np.ndarray], codes: np.ndarray
    ) -> Bracket | None:
        """Returns a 95 % interval for a question that splits groups of bins; None if no table holds its attributes.

        The lower end counts the cells of groups that are chosen as a whole, the upper end those chosen in part, too:
        minus and plus 1.96 standard deviations. Synthetic rows choose the table with the narrowest expected interval.

        Args:
            whole: for some attributes, whether each bin is chosen as a whole, (bins,), bool.
            some: for the same attributes, whether each bin is chosen in part.
            codes: bins of synthetic rows, (n, attributes).
        """
        found: list[tuple[float, Bracket]] = []
        for table in self._holding(whole):
            widest, ends = 0.0, []
            for groups, sign in zip(self._groups(table, whole, some), (-1.0, 1.0), strict=True):
                values = table.values[np.ix_(*groups)]
                noise = LEVEL * table.stddev * math.sqrt(values.size)
                maps = self.maps[table.maps]
                held = [one[maps[a][codes[:, a]]] for a, one in zip(table.attributes, groups, strict=True)]
                widest += sign * self.total * float(np.all(held, 0).mean()) + noise
                ends.append(float(values.sum()) + sign * noise)
            found.append((widest, Bracket(*ends)))
        return min(found)[1] if found else None

    def _holding(self, chosen: Mapping[int, Any]) -> list[Counts]:
        """Returns the tables that hold all attributes of a question."""
        return [table for table in self.tables if {*chosen} <= {*table.attributes}]

    def _groups(self, table: Counts, whole: Mapping[int, Any], some: Mapping[int, Any]) -> tuple[list, list]:
        """Returns whether each group of a table's attributes is chosen as a whole, and whether in part."""
        maps = [(a, self.maps[table.maps][a]) for a in table.attributes]
        sizes = [np.bincount(groups) for _, groups in maps]
        inner, outer = (
            [np.bincount(groups, of.get(a, np.ones(len(groups)))) for a, groups in maps] for of in (whole, some)
        )
        return [held == size for held, size in zip(inner, sizes, strict=True)], [held > 0 for held in outer]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Returns the arrays of marginals.npz."""
        width = max(len(groups) for groups in self.maps[0])
        maps = np.zeros((len(self.maps), len(self.maps[0]), width), "<i4")
        for one, of in zip(maps, self.maps, strict=True):
            for row, groups in zip(one, of, strict=True):
                row[: len(groups)] = groups
        tables = np.full((len(self.tables), 1 + DIMENSIONS), -1, "<i4")
        for row, table in zip(tables, self.tables, strict=True):
            row[0], row[1 : 1 + len(table.attributes)] = table.maps, table.attributes
        return {
            "intervals": np.array(self.intervals, "<i8"),
            "maps": maps,
            "tables": tables,
            "counts": np.concatenate([table.values.ravel() for table in self.tables]).astype("<f8"),
            "stddev": np.array([table.stddev for table in self.tables], "<f8"),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], schema: TableSchema) -> ReleasedCounts:
        """Returns the counts that `to_arrays` wrote.

        Raises:
            DataError: arrays of another form, or arrays that do not belong to the schema.
        """
        try:
            return cls._read(arrays, schema)
        except (KeyError, ValueError, IndexError, TypeError, OverflowError):
            raise DataError("Expected released counts of the schema's columns; the arrays have another form.") from None

    @classmethod
    def _read(cls, arrays: Mapping[str, np.ndarray], schema: TableSchema) -> ReleasedCounts:
        intervals = int(arrays["intervals"])
        if not 2 <= intervals <= 1 << 16:
            raise ValueError
        sizes = sizes_of(bins_of(schema, intervals), len(schema.classes))
        maps, tables = np.array(arrays["maps"]), np.array(arrays["tables"])
        counts, stddev = np.array(arrays["counts"]), np.array(arrays["stddev"])
        wide = tables.ndim == 2 and tables.shape[1] == 1 + DIMENSIONS and len(tables) == len(stddev)
        if maps.dtype.kind not in "iu" or {counts.dtype.kind, stddev.dtype.kind} != {"f"}:
            raise ValueError
        if maps.shape[1:] != (len(sizes), max(sizes)) or not wide or counts.ndim != 1 or stddev.ndim != 1:
            raise ValueError
        if not np.isfinite(counts).all() or not (stddev >= 0).all() or not np.isfinite(stddev).all() or maps.min() < 0:
            raise ValueError
        of = tuple(tuple(row[:size] for row, size in zip(one, sizes, strict=True)) for one in maps)
        if any(groups.max() >= len(groups) for one in of for groups in one):
            raise ValueError
        found, start = [], 0
        for (place, *attributes), noise in zip(tables.tolist(), stddev.tolist(), strict=True):
            named = tuple(a for a in attributes if a >= 0)
            if not named or not 0 <= place < len(of) or sorted({*named}) != [*named]:
                raise ValueError
            shape = shape_of(of[place], named)
            end = start + math.prod(shape)
            found.append(Counts(named, counts[start:end].reshape(shape), noise, place))
            start = end
        if start != len(counts) or not any(len(one.attributes) == 1 for one in found):
            raise ValueError
        return cls(intervals, of, tuple(found))


def sizes_of(bins: Sequence[ColumnBins], classes: int) -> tuple[int, ...]:
    """Returns the number of bins of each attribute: the columns and the label."""
    return (*(one.cells for one in bins), classes)


def shape_of(maps: Maps, table: Sequence[int]) -> tuple[int, ...]:
    """Returns the number of groups of each attribute of a table."""
    return tuple(int(maps[a].max()) + 1 for a in table)


def total_of(one_way: Sequence[Counts]) -> float:
    """Returns the number of rows, >= 1: the mean of the sums of tables, weighted by their precision."""
    precision = np.array([1.0 / (counts.values.size * max(counts.stddev, 1e-9) ** 2) for counts in one_way])
    sums = np.array([counts.values.sum() for counts in one_way])
    return max(1.0, float(precision @ sums / precision.sum()))
