"""Query for the gradients of a private linear classifier on fixed features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.features.eight_bits import unit_of
from dpdistill.query import MOST_ROWS

ROUNDING = 2.0**-53
COLUMNS = 512
NOISE = 0.07
"""Largest standard deviation of a step's noise per weight."""


@dataclass(frozen=True)
class SoftmaxQuery:
    """Query for a linear classifier's logistic-loss gradient, for records of norm at most 1 in feature space.

        u_i = phi_i (p_i - y_i)^T,   p_i = softmax(phi_i W),   ||u_i|| = ||p_i - y_i|| ||phi_i||

    Params: W (d, classes), float64, the scale of the logits included.

    Args:
        clip_norm: L2 bound of one record's contribution.
        classes: number of classes of the data set.
        encoder: fixed features of a record, X (n, ...) -> (n, d), or their codes (`EightBits`): for codes x_i,
            phi_i = x_i / ||x_i|| and the coefficients are (x_i, (p_i - y_i) / ||x_i||).

    Guarantee:
        The norm is a closed form of the coefficients, the product of their lengths: two sums of squares in float64,
        whose relative error is below (d + 16) u, u = 2^-53; it is multiplied by 1 + 2^-20 (d < 2^32). A share of the
        weighted sum has norm at most C and is added up with at most 127 others in a block: error_bound = (128 + 4) u C.

    Source: Song et al., 2013 (Stochastic gradient descent with differentially private updates); Tramer & Boneh, 2021
    (Differentially private learning needs better features).
    """

    clip_norm: float
    classes: int
    encoder: Any
    by_class: bool = False

    @property
    def error_bound(self) -> float:
        return (MOST_ROWS + 4) * ROUNDING * self.clip_norm

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        phi = read(x, params.dtype)
        return jnp.outer(phi, _residuals(params, phi, y, self.classes))

    def prepare(self, params: object) -> Any:
        return params

    def coefficients(self, params: Any, x: Array, y: Array) -> tuple[Array, Array]:
        # Single precision suffices: coefficients count as exact, and their computation is most of the work.
        dtype = jnp.promote_types(x.dtype, jnp.float32)
        return x, unit_of(x, dtype) * _residuals(params.astype(dtype), read(x, dtype), y, self.classes)

    def norm(self, params: object, coefficients: tuple[Array, Array]) -> Array:
        phi, residual = (a.astype(jnp.float64) for a in coefficients)
        return jnp.sqrt(jnp.sum(jnp.square(residual)) * jnp.sum(jnp.square(phi))) * (1 + 2.0**-20)

    def weighted_sum(self, params: object, coefficients: tuple[Array, Array], w: Array) -> Array:
        X, residuals = coefficients[0], coefficients[1].astype(jnp.float64)
        return _by_columns((w[:, None] * residuals).T, X).T


def step(state: dict[str, Any], G: np.ndarray, t: int, rounds: int, momentum: float, size: float) -> dict[str, Any]:
    """Returns classifier and velocity after a released gradient: post-processing.

        velocity <- momentum velocity + G / ||G||,   W <- W - size (1 + cos(pi t / rounds)) / 2 velocity

    Args:
        state: "W" and "velocity", (d, classes).
        G: the released gradient, (d, classes).
        t: number of earlier gradients.
        rounds: number of all gradients.
        momentum: of the steps.
        size: norm of the first step.
    """
    velocity = momentum * state["velocity"] + G / max(float(np.linalg.norm(G)), 1e-300)
    rate = size * 0.5 * (1.0 + math.cos(math.pi * t / rounds))
    return {"W": state["W"] - rate * velocity, "velocity": velocity}


def bounded(size: float, G: np.ndarray, stddev: float) -> float:
    """Returns the norm of a step along a released gradient: at most `size`, and with at most NOISE per weight.

        min(size, NOISE ||G|| / stddev)

    A gradient of little more than noise has the norm stddev sqrt(d classes). Few features or classes then allow small
    steps only: noise in the weights adds up, and would exceed what the features of a record tell.

    Args:
        size: largest norm.
        G: the released gradient, (d, classes).
        stddev: standard deviation of its noise per coordinate; 0.0 without noise.
    """
    return min(size, NOISE * float(np.linalg.norm(G)) / stddev) if stddev else size


def read(x: Array, dtype: Any) -> Array:
    """Returns the features (d,) of one record, decoding 8-bit codes."""
    return x.astype(dtype) * unit_of(x, dtype)


def _by_columns(R: Array, X: Array) -> Array:
    """Returns R X in float64 of R (classes, m) and X (m, d).

    A CPU converts COLUMNS of X at a time to float64, which fit its cache: three times as fast.
    """
    size = min(COLUMNS, X.shape[1]) if jax.default_backend() == "cpu" else X.shape[1]
    strips = X.shape[1] // size

    def product(strip: Array) -> Array:
        return R @ strip.astype(jnp.float64)

    found = jax.lax.map(lambda i: product(jax.lax.dynamic_slice_in_dim(X, i * size, size, 1)), jnp.arange(strips))
    found = jnp.moveaxis(found, 0, 1).reshape(len(R), -1)
    return jnp.concatenate([found, product(X[:, strips * size :])], 1)


def _residuals(W: Array, phi: Array, y: Array, classes: int) -> Array:
    """Returns p - y of one record, (classes,)."""
    logits = phi @ W
    return jax.nn.softmax(logits) - jax.nn.one_hot(y, classes, dtype=logits.dtype)
