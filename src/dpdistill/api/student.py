"""Trains networks on a teacher's scores of images, at no further cost in epsilon."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

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
    listed,
    open_set,
    read_held_out,
    scores_in,
    write_scores,
)
from dpdistill.folder.save import check_output
from dpdistill.recipe.choices import TEACHERS
from dpdistill.recipe.names import check_names
from dpdistill.schema import DataError, Schema
from dpdistill.storage.files import show

if TYPE_CHECKING:
    from dpdistill.method import Distilled

NUMBER = 20_000
"""Default number of images to make."""


@dataclass(frozen=True, kw_only=True)
class Teaching:
    """Teacher of the networks, and options of their training.

    Args:
        taught_by: "classifier" (the released one) or "krr" (kernel ridge regression on the set); None for "classifier"
            where the set has one.
        slopes: also learn the gradients of the teacher's scores.
        then_set: train the networks further on the set itself.
        epochs: number of epochs on the images; 4 by default.
        pictures: number of images to make; 20,000 by default.

    Raises:
        DataError: an unknown teacher, or a number below 1.
    """

    PANEL: ClassVar[str] = "Students of a teacher"
    taught_by: str | None = option(
        None,
        "classifier (the released one; the default where DIR has one) or krr (kernel ridge regression on the set).",
        expert=True,
    )
    slopes: bool = option(
        False,
        "Also learn the gradients of the teacher's scores by each pixel: more accurate for the same number of images, "
        "in two to three times the time.",
        name="--slopes",
        expert=True,
    )
    then_set: bool = option(
        False,
        "Then train the nets further on the set itself.",
        name="--then-set",
        expert=True,
    )
    epochs: int | None = option(
        None, "Epochs of the nets on the images; 4 by default.", min=1, metavar="<int>", panel="Networks", expert=True
    )
    pictures: int | None = option(
        None, "Number of images to make, unless --teacher is DATA; 20,000 by default.", min=1, metavar="<int>"
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
    out: str | os.PathLike | None = None,
    listener: Listener = SILENT,
) -> Evaluation:
    """Trains networks on a teacher's scores of images, and scores the networks on held-out images.

    Args:
        folder: folder of a set of images, as `distill` writes it.
        test: held-out images: a path, an object that holds images, or `Records`.
        teacher: images that the teacher scores: "drawn" (procedurally generated), "mixed" (drawn images and the
            set's), "generated", equal parts of several ("drawn+generated"), or a path of images.
        teaching: the teacher, and options of training.
        networks: networks to train.
        regression: kernels and ridge; the first kernel may be the teacher's.
        held_out: options of reading the held-out images.
        include_scores: add the scores to the folder and its report; epsilon does not cover them.
        out: new folder for the network: weights as safetensors, an ONNX file where onnx is installed, and a statement
            of its guarantee. The scores are not written there.
        listener: receives each score as soon as it is computed, notes, warnings and progress; logs by default.

    Returns:
        The scores of the networks.

    Raises:
        DataError: a folder, images or options that cannot be used.

    Guarantee:
        The networks are post-processing of the release if the images are made. Their scores are computed from
        held-out records without noise: epsilon does not cover them.

    Example:
        >>> student("shared", "held-out/", "drawn", teaching=Teaching(taught_by="krr")).scores  # doctest: +SKIP
    """
    distilled = open_set(folder, test)
    schema = distilled.schema
    if not isinstance(schema, Schema):
        raise DataError(f"{folder} holds a table: students learn from images.")
    _check_pictures(folder, distilled, teacher, teaching)
    to = None if out is None else _check_out(Path(out), Path(folder), networks)
    check_sides(networks, schema)
    records = read_held_out(test, schema, held_out, listener)
    from dpdistill.evaluation import students
    from dpdistill.evaluation.images import accuracy_of
    from dpdistill.evaluation.teacher import teacher_in

    if include_scores:
        check_page(folder)
    nets, fits = networks.nets_for(schema), regression.fits(folder, schema)
    released = teacher_in(str(folder), distilled)
    teaches = students.choose_teacher(distilled, released, fits, teaching.taught_by, listener.progress)
    pictures = pictures_of(teacher, teaching.pictures or NUMBER, folder, distilled, networks.seed, listener)
    training = students.student_training(teaching.slopes, teaching.epochs)
    then = students.own_lesson(distilled) if teaching.then_set else None
    trained: list[Any] = []
    taught = students.taught_networks(
        teaches, pictures, records, nets, training, then=then, bars=listener.progress, keep=trained.append
    )
    named = (accuracy_of("student", f"{title} accuracy, {by}", score) for title, by, score in taught)
    found = listed(named, listener)
    scores = {each.name: each.value for each in found}
    if to is not None:
        own_images = not kinds_of(teacher)
        _write(to, Path(folder), schema, trained[0], f"taught by {teaches[0]} on {pictures[0]}", own_images, networks)
        listener.note(f"{to}: the network, with a statement of its guarantee.")
    if include_scores:
        write_scores(folder, {**scores_in(folder), **scores}, listener)
    return Evaluation(scores, found)


def _check_out(to: Path, folder: Path, networks: Networks) -> Path:
    """Refuses a folder that cannot be written, and several networks for one folder."""
    if networks.nets > 1 or len(networks.architecture) > 1:
        raise DataError("Expected one network with --out: leave out --nets and further --architecture.")
    if to.exists() or folder.resolve() in to.resolve().parents:
        raise DataError(f"Expected a new folder outside of {show(folder)} with --out; got {show(to)}.")
    check_output(to)
    return to


def _write(
    to: Path, folder: Path, schema: Schema, trained: Any, taught: str, own_images: bool, networks: Networks
) -> None:
    """Writes the folder of a trained network."""
    from dpdistill.graphs.refusal import NotExported
    from dpdistill.graphs.released import function_model
    from dpdistill.networks.parameters import named
    from dpdistill.publish.export.student import Student, write_student

    try:
        model = function_model(lambda X: trained.network.apply(trained.params, X), schema)
    except NotExported:
        model = None
    weights = {name: np.asarray(value) for name, value in named(trained.params).items()}
    write_student(to, folder, Student(trained.network.title, weights, model, taught, own_images, networks.seed))


def _check_pictures(folder: str | os.PathLike, distilled: Distilled, teacher: Any, teaching: Teaching) -> None:
    """Refuses a teacher or images that the folder does not have, and --pictures with given images."""
    kinds = kinds_of(teacher)
    if teaching.taught_by == "classifier" and distilled.classifier is None:
        raise DataError(f"{folder} has no released classifier: use --taught-by krr.")
    if "generated" in kinds:
        check_generator(folder, distilled.schema)
    if not kinds:
        check_source(teacher, table=False)
    if teaching.pictures is not None and not kinds:
        raise DataError(
            f"Expected --teacher {', '.join(PICTURES)} with --pictures {teaching.pictures}, the number to make."
        )
