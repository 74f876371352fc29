"""Noise that several owners add in shares: how many shares, and how far their sum is from a rounded Gaussian."""

from __future__ import annotations

import math
from collections.abc import Iterable

LEAST_OWNERS = 3
LEAST_STEPS = 2.0**20
"""Least standard deviation, in grid steps, of the noise of a round: K >= 2^20 / noise_multiplier."""
LEAST_LINEAR_STEPS = 2000.0
"""Least standard deviation of a linear query, divided by its noise multiplier: step <= 5e-4 clip_norm."""
MOST_NUMBERS = 2**50
"""Largest count of released numbers of a run for which the aliasing is stated."""
MOST_ALIASING = -100.0
"""Largest aliasing of an accepted plan, as a power of ten."""


def default_dropouts(owners: int) -> int:
    """Returns the default number of owners that may drop out of a round: none of three, one of four or more."""
    return 0 if owners < 4 else 1


def noise_shares(owners: int, dropouts: int, colluders: int) -> int:
    """Returns m = n - d - c, the number of honest owners in the shortest list: each adds variance / m.

    Args:
        owners: n >= 3.
        dropouts: d >= 0, owners that may be missing in the sum of a round.
        colluders: c >= 1, owners that may tell their noise and masks to the coordinator.

    Raises:
        ValueError: unless n > 2d + c, so that two lists of n - d owners have an honest owner in common.
    """
    for name, number, least in (
        ("owners", owners, LEAST_OWNERS),
        ("dropouts", dropouts, 0),
        ("colluders", colluders, 1),
    ):
        if type(number) is not int or number < least:
            raise ValueError(f"Expected {name}={number!r:.80} as a whole number >= {least}.")
    if owners <= 2 * dropouts + colluders:
        raise ValueError(
            f"Expected owners={owners} > 2 dropouts + colluders = {2 * dropouts + colluders}: otherwise a round could "
            "be unmasked with two lists without a common honest owner, which shows single owners' sums."
        )
    return owners - dropouts - colluders


def log10_aliasing(noise_multipliers: Iterable[float], epsilon: float, shares: int, linear: bool) -> float | None:
    """Returns log10 of a bound of what delta grows by because the sum of rounded shares is no rounded sum.

        delta' = delta + (1 + e^epsilon) 2^50 TV,   TV of one number by `log_total_variation`, v = s^2 / m

    Args:
        noise_multipliers: of all rounds; the smallest one counts.
        epsilon: epsilon of the claim.
        shares: m >= 1.
        linear: True if linear queries may be asked, whose steps are wider.

    Returns:
        The power of ten; None for one share, which is a rounded Gaussian itself.

    Source: Theorem 10 of docs/specification.md.
    """
    if shares == 1:
        return None
    m, least = shares, min(noise_multipliers)
    s = min(LEAST_STEPS, LEAST_LINEAR_STEPS * least) if linear else LEAST_STEPS
    return (math.log(MOST_NUMBERS) + epsilon + math.log(2.0) + log_total_variation(s**2 / m, m)) / math.log(10.0)


def log_total_variation(variance: float, shares: int) -> float:
    """Returns the logarithm of a bound of the total variation between two laws of one number.

    They are the law of the sum of m >= 2 rounded Gaussians of variance v, and that of the rounded sum of these
    Gaussians and of m - 1 uniforms, which is post-processing of the Gaussian mechanism.

        TV <= (R + 1/2) eta + 2 e^-L,   L = pi^2 v (m - 1) / m,   R = m/2 + sqrt(2 m v L)
        eta = (2 pi m v)^(-1/2) e^-L theta^(m - 1),   theta = 1 + 2 / (e^a - 1),   a = pi^2 v / m

    Args:
        variance: v > 0, in grid steps squared.
        shares: m >= 2.

    Source: Theorem 10 of docs/specification.md.
    """
    v, m = variance, shares
    L, a = math.pi**2 * v * (m - 1) / m, math.pi**2 * v / m
    R = m / 2 + math.sqrt(2 * m * v * L)
    log_theta = math.log1p(2.0 / math.expm1(a)) if a < 700.0 else 0.0
    log_eta = -0.5 * math.log(2 * math.pi * m * v) - L + (m - 1) * log_theta
    return max(math.log(R + 0.5) + log_eta, math.log(2.0) - L) + math.log(2.0)


def check_aliasing(aliasing: float | None) -> None:
    """Refuses a plan whose aliasing is not negligible.

    Raises:
        ValueError: more than 1e-100.
    """
    if aliasing is not None and not aliasing <= MOST_ALIASING:
        raise ValueError(
            f"Expected an aliasing of at most 1e-100; got 10^{aliasing:.1f}: use fewer owners or more noise."
        )
