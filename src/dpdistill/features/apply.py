"""Applies an encoder as a compiled program: features of records, and gradients with respect to their pixels."""

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
"""Returns features (n, d) of records (n, ...)."""

pull_back = jax.jit(lambda encoder, X, gradient: jax.vjp(encoder, X)[1](gradient)[0], static_argnums=0)
"""Returns gradients by pixels (n, h, w, c) from gradients by features (n, d), record by record."""

with_chain_rule = jax.jit(lambda encoder, X: jax.vjp(encoder, X), static_argnums=0)
"""Returns features (n, d) of records (n, ...), and their chain rule for `along`.

The chain rule keeps intermediate values in memory until it is dropped, whereas `pull_back` computes them again.
Encoders with `in_pieces` are computed again in both cases.
"""

along = jax.jit(lambda rule, gradient: rule(gradient)[0])
"""Returns gradients by pixels (n, h, w, c) from gradients by features (n, d) and their chain rule."""


def encode_slices(encoder: object, X: Array | np.ndarray) -> np.ndarray:
    """Returns features (m, d) float32 of a support set, with as many records at a time as fit a processor's cache."""
    return _in_slices(partial(encode, encoder), X)


def pull_back_slices(encoder: object, X: Array | np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Returns gradients by pixels (m, h, w, c) from gradients by features (m, d), with as many records at a time."""
    return _in_slices(partial(pull_back, encoder), X, gradient.astype(np.float32))


def encode_slices_with_chain_rule(
    encoder: object, X: Array | np.ndarray
) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Returns features (m, d) float32 of a support set, and a function from gradients by features to those by pixels.

    Chain rules that need more than MOST_HELD together are not kept: features are computed again in that case.
    """
    parts = _slices(len(X))
    result = [with_chain_rule(encoder, X[parts[0]])]
    if len(parts) * sum(leaf.nbytes for leaf in jax.tree.leaves(result[0][1])) > MOST_HELD:
        return encode_slices(encoder, X), partial(pull_back_slices, encoder, X)
    result += [with_chain_rule(encoder, X[part]) for part in parts[1:]]

    def pulled_back(gradient: np.ndarray) -> np.ndarray:
        gradient = gradient.astype(np.float32)
        return np.concatenate([along(rule, gradient[part]) for (_, rule), part in zip(result, parts, strict=True)])

    return np.concatenate([features for features, _ in result]), pulled_back


def _in_slices(function: Callable[..., Array], *arrays: Any) -> np.ndarray:
    """Returns function(...) of the rows of arrays, computed in slices."""
    return np.concatenate([np.asarray(function(*(a[p] for a in arrays))) for p in _slices(len(arrays[0]))])


def _slices(m: int) -> list[slice]:
    return [slice(i, i + CACHED_IMAGES) for i in range(0, m, CACHED_IMAGES)]
