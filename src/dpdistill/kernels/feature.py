"""The kernel of a finite feature map."""

from __future__ import annotations

from typing import Any

from jax import Array

from dpdistill.kernels.kernel import Kernel
from dpdistill.recipe import kernels as recipe


class FeatureKernel(recipe.FeatureKernel, Kernel):
    """k(x, z) = <phi(x), phi(z)> of a fixed encoder phi; ridge regression with it is a linear classifier on phi.

    Args:
        encoder: frozen and hashable, X (n, ...) -> (n, d).

    Example:
        >>> import jax.numpy as jnp
        >>> FeatureKernel(lambda X: X.reshape(len(X), -1))(jnp.ones((2, 4)), jnp.ones((3, 4)))[0, 0]
        Array(4., dtype=float32)
    """

    @property
    def features(self) -> Any:
        return self.encoder

    def __call__(self, X: Array, Z: Array) -> Array:
        """Returns K (n, m) of records X (n, ...) and Z (m, ...)."""
        return self.encoder(X) @ self.encoder(Z).T
