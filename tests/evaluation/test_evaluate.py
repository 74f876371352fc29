"""Training on a small set and scoring on another: values, determinism, and what is refused."""

from dataclasses import replace

import contract
import jax
import numpy as np
import pytest
from contract import SCHEMA, make_records, toy_records
from contract.float32 import assert_close_float32
from sklearn.linear_model import LogisticRegression

from dpdistill.evaluation import (
    LARGE,
    MIXUP,
    MUON,
    PAPER,
    PLATEAU,
    QUICK,
    TRAININGS,
    Score,
    Training,
    score_network,
    score_pixels,
    training_for,
)
from dpdistill.evaluation.score import named_by, scaled
from dpdistill.networks import training
from dpdistill.networks.convnet import embed_convnet
from dpdistill.networks.network import ConvNet
from dpdistill.networks.training import Classifier, _start, train_classifier
from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records
from dpdistill.storage.test_set import check_test_set

TINY = Training(epochs=30, learning_rate=0.05, schedule="cosine", network=ConvNet(width=4), strategies=("crop",))
TOY = toy_records(12, seed=1)
ONE_HOT = np.eye(3, dtype=np.float32)[TOY.y]


def accuracy(net, X, y, **how):
    return np.mean(named_by(net, X, **how) == y)


def fresh(seed):
    network = ConvNet(seed, 4)
    return Classifier(network, network.init((8, 8, 1), 3))


@pytest.fixture(scope="module")
def trained():
    return train_classifier(jax.random.key(0), TOY.X, ONE_HOT, TINY)


def test_a_separable_set_is_learned(trained):
    test = toy_records(60, seed=2)
    assert accuracy(trained, test.X, test.y) == 1.0
    untrained = fresh(0)
    assert accuracy(untrained, test.X, test.y) < 0.7


def test_the_step_schedule_learns_too():
    training = Training(
        epochs=15, learning_rate=0.05, schedule="step", network=ConvNet(width=4), strategies=(), batch=5
    )
    net = train_classifier(jax.random.key(0), TOY.X, ONE_HOT, training)
    assert accuracy(net, TOY.X, TOY.y) == 1.0


def test_large_sets_take_no_fewer_steps_than_small_ones():
    """2,040 records had 160 steps without augmentation, 2,000 had 8,000 with it."""

    def steps(n, training):
        small = replace(training, network=ConvNet(width=1))
        return _start(jax.random.key(0), np.zeros((n, 8, 8, 1), np.float32), np.zeros((n, 3)), small, None).steps

    assert [steps(n, QUICK) for n in (10, 100, 1_000, 2_000, 2_040)] == [200, 400, 4_000, 8_000, 7_995]
    assert steps(20_000, QUICK) == 8_000
    assert steps(1_000_000, QUICK) == 20_000
    assert (steps(100, PAPER), steps(2_040, PAPER), steps(2_040, LARGE)) == (1_000, 8_000, 160)
    assert [training_for(n) for n in (10, 20_000, 20_001)] == ["plateau", "plateau", "large"]
    assert training_for(20_001, "mixup") == "mixup"


@pytest.mark.parametrize(
    ("labels", "least", "most"), [(np.full((12, 3), 1 / 3, np.float32), 30, 100), (ONE_HOT, 60, 400)]
)
def test_a_training_ends_once_its_loss_is_flat(monkeypatch, labels, least, most):
    monkeypatch.setattr(training, "WINDOW", 10)
    how = replace(TINY, epochs=400, flat=0.03)
    told = []
    train_classifier(jax.random.key(0), TOY.X, labels, how, after_step=lambda *t: told.append(t))
    steps = len(told) - 1
    assert least <= steps <= most
    assert steps % 10 == 0
    assert told == [*((t, 400) for t in range(1, steps + 1)), (steps, steps)]


def test_soft_labels_are_labels(trained):
    # Labels that say nothing teach nothing.
    net = train_classifier(jax.random.key(0), TOY.X, np.full((12, 3), 1 / 3, np.float32), TINY)
    scores = np.asarray(net(TOY.X))
    assert np.ptp(scores, axis=1).max() < np.ptp(np.asarray(trained(TOY.X)), axis=1).min()


