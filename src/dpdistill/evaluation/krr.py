"""Scores kernel ridge regression on a synthetic set."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.evaluation.chunks import CHUNK, Chunks, counted
from dpdistill.evaluation.score import Score, scaled
from dpdistill.features.apply import encode
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import check_definite, one_hot, solve
from dpdistill.method import Progress, no_progress
from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records
from dpdistill.storage.test_set import check_test_set


def score_krr(
    X: np.ndarray,
    y: np.ndarray,
    schema: Schema,
    test: Records,
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
    check_test_set(schema, test)
    check_krr(kernel, ridge, schema)
    Y = one_hot(y, len(schema.classes), np.float64) if targets is None else np.asarray(targets, np.float64)
    X_t, y_t = scaled(test)
    support, queried = Chunks(X, chunk), Chunks(X_t, chunk)
    tell = counted(progress, "kernel ridge regression", len(support) + len(queried))
    if isinstance(kernel, FeatureKernel):
        classifier = linear_classifier(support, Y, kernel, ridge, tell)
        scores = [tell(encode(kernel.encoder, part)[:rows]) @ classifier for part, rows in queried]
    else:
        K_ss = np.concatenate([tell(_rows(kernel, part, X)[:rows]) for part, rows in support]).astype(np.float64)
        alpha = _solve((K_ss + K_ss.T) / 2, Y, ridge)
        scores = [tell(_rows(kernel, part, X)[:rows]) @ alpha for part, rows in queried]
    return _score(scores, y_t)


def linear_classifier(
    support: Chunks, Y: np.ndarray, kernel: FeatureKernel, ridge: float, tell: Callable[[Any], Any]
) -> np.ndarray:
    """Returns Phi_s^T alpha, (d, classes), float64: kernel ridge regression as a linear classifier of features."""
    Phi_s = np.concatenate([tell(encode(kernel.encoder, part)[:rows]) for part, rows in support])
    return _linear(Phi_s.astype(np.float64), Y, ridge)


def _linear(Phi_s: np.ndarray, Y: np.ndarray, ridge: float) -> np.ndarray:
    """Returns Phi^T (Phi Phi^T + s I)^-1 Y, s = ridge tr / m, by the smaller of the two equivalent systems."""
    m, d = Phi_s.shape
    if m <= d:
        return Phi_s.T @ _solve(Phi_s @ Phi_s.T, Y, ridge)
    return _solve(Phi_s.T @ Phi_s, Phi_s.T @ Y, ridge * d / m)


def check_krr(kernel: Any, ridge: float, schema: Schema) -> None:
    """Refuses a ridge or kernel that cannot be used on the records, before any computation.

    Raises:
        DataError: a kernel that does not accept the records.
        ValueError: a ridge that is not a number >= 0.
    """
    if not isinstance(ridge, int | float) or not 0.0 <= ridge < math.inf:
        raise ValueError(f"Expected ridge={ridge} >= 0.")
    x = jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32)
    try:
        shape = jax.eval_shape(kernel, x, x).shape
    except (TypeError, AttributeError) as error:
        raise DataError(f"The kernel {kernel!r} cannot be computed ({type(error).__name__}).") from None
    if shape != (1, 1):
        raise DataError(f"Expected a kernel of shape (n, m); got {shape} for single records.")


def _solve(K_ss: np.ndarray, Y_s: np.ndarray, ridge: float) -> np.ndarray:
    with jax.enable_x64(True):
        alpha = np.asarray(_alpha(K_ss, Y_s, ridge))
    check_definite(alpha, ridge)
    return alpha


def _score(scores: list[np.ndarray], y: np.ndarray) -> Score:
    return Score((100.0 * float((np.concatenate(scores).argmax(1) == y).mean()),))


_alpha = jax.jit(solve)
_rows = jax.jit(lambda kernel, X, Z: kernel(X, Z), static_argnums=0)
