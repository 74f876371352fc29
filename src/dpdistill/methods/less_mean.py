"""A private linear classifier that does not see what features have in common: their mean, and gradients without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array

from dpdistill.methods.softmax import ROUNDING, SoftmaxQuery
from dpdistill.query import MOST_ROWS


@dataclass(frozen=True)
class MeanQuery:
    """The sum of features, u_i = phi_i, for records of norm at most 1 in feature space.

    Params: an empty array, float64.

    Args:
        clip_norm: L2 bound of one record's contribution; 1 clips nothing.
        encoder: fixed features of a record, X (n, ...) -> (n, d).

    Guarantee:
        The norm is a sum of squares in float64, of relative error below (d + 16) u, u = 2^-53; it is multiplied by
        1 + 2^-20 (d < 2^32). A share of the weighted sum has norm at most C and is added up with at most 127 others in
        a block: error_bound = (128 + 4) u C.
    Source: Dwork et al., 2006 (Calibrating noise to sensitivity in private data analysis).
    """

    clip_norm: float
    encoder: Any
    by_class: bool = False

    @property
    def error_bound(self) -> float:
        return (MOST_ROWS + 4) * ROUNDING * self.clip_norm

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        return x.astype(params.dtype)

    def prepare(self, params: Any) -> Any:
        return params

    def coefficients(self, params: Any, x: Array, y: Array) -> Array:
        return x

    def norm(self, params: Any, coefficients: Array) -> Array:
        return jnp.sqrt(jnp.sum(jnp.square(coefficients.astype(jnp.float64)))) * (1 + 2.0**-20)

    def weighted_sum(self, params: Any, coefficients: Array, w: Array) -> Array:
        return w @ coefficients.astype(jnp.float64)


@dataclass(frozen=True)
class LessMeanQuery(SoftmaxQuery):
    """The same gradient as SoftmaxQuery's, of features less their part in the direction of the mean.

        u_i = psi_i (p_i - y_i)^T,   p_i = softmax(psi_i W),   psi_i = phi_i - h <h, phi_i>

    What all records share takes norm, which noise has to hide, and tells no classes apart.

    Params: {"W": (d, classes), "h": (d,)}, float64.

    Guarantee:
        psi_i is a coefficient, as phi_i is in SoftmaxQuery: norm, sum and error_bound are those of that query.
    Source: ours.
    """

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        return super().contribution(params["W"], _less(params["h"], x.astype(params["h"].dtype)), y)

    def coefficients(self, params: Any, x: Array, y: Array) -> tuple[Array, Array]:
        dtype = jnp.promote_types(x.dtype, jnp.float32)
        return super().coefficients(params["W"], _less(params["h"].astype(dtype), x.astype(dtype)), y)


def _less(h: Array, phi: Array) -> Array:
    return phi - h * (h @ phi)
