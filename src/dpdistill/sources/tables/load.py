"""Loads rows of a table as Records: columns by name, in batches, encoded by stated facts."""

from __future__ import annotations

import os

import numpy as np

from dpdistill.schema import DataError, TableSchema
from dpdistill.sources.tables.cells import FORMS, Fault, like
from dpdistill.sources.tables.codes import Encode, encoder, label_encoder, unit_encoder
from dpdistill.sources.tables.schema_file import DRAFT, TableFile
from dpdistill.sources.tables.source import Table, open_table
from dpdistill.storage.files import reading
from dpdistill.storage.growable_array import GrowableArrays, forget, slices
from dpdistill.storage.memory import Memory
from dpdistill.storage.prepare import ranked
from dpdistill.storage.records import Records


def load_table(
    source: object,
    table_file: TableFile,
    strict: bool = True,
    *,
    memory: int | str | None = None,
    scratch: str | os.PathLike | None = None,
) -> Records:
    """Returns the records of a table; columns are found by name, and no public fact comes from a record.

    Numbers and truth values match texts of the same number: 1, 1.0, "1" and true are one value. Numbers outside the
    bounds are kept, and clamped when records are scaled.

    Args:
        source: path of a CSV file, gzip or not, or of a Parquet file; a pandas DataFrame; or a DatabaseQuery, whose
            rows are sorted.
        table_file: the public facts, and the format of a CSV file.
        strict: stop at a value that cannot be encoded; otherwise its record gets the label -1 and contributes nothing.
        memory: memory limit of the records, in bytes or as "512M" or "4G"; None for half of the machine's. Larger
            records lie in unnamed temporary files, which disappear with the process.
        scratch: folder for those files; None for the system's temporary folder.

    Returns:
        The records, X (n, columns) float64, with units if the facts name their column. Equal numbers or texts are the
        same unit; a missing unit is a bad value.

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
    names = [*schema.names, *([] if unit is None else [unit])]
    missing, decimal = table_file.csv.missing, table_file.csv.decimal
    encoders = [encoder(column, missing, decimal) for column in schema.columns]
    if schema.label is not None:
        encoders.append(label_encoder(schema, missing, decimal))
    if unit is not None:
        encoders.append(unit_encoder(missing, index, decimal))
    room = Memory.of(memory, scratch)
    rows_so_far = GrowableArrays(room)
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
                raise DataError(f"{table.title}: column {name!r}, row {rows_so_far.rows + row + 1}: {words}.")
            rows_so_far.append(*_columns(codes, bad, schema))
        if not rows_so_far.rows:
            if strict:
                raise DataError(f"{table.title} has no rows.")
            rows_so_far.append(*_columns(np.empty((0, len(names))), np.zeros(0, bool), schema))
        X, y, *units = rows_so_far.arrays()
        if not table.ordered:
            X, y, *units = _sorted(X, y, *(ranked(each, index, room) for each in units), memory=room)
        return Records(X, y, schema, units=units[0] if units else None)


def _columns(codes: np.ndarray, bad: np.ndarray, schema: TableSchema) -> list[np.ndarray]:
    """Returns X, y and, if there is a column after the features and the label, units of a batch of codes."""
    features = len(schema.columns)
    if schema.target is not None:
        labels = schema.bins(codes[:, :features])
    else:
        labels = 0 if schema.label is None else codes[:, features]
    y = np.where(bad, -1, labels).astype(np.int64)
    units = [np.nan_to_num(column, nan=-1.0).astype(np.int64) for column in codes[:, len(schema.names) :].T]
    return [codes[:, :features], y, *units]


def _sorted(X: np.ndarray, y: np.ndarray, *units: np.ndarray, memory: Memory) -> tuple[np.ndarray, ...]:
    """Sorts rows, so that a data set does not depend on the database's order of rows."""
    order, rows_so_far = np.lexsort((*units, *X.T, y)), GrowableArrays(memory)
    for part in slices(X):
        rows = order[part]
        rows_so_far.append(X[rows], *(each[rows] for each in (y, *units)))
        forget(X, y, *units)
    return rows_so_far.arrays()


def encode_column(table: Table, name: str, encode: Encode, values: object) -> tuple[np.ndarray, dict[int, str]]:
    """Returns the codes of a batch of a column, and fault texts by row.

    Raises:
        DataError: a column of an unsupported type.
    """
    try:
        return encode(values)
    except Fault as fault:
        raise DataError(f"{table.title}: column {name!r} {fault}.") from None


def open_stated(source: object, table_file: TableFile) -> Table:
    """Opens the table in a file or frame, and checks its columns against the stated ones.

    Raises:
        DataError: a source that is no table, or a column that is missing or not declared.
    """
    schema = table_file.schema
    table = open_table(source, table_file.csv)
    found, declared = set(table.names), [*schema.names]
    if table_file.unit_column is not None:
        declared.append(table_file.unit_column)
    for name in declared:
        if name not in found:
            hint = FORMS if like(name, found) else table.hint(declared)
            raise DataError(f"{table.title} lacks the column {name!r}.{hint and f' {hint}'}")
    for name in table.names:
        if name not in (*declared, *table_file.ignored):
            raise DataError(
                f"{table.title} has a column {name[:80]!r} that is not declared: describe it under columns, or list it "
                "under ignored."
            )
    return table
