"""Adding or removing one record changes the encoding of no other, whatever the source and whatever the record holds.

Every source of tables is here, in one list. Each record holds one value in all of its columns, of which no other record
has the same, and its number, by which it is found again where a database sorts.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import math
import sqlite3
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from chosen_tests import few
from contract.postgres import postgres_server
from pyarrow import parquet

from dpdistill.schema import Column, TableSchema
from dpdistill.sources.formats import table_formats
from dpdistill.sources.tables import database, frame, source
from dpdistill.sources.tables.database import DatabaseQuery
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile
from dpdistill.sources.tables.source import CsvFormat

NAN = float("nan")
SCHEMA = TableSchema(
    (
        Column("number", "integer", (0, 1_000)),
        Column("amount", "numeric", (-2_000, 2_000), missing=True),
        Column("whole", "integer", (-2_000, 2_000)),
        Column("choice", "categorical", categories=("1", "2.5", "1.234", "rest"), other="rest", missing=True),
        Column("size", "ordinal", categories=("0", "1", "true north", "7,5")),
        Column("day", "date", ("2000-01-01", "2030-12-31"), missing=True),
        Column("seen", "datetime", ("2000-01-01", "2030-12-31"), resolution="hour", format="%d/%m/%Y %H:%M"),
        Column("stay", "duration", (-100, 100), resolution="minute"),
    ),
    "ill",
    ("no", "yes"),
    (("0", "no", "1.234", "2.5"), ("1", "yes", "7,5")),
)
FILES = {
    mark: TableFile(SCHEMA, True, CsvFormat(separator=";", decimal=mark, missing=("", "-9", "-9,5")), unit_column="who")
    for mark in ".,"
}
COLUMNS = ("number", "amount", "whole", "choice", "size", "day", "seen", "stay", "ill", "who")
VALUES = [
    *(
        0,
        1,
        2,
        -9,
        1.0,
        1.234,
        2.5,
        -9.5,
        -0.0,
        1e16,
        1e300,
        2**53 + 1,
        2**63,
        10**30,
        True,
        False,
        None,
        NAN,
        math.inf,
    ),
    *(Decimal("1.234"), Decimal("1.000"), Decimal("NaN"), Decimal(7) / 3, np.float32(0.1), np.int8(1)),
    *("7,5", "1.234", "1.234,5", "0.5", "1", " 1 ", "1.0", "007", "1e0", "-9", "-9,5", "-9.5", "true", "", " ", "x"),
    *("NA", "nan", "inf", "2020-01-01", "a\nb", 'say "no"', '"', "a;b", "\r", "=1+1", "no", "yes", "1e999", "\u00a01"),
    *("03/04/2026 09:30", "2026-04-03T09:30:00Z", "1969-12-31", "0:30"),
    *("1_0", "0x1F", "12:30", "é", "e\u0301", b"\xff\x00", datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 9)),
]
"""What each record holds in every one of its columns, and no other record does."""
PLAIN = [v for v in VALUES if isinstance(v, float | int | str | bytes | None) and not isinstance(v, np.generic)]


def as_text(value):
    """As a program writes a value into a CSV file."""
    return "" if value is None else value.hex() if isinstance(value, bytes) else str(value)


def csv_bytes(rows):
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=";").writerows([COLUMNS, *([as_text(value) for value in row] for row in rows)])
    return file.getvalue().encode()


def a_file(name, content):
    def select(rows, folder):
        def build(numbers):
            (folder / name).write_bytes(content([rows[i] for i in numbers]))
            return folder / name

        return build

    return select


def a_parquet(kind):
    def content(rows):
        kinds = [pa.int64(), *[kind] * (len(COLUMNS) - 1)]
        file = io.BytesIO()
        columns = zip(*rows, strict=True)
        parquet.write_table(
            pa.table([pa.array(values, k) for values, k in zip(columns, kinds, strict=True)], COLUMNS), file
        )
        return file.getvalue()

    return a_file("t.parquet", content)


def a_frame(dtype):
    def select(rows, folder):
        def build(numbers):
            columns = dict(zip(COLUMNS, zip(*(rows[i] for i in numbers), strict=True), strict=True))
            return pd.DataFrame(
                {n: pd.Series(v, dtype="int64" if n == "number" else dtype) for n, v in columns.items()}
            )

        return build

    return select


def query_of(place):
    return lambda numbers: DatabaseQuery(place, f"SELECT * FROM t WHERE number IN ({', '.join(map(str, numbers))})")


def a_sqlite(rows, folder):
    with sqlite3.connect(folder / "t.db") as connection:
        connection.execute(f"CREATE TABLE t ({', '.join(COLUMNS)})")
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(COLUMNS))})", rows)
    connection.close()
    return query_of(folder / "t.db")


def a_duckdb(kind):
    def select(rows, folder):
        duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
        pytest.importorskip("duckdb_engine", reason="duckdb-engine is not installed")
        texts = [[None if v is None else str(v) for v in values] for values in zip(*rows, strict=True)]
        with duckdb.connect(str(folder / "t.duckdb")) as connection:
            connection.register("f", pa.table([pa.array(column, pa.string()) for column in texts], COLUMNS))
            cast = ", ".join(f"{name}::{'INTEGER' if name == 'number' else kind} AS {name}" for name in COLUMNS)
            connection.execute(f"CREATE TABLE t AS SELECT {cast} FROM f")
        return query_of(folder / "t.duckdb")

    return select


def a_postgres(kind):
    def select(rows, folder):
        import psycopg

        address = (folder / "postgres").read_text()
        with psycopg.connect(address) as connection:
            connection.execute("DROP TABLE IF EXISTS t")
            kinds = ", ".join(f"{name} {'integer' if name == 'number' else kind}" for name in COLUMNS)
            connection.execute(f"CREATE TABLE t ({kinds})")
            with connection.cursor() as cursor:
                cursor.executemany(f"INSERT INTO t VALUES ({', '.join(['%s'] * len(COLUMNS))})", rows)
        return query_of(address)

    return select


def of(*kinds):
    return [value for value in PLAIN if value is None or type(value) in kinds]


TEXTS = of(str)
SMALL = [value for value in of(int) if value is None or abs(value) < 2**63]
DECIMALS = [None, *map(Decimal, ("1.234", "1", "-9.5", "2.5", "0.1", "9007199254740993", "-0", "0.333333333333"))]
SOURCES = {
    "csv": (a_file("t.csv", csv_bytes), VALUES),
    "csv.gz": (a_file("t.csv.gz", lambda rows: gzip.compress(csv_bytes(rows), 1)), VALUES),
    "parquet of texts": (a_parquet(pa.string()), TEXTS),
    "parquet of doubles": (a_parquet(pa.float64()), of(float)),
    "parquet of floats": (a_parquet(pa.float32()), [*of(float), 0.1, -9.3]),
    "parquet of whole numbers": (a_parquet(pa.int64()), SMALL),
    "parquet of decimals": (a_parquet(pa.decimal128(38, 12)), DECIMALS),
    "parquet of truth values": (a_parquet(pa.bool_()), [True, False, None]),
    "frame of objects": (a_frame(object), [*VALUES, [1], {"a": 1}, np.float16(0.1), pd.NA, pd.NaT, pd.Timestamp(0)]),
    "frame of categories": (a_frame("category"), [v for v in VALUES if v == v]),
    "frame of texts": (a_frame("string"), TEXTS),
    "frame of floats": (a_frame("float64"), of(float)),
    "frame of nullable whole numbers": (a_frame("Int64"), SMALL),
    "frame of nullable truth values": (a_frame("boolean"), [True, False, None]),
    "sqlite": (a_sqlite, [value for value in PLAIN if type(value) is not int or abs(value) < 2**63]),
    "duckdb of texts": (a_duckdb("VARCHAR"), TEXTS),
    "duckdb of doubles": (a_duckdb("DOUBLE"), of(float)),
    "duckdb of decimals": (a_duckdb("DECIMAL(38, 12)"), DECIMALS),
    "postgres of texts": (a_postgres("text"), TEXTS),
    "postgres of doubles": (a_postgres("double precision"), of(float)),
    "postgres of decimals": (a_postgres("numeric"), [*DECIMALS, Decimal("NaN"), Decimal("1e40")]),
    "postgres of bytes": (a_postgres("bytea"), of(bytes)),
}
"""Each source: what writes its rows, and the values that its columns can hold; that of a new format is in its test."""
for path in sorted(Path(__file__).parent.glob("test_format_*.py")):
    SOURCES |= getattr(import_module(path.stem), "SOURCES", {})


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with postgres_server(tmp_path_factory.mktemp("pg")) as address:
        yield address


def encoded(records):
    """The bits and the label of every record by its number, and the records of each unit, some of which have none."""
    numbers = [int(x) for x in records.X[:, 0]]
    bits = {n: (x.tobytes(), y) for n, x, y in zip(numbers, records.X, records.y.tolist(), strict=True)}
    units: dict[int, set[int]] = {}
    for number, unit in zip(numbers, records.units.tolist(), strict=True):
        units.setdefault(unit, set()).add(number)
    nobody = units.pop(-1, set())
    return bits, nobody, {frozenset(unit) for unit in units.values()}


def without(units, number):
    return {unit - {number} for unit in units} - {frozenset()}


CASES = [(name, mark) for name in SOURCES for mark in ".," if mark == "," or name.startswith(("csv", "frame", "parq"))]


ONCE = [(name, "." if (name, ".") in CASES else ",") for name in SOURCES]


@pytest.mark.parametrize(("name", "mark"), few(CASES, *ONCE, of_several=True))
def test_a_record_changes_no_other(name, mark, tmp_path, request):
    """Every record is removed once from the data set of all, and added once to that of none."""
    select, values = SOURCES[name]
    if name.startswith("postgres"):
        (tmp_path / "postgres").write_text(request.getfixturevalue("server"))
    build = select([[i, *[value] * (len(COLUMNS) - 1)] for i, value in enumerate(values)], tmp_path)

    def read(numbers):
        return encoded(load_table(build(numbers), FILES[mark], strict=False))

    numbers = [*range(len(values))]
    bits, nobody, units = read(numbers)
    assert len(bits) == len(values)
    assert len({x[4:] for x, _ in bits.values()}) > 2 or name == "postgres of bytes"
    for i in numbers:
        rest = [number for number in numbers if number != i]
        assert read(rest) == ({n: bits[n] for n in rest}, nobody - {i}, without(units, i)), values[i]
        assert read([i])[0] == {i: bits[i]}, values[i]


def test_every_source_of_tables_is_here():
    classes = {
        value.__name__
        for module in (source, database, frame)
        for value in vars(module).values()
        if isinstance(value, type) and hasattr(value, "batches") and value.__module__ == module.__name__
    }
    assert classes - {"Table"} == {"Frame", "Rows"}
    for each in table_formats():
        assert any(name.startswith(each.title.split()[0].lower()) for name in SOURCES), each.title
