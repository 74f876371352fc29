"""Features in eight bits a number, to save memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array


@dataclass(frozen=True)
class EightBits:
    """Directions of an encoder's features as int8 codes: a quarter of the memory of float32.

        c_i = rint(127 phi_i / max_j |phi_ij|),   read as phi_i = c_i / ||c_i||

    A record's codes are all zeros if its features are, or if one of them is not finite.

    Args:
        encoder: X (n, h, w, c) -> (n, d), of norm 1.
    """

    encoder: Any

    def __call__(self, X: Array) -> Array:
        phi = self.encoder(X)
        largest = jnp.max(jnp.abs(phi), axis=-1, keepdims=True)
        usable = jnp.isfinite(largest) & (largest > 0)
        return jnp.rint(127.0 * (jnp.where(usable, phi, 0.0) / jnp.where(usable, largest, 1.0))).astype(jnp.int8)


def unit_of(x: Array, dtype: Any) -> Array:
    """Returns the factor that restores one record's features (d,): 1 / ||x|| of int8 codes, so that they have norm 1;
    else 1.
    """
    if x.dtype != jnp.int8:
        return jnp.ones((), dtype)
    return 1.0 / jnp.sqrt(jnp.maximum(jnp.sum(jnp.square(x.astype(dtype))), 1.0))
