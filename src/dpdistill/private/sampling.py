"""Poisson sampling: an independent coin for every record."""

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

    Guarantee:
        No truncation and no fixed batch size, so that the accounting of Poisson sampling holds as it stands.
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
