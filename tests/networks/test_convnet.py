"""The ConvNet against an implementation in NumPy loops, and the sizes the field's papers state."""

import jax
import numpy as np
import pytest

from dpdistill.networks.convnet import (
    average_pool,
    depth_for,
    embed_convnet,
    embedding_dimension,
    init_convnet,
    instance_norm,
)

EMBED = jax.jit(embed_convnet)
INIT = jax.jit(init_convnet, static_argnums=(1, 2))


def embed_by_loops(blocks, X, paddings):
    """Conv 3 x 3 (cross-correlation), instance norm, ReLU, 2 x 2 average pool, in float64, tap by tap."""
    features = []
    for x in np.asarray(X, np.float64):
        for block, padding in zip(blocks, paddings, strict=True):
            kernel, bias, scale, offset = (
                np.asarray(block[k], np.float64) for k in ("kernel", "bias", "scale", "offset")
            )
            padded = np.pad(x, ((padding, padding), (padding, padding), (0, 0)))
            h, w = padded.shape[0] - 2, padded.shape[1] - 2
            y = np.zeros((h, w, kernel.shape[3])) + bias
            for i in range(3):
                for j in range(3):
                    for c in range(x.shape[2]):
                        y += padded[i : i + h, j : j + w, c, None] * kernel[i, j, c]
            for f in range(y.shape[2]):
                plane = y[:, :, f]
                y[:, :, f] = (plane - plane.mean()) / np.sqrt(plane.var() + 1e-5) * scale[f] + offset[f]
            y = np.maximum(y, 0.0)
            x = np.empty((h // 2, w // 2, y.shape[2]))
            for i in range(h // 2):
                for j in range(w // 2):
                    x[i, j] = y[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean((0, 1))
        features.append(x.ravel())
    return np.stack(features)


@pytest.mark.parametrize(
    ("shape", "width", "paddings"),
    [
        ((28, 28, 1), 3, [3, 1, 1]),
        ((32, 32, 3), 2, [1, 1, 1]),
        ((8, 8, 1), 5, [1]),
        ((9, 11, 2), 3, [1]),
        ((16, 16, 5), 4, [1, 1]),
    ],
)
def test_features_are_those_of_loops(shape, width, paddings):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2, *shape)).astype(np.float32)
    blocks = INIT(jax.random.key(1), shape, width)
    for block in blocks:
        block["scale"] = rng.normal(1.0, 0.3, width).astype(np.float32)
        block["offset"] = rng.normal(0.0, 0.3, width).astype(np.float32)
    expected = embed_by_loops(blocks, X, paddings)
    found = np.asarray(EMBED(blocks, X))
    assert found.shape == (2, embedding_dimension(shape, width))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert expected.std() > 0.1


@pytest.mark.parametrize(
    ("side", "depth"), [(1, 1), (4, 1), (7, 1), (8, 1), (15, 1), (16, 2), (28, 3), (31, 2), (32, 3), (64, 3), (256, 3)]
)
def test_depth(side, depth):
    assert depth_for((side, side, 1)) == depth
    assert len(jax.eval_shape(lambda: init_convnet(jax.random.key(0), (side, side, 1), 2))) == depth


def test_the_shorter_side_decides():
    assert depth_for((64, 9, 1)) == depth_for((9, 64, 1)) == 1


@pytest.mark.parametrize(
    ("shape", "d"),
    [((28, 28, 1), 2048), ((32, 32, 3), 2048), ((8, 8, 1), 2048), ((16, 16, 1), 2048), ((64, 64, 3), 8192)],
)
def test_dimension_of_the_papers_width(shape, d):
    assert embedding_dimension(shape, 128) == d


def test_init_is_uniform_in_the_bounds_of_fan_in():
    blocks = INIT(jax.random.key(3), (32, 32, 3), 64)
    for block, channels in zip(blocks, (3, 64, 64), strict=True):
        bound = 1 / np.sqrt(9 * channels)
        kernel = np.asarray(block["kernel"])
        assert kernel.shape == (3, 3, channels, 64)
        assert 0.98 * bound < np.abs(kernel).max() <= bound
        assert kernel.std() == pytest.approx(bound / np.sqrt(3), rel=0.05)
        assert abs(kernel.mean()) < 0.05 * bound
        assert 0.8 * bound < np.abs(block["bias"]).max() <= bound
        np.testing.assert_array_equal(block["scale"], 1.0)
        np.testing.assert_array_equal(block["offset"], 0.0)
    assert not np.array_equal(blocks[1]["kernel"], blocks[2]["kernel"])


def test_another_key_another_network():
    one, same, other = (INIT(jax.random.key(k), (8, 8, 1), 5)[0]["kernel"] for k in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_instance_norm_is_per_record_and_channel():
    X = np.random.default_rng(0).normal(3.0, 5.0, (3, 6, 6, 2)).astype(np.float32)
    Y = np.asarray(instance_norm(X, np.ones(2), np.zeros(2)))
    np.testing.assert_allclose(Y.mean((1, 2)), 0.0, atol=1e-5)
    np.testing.assert_allclose(Y.std((1, 2)), 1.0, atol=1e-4)
    np.testing.assert_array_equal(np.asarray(instance_norm(X[1:2], np.ones(2), np.zeros(2)))[0], Y[1])
    constant = np.asarray(instance_norm(np.full((1, 4, 4, 1), 7.0, np.float32), np.ones(1), np.full(1, 0.5)))
    np.testing.assert_array_equal(constant, 0.5)  # sums of sevens are exact in any order


def test_average_pool_drops_odd_edges():
    X = np.arange(15, dtype=np.float32).reshape(1, 3, 5, 1)
    np.testing.assert_array_equal(np.asarray(average_pool(X)).ravel(), [3.0, 5.0])
