"""The convolutional tangent kernel: another program's values, all pairs of positions in NumPy, values by hand.

reference_ntk.npz was made with neural-tangents 0.6.5 in float64: W_std sqrt(2), b_std 0.1, blocks of conv 3 x 3 SAME,
ReLU and 2 x 2 average pool, flatten, dense with W_std 1.
"""

import math
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chosen_tests import few
from contract.float32 import assert_close_float32

from dpdistill.kernels.conv_ntk import ConvNTK

with np.load(Path(__file__).with_name("reference_ntk.npz")) as file:
    REFERENCE = dict(file)
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
PRECISIONS = {np.float64: 1e-12, np.float32: 2e-6}


def computed(function, *arrays, dtype: type = np.float64):
    with jax.enable_x64(dtype == np.float64):
        found = jax.jit(function, compiler_options=QUICK)(*(jnp.asarray(array, dtype) for array in arrays))
        assert all(leaf.dtype == dtype for leaf in jax.tree.leaves(found))
        return jax.tree.map(np.asarray, found)


@cache
def reference_gram(depth, channels, dtype):
    """Of the 3 and the 4 reference images together."""
    X = np.concatenate([REFERENCE[f"conv_x1_c{channels}"], REFERENCE[f"conv_x2_c{channels}"]])
    return computed(lambda X: ConvNTK(depth)(X, X), X, dtype=dtype)


@pytest.mark.parametrize(
    ("depth", "channels", "dtype"),
    few(
        [(depth, c, np.float64) for depth in (1, 2, 3) for c in (1, 3)] + [(3, 3, np.float32)],
        *((1, 1, np.float64), (2, 3, np.float64), (3, 3, np.float32)),
        of_several=True,
    ),
)
class TestReference:
    def test_of_two_batches(self, depth, channels, dtype):
        found, expected = (
            reference_gram(depth, channels, dtype)[:3, 3:],
            REFERENCE[f"conv_ntk_c{channels}_depth{depth}"],
        )
        np.testing.assert_allclose(found, expected, rtol=PRECISIONS[dtype])

    def test_of_a_batch_and_itself(self, depth, channels, dtype):
        found = reference_gram(depth, channels, dtype)[:3, :3]
        np.testing.assert_allclose(found, REFERENCE[f"conv_ntk_self_c{channels}_depth{depth}"], rtol=PRECISIONS[dtype])

    def test_positive_definite(self, depth, channels, dtype):
        K = reference_gram(depth, channels, dtype)
        np.testing.assert_allclose(K, K.T, rtol=PRECISIONS[dtype])
        assert np.linalg.eigvalsh(K).min() > 1e-3 * np.diag(K).mean()


def by_all_pairs(x, z, depth, w_std, b_std):
    """The same kernel from the covariances of all pairs of positions, (h, w, h, w), in NumPy."""

    def convolved(A):
        h, w = A.shape[:2]
        A = np.pad(A, ((1, 1),) * 4)
        return w_std**2 / 9 * sum(A[i : i + h, j : j + w, i : i + h, j : j + w] for i in range(3) for j in range(3))

    def pooled(A):
        h, w = A.shape[0] // 2, A.shape[1] // 2
        return A[: 2 * h, : 2 * w, : 2 * h, : 2 * w].reshape(h, 2, w, 2, h, 2, w, 2).mean((1, 3, 5, 7))

    pairs = {"xx": (x, x), "zz": (z, z), "xz": (x, z)}
    C = {name: np.einsum("abc,dec->abde", u, v) / x.shape[2] for name, (u, v) in pairs.items()}
    T = np.zeros_like(C["xz"])
    for _ in range(depth):
        S = {name: convolved(A) + b_std**2 for name, A in C.items()}
        root = {name: np.sqrt(np.einsum("abab->ab", S[name * 2])) for name in "xz"}
        for name in pairs:
            N = np.multiply.outer(root[name[0]], root[name[1]])
            cosine = np.clip(np.divide(S[name], N, out=np.zeros_like(N), where=N > 0), -1, 1)
            angle = np.where(cosine < 1 - 1e-14, np.arccos(cosine), 0)
            C[name] = pooled(N / (2 * np.pi) * (np.sin(angle) + (np.pi - angle) * cosine))
            if name == "xz":
                T = pooled(np.where(N > 0, (convolved(T) + S[name]) * (np.pi - angle) / (2 * np.pi), 0))
    return sum(np.einsum("abab->ab", A).mean() for A in (C["xz"], T)) + b_std**2


