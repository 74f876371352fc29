"""Geometry of the leaderboard's plots: accuracy against epsilon, records a class, and seconds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from dpdistill.cli.benchmarks.figures import Row, Setting, Table

WIDTH, HEIGHT, COLOURS, MARKS = 420, 220, 8, 3
"""Of the plane of a plot, its origin at the top left; how many colours and marks the page has."""

SECONDS = "CPU seconds of distilling"


class Series(NamedTuple):
    """A line of a plot.

    Args:
        name: in the legend.
        colour: its number.
        ours: and not published.
        points: (x, y, text).
        mark: number of its mark, which tells series of one colour apart.
    """

    name: str
    colour: int
    ours: bool
    points: list[tuple[float, float, str]]
    mark: int


class Plot(NamedTuple):
    """A plot as leaderboard.html draws it.

    Args:
        title: of both axes, in words.
        across: (x, text) of the marks of the horizontal axis.
        up: (y, text) of the marks of the vertical one.
        series: its lines.
        joined: the points of a series are joined by a line.
    """

    title: str
    across: list[tuple[float, str]]
    up: list[tuple[float, str]]
    series: list[Series]
    joined: bool


def colours(tables: Iterable[Table]) -> dict[str, int]:
    """The colour of every method, the same in all tables of a data set; ours come first, so that theirs differ."""
    rows = sorted((row for table in tables for row in table.rows), key=lambda row: not row.ours)
    return {name: k for k, name in enumerate(dict.fromkeys(row.name for row in rows))}


def plots(table: Table, colour_of: dict[str, int]) -> list[Plot]:
    """The plots of a table that have something to show: at least two points beside each other.

    Against epsilon at the size, and against the size at the epsilon, that most figures have.
    """
    names = _names(table.rows)
    points = [
        (colour_of[row.name], name, row, setting, figure)
        for name, row in zip(names, table.rows, strict=True)
        for setting, figure in row.figures.items()
        if isinstance(setting, Setting) and not math.isinf(setting.epsilon)
    ]
    if not points:
        return []
    size = Counter(setting.per_class for *_, setting, _ in points).most_common(1)[0][0]
    epsilon = Counter(setting.epsilon for *_, setting, _ in points).most_common(1)[0][0]
    found, at = [], f", {size} a class" if size else ""
    for what, x_of, keep in (
        (f"ε{at}", lambda s, _: s.epsilon, lambda s: s.per_class == size),
        (f"records a class, ε = {epsilon:g}", lambda s, _: s.per_class, lambda s: s.per_class and s.epsilon == epsilon),
        (SECONDS, lambda _, f: f.seconds, lambda _: True),
    ):
        series: dict[tuple[int, str, bool], list[tuple[float, float]]] = {}
        for k, name, row, setting, figure in points:
            if keep(setting) and x_of(setting, figure):
                series.setdefault((k, name, row.ours), []).append((x_of(setting, figure), figure.mean))
        if len({x for each in series.values() for x, _ in each}) > 1:
            found.append(_plot(f"{table.title}, %, against {what}", series, what != SECONDS))
    return found


def _names(rows: list[Row]) -> list[str]:
    """What tells each row of a table from the others: its name, with how it was scored and its recipe where need be."""
    names, scored = Counter(row.name for row in rows), Counter((row.name, row.by) for row in rows)
    return [
        ", ".join((row.name, *[row.by] * (names[row.name] > 1), *[row.origin] * (scored[row.name, row.by] > 1)))
        for row in rows
    ]


def _plot(title: str, series: dict[tuple[int, str, bool], list[tuple[float, float]]], joined: bool) -> Plot:
    """The horizontal axis is logarithmic."""
    xs = [math.log10(x) for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    left, right = min(xs), max(xs)
    step = next(s for s in (0.5, 1, 2, 5, 10, 20, 25) if (max(ys) - min(ys)) / s <= 5 or s == 25)
    low = step * math.floor(min(ys) / step)
    high = max(step * math.ceil(max(ys) / step), low + step)

    def x(value: float) -> float:
        return round(16 + (math.log10(value) - left) / (right - left) * (WIDTH - 32), 1)

    def y(value: float) -> float:
        return round(HEIGHT * (high - value) / (high - low), 1)

    drawn, alike = [], Counter()
    for (k, name, ours), points in series.items():
        at = [(x(a), y(b), f"{name}: {b:.2f} at {_short(a)}") for a, b in sorted(points)]
        drawn.append(Series(name, k % COLOURS, ours, at, alike[k % COLOURS, ours] % MARKS))
        alike[k % COLOURS, ours] += 1
    marks: list[float] = []
    for value in sorted({a for points in series.values() for a, _ in points}):
        if not marks or x(value) - x(marks[-1]) >= 48:
            marks.append(value)
    rules = [low + step * k for k in range(round((high - low) / step) + 1)]
    return Plot(title, [(x(a), _short(a)) for a in marks], [(y(b), f"{b:g}") for b in rules], drawn, joined)


def _short(value: float) -> str:
    """Three digits, and all of a whole number that has more: 0.5, 54.9, 1,543."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
