"""Builds tables of results: own figures with spread, published numbers, and the total cost of all runs."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpdistill.accounting.pld import compose
from dpdistill.accounting.schedule import Schedule
from dpdistill.certificate.build import OF_THE_RELEASES
from dpdistill.schema import DataError

PUBLISHED = Path(__file__).with_name("published.csv")
GUARANTEES = Path(__file__).with_name("guarantees.json")
SELECTED = "selection not included"
_NOT_MADE = ("label", "variant", "score", "chosen_on", "tried")
"""Fields of a run that do not influence its set."""
Line = dict[str, Any]


class Setting(NamedTuple):
    """Column of a table: a budget and a size.

    Args:
        selected: True if the recipe was chosen on the same data set, which epsilon does not cover.
        epsilon: epsilon of the budget; infinite without privacy.
        per_class: number of synthetic records per class; 0 for methods without a fixed number.
    """

    selected: bool
    epsilon: float
    per_class: int

    def __str__(self) -> str:
        privacy = "no privacy" if self.epsilon == float("inf") else f"ε = {self.epsilon:g}"
        size = f", {self.per_class} a class" if self.per_class else ""
        return privacy + size + (f" ({SELECTED})" if self.selected else "")


class Cell(NamedTuple):
    """Setting of a published number; per_class is 0 for methods without a fixed number of records."""

    method: str
    data: str
    epsilon: float
    per_class: int


class Objection(NamedTuple):
    """Premise of a stated guarantee that public code violates, from benchmarks/guarantees.py.

    Args:
        number: number that figures refer to.
        source: start of the publication's name.
        read: name and location of the code.
        code: description of the code's behaviour.
        measured: effect on the guarantee.
        cells: the affected numbers.
    """

    number: int
    source: str
    read: str
    code: str
    measured: str
    cells: frozenset[Cell]


class Figure(NamedTuple):
    """Number of a table, in percent.

    Args:
        mean: mean over the runs.
        std: sample standard deviation over full runs, or a paper's; None without one.
        runs: number of full runs; 0 for a published number.
        seconds: processor seconds of distilling, mean over runs on CPUs with own releases; None without any.
        objections: numbers of the objections to a published number.
    """

    mean: float
    std: float | None
    runs: int
    seconds: float | None = None
    objections: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """Returns mean and spread, with the numbers of objections."""
        spread = "" if self.std is None else f" ± {self.std:.{2 if self.runs else 1}f}"
        marks = f" [{', '.join(map(str, self.objections))}]" if self.objections else ""
        return (f"{self.mean:.2f}" if self.runs else f"{self.mean:g}") + spread + marks

    @property
    def behind(self) -> str:
        """Returns the number of runs as text; empty for a published number."""
        return f"{self.runs} run{'s' * (self.runs > 1)}" if self.runs else ""

    def __str__(self) -> str:
        return f"{self.text} ({self.behind})" if self.runs else self.text


class Row(NamedTuple):
    """Method in a table: own, with recipes and their origin, or published, with its source."""

    label: str
    by: str
    origin: str
    ours: bool
    figures: dict[Any, Figure]

    @property
    def name(self) -> str:
        """Returns the name in plots: the label, with the source of a published method."""
        return self.label if self.ours else f"{self.label} [{self.origin}]"


class Table(NamedTuple):
    """Figures of one score on one data set."""

    title: str
    columns: list[Any]
    rows: list[Row]


class Board(NamedTuple):
    """All tables of a data set, and sentences on the total cost of its runs."""

    data: str
    tables: list[Table]
    costs: list[str]


def boards(lines: Iterable[Line]) -> list[Board]:
    """Returns tables by data set, from lines in any order, without failed runs.

    Raises:
        DataError: lines of different data sets with equal names.
    """
    by_data: dict[str, list[Line]] = {}
    by_records: dict[str, list[Line]] = {}
    for line in sorted((line for line in lines if line["error"] is None), key=lambda line: line["name"]):
        by_data.setdefault(line["run"]["source"]["name"], []).append(line)
        by_records.setdefault(_records(line), []).append(line)
    for data, found in by_data.items():
        _check_same(data, [line["run"]["source"] for line in found])
    return [
        Board(data, _tables(data, found), _costs(by_records[_records(found[0])]))
        for data, found in sorted(by_data.items())
    ]


def _records(line: Line) -> str:
    """Returns the source of the records; data sets with equal sources hold the same people."""
    source = line["run"]["source"]
    return source.get("train", source["name"])


def _check_same(data: str, sources: list[dict[str, Any]]) -> None:
    """Refuses a mean over data sets that are read or split in different ways."""
    stated: dict[str, set[str]] = {}
    for source in sources:  # lines of earlier versions lack later fields
        for name, value in source.items():
            stated.setdefault(name, set()).add(json.dumps(value))
    differ = sorted(name for name, values in stated.items() if len(values) > 1)
    if differ:
        raise DataError(
            f"Expected lines of one data set under one name; there are some of data sets named {data} whose "
            f"{' and '.join(differ)} differ."
        )


@cache
def objections() -> tuple[Objection, ...]:
    """Returns the objections to published numbers."""
    stated = json.loads(GUARANTEES.read_text(encoding="utf-8"))
    return tuple(
        Objection(number, **{**each, "cells": frozenset(Cell(*cell) for cell in each["cells"])})
        for number, each in enumerate(stated, 1)
    )


def setting_of(line: Line) -> Setting:
    """Returns the column of a run."""
    run = line["run"]
    epsilon = float("inf") if run["epsilon"] is None else run["epsilon"]
    return Setting(run["source"]["name"] in run["chosen_on"], epsilon, run["per_class"] or 0)


def label_of(line: Line) -> str:
    """Returns the label of a run."""
    return ", ".join(filter(None, (line["run"]["label"], line["run"]["variant"])))


class _Score(NamedTuple):
    """One score of one run: percent, position, recipe, and processor seconds if computed on a CPU."""

    value: float
    setting: Setting
    origin: str
    seconds: float | None
    release: tuple[str, int]


def _tables(data: str, lines: list[Line]) -> list[Table]:
    groups: dict[str, dict[tuple[str, str], list[_Score]]] = {}
    for line in lines:
        seconds = line["cpu_seconds"]["distil"] if _device(line) == "cpu" and not _reused(line) else None
        for score in line["scores"]:
            if score["value"] is not None:
                release = line["release"] or line["name"], line["run"]["repeat"]
                found = _Score(score["value"], setting_of(line), _origin(line), seconds, release)
                rows = groups.setdefault(score["score"], {})
                row = rows.setdefault((label_of(line), score["by"]), [])
                if not any(found[1:3] == other[1:3] and release == other.release for other in row):
                    row.append(found)  # an equal set was scored already, by a run with other scores
    tables = []
    for score, rows in groups.items():
        found = [_row(*key, scores) for key, each in rows.items() for scores in _of_one_recipe(each)]
        columns = sorted({setting for row in found for setting in row.figures})
        tables.append(Table(score, columns, _ranked(found) + _ranked(_published(data, score, columns))))
    return tables + _transfer(tables)


def devices(lines: Iterable[Line]) -> list[str]:
    """Returns the devices of the runs."""
    return sorted({_device(line) for line in lines if line["error"] is None})


def _device(line: Line) -> str:
    return line.get("device", "cpu")  # lines of earlier versions have no device, and are of CPUs


def _reused(line: Line) -> bool:
    """Returns whether a run used another run's releases, so that its seconds exclude them."""
    return (line["certificate"] or {}).get("backend") == OF_THE_RELEASES


