"""Kernel ridge regression as a score: values by hand and by scikit-learn, in chunks of any size."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest
from contract import SCHEMA, make_records, toy_records
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from dpdistill.evaluation import Teacher, check_krr, krr, score_classifier, score_krr, teacher_of
from dpdistill.evaluation.score import scaled
from dpdistill.features.scattering import ScatterNet
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import check_definite, one_hot, solve
from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records


@dataclass(frozen=True)
class Half:
    """An encoder of some dimension: the first pixels, in an order of their own."""

    pixels: int = 40

    def __call__(self, X: Any) -> Any:
        return X.reshape(X.shape[0], -1)[:, : self.pixels][:, ::-1]


@dataclass(frozen=True)
class Table:
    """A kernel that can be written down: k(x, z) of first pixels, counting the calls that are traced."""

    def __call__(self, X: Any, Z: Any) -> Any:
        SHAPES.append((X.shape, Z.shape, str(X.dtype)))
        return X[:, 0, 0, 0][:, None] * Z[:, 0, 0, 0][None, :] + (X[:, 1, 0, 0][:, None] == Z[:, 1, 0, 0][None, :])


SHAPES: list[tuple] = []
RNG = np.random.default_rng(11)
X_S = RNG.uniform(-1, 1, (15, 8, 8, 1)).astype(np.float32)
Y_S = np.repeat(np.arange(3), 5)
TEST = Records(RNG.uniform(-1, 1, (83, 8, 8, 1)), RNG.integers(0, 3, 83), SCHEMA)
KERNELS = [FCNTK(2), FeatureKernel(Half()), FeatureKernel(ScatterNet(J=1, L=2, groups=3, normalise=True))]
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=["fc-ntk", "pixels", "scatternet"])


def answers(kernel, ridge, targets, X_s=X_S):
    """The test records, each under the label that scikit-learn predicts."""
    X_t, _ = scaled(TEST)
    K_ss, K_ts = np.asarray(kernel(X_s, X_s), np.float64), np.asarray(kernel(X_t, X_s), np.float64)
    model = KernelRidge(alpha=ridge * np.trace(K_ss) / len(X_s), kernel="precomputed").fit(K_ss, targets)
    predicted = model.predict(K_ts).argmax(1)
    assert np.bincount(predicted, minlength=3).max() < 70
    return Records(TEST.X, predicted, SCHEMA)


def score(kernel, ridge=1e-2, X=X_S, y=Y_S, test=TEST, **changes):
    (accuracy,) = score_krr(X, y, SCHEMA, test, kernel=kernel, ridge=ridge, **changes).accuracies
    return accuracy


@each_kernel
@pytest.mark.parametrize(("ridge", "other"), [(1e-2, 30.0), (30.0, 1e-2)])
def test_it_predicts_what_scikit_learn_predicts(kernel, ridge, other):
    test = answers(kernel, ridge, np.eye(3)[Y_S] - 1 / 3)
    assert score(kernel, ridge, test=test) == 100.0
    assert score(kernel, ridge) == pytest.approx(100.0 * np.mean(test.y == TEST.y))
    assert score(kernel, other, test=test) < 100.0


def test_a_separable_set_is_learned():
    toys = toy_records(12, seed=1)
    X, y = scaled(toys)
    assert score(FCNTK(), X=X, y=y, test=toy_records(60, seed=2)) == 100.0
    assert score(FCNTK(), X=X, y=(y + 1) % 3, test=toy_records(60, seed=2)) == 0.0


def test_by_hand():
    """k(x, z) = x z + [same tag]: two support records 1 and -1 of tags 0 and 0.5; K_ss = [[2, -1], [-1, 2]]."""
    schema = Schema((2, 1, 1), (-1.0, 1.0), ("plus", "minus"))
    X = np.array([[1.0, 0.0], [-1.0, 0.5]], np.float32).reshape(2, 2, 1, 1)
    tags = np.array([[0.9, 0.0], [-0.9, 0.5], [0.1, 0.5], [-0.1, 0.0], [0.3, -1.0]])
    test = Records(tags.reshape(5, 2, 1, 1), np.array([0, 1, 1, 0, 1]), schema)
    # With ridge 0, Y = (1/2, -1/2) and its negative: alpha = (1/6, -1/6), so that a score of class 0 is
    # (x / 3 + [tag 0] / 6 - [tag 0.5] / 6): 0.47, -0.47, -0.13, 0.13 and 0.1 for the five records.
    assert score_krr(X, np.array([0, 1]), schema, test, kernel=Table(), ridge=0.0).accuracies == (80.0,)
    targets = np.array([[-0.5, 0.5], [0.5, -0.5]], np.float32)
    turned = score_krr(X, np.array([0, 1]), schema, test, kernel=Table(), ridge=0.0, targets=targets)
    assert turned.accuracies == (pytest.approx(20.0),)


@each_kernel
def test_targets_are_used_in_place_of_labels(kernel):
    targets = np.random.default_rng(4).normal(size=(15, 3))
    targets -= targets.mean(0)
    test = answers(kernel, 1e-2, targets)
    assert score(kernel, targets=targets, test=test) == 100.0
    assert score(kernel, test=test) < 60.0
    assert score(kernel, targets=one_hot(Y_S, 3)) == score(kernel)


@each_kernel
def test_chunks_change_no_score_and_are_of_one_shape(kernel):
    assert {score(kernel, chunk=size) for size in (1, 4, 15, 50, 83, 200)} == {score(kernel)}


def test_the_support_set_is_encoded_once_and_everything_is_compiled_once():
    seen = []

    @dataclass(frozen=True)
    class Counting(Half):
        def __call__(self, X: Any) -> Any:
            seen.append(X.shape)
            jax.debug.callback(lambda X: runs.append(len(X)), X)
            return super().__call__(X)

    runs: list[int] = []
    told = []
    kernel = FeatureKernel(Counting())
    found = score(kernel, chunk=10, progress=lambda *said: told.append(said))
    jax.effects_barrier()
    assert found == score(FeatureKernel(Half()))
    assert runs == [10] * (2 + 9)  # 15 support records and 83 others, in tens
    assert seen.count((10, 8, 8, 1)) == 1
    stages = ("kernel ridge regression", 2), ("scores of test records", 9)
    assert told == [(stage, k, n) for stage, n in stages for k in range(n + 1)]
    SHAPES.clear()
    score(Table(), ridge=0.1, chunk=10)
    assert [shape for shape in SHAPES if shape[0][0] > 1] == [((10, 8, 8, 1), (15, 8, 8, 1), "float32")]


def test_a_small_ridge_is_not_lost_in_single_precision():
    """K_ss of nearly equal records is not definite in float32: the system is solved in float64."""
    X = np.concatenate([X_S, X_S + np.float32(1e-5) * RNG.normal(size=X_S.shape).astype(np.float32)])
    y, kernel = np.tile(Y_S, 2), FeatureKernel(Half())
    with pytest.raises(ValueError, match="not positive definite"):
        check_definite(solve(kernel(X, X), one_hot(y, 3), 1e-9), 1e-9)
    Phi = np.asarray(Half()(X), np.float64)
    model = Ridge(alpha=1e-9 * np.square(Phi).sum() / 30, fit_intercept=False, solver="svd")
    model.fit(Phi, np.eye(3)[y] - 1 / 3)
    X_t, _ = scaled(TEST)
    test = Records(TEST.X, model.predict(np.asarray(Half()(X_t), np.float64)).argmax(1), SCHEMA)
    assert score(kernel, 1e-9, X=X, y=y, test=test) == 100.0


def test_a_singular_matrix_names_its_ridge():
    twice = np.concatenate([X_S, X_S])
    with pytest.raises(ValueError, match=r"raise ridge \(now 0\)"):
        score(FeatureKernel(Half()), 0.0, X=twice, y=np.tile(Y_S, 2))


def test_records_without_a_label_are_left_out():
    test = make_records(40)
    known = test.y >= 0
    alone = Records(test.X[known], test.y[known], SCHEMA)
    assert score(FCNTK(), test=test) == score(FCNTK(), test=alone)


class TestClassifier:
    W = RNG.normal(size=(40, 3)).astype(np.float32)

    @pytest.mark.parametrize("chunk", [7, 50])
    def test_accuracy(self, chunk):
        X_t, y_t = scaled(TEST)
        expected = 100.0 * np.mean((np.asarray(Half()(X_t)) @ self.W).argmax(1) == y_t)
        found = score_classifier(Teacher(self.W, FeatureKernel(Half()), SCHEMA), TEST, chunk=chunk)
        assert found.accuracies == (pytest.approx(expected),)

    def test_the_regressions_own_classifier_gives_the_regressions_score(self):
        Phi = np.asarray(Half()(X_S), np.float64)
        model = Ridge(alpha=0.1 * np.square(Phi).sum() / 15, fit_intercept=False).fit(Phi, np.eye(3)[Y_S] - 1 / 3)
        kernel = FeatureKernel(Half())
        found = score_classifier(Teacher(model.coef_.T.astype(np.float32), kernel, SCHEMA), TEST)
        assert found.accuracies == (pytest.approx(score(kernel, 0.1)),)

    @pytest.mark.parametrize("pixels", [40, 8])  # more features than records, and fewer
    def test_a_regression_as_a_teacher_says_what_the_regression_says(self, pixels):
        kernel, X_t = FeatureKernel(Half(pixels)), scaled(TEST)[0]
        targets = RNG.normal(size=(15, 3))
        found = teacher_of(X_S, Y_S, SCHEMA, kernel=kernel, ridge=0.1, targets=targets, chunk=4)
        Phi = np.asarray(Half(pixels)(X_S), np.float64)
        model = Ridge(alpha=0.1 * np.square(Phi).sum() / 15, fit_intercept=False).fit(Phi, targets)
        np.testing.assert_allclose(found(X_t), np.asarray(Half(pixels)(X_t)) @ model.coef_.T, atol=1e-4)
        by_class = teacher_of(X_S, Y_S, SCHEMA, kernel=kernel, ridge=0.1)
        assert score_classifier(by_class, TEST).accuracies == (pytest.approx(score(kernel, 0.1)),)
        with pytest.raises(DataError, match=r"Expected a feature kernel for a teacher; got FCNTK"):
            teacher_of(X_S, Y_S, SCHEMA, kernel=FCNTK(), ridge=0.1)

    def test_refusals(self):
        with pytest.raises(DataError, match=r"Expected a classifier of shape \(40, 3\); got \(39, 3\)"):
            Teacher(self.W[:39], FeatureKernel(Half()), SCHEMA)
        with pytest.raises(DataError, match=r"Expected a feature kernel with a linear classifier; got FCNTK"):
            Teacher(self.W, FCNTK(), SCHEMA)
        other = Records(np.zeros((2, 9, 8, 1)), np.zeros(2, int), Schema((9, 8, 1), (-1.0, 1.0), SCHEMA.classes))
        with pytest.raises(DataError, match=r"Expected test records of shape \(8, 8, 1\); got \(9, 8, 1\)"):
            score_classifier(Teacher(self.W, FeatureKernel(Half()), SCHEMA), other)


class TestRefusals:
    @pytest.mark.parametrize("ridge", [-1.0, float("nan"), float("inf"), "low"])
    def test_ridge(self, ridge):
        with pytest.raises(ValueError, match=f"Expected ridge={ridge} >= 0"):
            check_krr(FCNTK(), ridge, SCHEMA)

    @pytest.mark.parametrize("kernel", [FeatureKernel(str), ScatterNet(), 7])
    def test_what_is_no_kernel(self, kernel):
        with pytest.raises(DataError, match=r"The kernel .* cannot be computed \((Type|Attribute)Error\)"):
            check_krr(kernel, 0.1, SCHEMA)

    def test_a_kernel_of_another_shape(self):
        with pytest.raises(DataError, match=r"Expected a kernel of shape \(n, m\); got \(1,\) for single records"):
            check_krr(lambda X, Z: X[:, 0, 0, 0], 0.1, SCHEMA)

    def test_images_that_are_too_small_for_the_kernel(self):
        small = Schema((2, 9, 1), (-1.0, 1.0), SCHEMA.classes)
        with pytest.raises(ValueError, match=r"at least 4 x 4 pixels for J=2; got 2 x 9"):
            check_krr(FeatureKernel(ScatterNet()), 0.1, small)

    def test_chunk(self):
        with pytest.raises(ValueError, match="Expected chunk=0 >= 1"):
            score(FCNTK(), chunk=0)

    def test_test_sets(self):
        nobody = Records(np.zeros((3, 8, 8, 1)), np.full(3, -1), SCHEMA)
        with pytest.raises(DataError, match="at least one test record with a known label"):
            score(FCNTK(), test=nobody)
        other = Schema((8, 8, 1), (-1.0, 1.0), ("x", "y", "z"))
        with pytest.raises(DataError, match="Expected the test classes ant, bee, cat; got x, y, z"):
            score(FCNTK(), test=make_records(3, schema=other))


def test_many_records_with_few_features_are_solved_by_the_features():
    rng = np.random.default_rng(8)
    Phi, Y = rng.normal(size=(50, 6)), rng.normal(size=(50, 3))
    expected = Phi.T @ np.linalg.solve(Phi @ Phi.T + 0.1 * np.square(Phi).sum() / 50 * np.eye(50), Y)
    np.testing.assert_allclose(krr._linear(Phi, Y, 0.1), expected, rtol=1e-8)
