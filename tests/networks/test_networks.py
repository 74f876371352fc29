"""The standard networks: their sizes as published, their values against NumPy, their parameters from the seed."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpdistill.evaluation import ARCHITECTURES
from dpdistill.networks.network import MLP, ConvNet, LeNet, convolve
from dpdistill.networks.resnet import ResNet18
from dpdistill.networks.vgg import VGG11
from dpdistill.networks.vit import ViT

QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
SMALL = {
    "lenet": (LeNet(widths=(2, 3, 5, 4)), (16, 18, 2)),
    "resnet": (ResNet18(width=4, groups=2), (9, 8, 1)),
    "convnet": (ConvNet(width=4), (8, 9, 2)),
    "mlp": (MLP(widths=(5, 4)), (3, 4, 2)),
    "vgg": (VGG11(width=2, groups=2), (9, 8, 1)),
    "vit": (ViT(patch=3, width=4, depth=2, heads=2), (7, 6, 2)),
}


def initialised(network, shape, classes=3):
    return jax.tree.map(np.asarray, jax.jit(lambda: network.init(shape, classes), compiler_options=QUICK)())


def images(shape, n=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, *shape)).astype(np.float32)


@pytest.mark.parametrize(
    ("network", "shape", "parameters"),
    [
        (LeNet(), (28, 28, 1), 61_706),
        (LeNet(), (32, 32, 3), 62_006),
        (ResNet18(), (32, 32, 3), 11_173_962),
        (ConvNet(), (32, 32, 3), 320_010),
        (MLP(), (28, 28, 1), 118_282),
        (VGG11(), (32, 32, 3), 9_228_362),
        (ViT(), (32, 32, 3), 810_890),
    ],
)
def test_numbers_of_parameters_are_the_published_ones(network, shape, parameters):
    params = jax.eval_shape(lambda: network.init(shape, 10))
    assert sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params)) == parameters
    logits = jax.eval_shape(network.apply, params, jax.ShapeDtypeStruct((2, *shape), np.float32))
    assert logits.shape == (2, 10)


@pytest.mark.parametrize("side", [16, 17, 28, 31, 32, 33, 64])
def test_lenet_takes_any_side_from_16(side):
    network = LeNet()
    params = jax.eval_shape(lambda: network.init((side, side, 1), 4))
    assert jax.eval_shape(network.apply, params, jnp.zeros((1, side, side, 1))).shape == (1, 4)


def convolved(X, kernel, stride, padding):
    X = np.pad(X, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(X, kernel.shape[:2], (1, 2))[:, ::stride, ::stride]
    return np.einsum("nhwcij,ijco->nhwo", windows, kernel)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize(("k", "stride", "padding"), [(3, 1, 1), (3, 2, 1), (1, 2, 0), (5, 1, 0), (5, 1, 2)])
def test_both_ways_to_convolve(n, k, stride, padding):
    rng = np.random.default_rng(k)
    X, kernel = rng.normal(size=(n, 9, 8, 6)).astype(np.float32), rng.normal(size=(k, k, 6, 2)).astype(np.float32)
    expected = convolved(X.astype(np.float64), kernel, stride, padding)
    found = convolve(jnp.asarray(X), jnp.asarray(kernel), stride, padding)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert expected.std() > 1.0


def pooled(X):
    n, h, w, c = X.shape
    return X[:, : h // 2 * 2, : w // 2 * 2].reshape(n, h // 2, 2, w // 2, 2, c).mean((2, 4))


def lenet_in_numpy(params, X):
    for layer, padding in zip(params[:2], (2, 0), strict=True):
        X = pooled(np.maximum(convolved(X, layer["kernel"], 1, padding) + layer["bias"], 0))
    X = X.reshape(len(X), -1)
    for layer in params[2:4]:
        X = np.maximum(X @ layer["kernel"] + layer["bias"], 0)
    return X @ params[4]["kernel"] + params[4]["bias"]


def resnet_in_numpy(params, X):
    def unit(X, name, stride):
        kernel = params[name]["kernel"]
        X = convolved(X, kernel, stride, kernel.shape[0] // 2)
        n, h, w, c = X.shape
        groups = X.reshape(n, h, w, 2, c // 2)
        mean, variance = groups.mean((1, 2, 4), keepdims=True), groups.var((1, 2, 4), keepdims=True)
        X = ((groups - mean) / np.sqrt(variance + 1e-5)).reshape(X.shape)
        return X * params[name]["scale"] + params[name]["offset"]

    X = np.maximum(unit(X, "stem", 1), 0)
    for block, stride in enumerate((1, 1, 2, 1, 2, 1, 2, 1)):
        branch = unit(np.maximum(unit(X, f"first{block}", stride), 0), f"second{block}", 1)
        X = np.maximum(branch + (unit(X, f"shortcut{block}", stride) if block in (2, 4, 6) else X), 0)
    return X.mean((1, 2)) @ params["head"]["kernel"] + params["head"]["bias"]


def convnet_in_numpy(params, X):
    for block in params["blocks"]:
        X = convolved(X, block["kernel"], 1, 1) + block["bias"]
        mean, variance = X.mean((1, 2), keepdims=True), X.var((1, 2), keepdims=True)
        X = pooled(np.maximum((X - mean) / np.sqrt(variance + 1e-5) * block["scale"] + block["offset"], 0))
    return X.reshape(len(X), -1) @ params["head"]["kernel"] + params["head"]["bias"]


def mlp_in_numpy(params, X):
    X = X.reshape(len(X), -1)
    for layer in params[:2]:
        X = np.maximum(X @ layer["kernel"] + layer["bias"], 0)
    return X @ params[2]["kernel"] + params[2]["bias"]


def vgg_in_numpy(params, X):
    pools = (0, 1, 3, 5, 7)
    for i, unit in enumerate(params[:8]):
        X = convolved(X, unit["kernel"], 1, 1)
        n, h, w, c = X.shape
        groups = X.reshape(n, h, w, 2, c // 2)
        mean, variance = groups.mean((1, 2, 4), keepdims=True), groups.var((1, 2, 4), keepdims=True)
        X = ((groups - mean) / np.sqrt(variance + 1e-5)).reshape(X.shape) * unit["scale"] + unit["offset"]
        X = np.maximum(X, 0)
        if i in pools and min(h, w) > 1:
            X = X[:, : h // 2 * 2, : w // 2 * 2].reshape(n, h // 2, 2, w // 2, 2, c).max((2, 4))
    return X.mean((1, 2)) @ params[8]["kernel"] + params[8]["bias"]


def vit_in_numpy(params, X):
    def affine(x, layer):
        return x @ layer["kernel"] + layer["bias"]

    def norm(x, layer):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + 1e-5) * layer["scale"] + layer["offset"]

    X = np.pad(X, ((0, 0), (0, 2), (0, 0), (0, 0)), mode="edge")  # 7 rows in patches of 3
    tokens = [X[:, i : i + 3, j : j + 3].reshape(len(X), -1) for i in (0, 3, 6) for j in (0, 3)]
    x = affine(np.stack(tokens, 1), params["embed"]) + params["places"]
    for block in params["blocks"]:
        qkv, heads = affine(norm(x, block["before"]), block["qkv"]), []
        for head in range(2):
            q, k, v = (qkv[..., 4 * part + 2 * head : 4 * part + 2 * head + 2] for part in range(3))
            odds = np.exp(q @ k.transpose(0, 2, 1) / math.sqrt(2))
            heads.append(odds / odds.sum(-1, keepdims=True) @ v)
        x = x + affine(np.concatenate(heads, -1), block["out"])
        hidden = affine(norm(x, block["between"]), block["up"])
        gelu = hidden / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)))
        x = x + affine(gelu, block["down"])
    return affine(norm(x.mean(1), params["norm"]), params["head"])


IN_NUMPY = {
    "convnet": (convnet_in_numpy, 2),
    "lenet": (lenet_in_numpy, 5),
    "mlp": (mlp_in_numpy, 3),
    "resnet": (resnet_in_numpy, 18),
    "vgg": (vgg_in_numpy, 9),
    "vit": (vit_in_numpy, 3),
}


def test_every_architecture_has_values_to_compare_with():
    assert {type(network) for network, _ in SMALL.values()} == {type(network) for network in ARCHITECTURES.values()}
    assert SMALL.keys() == IN_NUMPY.keys()


@pytest.mark.parametrize("name", SMALL)
def test_values(name):
    network, shape = SMALL[name]
    X, params = images(shape), initialised(network, shape)
    expected, layers = IN_NUMPY[name]
    outputs = [np.asarray(a) for a in jax.jit(network.activations, compiler_options=QUICK)(params, X)]
    expected = expected(jax.tree.map(np.float64, params), X.astype(np.float64))
    np.testing.assert_allclose(outputs[-1], expected, atol=2e-5)
    assert expected.shape == (3, 3)
    assert np.ptp(expected, axis=0).min() > 1e-3
    assert len(outputs) == layers
    if name != "vit":
        assert all(a.min() >= 0 and a.max() > 0 for a in outputs[:-1])
    # One record at a time takes the other way to convolve, and no record sees another.
    np.testing.assert_allclose(
        jax.jit(network.apply, compiler_options=QUICK)(params, X[1:2]), outputs[-1][1:2], atol=2e-5
    )


@pytest.mark.parametrize("name", SMALL)
def test_init_is_uniform_in_the_bounds_of_fan_in(name):
    network, shape = SMALL[name]
    params = initialised(network, shape, classes=400)
    layers = [leaf for leaf in jax.tree.leaves(params, is_leaf=lambda p: isinstance(p, dict) and "kernel" in p)]
    layers = [layer for layer in layers if isinstance(layer, dict)]
    for layer in layers:
        kernel = layer["kernel"]
        bound = 1 / math.sqrt(math.prod(kernel.shape[:-1]))
        assert np.abs(kernel).max() <= bound
        assert np.abs(layer.get("bias", 0.0)).max() <= bound
        if kernel.size > 400:
            assert np.abs(kernel).max() > 0.98 * bound
            assert kernel.std() == pytest.approx(bound / math.sqrt(3), rel=0.1)
            assert abs(kernel.mean()) < 0.1 * bound
        np.testing.assert_array_equal(layer.get("scale", 1.0), 1.0)
        np.testing.assert_array_equal(layer.get("offset", 0.0), 0.0)
    assert len({float(layer["kernel"].ravel()[0] * math.sqrt(layer["kernel"].size)) for layer in layers}) == len(layers)


def test_the_seed_decides_in_any_precision():
    one, other = (initialised(LeNet(seed), (16, 16, 1)) for seed in (1, 2))
    with jax.enable_x64(True):
        same = initialised(LeNet(1), (16, 16, 1))
    for a, b, c in zip(*map(jax.tree.leaves, (one, same, other)), strict=True):
        assert a.dtype == b.dtype == np.float32
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, c)
    assert LeNet(1) == LeNet(1)
    assert hash(ResNet18(1)) == hash(ResNet18(1))


def made(kind: Any, **fields):
    return kind(**fields)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: made(LeNet, widths=(6, 16)), r"Expected widths as a tuple of 4 whole numbers; got widths=\(6, 16\)\."),
        (lambda: LeNet(widths=(6, 0, 1, 1)), r"Expected widths=\(6, 0, 1, 1\) > 0\."),
        (lambda: LeNet().init((28, 28, 1), 0), r"Expected classes=0 > 0\."),
        (lambda: LeNet().init((15, 28, 1), 10), r"Expected shape=\(h, w, c\) with sides >= 16; got \(15, 28, 1\)\."),
        (lambda: ResNet18(width=20), r"Expected width=20 to be a multiple of groups=8\."),
        (lambda: ResNet18(groups=0), r"Expected groups=0 > 0\."),
        (lambda: VGG11(width=12), r"Expected width=12 to be a multiple of groups=8\."),
        (lambda: ViT(width=130), r"Expected width=130 to be a multiple of heads=4\."),
        (lambda: ViT(patch=0), r"Expected patch=0 > 0\."),
        (lambda: ConvNet(width=0), r"Expected width=0 > 0\."),
        (lambda: MLP(widths=(0,)), r"Expected widths=\(0,\) > 0\."),
        (lambda: ResNet18().init((8, 8), 10), r"Expected shape=\(h, w, c\) with sides >= 1; got \(8, 8\)\."),
    ],
)
def test_bad_input(build, message):
    with pytest.raises(ValueError, match=message):
        build()
