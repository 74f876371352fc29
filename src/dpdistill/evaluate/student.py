"""Score a network that has learned a teacher's scores of pictures, and has seen no label."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np

from dpdistill.data.records import Records
from dpdistill.data.test_set import check_test_set
from dpdistill.encode.train import STUDENT, Training, train_classifier
from dpdistill.evaluate.score import Score, accuracy, scaled
from dpdistill.evaluate.teacher import Teacher
from dpdistill.kernels.ridge import standardised
from dpdistill.method import Progress, no_progress


def score_student(
    teacher: Teacher,
    X: np.ndarray,
    test: Records,
    *,
    nets: int = 1,
    training: Training = STUDENT,
    flip: bool = False,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Score:
    """Accuracy on test records of networks that learn the teacher's scores of pictures.

        min over nets of  mean_i || net(x_i) - (s_i - mean s_i) / deviation ||^2,   s_i = phi(x_i) classifier

    Args:
        teacher: a released classifier, or kernel ridge regression on a set.
        X: pictures in [-1, 1], (n, h, w, c); nobody's records, their labels are not asked for.
        test: records of the same shape and classes; at least one.
        nets: independent nets, >= 1.
        training: how they are trained, on scores.
        flip: add mirror images, under the same scores.
        seed: of the nets.
        progress: told the number of nets done.

    Raises:
        DataError: pictures or a test set of another shape.
        ValueError: nets < 1.
    """
    if nets < 1:
        raise ValueError(f"Expected nets={nets} >= 1.")
    check_test_set(teacher.schema, test)
    targets = standardised(teacher(X, progress=progress))
    training = training.with_flip() if flip else training
    X_test, y_test = scaled(test)
    accuracies = []
    for k in range(nets):
        progress("training students", k, nets)
        net = train_classifier(jax.random.fold_in(jax.random.key(seed), k), X, targets, replace(training, scores=True))
        accuracies.append(100.0 * accuracy(net, X_test, y_test))
    progress("training students", nets, nets)
    return Score(tuple(accuracies))
