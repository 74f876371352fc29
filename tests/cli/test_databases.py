"""Rows from a real PostgreSQL server, from SQLite and from DuckDB: what is read, what cannot be written or said."""

import datetime
import re
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from chosen_tests import few
from contract.postgres import PASSWORD, postgres_server
from run_command import dpdistill, refused, succeeds

from dpdistill import begin_ledger
from dpdistill.run.serialize import digest_records
from dpdistill.schema import Column, DataError, TableSchema, hide_secrets
from dpdistill.sources.load import load
from dpdistill.sources.tables.database import DatabaseQuery
from dpdistill.sources.tables.drafts import check_table, draft_schema
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile
from dpdistill.sources.tables.source import CsvFormat, open_table

pytest.importorskip("sqlalchemy", reason="the extra dpdistill[sql] is not installed")

SCHEMA = TableSchema(
    (
        Column("age", "integer", (0.0, 110.0)),
        Column("cost", "numeric", (0.0, 1000.0), missing=True),
        Column("ward", "categorical", categories=("A", "B")),
    ),
    "outcome",
    ("died", "recovered"),
    unit="patient",
)
STATED = TableFile(SCHEMA, reviewed=True, ignored=("code", "since"))
YAML = """
dpdistill: table schema
reviewed: true
label: outcome
classes: [died, recovered]
columns:
  - {name: age, kind: integer, bounds: [0, 110]}
  - {name: cost, kind: numeric, bounds: [0, 1000], missing: true}
  - {name: ward, kind: categorical, categories: [A, B]}
ignored: [code, since]
"""
SQL = "SELECT age, cost, ward, code, since, outcome FROM stays;"
CREATE = (
    "CREATE TABLE stays (age integer, cost numeric(8,2), ward varchar(9), code varchar(9), since date, outcome text)"
)
ROWS = [
    (20 + i % 50, None if i % 10 == 0 else 5.0 + i, "AB"[i % 2], str(i % 3), datetime.date(2020, 1, 1), outcome)
    for i, outcome in enumerate(["died", "recovered", "recovered"] * 20)
]
QUICK = [word for pair in ("frequencies=9", "steps=2", "samples=30", "hidden=4") for word in ("--set", pair)]


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    """The address of a server with the table, that asks for a password; it is stopped behind the last test."""
    with postgres_server(tmp_path_factory.mktemp("pg")) as address:
        fill_postgres(address)
        yield address


def fill_postgres(address):
    import psycopg

    with psycopg.connect(address) as connection:
        connection.execute(CREATE)
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO stays VALUES (%s, %s, %s, %s, %s, %s)", ROWS)


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory):
    path = tmp_path_factory.mktemp("sqlite") / "clinic 100%.db"
    with sqlite3.connect(path) as connection:
        connection.execute(CREATE)
        connection.executemany("INSERT INTO stays VALUES (?, ?, ?, ?, ?, ?)", [(*r[:4], str(r[4]), r[5]) for r in ROWS])
    connection.close()
    return str(path)


@pytest.fixture(scope="module")
def duck(tmp_path_factory):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    pytest.importorskip("duckdb_engine", reason="duckdb-engine is not installed")
    path = tmp_path_factory.mktemp("duck") / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(CREATE)
        connection.executemany("INSERT INTO stays VALUES (?, ?, ?, ?, ?, ?)", ROWS)
    return str(path)


@pytest.fixture(params=few(["postgres", "sqlite", "duck"], "sqlite"))
def place_of_a_long_test(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["postgres", "sqlite", "duck"])
def place(request):
    return request.getfixturevalue(request.param)


def values(records):
    return sorted(
        (*np.nan_to_num(x, nan=-1.0).tolist(), int(label)) for x, label in zip(records.X, records.y, strict=True)
    )


EXPECTED = sorted(
    (float(age), -1.0 if cost is None else cost, float("AB".index(ward)), int(outcome == "recovered"))
    for age, cost, ward, _, _, outcome in ROWS
)


