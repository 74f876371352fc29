"""Divides a budget among the stages of a plan."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dpdistill.query import Stage


def cost_of(stages: Iterable[Stage]) -> float:
    """Returns the relative cost of stages: a round costs about (sampling_prob weight)^2."""
    return sum(stage.rounds * (stage.sampling_prob * stage.weight) ** 2 for stage in stages)


def first_stage(share: float, rounds: int, sampling_prob: float, shares: float | None = None) -> Stage:
    """Returns one full-batch round with a share of the budget, to precede `rounds` sampled rounds.

    A sampled round costs about (q / sigma)^2 of mu^2: weight^2 / (weight^2 + rounds q^2) = share. With several
    full-batch rounds, `shares` is the sum of their shares.
    """
    left = 1.0 - (share if shares is None else shares)
    return Stage(1, 1.0, sampling_prob * math.sqrt(rounds * share / left))


def last_stage(share: float, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Returns one full-batch round with a share of the budget after other stages; none for a share of 0."""
    if not share:
        return ()
    return (Stage(1, weight=math.sqrt(cost_of(stages) * share / (1.0 - share))),)


def choice_stages(share: float, rounds: int) -> tuple[Stage, Stage]:
    """Returns two full-batch rounds that choose a kernel for a share of the budget, before `rounds` full-batch rounds.

    Two thirds of the share are for the class means of features, one third for the numbers of rightly named records.
    """
    whole = rounds * share / (1.0 - share)
    return Stage(1, weight=math.sqrt(2 * whole / 3)), Stage(1, weight=math.sqrt(whole / 3))
