"""Perceptual features: every layer of the network, each of the same weight."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract.float32 import assert_close_float32

from dpdistill.features.perceptual import Perceptual
from dpdistill.features.unit import unit_rows
from dpdistill.networks.resnet import ResNet18

SHAPE = (8, 10, 2)
ENCODER = Perceptual(seed=3, width=4, groups=2, classes=6)
NETWORK = ResNet18(seed=3, width=4, groups=2)
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def images(n=2):
    return np.random.default_rng(0).normal(size=(n, *SHAPE)).astype(np.float32)


@pytest.fixture(scope="module")
def found():
    """The features of two images and of a blank one."""
    X = np.concatenate([images(), np.zeros((1, *SHAPE), np.float32)])
    return np.asarray(jax.jit(ENCODER, compiler_options=QUICK)(X))


@pytest.fixture(scope="module")
def layers():
    """Activations of two images, flattened, by the network itself."""
    activations = jax.jit(lambda X: NETWORK.activations(NETWORK.init(SHAPE, 6), X), compiler_options=QUICK)
    return [np.asarray(a, np.float64).reshape(2, -1) for a in activations(images())]


def test_features_are_the_layers_each_of_norm_one(found, layers):
    found = found[:2]
    assert found.dtype == np.float32
    assert [a.shape[1] for a in layers] == [320] * 5 + [160] * 4 + [96] * 4 + [64] * 4 + [6]
    expected = np.concatenate([a / np.linalg.norm(a, axis=1, keepdims=True) for a in layers], 1) / np.sqrt(18)
    assert_close_float32(found, expected, terms=18 * 9 * 8)  # layers, neighbours, channels
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-5)


def test_inner_products_are_mean_cosines(found, layers):
    cosines = [a[0] @ a[1] / np.linalg.norm(a[0]) / np.linalg.norm(a[1]) for a in layers]
    assert found[0] @ found[1] == pytest.approx(np.mean(cosines), rel=1e-5)
    assert np.ptp(cosines) > 0.1


def test_dimension_of_the_standard_network():
    assert jax.eval_shape(Perceptual(), jax.ShapeDtypeStruct((2, 32, 32, 3), np.float32)).shape == (2, 557_066)


def test_a_blank_image(found):
    # Nothing passes the convolutions of a blank image, so that the bias of the last layer alone speaks.
    np.testing.assert_array_equal(found[2, :-6], 0.0)
    assert np.linalg.norm(found[2, -6:]) == pytest.approx(1 / np.sqrt(18), rel=1e-5)


def test_a_blank_layer_has_a_gradient():
    rows, weights = jnp.array([[0.0, 0.0], [3.0, 4.0]]), jnp.array([1.0, 2.0])
    assert_close_float32(unit_rows(rows), [[0.0, 0.0], [0.6, 0.8]], terms=4)
    gradient = jax.grad(lambda A: jnp.sum(unit_rows(A) * weights))(rows)
    # Of u . w / ||u|| at u = (3, 4), w = (1, 2): w / 5 - (u . w) u / 125.
    assert_close_float32(gradient, [[0.0, 0.0], [0.2 - 33 / 125, 0.4 - 44 / 125]], terms=8, scale=0.8)


def test_precision_follows_the_images():
    with jax.enable_x64(True):
        assert jax.eval_shape(ENCODER, jax.ShapeDtypeStruct((2, *SHAPE), np.float64)).dtype == np.float64
        assert jax.eval_shape(ENCODER, jax.ShapeDtypeStruct((2, *SHAPE), np.float32)).dtype == np.float32


def test_equal_encoders_are_one():
    assert hash(ENCODER) == hash(Perceptual(seed=3, width=4, groups=2, classes=6))
    assert Perceptual(seed=1) != Perceptual(seed=2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Perceptual(width=0), r"Expected width=0 > 0\."),
        (lambda: Perceptual(width=12), r"Expected width=12 to be a multiple of groups=8\."),
        (lambda: Perceptual(classes=0), r"Expected classes=0 > 0\."),
        (lambda: Perceptual()(jnp.zeros((2, 784))), r"Expected X of shape \(n, h, w, c\); got \(2, 784\)\."),
    ],
)
def test_bad_input(build, message):
    with pytest.raises(ValueError, match=message):
        build()
