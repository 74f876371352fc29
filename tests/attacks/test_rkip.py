"""KIP and RKIP: their losses are the formulas, they go down, and a set from a network alone teaches another one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chosen_tests import few

from dpdistill.attacks.attacked_networks import Descent, Smooth, start
from dpdistill.attacks.reconstruction import Reconstruction
from dpdistill.attacks.rkip import Inducing, NotPrivate, duals, missed, rkip_finite
from dpdistill.kernels.fc_ntk import FCNTK


def task(n=30, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    T = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)[:, None].astype(np.float32)
    centre = np.random.default_rng(7).normal(size=(6, 6, 1))
    return (T[:, :, None, None] * centre + noise * rng.normal(size=(n, 6, 6, 1))).astype(np.float32), T


TO = np.array([[1.0], [1.0], [-1.0], [-1.0]], np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("loss", few(["kip", "rkip"], "rkip"))
def test_losses_are_those_of_the_formulas(loss):
    X, T = task()
    S = np.random.default_rng(1).normal(size=(4, 6, 6, 1)).astype(np.float32)
    how, kernel = Inducing(loss), FCNTK(depth=2)
    K_ss, K_ts, K_tt = (np.asarray(kernel(A, B), np.float64) for A, B in ((S, S), (X, S), (X, X)))
    alpha, alpha_t = (
        np.linalg.solve(K + 1e-5 * np.trace(K) / len(K) * np.eye(len(K)), y) for K, y in ((K_ss, TO), (K_tt, T))
    )
    expected = np.square(T - K_ts @ alpha).sum()
    known = jnp.asarray(T)
    if loss == "rkip":
        expected = (alpha.T @ K_ss @ alpha - 2 * alpha_t.T @ K_ts @ alpha).item()
        known = duals(kernel(X, X), jnp.asarray(T), 1e-5)
    np.testing.assert_allclose(missed(how, jnp.asarray(S), X, known, jnp.asarray(TO)), expected, rtol=2e-3)
    scores = how.scores(NotPrivate(S, TO), X)
    np.testing.assert_allclose(scores, K_ts @ alpha, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("loss", ["kip", "rkip"])
def test_sets_teach_the_kernel(loss):
    (X, T), (X_test, T_test) = task(), task(200, 5)
    how = Inducing(loss, steps=300, learning_rate=2e-2)
    made = how.distill(X, T, TO)
    before = NotPrivate(0.2 * np.asarray(jax.random.normal(jax.random.key(0), made.X.shape)), TO)
    right = [np.mean((how.scores(each, X_test) > 0) == (T_test > 0)) for each in (before, made)]
    assert right[1] > 0.92 > right[0]


@pytest.mark.slow
def test_a_set_from_a_network_alone_teaches_another():
    (X, T), (X_test, T_test) = task(noise=0.3), task(200, 5, noise=0.3)
    net, how = Smooth(), Descent(steps=2000, learning_rate=1e-4)
    params, other = start(0, (36, 128, 128, 1)), start(1, (36, 128, 128, 1))
    after = how.train(net, params, X, T)
    made = rkip_finite(net, params, after, (6, 6, 1), Reconstruction(images=8, steps=700, at="final", bounds=None))
    taught = how.train(net, other, made.X, made.targets)
    assert np.mean((np.asarray(net(taught, jnp.asarray(X_test))) > 0) == (T_test > 0)) > 0.7


def test_an_unknown_loss_is_refused():
    with pytest.raises(ValueError, match="Expected an attack at final or initial; got both"):
        rkip_finite(Smooth(), [], [], (6, 6, 1), Reconstruction(images=8))
    with pytest.raises(ValueError, match="Expected loss as kip or rkip; got 'x'"):
        Inducing("x")
