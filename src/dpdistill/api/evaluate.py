"""Scores of a synthetic set on held-out records."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.api.listener import SILENT, Listener
from dpdistill.api.options import SQL, option
from dpdistill.api.pictures import check_generator, generate
from dpdistill.api.reading import table_source
from dpdistill.api.real_records import (
    Reference,
    nearness,
    read_real_images,
    real_image_scores,
    real_table_scores,
    table_scores,
)
from dpdistill.api.scoring import (
    Evaluation,
    HeldOutImages,
    Networks,
    Regression,
    check_page,
    check_sides,
    note_left_out,
    open_set,
    read_held_out,
    refuse_others,
    scores_in,
    write_scores,
)
from dpdistill.recipe.choices import CLASSIFIERS, TRAININGS
from dpdistill.recipe.kernels import KERNELS
from dpdistill.recipe.names import check_names
from dpdistill.recipe.networks import ARCHITECTURES
from dpdistill.schema import DataError, Schema, TableSchema
from dpdistill.storage.files import require_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dpdistill.evaluation.images import Regressions
    from dpdistill.evaluation.scored import Nets, Scored
    from dpdistill.evaluation.teacher import Teacher
    from dpdistill.kernels.kernel import Kernel
    from dpdistill.method import Distilled
    from dpdistill.sources.tables.schema_file import TableFile
    from dpdistill.storage.records import Records

OF_IMAGES = frozenset(
    {"labels", "nets", "training", "architecture", "flip", "kernel", "ridge", "generated", "distance", "epochs"}
)
OF_TABLES = frozenset({"schema", "sql", "reference_sql"})
OF_BOTH = frozenset({"seed", "classifier", "lenient", "reference"})
"""Options by the kind of records that they apply to."""
TAUGHT = " accuracy, taught by "
"""Part of the names of student scores, which `evaluate` keeps when it writes scores.json again."""


@dataclass(frozen=True, kw_only=True)
class HeldOut(HeldOutImages):
    """Options of reading held-out records, with the public facts of the synthetic set.

    Args:
        labels: for images, label kind to read where there are several.
        lenient: leave out unreadable records and records of other classes, instead of stopping at the first one.
        sql: one SELECT, if the records are in a database.
        schema: schema.yaml of a table in a different file format than the set's.
    """

    sql: str | None = option(None, SQL.replace("DATA", "--test"))
    schema: str | os.PathLike | None = option(
        None, "The schema.yaml of a test table in a different file format than DIR's.", kind=str
    )


@dataclass(frozen=True, kw_only=True)
class Scoring(Networks):
    """Options of scoring a synthetic set.

    Args:
        architecture, nets, flip, seed: options of the networks, as in `Networks`.
        training: quick, mixup, muon, paper or large; None for quick, or large for more than 20,000 records.
        classifier: names of classifiers of tables, single or in lists "LDA,MLP"; "fast" for those that take seconds.
            If empty, a table is scored by all of them and images by none. For images they classify pixels.
        generated: number of generated images to train further networks on; 0 for none.
        distance: kernels, or NETWORK=FILE.npz, for Fréchet and kernel distances to the test set.

    Raises:
        DataError: an unknown name, or a number out of its bounds.
    """

    training: str | None = option(
        None,
        "quick, mixup (quick with mixtures of two records), muon (quick with the Muon optimiser, best for "
        "photographs), paper (a thousand epochs), or large (few epochs, no augmentation). Default: quick; large for "
        "more than 20,000 records and for --generated.",
    )
    classifier: tuple[str, ...] = option(
        (),
        'Names of classifiers, "LDA,MLP", or fast for those that take seconds. Tables: all twelve by default. '
        "Images: classifiers of pixels, none by default.",
        kind=list[str],
        panel="Other scores",
    )
    generated: int = option(
        0, "Also train nets on this number of images of DIR's generator.", min=0, metavar="<int>", expert=True
    )
    distance: tuple[str, ...] = option(
        (),
        "Fréchet and kernel distance between the images (or the --generated ones) and the test set. Features: a "
        "kernel's, such as scatternet, or a network's last hidden layer with your weights: resnet18=FILE.npz. Not "
        "comparable with distances over Inception features.",
        kind=list[str],
        panel="Other scores",
        expert=True,
    )

    def __post_init__(self) -> None:
        check_names("training", [] if self.training is None else [self.training], TRAININGS)
        super().__post_init__()
        check_names("classifier", self.classifiers, [*CLASSIFIERS, "fast"])
        for each in self.distance:
            network, equals, _ = each.partition("=")
            if equals:
                check_names("network of --distance", [network], ARCHITECTURES)
            else:
                check_names("distance", [each], [*KERNELS, "NETWORK=FILE.npz"])
        if self.generated < 0:
            raise DataError(f"Expected generated={self.generated} >= 0.")

    @property
    def classifiers(self) -> tuple[str, ...]:
        """Returns the names of the classifiers, split and checked."""
        return tuple(name.strip() for each in self.classifier for name in each.split(","))


def evaluate(
    folder: str | os.PathLike,
    test: Any,
    *,
    held_out: HeldOut = HeldOut(),
    scoring: Scoring = Scoring(),
    regression: Regression = Regression(),
    reference: Reference = Reference(),
    include_scores: bool = False,
    listener: Listener = SILENT,
) -> Evaluation:
    """Trains models on a synthetic set and scores them on held-out records.

    Images: networks, kernel ridge regression and the released classifier. Tables: twelve classifiers.

    Args:
        folder: folder of the set, as `distill` writes it.
        test: held-out records: a path, an object that holds records, or `Records`.
        held_out: options of reading them.
        scoring: networks and classifiers, and options of their training.
        regression: kernels and ridge of kernel ridge regression.
        reference: the real records, to compare with.
        include_scores: write the scores into the folder and its report; epsilon does not cover them.
        listener: receives each score as soon as it is computed, notes, warnings and progress; logs by default.

    Returns:
        The scores.

    Raises:
        DataError: a folder, records or options that cannot be used.

    Guarantee:
        The scores are computed from held-out records without noise: epsilon does not cover them.

    Example:
        >>> evaluate("shared", "held-out/", scoring=Scoring(nets=1)).scores  # doctest: +SKIP
    """
    request = _Request(folder, test, held_out, scoring, regression, reference, include_scores, listener)
    distilled = open_set(folder, test, held_out.sql)
    table = isinstance(distilled.schema, TableSchema)
    parts = (held_out, scoring, regression, reference)
    refuse_others(folder, parts, OF_IMAGES if table else OF_TABLES, table=table)
    reference.check(table, include_scores)
    found = _table(request, distilled) if table else _images(request, distilled)
    if include_scores:
        kept = {} if table else {name: value for name, value in scores_in(folder).items() if TAUGHT in name}
        write_scores(folder, {**found.scores, **kept}, listener)
    return found


@dataclass(frozen=True)
class _Request:
    """Arguments of one call of `evaluate`."""

    folder: str | os.PathLike
    test: Any
    held_out: HeldOut
    scoring: Scoring
    regression: Regression
    reference: Reference
    include_scores: bool
    listener: Listener

    @property
    def strict(self) -> bool:
        """Returns whether a bad record stops the reading."""
        return not self.held_out.lenient


def _table(request: _Request, distilled: Distilled) -> Evaluation:
    """Returns the scores of a synthetic table, and of real rows where the reference has any."""
    table_file = _schema_of_rows(request.folder, request.held_out.schema, distilled.schema)
    from dpdistill.evaluation.classifiers import chosen
    from dpdistill.evaluation.scored import Scored

    names = chosen(request.scoring.classifiers) if request.scoring.classifier else None
    if request.include_scores:
        check_page(request.folder)
    test, reference, real = _rows(request, table_file, request.test, request.held_out.sql), request.reference, None
    note_left_out(test, "test", request.listener)
    if reference.reference is not None:
        real = _rows(request, table_file, reference.reference, reference.reference_sql)
    how = (names, request.scoring.seed, request.listener)
    scores = table_scores(distilled, test, *how)
    found = (Scored("table", "table", scores.to_json(), scores.listed, scores),)
    if real is None:
        return Evaluation(scores.to_json(), found)
    note_left_out(real, "real", request.listener)
    of_real = tuple(real_table_scores(distilled, real, test, *how))
    return Evaluation(scores.to_json(), found, of_real, nearness(distilled, real, test, request.listener))


def _rows(request: _Request, table_file: TableFile, data: Any, sql: str | None) -> Records:
    """Returns real rows; `Records` stay unchanged."""
    from dpdistill.sources.tables.load import load_table
    from dpdistill.storage.records import Records

    return data if isinstance(data, Records) else load_table(table_source(data, sql), table_file, request.strict)


def _schema_of_rows(folder: str | os.PathLike, schema: str | os.PathLike | None, facts: Any) -> TableFile:
    """Returns the schema file of held-out rows: DIR's or the stated one."""
    from dpdistill.sources.tables.schema_file import read_schema, without_units

    table_file = without_units(read_schema(schema or Path(folder) / "schema.yaml"))
    if table_file.schema != facts:
        stated = schema or "schema.yaml"
        raise DataError(f"Expected a schema with the columns and classes of {folder}; {stated} states others.")
    return table_file


