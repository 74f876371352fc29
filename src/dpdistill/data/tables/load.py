"""Rows of a table as Records: columns found by name, read in batches, encoded by what is stated about them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpdistill.data.files import reading
from dpdistill.data.records import Records
from dpdistill.data.tables.codes import Encode, Fault, encoder, label_encoder, unit_encoder
from dpdistill.data.tables.schema_file import DRAFT, TableFile
from dpdistill.data.tables.source import Table, open_table
from dpdistill.schema import DataError


def load_table(source: Any, table_file: TableFile, strict: bool = True) -> Records:
    """Records from a table; columns are found by their names, and nothing public comes from a record.

    Numbers and truth values match texts that stand for the same number: 1, 1.0, "1" and true are one value. Numbers
    outside the bounds are kept, to be clamped where records are scaled.

    Args:
        source: path of a CSV file, gzip or not, or of a Parquet file; a pandas DataFrame; or a DatabaseQuery, whose
            rows are sorted.
        table_file: the public facts, and how a CSV file is written.
        strict: stop at a value that cannot be encoded; otherwise its record gets the label -1 and contributes nothing.

    Returns:
        The records, X (n, columns) float32; with units where the facts name their column. Units are the same where the
        column holds the same number or the same text; a missing one is a bad value.

    Raises:
        DataError: a file that cannot be read, columns that are missing or not declared, a bad value when strict.

    Example:
        >>> import pandas as pd
        >>> from dpdistill.schema import Column, TableSchema
        >>> schema = TableSchema((Column("age", "integer", (0, 100)),), "ill", ("no", "yes"))
        >>> load_table(pd.DataFrame({"age": [31, 64], "ill": ["no", "yes"]}), TableFile(schema, reviewed=True)).y
        array([0, 1])
    """
    if not table_file.reviewed:
        raise DataError(f"The schema {DRAFT}")
    schema = table_file.schema
    table = open_stated(source, table_file)
    unit, index = table_file.unit_column, {}
    names = [*(column.name for column in schema.columns), schema.label, *([] if unit is None else [unit])]
    encoders = [encoder(column, table_file.csv.missing) for column in schema.columns]
    encoders.append(label_encoder(schema, table_file.csv.missing))
    if unit is not None:
        encoders.append(unit_encoder(table_file.csv.missing, index))
    blocks: list[tuple[np.ndarray, np.ndarray]] = []
    persons: list[np.ndarray] = []
    rows = 0
    with reading(table.title):
        for arrays in table.batches(names):
            codes = np.empty((len(arrays[0]), len(names)))
            bad = np.zeros(len(codes), bool)
            faults: list[tuple[int, str, str]] = []
            for i, (name, encode, values) in enumerate(zip(names, encoders, arrays, strict=True)):
                codes[:, i], found = encode_column(table, name, encode, values)
                bad[list(found)] = True
                faults += [(row, name, words) for row, words in found.items()]
            if strict and faults:
                row, name, words = min(faults, key=lambda fault: fault[0])
                raise DataError(f"{table.title}: column {name!r}, row {rows + row + 1}: {words}.")
            at = len(schema.columns)
            blocks.append((codes[:, :at].astype(np.float32), np.where(bad, -1, codes[:, at]).astype(np.int64)))
            if unit is not None:
                persons.append(np.nan_to_num(codes[:, -1], nan=-1.0).astype(np.int64))
            rows += len(codes)
        if not rows and strict:
            raise DataError(f"{table.title} has no rows.")
        X, y = _joined(blocks, rows, len(schema.columns))
        units = None if unit is None else np.concatenate([np.zeros(0, np.int64), *persons])
        if not table.ordered:
            X, y, units = _sorted(X, y, units, index)
        return Records(X, y, schema, units=units)


def _joined(blocks: list[tuple[np.ndarray, np.ndarray]], rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """All blocks as one; each is let go as soon as it is copied."""
    X, y, start = np.empty((rows, columns), np.float32), np.empty(rows, np.int64), 0
    blocks.reverse()
    while blocks:
        codes, labels = blocks.pop()
        X[start : start + len(labels)], y[start : start + len(labels)] = codes, labels
        start += len(labels)
    return X, y


def _sorted(
    X: np.ndarray, y: np.ndarray, units: np.ndarray | None, index: dict[str, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Rows in an order of their own: the same rows are the same data set, in whatever order a database gives them.

    Units are numbered by their names in the place of the order in which they come: `index` has the numbers by name.
    """
    np.add(X, 0.0, out=X)  # of -0.0 and 0.0 only one is left
    if units is None:
        order = np.lexsort((*X.T, y))
        return X[order], y[order], None
    number = np.append(np.zeros(len(index), np.int64), -1)  # the last one is that of no unit
    number[[index[name] for name in sorted(index)]] = np.arange(len(index))
    units = number[units]
    order = np.lexsort((units, *X.T, y))
    return X[order], y[order], units[order]


def encode_column(table: Table, name: str, encode: Encode, values: Any) -> tuple[np.ndarray, dict[int, str]]:
    """Codes of a batch of a column and the faults in words, by row.

    Raises:
        DataError: a column of a type that has no codes.
    """
    try:
        return encode(values)
    except Fault as fault:
        raise DataError(f"{table.title}: column {name!r} {fault}.") from None


def open_stated(source: Any, table_file: TableFile) -> Table:
    """The table in a file or frame, with the columns that are stated.

    Raises:
        DataError: nothing that is a table, or a column that is missing or not declared.
    """
    schema = table_file.schema
    table = open_table(source, table_file.csv)
    found, declared = set(table.names), [*(column.name for column in schema.columns), schema.label]
    if table_file.unit_column is not None:
        declared.append(table_file.unit_column)
    for name in declared:
        if name not in found:
            hint = table.hint(declared)
            raise DataError(f"{table.title} lacks the column {name!r}.{hint and f' {hint}'}")
    for name in table.names:
        if name not in (*declared, *table_file.ignored):
            raise DataError(
                f"{table.title} has a column {name[:80]!r} that is not declared: describe it under columns, or list it "
                "under ignored."
            )
    return table
