"""Arc-cosine kernels of ReLU layers: inner products of two correlated Gaussians after a ReLU."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


def _arccos_polynomial(degree: int) -> tuple[float, ...]:
    """Returns coefficients in u = 2a - 1, highest first, of arccos(a) / sqrt(1 - a) on [0, 1], by interpolation."""

    def ratio(u):
        return np.arccos((u + 1) / 2) / np.sqrt((1 - u) / 2)

    series = np.polynomial.chebyshev.chebinterpolate(ratio, degree)
    return tuple(float(k) for k in np.polynomial.chebyshev.cheb2poly(series)[::-1])


# The singularity next to [0, 1] is at a = -1: a degree gives a factor of 3 + sqrt(8) = 5.8.
SINGLE, DOUBLE = _arccos_polynomial(8), _arccos_polynomial(21)


@jax.custom_jvp
def arc_cosines(cosine: Array) -> tuple[Array, Array]:
    """Returns arc-cosine kernels kappa_0 = (pi - t) / pi and kappa_1 = (sin t + (pi - t) cos t) / pi of cos t.

    A polynomial replaces `arccos`: XLA's own is not vectorised on a CPU and takes ten times as long. The derivative of
    kappa_0 at cos t = +-1 is infinite and taken as 0: two coinciding records are a cusp.
    """
    coefficients = DOUBLE if jnp.finfo(cosine.dtype).bits > 32 else SINGLE
    a = jnp.abs(cosine)
    a = jnp.where(a < _almost_one(cosine), a, 1)
    p = jnp.full_like(a, coefficients[0])
    for k in coefficients[1:]:
        p = p * (2 * a - 1) + k
    angle = jnp.sqrt(1 - a) * p
    kappa_0 = jnp.where(cosine < 0, angle, np.pi - angle) / np.pi
    return kappa_0, jnp.sqrt((1 - a) * (1 + a)) / np.pi + kappa_0 * cosine


@arc_cosines.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    (cosine,), (tangent,) = primals, tangents
    kappa_0, kappa_1 = arc_cosines(cosine)
    smooth = jnp.abs(cosine) < _almost_one(cosine)
    sine = jnp.sqrt(jnp.where(smooth, 1 - jnp.square(cosine), 1))
    return (kappa_0, kappa_1), (jnp.where(smooth, tangent / (np.pi * sine), 0), kappa_0 * tangent)


def _almost_one(cosine: Array) -> float:
    """Returns the largest cosine that is not 1 up to rounding: arccos would amplify an error u to sqrt(2 u)."""
    return 1.0 - 32 * float(jnp.finfo(cosine.dtype).eps)
