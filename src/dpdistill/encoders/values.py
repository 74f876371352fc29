"""Values of a graph: constants in NumPy, and what depends on the image in JAX."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.encoders.onnx_file import Refused

MOST_NUMBERS = 2**26
"""Numbers in the largest value of one record: 256 MiB."""


@dataclass(frozen=True, eq=False)
class Maps:
    """Maps (n, h, w, c) with channels last, in which a CPU computes faster, for ONNX's (n, c, h, w)."""

    array: jax.Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in ONNX's order."""
        n, h, w, c = self.array.shape
        return n, c, h, w


Value = Any
"""A constant (NumPy), an array that depends on the image (JAX), or maps of the image (Maps); None if omitted."""


def plain(value: Value) -> Value:
    """Returns a value in ONNX's order of axes."""
    return jnp.moveaxis(value.array, 3, 1) if isinstance(value, Maps) else value


def channels_last(value: Value) -> jax.Array:
    """Returns maps (n, h, w, c).

    Raises:
        Refused: a value with another number of axes.
    """
    if isinstance(value, Maps):
        return value.array
    if np.ndim(value) != 4:
        raise Refused(f"Expected maps of an image (n, channels, height, width); got the shape {np.shape(value)}.")
    return jnp.moveaxis(jnp.asarray(value), 1, 3)


def constant(value: Value, what: str) -> np.ndarray:
    """Returns a value that must be the same for all images.

    Raises:
        Refused: the value depends on the image.
    """
    if not isinstance(value, np.ndarray):
        raise Refused(f"Expected {what} that is the same for all images: a network may not decide on its data.")
    return value


def integers(value: Value, what: str) -> tuple[int, ...]:
    """Returns the whole numbers of a constant, such as a shape or axes."""
    return tuple(int(number) for number in constant(value, what).ravel())


def library(*values: Value) -> Any:
    """Returns the module that computes with values: NumPy for constants alone."""
    return np if all(isinstance(value, np.ndarray) or np.isscalar(value) for value in values) else jnp


def limited(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns a shape.

    Raises:
        Refused: more numbers than one record may need.
    """
    if any(size < 0 for size in shape) or math.prod(shape) > MOST_NUMBERS:
        raise Refused(
            f"Expected at most {MOST_NUMBERS} numbers in a value of one image; got the shape {(*shape,)!s:.60}."
        )
    return tuple(shape)


def elementwise(function: Callable[..., Any], *values: Value) -> Value:
    """Returns function(library, values...), number by number, with the shapes broadcast; maps stay maps."""
    if any(isinstance(value, Maps) for value in values):
        if all(np.ndim(value) <= 4 for value in values if not isinstance(value, Maps)):
            return Maps(function(jnp, *(_last(value) for value in values)))
        values = tuple(plain(value) for value in values)
    limited(np.broadcast_shapes(*(np.shape(value) for value in values)))
    return function(library(*values), *values)


def _last(value: Value) -> Any:
    """Returns a value that is broadcast against maps, with channels last."""
    if isinstance(value, Maps):
        return value.array
    if np.ndim(value) == 0:
        return value
    return library(value).moveaxis(value.reshape((1,) * (4 - np.ndim(value)) + value.shape), 1, 3)
