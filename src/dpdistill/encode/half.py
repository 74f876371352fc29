"""Features in half precision, for those who keep many of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array


@dataclass(frozen=True)
class HalfPrecision:
    """The features of an encoder rounded to float16: half the memory; an error of at most 2^-11 of a coordinate.

    Args:
        encoder: X (n, h, w, c) -> (n, d), of norm 1.
    """

    encoder: Any

    def __call__(self, X: Array) -> Array:
        return self.encoder(X).astype(jnp.float16)
