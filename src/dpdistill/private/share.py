"""The curator of one of several owners: its releases are integers, and its noise is a share of the event's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpdistill.private.curator import Curator
from dpdistill.private.grid import Grid
from dpdistill.private.linear import step_and_sensitivity, whole_steps
from dpdistill.private.noise import rounded_gaussian
from dpdistill.query import LinearQuery, Query


class ShareCurator(Curator):
    """Answers with integer sums of one owner's records, whose noise suffices only together with other owners' noise.

        share = sum z + round(N(0, s^2 / shares)),   s = noise_multiplier K, or noise_multiplier Delta / step

    Args:
        shares: number of honest owners whose noise adds up to the event's variance, at least; >= 1.
        arguments: arguments of `Curator`.

    Guarantee:
        None for a single share: it must leave the owner masked only. A sum of `shares` shares or more is a release of
        the event, up to the aliasing of `accounting.noise_shares`.
    """

    def __init__(self, *arguments: Any, shares: int) -> None:
        super().__init__(*arguments)
        self._shares = shares

    def _noised(self, query: Query, total: np.ndarray, noise_multiplier: float, grid: Grid | None) -> Any:
        """Returns (the integer sum with a share of the noise, int64, the share's standard deviation in steps)."""
        if grid is None:
            assert isinstance(query, LinearQuery)
            step, sensitivity = step_and_sensitivity(query.clip_norm, total[0].size)
            total, stddev = whole_steps(total), noise_multiplier * sensitivity / step
        else:
            stddev = noise_multiplier * grid.K
        share = stddev / math.sqrt(self._shares) * (1.0 + 2.0**-50)  # rounded up: the variances add up to stddev^2
        return total + rounded_gaussian(total.shape, share, self._entropy), share
