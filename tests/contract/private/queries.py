"""Queries and encoders of our own: the simplest there are, and some that nobody should write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class UnitQuery:
    """What the queries below have in common."""

    clip_norm: float = 1.0
    by_class: bool = True
    encoder: Any = None


@dataclass(frozen=True)
class FlatQuery(UnitQuery):
    """The record times params, flattened; its norm is what the record makes it."""

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        return jnp.ravel(x) * params


@dataclass(frozen=True)
class FlatLinear(UnitQuery):
    """The records, flattened, as a linear query: bounds of their norms and a weighted sum, in float64.

    A sum of 64 squares in float64 and its root are off by less than 2^-40, relatively.
    """

    by_class: bool = False
    error_bound: float = 0.0

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        return jnp.ravel(x)

    def prepare(self, params: Any) -> Any:
        return params

    def coefficients(self, params: Any, x: Any, y: Any) -> Any:
        return x.ravel().astype(jnp.float64)

    def norm(self, params: Any, x: Any) -> Any:
        return jnp.linalg.norm(x) * (1 + 2.0**-40)

    def weighted_sum(self, params: Any, X: Any, w: Any) -> Any:
        return w @ X


@dataclass(frozen=True)
class ZeroQuery(UnitQuery):
    """Nothing but noise, so many coordinates a class."""

    dimension: int = 1

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        return jnp.zeros(self.dimension)


@dataclass(frozen=True)
class CountQuery(UnitQuery):
    """One for every record, in its class."""

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        return jnp.ones(1)


@dataclass(frozen=True)
class FeaturesQuery(UnitQuery):
    """What an encoder makes of a record, as it is: its integers show every bit that counts."""

    by_class: bool = False

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        return x


@dataclass(frozen=True)
class PrintingQuery(UnitQuery):
    """A contribution that speaks while it is computed."""

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        jax.debug.print("{}", x.mean())
        return jnp.ravel(x)


@dataclass(frozen=True)
class MixingEncoder:
    """What an encoder must not do: subtract half the mean of all rows it is given."""

    def __call__(self, X: Any) -> Any:
        return X - X.mean(0, keepdims=True) / 2


@dataclass(frozen=True)
class Halve:
    """An encoder whose arithmetic is exact."""

    def __call__(self, X: Any) -> Any:
        return X.reshape(X.shape[0], -1) / 2


@dataclass(frozen=True)
class MixingRows(UnitQuery):
    """A contribution or an encoder whose own batching rule subtracts the mean of the rows."""

    def __call__(self, X: Any) -> Any:
        return centred(X).reshape(len(X), -1)


@jax.custom_batching.custom_vmap
def centred(x: Any) -> Any:
    return x


@centred.def_vmap
def _(axis_size: int, in_batched: Any, x: Any) -> Any:
    return x - 0.1 * x.mean(0, keepdims=True), True
