"""Queries for class sums of features, and for classifier gradients on features with shrunk class-mean directions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.features.eight_bits import unit_of
from dpdistill.methods.softmax import SoftmaxQuery, read

KEPT = 0.5
"""Factor on features in the directions in which class means differ."""
SMALL = 1e-9
"""Share of the sums below which singular values are rounding errors."""
LEAST = 2.0**-8
"""Least norm to divide by: a record along the removed directions leaves rounding errors, which must stay small."""


@dataclass(frozen=True)
class ClassSumsQuery(SoftmaxQuery):
    """Query for the sums of each class's features, for records of norm at most 1 in feature space.

        u_i = phi_i y_i^T,   y_i the indicator of the class

    Params: an empty array, float64.

    Guarantee:
        y_i is a coefficient, as p_i - y_i is in SoftmaxQuery: norm, sum and error_bound are those of that query.
    Source: Dwork et al., 2006 (Calibrating noise to sensitivity in private data analysis).
    """

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        return jnp.outer(read(x, params.dtype), jax.nn.one_hot(y, self.classes, dtype=params.dtype))

    def coefficients(self, params: Any, x: Array, y: Array) -> tuple[Array, Array]:
        return x, unit_of(x, params.dtype) * jax.nn.one_hot(y, self.classes, dtype=params.dtype)


@dataclass(frozen=True)
class LessMeansQuery(SoftmaxQuery):
    """Query for the gradient of the logistic loss, for features shrunk in some directions and renormalised.

        u_i = psi_i (p_i - y_i)^T,   p_i = softmax(psi_i W)
        psi_i = A phi_i / max(||A phi_i||, LEAST),   A = I - B B^T

    Params: {"W": (d, classes), "B": (d, directions)}, float64.

    Guarantee:
        psi_i is a coefficient, as phi_i is in SoftmaxQuery: norm, sum and error_bound are those of that query.
    Source: ours.
    """

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        return super().contribution(params["W"], _remove_directions(params["B"], read(x, params["B"].dtype)), y)

    def coefficients(self, params: Any, x: Array, y: Array) -> tuple[Array, Array]:
        dtype = jnp.promote_types(x.dtype, jnp.float32)
        return super().coefficients(params["W"], _remove_directions(params["B"].astype(dtype), read(x, dtype)), y)


def _remove_directions(B: Array, phi: Array) -> Array:
    left = phi - B @ (phi @ B)
    largest = jnp.max(jnp.abs(left))  # squares of tiny or huge numbers do not fit single precision
    norm = largest * jnp.sqrt(jnp.sum(jnp.square(left / jnp.where(largest > 0, largest, 1.0))))
    return left / jnp.maximum(norm, LEAST)


def common_directions(sums: np.ndarray) -> np.ndarray:
    """Returns B of the released class sums, both (d, classes): post-processing.

        B = [h, sqrt(1 - KEPT) V],   h = sum_c s_c / ||sum_c s_c||,   V the left singular vectors of the sums without h

    The sums without h add up to 0, so that V has at most classes - 1 columns; missing columns are 0. The map A removes
    the mean direction of all records, and halves the directions in which class means differ. Both directions take up
    norm, which determines the noise, and classes that are hard to distinguish differ in other directions.
    """
    h = sums.sum(1) / max(float(np.linalg.norm(sums.sum(1))), 1e-300)
    vectors, values, _ = np.linalg.svd(sums - np.outer(h, h @ sums), full_matrices=False)
    V = vectors[:, values > SMALL * max(values[0], float(np.linalg.norm(sums)))][:, : sums.shape[1] - 1]
    B = np.zeros_like(sums)
    B[:, : V.shape[1] + 1] = np.column_stack([h, math.sqrt(1.0 - KEPT) * V])
    return B
