"""Common parts of distribution matching: queries, released counts, and the loss of one signal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.methods.draws import rng_of
from dpdistill.networks.augment import apply_augmentation, draw_augmentation
from dpdistill.networks.convnet import embed_convnet, init_convnet
from dpdistill.query import Release
from dpdistill.schema import AnySchema

PUBLIC_PIXELS = 100 * 32 * 32
"""Number of pixels of public images embedded at once."""


def clip(v: Array, bound: float) -> Array:
    """Returns v min(1, bound / ||v||) over the last axis, differentiable in v also at zero."""
    if math.isinf(bound):  # the derivative of inf / ||v|| is not a number
        return v
    norm = jnp.sqrt(jnp.maximum(jnp.sum(jnp.square(v), -1, keepdims=True), 1e-24))
    return v * jnp.minimum(1.0, bound / norm)


class Counting:
    """Contribution with a constant coordinate a before the features, whose sum counts the records of a class."""

    clip_norm: Any
    count_coordinate: Any
    by_class = True
    encoder = None

    @property
    def count(self) -> float:
        """Returns a, the constant coordinate in the units of the contribution."""
        return self.count_coordinate * self.clip_norm

    @property
    def bound(self) -> float:
        """Returns sqrt(C^2 - a^2), the clip norm of the features."""
        return self.clip_norm * math.sqrt(1.0 - self.count_coordinate**2)

    def beside_count(self, v: Array) -> Array:
        """(a, v)."""
        return jnp.concatenate([jnp.full((1,), self.count), v])


@dataclass(frozen=True)
class PixelQuery(Counting):
    """Query u = (a, x): a record and a constant that counts it, of norm at most C for x in [-1, 1]^d.

    Guarantee:
        Sensitivity C = sqrt(d) / sqrt(1 - (a/C)^2) under add-or-remove, max(2 sqrt(d), sqrt(2) C) under replace-one.
    """

    dimension: int
    count_coordinate: float

    @property
    def clip_norm(self) -> float:
        return math.sqrt(self.dimension / (1.0 - self.count_coordinate**2))

    def contribution(self, params: object, x: Array, y: Array) -> Array:
        return self.beside_count(x.ravel())


@dataclass(frozen=True)
class EmbeddingQuery(Counting):
    """Query u = (a, clip of (phi(x) - centre) directions to sqrt(C^2 - a^2)), phi a random ConvNet.

    Params: blocks of the network, draw of the augmentation or None, centre (d,) or None, directions (d, p) or None for
    all d coordinates.

    Guarantee:
        Sensitivity C under add-or-remove, max(2 sqrt(C^2 - a^2), sqrt(2) C) under replace-one: the clip comes last. The
        network is public, the centre a function of earlier releases or of public images, the directions of public
        images.

    Source: Zheng & Li 2024 (NDPDC); Zheng et al. 2025 (DOSSER): directions, and a centre from public images.
    """

    clip_norm: float
    count_coordinate: float

    @property
    def scale(self) -> float:
        """Returns the divisor of a loss, which makes a step independent of the clip norm."""
        return self.bound**2

    def contribution(self, params: object, x: Array, y: Array) -> Array:
        return self.beside_count(clip(features(params, x[None])[0], self.bound))


@dataclass(frozen=True)
class PlainEmbeddingQuery:
    """Query u = (1, phi(x)) without a clip norm, which only the non-private curator answers."""

    by_class: bool = True
    encoder: None = None
    clip_norm: float = math.inf
    count: float = 1.0
    bound: float = math.inf
    scale: float = 1.0

    def contribution(self, params: object, x: Array, y: Array) -> Array:
        return jnp.concatenate([jnp.ones(1), features(params, x[None])[0]])


def features(params: Any, X: Array) -> Array:
    """Returns (phi(X) - centre) directions, (n, p), of augmented images; phi(X), (n, d), where params have neither."""
    if params["draw"] is not None:
        X = jax.vmap(apply_augmentation, (None, 0))(params["draw"], X)
    phi = embed_convnet(params["blocks"], X)
    phi = phi if params["centre"] is None else phi - params["centre"]
    return phi if params["directions"] is None else phi @ params["directions"]


def mean_features(params: object, images: np.ndarray) -> np.ndarray:
    """Returns the mean (d,) of the features of images (n, h, w, c), float32."""
    return _features_of(params, images).mean(0).astype(np.float32)


def principal_directions(params: object, images: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns mean (d,) and first `rank` principal directions (d, rank) of public images' features, float32.

    Args:
        params: params of a network without centre and directions.
        images: public images, (n, h, w, c), n > rank.
        rank: number of directions, at most d.

    Source: Zheng et al. 2025 (DOSSER), subspace discovery.
    """
    phi = _features_of(params, images)
    mean = phi.mean(0)
    vectors = np.linalg.eigh((phi - mean).T @ (phi - mean))[1]
    return mean.astype(np.float32), vectors[:, ::-1][:, :rank].astype(np.float32)


