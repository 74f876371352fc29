"""Query for a classifier's accuracy on the records, which one release makes public with the set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.methods.softmax import read
from dpdistill.query import Release

WEIGHTS = 0.5**1.5, 0.375**0.5
"""Weights of a record and of an error: their squares, each counted in two rows, add up to 1.

The error rate q of N records then has the noise variance (q^2 / 0.125 + 1 / 0.375) / N^2 relative to the round's.
Errors instead of successes, with three times the precision of records, suit rates below one half.
"""
CLIP = 1.0 + 2.0**-9
"""Clip norm: above the norm of every contribution by the margin of the grid (`private.grid`), which so cuts none."""


@dataclass(frozen=True)
class AccuracyQuery:
    """Query for the numbers of records, and of those whose class a linear classifier misses, per class and in total.

        u_i = (e_y, 1) (a, b [argmax phi_i W != y_i])^T,   e_y the indicator of the class,   a, b = WEIGHTS

    Params: W (d, classes), float64.

    Args:
        classes: number of classes of the data set.
        encoder: fixed features of a record, X (n, ...) -> (n, d), or their codes (`EightBits`).

    Guarantee:
        A record has at most the numbers a and b twice, and 2 (a^2 + b^2) = 1, so that the norm is at most 1. Rows of
        one unit together are clipped to the norm of one record, errors more than others: no accuracy is stated then.
    Source: ours.
    """

    classes: int
    encoder: Any
    clip_norm: float = CLIP
    by_class: bool = False

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        """Returns u_i, (classes + 1, 2)."""
        missed = (read(x, jnp.float32) @ params.astype(jnp.float32)).argmax() != y
        rows = jnp.append(jax.nn.one_hot(y, self.classes, dtype=jnp.float32), 1.0)
        return jnp.outer(rows, jnp.array(WEIGHTS, jnp.float32) * jnp.stack([jnp.ones_like(missed), missed]))


def accuracy_table(release: Release, classes: int) -> np.ndarray:
    """Returns (classes + 1, 4): noisy numbers of records and of errors, and the standard deviations of their noise.

    Rows are the classes and, last, all records together.
    """
    counts = np.reshape(release.value, (classes + 1, 2)) / WEIGHTS
    return np.hstack([counts, np.full_like(counts, release.stddev) / WEIGHTS])
