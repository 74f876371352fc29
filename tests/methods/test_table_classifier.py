"""A classifier released from a table: its features, points, calibration and labels."""

import math
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import tiny
from sklearn.linear_model import LogisticRegression

from dpdistill import Column, TableSchema, run
from dpdistill.errors import DataError
from dpdistill.features.table_rows import RowFeatures, RowIndicators
from dpdistill.methods.row_labels import (
    calibrated,
    class_counts,
    drawn_labels,
    encoded,
    indicators_for,
    row_features,
    scores_of,
)
from dpdistill.methods.softmax import SoftmaxQuery
from dpdistill.methods.table_classifier import TableClassifier
from dpdistill.query import Event, Release
from dpdistill.schema.points import knots_of
from dpdistill.storage.records import Records

SCHEMA = TableSchema(
    (
        Column("age", "numeric", (0.0, 10.0)),
        Column("ward", "categorical", categories=("A", "B", "C")),
        Column("cost", "numeric", (0.0, 4.0), missing=True),
        Column("stage", "ordinal", categories=("I", "II", "III")),
    ),
    "outcome",
    ("well", "ill"),
)
LARGE = TableSchema(
    (
        *(Column(f"x{i}", "numeric", (0.0, 1.0)) for i in range(3)),
        Column("kind", "categorical", categories=("a", "b", "c", "d")),
    ),
    "label",
    ("no", "yes"),
)


def rows(n, seed=0, schema=SCHEMA):
    rng = np.random.default_rng(seed)
    columns = [
        rng.uniform(*c.bounds, n) if c.is_number else rng.integers(0, len(c.categories), n) for c in schema.columns
    ]
    X = np.column_stack(columns).astype(np.float64)
    for i, column in enumerate(schema.columns):
        X[rng.random(n) < 0.3 * column.missing, i] = np.nan
    return schema.to_unit(X)


class TestFeatures:
    def test_indicators_worked_out_by_hand(self):
        X = SCHEMA.to_unit(np.array([[2.5, 1.0, 4.0, 1.0], [10.0, 2.0, np.nan, 2.0]]))
        found = encoded(RowIndicators(row_features(SCHEMA, 3).pieces, 3), X)
        age, ward, cost, stage = [0.5, 0.5, 0.0], [0, 1, 0], [0, 0, 1, 0], [0, 1, 0]
        np.testing.assert_allclose(found[0], [*age, *ward, *cost, *stage, 1.0], atol=1e-6)
        np.testing.assert_allclose(found[1], [0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 1.0], atol=1e-6)

    def test_the_norm_is_at_most_1_and_is_reached_at_knots(self):
        features = row_features(SCHEMA, 5)
        norms = np.linalg.norm(encoded(features, rows(500)), axis=1)
        assert norms.max() <= 1 + 1e-6
        assert norms.min() < 0.99
        at_knots = SCHEMA.to_unit(np.array([[2.5, 1.0, 3.0, 2.0], [0.0, 0.0, np.nan, 0.0]]))
        np.testing.assert_allclose(np.linalg.norm(encoded(features, at_knots), axis=1), 1.0, atol=1e-6)
        with jax.enable_x64(True):  # a gradient's norm is bounded by that of the features
            exact = np.asarray(features(jnp.asarray(rows(500), jnp.float64)))
        assert (np.linalg.norm(exact, axis=1) <= 1 + 1e-12).all()

    def test_points_score_rows_as_weights_do(self):
        features, X = row_features(SCHEMA, 4), rows(50)
        W = np.random.default_rng(1).normal(size=(sum(features.widths) + 1, 2))
        points = features.points(W)
        assert indicators_for(points, SCHEMA) == RowIndicators(features.pieces, 4)
        np.testing.assert_allclose(scores_of(points, SCHEMA, X), encoded(features, X) @ W, atol=1e-5)
        ends = np.cumsum((0, *features.widths))
        for first, last in pairwise(ends):
            np.testing.assert_allclose(points[first:last].sum(0), 0.0, atol=1e-12)

    def test_points_of_another_table_are_refused(self):
        assert knots_of(3 * 4 + 1 + 3 + 1, SCHEMA) == 4
        categories = TableSchema((SCHEMA.columns[1],), "outcome", ("well", "ill"))
        assert knots_of(4, categories) == 2
        for points, schema in ((16, SCHEMA), (8, SCHEMA), (5, categories)):
            with pytest.raises(DataError, match=f"got one of {points} points per class"):
                knots_of(points, schema)


