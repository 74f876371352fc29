"""Releases histograms of a table's numbers, and matches a generator's numbers to the released shares."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.methods.generator import Generator, bins_of, centres_of
from dpdistill.methods.generator_arrays import BINS, LEVELS, Marginals, numbers_of
from dpdistill.schema import TableSchema

OWN_ROWS = 20_000
"""Number of a generator's rows from which its quantiles are estimated."""


@dataclass(frozen=True)
class HistogramQuery:
    """Query u = concatenated one-hot bins of a row's k numbers, zeros for a missing number, divided by the root of k.

    Params: "numbers" (k,), coordinates of numbers; "gaps" (k,), those of their indicators of missing, or -1.

    Guarantee: sensitivity 1 under add-or-remove, sqrt(2) under replace-one: at most one bin of each number is not zero.
    """

    clip_norm = 1.0
    by_class = False
    encoder = None

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        numbers, gaps = params["numbers"], params["gaps"]
        there = jnp.where(gaps < 0, 1.0, 1.0 - x[gaps])
        each = jax.nn.one_hot(bins_of(x[numbers]), BINS) * there[:, None]
        return each.ravel() / math.sqrt(len(numbers))


def shares_of(counts: np.ndarray, stddev: float, own: np.ndarray, total: float) -> np.ndarray:
    """Returns shares of the bins, (BINS,), from noised counts: at least 0, with sum 1.

    The candidates are: the expected shares; averages over groups of neighbouring bins, of counts or of their excess
    over the expected shares; and the expected shares with the counts of single bins that exceed the noise. The chosen
    candidate has the least square error by Stein's estimate ||y - x||^2 + 2 stddev^2 m, for m groups or bins. Any
    candidate x but the expected one must be better by 4 stddev ||x - expected||, twice the standard deviation of the
    comparison. A projection onto counts with the same sum removes negative counts.

    Args:
        counts: noised counts of the bins, (BINS,).
        stddev: standard deviation of their noise.
        own: expected shares of the bins, (BINS,), which hardly depend on the noise.
        total: sum of the counts, >= 1, preferably from another release, since noised counts add up their noise.
    """
    counts = counts + (total - counts.sum()) / BINS
    expected = total * own
    found = [expected]
    fitted = [0]
    for base in (np.zeros(BINS), expected):
        for size in (2**i for i in range(BINS.bit_length())):
            found.append(base + np.repeat((counts - base).reshape(-1, size).mean(1), size))
            fitted.append(BINS // size)
        high = np.abs(counts - base) > stddev * math.sqrt(2.0 * math.log(BINS))  # unlikely to be noise
        found.append(np.where(high, counts, base))
        fitted.append(int(high.sum()))
    error, away = (np.linalg.norm(np.array(found) - one, axis=1) for one in (counts, expected))
    risks = error**2 + 2.0 * stddev**2 * np.array(fitted) + 4.0 * stddev * away
    means = np.float64(found[int(risks.argmin())])
    falling = np.sort(means)[::-1]
    levels = (np.cumsum(falling) - total) / np.arange(1, BINS + 1)
    kept = np.maximum(means - levels[falling > levels][-1], 0.0)
    return kept / kept.sum()


def similar_numbers(schema: TableSchema) -> list[np.ndarray]:
    """Returns groups of two or more numbers of equal kind, bounds and scale, as indices among the numbers."""
    facts = [(column.kind, column.bounds, column.scale) for column in schema.columns if column.is_number]
    groups = [np.array([i for i, own in enumerate(facts) if own == fact]) for fact in dict.fromkeys(facts)]
    return [group for group in groups if len(group) > 1]


def expected_shares(counts: np.ndarray, stddev: float, own: np.ndarray, totals: np.ndarray, groups: list) -> np.ndarray:
    """Returns the expected shares of the bins, (k, BINS): a generator's, or the mean over similar numbers.

    The mean of many noised histograms has little noise. A group uses the mean where, by the comparison of `shares_of`
    over all its numbers, the mean is clearly nearer to their counts than the generator's shares.

    Args:
        counts: noised counts, (k, BINS).
        stddev: standard deviation of their noise.
        own: shares of the bins among the generator's rows, (k, BINS).
        totals: sums of the counts, (k,), >= 1.
        groups: groups of similar numbers.
    """
    shares = own.copy()
    for group in groups:
        noise, total = stddev / math.sqrt(len(group)), float(totals[group].mean())
        mean = shares_of(counts[group].mean(0), noise, own[group].mean(0), total)
        before, after = (totals[group, None] * each for each in (own[group], mean[None]))
        lost, error = (np.square(counts[group] - each).sum() for each in (before, after))
        if error + 2.0 * stddev**2 * BINS + 4.0 * stddev * np.linalg.norm(after - before) < lost:
            shares[group] = mean
    return shares


def match_marginals(
    generator: Generator, histograms: np.ndarray, stddev: float, records: float, seed: int
) -> Generator:
    """Returns a generator whose numbers have the released marginals; the order of values between bins is kept.

    Args:
        generator: generator of a table.
        histograms: noised counts of the numbers' bins, (k, BINS), in the units of records.
        stddev: standard deviation of their noise.
        records: released number of records.
        seed: public seed of the rows that estimate the generator's marginals.
    """
    X, _ = generator.outputs(OWN_ROWS, seed)
    rounded = generator.schema.to_unit(generator.schema.from_unit(X))
    quantiles, own, totals, levels = [], [], [], np.linspace(0.0, 1.0, LEVELS)
    for j, gap, counts in zip(*numbers_of(generator.schema), histograms, strict=True):
        kept = slice(None) if gap < 0 or (X[:, gap] > 0.5).all() else X[:, gap] < 0.5
        quantiles.append(np.quantile(centres_of(bins_of(X[kept, j])), levels, method="nearest"))
        own.append(np.bincount(bins_of(rounded[kept, j]), minlength=BINS) / len(X[kept]))
        totals.append(max(1.0, records if gap < 0 else float(counts.sum())))
    expected = expected_shares(histograms, stddev, np.array(own), np.array(totals), similar_numbers(generator.schema))
    released = [
        shares_of(counts, stddev, before, total)
        for counts, before, total in zip(histograms, expected, totals, strict=True)
    ]
    return replace(generator, marginals=Marginals(np.array(quantiles, np.float32), np.array(released, np.float32)))
