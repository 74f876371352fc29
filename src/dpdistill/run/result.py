"""The result of a run: the synthetic set, the facts about the run, and the folder to share."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpdistill.accounting.schedule import Schedule
from dpdistill.certificate.build import (
    NO_NOISE,
    NOT_STATED,
    build_certificate,
    recipe_content,
    write_certificate,
)
from dpdistill.folder.layout import MODEL, RECIPE, UNLISTED, is_signing, list_files
from dpdistill.folder.save import check_output, write_distilled
from dpdistill.graphs.refusal import NotExported
from dpdistill.graphs.released import released_model
from dpdistill.method import Distilled
from dpdistill.methods.support import classifier_scores
from dpdistill.publish.export import write_documents
from dpdistill.publish.report import write_report
from dpdistill.recipe.released_accuracy import Accuracy, accuracy_of
from dpdistill.run import output_folder
from dpdistill.run.payment import Payment, told
from dpdistill.schema import DataError, Schema, TableSchema
from dpdistill.storage.atomic import write_atomically

LOG = logging.getLogger("dpdistill")


@dataclass(frozen=True, eq=False)
class Result:
    """A distilled set and the facts about its run.

    Args:
        distilled: the synthetic set.
        recipe: method, fields, seed, origin and references.
        schedule: the paid schedule; None without a guarantee.
        noise: origin of the noise; None without noise.
        run_dir: the owner's folder of the run, or None.
        slack: sentence about rounding in the queries; None if they round nothing.
        backend: hardware and software that computed the releases, in words.
        self_test: the checks before the first release, in words.
        releases: id shared by all sets made from the same releases; None if unknown.
        ledger_head: head of the data set's ledger after the run; None without one.
        payment: payment of the run; None if this process paid nothing.
        owners: names of several owners, or none.
        summation: how their sums were formed, for the certificate.
    """

    distilled: Distilled
    recipe: dict
    schedule: Schedule | None
    noise: str | None
    run_dir: Path | None = None
    slack: str | None = None
    backend: str = NOT_STATED
    self_test: str = NOT_STATED
    releases: str | None = None
    ledger_head: str | None = None
    payment: Payment | None = None
    owners: tuple[str, ...] = ()
    summation: dict | None = None

    def __repr__(self) -> str:
        spent = "infinite" if self.schedule is None else f"{self.schedule.budget.epsilon:g}"
        size = f"{len(self.y)} records of {len(self.distilled.schema.classes)} classes"
        return f"Result({self.recipe['method']}, {size}, epsilon={spent})"

    @property
    def X(self) -> np.ndarray:
        """Synthetic records in the schema's raw units: images (m, h, w, c), float32, or rows (m, columns), float64."""
        return self.distilled.schema.from_unit(self.distilled.X)

    @property
    def y(self) -> np.ndarray:
        """Class indices, (m,), int32."""
        return self.distilled.y

    @property
    def train_set(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns (X, y) for training models, in raw units: the tiles if images are cut into tiles, else X and y."""
        X, y = self.distilled.train_set
        return self.distilled.schema.from_unit(X), y

    @property
    def epsilon(self) -> float:
        """Returns the spent epsilon at the budget's delta; infinite without a guarantee."""
        return float("inf") if self.schedule is None else self.schedule.epsilon()

    @property
    def accuracy(self) -> Accuracy | None:
        """Returns the released accuracy of the classifier on the private records, in percent, which epsilon covers.

        None if the recipe releases none (`accuracy` of the method), if its noise hides it, or for persons with several
        records: the records that the classifier misses count less than the others, since they are clipped more.
        """
        table, schedule = self.distilled.accuracy, self.schedule
        weighted = schedule is not None and schedule.budget.rows_per_unit != 1
        return None if table is None or weighted else accuracy_of(table[-1])

    def teacher(self, X: np.ndarray) -> np.ndarray:
        """Returns the released classifier's scores for any records, from which other models can learn.

        Args:
            X: records in the schema's raw units, n >= 1: images (n, h, w, c) or rows (n, columns); public ones, or the
                receiver's own.

        Returns:
            (n, classes), float32, centred over the classes: post-processing, at no further cost.

        Raises:
            ValueError: the method released no classifier, or a regression instead, or images of another shape.
        """
        distilled = self.distilled
        if distilled.classifier is None:
            raise ValueError(f"The method {self.recipe['method']} releases no classifier.")
        if isinstance(distilled.schema, TableSchema) and distilled.schema.target is not None:
            raise ValueError("Expected a classifier; this table has a number to predict: read scorecard.csv instead.")
        shape, what = distilled.schema.raw_shape, "images" if isinstance(distilled.schema, Schema) else "rows"
        if np.ndim(X) != 1 + len(shape) or np.shape(X)[1:] != shape or not len(X):
            raise ValueError(f"Expected {what} of shape {('n', *shape)}, n >= 1; got {np.shape(X)}.")
        scores = classifier_scores(distilled, distilled.schema.to_unit(X))
        return scores - scores.mean(1, keepdims=True)

    def save(self, folder: str | os.PathLike, overwrite: bool = False, title: str | None = None) -> Path:
        """Writes the folder to share: records, images, recipe, certificate, report, catalogue documents.

        Args:
            folder: path of the folder; unless overwrite, it must be empty or not exist.
            overwrite: replace an earlier result of this program.
            title: heading of the page; its classes by default.

        Raises:
            DataError: the folder cannot be written.
        """
        with told(self.payment):
            path = self._save(folder, overwrite, title)
        if self.payment is not None:
            self.payment.saved = path
        LOG.info("%s is written", path)
        return path

    def _save(self, folder: str | os.PathLike, overwrite: bool, title: str | None) -> Path:
        path = check_output(folder, overwrite)
        if self.run_dir is not None and path.resolve() in (self.run_dir.resolve(), *self.run_dir.resolve().parents):
            raise DataError(f"Expected an output folder without {self.run_dir}: the owner's folder is never shared.")
        if output_folder.ends(path, self.run_dir):
            return path
        target = output_folder.start(path)
        signatures = [name for name in list_files(target) if is_signing(name)]
        for stale in (*UNLISTED, *signatures):
            (target / stale).unlink(missing_ok=True)
        write_distilled(target, self.distilled, self._model())
        content = recipe_content(self.recipe)
        write_atomically(target / RECIPE, lambda file: file.write(content))
        certificate = build_certificate(
            target,
            schedule=self.schedule,
            recipe=self.recipe,
            schema=self.distilled.schema,
            noise=self.noise or NO_NOISE,
            slack=self.slack,
            backend=self.backend,
            self_test=self.self_test,
            releases=self.releases,
            ledger_head=self.ledger_head,
            owners=self.owners,
            summation=self.summation,
        )
        write_certificate(target, certificate)
        write_documents(target)
        write_report(target, title)
        output_folder.hand_over(target, path, self.run_dir)
        return path

    def _model(self) -> bytes | None:
        """Returns the released classifier as an ONNX file; None without a classifier, onnx or a translation."""
        if self.distilled.classifier is None or self.distilled.encoder is None:
            return None
        if not isinstance(self.distilled.schema, Schema):  # a table has its scorecard
            return None
        try:
            return released_model(self.distilled, self.distilled.encoder)
        except NotExported as error:
            LOG.info("%s is not written: %s", MODEL, error)
            return None
