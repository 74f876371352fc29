"""Bounds on an attacker against the best one there is, for Gaussians and by the definition."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpdistill.accounting.attacker import RATES, advantage, true_positives
from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.query import Event, Stage


def gaussian(mu):
    return [(1, Event(1.0 / mu))]


@pytest.mark.parametrize("mu", [0.1, 0.27, 1.0, 3.0])
@pytest.mark.parametrize("rate", [*RATES, 0.3, 0.9])
def test_the_best_attack_on_a_gaussian_is_just_below(mu, rate):
    best = norm.cdf(norm.ppf(rate) + mu)  # the likelihood ratio test: nobody does better
    bound = true_positives(gaussian(mu), rate)
    assert best <= bound <= min(1.0, 1.12 * best + 0.02 * (rate > 0.1))


@pytest.mark.parametrize("mu", [0.1, 0.27, 1.0, 3.0])
def test_the_advantage_on_a_gaussian_is_just_below(mu):
    best = 2 * norm.cdf(mu / 2) - 1
    assert best <= advantage(gaussian(mu)) <= best + 0.03


def test_nothing_released_gives_no_advantage():
    """At epsilon = 0 the bound is the smallest delta that is tried: 0 + 2 delta / (1 + 1)."""
    assert advantage([]) == pytest.approx(1e-6, rel=1e-12)


def test_replace_one_tells_more():
    assert true_positives(gaussian(0.5), 0.01, "replace-one") == pytest.approx(true_positives(gaussian(1.0), 0.01))
    assert advantage(gaussian(0.5), "replace-one") == pytest.approx(advantage(gaussian(1.0)))


def test_sampled_rounds_are_bounded_by_what_they_cost():
    schedule = calibrate((Stage(1), Stage(50, 0.1)), Budget(1.0))
    for rate in RATES:
        found = true_positives(schedule.groups, rate)
        assert rate < found <= math.e * rate + 1e-5
    assert 0 < advantage(schedule.groups) <= math.tanh(0.5) + 1e-5


def test_it_rises_with_the_rate_and_ends_at_certainty():
    rates = np.linspace(0, 1, 21)
    found = [true_positives(gaussian(1.0), rate) for rate in rates]
    assert found == sorted(found)
    assert found[-1] == 1.0
    assert all(bound >= rate for bound, rate in zip(found, rates, strict=True))
    assert true_positives(gaussian(1e4), 0.001) == 1.0
    assert true_positives([], 0.05) == pytest.approx(0.05, abs=1e-5)


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan])
def test_what_is_no_rate_is_refused(rate):
    with pytest.raises(ValueError, match=r"Expected 0 <= false_positives="):
        true_positives(gaussian(1.0), rate)