def _images(request: _Request, distilled: Distilled) -> Evaluation:
    """Returns the scores of a synthetic set of images, and of real images where the reference has any."""
    scoring, listener, schema = request.scoring, request.listener, distilled.schema
    assert isinstance(schema, Schema)
    _check_places(request, distilled)
    test = read_held_out(request.test, schema, request.held_out, listener)
    from dpdistill.evaluation import training_for
    from dpdistill.evaluation.scored import image_scores

    models = _models(request, distilled)
    reference, real = request.reference, None
    if reference.reference is not None:
        real = read_real_images(reference.reference, schema, request.held_out, listener)
    training = training_for(len(distilled.train_set[0]), scoring.training)
    found = []
    for each in _scored(request, distilled, test, training, models):
        listener.line(each.text)
        found.append(each)
    scores = image_scores(found, scoring.number, training)
    if real is None:
        return Evaluation(scores, tuple(found))
    of_real = []
    for each in real_image_scores(
        distilled, real, test, models.nets, models.fits, scoring.training, reference.epochs, listener
    ):
        listener.line(each.text)
        of_real.append(each)
    return Evaluation(scores, tuple(found), tuple(of_real), nearness(distilled, real, test, listener))


def _check_places(request: _Request, distilled: Distilled) -> None:
    """Refuses missing generators and files, and images that are too small, before JAX is imported."""
    scoring = request.scoring
    if scoring.generated:
        check_generator(request.folder, distilled.schema)
    for each in scoring.distance:
        if "=" in each:
            require_file(Path(each.partition("=")[2]))
    assert isinstance(distilled.schema, Schema)
    check_sides(scoring, distilled.schema)


