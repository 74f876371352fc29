"""Plots of a shared folder for papers and notebooks, by Matplotlib (`pip install 'dpdistill[plot]'`).

Every function draws on the given axes, or on new ones, and returns them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpdistill.publish.report.charts import count, edges
from dpdistill.publish.report.folder import Folder, read_folder
from dpdistill.publish.report.guarantee import read_guarantee
from dpdistill.publish.report.pictures import to_pixels
from dpdistill.publish.report.words import bound, plain
from dpdistill.schema import Column, DataError, TableSchema

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def images(folder: str | os.PathLike, per_class: int = 10, ax: Axes | None = None) -> Axes:
    """Draws a grid of synthetic images, one row for each class with its name at the left.

    Args:
        folder: the shared folder of images.
        per_class: largest number of images per class, >= 1.
        ax: axes to draw on.

    Returns:
        The axes.

    Raises:
        DataError: the folder holds a table, or cannot be read.
        ValueError: per_class < 1.
    """
    contents = read_folder(Path(folder))
    if isinstance(contents.schema, TableSchema):
        raise DataError("Expected a folder of images: this one holds a table, which `marginals` draws.")
    if per_class < 1:
        raise ValueError(f"Expected per_class={per_class} >= 1.")
    classes, (height, width) = contents.schema.classes, contents.schema.shape[:2]
    rows = [np.flatnonzero(contents.y == k)[:per_class] for k in range(len(classes))]
    pixels = to_pixels(contents.X, contents.schema)
    step = (height + max(1, height // 8), width + max(1, width // 8))
    shape = (len(classes) * step[0], max(len(row) for row in rows) * step[1], pixels.shape[-1])
    canvas = np.full(shape, 255, np.uint8)
    for k, row in enumerate(rows):
        for j, i in enumerate(row):
            canvas[k * step[0] : k * step[0] + height, j * step[1] : j * step[1] + width] = pixels[i]
    ax = _axes(ax)
    ax.imshow(np.squeeze(canvas), cmap="gray" if shape[-1] == 1 else None, vmin=0, vmax=255, interpolation="nearest")
    ax.set_yticks([k * step[0] + height / 2 for k in range(len(classes))], classes)
    ax.set_xticks([])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


def epsilon(folder: str | os.PathLike, ax: Axes | None = None) -> Axes:
    """Draws the certificate's curve of epsilon against delta and marks the claim.

    Args:
        folder: the shared folder.
        ax: axes to draw on.

    Returns:
        The axes.

    Raises:
        DataError: the folder cannot be read, or states no finite epsilon.
    """
    g = read_guarantee(read_folder(Path(folder)).certificate)
    if not g.finite:
        raise DataError("Expected a set with a guarantee: this one states no epsilon.")
    ax = _axes(ax)
    ax.plot(*zip(*g.finite, strict=True), marker="o", label="certificate")
    claim = f"claim: ε = {bound(g.epsilon)} at δ = {plain(g.delta)}"
    ax.plot([g.delta], [g.epsilon], "o", markersize=10, fillstyle="none", color="black", label=claim)
    ax.set(xscale="log", xlabel="δ", ylabel="ε", ylim=(0, None))
    ax.legend()
    return ax


def accuracy(
    scores: Mapping[float, float | Sequence[float]], real: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draws accuracy against epsilon: one point per budget, with the standard deviation over several runs.

    Args:
        scores: accuracy in percent for each epsilon, > 0; a sequence for several runs.
        real: accuracy in percent of a model trained on the real records, drawn as a line.
        ax: axes to draw on.

    Returns:
        The axes.

    Raises:
        ValueError: no scores, or an epsilon that is not positive and finite.
    """
    budgets = sorted(scores)
    if not budgets or not (budgets[0] > 0 and np.isfinite(budgets[-1])):
        raise ValueError(f"Expected scores by epsilon, each positive and finite; got {list(scores)}.")
    runs = [np.atleast_1d(np.asarray(scores[budget], float)) for budget in budgets]
    ax = _axes(ax)
    spread = [run.std(ddof=1) if len(run) > 1 else 0.0 for run in runs]
    ax.errorbar(budgets, [run.mean() for run in runs], spread, marker="o", capsize=3, label="synthetic records")
    if real is not None:
        ax.axhline(real, linestyle="--", color="grey", label="real records")
        ax.legend()
    ax.set(xscale="log", xlabel="ε", ylabel="accuracy, %")
    ax.set_xticks(budgets, [f"{budget:g}" for budget in budgets])
    ax.minorticks_off()
    return ax


def marginals(folder: str | os.PathLike, columns: Sequence[str] | None = None) -> Any:
    """Draws the distribution of each column of a synthetic table, one small chart per column.

    Args:
        folder: the shared folder of a table.
        columns: names of the columns to draw; by default all.

    Returns:
        The axes, one per column, in order.

    Raises:
        DataError: the folder holds images, cannot be read, or lacks a named column.
    """
    contents = read_folder(Path(folder))
    if not isinstance(contents.schema, TableSchema):
        raise DataError("Expected the folder of a table: this one holds images, which `images` draws.")
    names = [column.name for column in contents.schema.columns]
    wanted = list(names if columns is None else columns)
    if unknown := [name for name in wanted if name not in names] or ([] if wanted else ["none"]):
        raise DataError(f"Expected columns among {', '.join(names)}; got {unknown[0]}.")
    wide = min(len(wanted), 4)
    figure = _pyplot().figure(figsize=(3 * wide, 2.4 * -(-len(wanted) // wide)), layout="constrained")
    drawn = [figure.add_subplot(-(-len(wanted) // wide), wide, k + 1) for k in range(len(wanted))]
    values = contents.schema.from_unit(contents.X)
    for ax, name in zip(drawn, wanted, strict=True):
        at = names.index(name)
        _marginal(ax, contents, contents.schema.columns[at], values[:, at])
    return drawn


def _marginal(ax: Axes, found: Folder, column: Column, values: np.ndarray) -> None:
    counts = count(column, values, np.zeros(len(found.y), np.intp), 1)
    shares = counts.bins[0] / max(counts.rows, 1)
    if column.bounds is not None:
        inner = edges(column)
        ax.stairs(shares, np.r_[column.bounds[0], inner, column.bounds[1]], fill=True)
    else:
        ax.barh(range(len(shares)), shares)
        ax.set_yticks(range(len(shares)), column.categories)
        ax.invert_yaxis()
    missing = int(counts.absent.sum())
    ax.set_title(f"{column.name} ({missing / len(found.y):.0%} missing)" if missing else column.name, fontsize="medium")


def _axes(ax: Axes | None) -> Axes:
    return _pyplot().figure(layout="constrained").add_subplot() if ax is None else ax


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise DataError("Plots need Matplotlib: pip install 'dpdistill[plot]'.") from None
    return pyplot
