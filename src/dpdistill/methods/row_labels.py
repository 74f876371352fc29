"""Probabilities of a table's classes: a released classifier of rows, calibrated by released sums; labels drawn."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from dpdistill.features.apply import encode
from dpdistill.features.table_rows import CONSTANT, RowFeatures
from dpdistill.methods.generator_arrays import pieces_of
from dpdistill.schema import TableSchema

STEEPEST = 5.0
"""Largest slope of log odds, per standard deviation of the scores: noise may exceed what rows can explain."""
LEAST_SHARE = 1e-3
"""Smallest share of a class in the calibration: noise may exceed the number of its records."""


def row_features(schema: TableSchema, knots: int) -> RowFeatures:
    """Returns the features of a table's rows."""
    return RowFeatures(tuple((kind, start, width) for kind, start, width in pieces_of(schema)), knots)


def features_of(features: RowFeatures, X: np.ndarray) -> np.ndarray:
    """Returns the features (n, D), float32, of encoded rows (n, d)."""
    return np.asarray(encode(features, jnp.asarray(X)))


def class_counts(sums: np.ndarray, features: RowFeatures) -> np.ndarray:
    """Returns released counts of the classes (classes,) from their sums of features (D, classes); at least 0.

    The last feature is the same constant for every row.
    """
    return np.maximum(0.0, sums[-1] * features.length / CONSTANT)


def calibrated(W: np.ndarray, counts: np.ndarray, sums: np.ndarray, Phi: np.ndarray) -> np.ndarray:
    """Returns a classifier (D, classes), float32, whose scores are log odds: a W, and b for the constant.

        max over a, b of  sum_c S_c . (a W_c) + n_c b_c  -  n mean over rows of log sum_c exp(a phi W_c + b_c)

    This is the likelihood of the records' labels, given the released sums S and counts n, if the features of the
    records are distributed as those of the rows. 0 <= a <= STEEPEST, relative to the standard deviation of the scores.

    Args:
        W: weights of the classifier, (D, classes).
        counts: released counts of the classes, (classes,).
        sums: released sums of each class's features, (D, classes).
        Phi: features of synthetic rows, (m, D), whose last one is constant.
    """
    W = W - W.mean(1, keepdims=True)
    scores = (Phi @ W).astype(np.float64)
    middle, spread = scores.mean(0), max(float(scores.std(0).max()), 1e-12)
    scores = (scores - middle) / spread
    total = max(1.0, float(counts.sum()))
    shares = np.maximum(counts / total, LEAST_SHARE)
    shares = shares / shares.sum()
    signal = float((((sums * W).sum(0) - counts * middle) / spread).sum()) / total

    def loss(params: np.ndarray) -> tuple[float, np.ndarray]:
        logits = params[0] * scores + params[1:]
        p = softmax(logits, 1)
        value = logsumexp(logits, 1).mean() - params[0] * signal - params[1:] @ shares
        slope = [(p * scores).sum(1).mean() - signal, *(p.mean(0) - shares)]
        return float(value), np.array(slope)

    start = np.concatenate([[1.0], np.log(shares)])
    bounds = [(0.0, STEEPEST), *[(None, None)] * len(shares)]
    a, *b = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    V = a / spread * W
    V[-1] += (np.array(b) - a / spread * middle) / Phi[0, -1]
    return (V - V.mean(1, keepdims=True)).astype(np.float32)


def drawn_labels(scores: np.ndarray, seed: int) -> np.ndarray:
    """Returns labels (n,), int32, drawn from softmax(scores), (n, classes); those of k rows begin those of n > k."""
    ends = np.cumsum(softmax(scores.astype(np.float64), 1), 1)[:, :-1]
    return (np.random.default_rng((seed, 1)).random(len(scores))[:, None] > ends).sum(1).astype(np.int32)
