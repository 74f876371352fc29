"""Rows back in their own columns and types, in files that are read as the same records."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpdistill.folder.tables import csv_content, to_frame, write_rows, write_table
from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.schema.number_text import number_key, same_spelling
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile

NAN = np.nan
NUMBER = re.compile(r"[+-]?\d+")
WORK = ("office", 'field, "far"', "NA", "1.0")
SCHEMA = TableSchema(
    (
        Column("age", "integer", (0.0, 100.0)),
        Column("visits", "integer", (0.0, 9.0), missing=True),
        Column("gain", "numeric", (-10.0, 10.0), missing=True),
        Column("work", "categorical", categories=WORK, missing=True),
        Column("size", "ordinal", categories=("S", "M", "L")),
    ),
    "ill",
    ("healthy", "sick"),
    (("0",), ("1", "2")),
)
X = np.array([[31, 2, 0.1, 0, 0], [64, NAN, NAN, 1, 2], [5, 0, -2.5, NAN, 1], [6, 9, 1e-7, 2, 1]])
Y = np.array([0, 1, 1, 0])
TEXT = '''age,visits,gain,work,size,ill
31,2,0.1,office,S,healthy
64,,,"field, ""far""",L,sick
5,0,-2.5,,M,sick
6,9,1e-07,NA,M,healthy
'''


def test_a_frame_has_the_types_of_the_columns():
    frame = to_frame(X, Y, SCHEMA)
    assert frame.columns.tolist() == ["age", "visits", "gain", "work", "size", "ill"]
    assert [str(frame[name].dtype) for name in ("age", "visits", "gain")] == ["int64", "Int64", "float64"]
    assert frame["age"].tolist() == [31, 64, 5, 6]
    assert frame["visits"].tolist() == [2, pd.NA, 0, 9]
    assert frame["gain"].fillna(99).tolist() == [0.1, 99, -2.5, 1e-7]
    assert frame["work"].cat.categories.tolist() == list(WORK)
    assert frame["work"].isna().tolist() == [False, False, True, False]
    assert frame["size"].tolist() == ["S", "L", "M", "M"]
    assert (frame["size"].cat.ordered, frame["work"].cat.ordered) == (True, False)
    assert frame["ill"].tolist() == ["healthy", "sick", "sick", "healthy"]


def test_files(tmp_path):
    write_table(tmp_path / "made" / "here", X, Y, SCHEMA)
    folder = tmp_path / "made" / "here"
    assert sorted(path.name for path in folder.iterdir()) == ["synthetic.csv", "synthetic.parquet"]
    assert (folder / "synthetic.csv").read_bytes() == TEXT.encode()
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "synthetic.parquet"), to_frame(X, Y, SCHEMA))
    for name in ("synthetic.csv", "synthetic.parquet"):
        records = load_table(folder / name, TableFile(SCHEMA, reviewed=True))
        np.testing.assert_array_equal(records.X, X)
        assert records.y.tolist() == Y.tolist()
    before = [path.read_bytes() for path in sorted(folder.iterdir())]
    write_table(folder, X, Y, SCHEMA)
    assert [path.read_bytes() for path in sorted(folder.iterdir())] == before
    write_rows(tmp_path / "rows.csv", X[:1], Y[:1], SCHEMA)
    assert (tmp_path / "rows.csv").read_text() == "".join(TEXT.splitlines(keepends=True)[:2])


def told_apart(text: str) -> str:
    """One text for those that a schema does not take for two categories."""
    return same_spelling(number_key(text))


@st.composite
def tables(draw) -> tuple[TableSchema, np.ndarray, np.ndarray]:
    """A schema and raw rows that fit it."""
    words = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff\ufffe\uffff"), min_size=1)
    words = (
        words.map(lambda word: word[:8].strip())
        .filter(bool)
        .filter(lambda word: word[0] not in "=+-@" or NUMBER.fullmatch(word))
    )
    rows = draw(st.integers(1, 6))
    names = draw(st.lists(words, min_size=3, max_size=6, unique=True))
    columns, values = [], []
    for name in names[1:]:
        kind, missing = draw(st.sampled_from(["numeric", "integer", "ordinal", "categorical"])), draw(st.booleans())
        if kind in ("numeric", "integer"):
            columns.append(Column(name, kind, (-1e6, 1e6), missing=missing))
            known = st.integers(-(2**20), 2**20) if kind == "integer" else st.floats(-(2.0**99), 2.0**99, width=32)
        else:
            categories = tuple(draw(st.lists(words, min_size=2, max_size=5, unique_by=told_apart)))
            columns.append(Column(name, kind, categories=categories, missing=missing))
            known = st.integers(0, len(categories) - 1)
        value = st.just(NAN) | known if missing else known
        values.append(draw(st.lists(value, min_size=rows, max_size=rows)))
    classes = tuple(draw(st.lists(words.filter(str.isprintable), min_size=2, max_size=4, unique_by=told_apart)))
    y = draw(st.lists(st.integers(0, len(classes) - 1), min_size=rows, max_size=rows))
    return TableSchema(tuple(columns), names[0], classes), np.array(values, np.float64).T, np.array(y)


@settings(max_examples=60, deadline=None)
@given(tables())
def test_frame_to_csv_to_records_to_frame(tmp_path_factory, table):
    schema, X, y = table
    folder = tmp_path_factory.mktemp("table")
    frame = to_frame(X, y, schema)
    write_table(folder, X, y, schema)
    for source in (frame, folder / "synthetic.csv", folder / "synthetic.parquet"):
        records = load_table(source, TableFile(schema, reviewed=True))
        np.testing.assert_array_equal(records.X, X)
        np.testing.assert_array_equal(records.y, y)
        pd.testing.assert_frame_equal(to_frame(records.X, records.y, schema), frame)


def with_value(row: int, column: int, value: float) -> np.ndarray:
    changed = X.copy()
    changed[row, column] = value
    return changed


BAD = {
    "shape": (X[:, :4], Y, r"Expected X of shape \(n, 5\) and y \(n,\); got \(4, 4\) and \(4,\)."),
    "labels": (X, Y[:3], r"got \(4, 5\) and \(3,\)."),
    "unknown label": (X, Y - 1, "Expected class indices y from 0 to 1."),
    "label of another type": (X, Y / 1, "Expected class indices y from 0 to 1."),
    "missing": (with_value(0, 0, NAN), Y, "Expected a finite value in every row of column 'age'."),
    "infinite": (with_value(0, 2, np.inf), Y, "Expected a finite value in every row of column 'gain'."),
    "fraction": (with_value(0, 1, 0.5), Y, "Expected whole numbers in column 'visits'."),
    "large": (with_value(0, 1, 1e19), Y, "Expected whole numbers in column 'visits'."),
    "category": (with_value(0, 3, 4), Y, "Expected indices of the 4 categories of column 'work'."),
    "nothing": (X[:0], Y[:0], "Expected at least one row to write."),
}


@pytest.mark.parametrize("name", BAD)
def test_rows_that_do_not_fit(tmp_path, name):
    X, y, message = BAD[name]
    with pytest.raises(DataError, match=message):
        write_table(tmp_path, X, y, SCHEMA)
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="file cannot be written: File exists"):
        write_table(tmp_path / "file", X, Y, SCHEMA)
    with pytest.raises(DataError, match=r"rows\.csv cannot be written: No such file or directory"):
        write_rows(tmp_path / "none" / "rows.csv", X, Y, SCHEMA)
    with pytest.raises(DataError, match=r"Expected a \.csv, \.parquet, \.feather or \.arrow file; got rows\.txt"):
        write_rows("rows.txt", X, Y, SCHEMA)


@pytest.mark.parametrize("truth", [("false", "true"), ("False", "True"), ("TRUE", "FALSE")])
def test_the_text_that_verify_compares_is_the_one_that_is_written(tmp_path, truth):
    schema = TableSchema((Column("ill", "categorical", categories=truth, missing=True),), "y", truth)
    X, y = np.array([[0.0], [1.0], [np.nan]]), np.array([1, 0, 1])
    write_rows(tmp_path / "a.csv", X, y, schema)
    assert (tmp_path / "a.csv").read_bytes() == csv_content(X, y, schema)
    assert (tmp_path / "a.csv").read_text().splitlines()[1] == f"{truth[0]},{truth[1]}"
