"""Networks that learn a teacher's scores of pictures, at no further cost in epsilon."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from dpdistill.api.listener import SILENT, Listener
from dpdistill.api.options import option
from dpdistill.api.pictures import PICTURES, check_generator, kinds_of, pictures_of
from dpdistill.api.reading import check_source
from dpdistill.api.scoring import (
    Evaluation,
    HeldOutImages,
    Networks,
    Regression,
    check_page,
    check_sides,
    open_set,
    read_held_out,
    scores_in,
    write_scores,
)
from dpdistill.recipe.choices import TEACHERS
from dpdistill.recipe.names import check_names
from dpdistill.schema import DataError, Schema

if TYPE_CHECKING:
    from dpdistill.method import Distilled

NUMBER = 20_000
"""Pictures that are made, if no number is stated."""


@dataclass(frozen=True, kw_only=True)
class Teaching:
    """From whom networks learn, and how.

    Args:
        taught_by: classifier, the released one, or krr, kernel ridge regression on the set; None for the first where
            the set has one.
        slopes: also learn how the teacher's scores change with each pixel.
        then_set: train the networks further on the set itself.
        epochs: on the pictures; 4 if left out.
        pictures: how many are made; 20,000 if left out.

    Raises:
        DataError: an unknown teacher, or a number below 1.
    """

    PANEL: ClassVar[str] = "Students of a teacher"
    taught_by: str | None = option(
        None,
        "classifier, the released one, or krr, kernel ridge regression on the set; the first where DIR has one.",
        expert=True,
    )
    slopes: bool = option(
        False,
        "Also learn how the teacher's scores change with each pixel. Two to three times the seconds, and as many "
        "pictures teach more.",
        name="--slopes",
        expert=True,
    )
    then_set: bool = option(
        False,
        "Train the nets further, on the set itself, which teaches them something else.",
        name="--then-set",
        expert=True,
    )
    epochs: int | None = option(
        None, "Of the nets on the pictures; 4 if left out.", min=1, metavar="<int>", panel="Networks", expert=True
    )
    pictures: int | None = option(
        None, "How many are made, unless --teacher is DATA; 20,000 if left out.", min=1, metavar="<int>"
    )

    def __post_init__(self) -> None:
        check_names("teacher", [] if self.taught_by is None else [self.taught_by], TEACHERS)
        for name in ("epochs", "pictures"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise DataError(f"Expected {name}={value} >= 1.")


def student(
    folder: str | os.PathLike,
    test: Any,
    teacher: Any,
    *,
    teaching: Teaching = Teaching(),
    networks: Networks = Networks(),
    regression: Regression = Regression(),
    held_out: HeldOutImages = HeldOutImages(),
    include_scores: bool = False,
    listener: Listener = SILENT,
) -> Evaluation:
    """Trains networks on a teacher's scores of pictures and scores the networks on held-out images.

    Args:
        folder: of a set of images, as `distill` writes it.
        test: held-out images: where they are, an object that holds them, or `Records`.
        teacher: the pictures that the teacher scores: drawn, mixed (drawn ones and the images of the set), generated,
            equal parts of several (drawn+generated), or where pictures are.
        teaching: from whom networks learn, and how.
        networks: which networks.
        regression: kernels and ridge; the first one may teach.
        held_out: how the held-out images are read.
        include_scores: add the scores to those in the folder and its report: not covered by epsilon.
        listener: receives each score as it is found, notes, warnings and progress; logs them if left out.

    Returns:
        The scores of the networks.

    Raises:
        DataError: a folder, pictures, images or options that cannot be used.

    Guarantee:
        The networks are post-processing of the release where the pictures are made. Their scores are computed from
        held-out records without noise: epsilon does not cover them.

    Example:
        >>> student("shared", "held-out/", "drawn", teaching=Teaching(taught_by="krr")).scores  # doctest: +SKIP
    """
    distilled = open_set(folder, test)
    schema = distilled.schema
    if not isinstance(schema, Schema):
        raise DataError(f"{folder} holds a table: students learn from images.")
    _check_pictures(folder, distilled, teacher, teaching)
    check_sides(networks, schema)
    records = read_held_out(test, schema, held_out, listener)
    from dpdistill.evaluation import students
    from dpdistill.evaluation.teacher import teacher_in

    if include_scores:
        check_page(folder)
    nets, fits = networks.nets_for(schema), regression.fits(folder, schema)
    released = teacher_in(str(folder), distilled)
    teaches = students.choose_teacher(distilled, released, fits, teaching.taught_by, listener.progress)
    pictures = pictures_of(teacher, teaching.pictures or NUMBER, folder, distilled, networks.seed, listener)
    training = students.student_training(teaching.slopes, teaching.epochs)
    then, found = students.own_lesson(distilled) if teaching.then_set else None, []
    for each in students.student_scores(teaches, pictures, records, nets, training, then=then, bars=listener.progress):
        listener.line(each.text)
        found.append(each)
    scores = {each.name: each.value for each in found}
    if include_scores:
        write_scores(folder, {**scores_in(folder), **scores}, listener)
    return Evaluation(scores, tuple(found))


def _check_pictures(folder: str | os.PathLike, distilled: Distilled, teacher: Any, teaching: Teaching) -> None:
    """Refuses a teacher or pictures that the folder does not have, and a number of pictures that are not made."""
    kinds = kinds_of(teacher)
    if teaching.taught_by == "classifier" and distilled.classifier is None:
        raise DataError(f"{folder} has no released classifier: say --taught-by krr.")
    if "generated" in kinds:
        check_generator(folder, distilled.schema)
    if not kinds:
        check_source(teacher, table=False)
    if teaching.pictures is not None and not kinds:
        raise DataError(
            f"Expected --teacher {', '.join(PICTURES)} with --pictures {teaching.pictures}: it says how many."
        )
