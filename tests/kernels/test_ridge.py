"""Kernel ridge regression: scikit-learn's values, a hand computation, and what cannot be solved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract.float32 import assert_close_float32
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import check_definite, one_hot, shift, soft_labels, solve

rng = np.random.default_rng(5)
X_S, X_T = rng.normal(size=(9, 4, 3, 1)), rng.normal(size=(6, 4, 3, 1))
Y_S = one_hot(rng.integers(0, 3, 9), 3, np.float64)


def flatten(X):
    return X.reshape(len(X), -1)


def fit(kernel, X_s, Y_s, ridge):
    alpha = jax.jit(lambda X, Y: solve(kernel(X, X), Y, ridge))(X_s, Y_s)
    check_definite(alpha, ridge)
    return alpha


def predict(kernel, X, X_s, alpha):
    return jax.jit(lambda X, X_s, alpha: kernel(X, X_s) @ alpha)(X, X_s, alpha)


@pytest.mark.parametrize("ridge", [1e-6, 1e-2, 3.0])
@pytest.mark.parametrize("kernel", [FCNTK(2), FeatureKernel(flatten)], ids=["fc-ntk", "linear"])
def test_it_is_scikit_learns_kernel_ridge(kernel, ridge):
    with jax.enable_x64(True):
        K_ss, K_ts = (np.asarray(jax.jit(kernel)(X, X_S)) for X in (X_S, X_T))
        alpha = fit(kernel, jnp.asarray(X_S), jnp.asarray(Y_S), ridge)
        scores = np.asarray(predict(kernel, jnp.asarray(X_T), jnp.asarray(X_S), alpha))
    model = KernelRidge(alpha=ridge * np.trace(K_ss) / 9, kernel="precomputed").fit(K_ss, Y_S)
    np.testing.assert_allclose(alpha, model.dual_coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(scores, model.predict(K_ts), rtol=1e-6, atol=1e-9)
    assert np.abs(scores).max() > 0.05


@pytest.mark.parametrize("ridge", [1e-3, 0.5])
def test_with_features_it_is_scikit_learns_ridge(ridge):
    """The linear classifier Phi_s^T alpha is that of ridge regression on the features, without an intercept."""
    Phi_s = flatten(X_S)
    with jax.enable_x64(True):
        alpha = fit(FeatureKernel(flatten), jnp.asarray(X_S), jnp.asarray(Y_S), ridge)
    model = Ridge(alpha=ridge * np.square(Phi_s).sum() / 9, fit_intercept=False).fit(Phi_s, Y_S)
    np.testing.assert_allclose(Phi_s.T @ np.asarray(alpha), model.coef_.T, rtol=1e-7, atol=1e-9)


def test_soft_labels_are_probabilities_at_a_share_of_the_mean_margin():
    scores = np.array([[3.0, 1.0, 0.0], [0.0, 4.0, 0.0], [2.0, 0.0, 1.0]], np.float32)
    found = soft_labels(scores, np.array([0, 1, 2]), 0.5)
    temperature = 0.5 * np.mean([2.0, 4.0, -1.0])
    for row in (0, 1):
        e = np.exp(scores[row] / temperature)
        np.testing.assert_allclose(found[row], e / e.sum(), rtol=1e-5)
    np.testing.assert_array_equal(found[2], [0, 0, 1])  # taken for another class


def test_single_precision_is_close():
    with jax.enable_x64(True):
        expected = np.asarray(fit(FCNTK(), jnp.asarray(X_S), jnp.asarray(Y_S), 1e-2))
    found = fit(FCNTK(), jnp.asarray(X_S, jnp.float32), jnp.asarray(Y_S, jnp.float32), 1e-2)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_by_hand():
    K = jnp.array([[2.0, 1.0], [1.0, 4.0]])
    assert shift(K, 0.5).tolist() == [[3.5, 1.0], [1.0, 5.5]]  # tr / m = 3
    assert_close_float32(solve(K, jnp.array([[1.0], [0.0]]), 0.5), [[5.5 / 18.25], [-1.0 / 18.25]], terms=8, scale=1.0)
    assert_close_float32(solve(K, jnp.eye(2), 0.0), np.linalg.inv(np.asarray(K)), terms=8, scale=1.0)


def test_a_scaled_kernel_with_the_same_ridge_predicts_the_same():
    double = FeatureKernel(lambda X: 2.0 * flatten(X))
    with jax.enable_x64(True):
        X_s, X_t, Y_s = jnp.asarray(X_S), jnp.asarray(X_T), jnp.asarray(Y_S)
        one, two = (predict(k, X_t, X_s, fit(k, X_s, Y_s, 0.1)) for k in (FeatureKernel(flatten), double))
    np.testing.assert_allclose(one, two, rtol=1e-9)


def test_without_a_ridge_the_support_set_is_fitted():
    with jax.enable_x64(True):
        X_s, Y_s = jnp.asarray(X_S), jnp.asarray(Y_S)
        np.testing.assert_allclose(predict(FCNTK(), X_s, X_s, fit(FCNTK(), X_s, Y_s, 0.0)), Y_S, atol=1e-9)


@pytest.mark.parametrize("ridge", [0.0, -0.5])
def test_a_singular_matrix_is_refused_by_its_ridge(ridge):
    X = jnp.asarray(np.concatenate([X_S, -X_S]), jnp.float32)  # rank 9 at most
    with pytest.raises(ValueError, match=rf"K_ss \+ ridge\*I is not positive definite: raise ridge \(now {ridge:g}\)"):
        fit(FeatureKernel(flatten), X, jnp.zeros((18, 3)), ridge)


def test_records_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match=r"raise ridge \(now 1e-06\)"):
        fit(FCNTK(), jnp.full((2, 3), jnp.nan), jnp.zeros((2, 2)), 1e-6)


def test_targets_are_one_hot_minus_their_mean():
    found = one_hot(np.array([2, 0]), 4)
    assert found.tolist() == [[-0.25, -0.25, 0.75, -0.25], [0.75, -0.25, -0.25, -0.25]]
    assert found.dtype == np.float32
    thirds = one_hot(np.array([1]), 3, np.float64)
    assert (thirds.dtype, thirds.tolist()) == (np.float64, [[-1 / 3, 1 - 1 / 3, -1 / 3]])
    assert_close_float32(one_hot(jnp.array([0, 1, 2]), 3).sum(1), np.zeros(3), terms=4, scale=4 / 3)


def test_gradients_go_through_the_solve():
    def loss_of(Y):
        return jnp.square(predict(FCNTK(), jnp.asarray(X_T), jnp.asarray(X_S), solve(K_ss, Y, 0.1))).sum()

    with jax.enable_x64(True):
        K_ss, loss = jax.jit(FCNTK())(X_S, X_S), jax.jit(loss_of)
        found, step = jax.jit(jax.grad(loss))(jnp.asarray(Y_S)), 1e-6
        change = np.zeros_like(Y_S)
        change[4, 1] = step
        expected = (loss(Y_S + change) - loss(Y_S - change)) / (2 * step)
        assert float(found[4, 1]) == pytest.approx(float(expected), rel=1e-5)
        assert abs(float(expected)) > 1e-3
