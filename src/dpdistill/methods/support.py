"""Common parts of kernel methods: support sets, their features, and the chain rule from features to pixels."""

from __future__ import annotations

from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg  # noqa: F401 - behind JAX's Cholesky factor: loaded before its threads are counted
from jax import Array
from threadpoolctl import ThreadpoolController

from dpdistill.features.apply import encode_slices
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.kernel import Kernel
from dpdistill.kernels.ridge import check_definite, one_hot, solve
from dpdistill.method import Distilled
from dpdistill.methods.kip_gradient import MOST_BYTES, MOST_TERMS, derivatives, form_bytes
from dpdistill.methods.matching import start_images
from dpdistill.schema import AnySchema, TableSchema

SMALL = 1e-12
"""Epsilon of Adam, small enough for all gradients."""


def check_pictures(kernel: Kernel, schema: AnySchema) -> None:
    """Refuses a kernel of images for a table.

    Raises:
        ValueError: such a kernel, with the one that takes tables.
    """
    if isinstance(schema, TableSchema) and not kernel.tables:
        raise ValueError("Expected kernel=fc-ntk for a table: the other kernels take images.")


def start_support(key: Array, classes: int, per_class: int, schema: AnySchema, noise: float) -> np.ndarray:
    """Returns a start without any record: N(0, noise^2), clipped to the bounds of records."""
    X = noise * start_images(key, classes * per_class, schema)
    return np.clip(np.asarray(X, np.float32), -1.0, 1.0)


def classifier_scores(made: Distilled, X: Array | np.ndarray) -> np.ndarray:
    """Returns a released classifier's scores (n, classes) of images in [-1, 1]."""
    return encode_slices(made.encoder, X) @ made.classifier


def dual(K_ss: np.ndarray, y: np.ndarray, classes: int, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns (alpha, A^-1) of a support set in float64, A = K_ss + ridge tr(K_ss) / m I.

    Raises:
        ValueError: A is not positive definite.
    """
    with jax.enable_x64(True), _blas().limit(limits=1, user_api="blas"):
        found = _dual(np.asarray(K_ss, np.float64), one_hot(y, classes, np.float64), ridge)
        alpha, inverse = map(np.asarray, found)
    check_definite(inverse, ridge)
    return alpha, inverse


_blas = lru_cache(ThreadpoolController)
"""Limit on BLAS threads in a Cholesky factorisation, which would keep a core busy for 20 ms after each call."""


@jax.jit
def _dual(K_ss: Array, Y_s: Array, ridge: float) -> tuple[Array, Array]:
    inverse = solve(K_ss, jnp.eye(len(K_ss)), ridge)
    return inverse @ Y_s, inverse


def feature_params(
    Phi_s: np.ndarray, y: np.ndarray, classes: int, ridge: float, weights: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Returns the params of a FeatureGradient; weights of the classes (classes,) are in (0, 1], or None for 1.

    Raises:
        ValueError: more features than the proof of its norms covers.
    """
    Phi = Phi_s.astype(np.float64)
    if 2 * len(Phi) + Phi.shape[1] > MOST_TERMS:
        raise ValueError(f"Expected 2 * {len(Phi)} support records + features <= {MOST_TERMS}; got {Phi.shape[1]}.")
    with jax.enable_x64(True):
        K_ss = np.asarray(jnp.inner(Phi, Phi))
    alpha, inverse = dual(K_ss, y, classes, ridge)
    return {"Phi_s": Phi, "alpha": alpha, "inverse": inverse, "weights": _weights(weights, classes)}


def kernel_params(kernel: Kernel, X_s: np.ndarray, y: np.ndarray, classes: int, ridge: float) -> dict[str, np.ndarray]:
    """Returns the params of a KernelGradient, float32."""
    K_ss, slopes = _kernel_and_slopes(kernel, X_s.tobytes(), X_s.shape)
    alpha, inverse = dual(K_ss, y, classes, ridge)
    return {"X_s": X_s, "alpha": alpha.astype(np.float32), "inverse": inverse.astype(np.float32), "slopes": slopes}


@lru_cache(maxsize=1)
def _kernel_and_slopes(kernel: Kernel, X: bytes, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Returns K_ss and its slopes; kept, since the first round is asked several times before a record is read."""
    K_ss, slopes = _slopes(kernel, np.frombuffer(X, np.float32).reshape(shape))
    return np.asarray(K_ss), np.asarray(slopes)


@partial(jax.jit, static_argnums=0)
def _slopes(kernel: Kernel, X: Array) -> tuple[Array, Array]:
    """Returns k(X, X) (m, m) and D_sj = dk(x_s, x_j)/dx_s, (m, m, ...), one x_j after another."""

    def column(z: Array) -> tuple[Array, Array]:
        k, pull_back = jax.vjp(lambda X: kernel(X, z[None])[:, 0], X)
        return k, pull_back(jnp.ones_like(k))[0]

    columns, slopes = jax.lax.map(column, X)
    return columns.T, slopes.swapaxes(0, 1)


def fc_ntk_params(
    kernel: FCNTK, X_s: np.ndarray, y: np.ndarray, classes: int, ridge: float, weights: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Returns the params of an FCNTKGradient; weights are as in feature_params.

    Raises:
        ValueError: more records, pixels or classes than the proof of the norms covers, or than fit into memory.
    """
    X, m = X_s.reshape(len(X_s), -1).astype(np.float64), len(X_s)
    if m**2 + 8 * m + 2 * X.shape[1] + classes**2 + 64 > 2 * MOST_TERMS:
        raise ValueError(f"Expected fewer of {m} support records, {X.shape[1]} pixels and {classes} classes.")
    if form_bytes(m, classes) > MOST_BYTES:
        raise ValueError(
            f"Expected fewer than {m} support records in {classes} classes with this kernel: its norms would need more "
            "than 4 GiB. Use fewer records per class, or for images kernel=scatternet."
        )
    with jax.enable_x64(True):
        K, k1, k2, k0 = (np.asarray(a) for a in _fc_ntk_blocks(kernel, X))
    alpha, inverse = dual(K, y, classes, ridge)
    off = 1.0 - np.eye(m)
    fixed = {"X_s": X, "alpha": alpha, "inverse": inverse, "weights": _weights(weights, classes)}
    return {**fixed, "k1": k1 * off, "k2": k2 * off, "k0": k0}


def _weights(weights: np.ndarray | None, classes: int) -> np.ndarray:
    """Returns checked weights: the stated norms exclude weights, so that a weight above 1 would break the bound."""
    weights = np.ones(classes) if weights is None else np.asarray(weights, np.float64)
    if weights.shape != (classes,) or not ((weights > 0) & (weights <= 1)).all():
        raise ValueError(f"Expected weights of {classes} classes in (0, 1]; got {weights}.")
    return weights


@partial(jax.jit, static_argnums=0)
def _fc_ntk_blocks(kernel: FCNTK, X: Array) -> tuple[Array, Array, Array, Array]:
    gram = X @ X.T / X.shape[1]
    q = jnp.diag(gram)
    k, k1, k2 = derivatives(kernel, gram, *jnp.broadcast_arrays(q[None, :], q[:, None]))
    return k, k1, k2, jax.vmap(jax.grad(lambda t: kernel.of_products(t, t, t)))(q)
