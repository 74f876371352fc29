"""Networks that learn what a teacher says of pictures: which teacher, which pictures, how, and their scores."""

from __future__ import annotations

from typing import Any

from dpdistill.cli.pictures import kinds_of, make_pictures
from dpdistill.cli.terminal import Bar, say


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
    from dpdistill.evaluation.student import teacher_named

    with Bar() as bar:
        return teacher_named(distilled, released, fits, taught_by, progress=bar)


def own_lesson(distilled: Any) -> tuple[Any, Any]:
    """The records of the set that networks are trained on, and their labels: hard or soft."""
    from dpdistill.evaluation.student import own_lesson

    return own_lesson(distilled)


def training_of(slopes: bool, epochs: int | None) -> Any:
    """How networks learn from a teacher."""
    from dpdistill.evaluation.student import training_of

    return training_of(slopes, epochs)


def student_scores(
    teacher: tuple[str, Any] | None, pictures: tuple[str, Any] | None, test: Any, networks: list, how: Any, **more: Any
) -> dict:
    """Scores of networks that learn what a teacher says of pictures; none without either."""
    if teacher is None or pictures is None:
        return {}
    from dpdistill.evaluation.student import taught

    scores = {}
    for title, by, score in taught(teacher, pictures, test, networks, how, bar=Bar, **more):
        what = f"{title} accuracy, {by}"
        say(f"{what}: {score.mean:.2f} %")
        scores[f"{what}, %"] = round(score.mean, 2)
    return scores
