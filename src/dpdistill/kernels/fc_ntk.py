"""The neural tangent kernel of an infinitely wide fully connected ReLU network."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from dpdistill.kernels.arc_cosine import arc_cosines
from dpdistill.kernels.kernel import Kernel
from dpdistill.recipe import kernels as recipe


class FCNTK(recipe.FCNTK, Kernel):
    """Neural tangent kernel of flatten, depth x [dense, ReLU], dense, at infinite width.

        q(x, z) = W_std^2 <x, z> / d + b_std^2,   Theta <- q,   then a hidden layer:
        Theta <- W_std^2 Theta kappa_0(c) / 2 + q',   q <- q' = W_std^2 sqrt(q_xx q_zz) kappa_1(c) / 2 + b_std^2,
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

    def __call__(self, X: Array, Z: Array) -> Array:
        """Returns Theta (n, m) of records X (n, ...) and Z (m, ...)."""
        X, Z = X.reshape(len(X), -1), Z.reshape(len(Z), -1)
        d = X.shape[1]
        xx, zz = (jnp.sum(jnp.square(A), 1) / d for A in (X, Z))
        return self.of_products(X @ Z.T / d, xx[:, None], zz[None, :])

    def of_products(self, xz: Array, xx: Array, zz: Array) -> Array:
        """Returns Theta from inner products by the dimension: <x, z> / d, <x, x> / d, <z, z> / d, elementwise."""
        w, b = self.w_std**2, self.b_std**2
        q, q_x, q_z = w * xz + b, w * xx + b, w * zz + b
        theta = q
        for layer in range(1, self.depth + 1):
            w = self.w_std**2 if layer < self.depth else 1.0
            product = q_x * q_z
            scale = jnp.sqrt(jnp.where(product > 0, product, 1.0))
            kappa_0, kappa_1 = arc_cosines(jnp.where(product > 0, q / scale, 0.0))
            q = w * jnp.where(product > 0, scale, 0.0) * kappa_1 / 2 + b
            q_x, q_z = w * q_x / 2 + b, w * q_z / 2 + b
            theta = w * theta * kappa_0 / 2 + q
        return theta
