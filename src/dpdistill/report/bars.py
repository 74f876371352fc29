"""The pictures of a table's columns as inline SVG: histograms of numbers, bars of categories, a colour a group."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from dpdistill.report import words
from dpdistill.schema import Column
from dpdistill.schema.table import from_share

BINS, BARS = 24, 12
WIDTH, TOP, BASE, HEIGHT = 240, 16, 98, 114
ABSENT, GAP = 14, 10
LABEL, PERCENT, STEP = 104, 40, 18
LETTERS = 14


class Counts(NamedTuple):
    """How many rows of each group have which value.

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
    """The inner edges of a histogram over the declared bounds, ascending, at most BINS - 1.

    They split the bounds in equal parts, on the column's scale. Those of whole numbers lie half way between two of
    them, so that a bin of a linear scale holds equally many.
    """
    assert column.bounds is not None
    low, high = column.bounds
    if column.kind == "integer" and column.scale == "linear":
        first, count = math.ceil(low), math.floor(high) - math.ceil(low) + 1
        step = max(1, math.ceil(count / BINS))
        return first - 0.5 + float(step) * np.arange(1, math.ceil(count / step))
    share = np.arange(1, BINS) / BINS
    inner = from_share(share, np.float64(low), np.float64(high), column.scale == "log")
    return np.unique(np.floor(inner) + 0.5) if column.kind == "integer" else inner


def count(column: Column, values: np.ndarray, groups: np.ndarray, size: int) -> Counts:
    """Counts of raw values (m,), NaN where missing, in groups (m,) of 0 to size - 1."""
    known = np.isfinite(values)
    if column.is_number:
        inner = edges(column)
        bins, slots = len(inner) + 1, np.searchsorted(inner, values[known], "right")
    else:
        bins, slots = len(column.categories), values[known].astype(np.intp)
    table = np.bincount(groups[known] * bins + slots, minlength=size * bins).reshape(size, bins)
    return Counts(table, np.bincount(groups[~known], minlength=size))


def histogram_svg(column: Column, counts: Counts) -> str:
    """The histogram of a column of numbers: groups stacked, missing values as a bar of their own at the right."""
    assert column.bounds is not None
    shares, absent = counts.bins / max(counts.rows, 1), counts.absent / max(counts.rows, 1)
    peak = max(shares.sum(0).max(), absent.sum())
    width = WIDTH - (ABSENT + GAP if column.missing else 0)
    step = width / shares.shape[1]
    scale = (BASE - TOP) / (peak or 1.0)
    starts = [(k * step, step - (1.0 if step > 4 else 0.0)) for k in range(shares.shape[1])]
    if column.missing:
        shares, starts = np.column_stack([shares, absent]), [*starts, (float(WIDTH - ABSENT), float(ABSENT))]
    ends = np.cumsum(shares, 0) * scale
    paths = (
        [
            f"M{x:.1f} {BASE - end:.1f}h{wide:.1f}v{part * scale:.1f}h-{wide:.1f}z"
            for (x, wide), end, part in zip(starts, row_ends, row, strict=True)
            if part > 0
        ]
        for row_ends, row in zip(ends, shares, strict=True)
    )
    low, high = (number_text(bound) for bound in column.bounds)
    texts = [
        f'<text x="0" y="11">{percent(peak)}</text>',
        f'<line x1="0" x2="{width}" y1="{BASE}.5" y2="{BASE}.5"/>',
        f'<text x="0" y="{HEIGHT - 2}">{low}</text>',
        f'<text x="{width}" y="{HEIGHT - 2}" text-anchor="end">{high}</text>',
    ]
    if column.missing:
        texts.append(f'<text x="{WIDTH - ABSENT / 2:g}" y="{HEIGHT - 2}" text-anchor="middle">–</text>')
    return _svg(HEIGHT, f"histogram of {column.name}", _filled(paths), texts)


def bars_svg(column: Column, counts: Counts) -> str:
    """The shares of a column of categories as bars, groups side by side; of more than BARS the rest is one bar."""
    names, table = _few(column, counts.bins)
    if column.missing:
        names, table = [*names, "–"], np.column_stack([table, counts.absent])
    shares = table / max(counts.rows, 1)
    scale = (WIDTH - LABEL - PERCENT) / (shares.sum(0).max() or 1.0)
    ends = LABEL + np.cumsum(shares, 0) * scale
    paths = (
        [
            f"M{end - part * scale:.1f} {k * STEP + 3}h{part * scale:.1f}v12h-{part * scale:.1f}z"
            for k, (end, part) in enumerate(zip(row_ends, row, strict=True))
            if part > 0
        ]
        for row_ends, row in zip(ends, shares, strict=True)
    )
    texts = []
    for k, (name, end, share) in enumerate(zip(names, ends[-1], shares.sum(0), strict=True)):
        title = f"<title>{escape(name)}</title>" if len(name) > LETTERS else ""
        place = f'x="{LABEL - 6}" y="{k * STEP + 13}" text-anchor="end"'
        texts.append(f"<text {place}>{title}{escape(cut(name, LETTERS))}</text>")
        texts.append(f'<text x="{end + 5:.1f}" y="{k * STEP + 13}">{percent(share)}</text>')
    return _svg(len(names) * STEP, f"shares of {column.name}", _filled(paths), texts)


def _few(column: Column, table: np.ndarray) -> tuple[list[str], np.ndarray]:
    """At most BARS categories: the first ones by frequency, in order if they have one, and the sum of the rest."""
    names = list(column.categories)
    if len(names) <= BARS:
        return names, table
    order = np.argsort(-table.sum(0), kind="stable")
    kept = np.sort(order[: BARS - 1]) if column.kind == "ordinal" else order[: BARS - 1]
    rest = table[:, order[BARS - 1 :]].sum(1)
    return [*(names[k] for k in kept), f"{len(names) - len(kept)} others"], np.column_stack([table[:, kept], rest])


def _filled(paths: Iterable[Sequence[str]]) -> list[str]:
    return [f'<path class="c{k}" d="{"".join(parts)}"/>' for k, parts in enumerate(paths) if parts]


def _svg(height: int, label: str, *parts: Sequence[str]) -> str:
    body = "".join(text for part in parts for text in part)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(cut(label, 100))}">{body}</svg>'


def number_text(value: float) -> str:
    """A number: whole ones up to 15 digits with all of them, others with 6 significant digits."""
    value = float(value)
    whole = abs(value) < 1e15 and value == round(value)
    return f"{round(value)}" if whole else words.plain(value)


def percent(share: float) -> str:
    """A share of rows as a whole percentage; less than one, but not none, as `<1 %`, escaped."""
    return "&lt;1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def cut(text: str, length: int) -> str:
    """At most so many characters of a text, the last one … where it is longer."""
    return text if len(text) <= length else text[: length - 1] + "…"
