"""Tiles: gradients with respect to images are those of their tiles, added up where a pixel is seen twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpdistill.methods.tiles import check_tiles, parts_of, through_tiles, tiles
from dpdistill.networks.augment import partition_expand

X = np.random.default_rng(4).uniform(-1, 1, (2, 7, 8, 3)).astype(np.float32)


def test_a_gradient_goes_through_the_tiles():
    weights = np.random.default_rng(5).normal(size=(8, 7, 8, 3)).astype(np.float32)

    def pull(T, step):
        assert T.shape == weights.shape
        return 2.0 * step * weights * T

    expected = jax.grad(lambda X: 3.0 * jnp.sum(weights * partition_expand(X, 2) ** 2))(jnp.asarray(X))
    np.testing.assert_allclose(through_tiles(pull, 2)(X, 3), expected, rtol=1e-5, atol=1e-5)


def test_one_tile_is_the_image_itself():
    assert through_tiles(len, 1) is len
    assert tiles(X, np.array([0, 1]), 1) is None


def test_tiles_have_the_class_of_their_image():
    T, y = tiles(X, np.array([1, 0], np.int32), 2)
    np.testing.assert_array_equal(T, partition_expand(jnp.asarray(X), 2))
    np.testing.assert_array_equal(y, [1, 1, 1, 1, 0, 0, 0, 0])


def test_more_tiles_than_pixels_are_refused():
    check_tiles((7, 8, 3), 7)
    with pytest.raises(ValueError, match="at least 8x8 pixels for as many tiles; got 7x8"):
        check_tiles((7, 8, 3), 8)


@pytest.mark.parametrize(
    ("expand", "shape", "parts"),
    [
        (0, (28, 28, 3), 2),
        (0, (27, 64, 1), 1),
        (0, (29, 31, 1), 2),
        (0, (8, 8, 1), 1),
        (0, (224, 224, 3), 2),
        (1, (28, 28, 1), 1),
        (2, (8, 8, 1), 2),
    ],
)
def test_images_are_cut_by_default_where_tiles_keep_fourteen_pixels(expand, shape, parts):
    assert parts_of(expand, shape) == parts
