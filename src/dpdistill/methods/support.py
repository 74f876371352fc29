"""What the kernel methods share: support sets, their features, and gradients brought from features to pixels."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import cho_solve

from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.ridge import one_hot, shift
from dpdistill.methods.kip_gradient import derivatives
from dpdistill.schema import Schema

CACHED_IMAGES = 20


def labels(classes: int, per_class: int) -> np.ndarray:
    """Class indices of a support set, (m,): per_class of each, in order."""
    return np.repeat(np.arange(classes, dtype=np.int32), per_class)


def start_support(key: Array, classes: int, per_class: int, schema: Schema, noise: float) -> np.ndarray:
    """A start that no record has touched: N(0, noise^2), in the bounds of records."""
    X = noise * jax.random.normal(key, (classes * per_class, *schema.shape))
    return np.clip(np.asarray(X, np.float32), -1.0, 1.0)


def encode(encoder: Any, X: Array | np.ndarray) -> np.ndarray:
    """Features of a support set, (m, d) float32, in slices that fit the cache."""
    return np.concatenate(
        [np.asarray(_encode(encoder, X[i : i + CACHED_IMAGES])) for i in range(0, len(X), CACHED_IMAGES)]
    )


def pull_back(encoder: Any, X: Array | np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The chain rule from features to pixels, record by record: (m, d) -> (m, h, w, c)."""
    parts = [slice(i, i + CACHED_IMAGES) for i in range(0, len(X), CACHED_IMAGES)]
    return np.concatenate([np.asarray(_pull_back(encoder, X[p], gradient[p].astype(np.float32))) for p in parts])


@partial(jax.jit, static_argnums=0)
def _encode(encoder: Any, X: Array) -> Array:
    return encoder(X)


@partial(jax.jit, static_argnums=0)
def _pull_back(encoder: Any, X: Array, gradient: Array) -> Array:
    return jax.vjp(encoder, X)[1](gradient)[0]


def dual(K_ss: np.ndarray, y: np.ndarray, classes: int, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """(alpha, A^-1) of a support set in float64, A = K_ss + ridge tr(K_ss) / m I.

    Raises:
        ValueError: A is not positive definite.
    """
    with jax.enable_x64(True):
        inverse = np.asarray(_inverse(K_ss.astype(np.float64), ridge))
    if not np.isfinite(inverse).all():
        raise ValueError(f"K_ss + ridge*I is not positive definite: raise ridge (now {ridge:g}).")
    return inverse @ one_hot(y, classes, np.float64), inverse


@jax.jit
def _inverse(K_ss: Array, ridge: float) -> Array:
    return cho_solve((jnp.linalg.cholesky(shift(K_ss, ridge)), True), jnp.eye(len(K_ss)))


def check_definite(gradient: np.ndarray, ridge: float) -> None:
    """Raise where a gradient through K_ss + ridge I is not a number."""
    if not np.isfinite(gradient).all():
        raise ValueError(f"K_ss + ridge*I is not positive definite: raise ridge (now {ridge:g}).")


def feature_params(Phi_s: np.ndarray, y: np.ndarray, classes: int, ridge: float) -> dict[str, np.ndarray]:
    """Params of a FeatureGradient."""
    Phi = Phi_s.astype(np.float64)
    alpha, inverse = dual(Phi @ Phi.T, y, classes, ridge)
    return {"Phi_s": Phi, "alpha": alpha, "inverse": inverse}


def fc_ntk_params(kernel: FCNTK, X_s: np.ndarray, y: np.ndarray, classes: int, ridge: float) -> dict[str, np.ndarray]:
    """Params of an FCNTKGradient."""
    X, m = X_s.reshape(len(X_s), -1).astype(np.float64), len(X_s)
    with jax.enable_x64(True):
        K, k1, k2, k0 = (np.asarray(a) for a in _fc_ntk_blocks(kernel, X))
    alpha, inverse = dual(K, y, classes, ridge)
    off = 1.0 - np.eye(m)
    return {"X_s": X, "alpha": alpha, "inverse": inverse, "k1": k1 * off, "k2": k2 * off, "k0": k0}


@partial(jax.jit, static_argnums=0)
def _fc_ntk_blocks(kernel: FCNTK, X: Array) -> tuple[Array, Array, Array, Array]:
    gram = X @ X.T / X.shape[1]
    q = jnp.diag(gram)
    k, k1, k2 = derivatives(kernel, gram, *jnp.broadcast_arrays(q[None, :], q[:, None]))
    return k, k1, k2, jax.vmap(jax.grad(lambda t: kernel.of_products(t, t, t)))(q)


def check_ridge(ridge: float) -> None:
    """Raise on a ridge that is not > 0."""
    if not ridge > 0 or not math.isfinite(ridge):
        raise ValueError(f"Expected ridge={ridge} > 0.")
