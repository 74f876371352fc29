"""The drawn network against sums over patches, its shipped filters, and the pictures that they are learned from."""

import hashlib
import re
from functools import partial

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chosen_tests import few
from contract.float32 import assert_close_float32

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.features import drawn_filters, learn_drawn_filters
from dpdistill.features.drawn_filters import DrawnNet, Filters
from dpdistill.features.eight_bits import EightBits
from dpdistill.features.learn_drawn_filters import Learning, learn
from dpdistill.kernels import KERNELS
from dpdistill.methods import METHODS
from dpdistill.methods.softmax import SoftmaxQuery
from dpdistill.programs.self_test import check_rows
from dpdistill.public_images import pictures
from dpdistill.schema import Schema

FEATURES = jax.jit(lambda encoder, X: encoder(X), static_argnums=0)
SMALL = Learning(first=8, second=12, rank=6, pictures=40, measured=20, patches=600)
NET = DrawnNet()


def images(*shape):
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)


@pytest.fixture(scope="module")
def filters():
    """A small network of the same kind."""
    return learn(SMALL)


def features(filters, X):
    return drawn_filters.features(filters, drawn_filters.layers(filters, X))


def patch(x, i, j, s):
    """The s x s patch around (i, j), reflected at the border, flat."""
    a = s // 2
    return np.pad(x, ((a, a), (a, a), (0, 0)), mode="reflect")[i : i + s, j : j + s].ravel()


