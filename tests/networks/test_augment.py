"""Augmentation moves known pixels to known places; partition and expand cuts where it should."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract.float32 import assert_close_float32

from dpdistill.networks.augment import (
    STRATEGIES,
    Draw,
    apply_augmentation,
    augment_each,
    draw_augmentation,
    mosaic,
    partition_expand,
)


def image(h=9, w=9, c=1, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (h, w, c)).astype(np.float32)


def drawn(*strategies, n=200):
    """n draws, one a row of every field."""
    return jax.tree.map(np.asarray, DRAWS(jax.random.split(jax.random.key(5), n), strategies))


DRAW = jax.jit(draw_augmentation, static_argnums=1)
STEPS = 12
"""Roundings on the way of a pixel: its place, the weights of four neighbours, their sum, the changes of colour."""
DRAWS = jax.jit(jax.vmap(draw_augmentation, (0, None)), static_argnums=1)
APPLY = jax.jit(apply_augmentation)
EXPAND = jax.jit(partition_expand, static_argnums=1)
MOSAIC = jax.jit(mosaic, static_argnums=1)
RESIZE = jax.jit(lambda X, shape: jax.image.resize(X, shape, "bilinear"), static_argnums=1)
EACH = jax.jit(augment_each, static_argnums=2)
GRADIENT = jax.jit(jax.grad(lambda x, draw: jnp.sum(apply_augmentation(draw, x) ** 2)))


def moved(x):
    """Scale of an image whose pixels move: their places are numbers up to half its side, neighbours differ by 2."""
    return max(x.shape[:2]) / 2 * 2


@lru_cache
def identity():
    """The draw of no strategy, when it is first asked for: a module that is only collected compiles nothing."""
    return DRAW(jax.random.key(0), ())


@pytest.mark.parametrize("shape", [(9, 9, 1), (28, 28, 1), (8, 6, 3)])
def test_the_identity_leaves_an_image(shape):
    x = image(*shape)
    assert_close_float32(APPLY(identity(), x), x, STEPS, scale=moved(x))


def test_a_shift_moves_a_pixel_and_fills_with_the_mean():
    x = image()
    # Pixel (i, j) is taken from (i + 2, j - 1): 2 rows are 0.5 of the half side of 4 steps.
    draw = identity()._replace(affine=jnp.array([[1.0, 0.0, 0.5], [0.0, 1.0, -0.25]]))
    found, expected = np.asarray(APPLY(draw, x)), np.full_like(x, x.mean())
    expected[:7, 1:] = x[2:, :8]
    assert_close_float32(found, expected, STEPS, scale=moved(x))


def test_a_flip_mirrors_columns():
    x = image(7, 9, 3)
    draw = identity()._replace(affine=jnp.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]))
    assert_close_float32(APPLY(draw, x), x[:, ::-1], STEPS, scale=moved(x))
    assert set(drawn("flip").affine[:, 1, 1]) == {-1.0, 1.0}


def test_a_quarter_turn_turns():
    x = image()
    draw = identity()._replace(affine=jnp.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]))
    expected = [[x[8 - j, i] for j in range(9)] for i in range(9)]
    assert_close_float32(APPLY(draw, x), expected, STEPS, scale=moved(x))


def test_a_zoom_interpolates():
    x = np.linspace(-1, 1, 9, dtype=np.float32)[:, None, None] * np.ones((1, 9, 1), np.float32)
    draw = identity()._replace(affine=jnp.array([[0.5, 0.0, 0.0], [0.0, 0.5, 0.0]]))
    assert_close_float32(APPLY(draw, x), 0.5 * x, STEPS, scale=moved(x))


def test_colours():
    x = image(5, 5, 3)
    brighter = np.asarray(APPLY(identity()._replace(brightness=jnp.array(0.25)), x))
    assert_close_float32(brighter, x + 0.25, STEPS)
    grey = np.asarray(APPLY(identity()._replace(saturation=jnp.array(0.0)), x))
    assert_close_float32(grey, np.repeat(x.mean(2, keepdims=True), 3, 2), STEPS, scale=1.0)
    flat = np.asarray(APPLY(identity()._replace(contrast=jnp.array(0.0)), x))
    assert_close_float32(flat, np.full(x.shape, x.mean()), STEPS + x.size, scale=1.0)


def test_a_cut_takes_half_the_side():
    x = image(8, 8)
    found = np.asarray(APPLY(identity()._replace(cut=jnp.array([0.5, 0.0])), x))
    expected = x.copy()
    expected[2:6, :2] = x.mean()
    assert_close_float32(found, expected, STEPS, scale=moved(x))


class TestDraws:
    def test_ranges(self):
        shifts = drawn("crop").affine[:, :, 2]
        assert 0.23 < shifts.max() <= 0.25
        assert -0.25 <= shifts.min() < -0.23
        zooms = np.diagonal(drawn("scale").affine[:, :, :2], axis1=1, axis2=2)
        assert 1 / 1.2 - 1e-6 <= zooms.min() < 0.85
        assert 1.17 < zooms.max() <= 1.2 + 1e-6
        turned = drawn("rotate").affine
        assert np.rad2deg(np.abs(np.arctan2(turned[:, 1, 0], turned[:, 0, 0])).max()) == pytest.approx(15.0, abs=0.5)
        cuts = drawn("cutout").cut
        assert cuts.min() >= 0.0
        assert cuts.max() < 1.0
        d = drawn("color")
        tones = np.stack([d.brightness, d.saturation, d.contrast], 1)
        np.testing.assert_allclose(tones.min(0), [-0.5, 0.0, 0.5], atol=0.05)
        np.testing.assert_allclose(tones.max(0), [0.5, 2.0, 1.5], atol=0.05)

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_what_was_not_chosen_is_the_identity(self, strategy):
        own = {"color": {"brightness", "saturation", "contrast"}, "cutout": {"cut"}}.get(strategy, {"affine"})
        draws = drawn(strategy)
        for field in set(Draw._fields) - own:
            for value in getattr(draws, field):
                np.testing.assert_array_equal(value, getattr(identity(), field))

    def test_one_of_the_strategies_at_a_time(self):
        draws = drawn("color", "crop", "cutout")
        changed = [
            (getattr(draws, field) != np.asarray(getattr(identity(), field))).reshape(200, -1).any(1)
            for field in ("brightness", "affine", "cut")
        ]
        assert (np.sum(changed, 0) == 1).all()
        assert np.sum(changed, 1).min() > 40

    def test_an_unknown_one_is_refused(self):
        with pytest.raises(ValueError, match=r"Expected augmentations among color, .*rotate; got blur, colour\."):
            draw_augmentation(jax.random.key(0), ("colour", "crop", "blur"))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_draw_is_the_same_map_and_its_gradient_is_finite(strategy):
    draw = DRAW(jax.random.key(7), (strategy,))
    x = image(8, 8, 3)
    np.testing.assert_array_equal(APPLY(draw, x), APPLY(draw, x))
    gradient = np.asarray(GRADIENT(x, draw))
    assert np.isfinite(gradient).all()
    assert gradient.any()
    step = 1e-2 * np.random.default_rng(1).normal(size=x.shape).astype(np.float32)
    slope = (jnp.sum(APPLY(draw, x + step) ** 2) - jnp.sum(APPLY(draw, x - step) ** 2)) / 2
    assert float(slope) == pytest.approx(float(np.sum(gradient * step)), rel=1e-2, abs=1e-4)


def test_each_image_has_a_draw_of_its_own():
    X = np.repeat(image(8, 8)[None], 12, 0)
    found = np.asarray(EACH(jax.random.key(1), X, ("crop",)))
    assert len(np.unique(found.reshape(12, -1), axis=0)) == 12
    np.testing.assert_array_equal(found, EACH(jax.random.key(1), X, ("crop",)))
    assert augment_each(jax.random.key(1), X, ()) is X


class TestPartitionExpand:
    def test_tiles_in_order_each_upsampled(self):
        X = np.stack([image(8, 12, 2, seed) for seed in (1, 2)])
        found = np.asarray(EXPAND(X, 2))
        expected = [
            RESIZE(X[n, 4 * i : 4 * i + 4, 6 * j : 6 * j + 6], (8, 12, 2))
            for n in range(2)
            for i in range(2)
            for j in range(2)
        ]
        assert_close_float32(found, np.stack(expected), STEPS)

    def test_values_by_hand(self):
        X = np.array([[0.0, 1.0], [2.0, 3.0]], np.float32).reshape(1, 2, 2, 1)
        X = np.kron(X[0, :, :, 0], np.ones((2, 2), np.float32))[None, :, :, None]
        X[0, 0, 0, 0] = 4.0
        found = np.asarray(EXPAND(X, 2))[:, :, :, 0]
        for tile, constant in zip(found[1:], (1.0, 2.0, 3.0), strict=True):
            assert_close_float32(tile, np.full((4, 4), constant), STEPS)
        assert_close_float32(found[0, 0], [4.0, 3.0, 1.0, 0.0], STEPS)

    def test_three_by_three(self):
        X = image(9, 9)[None]
        found = np.asarray(EXPAND(X, 3))
        assert found.shape == (9, 9, 9, 1)
        assert_close_float32(found[5], RESIZE(X[0, 3:6, 6:9], (9, 9, 1)), STEPS)

    def test_one_part_is_the_image(self):
        X = image()[None]
        assert partition_expand(X, 1) is X

    def test_tiles_of_a_side_that_does_not_divide_differ_by_a_pixel(self):
        X = image(8, 10)[None]
        found = np.asarray(EXPAND(X, 3))
        tiles = [X[0, r, c] for r in map(slice, (0, 2, 5), (2, 5, 8)) for c in map(slice, (0, 3, 6), (3, 6, 10))]
        expected = [RESIZE(tile, (8, 10, 1)) for tile in tiles]
        assert_close_float32(found, np.stack(expected), STEPS)

    def test_more_tiles_than_pixels_are_refused(self):
        with pytest.raises(ValueError, match="Expected images of at least 9x9 pixels for as many tiles; got 8x9"):
            partition_expand(image(8, 9)[None], 9)


class TestMosaic:
    def test_every_tile_is_the_image_made_smaller(self):
        X = image(8, 9)[None]
        found = np.asarray(MOSAIC(np.repeat(X[:, None], 4, 1), 2))
        assert found.shape == X.shape
        for rows, h in ((slice(0, 4), 4), (slice(4, 8), 4)):
            for columns, w in ((slice(0, 4), 4), (slice(4, 9), 5)):
                small = RESIZE(X, (1, h, w, X.shape[3]))
                assert_close_float32(found[:, rows, columns], small, STEPS)

    def test_one_tile_is_the_image(self):
        X = image(4, 4)[None]
        np.testing.assert_array_equal(mosaic(X[:, None], 1), X)

    def test_tiles_may_differ_and_follow_one_another_as_they_are_cut(self):
        X = np.stack([np.full((8, 9, 3), value, np.float32) for value in range(8)])
        found = MOSAIC(jnp.asarray(X).reshape(2, 4, 8, 9, 3), 2)
        assert found.shape == (2, 8, 9, 3)
        assert_close_float32(EXPAND(found, 2), X, 2 * STEPS)

    def test_of_a_smooth_image_the_tiles_show_it_again(self):
        rows, columns = np.meshgrid(np.linspace(-1, 1, 28), np.linspace(-1, 1, 28), indexing="ij")
        X = np.stack([rows, columns * rows, columns], 2)[None].astype(np.float32)
        tiles = np.asarray(EXPAND(MOSAIC(np.repeat(X[:, None], 4, 1), 2), 2))
        assert np.abs(tiles - X).max() < 0.12
        assert np.abs(tiles - X).mean() < 0.01
