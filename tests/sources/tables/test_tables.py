"""Tables in files and frames: the same records whatever the door, and one sentence for what cannot be read."""

from __future__ import annotations

import bz2
import csv
import datetime
import decimal
import gzip
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpdistill.benchmark import suite
from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.sources.tables.drafts import draft_schema
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile, read_schema, write_schema
from dpdistill.sources.tables.source import CsvFormat, open_table

NAN = np.nan
SCHEMA = TableSchema(
    (
        Column("age", "integer", (0.0, 100.0)),
        Column("gain", "numeric", (0.0, 10.0), missing=True),
        Column("work", "categorical", categories=("office", "field", "other"), other="other", missing=True),
        Column("flag", "categorical", categories=("0", "1")),
        Column("size", "ordinal", categories=("S", "M", "L")),
    ),
    "ill",
    ("no", "yes"),
    (("0", "healthy"), ("1",)),
)
FILE = TableFile(SCHEMA, True, CsvFormat(missing=("", "?")), ("id",))
TEXT = """id,age,gain,work,flag,size,ill
a,31, 2.5 ,office,0,S,0
b,64.0,?,field,1.0,M,1.0
c,1e2,-7,nowhere,true,L, healthy
"d, e",+5,.5,"",False,"M",1
"""
X = [[31, 2.5, 0, 0, 0], [64, NAN, 1, 1, 1], [100, -7, 2, 1, 2], [5, 0.5, NAN, 0, 1]]
Y = [0, 1, 0, 1]


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": ["a", "b", "c", "d, e"],
            "age": [31, 64, 100, 5],
            "gain": [2.5, NAN, -7, 0.5],
            "work": pd.Categorical(["office", "field", "nowhere", None]),
            "flag": [False, True, True, False],
            "size": ["S", "M", "L", "M"],
            "ill": pd.array([0, 1, 0, 1], "Int64"),
        }
    )


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "table"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def as_gzip(folder: Path) -> Path:
    return write(folder, gzip.compress(TEXT.encode()))


def as_parquet(folder: Path) -> Path:
    frame().to_parquet(folder / "table")
    return folder / "table"


def as_filtered_parquet(folder: Path) -> Path:
    """With the index of rows that pandas adds as a column."""
    doubled = pd.concat([frame(), frame()], ignore_index=True)
    doubled.iloc[[0, 5, 6, 3]].to_parquet(folder / "table")
    return folder / "table"


DOORS = {
    "csv": lambda folder: write(folder, TEXT),
    "mark": lambda folder: write(folder, b"\xef\xbb\xbf" + TEXT.encode()),
    "windows": lambda folder: write(folder, TEXT.replace("\n", "\r\n")),
    "no last newline": lambda folder: write(folder, TEXT.rstrip()),
    "empty lines": lambda folder: write(folder, "\n" + TEXT.replace("\n", "\n\n")),
    "gzip": as_gzip,
    "parquet": as_parquet,
    "filtered parquet": as_filtered_parquet,
    "frame": lambda folder: frame(),
    "columns in another order": lambda folder: frame()[["ill", "size", "id", "flag", "work", "gain", "age"]],
    "nullable": lambda folder: frame().convert_dtypes(),
    "objects": lambda folder: frame().astype(object),
    "arrow": lambda folder: frame().convert_dtypes(dtype_backend="pyarrow"),
    "odd index": lambda folder: frame().set_index(pd.Index([7, 7, 1, 0])),
    "small": lambda folder: frame().astype({"age": "uint8", "gain": "float16", "ill": "float32"}),
    "texts": lambda folder: pd.read_csv(write(folder, TEXT), dtype=str, keep_default_na=False),
    "decimals": lambda folder: frame().assign(age=[decimal.Decimal(f"{age}.0") for age in (31, 64, 100, 5)]),
    "mixed": lambda folder: frame().assign(age=[31, "64", 100.0, decimal.Decimal(5)], flag=["0", 1, True, 0.0]),
}


@pytest.mark.parametrize("door", DOORS)
def test_records_are_the_same_through_every_door(tmp_path, door):
    records = load_table(DOORS[door](tmp_path), FILE)
    assert (records.X.dtype, records.y.dtype) == (np.float64, np.int64)
    np.testing.assert_array_equal(records.X, np.array(X, np.float64))
    assert records.y.tolist() == Y
    assert records.schema == SCHEMA


