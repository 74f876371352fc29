"""Counts rows of a result by the released counts of its run, with an interval, or by its synthetic rows."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from dpdistill.schema import DataError, TableSchema
from dpdistill.schema.counts import LEVEL

SYNTHETIC_ROWS, RELEASED = "synthetic rows", "released counts"
"""Sources of a count."""


@dataclass(frozen=True)
class RowCount:
    """An estimated number of private rows.

    Args:
        question: the question.
        rows: estimated number of rows, >= 0.
        low: lower end of the 95 % interval; None without an interval.
        high: upper end; None without an interval.
        source: "released counts", or "synthetic rows" if no released table answers the question.
        tables: number of released tables behind the estimate; 0 for synthetic rows.
        reason: why there is no interval; empty with one.
    """

    question: str
    rows: float
    low: float | None
    high: float | None
    source: str
    tables: int
    reason: str = ""


def count(folder: str | os.PathLike, question: str) -> RowCount:
    """Returns the estimated number of private rows that meet a question, with a 95 % interval where there is one.

    A released table answers a question if each of its groups of bins meets the question as a whole or not at all. The
    interval has 1.96 standard deviations of the released noise on both sides. Other questions are answered by the share
    of the synthetic rows, without an interval.

    Args:
        folder: the shared folder of a table, of a method that releases counts (`aim`).
        question: conditions joined by "and": "age>60 and ward=B", "cost is missing".

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
    from dpdistill.schema.questions import bins_chosen, conditions_of, rows_met

    distilled = read_distilled(folder)
    schema = distilled.schema
    released = read_counts_of_cells(folder, schema) if isinstance(schema, TableSchema) else None
    if released is None or not isinstance(schema, TableSchema):
        raise DataError(f"{os.fspath(folder)} has no released counts: make it with --method aim.")
    conditions = conditions_of(question, schema)
    chosen = bins_chosen(conditions, schema, released.intervals)
    found = None if chosen is None else released.estimate(chosen)
    if found is None:
        share = float(rows_met(conditions, schema.from_unit(distilled.X), np.asarray(distilled.y)).mean())
        reason = "no released table has these columns with groups that the question does not split"
        return RowCount(question, share * released.total, None, None, SYNTHETIC_ROWS, 0, reason)
    rows = max(0.0, found.rows)
    if _persons(read_certificate(folder)):
        reason = "rows of a person with several rows count less, so that the counts are no numbers of rows"
        return RowCount(question, rows, None, None, RELEASED, found.tables, reason)
    half = LEVEL * found.stddev
    return RowCount(question, rows, max(0.0, found.rows - half), max(0.0, found.rows + half), RELEASED, found.tables)


def _persons(certificate: dict) -> bool:
    """Returns whether a certificate protects persons with several rows."""
    schedule = certificate["schedule"]
    return schedule is not None and schedule["budget"]["rows_per_unit"] != 1
