"""What random networks would learn from images: the gradient against the formula, and that steps along it teach."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import SCHEMA

from dpdistill.encode.augment import partition_expand
from dpdistill.method import no_progress
from dpdistill.methods.descent import Descent
from dpdistill.methods.lesson import RIDGE, lesson
from dpdistill.methods.matching import features, network

RNG = np.random.default_rng(0)
NETWORK = partial(network, jax.random.key(0), shape=SCHEMA.shape, width=8)
IMAGES = RNG.uniform(-1, 1, (6, *SCHEMA.shape)).astype(np.float32)
PICTURES = RNG.uniform(-1, 1, (40, *SCHEMA.shape)).astype(np.float32)
SCORES = RNG.normal(size=(40, 3)).astype(np.float32)


def lost(images, step, expand):
    """The loss by its formula, all at once."""
    tiles = partition_expand(images, expand)
    Phi, F = features(NETWORK(step), tiles), features(NETWORK(step), jnp.asarray(PICTURES))
    K = Phi @ Phi.T
    Y = np.repeat(np.eye(3), len(tiles) // 3, 0) - 1 / 3
    found = F @ Phi.T @ jnp.linalg.inv(K + RIDGE * jnp.trace(K) / len(K) * jnp.eye(len(K))) @ Y
    found, wanted = (s - s.mean(1, keepdims=True) for s in (found, SCORES))
    return 1 - jnp.sum(found * wanted) / jnp.linalg.norm(found) / jnp.linalg.norm(wanted)


@pytest.mark.parametrize("expand", [1, 2])
def test_the_gradient_is_that_of_the_formula(expand):
    pull = lesson(NETWORK, 3, 2, expand, PICTURES, SCORES)
    for step in (0, 3):
        found, expected = pull(jnp.asarray(IMAGES), step), jax.grad(lost)(jnp.asarray(IMAGES), step, expand)
        np.testing.assert_allclose(found, expected, atol=1e-3 * float(np.abs(expected).max()))


def test_steps_along_it_teach_networks_that_were_not_asked():
    pull = lesson(NETWORK, 3, 2, 1, PICTURES, SCORES)
    moved = Descent(0.05, 60).along(jnp.asarray(IMAGES), pull, no_progress).X
    before, after = (np.mean([lost(jnp.asarray(X), t, 1) for t in range(60, 65)]) for X in (IMAGES, moved))
    assert after < 0.8 * before


def test_a_network_without_features_is_refused():
    nothing = jax.tree.map(lambda a: a * np.nan, NETWORK(0))
    with pytest.raises(ValueError, match="is not positive definite"):
        lesson(lambda step: nothing, 3, 2, 1, PICTURES, SCORES)(jnp.asarray(IMAGES), 0)
