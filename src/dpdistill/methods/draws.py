"""Draws public random numbers from a key."""

from __future__ import annotations

import jax
import numpy as np
from jax import Array


def rng_of(key: Array | np.ndarray) -> np.random.Generator:
    """Returns NumPy's generator, seeded by a JAX key: JAX would compile a program for every shape, in a second."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))
