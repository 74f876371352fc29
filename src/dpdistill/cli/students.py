"""Networks that learn what a teacher says of pictures: which teacher, which pictures, how, and their scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dpdistill.cli.pictures import kinds_of, make_pictures
from dpdistill.cli.terminal import Bar, say
from dpdistill.schema import DataError


def pictures_of(source: str, number: int, folder: str, distilled: Any, seed: int) -> tuple[str, Any]:
    """Pictures for a released classifier to score, in [-1, 1], and what they are."""
    from dpdistill.evaluation.score import scaled
    from dpdistill.sources.load import load

    if kinds_of(source):
        return f"{number:,} {source} pictures", make_pictures(source, number, folder, distilled, seed)
    # Neither their number nor their place: they may be private, and scores may be added to the shared folder.
    facts = distilled.schema
    return "pictures of the evaluator", scaled(load(source, "train", like=facts))[0]


def teacher_named(distilled: Any, released: Any, fits: dict, taught_by: str | None) -> tuple[str, Any]:
    """What networks learn from, by name: the released classifier, or the first regression on the set."""
    from dpdistill.evaluation import teacher_of

    if released is not None and taught_by != "krr":
        return "the released classifier", released
    (name, (kernel, ridge)), *_ = fits.items()
    if kernel.features is None:
        raise DataError(f"Expected --kernel as a kernel with features, such as scatternet: {name} cannot teach.")
    (X, y), how = distilled.support_set, {"kernel": kernel, "ridge": ridge, "targets": distilled.targets}
    with Bar() as bar:
        return f"KRR on the set ({name}, ridge {ridge:g})", teacher_of(X, y, distilled.schema, progress=bar, **how)


def own_lesson(distilled: Any) -> tuple[Any, Any]:
    """The records of the set that networks are trained on, and their labels: hard or soft."""
    import numpy as np

    (X, y), soft = distilled.train_set, distilled.soft_labels
    return X, np.eye(len(distilled.schema.classes), dtype=np.float32)[y] if soft is None else soft


def training_of(slopes: bool, epochs: int | None) -> Any:
    """How networks learn from a teacher."""
    from dpdistill.evaluation import SLOPES, STUDENT

    recipe = SLOPES if slopes else STUDENT
    return recipe if epochs is None else replace(recipe, epochs=epochs)


def taught(
    teacher: tuple[str, Any], pictures: tuple[str, Any], test: Any, networks: list, how: Any, **more: Any
) -> Iterator[tuple[str, str, Any]]:
    """(title, by whom it was taught on what, score) of networks that learn what a teacher says of pictures.

    With `then`, the set's own records and labels, they are trained further on those.
    """
    from dpdistill.evaluation import STUDENT, lesson_of, score_student

    (by, teaches), (source, unlabelled) = teacher, pictures
    by = f"taught by {by} on {source}" + (" and their slopes" if how.jacobian else "")
    by += "" if how.epochs == STUDENT.epochs else f" (epochs: {how.epochs})"
    by += "" if more.get("then") is None else ", then trained on the set"
    with Bar() as bar:
        lesson = lesson_of(teaches, unlabelled, slopes=how.jacobian > 0, progress=bar)
    for network in networks:
        with Bar() as bar:
            score = score_student(lesson, test, training=replace(how, network=network), progress=bar, **more)
        yield network.title, by, score


def student_scores(
    teacher: tuple[str, Any] | None, pictures: tuple[str, Any] | None, test: Any, networks: list, how: Any, **more: Any
) -> dict:
    """Scores of networks that learn what a teacher says of pictures; none without either."""
    if teacher is None or pictures is None:
        return {}
    scores = {}
    for title, by, score in taught(teacher, pictures, test, networks, how, **more):
        what = f"{title} accuracy, {by}"
        say(f"{what}: {score.mean:.2f} %")
        scores[f"{what}, %"] = round(score.mean, 2)
    return scores
