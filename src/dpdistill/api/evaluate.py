"""Scores of a synthetic set on held-out records."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import chain
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
    listed,
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
    from dpdistill.evaluation.scored import Nets
    from dpdistill.method import Distilled
    from dpdistill.sources.tables.schema_file import TableFile
    from dpdistill.storage.records import Records

OF_IMAGES = frozenset(
    {
        "labels",
        "nets",
        "no_nets",
        "training",
        "architecture",
        "flip",
        "kernel",
        "ridge",
        "generated",
        "distance",
        "epochs",
    }
)
OF_TABLES = frozenset({"schema", "sql", "reference_sql"})
OF_BOTH = frozenset({"seed", "classifier", "lenient", "reference"})
"""Options by the kind of records that they apply to."""
Folder = str | os.PathLike
COUNTS = "errors of counts"
"""Name of the errors of a table's counts in scores.json."""
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
        architecture: as in `Networks`.
        nets: as in `Networks`.
        flip: as in `Networks`.
        seed: as in `Networks`.
        no_nets: train no networks; print the scores that take seconds.
        training: plateau, quick, mixup, muon, paper or large; None for plateau, or large for more than 20,000 records.
        classifier: names of classifiers of tables, single or in lists "LDA,MLP"; "fast" for those that take seconds.
            If empty, a table is scored by all of them and images by none. For images they classify pixels.
        generated: number of generated images to train further networks on; 0 for none.
        distance: kernels, or NETWORK=FILE.npz, for Fréchet and kernel distances to the test set.

    Raises:
        DataError: an unknown name, or a number out of its bounds.
    """

    no_nets: bool = option(False, "Train no nets: print the scores that take seconds.", name="--no-nets")
    training: str | None = option(
        None,
        "plateau (until the loss is flat), quick (200 epochs), mixup (quick with mixtures of two records), muon (quick "
        "with the Muon optimiser, best for photographs), paper (a thousand epochs), or large (few epochs, no "
        "augmentation). Default: plateau; large for more than 20,000 records and for --generated.",
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
        if self.no_nets and (self.nets > 1 or self.architecture or self.training):
            raise DataError("Expected --no-nets without --nets, --architecture and --training.")

    def nets_for(self, schema: Schema) -> Nets:
        """Returns the networks, none with `no_nets`, checked against the schema.

        Raises:
            DataError: a network that does not accept the schema's records.
        """
        nets = super().nets_for(schema)
        return replace(nets, architectures=()) if self.no_nets else nets

    @property
    def classifiers(self) -> tuple[str, ...]:
        """Returns the names of the classifiers, split and checked."""
        return tuple(name.strip() for each in self.classifier for name in each.split(","))


def evaluate(
    folder: Folder,
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

    Images: the released classifier and kernel ridge regression, then networks. Tables: errors of counts, then twelve
    classifiers; without a label, distances of columns and pairs from the test rows, and a detector of synthetic rows;
    with a number to predict, regressions and the predictor that ignores the other columns.

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
    distilled = open_set(folder, test, held_out.sql)
    table = isinstance(distilled.schema, TableSchema)
    parts = (held_out, scoring, regression, reference)
    refuse_others(folder, parts, OF_IMAGES if table else OF_TABLES, table=table)
    reference.check(table, include_scores)
    if include_scores:
        check_page(folder)
    if table:
        found = _table(folder, distilled, test, held_out, scoring, reference, listener)
    else:
        found = _images(folder, distilled, test, held_out, scoring, regression, reference, listener)
    if include_scores:
        kept = {} if table else {name: value for name, value in scores_in(folder).items() if TAUGHT in name}
        write_scores(folder, {**found.scores, **kept}, listener)
    return found


def _table(
    folder: Folder,
    distilled: Distilled,
    test: Any,
    held_out: HeldOut,
    scoring: Scoring,
    reference: Reference,
    listener: Listener,
) -> Evaluation:
    """Returns the scores of a synthetic table, and of real rows where the reference has any."""
    table_file = _schema_of_rows(folder, held_out.schema, distilled.schema)
    from dpdistill.evaluation.classifiers import chosen
    from dpdistill.evaluation.scored import Scored
    from dpdistill.evaluation.workload import score_counts

    labelled, strict = table_file.schema.label is not None, not held_out.lenient
    number = table_file.schema.target is not None
    if number and scoring.classifier:
        raise DataError(f"{folder} holds a table with a number to predict: leave out --classifier.")
    if not labelled and not number and (scoring.classifier or reference.reference is not None):
        raise DataError(f"{folder} holds a table without a label: leave out --classifier and --reference.")
    names = chosen(scoring.classifiers) if scoring.classifier else None
    records, real = _rows(test, held_out.sql, table_file, strict), None
    note_left_out(records, "test", listener)
    if number:
        if reference.reference is not None:
            real = _rows(reference.reference, reference.reference_sql, table_file, strict)
        return _numbers(distilled, records, real, scoring.seed, listener)
    if not labelled:
        return _unlabelled(distilled, records, scoring.seed, listener)
    if reference.reference is not None:
        real = _rows(reference.reference, reference.reference_sql, table_file, strict)
    how = (names, scoring.seed, listener)
    counts = score_counts(distilled, records)
    listener.line(counts.listed)
    scores = table_scores(distilled, records, *how)
    found = (
        Scored("table", "table", scores.to_json(), scores.listed, scores),
        Scored("table", COUNTS, counts.to_json(), counts.listed, counts),
    )
    all_scores = {**scores.to_json(), COUNTS: counts.to_json()}
    if real is None:
        return Evaluation(all_scores, found)
    note_left_out(real, "real", listener)
    of_real = tuple(real_table_scores(distilled, real, records, *how))
    return Evaluation(all_scores, found, of_real, nearness(distilled, real, records, listener))


def _numbers(distilled: Distilled, records: Records, real: Records | None, seed: int, listener: Listener) -> Evaluation:
    """Returns the scores of models that predict a number, trained on a synthetic table, and on real rows if given."""
    from dpdistill.evaluation.regression import score_numbers
    from dpdistill.evaluation.scored import Scored

    def scored(training: Distilled | Records, what: str) -> Scored:
        with listener.working("training models"):
            found = score_numbers(training, records, seed)
        listener.table(found.header, found.rows())
        listener.line(found.text)
        return Scored("table", what, found.to_json(), found.listed, found)

    found = scored(distilled, "table")
    if real is None:
        return Evaluation(found.value, (found,))
    note_left_out(real, "real", listener)
    what = "all real rows (20,000 at most)"
    listener.line(f"Trained on {what}:")
    return Evaluation(found.value, (found,), (scored(real, what),), nearness(distilled, real, records, listener))


def _unlabelled(distilled: Distilled, records: Records, seed: int, listener: Listener) -> Evaluation:
    """Returns the distances of a table without a label from test rows."""
    from dpdistill.evaluation.scored import Scored
    from dpdistill.evaluation.unlabelled import score_unlabelled

    found = score_unlabelled(distilled, records, seed)
    listener.line(found.listed)
    return Evaluation(found.to_json(), (Scored("table", "table", found.to_json(), found.listed, found),))


def _rows(data: Any, sql: str | None, table_file: TableFile, strict: bool) -> Records:
    """Returns real rows; `Records` stay unchanged."""
    from dpdistill.sources.tables.load import load_table
    from dpdistill.storage.records import Records

    return data if isinstance(data, Records) else load_table(table_source(data, sql), table_file, strict)


def _schema_of_rows(folder: Folder, schema: Folder | None, facts: Any) -> TableFile:
    """Returns the schema file of held-out rows: DIR's or the stated one."""
    from dpdistill.sources.tables.schema_file import read_schema, without_units

    table_file = without_units(read_schema(schema or Path(folder) / "schema.yaml"))
    if table_file.schema != facts:
        stated = schema or "schema.yaml"
        raise DataError(f"Expected a schema with the columns and classes of {folder}; {stated} states others.")
    return table_file


