"""The sections about a synthetic table: some of its rows, and how the values of each column are distributed."""

from __future__ import annotations

import re
from html import escape

import numpy as np

from dpdistill.report import sections
from dpdistill.report.bars import bars_svg, count, cut, histogram_svg, number_text, percent
from dpdistill.report.folder import Folder
from dpdistill.report.markup import section, table
from dpdistill.schema import Column, TableSchema

ROWS, MOST_ROWS = 5, 200
MOST_SHOWN, MOST_DRAWN = 200, 60
MOST_COLOURS = 5
GENERATOR = "generator.npz"
KINDS = {
    "numeric": "number",
    "integer": "whole number",
    "ordinal": "categories in order",
    "categorical": "categories",
}


def unit(text: str) -> tuple[str, str]:
    """Whom one row stands for, and what its owner adds: "row: a day, not a person" as "row", "a day, not a person"."""
    name, _, more = re.sub("[:;]", "\0", text, count=1).partition("\0")
    return name.strip().removeprefix("one ") or "row", more.strip()


def rows(folder: Folder, schema: TableSchema, noised: bool) -> str:
    """The first ROWS rows of each class under their own column names; noised: nothing but noised sums made them."""
    limit = max(1, min(ROWS, MOST_ROWS // len(schema.classes)))
    places = [np.flatnonzero(folder.y == k) for k in range(len(schema.classes))]
    shown = np.concatenate([place[:limit] for place in places])
    columns = schema.columns[:MOST_SHOWN]
    X = schema.from_unit(folder.X[shown])[:, : len(columns)]
    body = (
        [escape(schema.classes[k]), *(value_text(column, x) for column, x in zip(columns, row, strict=True))]
        for k, row in zip(folder.y[shown], X.tolist(), strict=True)
    )
    if len(shown) == len(folder.y):
        text = "These are all the rows of the set."
    else:
        text = f"The first {limit} rows of each class." if limit > 1 else "The first row of each class."
    if len(columns) < len(schema.columns):
        text += f" The first {len(columns)} of {len(schema.columns):,} columns."
    empty = [name for name, place in zip(schema.classes, places, strict=True) if not len(place)]
    if empty:
        text += f" No row is of the class {escape(', '.join(empty))}."
    text += " All rows and columns are in <code>synthetic.csv</code> and <code>synthetic.parquet</code>."
    if noised:
        text += " None of them was copied from a private row: they were computed from noised sums."
    if folder.has(GENERATOR):
        text += f" <code>{GENERATOR}</code> makes more of them with <code>dpdistill sample</code>."
    text += sections.classifier(folder)
    heads = [escape(name) for name in (schema.label, *(column.name for column in columns))]
    grid = f'<div class="rows">{table(heads, body)}</div>'
    return section("The synthetic rows", f'<p class="soft small">{text}</p>', grid)


def value_text(column: Column, value: float) -> str:
    """A raw value, escaped: a category by name, a whole number without a point, an en dash where it is missing."""
    if value != value:
        return "–"
    if not column.is_number:
        return escape(column.categories[int(value)])
    return number_text(value)


def marginals(folder: Folder, schema: TableSchema) -> str:
    """A picture a column, at most MOST_DRAWN; coloured by class where there are at most MOST_COLOURS."""
    coloured = len(schema.classes) <= MOST_COLOURS
    groups = folder.y.astype(np.intp) if coloured else np.zeros(len(folder.y), np.intp)
    columns = schema.columns[:MOST_DRAWN]
    X = schema.from_unit(folder.X)[:, : len(columns)]
    size = len(schema.classes) if coloured else 1
    figures = "\n".join(_figure(column, x, groups, size) for column, x in zip(columns, X.T, strict=True))
    text = f"How the values of each column are distributed over the {len(folder.y):,} synthetic rows"
    text += ", the classes stacked." if coloured else "."
    if any(column.is_number for column in columns):
        text += " Numbers run over the bounds that the owner declared."
    if any(column.missing for column in columns):
        text += " The bar marked – stands for missing values."
    return section(
        "Marginals",
        f'<p class="soft small">{text}</p>',
        _legend(schema) if coloured else "",
        f'<div class="columns">\n{figures}\n</div>',
        _others([column.name for column in schema.columns[MOST_DRAWN:]]),
    )


def _figure(column: Column, values: np.ndarray, groups: np.ndarray, size: int) -> str:
    counts = count(column, values, groups, size)
    picture = histogram_svg(column, counts) if column.is_number else bars_svg(column, counts)
    facts = KINDS[column.kind] + (", log scale" if column.scale == "log" else "")
    if counts.absent.any():
        facts += f", {percent(counts.absent.sum() / counts.rows)} missing"
    return f"<figure><figcaption>{escape(cut(column.name, 80))} <small>{facts}</small></figcaption>\n{picture}</figure>"


def _legend(schema: TableSchema) -> str:
    items = (f'<span><i class="c{k}"></i>{escape(name)}</span>' for k, name in enumerate(schema.classes))
    return f'<p class="legend"><b>{escape(cut(schema.label, 80))}</b> {" ".join(items)}</p>'


def _others(names: list[str]) -> str:
    if not names:
        return ""
    listed = ", ".join(f"<code>{escape(name)}</code>" for name in names)
    return f"<details><summary>{len(names):,} more columns, not drawn</summary><p>{listed}</p></details>"
