"""ScatterNet: two layers of Morlet wavelets and moduli, averaged over 2^J x 2^J pixels; fixed and differentiable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.features.batched import in_pieces
from dpdistill.features.unit import unit_rows
from dpdistill.features.wavelets import Bank, Wavelets, bank_of
from dpdistill.recipe import features as recipe


class ScatterNet(recipe.ScatterNet):
    """Scattering coefficients of records, optionally standardised within each record.

        S0 = x * phi_J,   S1 = |x * psi_j1| * phi_J,   S2 = ||x * psi_j1| * psi_j2| * phi_J   with j1 < j2 < J

    The convolutions are circular on the record padded by reflection. Any number of records is processed a few at a
    time. Reverse-mode derivatives only.

    Args:
        J: log2 of the averaging scale, >= 1.
        L: angles, >= 1.
        groups: the 1 + L J + L^2 J (J - 1) / 2 channels of a colour are cut into so many groups of neighbours, and each
            group is standardised to mean 0 and variance 1 within the record; 0 leaves the channels unchanged.
        per_position: a group's mean and variance are those of one position, not of all positions of the record.
        normalise: divide a record's features by their norm.

    Raises:
        ValueError: J or L below 1, or groups that do not divide the channels.

    Source: Bruna & Mallat, 2013 (Invariant scattering convolution networks); filters as in Kymatio (Andreux et al.,
    2020); groups over all positions as in Tramer & Boneh, 2021 (Differentially private learning needs better features),
    groups of three channels at each position as in Vinaroz & Park, 2024 (DP-KIP-ScatterNet).

    Example:
        >>> ScatterNet()(jnp.zeros((2, 28, 28, 1))).shape
        (2, 3969)
    """

    def __call__(self, X: Array) -> Array:
        """Returns features (n, colours * channels * h' * w') of X (n, h, w, colours)."""
        S = self.maps(X)
        if self.groups:
            S = _standardise(S, self.groups, self.per_position)
        features = S.reshape(S.shape[0], -1)
        return unit_rows(features) if self.normalise else features

    def maps(self, X: Array) -> Array:
        """Returns coefficients (n, colours, channels, h', w'), h' = h / 2^J and w' = w / 2^J for multiples of 2^J.

        Raises:
            ValueError: a side below 2^J.
        """
        n, h, w, colours = X.shape
        if min(h, w) < 2**self.J:
            raise ValueError(
                f"Expected images of at least {2**self.J} x {2**self.J} pixels for J={self.J}; got {h} x {w}."
            )
        bank = bank_of(h, w, self.J, self.L)
        cascade = in_pieces(partial(_cascade, bank), _AT_ONCE // bank.pixels)
        S = cascade(jnp.moveaxis(X, 3, 1).reshape(n * colours, h, w))
        return S.reshape(n, colours, *S.shape[1:])


def _standardise(S: Array, groups: int, per_position: bool) -> Array:
    """Standardises each group to mean 0 and variance 1, over positions unless per_position, record by record."""
    n, colours, channels, h, w = S.shape
    G = S.reshape(n, colours, groups, channels // groups, h, w)
    axes = (3,) if per_position else (3, 4, 5)
    centred = G - G.mean(axes, keepdims=True)
    variance = jnp.square(centred).mean(axes, keepdims=True)
    return (centred / jnp.sqrt(variance + 1e-5)).reshape(S.shape)


@partial(jax.jit, static_argnums=0)
def _cascade(bank: Bank, x: Array) -> Array:
    """Returns coefficients (n, channels, h', w') of x (n, h, w). Internally records are last: (rows, columns, channels,
    n).
    """
    x = jnp.pad(x.transpose(1, 2, 0), (*bank.padding, (0, 0)), mode="reflect")[:, :, None]
    S0, S1, S2 = _both(bank.average[0], x), [], []
    for j1 in range(bank.J):
        U1 = _modulus(_convolved(bank.wavelets[j1, 0], x))
        S1.append(_both(bank.average[j1], U1))
        deeper = []
        for j2 in range(j1 + 1, bank.J):
            U2 = _modulus(_convolved(bank.wavelets[j2, j1], U1))
            deeper.append(_both(bank.average[j2], U2).reshape(*S0.shape[:2], U1.shape[2], -1, x.shape[-1]))
        if deeper:
            S2.append(jnp.concatenate(deeper, 3).reshape(*S0.shape[:2], -1, x.shape[-1]))
    return jnp.concatenate([S0, *S1, *S2], 2).transpose(3, 2, 0, 1)


def _modulus(parts: tuple[Array, Array]) -> Array:
    """Returns |re + i im|, with derivative 0 at 0."""
    re, im = parts
    squares = jnp.square(re) + jnp.square(im)
    return jnp.where(squares > 0, jnp.sqrt(jnp.where(squares > 0, squares, 1.0)), 0.0)


def _both(matrices: Sequence[np.ndarray], U: Array) -> Array:
    """Returns A U B^T over the first two axes of U."""
    A, B = (M.astype(U.dtype) for M in matrices)
    V = jnp.matmul(A, U.reshape(len(U), -1), precision="highest").reshape(len(A), U.shape[1], -1)
    V = jnp.matmul(jnp.broadcast_to(B, (len(A), *B.shape)), V, precision="highest")  # avoids transposing V
    return V.reshape(len(A), len(B), *U.shape[2:])


def couplings(p: int, q: int) -> tuple[tuple[tuple[int, int, int, int], ...], ...]:
    """Returns the terms of the product (p, q) of x * psi, p, q = 1 for a sine: (filter, p, q, sign of x's product).

    The terms of the real part precede those of the imaginary part.
    """
    return (
        ((0, p, q, 1), (1, 1 - p, 1 - q, -1 if p == q else 1)),
        ((2, 1 - p, q, 2 * p - 1), (3, p, 1 - q, 2 * q - 1)),
    )


def _table(product: Callable[[int, int], Array], axis: int) -> Array:
    """Returns product(p, q) for both p and both q; p becomes the first axis and q the one at `axis` of a product."""
    return jnp.stack([jnp.stack([product(p, q) for q in (0, 1)], axis) for p in (0, 1)])


# Derived by hand, because JAX's derivatives of slices and matrix products transpose large arrays.
@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _convolved(wavelets: Wavelets, U: Array) -> tuple[Array, Array]:
    """Returns real and imaginary part (P', Q', C L, n) of U * psi for U (P, Q, C, n)."""
    filters = [F.astype(U.dtype) for F in wavelets.filters]
    f, k1, g, k2, _ = filters[0].shape
    X = _both(wavelets.analyse, U).reshape(2, f, k1, 2, g, k2, *U.shape[2:])

    def folded(t: int, p: int, q: int) -> Array:
        # Slices added up one by one: XLA's reduction over axes that are not last is several times slower on a CPU.
        pairs = [(filters[t][i, :, j], X[p, i, :, q, j]) for i in range(f) for j in range(g)]
        return sum(F[:, :, None, :, None] * Y[:, :, :, None] for F, Y in pairs)  # type: ignore[return-value]

    def product(part: int, p: int, q: int) -> Array:
        first, second = (sign * folded(t, *source) for t, *source, sign in couplings(p, q)[part])
        return (first + second).reshape(k1, k2, -1, U.shape[-1])

    parts = [_table(partial(product, part), 1).reshape(2 * k1, 2 * k2, -1, U.shape[-1]) for part in (0, 1)]
    return _both(wavelets.synthesise, parts[0]), _both(wavelets.synthesise, parts[1])


def _convolved_forward(wavelets: Wavelets, U: Array) -> tuple[tuple[Array, Array], None]:
    return _convolved(wavelets, U), None


def _convolved_backward(wavelets: Wavelets, _: None, cotangents: tuple[Array, Array]) -> tuple[Array]:
    """Applies the transposed map: couplings are symmetric in the real and antisymmetric in the imaginary part."""
    filters = [F.astype(cotangents[0].dtype) for F in wavelets.filters]
    f, k1, g, k2, L = filters[0].shape
    n = cotangents[0].shape[-1]
    rows, columns = wavelets.synthesise
    parts = [_both((rows.T, columns.T), dV).reshape(2, k1, 2, k2, -1, L, n) for dV in cotangents]

    def angles(F: np.ndarray, V: Array) -> Array:
        return sum(F[..., None, l, None] * V[:, None, :, :, l] for l in range(L))  # type: ignore[return-value]

    def product(p: int, q: int) -> Array:
        terms = [(1 - 2 * part, parts[part], *term) for part in (0, 1) for term in couplings(p, q)[part]]
        return sum(side * sign * angles(filters[t], V[a, :, b]) for side, V, t, a, b, sign in terms)  # type: ignore

    X = _table(product, 2).reshape(2 * f * k1, 2 * g * k2, -1, n)
    rows, columns = wavelets.analyse
    return (_both((rows.T, columns.T), X),)


_convolved.defvjp(_convolved_forward, _convolved_backward)


_AT_ONCE = 26_000  # padded pixels of all channels of the records in a piece
