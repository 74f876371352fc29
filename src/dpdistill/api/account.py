"""Calculates noise from epsilon, or epsilon from noise, without a run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpdistill.api.listener import SILENT, Listener
from dpdistill.schema import DataError

if TYPE_CHECKING:
    from dpdistill.accounting.gaussian import Adjacency
    from dpdistill.accounting.schedule import Schedule


def account(
    *,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    rounds: int = 1,
    sampling_prob: float = 1.0,
    delta: float = 1e-5,
    adjacency: Adjacency = "add-remove",
    listener: Listener = SILENT,
) -> Schedule:
    """Returns the epsilon of a noise multiplier, or the noise multiplier of an epsilon.

    Args:
        epsilon: > 0, calibrates the noise multiplier; None where a noise multiplier is stated.
        noise_multiplier: > 0, standard deviation / clip_norm; None where epsilon is stated.
        rounds: number of releases, >= 1.
        sampling_prob: Poisson sampling probability of a record, in (0, 1].
        delta: in (0, 0.01].
        adjacency: "add-remove" or "replace-one".
        listener: receives a warning about a large delta or epsilon.

    Returns:
        The schedule: `noise_multipliers[0]`, `budget.epsilon`, and `epsilons()` at other values of delta.

    Raises:
        DataError: both or neither of epsilon and noise_multiplier are stated.
        ValueError: a number out of its bounds.

    Example:
        >>> round(account(epsilon=1.0).noise_multipliers[0], 3)
        3.731
    """
    from dpdistill.accounting.schedule import Budget, Schedule, calibrate
    from dpdistill.query import Stage

    if (epsilon is None) == (noise_multiplier is None):
        raise DataError("Expected one of --epsilon and --noise-multiplier.")
    stage = Stage(rounds, sampling_prob)
    if noise_multiplier is None:
        assert epsilon is not None
        schedule = calibrate((stage,), Budget(epsilon, delta, adjacency))
    else:
        schedule = Schedule((stage,), (noise_multiplier,), Budget(1.0, delta, adjacency))
        if (cost := schedule.epsilon()) > 0.0:
            schedule = replace(schedule, budget=replace(schedule.budget, epsilon=cost))
    listener.caution(schedule.budget)
    return schedule
