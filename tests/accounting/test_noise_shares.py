"""How many shares of noise several owners add, and how far their sum is from a rounded Gaussian."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpdistill.accounting.noise_shares import (
    check_aliasing,
    default_dropouts,
    log10_aliasing,
    log_total_variation,
    noise_shares,
)

HALF = 200
FINE = 64
"""Points of a grid step at which densities are convolved."""


def rounded(variance):
    """P(m) of a rounded Gaussian for |m| <= HALF."""
    edges = np.arange(-HALF, HALF + 2) - 0.5
    return np.diff(norm.cdf(edges, scale=math.sqrt(variance)))


def total_variation(variance, shares):
    """TV between the sum of rounded Gaussians and the rounded sum of Gaussians and shares - 1 uniforms, by numbers."""
    one = rounded(variance)
    of_rounded = one
    for _ in range(shares - 1):
        of_rounded = np.convolve(of_rounded, one)[HALF:-HALF]
    # The density of Z + U_1 + ... + U_m at the integers: the characteristic function, inverted by the trapezoidal rule.
    t = np.linspace(-60.0, 60.0, 240_001)
    spectrum = np.exp(-shares * variance * t**2 / 2) * np.sinc(t / (2 * np.pi)) ** shares
    points = np.arange(-HALF, HALF + 1)
    density = np.array([np.sum(spectrum * np.cos(t * x)) for x in points]) * (t[1] - t[0]) / (2 * np.pi)
    return 0.5 * np.abs(of_rounded - density).sum()


@pytest.mark.parametrize(("variance", "shares"), [(0.2, 2), (0.5, 2), (1.0, 2), (0.5, 3), (0.8, 3), (0.8, 5), (1.0, 9)])
def test_the_bound_holds_where_aliasing_can_be_computed(variance, shares):
    exact, bound = total_variation(variance, shares), math.exp(log_total_variation(variance, shares))
    assert exact <= bound
    assert exact > 1e-16  # the comparison is not one of zeros


def test_two_shares_have_aliasing_of_the_stated_order():
    # exp(-pi^2 v) for two shares: the bound has twice the exponent per unit of variance that it claims, and no more.
    first, second = (log_total_variation(v, 2) for v in (10.0, 11.0))
    assert second - first == pytest.approx(-(math.pi**2) / 2, abs=0.1)


@pytest.mark.parametrize(
    ("owners", "dropouts", "colluders", "shares"),
    [(3, 0, 1, 2), (4, 1, 1, 2), (10, 1, 1, 8), (5, 1, 2, 2), (3, 0, 2, 1)],
)
def test_shares_are_the_honest_owners_of_the_shortest_list(owners, dropouts, colluders, shares):
    assert noise_shares(owners, dropouts, colluders) == shares


@pytest.mark.parametrize(
    ("owners", "dropouts", "colluders", "found"),
    [
        (3, 1, 1, "owners=3 > 2 dropouts"),
        (4, 1, 2, "owners=4 > 2 dropouts"),
        (2, 0, 1, "owners=2 as a whole number >= 3"),
        (3, -1, 1, "dropouts=-1 as a whole"),
        (3, 0, 0, "colluders=0 as a whole"),
        (3.0, 0, 1, "owners=3.0 as a whole"),
    ],
)
def test_unsafe_numbers_are_refused(owners, dropouts, colluders, found):
    with pytest.raises(ValueError, match=found):
        noise_shares(owners, dropouts, colluders)


def test_every_accepted_number_leaves_an_honest_owner_in_two_lists():
    accepted = 0
    for n in range(3, 14):
        for d in range(n):
            for c in range(1, n):
                try:
                    m = noise_shares(n, d, c)
                except ValueError:
                    assert 2 * (n - d) - n <= c
                    continue
                accepted += 1
                assert m >= 1
                assert 2 * (n - d) - n > c
    assert accepted > 50


def test_defaults_are_accepted():
    for n in range(3, 20):
        assert noise_shares(n, default_dropouts(n), 1) == (2 if n == 3 else n - 2)


def test_aliasing_of_a_plan_is_negligible():
    assert log10_aliasing([3.73], 1.0, 1, linear=False) is None
    grid, linear = log10_aliasing([3.73], 1.0, 2, linear=False), log10_aliasing([3.73], 1.0, 2, linear=True)
    assert grid == pytest.approx(-(math.pi**2) * 2**40 / 4 / math.log(10), rel=1e-6)
    assert linear == pytest.approx(-(math.pi**2) * (7460.0**2) / 4 / math.log(10), rel=1e-4)
    assert log10_aliasing([3.73, 1.0], 1.0, 2, linear=True) > linear  # the round with the least noise counts
    check_aliasing(None)
    check_aliasing(linear)
    with pytest.raises(ValueError, match="aliasing of at most 1e-100"):
        check_aliasing(log10_aliasing([0.002], 1.0, 200, linear=True))
