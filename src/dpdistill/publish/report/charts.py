"""Geometry of the charts that templates/charts.html draws: histograms, bars of categories, ε against δ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpdistill.publish.report.words import number
from dpdistill.schema import Column
from dpdistill.schema.table import from_share

BINS, BARS = 24, 12
WIDTH, TOP, BASE = 240, 16, 98
"""Width of a column's chart, and the vertical range of its histogram."""
ABSENT, GAP = 14, 10
"""Width of the bar of missing values, and the gap before it."""
NAME, PERCENT, STEP, BAR = 104, 40, 18, 12
"""Sizes of a bar chart: width of names and percentages, distance between bars, height of a bar."""
CURVE = (456, 232)
"""Width and height of the plane of ε against δ, its origin at the top left."""


class Counts(NamedTuple):
    """Numbers of rows by group and value.

    Args:
        bins: (groups, bins).
        absent: rows with a missing value, (groups,).
    """

    bins: np.ndarray
    absent: np.ndarray

    @property
    def rows(self) -> int:
        return int(self.bins.sum() + self.absent.sum())


def edges(column: Column) -> np.ndarray:
    """Returns the inner edges of a histogram over the declared bounds, ascending, at most BINS - 1.

    The edges split the bounds in equal parts on the column's scale. For whole numbers each edge lies half way between
    two of them, so that bins of a linear scale hold equally many numbers.
    """
    assert column.bounds is not None
    low, high = column.bounds
    if column.is_whole and column.scale == "linear":
        first, count = math.ceil(low), math.floor(high) - math.ceil(low) + 1
        step = max(1, math.ceil(count / BINS))
        return first - 0.5 + float(step) * np.arange(1, math.ceil(count / step))
    share = np.arange(1, BINS) / BINS
    inner = from_share(share, np.float64(low), np.float64(high), column.scale == "log")
    return np.unique(np.floor(inner) + 0.5) if column.is_whole else inner


def count(column: Column, values: np.ndarray, groups: np.ndarray, size: int) -> Counts:
    """Counts raw values (m,), NaN if missing, in groups (m,) from 0 to size - 1."""
    known = np.isfinite(values)
    if column.is_number:
        inner = edges(column)
        bins, slots = len(inner) + 1, np.searchsorted(inner, values[known], "right")
    else:
        bins, slots = len(column.categories), values[known].astype(np.intp)
    table = np.bincount(groups[known] * bins + slots, minlength=size * bins).reshape(size, bins)
    return Counts(table, np.bincount(groups[~known], minlength=size))


def histogram(column: Column, counts: Counts) -> dict[str, Any]:
    """Returns the histogram of a number column with stacked groups; missing values are a separate bar at the right."""
    assert column.bounds is not None
    shares, absent = counts.bins / max(counts.rows, 1), counts.absent / max(counts.rows, 1)
    peak = float(max(shares.sum(0).max(), absent.sum()))
    width = float(WIDTH - (ABSENT + GAP if column.missing else 0))
    step = width / shares.shape[1]
    x, wide = step * np.arange(shares.shape[1]), np.full(shares.shape[1], step - (1.0 if step > 4 else 0.0))
    if column.missing:
        shares, x, wide = np.column_stack([shares, absent]), np.r_[x, WIDTH - ABSENT], np.r_[wide, ABSENT]
    heights = shares * (BASE - TOP) / (peak or 1.0)
    paths = _paths(x, BASE - np.cumsum(heights, 0), wide, heights)
    ends = [column.text(end) if column.is_time else number(end, ",") for end in column.bounds]
    return {"paths": paths, "peak": peak, "ends": ends, "width": width, "missing": column.missing}


def bars(column: Column, counts: Counts) -> dict[str, Any]:
    """Returns the shares of a category column, groups side by side; categories beyond BARS share one bar.

    Returns:
        One SVG path per group; (top, name, right end, share of the rows) of each bar.
    """
    names, table = _few(column, counts.bins)
    if column.missing:
        names, table = [*names, "–"], np.column_stack([table, counts.absent])
    shares = table / max(counts.rows, 1)
    wide = shares * (WIDTH - NAME - PERCENT) / (shares.sum(0).max() or 1.0)
    ends, tops = NAME + np.cumsum(wide, 0), STEP * np.arange(len(names))
    paths = _paths(ends - wide, tops + (STEP - BAR) / 2, wide, np.full(len(names), float(BAR)))
    facts = (tops.tolist(), names, ends[-1].round(1).tolist(), shares.sum(0).tolist())
    return {"paths": paths, "bars": list(zip(*facts, strict=True))}


def _few(column: Column, table: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Returns at most BARS categories: the most frequent ones, in their order if ordinal, and the sum of the rest."""
    names = list(column.categories)
    if len(names) <= BARS:
        return names, table
    order = np.argsort(-table.sum(0), kind="stable")
    kept = np.sort(order[: BARS - 1]) if column.kind == "ordinal" else order[: BARS - 1]
    rest = table[:, order[BARS - 1 :]].sum(1)
    return [*(names[k] for k in kept), f"{len(names) - len(kept)} others"], np.column_stack([table[:, kept], rest])


def _paths(*rectangles: np.ndarray) -> list[str]:
    """Returns one SVG path per group for rectangles (x, y, width, height), each of shape (groups, n) or (n,)."""
    groups = np.stack(np.broadcast_arrays(*rectangles), axis=-1)
    return [
        "".join(f"M{x:.1f} {y:.1f}h{w:.1f}v{h:.1f}h-{w:.1f}z" for x, y, w, h in group if w > 0 and h > 0)
        for group in groups.tolist()
    ]


def curve(table: Sequence[tuple[float, float]], headline: float) -> dict[str, Any]:
    """Lays out ε against δ on a logarithmic axis.

    Args:
        table: (δ, ε) pairs, δ in (0, 1), ε finite.
        headline: the δ of the claim, whose point is drawn larger; 0 for none.

    Returns:
        (y, ε) of the rules, (x, δ) of the powers of ten, (x, y, ε, whether it is the headline, whether it is labelled)
        of the points.
    """
    points = sorted(table)
    first, last = (math.log10(delta) for delta, _ in (points[0], points[-1]))
    top = _nice_ceiling(1.08 * max(epsilon for _, epsilon in points))

    def x(exponent: float) -> float:
        return round(24 + (exponent - first) / max(last - first, 1e-9) * (CURVE[0] - 48), 1)

    def y(epsilon: float) -> float:
        return round(CURVE[1] * (1 - epsilon / top), 1)

    shown = []
    for delta, epsilon in points:
        paid = math.isclose(delta, headline, rel_tol=1e-6)
        # A second label would overlap the headline's.
        roomy = paid or headline == 0 or abs(math.log10(delta) - math.log10(headline)) >= 0.6
        shown.append((x(math.log10(delta)), y(epsilon), epsilon, paid, roomy))
    low, high = math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1
    powers = range(low, high, 1 + (high - low) // 9)
    return {
        "rules": [(y(top * k / 4), top * k / 4) for k in range(5)],
        "powers": [(x(power), 10.0**power) for power in powers],
        "points": shown,
    }


def _nice_ceiling(value: float) -> float:
    """Returns the smallest of 1, 1.2, 1.6, … 8, 10 times a power of ten that is >= value, for four steps."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 1e-300 else 1.0
    return next((k * power for k in (1, 1.2, 1.6, 2, 2.4, 3, 4, 6, 8) if k * power >= value), 10 * power)
