"""The dense network's tangent kernel: another program's values, its gradient, and what a kernel must be.

reference_fc_ntk.npz was made with neural-tangents 0.6.5 in float64: depths 1 to 3, W_std sqrt(2), b_std 0 and 0.1.
"""

import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpdistill.kernels.fc_ntk import FCNTK

with np.load(Path(__file__).with_name("reference_fc_ntk.npz")) as file:
    REFERENCE = dict(file)
X1, X2 = REFERENCE["fc_x1"], REFERENCE["fc_x2"]
SETTINGS = list(itertools.product((1, 2, 3), (0.0, 0.1)))
PRECISIONS = {np.float64: 1e-6, np.float32: 1e-3}


def computed(function, *arrays, dtype):
    with jax.enable_x64(dtype == np.float64):
        found = np.asarray(jax.jit(function)(*(jnp.asarray(array, dtype) for array in arrays)))
    assert found.dtype == dtype
    return found


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize(("depth", "b_std"), SETTINGS)
class TestReference:
    def test_of_two_batches(self, depth, b_std, dtype):
        found = computed(FCNTK(depth, b_std=b_std), X1, X2, dtype=dtype)
        np.testing.assert_allclose(found, REFERENCE[f"fc_ntk_depth{depth}_b{b_std}"], rtol=PRECISIONS[dtype], atol=1e-7)

    def test_of_a_batch_and_itself(self, depth, b_std, dtype):
        kernel, expected = FCNTK(depth, b_std=b_std), REFERENCE[f"fc_ntk_self_depth{depth}_b{b_std}"]
        found = computed(kernel, X1, X1, dtype=dtype)
        np.testing.assert_allclose(found, expected, rtol=PRECISIONS[dtype])


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_gradient(dtype):
    def total(X):
        return jnp.sum(jnp.asarray(REFERENCE["fc_grad_weights"], X.dtype) * FCNTK(1)(jnp.asarray(X1, X.dtype), X))

    found, expected = computed(jax.grad(total), X2, dtype=dtype), REFERENCE["fc_ntk_grad_x2_depth1_b0.1"]
    np.testing.assert_allclose(found, expected, rtol=PRECISIONS[dtype], atol=PRECISIONS[dtype] * np.abs(expected).max())


def test_images_are_flattened():
    images = np.concatenate([X1, X2]).reshape(12, 2, 5, 2)
    found = computed(FCNTK(2), images[:5], images[5:], dtype=np.float64)
    np.testing.assert_allclose(found, REFERENCE["fc_ntk_depth2_b0.1"], rtol=1e-6)


def test_one_hidden_layer_by_hand():
    """Orthogonal x and z of square norm d: q = 0, kappa_0 = 1/2, kappa_1 = 1 / pi."""
    x, z = np.array([[np.sqrt(2.0), 0.0]]), np.array([[0.0, np.sqrt(2.0)]])
    kernel = FCNTK(1, w_std=3.0, b_std=0.0)
    assert computed(kernel, x, z, dtype=np.float64) == pytest.approx(9.0 / (2 * np.pi))
    # <x, z> / d = 1: Theta = w^2 kappa_0(1) / 2 + w^2 kappa_1(1) / 2 = 9 (1/2 + 1/2).
    assert computed(kernel, x, x, dtype=np.float64) == pytest.approx(9.0)


@pytest.mark.parametrize(("depth", "b_std"), SETTINGS)
def test_it_is_symmetric_and_positive_semidefinite(depth, b_std):
    X = np.random.default_rng(3).normal(size=(30, 12))
    K = computed(FCNTK(depth, b_std=b_std), X, X, dtype=np.float64)
    np.testing.assert_allclose(K, K.T, rtol=1e-12, atol=1e-14)
    # More records than dimensions: a linear kernel would have 18 eigenvalues of 0.
    assert np.linalg.eigvalsh(K).min() > 1e-3 * np.trace(K) / 30


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_gradient_is_finite_where_records_coincide_and_where_they_are_nothing(depth, dtype):
    X = np.concatenate([X1[:2], X1[:1], -X1[:1], np.zeros((2, 20))])
    kernel = FCNTK(depth, b_std=0.0)
    for function in (lambda X: kernel(X, X).sum(), lambda X: kernel(X1.astype(X.dtype), X).sum()):
        found = computed(jax.grad(function), X, dtype=dtype)
        assert np.isfinite(found).all()
        assert np.abs(found[:4]).max() > 1e-3


def test_nothing_has_the_bias_only():
    zeros = np.zeros((1, 20))
    assert computed(FCNTK(1, b_std=0.0), zeros, X1, dtype=np.float64).tolist() == [[0.0] * 5]
    # q = b^2: Theta = b^2 kappa_0(1) / 2 + b^2 kappa_1(1) / 2 + b^2 = 2 b^2, with kappa_0(1) = kappa_1(1) = 1.
    assert computed(FCNTK(1, w_std=1.0, b_std=0.5), zeros, zeros, dtype=np.float64) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 0}, "Expected depth=0 >= 1"),
        ({"w_std": 0.0}, "Expected w_std=0.0 > 0"),
        ({"w_std": float("nan")}, "Expected w_std=nan > 0"),
        ({"b_std": -0.1}, "b_std=-0.1 >= 0"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        FCNTK(**arguments)


def test_it_is_a_value_and_compiles_once():
    traced = []

    def matrix(kernel, X):
        traced.append(kernel)
        return kernel(X, X)

    compiled = jax.jit(matrix, static_argnums=0)
    for kernel in (FCNTK(2), FCNTK(2, b_std=0.1), FCNTK(3)):
        compiled(kernel, jnp.ones((2, 3)))
    assert traced == [FCNTK(2), FCNTK(3)]
