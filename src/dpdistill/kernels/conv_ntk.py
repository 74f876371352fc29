"""The tangent kernel of infinitely wide convolutional networks, from the relevant pairs of positions only."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from dpdistill.kernels.arc_cosine import arc_cosines
from dpdistill.kernels.kernel import Kernel
from dpdistill.recipe import kernels as recipe

BLOCK_ELEMENTS = 2**19
"""Elements of one array of a block: 2 MB in single precision, so that a block fits a processor's cache."""


@jax.custom_vjp
def _box(A: Array) -> Array:
    """Returns sums over 3 x 3 neighbours in axes -3 and -2 of (..., h, w, pairs), zeros outside."""
    for axis in (A.ndim - 3, A.ndim - 2):
        # Sums of neighbours joined at their ends: a padded array would add a branch to the innermost loop.
        n = A.shape[axis]
        two = lax.slice_in_dim(A, 0, n - 1, axis=axis) + lax.slice_in_dim(A, 1, n, axis=axis)
        three = lax.slice_in_dim(two, 0, n - 2, axis=axis) + lax.slice_in_dim(A, 2, n, axis=axis)
        first, last = lax.slice_in_dim(two, 0, 1, axis=axis), lax.slice_in_dim(two, n - 2, n - 1, axis=axis)
        A = jnp.concatenate([first, three, last], axis)
    return A


# The map is its own transpose; the transpose that XLA derives from slices is three times as slow.
_box.defvjp(lambda A: (_box(A), None), lambda _, g: (lax.map(_box, g) if g.ndim > 3 else _box(g),))


def _pool(A: Array, displacement: int, position: int) -> Array:
    """Returns the 2 x 2 average pool of both pair members, in one direction: radius 2r + 1 and n places to r and n //
    2.

    Coarse places P and P + d stand for p = 2P + a and p' = 2(P + d) + b, a displacement of 2d + b - a.
    """
    size, n = A.shape[displacement], A.shape[position] // 2 * 2

    def part(start: int, a: int) -> Array:
        B = lax.slice_in_dim(A, start, size - 2 + start, 2, axis=displacement)
        return lax.slice_in_dim(B, a, n, 2, axis=position)

    return (part(1, 0) + part(2, 0) + part(0, 1) + part(1, 1)) / 4


def _pad(A: Array, radius: int) -> Array:
    """Adds margins of `radius` zeros around (c, h, w, pairs)."""
    return jnp.pad(A, ((0, 0), (radius, radius), (radius, radius), (0, 0)))


@jax.custom_vjp
def _products(x: Array, rows: Array) -> Array:
    """Returns sum_c x_c(p) rows_c(p + e) for every window e of x (c, h, w, pairs) in rows (c, h, columns, pairs)."""
    w = x.shape[2]

    def window(e: Array) -> Array:
        products = x * lax.dynamic_slice_in_dim(rows, e, w, 2)
        return sum(products[1:], start=products[0])

    return lax.map(window, jnp.arange(rows.shape[2] - w + 1))


