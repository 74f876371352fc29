"""Adapted networks: the last signals of DOS come from networks that were trained on what was released before."""

import jax
import numpy as np
import pytest
from contract import SCHEMA, tiny, toy_records

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.data.records import Records
from dpdistill.encode.convnet import embed_convnet
from dpdistill.ledger.run import RunLedger
from dpdistill.methods.dos import DOS
from dpdistill.private.noise import SeededEntropy
from dpdistill.run.store import Store

ADAPTED = DOS(networks=8, sampling_prob=1.0, width=8, adapted=3, steps=20)


def noisy(n, seed):
    records = toy_records(n, seed)
    X = np.clip(records.X + np.random.default_rng(seed).normal(0, 0.8, records.X.shape), -1, 1).astype(np.float32)
    return Records(X, records.y, records.schema)


@pytest.fixture(scope="module")
def paid(tmp_path_factory):
    """A finished run of a method and its state."""
    folder = tmp_path_factory.mktemp("paid") / "run"
    result = run.distill(noisy(240, 3), ADAPTED, Budget(150.0), run_dir=folder, entropy=SeededEntropy(1))
    like = ADAPTED.init(jax.random.key(0), SCHEMA)
    return folder, result, Store(folder, RunLedger.read(folder).run_id).load(like)[1]


def between_classes(blocks, records):
    """Share of the features' variance that is between the classes."""
    phi = np.asarray(embed_convnet(blocks, records.X))
    means = np.stack([phi[records.y == c].mean(0) for c in range(3)])
    return np.square(means - phi.mean(0)).sum() / 3 / np.square(phi - phi.mean(0)).sum(1).mean()


def test_the_last_networks_tell_the_classes_apart_better_than_random_ones(paid):
    state, test = paid[2], noisy(600, 8)
    shares = [between_classes(ADAPTED._params(state, t)["blocks"], test) for t in range(8)]
    assert len(shares[5:]) == 3
    assert np.mean(shares[5:]) > 1.3 * np.mean(shares[:5])


def test_the_first_networks_are_those_of_a_run_without_adapted_ones(paid):
    state, plain = paid[2], DOS(networks=8, sampling_prob=1.0, width=8)
    for t in range(8):
        one, other = ADAPTED._params(state, t), plain._params({k: state[k] for k in ("key", "pilot")}, t)
        same = all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(other)))
        assert same == (t < 5)
        stacked = jax.tree.map(lambda stack, t=t: stack[(t - 5) % 3], state["trained"])
        assert (t >= 5) == all(map(np.array_equal, jax.tree.leaves(one["blocks"]), jax.tree.leaves(stacked)))
        centre = np.asarray(embed_convnet(one["blocks"], state["pilot"][0]).mean(0))
        np.testing.assert_allclose(one["centre"], centre, rtol=1e-5, atol=1e-5)


def test_what_is_asked_follows_from_the_releases_before_alone(paid):
    state = paid[2]
    again = ADAPTED._train({**state, "signals": np.where(np.arange(8)[:, None, None] < 5, state["signals"], 0.0)})
    for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(state["trained"]), strict=True):
        np.testing.assert_array_equal(one, other)
    other = ADAPTED._train({**state, "signals": -state["signals"]})
    assert not np.array_equal(jax.tree.leaves(other)[0], jax.tree.leaves(again)[0])


def test_images_follow_adapted_signals_as_well(paid):
    folder, result, state = paid
    targets = {**state, "signals": state["signals"].copy()}
    targets["signals"][5:, :, 1:] = 0.0
    assert np.abs(ADAPTED._images(targets) - result.distilled.X).max() > 0.01
    np.testing.assert_allclose(run.finish_again(folder, ADAPTED).distilled.X, result.distilled.X, atol=1e-5)


@pytest.mark.parametrize("name", ["dos", "dos-kip"])
def test_the_first_networks_must_be_random(name):
    with pytest.raises(ValueError, match="Expected adapted=3 below networks=3: the first are random"):
        tiny(name, networks=3, adapted=3).plan()
    assert "trained" not in str(jax.tree_util.tree_structure(tiny(name).init(jax.random.key(0), SCHEMA)))