def test_a_frame_is_not_changed():
    given = frame()
    load_table(given, FILE)
    pd.testing.assert_frame_equal(given, frame())


def test_no_header_another_separator_and_comments(tmp_path):
    lines = TEXT.splitlines()[1:4]
    text = "|a comment, with, fields\n" + "\n| more\n".join(lines).replace(",", ";") + "\n"
    names = ("id", "age", "gain", "work", "flag", "size", "ill")
    table_file = replace(FILE, csv=CsvFormat(False, names, ";", FILE.csv.missing, "|"))
    np.testing.assert_array_equal(load_table(write(tmp_path, text), table_file).X, np.array(X[:3], np.float64))
    path = write(tmp_path, gzip.compress(text.encode()))
    assert load_table(path, table_file).y.tolist() == Y[:3]


GERMAN = "alter;kosten;ort;krank\n41;1.234,5; A ;ja\n7;-0,25;B;nein\n1.041;12;A;ja\n33;1,5e3;B;nein\n2;,5;A;ja\n"
GERMAN_SCHEMA = TableSchema(
    (
        Column("alter", "integer", (0, 2_000)),
        Column("kosten", "numeric", (-10, 2_000)),
        Column("ort", "categorical", categories=("A", "B")),
    ),
    "krank",
    ("nein", "ja"),
)


def test_numbers_with_a_decimal_comma(tmp_path):
    path = write(tmp_path, GERMAN)
    table_file = TableFile(GERMAN_SCHEMA, True, CsvFormat(separator=";", decimal=","))
    expected = [[41, 1234.5, 0], [7, -0.25, 1], [1041, 12, 0], [33, 1500, 1], [2, 0.5, 0]]
    np.testing.assert_array_equal(load_table(path, table_file).X, np.array(expected, np.float64))
    with pytest.raises(DataError, match=r"row 1: '1.234,5' has a comma: if the comma is the decimal separator"):
        load_table(path, replace(table_file, csv=CsvFormat(separator=";")))
    for text in ("0.125", "1.5", "1.2345", "1,2,3", "12.34,5"):
        wrong = write(tmp_path, GERMAN.replace("1.234,5", text))
        with pytest.raises(DataError, match=f"row 1: '{text}' is not a number"):
            load_table(wrong, table_file)


def test_a_decimal_comma_changes_numbers_alone(tmp_path):
    columns = (
        Column("dose", "categorical", categories=("0,5", "1.234", "0.5")),
        Column("gain", "numeric", (-10, 2_000), missing=True),
    )
    schema = TableSchema(columns, "ill", ("1,0", "0,0"))
    form = CsvFormat(separator=";", decimal=",", missing=("", "-9,99"))
    path = write(tmp_path, "dose;gain;ill\n0,5;-9,99;1,0\n1.234;1.234;0,0\n0.5;,25;1,0\n")
    records = load_table(path, TableFile(schema, True, form))
    np.testing.assert_array_equal(records.X, np.array([[0, np.nan], [1, 1234], [2, 0.25]], np.float32))
    assert records.y.tolist() == [0, 1, 0]
    typed = pd.DataFrame({"dose": ["0,5"], "gain": [1.5], "ill": ["1,0"]})
    np.testing.assert_array_equal(load_table(typed, TableFile(schema, True, form)).X, [[0, 1.5]])


def test_a_draft_of_numbers_with_a_decimal_comma(tmp_path):
    path = write(tmp_path, GERMAN)
    drafted, _ = draft_schema(path, None, CsvFormat(separator=";", decimal=","))
    write_schema(tmp_path / "s.yaml", drafted, {})
    back = read_schema(tmp_path / "s.yaml")
    assert (back.csv.separator, back.csv.decimal) == (";", ",")
    kinds = {column.name: column.kind for column in back.schema.columns}
    assert kinds == {"alter": "integer", "kosten": "numeric", "ort": "categorical"}
    drafted, notes = draft_schema(path, None, CsvFormat(separator=";"))
    assert drafted.ignored == ("kosten",)  # a category may not begin with a sign
    assert (
        "kosten: holds numbers with a comma; draft with --decimal , if the comma is the decimal separator"
        in notes["ignored"]
    )
    drafted, notes = draft_schema(write(tmp_path, GERMAN.replace("-", "")), None, CsvFormat(separator=";"))
    assert {column.name: column.kind for column in drafted.schema.columns}["kosten"] == "categorical"
    assert notes["columns.kosten"].endswith("; with --decimal , the values would be numbers")
    many = "alter;kosten;krank\n" + "".join(f"{i % 7};{i},5;{'ja' if i % 2 else 'nein'}\n" for i in range(200))
    drafted, notes = draft_schema(write(tmp_path, many), None, CsvFormat(separator=";"))
    assert drafted.ignored == ("kosten",)
    assert (
        "kosten: holds numbers with a comma; draft with --decimal , if the comma is the decimal separator"
        in notes["ignored"]
    )


