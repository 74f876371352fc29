"""Networks that learn what a teacher says of pictures: which teacher, which pictures, how, and their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from dpdistill.evaluation.score import Score, accuracy, scaled
from dpdistill.evaluation.teacher import Teacher, teacher_of
from dpdistill.evaluation.test_set import check_test_set
from dpdistill.folder.save import read_generator
from dpdistill.kernels.ridge import centred, standardised
from dpdistill.method import Distilled, Progress, no_progress
from dpdistill.networks.mixing import mix_pictures
from dpdistill.networks.training import FURTHER, SLOPES, STUDENT, Slopes, Training, train_classifier
from dpdistill.public_images.pictures import draw_pictures
from dpdistill.recipe.names import kinds_of
from dpdistill.schema import DataError, Schema
from dpdistill.storage.files import show
from dpdistill.storage.records import Records


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


def teacher_named(
    distilled: Distilled, released: Teacher | None, fits: dict, taught_by: str | None, progress: Progress = no_progress
) -> tuple[str, Teacher]:
    """What networks learn from, by name: the released classifier, or the first regression on the set.

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
    return f"KRR on the set ({name}, ridge {ridge:g})", teacher_of(X, y, distilled.schema, progress=progress, **how)


def own_lesson(distilled: Distilled) -> tuple[np.ndarray, np.ndarray]:
    """The records of the set that networks are trained on, and their labels: hard or soft."""
    (X, y), soft = distilled.train_set, distilled.soft_labels
    return X, np.eye(len(distilled.schema.classes), dtype=np.float32)[y] if soft is None else soft


def training_of(slopes: bool, epochs: int | None) -> Training:
    """How networks learn from a teacher."""
    recipe = SLOPES if slopes else STUDENT
    return recipe if epochs is None else replace(recipe, epochs=epochs)


def taught(
    teacher: tuple[str, Teacher],
    pictures: tuple[str, np.ndarray],
    test: Records,
    networks: Iterable[Any],
    how: Training,
    bar: Callable[[], AbstractContextManager[Progress]] = lambda: nullcontext(no_progress),
    **more: Any,
) -> Iterator[tuple[str, str, Score]]:
    """(title, by whom it was taught on what, score) of networks that learn what a teacher says of pictures.

    With `then`, the set's own records and labels, they are trained further on those. `bar` makes what is told of
    progress, for the lesson and for each network.
    """
    (by, teaches), (source, unlabelled) = teacher, pictures
    by = f"taught by {by} on {source}" + (" and their slopes" if how.jacobian else "")
    by += "" if how.epochs == STUDENT.epochs else f" (epochs: {how.epochs})"
    by += "" if more.get("then") is None else ", then trained on the set"
    with bar() as progress:
        lesson = lesson_of(teaches, unlabelled, slopes=how.jacobian > 0, progress=progress)
    for network in networks:
        with bar() as progress:
            score = score_student(lesson, test, training=replace(how, network=network), progress=progress, **more)
        yield network.title, by, score


def generate(folder: str, n: int, distilled: Distilled, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """n records of a folder's generator in [-1, 1], and their classes.

    Raises:
        DataError: the folder has no generator, or a damaged one.
    """
    arrays = read_generator(folder)
    from dpdistill.methods.generator import Generator

    try:
        generator = Generator.from_arrays(arrays, distilled.schema)
    except ValueError as error:
        raise DataError(f"{show(folder)}: {error}") from None
    return generator.sample(n, seed)


def make_pictures(pictures: str, n: int, folder: str, distilled: Distilled, seed: int) -> np.ndarray:
    """n pictures in [-1, 1] of the shape of a synthetic set's images: of one kind, or of several in equal parts.

    All parts have one public seed: mixed pictures beside drawn ones are made of the same.
    """
    kinds = kinds_of(pictures)

    def of(kind: str, n: int) -> np.ndarray:
        if kind == "generated":
            return generate(folder, n, distilled, seed)[0]
        X = draw_pictures(n, distilled.schema.shape, seed)
        return mix_pictures(X, distilled.train_set[0], seed) if kind == "mixed" else X

    sizes = [(n + i) // len(kinds) for i in range(len(kinds))]
    parts = [of(kind, size) for kind, size in zip(kinds, sizes, strict=True) if size]
    return parts[0] if len(parts) == 1 else np.random.default_rng(seed).permutation(np.concatenate(parts))