def _of_one_recipe(scores: list[_Score]) -> list[list[_Score]]:
    """Splits the scores of a row by recipe, if a mean would mix several recipes."""
    recipes: dict[Setting, set[str]] = {}
    for score in scores:
        recipes.setdefault(score.setting, set()).add(score.origin)
    if all(len(each) == 1 for each in recipes.values()):
        return [scores]
    return [[s for s in scores if s.origin == origin] for origin in sorted({s.origin for s in scores})]


def _row(label: str, by: str, scores: list[_Score]) -> Row:
    cells: dict[Setting, list[_Score]] = {}
    for score in scores:
        cells.setdefault(score.setting, []).append(score)
    origin = "; or ".join(sorted({score.origin for score in scores}))
    return Row(label, by, origin, True, {setting: _figure(each) for setting, each in cells.items()})


def _origin(line: Line) -> str:
    """Returns a recipe with its origin and the data sets that it was chosen on."""
    run = line["run"]
    if run.get("recipe"):
        stated = f"recipe {run['recipe']} with {' '.join(sorted(run['settings']))}"
    elif not line["origin"].startswith("caller changed"):
        stated = f"{run['method']}: {line['origin']}"
    else:  # a column for the size and the settings state the recipe completely
        stated = f"{run['method']}: {' '.join(sorted(run['settings'])) or 'package default but for the size'}"
    if run.get("public"):
        stated += f"; {run['public']['name']} as public images"
    if not run["chosen_on"]:
        return stated
    tried = f" in {run['tried']} runs" if run["tried"] else ""
    return f"{stated}; chosen on {', '.join(run['chosen_on'])}{tried}"