def test_a_record_with_decimal_commas_is_no_header(tmp_path):
    path = write(tmp_path, "5,1;3,5;1,0\n4,9;3,0;0,0\n4,7;3,2;1,0\n")
    for form in (CsvFormat(separator=";", decimal=","), CsvFormat(separator=";")):
        with pytest.raises(DataError, match="looks like a record, which would be published as column names"):
            draft_schema(path, None, form)


def test_rows_of_many_blocks(tmp_path):
    ages = np.arange(150_000) % 100
    table = pd.DataFrame({"age": ages, "ill": np.where(ages > 50, "yes", "no")})
    schema = TableSchema((Column("age", "integer", (0, 100)),), "ill", ("no", "yes"))
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet", index=False)
    for source in (tmp_path / "t.csv", tmp_path / "t.parquet", table):
        records = load_table(source, TableFile(schema, True))
        np.testing.assert_array_equal(records.X[:, 0], ages)
        np.testing.assert_array_equal(records.y, ages > 50)
    table = table.assign(age=np.where(np.arange(150_000) == 140_000, -1.5, ages))
    table.to_csv(tmp_path / "t.csv", index=False)
    for source in (table, str(tmp_path / "t.csv")):
        with pytest.raises(DataError, match=r"column 'age', row 140001: '-1.5' is not a whole number"):
            load_table(source, TableFile(schema, True))


CELLS = {
    "text": ("age", "old", "column 'age', row 2: 'old' is not a number: declare categories, or list the column under"),
    "date": ("age", "2020-01-31", "column 'age', row 2: '2020-01-31' is a date: declare the kind date or"),
    "fraction": ("age", "3.5", "column 'age', row 2: '3.5' is not a whole number: declare the column numeric."),
    "gap": ("age", "", "column 'age', row 2: the value is missing: declare `missing: true` if it may be."),
    "gap in a category": ("flag", "?", "column 'flag', row 2: the value is missing"),
    "infinite": ("gain", "-inf", "column 'gain', row 2: '-inf' is not finite."),
    "too large": ("gain", "1e999", "column 'gain', row 2: '1e999' is not finite."),
    "not a number": ("gain", "nan", "column 'gain', row 2: 'nan' is not a number"),
    "underscores": ("gain", "1_0", "column 'gain', row 2: '1_0' is not a number"),
    "category": ("size", "XL", "column 'size', row 2: 'XL' is not one of its 3 categories: add it, declare a category"),
    "leading zero": ("flag", "01", "column 'flag', row 2: '01' is not one of its 2 categories"),
    "long": ("size", "x" * 500, f"column 'size', row 2: '{'x' * 80}' is not one of its 3 categories"),
    "label": ("ill", "maybe", "column 'ill', row 2: 'maybe' is none of the 2 classes."),
    "no label": ("ill", "?", "column 'ill', row 2: the label is missing."),
}


@pytest.mark.parametrize("name", CELLS)
def test_a_bad_value_stops_or_contributes_nothing(tmp_path, name):
    column, value, message = CELLS[name]
    path = tmp_path / "t.csv"
    texts = pd.read_csv(write(tmp_path, TEXT), dtype=str, keep_default_na=False)
    texts.loc[1, column] = value
    texts.to_csv(path, index=False)
    whole = load_table(frame(), FILE)
    for source, title in ((texts, "The frame"), (path, str(path))):
        with pytest.raises(DataError) as caught:
            load_table(source, FILE)
        assert str(caught.value).startswith(f"{title}: {message}")
        assert str(caught.value).endswith(".")
        records = load_table(source, FILE, strict=False)
        assert records.y.tolist() == [0, -1, 0, 1]
        np.testing.assert_array_equal(records.X[[0, 2, 3]], whole.X[[0, 2, 3]])


