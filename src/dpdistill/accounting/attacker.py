"""Bounds on an attacker who asks whether one record was used, from the guarantee."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dpdistill.accounting.gaussian import Adjacency
from dpdistill.accounting.pld import compose
from dpdistill.accounting.schedule import Group, Schedule

DELTAS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)
RATES = (0.001, 0.01, 0.05)
"""False-positive rates at which attacks are judged."""


def true_positives(groups: Iterable[Group], false_positives: float, adjacency: Adjacency = "add-remove") -> float:
    """Returns an upper bound of any attacker's true-positive rate at a false-positive rate (FPR).

        min over delta of  min(e^epsilon(delta) FPR + delta,  1 - e^-epsilon(delta) (1 - delta - FPR))

    Args:
        groups: (rounds, event) of everything released.
        false_positives: FPR, in [0, 1].
        adjacency: adjacency of the guarantee.

    Raises:
        ValueError: a rate outside of [0, 1].

    Guarantee: it holds for every attacker, whatever is known of the other records; every delta gives a bound. Source:
    Kairouz, Oh & Viswanath, 2015 (The composition theorem for differential privacy), theorem 2.1.
    """
    if not 0.0 <= false_positives <= 1.0:
        raise ValueError(f"Expected 0 <= false_positives={false_positives} <= 1.")
    bound, groups = 1.0, tuple(groups)
    for delta in DELTAS:
        epsilon = min(compose(groups, delta, adjacency), 700.0)
        missed = math.exp(-epsilon) * max(0.0, 1.0 - delta - false_positives)
        bound = min(bound, math.exp(epsilon) * false_positives + delta, 1.0 - missed)
    return bound


def advantage(groups: Iterable[Group], adjacency: Adjacency = "add-remove") -> float:
    """Returns the largest difference of any attacker's two rates: the total variation of the releases.

    min over delta of  (e^epsilon - 1 + 2 delta) / (e^epsilon + 1)
    """
    bound, groups = 1.0, tuple(groups)
    for delta in DELTAS:
        epsilon = compose(groups, delta, adjacency)
        bound = min(bound, math.tanh(epsilon / 2.0) + 2.0 * delta / (math.exp(min(epsilon, 700.0)) + 1.0))
    return bound


def attacker(schedule: Schedule) -> dict[float | str, float]:
    """Returns upper bounds for attackers on a run: true-positive rate by false-positive rate, and the "advantage"."""
    groups, adjacency = schedule.groups, schedule.budget.adjacency
    rates: dict[float | str, float] = {rate: true_positives(groups, rate, adjacency) for rate in RATES}
    return {**rates, "advantage": advantage(groups, adjacency)}