def test_rows_are_those_of_the_table(place):
    records = load_table(DatabaseQuery(place, SQL), STATED)
    assert values(records) == EXPECTED
    assert records.schema == SCHEMA


def test_the_same_rows_in_another_order_are_the_same_data_set(place):
    digests = {
        digest_records(load_table(DatabaseQuery(place, f"{SQL[:-1]} ORDER BY {order}"), STATED), bytes(32))
        for order in ("age", "age DESC", "ward, cost DESC")
    }
    assert len(digests) == 1
    other = load_table(DatabaseQuery(place, f"{SQL[:-1]} WHERE age > 20"), STATED)
    assert digest_records(other, bytes(32)) not in digests


def test_rows_are_read_some_at_a_time(place, monkeypatch):
    monkeypatch.setattr("dpdistill.sources.tables.database._ROWS", 7)
    table = open_table(DatabaseQuery(place, SQL), CsvFormat())
    sizes = [len(age) for age, _ in table.batches(["age", "outcome"])]
    assert sizes == [7] * 8 + [4]
    assert values(load_table(DatabaseQuery(place, SQL), STATED)) == EXPECTED


def test_a_draft_takes_kinds_from_the_types_of_columns(place):
    table_file, _ = draft_schema(DatabaseQuery(place, SQL), "outcome")
    kinds = {column.name: column.kind for column in table_file.schema.columns}
    # Codes are digits in a column of text, costs are whole numbers in a column with a fraction, of which SQLite makes
    # whole ones.
    assert {name: kinds[name] for name in ("age", "cost", "ward", "code")} == {
        "age": "integer",
        "cost": "integer" if place.endswith(".db") else "numeric",
        "ward": "categorical",
        "code": "categorical",
    }
    assert table_file.schema.classes == ("died", "recovered")
    assert next(column for column in table_file.schema.columns if column.name == "cost").missing
    assert table_file.ignored == ("since",)


def test_what_a_schema_makes_of_the_rows(place):
    lines = check_table(DatabaseQuery(place, SQL), STATED)
    assert lines[:3] == ["60 rows", "class 'died': 20 rows", "class 'recovered': 40 rows"]
    assert "column 'cost': 6 of 60 values are missing" in lines


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM stays RETURNING *",
        "DROP TABLE stays",
        "SELECT 1) AS q; COMMIT; DROP TABLE stays; --",
        "SELECT 1 AS a) AS q; COMMIT; BEGIN; DELETE FROM stays; COMMIT; SELECT (SELECT 1 AS a",
    ],
)
def test_nothing_can_be_written(place, sql):
    with pytest.raises(DataError, match=r"^The database .*\.$"):
        list(open_table(DatabaseQuery(place, sql), CsvFormat()).batches(["a"]))
    assert len(load_table(DatabaseQuery(place, SQL), STATED)) == 60


def test_a_function_that_writes_is_refused(postgres):
    import psycopg

    with psycopg.connect(postgres) as connection:
        body = "BEGIN DELETE FROM stays; RETURN 1; END"
        connection.execute(f"CREATE FUNCTION wipe() RETURNS int LANGUAGE plpgsql AS $$ {body} $$")
    with pytest.raises(DataError, match="cannot execute DELETE in a read-only transaction"):
        list(open_table(DatabaseQuery(postgres, "SELECT wipe() AS a"), CsvFormat()).batches(["a"]))
    assert len(load_table(DatabaseQuery(postgres, SQL), STATED)) == 60


