"""Converts table rows back to their original columns and types: a frame, synthetic.csv, synthetic.parquet."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpdistill.folder.layout import CSV, PARQUET
from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.schema.column import LARGEST_WHOLE
from dpdistill.schema.times import writer
from dpdistill.storage.atomic import write_atomically, writing
from dpdistill.storage.files import show

if TYPE_CHECKING:
    import pandas as pd

ROW_ENDINGS = (".csv", ".parquet", ".feather", ".arrow")
"""Endings of the files that `write_rows` writes."""
ROW_FILES = f"{', '.join(ROW_ENDINGS[:-1])} or {ROW_ENDINGS[-1]}"


def to_frame(X: np.ndarray, y: np.ndarray, schema: TableSchema) -> pd.DataFrame:
    """Returns raw rows as a frame with the schema's columns, then the label; the types follow from the schema.

    Args:
        X: raw rows, (n, columns): numbers, indices of categories, NaN for a missing value.
        y: class indices, (n,).
        schema: schema of the table.

    Returns:
        Integer columns as int64, or Int64 if values may be missing; numeric ones as float64. Dates and datetimes are
        datetime64[s], with the stated time zone; durations are timedelta64[s]. Categories and class names `false` and
        `true` become bool, or boolean; other names become categoricals of texts.

    Raises:
        DataError: rows that do not fit the schema.
    """
    return _frame(X, y, schema)


def _frame(X: np.ndarray, y: np.ndarray, schema: TableSchema, spelled: bool = False) -> pd.DataFrame:
    """Returns a frame as `to_frame`; with `spelled`, as texts: truth values, times, numbers with stated places."""
    import pandas as pd

    X, y = np.asarray(X, np.float64), np.asarray(y)
    if X.ndim != 2 or X.shape[1:] != schema.raw_shape or y.shape != X.shape[:1]:
        raise DataError(f"Expected X of shape (n, {len(schema.columns)}) and y (n,); got {X.shape} and {y.shape}.")
    if y.dtype.kind not in "ui" or (y.size and not 0 <= y.min() <= y.max() < len(schema.classes)):
        raise DataError(f"Expected class indices y from 0 to {len(schema.classes) - 1}.")
    columns: dict[str, Any] = {
        column.name: _values(X[:, i], column, spelled) for i, column in enumerate(schema.columns)
    }
    if schema.label is not None:
        columns[schema.label] = _chosen(y.astype(np.int64), schema.classes, spelled)
    return pd.DataFrame(columns)


def _values(codes: np.ndarray, column: Column, spelled: bool) -> Any:
    """Returns a column's values from its codes (n,)."""
    import pandas as pd

    absent = np.isnan(codes)
    if np.isinf(codes).any() or (absent.any() and not column.missing):
        raise DataError(f"Expected a finite value in every row of column {column.name!r}.")
    if spelled and (column.is_time or column.places is not None):
        return _texts(codes, column)
    if column.kind == "numeric":
        return codes
    codes = np.where(absent, 0, codes)
    if (codes != np.rint(codes)).any() or np.abs(codes).max(initial=0.0) > LARGEST_WHOLE:
        raise DataError(f"Expected whole numbers in column {column.name!r}.")
    whole = codes.astype(np.int64)
    if column.is_time:
        return _times(whole, absent, column)
    if column.kind == "integer":
        return pd.arrays.IntegerArray(whole, absent) if column.missing else whole
    if whole.size and not 0 <= whole.min() <= whole.max() < len(column.categories):
        raise DataError(f"Expected indices of the {len(column.categories)} categories of column {column.name!r}.")
    codes = np.where(absent, -1, whole)
    return _chosen(codes, column.categories, spelled, column.kind == "ordinal", column.missing)


def _texts(codes: np.ndarray, column: Column) -> list[str | None]:
    """Returns times in the format of the column, or numbers with its decimal places."""
    cells, at = np.unique(np.where(np.isnan(codes), column.ends[0], codes), return_inverse=True)
    if column.is_time:
        write = writer(column.time)
        texts = [write(int(code)) for code in cells]
    else:
        texts = [f"{number:.{column.places}f}" for number in cells]
    return [None if gap else texts[i] for gap, i in zip(np.isnan(codes), at, strict=True)]