NUMBERS = {
    "fraction": ("age", 3.5, "'3.5' is not a whole number"),
    "gap": ("age", NAN, "the value is missing"),
    "infinite": ("gain", np.inf, "'inf' is not finite"),
    "category": ("flag", 2, "'2' is not one of its 2 categories"),
    "label": ("ill", 0.5, "'0.5' is none of the 2 classes"),
    "no label": ("ill", NAN, "the label is missing"),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_bad_number(tmp_path, name):
    column, value, message = NUMBERS[name]
    given = frame().astype({column: float})
    given.loc[1, column] = value
    given.to_parquet(tmp_path / "t")
    for source in (given, tmp_path / "t"):
        with pytest.raises(DataError, match=f"column '{column}', row 2: {message}"):
            load_table(source, FILE)
        assert load_table(source, FILE, strict=False).y.tolist() == [0, -1, 0, 1]


def test_the_first_bad_row_is_named():
    given = frame().astype({"age": float})
    given.loc[3, "age"], given.loc[2, "ill"], given.loc[2, "size"] = NAN, 7, "XL"
    with pytest.raises(DataError, match=r"^The frame: column 'size', row 3: 'XL'"):
        load_table(given, FILE)
    assert load_table(given, FILE, strict=False).y.tolist() == [0, 1, -1, -1]


def test_declared_values_come_before_missing_texts_and_other_spellings():
    columns = (
        Column("land", "categorical", categories=("NA", "1", "7", "red"), missing=True),
        Column("x", "numeric", (0, 1), missing=True),
    )
    table_file = TableFile(TableSchema(columns, "y", ("a", "b")), True, CsvFormat(missing=("", "NA", "-9")))
    given = pd.DataFrame(
        {"land": ["NA", "true", "7.0", "red", ""], "x": [1e300, -9, -1e300, 0.25, -9.0], "y": list("abaab")}
    )
    expected = np.array([[0, 3.4028235e38], [1, NAN], [2, -3.4028235e38], [3, 0.25], [NAN, NAN]], np.float32)
    np.testing.assert_array_equal(load_table(given, table_file).X, expected)
    with pytest.raises(DataError, match="'blue' is not one of its 4 categories"):
        load_table(given.assign(land=["NA", "1", "1.0", "blue", ""]), table_file)


def test_class_names_are_labels_too():
    given = frame().assign(ill=["no", "yes", "healthy", "1.00"])
    assert load_table(given, FILE).y.tolist() == Y


TYPES = {
    "dates": (
        pd.date_range("2020-01-01", periods=4),
        "holds dates or times: declare the kind date, datetime or duration",
    ),
    "date objects": ([datetime.date(2020, 1, 1)] * 4, "row 1: the value is a date or a time: declare the kind date"),
    "durations": (pd.to_timedelta([1, 2, 3, 4], "s"), "holds dates or times"),
    "lists": (
        [[1], [2], [3], [4]],
        "row 1: the value is of type list: turn it into a number or a text, or list the column",
    ),
    "bytes": (
        [b"a", b"b", b"c", b"d"],
        "row 1: the value is bytes: decode it into a text, or list the column under ignored.",
    ),
    "complex": ([1j, 2, 3, 4], "row 1: the value is of type complex"),
    "intervals": (pd.interval_range(0, 4), "holds values of type"),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_without_codes(name):
    values, fragment = TYPES[name]
    with pytest.raises(DataError) as caught:
        load_table(frame().assign(age=values), FILE)
    assert str(caught.value).startswith("The frame: column 'age'")
    assert fragment in str(caught.value)


HEAD, ROW = TEXT.splitlines()[:2]
FILES = {
    "empty": (b"", "is empty."),
    "empty gzip": (gzip.compress(b""), "is empty."),
    "header only": (f"{HEAD}\n", "has no rows."),
    "empty lines only": (f"{HEAD}\n\n\n", "has no rows."),
    "newlines": ("\n\n", "has no columns."),
    "missing column": (f"{HEAD.replace('gain', 'win')}\n{ROW}\n", "lacks the column 'gain'."),
    "no label": (f"{HEAD.replace('ill', 'sick')}\n{ROW}\n", "lacks the column 'ill'."),
    "undeclared": (
        f"{HEAD},zip\n{ROW},1\n",
        "has a column 'zip' that is not declared: describe it under columns, or list",
    ),
    "twice": (f"{HEAD},age\n{ROW},1\n", "has two columns named 'age'."),
    "short row": (f"{HEAD}\n{ROW}\na,1\n", "has 2 fields in row 2; expected 7."),
    "long row": (f"{HEAD}\n{ROW}\n{ROW}\n{ROW},x\n", "has 8 fields in row 3; expected 7."),
    "separator": (TEXT.replace(",", ";"), "lacks the column 'age'."),
    "latin": (
        TEXT.replace("office", "bür").encode("latin-1"),
        "is not UTF-8 text: save it as CSV UTF-8, or convert it: iconv -f W",
    ),
    "latin header": (
        TEXT.replace("id", "büro").encode("latin-1"),
        "is not UTF-8 text: save it as CSV UTF-8, or convert it: iconv -f W",
    ),
    "utf-16": (TEXT.encode("utf-16"), "is UTF-16 text, such as Excel's Unicode Text: save it as CSV"),
    "binary": (bytes(range(256)) * 9, "is no table"),
    "pdf": (b"%PDF-1.7 and more", "is no table"),
    "open quote": (
        f'{HEAD}\n{ROW}\na,"{"x" * (3 << 20)}',
        "has a row of more than 1048576 bytes, or a quote that is never",
    ),
    "long header": ("x" * 200_000, "has no header that can be read: expected a line of names that ends"),
    "old line ends": (
        TEXT.replace("\n", "\r"),
        "has no header that can be read: expected a line of names that ends in",
    ),
    "names of rows": (
        f"{HEAD}\n1,{ROW}\n",
        "has 8 fields in row 1; expected 7. That is line 2: a field that contains ',' ",
    ),
    "cut gzip": (gzip.compress(os.urandom(9_000).hex().encode())[:-40], "is truncated: its gzip stream ends early."),
    "bad gzip": (gzip.compress(TEXT.encode())[:-8] + b"\0" * 8, "is damaged: its gzip checksum or header is wrong."),
    "cut parquet": (b"PAR1" + b"\1" * 100, "is damaged: it cannot be read as Parquet."),
}


@pytest.mark.parametrize("name", FILES)
def test_malformed_files(tmp_path, name):
    content, fragment = FILES[name]
    path = write(tmp_path, content)
    with pytest.raises(DataError) as caught:
        load_table(path, FILE)
    assert str(caught.value).startswith(f"{path} {fragment}")
    assert len(str(caught.value).splitlines()) == 1


HINTS = {
    "semicolons.csv": (
        TEXT.replace(",", ";"),
        "lacks the column 'age'. Its line 1 is separated by ';', not by ',': write `csv: {separator: \";\"}` into the "
        "schema (schema draft takes --separator).",
    ),
    "tabs.parquet": (
        TEXT.replace(",", "\t"),
        "lacks the column 'age'. It is CSV text, although its name ends in .parquet. Its line 1 is separated by '\\t',",
    ),
    "capital.csv": (TEXT.replace("age", "Age", 1), "lacks the column 'age'. Its line 1 has 'Age': names must be equal"),
    "no-header.csv": (
        "secret,b,c,d,e,f,g\n",
        "lacks the column 'age'. Its line 1 holds none of the 6 columns of the schema: where the file has no header,",
    ),
    "ragged.csv": (
        f'{HEAD}\n\n{ROW}\na,1,"x\ny"\n',
        "has 3 fields in row 2; expected 7. That is line 5: a field that contains ',' must be in double quotes.",
    ),
}


@pytest.mark.parametrize("name", HINTS)
def test_what_is_wrong_with_a_file_is_said_with_its_line_and_what_to_type(tmp_path, name):
    content, expected = HINTS[name]
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError) as caught:
        load_table(path, FILE)
    assert str(caught.value).startswith(f"{path} {expected}")
    assert "secret" not in str(caught.value)


FIELDS = ("1", "2.5", "", "a\nb", 'say ""no""\r\n', "x,y", '"', "\n", "\ufeffb")


def test_a_row_may_lie_anywhere_among_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("dpdistill.sources.tables.csv_file._BLOCK", 50)
    rng = np.random.default_rng(0)
    rows = [[FIELDS[k] for k in rng.integers(len(FIELDS), size=3)] for _ in range(400)]
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
        with (tmp_path / "t.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, quoting=quoting).writerows([["a", "b", "c"], *rows])
        table = open_table(tmp_path / "t.csv", CsvFormat())
        batches = list(table.batches(["c", "a"]))
        assert len(batches) > 100
        assert [pair for batch in batches for pair in zip(*(c.to_pylist() for c in batch), strict=True)] == [
            (c, a) for a, _, c in rows
        ]


def test_a_quote_inside_of_a_field_opens_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("dpdistill.sources.tables.csv_file._BLOCK", 50)
    rows = [['5" pipe', str(k)] for k in range(100)]
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))
    batches = open_table(tmp_path / "t.csv", CsvFormat()).batches(["a", "b"])
    assert [[*row] for a, b in batches for row in zip(a.to_pylist(), b.to_pylist(), strict=True)] == rows


