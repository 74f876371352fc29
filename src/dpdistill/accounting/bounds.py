"""Independent checks of an epsilon: a lower bound computed separately, and the looser Renyi bound."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from dpdistill.accounting.gaussian import Adjacency, check_delta, root, sensitivity_factor
from dpdistill.query import Event

if TYPE_CHECKING:
    from dp_accounting import DpEvent

Group = tuple[int, Event]
"""(rounds, event): a number of rounds of one event."""

_REACH = 9.5
_WINDOW_MASS = 1e-14
_MAX_CELLS = 1 << 18
# Integers only: the series of dp_accounting for fractional orders does not converge for small noise.
_ORDERS = (*range(2, 65), 72, 80, 96, 128, 192, 256, 512, 1024)


def epsilon_rdp(groups: Iterable[Group], delta: float, adjacency: Adjacency = "add-remove") -> float:
    """Returns an upper bound of epsilon by Renyi orders, usually 1.08 to 1.16 times the PLD's; for information only.

    Args:
        groups: (rounds, event) of everything released.
        delta: in (0, 1).
        adjacency: "add-remove" only.

    Returns:
        epsilon >= 0.

    Raises:
        ValueError: delta out of its bounds, or replace-one, which this accountant would silently ignore.

    Source:
        Mironov 2017; Mironov, Talwar and Zhang 2019.
    """
    from dp_accounting.rdp import RdpAccountant

    check_delta(delta)
    if adjacency != "add-remove":
        raise ValueError(f"Expected adjacency 'add-remove': the Renyi accountant ignores {adjacency!r} silently.")
    accountant = RdpAccountant(_ORDERS)
    for rounds, event in groups:
        accountant.compose(dp_event(event), rounds)
    return float(accountant.get_epsilon(delta))


def dp_event(event: Event) -> DpEvent:
    """Returns the event in dp_accounting's types; the library takes half a second to import, so it is imported here."""
    import dp_accounting

    gaussian = dp_accounting.GaussianDpEvent(event.noise_multiplier)
    if event.sampling_prob == 1.0:
        return gaussian
    return dp_accounting.PoissonSampledDpEvent(event.sampling_prob, gaussian)


def epsilon_lower_bound(
    groups: Iterable[Group], delta: float, adjacency: Adjacency = "add-remove", interval: float | None = None
) -> float:
    """Returns a lower bound of the true epsilon: a claim below it is wrong, whatever accountant made the claim.

    The outputs of the dominating pair (P, Q) are merged into cells, which is post-processing, so that the divergence of

        log(P_k / Q_k), k a cell, P_k and Q_k exact masses

    can only be smaller. Losses are moved down to multiples of the interval, or by a shift that is charged at the end,
    and composed by one FFT. The code is independent of the accountant that calibrates.

    Args:
        groups: (rounds, event) of everything released.
        delta: in (0, 1); the bound becomes weak below 1e-10.
        adjacency: "add-remove" (the larger of its two directions) or "replace-one".
        interval: width of a cell of privacy loss, > 0. None suits the plan: at most 2e-5 and 1/300 of the smallest
            spread of a round's loss, but wide enough for 2**18 cells a round.

    Returns:
        epsilon >= 0.

    Raises:
        ValueError: an argument out of its bounds.

    Source:
        Koskela, Jalko and Honkela 2020 (FFT); Zhu, Dong and Wang 2022 (dominating pairs); Lebeda, Regehr, Kamath and
        Steinke 2025 (the pair for replace-one).
    """
    check_delta(delta)
    sensitivity_factor(adjacency)
    if interval is not None and not interval > 0.0:
        raise ValueError(f"Expected interval={interval} > 0.")
    groups = tuple(groups)
    symmetric = all(event.sampling_prob == 1.0 for _, event in groups)
    sides = ("replace",) if adjacency == "replace-one" else ("remove",) if symmetric else ("remove", "add")
    return max(_one_sided(groups, delta, side, interval) for side in sides)


def _one_sided(groups: tuple[Group, ...], delta: float, side: str, interval: float | None) -> float:
    pairs = [(rounds, *_pair(event, side)) for rounds, event in groups]
    interval = _interval(pairs) if interval is None else interval
    shift, parts = 0.0, []
    for rounds, loss, edges, masses in pairs:
        first, pmf, moved = _cells(loss, edges, masses, interval)
        shift += rounds * moved
        parts.append((rounds, first, pmf))
    start, total = _compose(parts, interval)
    losses = (start + np.arange(total.size)) * interval
    slack = _WINDOW_MASS + 1e-15 * sum(rounds for rounds, _, _ in parts)

    def excess(epsilon: float) -> float:
        above = losses > epsilon
        return float(-total[above] @ np.expm1(epsilon - losses[above])) - slack - delta

    if excess(0.0) <= 0.0:
        return 0.0
    return max(0.0, root(excess, 0.0, max(float(losses[-1]), interval)) - shift)


