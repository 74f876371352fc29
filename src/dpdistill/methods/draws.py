"""Public random numbers of a key."""

from __future__ import annotations

import jax
import numpy as np
from jax import Array


def rng_of(key: Array | np.ndarray) -> np.random.Generator:
    """NumPy's generator, seeded by a key of JAX, whose own draws are a program for every shape: a second to compile."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))
