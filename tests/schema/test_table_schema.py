"""Rows of a table and what they are encoded as: by hand, there and back, and at the bounds."""

import json
import re

import numpy as np
import pytest
from contract.float32 import assert_close_float32

from dpdistill.schema import Column, DataError, TableSchema, schema_from_json

SCHEMA = TableSchema(
    (
        Column("age", "integer", (0.0, 100.0)),
        Column("gain", "numeric", (0.0, 99999.0), "log", missing=True),
        Column("volt", "numeric", (-7.0, 63.0), "log"),
        Column("job", "categorical", categories=("a", "b", "other"), other="other", missing=True),
        Column("size", "ordinal", categories=("S", "M", "L")),
        Column("sex", "categorical", categories=("f", "m")),
    ),
    "income",
    ("low", "high"),
)
NAN = np.nan


def test_by_hand():
    rows = np.array(
        [
            [30, 9, 0, 1, 0, 0],
            [200, NAN, 63, NAN, 2, 1],
            [-3, 1e30, -7, 0, 1, 0],
            [50, 99, -1e9, 2, 1, 1],
        ]
    )
    log = np.log(10) / np.log(100000)  # log(1 + 9) / log(1 + 99999)
    expected = [
        [-0.4, 2 * log - 1, 0, -0.2, 0, 1, 0, 0, -1, 1, 0],
        [1, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1],
        [-1, 1, 0, -1, 1, 0, 0, 0, 0, 1, 0],
        [0, 4 * log - 1, 0, -1, 0, 0, 1, 0, 0, 0, 1],
    ]
    # volt: -log 8 .. log 64 are the ends, so that 0 lies at a third: 2 / 3 - 1
    expected[0][3] = 2 / 3 - 1
    assert_close_float32(SCHEMA.to_unit(rows), expected, terms=6)
    assert (SCHEMA.shape, SCHEMA.raw_shape, SCHEMA.offsets) == ((11,), (6,), (0, 1, 3, 4, 8, 9))


def test_there_and_back():
    encoded = np.random.default_rng(0).normal(size=(2000, 11))
    rows = SCHEMA.from_unit(encoded)
    np.testing.assert_allclose(SCHEMA.from_unit(SCHEMA.to_unit(rows)), rows, rtol=2e-5, atol=2e-5)
    assert 0.2 < np.isnan(rows[:, 1]).mean() < 0.4
    assert set(np.unique(rows[:, 0])) <= set(range(101))
    assert (rows[:, 2].min(), rows[:, 2].max()) == (-7.0, 63.0)
    assert [np.unique(rows[:, k][~np.isnan(rows[:, k])]).tolist() for k in (3, 4, 5)] == [[0, 1, 2], [0, 1, 2], [0, 1]]


def test_what_may_not_be_missing_is_not_a_number():
    row = np.array([[30, 9, 0, 1, 0, 0]], float)
    for column, missing in enumerate([False, True, False, True, False, False]):
        gap = row.copy()
        gap[0, column] = NAN
        assert np.isnan(SCHEMA.to_unit(gap)).any() == (not missing)


def test_whole_numbers_stay_within_fractional_bounds():
    schema = TableSchema((Column("n", "integer", (0.5, 3.5)),), "y", ("a", "b"))
    assert schema.from_unit(np.array([[-1.0], [1.0], [0.2]])).ravel().tolist() == [1.0, 3.0, 2.0]


