"""An encoder as a compiled program: features of records, and gradients brought back to their pixels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array

CACHED_IMAGES = 20

encode = jax.jit(lambda encoder, X: encoder(X), static_argnums=0)
"""Features (n, d) of records (n, ...)."""

pull_back = jax.jit(lambda encoder, X, gradient: jax.vjp(encoder, X)[1](gradient)[0], static_argnums=0)
"""The chain rule from features (n, d) to pixels (n, h, w, c), record by record."""


def encode_slices(encoder: Any, X: Array | np.ndarray) -> np.ndarray:
    """Features (m, d) float32 of a support set, as many records at a time as stay in a processor's cache."""
    return _in_slices(partial(encode, encoder), X)


def pull_back_slices(encoder: Any, X: Array | np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The chain rule from features (m, d) to pixels (m, h, w, c), as many records at a time."""
    return _in_slices(partial(pull_back, encoder), X, gradient.astype(np.float32))


def _in_slices(function: Callable[..., Array], *arrays: Any) -> np.ndarray:
    """function(...) of the rows of arrays, a slice at a time."""
    parts = [slice(i, i + CACHED_IMAGES) for i in range(0, len(arrays[0]), CACHED_IMAGES)]
    return np.concatenate([np.asarray(function(*(a[p] for a in arrays))) for p in parts])
