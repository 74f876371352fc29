"""Features with their chain rule against features, and the chain rule, alone."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
from contract.float32 import assert_close_float32

from dpdistill.features import apply
from dpdistill.features.apply import (
    CACHED_IMAGES,
    along,
    encode,
    encode_slices,
    encode_slices_with_chain_rule,
    pull_back,
    pull_back_slices,
    with_chain_rule,
)
from dpdistill.features.scattering import ScatterNet

RNG = np.random.default_rng(0)
TERMS = 64 + 64 + 256
"""Sums of a scattering of 8 x 8 pixels: two of filters, and a norm, which is 1."""


def test_features_with_their_chain_rule_are_those_of_either_alone():
    encoder = ScatterNet(J=1, L=2, groups=3, normalise=True)
    for _ in range(2):
        X = RNG.uniform(-1, 1, (3, 8, 8, 1)).astype(np.float32)
        features, rule = with_chain_rule(encoder, X)
        assert_close_float32(features, encode(encoder, X), TERMS, scale=1.0)
        gradient = RNG.normal(size=features.shape).astype(np.float32)
        expected = np.asarray(pull_back(encoder, X, gradient))
        assert np.linalg.norm(expected) > 0
        assert np.linalg.norm(along(rule, gradient) - expected) < 1e-4 * np.linalg.norm(expected)


@dataclass(frozen=True)
class Cubes:
    """The cubes of the pixels."""

    def __call__(self, X):
        return jnp.reshape(X**3, (len(X), -1))


def test_a_chain_rule_is_compiled_once_for_all_records():
    compiled = []
    for _ in range(3):
        features, rule = with_chain_rule(Cubes(), RNG.uniform(-1, 1, (4, 3, 3, 1)).astype(np.float32))
        along(rule, np.ones_like(features))
        compiled.append(along._cache_size())
    assert compiled[0] == compiled[2]


@pytest.mark.parametrize("most", [apply.MOST_HELD, 0], ids=["held", "computed again"])
def test_slices_are_put_together_in_their_order(most, monkeypatch):
    monkeypatch.setattr(apply, "MOST_HELD", most)
    m = 2 * CACHED_IMAGES + 3
    X = RNG.uniform(-1, 1, (m, 2, 3, 1)).astype(np.float32)
    gradient = RNG.normal(size=(m, 6))
    features, back = encode_slices_with_chain_rule(Cubes(), X)
    np.testing.assert_allclose(features, X.reshape(m, 6) ** 3, rtol=1e-5)
    np.testing.assert_array_equal(features, encode_slices(Cubes(), X))
    np.testing.assert_allclose(back(gradient), 3 * X**2 * gradient.reshape(X.shape), rtol=1e-5)
    assert_close_float32(back(gradient), pull_back_slices(Cubes(), X, gradient), terms=4)
