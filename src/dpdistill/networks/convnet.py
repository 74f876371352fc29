"""The ConvNet of the dataset-distillation literature: random embeddings, and the classifier that scores a set."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

LAYOUT = ("NHWC", "HWIO", "NHWC")
FEW_CHANNELS = 4


def first_padding(shape: tuple[int, ...]) -> int:
    """Returns the padding of the first convolution: 3 extends 28 x 28 to 32 x 32; otherwise 1."""
    return 3 if tuple(shape[:2]) == (28, 28) else 1


def depth_for(shape: tuple[int, ...]) -> int:
    """Returns the blocks for (height, width, channels): max(1, min(3, floor(log2(side / 4)))), side after padding."""
    side = min(shape[:2]) + 2 * (first_padding(shape) - 1)
    return max(1, min(3, int(math.log2(max(side, 4) / 4))))


def embedding_dimension(shape: tuple[int, ...], width: int) -> int:
    """Returns the number of features of one record after the last pooling."""
    grow = 2 * (first_padding(shape) - 1)
    depth = depth_for(shape)
    return ((shape[0] + grow) >> depth) * ((shape[1] + grow) >> depth) * width


def init_convnet(key: Array, shape: tuple[int, ...], width: int) -> list[dict[str, Array]]:
    """Returns random parameters, uniform in +-1/sqrt(fan_in), one dictionary per block.

    Args:
        key: public random key.
        shape: (height, width, channels) of one record.
        width: filters a block, >= 1.
    """
    blocks = []
    channels = shape[2]
    for block_key in jax.random.split(key, depth_for(shape)):
        kernel_key, bias_key = jax.random.split(block_key)
        bound = 1.0 / math.sqrt(9 * channels)
        blocks.append(
            {
                "kernel": jax.random.uniform(kernel_key, (3, 3, channels, width), minval=-bound, maxval=bound),
                "bias": jax.random.uniform(bias_key, (width,), minval=-bound, maxval=bound),
                "scale": jnp.ones(width),
                "offset": jnp.zeros(width),
            }
        )
        channels = width
    return blocks


def conv3x3(X: Array, kernel: Array, padding: int) -> Array:
    """Returns the 3 x 3 convolution of (n, h, w, c) with kernel (3, 3, c, width)."""
    channels = X.shape[-1]
    if channels > FEW_CHANNELS:
        return jax.lax.conv_general_dilated(X, kernel, (1, 1), [(padding, padding)] * 2, dimension_numbers=LAYOUT)
    # XLA's gradient of the kernel of a convolution of one channel takes 30 times as long.
    return conv3x3_patches(X, kernel, padding)


def conv3x3_patches(X: Array, kernel: Array, padding: int) -> Array:
    """Returns a convolution as patches times a matrix: fast for per-record gradients, for which XLA is slow."""
    channels = X.shape[-1]
    X = jnp.pad(X, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    n, h, w = X.shape[0], X.shape[1] - 2, X.shape[2] - 2
    patches = jnp.stack([X[:, i : i + h, j : j + w] for i in range(3) for j in range(3)], axis=-2)
    return (patches.reshape(n * h * w, 9 * channels) @ kernel.reshape(9 * channels, -1)).reshape(n, h, w, -1)


def instance_norm(X: Array, scale: Array, offset: Array) -> Array:
    """Returns (x - mean) / sqrt(var + 1e-5) over each record's positions, one group a channel, then the affine map."""
    centred = X - X.mean((1, 2), keepdims=True)
    variance = jnp.square(centred).mean((1, 2), keepdims=True)
    return centred * jax.lax.rsqrt(variance + 1e-5) * scale + offset


def average_pool(X: Array) -> Array:
    """Returns the 2 x 2 average pool of (n, h, w, c); odd last rows and columns are dropped."""
    n, h, w, c = X.shape
    return X[:, : h // 2 * 2, : w // 2 * 2].reshape(n, h // 2, 2, w // 2, 2, c).mean((2, 4))


def embed_convnet(blocks: list[dict[str, Array]], X: Array) -> Array:
    """Returns features of records: blocks of conv 3 x 3, instance norm, ReLU, 2 x 2 average pool, then flattened.

    Args:
        blocks: parameters of `init_convnet`.
        X: records in [-1, 1], (n, h, w, c).

    Returns:
        (n, d) float32.

    Source: Zhao & Bilen, 2023 (Dataset condensation with distribution matching), ConvNet-3.
    """
    return block_outputs(blocks, X)[-1].reshape(X.shape[0], -1)


def block_outputs(
    blocks: list[dict[str, Array]], X: Array, conv: Callable[[Array, Array, int], Array] = conv3x3
) -> list[Array]:
    """Returns the output of each block, (n, h', w', width); `conv` computes its convolution."""
    padding, outputs = first_padding(X.shape[1:]), []
    for block in blocks:
        X = conv(X, block["kernel"], padding) + block["bias"]
        X = average_pool(jax.nn.relu(instance_norm(X, block["scale"], block["offset"])))
        padding = 1
        outputs.append(X)
    return outputs
