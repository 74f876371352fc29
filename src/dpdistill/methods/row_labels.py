"""Probabilities of a table's classes: a released classifier of rows, calibrated by released sums; labels drawn."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from dpdistill.features.apply import encode
from dpdistill.features.table_rows import CONSTANT, RowFeatures, RowIndicators
from dpdistill.methods.generator_arrays import pieces_of
from dpdistill.schema import AnySchema, TableSchema
from dpdistill.schema.points import knots_of

SLOPES = (0.3, 5.0)
"""Bounds of the slope of log odds, per standard deviation of the scores: of few records, noise hides it."""
FLOOR = 0.5
"""Smallest count of a class, in standard deviations of its noise: of few records, noise hides the number."""


def row_features(schema: TableSchema, knots: int) -> RowFeatures:
    """Returns the features of a table's rows."""
    return RowFeatures(tuple((kind, start, width) for kind, start, width in pieces_of(schema)), knots)


def indicators_for(points: np.ndarray, schema: TableSchema) -> RowIndicators:
    """Returns the indicators of rows that belong to released points (D, classes).

    Raises:
        DataError: points that do not belong to the schema.
    """
    features = row_features(schema, knots_of(len(points), schema))
    return RowIndicators(features.pieces, features.knots)


def encoded(encoder: RowIndicators, X: np.ndarray) -> np.ndarray:
    """Returns features or indicators (n, D), float32, of encoded rows (n, d)."""
    return np.asarray(encode(encoder, jnp.asarray(X, jnp.float32)))


def scores_of(points: np.ndarray, schema: TableSchema, X: np.ndarray) -> np.ndarray:
    """Returns the log odds (n, classes) of encoded rows (n, d) by released points (D, classes).

    Raises:
        DataError: points that do not belong to the schema.
    """
    return encoded(indicators_for(points, schema), X) @ points


def class_counts(sums: np.ndarray, stddev: float, features: RowFeatures) -> np.ndarray:
    """Returns released counts of the classes (classes,), > 0, from their sums of features (D, classes).

    The last feature is the same constant for every row. `stddev` is that of the noise of the sums.
    """
    return np.maximum(sums[-1], max(FLOOR * stddev, 1e-6)) * features.length / CONSTANT


def calibrated(W: np.ndarray, counts: np.ndarray, sums: np.ndarray, stddev: float, Phi: np.ndarray) -> np.ndarray:
    """Returns weights of the features (D, classes) whose scores are log odds: a W, and b for the constant.

        max over a, b of  sum_c S_c . (a W_c) + n_c b_c  -  n mean over rows of log sum_c exp(a phi W_c + b_c)

    This is the likelihood of the records' labels, given the released sums S and counts n, if the features of the
    records are distributed as those of the rows. Noise in S may exceed what rows can explain: a is estimated from
    S . W minus one standard deviation of its noise, and bounded by SLOPES.

    Args:
        W: weights of the classifier, (D, classes).
        counts: released counts of the classes, (classes,).
        sums: released sums of each class's features, (D, classes).
        stddev: standard deviation of their noise.
        Phi: features of synthetic rows, (m, D), whose last one is constant.
    """
    W = W - W.mean(1, keepdims=True)
    scores = (Phi @ W).astype(np.float64)
    middle, spread = scores.mean(0), max(float(scores.std(0).max()), 1e-12)
    scores = (scores - middle) / spread
    total = float(counts.sum())
    shares = counts / total
    apart = W - W @ shares[:, None]
    signal = (float((sums * apart).sum()) - stddev * float(np.linalg.norm(apart))) / spread / total

    def loss(params: np.ndarray) -> tuple[float, np.ndarray]:
        logits = params[0] * scores + params[1:]
        p = softmax(logits, 1)
        value = np.asarray(logsumexp(logits, 1)).mean() - params[0] * signal - params[1:] @ shares
        slope = [(p * scores).sum(1).mean() - signal, *(p.mean(0) - shares)]
        return float(value), np.array(slope)

    start = np.concatenate([[1.0], np.log(shares)])
    bounds = [SLOPES, *[(None, None)] * len(shares)]
    a, *b = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    V = a / spread * W
    V[-1] += (np.array(b) - a / spread * middle) / Phi[0, -1]
    return V - V.mean(1, keepdims=True)


def labelled(points: np.ndarray | None, schema: AnySchema, X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Returns the labels (n,) of generated records: drawn from the probabilities of released points of rows, or y.

    Args:
        points: released classifier of a table, (D, classes), or None.
        schema: public facts.
        X: encoded rows, (n, d).
        y: labels of the generator, (n,); those of images stay.
        seed: public seed of the labels.
    """
    if points is None or not isinstance(schema, TableSchema):
        return y
    return drawn_labels(scores_of(points, schema, X), seed)


def drawn_labels(scores: np.ndarray, seed: int) -> np.ndarray:
    """Returns labels (n,), int32, drawn from softmax(scores), (n, classes); those of k rows begin those of n > k."""
    ends = np.cumsum(softmax(scores.astype(np.float64), 1), 1)[:, :-1]
    return (np.random.default_rng((seed, 1)).random(len(scores))[:, None] > ends).sum(1).astype(np.int32)
