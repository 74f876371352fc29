"""How DP-KIP's gradient is asked: by a linear query where the kernel has one, and brought back to records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpdistill.features.apply import encode_slices, pull_back_slices
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import one_hot
from dpdistill.methods.kip_gradient import FCNTKGradient, FeatureGradient, PlainGradient
from dpdistill.methods.support import fc_ntk_params, feature_params
from dpdistill.query import Query


@dataclass(frozen=True)
class Route:
    """A query for the gradient with a kernel, its params, and the way back to the support set.

    This one takes any kernel: a back-propagation a record, clipped by the curator.

    Attributes:
        linear: whether the query is a linear one; classes may weigh differently then.
    """

    kernel: Any
    clip_norm: float
    ridge: float

    linear: ClassVar[bool] = False

    def query(self, m: int) -> Query:
        """The query of every round for m support records."""
        return PlainGradient(self.clip_norm, self.kernel, self.ridge)

    def params(self, X: np.ndarray, y: np.ndarray, classes: int, weights: np.ndarray) -> Any:
        """Its params for a support set (X, y) and weights of the classes, (classes,)."""
        return {"X_s": X, "Y_s": one_hot(y, classes)}

    def by_record(self, X: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """A released gradient (m, d) with respect to the support records."""
        return gradient


class ByPixel(Route):
    """Ghost clipping for the FC-NTK, a function of inner products."""

    linear = True

    def query(self, m: int) -> Query:
        return FCNTKGradient(self.clip_norm, self.kernel, self.ridge, m)

    def params(self, X: np.ndarray, y: np.ndarray, classes: int, weights: np.ndarray) -> Any:
        return fc_ntk_params(self.kernel, X, y, classes, self.ridge, weights)


class ByFeature(Route):
    """Ghost clipping with respect to fixed features; records follow by the chain rule, at no cost."""

    linear = True

    def query(self, m: int) -> Query:
        return FeatureGradient(self.clip_norm, self.kernel.features, self.ridge, m)

    def params(self, X: np.ndarray, y: np.ndarray, classes: int, weights: np.ndarray) -> Any:
        return feature_params(encode_slices(self.kernel.features, X), y, classes, self.ridge, weights)

    def by_record(self, X: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        return pull_back_slices(self.kernel.features, X, gradient)


ROUTES: dict[type, type[Route]] = {FCNTK: ByPixel, FeatureKernel: ByFeature}
"""The kernels whose gradients need not be formed."""


def route_of(kernel: Any, clip_norm: float, ridge: float) -> Route:
    """How the gradient with a kernel is asked."""
    return ROUTES.get(type(kernel), Route)(kernel, clip_norm, ridge)
