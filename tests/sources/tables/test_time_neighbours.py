"""A date, time or duration changes the encoding of no other record, in every source whose columns have such types."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from contract.postgres import postgres_server
from pyarrow import parquet

from dpdistill.schema import Column, TableSchema
from dpdistill.sources.tables.database import DatabaseQuery
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile

COLUMNS = {
    "date": Column("when", "date", ("2000-01-01", "2030-12-31"), missing=True),
    "datetime": Column("when", "datetime", ("2000-01-01", "2030-12-31"), resolution="hour"),
    "instant": Column("when", "datetime", ("2000-01-01", "2030-12-31"), zone="Asia/Kathmandu", missing=True),
    "duration": Column("when", "duration", (-100, 100), resolution="minute", missing=True),
}
DATES = [None, *(datetime.date(*day) for day in ((2020, 1, 31), (1969, 12, 31), (2026, 4, 3), (9999, 12, 31)))]
STAMPS = [
    None,
    *(datetime.datetime(*when) for when in ((2020, 1, 31, 9, 30), (1969, 12, 31, 23, 59, 59, 999), (2026, 4, 3))),
]
LENGTHS = [None, *(datetime.timedelta(0, seconds) for seconds in (0, 59, 60, -1, 90_000, 10**7))]
CLOCKS = [None, datetime.time(0), datetime.time(9, 30, 59, 999_999), datetime.time(23, 59, 59)]
IN_UTC = [stamp and stamp.replace(tzinfo=datetime.UTC) for stamp in STAMPS]
KEPT = {"date": DATES, "datetime": STAMPS, "instant": IN_UTC, "duration": LENGTHS}
"""Values whose type is that of a column."""


def objects(values, kind, folder, request):
    return lambda rows: pd.DataFrame(
        {"when": pd.Series([values[i] for i in rows], dtype=object), "y": ["a"] * len(rows)}
    )


def typed(dtype):
    def select(values, kind, folder, request):
        series = pd.Series(values).astype(dtype)
        return lambda rows: pd.DataFrame({"when": series.iloc[rows], "y": ["a"] * len(rows)})

    return select


def arrow(kind):
    def select(values, _, folder, request):
        def build(rows):
            when = pa.array([values[i] for i in rows], kind)
            parquet.write_table(pa.table({"when": when, "y": ["a"] * len(rows)}), folder / "t.parquet")
            return folder / "t.parquet"

        return build

    return select


def duckdb_of(kind):
    def select(values, _, folder, request):
        duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
        pytest.importorskip("duckdb_engine", reason="duckdb-engine is not installed")
        with duckdb.connect(str(folder / "t.duckdb")) as connection:
            connection.execute("DROP TABLE IF EXISTS t")
            connection.execute(f"CREATE TABLE t (i INTEGER, w {kind})")
            connection.executemany("INSERT INTO t VALUES (?, ?)", [list(row) for row in enumerate(values)])
        return query_of(folder / "t.duckdb")

    return select


def postgres_of(kind):
    def select(values, _, folder, request):
        import psycopg

        address = request.getfixturevalue("server")
        with psycopg.connect(address) as connection:
            connection.execute("DROP TABLE IF EXISTS t")
            connection.execute("DROP TABLE IF EXISTS t")
            connection.execute(f"CREATE TABLE t (i integer, w {kind})")
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO t VALUES (%s, %s)", list(enumerate(values)))
        return query_of(address)

    return select


def query_of(place):
    def build(rows):
        where = f"i IN ({', '.join(map(str, rows))})"
        return DatabaseQuery(place, f"SELECT w AS \"when\", 'a' AS y FROM t WHERE {where}")

    return build


SOURCES = {
    "dates in a frame": (objects, DATES),
    "stamps in a frame": (objects, STAMPS),
    "instants in a frame": (objects, IN_UTC),
    "lengths in a frame": (objects, LENGTHS),
    "clocks in a frame": (objects, CLOCKS),
    "frame of stamps": (typed("datetime64[ns]"), STAMPS),
    "frame of instants": (typed("datetime64[us, Europe/Berlin]"), IN_UTC),
    "frame of lengths": (typed("timedelta64[us]"), LENGTHS),
    "parquet of dates": (arrow(pa.date32()), DATES),
    "parquet of stamps": (arrow(pa.timestamp("us")), STAMPS),
    "parquet of instants": (arrow(pa.timestamp("us", "UTC")), IN_UTC),
    "parquet of lengths": (arrow(pa.duration("ms")), LENGTHS),
    "parquet of clocks": (arrow(pa.time64("us")), CLOCKS),
    "duckdb of dates": (duckdb_of("DATE"), DATES),
    "duckdb of stamps": (duckdb_of("TIMESTAMP"), STAMPS),
    "duckdb of lengths": (duckdb_of("INTERVAL"), LENGTHS),
    "postgres of dates": (postgres_of("date"), DATES),
    "postgres of stamps": (postgres_of("timestamp"), STAMPS),
    "postgres of instants": (postgres_of("timestamptz"), IN_UTC),
    "postgres of lengths": (postgres_of("interval"), LENGTHS),
    "postgres of clocks": (postgres_of("time"), CLOCKS),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with postgres_server(tmp_path_factory.mktemp("pg")) as address:
        yield address


def codes(source, column):
    records = load_table(source, TableFile(TableSchema((column,), "y", ("a", "b")), reviewed=True), strict=False)
    return sorted(zip(np.nan_to_num(records.X[:, 0], nan=-1e9).tolist(), records.y.tolist(), strict=True))


@pytest.mark.parametrize("name", SOURCES)
def test_a_record_changes_no_other(name, tmp_path, request):
    select, values = SOURCES[name]
    for kind, column in COLUMNS.items():
        build = select(values, kind, tmp_path, request)
        alone = [codes(build([i]), column) for i in range(len(values))]
        assert codes(build([*range(len(values))]), column) == sorted(row for rows in alone for row in rows), kind
        bad = [rows[0][1] == -1 for rows in alone]
        if values is KEPT[kind]:
            assert not any(bad[1:]), (kind, alone)


def test_a_value_means_the_same_in_every_source(tmp_path, request):
    """Every source of a list of values gives the same codes for a kind that keeps it."""
    for kind, values in KEPT.items():
        found = {}
        for name, (select, held) in SOURCES.items():
            if held is values:
                found[name] = codes(select(values, kind, tmp_path, request)([*range(len(values))]), COLUMNS[kind])
        first = next(iter(found.values()))
        assert len(found) > 2
        assert all(rows == first for rows in found.values()), found
