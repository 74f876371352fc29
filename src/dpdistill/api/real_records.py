"""Trains and scores on real records for comparison, for their owner: not covered by epsilon."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from dpdistill.api.listener import Listener
from dpdistill.api.options import SQL, option
from dpdistill.api.reading import check_source
from dpdistill.api.scoring import NOTE, HeldOutImages, note_left_out
from dpdistill.schema import DataError, Schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpdistill.audits.reference import Nearness
    from dpdistill.evaluation.images import Regressions
    from dpdistill.evaluation.score import TestSet
    from dpdistill.evaluation.scored import Nets, Scored
    from dpdistill.evaluation.table_scores import TableScores
    from dpdistill.method import Distilled
    from dpdistill.storage.records import Records

EPOCHS = 3
"""Default number of epochs on all real images."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Real records of a set: to train the same models on, and to compare the set with.

    Args:
        reference: the records; None for none.
        reference_sql: one SELECT, if they are in a database.
        epochs: number of epochs of networks on all real images; 3 by default.

    Raises:
        DataError: epochs below 1.

    Guarantee:
        None: for the owner of the records.
    """

    PANEL: ClassVar[str] = "Data"
    reference: Any = option(
        None,
        "The real records of DIR: trains the same models on as many of them and on all, and measures the distance "
        "to DIR's records. For their owner: not covered by epsilon.",
        kind=str,
    )
    reference_sql: str | None = option(None, SQL.replace("DATA", "--reference"), expert=True)
    epochs: int | None = option(
        None,
        "Epochs of nets on all real records; 3 by default.",
        min=1,
        metavar="<int>",
        panel="Networks",
        expert=True,
    )

    def __post_init__(self) -> None:
        if self.epochs is not None and self.epochs < 1:
            raise DataError(f"Expected epochs={self.epochs} >= 1.")

    def check(self, table: bool, included: bool) -> None:
        """Refuses a missing reference, and options that need one.

        Args:
            table: True for a table.
            included: True if the scores are written into the shared folder.

        Raises:
            DataError: such an option.
        """
        from dpdistill.storage.records import Records

        if self.reference is None and self.epochs is not None:
            raise DataError(
                f"Expected --reference with --epochs {self.epochs}: the epochs are for nets trained on real records."
            )
        if self.reference is None and self.reference_sql is not None:
            raise DataError("Expected --reference with --reference-sql.")
        if self.reference is not None and included:
            raise DataError(
                "Expected --reference without --include-scores: its scores are for the owner of the records."
            )
        if self.reference is not None and not isinstance(self.reference, Records):
            check_source(self.reference, table, self.reference_sql)


def read_real_images(reference: Any, schema: Schema, how: HeldOutImages, listener: Listener) -> Records:
    """Returns the real images, of the set's shape and classes.

    Raises:
        DataError: images that cannot be read, of another shape, or without labels.
    """
    from dpdistill.sources.load import load
    from dpdistill.storage.records import Records

    if isinstance(reference, Records):
        real = reference
    else:
        real = load(reference, "train", like=schema, labels=how.labels, strict=not how.lenient)
    if real.schema.shape != schema.shape or not (real.y >= 0).any():
        raise DataError(f"Expected --reference with labelled images of shape {schema.shape}; got {real.schema.shape}.")
    note_left_out(real, "real", listener)
    return real


def real_image_scores(
    distilled: Distilled,
    real: Records,
    test: Records | TestSet,
    nets: Nets,
    fits: Regressions,
    training: str | None,
    epochs: int | None,
    listener: Listener,
) -> Iterator[Scored]:
    """Yields the scores of regressions and networks on as many random real images, and of networks on all of them.

    Args:
        distilled: the set.
        real: the real records of the set.
        test: held-out records.
        nets: networks to train; one net per architecture on all real images.
        fits: kernels and ridges.
        training: a name of TRAININGS, or None for the default at the number of records.
        epochs: number of epochs on all real images.
        listener: receives the progress.
    """
    from dpdistill.audits import random_real
    from dpdistill.evaluation import LARGE, TRAININGS, score_krr, training_for
    from dpdistill.evaluation.images import accuracy_of, image_schema, trained_networks
    from dpdistill.evaluation.score import scaled

    few, schema, bars = random_real(real, distilled.y, nets.seed), image_schema(distilled), listener.progress
    X, y = scaled(few)
    what = f"{len(y):,} random real images"
    for name, (kernel, ridge) in fits.items():
        with bars() as bar:
            score = score_krr(X, y, schema, test, kernel=kernel, ridge=ridge, progress=bar)
        title, fit = f"KRR accuracy, {what}", f"{name}, ridge {ridge:g}"
        yield accuracy_of("regression", f"{title}, {fit}", score, f"{title}: {score} ({fit})")
    recipe = TRAININGS[training_for(len(y), training)]
    for title, score in trained_networks((X, y), None, schema, test, recipe, nets, bars):
        yield accuracy_of("network", f"{title} accuracy, trained on {what}", score)
    recipe = replace(LARGE, epochs=epochs or EPOCHS)
    for title, score in trained_networks(scaled(real), None, schema, test, recipe, replace(nets, number=1), bars):
        yield accuracy_of("network", f"{title} accuracy, trained on all real images, epochs: {recipe.epochs}", score)


def table_scores(
    training: Distilled | Records,
    test: Records,
    names: tuple[str, ...] | None,
    seed: int,
    listener: Listener,
) -> TableScores:
    """Returns the scores of classifiers that are trained on a table; the listener receives them as a table.

    Args:
        training: the table.
        test: held-out rows.
        names: names of the classifiers; None for all.
        seed: seed of the classifiers.
        listener: receives each score and the tables.
    """
    from dpdistill.evaluation.tables import score_tables

    with listener.classifiers() as show:
        scores = score_tables(training, test, seed=seed, names=names, told=show)
    listener.table(scores.header, scores.rows())
    listener.line(scores.text)
    return scores


def real_table_scores(
    distilled: Distilled,
    real: Records,
    test: Records,
    names: tuple[str, ...] | None,
    seed: int,
    listener: Listener,
) -> Iterator[Scored]:
    """Yields the scores of the same classifiers on as many random real rows, and on all of them.

    Args:
        distilled: the set.
        real: the real rows of the set.
        test: held-out rows.
        names: names of the classifiers; None for all.
        seed: seed of the classifiers and of the drawn rows.
        listener: receives each score and the tables.
    """
    from dpdistill.audits import random_real
    from dpdistill.evaluation.scored import Scored

    few = random_real(real, distilled.y, seed)
    for what, records in ((f"{len(few):,} random real rows", few), ("all real rows (20,000 at most)", real)):
        listener.line(f"Trained on {what}:")
        scores = table_scores(records, test, names, seed, listener)
        yield Scored("table", what, scores.to_json(), f"Trained on {what}:\n{scores.listed}", scores)


def nearness(distilled: Distilled, real: Records, test: Records, listener: Listener) -> Nearness:
    """Returns the distances between the records of a set and real ones; the listener receives both medians."""
    from dpdistill.audits import nearest_real

    with listener.progress() as bar:
        found = nearest_real(distilled, real, test, progress=bar)
    listener.line(found.text)
    listener.line(NOTE)
    return found
