"""The grid of integers on which contributions are summed, so that the sensitivity is exactly clip_norm."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

MAX_K = 1 << 24


@dataclass(frozen=True)
class Grid:
    """Contributions as integers z = rint(v / step) with ||z|| <= K.

    Args:
        K: the clip norm in grid steps, a power of two <= 2**24.
        step: length of a grid step, clip_norm / K.
        clip_norm: L2 bound C of the contribution of one record, or of all records of one unit, > 0.
        float_clip: C (1 - sqrt(d)/(2K) - 2**-12), the norm to clip to in floats so that rounding stays within K.

    Guarantee:
        With inadmissible records set to zero, every row that is summed has norm at most K, for any result of the
        preceding float arithmetic. If the other rows stay unchanged, one record moves the integer sum by at most K
        steps = clip_norm under add-or-remove and by at most 2K under replace-one.
    """

    K: int
    step: float
    clip_norm: float
    float_clip: float

    def admissible(self, z: np.ndarray, rows_per_unit: int = 1) -> np.ndarray:
        """Returns which integer rows may be summed: max|z| <= K and sum z^2 <= K^2, in int64.

        Consecutive rows of one unit are admitted together or not at all; their common sum of squares counts.

        Raises:
            TypeError: z does not hold integers.
            ValueError: d is so large that a sum of squares could overflow.
        """
        if not np.issubdtype(z.dtype, np.signedinteger):
            raise TypeError(f"Expected signed integers; got {z.dtype}.")
        if z.shape[1] * self.K**2 >= 1 << 63:
            raise ValueError(f"Expected dimension={z.shape[1]} * K**2 < 2**63 with K={self.K}.")
        small = np.all((z >= -self.K) & (z <= self.K), axis=1)
        if not np.all(small):
            z = np.where(small[:, None], z, 0)
        squares = np.einsum("ij,ij->i", z, z, dtype=np.int64)
        small &= squares <= self.K**2
        if rows_per_unit == 1:
            return small
        squares, small = (a.reshape(-1, rows_per_unit) for a in (np.where(small, squares, 0), small))
        return np.repeat(small.all(1) & (squares.sum(1) <= self.K**2), rows_per_unit)


def make_grid(clip_norm: float, noise_multiplier: float, dimension: int, records: int) -> Grid:
    """Returns the grid of a round: fine enough for its noise and its dimension, coarse enough never to overflow.

        K = 2^ceil(log2 max(2^20 / sigma, 500 sqrt(d)))

    Args:
        clip_norm: C, > 0 and finite.
        noise_multiplier: sigma = stddev / C, > 0 and finite.
        dimension: d, coordinates one record or unit can touch (its class blocks), >= 1.
        records: number of all contributions to sum, >= 0; private, so no error mentions it.

    Raises:
        ValueError: an argument out of its bounds, or integers that could overflow.
    """
    if not 0.0 < clip_norm < math.inf:
        raise ValueError(f"Expected clip_norm={clip_norm} > 0 and finite.")
    if not 0.0 < noise_multiplier < math.inf:
        raise ValueError(f"Expected noise_multiplier={noise_multiplier} > 0 and finite.")
    if dimension < 1:
        raise ValueError(f"Expected dimension={dimension} >= 1.")
    if 2.0**20 / noise_multiplier > MAX_K:
        raise ValueError(f"Expected noise_multiplier={noise_multiplier} >= 2**-4 (2**24 steps): use a smaller epsilon.")
    K = 1 << (math.ceil(2.0**20 / noise_multiplier) - 1).bit_length()
    # d K^2 < 2^63: with K >= 500 sqrt(d) that holds for K = 2^20 at most, and K is at least the noise's.
    most = min(int((2**20 / 500) ** 2), ((1 << 63) - 1) // K**2)
    if dimension > most:
        raise ValueError(f"Expected dimension={dimension} <= {most} at noise_multiplier={noise_multiplier}: lower it.")
    K = max(K, 1 << (math.ceil(500.0 * math.sqrt(dimension)) - 1).bit_length())
    if records * K >= 1 << 62:
        raise ValueError(f"The integer sums could overflow 64 bits with K={K}: raise noise_multiplier.")
    float_clip = clip_norm * (1.0 - math.sqrt(dimension) / (2 * K) - 2.0**-12)
    return Grid(K=K, step=clip_norm / K, clip_norm=clip_norm, float_clip=float_clip)
