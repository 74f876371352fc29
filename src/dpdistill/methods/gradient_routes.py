"""Queries for DP-KIP's gradient by kernel: linear where the kernel has a closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpdistill.features.apply import encode_slices, pull_back_slices
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.methods.kip_gradient import FCNTKGradient, FeatureGradient, KernelGradient
from dpdistill.methods.support import fc_ntk_params, feature_params, kernel_params
from dpdistill.query import Query


@dataclass(frozen=True)
class Route:
    """Query for the gradient with a kernel, its params, and the map back to support records.

    The base class takes any kernel: one vector-Jacobian product per record, clipped by the curator.

    Attributes:
        linear: True for a linear query, which allows weights of classes.
    """

    kernel: Any
    clip_norm: float
    ridge: float

    linear: ClassVar[bool] = False

    def query(self, m: int) -> Query:
        """Returns the query of every round for m support records."""
        return KernelGradient(self.clip_norm, self.kernel, self.ridge)

    def params(self, X: np.ndarray, y: np.ndarray, classes: int, weights: np.ndarray) -> Any:
        """Returns the query's params for a support set (X, y) and weights of the classes, (classes,)."""
        return kernel_params(self.kernel, X, y, classes, self.ridge)

    def by_record(self, X: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Returns a released gradient (m, d) with respect to the support records."""
        return gradient


class ByPixel(Route):
    """Route with ghost clipping for the FC-NTK, a function of inner products."""

    linear = True

    def query(self, m: int) -> Query:
        return FCNTKGradient(self.clip_norm, self.kernel, self.ridge, m)

    def params(self, X: np.ndarray, y: np.ndarray, classes: int, weights: np.ndarray) -> Any:
        return fc_ntk_params(self.kernel, X, y, classes, self.ridge, weights)


class ByFeature(Route):
    """Route with ghost clipping with respect to fixed features; records follow by the chain rule."""

    linear = True

    def query(self, m: int) -> Query:
        return FeatureGradient(self.clip_norm, self.kernel.features, self.ridge, m)

    def params(self, X: np.ndarray, y: np.ndarray, classes: int, weights: np.ndarray) -> Any:
        return feature_params(encode_slices(self.kernel.features, X), y, classes, self.ridge, weights)

    def by_record(self, X: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        return pull_back_slices(self.kernel.features, X, gradient)


ROUTES: dict[type, type[Route]] = {FCNTK: ByPixel, FeatureKernel: ByFeature}
"""Routes of kernels whose per-record gradients are never formed."""


def route_of(kernel: Any, clip_norm: float, ridge: float) -> Route:
    """Returns the route of a kernel."""
    return ROUTES.get(type(kernel), Route)(kernel, clip_norm, ridge)
