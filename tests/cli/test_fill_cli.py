"""Empty cells of a partner's rows are filled from the synthetic rows of a folder that are most like them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from run_command import refused, succeeds

import dpdistill as dp
from dpdistill.folder.save import write_distilled
from dpdistill.method import Distilled
from dpdistill.schema import Column, DataError, TableSchema

SCHEMA = TableSchema(
    (
        Column("ward", "categorical", categories=("A", "B", "C")),
        Column("age", "integer", bounds=(0, 110)),
        Column("first", "numeric", bounds=(0, 100)),
        Column("last", "numeric", bounds=(0, 100), missing=True),
    ),
    label="ill",
    classes=("no", "yes"),
    labels=(("0", "never"), ("1",)),
    constraints=("first <= last",),
)
N = 90


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A folder: wards A, B, C have ages in the twenties, fifties and eighties, and only C is ill."""
    rng, ward = np.random.default_rng(0), np.arange(N) % 3
    first = rng.integers(0, 50, N)
    last = np.where(ward == 1, np.nan, first + rng.integers(0, 50, N))
    X = np.column_stack([ward, 20 + 30 * ward + rng.integers(0, 10, N), first, last])
    folder = tmp_path_factory.mktemp("fill") / "shared"
    write_distilled(folder, Distilled(SCHEMA.to_unit(X), (ward == 2).astype(np.int64), SCHEMA))
    return folder


def incomplete():
    return pd.DataFrame(
        {
            "ward": ["A", None, "C", "B", None, "A"],
            "age": [None, 81, None, 55, None, 27],
            "first": [10, 20, 30, None, None, 95],
            "last": [60, 70, None, None, None, None],
            "ill": [None, None, "1", "never", None, "0"],
        }
    )


def test_cells_come_from_rows_that_are_alike(shared):
    found = dp.fill(shared, incomplete(), seed=3)
    ward, age, first, last = found.X.T
    assert (found.cells, found.donors, len(found.y)) == (14, N, 6)
    np.testing.assert_array_equal(ward[[0, 1, 2, 3, 5]], [0, 2, 2, 1, 0])
    np.testing.assert_array_equal(found.y[[0, 1, 2, 3, 5]], [0, 1, 1, 0, 0])
    assert 20 <= age[0] < 30
    assert 80 <= age[2] < 90
    np.testing.assert_array_equal(age[[1, 3, 5]], [81, 55, 27])
    np.testing.assert_array_equal(first[[0, 1, 2, 5]], [10, 20, 30, 95])
    np.testing.assert_array_equal(last[[0, 1]], [60, 70])
    assert not np.isnan(found.X[[0, 1, 2, 4, 5]]).any()


def test_constraints_hold_where_a_synthetic_row_fits(shared):
    found = dp.fill(shared, incomplete(), seed=3)
    holds = np.isnan(found.X[:, 3]) | (found.X[:, 2] <= found.X[:, 3])
    assert holds[:5].all()
    assert found.broken == (~holds).sum() <= 1  # a first of 95 is above most values of last


def test_a_row_without_a_known_cell_is_a_synthetic_row(shared):
    rows = pd.DataFrame({name: [None] * 300 for name in SCHEMA.names})
    found = dp.fill(shared, rows)
    assert found.cells == 300 * 5
    ages = 20 + 30 * found.X[:, 0]
    assert ((ages <= found.X[:, 1]) & (found.X[:, 1] < ages + 10)).all()
    np.testing.assert_array_equal(found.y, found.X[:, 0] == 2)
    assert {0, 2} <= {*found.X[:, 0]}


def test_a_seed_gives_the_same_cells_and_complete_rows_stay(shared):
    first, again, other = (dp.fill(shared, incomplete(), seed=seed).X for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    whole = incomplete().iloc[[0]].assign(age=33, ill="1")
    found = dp.fill(shared, whole)
    np.testing.assert_array_equal(found.X, [[0, 33, 10, 60]])
    assert (found.cells, found.y.tolist()) == (0, [1])


def test_the_command_writes_the_file(shared, tmp_path):
    incomplete().to_csv(tmp_path / "in.csv", index=False)
    said = succeeds("fill", shared, tmp_path / "in.csv", "--out", tmp_path / "out.csv")
    assert "14 empty cells of 6 rows filled, at no further epsilon." in said
    frame = pd.read_csv(tmp_path / "out.csv")
    assert [*frame] == [*SCHEMA.names]
    assert frame["ill"].tolist()[:3] == ["no", "yes", "yes"]
    given = json.loads(succeeds("fill", shared, tmp_path / "in.csv", "--out", tmp_path / "o.parquet", "--json"))
    assert (given["rows"], given["cells"], given["donors"]) == (6, 14, N)
    frame = dp.fill(shared, incomplete()).to_frame()
    assert frame["age"].dtype == np.int64


@pytest.mark.parametrize(
    ("rows", "out", "said"),
    [
        ("in.csv", "out.txt", "Expected --out as a .csv, .parquet, .feather or .arrow file"),
        ("in.csv", "in.csv", "in.csv exists: choose another file with --out."),
        ("no.csv", "out.csv", "no.csv"),
        ("odd.csv", "out.csv", "column 'ward', row 1: 'Z' is not one of its 3 categories"),
        ("few.csv", "out.csv", "few.csv lacks the column 'ill'."),
    ],
)
def test_what_cannot_be_filled_is_refused(shared, tmp_path, rows, out, said):
    incomplete().to_csv(tmp_path / "in.csv", index=False)
    incomplete().assign(ward="Z").to_csv(tmp_path / "odd.csv", index=False)
    incomplete().drop(columns="ill").to_csv(tmp_path / "few.csv", index=False)
    assert said in refused("fill", shared, tmp_path / rows, "--out", tmp_path / out)


def test_odd_seeds_are_refused(shared):
    with pytest.raises(DataError, match="Expected seed=-1"):
        dp.fill(shared, incomplete(), seed=-1)
