"""Distances of a synthetic table from the private records, by hand and against NumPy and pandas."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from dpdistill.audits.marginals import Moments, compare_marginals, coordinate_names
from dpdistill.evaluation.bins import BINS, bin_indices, bin_names, total_variation
from dpdistill.method import Distilled
from dpdistill.schema import Column, DataError, Schema, TableSchema
from dpdistill.storage.records import Records

AGE = Column("age", "integer", (0.0, 100.0))
SCHEMA = TableSchema(
    (
        AGE,
        Column("dose", "numeric", (0.0, 2.0), missing=True),
        Column("gain", "numeric", (0.0, 99.0), scale="log"),
        Column("stage", "ordinal", categories=("I", "II", "III"), missing=True),
        Column("sex", "categorical", categories=("Female", "Male", "Other"), missing=True),
    ),
    "ill",
    ("no", "yes"),
)


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.integers(0, 101, n),
            rng.uniform(0, 2, n),
            rng.exponential(9.0, n),
            rng.integers(0, 3, n),
            rng.choice(3, n, p=(0.6, 0.3, 0.1)),
        ]
    ).astype(float)
    for k in (1, 3, 4):
        X[rng.random(n) < 0.1, k] = np.nan
    return X, rng.integers(0, 2, n)


def distilled(X: np.ndarray, y: np.ndarray, schema: TableSchema = SCHEMA) -> Distilled:
    return Distilled(schema.to_unit(X), np.asarray(y, np.int32), schema)


def records(X: np.ndarray, y: np.ndarray, schema: TableSchema = SCHEMA) -> Records:
    return Records(X, np.asarray(y, np.int64), schema)


def one(column: Column, real: list, synthetic: list, classes: tuple[str, ...] = ("a", "b")):
    """The comparison of one column, of alternating classes."""
    schema = TableSchema((column,), "y", classes)
    labels = [np.arange(len(values)) % 2 for values in (real, synthetic)]
    real, synthetic = (np.array(values, float)[:, None] for values in (real, synthetic))
    return compare_marginals(distilled(synthetic, labels[1], schema), records(real, labels[0], schema))


@pytest.mark.parametrize(
    ("p", "q", "distance"),
    [([1, 3], [2, 2], 0.25), ([1, 0], [0, 9], 1.0), ([2, 4], [1, 2], 0.0), ([1, 1, 2], [0, 3, 1], 0.5)],
)
def test_total_variation_by_hand(p, q, distance):
    assert math.isclose(total_variation(np.array(p), np.array(q)), distance, abs_tol=1e-12)
    assert math.isclose(total_variation(np.array(q), np.array(p)), distance, abs_tol=1e-12)


def test_total_variation_of_nothing_is_not_defined():
    assert math.isnan(total_variation(np.zeros(3), np.ones(3)))
    assert math.isnan(total_variation(np.ones(3), np.zeros(3)))


def test_numbers_by_hand():
    # Bins of 5 years: 0-4, 5-9, ..., 95-100; class a has the first and third value, class b the second and fourth.
    column = one(AGE, [4, 5, 9, 100], [0, 0, 10, 96]).columns[0]
    assert column.real[0].nonzero()[0].tolist() == [0, 1]
    assert column.real[1].nonzero()[0].tolist() == [1, 19]
    assert column.synthetic.sum(0).nonzero()[0].tolist() == [0, 2, 19]
    # |1-2| + |2-0| + |0-1| + |1-1|, of 4, halved.
    assert math.isclose(column.distance, 0.5)
    # a: bins 0, 1 against 0, 2; b: bins 1, 19 against 0, 19.
    assert column.distances == (0.5, 0.5)


def test_a_log_scale_has_equal_bins_of_the_logarithm():
    # 1 + x in 100^(k / 20): the tenth bin begins at 1 + x = 10.
    column = one(Column("x", "numeric", (0.0, 99.0), scale="log"), [0.0, 8.9, 9.1, 99.0], [0.0, 0.0, 0.0, 0.0]).columns[
        0
    ]
    assert column.real.sum(0).nonzero()[0].tolist() == [0, 9, 10, 19]
    assert math.isclose(column.distance, 0.75)


def test_missing_is_a_bin_of_its_own():
    for column in (
        Column("x", "numeric", (0.0, 1.0), missing=True),
        Column("x", "ordinal", categories=("I", "II"), missing=True),
        Column("x", "categorical", categories=("I", "II"), missing=True),
    ):
        compared = one(column, [0, np.nan, 0, np.nan], [0, 0, 0, np.nan]).columns[0]
        assert compared.values[-1] == "missing"
        assert compared.real[:, -1].tolist() == [0, 2]
        assert compared.synthetic[:, -1].tolist() == [0, 1]
        assert math.isclose(compared.distance, 0.25)
        assert compared.distances == (0.0, 0.5)


def test_synthetic_rows_count_as_they_are_handed_out():
    schema = TableSchema((AGE, Column("sex", "categorical", categories=("F", "M"))), "y", ("a", "b"))
    soft = np.array([[-0.903, 0.2, 0.9], [-0.897, 0.6, 0.5]], np.float32)  # 4.85 and 5.15 years: both are 5
    comparison = compare_marginals(
        Distilled(soft, np.array([0, 1], np.int32), schema), records(np.array([[5.0, 1.0], [5.0, 0.0]]), [0, 1], schema)
    )
    assert [column.distance for column in comparison.columns] == [0.0, 0.0]
    assert comparison.correlations.largest == 0.0


@pytest.mark.parametrize("chunk", [1 << 20, 11, 700])
def test_against_pandas_and_numpy(monkeypatch, chunk):
    import pandas as pd

    monkeypatch.setattr("dpdistill.audits.marginals._CHUNK_VALUES", chunk)
    (X, y), (Z, z) = rows(3_000), rows(700, 1)
    Z[:, 0], Z[:, 1] = np.rint(Z[:, 0] * 0.8), Z[:, 1] * 0.9
    found = compare_marginals(distilled(Z, z), records(X, y))
    real, synthetic = (pd.DataFrame(np.round(A, 5), columns=[c.name for c in SCHEMA.columns]) for A in (X, Z))
    for column, compared in zip(SCHEMA.columns, found.columns, strict=True):
        p, q = real[column.name], synthetic[column.name]
        if column.is_number:
            low, high = column.bounds
            inner = low + np.arange(1, BINS) * (high - low) / BINS
            if column.scale == "log":
                inner = np.expm1(np.arange(1, BINS) / BINS * np.log1p(high - low)) + low
            cuts = [-np.inf, *inner, np.inf]
            p, q = (pd.cut(values, cuts, right=False, labels=False) for values in (p, q))
        for k in (slice(None), 0, 1):
            kept = (slice(None), slice(None)) if k == slice(None) else (y == k, z == k)
            shares = [v[i].value_counts(dropna=False, normalize=True) for v, i in zip((p, q), kept, strict=True)]
            expected = shares[0].subtract(shares[1], fill_value=0.0).abs().sum() / 2
            distance = compared.distance if k == slice(None) else compared.distances[k]
            assert math.isclose(distance, expected, abs_tol=1e-9), (column.name, k)
    np.testing.assert_allclose(found.real_shares, np.bincount(y) / 3_000, rtol=1e-12)
    np.testing.assert_allclose(found.synthetic_shares, np.bincount(z) / 700, rtol=1e-12)
    R, S = (np.corrcoef(SCHEMA.to_unit(A).astype(np.float64).T) for A in (X, Z))
    gap = np.abs(R - S)
    upper = gap[np.triu_indices(len(gap), 1)]
    assert math.isclose(found.correlations.largest, upper.max(), abs_tol=1e-6)
    assert math.isclose(found.correlations.mean, upper.mean(), abs_tol=1e-7)
    names = coordinate_names(SCHEMA)
    i, j = np.unravel_index(gap.argmax(), gap.shape)
    assert set(found.correlations.pair) == {names[i], names[j]}


def test_correlations_by_hand():
    schema = TableSchema((Column("u", "numeric", (-1, 1)), Column("v", "numeric", (-1, 1))), "y", ("a", "b"))
    rising = np.array([[-1.0, -1.0], [1.0, 1.0]])
    falling = rising * [1, -1]
    found = compare_marginals(distilled(falling, [0, 1], schema), records(rising, [0, 1], schema)).correlations
    assert math.isclose(found.largest, 2.0)
    assert math.isclose(found.mean, 2.0)
    assert set(found.pair) == {"u", "v"}
    assert compare_marginals(distilled(rising, [0, 1], schema), records(rising, [0, 1], schema)).correlations.pair == ()


def test_a_constant_column_has_no_correlation():
    schema = TableSchema((Column("u", "numeric", (-1, 1)), Column("v", "numeric", (-1, 1))), "y", ("a", "b"))
    real, constant = np.array([[-0.5, -0.25], [0.5, 0.25], [0.1, 0.05]]), np.array([[0.3, 0.1], [0.3, 0.7], [0.3, 0.2]])
    found = compare_marginals(distilled(constant, [0, 1, 0], schema), records(real, [0, 1, 0], schema)).correlations
    assert math.isclose(found.largest, 1.0, abs_tol=1e-6)
    nothing = compare_marginals(
        distilled(constant, [0, 1, 0], schema), records(constant, [1, 1, 0], schema)
    ).correlations
    assert nothing.largest == nothing.mean == 0.0


def test_a_spread_small_beside_its_mean_is_not_lost():
    rng = np.random.default_rng(0)
    u = np.float32(0.9) + rng.integers(-9, 10, 5_000).astype(np.float32) * np.float32(2.0**-23)
    U = np.column_stack([u, u, rng.uniform(-1, 1, 5_000)]).astype(np.float32)
    moments = Moments(3)
    for start in range(0, 5_000, 77):
        moments.add(U[start : start + 77])
    R = moments.correlations()
    np.testing.assert_allclose(R, np.corrcoef((U - U.mean(0, np.float64)).T.astype(np.float64)), atol=1e-6)
    assert math.isclose(R[0, 1], 1.0, abs_tol=1e-9)
    np.testing.assert_allclose(moments.mean, U.mean(0, np.float64), rtol=0, atol=1e-12)


def test_one_row_and_nothing_at_all():
    moments = Moments(2)
    moments.add(np.zeros((0, 2), np.float32))
    assert moments.correlations().tolist() == [[0.0, 0.0], [0.0, 0.0]]
    moments.add(np.array([[0.5, 1.0]], np.float32))
    assert moments.correlations().tolist() == [[0.0, 0.0], [0.0, 0.0]]
    comparison = one(AGE, [7], [8])
    assert comparison.columns[0].distance == 0.0
    assert comparison.correlations == comparison.correlations
    assert (comparison.correlations.largest, comparison.correlations.mean) == (0.0, 0.0)


def test_a_class_without_rows_is_not_defined():
    schema = TableSchema((AGE,), "y", ("a", "b", "c"))
    comparison = compare_marginals(
        distilled(np.array([[1.0], [2.0]]), [0, 1], schema), records(np.array([[1.0], [99.0]]), [0, 2], schema)
    )
    assert comparison.columns[0].distances[0] == 0.0
    assert all(math.isnan(distance) for distance in comparison.columns[0].distances[1:])
    assert comparison.real_shares.tolist() == [0.5, 0.0, 0.5]
    assert comparison.synthetic_shares.tolist() == [0.5, 0.5, 0.0]


def test_records_that_contribute_nothing_are_left_out():
    X = np.array([[1.0], [np.nan], [99.0], [1.0]])
    schema = TableSchema((AGE,), "y", ("a", "b"))
    comparison = compare_marginals(
        distilled(np.array([[1.0]]), [0], schema), records(X, np.array([0, 1, -1, 1]), schema)
    )
    assert comparison.left_out == 2
    assert comparison.real_rows.tolist() == [1, 1]
    assert comparison.columns[0].distance == 0.0


def test_wild_values_are_clamped_like_everywhere():
    X = np.array([[1e30, 1e30, -1e30, 1e30, 1e30], [-1e30, np.inf, np.inf, -1e30, -1e30]])
    bins = bin_indices(SCHEMA.to_unit(X), SCHEMA)
    assert bins.tolist() == [[19, 19, 0, 2, 2], [0, 19, 19, 0, 0]]
    comparison = compare_marginals(distilled(X, [0, 1]), records(X, np.array([0, 1])))
    assert [column.distance for column in comparison.columns] == [0.0] * 5


def test_missing_everywhere():
    X = np.column_stack([np.full(4, 7.0), np.full(4, np.nan), np.zeros(4), np.full(4, np.nan), np.full(4, np.nan)])
    Z, z = rows(50)
    comparison = compare_marginals(distilled(Z, z), records(X, np.arange(4) % 2))
    share = np.isnan(Z[:, 1]).mean()
    assert math.isclose(comparison.columns[1].distance, 1 - share)
    assert 0.0 < comparison.correlations.mean <= comparison.correlations.largest <= 1.0


def test_names_of_bins_and_coordinates():
    assert bin_names(AGE) == tuple(map(str, range(20)))
    assert bin_names(SCHEMA.columns[3]) == ("I", "II", "III", "missing")
    assert coordinate_names(SCHEMA) == (
        "age", "dose", "dose missing", "gain", "stage", "stage missing",
        "sex = Female", "sex = Male", "sex = Other", "sex missing",
    )  # fmt: skip
    assert len(coordinate_names(SCHEMA)) == SCHEMA.dimension


def test_what_cannot_be_compared_is_one_sentence():
    X, y = rows(4)
    other = TableSchema(SCHEMA.columns, "ill", ("no", "perhaps"))
    images = Schema((2, 2, 1), (0.0, 1.0), ("a", "b"))
    pictures = Records(np.zeros((2, 2, 2, 1)), np.array([0, 1]), images)
    for synthetic, real, sentence in (
        (distilled(X, y), records(X, y, other), "Expected records of the synthetic table's schema"),
        (Distilled(np.zeros((2, 2, 2, 1)), np.array([0, 1]), images), pictures, "Expected rows of a table"),
        (distilled(X, y), pictures, "Expected rows of a table"),
        (distilled(X, y), records(X, np.full(4, -1)), "Expected at least one record with a known label"),
        (distilled(X[:0], y[:0]), records(X, y), "Expected at least one synthetic row"),
    ):
        with pytest.raises(DataError, match=sentence):
            compare_marginals(synthetic, real)


def test_little_memory_beside_the_records():
    columns = tuple(Column(f"c{k}", "numeric", (0.0, 1.0)) for k in range(120))
    schema = TableSchema(columns, "y", ("a", "b"))
    X = np.random.default_rng(0).random((60_000, 120), np.float32)
    private, synthetic = records(X, np.arange(60_000) % 2, schema), distilled(X[:100], np.arange(100) % 2, schema)
    tracemalloc.start()
    compare_marginals(synthetic, private)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Encoded at once, the records alone would be 29 MB in single and 58 MB in double precision.
    assert peak < 60e6
