"""Query for second moments of vectors of norm at most 1, and the positive semi-definite matrix of its answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.methods.softmax import ROUNDING
from dpdistill.query import MOST_ROWS

ROOT = math.sqrt(2.0)


@dataclass(frozen=True)
class SecondMomentsQuery:
    """Query for the sum of v_i v_i^T, for the vectors v_i of an encoder.

        u_i = svec(v_i v_i^T),   ||u_i|| = ||v_i v_i^T||_F = ||v_i||^2

    svec lists the diagonal and sqrt(2) times the upper triangle of a symmetric matrix, row by row, so that its norm is
    the Frobenius norm of the matrix. A vector v = (phi, w y) / sqrt(1 + w^2) of features phi and a number y in [-1, 1],
    ||phi|| <= 1, has norm at most 1: the blocks phi phi^T, phi y and y^2 share the clip norm 1.

    Params: an empty array, float64.

    Args:
        clip_norm: L2 bound of one record's contribution.
        size: number of coordinates of a vector.
        encoder: fixed vectors of a record, X (n, ...) -> (n, size).

    Guarantee:
        ||v v^T||_F^2 = sum_jk v_j^2 v_k^2 = ||v||^4. The norm is that closed form of the coefficients v: a sum of
        squares in float64, whose relative error is below (size + 16) u, u = 2^-53; it is multiplied by 1 + 2^-20
        (size < 2^32), which also covers the rounding of sqrt(2). Of a record with weight w <= C / norm, the entries
        of the share have the absolute norm C; each is rounded four times, and added up with at most 127 others in a
        block: error_bound = (128 + 8) u C.
    Source: Dwork et al., 2014 (Analyze Gauss); Wang, 2018, Algorithm 2 (AdaSSP).
    """

    clip_norm: float
    size: int
    encoder: Any
    by_class: bool = False

    @property
    def error_bound(self) -> float:
        return (MOST_ROWS + 8) * ROUNDING * self.clip_norm

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        v = x.astype(params.dtype)
        return self._svec(jnp.outer(v, v))

    def prepare(self, params: object) -> Any:
        return params

    def coefficients(self, params: object, x: Array, y: Array) -> Array:
        return x

    def norm(self, params: object, coefficients: Array) -> Array:
        return jnp.sum(jnp.square(coefficients.astype(jnp.float64))) * (1 + 2.0**-20)

    def weighted_sum(self, params: object, coefficients: Array, w: Array) -> Array:
        V = coefficients.astype(jnp.float64)
        return self._svec((w[:, None] * V).T @ V)

    def _svec(self, A: Array) -> Array:
        rows, columns = np.triu_indices(self.size)
        return A[rows, columns] * jnp.asarray(np.where(rows == columns, 1.0, ROOT), A.dtype)


def symmetric(sums: np.ndarray, size: int) -> np.ndarray:
    """Returns the symmetric matrix (size, size), float64, of sums (size (size + 1) / 2,) in the order of svec."""
    rows, columns = np.triu_indices(size)
    A = np.zeros((size, size))
    A[rows, columns] = np.asarray(sums, np.float64) / np.where(rows == columns, 1.0, ROOT)
    return A + np.triu(A, 1).T


def positive(A: np.ndarray) -> np.ndarray:
    """Returns the nearest positive semi-definite matrix in Frobenius norm: negative eigenvalues become 0."""
    values, vectors = np.linalg.eigh(A)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T