def _interval(pairs) -> float:
    middles = ((loss[1:] + loss[:-1]) / 2 for _, loss, _, _ in pairs)
    weights = (masses(edges)[0] for _, _, edges, masses in pairs)
    spreads = [math.sqrt(np.cov(middle, aweights=P, ddof=0)) for middle, P in zip(middles, weights, strict=True)]
    reach = max(loss[-1] - loss[0] for _, loss, _, _ in pairs)
    window = 20 * math.sqrt(sum(rounds * spread**2 for (rounds, *_), spread in zip(pairs, spreads, strict=True)))
    return max(min(2e-5, min(spreads) / 300), reach / _MAX_CELLS, window / (8 * _MAX_CELLS))


def _pair(event: Event, side: str):
    """Returns the privacy loss on an increasing grid of outputs, the grid, and masses(edges) -> (P, Q) of cells."""
    s, q = 1.0 / event.noise_multiplier, event.sampling_prob
    without = ((1.0, 0.0),)
    up, down = (((1 - q, 0.0), (q, shift)) if q < 1.0 else ((1.0, shift),) for shift in (s, -s))
    top, bottom = {"remove": (up, without), "add": (without, down), "replace": (up, down)}[side]
    edges = np.linspace(-_REACH - s, _REACH + s, 40001)

    def log_density(mixture) -> np.ndarray:
        terms = [math.log(w) - 0.5 * (edges - m) ** 2 for w, m in mixture]
        return np.logaddexp.reduce(terms)

    def masses(cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        P, Q = (sum((w * _interval_mass(cuts - m) for w, m in mixture), np.zeros(1)) for mixture in (top, bottom))
        return P, Q

    return log_density(top) - log_density(bottom), edges, masses


def _interval_mass(cuts: np.ndarray) -> np.ndarray:
    """Returns the standard normal mass between successive cuts, without cancellation in either tail."""
    from scipy.special import ndtr

    below, above = ndtr(cuts), ndtr(-cuts)
    return np.where(cuts[:-1] > 0, above[:-1] - above[1:], below[1:] - below[:-1])


def _cells(loss: np.ndarray, edges: np.ndarray, masses, interval: float) -> tuple[int, np.ndarray, float]:
    """Returns (index of the first cell, mass of P by loss index, remaining downward shift of a round)."""
    first, last = math.floor(loss[0] / interval), math.ceil(loss[-1] / interval)
    cuts = np.interp((np.arange(first, last + 2) - 0.5) * interval, loss, edges)
    cuts[0], cuts[-1] = -np.inf, np.inf
    P, Q = masses(cuts)
    kept = (P > 0) & (Q > 0)
    lack = np.zeros_like(P)
    lack[kept] = (first + np.flatnonzero(kept)) - np.log(P[kept] / Q[kept]) / interval
    lack[~kept] = np.inf
    # A cell below its grid point by more than the common shift moves down a whole step: choose the cheapest shift.
    order = np.argsort(lack)
    owed = np.maximum(lack[order], 0.0)
    mass_above = np.append(np.cumsum(P[order][::-1])[::-1][1:], 0.0)
    best = int(np.argmin(np.where(np.isfinite(owed), owed + mass_above, np.inf)))
    down = lack > owed[best]
    pmf = np.zeros(P.size + 1)
    pmf[1:] += np.where(down, 0.0, P)
    pmf[:-1] += np.where(down & (lack <= 1.0), P, 0.0)
    return first - 1, pmf, owed[best] * interval


def _compose(parts: list[tuple[int, int, np.ndarray]], interval: float) -> tuple[int, np.ndarray]:
    """Returns (first index, mass of P) of the sum of all rounds, on a window that misses at most _WINDOW_MASS."""
    ends = []
    for sign in (-1.0, 1.0):
        orders = sign * np.geomspace(1e-1, 1e3, 25)
        bounds = [(_log_mgf(parts, order, interval) - math.log(_WINDOW_MASS / 2)) / order for order in orders]
        ends.append(max(bounds) if sign < 0 else min(bounds))
    lowest, highest = (sum(r * f for r, f, _ in parts), sum(r * (f + p.size - 1) for r, f, p in parts))
    start = max(lowest, math.floor(ends[0] / interval))
    stop = min(highest, math.ceil(ends[1] / interval))
    length = 1 << (max(stop - start + 1, *(pmf.size for _, _, pmf in parts)) - 1).bit_length()
    spectrum = np.ones(length // 2 + 1, complex)
    for rounds, _, pmf in parts:
        spectrum *= np.fft.rfft(pmf, length) ** rounds
    total = np.roll(np.fft.irfft(spectrum, length), lowest - start)
    return start, np.maximum(total[: stop - start + 1], 0.0)


def _log_mgf(parts: list[tuple[int, int, np.ndarray]], order: float, interval: float) -> float:
    """Logarithm of the moment generating function of the loss of all rounds at an order; it bounds the tails."""
    total = 0.0
    for rounds, first, pmf in parts:
        exponent = order * interval * np.arange(first, first + pmf.size)
        top = float(exponent[pmf > 0].max())
        total += rounds * (top + math.log(float(pmf @ np.exp(np.minimum(exponent - top, 0.0)))))
    return total
