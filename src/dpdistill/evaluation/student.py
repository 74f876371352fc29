"""Scores networks trained on a teacher's scores of images, without labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np

from dpdistill.evaluation.score import Score, TestSet, score_nets
from dpdistill.evaluation.teacher import Teacher
from dpdistill.kernels.ridge import centred, standardised
from dpdistill.method import Progress, no_progress
from dpdistill.networks.training import FURTHER, STUDENT, AfterStep, Classifier, Slopes, Training, train_classifier
from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records


class Lesson(NamedTuple):
    """A teacher's scores of images, computed once for any number of networks by `lesson_of`.

    Args:
        schema: schema of the teacher.
        X: pictures in [-1, 1], (n, h, w, c).
        targets: the teacher's scores, centred over the classes, with standard deviation 1, (n, classes).
        slopes: gradients of the margin between the two likeliest classes by the pixels; None if not computed.
    """

    schema: Schema
    X: np.ndarray
    targets: np.ndarray
    slopes: Slopes | None = None


def lesson_of(teacher: Teacher, X: np.ndarray, *, slopes: bool = False, progress: Progress = no_progress) -> Lesson:
    """Returns a teacher's scores of images, and their slopes on request.

    Args:
        teacher: a released classifier, or kernel ridge regression on a set.
        X: public images in [-1, 1], (n, h, w, c), without labels.
        slopes: also compute gradients of the margin between the two likeliest classes by the pixels.
        progress: receives the number of chunks done.

    Raises:
        DataError: pictures of another shape, or slopes of a teacher with one class alone.
    """
    if not slopes:
        return Lesson(teacher.schema, X, standardised(teacher(X, progress=progress)))
    if len(teacher.schema.classes) < 2:
        raise DataError("Expected a teacher of at least two classes with slopes, which are of the margin between two.")
    scores, learned = margin_slopes(teacher, X, progress)
    return Lesson(teacher.schema, X, standardised(scores), learned)


def score_student(
    lesson: Lesson,
    test: Records | TestSet,
    *,
    nets: int = 1,
    training: Training = STUDENT,
    flip: bool = False,
    then: tuple[np.ndarray, np.ndarray] | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
    keep: Callable[[Classifier], None] | None = None,
) -> Score:
    """Returns the test accuracy of networks trained on a teacher's scores of images, then on a set.

        min over nets of  mean_i || net(x_i) - t_i ||^2 / classes
                                 + jacobian || grad_i (w_i . net) - grad_i (w_i . t) ||^2,
        t_i = (s_i - mean s_i) / deviation,   s_i = phi(x_i) classifier,   grad_i: by what phi sees of x_i's pixels,
        w_i: 1 for the likeliest class, -1 for the second, times what makes mean_i || grad_i (w_i . t) ||^2 = 1

    Gradients of the margin carry more information per image than scores, at the cost of differentiating teacher and
    net once each: Srinivas & Fleuret, 2018 (Jacobian matching).

    Args:
        lesson: images and the teacher's scores, with slopes if `training.jacobian` > 0.
        test: records of the same shape and classes; at least one.
        nets: number of independent nets, >= 1.
        training: options of the training on scores.
        flip: add mirror images, under the same scores.
        then: records in [-1, 1], (m, h, w, c), and probabilities of the classes for each, (m, classes), for further
            training by `FURTHER`: the set's signals and the teacher's kernel hold different information.
        seed: seed of the nets.
        progress: receives the number of steps done on the teacher's scores, for each net.
        keep: receives each trained net.

    Raises:
        DataError: a test set of another shape.
        ValueError: nets < 1, or a training that learns slopes of a lesson without any.
    """
    if training.jacobian and lesson.slopes is None:
        raise ValueError(f"Expected a lesson with slopes: the training has jacobian={training.jacobian:g}.")
    training = replace(training.with_flip() if flip else training, scores=True)
    slopes = lesson.slopes if training.jacobian else None
    further = replace(FURTHER.with_flip() if flip else FURTHER, network=training.network)

    def train(key: jax.Array, after_step: AfterStep) -> Classifier:
        net = train_classifier(key, lesson.X, lesson.targets, training, slopes, after_step=after_step)
        if then is None:
            return net
        return train_classifier(jax.random.fold_in(key, 1), *then, further, params=net.params)

    return score_nets(train, lesson.schema, test, nets, seed, progress, "student", keep)


def margin_slopes(teacher: Teacher, X: np.ndarray, progress: Progress = no_progress) -> tuple[np.ndarray, Slopes]:
    """Returns a teacher's scores, and gradients of the margin between the two likeliest classes by the pixels.

    Args:
        teacher: the teacher.
        X: pictures in [-1, 1], (n, h, w, c).
        progress: receives the number of chunks done.

    Returns:
        Scores (n, classes); slopes of them in units of their deviation and of the teacher's pixels (`Teacher.units`),
        in total such that squares have mean norm 1.
    """
    scores, gradients = teacher.sloped(X, margin_weights, progress=progress)
    units = teacher.units(X)
    gradients = gradients if units is None else gradients * units
    norm = max(float(np.sqrt(np.square(gradients).sum((1, 2, 3)).mean())), 1e-12)
    deviation = max(float(centred(scores).std()), 1e-12)
    return scores, Slopes(margin_weights(scores) * (deviation / norm), gradients / norm, units)


def likeliest(scores: np.ndarray) -> np.ndarray:
    """Returns the classes of the largest and second largest score, (n, 2)."""
    return np.argsort(-scores, 1, kind="stable")[:, :2]


def margin_weights(scores: np.ndarray) -> np.ndarray:
    """Returns weights (n, classes) whose weighted sum of scores is the margin of the two likeliest classes."""
    identity, pairs = np.eye(scores.shape[1], dtype=np.float32), likeliest(scores)
    return identity[pairs[:, 0]] - identity[pairs[:, 1]]
