"""Partition and expand (PEA) in methods whose images each stand for parts x parts enlarged tiles."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.encode.augment import partition_expand
from dpdistill.methods.descent import Pull


def check_tiles(shape: tuple[int, ...], parts: int) -> None:
    """Raise on images (h, w, c) of fewer pixels than tiles.

    Raises:
        ValueError: with both.
    """
    jax.eval_shape(partial(partition_expand, parts=parts), jax.ShapeDtypeStruct((1, *shape), jnp.float32))


def tiles(X: np.ndarray, y: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray] | None:
    """What models are trained on in the place of images X (n, h, w, c) and classes y; None for these themselves."""
    if parts == 1:
        return None
    return np.asarray(partition_expand(jnp.asarray(X), parts)), np.repeat(y, parts**2)


def through_tiles(pull: Pull, parts: int) -> Pull:
    """The gradient with respect to images of what is asked of their tiles."""
    if parts == 1:
        return pull

    @jax.jit
    def cut(X: Any) -> Any:
        return partition_expand(X, parts)

    @jax.jit
    def back(X: Any, gradient: Any) -> Any:
        return jax.vjp(cut, X)[1](gradient)[0]

    return lambda X, step: back(X, pull(cut(X), step))