@dataclass(frozen=True)
class _Models:
    """Models of images; all are checked before the first net is trained."""

    classifiers: tuple[str, ...]
    nets: Nets
    fits: Regressions
    kernels: Mapping[str, Kernel]
    released: Teacher | None


def _models(request: _Request, distilled: Distilled) -> _Models:
    from dpdistill.evaluation.classifiers import chosen
    from dpdistill.evaluation.distances import distance_kernels
    from dpdistill.evaluation.teacher import teacher_in

    scoring, schema = request.scoring, distilled.schema
    assert isinstance(schema, Schema)
    classifiers = chosen(scoring.classifiers) if scoring.classifier else ()
    if request.include_scores:
        check_page(request.folder)
    nets, fits = scoring.nets_for(schema), request.regression.fits(request.folder, schema)
    kernels = distance_kernels(scoring.distance, schema)
    return _Models(classifiers, nets, fits, kernels, teacher_in(str(request.folder), distilled))


def _scored(request: _Request, distilled: Distilled, test: Records, training: str, models: _Models) -> Iterator[Scored]:
    """Yields the scores of the set in the order of the printed lines."""
    from dpdistill.evaluation import images
    from dpdistill.evaluation.teacher import softness_in

    scoring, bars, nets = request.scoring, request.listener.progress, models.nets
    schema, more = distilled.schema, None
    assert isinstance(schema, Schema)
    if scoring.generated:
        more = generate(request.folder, scoring.generated, distilled, scoring.seed)
    yield from images.network_scores(distilled, test, training, nets, bars)
    yield from images.regression_scores(distilled, test, models.fits, bars)
    if models.released is not None:
        yield images.classifier_score(models.released, test, bars)
    if more is not None:
        softness = 0.0 if distilled.soft_labels is None else softness_in(str(request.folder))
        labels = images.generated_labels(more, models.released, softness, bars)
        yield from images.generated_scores(more, labels, schema, test, scoring.training, nets, bars)
    yield from images.pixel_scores(distilled, test, models.classifiers, scoring.seed)
    yield from images.distance_scores(distilled, more, test, models.kernels, scoring.seed, bars)
