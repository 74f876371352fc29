"""DP-SGD: its contributions are a network's gradients, its steps are Adam's, and its network learns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chosen_tests import few
from contract import SCATTER, SCHEMA, toy_records
from contract.float32 import assert_close_float32

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.methods.dp_sgd import DPSGD
from dpdistill.private.noise import SeededEntropy
from dpdistill.query import Release

CLASSES = len(SCHEMA.classes)
QUICK = {"kernel": SCATTER, "rounds": 60, "sampling_prob": 0.5, "learning_rate": 0.02, "samples": 30}


def replayed(method, records, curate):
    """The state after a run whose releases are watched."""
    state = method.init(jax.random.key(0), records.schema)

    def watch(query, params, release):
        nonlocal state
        state = method.tell(state, release)

    made = curate(watch)
    return state, made


def test_a_contribution_is_the_gradient_of_the_cross_entropy():
    method = DPSGD(sees="pixels", hidden=5)
    state = method.init(jax.random.key(0), SCHEMA)
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda a: np.float32(rng.normal(size=a.shape)), state["params"])
    x, y = rng.uniform(-1, 1, SCHEMA.shape).astype(np.float32), 2
    (one, two) = ({name: np.float64(a) for name, a in layer.items()} for layer in params)
    before = x.ravel() @ one["kernel"] + one["bias"]
    h = np.maximum(before, 0)
    scores = h @ two["kernel"] + two["bias"]
    p = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    by_scores = p - np.eye(CLASSES)[y]
    by_h = (two["kernel"] @ by_scores) * (before > 0)
    expected = [by_h, np.outer(x.ravel(), by_h).ravel(), by_scores, np.outer(h, by_scores).ravel()]
    query, _ = method.ask(state)
    found = query.contribution(params, jnp.asarray(x), jnp.int32(y))
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-4)


@pytest.mark.parametrize("sees", few(["features", "pixels"], "pixels"))
def test_it_learns(sees):
    records = toy_records(400)
    method = DPSGD(sees=sees, hidden=8, **QUICK)
    state, made = replayed(
        method, records, lambda watch: run.distill(records, method, Budget(50.0), watch=watch).distilled
    )
    X, y = records.take(np.arange(400))
    scores = method.scores(state, X)
    assert np.mean(scores.argmax(1) == y) > 0.95
    assert made.X.shape == (30, *SCHEMA.shape)
    said = method.scores(state, made.X)
    np.testing.assert_array_equal(made.y, said.argmax(1))
    soft = np.exp(said) / np.exp(said).sum(1, keepdims=True)
    np.testing.assert_allclose(made.soft_labels, soft, atol=1e-4)


@pytest.mark.slow
def test_noise_keeps_it_from_learning():
    records, method = toy_records(60), DPSGD(sees="pixels", **QUICK)
    X, y = records.take(np.arange(60))

    def accuracy(seed):
        def curate(watch):
            return run.distill(records, method, Budget(0.01), watch=watch, entropy=SeededEntropy(seed))

        state, _ = replayed(method, records, curate)
        return np.mean(method.scores(state, X).argmax(1) == y)

    # One run alone may be lucky: from 0 to 1.
    assert np.mean([accuracy(seed) for seed in range(8)]) < 0.7


def test_a_step_does_not_depend_on_how_many_records_there_are():
    method = DPSGD(sees="pixels", rounds=10)
    state = method.init(jax.random.key(0), SCHEMA)
    d = sum(a.size for a in jax.tree.leaves(state["params"]))
    value = np.random.default_rng(0).normal(size=d)
    one, many = (method.tell(state, Release(0, s * value, 1.0, None))["params"] for s in (1.0, 1000.0))
    for a, b, start in zip(*map(jax.tree.leaves, (one, many, state["params"])), strict=True):
        assert_close_float32(a, b, terms=6, scale=1.0)
        np.testing.assert_allclose(np.abs(a - start), method.learning_rate, rtol=1e-3)
