"""Networks of generators: dense layers, for images followed by convolutions or residual blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.methods.draws import rng_of
from dpdistill.methods.generator_shapes import ConvolutionShapes, MapShapes, ResidualShapes, start_of
from dpdistill.networks.network import convolve

Layer = tuple[Any, Any]
"""Type of a layer: a kernel, outputs last, and its bias."""


class Maps(MapShapes, Protocol):
    """Upsampling layers from the small maps of the dense layers to images."""

    def apply(self, maps: Array, layers: Sequence[Layer]) -> Array:
        """Maps (n, h, w, channels) to (n, h 2^doublings, w 2^doublings, shape[2])."""
        ...


@dataclass(frozen=True)
class Convolutions(ConvolutionShapes):
    """Convolutions, one after each doubling.

    Args:
        widths: numbers of channels before each doubling.
        side: side of the kernels, odd.

    Source: Harder, Adamczewski & Park, 2021 (DP-MERF), its generator of images.
    """

    def apply(self, maps: Array, layers: Sequence[Layer]) -> Array:
        for i, (W, b) in enumerate(layers):
            maps = convolve(_upsample(maps), W, padding=self.side // 2) + b
            maps = maps if i + 1 == len(layers) else _normalised_relu(maps)
        return maps


@dataclass(frozen=True)
class ResidualBlocks(ResidualShapes):
    """Residual blocks, one after each doubling, from maps of about 4 x 4; then a convolution.

    A block is the sum of two 3 x 3 convolutions, each after normalisation and ReLU, and of a 1 x 1 convolution of its
    input.

    Args:
        channels: number of channels of all maps but the last.
        last: number of channels of the last block's maps.

    Source: He et al., 2016 (Identity mappings in deep residual networks), with doublings instead of strides.
    """

    def apply(self, maps: Array, layers: Sequence[Layer]) -> Array:
        for i in range(0, len(layers) - 1, 3):
            (W_1, b_1), (W_2, b_2), (W_3, b_3) = layers[i : i + 3]
            maps = _upsample(maps)
            inner = convolve(_normalised_relu(maps), W_1, padding=1) + b_1
            maps = convolve(_normalised_relu(inner), W_2, padding=1) + b_2 + convolve(maps, W_3) + b_3
        W, b = layers[-1]
        return convolve(_normalised_relu(maps), W, padding=1) + b


MAPS: dict[str, Maps] = {"convolutional": Convolutions(), "residual": ResidualBlocks()}


def init_weights(key: Array, kernels: list[tuple[int, ...]]) -> tuple[Array, ...]:
    """Returns W_1, b_1, ...: N(0, 2 / fan in) and zeros, for the shapes of kernels, outputs last."""
    rng, weights = rng_of(key), list[Array]()
    for shape in kernels:
        scale = math.sqrt(2.0 / math.prod(shape[:-1]))
        weights += [jnp.asarray(rng.standard_normal(shape, np.float32) * scale), jnp.zeros(shape[-1])]
    return tuple(weights)


def outputs_of(weights: tuple[Any, ...], codes: Array, labels: Array, shape: tuple[int, ...]) -> Array:
    """Returns the outputs of a generator's network before the heads, (n, d).

    Between layers are normalisation over the record and ReLU.
    """
    h = jnp.concatenate([codes, labels], 1)
    layers = list(zip(weights[::2], weights[1::2], strict=True))
    dense = [layer for layer in layers if layer[0].ndim == 2]
    for i, (W, b) in enumerate(dense):
        h = h @ W + b
        h = _normalised_relu(h) if i + 1 < len(layers) else h
    if len(dense) == len(layers):
        return h
    behind = layers[len(dense) :]
    kernels = [W.shape for W, _ in behind]
    maps = next(each for each in MAPS.values() if each.kernels(shape) == kernels)
    h = maps.apply(h.reshape(len(h), *start_of(maps, shape), -1), behind)
    return h[:, : shape[0], : shape[1]].reshape(len(h), -1)


def _normalised_relu(h: Array) -> Array:
    """Applies normalisation over the record, then ReLU."""
    axes = tuple(range(1, h.ndim))
    h = h - h.mean(axes, keepdims=True)
    return jax.nn.relu(h / jnp.sqrt(jnp.mean(jnp.square(h), axes, keepdims=True) + 1e-5))


def _upsample(maps: Array) -> Array:
    """Repeats every pixel as 2 x 2 pixels."""
    return jnp.repeat(jnp.repeat(maps, 2, 1), 2, 2)
