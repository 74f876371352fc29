"""Renders a synthetic table for templates/table.html: some of its rows, and one chart per column."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from dpdistill.publish.report import words
from dpdistill.publish.report.charts import bars, count, histogram
from dpdistill.publish.report.folder import Folder
from dpdistill.schema import Column, TableSchema

ROWS, MOST_ROWS = 5, 200
MOST_SHOWN, MOST_DRAWN = 200, 60
MOST_COLOURS = 5
KINDS = {
    "numeric": "number",
    "integer": "whole number",
    "date": "date",
    "datetime": "date and time",
    "duration": "duration",
    "ordinal": "categories in order",
    "categorical": "categories",
}


def unit(text: str) -> str:
    """Returns the meaning of a row as its owner declared it: of "row: a day, not a person" the text after the colon."""
    name, _, more = re.sub("[:;]", "\0", text, count=1).partition("\0")
    name = name.strip().removeprefix("one ")
    stands = f"stands for: {name}, as declared by the publisher" if name not in ("", "row") else ""
    return "; ".join(filter(None, (stands, more.strip())))


def shown_rows(folder: Folder, schema: TableSchema) -> dict[str, Any]:
    """Returns the first ROWS rows of each class as text under their column names."""
    limit = max(1, min(ROWS, MOST_ROWS // len(schema.classes)))
    places = [np.flatnonzero(folder.y == k) for k in range(len(schema.classes))]
    shown = np.concatenate([place[:limit] for place in places])
    columns = schema.columns[:MOST_SHOWN]
    X = schema.from_unit(folder.X[shown])[:, : len(columns)].tolist()
    return {
        "limit": limit,
        "complete": len(shown) == len(folder.y),
        "columns": [column.name for column in columns],
        "header": [*([] if schema.label is None else [schema.label]), *(column.name for column in columns)],
        "rows": [
            [
                *([] if schema.label is None else [schema.classes[k]]),
                *(value_text(column, x) for column, x in zip(columns, row, strict=True)),
            ]
            for k, row in zip(folder.y[shown], X, strict=True)
        ],
        "empty": [name for name, place in zip(schema.classes, places, strict=True) if not len(place)],
    }


def value_text(column: Column, value: float) -> str:
    """Returns a raw value as text: a category's name, a whole number without a point, an en dash if missing."""
    if value != value:
        return "–"
    if column.is_time:
        return column.text(value)
    return words.number(value) if column.is_number else column.categories[int(value)]


def marginals(folder: Folder, schema: TableSchema) -> dict[str, Any]:
    """Returns one chart per column, at most MOST_DRAWN; coloured by class for at most MOST_COLOURS classes."""
    coloured = schema.label is not None and len(schema.classes) <= MOST_COLOURS
    groups = folder.y.astype(np.intp) if coloured else np.zeros(len(folder.y), np.intp)
    columns = schema.columns[:MOST_DRAWN]
    X = schema.from_unit(folder.X)[:, : len(columns)]
    size = len(schema.classes) if coloured else 1
    figures = []
    for column, x in zip(columns, X.T, strict=True):
        counts = count(column, x, groups, size)
        missing = counts.absent.sum() / counts.rows if counts.absent.any() else 0
        chart = (histogram if column.is_number else bars)(column, counts)
        figures.append({"column": column, "kind": KINDS[column.kind], "missing": missing, "chart": chart})
    return {
        "coloured": coloured,
        "figures": figures,
        "not_drawn": [column.name for column in schema.columns[MOST_DRAWN:]],
        "any_number": any(column.is_number for column in columns),
        "any_missing": any(column.missing for column in columns),
    }
