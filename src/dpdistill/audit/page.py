"""The owner's page about marginals: what it shows comes from the private records, and every screen of it says so."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from dpdistill.audit.marginals import BINS, ColumnComparison, Comparison
from dpdistill.data.save import write_atomically
from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.schema.table import from_share

NAME = "marginals"
NOTICE = (
    "For the owner of the records: computed from the private records without noise, NOT covered by epsilon."
    " Do not share it."
)
MOST_CLASSES = 5
WIDTH, HEIGHT = 170, 44


def write_marginals(folder_audit: Path | str, comparison: Comparison, schema: TableSchema) -> Path:
    """Writes marginals.html and marginals.json into the owner's folder of audits, which nobody else may read.

    Args:
        folder_audit: the folder; made with mode 0700 if missing, and given that mode if not.
        comparison: of the synthetic set with the private records.
        schema: the public facts that both have.

    Returns:
        Path of the page: one file that loads nothing from anywhere.

    Raises:
        DataError: a comparison of other columns, or a folder that cannot be written.
    """
    if [column.name for column in comparison.columns] != [column.name for column in schema.columns]:
        raise DataError("Expected a comparison of the schema's own columns; it has others.")
    folder = Path(folder_audit)
    contents = {
        f"{NAME}.json": json.dumps(to_json(comparison, schema), indent=1, allow_nan=False).encode("ascii"),
        f"{NAME}.html": render(comparison, schema).encode("utf-8", "xmlcharrefreplace"),
    }
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True)
        folder.chmod(0o700)
        for name, content in contents.items():
            write_atomically(folder / name, lambda file, content=content: file.write(content))
    except OSError as error:
        raise DataError(f"{folder} cannot be written: {error.strerror or 'input/output error'}.") from None
    return folder / f"{NAME}.html"


def to_json(comparison: Comparison, schema: TableSchema) -> dict[str, Any]:
    """The comparison as JSON has it; null where a distance is not defined."""
    c, correlations = comparison, comparison.correlations
    return {
        "notice": NOTICE,
        "rows": {
            "real": int(c.real_rows.sum()),
            "synthetic": int(c.synthetic_rows.sum()),
            "left_out": c.left_out,
        },
        "classes": [
            {"name": name, "real": int(n), "synthetic": int(m), "real_share": float(p), "synthetic_share": float(q)}
            for name, n, m, p, q in zip(
                c.classes, c.real_rows, c.synthetic_rows, c.real_shares, c.synthetic_shares, strict=True
            )
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
        "correlations": {
            "largest": correlations.largest,
            "mean": correlations.mean,
            "pair": list(correlations.pair),
        },
    }


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


def render(comparison: Comparison, schema: TableSchema) -> str:
    """The page as text."""
    style = (files("dpdistill.audit") / "page.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="referrer" content="no-referrer">
<title>Owner only: marginals · dpdistill</title>
<style>
{style}</style>
</head>
<body>
<div class="owner" role="alert"><b>The owner’s page.</b> Computed from the private records without noise:
<b>not covered by ε</b>. Do not share it.</div>
<main>
<h1>Real and synthetic rows</h1>
<p class="soft">{_summary(comparison)}</p>
{_section("The columns", _columns(comparison, schema))}
{_section("The classes", _classes(comparison))}
{_section("Pairs of columns", _pairs(comparison))}
</main>
</body>
</html>
"""


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{body}\n</section>"