def test_training_follows_its_key(trained):
    again = train_classifier(jax.random.key(0), TOY.X, ONE_HOT, TINY)
    other = train_classifier(jax.random.key(1), TOY.X, ONE_HOT, TINY)
    for a, b in zip(jax.tree.leaves(trained.params), jax.tree.leaves(again.params), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(trained.params["head"]["kernel"], other.params["head"]["kernel"])


def test_accuracy_is_the_share_of_hits():
    rng = np.random.default_rng(0)
    net = fresh(2)
    head = {name: np.asarray(value) for name, value in net.params["head"].items()}
    for n in (1, 7, 64, 70):
        X, y = rng.uniform(-1, 1, (n, 8, 8, 1)).astype(np.float32), rng.integers(0, 3, n)
        scores = np.asarray(embed_convnet(net.params["blocks"], X)) @ head["kernel"] + head["bias"]
        assert accuracy(net, X, y) == pytest.approx(np.mean(scores.argmax(1) == y))
        assert accuracy(net, X, y, chunk=5) == pytest.approx(np.mean(scores.argmax(1) == y))


def test_classifiers_start_in_the_bounds_of_fan_in():
    net = fresh(3).params["head"]
    assert net["kernel"].shape == (64, 3)
    assert 0.9 * 64**-0.5 < np.abs(net["kernel"]).max() <= 64**-0.5
    assert 0.0 < np.abs(net["bias"]).max() <= 64**-0.5


class TestScore:
    def test_mean_and_standard_deviation(self):
        assert Score((90.0, 92.0, 97.0)).mean == 93.0
        assert Score((90.0, 92.0, 97.0)).std == pytest.approx(np.sqrt(13.0))
        assert Score((90.0,)).std == 0.0
        assert str(Score((90.0, 92.0, 97.0))) == "93.00 ± 3.61 %"
        assert str(Score((90.0,))) == "90.00 %"

    def test_uneven_classes_show_the_rare_one(self):
        y = np.repeat([0, 2], [80, 20])
        named = [np.where(np.arange(100) < 95, 0, 2), np.where(np.arange(100) < 85, 0, 2)]
        score = Score.of(named, y, ("common", "absent", "rare"))
        assert score.accuracies == pytest.approx((85.0, 95.0))
        assert score.recalls == pytest.approx({"common": 100.0, "rare": 50.0})
        assert str(score) == "90.00 ± 7.07 %, balanced 75.00 %, lowest recall 50.00 % of 'rare'"
        assert str(Score.of(named, np.repeat([0, 2], [60, 40]), ("a", "b", "c"))) == "70.00 ± 7.07 %"

    def test_of_nets_on_a_test_set(self):
        told = []
        score = score_network(
            TOY.X, TOY.y, SCHEMA, toy_records(30, seed=4), nets=2, training=TINY, progress=lambda *s: told.append(s)
        )
        assert score.accuracies == (100.0, 100.0)
        steps = range(1, TINY.epochs + 1)
        assert told == [(f"training network {k} of 2", t, TINY.epochs) for k in (1, 2) for t in steps]

    def test_nets_are_independent_and_follow_the_seed(self):
        rng = np.random.default_rng(0)
        noise = Records(rng.uniform(-1, 1, (90, 8, 8, 1)), rng.integers(0, 3, 90), SCHEMA)
        training = Training(epochs=1, learning_rate=0.01, schedule="cosine", network=ConvNet(width=4), strategies=())
        found = [
            score_network(TOY.X, TOY.y, SCHEMA, noise, nets=3, training=training, seed=s).accuracies for s in (0, 0, 1)
        ]
        assert found[0] == found[1] != found[2]
        assert len(set(found[0])) > 1

    def test_a_mirror_image_is_added_on_request_only(self):
        assert "flip" not in QUICK.strategies
        assert QUICK.with_flip().strategies == (*QUICK.strategies, "flip")
        others = {"mixup": MIXUP, "muon": MUON, "paper": PAPER, "large": LARGE}
        assert {"plateau": PLATEAU, "quick": QUICK, **others} == TRAININGS
        assert (PAPER.epochs, PAPER.learning_rate, PAPER.momentum, PAPER.weight_decay) == (1000, 0.01, 0.9, 5e-4)
        assert 5 * QUICK.epochs <= PAPER.epochs
        assert (PAPER.batch, PAPER.network, PAPER.schedule) == (256, ConvNet(width=128), "step")

    def test_the_final_iterate_is_scored(self):
        contract.check_score_is_the_final_iterate()

    def test_records_with_an_unknown_label_are_left_out(self):
        test = make_records(40)
        X, y = scaled(test)
        np.testing.assert_array_equal(y, test.y[test.y >= 0])
        assert_close_float32(X, test.X[test.y >= 0], terms=4)
        assert 0 < len(X) < 40


class TestPixels:
    def test_it_is_scikit_learns_classifier_on_flat_records(self):
        test = toy_records(40, seed=5)
        gap = TOY.y != 1  # a class without records is never predicted
        fitted = LogisticRegression(max_iter=5000).fit(TOY.X[gap].reshape(gap.sum(), -1), TOY.y[gap])
        expected = 100 * np.mean(fitted.predict(test.X.reshape(40, -1)) == test.y)
        found = score_pixels(TOY.X[gap], TOY.y[gap], SCHEMA, test, name="logistic regression")
        assert found.accuracies == (pytest.approx(expected),)
        assert 50 < expected < 75

    def test_records_of_one_class_are_refused(self):
        one = TOY.y == 1
        with pytest.raises(DataError, match=r"The classifier MLP cannot be fitted to these records\."):
            score_pixels(TOY.X[one], TOY.y[one], SCHEMA, TOY, name="MLP")


class TestRefusals:
    def test_nets(self):
        with pytest.raises(ValueError, match="Expected nets=0 >= 1"):
            score_network(TOY.X, TOY.y, SCHEMA, TOY, nets=0)

    def test_shape(self):
        other = Schema((9, 8, 1), (-1.0, 1.0), SCHEMA.classes)
        with pytest.raises(DataError, match=r"Expected test records of shape \(8, 8, 1\); got \(9, 8, 1\)"):
            score_network(TOY.X, TOY.y, SCHEMA, make_records(3, schema=other))

    def test_classes_in_another_order(self):
        contract.check_test_classes_by_name()

    def test_many_classes_are_shortened(self):
        other = Schema((8, 8, 1), (-1.0, 1.0), tuple(str(k) for k in range(12)))
        with pytest.raises(DataError, match=r"ant, bee, cat; got 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\."):
            check_test_set(SCHEMA, make_records(3, schema=other))

    @pytest.mark.parametrize("n", [0, 3])
    def test_no_known_label(self, n):
        nobody = Records(np.zeros((n, 8, 8, 1), np.float32), np.full(n, -1), SCHEMA)
        with pytest.raises(DataError, match="Expected at least one test record with a known label; got none"):
            check_test_set(SCHEMA, nobody)

    def test_an_unknown_augmentation(self):
        training = Training(
            epochs=1, learning_rate=0.1, schedule="step", network=ConvNet(width=2), strategies=("blur",)
        )
        with pytest.raises(ValueError, match="got blur"):
            train_classifier(jax.random.key(0), TOY.X, ONE_HOT, training)
