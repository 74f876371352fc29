"""Geometry of the leaderboard's plots: accuracy against epsilon, records a class, and seconds."""

from __future__ import annotations

import math
from typing import NamedTuple

from dpdistill.cli.benchmarks.figures import Setting, Table

WIDTH, HEIGHT, COLOURS = 420, 220, 8
"""Of the plane of a plot, its origin at the top left; how many colours the page has."""


class Plot(NamedTuple):
    """A plot as leaderboard.html draws it.

    Args:
        title: of both axes, in words.
        across: (x, text) of the marks of the horizontal axis.
        up: (y, text) of the marks of the vertical one.
        series: (name, colour, ours, [(x, y, text)]) of each line.
    """

    title: str
    across: list[tuple[float, str]]
    up: list[tuple[float, str]]
    series: list[tuple[str, int, bool, list[tuple[float, float, str]]]]


def plots(table: Table) -> list[Plot]:
    """The plots of a table that have something to show: at least two points beside each other."""
    if not all(isinstance(column, Setting) for column in table.columns):
        return []
    by_epsilon, by_size, by_seconds = ({}, {}, {})
    for row in table.rows:
        name = row.label if row.ours else f"{row.label} [{row.origin}]"
        for setting, figure in sorted(row.figures.items()):
            size = f", {setting.per_class} a class" if setting.per_class else ""
            privacy = "" if math.isinf(setting.epsilon) else f", ε = {setting.epsilon:g}"
            if not math.isinf(setting.epsilon):
                by_epsilon.setdefault((name + size, row.ours), []).append((setting.epsilon, figure.mean))
            if setting.per_class:
                by_size.setdefault((name + privacy, row.ours), []).append((setting.per_class, figure.mean))
            if figure.seconds:
                by_seconds.setdefault((name + size + privacy, True), []).append((figure.seconds, figure.mean))
    lines = {"ε": by_epsilon, "records a class": by_size}
    found = [
        _plot(f"{table.title}, % against {what}", {k: v for k, v in series.items() if len(v) > 1})
        for what, series in lines.items()
        if any(len(points) > 1 for points in series.values())
    ]
    if len(by_seconds) > 1:
        found.append(_plot(f"{table.title}, % against CPU seconds of distilling", by_seconds))
    return found


def _plot(title: str, series: dict[tuple[str, bool], list[tuple[float, float]]]) -> Plot:
    """Horizontal axes are logarithmic."""
    xs = [math.log10(x) for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    left, right = min(xs), max(xs)
    step = next(s for s in (0.5, 1, 2, 5, 10, 20, 25) if (max(ys) - min(ys)) / s <= 5 or s == 25)
    low = step * math.floor(min(ys) / step)
    high = max(step * math.ceil(max(ys) / step), low + step)

    def x(value: float) -> float:
        share = (math.log10(value) - left) / (right - left) if right > left else 0.5
        return round(16 + share * (WIDTH - 32), 1)

    def y(value: float) -> float:
        return round(HEIGHT * (high - value) / (high - low), 1)

    drawn = [
        (name, k % COLOURS, ours, [(x(a), y(b), f"{name}: {b:.2f} at {a:g}") for a, b in sorted(points)])
        for k, ((name, ours), points) in enumerate(series.items())
    ]
    marks = sorted({a for points in series.values() for a, _ in points})
    if len(marks) > 6:
        marks = [10.0**k * m for k in range(-1, 7) for m in (1, 2, 5) if left <= k + math.log10(m) <= right]
    rules = [low + step * k for k in range(round((high - low) / step) + 1)]
    return Plot(title, [(x(a), f"{a:g}") for a in marks], [(y(b), f"{b:g}") for b in rules], drawn)
