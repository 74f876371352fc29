"""Mixup: records and their labels in one share, that of a Beta distribution, beside others of the batch."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import toy_records
from contract.float32 import assert_close_float32

from dpdistill.evaluation.score import named_by
from dpdistill.networks.network import ConvNet
from dpdistill.networks.training import MIXUP, MUON, QUICK, Training, _batch, train_classifier

KEY = jax.random.key(3)
MIXED = Training(epochs=4, learning_rate=0.05, schedule="cosine", batch=6, strategies=(), mixup=0.3)


def batches(training, X, Y, steps=40):
    made = [_batch(KEY, jnp.asarray(t), X, Y, training, steps) for t in range(steps)]
    assert all(slopes is None for _, _, slopes in made)
    return [(np.asarray(images), np.asarray(labels)) for images, labels, _ in made]


@pytest.mark.parametrize("shape", [(8, 8, 1), (5, 7, 3)])
def test_what_is_linear_in_the_labels_stays_so(shape):
    Y = jax.nn.softmax(jax.random.normal(KEY, (24, 4)))
    B = np.random.default_rng(0).normal(size=(4, *shape)).astype(np.float32)
    records = jnp.tensordot(Y, B, 1)
    for X, labels in batches(MIXED, records, Y):
        assert X.shape == (6, *shape)
        assert_close_float32(X, np.tensordot(labels, B, 1), terms=4 + 3, scale=np.tensordot(labels, np.abs(B), 1))
        assert_close_float32(labels.sum(1), np.ones(6), terms=4 + 3)


def test_each_record_keeps_the_same_share_and_the_rest_is_another_of_the_batch():
    records, Y = jnp.zeros((24, 8, 8, 1)), jnp.eye(24)
    plain = batches(replace(MIXED, mixup=0.0), records, Y)
    shares = []
    for (_, mixed), (_, own) in zip(batches(MIXED, records, Y), plain, strict=True):
        mates = mixed @ own.T  # (6, 6): what each is made of
        assert_close_float32(mates.sum(0), np.ones(6), terms=24 + 6)  # each is another's mate once
        assert_close_float32(mates.sum(1), np.ones(6), terms=24 + 6)
        alone = np.isclose(np.diag(mates), 1)
        kept = np.diag(mates)[~alone]
        assert_close_float32(kept, kept[:1].repeat(len(kept)), terms=24, scale=1.0)
        shares.extend(kept[:1])
    # Of Beta(0.3, 0.3) a share is below 0.1 or above 0.9 with probability 0.566.
    outside = np.mean([min(s, 1 - s) < 0.1 for s in shares])
    assert 0.566 - 4 * 0.08 < outside < 0.566 + 4 * 0.08
    assert len({round(float(s), 4) for s in shares}) > 30


def test_without_it_batches_are_the_sets_own_records():
    records, Y = jax.random.uniform(KEY, (24, 8, 8, 1)), jnp.eye(24)
    seen = np.zeros(24)
    for X, labels in batches(replace(MIXED, mixup=0.0), records, Y, 4):
        np.testing.assert_array_equal(X, records[labels.argmax(1)])
        seen += labels.sum(0)
    np.testing.assert_array_equal(seen, 1)


def test_a_separable_set_is_learned_from_mixtures():
    toy, test = toy_records(12, seed=1), toy_records(60, seed=2)
    training = Training(epochs=60, learning_rate=0.05, schedule="cosine", network=ConvNet(width=4), mixup=0.3)
    net = train_classifier(KEY, toy.X, np.eye(3, dtype=np.float32)[toy.y], replace(training, strategies=()))
    assert (named_by(net, test.X) == test.y).all()


def test_the_named_training():
    assert replace(QUICK, mixup=0.3) == MIXUP
    assert replace(QUICK, mixup=0.3, optimiser="muon", learning_rate=2e-3) == MUON
