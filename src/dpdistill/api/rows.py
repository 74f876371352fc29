"""Makes rows of a synthetic table, on request under a condition."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpdistill.schema import DataError, TableSchema

if TYPE_CHECKING:
    from dpdistill.method import Distilled
    from dpdistill.schema.condition import Condition

MOST_MADE, BATCH = 1_000_000, 50_000
"""Most rows that are made for a condition, or 100 for each row that was asked for if this is more; rows at a time."""

Rows = tuple[np.ndarray, np.ndarray]


def check_new_file(path: Path) -> None:
    """Refuses a file of another format than those for rows, and one that exists."""
    from dpdistill.folder.tables import ROW_ENDINGS, ROW_FILES

    if path.suffix not in ROW_ENDINGS:
        raise DataError(f"Expected --out as a {ROW_FILES} file; got {path}.")
    if path.exists():
        raise DataError(f"{path} exists: choose another file with --out.")


def make_rows(
    folder: str | os.PathLike,
    n: int,
    seed: int,
    distilled: Distilled,
    where: str | None,
    path: Path | None,
    sort: str | None = None,
) -> Rows:
    """Returns n raw rows of a folder's generator and their classes, and writes them; see `sample`.

    Raises:
        DataError: another file format, an existing file, a condition that cannot be read, too few rows for it, or an
            unknown column to sort by.
    """
    from dpdistill.api.pictures import generate
    from dpdistill.folder.tables import write_rows
    from dpdistill.schema.condition import parse_condition
    from dpdistill.storage.files import reading

    schema = distilled.schema
    assert isinstance(schema, TableSchema)
    if path is not None:
        check_new_file(path)
    if sort is not None and sort not in schema.names:
        raise DataError(f"Expected --sort as a column among {', '.join(schema.names)}; got {sort!r:.80}.")
    condition = None if where is None else parse_condition(where, schema)
    if path is not None:
        with reading(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
    if condition is None:
        X, y = generate(folder, n, distilled, seed)
        X = schema.from_unit(X)
    else:
        X, y = _fulfilling(folder, n, seed, distilled, condition)
    if sort is not None:
        X, y = _sorted(X, y, schema, sort)
    if path is not None:
        write_rows(path, X, y, schema)
    return X, y


def _sorted(X: np.ndarray, y: np.ndarray, schema: TableSchema, column: str) -> Rows:
    """Returns rows in the order of a column, or of the label: numbers and times increase, categories as declared.

    Missing values come last; rows of one value keep their order.
    """
    keys = y if column == schema.label else X[:, schema.names.index(column)]
    order = np.argsort(keys, kind="stable")
    return X[order], y[order]


def _fulfilling(folder: str | os.PathLike, n: int, seed: int, distilled: Distilled, condition: Condition) -> Rows:
    """Returns n rows that fulfil a condition, of the generator or of the folder's own rows."""
    from dpdistill.api.pictures import generate
    from dpdistill.folder.layout import GENERATOR
    from dpdistill.schema.condition import rows_of

    schema, kept, found, made = distilled.schema, [], 0, 0
    has_generator, most = (Path(folder) / GENERATOR).is_file(), max(MOST_MADE, 100 * n)
    while found < n and made < most:
        if has_generator:
            batch = int(np.random.default_rng((seed, made)).integers(2**32))
            X, y = generate(folder, min(max(4 * n, 1_000), BATCH, most - made), distilled, batch)
        else:
            X, y, most = distilled.X, distilled.y, len(distilled.y)
        raw = schema.from_unit(X)
        rows = np.flatnonzero(condition.holds(rows_of(raw, y)))[: n - found]
        kept.append((raw[rows], y[rows]))
        found, made = found + len(rows), made + len(y)
    if found < n:
        source = "made rows" if has_generator else "rows of the folder, which has no generator,"
        advice = f"take --n {found}, or a wider condition" if found else "take a wider condition"
        raise DataError(f"{found:,} of {made:,} {source} fulfil the condition; expected {n:,}: {advice}.")
    X, y = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    return X, y