@pytest.mark.parametrize(
    ("shape", "depth", "w_std", "b_std"),
    few([(odd := ((5, 7, 1), 2, 1.3, 0.0)), ((14, 9, 2), 3, math.sqrt(2), 0.1)], odd, of_several=True),
)
def test_odd_sizes_against_all_pairs_of_positions(shape, depth, w_std, b_std):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3, *shape))
    X[1] = 0.0
    found = computed(lambda X: ConvNTK(depth, w_std, b_std)(X, X), X)
    expected = np.array([[by_all_pairs(x, z, depth, w_std, b_std) for z in X] for x in X])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert np.ptp(expected) > 0.02


def test_a_constant_image_by_hand():
    # Images a and b everywhere, 2 x 2, no bias: S = 8/9 ab, 4/9 ab, 2/9 ab for 4, 8 and 4 of the 16 pairs of places.
    a, b = 0.8, 1.5
    angles = [0.0, math.pi / 3, math.acos(1 / 4)]
    kappa_0 = [1 - t / math.pi for t in angles]
    kappa_1 = [1.0, math.sqrt(3) / (2 * math.pi) + 1 / 3, math.sqrt(15) / (4 * math.pi) + kappa_0[2] / 4]
    C = 8 / 9 * a * b / 2 * sum(n * k for n, k in zip((4, 8, 4), kappa_1, strict=True)) / 16
    T = a * b / 2 * sum(n * S * k for n, S, k in zip((4, 8, 4), (8 / 9, 4 / 9, 2 / 9), kappa_0, strict=True)) / 16
    found = computed(ConvNTK(1, b_std=0.0), np.full((1, 2, 2, 1), a), np.full((1, 2, 2, 1), b))
    assert found[0, 0] == pytest.approx(C + T, rel=1e-13)


def test_chunks_change_nothing():
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(3, 4, 4, 1)), rng.normal(size=(5, 4, 4, 1))
    whole = computed(ConvNTK(1), X, Z)
    assert whole.shape == (3, 5)
    np.testing.assert_allclose(computed(ConvNTK(1, chunk=4), X, Z), whole, rtol=1e-13)
    np.testing.assert_allclose(computed(ConvNTK(1, chunk=1), X[1:], Z[:2]), whole[1:, :2], rtol=1e-13)


def test_a_blank_image():
    X = np.concatenate([REFERENCE["conv_x1_c3"], np.zeros((1, 8, 8, 3))])
    found = np.diag(computed(ConvNTK(3, chunk=3), X, X))
    np.testing.assert_allclose(found[:3], np.diag(REFERENCE["conv_ntk_self_c3_depth3"]), rtol=1e-12)
    assert found[3] == pytest.approx(by_all_pairs(X[3], X[3], 3, math.sqrt(2), 0.1), rel=1e-12)


@pytest.mark.slow
def test_gradient_against_finite_differences():
    # The kernel of a set and itself, with two images that coincide: there the derivatives of the square root and of
    # arccos are infinite. A step changes both images, differently, and the cusp is even in it.
    rng = np.random.default_rng(2)
    X, V, W = rng.normal(size=(3, 4, 5, 2)), rng.normal(size=(3, 4, 5, 2)), rng.normal(size=(3, 3))
    X[1] = X[0]
    kernel = ConvNTK(2)
    with jax.enable_x64(True):
        total = jax.jit(jax.value_and_grad(lambda X: jnp.sum(W * kernel(X, X))), compiler_options=QUICK)
        gradient = np.asarray(total(X)[1])
        for rows in ([0, 1, 2], [2], [1]):
            step = np.zeros_like(X)
            step[rows] = 1e-5 * V[rows]
            slope = (total(X + step)[0] - total(X - step)[0]) / 2
            assert float(slope) == pytest.approx(np.vdot(gradient, step), rel=1e-6)
            assert abs(slope) > 1e-9


