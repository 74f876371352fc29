"""Features with their chain rule against features, and the chain rule, alone."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from dpdistill.encode.apply import (
    CACHED_IMAGES,
    encode,
    encode_slices,
    encode_slices_with_chain_rule,
    encode_with_chain_rule,
    pull_back,
    pull_back_slices,
)
from dpdistill.encode.scattering import ScatterNet

RNG = np.random.default_rng(0)


def test_features_with_their_chain_rule_are_those_of_either_alone():
    encoder = ScatterNet(J=1, L=2, groups=3, normalise=True)
    X = RNG.uniform(-1, 1, (3, 8, 8, 1)).astype(np.float32)
    features, back = encode_with_chain_rule(encoder, X)
    np.testing.assert_allclose(features, encode(encoder, X), atol=1e-6)
    gradient = RNG.normal(size=features.shape).astype(np.float32)
    expected = np.asarray(pull_back(encoder, X, gradient))
    assert np.linalg.norm(expected) > 0
    assert np.linalg.norm(back(gradient) - expected) < 1e-4 * np.linalg.norm(expected)


@dataclass(frozen=True)
class Cubes:
    """The cubes of the pixels."""

    def __call__(self, X):
        return jnp.reshape(X**3, (len(X), -1))


def test_slices_are_put_together_in_their_order():
    m = 2 * CACHED_IMAGES + 3
    X = RNG.uniform(-1, 1, (m, 2, 3, 1)).astype(np.float32)
    gradient = RNG.normal(size=(m, 6))
    features, back = encode_slices_with_chain_rule(Cubes(), X)
    np.testing.assert_allclose(features, X.reshape(m, 6) ** 3, rtol=1e-5)
    np.testing.assert_array_equal(features, encode_slices(Cubes(), X))
    np.testing.assert_allclose(back(gradient), 3 * X**2 * gradient.reshape(X.shape), rtol=1e-5)
    np.testing.assert_allclose(back(gradient), pull_back_slices(Cubes(), X, gradient), rtol=1e-6)
