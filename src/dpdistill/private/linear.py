"""Linear (ghost) queries: norms first, then one weighted sum in float64; no per-record contribution is formed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import jax
import numpy as np

from dpdistill.private.chunking import GROUP, Chunk
from dpdistill.private.noise import Entropy, rounded_gaussian
from dpdistill.programs import clipping
from dpdistill.query import ROUNDING_SHARE, ByValue, LinearQuery, Params

FRACTION = 40
"""Bits of the second limb: sums of groups of chunks are rounded to 2^-40 of a step, and then added as integers."""
LEAST_RECORDS = 1 << 20
"""Number of records for which a linear query's error bound must hold; otherwise the query is refused."""


def release_linear(
    query: LinearQuery, limbs: np.ndarray, noise_multiplier: float, entropy: Entropy
) -> tuple[np.ndarray, float]:
    """Returns a sum of clipped contributions (`sum_limbs`) with noise.

        scale_i = min(1, C / bound_i),   sum rounded to the step gamma,   stddev = noise_multiplier Delta

    Guarantee:
        Sensitivity Delta = C + gamma sqrt(d) + 2 E under add-or-remove and 2 Delta under replace-one, gamma sqrt(d)
        <= 5e-4 C, E = 2.5e-4 C. Only E bounds rounding: a sum of m records has an error of at most m times the query's
        error_bound and 2^-47 C, which covers the rounding of the scales and of the addition of chunks. `most_records`
        returns the largest m for which that is at most E; it is compared with all records before any coin is drawn.
    """
    step, sensitivity = step_and_sensitivity(query.clip_norm, limbs[0].size)
    z = whole_steps(limbs)
    noise = rounded_gaussian(z.shape, noise_multiplier * sensitivity / step, entropy)
    return (z + noise).astype(np.float64) * step, noise_multiplier * sensitivity


def sum_limbs(
    query: LinearQuery, params: Params, chunks: Iterable[Chunk], shape: tuple[int, ...], classes: int, k: int = 1
) -> np.ndarray:
    """Returns the sum of contributions, each unit's scaled down together to the clip norm: (2, *shape), int64 limbs.

    The value is (limbs[0] + limbs[1] 2^-40) step; the limbs of shards are added in any order.

    Raises:
        ValueError: a sum that is not finite.
    """
    step, limbs = step_and_sensitivity(query.clip_norm, math.prod(shape))[0], np.zeros((2, *shape), np.int64)

    def add(part: np.ndarray) -> None:
        scaled = part / step  # exact: the step is a power of two
        if not np.abs(scaled).max(initial=0.0) < 2.0**53:
            raise ValueError("The weighted sum is not finite.")
        whole = np.rint(scaled)
        limbs[0] += whole.astype(np.int64)
        limbs[1] += np.rint(np.ldexp(scaled - whole, FRACTION)).astype(np.int64)
        limbs[:] = carried(limbs)

    add_groups(query, params, chunks, shape, classes, query.clip_norm, k, add)
    return limbs


def whole_steps(limbs: np.ndarray) -> np.ndarray:
    """Returns the sum rounded to whole steps, int64."""
    total = carried(limbs)
    return total[0] + ((total[1] + (1 << FRACTION - 1)) >> FRACTION)


def carried(limbs: np.ndarray) -> np.ndarray:
    """Returns an equal sum with a second limb in 0 .. 2^40 - 1."""
    carry = limbs[1] >> FRACTION
    return np.stack([limbs[0] + carry, limbs[1] - (carry << FRACTION)])


def add_groups(
    query: LinearQuery,
    params: Params,
    chunks: Iterable[Chunk],
    shape: tuple[int, ...],
    classes: int,
    clip_norm: float,
    k: int,
    add: Callable[[np.ndarray], None],
) -> None:
    """Passes the float64 sum of every GROUP of chunks to `add`, without contributions of no finite norm.

    k consecutive rows are a unit: their scale is C / sum of their bounds if that is below 1. Within a group chunks are
    added in float64, which rounds a record's share by at most 2^-48 C.
    """
    same = ByValue(query)
    with jax.enable_x64(True), np.errstate(all="ignore"):
        part, number, params = np.zeros(shape), 0, clipping.prepared(same, params)
        for number, (X, y) in enumerate(chunks, 1):
            known = (y >= 0) & (y < classes)
            if not known.all():  # the other rows are replaced by zeros
                X, y = np.where(known.reshape(-1, *[1] * (X.ndim - 1)), X, 0), np.where(known, y, 0)
            result = clipping.coefficients(same, params, X, y)
            bounds = np.asarray(clipping.norms(same, params, result))
            usable = known & np.isfinite(bounds) & (bounds >= 0)
            of_unit = np.repeat(np.where(usable, bounds, 0.0).reshape(-1, k).sum(1), k)
            w = np.where(usable, np.minimum(1.0, clip_norm / np.maximum(of_unit, 1e-300)), 0.0)
            part += np.asarray(clipping.weighted_sum(same, params, result, w))
            if number % GROUP == 0:
                add(part)
                part = np.zeros(shape)
        if number % GROUP:
            add(part)


def step_and_sensitivity(clip_norm: float, dimension: int) -> tuple[float, float]:
    """Returns (gamma, Delta) of a linear query: public facts, independent of the records."""
    # A power of two: multiples of the step below 2**53 of them are exact in float64.
    step = 2.0 ** math.floor(math.log2(ROUNDING_SHARE * clip_norm / math.sqrt(dimension)))
    return step, clip_norm + step * math.sqrt(dimension) + ROUNDING_SHARE * clip_norm


def most_records(query: LinearQuery) -> int:
    """Returns the number of records for which the query's error bound keeps a sum within E, from public facts.

    Raises:
        ValueError: an error bound that is no number >= 0, or that does not allow 2^20 records.
    """
    C, error, E = query.clip_norm, query.error_bound, ROUNDING_SHARE / 2
    most = E / (error / C + 2.0**-47) if 0.0 <= error < math.inf else 0.0
    if most < LEAST_RECORDS:
        raise ValueError(
            f"Expected 0 <= error_bound / clip_norm = {error / C:.3g} <= {E / LEAST_RECORDS:.3g}: the rounding of 2^20 "
            "records must stay within the stated bound. Use fewer synthetic records per class."
        )
    return int(most)
