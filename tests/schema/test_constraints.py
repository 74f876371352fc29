"""Constraints: no synthetic row breaks one, also beside others; contradictions are refused before anything is read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpdistill.folder.tables import to_frame
from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.schema.constraints import Combination
from dpdistill.sources.tables.drafts import check_table
from dpdistill.sources.tables.schema_file import TableFile, read_schema, write_schema

N = 100_000
DAYS: Any = ("2020-01-01", "2020-12-31")
COLUMNS = (
    Column("admitted", "date", DAYS),
    Column("left", "date", ("2020-01-01", "2021-06-30"), missing=True),  # type: ignore[arg-type]
    Column("seen", "datetime", DAYS, resolution="minute"),
    Column("drugs", "numeric", (0, 100), places=2),
    Column("ward_cost", "numeric", (0, 100), step=0.25),
    Column("total", "numeric", (0, 200), places=2),
    Column("sex", "categorical", categories=("female", "male")),
    Column("pregnant", "categorical", categories=("no", "yes"), missing=True),
    Column("state", "categorical", categories=("Bavaria", "Hesse", "Bremen")),
    Column("city", "categorical", categories=("Munich", "Nuremberg", "Kassel", "Frankfurt")),
    Column("stage", "ordinal", categories=("I", "II", "III")),
    Column("children", "integer", (0, 9), missing=True),
)
CONSTRAINTS = (
    "seen <= left",  # a date ends with its day
    "admitted <= seen",
    "total = drugs + ward_cost",
    "sex = male implies pregnant = no and children is missing",
    "stage >= II and not sex = male implies drugs >= 10.5 and children <= 3",
)
CITIES = Combination(
    ("state", "city"), (("Bavaria", "Munich"), ("Bavaria", "Nuremberg"), ("Hesse", "Kassel"), ("Hesse", "Frankfurt"))
)
SCHEMA = TableSchema(COLUMNS, "ill", ("no", "yes"), constraints=CONSTRAINTS, combinations=(CITIES,))


def test_no_row_breaks_a_constraint():
    """100,000 rows, checked by pandas on what users get."""
    U = np.random.default_rng(0).uniform(-1, 1, (N, SCHEMA.dimension)).astype(np.float32)
    frame = to_frame(SCHEMA.from_unit(U), np.zeros(N, int), SCHEMA)
    left, seen = frame["left"], frame["seen"]
    assert 0.2 < left.isna().mean() < 0.8
    assert (frame["admitted"] <= seen).all()
    assert (left.isna() | (seen < left + pd.Timedelta(days=1))).all()
    assert (seen > left).any()  # on the last day
    assert (np.rint(100 * (frame["drugs"] + frame["ward_cost"])) == np.rint(100 * frame["total"])).all()
    male = frame["sex"] == "male"
    assert set(frame.loc[male, "pregnant"].dropna()) == {"no"}
    assert 0.1 < frame.loc[male, "pregnant"].isna().mean() < 0.9
    assert frame.loc[male, "children"].isna().all()
    later = frame.loc[~male & frame["stage"].isin(["II", "III"])]
    assert (later["drugs"] >= 10.5).all()
    assert (later["children"].dropna() <= 3).all()
    pairs = {*zip(frame["state"], frame["city"], strict=True)}
    assert pairs == {*CITIES.rows}
    assert frame["city"].value_counts(normalize=True).min() > 0.1


def test_rows_that_obey_stay_as_they_are():
    plain = replace(SCHEMA, constraints=(), combinations=())
    U = np.random.default_rng(1).uniform(-1, 1, (5_000, SCHEMA.dimension)).astype(np.float32)
    before, after = plain.from_unit(U), SCHEMA.from_unit(U)
    assert SCHEMA.rules is not None
    obey = np.all([rule.holds(before) for rule in SCHEMA.rules.all], axis=0)
    np.testing.assert_array_equal(before[obey], after[obey])
    np.testing.assert_array_equal(SCHEMA.rules.obey(after), after)


def test_files_hold_the_constraints(tmp_path):
    assert TableSchema.from_json(json.loads(json.dumps(SCHEMA.to_json()))) == SCHEMA
    write_schema(tmp_path / "s.yaml", TableFile(SCHEMA, reviewed=True))
    assert read_schema(tmp_path / "s.yaml").schema == SCHEMA


def test_a_check_counts_real_rows_that_break_a_constraint():
    columns = (Column("a", "integer", (0, 9)), Column("b", "integer", (0, 9), missing=True))
    schema = TableSchema(columns, "y", ("u", "v"), constraints=("a <= b", "a = 3 implies b >= 5"))
    frame = pd.DataFrame({"a": [1, 2, 3, 3], "b": [2, 1, None, 4], "y": list("uvuv")})
    lines = check_table(frame, TableFile(schema, reviewed=True))
    assert "constraint 'a <= b': 1 of 4 rows break it" in lines
    assert "constraint 'a = 3 implies b >= 5': 1 of 4 rows break it" in lines
    assert "Warning: constraint 'a <= b': 1 of 4 rows (25 %) break it: synthetic rows never do" in lines


A, B, C = (Column(name, "integer", (0.0, 10.0)) for name in "abc")
HALF = Column("h", "numeric", (0.0, 30.0))
DAY, NOON = Column("d", "date", DAYS), Column("t", "datetime", DAYS, zone="UTC")
WARD = Column("w", "categorical", categories=("A", "B"))


@pytest.mark.parametrize(
    ("columns", "constraints", "message"),
    [
        ((A, B), ("a < b", "b < a"), "none of 512 rows obeys 'b < a' and those before it"),
        ((A, replace(B, bounds=(20.0, 30.0))), ("b <= a",), "none of 512 rows obeys 'b <= a'"),
        (
            (A, B),
            ("a >= 3 implies b = 7 and b = 8", "a >= 3 or a < 3 implies a = 4"),
            "none of 512 rows obeys 'a >= 3 or",
        ),
        (
            (A, B),
            ("a is missing implies a is not missing", "a = 3 implies a is missing", "b < 9 or b >= 9 implies a = 3"),
            "none of",
        ),
        ((A, B), ("a <= c",), "with names of columns; got 'a <= c'."),
        ((A, B), ("y <= a",), "Expected a constraint on columns, not on the label 'y'; got 'y <= a'."),
        ((A, B), ("a = 3 implies y = u",), "not on the label 'y'"),
        ((A, B), ("a >= 5",), "Expected a constraint such as left <= right, total = a + b, or: condition implies"),
        ((A, WARD), ("a <= w",), "Expected two numbers, two durations, or two dates or datetimes"),
        ((A, DAY), ("a <= d",), "Expected two numbers, two durations, or two dates or datetimes"),
        ((DAY, NOON), ("d <= t",), "with or without a zone in 'd <= t'."),
        ((A, B), ("a <= a",), "Expected two numbers"),
        ((A, B, C), ("a = b + c",), "Expected bounds of 'a' that hold every sum of 'a = b + c', from 0 to 20."),
        ((A, B, HALF), ("h = a + a",), "Expected different columns of numbers"),
        ((A, DAY, HALF), ("h = a + d",), "Expected different columns of numbers, or of times with one resolution"),
        ((replace(A, bounds=(0.0, 50.0)), HALF, B), ("a = h + b",), "whose steps and places are multiples"),
        ((A, WARD), ("w = C implies a = 3",), "Expected a category of 'w' in the condition; got 'C'."),
        ((A, WARD), ("a = 3 implies w = A or w = B",), "Expected comparisons joined by and after implies; got"),
    ],
)
def test_contradictions_are_refused(columns, constraints, message):
    with pytest.raises(DataError) as caught:
        TableSchema(columns, "y", ("u", "v"), constraints=constraints)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("combination", "message"),
    [
        (Combination(("w",), (("A",),)), "Expected two or more different columns of categories in a combination"),
        (Combination(("w", "a"), (("A", "1"),)), "Expected two or more different columns of categories"),
        (Combination(("w", "v"), ()), "Expected at least one combination of 'w, v'."),
        (Combination(("w", "v"), (("A",),)), "Expected 2 categories in each combination of 'w, v'; got ('A',)."),
        (Combination(("w", "v"), (("A", "D"),)), "Expected categories of 'v' in its combinations; got 'D'."),
    ],
)
def test_combinations_that_cannot_be(combination, message):
    with pytest.raises(DataError) as caught:
        TableSchema((A, WARD, replace(WARD, name="v")), "y", ("u", "v"), combinations=(combination,))
    assert message in str(caught.value)


def test_dates_and_lengths_add_up():
    columns = (
        DAY,
        Column("stay", "duration", (0, 30), resolution="day"),
        replace(DAY, name="out", bounds=(18_262, 18_700)),
    )
    schema = TableSchema(columns, "y", ("u", "v"), constraints=("out = d + stay",))
    X = schema.from_unit(np.random.default_rng(0).uniform(-1, 1, (1_000, 3)).astype(np.float32))
    np.testing.assert_array_equal(X[:, 2], X[:, 0] + X[:, 1])


NAMES = ("a", "b", "c", "h", "w", "v")
MIXED = (
    A,
    replace(B, missing=True),
    replace(C, step=5.0),
    replace(HALF, missing=True),
    WARD,
    replace(WARD, name="v", missing=True),
)
TERMS = st.one_of(
    st.tuples(st.sampled_from("abch"), st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), st.integers(-1, 11)),
    st.tuples(st.sampled_from("wv"), st.sampled_from(["=", "!="]), st.sampled_from("AB")),
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["is missing", "is not missing", "in (1, 0)"]), st.just("")),
).map(lambda parts: " ".join(map(str, parts)))
TEXTS = st.one_of(
    st.tuples(st.sampled_from("abch"), st.sampled_from(["<=", "<", ">", ">="]), st.sampled_from("abch")).map(" ".join),
    st.sampled_from(["h = a + b", "h = a + c - b", "h = a + b + c"]),
    st.tuples(TERMS, st.sampled_from(["and", "or"]), TERMS, TERMS).map(
        lambda t: f"{t[0]} {t[1]} {t[2]} implies {t[3]}"
    ),
)
PAIRS = st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("AB")), min_size=1, max_size=3).map(tuple)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(TEXTS, min_size=1, max_size=5), st.none() | PAIRS, st.integers(0, 99))
def test_whatever_is_accepted_is_obeyed(texts, pairs, seed):
    """Chains, circles and constraints that move one column in two directions are refused, or obeyed by all rows."""
    combinations = () if pairs is None else (Combination(("w", "v"), pairs),)
    try:
        schema = TableSchema(MIXED, "y", ("u", "v"), constraints=tuple(texts), combinations=combinations)
    except DataError:
        assume(False)
        return
    X = schema.from_unit(np.random.default_rng(seed).uniform(-1, 1, (500, schema.dimension)).astype(np.float32))
    assert schema.rules is not None
    for rule in schema.rules.all:
        assert rule.holds(X).all(), rule.text
    for i, column in enumerate(MIXED):
        known = X[~np.isnan(X[:, i]), i]
        assert column.missing or len(known) == len(X)
        assert not column.is_number or (column.snap(known) == known).all()
