"""Score a network that has learned a teacher's scores of pictures, and has seen no label."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np

from dpdistill.evaluation.score import Score, accuracy, scaled
from dpdistill.evaluation.teacher import Teacher
from dpdistill.kernels.ridge import centred, standardised
from dpdistill.method import Progress, no_progress
from dpdistill.networks.training import FURTHER, STUDENT, Slopes, Training, train_classifier
from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records
from dpdistill.storage.test_set import check_test_set


class Lesson(NamedTuple):
    """What a teacher says of pictures, made once for any number of networks: `lesson_of`.

    Args:
        schema: of the teacher.
        X: pictures in [-1, 1], (n, h, w, c).
        targets: the teacher's scores of them, centred over the classes, of deviation 1, (n, classes).
        slopes: how the margin between the two likeliest classes changes with the pixels; None: not asked for.
    """

    schema: Schema
    X: np.ndarray
    targets: np.ndarray
    slopes: Slopes | None = None


def lesson_of(teacher: Teacher, X: np.ndarray, *, slopes: bool = False, progress: Progress = no_progress) -> Lesson:
    """A teacher's scores of pictures, and their slopes where they are asked for.

    Args:
        teacher: a released classifier, or kernel ridge regression on a set.
        X: pictures in [-1, 1], (n, h, w, c); nobody's records, their labels are not asked for.
        slopes: also how the margin between the two likeliest classes changes with the pixels.
        progress: told the number of chunks done.

    Raises:
        DataError: pictures of another shape, or slopes of a teacher with one class alone.
    """
    if not slopes:
        return Lesson(teacher.schema, X, standardised(teacher(X, progress=progress)))
    if len(teacher.schema.classes) < 2:
        raise DataError("Expected a teacher of two classes and more with slopes: they are of the margin between two.")
    scores, learned = margin_slopes(teacher, X, progress)
    return Lesson(teacher.schema, X, standardised(scores), learned)


def score_student(
    lesson: Lesson,
    test: Records,
    *,
    nets: int = 1,
    training: Training = STUDENT,
    flip: bool = False,
    then: tuple[np.ndarray, np.ndarray] | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Score:
    """Accuracy on test records of networks that learn a teacher's scores of pictures, and then a set of its own.

        min over nets of  mean_i || net(x_i) - t_i ||^2 / classes
                                 + jacobian || grad_i (w_i . net) - grad_i (w_i . t) ||^2,
        t_i = (s_i - mean s_i) / deviation,   s_i = phi(x_i) classifier,   grad_i: by what phi sees of x_i's pixels,
        w_i: 1 for the likeliest class, -1 for the second, times what makes mean_i || grad_i (w_i . t) ||^2 = 1

    How the margin between two classes changes with every pixel says more than the scores of one picture, for which
    teacher and net have to be differentiated once each: Srinivas & Fleuret, 2018 (Jacobian matching).

    Args:
        lesson: pictures and the teacher's scores of them, with slopes where `training.jacobian` > 0.
        test: records of the same shape and classes; at least one.
        nets: independent nets, >= 1.
        training: how they are trained, on scores.
        flip: add mirror images, under the same scores.
        then: records in [-1, 1], (m, h, w, c), and a probability of every class for each, (m, classes): networks are
            trained further on them as `FURTHER` says, for what signals tell and what a kernel knows are two things.
        seed: of the nets.
        progress: told the number of nets done.

    Raises:
        DataError: a test set of another shape.
        ValueError: nets < 1, or a training that learns slopes of a lesson without any.
    """
    if nets < 1:
        raise ValueError(f"Expected nets={nets} >= 1.")
    if training.jacobian and lesson.slopes is None:
        raise ValueError(f"Expected a lesson with slopes: the training has jacobian={training.jacobian:g}.")
    check_test_set(lesson.schema, test)
    training = replace(training.with_flip() if flip else training, scores=True)
    slopes = lesson.slopes if training.jacobian else None
    further = replace(FURTHER.with_flip() if flip else FURTHER, network=training.network)
    X_test, y_test = scaled(test)
    accuracies = []
    for k in range(nets):
        progress("training students", k, nets)
        key = jax.random.fold_in(jax.random.key(seed), k)
        net = train_classifier(key, lesson.X, lesson.targets, training, slopes)
        if then is not None:
            net = train_classifier(jax.random.fold_in(key, 1), *then, further, params=net.params)
        accuracies.append(100.0 * accuracy(net, X_test, y_test))
    progress("training students", nets, nets)
    return Score(tuple(accuracies))


def margin_slopes(teacher: Teacher, X: np.ndarray, progress: Progress = no_progress) -> tuple[np.ndarray, Slopes]:
    """A teacher's scores, and how the margin between its two likeliest classes changes with the pixels.

    Args:
        teacher: whose scores they are.
        X: pictures in [-1, 1], (n, h, w, c).
        progress: told the number of chunks done.

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
    """The classes of the largest score and of the second, (n, 2)."""
    return np.argsort(-scores, 1, kind="stable")[:, :2]


def margin_weights(scores: np.ndarray) -> np.ndarray:
    """Weights (n, classes) of scores whose sum is the margin of the likeliest class over the second."""
    identity, pairs = np.eye(scores.shape[1], dtype=np.float32), likeliest(scores)
    return identity[pairs[:, 0]] - identity[pairs[:, 1]]
