"""Operators of ONNX that are layers of a network: convolutions, products, norms, pools and activations."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpdistill.encoders.onnx_file import Refused
from dpdistill.encoders.values import Maps, Value, channels_last, constant, elementwise, integers, limited, plain

Held = Mapping[str, Any]
Pads = tuple[tuple[int, int], tuple[int, int]]


def conv(held: Held, x: Value, W: Value, b: Value = None) -> Value:
    """Returns a convolution of maps, by groups."""
    X, W = channels_last(x), constant(W, "a convolution's weight")
    if W.ndim != 4:
        raise Refused(f"Expected convolutions of images; got weights of the shape {W.shape}.")
    group, channels = int(held.get("group", 1)), X.shape[3]
    if W.shape[1] * group != channels or len(W) % group:
        raise Refused(f"Expected weights of {channels} channels in {group} groups; got the shape {W.shape}.")
    steps, dilation = _pair(held, "strides"), _pair(held, "dilations")
    pads = _pads(held, X.shape[1:3], W.shape[2:], steps, dilation)
    limited((1, *_sizes(X.shape[1:3], W.shape[2:], steps, dilation, pads), len(W)))
    if W.shape[1] == 1 and group == len(W):
        Y = _depthwise(X, W[:, 0].transpose(1, 2, 0), steps, dilation, pads)
    elif W.shape[2:] == (1, 1) and group == 1 and pads == ((0, 0), (0, 0)):
        Y = X[:, :: steps[0], :: steps[1]] @ np.ascontiguousarray(W[:, :, 0, 0].T)
    else:
        Y = lax.conv_general_dilated(
            X, jnp.asarray(W.transpose(2, 3, 1, 0)), steps, pads, rhs_dilation=dilation,
            dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=group,
        )  # fmt: skip
    return Maps(Y if b is None else Y + b)


def _depthwise(X: jax.Array, W: np.ndarray, steps: Any, dilation: Any, pads: Pads) -> jax.Array:
    """Returns a convolution of every channel by itself, W (rows, columns, channels), as a sum of shifted maps.

    XLA's own convolution by groups is many times slower on a CPU.
    """
    rows, columns = _sizes(X.shape[1:3], W.shape[:2], steps, dilation, pads)
    X = jnp.pad(X, ((0, 0), *pads, (0, 0)))

    def shifted(i: int, j: int) -> jax.Array:
        top, left = i * dilation[0], j * dilation[1]
        below, right = top + (rows - 1) * steps[0] + 1, left + (columns - 1) * steps[1] + 1
        return X[:, top : below : steps[0], left : right : steps[1]]

    terms = [shifted(i, j) * W[i, j] for i in range(W.shape[0]) for j in range(W.shape[1])]
    return reduce(operator.add, terms)


def _pair(held: Held, name: str) -> tuple[int, int]:
    found = tuple(int(number) for number in held.get(name, (1, 1)))
    if len(found) != 2 or min(found) < 1 or max(found) > 1024:
        raise Refused(f"Expected two {name} from 1 to 1024; got {found!s:.40}.")
    return found


def _sizes(sides: Any, kernel: Any, steps: Any, dilation: Any, pads: Pads) -> tuple[int, int]:
    """Returns rows and columns of a convolution's output."""
    found = [
        (side + sum(pad) - (k - 1) * d - 1) // step + 1
        for side, k, step, d, pad in zip(sides, kernel, steps, dilation, pads, strict=True)
    ]
    if min(found) < 1:
        raise Refused(f"Expected images of more pixels for this network: state a larger size than {tuple(sides)}.")
    return found[0], found[1]


