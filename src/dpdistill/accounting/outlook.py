"""Noise of a plan compared with records, from public facts only: how many equal records exceed the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dpdistill.accounting.attacker import true_positives
from dpdistill.accounting.gaussian import gaussian_noise_multiplier
from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.query import Event, Stage

HOPELESS = 0.1
"""Signal-to-noise ratio below which a class is not told from noise."""
LARGE_EPSILON = 10.0
"""Above it a guarantee says little; and the noise of a plan with sampled rounds takes minutes to be found."""
ATTACKED_AT = 0.001
"""Share of the outsiders whom an attacker accuses wrongly."""


def records_heard(schedule: Schedule, coordinates: int, stage: int = 0) -> float:
    """Records, all alike, whose sum is as long as the noise that the rounds of a stage leave on it.

        n = sqrt(d) / sqrt(rounds) k sigma / q,   k the rows of a unit that are paid for

    The rounds of a stage are taken as one, averaged: their noise is independent. Records that differ need to be more.

    Args:
        schedule: the noise of every round.
        coordinates: d, numbers in the sum of one class.
        stage: which of the schedule's.

    Returns:
        n > 0; signal-to-noise of k alike records is k / n.
    """
    rounds, event = schedule.groups[stage]
    noise_multiplier = event.noise_multiplier * schedule.budget.rows_per_unit
    return math.sqrt(coordinates / rounds) * noise_multiplier / event.sampling_prob


def least_epsilon(
    plan: Sequence[Stage],
    budget: Budget,
    coordinates: int,
    records: float,
    ratio: float = HOPELESS,
    stage: int = 0,
) -> float | None:
    """The smallest epsilon, to two digits, at which records have a signal-to-noise ratio under a plan.

    Args:
        plan: stages.
        budget: all but its epsilon is kept, and its epsilon is where the search begins.
        coordinates: numbers in the sum of one class.
        records: of the class, all alike; a public number.
        ratio: to be reached.
        stage: which of the plan's.

    Returns:
        epsilon >= budget.epsilon; None where none up to 10 is enough.
    """

    def enough(epsilon: float) -> bool:
        try:
            schedule = calibrate(plan, replace(budget, epsilon=epsilon))
        except ValueError:  # more than the accountant of sampled rounds handles
            return False
        return records_heard(schedule, coordinates, stage) * ratio <= records

    low = high = budget.epsilon
    while not enough(high):
        if high >= LARGE_EPSILON:
            return None
        low, high = high, min(10 * high, LARGE_EPSILON)
    while high > 1.02 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    step = 10.0 ** (math.floor(math.log10(high)) - 1)
    return float(f"{math.ceil(high / step) * step:.2g}")


def recognised(budget: Budget) -> float | None:
    """Share of the members that an attacker recognises at most, who accuses ATTACKED_AT of the outsiders wrongly.

    It is that of a single full-batch Gaussian release which spends the budget: what an attacker of it does reach.

    Returns:
        None where epsilon <= 10: the certificate of such a run describes its attackers.
    """
    if budget.epsilon <= LARGE_EPSILON:
        return None
    event = Event(gaussian_noise_multiplier(budget.epsilon, budget.delta, budget.adjacency))
    return true_positives([(1, event)], ATTACKED_AT, budget.adjacency)
