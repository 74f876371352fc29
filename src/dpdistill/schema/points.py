"""Points of a linear classifier of a table's rows: one per category, knot or missing value, and an intercept."""

from __future__ import annotations

from dpdistill.schema.errors import DataError
from dpdistill.schema.table import TableSchema


def knots_of(points: int, schema: TableSchema) -> int:
    """Returns the number of knots of each number behind a number of points per class; 2 for a table without numbers.

    Raises:
        DataError: a number of points that does not belong to the schema.
    """
    numbers = sum(column.kind != "categorical" for column in schema.columns)
    others = 1 + sum(column.width - (column.kind != "categorical") for column in schema.columns)
    knots, rest = divmod(points - others, numbers) if numbers else (2, points - others)
    if rest or knots < 2:
        raise DataError(f"Expected a classifier of {schema}; got one of {points} points per class.")
    return knots
