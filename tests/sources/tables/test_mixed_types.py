"""A column whose type other rows decide: what a row means is the same beside any other row, in frames and databases."""

import sqlite3

import numpy as np
import pandas as pd
import pytest

from dpdistill.schema import Column, TableSchema
from dpdistill.sources.tables.database import DatabaseQuery
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile
from dpdistill.sources.tables.source import CsvFormat

MARKS = ("", "-9", "7.50", "x")
NUMBER = Column("a", "numeric", (-10.0, 10.0), missing=True)
CHOICE = Column("a", "categorical", categories=("1", "2", "-8"), other="2", missing=True)
VALUES = [-9, 5, 1, 2.5, 7.5, True, None, float("nan"), 1e-3, -8.0, 0]
OTHERS = ["abc", "5", "-9.0", "x", "", "inf", 3]


def frame_of(values, tmp_path):
    return pd.DataFrame({"a": pd.Series(values, dtype=object), "y": ["0"] * len(values)})


def query_of(values, tmp_path):
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a, y TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, '0')", [(value,) for value in values])
    return DatabaseQuery(str(path), "SELECT a, y FROM t")


@pytest.mark.parametrize("source", [frame_of, query_of])
@pytest.mark.parametrize("column", [NUMBER, CHOICE], ids=["number", "choice"])
def test_a_row_means_the_same_beside_any_other(source, column, tmp_path):
    table_file = TableFile(TableSchema((column,), "y", ("0", "1")), reviewed=True, csv=CsvFormat(missing=MARKS))

    def read(values):
        """The rows in an order of their own: a bad one has the label -1."""
        found = load_table(source(values, tmp_path), table_file, strict=False)
        return sorted(zip(np.nan_to_num(found.X[:, 0], nan=-99.0).tolist(), found.y.tolist(), strict=True))

    alone = {repr(value): read([value]) for value in VALUES}
    for other in OTHERS:
        beside = read([other])
        together = read([*VALUES, other])
        expected = sorted(row for rows in (*alone.values(), beside) for row in rows)
        assert together == expected, other
    assert alone["-9"] == [(-99.0, 0)]
    assert alone["7.5"] == [(-99.0, 0)]
    assert alone["5"] == ([(5.0, 0)] if column is NUMBER else [(1.0, 0)])


@pytest.mark.parametrize("source", [frame_of, query_of])
def test_one_text_with_a_decimal_comma_makes_no_texts_of_numbers(source, tmp_path):
    """1.234 became 1234 as soon as any other row of the batch held a text."""
    schema = TableSchema((Column("a", "numeric", (0.0, 2000.0)),), "y", ("0", "1"))
    table_file = TableFile(schema, reviewed=True, csv=CsvFormat(separator=";", decimal=","))
    sums = [
        schema.to_unit(load_table(source([1.234] * 9 + others, tmp_path), table_file).X).sum(dtype=float)
        for others in ([], ["7,5"])
    ]
    assert sums[1] - sums[0] == pytest.approx(2 * 7.5 / 2000 - 1, abs=1e-6)
