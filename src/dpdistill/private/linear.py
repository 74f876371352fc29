"""Linear (ghost) queries: norms first, then one weighted sum in float64; no per-record contribution is formed."""

from __future__ import annotations

import math
from collections.abc import Iterable

import jax
import numpy as np

from dpdistill.private import programs
from dpdistill.private.noise import Entropy, rounded_gaussian
from dpdistill.private.placed import Chunk
from dpdistill.query import ByValue, LinearQuery, Params

ROUNDING_SHARE = 5e-4
SLACK_TEXT = (
    f"float64 ghost sum, bound E = {ROUNDING_SHARE / 2} clip_norm: noise for a sensitivity of at most 1.001 clip_norm"
)
"""What a certificate says of the arithmetic of linear queries."""
PLAIN_BLOCKS = 32
"""So many blocks are added plainly, which rounds a record's share by at most 2^-48 C; these sums are compensated."""
LEAST_RECORDS = 1 << 20
"""A linear query whose error bound does not hold for so many records is refused."""


def release_linear(
    query: LinearQuery,
    params: Params,
    chunks: Iterable[Chunk],
    shape: tuple[int, ...],
    classes: int,
    noise_multiplier: float,
    entropy: Entropy,
) -> tuple[np.ndarray, float]:
    """Noised sum of clipped contributions from their norm bounds.

        scale_i = min(1, C / bound_i),   sum rounded to the step gamma,   stddev = noise_multiplier Delta

    Raises:
        ValueError: a sum that is not finite.

    Guarantee:
        Sensitivity Delta = C + gamma sqrt(d) + 2 E under add-or-remove and 2 Delta under replace-one, gamma sqrt(d)
        <= 5e-4 C, E = 2.5e-4 C. Only E speaks of rounding: a sum of m records is off by at most m times the query's
        error_bound and 2^-47 C, which covers the rounding of the scales and of the addition of blocks.
        `most_records` says for which m that is at most E; it is compared with all records before any coin is drawn.
    """
    step, sensitivity = step_and_sensitivity(query.clip_norm, math.prod(shape))
    total = sum_linear(query, params, chunks, shape, classes, query.clip_norm)
    if not np.isfinite(total).all():
        raise ValueError("The weighted sum is not finite.")
    noise = rounded_gaussian(shape, noise_multiplier * sensitivity / step, entropy)
    return (np.rint(total / step) + noise) * step, noise_multiplier * sensitivity


def sum_linear(
    query: LinearQuery, params: Params, chunks: Iterable[Chunk], shape: tuple[int, ...], classes: int, clip_norm: float
) -> np.ndarray:
    """Sum of the contributions, scaled down to the clip norm; those without a finite norm are left out."""
    same = ByValue(query)
    with jax.enable_x64(True), np.errstate(all="ignore"):
        total, lost, part = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        params = programs.prepared(same, params)
        for number, (X, y) in enumerate(chunks, 1):
            known = (y >= 0) & (y < classes)
            if not known.all():  # the other rows are replaced by zeros
                X, y = np.where(known.reshape(-1, *[1] * (X.ndim - 1)), X, 0), np.where(known, y, 0)
            found = programs.coefficients(same, params, X, y)
            bounds = np.asarray(programs.norms(same, params, found))
            usable = known & np.isfinite(bounds) & (bounds >= 0)
            w = np.where(usable, np.minimum(1.0, clip_norm / np.maximum(np.where(usable, bounds, 1), 1e-300)), 0.0)
            part += np.asarray(programs.weighted_sum(same, params, found, w))
            if number % PLAIN_BLOCKS == 0:
                total, lost, part = *_added(total, lost, part), np.zeros(shape)
        return np.add(*_added(total, lost, part))


def _added(total: np.ndarray, lost: np.ndarray, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Neumaier's sum: its error does not grow with the number of blocks, which the places decide."""
    after = total + part
    return after, lost + np.where(np.abs(total) >= np.abs(part), (total - after) + part, (part - after) + total)


def step_and_sensitivity(clip_norm: float, dimension: int) -> tuple[float, float]:
    """(gamma, Delta) of a linear query: public facts, whatever the records are."""
    # A power of two: multiples of the step below 2**53 of them are exact in float64.
    step = 2.0 ** math.floor(math.log2(ROUNDING_SHARE * clip_norm / math.sqrt(dimension)))
    return step, clip_norm + step * math.sqrt(dimension) + ROUNDING_SHARE * clip_norm


def most_records(query: LinearQuery) -> int:
    """For how many records the query's error bound keeps a sum within E; a function of public facts.

    Raises:
        ValueError: an error bound that is no number >= 0, or that does not allow 2^20 records.
    """
    C, error, E = query.clip_norm, query.error_bound, ROUNDING_SHARE / 2
    most = E / (error / C + 2.0**-47) if 0.0 <= error < math.inf else 0.0
    if most < LEAST_RECORDS:
        raise ValueError(
            f"Expected 0 <= error_bound={error} <= {E / LEAST_RECORDS:.2g} clip_norm: the rounding of 2^20 "
            "records must stay within the stated bound. Take fewer synthetic records per class."
        )
    return int(most)
