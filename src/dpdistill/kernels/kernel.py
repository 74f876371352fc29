"""The contract of kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from jax import Array

from dpdistill.recipe import kernels as recipe


class Kernel(recipe.Kernel, ABC):
    """A pure function k(X, Z) of two batches of records: a frozen dataclass, hashable by value, so it compiles once."""

    @property
    def features(self) -> Any:
        """The encoder phi of a kernel <phi(x), phi(z)> of fixed features; None for any other kernel."""
        return None

    @abstractmethod
    def __call__(self, X: Array, Z: Array) -> Array:
        """Returns K (n, m) of records X (n, ...) and Z (m, ...)."""
