"""Plots and pages of results."""

from __future__ import annotations

import base64
import re
import sys
from typing import Any
from xml.etree import ElementTree

import pytest
from result_lines import (
    ROOT,
    line,
)

from dpdistill.benchmark import page, pool
from dpdistill.benchmark.charts import SECONDS, _apart, _short, colours, plots, uris
from dpdistill.benchmark.figures import boards
from dpdistill.benchmark.page import render_markdown, render_page


def of(figure) -> dict[str, tuple]:
    """The lines of a plot by their names in its legend: colour, mark, and points."""
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    lines = figure.axes[0].lines
    assert len(names) == len({*names}) == len(lines)
    return {
        name: (line.get_color(), line.get_marker(), [*zip(*line.get_data(), strict=True)])
        for name, line in zip(names, lines, strict=True)
    }


def against(what: str, found: list) -> Any:
    """The plot of these against what it says."""
    (figure,) = (each for each in found if f"against {what}" in each.axes[0].get_title())
    return figure


def test_plots_show_what_moves():
    lines = [line(value=90.0 + k, epsilon=e, score="x") for k, e in enumerate((100.0, 1.0, 10.0))]
    lines += [line(value=80.0 + k, epsilon=10.0, score="x", per_class=20 + 30 * k) for k in range(2)]
    (board,) = boards(lines)
    found = plots(board.tables[0], colours(board.tables))
    figure = against("ε", found)
    (axes,) = figure.axes
    assert axes.get_title() == "x, %, against ε, 10 a class"
    assert of(figure) == {"ours": ("C0", "o", [(1.0, 91.0), (10.0, 92.0), (100.0, 90.0)])}
    assert axes.get_xscale() == "log"  # powers of ten are evenly apart
    places = axes.transData.transform([(x, 90.0) for x in (1.0, 10.0, 100.0)])[:, 0]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1]) != 0
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "10", "100"]
    assert of(against("records a class, ε = 10", found)) == {
        "ours": ("C0", "o", [(10, 92.0), (20, 80.0), (50, 81.0)]),
    }
    assert [_short(value) for value in (0.5, 54.92, 104.6, 1543.4)] == ["0.5", "54.9", "105", "1,543"]
    assert plots(boards([line(score="x")])[0].tables[0], {"ours": 0}) == []


def test_a_plot_against_seconds_joins_nothing():
    lines = [line(value=90.0 + k, epsilon=e, score="x") for k, e in enumerate((1.0, 10.0))]
    for k, each in enumerate(lines):
        each["cpu_seconds"]["distil"] = 30.0 + 1200.0 * k
    found = plots(boards(lines)[0].tables[0], {"ours": 3})
    figure = against(SECONDS, found)
    assert of(figure) == {"ours": ("C3", "o", [(30.0, 90.0), (1230.0, 91.0)])}
    assert [each.axes[0].lines[0].get_linestyle() for each in (figure, against("ε", found))] == ["None", "-"]
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["30", "1,230"]


def test_marks_of_an_axis_have_room_for_their_texts():
    assert _apart([1.0, 100.0, 1.2, 10.0, 1.0]) == [1.0, 10.0, 100.0]
    assert _apart([30.0, 1230.0, 31.0, 40.0, 60.0]) == [30.0, 60.0, 1230.0]


def test_recipes_of_one_method_have_a_line_each_in_a_plot():
    lines = [line(value=90.0 + k, epsilon=e, score="x") for k, e in enumerate((1.0, 10.0, 1.0, 10.0))]
    for other in lines[2:]:
        other["origin"] = "caller"
    (board,) = boards(lines)
    assert of(against("ε", plots(board.tables[0], colours(board.tables)))) == {
        "ours, how, dos: caller": ("C0", "o", [(1.0, 92.0), (10.0, 93.0)]),
        "ours, how, dos: package default": ("C0", "s", [(1.0, 90.0), (10.0, 91.0)]),
    }


def test_a_method_has_one_colour_in_all_tables_of_a_data_set():
    stated = [("a", "KRR"), ("b", "ConvNet"), ("a", "ConvNet")]
    (board,) = boards([line(label, epsilon=e, score=score) for label, score in stated for e in (1.0, 10.0)])
    found = colours(board.tables)
    assert (found["a"], found["b"]) == (0, 1)  # before all that is published
    ours = []
    for table in board.tables:
        drawn = of(plots(table, found)[0])
        ours.append({name: drawn[name][0] for name in ("a", "b") if name in drawn})
    assert {tuple(sorted(each.items())) for each in ours} == {(("a", "C0"),), (("a", "C0"), ("b", "C1"))}


def test_published_lines_are_hollow_and_dotted():
    (board,) = boards([line(epsilon=e) for e in (1.0, 10.0)])
    drawn = [
        (each.get_fillstyle(), each.get_linestyle())
        for each in against("ε", plots(board.tables[0], colours(board.tables))).axes[0].lines
    ]
    assert drawn[0] == ("full", "-")
    assert len(drawn) > 1
    assert {*drawn[1:]} == {("none", ":")}


def test_names_in_a_plot_are_texts(tmp_path):
    """Whatever a suite calls its rows: no mathematics, no markup, none left out."""
    labels = ["_hidden", "$\\frac{$", "<b>&</b>"]
    lines = [line(label, epsilon=e, score="x") for label in labels for e in (1.0, 10.0)]
    (board,) = boards(lines)
    colour_of = colours(board.tables)
    assert {*of(against("ε", plots(board.tables[0], colour_of)))} == {*labels}
    ((title, uri),) = (each for each in uris(board.tables[0], colour_of) if "against ε" in each[0])
    assert title == "x, %, against ε, 10 a class"
    svg = base64.b64decode(uri.removeprefix("data:image/svg+xml;base64,")).decode()
    texts = [
        "".join(node.itertext()).strip() for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("text")
    ]
    assert {*labels, title, "10"} <= {*texts}
    assert uris(board.tables[0], colour_of)[0][1] == uri  # the same plot has the same bytes


def test_a_page_without_matplotlib_says_so(monkeypatch):
    lines = [line(epsilon=e) for e in (1.0, 10.0)]
    assert 'alt="KRR, %, against ε, 10 a class"' in render_page(lines, "T")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    made = render_page(lines, "T")
    assert "data:image/svg" not in made
    assert "Without plots: pip install &#39;dpdistill[plot]&#39;" in made


def test_a_page_escapes_and_loads_nothing():
    made = render_page([line("<b>a|b</b>", epsilon=1.0), line("<b>a|b</b>", epsilon=9.0)], "A <title>")
    assert "<b>a|b</b>" not in made
    assert "&lt;b&gt;a|b&lt;/b&gt;" in made
    assert re.findall('(?:src|href)="(.{10})', made) == ["data:image"] * made.count("<img")
    assert made.count("<img") == 1
    assert "http" not in made.replace('http-equiv="Content-Security-Policy"', "")
    text = render_markdown([line("a|b")], "Title")
    assert "| **a\\|b** | 90.00 (1 run) | how | 1 | dos: package default |" in text
    assert all(note in text for note in page.NOTES)


def test_the_page_of_results_is_what_its_lines_generate():
    files = sorted((ROOT / "benchmarks" / "results").glob("*.jsonl"))
    lines = {(n, found["release"]): found for file in files for n, found in pool.read_lines(file).items()}
    assert len(lines) >= 6
    assert (ROOT / "docs" / "results.md").read_text() == render_markdown(lines.values(), "Results")