def test_a_long_row_is_counted_among_all(tmp_path):
    (tmp_path / "t.csv").write_text("age,ill\n" + "1,no\n" * 500_000 + "1,no,3\n" + "1,no\n" * 9)
    schema = TableSchema((Column("age", "integer", (0, 9)),), "ill", ("no", "yes"))
    expected = r"t\.csv has 3 fields in row 500001; expected 2\. That is line 500002: "
    with pytest.raises(DataError, match=expected):
        load_table(tmp_path / "t.csv", TableFile(schema, True))


REFUSED = """
import os, sys
from dpdistill.sources.tables.source import CsvFormat, open_table
from dpdistill.schema import DataError

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for _ in range(20):
    try:
        list(open_table(sys.argv[1], CsvFormat()).batches(["a"]))
    except DataError as error:
        print(error)
"""


def test_a_process_ends_after_a_refusal(tmp_path):
    """Threads of Arrow's that outlived one kept it from ending."""
    (tmp_path / "t.csv").write_text("a,b\n1,2,3\n" + "1,2\n" * 600_000)
    command = [sys.executable, "-c", REFUSED, tmp_path / "t.csv"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    assert done.stdout.count("has 3 fields in row 1; expected 2. That is line 2:") == 20


def test_parquet_with_another_name_is_said_to_be_parquet(tmp_path):
    path = tmp_path / "table.csv"
    frame().rename(columns={"age": "years"}).to_parquet(path)
    with pytest.raises(DataError, match=r"lacks the column 'age'\. It is Parquet, although its name ends in \.csv\.$"):
        load_table(path, FILE)


def test_what_is_no_table(tmp_path):
    for source, fragment in [
        (tmp_path / "none.csv", "none.csv does not exist."),
        (tmp_path, "is a folder; expected a file."),
        ("", "got an empty or impossible one."),
        ("a\0b", "got an empty or impossible one."),
        ([1, 2], "Expected a table as a path or a pandas DataFrame; got list."),
        (pd.DataFrame(), "The frame has no columns."),
        (frame().iloc[:0], "The frame has no rows."),
        (frame().rename(columns={"id": "age"}), "The frame has two columns named 'age'."),
        (frame().rename(columns={"id": 3}), "The frame has a column '3' that is not declared"),
    ]:
        with pytest.raises(DataError) as caught:
            load_table(source, FILE)
        assert fragment in str(caught.value)


def test_damage_inside_a_parquet_file(tmp_path):
    table = pa.table({"age": np.arange(50_000) % 90, "ill": ["no", "yes"] * 25_000})
    parquet.write_table(table, tmp_path / "t", compression="gzip")
    content = bytearray((tmp_path / "t").read_bytes())
    content[40:140] = b"\xff" * 100
    schema = TableSchema((Column("age", "integer", (0, 100)),), "ill", ("no", "yes"))
    with pytest.raises(DataError, match="is damaged: it cannot be read as Parquet"):
        load_table(write(tmp_path, bytes(content)), TableFile(schema, True))


SCHEMAS = Path(suite.__file__).with_name("suites") / "schemas"
DATA = os.environ.get("DPDISTILL_DATA")


@pytest.mark.skipif(not DATA, reason="DPDISTILL_DATA does not name a folder with the published files")
def test_adult():
    folder = Path(DATA or "") / "adult"
    files = [next(folder.glob(f"{name}*"), None) for name in ("adult.data", "adult.test")]
    if None in files:
        pytest.skip("DPDISTILL_DATA has no adult/adult.data and adult/adult.test")
    train, test = (load_table(file, read_schema(SCHEMAS / "adult.yaml")) for file in files)
    assert np.bincount(train.y).tolist() == [24_720, 7_841]
    assert np.bincount(test.y).tolist() == [12_435, 3_846]
    assert np.isnan(train.X).sum(0).tolist() == [0, 1836, 0, 0, 0, 0, 1843, 0, 0, 0, 0, 0, 0, 583]
    assert train.X[0].tolist() == [39, 5, 77516, 0, 13, 2, 8, 3, 0, 1, 2174, 0, 40, 0]
    assert np.isfinite(train.schema.to_unit(train.X)).all()


LARGE = """
import resource, sys
import numpy as np
from dpdistill.sources.tables.schema_file import read_schema
from dpdistill.sources.tables.load import load_table
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)
before = peak()
records = load_table(sys.argv[1], read_schema(sys.argv[2]))
print(len(records), *np.bincount(records.y), int(records.X[:, 4].sum(dtype=np.float64)), int(peak() - before))
"""


def test_half_a_million_rows_in_little_memory(tmp_path):
    """494,021 rows of 41 columns: 81 MB as float32, 162 MB as float64, 1.3 GB as Python texts."""
    rows = []
    for i in range(1_000):
        tail = [0] * 16 + [i % 512, 1] + [f"{i / 1000:.2f}"] * 7 + [255, 9] + ["0.50"] * 8
        rows.append(",".join(map(str, [0, "tcp", "http", "SF", i * 7, 5450, *tail, "normal." if i % 4 else "smurf."])))
    text = "\n".join(rows) + "\n"
    with gzip.GzipFile(tmp_path / "large.csv", "wb", compresslevel=1) as file:
        file.writelines([text.encode()] * 494)
        file.write("".join(f"{row}\n" for row in rows[:21]).encode())
    command = [sys.executable, "-c", LARGE, tmp_path / "large.csv", SCHEMAS / "kdd99.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    rows_read, normal, dos, total, megabytes = map(int, done.stdout.split())
    assert (rows_read, normal, dos) == (494_021, 494 * 750 + 15, 494 * 250 + 6)
    assert total == 494 * 7 * 499_500 + 7 * 210
    assert megabytes < 300


def test_a_draft_is_refused():
    with pytest.raises(DataError, match="The schema is a draft: replace the facts derived from the records"):
        load_table(frame(), replace(FILE, reviewed=False))


def test_no_rows_are_legal_where_bad_rows_are(tmp_path):
    empty = load_table(frame().iloc[:0], FILE, strict=False)
    assert (len(empty), empty.X.shape[1:]) == (0, empty.schema.raw_shape)
    header = load_table(write(tmp_path, f"{HEAD}\n".encode()), FILE, strict=False)
    assert (len(header), header.X.shape[1:]) == (0, header.schema.raw_shape)


def test_two_categories_that_mean_one_number_are_refused():
    for texts in (("True", "1", "False"), ("1.0", "1")):
        with pytest.raises(DataError, match="Two categories or classes mean the number '1': declare one of them"):
            Column("flag", "categorical", categories=texts)
    flag = Column("flag", "categorical", categories=("True", "False"))
    with pytest.raises(DataError, match="Two categories or classes mean the number 'FALSE': declare one of them"):
        TableSchema((flag,), "y", ("0", "FALSE"))
    with pytest.raises(DataError, match="they are one text in two forms of Unicode"):
        TableSchema((flag,), "y", ("\u00fc", "u\u0308"))
    assert TableSchema((flag,), "y", ("a", "b"), (("1", "1.0"), ("0",))).label_values == (("1", "1.0"), ("0",))
    named = TableSchema((flag,), "y", ("1.0", "b"), (("x",), ("1",)))
    with pytest.raises(DataError, match="Two categories or classes mean the number '1': declare one of them"):
        load_table(pd.DataFrame({"flag": [True], "y": ["1"]}), TableFile(named, reviewed=True))


SMALL = TableFile(
    TableSchema((Column("who", "categorical", categories=("Smith, J", "é")),), "ill", ("no", "yes")), True
)


def test_spaces_before_quotes_are_skipped_in_rows_as_in_names(tmp_path):
    path = write(tmp_path, 'ill, "who"\nno, "Smith, J"\nyes,é\n no,  "Smith, J" \nyes,"Smith, J"\n')
    records = load_table(path, SMALL)
    assert (records.X[:, 0].tolist(), records.y.tolist()) == ([0, 1, 0, 0], [0, 1, 0, 1])
    spaced = write(tmp_path, 'a, b\n1, "x"" , ""\n, y"\n2," , ""z"""\n')
    (batch,) = open_table(spaced, CsvFormat()).batches(["a", "b"])
    assert [c.to_pylist() for c in batch] == [["1", "2"], ['x" , "\n, y', ' , "z"']]
    with pytest.raises(
        DataError, match=r"has 3 fields in row 1; expected 2\. That is line 2: a field that contains ','"
    ):
        load_table(write(tmp_path, "ill,who\nno, Smith, J\n"), SMALL)


def test_another_form_of_unicode_is_told(tmp_path):
    for name in (frame, tmp_path / "t.csv", tmp_path / "t.parquet"):
        given = pd.DataFrame({"who": ["e\u0301"], "ill": ["no"]})
        if name is not frame:
            given.to_csv(name, index=False) if name.suffix == ".csv" else given.to_parquet(name)
            given = name
        with pytest.raises(DataError, match="row 1: 'e\u0301' differs only by its Unicode form from a declared value"):
            load_table(given, SMALL)
    stated = replace(SMALL, schema=TableSchema((Column("caf\u00e9", "integer", (0, 9)),), "ill", ("no", "yes")))
    with pytest.raises(DataError, match=r"lacks the column 'café'\. One name looks the same in another Uni"):
        load_table(pd.DataFrame({"cafe\u0301": [1], "ill": ["no"]}), stated)


def test_spaces_around_names_of_columns_are_no_part_of_them(tmp_path):
    pd.DataFrame({" who ": ["é"], "ill\t": ["yes"]}).to_parquet(tmp_path / "t")
    assert load_table(tmp_path / "t", SMALL).X.tolist() == [[1]]
    pd.DataFrame({"who": ["é"], "who ": ["é"], "ill": ["yes"]}).to_parquet(tmp_path / "t")
    with pytest.raises(DataError, match="has two columns named 'who'"):
        load_table(tmp_path / "t", SMALL)


def as_stata(path, version):
    frame().drop(columns="work").assign(ill=[0, 1, 0, 1]).to_stata(path, version=version)
    return path.read_bytes()


OTHERS = {
    "stata 114": (
        lambda path: as_stata(path, 114),
        "is a Stata file: read it with pandas.read_stata and write it with",
    ),
    "stata 118": (
        lambda path: as_stata(path, 118),
        "is a Stata file: read it with pandas.read_stata and write it with",
    ),
    "xpt": (lambda path: b"HEADER RECORD*******LIBRARY HEADER RECORD!!!!!!!", "is a SAS transport file: read it with"),
    "feather": (lambda path: b"FEA1" + b"\0" * 99, "is a Feather file of version 1: read it with pandas.read_feather"),
    "pickle": (lambda path: frame().to_pickle(path), "is a pickle, which can run code: write it with to_parquet"),
    "unicode text": (
        lambda path: TEXT.replace(",", "\t").encode("utf-16"),
        "is UTF-16 text, such as Excel's Unicode Te",
    ),
    "big-endian": (lambda path: b"\xfe\xff" + TEXT.encode("utf-16-be"), "is UTF-16 text, such as Excel's Unicode Text"),
    "workbook": (
        lambda path: b"PK\3\4" + b"\0" * 26 + b"xl/workbook.xml",
        "is a damaged Excel workbook: save it again as .xlsx, or as CSV UTF-8.",
    ),
    "JSON": (
        lambda path: frame().to_json(orient="records").encode(),
        "is JSON: read it with pandas.read_json and write",
    ),
    "JSON lines": (lambda path: b'{"age":1}\n{"age":2}\n', "is JSON: read it with pandas.read_json and write it with"),
    "HTML": (lambda path: frame().to_html().encode(), "is HTML or XML: save it as CSV UTF-8."),
    "zip": (lambda path: b"PK\3\4" + TEXT.encode(), "is a zip archive: unpack it first."),
    "bz2": (
        lambda path: bz2.compress(TEXT.encode()),
        "is a file compressed by a program other than gzip: unpack it first.",
    ),
    "R objects": (lambda path: gzip.compress(b"X\n\0\0\0\3"), "is a file of R objects: write it in R with write.csv("),
}


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_programs_are_named_with_what_to_do(name, tmp_path):
    content, sentence = OTHERS[name]
    path = tmp_path / "table"
    written = content(path)
    if written is not None:
        path.write_bytes(written)
    for read in (lambda: load_table(path, FILE), lambda: draft_schema(path)):
        with pytest.raises(DataError) as caught:
            read()
        assert str(caught.value).startswith(f"{path} {sentence}")
