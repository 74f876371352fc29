"""Small standard networks, initialised by a public seed: their layers, ConvNet, MLP and LeNet."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dpdistill.networks.convnet import (
    FEW_CHANNELS,
    LAYOUT,
    average_pool,
    block_outputs,
    embedding_dimension,
    init_convnet,
)
from dpdistill.recipe import networks as recipe

Params = Any


class Network(recipe.Network, ABC):
    """An architecture that computes: its parameters are a function of the seed alone."""

    @abstractmethod
    def init(self, shape: tuple[int, ...], classes: int) -> Params:
        """Returns parameters for records of this shape, in single precision for any precision of the records."""

    def apply(self, params: Params, X: Array) -> Array:
        """Returns logits (n, classes) of records X (n, ...)."""
        return self.activations(params, X)[-1]

    @abstractmethod
    def activations(self, params: Params, X: Array) -> list[Array]:
        """Returns the outputs of all layers after their non-linearity, first to last; the last are the logits."""


def times(network: Any, factor: int) -> Any:
    """Returns the architecture with `factor` times the units in every layer."""
    if hasattr(network, "widths"):
        return replace(network, widths=tuple(factor * width for width in network.widths))
    return replace(network, width=factor * network.width)


def init_layers(
    seed: int, shapes: Sequence[tuple[int, ...]], biases: Sequence[bool] | None = None
) -> list[dict[str, Array]]:
    """Returns layers of kernels with these shapes: entries uniform in +-1/sqrt(fan_in), the default of PyTorch.

    Args:
        seed: public seed.
        shapes: shapes of the kernels, outputs last.
        biases: which layers have a bias; None for all.
    """
    biases = [True] * len(shapes) if biases is None else biases
    sizes = [(math.prod(shape), shape[-1] * bias) for shape, bias in zip(shapes, biases, strict=True)]
    total = sum(map(sum, sizes))
    # One draw for all layers: compiling one draw per layer would dominate the time of a small network.
    draw = jax.random.uniform(jax.random.key(seed), (total,), jnp.float32, -1)
    layers, at = [], 0
    for shape, (kernel, bias) in zip(shapes, sizes, strict=True):
        bound = 1.0 / math.sqrt(math.prod(shape[:-1]))
        layer = {"kernel": bound * draw[at : at + kernel].reshape(shape)}
        if bias:
            layer["bias"] = bound * draw[at + kernel : at + kernel + bias]
        layers.append(layer)
        at += kernel + bias
    return layers


def unit_affine(width: int) -> dict[str, Array]:
    """Returns scale 1 and offset 0 of a normalisation."""
    return {"scale": jnp.ones(width, jnp.float32), "offset": jnp.zeros(width, jnp.float32)}


def convolve(X: Array, kernel: Array, stride: int = 1, padding: int = 0) -> Array:
    """Returns the convolution of (n, h, w, c) with a kernel (k, k, c, width)."""
    k, _, channels, width = kernel.shape
    if len(X) > 1 and channels > FEW_CHANNELS:
        padded = [(padding, padding)] * 2
        return lax.conv_general_dilated(X, kernel.astype(X.dtype), (stride, stride), padded, dimension_numbers=LAYOUT)
    # Patches times a matrix: for few channels, and for one record, since the gradient of every record on its own
    # (this function under vmap) makes XLA use grouped convolutions, which take minutes instead of seconds. For the
    # same reason these networks are no Equinox modules, whose convolutions are of one record: the gradient of an
    # empirical tangent kernel took 8.8 s instead of 1.3 s with LeNet, 6.6 s instead of 0.33 s with ResNet-18.
    X = jnp.pad(X, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    n, rows, cols, _ = X.shape
    h, w = (rows - k) // stride + 1, (cols - k) // stride + 1
    row, col, i, j = np.ogrid[:h, :w, :k, :k]
    places = ((row * stride + i) * cols + col * stride + j).ravel()
    patches = X.reshape(n, rows * cols, channels)[:, places].reshape(n * h * w, k * k * channels)
    return (patches @ kernel.reshape(k * k * channels, width)).reshape(n, h, w, width)


def dense(X: Array, layer: dict[str, Array]) -> Array:
    """Returns flattened records times the kernel, plus the bias."""
    return X.reshape(X.shape[0], -1) @ layer["kernel"] + layer["bias"]


def check_sizes(shape: tuple[int, ...], classes: int, side: int) -> None:
    """Raises unless the shape is (h, w, c) with sides of at least `side`, and classes > 0."""
    if len(shape) != 3 or min(shape[:2]) < side:
        raise ValueError(f"Expected shape=(h, w, c) with sides >= {side}; got {tuple(shape)}.")
    if not classes > 0:
        raise ValueError(f"Expected classes={classes} > 0.")


class ConvNet(recipe.ConvNet, Network):
    """The ConvNet of the dataset-distillation literature: up to three blocks (`init_convnet`) and a dense layer.

    Args:
        seed: public seed of the parameters.
        width: filters of a block, > 0.

    Source: Zhao & Bilen, 2023 (Dataset condensation with distribution matching), ConvNet-3.
    """

    def init(self, shape: tuple[int, ...], classes: int) -> Params:
        check_sizes(shape, classes, self.least_side)
        blocks = init_convnet(jax.random.key(self.seed), shape, self.width)
        (head,) = init_layers(self.seed, [(embedding_dimension(shape, self.width), classes)])
        return {"blocks": blocks, "head": head}

    def activations(self, params: Params, X: Array) -> list[Array]:
        outputs = block_outputs(params["blocks"], X)
        return [*outputs, dense(outputs[-1], params["head"])]


class MLP(recipe.MLP, Network):
    """Dense layers with ReLU between them.

    Args:
        seed: public seed of the parameters.
        widths: units of the hidden layers, > 0.

    Source: Zhao, Mopuri & Bilen, 2021 (Dataset condensation with gradient matching), two hidden layers of 128.
    """

    def init(self, shape: tuple[int, ...], classes: int) -> Params:
        check_sizes(shape, classes, self.least_side)
        sizes = (math.prod(shape), *self.widths, classes)
        return init_layers(self.seed, list(pairwise(sizes)))

    def activations(self, params: Params, X: Array) -> list[Array]:
        outputs = []
        for layer in params[:-1]:
            X = jax.nn.relu(dense(X, layer))
            outputs.append(X)
        return [*outputs, dense(X, params[-1])]


class LeNet(recipe.LeNet, Network):
    """LeNet-5 with ReLU: two blocks of conv 5 x 5 and 2 x 2 average pool, then three dense layers.

    Images with a side below 32 get a margin of 2, so that 28 x 28 and 32 x 32 have the same 5 x 5 last map.

    Args:
        seed: public seed of the parameters.
        widths: filters of the two convolutions and units of the two hidden dense layers, > 0.

    Source: LeCun, Bottou, Bengio & Haffner, 1998 (Gradient-based learning applied to document recognition).
    """

    def init(self, shape: tuple[int, ...], classes: int) -> Params:
        check_sizes(shape, classes, self.least_side)
        first, second, third, fourth = self.widths
        margin = self._margin(shape)
        h, w = (((side + 2 * margin - 4) // 2 - 4) // 2 for side in shape[:2])
        shapes = [(5, 5, shape[2], first), (5, 5, first, second), (h * w * second, third), (third, fourth)]
        return init_layers(self.seed, [*shapes, (fourth, classes)])

    def activations(self, params: Params, X: Array) -> list[Array]:
        padding, outputs = self._margin(X.shape[1:]), []
        for layer in params[:2]:
            outputs.append(jax.nn.relu(convolve(X, layer["kernel"], padding=padding) + layer["bias"]))
            X, padding = average_pool(outputs[-1]), 0
        for layer in params[2:4]:
            X = jax.nn.relu(dense(X, layer))
            outputs.append(X)
        return [*outputs, dense(X, params[4])]

    def _margin(self, shape: tuple[int, ...]) -> int:
        return 2 if min(shape[:2]) < 32 else 0
