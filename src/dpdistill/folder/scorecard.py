"""Writes a classifier released from a table as a scorecard: points per category, knot or missing value."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import numpy as np

from dpdistill.schema import Column, TableSchema
from dpdistill.schema.points import knots_of
from dpdistill.schema.table import from_share, scale_ends

INTERCEPT = "(intercept)"
"""Name that the scorecard's first line has instead of a column; the line holds every row's first points."""
SPREAD = "(spread)"
"""Name of the line with the standard deviation of a number around its prediction."""


def scorecard_content(points: np.ndarray, schema: TableSchema) -> bytes:
    """Returns the bytes of scorecard.csv: the header column, kind, value and the classes; then one line per value.

    The score of a class is the sum of the intercept and of one number per column: the points of the row's category,
    those of a missing value, or, for a number, the linear interpolation between its neighbouring knots. For the kind
    "log number" the interpolation is linear on the schema's log scale. Probabilities are the softmax of the scores.
    For a number to predict the sum is the prediction, in the units of the number, on the log scale of a log number.

    Args:
        points: released classifier, (D, classes): the points of each column, in the order of the schema; the intercept.
            A released regression, (D, 2): mean and standard deviation of the scaled number.
        schema: schema of the table.

    Raises:
        DataError: points that do not belong to the schema.
    """
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    knots, start = knots_of(len(points), schema.inputs), 0
    if schema.target is None:
        table.writerow(["column", "kind", "value", *schema.classes])
    else:
        points, spread = _in_units(points, schema)
        table.writerow(["column", "kind", "value", schema.target])
        table.writerow([SPREAD, "standard deviation", "", _number(spread)])
    table.writerow([INTERCEPT, "intercept", "", *map(_number, points[-1])])
    for column in schema.inputs.columns:
        width = column.width if column.kind == "categorical" else knots + column.missing
        for kind, value, row in _lines(column, points[start : start + width], knots):
            table.writerow([column.name, kind, value, *map(_number, row)])
        start += width
    return text.getvalue().encode()


def _in_units(points: np.ndarray, schema: TableSchema) -> tuple[np.ndarray, float]:
    """Returns points (D, 1) that sum to the number in its own units, or on its log scale, and the standard deviation.

    On a log scale the sum is s = sign(x - zero) log(1 + |x - zero|), zero the number where the scale begins.
    """
    first, last = scale_ends(schema.columns[schema.target_column or 0])
    half = (last - first) / 2.0
    found = points[:, :1].astype(np.float64) * half
    found[-1] += first + half
    return found, float(points[-1, 1]) * half


def _lines(column: Column, points: np.ndarray, knots: int) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yields kind, value and points of each line of a column; categories in order have interpolated points."""
    if column.is_number:
        low, high = column.bounds or (0.0, 0.0)
        log = column.scale == "log"
        values = from_share(np.linspace(0.0, 1.0, knots), low, high, log)
        name = column.kind if column.is_time else "number"
        kind = f"log {name}" if log else name
        texts = [column.text(x) if column.kind in ("date", "datetime") else _number(x) for x in values]
        yield from ((kind, text, row) for text, row in zip(texts, points, strict=False))
    elif column.kind == "categorical":
        yield from (("category", name, row) for name, row in zip(column.categories, points, strict=False))
    else:
        places = np.linspace(0.0, knots - 1.0, len(column.categories))
        found = np.column_stack([np.interp(places, np.arange(knots), each) for each in points[:knots].T])
        yield from (("category", name, row) for name, row in zip(column.categories, found, strict=True))
    if column.missing:
        yield "missing", "", points[-1]


def _number(x: float) -> str:
    return f"{x:.7g}"
