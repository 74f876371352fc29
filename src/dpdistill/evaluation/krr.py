"""Fits kernel ridge regression to a synthetic set, and scores the regression."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np

from dpdistill.evaluation.chunks import CHUNK, Chunks, counted
from dpdistill.evaluation.score import Score, TestSet, test_set
from dpdistill.evaluation.teacher import Teacher, check_krr, score_classifier
from dpdistill.features.apply import encode
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import check_definite, one_hot, solve
from dpdistill.method import Progress, no_progress
from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records


def score_krr(
    X: np.ndarray,
    y: np.ndarray,
    schema: Schema,
    test: Records | TestSet,
    *,
    kernel: Any,
    ridge: float,
    targets: np.ndarray | None = None,
    chunk: int = CHUNK,
    progress: Progress = no_progress,
) -> Score:
    """Returns the test accuracy of kernel ridge regression fitted to synthetic records.

        scores = K_ts (K_ss + ridge tr(K_ss) / m I)^-1 Y_s

    A feature kernel is a linear classifier on its features: scores = phi(X_t) (Phi_s^T alpha). Kernels are computed in
    float32 as the records are; the m x m system is solved in float64, where a small ridge is not lost in rounding.

    Args:
        X: synthetic records in [-1, 1], (m, h, w, c).
        y: class indices, (m,).
        schema: schema of the synthetic set.
        test: records of the same shape and classes; at least one.
        kernel: a frozen, hashable function of two batches.
        ridge: relative to tr(K_ss) / m, >= 0.
        targets: regression targets, (m, classes); one-hot minus 1 / classes of y by default.
        chunk: number of records per compiled call; does not change scores.
        progress: receives the number of chunks done.

    Raises:
        DataError: a test set of another shape or other classes, or without records; a kernel that cannot be computed.
        ValueError: a ridge below 0, or a matrix that is not positive definite.
    """
    check_krr(kernel, ridge, schema)
    X_t, y_t = test = test_set(schema, test)
    if isinstance(kernel, FeatureKernel):
        how = {"ridge": ridge, "targets": targets, "chunk": chunk, "progress": progress}
        return score_classifier(fit_krr(X, y, schema, kernel=kernel, **how), test, chunk=chunk, progress=progress)
    support, queried = Chunks(X, chunk), Chunks(X_t, chunk)
    tell = counted(progress, "kernel ridge regression", len(support) + len(queried))
    K_ss = np.concatenate([tell(_rows(kernel, part, X)[:rows]) for part, rows in support]).astype(np.float64)
    alpha = _solve((K_ss + K_ss.T) / 2, _targets(y, schema, targets), ridge)
    scores = np.concatenate([tell(_rows(kernel, part, X)[:rows]) @ alpha for part, rows in queried])
    return Score.of([scores.argmax(1)], y_t, schema.classes)


def fit_krr(
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
    """Returns kernel ridge regression on a synthetic set as a linear classifier Phi_s^T alpha (d, classes), float64.

    Args:
        X: synthetic records in [-1, 1], (m, h, w, c).
        y: class indices, (m,).
        schema: schema of the synthetic set.
        kernel: a feature kernel.
        ridge: relative to tr(K_ss) / m, >= 0.
        targets: regression targets, (m, classes); one-hot minus 1 / classes of y by default.
        chunk: number of records per compiled call; does not change scores.
        progress: receives the number of chunks done.

    Raises:
        DataError: a kernel without features, or one that does not accept the records.
        ValueError: a ridge below 0, or a matrix that is not positive definite.
    """
    if not isinstance(kernel, FeatureKernel):
        raise DataError(f"Expected a feature kernel for a teacher; got {kernel!r}.")
    check_krr(kernel, ridge, schema)
    support = Chunks(X, chunk)
    tell = counted(progress, "kernel ridge regression", len(support))
    Phi_s = np.concatenate([tell(encode(kernel.encoder, part)[:rows]) for part, rows in support])
    return Teacher(_linear(Phi_s.astype(np.float64), _targets(y, schema, targets), ridge), kernel, schema)


def teacher_of(X: np.ndarray, y: np.ndarray, schema: Schema, **how: Any) -> Teacher:
    """Returns kernel ridge regression as a teacher in single precision, with the arguments of `fit_krr`."""
    teacher = fit_krr(X, y, schema, **how)
    return replace(teacher, classifier=teacher.classifier.astype(np.float32))


def _targets(y: np.ndarray, schema: Schema, targets: np.ndarray | None) -> np.ndarray:
    return one_hot(y, len(schema.classes), np.float64) if targets is None else np.asarray(targets, np.float64)


def _linear(Phi_s: np.ndarray, Y: np.ndarray, ridge: float) -> np.ndarray:
    """Returns Phi^T (Phi Phi^T + s I)^-1 Y, s = ridge tr / m, by the smaller of the two equivalent systems."""
    m, d = Phi_s.shape
    if m <= d:
        return Phi_s.T @ _solve(Phi_s @ Phi_s.T, Y, ridge)
    return _solve(Phi_s.T @ Phi_s, Phi_s.T @ Y, ridge * d / m)


def _solve(K_ss: np.ndarray, Y_s: np.ndarray, ridge: float) -> np.ndarray:
    with jax.enable_x64(True):
        alpha = np.asarray(_alpha(K_ss, Y_s, ridge))
    check_definite(alpha, ridge)
    return alpha


_alpha = jax.jit(solve)
_rows = jax.jit(lambda kernel, X, Z: kernel(X, Z), static_argnums=0)