_features = jax.jit(features)


def _features_of(params: object, images: np.ndarray) -> np.ndarray:
    """Returns the features (n, d) of images, computed in chunks, float64."""
    pixels = math.prod(images.shape[:3])
    chunks = np.array_split(images, min(len(images), -(-pixels // PUBLIC_PIXELS)))
    return np.concatenate([np.asarray(_features(params, chunk), np.float64) for chunk in chunks])


def signal_of(query: Any, params: Any, X: Array, per_class: int) -> Array:
    """Returns mean clipped features per class of images ordered by class, (classes, d), to compare with a signal."""
    v = clip(features(params, X), query.bound)
    return v.reshape(-1, per_class, v.shape[-1]).mean(1)


def network(key: Array, t: Array | int, shape: tuple[int, ...], width: int, strategies: tuple[str, ...] = ()) -> Any:
    """Returns the public params of round t: a random network and one draw of the augmentation or None."""
    check_pixels(shape)
    blocks_key, draw_key = jax.random.split(jax.random.fold_in(key, t))
    draw = draw_augmentation(draw_key, strategies) if strategies else None
    return {"blocks": init_convnet(blocks_key, shape, width), "draw": draw, "centre": None, "directions": None}


def check_pixels(shape: tuple[int, ...]) -> None:
    """Refuses images (h, w, c) that are too small for a ConvNet.

    Raises:
        ValueError: a side of one pixel.
    """
    if min(shape[:2]) < 2:
        raise ValueError(f"Expected images of at least 2x2 pixels for a ConvNet; got {shape[0]}x{shape[1]}.")


def counts_of(coordinates: np.ndarray, query: Any, sampling_prob: float, floor: float) -> np.ndarray:
    """Returns released counts per class: mean of the constant coordinates / (a q), at least floor.

    Args:
        coordinates: constant coordinates of all rounds, (rounds, classes).
        query: query with the constant coordinate `count`.
        sampling_prob: sampling probability q of these rounds.
        floor: public minimum, > 0; noise can bring a count to zero or below.
    """
    return np.maximum(coordinates.astype(np.float64).mean(0) / (query.count * sampling_prob), floor)


def put_release(stack: np.ndarray, t: int, release: Release) -> np.ndarray:
    """Returns a copy of the stack with the release of round t at index t."""
    stack = stack.copy()
    stack[t] = release.value
    return stack


def labels(classes: int, per_class: int) -> np.ndarray:
    """Returns the class indices of a synthetic set, (m,): per_class of each, in order."""
    return np.repeat(np.arange(classes, dtype=np.int32), per_class)


def start_images(key: Array, m: int, schema: AnySchema) -> Array:
    """Returns m images from N(0, I), a start without any record."""
    return jnp.asarray(rng_of(key).standard_normal((m, *schema.shape), np.float32))
