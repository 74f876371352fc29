"""Errors of counts of one, two and three columns."""

import math

import numpy as np
import pytest

from dpdistill import Column, TableSchema
from dpdistill.audits.marginals import compare_marginals
from dpdistill.evaluation.workload import ALL_CELLS, MOST_CELLS, WorkloadCounts, score_counts, workload
from dpdistill.method import Distilled
from dpdistill.schema import DataError
from dpdistill.storage.records import Records

LETTERS = TableSchema(
    (Column("a", "categorical", categories=("x", "y")), Column("b", "categorical", categories=("x", "y"))),
    "c",
    ("no", "yes"),
)


def test_errors_by_hand():
    real = np.array([[0, 0, 0], [1, 1, 1]])
    made = np.array([[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 0]])
    one, other = WorkloadCounts([2, 2, 2]), WorkloadCounts([2, 2, 2])
    for row in real:  # in chunks
        one.add(row[None])
    other.add(made)
    found = other.errors(one, ("a", "b", "c"))
    # b: 1/2 against 3/4; pairs: a,b 1/4; a,c and b,c: cells (0,1) and (1,0) against (0,0) and (1,1).
    assert [(error.k, error.tables) for error in found] == [(1, 3), (2, 3), (3, 1)]
    assert math.isclose(found[0].mean, 0.25 / 3)
    assert found[0].columns == ("b",)
    assert math.isclose(found[1].mean, (0.25 + 1.0 + 0.75) / 3)
    assert (found[1].largest, found[1].columns) == (1.0, ("a", "c"))
    assert (found[2].mean, found[2].score) == (1.0, 0.0)


def test_wide_tables_are_sampled_and_large_ones_left_out():
    tables = workload([3] * 100)
    assert [sum(len(table) == k for table in tables) for k in (1, 2, 3)] == [100, 1000, 150]
    assert len({*tables}) == len(tables)
    assert all([*table] == sorted({*table}) for table in tables)
    large = workload([300] * 4)
    assert large == [(0,), (1,), (2,), (3,)]
    assert MOST_CELLS < 300**2
    sizes = [250] * 60
    assert sum(math.prod(sizes[a] for a in table) for table in workload(sizes)) <= ALL_CELLS


def test_a_comparison_has_them():
    X = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    y = np.array([0, 1, 1])
    made = Distilled(LETTERS.to_unit(X[:2]), y[:2].astype(np.int32), LETTERS)
    found = compare_marginals(made, Records(X, y, LETTERS)).workload
    assert [round(error.mean, 6) for error in found] == [round(2 / 3 - 1 / 2, 6)] * 3
    assert math.isclose(found[2].score, 1000 * (1 - 1 / 6))


def test_scores_are_those_of_the_audit_and_leave_out_bad_rows():
    X = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [0.0, np.nan], [0.0, 0.0]])
    y = np.array([0, 1, 1, 0, -1])
    made = Distilled(LETTERS.to_unit(X[:2]), y[:2].astype(np.int32), LETTERS)
    found = score_counts(made, Records(X, y, LETTERS))
    assert found.errors == compare_marginals(made, Records(X, y, LETTERS)).workload
    assert found.listed.splitlines() == [
        "Counts of 1 column: mean total variation 0.167, largest 0.167, of 3 tables.",
        "Counts of 2 columns: mean total variation 0.167, largest 0.167, of 3 tables.",
        "Counts of 3 columns: mean total variation 0.167, largest 0.167, of 1 tables.",
        "k-marginal score of 3 columns (1,000 is the best): 833.",
    ]
    stated = found.to_json()
    assert stated["2 columns"] == {
        "mean total variation": 0.1667, "largest": 0.1667, "columns of the largest": ["b", "c"], "tables": 3
    }  # fmt: skip
    assert stated["k-marginal score"] == 833.3
    with pytest.raises(DataError, match="at least one test row without bad values"):
        score_counts(made, Records(X[3:], y[3:], LETTERS))
    other = TableSchema(LETTERS.columns[:1], "c", ("no", "yes"))
    with pytest.raises(DataError, match="same columns as the synthetic table"):
        score_counts(made, Records(X[:, :1], y, other))


def test_one_column_has_no_triples():
    one = TableSchema(LETTERS.columns[:1], "c", ("no", "yes"))
    X, y = np.array([[0.0], [1.0]]), np.array([0, 1])
    found = score_counts(Distilled(one.to_unit(X), y.astype(np.int32), one), Records(X, y, one))
    assert [(error.k, error.mean) for error in found.errors] == [(1, 0.0), (2, 0.0)]
    assert found.listed.endswith("k-marginal score of 2 columns (1,000 is the best): 1000.")
