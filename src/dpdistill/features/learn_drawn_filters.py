"""Learns the filters of a DrawnNet from generated images: python -m dpdistill.features.learn_drawn_filters FILE"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.features.drawn_filters import (
    Filters,
    filter_metric,
    layer1,
    layers,
    local,
    mirrored,
    packed,
    power,
    whitened,
    whitening,
)
from dpdistill.public_images.pictures import photographs

PARTS = 20
ROUNDS = 12
PIECE = 10


@dataclass(frozen=True)
class Learning:
    """Sizes of a DrawnNet and of its training data.

    Args:
        first: K1, even.
        second: K2.
        rank: directions of layer 1 that layer 2 reads.
        grid: cells a side.
        position: weight of a position's neighbours in the metric.
        pictures: images to learn filters from; half as many for layer 2.
        measured: number of other images, for mean and metrics.
        patches: number of patches for a layer's centroids.
        seed: public seed.
    """

    first: int = 128
    second: int = 1024
    rank: int = 96
    grid: int = 4
    position: float = 0.5
    pictures: int = 4000
    measured: int = 3000
    patches: int = 100_000
    seed: int = 0


def learn(net: Learning) -> Filters:
    """Learns filters from procedurally generated images.

    Results are equal on every call on one machine; low bits depend on its processor, and k-means amplifies them.
    """
    X, Y = (photographs(n, 2 * net.seed + i) for i, n in enumerate((net.pictures, net.measured)))
    rng = np.random.default_rng(net.seed)
    with jax.ensure_compile_time_eval(), jax.enable_x64(False):
        first, floor, A = _layer1(net, X, rng)
        empty = np.zeros((0, 0), np.float32)
        result = Filters(first, floor, A, *[empty] * 8)
        R, sign = _directions(in_turn(partial(layer1, result), X[: len(X) // 10]).reshape(-1, net.first), net)
        result = result._replace(between=A @ R, sign=sign)
        maps = in_turn(partial(layer1, result), X[rng.permutation(len(X))[: len(X) // 2]])
        W, metric = _layer2(net, maps, rng)
        result = result._replace(second=W.T.astype(jnp.bfloat16), metric=metric, positions=_positions(net))
        Q = in_turn(lambda X: local(result, layers(result, X)), Y)
    mean = Q.mean(0)
    Q = (Q - mean).reshape(-1, net.second)
    S = Q.T @ Q / len(Q)
    directions, scales = whitening(S)
    return result._replace(mean=mean, directions=directions, scales=scales, channels=whitened(directions, scales))


def _layer1(net: Learning, X: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns filters of whitened patches, the addend of a patch's norm, and (kernel between the filters)^-1/2."""
    p = patches(X, 5, net.patches, rng)
    p -= p.mean(1, keepdims=True)
    S = p.T @ p / len(p)
    swap = mirrored(np.arange(p.shape[1])[None], 5)[0].astype(int)
    S = (S + S[swap][:, swap]) / 2
    Z = power(S, 0.1 * np.trace(S) / len(S), -0.5)
    p, norms = longest(p @ Z)
    W = centroids(p, net.first, rng, mirror=True)
    T = np.concatenate([W @ Z, Z])
    floor = np.asarray(0.1 * np.median(norms), np.float32)
    return (T - T.mean(1, keepdims=True)).T.copy(), floor, filter_metric(W)


def _directions(V: np.ndarray, net: Learning) -> tuple[np.ndarray, np.ndarray]:
    """Returns leading directions (K1, rank) of layer 1's outputs (m, K1), each even or odd in the mirror, and the
    signs.
    """
    C = (V.T @ V).astype(np.float64)
    half, eye = net.first // 2, np.eye(net.first)
    swap = np.roll(np.arange(net.first), half)
    C = (C + C[swap][:, swap]) / 2
    vectors, values = [], []
    for sign in (1, -1):
        basis = (eye + sign * eye[swap])[:, :half] / np.sqrt(2)
        w, U = np.linalg.eigh(basis.T @ C @ basis)
        vectors.append(basis @ U)
        values.append(w)
    keep = np.argsort(-np.concatenate(values))[: net.rank]
    sign = np.where(keep < half, 1.0, -1.0).astype(np.float32)
    return np.concatenate(vectors, 1)[:, keep].astype(np.float32), sign


