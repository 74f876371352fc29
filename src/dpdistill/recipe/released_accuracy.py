"""Estimates a classifier's accuracy from released counts, with an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from dpdistill.schema.counts import LEVEL


class Accuracy(NamedTuple):
    """An accuracy with its interval, in percent.

    Args:
        estimate: ratio of the noisy counts, between 0 and 100.
        low: lower end of the 95 percent interval.
        high: upper end.
    """

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.1f} % (95 % interval: {self.low:.1f} to {self.high:.1f} %)"


def accuracy_of(counts: Sequence[float]) -> Accuracy | None:
    """Returns the accuracy that two noisy counts tell; None if the noise hides it.

    With E - q N ~ Normal(0, t^2 + q^2 s^2) for the true error rate q, the interval has all q of
    (E - q N)^2 <= z^2 (t^2 + q^2 s^2): it covers q in 95 percent of all draws of the noise. An interval of all numbers
    from 0 to 1, or of no bounds, tells nothing.

    Args:
        counts: (N, E, s, t): noisy number of records, noisy number of wrongly named ones, standard deviations of the
            noise of both; without noise 0.

    Source: Fieller, 1954 (Some problems in interval estimation).
    """
    N, E, s, t = map(float, counts)
    a, b, c = N**2 - (LEVEL * s) ** 2, N * E, E**2 - (LEVEL * t) ** 2
    if N <= 0 or a <= 0:
        return None
    middle, half = b / a, math.sqrt(max(b * b - a * c, 0.0)) / a
    found = Accuracy(*(100.0 * (1.0 - min(1.0, max(0.0, q))) for q in (E / N, middle + half, middle - half)))
    return None if (found.low, found.high) == (0.0, 100.0) else found
