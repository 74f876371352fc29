"""Conditions on rows: values by hand, and every refusal."""

from __future__ import annotations

import numpy as np
import pytest

from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.schema.condition import MOST_DEPTH, parse_condition, rows_of

NAN = float("nan")
SCHEMA = TableSchema(
    (
        Column("age", "integer", (0, 110)),
        Column("my ward", "categorical", categories=("A", "B", "1.0"), missing=True),
        Column("stage", "ordinal", categories=("I", "II", "III")),
        Column("cost", "numeric", (0, 10), missing=True),
        Column("seen", "datetime", ("2020-01-01", "2020-12-31"), resolution="hour"),  # type: ignore[arg-type]
    ),
    "outcome",
    ("lived", "died"),
)
NEW_YEAR = 18_262 * 24.0
X = np.array(
    [
        [70, 1, 0, NAN, NEW_YEAR],
        [60, 0, 1, 2.5, NEW_YEAR + 10],
        [10, NAN, 2, 0.0, NEW_YEAR + 24],
        [61, 2, 1, 9, NEW_YEAR],
    ]
)
Y = np.array([0, 1, 1, 0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age > 60", [0, 3]),
        ("age>=60 and 'my ward'=B", [0]),
        ('age >= 60 AND "my ward" = A or age < 11', [1, 2]),
        ("age < 11 or age >= 60 and 'my ward' = A", [1, 2]),
        ("(age < 11 or age >= 60) and not 'my ward' in (A, B)", [2, 3]),
        ("'my ward' != A", [0, 3]),
        ("'my ward' = 1", [3]),
        ("'my ward' is missing", [2]),
        ("cost is not missing and cost <= 2.5e0", [1, 2]),
        ("not cost > 1", [0, 2]),
        ("stage >= II", [1, 2, 3]),
        ("stage == I", [0]),
        ("seen > 2020-01-01", [1, 2]),
        ("seen > '2020-01-01 10:00'", [2]),
        ("outcome = died and age != 10", [1]),
        ("outcome in (lived, died)", [0, 1, 2, 3]),
    ],
)
def test_rows_that_fulfil_a_condition(text, expected):
    assert np.flatnonzero(parse_condition(text, SCHEMA).holds(rows_of(X, Y))).tolist() == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expected the name of a column in the condition; got its end."),
        ("age", "Expected = or == or != or < or <= or > or >= or in or is in the condition; got its end."),
        ("age > ", "Expected a value of 'age' in the condition; got its end."),
        ("age > old", "Expected a number to compare 'age' with; got 'old'."),
        ("age > 60 ward = B", "Expected and, or, or the end of the condition; got 'ward'."),
        ("ward = B", "Expected a column of the table in the condition (age, my ward, stage, cost, seen); got 'ward'."),
        ("'my ward' = C", "Expected a category of 'my ward' in the condition; got 'C'."),
        ("'my ward' < B", "Expected = or != for 'my ward', whose categories have no order; got <."),
        ("outcome > died", "Expected = or != for 'outcome'"),
        ("(age > 60", "Expected ) in the condition; got its end."),
        ("age in 60", "Expected ( in the condition; got '60'."),
        ("age in (60 70)", "Expected , or ) in the condition; got '70'."),
        ("age is 3", "Expected is missing, or is not missing, in the condition."),
        ("seen > 1.1.2020", "as texts such as 2020-01-31 or 2020-01-31 09:30; got '1.1.2020'."),
        ("age > 'open", 'cannot read "\'open".'),
        ("age > 60; import os", "Expected a number to compare 'age' with; got '60;'."),
        ("not " * (MOST_DEPTH + 2) + "age > 60", f"Expected at most {MOST_DEPTH} brackets"),
        ("(" * 500 + "age > 60", f"Expected at most {MOST_DEPTH} brackets"),
        ("age > 60 and " * 900, "cannot read"),
    ],
)
def test_texts_that_are_no_condition(text, message):
    with pytest.raises(DataError) as caught:
        parse_condition(text, SCHEMA)
    assert message in str(caught.value)
