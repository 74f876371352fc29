"""Renders lines of results as a self-contained HTML leaderboard, and as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dpdistill.benchmark.charts import NO_PLOTS, can_plot, colours, uris
from dpdistill.benchmark.figures import (
    SELECTED,
    Board,
    Line,
    Objection,
    Table,
    boards,
    devices,
    label_of,
    objections,
    setting_of,
)
from dpdistill.folder.save import read_distilled
from dpdistill.publish.report.pictures import png_uri, to_pixels
from dpdistill.publish.templating import environment
from dpdistill.schema import Schema

NOTES = (
    "Scores are percent on held-out records: means ± standard deviation over full runs. A full run has new noise, a "
    "new start and new networks. If one run was made twice, only the noise is new. No figure is the best of several "
    "runs. Scores, seconds and memory are not covered by any ε.",
    f"A figure below “{SELECTED}” has a recipe that was chosen on the same data set. Other figures have a recipe that "
    "was chosen on another data set, or the package's default. Published figures stand below the budget and size of "
    "their publication. Their ε does not include the tuning either.",
    "On development data, k runs cost what k runs cost. CPU seconds are for runs on CPUs that made their own releases, "
    "with these releases. For a run that was stopped and resumed they count from the last start.",
)
OBJECTIONS = "Published figures whose public code does not keep the stated guarantee"
ABOUT = (
    "The tables refer to these numbers in square brackets. Each entry says what the public code does that the "
    "accounting does not cover, and what was measured (`benchmarks/guarantees.py`, δ = 1e-5). Whether this code made "
    "the published figures is not known. Published figures without a mark were not examined, or no fault was found."
)
_PAGES = environment("dpdistill.benchmark", "dpdistill.publish.report")
_PAGES.globals |= {"plots": uris, "colours": colours}


def render_page(lines: Iterable[Line], title: str, sets: Iterable[Path] = ()) -> str:
    """Returns the leaderboard: one HTML page without external resources.

    Args:
        lines: of results.
        title: heading of the page.
        sets: folders of synthetic sets by the names of their runs, for their images; none for a page without.
    """
    lines, sets = list(lines), list(sets)
    found = boards(lines)
    return _PAGES.get_template("leaderboard.html").render(
        title=title,
        boards=found,
        pictures={board.data: _pictures(lines, board.data, sets) for board in found},
        notes=NOTES if can_plot() else (*NOTES, NO_PLOTS),
        objections=_objections(found),
        objected=(OBJECTIONS, ABOUT),
        failed=_failed(lines),
        total=len(lines),
        releases=len({line["release"] for line in lines if line["error"] is None and line["release"]}),
        hours=sum(sum(line["seconds"].values()) for line in lines if line["error"] is None) / 3600,
        versions=_versions(lines),
        devices=devices(lines),
    )


def render_markdown(lines: Iterable[Line], title: str) -> str:
    """Returns the leaderboard's tables in Markdown."""
    lines = list(lines)
    parts = [f"# {title}", "`dpdistill results` generates this page from lines of results.", *NOTES]
    found = boards(lines)
    for board in found:
        parts += [f"## {board.data}", *board.costs]
        for table in board.tables:
            parts += [f"### {board.data}: {table.title}", _markdown(table)]
    if against := _objections(found):
        parts += [f"## {OBJECTIONS}", ABOUT]
        parts.append(
            "\n".join(f"{each.number}. {each.code}. {each.measured}. Read in {each.read}." for each in against)
        )
    if failed := _failed(lines):
        parts += ["## Failed", "\n".join(f"- {name}: {error}" for name, error in failed)]
    parts.append("; ".join(f"{package} {version}" for package, version in _versions(lines)) + ".")
    parts.append(f"Computed on: {'; '.join(devices(lines))}.")
    return "\n\n".join(parts) + "\n"


def _markdown(table: Table) -> str:
    heads = ["method", *map(str, table.columns), "scored by", "CPU seconds", "recipe, or source"]
    rows = [
        [
            f"**{row.label}**" if row.ours else row.label,
            *(str(row.figures.get(column, "")) for column in table.columns),
            row.by,
            seconds_of(row),
            row.origin,
        ]
        for row in table.rows
    ]
    cells = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)


def seconds_of(row: Any) -> str:
    """Returns the processor seconds of the fastest and the slowest figure in a row."""
    found = sorted(figure.seconds for figure in row.figures.values() if figure.seconds is not None)
    texts = [f"{each:,.0f}" for each in found]
    return "" if not texts else texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


def _objections(found: list[Board]) -> list[Objection]:
    """Returns the objections that a table refers to."""
    tables = [table for board in found for table in board.tables]
    shown = {
        number for t in tables for row in t.rows for figure in row.figures.values() for number in figure.objections
    }
    return [each for each in objections() if each.number in shown]


def _failed(lines: Iterable[Line]) -> list[tuple[str, str]]:
    return sorted((line["name"], line["error"]) for line in lines if line["error"] is not None)


def _versions(lines: list[Line]) -> list[tuple[str, str]]:
    """Returns all versions of the packages behind the lines."""
    found: dict[str, set[str]] = {}
    for line in lines:
        for package, version in line.get("versions", {}).items():
            found.setdefault(package, set()).add(version)
    return [(package, " and ".join(sorted(versions))) for package, versions in sorted(found.items())]


def _pictures(lines: list[Line], data: str, sets: list[Path]) -> list[tuple[str, list[str]]]:
    """Returns (description, data URIs of the first image of each class) for the first repeat of every image set."""
    found = []
    for line in sorted(lines, key=lambda line: line["name"]):
        if line["error"] is not None or line["run"]["source"]["name"] != data or line["run"]["repeat"]:
            continue
        folder = next((each / line["name"] for each in sets if (each / line["name"]).is_dir()), None)
        made = None if folder is None else read_distilled(folder)
        if made is not None and isinstance(made.schema, Schema):
            rows = [int(np.flatnonzero(made.y == k)[0]) for k in np.unique(made.y)][:10]
            pixels = to_pixels(made.schema.from_unit(made.X[rows]), made.schema)
            found.append((f"{label_of(line)}, {setting_of(line)}", [png_uri(each) for each in pixels]))
    return sorted(found)