def _table(heads: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _summary(c: Comparison) -> str:
    text = (
        f"{c.real_rows.sum():,} private records, {c.synthetic_rows.sum():,} synthetic rows, {len(c.columns):,} columns."
    )
    if c.left_out:
        text += f" Left out: {c.left_out:,} records that contribute nothing (unknown label or missing value)."
    return text


def _columns(c: Comparison, schema: TableSchema) -> str:
    """A row a column, the farthest first."""
    named = len(c.classes) <= MOST_CLASSES
    order = sorted(range(len(c.columns)), key=lambda k: -c.columns[k].distance)
    heads = ["Column", "Distance", "Share of rows"]
    heads += [f"within {escape(_cut(name))}" for name in c.classes] if named else ["largest within a class"]
    rows = (_column(c.columns[k], schema.columns[k], named) for k in order)
    mean = np.mean([column.distance for column in c.columns])
    return (
        "<p>Total variation distance: 0 says that each value is as frequent in the synthetic rows as in the records, 1"
        f" that none occurs in both. The mean over the columns is <b>{mean:.3f}</b>. Numbers are counted in {BINS}"
        " equal bins over their bounds.</p>\n"
        '<p class="key"><span><i class="real"></i>records</span><span><i class="synthetic"></i>synthetic</span></p>\n'
        + _table([*heads, "Where they differ most"], rows)
    )


def _column(column: ColumnComparison, facts: Column, named: bool) -> str:
    p, q = (counts.sum(0) / max(counts.sum(), 1) for counts in (column.real, column.synthetic))
    defined = [distance for distance in column.distances if not math.isnan(distance)]
    within = column.distances if named else (max(defined, default=math.nan),)
    worst = int(np.abs(p - q).argmax())
    where = f"{escape(_cut(_value(facts, column, worst)))}: {_percent(p[worst])} of the records"
    where += f", {_percent(q[worst])} synthetic"
    cells = [
        f"<b>{column.distance:.3f}</b>",
        _picture(column.name, p, q),
        *(f"{distance:.3f}" if not math.isnan(distance) else "–" for distance in within),
        where if column.distance else "nowhere",
    ]
    kind = facts.kind + (", log scale" if facts.scale == "log" else "")
    head = f'<th scope="row">{escape(_cut(column.name, 80))} <small>{kind}</small></th>'
    return head + "".join(f"<td>{cell}</td>" for cell in cells)


def _value(facts: Column, column: ColumnComparison, bin: int) -> str:
    """What a bin stands for: a category, "missing", or the range of a bin of numbers in raw units."""
    if facts.bounds is None or bin >= BINS:
        return column.values[bin]
    low, high = map(np.float64, facts.bounds)
    ends = from_share(np.array([bin, bin + 1]) / BINS, low, high, facts.scale == "log")
    return " to ".join(f"{x:,.0f}" if 1e4 <= abs(x) < 1e15 else f"{x:.4g}" for x in ends)


def _picture(name: str, p: np.ndarray, q: np.ndarray) -> str:
    """Two bars a bin, records and synthetic rows."""
    step, scale = WIDTH / len(p), (HEIGHT - 2) / max(p.max(), q.max(), 1e-12)
    bar = 0.42 * step
    paths = ""
    for kind, shares, shift in (("real", p, 0.04 * step), ("synthetic", q, 0.04 * step + bar)):
        parts = (
            f"M{k * step + shift:.2f} {HEIGHT}v-{share * scale:.1f}h{bar:.2f}v{share * scale:.1f}z"
            for k, share in enumerate(shares)
            if share
        )
        paths += f'<path class="{kind}" d="{"".join(parts)}"/>'
    label = escape(_cut(name, 80))
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="shares of {label}">{paths}</svg>'


def _classes(c: Comparison) -> str:
    facts = zip(c.classes, c.real_rows, c.real_shares, c.synthetic_rows, c.synthetic_shares, strict=True)
    rows = (
        f'<th scope="row">{escape(_cut(name, 80))}</th>'
        f"<td>{n:,}</td><td>{_percent(p)}</td><td>{m:,}</td><td>{_percent(q)}</td>"
        for name, n, p, m, q in facts
    )
    return _table(("Class", "Records", "Share", "Synthetic rows", "Share"), rows)


def _pairs(c: Comparison) -> str:
    largest = f"<b>{c.correlations.largest:.3f}</b>"
    if c.correlations.pair:
        first, second = (escape(_cut(name, 80)) for name in c.correlations.pair)
        largest += f", between {first} and {second}"
    return (
        "<p>Correlations of encoded columns, a category as a column of its own; one with a constant column counts as 0."
        f" Largest difference of a correlation: {largest}. Mean difference: <b>{c.correlations.mean:.3f}</b>.</p>"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _cut(text: str, length: int = 40) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
