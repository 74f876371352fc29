"""Taught networks: the first signals of DOS-KIP come from networks that learned the released classifier's scores."""

import dataclasses

import contract
import jax
import numpy as np
import pytest
from chosen_tests import few
from contract import SCATTER, SCHEMA, toy_records

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.features.apply import encode_slices
from dpdistill.kernels.ridge import centred
from dpdistill.ledger.run import RunLedger
from dpdistill.methods.centre import pictures_around
from dpdistill.methods.dos_kip import DOSKIP
from dpdistill.methods.teacher_training import BATCH, KEPT, Lesson, teach
from dpdistill.networks.convnet import embed_convnet
from dpdistill.networks.mixing import mix_pictures
from dpdistill.networks.training import Training, train_classifier, training_steps
from dpdistill.private.noise import SeededEntropy
from dpdistill.public_images.pictures import draw_pictures
from dpdistill.run.checkpoint import Store
from dpdistill.storage.records import Records

KEY = jax.random.key(0)
TAUGHT = DOSKIP(
    kernel=SCATTER, rounds=20, networks=8, taught=5, pictures=1600, sampling_prob=1.0, width=8, steps=20, per_class=2
)


def noisy(n, seed):
    records = toy_records(n, seed)
    X = np.clip(records.X + np.random.default_rng(seed).normal(0, 0.8, records.X.shape), -1, 1).astype(np.float32)
    return Records(X, records.y, records.schema)


@pytest.fixture(scope="module")
def paid(tmp_path_factory):
    """A finished run of the method and its state."""
    folder = tmp_path_factory.mktemp("paid") / "run"
    result = run.distill(noisy(240, 3), TAUGHT, Budget(150.0), run_dir=folder, entropy=SeededEntropy(1))
    like = TAUGHT.init(KEY, SCHEMA)
    return folder, result, Store(folder, RunLedger.read(folder).run_id).load(like)[1]


def params_of(state, t):
    return TAUGHT.signals.params(TAUGHT.signals.known(state["signals"]), t)


def between_classes(blocks, records):
    """Share of the features' variance that is between the classes."""
    phi = np.asarray(embed_convnet(blocks, records.X))
    means = np.stack([phi[records.y == c].mean(0) for c in range(3)])
    return np.square(means - phi.mean(0)).sum() / 3 / np.square(phi - phi.mean(0)).sum(1).mean()


def same(one, other):
    return all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(other)))


@pytest.mark.slow
def test_the_first_networks_are_the_taught_ones_and_the_others_those_of_a_run_without(paid):
    state = paid[2]
    for t in range(8):
        found, plain = params_of(state, t), TAUGHT.signals._network(state["signals"]["key"], t, SCHEMA.shape)
        assert same({**found, "centre": None}, plain) == (t >= 5)
        assert same({**found, "centre": None, "blocks": None}, {**plain, "blocks": None})
        if t < 5:
            assert same(found["blocks"], jax.tree.map(lambda stack, t=t: stack[t], state["signals"]["taught"]))
        centre = np.asarray(embed_convnet(found["blocks"], pictures_around(state["signals"]["pilot"][0])).mean(0))
        np.testing.assert_allclose(found["centre"], centre, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_taught_networks_tell_the_classes_apart_better_than_random_ones(paid):
    test = noisy(600, 8)
    shares = [between_classes(params_of(paid[2], t)["blocks"], test) for t in range(8)]
    assert np.mean(shares[2:5]) > 1.2 * np.mean(shares[5:])


@pytest.mark.slow
def test_what_they_learn_is_what_the_classifier_says_of_pictures_mixed_with_the_pilot(paid):
    state = paid[2]
    pilot, W = state["signals"]["pilot"][0], TAUGHT.classifier.classifier(state["classifier"])
    scores = lambda X: encode_slices(SCATTER.encoder, X) @ W  # noqa: E731
    key, seen = jax.random.split(state["signals"]["key"])[1], []
    lesson = Lesson(5, 1600, 8)
    again = teach(key, lambda X: seen.append(X) or scores(X), pilot, lesson)
    assert same(again, state["signals"]["taught"])
    (X,) = seen
    seed = int(jax.random.bits(key) >> 1)
    np.testing.assert_array_equal(X, mix_pictures(draw_pictures(1600, SCHEMA.shape, seed), pilot, seed))
    other = teach(key, lambda X: scores(X)[:, ::-1], pilot, lesson)
    assert not same(other, again)
    named = centred(scores(X)).argmax(1)
    assert len(set(named.tolist())) == 3  # all classes are among the pictures


@pytest.mark.slow
def test_networks_differ_by_their_start_and_by_how_long_they_learned():
    means = np.random.default_rng(0).uniform(-1, 1, (3, 8, 8, 1)).astype(np.float32)
    stack = teach(KEY, lambda X: X.reshape(len(X), -1)[:, :3], means, Lesson(len(KEPT) + 2, 8 * BATCH, 4))
    leaves = jax.tree.leaves(stack)
    assert all(len(leaf) == len(KEPT) + 2 for leaf in leaves)
    weights = max(leaves, key=lambda leaf: leaf[0].size)
    for i in range(len(weights)):
        for j in range(i):
            assert not np.array_equal(weights[i], weights[j])


@pytest.mark.slow
@pytest.mark.parametrize("shape", few([(28, 28, 3), (9, 13, 1), (8, 8, 2), (2, 2, 1)], (9, 13, 1)))
def test_images_of_any_shape(shape):
    means = np.random.default_rng(0).uniform(-1, 1, (3, *shape)).astype(np.float32)
    seen = []
    stack = teach(KEY, lambda X: seen.append(X) or X.reshape(len(X), -1)[:, :3], means, Lesson(2, 20, 4))
    assert [X.shape for X in seen] == [(20, *shape)]
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(stack))


def test_few_pictures_give_as_many_networks():
    means = np.zeros((3, 8, 8, 1), np.float32)
    stack = teach(KEY, lambda X: X.reshape(len(X), -1)[:, :3], means, Lesson(7, 1, 4))
    assert {len(leaf) for leaf in jax.tree.leaves(stack)} == {7}


def test_networks_after_each_step_end_with_the_trained_one():
    X = np.random.default_rng(0).uniform(-1, 1, (10, 8, 8, 1)).astype(np.float32)
    Y, training = np.eye(2, dtype=np.float32)[np.arange(10) % 2], Training(epochs=3, learning_rate=0.1, schedule="step")
    training = dataclasses.replace(training, network=dataclasses.replace(training.network, width=4), batch=4)
    after = [jax.tree.map(np.array, net.params) for net in training_steps(KEY, X, Y, training)]
    assert len(after) == 9
    assert not same(after[0], after[1])
    assert same(after[8], train_classifier(KEY, X, Y, training).params)


def test_images_follow_the_signals_of_taught_networks(paid):
    folder, result, _ = paid
    again = run.finish_again(folder, TAUGHT).distilled
    np.testing.assert_allclose(again.X, result.distilled.X, atol=1e-5)


@pytest.mark.slow
def test_at_most_all_networks_are_taught_and_none_if_wanted():
    few = contract.tiny("dos-kip", networks=2, taught=50).init(KEY, SCHEMA)
    assert {len(leaf) for leaf in jax.tree.leaves(few["signals"]["taught"])} == {2}
    assert "taught" not in contract.tiny("dos-kip", taught=0).init(KEY, SCHEMA)["signals"]