def _layer2(net: Learning, maps: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    W = centroids(longest(patches(maps, 3, net.patches, rng))[0], net.second, rng, mirror=False)
    W = W.astype(jnp.bfloat16).astype(np.float32)
    return W, filter_metric(W)


def _positions(net: Learning) -> np.ndarray:
    """Returns ((1 - weight) I + weight exp(-|p - q|^2 / 2))^1/2 on the grid."""
    i = np.arange(net.grid**2)
    far = (i[:, None] // net.grid - i // net.grid) ** 2 + (i[:, None] % net.grid - i % net.grid) ** 2
    return power((1 - net.position) * np.eye(len(i)) + net.position * np.exp(-far / 2), 0.0, 0.5)


def patches(x: np.ndarray, s: int, m: int, rng: np.random.Generator) -> np.ndarray:
    """Returns m random s x s patches (m, s s c) of maps (n, h, w, c)."""
    n, h, w, _ = x.shape
    i, a, b, d = rng.integers(n, size=m), rng.integers(h - s + 1, size=m), rng.integers(w - s + 1, size=m), np.arange(s)
    return x[i[:, None, None], (a[:, None] + d)[:, :, None], (b[:, None] + d)[:, None, :]].reshape(m, -1)


def longest(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the four fifths of patches with the largest norm, and their norms."""
    norms = np.linalg.norm(p, axis=1)
    kept = norms > np.quantile(norms, 0.2)
    return p[kept], norms[kept]


def centroids(q: np.ndarray, k: int, rng: np.random.Generator, mirror: bool) -> np.ndarray:
    """Returns centroids of patches by spherical k-means, (k, d) of norm 1.

    Args:
        q: (m, d).
        k: number of centroids.
        rng: random generator for the start, and for replacing a centroid without patches.
        mirror: k / 2 centroids of 5 x 5 patches or their mirror images, whichever is nearer, and the images of both.
    """
    q = (q / np.maximum(np.linalg.norm(q, axis=1, keepdims=True), 1e-8))[: len(q) // PARTS * PARTS].astype(np.float32)
    m = k // 2 if mirror else k
    Q = np.stack([q, mirrored(q, 5)]) if mirror else q[None]
    parts = jnp.asarray(Q.reshape(len(Q), PARTS, -1, Q.shape[2]).transpose(1, 0, 2, 3))
    C = q[rng.choice(len(q), m, replace=False)]
    for _ in range(ROUNDS):
        C = np.asarray(_step(parts, C, q[rng.choice(len(q), m)]))
    return np.concatenate([C, mirrored(C, 5)]) if mirror else C


@jax.jit
def _step(parts: jax.Array, C: jax.Array, fresh: jax.Array) -> jax.Array:
    def sums(b: jax.Array) -> jax.Array:
        S = jnp.stack([product(x, C.T) for x in b])
        best, i = S.max(2).argmax(0), jnp.arange(b.shape[1])
        return jax.ops.segment_sum(b[best, i], S.argmax(2)[best, i], len(C))

    total = jax.lax.map(sums, parts).sum(0)
    norm = jnp.linalg.norm(total, axis=1, keepdims=True)
    return jnp.where(norm > 1e-6, total / jnp.maximum(norm, 1e-6), fresh)


def product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns a b with factors in bfloat16 and sums in float32."""
    return jnp.matmul(a.astype(jnp.bfloat16), b.astype(jnp.bfloat16), preferred_element_type=jnp.float32)


def in_turn(f: Callable, X: np.ndarray) -> np.ndarray:
    """Returns f (n, ...) of images, computed in batches."""
    f = jax.jit(f)
    return np.concatenate([np.asarray(f(X[i : i + PIECE])) for i in range(0, len(X), PIECE)])


def write(file: str) -> None:
    """Writes the package's file of filters; logs its SHA-256, which is `drawn.DIGEST`."""
    with Path(file).open("wb") as target:
        np.savez(target, allow_pickle=False, **packed(learn(Learning())))
    logging.getLogger("dpdistill").info("%s", hashlib.sha256(Path(file).read_bytes()).hexdigest())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    write(sys.argv[1])
