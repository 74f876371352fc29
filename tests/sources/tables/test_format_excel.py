"""Excel workbooks: the first sheet or a stated one; numbers, truth values and dates keep their types."""

from __future__ import annotations

import datetime
import zipfile
from dataclasses import replace

import numpy as np
import pytest

import dpdistill as dp
from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.sources.tables.drafts import draft_schema
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile, read_schema, write_schema
from dpdistill.sources.tables.source import CsvFormat

COLUMNS = ("number", "amount", "whole", "choice", "size", "day", "seen", "stay", "ill", "who")


def write_book(path, sheets):
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def a_workbook(rows, folder):
    return lambda numbers: write_book(folder / "t.xlsx", {"Sheet": [COLUMNS, *(rows[i] for i in numbers)]})


VALUES = [None, 1, 2.5, -9, 1.234, True, "1", "x", " 1 ", "2020-01-31", "=1+1", "7,5", "03/04/2026 09:30"]
SOURCES = {
    "excel": (a_workbook, [*VALUES, datetime.datetime(2020, 1, 31, 9, 30), datetime.time(9, 30), datetime.timedelta(1)])
}
SCHEMA = TableSchema(
    (
        Column("when", "date", ("2020-01-01", "2020-12-31"), missing=True),  # type: ignore[arg-type]
        Column("at", "duration", (0, 1439), resolution="minute"),
        Column("x", "numeric", (0, 9)),
        Column("flag", "categorical", categories=("false", "true")),
    ),
    "y",
    ("a", "b"),
)
ROWS = [
    ("when", "at", "x", "flag", "y"),
    (datetime.datetime(2020, 1, 31), datetime.time(9, 30), 1.5, True, "a"),
    (None, datetime.time(0, 1), 2, False, "b"),
    (None, None, None, None, None),
]


def test_cells_keep_their_types(tmp_path):
    path = write_book(tmp_path / "t.xlsx", {"Stays": ROWS, "Other": [("a",), (1,)]})
    records = load_table(path, TableFile(SCHEMA, reviewed=True))
    np.testing.assert_array_equal(records.X, [[18_292, 570, 1.5, 1], [np.nan, 1, 2, 0]])
    assert records.y.tolist() == [0, 1]


def test_a_sheet_is_stated_in_the_schema(tmp_path):
    path = write_book(tmp_path / "t.xlsx", {"About": [("text",), ("nothing",)], "Stays": ROWS})
    stated = TableFile(SCHEMA, reviewed=True, csv=CsvFormat(sheet="Stays"))
    write_schema(tmp_path / "s.yaml", stated)
    assert read_schema(tmp_path / "s.yaml") == stated
    assert len(load_table(path, stated)) == 2
    with pytest.raises(
        DataError, match=r"lacks the column 'when'\. Its columns are those of the first row of the sheet"
    ):
        load_table(path, TableFile(SCHEMA, reviewed=True))
    with pytest.raises(DataError, match="has no sheet 'Visits': choose among About, Stays"):
        load_table(path, replace(stated, csv=CsvFormat(sheet="Visits")))
    draft, _ = draft_schema(path, "y", CsvFormat(sheet="Stays"))
    assert draft.csv.sheet == "Stays"
    assert [column.kind for column in draft.schema.columns] == ["duration", "numeric", "categorical"]


def test_damaged_workbooks_are_refused(tmp_path):
    pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<broken")
    with pytest.raises(DataError, match=r"t\.xlsx is damaged: it cannot be read as an Excel workbook\."):
        load_table(tmp_path / "t.xlsx", TableFile(SCHEMA, reviewed=True))
    path = write_book(tmp_path / "u.xlsx", {"A": [("when", None, "x"), (1, 2, 3)]})
    with pytest.raises(DataError, match=r"Column 2 of .*u\.xlsx has no name in the first row\."):
        load_table(path, TableFile(SCHEMA, reviewed=True))


def test_a_draft_of_a_sheet_that_is_not_there(tmp_path):
    path = write_book(tmp_path / "t.xlsx", {"Stays": ROWS})
    with pytest.raises(DataError, match="has no sheet 'Visits': choose among Stays"):
        dp.draft_schema(path, sheet="Visits")
