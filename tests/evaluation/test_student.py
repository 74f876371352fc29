"""A network that learns a released classifier's scores, and nothing else."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from chosen_tests import few
from contract import SCHEMA, toy_records
from contract.float32 import assert_close_float32

from dpdistill.evaluation import student
from dpdistill.evaluation.architectures import ARCHITECTURES
from dpdistill.evaluation.student import lesson_of, margin_slopes, score_student
from dpdistill.evaluation.teacher import Teacher
from dpdistill.features.gamma_correction import GammaCorrected
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import centred, standardised
from dpdistill.networks import training as train
from dpdistill.networks.network import ConvNet
from dpdistill.networks.training import (
    FURTHER,
    MIXUP,
    MUON,
    MUON_RATE,
    QUICK,
    SLOPES,
    STUDENT,
    Slopes,
    Training,
    _batch,
    optimiser,
    train_classifier,
)
from dpdistill.schema import DataError


@dataclass(frozen=True)
class Pixels:
    """The pixels themselves."""

    def __call__(self, X: Any) -> Any:
        return X.reshape(X.shape[0], -1)


RNG = np.random.default_rng(0)
TOYS, TEST = toy_records(300, seed=1), toy_records(200, seed=2)
MEANS = np.stack([TOYS.X[TOYS.y == k].mean(0).ravel() for k in range(3)], 1).astype(np.float32)
TEACHER = Teacher(MEANS - MEANS.mean(1, keepdims=True), FeatureKernel(Pixels()), SCHEMA)
PICTURES = RNG.uniform(-1, 1, (600, 8, 8, 1)).astype(np.float32)
TINY = replace(STUDENT, epochs=25, learning_rate=0.01, network=ConvNet(width=8), batch=64)


def test_scores_are_products_with_the_classifier():
    rows = PICTURES.reshape(600, -1)
    expected, scale = rows @ TEACHER.classifier, np.abs(rows) @ np.abs(TEACHER.classifier)
    assert_close_float32(TEACHER(PICTURES), expected, terms=64, scale=scale)
    assert_close_float32(TEACHER(PICTURES[:7], chunk=3), expected[:7], terms=64, scale=scale[:7])
    with pytest.raises(DataError, match=r"Expected images of shape \('n', 8, 8, 1\), n >= 1; got \(2, 8, 9, 1\)"):
        TEACHER(np.zeros((2, 8, 9, 1)))


def test_one_class_alone_has_no_slopes():
    one = Teacher(TEACHER.classifier[:, :1], TEACHER.kernel, replace(SCHEMA, classes=SCHEMA.classes[:1]))
    with pytest.raises(DataError, match="Expected a teacher of at least two classes with slopes"):
        lesson_of(one, PICTURES[:5], slopes=True)


@pytest.mark.slow
def test_a_student_goes_on_to_the_set_itself(monkeypatch):
    """Of a teacher that takes classes for each other, and of a set that does not."""
    turned, own = replace(TEACHER, classifier=TEACHER.classifier[:, [1, 2, 0]]), (TOYS.X[:60], np.eye(3)[TOYS.y[:60]])
    lesson, how = lesson_of(turned, PICTURES), {"training": TINY, "nets": 2}
    assert score_student(lesson, TEST, **how).mean < 40
    assert score_student(lesson, TEST, then=own, **how).mean > 90
    # In steps of nothing they remain as they were taught.
    monkeypatch.setattr(student, "FURTHER", replace(FURTHER, learning_rate=0.0))
    assert score_student(lesson, TEST, then=own, **how) == score_student(lesson, TEST, **how)


def test_what_all_classes_share_says_nothing():
    scores = RNG.normal(size=(5, 3)).astype(np.float32)
    assert_close_float32(centred(scores + 7), centred(scores), terms=3 + 2, scale=np.abs(scores).max() + 7)
    assert_close_float32(centred(scores).sum(1), np.zeros(5), terms=3 + 2 + 3, scale=np.abs(scores).sum(1))


@pytest.mark.slow
def test_a_student_of_noise_finds_the_classes():
    (accuracy,) = score_student(lesson_of(TEACHER, PICTURES), TEST, training=TINY).accuracies
    turned = replace(TEACHER, classifier=TEACHER.classifier[:, [1, 2, 0]])
    (other,) = score_student(lesson_of(turned, PICTURES), TEST, training=TINY).accuracies
    assert accuracy > 90.0
    assert other < 30.0


def test_the_scale_of_the_scores_does_not_count():
    larger = replace(TEACHER, classifier=100 * TEACHER.classifier)
    short = replace(TINY, epochs=2)
    found = [score_student(lesson_of(t, PICTURES), TEST, training=short).mean for t in (TEACHER, larger)]
    assert found[0] == pytest.approx(found[1], abs=1.5)


@dataclass(frozen=True)
class Squares:
    """The squares of the pixels."""

    def __call__(self, X: Any) -> Any:
        return (X * X).reshape(X.shape[0], -1)


def test_gradients_are_those_of_the_weighted_scores():
    curved = Teacher(TEACHER.classifier, FeatureKernel(Squares()), SCHEMA)
    weigh = lambda scores: np.sin(3 * scores[:, ::-1])  # noqa: E731
    scores, sizes = curved(PICTURES[:7]), np.abs(curved.classifier)
    expected = 2 * PICTURES[:7] * (weigh(scores) @ curved.classifier.T).reshape(7, 8, 8, 1)
    # Scores of another rounding change the weights by up to three times as much, and these the slopes.
    scale = np.square(PICTURES[:7]).reshape(7, -1) @ sizes
    steepest = 2 * np.abs(PICTURES[:7]) * (3 * scale @ sizes.T).reshape(7, 8, 8, 1)
    for found, slopes in (curved.sloped(PICTURES[:7], weigh), curved.sloped(PICTURES[:7], weigh, chunk=3)):
        assert_close_float32(found, scores, terms=64, scale=scale)
        assert_close_float32(slopes, expected, terms=64 + 3, scale=steepest)
    with pytest.raises(DataError, match="Expected images of shape"):
        curved.sloped(np.zeros((2, 8, 9, 1)), weigh)


def test_slopes_are_of_the_margin_between_the_likeliest_classes():
    scores = TEACHER(PICTURES)
    found, (weights, gradients, _) = margin_slopes(TEACHER, PICTURES)
    rows = np.abs(PICTURES).reshape(600, -1)
    assert_close_float32(found, scores, terms=64, scale=rows @ np.abs(TEACHER.classifier))
    order = scores.argsort(1)
    share = weights[0].max()
    rows = np.arange(len(scores))
    assert_close_float32(weights[rows, order[:, 2]], np.full(len(rows), share), terms=4)
    assert_close_float32(weights[rows, order[:, 1]], np.full(len(rows), -share), terms=4)
    np.testing.assert_array_equal(weights[rows, order[:, 0]], 0)
    assert np.square(gradients).sum((1, 2, 3)).mean() == pytest.approx(1.0, rel=1e-4)
    # Those of the targets: the scale of the scores does not count.
    linear = (weights @ TEACHER.classifier.T).reshape(gradients.shape) / centred(scores).std()
    np.testing.assert_allclose(gradients, linear, rtol=1e-4, atol=1e-7)
    _, louder = margin_slopes(replace(TEACHER, classifier=100 * TEACHER.classifier), PICTURES)
    np.testing.assert_allclose(louder.gradients, gradients, rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(louder.weights, weights, rtol=1e-3)


@pytest.mark.slow
def test_few_pictures_teach_more_with_their_slopes():
    few, others = PICTURES[:40], PICTURES[100:]
    targets, slopes = standardised(TEACHER(few)), margin_slopes(TEACHER, few)[1]
    expected = standardised(TEACHER(others))
    errors = []
    for jacobian in (0.0, 2.0):
        how = replace(TINY, epochs=100, jacobian=jacobian)
        net = train_classifier(jax.random.key(0), few, targets, how, slopes)
        gradients = jax.grad(lambda X, n=net: jnp.vdot(slopes.weights, n(X)))(few)
        errors.append((np.square(net(others) - expected).mean(), np.square(gradients - slopes.gradients).sum()))
    (score_without, slope_without), (score_with, slope_with) = errors
    assert slope_with < 0.5 * slope_without
    assert score_with < 0.5 * score_without


ROOTED = Teacher(TEACHER.classifier, FeatureKernel(GammaCorrected(Pixels())), SCHEMA)


def test_slopes_of_a_teacher_that_sees_a_root_of_the_light_are_by_what_it_sees():
    scores = ROOTED(PICTURES)
    _, (weights, gradients, units) = margin_slopes(ROOTED, PICTURES)
    # Of what it sees the scores are linear: the gradient is that of the classifier, whatever the light.
    linear = (weights @ ROOTED.classifier.T).reshape(gradients.shape) / centred(scores).std()
    np.testing.assert_allclose(gradients, linear, rtol=2e-3, atol=1e-6)
    assert np.square(gradients).sum((1, 2, 3)).mean() == pytest.approx(1.0, rel=1e-4)
    by_pixel = ROOTED.sloped(PICTURES, lambda _: weights / centred(scores).std(), chunk=600)[1]
    np.testing.assert_allclose(by_pixel * units, gradients, rtol=2e-3, atol=1e-6)
    assert TEACHER.units(PICTURES) is None
    assert margin_slopes(TEACHER, PICTURES)[1].units is None


def test_a_student_compares_slopes_in_the_teachers_units():
    few, scores = PICTURES[:40], ROOTED(PICTURES[:40])
    slopes = margin_slopes(ROOTED, few)[1]
    errors = []
    for given in (slopes, slopes._replace(units=None)):
        net = train_classifier(
            jax.random.key(0), few, standardised(scores), replace(TINY, epochs=60, jacobian=2.0), given
        )
        by_pixel = jax.grad(lambda X, n=net: jnp.vdot(slopes.weights, n(X)))(few)
        errors.append(np.square(by_pixel * slopes.units - slopes.gradients).sum())
    assert errors[0] < 0.7 * errors[1]


def test_slopes_that_are_not_asked_for_change_nothing():
    few, scores = PICTURES[:40], TEACHER(PICTURES[:40])
    short = replace(TINY, epochs=2)
    plain, given = (
        train_classifier(jax.random.key(0), few, standardised(scores), short, slopes)
        for slopes in (None, margin_slopes(TEACHER, few)[1])
    )
    np.testing.assert_array_equal(plain(few), given(few))


def test_the_slope_of_a_mirror_image_is_mirrored():
    slopes = Slopes(np.ones((64, 3), np.float32), PICTURES[:64], PICTURES[:64])
    images, _, turned = _batch(
        jax.random.key(3), jnp.asarray(0), PICTURES[:64], np.ones((64, 3)), TINY.with_flip(), 10, slopes
    )
    np.testing.assert_array_equal(images, turned.gradients)
    np.testing.assert_array_equal(images, turned.units)
    kept, mirrored = (
        np.abs(np.asarray(images)[:, None] - each).max((2, 3, 4)).min(1) < 1e-4
        for each in (PICTURES[:64], PICTURES[:64, :, ::-1])
    )
    np.testing.assert_array_equal(kept, ~mirrored)
    assert 16 < kept.sum() < 48


HOW = {"slopes": SLOPES, "scores": STUDENT, "labels": QUICK, "mixtures": MIXUP, "muon": MUON}


@pytest.mark.slow
@pytest.mark.parametrize("name", few(HOW, "slopes"))
def test_one_loop_of_an_accelerator_learns_what_single_steps_learn(name, monkeypatch):
    how = HOW[name]
    training = replace(how, epochs=3, batch=8, network=ConvNet(width=8), strategies=("flip",))
    X = np.asarray(jax.random.uniform(jax.random.key(0), (20, 8, 8, 1), minval=-1.0))
    Y = np.asarray(jax.nn.softmax(jax.random.normal(jax.random.key(1), (20, 3))))
    by_pixel = np.asarray(jax.random.normal(jax.random.key(2), (2, *X.shape)))
    slopes = Slopes(Y - Y.mean(1, keepdims=True), *by_pixel)
    slopes = slopes if how is SLOPES else None
    singly = train_classifier(jax.random.key(3), X, Y, training, slopes)
    monkeypatch.setattr(train, "STEPS_A_CALL", 4)  # nine steps: two whole calls, and one of a single step
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(train, "_steps", None)  # single steps are not asked for
    at_once = train_classifier(jax.random.key(3), X, Y, training, slopes)
    np.testing.assert_allclose(at_once(X), singly(X), rtol=1e-3, atol=1e-4)
    untrained = train_classifier(jax.random.key(3), X, Y, replace(training, epochs=1), slopes)
    assert np.abs(untrained(X) - singly(X)).max() > 1e-2


def test_muon_turns_kernels_at_one_speed_in_all_directions_and_leaves_the_rest_to_adam():
    params = {"kernel": jnp.zeros((3, 3, 4, 8)), "bias": jnp.zeros(8), "linear": jnp.zeros((8, 3))}
    uneven = np.linspace(0.1, 3.0, 8)  # singular values of the gradient
    kernel = np.linalg.qr(RNG.normal(size=(36, 8)))[0] * uneven
    gradients = {name: jnp.asarray(RNG.normal(size=leaf.shape), jnp.float32) for name, leaf in params.items()}
    gradients["kernel"] = jnp.asarray(kernel.reshape(3, 3, 4, 8), jnp.float32)
    how = Training(epochs=1, learning_rate=2e-3, schedule="step", optimiser="muon", weight_decay=0.0)
    taken, adam = optimiser(how, 10), optax.nadamw(2e-3, weight_decay=0.0)
    updates, of_adam = (each.update(gradients, each.init(params), params)[0] for each in (taken, adam))
    for name in ("bias", "linear"):
        np.testing.assert_allclose(updates[name], of_adam[name], rtol=1e-5)
    speeds = np.linalg.svd(np.asarray(updates["kernel"]).reshape(36, 8), compute_uv=False) / MUON_RATE
    assert speeds.min() > 0.6
    assert speeds.max() < 1.3
    assert np.vdot(updates["kernel"], gradients["kernel"]) < 0


@pytest.mark.parametrize("name", few(ARCHITECTURES, "convnet", "mlp"))
def test_muon_takes_the_kernels_of_every_architecture(name):
    network = ARCHITECTURES[name]
    network = replace(network, width=32) if hasattr(network, "width") and network.title != "ViT" else network
    params = network.init((32, 32, 3), 4)
    how = replace(TINY, optimiser="muon", schedule="step")  # a warm-up's first step is zero
    gradients = jax.tree.map(lambda leaf: RNG.choice([-2.0, -1.0, 1.0], leaf.shape).astype(np.float32), params)
    updates, _ = optimiser(how, 10).update(gradients, optimiser(how, 10).init(params), params)
    for update, gradient in zip(jax.tree.leaves(updates), jax.tree.leaves(gradients), strict=True):
        assert np.vdot(update, gradient) < 0
        of_adam = np.ptp(np.abs(update)) < 1e-3 * np.abs(update).max()  # whose first step is as large everywhere
        assert of_adam == (gradient.ndim != 4)


@pytest.mark.slow
def test_muon_learns_in_fewer_steps_than_adam():
    few = replace(TINY, epochs=4, learning_rate=2e-3)
    lesson = lesson_of(TEACHER, PICTURES)
    muon, adam = (
        score_student(lesson, TEST, nets=3, training=replace(few, optimiser=o)).mean for o in ("muon", "adam")
    )
    assert muon > adam + 5.0


def test_an_optimiser_that_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="Expected optimiser='adamw' among sgd, adam, muon"):
        replace(TINY, optimiser="adamw")


@pytest.mark.parametrize("wrong", [{"mixup": 0.3}, {"strategies": ("crop",)}, {"scores": False}], ids=str)
def test_slopes_are_refused_where_pictures_change(wrong):
    slopes = Slopes(np.ones((4, 3), np.float32), PICTURES[:4])
    how = replace(TINY, jacobian=2.0, **wrong)
    with pytest.raises(ValueError, match="Expected slopes with scores and no other augmentation than mirror images"):
        train_classifier(jax.random.key(0), PICTURES[:4], np.ones((4, 3), np.float32), how, slopes)


def test_a_lesson_holds_slopes_where_they_are_asked_for():
    few = PICTURES[:40]
    plain, sloped = lesson_of(TEACHER, few), lesson_of(TEACHER, few, slopes=True)
    assert plain.slopes is None
    np.testing.assert_array_equal(plain.targets, standardised(TEACHER(few)))
    np.testing.assert_array_equal(sloped.targets, standardised(TEACHER(few)))
    scores, expected = margin_slopes(TEACHER, few)
    np.testing.assert_array_equal(sloped.targets, standardised(scores))
    np.testing.assert_array_equal(sloped.slopes.gradients, expected.gradients)
    how = replace(TINY, epochs=2)
    for lesson in (plain, sloped):
        assert score_student(lesson, TEST, training=how) == score_student(plain, TEST, training=how)


def test_refusals():
    lesson = lesson_of(TEACHER, PICTURES[:4])
    with pytest.raises(ValueError, match="Expected nets=0 >= 1"):
        score_student(lesson, TEST, nets=0)
    with pytest.raises(ValueError, match=r"Expected a lesson with slopes: the training has jacobian=2\."):
        score_student(lesson, TEST, training=replace(TINY, jacobian=2.0))
    with pytest.raises(DataError, match="Expected images of shape"):
        lesson_of(TEACHER, np.zeros((2, 8, 9, 1)))