def _figure(scores: list[_Score]) -> Figure:
    values = np.array(sorted(score.value for score in scores))
    seconds = [score.seconds for score in scores if score.seconds is not None]
    spread = float(values.std(ddof=1)) if len(values) > 1 else None
    return Figure(float(values.mean()), spread, len(values), float(np.mean(seconds)) if seconds else None)


def _ranked(rows: list[Row]) -> list[Row]:
    """Sorts rows by their largest figure, best first."""
    return sorted(rows, key=lambda row: (-max(figure.mean for figure in row.figures.values()), row))


def _published(data: str, score: str, columns: list[Setting]) -> list[Row]:
    """Returns published rows with the budget and size of an own figure."""
    ours = {setting[1:]: setting for setting in reversed(columns)}
    rows: dict[tuple[str, str], Row] = {}
    with PUBLISHED.open(newline="") as file:
        for stated in csv.DictReader(file):
            setting = ours.get((float(stated["epsilon"] or "inf"), int(stated["per_class"] or 0)))
            if (stated["data"], stated["score"]) == (data, score) and setting is not None:
                source, std = stated["source"], float(stated["std"]) if stated["std"] else None
                cell = Cell(stated["method"], data, setting.epsilon, setting.per_class)
                against = tuple(o.number for o in objections() if source.startswith(o.source) and cell in o.cells)
                row = rows.setdefault((cell.method, source), Row(cell.method, "", source, False, {}))
                row.figures[setting] = Figure(float(stated["mean"]), std, 0, objections=against)
    return list(rows.values())


def _transfer(tables: list[Table]) -> list[Table]:
    """Returns a table of transfer: one row per set, with networks of other architectures."""
    networks = {t.title: t for t in tables if any(row.ours and "training" in row.by for row in t.rows)}
    if len(networks) < 2:
        return []
    rows: dict[tuple[str, str, str], dict[str, Figure]] = {}
    origins: dict[tuple[str, str, str], str] = {}
    for title, each in networks.items():
        ours = [(row, setting) for row in each.rows if row.ours for setting in row.figures]
        named = Counter((row.label, row.by, setting) for row, setting in ours)
        for row, setting in ours:
            # Recipes distinguish rows only where names are equal, since other tables have other rows.
            recipe = row.origin if named[row.label, row.by, setting] > 1 else ""
            key = (f"{row.label}, {setting}", row.by, recipe)
            rows.setdefault(key, {})[title] = row.figures[setting]
            origins[key] = min(row.origin, origins.get(key, row.origin), key=len)
    found = [Row(*key[:2], origins[key], True, figures) for key, figures in rows.items() if len(figures) > 1]
    return [Table("transfer to other networks", list(networks), _ranked(found))]


def _costs(lines: list[Line]) -> list[str]:
    """Returns sentences on the total cost of the lines' releases from the same records, each counted once."""
    schedules: dict[str, Schedule] = {}
    sets, names = set(), set()
    for line in lines:
        if line["certificate"] and line["certificate"]["schedule"]:
            schedules[line["release"]] = Schedule.from_json(json.dumps(line["certificate"]["schedule"]))
            made = {name: value for name, value in line["run"].items() if name not in _NOT_MADE}
            sets.add((line["release"], json.dumps(made, sort_keys=True)))
            names.add(line["run"]["source"]["name"])
    if not schedules:
        return []
    delta = min(schedule.budget.delta for schedule in schedules.values())
    epsilon = compose([group for schedule in schedules.values() for group in schedule.groups], delta)
    several = f" from these records ({' and '.join(sorted(names))})" if len(names) > 1 else ""
    return [
        f"{len(sets)} synthetic set{'s' * (len(sets) > 1)} of {len(schedules)} release{'s' * (len(schedules) > 1)}"
        f"{several}: on private records all of them together would cost ε = {epsilon:.3g} at δ = {delta:g}. Runs that "
        "served to choose a recipe, and runs that failed, are not included."
    ]
