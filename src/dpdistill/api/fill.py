"""Fills empty cells of a partner's rows from the synthetic rows that are most like them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpdistill.api.listener import SILENT, Listener
from dpdistill.api.options import MAX_SEED
from dpdistill.schema import Column, DataError, TableSchema

if TYPE_CHECKING:
    import pandas as pd

    from dpdistill.method import Distilled

DONORS, NEAREST = 20_000, 10
"""Synthetic rows that give values, and how many of the nearest ones are considered for a row."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Filled:
    """Rows without empty cells.

    Args:
        X: raw rows, (n, columns), in the order of the file.
        y: class indices, (n,); 0 without a label.
        schema: public facts of the folder's table.
        cells: number of cells that were filled.
        broken: number of filled rows that break a constraint, because their own values do or no synthetic row fits.
        donors: number of synthetic rows that gave values.
        path: written file, or None.
    """

    X: np.ndarray
    y: np.ndarray
    schema: TableSchema
    cells: int
    broken: int
    donors: int
    path: Path | None = None

    def to_frame(self) -> pd.DataFrame:
        """Returns the rows as a frame with the schema's columns, then the label."""
        from dpdistill.folder.tables import to_frame

        return to_frame(self.X, self.y, self.schema)


def fill(
    folder: str | os.PathLike,
    rows: object,
    out: str | os.PathLike | None = None,
    *,
    schema: str | os.PathLike | None = None,
    seed: int = 1,
    listener: Listener = SILENT,
) -> Filled:
    """Fills the empty cells of rows from synthetic rows, at no further cost.

    The empty cells of a row are those of one synthetic row, drawn among the 10 that differ least in the known cells
    (hot-deck imputation). Of these, rows that keep the constraints come first. A known cell is never changed.

    Args:
        folder: the shared folder of a table.
        rows: a table with the folder's columns, any cell of which may be empty: a CSV, Parquet, Arrow or Excel file,
            or a pandas frame.
        out: new .csv, .parquet, .feather or .arrow file; None writes no file.
        schema: schema.yaml of the rows if their file format differs from that of the folder's table.
        seed: public seed of the synthetic rows and of the draws, 0 to 4294967295.
        listener: receives progress.

    Returns:
        The rows, in their order, with the schema's columns.

    Raises:
        DataError: a folder of images, rows that cannot be read, or a path that cannot be written.

    Guarantee:
        Post-processing of the release: the guarantee of the folder's certificate. The partner's rows are not protected.

    Source:
        Andridge and Little 2010, A review of hot deck imputation for survey non-response.
    """
    from dpdistill.api.rows import check_new_file
    from dpdistill.folder.save import read_distilled
    from dpdistill.folder.tables import write_rows
    from dpdistill.sources.tables.load import load_table
    from dpdistill.sources.tables.schema_file import TableFile, read_schema, without_units
    from dpdistill.storage.files import reading

    if type(seed) is not int or not 0 <= seed <= MAX_SEED:
        raise DataError(f"Expected seed={seed!r:.80} as a whole number from 0 to {MAX_SEED}.")
    distilled, path = read_distilled(folder), None if out is None else Path(out)
    facts = distilled.schema
    if not isinstance(facts, TableSchema):
        raise DataError(f"{folder} holds images: only rows of a table have cells to fill.")
    if path is not None:
        check_new_file(path)
        with reading(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
    stated = without_units(read_schema(schema or Path(folder) / "schema.yaml"))
    if stated.schema.names != facts.names:
        raise DataError(f"Expected the columns of {folder} in {schema}; it states others.")
    wide = _all_may_be_missing(stated.schema)
    read = load_table(rows, TableFile(wide, True, stated.csv, stated.ignored))
    donors = _donors(folder, distilled, facts, seed)
    X, y, broken = _filled(read.X, donors, facts, seed, listener)
    cells = int(np.isnan(read.X).sum())
    found = Filled(X=X, y=y, schema=facts, cells=cells, broken=broken, donors=len(donors), path=path)
    if path is not None:
        write_rows(path, X, y, facts)
    return found


def _all_may_be_missing(schema: TableSchema) -> TableSchema:
    """Returns a schema without a label whose columns, the label as the last one, may all be missing."""
    columns = [replace(column, missing=True) for column in schema.columns]
    if schema.label is not None:
        values = tuple(value for group in schema.label_values for value in group)
        columns.append(Column(schema.label, "categorical", categories=values, missing=True))
    return TableSchema(tuple(columns), unit=schema.unit)


def _class_of_value(schema: TableSchema) -> np.ndarray:
    """Returns the class index of each value of the label's column, in the order of `_all_may_be_missing`."""
    return np.repeat(np.arange(len(schema.classes)), [len(group) for group in schema.label_values])


def _donors(folder: str | os.PathLike, distilled: Distilled, schema: TableSchema, seed: int) -> np.ndarray:
    """Returns raw synthetic rows, the class index as last column if there is a label."""
    from dpdistill.api.pictures import generate
    from dpdistill.folder.layout import GENERATOR
    from dpdistill.schema.condition import rows_of

    has_generator = (Path(folder) / GENERATOR).is_file()
    X, y = generate(folder, DONORS, distilled, seed) if has_generator else (distilled.X, distilled.y)
    rows = rows_of(schema.from_unit(X), y)
    return rows if schema.label is not None else rows[:, :-1]


def _filled(
    rows: np.ndarray, donors: np.ndarray, schema: TableSchema, seed: int, listener: Listener
) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns X, y and the number of rows that break a constraint; rows with the same empty cells together."""
    from sklearn.neighbors import NearestNeighbors

    rows, rng = rows.copy(), np.random.default_rng(seed)
    if schema.label is not None:
        known = ~np.isnan(rows[:, -1])
        rows[known, -1] = _class_of_value(schema)[rows[known, -1].astype(int)]
    U, of_column = _coordinates(donors, schema)
    V, _ = _coordinates(rows, schema)
    patterns, at = np.unique(np.isnan(rows), axis=0, return_inverse=True)
    broken, rules = 0, [] if schema.rules is None else schema.rules.all
    with listener.progress() as bar:
        for k, empty in enumerate(patterns):
            if empty.any():
                some, whole = np.flatnonzero(at.ravel() == k), ~np.isnan(donors[:, empty]).any(1)
                giving = np.flatnonzero(whole) if whole.any() else np.arange(len(donors))
                most = min(NEAREST, len(giving))
                seen = ~empty[of_column]
                if seen.any():
                    near = NearestNeighbors(n_neighbors=most, algorithm="brute").fit(U[np.ix_(giving, seen)])
                    order = giving[near.kneighbors(V[np.ix_(some, seen)], return_distance=False)]
                else:
                    order = giving[rng.integers(len(giving), size=(len(some), most))]
                order = rng.permuted(order, axis=1)
                tried = np.repeat(rows[some][:, None], most, axis=1)
                tried[:, :, empty] = donors[order][:, :, empty]
                kept = np.ones(order.shape, bool)
                for rule in rules:
                    flat = tried[..., : len(schema.columns)].reshape(-1, len(schema.columns))
                    kept &= rule.holds(flat).reshape(kept.shape)
                rows[some] = tried[np.arange(len(some)), kept.argmax(1)]
                broken += int((~kept.any(1)).sum())
            bar("filling", k + 1, len(patterns))
    if schema.label is None:
        return rows, np.zeros(len(rows), np.int64), broken
    return rows[:, :-1], rows[:, -1].astype(np.int64), broken


def _coordinates(rows: np.ndarray, schema: TableSchema) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows (n, coordinates) in which two categories, or the two bounds of a number, have the distance 1.

    Also returns the column of each coordinate. A missing value is 0 in all of its coordinates.
    """
    parts, of_column = [], []
    columns = [*schema.columns]
    if schema.label is not None:
        columns.append(Column(schema.label, "categorical", categories=schema.classes))
    for i, column in enumerate(columns):
        alone = TableSchema((replace(column, missing=True),))
        part = np.asarray(alone.to_unit(rows[:, [i]]), np.float32)[:, : column.width - column.missing]
        categorical = column.kind == "categorical"
        part = np.where(np.isnan(rows[:, [i]]), 0.0, part / (np.sqrt(2.0) if categorical else 2.0))
        parts.append(part.astype(np.float32))
        of_column += [i] * part.shape[1]
    return np.concatenate(parts, 1), np.array(of_column)
