"""Integer noise: a continuous Gaussian rounded to the grid, decided exactly, from entropy that cannot be replayed."""

from __future__ import annotations

import builtins
import hashlib
import math
import os
from typing import Protocol

import mpmath
import numpy as np
from scipy.special import ndtri

BLOCK = 1 << 16
MAX_STDDEV = 2.0**48

_INTERVAL_BITS = 54
_NDTRI_ERROR = 2.0**-46


class Entropy(Protocol):
    """A source of independent uniform bytes; `kind` is its name in the ledger and the certificate."""

    @property
    def kind(self) -> str: ...
    def bytes(self, n: int) -> builtins.bytes: ...


class SystemEntropy:
    """Bytes directly from the operating system; without state, so that a forked process does not repeat them."""

    kind = "operating-system entropy"

    def bytes(self, n: int) -> builtins.bytes:
        """Returns n fresh bytes."""
        return os.urandom(n)


class SeededEntropy:
    """A replayable stream (Philox) for tests only: anybody with the seed, an integer >= 0, can subtract the noise."""

    kind = "insecure: seeded noise"

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(seed))

    def bytes(self, n: int) -> builtins.bytes:
        """Returns the next n bytes of the stream."""
        return self._generator.bytes(n)


class KeyedEntropy:
    """SHAKE-256 of a secret key and a counter: all holders of shards toss the same coins, also when repeated.

    Args:
        key: 32 bytes of another source, whose kind this one has; never used for two purposes, and never for noise.
        kind: kind of that source.
    """

    def __init__(self, key: builtins.bytes, kind: str = SystemEntropy.kind) -> None:
        self.key, self.kind, self._calls = key, kind, 0

    def bytes(self, n: int) -> builtins.bytes:
        """Returns the next n bytes of the key's stream."""
        self._calls += 1
        return hashlib.shake_256(self.key + self._calls.to_bytes(8, "little")).digest(n)


def words(n: int, entropy: Entropy) -> np.ndarray:
    """Returns n independent uniform 64-bit words, (n,), uint64."""
    return np.frombuffer(entropy.bytes(8 * n), np.uint64)


def rounded_gaussian(shape: int | tuple[int, ...], stddev: float, entropy: Entropy) -> np.ndarray:
    """Returns a continuous Gaussian rounded to the nearest integer, independently in every entry.

        round(Z), Z ~ N(0, stddev^2):   P(m) = Phi((m + 1/2)/stddev) - Phi((m - 1/2)/stddev)

    A sign bit and 53 bits number a quantile interval of the half tail. If it could straddle a rounding boundary, more
    bits are drawn and the side is decided at high precision, so that the law above is exact, without float rounding.

    Args:
        shape: shape of the result, int64.
        stddev: in grid steps, > 0 and <= 2**48.
        entropy: source of the bits.

    Raises:
        ValueError: stddev is not in (0, 2**48].

    Guarantee: for an integer S, S + round(Z) = round(S + Z): post-processing of the Gaussian mechanism on S.

    Source: Wallace 1996 (inversion with bits on demand); Canonne, Kamath and Steinke 2020 for why floats leak.
    """
    if not 0.0 < stddev <= MAX_STDDEV:
        raise ValueError(f"Expected 0 < stddev={stddev} <= 2**48.")
    out = np.empty(shape, np.int64)
    flat = out.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        stop = min(start + BLOCK, flat.size)
        flat[start:stop] = _block(words(stop - start, entropy), float(stddev), entropy)
    return out


def _block(bits: np.ndarray, stddev: float, entropy: Entropy) -> np.ndarray:
    """Returns one integer per word: its top 53 bits number the interval, its lowest bit is the sign."""
    middle = (bits >> np.uint64(11)).astype(np.float64)
    middle += 0.5
    quantile = -ndtri(middle * 2.0**-_INTERVAL_BITS)
    scaled = quantile * stddev
    nearest = np.rint(scaled)
    # The Gaussian hazard exceeds 0.79, so the quantiles of intervals b and b + 1 differ by less than 1.27/b, and
    # 2/(b + 1/2) bounds the distance from the middle to either end for b >= 1; b = 0 has no end: always refine.
    margin = stddev * (_NDTRI_ERROR * (1.0 + quantile) + 2.0 / middle)
    suspects = np.abs(scaled - nearest) >= 0.5 - margin
    suspects |= middle < 1.0
    magnitude = nearest.astype(np.int64)
    for i in np.flatnonzero(suspects):
        magnitude[i] = _refine(int(bits[i]) >> 11, stddev, entropy)
    return np.where(bits & np.uint64(1), -magnitude, magnitude)


def _refine(interval: int, stddev: float, entropy: Entropy) -> int:
    """Returns the rounded magnitude of the interval [b, b + 1] / 2**54 of number b, drawing bits as needed."""
    n_bits = _INTERVAL_BITS
    while True:
        decided = _decide(interval, n_bits, stddev)
        if decided is not None:
            return decided
        interval = (interval << 64) | int.from_bytes(entropy.bytes(8), "little")
        n_bits += 64


def _decide(interval: int, n_bits: int, stddev: float) -> int | None:
    """Returns the m >= 0 to which every point of the interval rounds, or None if the interval meets a boundary."""
    with mpmath.workprec(n_bits + 64):
        low, high = mpmath.ldexp(interval, -n_bits), mpmath.ldexp(interval + 1, -n_bits)

        def below(m: int) -> bool | None:
            """Returns whether the magnitude is below m + 1/2; its tail mass is known to 2**-(n_bits + 32)."""
            boundary = mpmath.erfc((m + mpmath.mpf(0.5)) / mpmath.mpf(stddev) / mpmath.sqrt(2)) / 2
            error = mpmath.ldexp(boundary, -n_bits - 32)
            if low >= boundary + error:
                return True
            return False if high <= boundary - error else None

        m = max(0, round(-float(ndtri(math.ldexp(interval + 0.5, -n_bits))) * stddev))
        side = below(m)
        while side is False:
            m += 1
            side = below(m)
        while side is True and m > 0 and below(m - 1) is True:
            m -= 1
        if side is None or (m > 0 and below(m - 1) is None):
            return None
        return m