def test_json():
    assert schema_from_json(json.loads(json.dumps(SCHEMA.to_json()))) == SCHEMA
    assert hash(SCHEMA) == hash(schema_from_json(SCHEMA.to_json()))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Column("x", "text"),
            "Expected kind of column 'x' among numeric, integer, date, datetime, duration, ordinal, categorical",
        ),
        (
            lambda: Column("x", "numeric"),
            "Expected bounds low < high of column 'x', both finite; got None",
        ),
        (lambda: Column("x", "numeric", (1.0, 1.0)), "Expected bounds low < high"),
        (lambda: Column("x", "numeric", (0.0, np.inf)), "both finite"),
        (lambda: Column("x", "numeric", (0.0, 1.0), "cubic"), "Expected scale of column 'x' among linear, log"),
        (lambda: Column("x", "integer", (0.0, 1.0), categories=("a", "b")), "Expected no categories of column 'x'"),
        (lambda: Column("x", "ordinal", (0.0, 1.0), categories=("a", "b")), "Expected no bounds and no scale"),
        (lambda: Column("x", "categorical", categories=("a",)), "Expected at least 2 distinct categories"),
        (lambda: Column("x", "categorical", categories=("a", "a")), "Expected at least 2 distinct categories"),
        (lambda: Column("x", "categorical", categories=("a", "b"), other="c"), "Expected other='c' of column 'x'"),
        (lambda: TableSchema((), "y", ("a", "b")), "Expected at least one column besides the label"),
        (lambda: TableSchema(SCHEMA.columns, "age", ("a", "b")), "'age' is named twice"),
        (lambda: TableSchema(SCHEMA.columns, "y", ("a",)), "Expected at least 2 distinct classes of 'y'"),
        (lambda: TableSchema(SCHEMA.columns, "y", ("a", "b"), (("1",), ("1",))), "Expected distinct values of 'y'"),
    ],
)
def test_facts_that_contradict_each_other(make, message):
    with pytest.raises(DataError) as error:
        make()
    assert message in str(error.value)


FORMULAS = ["=cmd|'/c calc'!A0", "+1+cmd", "-2+3", "@SUM(A1)", "-", "+x"]


@pytest.mark.parametrize("text", FORMULAS)
def test_what_a_spreadsheet_may_run_is_refused(text):
    sentence = (
        f"as a number, or without {re.escape(text[0])} at its beginning, where a spreadsheet takes it for a formula"
    )
    age = Column("age", "integer", (0.0, 1.0))
    with pytest.raises(
        DataError, match=f"Expected each category of column 'work' {sentence}; got {re.escape(repr(text))}"
    ):
        Column("work", "categorical", categories=("office", text))
    with pytest.raises(DataError, match=f"Expected the name of a column {sentence}"):
        Column(text, "integer", (0.0, 1.0))
    with pytest.raises(DataError, match=f"Expected the name of the label {sentence}"):
        TableSchema((age,), text, ("no", "yes"))
    with pytest.raises(DataError, match=f"Expected each class {sentence}"):
        TableSchema((age,), "ill", ("no", text))
    # In the records a class may be called anything: what is written is its name.
    assert TableSchema((age,), "ill", ("no", "yes"), (("no",), (text,))).label_values[1] == (text,)


@pytest.mark.parametrize("text", ["-1", "+1", "-0.5", "-1e-9", "-inf", "<=50K", "a=b", "'=1"])
def test_numbers_and_signs_inside_are_let_through(text):
    assert Column("work", "categorical", categories=("office", text)).categories[1] == text


@pytest.mark.parametrize("text", ["\t=1", "\r=1", "\n=1", " =1"])
def test_no_formula_hides_behind_a_space(text):
    with pytest.raises(DataError, match="without spaces around it"):
        Column("work", "categorical", categories=("office", text))
    with pytest.raises(DataError, match="without spaces around it"):
        TableSchema((Column("age", "integer", (0.0, 1.0)),), "ill", ("no", text))


EXACT = TableSchema(
    (
        Column("day", "integer", (20_200_101, 20_241_231)),
        Column("second", "integer", (1_700_000_000, 1_701_000_000)),
        Column("cost", "numeric", (0, 99_999_999.99)),
        Column("least", "numeric", (0, 5e-324)),
        Column("most", "numeric", (-1e30, 1.0), "log"),
        Column("id", "integer", (-(2**53), 2**53)),
        Column("fine", "numeric", (1e9, 1e9 + 1e-3)),
    ),
    "y",
    ("a", "b"),
)


LONG = tuple(f"{'é' * 100}{k}" for k in range(8000))


