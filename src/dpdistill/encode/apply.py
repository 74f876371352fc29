"""An encoder as a compiled program: features of records, and gradients brought back to their pixels."""

from __future__ import annotations

import jax

encode = jax.jit(lambda encoder, X: encoder(X), static_argnums=0)
"""Features (n, d) of records (n, ...)."""

pull_back = jax.jit(lambda encoder, X, gradient: jax.vjp(encoder, X)[1](gradient)[0], static_argnums=0)
"""The chain rule from features (n, d) to pixels (n, h, w, c), record by record."""
