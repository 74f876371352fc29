"""Draws docs/choose.svg, the chart of docs/choose.md: python benchmarks/choosing_chart.py [FILE]."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.sax.saxutils import escape

FIRST = (
    ("Fewer than about 100 per class?", "fewer classes, a larger ε, or another tool", "no"),
    ("Several records of a person?", "--unit-column or --person-from", ""),
)
"""Questions with the answer to yes, and the word on the way to the next question."""
LEAVES = (
    (
        "rows of a table",
        ("schema draft, review,", "distill --schema FILE", "--for models | counts", "| classifier | number"),
    ),
    ("handwriting", ("distill --recipe", "dos-kip-mnist-eps1", "and --straighten")),
    ("grey, can be flipped", ("distill --recipe", "dos-kip-fashion-mnist-eps1")),
    ("colour photographs", ("distill --resize 32", "--recipe", "dos-kip-cifar10-eps1")),
    ("scans, anything else", ("distill --resize 32", "(the default, dos-kip)")),
)
AFTER = (
    ("partner trains networks", ("student DIR --out", "or networks from training.npz")),
    ("partner wants a classifier", ("distill --for classifier", "classifier.onnx")),
    ("more records", ("sample DIR --n 10000", "at no further ε")),
    ("hand over", ("verify DIR", "export DIR --to kit")),
)
WIDTH, TOP, GAP = 1200, 20, 14
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1a1a1a; text-anchor: middle; }
.box { fill: #fff; stroke: #3949ab; stroke-width: 1.5; } .do { fill: #e8eaf6; } .ask { font-weight: 600; }
.code { font: 12.5px ui-monospace, monospace; } path { fill: none; stroke: #3949ab; stroke-width: 1.5; }
.back { fill: #fff; }
@media (prefers-color-scheme: dark) {
  text { fill: #ececec; } .box { fill: #1e1e2a; stroke: #9fa8da; } .do { fill: #2a2d4a; } path { stroke: #9fa8da; }
  .back { fill: #15151d; } }
"""


def box(x: float, y: float, width: float, lines: tuple[str, ...], kind: str = "", text: str = "") -> tuple[str, float]:
    """Returns a box with lines of text, and its lower edge."""
    height = 14 + 18 * len(lines)
    parts = [f'<rect class="box {kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height}" rx="6"/>']
    for i, line in enumerate(lines):
        parts.append(f'<text class="{text}" x="{x + width / 2:g}" y="{y + 20 + 18 * i:g}">{escape(line)}</text>')
    return "".join(parts), y + height


def row(y: float, entries: tuple[tuple[str, tuple[str, ...]], ...], above: float) -> tuple[str, float]:
    """Returns a row of answers with their commands, joined to a point above, and the lower edge."""
    width = (WIDTH - GAP * (len(entries) + 1)) / len(entries)
    parts, lowest = [], y
    for i, (answer, commands) in enumerate(entries):
        x = GAP + i * (width + GAP)
        middle = x + width / 2
        parts.append(f'<path d="M{WIDTH / 2:g} {above:g} V{(above + y) / 2:g} H{middle:g} V{y:g}"/>')
        drawn, lower = box(x, y, width, (answer,), text="ask")
        parts += [drawn, f'<path d="M{middle:g} {lower:g} V{lower + 16:g}"/>']
        drawn, lower = box(x, lower + 16, width, commands, "do", "code")
        parts.append(drawn)
        lowest = max(lowest, lower)
    return "".join(parts), lowest


def chart() -> str:
    """Returns the chart as SVG."""
    parts, y = [], TOP
    for question, answer, otherwise in FIRST:
        drawn, lower = box(WIDTH / 2 - 170, y, 340, (question,), text="ask")
        side, _ = box(WIDTH / 2 + 220, y, 320, (answer,), "do", "code" if answer.startswith("-") else "")
        parts += [drawn, side, f'<path d="M{WIDTH / 2 + 170:g} {y + 16:g} H{WIDTH / 2 + 220:g}"/>']
        parts.append(f'<text x="{WIDTH / 2 + 195:g}" y="{y + 10:g}">yes</text>')
        parts.append(f'<path d="M{WIDTH / 2:g} {lower:g} V{lower + 20:g}"/>')
        parts.append(f'<text x="{WIDTH / 2 + 14:g}" y="{lower + 15:g}">{otherwise}</text>')
        y = lower + 20
    drawn, lower = box(WIDTH / 2 - 170, y, 340, ("What are the records?",), text="ask")
    parts.append(drawn)
    leaves, lower = row(lower + 36, LEAVES, lower)
    parts.append(leaves)
    drawn, below = box(WIDTH / 2 - 170, lower + 30, 340, ("A folder DIR. What is it for?",), text="ask")
    parts.append(drawn)
    leaves, lower = row(below + 36, AFTER, below)
    parts.append(leaves)
    height = lower + TOP
    title = "<title>Which command, which recipe</title>"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">'
    return f'{head}{title}<style>{STYLE}</style><rect class="back" width="100%" height="100%"/>{"".join(parts)}</svg>\n'


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "choose.svg"
    target.write_text(chart(), "utf-8")