def test_both_bounds_are_reached_exactly_and_none_is_left():
    ends = EXACT.from_unit(np.array([[-1.0], [1.0], [-1e30], [1e30]], np.float32).repeat(7, 1))
    low, high = ([column.bounds[k] for column in EXACT.columns] for k in (0, 1))
    assert ends.tolist() == [low, high, low, high]
    between = EXACT.from_unit(np.linspace(-1, 1, 1001, dtype=np.float32)[:, None].repeat(7, 1))
    assert ((between >= low) & (between <= high)).all()


def test_every_whole_number_of_a_wide_column_comes_back():
    days = np.arange(20_200_101, 20_241_232)
    seconds = 1_700_000_000 + np.random.default_rng(0).integers(0, 1_000_001, len(days))
    rows = np.zeros((len(days), 7)) + [column.bounds[0] for column in EXACT.columns]
    rows[:, 0], rows[:, 1] = days, seconds
    back = EXACT.from_unit(EXACT.to_unit(rows))
    np.testing.assert_array_equal(back[:, :2], np.stack([days, seconds], 1))


def test_numbers_have_the_digits_that_their_encoding_holds():
    columns = (
        Column("x", "numeric", (0.0, 100.0)),
        Column("y", "numeric", (0.0, 1e12)),
        Column("z", "numeric", (0.0, 1e6), "log"),
    )
    schema = TableSchema(columns, "l", ("a", "b"))
    rows = schema.from_unit(np.array([[1 / 3] * 3, [-0.99] * 3], np.float32))
    assert rows.tolist() == [[66.666667, 666666670000.0, 9999.007], [0.5, 5000000000.0, 0.0715192]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Column("x", "integer", (0.0, 2.0**63)),
            r"from -2^53 to 2^53 of integer column 'x'; got 0.0 and 9.22337",
        ),
        (
            lambda: Column("x", "integer", (-1e20, 1.0)),
            "larger whole numbers are not exact. Declare the column numeric",
        ),
        (
            lambda: Column("x", "numeric", (0.0, 1e300)),
            "Expected bounds from -1e30 to 1e30 of column 'x'; got 0.0 and 1e+300",
        ),
        (
            lambda: Column("x", "integer", (0.2, 0.8)),
            "Expected at least two whole numbers between the bounds of integer",
        ),
        (lambda: Column("x", "integer", (0.5, 1.5)), "column 'x'; got 0.5 and 1.5: state whole numbers as bounds"),
        (
            lambda: Column("x", "categorical", categories=("a", "\ud800")),
            "each category of column 'x' without the character U+D800",
        ),
        (lambda: Column("x\0y", "integer", (0.0, 1.0)), "the name of a column without the character U+0000"),
        (
            lambda: Column("\ufeffx", "integer", (0.0, 1.0)),
            "without the character U+FEFF, which some file formats cannot",
        ),
        (lambda: Column("__index_level_0__", "integer", (0.0, 1.0)), "which names an index in Parquet files"),
        (lambda: TableSchema(SCHEMA.columns, "__index_level_1__", ("a", "b")), "which names an index in Parquet files"),
        (
            lambda: TableSchema(SCHEMA.columns, "y\x1b", ("a", "b")),
            "the name of the label without the character U+001B",
        ),
        (
            lambda: TableSchema(SCHEMA.columns, "y", ("a", "b\nc")),
            "Expected class names of printable characters; got 'b\\nc'",
        ),
        (
            lambda: TableSchema(SCHEMA.columns, "y", ("a", "b"), unit="\udcff"),
            "Expected unit without the character U+DCFF",
        ),
        (
            lambda: TableSchema(SCHEMA.columns, "y", ("a", "b"), (("0",), ("\udcff",))),
            "Expected each value of 'y' without the character U+DCFF",
        ),
        (
            lambda: TableSchema((Column("x", "ordinal", categories=LONG),), "y", ("a", "b")),
            "Expected a schema of at most 4,194,304 characters as JSON; got ",
        ),
    ],
)
def test_what_a_synthetic_table_cannot_be_written_with_is_refused(make, message):
    with pytest.raises(DataError) as error:
        make()
    assert message in str(error.value)
