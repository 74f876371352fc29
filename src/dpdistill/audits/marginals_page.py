"""Builds chapters and JSON about the marginals of a table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from dpdistill.audits.marginals import ColumnComparison, Comparison
from dpdistill.audits.page import Chapter, chapter, write_audit
from dpdistill.evaluation.bins import BINS
from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.schema.table import from_share

MOST_CLASSES = 5
WIDTH, HEIGHT = 170, 44


def write_marginals(folder_audit: Path | str, comparison: Comparison, schema: TableSchema) -> Path:
    """Writes marginals.html and marginals.json into the owner's folder of audits, with mode 0700.

    Args:
        folder_audit: the folder; made with mode 0700 if missing, and given that mode if not.
        comparison: comparison of the synthetic set with the private records.
        schema: the public facts of both.

    Returns:
        Path of the page: one file that loads nothing from anywhere.

    Raises:
        DataError: a comparison of other columns, or a folder that cannot be written.
    """
    c = comparison
    if [column.name for column in c.columns] != [column.name for column in schema.columns]:
        raise DataError("Expected a comparison of the schema's columns; got other columns.")
    summary = (
        f"{c.real_rows.sum():,} private records, {c.synthetic_rows.sum():,} synthetic rows, {len(c.columns):,} columns."
    )
    if c.left_out:
        summary += f" Left out: {c.left_out:,} records that contribute nothing (unknown label or missing value)."
    return write_audit(
        folder_audit,
        "marginals",
        title="Real and synthetic rows",
        summary=summary,
        chapters=marginal_chapters(c, schema),
        results=to_json(c, schema),
    )


def marginal_chapters(comparison: Comparison, schema: TableSchema) -> list[Chapter]:
    """Returns chapters on columns, classes, pairs and counts of a synthetic table and the private one."""
    c = comparison
    return [
        _columns(c, schema),
        chapter("The classes", "classes", rows=_class_rows(c)),
        chapter("Pairs of columns", "pairs", correlations=c.correlations),
        chapter("Counts of several columns", "workload", bins=BINS, rows=c.workload, score=_score(c)),
    ]


def to_json(comparison: Comparison, schema: TableSchema) -> dict[str, Any]:
    """Returns the comparison for JSON; null for an undefined distance."""
    c = comparison
    return {
        "rows": {"real": int(c.real_rows.sum()), "synthetic": int(c.synthetic_rows.sum()), "left_out": c.left_out},
        "classes": [
            {"name": name, "real": int(n), "synthetic": int(m), "real_share": float(p), "synthetic_share": float(q)}
            for name, n, p, m, q in _class_rows(c)
        ],
        "columns": [
            {
                "name": column.name,
                "kind": facts.kind,
                "distance": _defined(column.distance),
                "distances": [_defined(distance) for distance in column.distances],
                "values": list(column.values),
                "real": column.real.tolist(),
                "synthetic": column.synthetic.tolist(),
            }
            for column, facts in zip(c.columns, schema.columns, strict=True)
        ],
        "correlations": {**vars(c.correlations), "pair": list(c.correlations.pair)},
        "workload": [
            {**one._asdict(), "mean": _defined(one.mean), "largest": _defined(one.largest)} for one in c.workload
        ],
        "k_marginal_score": _score(c),
    }


def _score(c: Comparison) -> float | None:
    """Returns the k-marginal score of three columns; None if no table of three columns was compared."""
    return _defined(c.workload[-1].score)


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


def _class_rows(c: Comparison) -> list[tuple]:
    return list(zip(c.classes, c.real_rows, c.real_shares, c.synthetic_rows, c.synthetic_shares, strict=True))


def _columns(c: Comparison, schema: TableSchema) -> Chapter:
    """Returns the chapter on columns, one row per column, largest distance first."""
    named = len(c.classes) <= MOST_CLASSES
    pairs = sorted(zip(c.columns, schema.columns, strict=True), key=lambda pair: -pair[0].distance)
    return chapter(
        "The columns",
        "columns",
        mean=np.mean([column.distance for column in c.columns]),
        bins=BINS,
        within=[f"within {name}" for name in c.classes] if named else ["largest within a class"],
        rows=[_column(column, facts, named) for column, facts in pairs],
    )


def _column(column: ColumnComparison, facts: Column, named: bool) -> dict[str, Any]:
    p, q = (counts.sum(0) / max(counts.sum(), 1) for counts in (column.real, column.synthetic))
    defined = [distance for distance in column.distances if not math.isnan(distance)]
    worst = int(np.abs(p - q).argmax())
    return {
        "facts": facts,
        "distance": column.distance,
        "paths": _paths(p, q),
        "within": [_defined(distance) for distance in column.distances] if named else [max(defined, default=None)],
        "value": _value(facts, column, worst),
        "real": p[worst],
        "synthetic": q[worst],
    }


def _value(facts: Column, column: ColumnComparison, bin: int) -> str:
    """Returns the label of a bin: a category, "missing", or the range of a bin of numbers in raw units."""
    if facts.bounds is None or bin >= BINS:
        return column.values[bin]
    low, high = map(np.float64, facts.bounds)
    ends = from_share(np.array([bin, bin + 1]) / BINS, low, high, facts.scale == "log")
    if facts.is_time:
        return " to ".join(map(facts.text, ends))
    return " to ".join(f"{x:,.0f}" if 1e4 <= abs(x) < 1e15 else f"{x:.4g}" for x in ends)


def _paths(p: np.ndarray, q: np.ndarray) -> list[tuple[str, str]]:
    """Returns SVG paths of two bars per bin, records and synthetic rows."""
    step, scale = WIDTH / len(p), (HEIGHT - 2) / max(p.max(), q.max(), 1e-12)
    bar = 0.42 * step

    def path(shares: np.ndarray, shift: float) -> str:
        return "".join(
            f"M{k * step + shift:.2f} {HEIGHT}v-{share * scale:.1f}h{bar:.2f}v{share * scale:.1f}z"
            for k, share in enumerate(shares)
            if share
        )

    return [("real", path(p, 0.04 * step)), ("synthetic", path(q, 0.04 * step + bar))]
