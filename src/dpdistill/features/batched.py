"""Applies functions to a few records at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap

WHOLE: ContextVar[bool] = ContextVar("whole", default=False)
"""True while a function is traced for another program, which chooses the number of records at a time itself."""


def in_pieces(function: Callable[[Array], Array], most: int) -> Callable[[Array], Array]:
    """Returns a function of n records that is applied to few at a time, so that they fit a processor's cache.

    Its derivative, in reverse mode only, also takes a few records at a time, and keeps nothing but the records.

    Args:
        function: function of n records, record by record.
        most: records at a time; at least one is taken.
    """

    @jax.custom_vjp
    def apply(X: Array) -> Array:
        return _mapped(function, most)(X)

    def forward(X: Array) -> tuple[Array, Array]:
        return apply(X), X

    def backward(X: Array, cotangent: Array) -> tuple[Array]:
        return (_mapped(lambda X, cotangent: jax.vjp(function, X)[1](cotangent)[0], most)(X, cotangent),)

    apply.defvjp(forward, backward)
    return apply


def _mapped(function: Callable[..., Array], most: int) -> Callable[..., Array]:
    """Returns a function of arrays of n records each, applied in pieces.

    Its vmap is the function of more records, which keeps a convenient layout.
    """
    most = max(1, most)

    @custom_vmap
    def apply(*arrays: Array) -> Array:
        n = len(arrays[0])
        if n <= most or WHOLE.get():
            return function(*arrays)
        pieces = -(-n // most)
        size = -(-n // pieces)
        arrays = tuple(jnp.pad(a, ((0, pieces * size - n), *[(0, 0)] * (a.ndim - 1))) for a in arrays)
        Y = jax.lax.map(lambda piece: function(*piece), tuple(a.reshape(pieces, size, *a.shape[1:]) for a in arrays))
        return Y.reshape(pieces * size, *Y.shape[2:])[:n]

    @apply.def_vmap
    def _(copies: int, batched: Sequence[bool], *arrays: Array) -> tuple[Array, bool]:
        full = [a if b else jnp.broadcast_to(a, (copies, *a.shape)) for a, b in zip(arrays, batched, strict=True)]
        Y = apply(*(a.reshape(-1, *a.shape[2:]) for a in full))
        return Y.reshape(copies, -1, *Y.shape[1:]), True

    return apply