def _pads(held: Held, sides: Any, kernel: Any, steps: Any, dilation: Any) -> Pads:
    auto = held.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        result = []
        for side, k, step, d in zip(sides, kernel, steps, dilation, strict=True):
            whole = max((-(-side // step) - 1) * step + (k - 1) * d + 1 - side, 0)
            less, more = whole // 2, whole - whole // 2
            result.append((less, more) if auto == "SAME_UPPER" else (more, less))
        return result[0], result[1]
    pads = (0, 0, 0, 0) if auto == "VALID" else tuple(int(number) for number in held.get("pads", (0, 0, 0, 0)))
    if len(pads) != 4 or min(pads) < 0 or max(pads) > 1024:
        raise Refused(f"Expected four pads from 0 to 1024; got {pads!s:.40}.")
    return (pads[0], pads[2]), (pads[1], pads[3])


def max_pool(held: Held, x: Value) -> Value:
    """Returns the largest numbers of windows."""
    X = channels_last(x)
    window, steps, pads = _windows(held, X.shape[1:3])
    return Maps(
        lax.reduce_window(X, -np.inf, lax.max, window, steps, pads, window_dilation=(1, *_pair(held, "dilations"), 1))
    )


def average_pool(held: Held, x: Value) -> Value:
    """Returns the means of windows; padding counts only if the file says so."""
    X = channels_last(x)
    window, steps, pads = _windows(held, X.shape[1:3])
    if _pair(held, "dilations") != (1, 1):
        raise Refused("Expected average pools without dilation.")
    ones = np.ones((1, *X.shape[1:3], 1), np.float32)
    if held.get("count_include_pad", 0):
        stated, plain_pads = _pads(held, X.shape[1:3], window[1:3], steps[1:3], (1, 1)), ((0, 0), *pads[1:3], (0, 0))
        ones = np.pad(ones, ((0, 0), *stated, (0, 0)), constant_values=1)
        more = tuple((after[0] - own[0], after[1] - own[1]) for after, own in zip(plain_pads[1:3], stated, strict=True))
        counts = lax.reduce_window(ones, 0.0, lax.add, window, steps, ((0, 0), *more, (0, 0)))
    else:
        counts = lax.reduce_window(ones, 0.0, lax.add, window, steps, pads)
    return Maps(lax.reduce_window(X, 0.0, lax.add, window, steps, pads) / counts)


def _windows(held: Held, sides: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Returns window, steps and pads of a pool with channels last; ceil_mode lengthens the pads at the end."""
    kernel, steps, dilation = _pair(held, "kernel_shape"), _pair(held, "strides"), _pair(held, "dilations")
    pads = list(_pads(held, sides, kernel, steps, dilation))
    if held.get("ceil_mode", 0):
        for axis, (before, after) in enumerate(pads):
            span = sides[axis] + before + after - (kernel[axis] - 1) * dilation[axis] - 1
            count = -(-span // steps[axis]) + 1
            count -= (count - 1) * steps[axis] >= sides[axis] + before
            pads[axis] = (before, after + max(0, (count - 1) * steps[axis] - span))
    _sizes(sides, kernel, steps, dilation, (pads[0], pads[1]))
    return (1, *kernel, 1), (1, *steps, 1), ((0, 0), *pads, (0, 0))


def global_average_pool(held: Held, x: Value) -> Value:
    """Returns the mean of every channel, (n, c, 1, 1)."""
    return Maps(channels_last(x).mean((1, 2), keepdims=True))


def global_max_pool(held: Held, x: Value) -> Value:
    """Returns the largest number of every channel, (n, c, 1, 1)."""
    return Maps(channels_last(x).max((1, 2), keepdims=True))


def gemm(held: Held, a: Value, b: Value, c: Value = None) -> Value:
    """Returns alpha A B + beta C."""
    A, B = (plain(value).T if held.get(name) else plain(value) for name, value in (("transA", a), ("transB", b)))
    Y = matmul(held, A, B) * np.float32(held.get("alpha", 1.0))
    return Y if c is None else Y + np.float32(held.get("beta", 1.0)) * plain(c)


def matmul(held: Held, a: Value, b: Value) -> Value:
    """Returns A B, matrix by matrix."""
    A, B = plain(a), plain(b)
    limited(jax.eval_shape(jnp.matmul, A, B).shape)
    return jnp.matmul(A, B)


def batch_norm(held: Held, x: Value, scale: Value, bias: Value, mean: Value, variance: Value) -> Value:
    """Returns normalised channels, with the means and variances of the training data in the file."""
    if held.get("training_mode", 0):
        raise Refused("Expected batch normalisation by the file's own means: export the network for inference.")
    named = (scale, bias, mean, variance)
    scale, bias, mean, variance = (constant(each, "batch normalisation").astype(np.float64) for each in named)
    factor = scale / np.sqrt(variance + held.get("epsilon", 1e-5))
    shape = (-1,) + (1,) * (len(x.shape) - 2)
    factor, offset = (each.astype(np.float32).reshape(shape) for each in (factor, bias - mean * factor))
    return elementwise(lambda _, x, factor, offset: x * factor + offset, x, factor, offset)


def instance_norm(held: Held, x: Value, scale: Value, bias: Value) -> Value:
    """Returns every channel of one image normalised to mean 0 and variance 1, then scaled."""
    X = channels_last(x)
    return Maps(_standardised(X, (1, 2), held) * scale + bias)


def group_norm(held: Held, x: Value, scale: Value, bias: Value) -> Value:
    """Returns every group of channels of one image normalised to mean 0 and variance 1, then scaled."""
    X, groups = channels_last(x), int(held["num_groups"])
    G = _standardised(X.reshape(*X.shape[:3], groups, -1), (1, 2, 4), held).reshape(X.shape)
    repeat = X.shape[3] // len(scale)  # before version 21 a scale belongs to a group
    return Maps(G * jnp.repeat(scale, repeat) + jnp.repeat(bias, repeat))


def layer_norm(held: Held, x: Value, scale: Value, bias: Value = None) -> Value:
    """Returns the last axes normalised to mean 0 and variance 1, then scaled."""
    X = plain(x)
    axis = int(held.get("axis", -1)) % X.ndim
    Y = _standardised(X, tuple(range(axis, X.ndim)), held) * scale
    return Y if bias is None else Y + bias


def _standardised(X: jax.Array, axes: tuple[int, ...], held: Held) -> jax.Array:
    centred = X - X.mean(axes, keepdims=True)
    return centred / jnp.sqrt(jnp.square(centred).mean(axes, keepdims=True) + held.get("epsilon", 1e-5))


def softmax(held: Held, x: Value) -> Value:
    """Returns exp(x) of sum 1 along an axis; before version 13 along all axes from one on."""
    X, opset = plain(x), held["opset"]
    if opset >= 13:
        return jax.nn.softmax(X, int(held.get("axis", -1)))
    first = int(held.get("axis", 1)) % X.ndim
    return jax.nn.softmax(X.reshape(*X.shape[:first], -1), -1).reshape(X.shape)


def clip(held: Held, x: Value, low: Value = None, high: Value = None) -> Value:
    """Returns numbers within bounds."""
    bounds = {"low": held.get("min") if low is None else low, "high": held.get("max") if high is None else high}
    low, high = (None if bound is None else _number(bound) for bound in bounds.values())

    def clipped(xp: Any, x: Any) -> Any:
        x = x if low is None else xp.maximum(x, low)
        return x if high is None else xp.minimum(x, high)

    return elementwise(clipped, x)


def _number(bound: Any) -> Any:
    return np.asarray(
        constant(np.asarray(bound) if isinstance(bound, float) else bound, "a bound"), np.float32
    ).reshape(())


def gelu(held: Held, x: Value) -> Value:
    """Returns x times the Gaussian distribution function of x, or its approximation by tanh."""
    return elementwise(lambda _, x: jax.nn.gelu(x, held.get("approximate", "none") == "tanh"), x)


def hard_sigmoid(held: Held, x: Value) -> Value:
    """Returns max(0, min(1, alpha x + beta))."""
    alpha, beta = np.float32(held.get("alpha", 0.2)), np.float32(held.get("beta", 0.5))
    return elementwise(lambda _, x: jnp.clip(alpha * x + beta, 0, 1), x)


def hard_swish(held: Held, x: Value) -> Value:
    """Returns x max(0, min(1, x / 6 + 1 / 2))."""
    return elementwise(lambda _, x: x * jnp.clip(x / 6 + 0.5, 0, 1), x)


def leaky_relu(held: Held, x: Value) -> Value:
    """Returns x, or alpha x below zero."""
    alpha = np.float32(held.get("alpha", 0.01))
    return elementwise(lambda _, x: jnp.where(x < 0, alpha * x, x), x)


def elu(held: Held, x: Value) -> Value:
    """Returns x, or alpha (exp(x) - 1) below zero."""
    alpha = np.float32(held.get("alpha", 1.0))
    return elementwise(lambda _, x: jnp.where(x < 0, alpha * jnp.expm1(jnp.minimum(x, 0)), x), x)


def dropout(held: Held, x: Value, ratio: Value = None, training: Value = None) -> Value:
    """Returns the value: a fixed function drops nothing."""
    if training is not None and bool(constant(training, "Dropout's mode").any()):
        raise Refused("Expected Dropout for inference; this file draws random numbers for each image.")
    return x


def reduction(name: str) -> Any:
    """Returns the operator that reduces axes by sum, mean, max, min or L2 norm."""

    def apply(held: Held, x: Value, axes: Value = None) -> Value:
        stated = held.get("axes") if axes is None else integers(axes, "axes")
        if not stated and held.get("noop_with_empty_axes", 0):
            return x
        rank = len(x.shape)
        over = tuple(int(axis) % rank for axis in (stated or range(rank)))
        keep = bool(held.get("keepdims", 1))
        if isinstance(x, Maps) and keep:
            return Maps(_reduced(name, x.array, tuple((0, 3, 1, 2)[axis] for axis in over), True))
        return _reduced(name, plain(x), over, keep)

    return apply


def _reduced(name: str, X: Any, axes: tuple[int, ...], keep: bool) -> Any:
    xp = np if isinstance(X, np.ndarray) else jnp
    if name == "l2":
        return xp.sqrt(xp.sum(X * X, axes, keepdims=keep))
    return getattr(xp, name)(X, axis=axes, keepdims=keep)


SELU = (1.67326319217681884765625, 1.05070102214813232421875)


def activation(function: Any) -> Any:
    """Returns the operator of a function of one number."""
    return lambda held, x: elementwise(lambda _, x: function(x), x)


LAYERS = {
    "Conv": conv,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalMaxPool": global_max_pool,
    "Gemm": gemm,
    "MatMul": matmul,
    "BatchNormalization": batch_norm,
    "InstanceNormalization": instance_norm,
    "GroupNormalization": group_norm,
    "LayerNormalization": layer_norm,
    "Softmax": softmax,
    "Clip": clip,
    "Gelu": gelu,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish,
    "LeakyRelu": leaky_relu,
    "Elu": elu,
    "Dropout": dropout,
    "Relu": activation(jax.nn.relu),
    "Sigmoid": activation(jax.nn.sigmoid),
    "Tanh": activation(jnp.tanh),
    "Erf": activation(jax.scipy.special.erf),
    "Softplus": activation(jax.nn.softplus),
    "Mish": activation(lambda x: x * jnp.tanh(jax.nn.softplus(x))),
    "ReduceMean": reduction("mean"),
    "ReduceSum": reduction("sum"),
    "ReduceMax": reduction("max"),
    "ReduceMin": reduction("min"),
    "ReduceProd": reduction("prod"),
    "ReduceL2": reduction("l2"),
}
"""Layers by the names of their operators; each takes the attributes, then the inputs."""
