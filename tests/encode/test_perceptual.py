"""Perceptual features: every layer of the network, each of the same weight."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpdistill.encode.perceptual import Perceptual
from dpdistill.encode.resnet import ResNet18

SHAPE = (8, 10, 2)
ENCODER = Perceptual(seed=3, width=4, groups=2, classes=6)
NETWORK = ResNet18(seed=3, width=4, groups=2)
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def images(n=2):
    return np.random.default_rng(0).normal(size=(n, *SHAPE)).astype(np.float32)


@pytest.fixture(scope="module")
def found():
    """The features of two images."""
    return np.asarray(jax.jit(ENCODER, compiler_options=QUICK)(images()))


@pytest.fixture(scope="module")
def layers():
    """Activations of two images, flattened, by the network itself."""
    activations = jax.jit(lambda X: NETWORK.activations(NETWORK.init(SHAPE, 6), X), compiler_options=QUICK)
    return [np.asarray(a, np.float64).reshape(2, -1) for a in activations(images())]


def test_features_are_the_layers_each_of_norm_one(found, layers):
    assert found.dtype == np.float32
    assert [a.shape[1] for a in layers] == [320] * 5 + [160] * 4 + [96] * 4 + [64] * 4 + [6]
    expected = np.concatenate([a / np.linalg.norm(a, axis=1, keepdims=True) for a in layers], 1) / np.sqrt(18)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-5)


def test_inner_products_are_mean_cosines(found, layers):
    cosines = [a[0] @ a[1] / np.linalg.norm(a[0]) / np.linalg.norm(a[1]) for a in layers]
    assert found[0] @ found[1] == pytest.approx(np.mean(cosines), rel=1e-5)
    assert np.ptp(cosines) > 0.1


def test_dimension_of_the_standard_network():
    assert jax.eval_shape(Perceptual(), jax.ShapeDtypeStruct((2, 32, 32, 3), np.float32)).shape == (2, 557_066)


def test_a_blank_image_and_its_gradient():
    X = jnp.concatenate([jnp.zeros((1, *SHAPE)), images(1)])

    def total(X):
        phi = ENCODER(X)
        return jnp.sum(phi * jnp.arange(phi.shape[1])), phi

    gradient, phi = jax.jit(jax.grad(total, has_aux=True), compiler_options=QUICK)(X)
    assert np.isfinite(gradient).all()
    assert np.abs(gradient[1]).max() > 0.1
    # Nothing passes the convolutions of a blank image, so that the bias of the last layer alone speaks.
    np.testing.assert_array_equal(phi[0, :-6], 0.0)
    assert np.linalg.norm(phi[0, -6:]) == pytest.approx(1 / np.sqrt(18), rel=1e-5)


def test_precision_follows_the_images(found):
    with jax.enable_x64(True):
        double = jax.jit(ENCODER, compiler_options=QUICK)(jnp.asarray(images(), jnp.float64))
        assert double.dtype == np.float64
    np.testing.assert_allclose(found, double, atol=1e-6)


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
