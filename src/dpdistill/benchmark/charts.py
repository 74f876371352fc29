"""Plots of the leaderboard by Matplotlib: accuracy against epsilon, records per class, and seconds."""

from __future__ import annotations

import base64
import io
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dpdistill.benchmark.figures import Row, Setting, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS, MARKS = 10, "osD^v"
"""Number of colours in Matplotlib's cycle, and marks that distinguish series of one colour."""
SECONDS = "CPU seconds of distilling"
NO_PLOTS = "Without plots: pip install 'dpdistill[plot]' brings Matplotlib, which draws them."

Series = dict[tuple[int, str, bool], list[tuple[float, float]]]
"""Type of series: points by (number of the colour, name, True for our own results)."""


def can_plot() -> bool:
    """Returns whether Matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def colours(tables: Iterable[Table]) -> dict[str, int]:
    """Returns the colour of every method, equal in all tables of a data set; own methods come first."""
    rows = sorted((row for table in tables for row in table.rows), key=lambda row: not row.ours)
    return {name: k for k, name in enumerate(dict.fromkeys(row.name for row in rows))}


def uris(table: Table, colour_of: dict[str, int]) -> list[tuple[str, str]]:
    """Returns (title, SVG as a data URI) of each plot of a table; empty without Matplotlib."""
    if not can_plot():
        return []
    from matplotlib import rc_context

    found = []
    for figure in plots(table, colour_of):
        # Equal plots have equal bytes; texts use the reader's font.
        with rc_context({"svg.hashsalt": "dpdistill", "svg.fonttype": "none"}), io.BytesIO() as file:
            figure.savefig(file, format="svg", metadata={"Date": None})
            svg = base64.b64encode(file.getvalue()).decode()
        found.append((figure.axes[0].get_title(), f"data:image/svg+xml;base64,{svg}"))
    return found


def plots(table: Table, colour_of: dict[str, int]) -> list[Figure]:
    """Returns the plots of a table with at least two distinct points on the horizontal axis.

    Accuracy is plotted against epsilon at the most frequent size, and against size at the most frequent epsilon.
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
    at = f", {size} a class" if size else ""
    axes: list[tuple[str, Callable[..., Any], Callable[[Setting], Any]]] = [
        (f"ε{at}", lambda s, _: s.epsilon, lambda s: s.per_class == size),
        (f"records a class, ε = {epsilon:g}", lambda s, _: s.per_class, lambda s: s.per_class and s.epsilon == epsilon),
        (SECONDS, lambda _, f: f.seconds, lambda _: True),
    ]
    found = []
    for what, x_of, keep in axes:
        series: Series = {}
        for k, name, row, setting, figure in points:
            if keep(setting) and x_of(setting, figure):
                series.setdefault((k, name, row.ours), []).append((x_of(setting, figure), figure.mean))
        if len({x for each in series.values() for x, _ in each}) > 1:
            found.append(_plot(f"{table.title}, %, against {what}", series, joined=what != SECONDS))
    return found


def _names(rows: list[Row]) -> list[str]:
    """Returns distinct names of a table's rows, with scoring and recipe where necessary."""
    names, scored = Counter(row.name for row in rows), Counter((row.name, row.by) for row in rows)
    return [
        ", ".join((row.name, *[row.by] * (names[row.name] > 1), *[row.origin] * (scored[row.name, row.by] > 1)))
        for row in rows
    ]


def _plot(title: str, series: Series, *, joined: bool) -> Figure:
    """Plots series on a logarithmic horizontal axis; published series are hollow and dotted."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    figure = Figure(figsize=(6, 3.4 + 0.18 * len(series)), layout="constrained")
    axes, alike = figure.subplots(), Counter()
    for (k, _, ours), points in series.items():
        axes.plot(
            *zip(*sorted(points), strict=True),
            color=f"C{k % COLOURS}",
            marker=MARKS[alike[k % COLOURS, ours] % len(MARKS)],
            fillstyle="full" if ours else "none",
            linestyle=("-" if ours else ":") if joined else "none",
        )
        alike[k % COLOURS, ours] += 1
    axes.set_xscale("log")
    marks = _apart([x for points in series.values() for x, _ in points])
    axes.set_xticks(marks, [_short(x) for x in marks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y", alpha=0.3)
    names = [name for _, name, _ in series]
    # Labels are set after the legend is built, which omits names that begin with _ and reads $ as mathematics.
    legend = figure.legend(axes.lines, [str(i) for i in range(len(names))], loc="outside lower left", fontsize="small")
    texts = [axes.set_title(title, fontsize="medium"), *legend.get_texts()]
    for text, shown in zip(texts, (title, *names), strict=True):
        text.set_parse_math(False)
        text.set_text(shown)
    return figure


def _apart(values: Iterable[float]) -> list[float]:
    """Returns the values with enough room for labels on a logarithmic axis, from the smallest on."""
    found: list[float] = []
    distinct = sorted({*values})
    for value in distinct:
        if not found or math.log(value / found[-1]) >= math.log(distinct[-1] / distinct[0]) / 8:
            found.append(value)
    return found


def _short(value: float) -> str:
    """Formats three digits, or all digits of a larger integer: 0.5, 54.9, 1,543."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