def test_a_database_that_states_no_encoding(postgres):
    """SQL_ASCII: texts came as bytes, and a traceback."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE plain ENCODING 'SQL_ASCII' TEMPLATE template0")
    plain = f"{postgres.rpartition('/')[0]}/plain"
    fill_postgres(plain)
    assert values(load_table(DatabaseQuery(plain, SQL), STATED)) == EXPECTED
    with psycopg.connect(plain) as connection:
        connection.execute(rb"UPDATE stays SET ward = E'\xe9' WHERE age = 20")
    with pytest.raises(DataError, match=r"^The database .* encoding \"UTF8\": 0xe9"):
        load_table(DatabaseQuery(plain, SQL), STATED)


def test_uuids_and_bytes(duck, postgres, sqlite):
    schema = TableSchema((Column("age", "integer", (0, 9)),), "outcome", ("a", "b"))
    stated = TableFile(schema, True, unit_column="who")
    one, two = (f"CAST('00000000-0000-0000-0000-00000000000{k}' AS uuid)" for k in (1, 2))
    rows = " UNION ALL ".join(
        f"SELECT {k} AS age, {who} AS who, 'a' AS outcome" for k, who in enumerate((one, two, one))
    )
    for place in (duck, postgres):
        records = load_table(DatabaseQuery(place, rows), stated)
        assert dict(zip(records.X[:, 0].tolist(), records.units.tolist(), strict=True)) == {0: 0, 1: 1, 2: 0}
    with pytest.raises(DataError, match="row 1: the value is bytes: decode it into a text, or list the column under"):
        load_table(DatabaseQuery(sqlite, "SELECT x'00ff' AS age, 1 AS who, 'a' AS outcome"), stated)


def test_spaces_around_names_of_columns(place):
    schema = TableSchema((Column("age", "integer", (0, 9)),), "outcome", ("a", "b"))
    sql = """SELECT 3 AS " age ", 'b' AS "outcome " """
    assert load_table(DatabaseQuery(place, sql), TableFile(schema, True)).X.tolist() == [[3.0]]


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        (" ; ", "Expected --sql as one SELECT; got an empty text."),
        ("SELECT nothing FROM stays", "The database "),
        ("SELECT age FROM stays", "The query lacks the column 'cost'."),
        ("SELECT age, age FROM stays", "The query has two columns named 'age'."),
        (f"{SQL[:-1]} WHERE age > 200", "The query has no rows."),
        ("SELECT 900 AS odd, stays.* FROM stays", "The query has a column 'odd' that is not declared"),
    ],
)
def test_refusals(place, sql, sentence):
    if sql.startswith("SELECT age, age") and not place.startswith("postgres"):
        pytest.skip("only PostgreSQL gives two columns of one name")
    with pytest.raises(DataError) as refusal:
        load_table(DatabaseQuery(place, sql), STATED)
    assert str(refusal.value).startswith(sentence)
    assert str(refusal.value).endswith(".")


def test_from_a_draft_to_a_result_by_the_command_line(postgres, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = [succeeds("schema", "draft", postgres, "--sql", SQL, "--label", "outcome", "--out", "draft.yaml")]
    Path("schema.yaml").write_text(YAML)
    said += [succeeds("schema", "check", postgres, "schema.yaml", "--sql", SQL)]
    command = ("distill", postgres, "--sql", SQL, "--schema", "schema.yaml", "--out", "shared")
    begin_ledger("stays.ledger", 3.0)
    code, out, err = dpdistill(*command, "--ledger", "stays.ledger", *QUICK)
    assert code == 0, err
    said += [out, err]
    assert PASSWORD not in "".join(said)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"stays.ledger", "draft.yaml", "certificate.json", "ledger.sqlite"} <= {path.name for path in written}
    for path in written:
        content = path.read_bytes()
        assert not [secret for secret in (PASSWORD, "127.0.0.1", "FROM stays") if secret.encode() in content], path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Only one sample available")  # a set may have one row of a class
def test_evaluate_and_audit_take_rows_of_a_query(place_of_a_long_test, tmp_path, monkeypatch):
    place = place_of_a_long_test
    monkeypatch.chdir(tmp_path)
    Path("schema.yaml").write_text(YAML)
    old, young = (f"SELECT age, cost, ward, outcome FROM stays WHERE age {test} 60" for test in (">=", "<"))
    said = [succeeds("distill", place, "--sql", young, "--schema", "schema.yaml", "--out", "shared", *QUICK)]
    tested = ("evaluate", "shared", "--test", place, "--sql", old, "--classifier", "LDA")
    said += [succeeds(*tested, "--reference", place, "--reference-sql", young)]
    assert "Trained on all real rows" in said[-1]
    few = re.search(
        r"Trained on (\d+) random real rows:\n.*?Each classifier was trained on (\d+) rows", said[-1], re.DOTALL
    )
    assert few[1] == few[2]  # as many as the set has
    said += [succeeds(*tested, "--include-scores")]
    lines = [",".join("" if v is None else str(v) for v in (*row[:3], row[5])) for row in ROWS if row[0] >= 60]
    Path("rows.csv").write_text("\n".join(["age,cost,ward,outcome", *lines]) + "\n")
    assert said[-1].splitlines()[-1] == succeeds(*tested[:3], "rows.csv", *tested[6:]).splitlines()[-1]
    here = ("--members", place, "--schema", "schema.yaml", "--sql", young)
    said += [succeeds("audit", "shared", *here, "--non-members", place, "--non-members-sql", old)]
    assert "members recognised at 0.1 % wrong" in said[-1]
    how = ("--schema", "schema.yaml", "--sql", young, "--method", "dp-merf", *QUICK, "--records", 1)
    said += [succeeds("audit", "method", place, "--out", "mine", *how)]
    assert "of the paid sensitivity; else nothing changed" in said[-1]
    assert PASSWORD not in "".join(said)
    for path in tmp_path.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert not [secret for secret in (PASSWORD, "127.0.0.1", "FROM stays") if secret.encode() in content], path
    for command, sentence in (
        ((*tested[:4],), "is a database: state the rows to read (--sql 'SELECT ...')."),
        ((*tested, "--reference-sql", old), "Expected --reference with --reference-sql."),
        (("audit", "shared", *here, "--non-members-sql", old), "Expected --non-members with --non-members-sql."),
        (("audit", "shared", *here[:4]), "is a database: state the rows to read"),
        (
            ("audit", "method", place, "--out", "x", "--method", "dp-merf", "--sql", old),
            "Expected --schema SCHEMA with",
        ),
    ):
        wrong = refused(*command)
        assert sentence in wrong
        assert PASSWORD not in wrong


def test_images_are_not_rows_of_a_query(sqlite, tmp_path):
    small = ("--method", "ldpdc", "--set", "sampling_prob=1", "--per-class", 1)
    succeeds("distill", "digits:train", "--out", tmp_path / "x", *small)
    wrong = refused("evaluate", tmp_path / "x", "--test", "digits:test", "--sql", SQL)
    assert "x holds images: --sql is for tables." in wrong
    wrong = refused("evaluate", tmp_path / "x", "--test", "digits:test", "--schema", "s.yaml")
    assert "x holds images: --schema is for tables." in wrong
    wrong = refused("evaluate", tmp_path / "x", "--test", "digits:test", "--reference-sql", SQL)
    assert "x holds images: --reference-sql is for tables." in wrong
    both = ("--members", "digits:train", "--non-members", "digits:test")
    wrong = refused("audit", tmp_path / "x", *both, "--sql", SQL)
    assert "The set holds images: --sql and --non-members-sql are for tables." in wrong


@pytest.mark.parametrize(
    "edit",
    [
        ("@127.0.0.1:", "@127.0.0.1:1"),
        ("/postgres", "/nowhere"),
        ("anna:", "bob:"),
        (f"{PASSWORD}@", f"{PASSWORD}@x@"),
        (f"anna:{PASSWORD}@", f"?password={PASSWORD}&user="),
        ("/postgres", f"/postgres?password={PASSWORD}&sslmode=odd"),
        ("/postgres", f"/postgres?{PASSWORD}=1"),
        ("postgresql", "mysql"),
        ("postgresql", "odd"),
        (":", "://"),
    ],
)
def test_no_password_is_ever_said(postgres, tmp_path, monkeypatch, edit):
    monkeypatch.chdir(tmp_path)
    Path("schema.yaml").write_text(YAML)
    wrong = edit[1].join(postgres.rsplit(edit[0], 1)) if edit[0] == "/postgres" else postgres.replace(*edit, 1)
    assert PASSWORD in wrong
    source = (wrong, "--sql", SQL)
    for command in (
        ("schema", "draft", *source),
        ("schema", "check", wrong, "schema.yaml", "--sql", SQL),
        ("distill", *source, "--schema", "schema.yaml", "--out", "shared"),
        ("audit", "method", *source, "--schema", "schema.yaml", "--method", "dp-merf", "--out", "mine"),
    ):
        assert PASSWORD not in refused(*command)
    assert PASSWORD not in repr(DatabaseQuery(wrong, SQL))


def test_an_address_where_none_belongs_is_not_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("schema.yaml").write_text(YAML)
    address = f"postgresql://anna:{PASSWORD}@host/clinic"
    for command in (
        ("distill", address, "--out", "shared"),
        ("distill", address, "--schema", "schema.yaml", "--out", "shared"),
        ("distill", address, "--sql", SQL, "--out", "shared"),
        ("distill", "digits:train", address, "--out", "shared"),
        ("distill", "digits:train", "--schema", address, "--out", "shared"),
        ("distill", f"{address}:val", "--out", "shared"),
        ("schema", "draft", address),
        ("verify", address),
        ("methods", address),
    ):
        code, out, err = dpdistill(*command)
        assert code != 0
        assert PASSWORD not in out + err, command
    with pytest.raises(DataError, match=r"^A database holds tables, which need a schema"):
        load(address)


@pytest.mark.parametrize("address", ["https://example.org/mnist.zip", "s3://bucket/rows.csv", "HF://datasets/x"])
def test_files_on_other_machines_are_not_fetched(address):
    for read in (load, lambda address: load_table(address, STATED)):
        with pytest.raises(
            DataError, match=f"^{address} is on another machine: download it first and name the local file"
        ):
            read(address)


def test_a_database_without_sql(sqlite, duck):
    for place in (sqlite, duck):
        with pytest.raises(DataError, match="is a database: state the rows to read"):
            load_table(place, STATED)
    with pytest.raises(DataError, match="is a database, whose tables need a schema"):
        load(sqlite)


def test_a_file_that_is_no_database(tmp_path):
    (tmp_path / "a.db").write_text("age,outcome\n")
    with pytest.raises(DataError, match=r"a\.db is no known database: expected a file of SQLite or DuckDB"):
        load_table(DatabaseQuery(tmp_path / "a.db", SQL), STATED)
    with pytest.raises(DataError, match=r"b\.db does not exist"):
        load_table(DatabaseQuery(f"sqlite:///{tmp_path}/b.db", SQL), STATED)


def test_a_damaged_file(sqlite, tmp_path):
    content = bytearray(Path(sqlite).read_bytes())
    content[100:] = b"\xff" * (len(content) - 100)
    (tmp_path / "a.db").write_bytes(content)
    with pytest.raises(DataError, match=r"^The database "):
        load_table(DatabaseQuery(tmp_path / "a.db", SQL), STATED)


def test_without_sqlalchemy(sqlite, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sqlalchemy", None)
    with pytest.raises(DataError, match=r"^Databases need SQLAlchemy and a driver: pip install 'dpdistill\[sql\]'\.$"):
        load_table(DatabaseQuery(sqlite, SQL), STATED)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://anna:a b@host/x does not exist.", "postgresql://... does not exist."),
        ("postgresql:/anna:a@b@host/x is odd", "postgresql://... is odd"),
        ("see postgresql://host/x?password=abc now", "see postgresql://... now"),
        ("postgresql://host/x is fine", "postgresql://host/x is fine"),
        ("C:/images/a@b.png and /home/a@b", "C:/images/a@b.png and /home/a@b"),
    ],
)
def test_addresses_end_where_a_secret_may_begin(text, shown):
    assert hide_secrets(text) == shown