def test_gradients_of_records_are_those_of_the_batch():
    rng = np.random.default_rng(3)
    X, Z, W = (jnp.asarray(rng.normal(size=s), jnp.float32) for s in ((2, 4, 4, 1), (3, 4, 4, 1), (2, 3)))
    kernel = ConvNTK(1)
    each = jax.vmap(jax.grad(lambda Z, x, w: w @ kernel(x[None], Z)[0]), (None, 0, 0))
    of_sum = jax.grad(lambda Z: jnp.sum(W * kernel(X, Z)))
    single, total = computed(lambda Z, X, W: (each(Z, X, W), of_sum(Z)), Z, X, W, dtype=np.float32)
    # Each is a sum over 16 positions of both images, and their 9 neighbours.
    assert_close_float32(single.sum(0), total, terms=16 * 9 + 2, scale=np.abs(single).sum(0).max())
    assert np.abs(total).max() > 0.01


def test_blank_images_without_bias():
    kernel = ConvNTK(1, b_std=0.0)
    Z = np.random.default_rng(4).normal(size=(2, 4, 4, 1))
    X = np.concatenate([np.zeros((1, 4, 4, 1)), Z[:1]])
    values, gradient = computed(lambda X, Z: (kernel(X, Z), jax.grad(lambda X: kernel(X, Z).sum())(X)), X, Z)
    np.testing.assert_array_equal(values[0], 0.0)
    np.testing.assert_array_equal(gradient[0], 0.0)
    assert np.isfinite(gradient).all()
    assert np.abs(gradient[1]).max() > 0.01


def test_memory_of_a_large_block():
    kernel, X = ConvNTK(), jax.ShapeDtypeStruct((500, 32, 32, 3), np.float32)
    sizes = jax.jit(lambda X, Z: kernel(X, Z), compiler_options=QUICK).lower(X, X).compile().memory_analysis()
    assert sizes is not None
    assert 0.01e9 < sizes.temp_size_in_bytes < 0.5e9


def test_equal_kernels_are_one():
    assert hash(ConvNTK(2)) == hash(ConvNTK(2))
    assert ConvNTK(2) == ConvNTK(2)
    assert ConvNTK(2) != ConvNTK(2, chunk=7)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"depth": 0}, r"Expected depth=0 >= 1\."),
        ({"w_std": 0.0}, r"Expected w_std=0\.0 > 0\."),
        ({"b_std": -0.1}, r"Expected b_std=-0\.1 >= 0\."),
        ({"b_std": math.nan}, r"Expected b_std=nan >= 0 and finite\."),
        ({"chunk": 0}, r"Expected chunk=0 >= 1\."),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ValueError, match=message):
        ConvNTK(**fields)


@pytest.mark.parametrize(
    ("X", "Z", "message"),
    [
        ((2, 784), (2, 784), r"Expected X of shape \(n, h, w, c\); got \(2, 784\)\."),
        ((2, 8, 8, 1), (8, 8, 1), r"Expected Z of shape \(n, h, w, c\); got \(8, 8, 1\)\."),
        ((2, 8, 7, 1), (2, 8, 7, 1), r"Expected X of shape \(n, >=8, >=8, c\); got \(2, 8, 7, 1\)\."),
        ((2, 8, 8, 1), (3, 8, 8, 3), r"Expected Z of shape \(m, 8, 8, 1\); got \(3, 8, 8, 3\)\."),
    ],
)
def test_bad_images(X, Z, message):
    with pytest.raises(ValueError, match=message):
        ConvNTK()(jnp.zeros(X), jnp.zeros(Z))
