"""The empirical tangent kernel: Jacobians, a formula for one hidden layer, and the limit of infinite width.

reference_ntk.npz was made with neural-tangents 0.6.5 in float64: W_std sqrt(2), b_std 0.1, dense with W_std 1.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dense_network import DenseNetwork

from dpdistill.kernels.empirical_ntk import EmpiricalNTK
from dpdistill.networks.network import LeNet
from dpdistill.networks.resnet import ResNet18

with np.load(Path(__file__).with_name("reference_ntk.npz")) as file:
    REFERENCE = dict(file)
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
SMALL_LENET = LeNet(seed=5, widths=(3, 4, 6, 5))


def computed(function, *arrays, dtype: type = np.float64):
    with jax.enable_x64(dtype == np.float64):
        found = jax.jit(function, compiler_options=QUICK)(*(jnp.asarray(array, dtype) for array in arrays))
        assert all(leaf.dtype == dtype for leaf in jax.tree.leaves(found))
        return jax.tree.map(np.asarray, found)


def parameters(network, shape, classes, dtype=np.float64):
    return jax.tree.map(lambda p: jnp.asarray(p, dtype), network.init(shape, classes))


@pytest.mark.parametrize(("dtype", "precision"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_one_hidden_layer_by_formula(dtype, precision):
    # s = sum_c (W^T h + b)_c, h = relu(a): k = classes (<h, h'> + 1) + (<x, x'> + 1) sum_j v_j^2 1[a_j > 0] 1[a'_j > 0]
    network, classes = DenseNetwork(seed=2, width=30), 4
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(3, 2, 4, 1)), rng.normal(size=(5, 2, 4, 1))
    with jax.enable_x64(True):
        hidden, last = jax.tree.map(np.asarray, parameters(network, (2, 4, 1), classes))
    a, b = (A.reshape(len(A), -1) @ hidden["kernel"] + hidden["bias"] for A in (X, Z))
    v = last["kernel"].sum(1)
    through = ((a > 0) * v) @ ((b > 0) * v).T
    expected = classes * (np.maximum(a, 0) @ np.maximum(b, 0).T + 1)
    expected += (X.reshape(3, -1) @ Z.reshape(5, -1).T + 1) * through
    np.testing.assert_allclose(computed(EmpiricalNTK(network, classes), X, Z, dtype=dtype), expected, rtol=precision)


def test_layers_jacobian_and_products_agree():
    network, kernel, shape = SMALL_LENET, EmpiricalNTK(SMALL_LENET, classes=3), (16, 16, 1)
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(3, *shape)), rng.normal(size=(2, *shape))

    def by_jacobian(params, X, Z):
        J_x, J_z = (jax.jacrev(lambda p: network.apply(p, A).sum(1))(params) for A in (X, Z))  # noqa: B023
        leaves = zip(jax.tree.leaves(J_x), jax.tree.leaves(J_z), strict=True)
        return sum(g.reshape(len(X), -1) @ h.reshape(len(Z), -1).T for g, h in leaves)

    def by_products(params, X, Z):
        def column(z):
            v = jax.grad(lambda p: network.apply(p, z[None]).sum())(params)
            return jax.jvp(lambda p: network.apply(p, X).sum(1), (params,), (v,))[1]

        return jax.lax.map(column, Z).T

    def every(X, Z):
        params = parameters(network, shape, 3)
        return kernel(X, Z), by_jacobian(params, X, Z), by_products(params, X, Z), kernel(X, X)

    K, jacobian, products, gram = computed(every, X, Z)
    np.testing.assert_allclose(K, jacobian, rtol=1e-12)
    np.testing.assert_allclose(K, products, rtol=1e-12)
    np.testing.assert_allclose(gram, gram.T, rtol=1e-12)
    assert np.linalg.eigvalsh(gram).min() > 1e-6 * np.diag(gram).mean()
    assert np.ptp(K) > 1e-3 * K.mean()


def test_chunks_change_nothing():
    network = DenseNetwork(width=9, depth=2)
    rng = np.random.default_rng(2)
    X, Z, W = rng.normal(size=(5, 3, 3, 1)), rng.normal(size=(4, 3, 3, 1)), rng.normal(size=(5, 4))

    def every(kernel):
        return lambda X, Z: (
            kernel(X, Z),
            jax.grad(lambda X, Z: jnp.sum(W * kernel(X, Z)), (0, 1))(X, Z),
        )

    whole = jax.tree.leaves(computed(every(EmpiricalNTK(network, 3)), X, Z))
    assert [a.shape for a in whole] == [(5, 4), X.shape, Z.shape]
    parts = jax.tree.leaves(computed(every(EmpiricalNTK(network, 3, chunk=3)), X, Z))
    for part, expected in zip(parts, whole, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(computed(EmpiricalNTK(network, 3, chunk=1), X, Z), whole[0], rtol=1e-12)


def test_wide_networks_approach_the_infinite_one():
    X, Z = REFERENCE["fc_x1"], REFERENCE["fc_x2"]
    expected = REFERENCE["fc_ntk_depth1_b0.1"]
    errors = []
    for width in (64, 512, 4096):
        networks = [DenseNetwork(seed, width, ntk=True) for seed in range(2)]
        found = [computed(EmpiricalNTK(network, classes=1), X, Z, dtype=np.float32) for network in networks]
        errors.append(np.sqrt(np.mean((np.stack(found) - expected) ** 2) / np.mean(expected**2)))
    # The error falls with the square root of the width: a factor of 2.8 from one to the next.
    assert errors[1] < 0.6 * errors[0]
    assert errors[2] < 0.6 * errors[1]
    assert 0.0 < errors[2] < 0.06


def test_logits_add_up_without_cross_terms():
    # Logits of a wide network are independent: the kernel of the sum is that of one, times their number.
    X, expected = REFERENCE["fc_x1"], REFERENCE["fc_ntk_self_depth1_b0.1"]
    found = computed(EmpiricalNTK(DenseNetwork(width=4096, ntk=True), classes=10), X, X, dtype=np.float32)
    np.testing.assert_allclose(found / 10, expected, atol=0.1 * expected.max())
    np.testing.assert_allclose(np.linalg.norm(found / 10 - expected) / np.linalg.norm(expected), 0.0, atol=0.06)


def slopes(kernel, X, W, V, size):
    """Derivative of sum W k(X, X) in direction V: by its gradient, and by differences; and the kernel matrix."""
    with jax.enable_x64(True):
        total = jax.jit(
            jax.value_and_grad(lambda X: (lambda K: (jnp.sum(W * K), K))(kernel(X, X)), has_aux=True),
            compiler_options=QUICK,
        )
        (_, K), gradient = total(X)
        upper, lower = total(X + size * V)[0][0], total(X - size * V)[0][0]
    return np.vdot(gradient, V), float(upper - lower) / (2 * size), np.asarray(K)


@pytest.mark.parametrize(
    "network",
    [SMALL_LENET, pytest.param(ResNet18(width=4, groups=2), marks=pytest.mark.variants)],
    ids=["lenet", "resnet"],
)
def test_gradient_against_finite_differences(network):
    rng = np.random.default_rng(4)
    shape = (16, 16, 1) if isinstance(network, LeNet) else (8, 8, 1)
    X, V, W = rng.normal(size=(2, *shape)), rng.normal(size=(2, *shape)), rng.normal(size=(2, 2))
    found, expected, K = slopes(EmpiricalNTK(network, classes=2), X, W, V, 1e-7)
    assert found == pytest.approx(expected, rel=1e-5)
    assert abs(found) > 1e-3
    assert np.linalg.eigvalsh(K).min() > 1e-6 * np.diag(K).mean()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: EmpiricalNTK(LeNet(), classes=0), r"Expected classes=0 >= 1\."),
        (lambda: EmpiricalNTK(LeNet(), chunk=0), r"Expected chunk=0 >= 1\."),
        (
            lambda: EmpiricalNTK(DenseNetwork())(jnp.zeros((2, 4, 4, 1)), jnp.zeros((2, 4, 4, 3))),
            r"Expected Z of shape \(m, 4, 4, 1\); got \(2, 4, 4, 3\)\.",
        ),
        (
            lambda: EmpiricalNTK(LeNet())(jnp.zeros((2, 8, 8, 1)), jnp.zeros((2, 8, 8, 1))),
            r"sides >= 16; got \(8, 8, 1\)",
        ),
    ],
)
def test_bad_input(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_equal_kernels_are_one():
    assert hash(EmpiricalNTK(ResNet18(3))) == hash(EmpiricalNTK(ResNet18(3)))
    assert EmpiricalNTK(ResNet18(3)) != EmpiricalNTK(ResNet18(4))
