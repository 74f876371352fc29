"""Chooses a teacher, trains networks on its scores of images, and yields their accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from dpdistill.evaluation.images import Regressions
from dpdistill.evaluation.krr import teacher_of
from dpdistill.evaluation.score import Score, TestSet
from dpdistill.evaluation.scored import Bars, Nets, no_bars
from dpdistill.evaluation.student import lesson_of, score_student
from dpdistill.evaluation.teacher import Teacher
from dpdistill.method import Distilled
from dpdistill.networks.training import SLOPES, STUDENT, Classifier, Training
from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records


def choose_teacher(
    distilled: Distilled, released: Teacher | None, fits: Regressions, taught_by: str | None, bars: Bars = no_bars
) -> tuple[str, Teacher]:
    """Returns the name of the teacher and the teacher: the released classifier, or the first regression on the set.

    Args:
        distilled: the set.
        released: the released classifier, or None.
        fits: kernels and ridges of regressions on the set.
        taught_by: "classifier", "krr", or None for the classifier if there is one.
        bars: shows the progress of a regression.

    Raises:
        DataError: a regression whose kernel has no features.
    """
    if released is not None and taught_by != "krr":
        return "the released classifier", released
    (name, (kernel, ridge)), *_ = fits.items()
    if kernel.features is None:
        raise DataError(f"Expected --kernel as a kernel with features, such as scatternet: {name} cannot teach.")
    assert isinstance(distilled.schema, Schema)
    (X, y), how = distilled.support_set, {"kernel": kernel, "ridge": ridge, "targets": distilled.targets}
    with bars() as bar:
        return f"KRR on the set ({name}, ridge {ridge:g})", teacher_of(X, y, distilled.schema, progress=bar, **how)


def own_lesson(distilled: Distilled) -> tuple[np.ndarray, np.ndarray]:
    """Returns the set's training records, and their hard or soft labels."""
    (X, y), soft = distilled.train_set, distilled.soft_labels
    return X, np.eye(len(distilled.schema.classes), dtype=np.float32)[y] if soft is None else soft


def student_training(slopes: bool, epochs: int | None) -> Training:
    """Returns the training of networks on a teacher's scores.

    Args:
        slopes: also train on gradients of the scores.
        epochs: number of epochs; None for that of STUDENT.
    """
    recipe = SLOPES if slopes else STUDENT
    return recipe if epochs is None else replace(recipe, epochs=epochs)


def taught_networks(
    teacher: tuple[str, Teacher],
    pictures: tuple[str, np.ndarray],
    test: Records | TestSet,
    nets: Nets,
    training: Training,
    *,
    then: tuple[np.ndarray, np.ndarray] | None = None,
    bars: Bars = no_bars,
    keep: Callable[[Classifier], None] | None = None,
) -> Iterator[tuple[str, str, Score]]:
    """Yields (title, description of teacher and images, score) of networks trained on a teacher's scores.

    Args:
        teacher: its name, and the teacher.
        pictures: description of the images, and the images in [-1, 1].
        test: held-out records.
        nets: networks to train.
        training: options of their training.
        then: records and class probabilities for further training: `own_lesson`.
        bars: shows the progress of each.
        keep: receives each trained network.
    """
    (by, teaches), (source, unlabelled) = teacher, pictures
    by = f"taught by {by} on {source}" + (" and their slopes" if training.jacobian else "")
    by += "" if training.epochs == STUDENT.epochs else f" (epochs: {training.epochs})"
    by += "" if then is None else ", then trained on the set"
    with bars() as bar:
        lesson = lesson_of(teaches, unlabelled, slopes=training.jacobian > 0, progress=bar)
    for network in nets.architectures:
        with bars() as bar:
            score = score_student(
                lesson, test, training=replace(training, network=network), nets=nets.number, flip=nets.flip,
                seed=nets.seed, then=then, progress=bar, keep=keep,
            )  # fmt: skip
        yield network.title, by, score
