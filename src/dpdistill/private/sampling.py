"""Random draws for each record or unit: the rows that represent it, its coin in a round, its place in a chunk."""

from __future__ import annotations

import math

import numpy as np

from dpdistill.private.noise import BLOCK, Entropy, words


def poisson_coins(n: int, sampling_prob: float, entropy: Entropy) -> np.ndarray:
    """Returns independent coins, one per record or unit: heads if a uniform 64-bit word is below floor(q 2^64).

        P(heads) = floor(q 2^64) / 2^64, in (q - 2^-64, q]

    Args:
        n: number of coins, >= 0; no error mentions it.
        sampling_prob: q in (0, 1]; 1 takes every record and draws nothing.
        entropy: source of the words.

    Returns:
        bool, (n,). Never store, print or derive anything public from it.

    Raises:
        ValueError: sampling_prob is not in (0, 1].

    Guarantee: no truncation and no fixed batch size, so that the accounting of Poisson sampling applies unchanged.
    """
    if not 0.0 < sampling_prob <= 1.0:
        raise ValueError(f"Expected 0 < sampling_prob={sampling_prob} <= 1.")
    if sampling_prob == 1.0:
        return np.ones(n, bool)
    threshold = np.uint64(int(math.ldexp(sampling_prob, 64)))
    coins = np.empty(n, bool)
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        coins[start:stop] = words(stop - start, entropy) < threshold
    return coins


def draw_places(n: int, entropy: Entropy) -> np.ndarray:
    """Returns places of n records or units, (n,) uint16: each from its own random bits, modulo the chunk size.

    Never store, print or derive anything public from them. Only independence matters: that small places are slightly
    more likely changes nothing.
    """
    return np.frombuffer(entropy.bytes(2 * n), np.uint16)


def keep_rows(units: np.ndarray, most: int, entropy: Entropy) -> np.ndarray:
    """Returns indices of at most `most` records per unit, drawn uniformly from its own: (units, most) int64, -1 for
    none.

    Every record draws a 64-bit word, and those with the smallest of their unit are kept: which records of a unit are
    kept depends on its own words alone. Records of unknown units (-1) are omitted. Never store or print the result.
    """
    order = np.lexsort((words(len(units), entropy), units))
    order = order[units[order] >= 0]
    rank = np.arange(len(order)) - np.searchsorted(units[order], units[order])
    number = np.cumsum(rank == 0) - 1
    kept = np.full((int((rank == 0).sum()), most), -1, np.int64)
    kept[number[rank < most], rank[rank < most]] = order[rank < most]
    return kept