def _images(
    folder: Folder,
    distilled: Distilled,
    test: Any,
    held_out: HeldOut,
    scoring: Scoring,
    regression: Regression,
    reference: Reference,
    listener: Listener,
) -> Evaluation:
    """Returns the scores of a synthetic set of images, and of real images where the reference has any.

    What takes seconds comes first. All options are checked before the first score.
    """
    schema, bars = distilled.schema, listener.progress
    assert isinstance(schema, Schema)
    if scoring.generated:
        check_generator(folder, schema)
    for each in scoring.distance:
        if "=" in each:
            require_file(Path(each.partition("=")[2]))
    check_sides(scoring, schema)
    records, real = read_held_out(test, schema, held_out, listener), None
    from dpdistill.evaluation import images, training_for
    from dpdistill.evaluation.classifiers import chosen
    from dpdistill.evaluation.distances import distance_kernels
    from dpdistill.evaluation.score import test_set
    from dpdistill.evaluation.scored import image_scores
    from dpdistill.evaluation.teacher import softness_in, teacher_in

    classifiers = chosen(scoring.classifiers) if scoring.classifier else ()
    nets, fits = scoring.nets_for(schema), regression.fits(folder, schema)
    kernels, released = distance_kernels(scoring.distance, schema), teacher_in(str(folder), distilled)
    if reference.reference is not None:
        real = read_real_images(reference.reference, schema, held_out, listener)
    data, training = test_set(schema, records), training_for(len(distilled.train_set[0]), scoring.training)
    more = generate(folder, scoring.generated, distilled, scoring.seed) if scoring.generated else None
    softness = 0.0 if more is None or distilled.soft_labels is None else softness_in(str(folder))
    scores = chain(
        images.linear_scores(distilled, released, fits, data, bars),
        images.pixel_scores(distilled, data, classifiers, scoring.seed),
        images.distance_scores(distilled, more, data, kernels, scoring.seed, bars),
        images.network_scores(distilled, data, training, nets, bars),
        ()
        if more is None
        else images.generated_scores(more, released, softness, schema, data, scoring.training, nets, bars),
    )
    found = listed(scores, listener)
    result = Evaluation(image_scores(found, nets, training), found)
    if real is None:
        return result
    of_real = listed(
        real_image_scores(distilled, real, data, nets, fits, scoring.training, reference.epochs, listener), listener
    )
    return replace(result, real=of_real, nearness=nearness(distilled, real, records, listener))
