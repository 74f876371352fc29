"""A linear classifier, released or fitted to a set: its accuracy, and its scores of pictures that others learn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.evaluation.chunks import CHUNK, Chunks, counted
from dpdistill.evaluation.krr import check_krr, linear_classifier
from dpdistill.evaluation.score import Score, scaled
from dpdistill.features.apply import along, encode, with_chain_rule
from dpdistill.features.gamma_correction import GammaCorrected
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import one_hot
from dpdistill.method import Progress, no_progress
from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records
from dpdistill.storage.test_set import check_test_set


@dataclass(frozen=True, eq=False)
class Teacher:
    """A linear classifier on fixed features: teacher(X) are its scores, phi(X) classifier.

    Args:
        classifier: (d, classes), released, or of `teacher_of`.
        kernel: a feature kernel; its encoder phi has d features.
        schema: of the records that the classifier was released from.

    Guarantee:
        Post-processing of a release: its scores of pictures that are nobody's records cost no further epsilon.

    Raises:
        DataError: a kernel without d features.
    """

    classifier: np.ndarray
    kernel: Any
    schema: Schema

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, FeatureKernel):
            raise DataError(f"Expected a feature kernel with a linear classifier; got {self.kernel!r}.")
        check_krr(self.kernel, 0.0, self.schema)
        record = jax.ShapeDtypeStruct((1, *self.schema.shape), jnp.float32)
        expected = jax.eval_shape(self.kernel.encoder, record).shape[1], len(self.schema.classes)
        if self.classifier.shape != expected:
            raise DataError(f"Expected a classifier of shape {expected}; got {self.classifier.shape}.")

    def __call__(self, X: np.ndarray, chunk: int = CHUNK, progress: Progress = no_progress) -> np.ndarray:
        """Scores (n, classes), float32, of pictures X (n, h, w, c) in [-1, 1].

        Args:
            X: of the schema's shape, at least one.
            chunk: pictures a compiled call works on; it changes no score.
            progress: told the number of chunks done.

        Raises:
            DataError: pictures of another shape, or none.
        """
        self._check(X)
        parts = Chunks(X, chunk)
        tell = counted(progress, "scores of pictures", len(parts))
        encoder = self.kernel.encoder
        return np.concatenate([tell(encode(encoder, part)[:rows]) @ self.classifier for part, rows in parts])

    def sloped(
        self,
        X: np.ndarray,
        weigh: Callable[[np.ndarray], np.ndarray],
        chunk: int = CHUNK,
        progress: Progress = no_progress,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores (n, classes) and how they change with pixels: the gradient of w_i . scores(x_i) by x_i, in X's shape.

        Args:
            X: pictures in [-1, 1], (n, h, w, c), of the schema's shape, at least one.
            weigh: weights w (m, classes) of the classes of m pictures, from their scores; record by record.
            chunk: pictures a compiled call works on; it changes no gradient.
            progress: told the number of chunks done.

        Raises:
            DataError: pictures of another shape, or none.
        """
        self._check(X)
        scores, slopes, parts = [], np.empty(X.shape, np.float32), Chunks(X, chunk)
        tell = counted(progress, "slopes of scores", len(parts))
        for i, (part, rows) in enumerate(parts):
            features, rule = with_chain_rule(self.kernel.encoder, part)
            scores.append(np.asarray(features) @ self.classifier)
            slopes[i * chunk : i * chunk + rows] = tell(along(rule, weigh(scores[-1]) @ self.classifier.T))[:rows]
            del features, rule  # before the next ones are made: they hold more than the records
        return np.concatenate(scores)[: len(X)], slopes

    def units(self, X: np.ndarray) -> np.ndarray | None:
        """How far a pixel of X goes for a step of what the features see in its place; None: as far.

        A root of the light makes gradients by black pixels many times those by white ones, which says nothing of a
        picture: times these units they are what the features see.
        """
        encoder = self.kernel.encoder
        return np.asarray(encoder.units(jnp.asarray(X)), np.float32) if isinstance(encoder, GammaCorrected) else None

    def _check(self, X: np.ndarray) -> None:
        if X.shape[1:] != self.schema.shape or not len(X):
            raise DataError(f"Expected pictures of shape {('n', *self.schema.shape)}, n >= 1; got {X.shape}.")


def teacher_of(
    X: np.ndarray,
    y: np.ndarray,
    schema: Schema,
    *,
    kernel: Any,
    ridge: float,
    targets: np.ndarray | None = None,
    chunk: int = CHUNK,
    progress: Progress = no_progress,
) -> Teacher:
    """Kernel ridge regression on a synthetic set as a teacher: what `score_krr` scores, from the set alone.

    Args:
        X: synthetic records in [-1, 1], (m, h, w, c).
        y: class indices, (m,).
        schema: of the synthetic set.
        kernel: a feature kernel.
        ridge: relative to tr(K_ss) / m, >= 0.
        targets: regression targets, (m, classes); one-hot minus 1 / classes of y by default.
        chunk: records a compiled call works on; it changes no score.
        progress: told the number of chunks done.

    Raises:
        DataError: a kernel without features, or one that does not take such records.
        ValueError: a ridge below 0, or a matrix that is not positive definite.
    """
    if not isinstance(kernel, FeatureKernel):
        raise DataError(f"Expected a feature kernel of what teaches; got {kernel!r}.")
    check_krr(kernel, ridge, schema)
    Y = one_hot(y, len(schema.classes), np.float64) if targets is None else np.asarray(targets, np.float64)
    support = Chunks(X, chunk)
    tell = counted(progress, "kernel ridge regression", len(support))
    return Teacher(linear_classifier(support, Y, kernel, ridge, tell).astype(np.float32), kernel, schema)


def score_classifier(teacher: Teacher, test: Records, *, chunk: int = CHUNK, progress: Progress = no_progress) -> Score:
    """Accuracy of a released classifier on test records.

    Args:
        teacher: the classifier.
        test: records of the same shape and classes; at least one.
        chunk: records a compiled call works on; it changes no score.
        progress: told the number of chunks done.

    Raises:
        DataError: a test set that does not fit.
    """
    check_test_set(teacher.schema, test)
    X, y = scaled(test)
    return Score((100.0 * float((teacher(X, chunk, progress).argmax(1) == y).mean()),))
