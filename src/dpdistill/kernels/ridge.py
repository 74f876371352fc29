"""Kernel ridge regression on a support set of synthetic records."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import cho_solve


def one_hot(y: np.ndarray | Array, classes: int, dtype: Any = np.float32) -> np.ndarray:
    """Returns regression targets of class indices: one-hot minus 1 / classes, (n, classes)."""
    return np.eye(classes, dtype=dtype)[np.asarray(y)] - np.asarray(1.0 / classes, dtype)


def shift(K_ss: Array, ridge: float | Array) -> Array:
    """Returns K_ss + ridge tr(K_ss) / m I."""
    m = K_ss.shape[0]
    return K_ss + ridge * jnp.trace(K_ss) / m * jnp.eye(m, dtype=K_ss.dtype)


def solve(K_ss: Array, Y_s: Array, ridge: float | Array) -> Array:
    """Returns alpha = (K_ss + ridge tr(K_ss) / m I)^-1 Y_s by Cholesky, (m, classes); NaN if it is not definite."""
    return cho_solve((jnp.linalg.cholesky(shift(K_ss, ridge)), True), Y_s)


def soft_labels(scores: np.ndarray, y: np.ndarray, softness: float) -> np.ndarray:
    """Returns a classifier's probabilities for records of known classes, (n, classes), float32.

        softmax(s / T),   T = softness times the mean margin of the score of a record's class above the others

    Records that the classifier assigns to another class keep their own class, one-hot.

    Args:
        scores: s, (n, classes).
        y: the classes, (n,).
        softness: > 0.
    """
    own = np.eye(scores.shape[1], dtype=np.float32)[y]
    above = scores.max(1, where=own > 0, initial=-np.inf) - scores.max(1, where=own == 0, initial=-np.inf)
    temperature = max(softness * float(above.mean()), 1e-6)
    return np.where((above > 0)[:, None], jax.nn.softmax(scores / temperature, axis=1), own)


def centred(scores: Any) -> Any:
    """Returns scores (n, classes) minus their mean over the classes, which does not change the classification."""
    return scores - scores.mean(1, keepdims=True)


def standardised(scores: Any) -> np.ndarray:
    """Returns scores (n, classes) for training a network: centred over the classes, standard deviation 1, float32."""
    result = centred(np.asarray(scores))
    return (result / max(float(result.std()), 1e-12)).astype(np.float32)


def cosine(A: Array, B: Array) -> Array:
    """Returns the cosine of the angle between two arrays of equal shape; 0 if either is zero."""
    return jnp.sum(A * B) / jnp.sqrt(jnp.sum(jnp.square(A)) * jnp.sum(jnp.square(B)) + 1e-30)


def check_definite(values: Array | np.ndarray, ridge: float) -> None:
    """Raises if a value computed from the Cholesky factor is not finite.

    Raises:
        ValueError: states the ridge.
    """
    if not np.isfinite(np.asarray(values)).all():
        raise ValueError(f"K_ss + ridge*I is not positive definite: raise ridge (now {float(ridge):g}).")
