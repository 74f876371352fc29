"""Kernel ridge regression: what a support set of synthetic records teaches a kernel."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import cho_solve


def one_hot(y: np.ndarray | Array, classes: int, dtype: Any = np.float32) -> np.ndarray:
    """Regression targets of class indices: one-hot minus 1 / classes, (n, classes)."""
    return np.eye(classes, dtype=dtype)[np.asarray(y)] - np.asarray(1.0 / classes, dtype)


def shift(K_ss: Array, ridge: float | Array) -> Array:
    """K_ss + ridge tr(K_ss) / m I."""
    m = K_ss.shape[0]
    return K_ss + ridge * jnp.trace(K_ss) / m * jnp.eye(m, dtype=K_ss.dtype)


def solve(K_ss: Array, Y_s: Array, ridge: float | Array) -> Array:
    """alpha = (K_ss + ridge tr(K_ss) / m I)^-1 Y_s by Cholesky, (m, classes); not a number if it is not definite."""
    return cho_solve((jnp.linalg.cholesky(shift(K_ss, ridge)), True), Y_s)


def check_definite(values: Array | np.ndarray, ridge: float) -> None:
    """Raise where what was computed from the Cholesky factor is not finite.

    Raises:
        ValueError: with the ridge.
    """
    if not np.isfinite(np.asarray(values)).all():
        raise ValueError(f"K_ss + ridge*I is not positive definite: raise ridge (now {float(ridge):g}).")


def fit(kernel: Any, X_s: Array, Y_s: Array, ridge: float) -> Array:
    """Dual weights of kernel ridge regression on a support set.

        alpha = (K_ss + ridge tr(K_ss) / m I)^-1 Y_s

    Args:
        kernel: a function of two batches.
        X_s: support records, (m, ...).
        Y_s: targets, (m, classes).
        ridge: relative to the mean of the diagonal, >= 0.

    Returns:
        alpha, (m, classes).

    Raises:
        ValueError: a matrix that is not positive definite; the text names the ridge.
    """
    alpha = _fit(kernel, X_s, Y_s, ridge)
    check_definite(alpha, ridge)
    return alpha


def predict(kernel: Any, X: Array, X_s: Array, alpha: Array) -> Array:
    """K_ts alpha, (n, classes)."""
    return _predict(kernel, X, X_s, alpha)


def _fit_plain(kernel: Any, X_s: Array, Y_s: Array, ridge: float) -> Array:
    return solve(kernel(X_s, X_s), Y_s, ridge)


_fit = jax.jit(_fit_plain, static_argnums=0)
_predict = jax.jit(lambda kernel, X, X_s, alpha: kernel(X, X_s) @ alpha, static_argnums=0)
