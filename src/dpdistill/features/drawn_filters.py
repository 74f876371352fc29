"""A convolutional kernel network whose filters are learned from generated images alone."""

from __future__ import annotations

import hashlib
import io
import operator
from functools import lru_cache, partial, reduce
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.features.batched import in_pieces
from dpdistill.features.unit import signed_power, unit_rows
from dpdistill.recipe import features as recipe

ALPHA = 2.0
BLUR = 0.22
FLOOR = 0.01
POWER = 0.7
KEPT = 3 / 4  # share of the channel directions: the last quarter has 2 % of the features' discriminative power
LEAST = 8
AT_ONCE = 2048  # pixels of the records that are processed together: their responses fit a processor's cache
# Winograd's F(4, 3): transforms of six inputs and of three filter taps, and of six products to four outputs.
SEEN = np.array(
    [[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0],
     [0, 4, 0, -5, 0, 1]]
)  # fmt: skip
TAPS = np.array([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]], np.float32) / 24
MADE = np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]])
FILE = Path(__file__).with_name("drawn_filters.npz")
DIGEST = recipe.DRAWN_FILTERS


class Filters(NamedTuple):
    """Parameters learned from generated images; s sizes of patches, c colours, K1 and K2 filters.

    Args:
        first: (s s c, K1 + s s c) of whitened patches, then the whitening itself, whose outputs' norm is the patch's.
        floor: added to a patch's norm.
        between: (K1, rank), from responses of layer 1 to inputs of layer 2.
        sign: (rank,), 1 for a direction of layer 1 that keeps its sign under the mirror, -1 for one that changes it.
        second: (3 3 rank, K2), bfloat16.
        metric: (K2, K2), inverse square root of the kernel between the filters of layer 2, computed from them.
        mean: (positions, K2), mean features of generated images.
        directions: (K2, K2), in columns, eigenvectors of their covariance, the largest first; values of float16.
        scales: (K2,), (eigenvalue + 0.2 of their mean)^-1/2.
        channels: (K2, K2), inverse square root of the covariance, computed from both.
        positions: (positions, positions), weights of features at one position for the others.
    """

    first: np.ndarray
    floor: np.ndarray
    between: np.ndarray
    sign: np.ndarray
    second: np.ndarray
    metric: np.ndarray
    mean: np.ndarray
    directions: np.ndarray
    scales: np.ndarray
    channels: np.ndarray
    positions: np.ndarray


