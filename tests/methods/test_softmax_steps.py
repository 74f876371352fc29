"""Steps of a classifier: bounded by the noise that they add to each weight."""

import jax
import numpy as np
import pytest
from contract import SCHEMA, tiny

import dpdistill as dp
from dpdistill import run
from dpdistill.methods import softmax
from dpdistill.methods.softmax import NOISE, bounded, step
from dpdistill.private.noise import SeededEntropy
from dpdistill.query import Event, Release


def noisy(features: int, classes: int, stddev: float, signal: float = 0.0) -> np.ndarray:
    G = stddev * np.random.default_rng(0).standard_normal((features, classes))
    G[0, 0] += signal
    return G


@pytest.mark.parametrize(("features", "classes"), [(324, 10), (324, 2), (3969, 2)])
def test_a_step_along_noise_adds_the_largest_noise_to_each_weight(features, classes):
    G = noisy(features, classes, stddev=5.0)
    state = {"W": np.zeros_like(G), "velocity": np.zeros_like(G)}
    moved = step(state, G, 0, 60, 0.9, bounded(14.0, G, 5.0))["W"]
    assert moved.std() == pytest.approx(NOISE, rel=0.06)


def test_steps_are_the_stated_ones_where_features_are_many_signal_is_large_or_noise_is_absent():
    assert bounded(14.0, noisy(12288, 10, 5.0), 5.0) == 14.0
    assert bounded(14.0, noisy(324, 10, 5.0, signal=1e5), 5.0) == 14.0
    assert bounded(14.0, noisy(324, 10, 5.0), 0.0) == 14.0


def test_the_classifier_takes_bounded_steps(monkeypatch):
    method = tiny("decoupled-kip")
    state = method.init(jax.random.key(0), SCHEMA)
    G = np.random.default_rng(0).standard_normal(state["W"].shape)

    def moved():
        return method.tell(state, Release(0, G, 1.0, Event(1.0)))["W"] - state["W"]

    found = moved()
    monkeypatch.setattr(softmax, "NOISE", np.inf)
    stated = moved()
    assert np.linalg.norm(found) < 0.5 * np.linalg.norm(stated)
    np.testing.assert_allclose(found / np.linalg.norm(found), stated / np.linalg.norm(stated), atol=1e-12)


@pytest.mark.slow
def test_the_bound_gains_on_eight_by_eight_digits(monkeypatch):
    """Means of two fixed draws of the noise: 90 percent with the bound, 83 without."""
    train, test = dp.load("digits:train"), dp.load("digits:test")

    def accuracy(seed):
        method, entropy = dp.DecoupledKIP(steps=1), SeededEntropy(seed)
        made = run.distill(train, method, dp.Budget(epsilon=1.0), entropy=entropy)
        return 100.0 * np.mean(made.teacher(test.X).argmax(1) == test.y)

    bounded_steps = np.mean([accuracy(seed) for seed in range(2)])
    monkeypatch.setattr(softmax, "NOISE", np.inf)
    assert bounded_steps > np.mean([accuracy(seed) for seed in range(2)]) + 3.0
    assert bounded_steps > 87.0
