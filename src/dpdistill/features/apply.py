"""An encoder as a compiled program: features of records, and gradients brought back to their pixels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array

CACHED_IMAGES = 20
MOST_HELD = 1 << 30  # bytes

encode = jax.jit(lambda encoder, X: encoder(X), static_argnums=0)
"""Features (n, d) of records (n, ...)."""

pull_back = jax.jit(lambda encoder, X, gradient: jax.vjp(encoder, X)[1](gradient)[0], static_argnums=0)
"""The chain rule from features (n, d) to pixels (n, h, w, c), record by record."""

with_chain_rule = jax.jit(lambda encoder, X: jax.vjp(encoder, X), static_argnums=0)
"""Features (n, d) of records (n, ...), and their chain rule for `along`.

It holds what it needs of the features until it is dropped, where `pull_back` computes them again; what an encoder does
in pieces (`in_pieces`) is computed again by both.
"""

along = jax.jit(lambda rule, gradient: rule(gradient)[0])
"""A gradient by features (n, d), brought back to pixels (n, h, w, c) by their chain rule."""


def encode_slices(encoder: object, X: Array | np.ndarray) -> np.ndarray:
    """Features (m, d) float32 of a support set, as many records at a time as stay in a processor's cache."""
    return _in_slices(partial(encode, encoder), X)


def pull_back_slices(encoder: object, X: Array | np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The chain rule from features (m, d) to pixels (m, h, w, c), as many records at a time."""
    return _in_slices(partial(pull_back, encoder), X, gradient.astype(np.float32))


def encode_slices_with_chain_rule(
    encoder: object, X: Array | np.ndarray
) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Features (m, d) float32 of a support set, and what brings a gradient by them back to pixels (m, h, w, c).

    Chain rules that would hold more than MOST_HELD together are left out: features are computed again then.
    """
    parts = _slices(len(X))
    found = [with_chain_rule(encoder, X[parts[0]])]
    if len(parts) * sum(leaf.nbytes for leaf in jax.tree.leaves(found[0][1])) > MOST_HELD:
        return encode_slices(encoder, X), partial(pull_back_slices, encoder, X)
    found += [with_chain_rule(encoder, X[part]) for part in parts[1:]]

    def pulled_back(gradient: np.ndarray) -> np.ndarray:
        gradient = gradient.astype(np.float32)
        return np.concatenate([along(rule, gradient[part]) for (_, rule), part in zip(found, parts, strict=True)])

    return np.concatenate([features for features, _ in found]), pulled_back


def _in_slices(function: Callable[..., Array], *arrays: Any) -> np.ndarray:
    """function(...) of the rows of arrays, a slice at a time."""
    return np.concatenate([np.asarray(function(*(a[p] for a in arrays))) for p in _slices(len(arrays[0]))])


def _slices(m: int) -> list[slice]:
    return [slice(i, i + CACHED_IMAGES) for i in range(0, m, CACHED_IMAGES)]