def _products_transposed(inputs: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    # XLA's derivative takes twenty times as long on a CPU: a slow reduction, or g computed again for every window.
    (x, rows), w = inputs, g.shape[2]

    def add(e: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        to_x = sums[0] + g[e] * lax.dynamic_slice_in_dim(rows, e, w, 2)
        to_rows = lax.dynamic_slice_in_dim(sums[1], e, w, 2) + g[e] * x
        return to_x, lax.dynamic_update_slice_in_dim(sums[1], to_rows, e, 2)

    return lax.fori_loop(0, g.shape[0], add, (jnp.zeros_like(x), jnp.zeros_like(rows)))


_products.defvjp(lambda x, rows: (_products(x, rows), (x, rows)), _products_transposed)


def _pair(x: Array, padded: Array, row: Array) -> Array:
    """Returns sum_c x_c(p) z_c(p') for all displacements of columns and one of rows, (2 radius + 1, h, w, pairs)."""
    return _products(x, lax.dynamic_slice_in_dim(padded, row, x.shape[1], 1))


class _Pixels(NamedTuple):
    """Covariances of the images themselves: x (c, h, w, pairs), and z with margins of the largest displacement."""

    x: Array
    padded: Array

    @property
    def radius(self) -> int:
        return (self.padded.shape[1] - self.x.shape[1]) // 2

    def row(self, r: Array) -> tuple[Array, Array]:
        """Returns C and T for displacement r - radius of rows, (2 radius + 1, h, w, pairs)."""
        nngp = _pair(self.x, self.padded, r) / self.x.shape[0]
        return nngp, jnp.zeros_like(nngp)


class _Maps(NamedTuple):
    """Covariances C and tangent kernels T after a block, (2 radius + 1, 2 radius + 1, h, w, pairs)."""

    nngp: Array
    ntk: Array

    @property
    def radius(self) -> int:
        return self.nngp.shape[0] // 2

    def row(self, r: Array) -> tuple[Array, Array]:
        """Returns C and T for displacement r - radius of rows, (2 radius + 1, h, w, pairs)."""
        return self.nngp[r], self.ntk[r]


class _Images(NamedTuple):
    """Images (n, c, h, w) and, for every block, the standard deviations of the pre-activations (n, h, w)."""

    pixels: Array
    roots: tuple[Array, ...]


class ConvNTK(recipe.ConvNTK, Kernel):
    """Tangent kernel of an infinitely wide network: blocks of conv 3 x 3, ReLU, 2 x 2 average pool, then a dense layer.

        S(p, p') = w^2 / 9 sum_{d in 3x3} C(p + d, p' + d) + b^2,   U(p, p') = w^2 / 9 sum_d T(p + d, p' + d) + S(p, p')
        N = sqrt(S_xx(p, p) S_zz(p', p')),   cos t = S / N,   C = pool(N kappa_1(t) / 2),   T = pool(U kappa_0(t) / 2)
        k(x, z) = mean_p C(p, p) + b^2 + mean_p T(p, p)

    with C = <x(p), z(p')> / channels and T = 0 before the first block; pool averages over 2 x 2 places of p and of p'.
    The last line reads p = p' only, a pool of displacement d reads 2d - 1, 2d, 2d + 1, and a convolution keeps the
    displacement. So block l needs |p - p'| <= 2^(depth - l + 1) - 1 in each direction and no more, which is exact and,
    for 32 x 32 and depth 3, a fifth of all pairs of places.

    Args:
        depth: blocks, > 0. Odd last rows and columns are dropped by a pool.
        w_std: standard deviation of the convolutions' weights, > 0; 1 in the dense layer.
        b_std: standard deviation of all biases, >= 0.
        chunk: pairs of images computed together, > 0; None for as many as the cache holds (BLOCK_ELEMENTS). It changes
            memory and time, never values.

    Memory: besides the images, about P (2^(depth + 1) - 1)^2 h w numbers for a block of P pairs, and twice that with
    the gradient, which computes every block anew: 0.05 GB for 500 x 500 images of 32 x 32 x 3, 0.1 GB with the gradient
    (XLA's own account, single precision). Derivatives are reverse-mode; there is no `jvp`.

    Raises:
        ValueError: an argument out of its range, or images that do not fit.

    Source: Arora et al., 2019 (On exact computation with an infinitely wide neural net), section 4; Novak et al., 2019
    (Bayesian deep convolutional networks with many channels are Gaussian processes), for the pool.

    Example:
        >>> ConvNTK(depth=2)(jnp.ones((2, 8, 8, 1)), jnp.ones((3, 8, 8, 1))).shape
        (2, 3)
    """

    def __call__(self, X: Array, Z: Array) -> Array:
        """Returns the kernel matrix (n, m) of X (n, h, w, c) and Z (m, h, w, c), in their precision."""
        same = X is Z
        X, Z = self._checked(X, "X"), self._checked(Z, "Z")
        if X.shape[1:] != Z.shape[1:]:
            raise ValueError(f"Expected Z of shape (m, {', '.join(map(str, X.shape[1:]))}); got {Z.shape}.")
        dtype = jnp.result_type(X, Z)
        n, m = X.shape[0], Z.shape[0]
        xs = self._images(X.astype(dtype))
        zs = xs if same else self._images(Z.astype(dtype))

        def block(pairs: Array) -> Array:
            # Pairs come last: every slice of places and displacements then moves contiguous numbers.
            x = jax.tree.map(lambda a: jnp.moveaxis(a[pairs // m], 0, -1), xs)
            z = jax.tree.map(lambda a: jnp.moveaxis(a[pairs % m], 0, -1), zs)
            pixels = _Pixels(x.pixels, _pad(z.pixels, 2**self.depth - 1))
            covariances = self._block(pixels, x.roots[0], z.roots[0])
            for rx, rz in zip(x.roots[1:], z.roots[1:], strict=True):
                covariances = self._block(covariances, rx, rz)
            return covariances.nngp[0, 0].mean((0, 1)) + self.b_std**2 + covariances.ntk[0, 0].mean((0, 1))

        blocks = self._blocks(n * m, X.shape[1:3])
        return lax.map(jax.checkpoint(block), blocks).reshape(-1)[: n * m].reshape(n, m)

    def _checked(self, X: Array, name: str) -> Array:
        X = jnp.asarray(X)
        if X.ndim != 4:
            raise ValueError(f"Expected {name} of shape (n, h, w, c); got {X.shape}.")
        if min(X.shape[1:3]) < 2**self.depth:
            raise ValueError(f"Expected {name} of shape (n, >={2**self.depth}, >={2**self.depth}, c); got {X.shape}.")
        return X if jnp.issubdtype(X.dtype, jnp.floating) else X.astype(jnp.result_type(float))

    def _blocks(self, count: int, shape: tuple[int, ...]) -> Array:
        """Returns indices 0 .. count - 1 as (blocks, chunk), the last block filled up with 0."""
        size = self.chunk or max(16, BLOCK_ELEMENTS // ((2 ** (self.depth + 1) - 1) * shape[0] * shape[1]))
        size = max(1, min(size, count))
        return jnp.pad(jnp.arange(count), (0, -count % size)).reshape(-1, size)

    def _images(self, X: Array) -> _Images:
        """Returns images with their standard deviations, block by block."""
        pixels = jnp.moveaxis(X, -1, 1)
        roots = lax.map(jax.checkpoint(lambda i: self._roots(pixels[i])), self._blocks(X.shape[0], X.shape[1:3]))
        return _Images(pixels, tuple(r.reshape(-1, *r.shape[2:])[: X.shape[0]] for r in roots))

    def _roots(self, X: Array) -> tuple[Array, ...]:
        """Returns sqrt(S_xx(p, p)) of every block, for a block of images (n, c, h, w)."""
        x = jnp.moveaxis(X, 0, -1)
        covariances, activations, roots = _Pixels(x, _pad(x, 2 ** (self.depth - 1) - 1)), jnp.square(x).mean(0), []
        for layer in range(self.depth):
            variance = self.w_std**2 / 9 * _box(activations) + self.b_std**2
            # With b_std = 0 a blank image has no variance, and its square root no gradient.
            some = variance > 0
            roots.append(jnp.where(some, jnp.sqrt(jnp.where(some, variance, 1)), 0))
            if layer < self.depth - 1:
                covariances = self._block(covariances, roots[-1], roots[-1])
                activations = covariances.nngp[covariances.radius, covariances.radius]
        return tuple(jnp.moveaxis(r, -1, 0) for r in roots)

    def _block(self, covariances: _Pixels | _Maps, rx: Array, rz: Array) -> _Maps:
        """Applies convolution, ReLU and pool, one displacement of rows after another; rx, rz (h, w, pairs)."""
        h, w = rx.shape[:2]
        gain, radius = self.w_std**2 / 9, covariances.radius
        # A pool drops odd last rows and columns: places without variance do not count.
        even = jnp.zeros_like(rz).at[: h // 2 * 2, : w // 2 * 2].set(1)
        rx, padded = rx[None], _pad((rz * even)[None], radius)

        def row(r: Array) -> tuple[Array, Array]:
            nngp, ntk = covariances.row(r)
            S = gain * _box(nngp) + self.b_std**2
            U = gain * _box(ntk) + S
            N = _pair(rx, padded, r)
            inside = N > 0
            kappa_0, kappa_1 = arc_cosines(S / jnp.where(inside, N, 1))
            return _pool(N * kappa_1 / 2, 0, 2), _pool(jnp.where(inside, U * kappa_0 / 2, 0), 0, 2)

        return _Maps(*(_pool(A, 0, 2) for A in lax.map(jax.checkpoint(row), jnp.arange(2 * radius + 1))))