def by_sums(f: Filters, x):
    """The features of one picture (16, 16, c), one patch at a time, in double precision."""
    d, k, grid = len(f.first), len(f.metric), round(len(f.positions) ** 0.5)
    first, second = f.first.astype(np.float64), f.second.astype(np.float64)
    second = np.concatenate([second, drawn_filters.mirrored(second.T, 3, f.sign).T], 1)

    def layer(x, W, s, floor, length):
        out = np.empty((*x.shape[:2], W.shape[1]))
        for i, j in np.ndindex(x.shape[:2]):
            p = patch(x, i, j, s)
            norm = length(p)
            out[i, j] = np.exp(2 * (np.minimum(p @ W / (norm + floor), 1) - 1)) * norm
        return out

    K1 = first.shape[1] - d
    a = layer(x.astype(np.float64), first[:, :K1], 5, f.floor, lambda p: np.linalg.norm(p @ first[:, K1:]))
    h = a.reshape(8, 2, 8, 2, K1).mean((1, 3)) @ f.between
    for axis in (0, 1):
        before, after = (np.take(h, np.clip(np.arange(8) + t, 0, 7), axis) for t in (-1, 1))
        h = 0.22 * (before + after) + 0.56 * h
    a = layer(h, second, 3, 1e-6, np.linalg.norm)
    centres = (np.arange(grid) + 0.5) * 8 / grid - 0.5
    M = np.exp(-2 * ((np.arange(8) - centres[:, None]) / (8 / grid)) ** 2)
    M = np.kron(np.eye(grid), np.ones(8 // grid)) if 8 % grid == 0 else M
    M = M / M.sum(1, keepdims=True)
    s = np.einsum("ph,qw,hwk->pqk", M, M, a)
    s = (s[..., :k] + s[:, ::-1, k:]) / 2
    y = s.reshape(-1, k) @ f.metric
    squares = np.square(y).sum(1, keepdims=True)
    y = y / np.sqrt(squares + 0.01 * squares.mean())
    y = f.positions @ (y / np.linalg.norm(y) - f.mean) @ f.channels
    y = np.sign(y) * np.abs(y) ** 0.7 @ f.directions[:, : 3 * k // 4]
    return y.ravel() / np.linalg.norm(y)


class TestFeatures:
    @pytest.mark.slow
    def test_are_sums_over_patches(self, filters):
        X = images(2, 16, 16, 3)
        found = np.asarray(jax.jit(partial(features, filters))(X))
        expected = np.stack([by_sums(filters, x) for x in X])
        np.testing.assert_allclose(found, expected, atol=2e-4)
        assert (found * expected).sum(1).min() > 0.99999
        assert (expected[0] * expected[1]).sum() < 0.98

    @pytest.mark.parametrize("shape", few([(9, 14, 3), (28, 20, 2)], (9, 14, 3)), ids=str)
    def test_have_norm_one_whatever_the_shape(self, shape):
        found = np.asarray(FEATURES(NET, images(3, *shape)))
        assert found.shape == (3, 16 * 768)
        assert found.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-5)
        assert np.abs(found[0] - found[1]).max() > 0.005

    @pytest.mark.slow
    def test_do_not_see_the_mirror(self):
        X = pictures.photographs(4, 9)
        found, mirrored, turned = (np.asarray(FEATURES(NET, x)) for x in (X, X[:, :, ::-1], X[:, ::-1]))
        assert (found * mirrored).sum(1).min() > 0.999
        assert (found * turned).sum(1).max() < 0.95

    @pytest.mark.slow
    def test_the_directions_that_are_left_out_tell_little(self, monkeypatch):
        s = np.asarray(
            jax.jit(partial(drawn_filters.layers, drawn_filters.load_filters()))(pictures.photographs(40, 9))
        )
        found = np.asarray(drawn_filters.features(drawn_filters.load_filters(), s))
        monkeypatch.setattr(drawn_filters, "KEPT", 1)
        whole = np.asarray(drawn_filters.features(drawn_filters.load_filters(), s))
        assert (found.shape, whole.shape) == ((40, 12288), (40, 16384))
        left = np.square(whole.reshape(40, 16, -1)[..., :768]).sum((1, 2))
        assert 0.975 < left.mean() < 0.99
        apart = np.triu_indices(40, 1)
        kernel, expected = (found @ found.T)[apart], (whole @ whole.T)[apart]
        assert np.abs(kernel - expected).max() < 0.015
        assert np.corrcoef(kernel, expected)[0, 1] > 0.99

    @pytest.mark.slow
    def test_other_colours_are_averaged(self):
        X = images(2, 12, 12, 4)
        mean = X.mean(3, keepdims=True)
        np.testing.assert_allclose(FEATURES(NET, X), FEATURES(NET, np.repeat(mean, 3, 3)), atol=1e-4)

    @pytest.mark.slow
    def test_gradients_say_how_features_move(self, filters):
        X, v = images(2, 12, 12, 3), images(2, 16 * 9)
        value = jax.jit(lambda X: jnp.sum(features(filters, X) * v))
        gradient = np.asarray(jax.jit(jax.grad(value))(X))
        move = 0.001 * gradient / np.linalg.norm(gradient)
        found = float(value(X + move) - value(X - move)) / 0.002
        np.testing.assert_allclose(found, np.linalg.norm(gradient), rtol=0.02)

    @pytest.mark.parametrize("shape", [(8, 8), (14, 10), (9, 7)], ids=str)
    def test_products_of_parts_are_those_of_all_patches(self, filters, shape):
        h = images(2, *shape, len(filters.sign))
        p = np.asarray(jax.jit(drawn_filters.windows, static_argnums=1)(h, 3), np.float64)
        W = filters.second.T.astype(np.float32)

        @jax.jit
        def products(h):
            columns = drawn_filters.columns(h, filters.sign)
            return [drawn_filters.product_of_rows(*each) for each in zip(columns, halves, strict=True)]

        halves = drawn_filters.halves(filters)
        even, odd = map(np.asarray, products(h))
        np.testing.assert_allclose(even + odd, p @ W.T, atol=2e-5)
        np.testing.assert_allclose(even - odd, p @ drawn_filters.mirrored(W, 3, filters.sign).T, atol=2e-5)

    @pytest.mark.slow
    def test_nothing_has_features_and_finite_gradients(self):
        X = np.stack([np.zeros((8, 8, 3)), np.ones((8, 8, 3))]).astype(np.float32)
        found = np.asarray(FEATURES(NET, X))
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-5)
        assert np.isfinite(jax.jit(jax.grad(lambda X: (NET(X) ** 3).sum()))(X)).all()

    @pytest.mark.slow
    def test_are_the_same_beside_double_precision(self):
        X = images(2, 8, 8, 1)
        found = np.asarray(FEATURES(NET, X))
        with jax.enable_x64(True):
            again = np.asarray(FEATURES(NET, X))
        assert again.dtype == np.float32
        assert_close_float32(again, found, terms=found.shape[1])

    def test_a_small_picture_is_named(self):
        with pytest.raises(ValueError, match=re.escape("Expected images of at least 8 x 8; got 7 x 9.")):
            DrawnNet()(jnp.zeros((1, 7, 9, 3)))

    def test_a_recipe_names_the_filters_and_others_are_refused(self):
        fields = run.recipe_of(METHODS["decoupled-kip"](kernel=KERNELS["drawn"]), 0)["fields"]
        assert fields["kernel"]["encoder"] == {"kind": "DrawnNet", "filters": drawn_filters.DIGEST}
        with pytest.raises(
            ValueError, match=re.escape(f"Expected the filters of this version, {drawn_filters.DIGEST}; got ab.")
        ):
            DrawnNet("ab")


class TestRecords:
    @pytest.mark.parametrize(
        ("shape", "chunk"),
        few(
            [((8, 8, 1), 1), ((17, 40, 3), 3), ((28, 28, 1), 16), ((32, 32, 3), 16)], ((17, 40, 3), 3), of_several=True
        ),
        ids=str,
    )
    def test_do_not_see_each_other(self, shape, chunk):
        contract.check_features(NET, Schema(shape, (-1.0, 1.0), contract.NAMES), chunk, 12)

    @pytest.mark.slow
    def test_the_self_test_passes(self):
        query = SoftmaxQuery(0.1, 3, EightBits(NET))
        check_rows(query, np.zeros((12288, 3)), Schema((16, 16, 3), (-1.0, 1.0), contract.NAMES), 16)

    @pytest.mark.parametrize("method", few(["decoupled-kip", "dp-kip"], "dp-kip"))
    @pytest.mark.slow
    def test_are_distilled_with_it(self, method):
        tiny = contract.tiny(method, kernel=KERNELS["drawn"])
        found = run.distill(contract.toy_records(30), tiny, Budget(100.0))
        assert found.X.shape[1:] == (8, 8, 1)
        assert np.isfinite(found.X).all()
        assert found.X.std() > 0.05


class TestFilters:
    def test_learned_twice_they_have_the_same_bits(self, filters):
        again = learn(SMALL)
        for a, b in zip(filters, again, strict=True):
            np.testing.assert_array_equal(a, b)

    def test_they_come_back_from_a_file(self, filters):
        back = drawn_filters.unpacked(drawn_filters.packed(filters))
        for a, b in zip(filters, back, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)

    def test_centroids_of_layer_one_are_closed_under_the_mirror(self, filters):
        W = filters.first[:, :8].T
        np.testing.assert_allclose(drawn_filters.mirrored(W, 5), np.roll(W, 4, 0), atol=1e-4)

    def test_channels_are_whitened(self, filters):
        local = jax.jit(lambda X: drawn_filters.local(filters, drawn_filters.layers(filters, X)))
        Q = np.asarray(local(pictures.photographs(20, 1))) - filters.mean
        S = np.einsum("npc,npd->cd", Q, Q) / (20 * Q.shape[1])
        shifted = S + 0.2 * np.trace(S) / 12 * np.eye(12)
        np.testing.assert_allclose(filters.channels @ shifted @ filters.channels, np.eye(12), atol=0.02)
        w, V = np.linalg.eigh(shifted)
        np.testing.assert_allclose(filters.scales, w[::-1] ** -0.5, rtol=0.002)
        np.testing.assert_allclose(np.abs(np.sum(filters.directions * V[:, ::-1], 0)), 1.0, atol=0.002)

    def test_the_package_ships_those_of_the_digest(self):
        assert hashlib.sha256(drawn_filters.FILE.read_bytes()).hexdigest() == drawn_filters.DIGEST
        assert drawn_filters.FILE.stat().st_size < 5e6
        filters, net = drawn_filters.load_filters(), Learning()
        assert filters.between.shape == (net.first, net.rank)
        assert filters.second.shape == (9 * net.rank, net.second)
        np.testing.assert_array_equal(filters.channels, filters.channels.T)
        assert (np.diff(filters.scales) >= 0).all()
        np.testing.assert_allclose(filters.directions.T @ filters.directions, np.eye(net.second), atol=2e-3)
        np.testing.assert_allclose(np.linalg.norm(filters.second.astype(np.float32), axis=0), 1.0, rtol=5e-3)

    def test_a_damaged_file_is_refused(self, tmp_path, monkeypatch):
        damaged = tmp_path / "drawn_filters.npz"
        damaged.write_bytes(drawn_filters.FILE.read_bytes()[:-1] + b"x")
        monkeypatch.setattr(drawn_filters, "FILE", damaged)
        drawn_filters.load_filters.cache_clear()
        with pytest.raises(ValueError, match=re.escape(f"{damaged} is damaged: install the package again.")):
            drawn_filters.load_filters()

    def test_the_script_writes_them_and_says_their_digest(self, filters, tmp_path, monkeypatch, caplog):
        file = tmp_path / "filters.npz"
        monkeypatch.setattr(learn_drawn_filters, "learn", lambda net: filters)
        with caplog.at_level("INFO", logger="dpdistill"):
            learn_drawn_filters.write(str(file))
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        assert caplog.messages == [digest]
        monkeypatch.setattr(drawn_filters, "FILE", file)
        monkeypatch.setattr(drawn_filters, "DIGEST", digest)
        drawn_filters.load_filters.cache_clear()
        for a, b in zip(drawn_filters.load_filters(), filters, strict=True):
            np.testing.assert_array_equal(a, b)
        drawn_filters.load_filters.cache_clear()


class TestPictures:
    @pytest.mark.parametrize(("draw", "shape"), [(pictures.photographs, (32, 32, 3)), (pictures.greys, (28, 28, 1))])
    def test_they_are_the_same_for_a_seed_and_in_bounds(self, draw, shape):
        X = draw(60, 5)
        assert (X.shape, X.dtype) == ((60, *shape), np.float32)
        assert np.abs(X).max() <= 1.0
        pictures._kept.cache_clear()
        np.testing.assert_array_equal(draw(60, 5), X)
        assert np.abs(draw(60, 6) - X).max() > 0.5
        assert (X.std((1, 2, 3)) > 0.05).mean() > 0.8
        near = np.corrcoef(X[:, 8, 8].ravel(), X[:, 8, 9].ravel())[0, 1]
        assert near > 0.7

    def test_those_that_are_kept_are_not_changed_by_who_has_them(self):
        X = pictures.scenes(3, 7)
        seen, X[:] = X.copy(), 0
        np.testing.assert_array_equal(pictures.scenes(3, 7), seen)

    @pytest.mark.parametrize("n", [2, 60])
    def test_how_many_are_in_float32_at_a_time_changes_none(self, n, monkeypatch):
        whole = pictures.photographs(n, 5), pictures.greys(max(n, 3), 5)
        monkeypatch.setattr(pictures, "BLOCK", 7)
        for made, expected in zip((pictures.photographs(n, 5), pictures.greys(max(n, 3), 5)), whole, strict=True):
            np.testing.assert_array_equal(made, expected)
        X = pictures.scenes(n, 5)
        halves = X[n // 2 :].reshape(-1, 32, 2, 32, 2, 3).mean((2, 4))
        np.testing.assert_array_equal(whole[0], np.concatenate([X[: n // 2, 16:48, 16:48], halves]))

    def test_scenes_have_256_levels(self):
        X = (pictures.scenes(10, 0) + 1) * 127.5
        np.testing.assert_allclose(X, np.rint(X), atol=1e-3)

    def test_those_of_a_seed_do_not_change_between_versions(self):
        """Encoders' means and the scores that recipients redraw pictures for rest on them."""
        levels = (pictures.scenes(4, 0) + 1) * 127.5
        means = [[159.94, 130.48, 134.42], [82.25, 132.77, 110.92], [114.90, 110.87, 145.89], [112.98, 135.89, 129.14]]
        np.testing.assert_allclose(levels.mean((1, 2)), means, atol=0.02)
        at_10_50 = [[156, 161, 142], [66, 141, 117], [103, 83, 170], [129, 150, 145]]
        at_40_20 = [[184, 76, 131], [47, 134, 104], [122, 98, 167], [108, 114, 152]]
        np.testing.assert_allclose(levels[:, [10, 40], [50, 20]], np.stack([at_10_50, at_40_20], 1), atol=1.01)
        greys = (pictures.greys(9, 0).mean((1, 2, 3)) + 1) * 127.5
        expected = [34.329, 49.289, 127.784, 7.173, 123.480, 128.833, 145.767, 120.154, 12.646]
        np.testing.assert_allclose(greys, expected, atol=0.02)

    @pytest.mark.parametrize("shape", [(28, 28, 1), (28, 28, 3), (33, 24, 1)])
    def test_silhouettes_lie_on_black_and_many_are_symmetrical(self, shape):
        X = pictures.silhouettes(80, shape, 5)
        assert (X.shape, X.dtype) == ((80, *shape), np.float32)
        assert np.abs(X).max() <= 1.0
        np.testing.assert_array_equal(X, pictures.silhouettes(80, shape, 5))
        assert np.abs(pictures.silhouettes(80, shape, 6) - X).max() > 0.5
        np.testing.assert_array_equal(X[..., 0], X[..., -1])
        black = X[..., 0] < -0.95
        assert 0.3 < black.mean() < 0.8
        assert (black[:, :2].mean((1, 2)) > 0.9).mean() > 0.5  # nothing reaches the upper edge
        alike = [np.mean(image == image[:, ::-1]) for image in black]
        assert 0.2 < np.mean(np.array(alike) > 0.9) < 0.9

    def test_silhouettes_of_a_seed_do_not_change_between_versions(self):
        means = (pictures.silhouettes(6, (28, 28, 1), 0).mean((1, 2, 3)) + 1) * 127.5
        np.testing.assert_allclose(means, [105.222, 121.562, 14.696, 97.942, 43.461, 93.728], atol=0.02)

    def test_a_third_of_the_greys_are_strokes_on_black(self):
        X = pictures.greys(60, 0)[..., 0]
        black = (X < -0.95).mean((1, 2))
        assert 0.25 < (black > 0.6).mean() < 0.75
        assert (black < 0.1).mean() > 0.15