class DrawnNet(recipe.DrawnNet):
    """Two layers of convolutional kernels, averaged over a grid, whitened; learned from generated images, never
    records.

        layer 1   p a 5 x 5 patch minus its mean, Z a whitening:  a_k = exp(2 (<Z p, w_k> / |Z p| - 1)) |Z p|
                  h = blur(average of 2 x 2 of a) B
        layer 2   as layer 1, for 3 x 3 patches of h, averaged over the cells of a grid
        features  x = A s at a position, divided by its norm, minus the mean over generated images;
                  channels times (Sigma + 0.2 tr(Sigma) / K I)^-1/2;  positions times their metric;  sign(x) |x|^0.7;
                  for the leading three quarters of the directions of Sigma

    The filters w are centroids of patches; A and B are inverse square roots of the kernel between them, B projected on
    the leading directions. They are closed under the mirror: a record of even width and its mirror image have the same
    features. Records without three colours are averaged over their channels.

    Args:
        filters: SHA-256 of the package's file of filters, by which a recipe names them.

    Raises:
        ValueError: other filters than the package's.

    Source: Mairal et al., 2014 (Convolutional kernel networks); Mairal, 2016 (End-to-end kernel learning with
    supervised convolutional kernel networks); the generated images and the final metrics are ours.
    """

    def __call__(self, X: Array) -> Array:
        """Returns features (n, d) of norm 1 of X (n, h, w, colours) in [-1, 1].

        Raises:
            ValueError: a side of less than 8 pixels.
        """
        if min(X.shape[1:3]) < LEAST:
            raise ValueError(f"Expected images of at least {LEAST} x {LEAST}; got {X.shape[1]} x {X.shape[2]}.")
        filters = load_filters()
        return features(filters, in_pieces(partial(layers, filters), AT_ONCE // (X.shape[1] * X.shape[2]))(X))


def features(filters: Filters, s: Array) -> Array:
    """Returns features (n, positions * KEPT * K2) of norm 1 of the averages of `layers`."""
    x = product(local(filters, s) - filters.mean, filters.channels)
    x = jnp.einsum("pq,nqc->npc", filters.positions, x, precision=jax.lax.Precision.HIGHEST)
    x = product(signed_power(x, POWER), filters.directions[:, : int(KEPT * len(filters.scales))])
    return unit_rows(x.reshape(len(x), -1))


def local(filters: Filters, s: Array) -> Array:
    """Returns s A, normalised per position and in total, (n, positions, K2), for learning mean and metrics."""
    x = product(s, filters.metric)
    squares = jnp.square(x).sum(2, keepdims=True)
    x = x / jnp.sqrt(squares + FLOOR * squares.mean(1, keepdims=True) + 1e-12)
    return unit_rows(x.reshape(len(x), -1)).reshape(x.shape)


def layers(filters: Filters, X: Array) -> Array:
    """Returns responses of layer 2 to X (n, h, w, colours), averaged over cells and the mirror image: (n, positions,
    K2).
    """
    grid = round(len(filters.positions) ** 0.5)
    straight, mirrored = (averaged(a, grid) for a in layer2(filters, layer1(filters, X)))
    return (straight + mirrored[:, :, ::-1]).reshape(len(X), grid**2, -1) / 2


def layer1(filters: Filters, X: Array) -> Array:
    """Returns maps (n, h / 2, w / 2, rank) of X (n, h, w, colours); odd sides are extended by the last pixels.

    The mirror symmetry is not exact for odd sides: pixels are repeated on one side.
    """
    (d, outputs), s = filters.first.shape, 5
    if X.shape[3] != 3:
        X = jnp.repeat(X.mean(3, keepdims=True), 3, 3)
    X = jnp.pad(X, ((0, 0), (0, X.shape[1] % 2), (0, X.shape[2] % 2), (0, 0)), mode="edge")
    r = product(windows(X, s), filters.first)
    a = responses(r[..., : outputs - d], jnp.square(r[..., outputs - d :]).sum(-1, keepdims=True), filters.floor)
    n, h, w, c = a.shape
    return blurred(a.reshape(n, h // 2, 2, w // 2, 2, c).mean((2, 4)) @ filters.between)


def layer2(filters: Filters, h: Array) -> tuple[Array, Array]:
    """Returns responses (n, h, w, K2) of the filters, and of their mirror images, to maps (n, h, w, rank).

    A filter is the sum of an even and an odd part under the mirror; its mirror image is their difference. This halves
    the number of products.
    """
    squares = windows(jnp.square(h).sum(-1, keepdims=True), 3).sum(-1, keepdims=True)
    seen = zip(columns(h, filters.sign), halves(filters), strict=True)
    even, odd = jax.lax.optimization_barrier(tuple(product_of_rows(x, W) for x, W in seen))  # sums are computed once
    return responses(even + odd, squares, 1e-6), responses(even - odd, squares, 1e-6)


def columns(h: Array, sign: np.ndarray) -> tuple[Array, Array]:
    """Returns the inputs of the even and odd parts of filters from maps (n, h, w, rank), reflected at the border.

    Sums and differences of the neighbouring columns of each one, and the column itself: for the even part of the p
    channels that keep their sign, for the odd part of the m others. (n, h + 2, w, 2 p + m) and (n, h + 2, w, p + 2 m).
    """
    h = jnp.pad(h, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="reflect")
    keeps, changes = h[..., sign > 0], h[..., sign < 0]
    (a, b, c), (d, e, f) = ([x[:, :, j : j + h.shape[2] - 2] for j in range(3)] for x in (keeps, changes))
    return jnp.concatenate([a + c, b, d - f], -1), jnp.concatenate([a - c, d + f, e], -1)


def halves(filters: Filters) -> tuple[np.ndarray, np.ndarray]:
    """Returns even and odd parts of the filters of layer 2, (3, channels, K2) in the order of `columns`."""
    W = filters.second.astype(np.float32).reshape(3, 3, len(filters.sign), -1)
    (a, b, c), (d, e, f) = (np.moveaxis(W[:, :, filters.sign == s], 1, 0) for s in (1, -1))
    even = np.concatenate([(a + c) / 2, b, (d - f) / 2], 1)
    return even, np.concatenate([(a - c) / 2, (d + f) / 2, e], 1)


def product_of_rows(x: Array, W: np.ndarray) -> Array:
    """Returns sums over three rows of maps times filters (3, c, K): (n, h, w, K) of x (n, h + 2, w, c).

    Six products give four rows of outputs instead of twelve (Winograd's F(4, 3); Lavin and Gray, 2016, Fast algorithms
    for convolutional neural networks).
    """
    n, h, w, c = len(x), x.shape[1] - 2, x.shape[2], x.shape[3]
    fours = -(-h // 4)
    x = jnp.pad(x, ((0, 0), (0, 4 * fours + 2 - h), (0, 0), (0, 0))).reshape(n, fours + 1, 4, w, c)
    rows = [x[:, :-1, i] for i in range(4)] + [x[:, 1:, i] for i in range(2)]
    products = [product(a, b) for a, b in zip(combined(SEEN, rows), np.einsum("ti,ick->tck", TAPS, W), strict=True)]
    return jnp.stack(combined(MADE, products), 2).reshape(n, 4 * fours, w, -1)[:, :h]


def combined(M: np.ndarray, arrays: list[Array]) -> list[Array]:
    """Returns sums of arrays with the weights of each row of M."""
    return [reduce(operator.add, [float(m) * a for m, a in zip(row, arrays, strict=True) if m]) for row in M]


def responses(r: Array, squares: Array, floor: float | np.ndarray) -> Array:
    """Returns exp(alpha (cos - 1)) |p| of products <p, w> and squares |p|^2."""
    norm = jnp.sqrt(squares + 1e-12)
    return jnp.exp(ALPHA * (jnp.minimum(r / (norm + floor), 1.0) - 1.0)) * norm


def averaged(a: Array, grid: int) -> Array:
    """Returns averages (n, grid, grid, c) over cells of maps (n, h, w, c), boxes if they fit."""
    n, h, w, c = a.shape
    if h % grid == w % grid == 0:
        return a.reshape(n, grid, h // grid, grid, w // grid, c).mean((2, 4))
    a = jnp.einsum("ph,nhk->npk", cells(h, grid), a.reshape(n, h, w * c)).reshape(n, grid, w, c)
    return jnp.einsum("qw,npwc->npqc", cells(w, grid), a)


def cells(h: int, grid: int) -> np.ndarray:
    """Returns averages (grid, h): Gaussian windows whose deviation is half a cell."""
    centres = (np.arange(grid) + 0.5) * h / grid - 0.5
    M = np.exp(-2 * np.square((np.arange(h) - centres[:, None]) / (h / grid)))
    return (M / M.sum(1, keepdims=True)).astype(np.float32)


def windows(x: Array, s: int) -> Array:
    """Returns patches (n, h, w, s s c) in the order (row, column, channel) of x, reflected at its border."""
    h, w, a = x.shape[1], x.shape[2], s // 2
    x = jnp.pad(x, ((0, 0), (a, a), (a, a), (0, 0)), mode="reflect")
    x = jnp.concatenate([x[:, :, j : j + w] for j in range(s)], -1)
    return jnp.concatenate([x[:, i : i + h] for i in range(s)], -1)


def product(a: Array, b: np.ndarray) -> Array:
    """Returns a b in float32, also on graphics cards."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def blurred(x: Array) -> Array:
    """Averages with the neighbours in rows, then in columns; the border is repeated."""
    for axis in (1, 2):
        e = jnp.pad(x, [(1, 1) if i == axis else (0, 0) for i in range(4)], mode="edge")
        before, after = (jax.lax.slice_in_dim(e, i, i + x.shape[axis], axis=axis) for i in (0, 2))
        x = BLUR * (before + after) + (1 - 2 * BLUR) * x
    return x


def mirrored(p: np.ndarray, s: int, sign: np.ndarray | float = 1.0) -> np.ndarray:
    """Returns mirror images of patches (n, s s c) whose channels keep or change their sign."""
    return (p.reshape(len(p), s, s, -1)[:, :, ::-1] * sign).reshape(p.shape).astype(np.float32)


def whitening(S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns directions and scales of a covariance S (K2, K2)."""
    w, V = np.linalg.eigh(S.astype(np.float64))
    scales = (np.maximum(w, 0) + 0.2 * np.trace(S) / len(S)) ** -0.5
    return V[:, ::-1].astype(np.float16).astype(np.float32), scales[::-1].astype(np.float32)


def whitened(directions: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Returns the inverse square root with these directions and scales."""
    V = directions.astype(np.float64)
    P = (V * scales) @ V.T
    return ((P + P.T) / 2).astype(np.float32)


def filter_metric(W: np.ndarray) -> np.ndarray:
    """Returns (K + 0.001 I)^-1/2 of the kernel K = exp(alpha (<w, v> - 1)) between filters W (k, d) of norm 1."""
    return power(np.exp(ALPHA * (W @ W.T - 1)), 1e-3, -0.5)


def power(S: np.ndarray, add: float, exponent: float) -> np.ndarray:
    """Returns (S + add I)^exponent of a symmetric S."""
    w, V = np.linalg.eigh(S.astype(np.float64))
    P = (V * (np.maximum(w, 0) + add) ** exponent) @ V.T
    return ((P + P.T) / 2).astype(np.float32)


@lru_cache
def load_filters() -> Filters:
    """Reads the filters in the package.

    Raises:
        ValueError: the file differs from this version's.
    """
    content = FILE.read_bytes()
    if hashlib.sha256(content).hexdigest() != DIGEST:
        raise ValueError(f"{FILE} is damaged: install the package again.")
    with np.load(io.BytesIO(content)) as stored:
        return unpacked(dict(stored))


def packed(filters: Filters) -> dict[str, np.ndarray]:
    """Returns arrays for a file: directions in float16, bits of bfloat16 values, no redundant arrays."""
    stored = filters._asdict()
    del stored["metric"], stored["channels"]
    stored["directions"] = filters.directions.astype(np.float16)
    stored["second"] = filters.second.view(np.uint16)
    return stored


def unpacked(stored: dict[str, np.ndarray]) -> Filters:
    """Returns the filters from such arrays."""
    stored, second = dict(stored), stored["second"].view(jnp.bfloat16)
    stored["second"], stored["metric"] = second, filter_metric(second.T.astype(np.float32))
    stored["directions"] = stored["directions"].astype(np.float32)
    stored["channels"] = whitened(stored["directions"], stored["scales"])
    return Filters(**{name: stored[name] for name in Filters._fields})
