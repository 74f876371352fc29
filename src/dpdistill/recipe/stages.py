"""Shares of a budget between the stages of a plan."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dpdistill.query import Stage


def cost_of(stages: Iterable[Stage]) -> float:
    """Relative cost of stages: a round costs about (sampling_prob weight)^2."""
    return sum(stage.rounds * (stage.sampling_prob * stage.weight) ** 2 for stage in stages)


def first_stage(share: float, rounds: int, sampling_prob: float, shares: float | None = None) -> Stage:
    """One full-batch round that takes a share of the budget, before so many sampled ones.

    A sampled round costs about (q / sigma)^2 of mu^2: weight^2 / (weight^2 + rounds q^2) = share. Where there are other
    such rounds, `shares` is what all of them take.
    """
    left = 1.0 - (share if shares is None else shares)
    return Stage(1, 1.0, sampling_prob * math.sqrt(rounds * share / left))
