"""Tables of results: means, costs and published numbers."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from result_lines import (
    line,
    paid,
    suite_file,
)
from run_command import succeeds

from dpdistill.accounting.gaussian import gaussian_epsilon
from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.benchmark.figures import Setting, boards
from dpdistill.benchmark.page import render_markdown, render_page
from dpdistill.benchmark.suite import read_suite
from dpdistill.certificate.build import OF_THE_RELEASES
from dpdistill.query import Stage
from dpdistill.schema import DataError


def test_figures_are_means_over_full_runs():
    lines = [line(value=value, repeat=k) for k, value in enumerate((90.0, 91.0, 95.0))]
    (board,) = boards([*lines, line(value=None, repeat=3), {"name": "x", "error": "lost"}])
    row = board.tables[0].rows[0]
    assert str(row.figures[Setting(False, 1.0, 10)]) == "92.00 ± 2.65 (3 runs)"
    assert row.origin == "dos: package default"


def test_no_mean_is_over_different_recipes():
    short, long = {"settings": ["steps=200"]}, {"settings": ["steps=1250"]}
    made = [line(value=80.0, **short), *(line(value=v, repeat=k, **long) for k, v in enumerate((84.0, 85.0)))]
    elsewhere = line(value=99.0, epsilon=10.0, **short)
    for each in (*made, elsewhere):
        each["origin"] = "caller changed steps"
    (board,) = boards([*made, elsewhere])
    found = [(row.origin, {str(s): str(f) for s, f in row.figures.items()}) for row in board.tables[0].rows if row.ours]
    assert found == [
        ("dos: steps=200", {"ε = 1, 10 a class": "80.00 (1 run)", "ε = 10, 10 a class": "99.00 (1 run)"}),
        ("dos: steps=1250", {"ε = 1, 10 a class": "84.50 ± 0.71 (2 runs)"}),
    ]
    (together,) = [row for row in boards([*made[1:], elsewhere])[0].tables[0].rows if row.ours]
    assert together.origin == "dos: steps=1250; or dos: steps=200"  # no cell has both


def test_processor_seconds_are_those_of_cpus():
    on_gpu = paid(line(value=92.0, repeat=1), "two", 1.0)
    on_gpu["device"], on_gpu["cpu_seconds"] = "gpu (NVIDIA)", {"distil": 1000.0, "score": 0.0}
    lines = [line(value=90.0), on_gpu]
    (row,) = [row for row in boards(lines)[0].tables[0].rows if row.ours]
    (figure,) = row.figures.values()
    assert (figure.runs, figure.seconds) == (2, lines[0]["cpu_seconds"]["distil"])
    assert boards([on_gpu])[0].tables[0].rows[0].figures[Setting(False, 1.0, 10)].seconds is None
    assert render_markdown(lines, "Title").endswith("Computed on: cpu; gpu (NVIDIA).\n")
    assert "Computed on: gpu (NVIDIA)." in render_page([on_gpu], "Title")


def test_processor_seconds_are_of_runs_that_released():
    """A run that uses releases again takes a part of the seconds: which of several runs paid is chance."""
    made, again = (paid(line(value=v, repeat=k), f"r{k}", 1.0) for k, v in enumerate((90.0, 91.0)))
    again["certificate"]["backend"] = OF_THE_RELEASES
    again["cpu_seconds"] = {"distil": 0.5, "score": 1.0}
    (figure,) = boards([made, again])[0].tables[0].rows[0].figures.values()
    assert (figure.runs, figure.seconds) == (2, made["cpu_seconds"]["distil"])
    assert boards([again])[0].tables[0].rows[0].figures[Setting(False, 1.0, 10)].seconds is None


def test_sets_without_privacy_are_told_apart_by_how_they_are_made(tmp_path):
    runs = "".join(
        f"  - {{label: A, method: dm, data: [digits], repeats: 2, score: {{nets: {nets}}}}}\n" for nets in (1, 2)
    )
    runs += "  - {label: A, method: dm, data: [digits], set: {rounds: 7}}\n"
    found = list(read_suite(str(suite_file(tmp_path, runs)))[1].all_runs())
    assert sorted(Counter(run.release for run in found).values()) == [1, 2, 2]


def test_lines_of_other_data_under_one_name_are_refused():
    one, other = line("a"), line("b")
    one["run"]["source"] = {"name": "mnist", "delta": 1e-5, "mirror": False}
    other["run"]["source"] = {"name": "mnist", "delta": 1e-3, "mirror": False}
    with pytest.raises(DataError, match="of data sets named mnist whose delta differ"):
        boards([one, other])
    other["run"]["source"] = {"name": "mnist", "delta": 1e-5, "straighten": False}  # of another version
    assert len(boards([one, other])) == 1


def test_the_same_run_of_other_releases_is_one_more(tmp_path):
    first, again, other = (line(value=v) | {"release": r} for v, r in ((90.0, "a"), (91.0, "a"), (95.0, "b")))
    lost = {"name": first["name"], "error": "it was lost"}
    for name, lines in (("one", [first]), ("two", [other]), ("three", [again]), ("four", [lost])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    files = [tmp_path / f"{name}.jsonl" for name in ("one", "two", "three", "four")]
    succeeds("results", *files, "--out", tmp_path / "page.md")
    assert "93.00 ± 2.83 (2 runs)" in (tmp_path / "page.md").read_text()
    assert "lost" not in (tmp_path / "page.md").read_text()
    succeeds("results", files[-1], "--out", tmp_path / "page.md")
    assert "it was lost" in (tmp_path / "page.md").read_text()


def test_a_recipe_chosen_on_the_data_set_has_a_column_of_its_own():
    (board,) = boards(
        [line("own", 99.0, chosen_on=["mnist"], tried=28), line("elsewhere", 98.0, chosen_on=["fashion_mnist"])]
    )
    columns = board.tables[0].columns
    assert list(map(str, columns)) == ["ε = 1, 10 a class", "ε = 1, 10 a class (selection not included)"]
    own, elsewhere = board.tables[0].rows[:2]
    assert list(own.figures) == columns[1:]
    assert list(elsewhere.figures) == columns[:1]
    assert own.origin == "dos: package default; chosen on mnist in 28 runs"


def test_published_numbers_stand_beside_ours():
    (board,) = boards([line(value=95.0), line(value=97.0, epsilon=10.0), line(value=98.5, epsilon=None)])
    at = {(row.label, str(setting)): str(f) for row in board.tables[0].rows for setting, f in row.figures.items()}
    assert at["ours", "ε = 1, 10 a class"] == "95.00 (1 run)"
    assert at["DP-KIP-ScatterNet", "ε = 1, 10 a class"] == "96.3 ± 0.1 [2]"
    assert at["DP-KIP-ScatterNet", "ε = 10, 10 a class"] == "97.4 ± 0.1 [2]"
    assert at["KIP ScatterNet", "no privacy, 10 a class"] == "99 ± 0.1"
    assert not any("50 a class" in setting for _, setting in at)
    ours, *others = board.tables[0].rows
    assert ours.ours
    assert next(row.label for row in others) == "KIP ConvNet-NTK aug"  # the best first


def test_what_all_runs_cost():
    sets = [paid(line("a"), "one", 1.0), paid(line("b", per_class=50), "one", 1.0), paid(line("c"), "two", 2.0)]
    (board,) = boards(sets)
    sigmas = [calibrate((Stage(1),), Budget(epsilon)).noise_multipliers[0] for epsilon in (1.0, 2.0)]
    together = gaussian_epsilon((sum(s**-2 for s in sigmas)) ** -0.5, 1e-5)
    assert board.costs[0].startswith(
        f"3 synthetic sets of 2 releases: on private records all of them together would cost ε = {together:.3g} at "
    )


def test_what_all_runs_on_the_same_records_cost():
    sets = [paid(line("a"), "one", 1.0), paid(line("b"), "two", 1.0), paid(line("c"), "three", 1.0)]
    for found, name in zip(sets, ("mnist", "mnist-straightened", "others"), strict=True):
        found["run"]["source"] = {"name": name, "train": "others" if name == "others" else "mnist"}
    again = {**sets[0], "name": "again", "scores": []}  # the same set, scored in another way
    real = line("real", epsilon=None)
    real["run"]["source"] = sets[0]["run"]["source"]
    both = gaussian_epsilon((2 * calibrate((Stage(1),), Budget(1.0)).noise_multipliers[0] ** -2) ** -0.5, 1e-5)
    said = {board.data: board.costs[0] for board in boards([*sets, again, real])}
    together = f"all of them together would cost ε = {both:.3g} at δ = 1e-05. Runs that"
    assert said["mnist"] == said["mnist-straightened"]
    assert said["mnist"].startswith("2 synthetic sets of 2 releases from these records (mnist and mnist-straightened)")
    assert together in said["mnist"]
    assert said["others"].startswith("1 synthetic set of 1 release: on private records all of them together would ")


def test_releases_of_several_deltas_are_added_up_at_the_smallest():
    strict = paid(line("a"), "one", 1.0)
    strict["certificate"]["schedule"] = json.loads(calibrate((Stage(1),), Budget(1.0, 1e-7)).to_json())
    (board,) = boards([strict, paid(line("b"), "two", 1.0)])
    sigmas = [calibrate((Stage(1),), Budget(1.0, delta)).noise_multipliers[0] for delta in (1e-7, 1e-5)]
    together = gaussian_epsilon((sum(s**-2 for s in sigmas)) ** -0.5, 1e-7)
    (said,) = board.costs
    assert said.startswith("2 synthetic sets of 2 releases: ")
    assert f"would cost ε = {together:.3g} at δ = 1e-07." in said


def test_a_line_a_set_of_what_other_networks_learn_from_it():
    found = line(value=95.0, score="ConvNet")
    found["scores"] = [{"score": s, "by": "quick training", "value": v} for s, v in (("ConvNet", 95.0), ("MLP", 91.0))]
    (board,) = boards([found, line("other", 90.0, score="KRR")])
    assert [table.title for table in board.tables] == ["KRR", "ConvNet", "MLP", "transfer to other networks"]
    (row,) = board.tables[-1].rows
    assert row.label == "ours, ε = 1, 10 a class"
    assert {name: str(figure) for name, figure in row.figures.items()} == {
        "ConvNet": "95.00 (1 run)",
        "MLP": "91.00 (1 run)",
    }
