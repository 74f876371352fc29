"""What is drawn for every record alone: its coin in a round, and its place in a chunk."""

from __future__ import annotations

import math

import numpy as np

from dpdistill.private.noise import BLOCK, Entropy, words


def poisson_coins(n: int, sampling_prob: float, entropy: Entropy) -> np.ndarray:
    """Independent coins, one a record: heads when a uniform 64-bit word is below floor(q 2^64).

        P(heads) = floor(q 2^64) / 2^64, in (q - 2^-64, q]

    Args:
        n: number of records, >= 0; no error speaks of it.
        sampling_prob: q in (0, 1]; 1 takes every record and draws nothing.
        entropy: where the words come from.

    Returns:
        bool, (n,). Never store, print or derive anything public from it.

    Raises:
        ValueError: sampling_prob is not in (0, 1].

    Guarantee: no truncation and no fixed batch size, so that the accounting of Poisson sampling holds as it stands.
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


def draw_places(n: int, size: int, entropy: Entropy) -> np.ndarray:
    """Places 0 .. size - 1 of n records, (n,) int64: for each one 16 random bits of its own, modulo size <= 65,536.

    Never store, print or derive anything public from them. Independence is what counts: that small places are a little
    more likely changes nothing.
    """
    return np.frombuffer(entropy.bytes(2 * n), np.uint16).astype(np.int64) % size
