"""Counts rows of a result by the released counts of its run, with an interval, or by its synthetic rows."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpdistill.schema import DataError, TableSchema
from dpdistill.schema.bins import bins_of, codes_of
from dpdistill.schema.counts import LEVEL, Bracket

if TYPE_CHECKING:
    from dpdistill.method import Distilled

SYNTHETIC_ROWS, RELEASED = "synthetic rows", "released counts"
"""Sources of a count."""
WEIGHTED = "rows of a person with several rows count less, so that the counts are no numbers of rows"
"""Why counts of a run for persons have no interval."""
NO_PRODUCT = "a condition with or and not has no interval: ask for its parts"
"""Why a condition that is no product of bins has no interval."""


@dataclass(frozen=True)
class RowCount:
    """An estimated number of private rows.

    Args:
        question: the question.
        rows: estimated number of rows, >= 0.
        low: lower end of the 95 % interval; None without an interval.
        high: upper end; None without an interval.
        source: "released counts", or "synthetic rows" if no released table has the columns of the question.
        tables: number of released tables behind the estimate; 0 for synthetic rows.
        reason: why there is no interval; empty with one.
        exact: whether the question splits no group of bins of a released table.
    """

    question: str
    rows: float
    low: float | None
    high: float | None
    source: str
    tables: int
    reason: str = ""
    exact: bool = True


def count(folder: str | os.PathLike, question: str) -> RowCount:
    """Returns the estimated number of private rows that meet a question, with a 95 % interval where there is one.

    A released table answers a question exactly if each of its groups of bins meets the question as a whole or not at
    all. The interval then has 1.96 standard deviations of the released noise on both sides. A question that splits
    groups has an interval from the rows of whole groups to those of split groups. A question on columns that no table
    holds is answered by the synthetic rows alone, without an interval.

    Args:
        folder: the shared folder of a table, of a method that releases counts (`aim`).
        question: a condition such as "age > 60 and ward = B" or "cost is missing"; comparisons that are joined by "and"
            can have an interval.

    Raises:
        DataError: a folder without released counts, an unknown column or value, or a text that is no question.

    Guarantee:
        Post-processing of the release: the guarantee of the folder's certificate.

    Example:
        >>> count("shared", "age>60 and ward=B").rows  # doctest: +SKIP
        312.4
    """
    from dpdistill.certificate.build import read_certificate
    from dpdistill.folder.save import read_counts_of_cells, read_distilled
    from dpdistill.schema.condition import parse_condition, rows_of
    from dpdistill.schema.questions import bins_chosen, comparisons_of

    distilled = read_distilled(folder)
    schema = distilled.schema
    released = read_counts_of_cells(folder, schema) if isinstance(schema, TableSchema) else None
    if released is None or not isinstance(schema, TableSchema):
        raise DataError(f"{os.fspath(folder)} has no released counts: make it with --method aim.")
    condition = parse_condition(question, schema)
    share = float(condition.holds(rows_of(schema.from_unit(distilled.X), distilled.y)).mean())
    comparisons = comparisons_of(condition)
    if comparisons is None:
        return RowCount(question, share * released.total, None, None, SYNTHETIC_ROWS, 0, NO_PRODUCT, exact=False)
    chosen = bins_chosen(comparisons, schema, released.intervals)
    whole, some = ({a: getattr(one, part) for a, one in chosen.items()} for part in ("whole", "some"))
    persons = _persons(read_certificate(Path(folder)))
    if all((one.whole == one.some).all() for one in chosen.values()) and (found := released.estimate(whole)):
        half = LEVEL * found.stddev
        ends = Bracket(found.rows - half, found.rows + half)
        low, high = map(_at_least_0, ends)
        result = RowCount(question, max(0.0, found.rows), low, high, RELEASED, found.tables)
    elif ends := released.bracket(whole, some, _codes(distilled, schema, released.intervals)):
        low, high = sorted(map(_at_least_0, ends))
        rows = min(max(share * released.total, low), high)
        result = RowCount(question, rows, low, high, RELEASED, 1, "", exact=False)
    else:
        reason = "no released table has these columns"
        return RowCount(question, share * released.total, None, None, SYNTHETIC_ROWS, 0, reason, exact=False)
    return replace(result, low=None, high=None, reason=WEIGHTED) if persons else result


def _at_least_0(rows: float) -> float:
    return max(0.0, rows)


def _codes(distilled: Distilled, schema: TableSchema, intervals: int) -> np.ndarray:
    """Returns the bins of the columns and labels of synthetic rows, (n, attributes)."""
    bins = bins_of(schema, intervals)
    return np.column_stack([codes_of(distilled.X, bins), distilled.y])


def _persons(certificate: dict) -> bool:
    """Returns whether a certificate protects persons with several rows."""
    schedule = certificate["schedule"]
    return schedule is not None and schedule["budget"]["rows_per_unit"] != 1
