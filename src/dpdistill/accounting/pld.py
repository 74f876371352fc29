"""Epsilon of a list of releases: the closed form for full batches, privacy loss distributions for sampled ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from functools import lru_cache
from typing import TYPE_CHECKING

from dpdistill.accounting.bounds import Group, dp_event
from dpdistill.accounting.gaussian import (
    Adjacency,
    check_delta,
    check_noise_multiplier,
    gaussian_epsilon,
    sensitivity_factor,
)
from dpdistill.query import Event

if TYPE_CHECKING:
    from dp_accounting.pld import PLDAccountant

DISCRETIZATION = 1e-4

_RELATIONS = {"add-remove": "ADD_OR_REMOVE_ONE", "replace-one": "REPLACE_ONE"}
_MAX_POINTS = 1_000_000
_MAX_EXPONENT = 600.0
_FINEST = 2.0**-40
MIN_PLD_DELTA = 1e-10


def compose(groups: Iterable[Group], delta: float, adjacency: Adjacency = "add-remove", coarser: float = 1.0) -> float:
    """Returns epsilon of any list of releases, also of several runs: the closed form for full batches, otherwise the
    PLD.

        mu = (1 or 2) sqrt(sum_t sigma_t^-2) for full batches

    Args:
        groups: (rounds, event) of everything released; empty costs 0.
        delta: in (0, 1); >= 1e-10 with a sampled round.
        adjacency: adjacency of all releases.
        coarser: factor of the privacy-loss interval, >= 1; a larger one is faster and gives a larger epsilon.

    Returns:
        epsilon >= 0.

    Raises:
        ValueError: an argument out of its bounds.

    Guarantee:
        Adaptive composition: parameters and clip norms of a round may depend on earlier releases.

    Source:
        Dong, Roth and Su 2022, Corollary 2 (full batch); Koskela, Jalko and Honkela 2020 (Poisson).
    """
    merged = _merge(groups)
    if not merged:
        check_delta(delta)
        sensitivity_factor(adjacency)
        return 0.0
    if len(merged) == 1 and merged[0][1].sampling_prob == 1.0:
        return gaussian_epsilon(merged[0][1].noise_multiplier, delta, adjacency)
    return epsilon_pld(merged, delta, adjacency, coarser * discretization_interval(merged, adjacency))


def _merge(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Merges equal events, and all full batches into one Gaussian at the end: the order of rounds cannot matter."""
    precision, sampled = [], Counter()
    for rounds, event in groups:
        check_noise_multiplier(event.noise_multiplier)
        if event.sampling_prob == 1.0:
            precision.append(rounds / event.noise_multiplier**2)
        else:
            sampled[event] += rounds
    full = [(1, Event(1.0 / math.sqrt(math.fsum(precision))))] if precision else []
    ordered = sorted(sampled.items(), key=lambda item: (item[0].noise_multiplier, item[0].sampling_prob))
    return (*((rounds, event) for event, rounds in ordered), *full)


def epsilon_pld(
    groups: Iterable[Group], delta: float, adjacency: Adjacency = "add-remove", discretization: float | None = None
) -> float:
    """Returns epsilon by privacy loss distributions, rounded up (connect the dots): never below the true value.

    Args:
        groups: (rounds, event) of everything released.
        delta: in [1e-10, 1): below, the float64 of the FFT decides the answer.
        adjacency: "add-remove" or "replace-one".
        discretization: interval of the privacy loss, > 0; None is discretization_interval(groups, adjacency).

    Returns:
        epsilon >= 0.

    Raises:
        ValueError: an argument out of its bounds, or noise too small for the accountant.

    Source:
        Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022; the dp_accounting library.
    """
    check_pld_delta(delta)
    sensitivity_factor(adjacency)
    merged = _merge(groups)
    interval = discretization_interval(merged, adjacency) if discretization is None else discretization
    if not interval > 0.0:
        raise ValueError(f"Expected discretization={interval} > 0.")
    try:
        return _epsilon(merged, delta, adjacency, interval)
    except (ArithmeticError, ValueError, MemoryError) as error:
        raise ValueError(f"The privacy loss distribution of {merged} cannot be computed: raise the noise.") from error


def check_pld_delta(delta: float) -> None:
    """Raises ValueError for a delta that is too small for privacy loss distributions."""
    if not MIN_PLD_DELTA <= delta < 1.0:
        raise ValueError(f"Expected {MIN_PLD_DELTA} <= delta={delta} < 1 for privacy loss distributions.")


@lru_cache(maxsize=1024)
def _epsilon(groups: tuple[Group, ...], delta: float, adjacency: Adjacency, interval: float) -> float:
    """Returns epsilon, cached: a certificate, its check and its page need equal ones."""
    epsilon = float(_accountant(groups, adjacency, interval).get_epsilon(delta))
    if math.isnan(epsilon):
        raise ValueError("epsilon is not a number")
    return epsilon


@lru_cache(maxsize=8)
def _accountant(groups: tuple[Group, ...], adjacency: Adjacency, interval: float) -> PLDAccountant:
    """Composes all but the last group once: the search for what fits in a ledger varies the last one."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import PLDAccountant

    *before, (rounds, event) = groups
    if before:
        accountant = deepcopy(_accountant(tuple(before), adjacency, interval))
    else:
        accountant = PLDAccountant(NeighboringRelation[_RELATIONS[adjacency]], interval)
    return accountant.compose(dp_event(event), rounds)


def discretization_interval(groups: Iterable[Group], adjacency: Adjacency = "add-remove") -> float:
    """Returns the privacy-loss interval for a list of releases: 1e-4, halved or doubled as needed.

    Rounding to intervals h adds up to h^2 / 4 to the variance of a round's loss, about q^2 (e^(s^2) - 1) with s = (1 or
    2) / sigma: h is halved until that is 1e-4 of the variance of all rounds, for any number and noise of rounds. A
    round's loss reaches about 10.6 s + s^2 / 2; beyond a million intervals h is doubled until it fits. That costs
    tightness and never the guarantee.
    """
    factor = sensitivity_factor(adjacency)
    result = [(rounds, event.sampling_prob, factor / event.noise_multiplier) for rounds, event in groups]
    if not result:
        return DISCRETIZATION
    variance = math.fsum(rounds * q * q * math.expm1(min(s * s, _MAX_EXPONENT)) for rounds, q, s in result)
    finest = 2e-2 * math.sqrt(variance / sum(rounds for rounds, _, _ in result)) / DISCRETIZATION
    coarsest = max(2 * (10.6 * s + s * s / 2) for _, _, s in result) / DISCRETIZATION / _MAX_POINTS
    halvings = min(0, math.floor(math.log2(max(finest, _FINEST))))
    return DISCRETIZATION * 2.0 ** max(halvings, math.ceil(math.log2(coarsest)))
