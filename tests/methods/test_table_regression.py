"""A regression released from a table: bins, second moments, points, numbers that are drawn, and scores."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from contract import tiny
from sklearn.linear_model import Ridge

from dpdistill import Column, TableSchema, run
from dpdistill.accounting.schedule import Budget
from dpdistill.errors import DataError
from dpdistill.evaluation.regression import pinball, score_numbers
from dpdistill.features.table_rows import GroupedFeatures, RowFeatures, RowsAndTarget, group_of
from dpdistill.folder.scorecard import scorecard_content
from dpdistill.method import Distilled
from dpdistill.methods.row_labels import encoded
from dpdistill.methods.row_numbers import drawn_numbers, input_pieces, predicted
from dpdistill.methods.second_moments import SecondMomentsQuery, positive, symmetric
from dpdistill.methods.table_regression import TableRegression
from dpdistill.private.noise import SeededEntropy
from dpdistill.query import Event, Release
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile
from dpdistill.storage.records import Records

SCHEMA = TableSchema(
    (
        Column("age", "integer", (0.0, 100.0)),
        Column("cost", "numeric", (0.0, 50.0), places=1),
        Column("ward", "categorical", categories=("A", "B", "C", "D", "E")),
        Column("stay", "numeric", (0.0, 30.0), missing=True),
    ),
    target="cost",
    edges=(10.0, 20.0, 40.0),
)


def raw_rows(n, seed=0):
    """Rows whose cost is 0.2 age + 3 in ward B + noise of standard deviation 1."""
    rng = np.random.default_rng(seed)
    age, ward = rng.integers(0, 101, n), rng.integers(0, 5, n)
    cost = np.clip(10.0 + 0.2 * age + 3.0 * (ward == 1) + rng.normal(size=n), 0.0, 50.0)
    stay = np.where(rng.random(n) < 0.3, np.nan, rng.uniform(0, 30, n))
    return np.column_stack([age, np.round(cost, 1), ward, stay]).astype(np.float64)


def records(n, seed=0):
    X = raw_rows(n, seed)
    return Records(X, SCHEMA.bins(X), SCHEMA)


class TestSchema:
    def test_bins_begin_at_their_edges(self):
        X = np.zeros((7, 4))
        X[:, 1] = [-5.0, 9.99, 10.0, 39.0, 40.0, 1e9, np.nan]
        assert SCHEMA.bins(X).tolist() == [0, 0, 1, 2, 3, 3, -1]
        assert SCHEMA.classes == ("0 to 10", "10 to 20", "20 to 40", "40 to 50")
        assert (SCHEMA.label, SCHEMA.names) == (None, ("age", "cost", "ward", "stay"))
        assert SCHEMA.inputs.names == ("age", "ward", "stay")
        assert TableSchema.from_json(SCHEMA.to_json()) == SCHEMA

    def test_bins_of_equal_length_without_edges(self):
        linear = TableSchema(SCHEMA.columns, target="age")
        assert linear.edges == (13.0, 25.0, 38.0, 50.0, 63.0, 75.0, 88.0)
        log = TableSchema((Column("x", "numeric", (0.0, np.expm1(8.0)), "log"), SCHEMA.columns[0]), target="x")
        np.testing.assert_allclose(np.log1p(log.edges), range(1, 8), rtol=1e-5)

    def test_rows_settle_in_the_bins_of_their_classes(self):
        X, y = SCHEMA.to_unit(raw_rows(400)), np.random.default_rng(1).integers(0, 4, 400)
        settled, classes = SCHEMA.settle(X, y)
        raw = SCHEMA.from_unit(settled)
        np.testing.assert_array_equal(classes, y)
        np.testing.assert_array_equal(SCHEMA.bins(raw), y)
        np.testing.assert_allclose(raw[:, 1] * 10, np.rint(raw[:, 1] * 10), atol=1e-9)
        stays = SCHEMA.bins(SCHEMA.from_unit(X)) == y
        np.testing.assert_array_equal(settled[stays], SCHEMA.to_unit(SCHEMA.from_unit(X))[stays])
        np.testing.assert_array_equal(np.delete(raw, 1, 1), np.delete(SCHEMA.from_unit(X), 1, 1))

    @pytest.mark.parametrize(
        ("facts", "sentence"),
        [
            ({"target": "ward"}, "Expected the label 'ward' among the columns of kind numeric, integer, duration"),
            ({"target": "nobody"}, "Expected the label 'nobody' among the columns of kind"),
            ({"target": "stay"}, "Expected no missing values of the label 'stay': leave such rows out"),
            ({"target": "cost", "edges": (5.0, 5.0)}, "increasing edges above 0 and at most 50.* got 5, 5"),
            ({"target": "cost", "edges": (0.0, 5.0)}, "increasing edges above 0"),
            ({"target": "cost", "edges": (5.0, 51.0)}, "increasing edges above 0"),
            ({"target": "cost", "edges": tuple(np.arange(1, 101) / 4)}, "Expected at most 99 increasing edges"),
            ({"target": "cost", "classes": ("low", "high")}, "Expected no classes of 'cost', which is a number"),
            ({"target": "cost", "label": "sick", "classes": ("a", "b")}, "Expected one label; got 'sick' and the"),
            ({"edges": (5.0,)}, "Expected edges of a number to predict; got a table without such a label"),
        ],
    )
    def test_contradictions(self, facts, sentence):
        with pytest.raises(DataError, match=sentence):
            TableSchema(SCHEMA.columns, **facts)

    def test_a_number_alone_is_refused(self):
        with pytest.raises(DataError, match="Expected at least one column besides the label"):
            TableSchema((Column("cost", "numeric", (0.0, 1.0)),), target="cost")
        with pytest.raises(ValueError, match="Expected a table with a number to predict"):
            _ = TableSchema(SCHEMA.columns).target_at
        with pytest.raises(ValueError, match="Expected a table with a number to predict"):
            TableSchema(SCHEMA.columns).bins(np.zeros((1, 4)))


class TestFeatures:
    def test_the_number_is_no_feature(self):
        pieces = input_pieces(SCHEMA)
        assert pieces == (("numbers", 0, 1), ("categories", 2, 5), ("gapped", 7, 2))
        X = SCHEMA.to_unit(raw_rows(20))
        moved = X.copy()
        moved[:, SCHEMA.target_at] = 0.3
        features = GroupedFeatures(pieces, 3, 4)
        np.testing.assert_array_equal(encoded(features, X), encoded(features, moved))

    def test_the_norm_with_the_number_is_at_most_1(self):
        X = SCHEMA.to_unit(raw_rows(500))
        X[:3, SCHEMA.target_at] = [1.0, -1.0, 7.0]  # beyond the bounds counts as the bound
        encoder = RowsAndTarget(GroupedFeatures(input_pieces(SCHEMA), 3, 3), SCHEMA.target_at, 0.7)
        V = encoded(encoder, X)
        assert V.shape == (500, encoder.size) == (500, 3 + 3 + 4 + 1 + 1)
        assert np.linalg.norm(V, axis=1).max() <= 1 + 1e-6
        np.testing.assert_allclose(V[:3, -1] * np.sqrt(1.49) / 0.7, [1.0, -1.0, 1.0], rtol=1e-6)

    def test_categories_of_a_group_share_their_points(self):
        assert group_of(3, 4).tolist() == [0, 1, 2]
        assert np.bincount(group_of(40, 16)).tolist() == [3] * 8 + [2] * 8
        X, pieces = SCHEMA.to_unit(raw_rows(50)), input_pieces(SCHEMA)
        features = GroupedFeatures(pieces, 4, 2)
        assert features.widths == (4, 2, 5)
        W = np.random.default_rng(1).normal(size=(sum(features.widths) + 1, 2))
        points = features.points(W)
        assert points.shape == (4 + 5 + 5 + 1, 2)
        found = predicted(np.where([True, False], points, 0.0) * 0.1, SCHEMA, X)[:, 0]
        np.testing.assert_allclose(found, 0.1 * (encoded(features, X) @ W)[:, 0], atol=1e-6)
        for column in (points[:4], points[4:9], points[9:14]):
            np.testing.assert_allclose(column.sum(0), 0.0, atol=1e-12)
        whole = GroupedFeatures(pieces, 4, 5)
        np.testing.assert_array_equal(encoded(whole, X), encoded(RowFeatures(pieces, 4), X))


class TestSecondMoments:
    def test_a_contribution_is_the_matrix_of_a_vector(self):
        query, v = SecondMomentsQuery(1.0, 3, None), np.array([0.5, -0.25, 0.75])
        with jax.enable_x64(True):
            u = np.asarray(query.contribution(jnp.zeros(0), jnp.asarray(v), jnp.asarray(0)))
        np.testing.assert_allclose(symmetric(u, 3), np.outer(v, v), rtol=1e-14)
        assert np.linalg.norm(u) == pytest.approx(v @ v, rel=1e-14)

    def test_the_weighted_sum_is_that_of_contributions(self):
        query, rng = SecondMomentsQuery(1.0, 5, None), np.random.default_rng(0)
        V, w = rng.normal(size=(7, 5)).astype(np.float32), rng.random(7)
        with jax.enable_x64(True):
            total = np.asarray(query.weighted_sum(jnp.zeros(0), jnp.asarray(V), jnp.asarray(w)))
        np.testing.assert_allclose(symmetric(total, 5), (V.astype(np.float64).T * w) @ V, rtol=1e-12)

    def test_the_nearest_positive_matrix(self):
        A = np.array([[0.0, 2.0], [2.0, 0.0]])  # eigenvalues 2 and -2
        np.testing.assert_allclose(positive(A), [[1.0, 1.0], [1.0, 1.0]], atol=1e-12)
        B = np.array([[2.0, 1.0], [1.0, 2.0]])
        np.testing.assert_allclose(positive(B), B, atol=1e-12)


def state_of(method, rows, noise=0.0, stddev=1e-9):
    """The state after a release of the second moments of rows, with a given standard deviation of the noise."""
    state = method.init(jax.random.key(0), SCHEMA)
    query, _ = method.ask(state)
    V = encoded(query.encoder, SCHEMA.to_unit(rows)).astype(np.float64)
    at = np.triu_indices(query.size)
    sums = (V.T @ V)[at] * np.where(at[0] == at[1], 1.0, np.sqrt(2.0))
    sums = sums + noise * np.random.default_rng(5).normal(size=len(sums))
    return method.tell(state, Release(0, sums, stddev, Event(1.0)))


class TestRegression:
    def test_without_noise_it_is_ridge_regression(self):
        method, rows, others = TableRegression(knots=3), raw_rows(3000), raw_rows(500, 1)
        points = method.classifier(state_of(method, rows), SCHEMA)
        found = predicted(points, SCHEMA, SCHEMA.to_unit(others))
        features = GroupedFeatures(input_pieces(SCHEMA), 3, 16)
        Phi, Phi_t = (encoded(features, SCHEMA.to_unit(X)).astype(np.float64) for X in (rows, others))
        y = SCHEMA.to_unit(rows)[:, SCHEMA.target_at]
        fitted = Ridge(1e-7, fit_intercept=False).fit(Phi, y).predict(Phi_t)
        np.testing.assert_allclose(found[:, 0], fitted, atol=2e-4)
        np.testing.assert_allclose(found[:, 1] * 25.0, 1.0, atol=0.05)  # the noise of the cost

    def test_a_ridge_of_the_size_of_the_noise_shrinks_the_points(self):
        method, rows = TableRegression(), raw_rows(500)
        found = [method.classifier(state_of(method, rows, 0.0, stddev), SCHEMA) for stddev in (1e-9, 40.0, 4000.0)]
        sizes = [np.abs(points[:-1, 0]).max() for points in found]
        assert sizes[0] > 2 * sizes[1] > 20 * sizes[2] > 0
        found += [method.classifier(state_of(method, rows, 400.0, 400.0), SCHEMA)]
        assert np.abs(found[-1][:, 0]).max() < 1.0  # noise alone
        assert all(np.isfinite(points).all() for points in found)

    def test_a_run_learns_the_rule_and_draws_numbers(self):
        made = run.distill(
            records(6000), TableRegression(steps=5, samples=4000), Budget(1.0), entropy=SeededEntropy(1)
        ).distilled
        scores = score_numbers(made, records(2000, 1))
        assert scores.released.values[0] > 0.85
        assert scores.models[-1].values[0] < 0.05
        raw = SCHEMA.from_unit(made.X)
        np.testing.assert_array_equal(SCHEMA.bins(raw), made.y)
        mean, spread = predicted(made.classifier, SCHEMA, made.X).T
        residuals = (SCHEMA.to_unit(raw)[:, SCHEMA.target_at] - mean) / spread
        inside = np.abs(mean) + 3 * spread < 1
        assert residuals[inside].std() == pytest.approx(1.0, abs=0.05)
        X, _ = drawn_numbers(made.classifier, SCHEMA, made.X[:100], 7)
        Y, _ = drawn_numbers(made.classifier, SCHEMA, made.X[:30], 7)
        np.testing.assert_array_equal(X[:30], Y)

    def test_the_scorecard_sums_to_the_prediction_in_units_of_the_number(self):
        method = TableRegression(knots=3, groups=2)
        points = method.classifier(state_of(method, raw_rows(2000)), SCHEMA)
        lines = [line.split(",") for line in scorecard_content(points, SCHEMA).decode().splitlines()]
        assert lines[0] == ["column", "kind", "value", "cost"]
        assert lines[1][:3] == ["(spread)", "standard deviation", ""]
        card = {(column, value): float(number) for column, _, value, number in lines[1:]}
        row = np.array([[50.0, 0.0, 1.0, np.nan]])
        total = card["(intercept)", ""] + card["age", "50"] + card["ward", "B"] + card["stay", ""]
        expected = predicted(points, SCHEMA, SCHEMA.to_unit(row))[0]
        assert total == pytest.approx(25.0 + 25.0 * expected[0], rel=1e-4)
        assert card["(spread)", ""] == pytest.approx(25.0 * expected[1], rel=1e-4)


class TestScores:
    def test_values_by_hand(self):
        assert pinball(np.array([3.0, 1.0]), np.array([2.0, 2.0]), 0.9) == pytest.approx((0.9 + 0.1) / 2)
        rows = raw_rows(400)
        made = Distilled(SCHEMA.to_unit(rows), SCHEMA.bins(rows).astype(np.int32), SCHEMA)
        test = records(300, 1)
        scores = score_numbers(made, test)
        y, trained = test.X[:, 1], rows[:, 1]
        trivial = dict(zip(scores.header[1:], scores.models[-1].values, strict=True))
        assert scores.models[-1].name == "mean, quantiles"
        assert trivial["R2"] == pytest.approx(1 - ((y - trained.mean()) ** 2).sum() / ((y - y.mean()) ** 2).sum())
        assert trivial["MAE"] == pytest.approx(np.abs(y - np.median(trained)).mean(), rel=1e-4)
        assert trivial["RMSE"] == pytest.approx(np.sqrt(((y - trained.mean()) ** 2).mean()))
        assert trivial["pinball 0.5"] == pytest.approx(trivial["MAE"] / 2)
        ridge = dict(zip(scores.header[1:], scores.models[0].values, strict=True))
        assert ridge["R2"] > 0.95
        assert ridge["RMSE"] == pytest.approx(1.0, abs=0.1)
        assert scores.to_json()["models"]["ridge"]["pinball 0.1"] is None
        assert scores.released is None

    def test_records_of_other_tables_are_refused(self):
        made = Distilled(SCHEMA.to_unit(raw_rows(9)), np.zeros(9, np.int32), TableSchema(SCHEMA.columns))
        with pytest.raises(DataError, match="Expected a table with a number to predict"):
            score_numbers(made, records(9))
        with pytest.raises(DataError, match="Expected test rows with the same columns"):
            score_numbers(records(9), Records(np.zeros((2, 1)), np.zeros(2, int), TableSchema(SCHEMA.columns[:1])))
        with pytest.raises(DataError, match="Expected at least one test row with the number to predict"):
            score_numbers(records(9), Records(np.full((2, 4), np.nan), np.full(2, -1), SCHEMA))


def test_rows_that_cannot_be_read_contribute_nothing():
    def table(cost, age):
        frame = pd.DataFrame(raw_rows(30), columns=[*SCHEMA.names])
        frame["ward"] = [SCHEMA.columns[2].categories[int(k)] for k in frame["ward"]]
        frame = frame.astype(object)
        frame.loc[4, ["cost", "age"]] = [cost, age]
        found = load_table(frame, TableFile(SCHEMA, reviewed=True), strict=False)
        return found.y, run.distill(found, tiny("table-regression"), Budget(1.0), entropy=SeededEntropy(3)).distilled

    (y, first), (_, second), (_, other) = table(None, 30), table(None, 99), table(20.0, 30)
    assert (y[4], (y >= 0).sum()) == (-1, 29)
    np.testing.assert_array_equal(first.classifier, second.classifier)
    assert not np.array_equal(first.classifier, other.classifier)
    (_, beyond), (_, bound) = table(1e9, 30), table(50.0, 30)
    np.testing.assert_array_equal(beyond.classifier, bound.classifier)


@pytest.mark.parametrize("name", ["dp-merf", "aim"])
def test_generators_make_numbers_in_the_bins_of_their_classes(name):
    settings = {"dp-merf": {"steps": 30, "samples": 500}, "aim": {"samples": 500, "rounds": 1, "iterations": 50}}
    made = run.distill(records(2000), tiny(name, **settings[name]), Budget(5.0), entropy=SeededEntropy(1)).distilled
    raw = SCHEMA.from_unit(made.X)
    np.testing.assert_array_equal(SCHEMA.bins(raw), made.y)
    shares = np.bincount(made.y, minlength=4) / 500
    np.testing.assert_allclose(shares, np.bincount(records(2000).y, minlength=4) / 2000, atol=0.08)


def test_methods_of_classes_are_refused():
    with pytest.raises(ValueError, match="DPKIP learns classes, and the label 'cost' is a number to predict: choose"):
        run.distill(records(20), tiny("dp-kip"), Budget(1.0))
    X, unlabelled = raw_rows(20), TableSchema(SCHEMA.columns)
    with pytest.raises(ValueError, match="TableRegression predicts a number: name a numeric column of"):
        run.distill(Records(X, np.zeros(20, int), unlabelled), tiny("table-regression"), Budget(1.0))