def _times(whole: np.ndarray, absent: np.ndarray, column: Column) -> Any:
    import pandas as pd

    seconds, length = whole * column.time.unit, column.kind == "duration"
    values = np.where(absent, np.iinfo(np.int64).min, seconds).view(f"{'m' if length else 'M'}8[s]")  # NaT
    series: Any = pd.Series(values)
    return series if column.zone is None else series.dt.tz_localize("UTC").dt.tz_convert(column.zone)


def to_arrow(frame: pd.DataFrame, schema: TableSchema) -> Any:
    """Returns a frame of `to_frame` as an Arrow table: dates without time, datetimes in milliseconds."""
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    for i, column in enumerate(schema.columns):
        if column.is_time:
            table = table.set_column(i, column.name, table.column(i).cast(arrow_type(column)))
    return table


def arrow_type(column: Column) -> Any:
    """Returns the Arrow type of a column of times."""
    import pyarrow as pa

    kinds = {"date": pa.date32(), "datetime": pa.timestamp("ms", column.zone), "duration": pa.duration("s")}
    return kinds[column.kind]


def are_truth_values(names: Sequence[str]) -> bool:
    """Returns whether categories or classes are `false` and `true`, in either order and any case."""
    return len(names) == 2 and {name.lower() for name in names} == {"false", "true"}


def _chosen(
    codes: np.ndarray, names: tuple[str, ...], spelled: bool, ordered: bool = False, missing: bool = False
) -> Any:
    """Returns categories or classes by their indices, (n,); -1 for a missing one."""
    import pandas as pd

    if spelled or not are_truth_values(names):
        return pd.Categorical.from_codes(codes, pd.Index(list(names)), ordered=ordered)
    truth = np.array([name.lower() == "true" for name in names])[codes]
    return pd.arrays.BooleanArray(truth, codes < 0) if missing else truth


def write_table(folder: str | os.PathLike, X: np.ndarray, y: np.ndarray, schema: TableSchema) -> None:
    """Writes raw rows as synthetic.csv and synthetic.parquet.

    Args:
        folder: the public folder; created if missing.
        X: raw rows, (n, columns), n >= 1.
        y: class indices, (n,).
        schema: schema of the table.

    Raises:
        DataError: rows that do not fit the schema, or a folder that cannot be written.
    """
    path = Path(folder)
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    for name in (CSV, PARQUET):
        write_rows(path / name, X, y, schema)


def write_rows(path: str | os.PathLike, X: np.ndarray, y: np.ndarray, schema: TableSchema) -> None:
    """Writes raw rows as a file of ROW_ENDINGS atomically; a missing value is an empty field.

    Files have equal bytes for equal input and equal versions of pandas and Arrow.

    Args:
        path: path of the file, whose ending states its format.
        X: raw rows, (n, columns), n >= 1.
        y: class indices, (n,).
        schema: schema of the table.

    Raises:
        DataError: rows that do not fit the schema, another ending, or a file that cannot be written.
    """
    from pyarrow import feather, parquet

    path = Path(path)
    if path.suffix not in ROW_ENDINGS:
        raise DataError(f"Expected a {ROW_FILES} file; got {show(path)}.")
    frame = _frame(X, y, schema, spelled=path.suffix == ".csv")
    if frame.empty:
        raise DataError("Expected at least one row to write.")
    with writing(path):
        if path.suffix == ".csv":
            content = _csv(frame, schema)
            write_atomically(path, lambda file: file.write(content))
        else:
            table = to_arrow(frame, schema)
            write = parquet.write_table if path.suffix == ".parquet" else feather.write_feather
            write_atomically(path, lambda file: write(table, file))


def csv_content(X: np.ndarray, y: np.ndarray, schema: TableSchema) -> bytes:
    """Returns the bytes of raw rows as a CSV file, as `write_rows` writes them.

    Raises:
        DataError: rows that do not fit the schema.
    """
    return _csv(_frame(X, y, schema, spelled=True), schema)


def _csv(frame: pd.DataFrame, schema: TableSchema) -> bytes:
    texts = [*frame.columns, *schema.classes, *(text for c in schema.columns for text in c.categories)]
    quoting = csv.QUOTE_ALL if any("\r" in text for text in texts) else csv.QUOTE_MINIMAL  # which misses it
    return frame.to_csv(index=False, lineterminator="\n", quoting=quoting).encode("utf-8")