class TestCalibration:
    def test_it_is_logistic_regression_on_the_scores(self):
        """With sums of the rows themselves, without noise, the likelihood is that of the labels."""
        features, X, rng = row_features(SCHEMA, 4), rows(4000), np.random.default_rng(2)
        Phi = encoded(features, X).astype(np.float64)
        W = np.column_stack([np.zeros(Phi.shape[1]), rng.normal(size=Phi.shape[1])])
        y = (rng.random(len(X)) < 1 / (1 + np.exp(-8 * (Phi @ W)[:, 1] + 1))).astype(int)
        sums = Phi.T @ np.eye(2)[y]
        counts = class_counts(sums, 0.0, features)
        np.testing.assert_allclose(counts, np.bincount(y), rtol=1e-6)
        V = calibrated(W, counts, sums, 0.0, Phi)
        margin = (Phi @ V)[:, 1] - (Phi @ V)[:, 0]
        fitted = LogisticRegression(C=np.inf, tol=1e-9).fit((Phi @ W)[:, 1:], y)
        np.testing.assert_allclose(margin, fitted.decision_function((Phi @ W)[:, 1:]), atol=0.01)

    def test_noise_makes_probabilities_gentler(self):
        features, X, rng = row_features(SCHEMA, 4), rows(500), np.random.default_rng(2)
        Phi = encoded(features, X).astype(np.float64)
        W = np.column_stack([np.zeros(Phi.shape[1]), rng.normal(size=Phi.shape[1])])
        y = ((Phi @ W)[:, 1] > np.median((Phi @ W)[:, 1])).astype(int)
        sums = Phi.T @ np.eye(2)[y]
        spreads = [
            np.ptp(Phi @ calibrated(W, class_counts(sums, s, features), sums, s, Phi), axis=0)[0] for s in (0, 2, 8)
        ]
        assert spreads[0] > spreads[1] > spreads[2] > 0

    def test_a_count_below_its_noise_is_half_of_the_noise(self):
        features = row_features(SCHEMA, 4)
        sums = np.zeros((sum(features.widths) + 1, 2))
        sums[-1] = [100.0 / features.length, -3.0]
        found = class_counts(sums, 2.0, features)
        np.testing.assert_allclose(found, [100.0, 1.0 * features.length], rtol=1e-6)

    def test_labels_follow_the_probabilities(self):
        scores = np.log(np.tile([[0.2, 0.5, 0.3]], (20_000, 1)))
        found = drawn_labels(scores, 3)
        np.testing.assert_allclose(np.bincount(found) / len(found), [0.2, 0.5, 0.3], atol=0.015)
        np.testing.assert_array_equal(drawn_labels(scores[:100], 3), found[:100])
        certain = np.where(np.eye(3)[np.arange(300) % 3] > 0, 0.0, -500.0)
        np.testing.assert_array_equal(drawn_labels(certain, 0), np.arange(300) % 3)


class TestSteps:
    def state(self, method, counts, stddev):
        """The state after the class sums, and a release of a gradient."""
        state, features = method.init(jax.random.key(0), SCHEMA), row_features(SCHEMA, method.knots)
        sums = np.zeros(state["W"].shape)
        sums[-1] = np.array(counts) / features.length
        return method.tell(state, Release(0, sums.ravel(), stddev, Event(1.0)))

    @pytest.mark.parametrize(("counts", "first"), [([900, 100], 0.3 * 100 / (20 * 2)), ([1e6, 1e6], 14.0)])
    def test_the_step_follows_from_released_counts(self, counts, first):
        """pace m C / (stddev sqrt(rounds)) for m records outside the largest class, at most `step`."""
        method = TableClassifier(rounds=4)
        state = self.state(method, counts, 1.0)
        G = np.random.default_rng(0).normal(size=state["W"].size)
        after = method.tell(state, Release(1, G, 20 * method.clip_norm, Event(1.0)))
        assert np.linalg.norm(after["W"]) == pytest.approx(first)
        np.testing.assert_allclose(after["W"].ravel(), -first * G / np.linalg.norm(G), rtol=1e-6)
        again = method.tell(after, Release(2, G, 20 * method.clip_norm, Event(1.0)))
        rate = first * 0.5 * (1 + math.cos(math.pi / 4))
        assert np.linalg.norm(again["W"] - after["W"]) == pytest.approx(1.9 * rate)

    def test_rounds_and_budget(self):
        method = TableClassifier()
        stages = method.plan()
        cost = [stage.rounds * stage.weight**2 for stage in stages]
        assert sum(cost[:2]) / sum(cost) == pytest.approx(0.8)
        assert cost[0] / sum(cost[:2]) == pytest.approx(0.1)
        assert cost[3] / sum(cost[2:]) == pytest.approx(0.1)
        kinds = [type(method.ask(method.at_round(method.init(jax.random.key(0), SCHEMA), t))[0]) for t in (1, 60, 61)]
        assert kinds[:2] == [SoftmaxQuery, SoftmaxQuery]
        assert kinds[2].__name__ == "FourierQuery"


def test_what_the_set_teaches():
    """The released classifier knows the rule; labels of the rows follow its probabilities."""
    rng = np.random.default_rng(5)
    X = LARGE.from_unit(rows(3000, 1, LARGE))
    odds = 12 * (X[:, 0] - 0.5) + np.array([2.0, -2.0, 0.0, 0.0])[X[:, 3].astype(int)]
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    method = tiny("table-classifier", rounds=30, steps=30, samples=2000, knots=6)
    result = run.distill_without_privacy(Records(X, y, LARGE), method)
    new = rows(2000, 7, LARGE)
    raw = LARGE.from_unit(new)
    scores = result.teacher(raw)
    expected = 12 * (raw[:, 0] - 0.5) + np.array([2.0, -2.0, 0.0, 0.0])[raw[:, 3].astype(int)]
    agree = ((scores[:, 1] > scores[:, 0]) == (expected > 0)).mean()
    assert agree > 0.93
    assert np.corrcoef(scores[:, 1] - scores[:, 0], np.clip(expected, -6, 6))[0, 1] > 0.9
    own = scores_of(result.distilled.classifier, LARGE, result.distilled.X)
    p = 1 / (1 + np.exp(own[:, 0] - own[:, 1]))
    assert abs((result.y - p).mean()) < 3 * 0.5 / math.sqrt(len(p))
    assert np.abs(np.where(result.y == 1, p, 1 - p)).mean() > 0.6


def test_features_are_of_one_row():
    """A row without a finite value has no features: its gradient is dropped as a whole."""
    X = rows(3)
    X[1, 0] = np.nan
    found = encoded(RowFeatures(row_features(SCHEMA, 3).pieces, 3), X)
    assert np.isnan(found[1]).any()
    np.testing.assert_array_equal(found[[0, 2]], encoded(row_features(SCHEMA, 3), X[[0, 2]]))
