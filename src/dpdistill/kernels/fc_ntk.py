"""The neural tangent kernel of an infinitely wide fully connected ReLU network."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

SMALLEST_SINE = 1e-2
"""Derivatives treat two records at a smaller angle as if they were at this one, where d kappa0 / d cos would grow."""


@dataclass(frozen=True)
class FCNTK:
    """Neural tangent kernel of flatten, depth x [dense, ReLU], dense, at infinite width.

        q(x, z) = W_std^2 <x, z> / d + b_std^2,   Theta <- q,   then a hidden layer:
        Theta <- W_std^2 Theta kappa0(c) + q',   q <- q' = W_std^2 sqrt(q_xx q_zz) kappa1(c) + b_std^2,
        c = q_xz / sqrt(q_xx q_zz); the output layer has W_std 1

    A function of inner products only, so that gradients with respect to records follow from derivatives of a scalar.

    Args:
        depth: hidden layers, >= 1.
        w_std: standard deviation of weights times sqrt(fan-in), > 0.
        b_std: standard deviation of biases, >= 0.

    Raises:
        ValueError: an argument out of its range.

    Source: Jacot et al., 2018 (Neural tangent kernel); Cho & Saul, 2009 (arc-cosine kernels).

    Example:
        >>> FCNTK()(jnp.ones((2, 28, 28, 1)), jnp.ones((3, 28, 28, 1))).shape
        (2, 3)
    """

    depth: int = 1
    w_std: float = 2**0.5
    b_std: float = 0.1

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"Expected depth={self.depth} >= 1.")
        if not self.w_std > 0 or not self.b_std >= 0:
            raise ValueError(f"Expected w_std={self.w_std} > 0 and b_std={self.b_std} >= 0.")

    def __call__(self, X: Array, Z: Array) -> Array:
        """Theta (n, m) of records X (n, ...) and Z (m, ...)."""
        X, Z = X.reshape(len(X), -1), Z.reshape(len(Z), -1)
        d = X.shape[1]
        return self.of_products(X @ Z.T / d, _squares(X)[:, None] / d, _squares(Z)[None, :] / d)

    def diagonal(self, X: Array) -> Array:
        """Theta(x, x), (n,)."""
        q = _squares(X.reshape(len(X), -1)) / X[0].size
        return self.of_products(q, q, q)

    def of_products(self, xz: Array, xx: Array, zz: Array) -> Array:
        """Theta from inner products divided by the dimension: <x, z> / d, <x, x> / d, <z, z> / d, elementwise."""
        w, b = self.w_std**2, self.b_std**2
        q, q_x, q_z = w * xz + b, w * xx + b, w * zz + b
        theta = q
        for layer in range(1, self.depth + 1):
            w = self.w_std**2 if layer < self.depth else 1.0
            product = q_x * q_z
            scale = jnp.sqrt(jnp.where(product > 0, product, 1.0))
            c = jnp.where(product > 0, q / scale, 0.0)
            q = w * jnp.where(product > 0, scale, 0.0) * kappa1(c) + b
            q_x, q_z = w * q_x / 2 + b, w * q_z / 2 + b
            theta = w * theta * kappa0(c) + q
        return theta


@jax.custom_jvp
def kappa0(c: Array) -> Array:
    """P(u > 0, v > 0) of standard normals of correlation c: (pi - arccos c) / 2 pi."""
    return (jnp.pi - jnp.arccos(_cosine(c))) / (2 * jnp.pi)


@jax.custom_jvp
def kappa1(c: Array) -> Array:
    """E[relu(u) relu(v)] of standard normals of correlation c: (sqrt(1 - c^2) + (pi - arccos c) c) / 2 pi."""
    c = _cosine(c)
    return (jnp.sqrt(1.0 - jnp.square(c)) + (jnp.pi - jnp.arccos(c)) * c) / (2 * jnp.pi)


@kappa0.defjvp
def _(primals: tuple, tangents: tuple) -> tuple:
    (c,), (dc,) = primals, tangents
    sine = jnp.sqrt(jnp.maximum(1.0 - jnp.square(c), SMALLEST_SINE**2))
    return kappa0(c), dc / (2 * jnp.pi * sine)


@kappa1.defjvp
def _(primals: tuple, tangents: tuple) -> tuple:
    (c,), (dc,) = primals, tangents
    return kappa1(c), kappa0(c) * dc


def _cosine(c: Array) -> Array:
    """c in [-1, 1]; within rounding of 1 it is 1: arccos would turn an error of u into one of sqrt(2 u)."""
    return jnp.where(c > 1.0 - 32 * jnp.finfo(c.dtype).eps, 1.0, jnp.clip(c, -1.0, 1.0))


def _squares(X: Array) -> Array:
    return jnp.sum(jnp.square(X), 1)
