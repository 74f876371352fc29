"""Reconstruction: gradients are those of the formula, batches change nothing, and images come back where they can."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chosen_tests import few
from contract.float32 import assert_close_float32

from dpdistill.attacks.attacked_networks import (
    LOSSES,
    Descent,
    Smooth,
    attacked,
    kernel_distance,
    stable_rate,
    start,
    tangent_kernel,
    targets_of,
)
from dpdistill.attacks.reconstruction import Reconstruction, _gradient, curve, outliers, span_of
from dpdistill.networks.network import MLP, LeNet

NET = Smooth()
SHAPE = (5, 4, 1)


def task(n=6, k=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, *SHAPE)).astype(np.float32)
    T = np.where(rng.random((n, k)) < 0.5, -1.0, 1.0).astype(np.float32)
    return X, T


def sizes(width=64, k=1):
    return (20, width, width, k)


class TestTraining:
    def test_the_tangent_kernel_is_the_product_of_jacobians(self):
        X, _ = task(k=2)
        params = start(0, sizes(16, 2))
        J = jax.jit(jax.jacrev(lambda p: NET(p, jnp.asarray(X)).ravel()))(params)
        J = np.concatenate([np.asarray(leaf).reshape(12, -1) for leaf in jax.tree.leaves(J)], 1)
        np.testing.assert_allclose(tangent_kernel(NET, params, jnp.asarray(X)), J @ J.T, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_the_dual_is_the_expansion_trained_as_it_is(self, loss):
        X, T = task(k=2)
        T = np.abs(T) / 2 if loss == "cross-entropy" else T
        params, how = start(0, sizes(8, 2)), Descent(steps=100, learning_rate=1e-3, loss=loss)
        found = how.train_linearised(NET, params, X, T)

        def outputs(moved):
            return NET(params, jnp.asarray(X)) + jax.jvp(lambda p: NET(p, jnp.asarray(X)), (params,), (moved,))[1]

        moved = velocity = jax.tree.map(np.zeros_like, params)
        gradient_at = jax.jit(jax.grad(lambda m: LOSSES[loss](outputs(m), jnp.asarray(T))))
        for _ in range(100):
            gradient = jax.tree.map(np.asarray, gradient_at(moved))
            velocity = jax.tree.map(lambda v, g: 0.9 * v - 1e-3 * g, velocity, gradient)
            moved = jax.tree.map(np.add, moved, velocity)
        for a, b, c in zip(*map(jax.tree.leaves, (found, params, moved)), strict=True):
            np.testing.assert_allclose(a - b, c, atol=2e-5)

    def test_training_ends_when_it_is_enough(self):
        X, T = task()
        params, told = start(0, sizes()), []
        late = Descent(steps=5000, learning_rate=3e-3, enough=1e-8).train(
            NET, params, X, T, lambda *said: told.append(said)
        )
        assert np.mean(np.square(NET(late, jnp.asarray(X)) - T)) < 1e-6
        assert len(told) < 50, "calls of 100 steps"
        assert told[-1] == ("training", 100, 100)
        early = Descent(steps=5000, learning_rate=3e-5, enough=0.3).train(NET, params, X, T)
        assert 1e-4 < np.mean(np.square(NET(early, jnp.asarray(X)) - T)) < 0.35

    def test_its_progress_is_that_of_the_error_where_it_ends_early(self):
        how, errors = Descent(steps=5000), np.geomspace(1.0, 1e-8, 41)
        shares = [how._share(100 * (k + 1), 1.0, error, 1e-8) for k, error in enumerate(errors)]
        np.testing.assert_allclose(shares[:-1], np.maximum(np.arange(40) / 40, 0.02), atol=0.02)
        assert how._share(100, 1.0, 9e-9, 1e-8) == how._share(5000, 1.0, 2.0, 1e-8) == 1.0
        assert how._share(2500, 1.0, 3.0, 1e-8) == how._share(2500, 1e-9, 2e-8, 1e-8) == 0.5

    def test_sharp_softplus_is_relu(self):
        X, _ = task()
        params = start(0, sizes())
        np.testing.assert_allclose(NET(params, X, 1e4), NET(params, X), atol=1e-4)
        found, expected = NET(params, X), MLP(widths=(64, 64)).apply(params, X)
        assert_close_float32(found, expected, terms=X[0].size + 64 + 64, scale=64**0.5 * np.abs(expected).max())
        assert np.abs(NET(params, X, 1.0) - NET(params, X)).max() > 0.05

    def test_kernel_distance_is_of_directions(self):
        K = np.array([[2.0, 1.0], [1.0, 3.0]])
        assert kernel_distance(K, 7 * K) == pytest.approx(0.0, abs=1e-12)
        assert kernel_distance([[1.0, 0.0]], [[0.0, 2.0]]) == pytest.approx(1.0)

    def test_targets_are_those_of_the_source(self):
        assert targets_of([0, 1, 1], 2, "squares").tolist() == [[-1.0], [1.0], [1.0]]
        assert_close_float32(targets_of([2, 0], 3, "squares"), [[-0.1, -0.1, 0.9], [0.9, -0.1, -0.1]], terms=2)
        assert targets_of([1, 0], 2, "cross-entropy").tolist() == [[0.0, 1.0], [1.0, 0.0]]

    def test_a_stable_rate_trains_where_thirteen_times_it_diverges(self):
        X, T = task()
        params = start(0, sizes())
        rate = stable_rate(NET, params, X)
        errors = []
        for times in (1.0, 13.0):
            after = Descent(steps=300, learning_rate=times * rate).train_linearised(NET, params, X, T)
            moved = jax.tree.map(lambda a, p: np.asarray(a) - np.asarray(p), after, params)
            said = jax.jit(lambda p, m: sum(jax.jvp(lambda p: NET(p, jnp.asarray(X)), (p,), (m,))))(params, moved)
            errors.append(float(np.abs(said - T).max()))
        assert errors[0] < 0.3
        assert not errors[1] < 10.0


class TestSpan:
    @pytest.mark.parametrize("train", [Descent.train, Descent.train_linearised])
    @pytest.mark.parametrize("loss", LOSSES)
    def test_training_images_are_in_it_whatever_the_training(self, train, loss):
        X, T = task(k=2)
        T = np.abs(T) / 2 if loss == "cross-entropy" else T
        params = start(0, sizes(32, 2))
        span = span_of(params, train(Descent(steps=300, learning_rate=1e-3, loss=loss), NET, params, X, T))
        assert span.basis.shape == (20, 6)
        np.testing.assert_allclose(span.basis.T @ span.basis, np.eye(6), atol=1e-5)
        inside, strange = X.reshape(6, -1), np.random.default_rng(3).uniform(0, 1, (6, 20))
        np.testing.assert_allclose(inside @ span.basis @ span.basis.T, inside, atol=1e-3)
        assert np.abs(strange @ span.basis @ span.basis.T - strange).max() > 0.2

    def test_coordinates_are_seen_as_their_images_are(self):
        X, T = task()
        params = start(0, sizes(32))
        after = Descent(steps=300, learning_rate=1e-3).train(NET, params, X, T)
        span = span_of(params, after)
        for turned, given in ((span.before, params), (span.after, after)):
            np.testing.assert_allclose(NET(turned, X.reshape(6, -1) @ span.basis), NET(given, X), atol=1e-4)

    def test_a_first_layer_that_did_not_change_has_none(self):
        params = start(0, sizes(8))
        after = [*params[:-1], jax.tree.map(lambda a: a + 0.1, params[-1])]
        assert span_of(params, after) is None
        assert np.isfinite(Reconstruction(images=2, steps=3).run(NET, params, after, SHAPE).X).all()

    def test_with_more_records_than_units_there_is_none(self):
        X, T = task(9)
        params = start(0, (20, 8, 1))
        assert span_of(params, Descent(steps=300, learning_rate=1e-3).train(NET, params, X, T)) is None
        after = Descent(steps=300, learning_rate=1e-3).train(NET, params, X, T)
        found = Reconstruction(images=9, steps=20).run(NET, params, after, SHAPE)
        assert found.X.shape == (9, *SHAPE)


class TestAttack:
    @pytest.mark.parametrize("at", ["final", "initial", "both"])
    @pytest.mark.parametrize("k", [1, 3])
    def test_the_truth_has_no_loss(self, at, k):
        """Of first-order training the change is J^T alpha: with the true images and duals nothing is missing."""
        X, T = task(k=k)
        params = start(0, sizes(32, k))
        after = Descent(steps=400, learning_rate=2e-3).train_linearised(NET, params, X, T)
        J_T = jax.jit(lambda alpha: jax.vjp(lambda p: NET(p, jnp.asarray(X)), params)[1](alpha))
        change = jax.tree.map(lambda a, p: np.asarray(a) - np.asarray(p), after, params)
        K = np.asarray(tangent_kernel(NET, params, jnp.asarray(X)), np.float64)
        by_outputs = np.asarray(
            jax.jit(lambda c: jax.jvp(lambda p: NET(p, jnp.asarray(X)), (params,), (c,))[1])(change), np.float64
        )
        alpha = jnp.asarray(np.linalg.solve(K, by_outputs.ravel()).reshape(T.shape), jnp.float32)
        (expected,) = J_T(alpha)
        duals = {"initial": alpha[None], "final": alpha[None], "both": jnp.stack([0.5 * alpha, 0.5 * alpha])}[at]
        points = {"initial": [params], "final": [params], "both": [params, params]}[at]
        found = jax.jit(lambda duals: _gradient(NET, points, jnp.asarray(X), duals, jnp.inf))(duals)
        for a, b, c in zip(*map(jax.tree.leaves, (found, expected, change)), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)
            np.testing.assert_allclose(a, c, atol=2e-3)

    def test_a_batch_of_all_is_the_plain_attack(self):
        X, T = task(4)
        params = start(0, sizes(16))
        after = Descent(steps=300, learning_rate=2e-3).train(NET, params, X, T)
        plain = Reconstruction(images=8, steps=30).run(NET, params, after, SHAPE)
        whole = Reconstruction(images=8, steps=30, batch=8).run(NET, params, after, SHAPE)
        np.testing.assert_array_equal(plain.X, whole.X)

    def test_a_batch_moves_as_it_would_among_all_and_the_rest_stays(self):
        """One step: the images of the batch go where the plain attack takes them, since the rest of the sum is kept."""
        X, T = task(4)
        params = start(0, sizes(16))
        after = Descent(steps=300, learning_rate=2e-3).train(NET, params, X, T)
        plain = Reconstruction(images=8, steps=1).run(NET, params, after, SHAPE)
        part = Reconstruction(images=8, steps=1, batch=3).run(NET, params, after, SHAPE)
        start_of = Reconstruction(images=8, steps=1, learning_rate=0.0).run(NET, params, after, SHAPE)
        moved = np.abs(part.X - start_of.X).reshape(8, -1).max(1) > 0
        assert moved.sum() == 3
        np.testing.assert_allclose(part.X[moved], plain.X[moved], atol=1e-6)
        np.testing.assert_allclose(part.duals[:, moved], plain.duals[:, moved], atol=1e-6)
        np.testing.assert_array_equal(part.duals[:, ~moved], start_of.duals[:, ~moved])

    @pytest.mark.slow
    def test_batches_reach_what_the_plain_attack_reaches(self):
        X, T = task(4)
        params = start(0, sizes(64))
        after = Descent(steps=2000, learning_rate=1e-3).train_linearised(NET, params, X, T)
        plain = Reconstruction(images=8, steps=800, at="initial").run(NET, params, after, SHAPE)
        parts = Reconstruction(images=8, steps=1600, batch=4, at="initial").run(NET, params, after, SHAPE)
        assert plain.loss < 0.02
        assert parts.loss < 0.02

    @pytest.mark.parametrize("bounds", few([(0.0, 1.0), (-3.0, 5.0), (0.0, 255.0)], (-3.0, 5.0)))
    def test_pixels_keep_to_the_bounds_whatever_they_are(self, bounds):
        low, high = bounds
        X, T = task(4)
        X = low + (high - low) * X
        params = start(0, sizes(64))
        after = Descent(steps=2000, learning_rate=stable_rate(NET, params, X)).train(NET, params, X, T)
        found = Reconstruction(images=8, steps=400, bounds=bounds).run(NET, params, after, SHAPE)
        outside = (found.X - np.clip(found.X, low, high)) / (high - low)
        assert np.sqrt(np.square(outside).mean()) < 0.1
        assert found.loss < 0.3
        assert curve(X, found.X).error < np.square(X - X.mean(0)).sum((1, 2, 3)).mean()
        free = Reconstruction(images=8, steps=400, bounds=None).run(NET, params, after, SHAPE)
        assert np.isfinite(free.X).all()

    @pytest.mark.slow
    def test_all_of_ten_digits_come_back_from_ordinary_training(self):
        digits = pytest.importorskip("sklearn.datasets").load_digits().data.reshape(-1, 8, 8, 1)[:10] / 16
        X, T = digits.astype(np.float32), np.where(np.arange(10) % 2, 1.0, -1.0)[:, None].astype(np.float32)
        params = start(0, (64, 256, 256, 1))
        after = Descent(learning_rate=stable_rate(NET, params, X)).train(NET, params, X, T)
        found = Reconstruction(images=20, steps=4000).run(NET, params, after, (8, 8, 1))
        nothing = np.square(X - X.mean(0)).sum((1, 2, 3)).mean()
        assert (curve(X, found.X).distances < nothing / 4).sum() >= 8

    @pytest.mark.slow
    def test_images_come_back_and_those_that_were_not_trained_on_do_not(self):
        digits = pytest.importorskip("sklearn.datasets").load_digits().data.reshape(-1, 8, 8, 1)[:40] / 16
        X, T = digits[:2].astype(np.float32), np.array([[1.0], [-1.0]], np.float32)
        params = start(0, (64, 512, 512, 1))
        after = Descent(steps=5000, learning_rate=2e-4).train_linearised(NET, params, X, T)
        found = Reconstruction(images=4, steps=3000, at="initial").run(NET, params, after, (8, 8, 1))
        error = curve(X, found.X).error
        assert error < np.square(X - X.mean(0)).sum((1, 2, 3)).mean(), "Less than their mean is known of them."
        others = [curve(digits[i : i + 2], found.X).error for i in range(2, 40, 2)]
        assert error < 0.6 * min(others)

    @pytest.mark.parametrize("network", [LeNet(widths=(2, 3, 8, 6)), MLP(widths=(9,))], ids=["lenet", "mlp"])
    def test_any_network_is_attacked(self, network):
        rng = np.random.default_rng(0)
        X = rng.uniform(0, 1, (3, 16, 16, 1)).astype(np.float32)
        params, net = network.init((16, 16, 1), 2), attacked(network)
        after = Descent(steps=100, learning_rate=1e-3).train(net, params, X, np.eye(2, dtype=np.float32)[[0, 1, 1]])
        one, more = (Reconstruction(images=4, steps=n).run(net, params, after, (16, 16, 1)) for n in (1, 40))
        assert more.X.shape == (4, 16, 16, 1)
        assert more.duals.shape == (2, 4, 2)
        assert more.loss < one.loss

    def test_bad_arguments(self):
        with pytest.raises(ValueError, match="Expected at as final, initial or both; got 'then'"):
            Reconstruction(images=2, at="then")
        params = start(0, sizes(8))
        with pytest.raises(ValueError, match="Expected parameters that training has changed"):
            Reconstruction(images=2, steps=1).run(NET, params, params, SHAPE)
        with pytest.raises(ValueError, match="Expected parameters of the same shapes before and after"):
            Reconstruction(images=2, steps=1).run(NET, params, start(0, sizes(9)), SHAPE)
        with pytest.raises(ValueError, match="Expected 1 <= batch=3 <= images=2"):
            Reconstruction(images=2, batch=3)
        with pytest.raises(ValueError, match=r"Expected bounds with the lower one first; got \(1.0, 0.0\)"):
            Reconstruction(images=2, bounds=(1.0, 0.0))


class TestCurve:
    def test_the_nearest_pair_is_taken_first_and_never_again(self):
        members, found = np.array([[0.0], [1.0], [5.0]]), np.array([[0.9], [9.0], [1.2], [5.5]])
        pairs = curve(members, found)
        assert pairs.images.tolist() == [1, 2, 0]
        assert pairs.found.tolist() == [0, 3, 2]
        np.testing.assert_allclose(pairs.distances, [0.01, 0.25, 1.44], rtol=1e-12)
        assert pairs.error == pytest.approx(1.7 / 3)
        with pytest.raises(ValueError, match="Expected at least 3 reconstructions of finite values; got 2"):
            curve(members, found[:2])
        spoiled = np.concatenate([found, np.full((2, 1), np.nan)])
        np.testing.assert_allclose(curve(members, spoiled).distances, [0.01, 0.25, 1.44], rtol=1e-12)
        with pytest.raises(ValueError, match="of finite values; got 0"):
            curve(members, np.full((4, 1), np.nan))

    def test_outliers_have_the_duals_of_the_kernel(self):
        X, T = task(6)
        params = start(0, sizes(16))
        K = np.asarray(tangent_kernel(NET, params, jnp.asarray(X)), np.float64)
        expected = np.abs(np.linalg.solve(K, T - np.asarray(NET(params, jnp.asarray(X)))))[:, 0]
        np.testing.assert_allclose(outliers(K, NET(params, X), T), expected, rtol=0.02)
