"""Partition and expand (PEA): each image of a method holds parts x parts tiles, which are enlarged."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.methods.descent import Pull
from dpdistill.networks.augment import partition_expand

TILE = 14
"""Least side of tiles in pixels, where a recipe does not state the number of tiles."""


def parts_of(expand: int, shape: tuple[int, ...]) -> int:
    """Returns the number of tiles along each side of images (h, w, c).

    Args:
        expand: the recipe's number; 0 for two where tiles then have at least TILE pixels per side, else one.
        shape: shape of an image.

    Example:
        >>> parts_of(0, (28, 28, 1)), parts_of(0, (8, 8, 1)), parts_of(3, (28, 28, 1))
        (2, 1, 3)
    """
    return expand or (2 if min(shape[:2]) >= 2 * TILE else 1)


def check_tiles(shape: tuple[int, ...], parts: int) -> None:
    """Refuses images (h, w, c) with fewer pixels than tiles.

    Raises:
        ValueError: such images, with both numbers.
    """
    jax.eval_shape(partial(partition_expand, parts=parts), jax.ShapeDtypeStruct((1, *shape), jnp.float32))


def tiles(X: np.ndarray, y: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the tiles and classes to train on instead of images X (n, h, w, c) and y; None without tiles."""
    if parts == 1:
        return None
    return np.asarray(partition_expand(jnp.asarray(X), parts)), np.repeat(y, parts**2)


def through_tiles(pull: Pull, parts: int) -> Pull:
    """Returns a pull of images from a pull of their tiles."""
    if parts == 1:
        return pull

    @jax.jit
    def cut(X: Any) -> Any:
        return partition_expand(X, parts)

    @jax.jit
    def back(X: Any, gradient: Any) -> Any:
        return jax.vjp(cut, X)[1](gradient)[0]

    return lambda X, step: back(X, pull(cut(X), step))
