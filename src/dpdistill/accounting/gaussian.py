"""The Gaussian mechanism in closed form: epsilon, delta and the noise multiplier from each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

Adjacency = Literal["add-remove", "replace-one"]
MIN_DELTA = 1e-300
_SMALL = 1e-3


def sensitivity_factor(adjacency: str) -> float:
    """Returns the sensitivity of a clipped sum in units of clip_norm: 1 under add-remove, 2 under replace-one.

    Raises:
        ValueError: another adjacency.
    """
    if adjacency not in get_args(Adjacency):
        raise ValueError(f"Expected adjacency 'add-remove' or 'replace-one'; got {adjacency!r}.")
    return 1.0 if adjacency == "add-remove" else 2.0


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Returns the zero of a continuous function that changes sign between low and high (Brent 1973)."""
    from scipy.optimize import brentq

    return brentq(function, low, high, xtol=1e-14, rtol=1e-13)  # pyright: ignore[reportReturnType, reportArgumentType]


def check_delta(delta: float) -> None:
    """Raises ValueError unless 0 < delta < 1, and delta is large enough for its logarithm to be inverted."""
    if not 0.0 < delta < 1.0:
        raise ValueError(f"Expected 0 < delta={delta} < 1.")
    if delta < MIN_DELTA:
        raise ValueError(f"Expected {MIN_DELTA:g} <= delta={delta} < 1.")


def check_noise_multiplier(noise_multiplier: float) -> None:
    """Raises ValueError unless noise_multiplier and its square are > 0 and finite."""
    if isinstance(noise_multiplier, bool) or not 0.0 < noise_multiplier < math.inf:
        raise ValueError(f"Expected noise_multiplier={noise_multiplier} > 0 and finite.")
    if not 1e-150 <= noise_multiplier <= 1e150:
        raise ValueError(f"Expected 1e-150 <= noise_multiplier={noise_multiplier} <= 1e150.")


def gaussian_delta(noise_multiplier: float, epsilon: float, adjacency: Adjacency = "add-remove") -> float:
    """Returns the smallest delta at which one Gaussian release is (epsilon, delta)-private.

        delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu),   mu = (1 or 2) / noise_multiplier

    Args:
        noise_multiplier: sigma = stddev / clip_norm, > 0; of T full-batch rounds it is (sum_t sigma_t^-2)^(-1/2).
        epsilon: >= 0.
        adjacency: "add-remove" (mu = 1/sigma) or "replace-one" (mu = 2/sigma).

    Returns:
        delta in [0, 1].

    Raises:
        ValueError: an argument out of its bounds.

    Source:
        Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022 for the composition in mu.
    """
    check_noise_multiplier(noise_multiplier)
    if not epsilon >= 0.0:
        raise ValueError(f"Expected epsilon={epsilon} >= 0.")
    return _delta(sensitivity_factor(adjacency) / noise_multiplier, epsilon)


def _delta(mu: float, epsilon: float) -> float:
    from scipy.special import erfcx, ndtr  # imported here, since the import takes a tenth of a second

    t, s = mu / 2 - epsilon / mu, mu / 2 + epsilon / mu
    # e^epsilon phi(s) = phi(t), so both terms share the factor phi(t) and the difference keeps its relative precision.
    phi = math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    mills = math.sqrt(math.pi / 2)
    if t > 0 and mu >= _SMALL:
        return max(0.0, float(ndtr(t) - phi * mills * erfcx(s / math.sqrt(2))))
    if mu >= _SMALL:
        return max(0.0, phi * mills * float(erfcx(-t / math.sqrt(2)) - erfcx(s / math.sqrt(2))))
    # erfcx(x - h) - erfcx(x + h) = -2 h erfcx'(x) - h^3 / 3 erfcx'''(x) - ..., for h so small that it cancels.
    x, h = epsilon / mu / math.sqrt(2), mu / math.sqrt(8)
    value = float(erfcx(x))
    first = 2 * x * value - 2 / math.sqrt(math.pi)
    third = 4 * first + 2 * x * (2 * value + 2 * x * first)
    return max(0.0, phi * mills * (-2 * h * first - h**3 / 3 * third))


def gaussian_epsilon(noise_multiplier: float, delta: float, adjacency: Adjacency = "add-remove") -> float:
    """Returns the smallest epsilon at which one Gaussian release is (epsilon, delta)-private, from gaussian_delta.

    Args:
        noise_multiplier: sigma = stddev / clip_norm, > 0.
        delta: in (0, 1); tested from 1e-12.
        adjacency: "add-remove" or "replace-one".

    Returns:
        epsilon >= 0.

    Raises:
        ValueError: an argument out of its bounds.

    Source:
        Balle and Wang 2018, Theorem 8.
    """
    from scipy.special import ndtri

    check_noise_multiplier(noise_multiplier)
    check_delta(delta)
    mu = sensitivity_factor(adjacency) / noise_multiplier
    if _delta(mu, 0.0) <= delta:
        return 0.0
    upper = (mu * mu / 2 - mu * float(ndtri(delta))) * (1 + 1e-9)
    return upper * root(lambda share: _log_excess(mu, share * upper, delta), 0.0, 1.0)


def gaussian_noise_multiplier(epsilon: float, delta: float, adjacency: Adjacency = "add-remove") -> float:
    """Returns the smallest noise multiplier of an (epsilon, delta)-private Gaussian release, rounded up by 1e-10.

    Args:
        epsilon: > 0 and finite; tested from 1e-3 to 100.
        delta: in (0, 1); tested from 1e-12.
        adjacency: "add-remove" or "replace-one" (twice as much noise).

    Returns:
        sigma = stddev / clip_norm.

    Raises:
        ValueError: an argument out of its bounds.

    Source:
        Balle and Wang 2018, Algorithm 1.
    """
    from scipy.special import ndtri

    if not 0.0 < epsilon < math.inf:
        raise ValueError(f"Expected epsilon={epsilon} > 0 and finite.")
    check_delta(delta)
    factor = sensitivity_factor(adjacency)
    z = max(1.0, abs(float(ndtri(delta))))
    # _delta is above the target at the upper end (t >= z) and below it at the lower end (delta <= mu).
    low, high = math.log(delta / 4), math.log(2 * z + math.sqrt(4 * z * z + 2 * epsilon))
    log_mu = root(lambda u: _log_excess(math.exp(u), epsilon, delta), low, high)
    return factor / math.exp(log_mu) * (1 + 1e-10)


def _log_excess(mu: float, epsilon: float, delta: float) -> float:
    return math.log(max(_delta(mu, epsilon), 1e-320) / delta)
