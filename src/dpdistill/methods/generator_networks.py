"""Networks of generators: dense layers, and for images convolutions or residual blocks behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.methods.draws import rng_of
from dpdistill.networks.network import convolve
from dpdistill.schema import Schema

Layer = tuple[Any, Any]
"""A kernel, outputs last, and its bias."""


class Maps(Protocol):
    """What makes images of the small maps that dense layers end in; sides double on the way."""

    @property
    def channels(self) -> int:
        """Of the small maps."""
        ...

    def doublings(self, shape: tuple[int, ...]) -> int:
        """How often the sides double on the way to images of a shape, >= 1; what is beyond them is cut off."""
        ...

    def kernels(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Shapes of the kernels."""
        ...

    def apply(self, maps: Array, layers: Sequence[Layer]) -> Array:
        """Maps (n, h, w, channels) -> (n, h 2^doublings, w 2^doublings, shape[2])."""
        ...


@dataclass(frozen=True)
class Convolutions(Maps):
    """A convolution behind each doubling.

    Args:
        widths: channels before each doubling.
        side: of the kernels, odd.

    Source: Harder, Adamczewski & Park, 2021 (DP-MERF), its generator of images.
    """

    widths: tuple[int, ...] = (32, 16)
    side: int = 5

    @property
    def channels(self) -> int:
        return self.widths[0]

    def doublings(self, shape: tuple[int, ...]) -> int:
        return len(self.widths)

    def kernels(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        return [(self.side, self.side, a, b) for a, b in pairwise((*self.widths, shape[2]))]

    def apply(self, maps: Array, layers: Sequence[Layer]) -> Array:
        for i, (W, b) in enumerate(layers):
            maps = convolve(_doubled(maps), W, padding=self.side // 2) + b
            maps = maps if i + 1 == len(layers) else _active(maps)
        return maps


@dataclass(frozen=True)
class ResidualBlocks(Maps):
    """Residual blocks, each behind a doubling, from maps of about 4 x 4; then a convolution.

    A block is the sum of two 3 x 3 convolutions, each of what is normalised and passed through ReLU, and of a 1 x 1
    convolution of what comes in.

    Args:
        channels: of all maps but the last.
        last: of the last block's maps.

    Source: He et al., 2016 (Identity mappings in deep residual networks), with doublings in the place of strides.
    """

    channels: int = 64
    last: int = 32

    def doublings(self, shape: tuple[int, ...]) -> int:
        return max(1, (max(shape[:2]) - 1).bit_length() - 2)

    def kernels(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        widths = (*(self.channels,) * self.doublings(shape), self.last)
        blocks = [[(3, 3, a, b), (3, 3, b, b), (1, 1, a, b)] for a, b in pairwise(widths)]
        return [*(kernel for block in blocks for kernel in block), (3, 3, self.last, shape[2])]

    def apply(self, maps: Array, layers: Sequence[Layer]) -> Array:
        for i in range(0, len(layers) - 1, 3):
            (W_1, b_1), (W_2, b_2), (W_3, b_3) = layers[i : i + 3]
            maps = _doubled(maps)
            inner = convolve(_active(maps), W_1, padding=1) + b_1
            maps = convolve(_active(inner), W_2, padding=1) + b_2 + convolve(maps, W_3) + b_3
        W, b = layers[-1]
        return convolve(_active(maps), W, padding=1) + b


MAPS: dict[str, Maps] = {"convolutional": Convolutions(), "residual": ResidualBlocks()}


def kernels_of(architecture: str, inputs: int, hidden: tuple[int, ...], schema: Any) -> list[tuple[int, ...]]:
    """Shapes of the kernels of a generator, outputs last.

    Args:
        architecture: one of GENERATORS.
        inputs: coordinates of a code and its label.
        hidden: widths of the dense layers.
        schema: of the records; a table has dense layers alone.
    """
    if architecture == "dense" or not isinstance(schema, Schema):
        return list(pairwise((inputs, *hidden, schema.dimension)))
    maps, shape = MAPS[architecture], schema.shape
    rows, columns = _start(maps, shape)
    return [*pairwise((inputs, *hidden, rows * columns * maps.channels)), *maps.kernels(shape)]


def init_weights(key: Array, kernels: list[tuple[int, ...]]) -> tuple[Array, ...]:
    """W_1, b_1, ...: N(0, 2 / fan in), zeros, for kernels of these shapes, outputs last."""
    rng, weights = rng_of(key), list[Array]()
    for shape in kernels:
        scale = math.sqrt(2.0 / math.prod(shape[:-1]))
        weights += [jnp.asarray(rng.standard_normal(shape, np.float32) * scale), jnp.zeros(shape[-1])]
    return tuple(weights)


def outputs_of(weights: tuple[Any, ...], codes: Array, labels: Array, shape: tuple[int, ...]) -> Array:
    """Returns what a generator's network says before the heads, (n, d), for records of a shape.

    Between layers: normalised over the record, and ReLU.
    """
    h = jnp.concatenate([codes, labels], 1)
    layers = list(zip(weights[::2], weights[1::2], strict=True))
    dense = [layer for layer in layers if layer[0].ndim == 2]
    for i, (W, b) in enumerate(dense):
        h = h @ W + b
        h = _active(h) if i + 1 < len(layers) else h
    if len(dense) == len(layers):
        return h
    behind = layers[len(dense) :]
    kernels = [W.shape for W, _ in behind]
    maps = next(each for each in MAPS.values() if each.kernels(shape) == kernels)
    h = maps.apply(h.reshape(len(h), *_start(maps, shape), -1), behind)
    return h[:, : shape[0], : shape[1]].reshape(len(h), -1)


def _start(maps: Maps, shape: tuple[int, ...]) -> tuple[int, int]:
    """Sides of the small maps: they grow to an image's, or beyond them."""
    rows, columns = (-(-side // 2 ** maps.doublings(shape)) for side in shape[:2])
    return rows, columns


def _active(h: Array) -> Array:
    """ReLU of what is normalised over the record."""
    axes = tuple(range(1, h.ndim))
    h = h - h.mean(axes, keepdims=True)
    return jax.nn.relu(h / jnp.sqrt(jnp.mean(jnp.square(h), axes, keepdims=True) + 1e-5))


def _doubled(maps: Array) -> Array:
    """Every pixel as 2 x 2 of them."""
    return jnp.repeat(jnp.repeat(maps, 2, 1), 2, 2)
