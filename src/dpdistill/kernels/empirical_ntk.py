"""The empirical tangent kernel of a network at its random initialisation."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax

from dpdistill.kernels.kernel import Kernel
from dpdistill.networks.network import Network, Params
from dpdistill.recipe import kernels as recipe

GRADIENT_BYTES = 2**30
"""Largest total size of the gradients of one block of records."""


class EmpiricalNTK(recipe.EmpiricalNTK, Kernel):
    """Inner products of the gradients, by all parameters, of the sum of a network's logits.

        k(x, z) = <grad_theta s(x), grad_theta s(z)>,   s(x) = sum_c f_c(x; theta),   theta from the network's seed

    The gradients of a block of records X and of a block of records Z are formed together and contracted, so that of
    2 `chunk` records exist at a time. Products J (J^T v) of forward and reverse derivatives need none, but cost a pass
    through the network for every pair, and took 2.5 times as long for 8 x 8 images and ResNet-18; here a pass serves
    `chunk` pairs. Against a single record z, where every pair has a pass in any case, only the gradient of z is formed:
    the others are contracted with it in forward mode, layer by layer.

    Args:
        network: architecture and seed.
        classes: number of logits, > 0.
        chunk: records in a block, > 0; None for as many as keep the gradients of two blocks below GRADIENT_BYTES: 12
            for ResNet-18 in single precision. It changes memory and time, never values.

    Raises:
        ValueError: an argument out of its range, or records that do not fit.

    Source: Vinaroz & Park, 2023 (Differentially private kernel inducing points using features from ScatterNets),
    section 2.3, equation 4. The kernel is not normalised there, nor here: its scale is the network's.

    Example:
        >>> from dpdistill.networks.network import LeNet
        >>> EmpiricalNTK(LeNet(), classes=3)(jnp.ones((2, 16, 16, 1)), jnp.ones((3, 16, 16, 1))).shape
        (2, 3)
    """

    network: Network

    def __call__(self, X: Array, Z: Array) -> Array:
        """Returns the kernel matrix (n, m) of X (n, ...) and Z (m, ...), in their precision."""
        if X.shape[1:] != Z.shape[1:]:
            raise ValueError(f"Expected Z of shape (m, {', '.join(map(str, X.shape[1:]))}); got {Z.shape}.")
        params, n, m = self._params(X, Z), len(X), len(Z)
        if m == 1 or n == 1:
            return self._column(params, X, Z[0]) if m == 1 else self._column(params, Z, X[0]).T
        records = X if X is Z else jnp.concatenate([X, Z])
        if len(records) <= 2 * self._size(params):
            gradients = self._gradients(params, records)
            return _contract(jax.tree.map(lambda g: g[:n], gradients), jax.tree.map(lambda g: g[-m:], gradients))

        def against(z: Array) -> Array:
            gradients = self._gradients(params, z)
            return self._map(lambda x: _contract(self._gradients(params, x), gradients), params, X).T

        return self._map(against, params, Z).T

    def _params(self, X: Array, Z: Array) -> Params:
        """Returns the network's parameters in the precision of the records."""
        dtype = jnp.result_type(X, Z, jnp.float32)
        return jax.tree.map(lambda p: p.astype(dtype), self.network.init(X.shape[1:], self.classes))

    def _gradients(self, params: Params, X: Array) -> Params:
        """Returns grad_theta s(x) for every record, the records' axis first."""
        s = jax.grad(lambda theta, x: self.network.apply(theta, x[None]).sum())
        return jax.vmap(s, (None, 0))(params, X)

    def _column(self, params: Params, X: Array, z: Array) -> Array:
        """Returns the kernel (n, 1) of records X with one record z."""
        gradient = jax.grad(lambda theta: self.network.apply(theta, z[None]).sum())(params)

        def products(x: Array) -> Array:
            return jax.jvp(lambda theta: self.network.apply(theta, x).sum(1), (params,), (gradient,))[1]

        return self._map(products, params, X)[:, None]

    def _size(self, params: Params) -> int:
        """Returns the number of records in a block."""
        return self.chunk or max(1, GRADIENT_BYTES // (2 * sum(p.nbytes for p in jax.tree.leaves(params))))

    def _map(self, function: Callable[[Array], Array], params: Params, X: Array) -> Array:
        """Applies a function to all blocks of records, one after another, the records' axis first."""
        n = len(X)
        size = min(self._size(params), n)
        blocks = jnp.arange(-(-n // size) * size).reshape(-1, size) % n
        values = lax.map(jax.checkpoint(lambda block: function(X[block])), blocks)
        return values.reshape(-1, *values.shape[2:])[:n]


def _contract(G: Params, H: Params) -> Array:
    """Returns the Gram matrix (n, m) of two blocks of gradients, layer by layer."""
    layers = zip(jax.tree.leaves(G), jax.tree.leaves(H), strict=True)
    flat = ((g.reshape(len(g), -1), h.reshape(len(h), -1)) for g, h in layers)
    grams = [jnp.inner(g, h, precision=lax.Precision.HIGHEST) for g, h in flat]
    return jnp.stack(grams).sum(0)
