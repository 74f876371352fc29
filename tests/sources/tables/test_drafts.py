"""Drafts of a schema: sensible guesses, every one marked; checks: exact counts for the owner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.sources.tables.drafts import REPLACE, check_table, draft_schema
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile, read_schema, write_schema
from dpdistill.sources.tables.source import CsvFormat

N = 400
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "id": np.arange(N) + 7,
        "user_id": RNG.permutation(10 * N)[:N],
        "born": pd.Timestamp("2000-01-31"),
        "seen": "31/12/2019",
        "name": [f"person {i}" for i in range(N)],
        "age": RNG.permutation(np.arange(N) % 74 + 17),
        "year": 1993 + np.arange(N) % 30,
        "height": np.round(RNG.uniform(1.52, 1.97, N), 2),
        "loss": np.arange(N) % 90 * -1.5,
        "gain": np.where(np.arange(N) % 50, 0, 99_999),
        "work": ["field", "office", "?", "other"] * (N // 4),
        "flag": [1.0, 0.0, np.nan, 1.0] * (N // 4),
        "same": 3,
        "none": None,
        "ill": ["no", "yes"] * (N // 2),
    }
)
COLUMNS = (
    Column("age", "integer", (0.0, 100.0)),
    Column("year", "integer", (1990.0, 2030.0)),
    Column("height", "numeric", (1.5, 2.0)),
    Column("loss", "numeric", (-160.0, 0.0)),
    Column("gain", "integer", (0.0, 100_000.0), "log"),
    Column("work", "categorical", categories=("field", "office", "other"), missing=True),
    Column("flag", "categorical", categories=("0", "1"), missing=True),
)


def as_csv(folder):
    FRAME.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def as_parquet(folder):
    FRAME.to_parquet(folder / "t.parquet")
    return folder / "t.parquet"


@pytest.mark.parametrize("door", [lambda folder: FRAME, as_csv, as_parquet])
def test_guesses(tmp_path, door):
    source = door(tmp_path)
    draft, notes = draft_schema(source)
    assert draft.schema == TableSchema(COLUMNS, "ill", ("no", "yes"))
    assert not draft.reviewed
    assert draft.ignored == ("id", "user_id", "born", "seen", "name", "same", "none")
    assert draft.csv.missing[-1] == "?"
    assert set(notes) == {"label", "classes", "csv", "ignored", *(f"columns.{column.name}" for column in COLUMNS)}
    assert notes["columns.age"] == f"kind, bounds, scale and missing {REPLACE}"
    assert notes["columns.work"] == f"kind, categories and missing {REPLACE}"
    assert notes["classes"] == f"classes {REPLACE}"
    assert notes["csv"] == f"missing: ? {REPLACE}"
    for words in ("id: looks like identifiers", "name: holds too many different texts", "same: never varies"):
        assert words in notes["ignored"]
    assert "born: never varies" in notes["ignored"]
    assert "seen: never varies" in notes["ignored"]
    write_schema(tmp_path / "s.yaml", draft, notes)
    assert read_schema(tmp_path / "s.yaml") == draft
    written = (tmp_path / "s.yaml").read_text()
    assert written.count(REPLACE) == 2 + len(COLUMNS)
    assert written.startswith("# A draft made from private records: replace every marked value")
    records = load_table(source, replace(draft, reviewed=True))
    assert np.bincount(records.y).tolist() == [200, 200]
    assert np.isnan(records.X).sum(0).tolist() == [0, 0, 0, 0, 0, 100, 100]


TIMES = {
    "iso": (["2020-01-31", "2020-02-15"], {"kind": "date", "bounds": ("2020-01-01", "2020-02-29")}, ""),
    "european": (
        ["03/04/2026", "31/12/2028"],
        {"kind": "date", "bounds": ("2026-01-01", "2028-12-31"), "format": "%d/%m/%Y"},
        "",
    ),
    "ambiguous": (
        ["03/04/2026", "05/04/2026"],
        {"kind": "date", "bounds": ("2026-04-01", "2026-04-30"), "format": "%d/%m/%Y"},
        "03/04/2026 is 3 April with the format %d/%m/%Y, and 4 March with %m/%d/%Y: state the right one",
    ),
    "stamps": (
        ["2013-01-01T10:00:00Z", "2013-01-31T23:00:00Z"],
        {
            "kind": "datetime",
            "bounds": ("2013-01-01", "2013-01-31 23:00"),
            "zone": "UTC",
            "resolution": "hour",
        },
        "",
    ),
    "clocks": (
        ["09:30", "23:05"],
        {"kind": "duration", "bounds": (0, 1439), "resolution": "minute", "format": "%H:%M"},
        "the format %M:%S reads the records, too: state the right one",
    ),
    "digits of a clock": (
        [517.0, 2359.0],
        {"kind": "duration", "bounds": (0, 1439), "resolution": "minute", "format": "%H%M"},
        "",
    ),
    "eight digits": (
        [20130105, 20131231],
        {"kind": "date", "bounds": ("2013-01-01", "2013-12-31"), "format": "%Y%m%d"},
        "",
    ),
    "typed": (
        pd.to_datetime(["2020-01-31 09:30", "2020-02-15 10:00"]),
        {"kind": "datetime", "bounds": ("2020-01-01", "2020-02-29 23:59"), "resolution": "minute"},
        "",
    ),
    "typed days": (
        pd.to_datetime(["2020-01-31", None]),
        None,
        "",
    ),
    "lengths": (
        pd.to_timedelta(["1 days", "3 days"]),
        {"kind": "duration", "bounds": (0, 4), "resolution": "day"},
        "",
    ),
}


@pytest.mark.parametrize("name", TIMES)
def test_times(name):
    """The format is drafted, and both readings of an ambiguous one are named."""
    values, expected, note = TIMES[name]
    column = "clock_time" if "clock" in name else "when"
    frame = pd.DataFrame({column: np.repeat(np.array(values, object), 2), "x": range(4), "y": ["a", "b"] * 2})
    draft, notes = draft_schema(frame)
    if expected is None:
        assert notes["ignored"] == f"{column}: never varies"
        return
    assert draft.schema.columns[0] == Column(column, **expected)
    assert notes[f"columns.{column}"] == f"kind, bounds, format, resolution and missing {REPLACE}{note and f'; {note}'}"
    assert load_table(frame, replace(draft, reviewed=True)).X[:, 0].tolist() == sorted(
        load_table(frame, replace(draft, reviewed=True)).X[:, 0]
    )


def test_seconds_since_1970_are_drafted_by_name_and_size():
    values = [1357034400, 1357038000, 1390003260]
    draft, _ = draft_schema(pd.DataFrame({"seen_at": values, "cost": values, "y": ["a", "b", "b"]}))
    seen, cost = draft.schema.columns
    assert (seen.kind, seen.format, seen.resolution) == ("datetime", "epoch", "minute")
    assert cost.kind == "integer"


@pytest.mark.parametrize("values", [["08001", "20095", "99999"], ["08001", "20095", ""]])
def test_codes_with_leading_zeros_stay_texts(values):
    draft, _ = draft_schema(pd.DataFrame({"postcode": values, "x": [1, 2, 4], "y": ["a", "b", "b"]}))
    known = tuple(value for value in values if value)
    assert draft.schema.columns[0] == Column("postcode", "categorical", categories=known, missing="" in values)
    many = [f"{number:05d}" for number in range(1_000)]
    _, notes = draft_schema(pd.DataFrame({"postcode": many, "x": [1, 2, 4, 7] * 250, "y": ["a", "b"] * 500}), "y")
    assert "postcode: holds codes with leading zeros" in notes["ignored"]


def test_options_of_csv_files(tmp_path):
    (tmp_path / "t.csv").write_text("|about\nno;1.5;-9\nyes;2.5;3\nyes;0.5;4\n")
    draft, _ = draft_schema(tmp_path / "t.csv", "column1", CsvFormat(False, (), ";", ("-9",), "|"))
    columns = (
        Column("column2", "numeric", (0.0, 2.8)),
        Column("column3", "categorical", categories=("3", "4"), missing=True),
    )
    schema = TableSchema(columns, "column1", ("no", "yes"))
    names = ("column1", "column2", "column3")
    assert draft == TableFile(schema, False, CsvFormat(False, names, ";", ("-9",), "|"))
    assert load_table(tmp_path / "t.csv", replace(draft, reviewed=True)).y.tolist() == [0, 1, 1]
    named, _ = draft_schema(tmp_path / "t.csv", "y", CsvFormat(False, ("y", "a", "b"), ";", comment="|"))
    assert named.csv.names == ("y", "a", "b")
    assert named.schema.columns[1] == Column("b", "integer", (-12.0, 4.0))


def test_numbers_as_classes_are_in_order():
    draft, notes = draft_schema(pd.DataFrame({"y": [10.0, 9.0, 2.0, 2.0], "x": [1, 2, 3, 3]}), label="y")
    assert draft.schema.classes == ("2", "9", "10")
    assert "label" not in notes


def test_what_has_no_draft(tmp_path):
    with pytest.raises(DataError, match="lacks the column 'sex'"):
        draft_schema(FRAME, "sex")
    for label, count in (
        ("name", "more than 100"),
        ("same", "1"),
        ("none", "none"),
        ("born", "a column that holds dates or times"),
    ):
        with pytest.raises(
            DataError, match=f"Expected 2 to 100 classes in the label '{label}'; got {count}: name another"
        ):
            draft_schema(FRAME, label)
    with pytest.raises(DataError, match="Expected at least one column besides the label"):
        draft_schema(FRAME[["id", "ill"]])
    (tmp_path / "t.csv").write_text("sep=;\na;y\n1;0\n2;1\n")
    with pytest.raises(
        DataError, match=r"begins with Excel's line sep=, which has no column names: remove this line\.$"
    ):
        draft_schema(tmp_path / "t.csv", form=CsvFormat(separator=";"))


def test_check_counts_what_the_schema_does():
    columns = (
        Column("age", "integer", (20.0, 100.0)),
        Column("work", "categorical", categories=("field", "rest"), other="rest", missing=True),
        Column("flag", "categorical", categories=("0", "1")),
        Column("same", "numeric", (0.0, 1.0)),
    )
    schema = TableSchema(columns, "ill", ("no", "yes", "dead"))
    given = FRAME[["age", "work", "flag", "same", "ill"]].assign(ill=["no", "yes", "yes", "unknown"] * (N // 4))
    young = sum(age < 20 for age in FRAME["age"])
    assert young > 0
    assert check_table(given, TableFile(schema, True, CsvFormat(missing=("?",)))) == [
        "400 rows",
        "class 'no': 100 rows",
        "class 'yes': 100 rows",
        "class 'dead': 0 rows",
        f"column 'age': {young} values outside its bounds are clamped",
        "column 'work': 200 unknown values become 'rest'",
        "column 'work': 100 of 400 values are missing",
        "column 'flag': 100 values cannot be used, the first in row 3: the value is missing: declare `missing: true` "
        "if it may be",
        "column 'same': 400 values outside its bounds are clamped",
        "column 'same' never varies",
        "Warning: 200 of 400 rows have a value that cannot be used, 100 of them as their label, the first in row 3: "
        "distill refuses the table, or leaves these rows out with --lenient",
        "Warning: column 'ill': 100 of 400 values (25 %) match no class of the schema: state all classes, or their "
        "values",
        f"Warning: column 'age': {young} of 400 values ({young / 4:.3g} %) are clipped to the bounds: state wider "
        "bounds if they are public",
        "Warning: column 'work': 200 of 400 values (50 %) are counted as the category for others: state more "
        "categories if they are public",
        "Warning: column 'flag': 100 of 400 values (25 %) cannot be used, nor can their rows: correct the "
        "column's kind, bounds or categories",
        "Warning: column 'same': 400 of 400 values (100 %) are clipped to the bounds: state wider bounds if "
        "they are public",
    ]


@pytest.mark.parametrize(("outside", "warned"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_column_is_warned_of_from_one_percent(outside, warned):
    given = pd.DataFrame({"age": [500] * outside + [50] * (200 - outside), "ill": ["no", "yes"] * 100})
    stated = TableFile(TableSchema((Column("age", "integer", (0.0, 100.0)),), "ill", ("no", "yes")), True)
    found = [line for line in check_table(given, stated) if line.startswith("Warning")]
    cut = f"values ({outside / 2:g} %) are clipped to the bounds: state wider bounds if they are public"
    expected = f"Warning: column 'age': {outside} of 200 {cut}"
    assert found == ([expected] if warned else [])


def test_a_table_that_a_run_refuses_does_not_fit():
    given = pd.DataFrame({"age": [50] * 199 + [None], "ill": ["no", "yes"] * 100})
    stated = TableFile(TableSchema((Column("age", "integer", (0.0, 100.0)),), "ill", ("no", "yes")), True)
    with pytest.raises(DataError, match="row 200: the value is missing"):
        load_table(given, stated)
    assert check_table(given, stated)[-1] == (
        "Warning: 1 of 200 rows have a value that cannot be used, 0 of them as their label, the first in row 200: "
        "distill refuses the table, or leaves these rows out with --lenient"
    )
    assert check_table(given[:0], stated)[-1] == "Warning: there are no rows: distill refuses the table"


RECORDS = ("39,State-gov,2174,<=50K", "50,Private,0,>50K", "38,Private,12,<=50K", "41,State-gov,0,>50K")


def test_a_first_record_never_becomes_the_names_of_columns(tmp_path):
    """The names are public: they are in the schema, in the shared table and in the certificate."""
    path = tmp_path / "t.csv"
    for lines in (RECORDS, [line.split(",", 1)[1] for line in RECORDS], [line[3:] for line in RECORDS]):
        path.write_text("\n".join(lines) + "\n")
        with pytest.raises(
            DataError, match=r"The first line of .*t\.csv looks like a record, which would be published"
        ):
            draft_schema(path)
    stated = ("2019,2020,ill", "3,4,no", "5,6,yes", "3,9,no", "1,1,yes")
    path.write_text("\n".join(stated) + "\n")
    with pytest.raises(
        DataError, match=r"\(see columns 1, 2\): name all columns with --names age,job,..., or state by"
    ):
        draft_schema(path)
    assert [column.name for column in draft_schema(path, named=True)[0].schema.columns] == ["2019", "2020"]
    for names in ("0,1,2", "1,2,3"):  # as programs write columns that have no names
        path.write_text("\n".join([names, *stated[1:]]) + "\n")
        assert len(draft_schema(path)[0].schema.columns) == 2
    form = CsvFormat(False, ("age", "work", "gain", "income"))
    path.write_text("\n".join(RECORDS) + "\n")
    assert draft_schema(path, form=form)[0].schema.classes == ("<=50K", ">50K")


def test_a_mark_before_quoted_names_is_no_part_of_them(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('"age, years","work","ill"\n' + "".join(f"{i},a{i % 2},{i % 2}\n" for i in range(9)), "utf-8-sig")
    names = [column.name for column in draft_schema(path)[0].schema.columns]
    assert names == ["age, years", "work"]
    assert load_table(path, replace(draft_schema(path)[0], reviewed=True)).y.tolist() == [i % 2 for i in range(9)]


@pytest.mark.parametrize(("first", "at"), [(",age,ill", 1), ("age,,ill", 2), ("age,ill,", 3)])
def test_a_column_without_a_name_is_told(first, at, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"{first}\n" + "".join(f"{i},{i + 3},{i % 2}\n" for i in range(9)))
    with pytest.raises(
        DataError, match=rf"Column {at} of .*t\.csv has no name \(pandas and R write row names like this"
    ):
        draft_schema(path)


def test_rows_of_nobody_are_told():
    given = pd.DataFrame({"age": [50] * 4, "ill": ["no", "yes"] * 2, "pid": ["a", "", "b", "-1"]})
    schema = TableSchema((Column("age", "integer", (0.0, 100.0)),), "ill", ("no", "yes"))
    stated = TableFile(schema, True, unit_column="pid")
    with pytest.raises(DataError, match="row 2: the row has no unit"):
        load_table(given, stated)
    assert any(
        line.startswith(
            "Warning: 2 of 4 rows have a value that cannot be used, 0 of them as their label, 2 as their unit, the "
            "first in row 2: distill refuses the table"
        )
        for line in check_table(given, stated)
    )


def test_check_needs_the_columns():
    table_file = TableFile(TableSchema(COLUMNS[:1], "ill", ("no", "yes")), True)
    with pytest.raises(DataError, match="has a column 'id' that is not declared"):
        check_table(FRAME, table_file)
    dates = replace(table_file, schema=TableSchema((Column("born", "numeric", (0, 1)),), "ill", ("no", "yes")))
    with pytest.raises(DataError, match="The frame: column 'born' holds dates or times"):
        check_table(FRAME[["born", "ill"]], dates)


@pytest.mark.parametrize("label", ["b", None])
def test_fields_that_another_character_separates(tmp_path, label):
    (tmp_path / "t.csv").write_text("a;b\n1,5;0\n2,5;1\n")
    with pytest.raises(
        DataError, match="separated by ';', not by ','" if label else "got a single column: state the separator"
    ):
        draft_schema(tmp_path / "t.csv", label)


def draft_of(values, labels=("no", "yes")):
    """The column, or why it is left out, that a draft makes of values, and the classes that it makes of labels."""
    rows = [(v, i % 5 + 3, labels[i % len(labels)]) for i, v in enumerate(values)]
    drafted, notes = draft_schema(pd.DataFrame(rows, columns=["a", "b", "y"]).astype({"a": object}))
    column = {c.name: c for c in drafted.schema.columns}.get("a")
    return column or notes["ignored"], drafted


TRUTH = {
    "truth values": ([True, False, True, None], ("false", "true")),
    "texts": (["True", "False", "True"], ("False", "True")),
    "texts in small letters": (["true", "false", ""], ("false", "true")),
    "numbers": ([1, 0, 1.0], ("0", "1")),
    "both": ([True, 0, "False"], ("0", "1")),
}


@pytest.mark.parametrize("name", TRUTH)
def test_truth_values_are_spelled_as_in_the_data(name):
    values, expected = TRUTH[name]
    column, drafted = draft_of(values * 4)
    assert column.categories == expected
    assert column.missing == (None in values or "" in values)
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object), "b": 3, "y": "no"})
    found = load_table(frame, replace(drafted, reviewed=True)).X[:, 0]
    assert np.nan_to_num(found, nan=-1).tolist() == [
        -1 if v in (None, "") else float(str(v).lower() in ("true", "1", "1.0")) for v in values
    ]


def test_classes_that_are_truth_values_keep_their_spelling():
    assert draft_of(["a", "b"] * 4, [True, False])[1].schema.classes == ("false", "true")
    assert draft_of(["a", "b"] * 4, ["True", "False"])[1].schema.classes == ("False", "True")


def test_a_minus_beside_a_plus_is_no_missing_value():
    why, drafted = draft_of(["+", "-", "+", "-"] * 3)
    assert why.startswith("a: holds texts that are no valid categories, such as texts that begin with +, -, = or @")
    assert "-" not in drafted.csv.missing
    column, drafted = draft_of(["x", "-", "y", "-"] * 3)
    assert (column.categories, column.missing, drafted.csv.missing[-1]) == (("x", "y"), True, "-")


def test_numbers_that_no_bounds_can_hold_are_left_out(tmp_path):
    found, drafted = draft_of([0.5, 1e300, 2, 3] * 3)
    assert found == "a: holds numbers beyond 1e+30"
    write_schema(tmp_path / "s.yaml", drafted)
    assert read_schema(tmp_path / "s.yaml") == drafted
    column, _ = draft_of([2**63, 5, 2**60, 1] * 3)  # beyond 2^53 whole numbers are not exact
    assert (column.kind, column.bounds) == ("numeric", (0.0, 1e19))


def test_a_draft_without_columns_says_why_each_is_left_out():
    frame = FRAME[["id", "same", "ill"]]
    with pytest.raises(
        DataError,
        match=r"besides the label in The frame; all are left out \(id: looks like identifiers; same: never varies\)\.",
    ):
        draft_schema(frame)
