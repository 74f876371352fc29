"""Benchmarks: suites, the pool and its resuming, tables of lines, and the pages made of them."""

from __future__ import annotations

import base64
import csv
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from chosen_tests import few
from kill_benchmark import line_of
from run_command import dpdistill, refused, succeeds
from small_sets import TINY, TINY_NETS

import dpdistill as package
from dpdistill.accounting.gaussian import gaussian_epsilon
from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.api.pictures import make_pictures
from dpdistill.benchmark import SUITES, page, pool, suite, worker
from dpdistill.benchmark.charts import SECONDS, _apart, _short, colours, plots, uris
from dpdistill.benchmark.figures import PUBLISHED, Setting, boards
from dpdistill.benchmark.page import render_markdown, render_page
from dpdistill.benchmark.sources import open_source
from dpdistill.benchmark.suite import OF_IMAGES, Source, read_suite
from dpdistill.certificate.build import OF_THE_RELEASES
from dpdistill.evaluation import ARCHITECTURES, SLOPES, TRAININGS, lesson_of, score_student, teacher_of
from dpdistill.evaluation.students import own_lesson
from dpdistill.evaluation.teacher import kernel_in, teacher_in
from dpdistill.folder.save import read_distilled
from dpdistill.ledger.run import RunLedger
from dpdistill.methods.dos import DOS
from dpdistill.public_images.image_source import PublicImages
from dpdistill.query import Stage
from dpdistill.recipe.published import published, stated
from dpdistill.run.checkpoint import Store
from dpdistill.run.driver import backend
from dpdistill.schema import DataError
from dpdistill.sources.load import load

ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("kill_benchmark.py")
HEAD = "dpdistill: benchmark suite\ntitle: Tiny & small\ndata:\n"
DIGITS = "  - {name: digits, train: 'digits:train', test: 'digits:test'}\n"
PUBLIC = "  - {label: A, method: dos, data: [digits], epsilon: [1], public: digits, "
TABLE = "  - {name: t, train: t.csv, test_share: 0.5, schema: t.yaml}\n"


def student_line(pictures: str) -> str:
    return f"  - {{label: A, method: dm, data: [digits], score: {{student: {{pictures: {pictures}}}}}}}"


def suite_file(folder: Path, runs: str, data: str = DIGITS) -> Path:
    path = folder / "tiny.yaml"
    path.write_text(f"{HEAD}{data}runs:\n{runs}")
    return path


def table_files(folder: Path, rows: list[str], facts: str) -> None:
    """t.csv with these rows of columns a and b, and its schema t.yaml with facts of a."""
    (folder / "t.csv").write_text("\n".join(["a,b", *rows]) + "\n")
    columns = f"columns:\n  - {{name: a, kind: integer, {facts}}}\n"
    (folder / "t.yaml").write_text(f"dpdistill: table schema\nreviewed: true\nlabel: b\nclasses: [no, yes]\n{columns}")


def line(label: str = "ours", value: float = 90.0, **changed) -> dict:
    """A line of results of MNIST, ten a class at epsilon 1 unless changed."""
    found = line_of(0)
    found["run"] |= {"label": label, "source": {"name": "mnist"}} | {k: v for k, v in changed.items() if k != "score"}
    found["name"] = f"{label} {changed}"
    found["scores"] = [{"score": changed.get("score", "KRR"), "by": "how", "value": value}]
    return found


def paid(found: dict, release: str, epsilon: float) -> dict:
    schedule = calibrate((Stage(4),), Budget(epsilon))
    return found | {"release": release, "certificate": {"schedule": json.loads(schedule.to_json())}}


# Suites


SIZES = {
    "smoke": (7, 4),
    "papers": (391, 341),
    "frontier": (88, 37),
    "subspaces": (51, 20),
    "dosser": (57, 13),
    "transferred": (8, 8),
    "accuracy": (9, 9),
}
"""Runs of a shipped suite, and their releases."""


def test_every_suite_in_the_folder_can_be_named():
    assert {path.stem for path in suite.FOLDER.glob("*.yaml")} == {*SUITES} == {*SIZES}


@pytest.mark.parametrize("name", SUITES)
def test_a_shipped_suite_can_be_run(name):
    _, stated = read_suite(name)
    found = list(stated.all_runs())
    assert (len(found), len({run.release for run in found})) == SIZES[name]
    assert all((suite.FOLDER / run.source.schema).exists() for run in found)


@pytest.mark.parametrize(
    ("name", "done"), [("smoke", 7), ("frontier", 26), ("subspaces", 39), ("dosser", 57), ("transferred", 8)]
)
def test_runs_are_called_what_their_lines_of_results_are(name, done):
    lines = (ROOT / "benchmarks" / "results" / f"{name}.jsonl").read_text().splitlines()
    named = {line["name"] for line in map(json.loads, lines)}
    assert len(named & {run.name for run in read_suite(name)[1].all_runs()}) == done


@pytest.mark.parametrize(
    "said",
    [{"straighten": True}, {"classes": "3"}, {"bounds": "0,1"}, {"resize": "8"}, {"channels": "3"}, {"labels": "fine"}],
    ids=lambda said: next(iter(said)),
)
def test_runs_whose_images_are_read_in_another_way_have_names_of_their_own(said):
    plain, other = (
        replace(next(read_suite("smoke")[1].all_runs()), source=Source(name="a", train="b", test="c", **each))
        for each in ({}, said)
    )
    assert set(said) < {*OF_IMAGES}
    assert plain.name != other.name
    assert plain.release != other.release


def test_names_of_the_papers_suite_are_those_of_the_papers():
    with PUBLISHED.open(newline="") as file:
        published = list(csv.DictReader(file))
    stated = {(row["method"], row["data"], row["score"].partition(" on ")[0]) for row in published}
    names = {method for method, _, _ in stated}
    ours = {", ".join(filter(None, (run.label, run.variant))) for run in read_suite("papers")[1].all_runs()}
    assert {name for name in ours if name not in names} == {"DP-NTK, width 1000"} - names | {"DOS", "DP-HP"} - names
    numbers = {
        (r["method"], r["data"], r["epsilon"], r["per_class"], r["score"]): (r["mean"], r["std"]) for r in published
    }
    assert len(numbers) == len({(*k, r["source"]) for k, r in zip(numbers, published, strict=False)})
    assert numbers["DP-KIP-ScatterNet", "mnist", "1", "10", "KRR"] == ("96.3", "0.1")
    assert numbers["NDPDC", "cifar10", "1", "50", "ConvNet"] == ("42.3", "0.8")
    assert numbers["DP-NTK", "mnist", "1", "", "MLP on pixels"] == ("86.2", "")
    assert {row["data"] for row in published} <= {source.name for source in read_suite("papers")[1].data}


def test_runs_that_differ_in_free_fields_share_a_release(tmp_path):
    runs = (
        "  - {label: A, method: dos, data: [digits], epsilon: [1], per_class: [1, 2], repeats: 2, variants: {a: {},"
        " b: {steps: 7}, c: {networks: 3}}}\n"
        "  - {label: B, method: dp-kip, data: [digits], epsilon: [1, 2], per_class: [1, 2]}\n"
        "  - {label: C, method: dm, data: [digits], per_class: [1, 2]}\n"
    )
    found = list(read_suite(str(suite_file(tmp_path, runs)))[1].all_runs())
    of = {label: [run.release for run in found if run.label == label] for label in "ABC"}
    assert sorted(Counter(of["A"]).values()) == [2, 2, 4, 4]  # networks are paid for, and so is every repeat
    assert len(set(of["B"])) == 4
    assert len(set(of["C"])) == 2
    assert len({run.name for run in found}) == len(found) == 18
    assert [run.repeat for run in found] == sorted(run.repeat for run in found)
    assert found[1].build() == DOS(per_class=1, steps=7)


def test_a_run_of_a_published_recipe_is_that_recipe(tmp_path):
    runs = (
        "  - {label: A, recipe: dos-kip-fashion-mnist-eps1, data: [digits], epsilon: [1, 2], set: {steps: 7}}\n"
        "  - {label: B, recipe: dos-kip-fashion-mnist-eps1, data: [digits], epsilon: [1], per_class: [50]}\n"
        "  - {label: C, recipe: kip-scatternet-mnist, data: [digits]}\n"
        "  - {label: D, recipe: dp-ntk-cifar10-non-private, data: [digits], epsilon: [1]}\n"
    )
    one, two, more, unprotected, protected = read_suite(str(suite_file(tmp_path, runs)))[1].all_runs()
    recipe = published("dos-kip-fashion-mnist-eps1")
    assert one.build() == replace(recipe.build(), steps=7)
    assert more.build() == replace(recipe.build(), per_class=50)
    fields = (
        "share=0.7",
        "kernel=scatternet-silhouettes",
        "rounds=100",
        "step=7.0",
        "means=0.05",
        "taught=50",
        "cells=4",
    )
    assert one.settings == (*fields, "steps=7")
    assert [run.per_class for run in (one, more)] == [10, 50]
    assert (one.method, one.recipe) == ("dos-kip", "dos-kip-fashion-mnist-eps1-ipc10")
    assert two.recipe == "", "the recipe's name states another budget"
    assert (unprotected.method, unprotected.epsilon, unprotected.recipe) == ("kip", None, "kip-scatternet-mnist-ipc10")
    assert protected.recipe == "", "the recipe's name says that it is not private"
    assert one.release == more.release != two.release
    assert replace(one, recipe="").name == one.name


def test_a_recipe_that_changes_is_another_run_and_another_row(tmp_path, monkeypatch):
    runs = "  - {label: A, recipe: dos-kip-mnist-eps1, data: [digits], epsilon: [1]}\n"
    path = str(suite_file(tmp_path, runs))
    (before,), recipe = read_suite(path)[1].all_runs(), published("dos-kip-mnist-eps1")
    changed = replace(recipe, fields={**recipe.fields, "rounds": 9})
    monkeypatch.setattr(stated, "published", lambda name: changed)
    (after,) = read_suite(path)[1].all_runs()
    assert after.recipe == before.recipe
    assert after.name != before.name
    assert after.release != before.release
    lines = [line(recipe=run.recipe, settings=run.settings, repeat=k) for k, run in enumerate((before, after))]
    rows = [row.origin for row in boards(lines)[0].tables[0].rows if row.ours]
    assert rows == [f"recipe {recipe.name} with {text}" for text in ("rounds=9 share=0.7", "share=0.7")]


def test_the_name_of_a_run_follows_from_what_is_computed(tmp_path):
    runs = "  - {label: A, method: dos, data: [digits], epsilon: [1]}\n"
    run = next(read_suite(str(suite_file(tmp_path, runs)))[1].all_runs())
    assert replace(run, label="B", variant="b", chosen_on=("digits",), tried=7).name == run.name
    assert replace(run, epsilon=2.0).name != run.name
    assert replace(run, score=replace(run.score, nets=2)).name != run.name
    assert replace(run, score=replace(run.score, nets=2)).release == run.release
    assert run.name.startswith("digits-dos-")
    named = replace(run, public=run.source)
    assert named.name != run.name
    assert named.release != run.release


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        (
            "  - {label: A, method: dos, data: [d]}",
            "'A' runs on 'd', which is not a data set of the suite.",
        ),
        ("  - {label: A, method: dos, data: [digits]}", "Expected 'A' with epsilon, as its method is."),
        ("  - {label: A, method: dm, data: [digits], epsilon: [1]}", "Expected 'A' without epsilon"),
        ("  - {label: A, method: dx, data: [digits]}", "Unknown method 'dx'"),
        ("  - {label: A, data: [digits]}", "Expected 'A' with a method or the name of a recipe."),
        (
            "  - {label: A, method: dos, recipe: ndpdc-mnist-eps1, data: [digits], epsilon: [1]}",
            "or the name",
        ),
        (
            "  - {label: A, recipe: nobodys, data: [digits]}",
            "Expected 'A' with the name of a recipe, as `dpdistill methods --recipes` lists them; got 'nobodys'.",
        ),
        (
            "  - {label: A, recipe: own.yaml, data: [digits]}",
            "Expected 'A' with the name of a recipe, as `dpdistill methods --recipes` lists them; got 'own.yaml'.",
        ),
        ("  - {label: A, recipe: dos-kip-mnist-eps1, data: [digits]}", "Expected 'A' with epsilon, as its method is."),
        ("  - {label: A, method: dos, data: [digits], epsilon: [0]}", "Expected epsilon=0.0 > 0."),
        ("  - {label: A, method: dos, data: [digits], epsilon: [1], set: {depth: 1}}", "has no field 'depth'"),
        (
            "  - {label: A, method: dos, data: [digits], epsilon: [1], public: d}",
            "'A' runs on 'd', which is not a data set of",
        ),
        (PUBLIC + "set: {subspace: 3}}", "Expected 'A' with other public images than the private ones of the run."),
        (PUBLIC + "}", "Expected 'A' with a subspace: nothing else reads public images."),
        ("  - {label: A, method: real, data: [digits]}", "Expected 'A' on tables alone; 'digits' holds images."),
        ("  - {label: A, method: dm, data: [digits], epsilons: [1]}", "Unknown key 'epsilons' in runs[1]; expected"),
        ("  - {label: A, method: dm, data: [digits], repeats: few}", "Expected runs[1].repeats otherwise"),
        ("  - {label: A, method: dm, data: [digits], score: {training: long}}", "Unknown training 'long'"),
        ("  - {label: A, method: dm, data: [digits], score: {architectures: [x]}}", "Unknown architecture 'x'"),
        ("  - {label: A, method: dm, data: [digits], score: {classifiers: [x]}}", "Unknown classifier 'x'"),
        ("  - {label: A, method: dm, data: [digits], score: {kernels: [x]}}", "Unknown kernel 'x'"),
        ("  - {label: A, method: dm, data: [digits], score: {nets: 0}}", "Expected nets=0 >= 1."),
        (
            "  - {label: A, method: dm, data: [digits], score: {mode: paper}}",
            "Expected 'A' on data sets with 0 < test_share < 1: in mode paper all records of 'digits' are split anew.",
        ),
        (student_line("drawn, number: 9"), "Expected runs[1].score.student.taught_by"),
        (student_line("drawn, number: 9, taught_by: me"), "Unknown teacher 'me'"),
        (
            student_line("drawn, number: 9, taught_by: krr, epoch: 3"),
            "Unknown key 'epoch' in runs[1].score.student; expected pictures, number, taught_by, slopes, then_set, epo",
        ),
        (student_line("seen, number: 9, taught_by: krr"), "Expected pictures among drawn, generated, mixed, or"),
        (student_line("drawn, number: 0, taught_by: krr"), "Expected a student with number=0 >= 1, epochs=4 >= 1"),
        (student_line("drawn, number: 9, taught_by: krr, epochs: 0"), "number=9 >= 1, epochs=0 >= 1"),
        (student_line("drawn, number: 9, taught_by: krr, architectures: []"), "and an architecture."),
        (student_line("drawn, number: 9, taught_by: krr, architectures: [x]"), "Unknown architecture 'x'"),
        (student_line("drawn, number: 9, taught_by: classifier"), "a student of a classifier, and dm releases none"),
        (student_line("drawn+generated, number: 9, taught_by: krr"), "of generated pictures, and no generator"),
        (
            student_line("drawn, number: 9, taught_by: krr").replace(
                "dm", "dp-kip, epsilon: [1], set: {kernel: fc-ntk}"
            ),
            "'A' has a student of krr, and its kernel has no features.",
        ),
        (
            "  - {label: A, method: dm, data: [digits], repeats: 0}",
            "Expected 'A' with repeats >= 1 and at least one data",
        ),
        ("  - {label: A, method: dm, data: []}", "Expected 'A' with repeats >= 1 and at least one data set."),
        ("  []", "Expected a suite with runs."),
        (2 * "  - {label: A, method: dm, data: [digits]}\n", "'A' on 'digits' is the same run as 'A': name it once."),
    ],
)
def test_suites_that_cannot_be(tmp_path, runs, says):
    path = suite_file(tmp_path, runs)
    assert says in refused("benchmark", path, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_data_sets_that_cannot_be(tmp_path):
    path = suite_file(tmp_path, "  - {label: A, method: dm, data: [d]}\n", "  - {name: d, train: d}\n")
    assert "Expected data set 'd' with a test, or with 0 < test_share < 1." in refused("benchmark", path, "--out", "o")
    path = suite_file(tmp_path, "  - {label: A, method: dm, data: [d]}\n", "  - {name: d, train: d, test: d}\n")
    assert refused("benchmark", path, "--out", "o") == "Expected --data with the folder of d; got None."
    path = suite_file(tmp_path, "  - {label: A, method: dm, data: [d]}\n", 2 * "  - {name: d, train: d, test: d}\n")
    assert "Expected data sets of different names; got d, d." in refused("benchmark", path, "--out", "o")
    for name in ("../d", "", ".", "a/b"):
        path = suite_file(
            tmp_path, "  - {label: A, method: dm, data: [d]}\n", f"  - {{name: '{name}', train: d, test: d}}\n"
        )
        assert f"Expected data set {name!r} as a name of letters, digits" in refused("benchmark", path, "--out", "o")
    path.write_text("dpdistill: table schema\n")
    assert "begins with `dpdistill: benchmark suite`" in refused("benchmark", path, "--out", "o")
    assert "among smoke, papers, frontier, subspaces, dosser, transferred, accuracy, or as a YAML file" in refused(
        "benchmark", "all", "--out", "o"
    )


def test_what_is_held_out(tmp_path):
    rows = [f"{k},{'yes' if k % 4 == 0 else 'no'}" for k in range(400)] + [",no"] * 20
    table_files(tmp_path, rows, "bounds: [0, 999], missing: true")
    source = Source(name="t", train="t.csv", test_share=0.25, schema="t.yaml", most_missing=0, keep=0.5)
    place = tmp_path / "suite.yaml"
    records, test = open_source(source, tmp_path, place, False, 0)
    assert (len(records), len(test)) == (300, 100)
    assert sorted([*records.X[:, 0], *test.X[:, 0]]) == list(range(400))
    assert set(open_source(source, tmp_path, place, False, 1)[1].X[:, 0]) != set(test.X[:, 0])
    kept, same = open_source(source, tmp_path, place, True, 0)
    assert list(same.X[:, 0]) == list(test.X[:, 0])
    assert (kept.y == 1).sum() == (records.y == 1).sum()
    assert 0.35 < (kept.y == 0).sum() / (records.y == 0).sum() < 0.65
    for name, first in (("t", 0.0), ("v", 8.0)):
        np.savez(tmp_path / f"{name}.npz", X=first + np.arange(8.0)[:, None], y=np.array(["no", "yes"] * 4))
    both = replace(source, train="t.npz", test="v.npz", test_share=0.25, keep=1.0)
    assert [len(part) for part in open_source(both, tmp_path, place, False, 0)] == [8, 8]
    assert [len(part) for part in open_source(both, tmp_path, place, True, 0)] == [12, 4]
    digits = Source(name="d", train="digits:train", test="digits:test")
    assert [len(p) for p in open_source(digits, tmp_path, place, False, 0)] == [
        len(load(f"digits:{part}")) for part in ("train", "test")
    ]
    for part in open_source(replace(digits, straighten=True), tmp_path, place, False, 0):
        assert part.schema.straightened
    for source in (replace(both, test="t.npz"), replace(digits, test="digits:train")):
        for paper in (False, True):
            with pytest.raises(DataError, match="has equal training and test records: leave out test"):
                open_source(source, tmp_path, place, paper, 0)


def test_a_suite_says_how_images_are_read(tmp_path):
    (tmp_path / "suite.yaml").write_text(
        "dpdistill: benchmark suite\ntitle: T\nruns: [{label: DOS, method: dos, data: [own], epsilon: [1]}]\n"
        "data: [{name: own, train: own.npz, test_share: 0.25, classes: 3, bounds: '0,9', resize: 8}]\n"
    )
    source = read_suite(str(tmp_path / "suite.yaml"))[1].data[0]
    X, y = np.arange(8 * 144).reshape(8, 12, 12) % 10, np.arange(8) % 3
    np.savez(tmp_path / "own.npz", X=X.astype(np.uint8), y=y)
    for part in open_source(source, tmp_path, tmp_path, False, 0):
        assert (part.schema.classes, part.schema.bounds, part.schema.shape) == (("0", "1", "2"), (0.0, 9.0), (8, 8, 1))
    with pytest.raises(DataError, match=r"pass --classes \(10, or cat,dog\)\. In a suite: classes of the data set"):
        open_source(replace(source, classes=""), tmp_path, tmp_path, False, 0)
    for wrong in ({"classes": "1"}, {"bounds": "0"}, {"resize": "1e3"}, {"resize": "0"}):
        with pytest.raises(DataError, match="Expected "):
            replace(source, **wrong)
    with pytest.raises(DataError, match="a table, without classes, bounds, resize, which its schema states"):
        replace(source, schema="schema.yaml")


# The pool


def run_child(folder: Path, jobs: int, stop_after: int = 0) -> list[str]:
    """What the made-up suite says; killed after so many lines, if any."""
    with subprocess.Popen(
        [sys.executable, str(CHILD), str(folder), str(jobs)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(stop_after)]
        if stop_after:
            child.kill()
        return [*said, *child.stdout]


def check_times(lines: list[str]) -> None:
    """Several runs at a time, but never two of one release; run 1 ends its process before it could say so."""
    running, most = set(), 0
    for word, k in ((word, int(number)) for word, number in map(str.split, lines)):
        if word == "begin":
            assert all(k // 2 != other // 2 for other in running)
            running.add(k)
        else:
            running.remove(k)
        most = max(most, len(running))
    assert most >= 2


def test_a_benchmark_that_is_killed_ends_with_the_same_table(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    said = run_child(whole, 2)
    assert sorted(text.split()[0] for text in said) == ["r0", "r1", "r2", "r3"]
    assert said[-1].split()[1:] == ["4", "4", "True"]
    check_times((whole / "times").read_text().splitlines())
    run_child(killed, 1, stop_after=2)
    begun = (killed / "results.jsonl").read_bytes()
    assert begun.count(b"\n") in (2, 3)
    with (killed / "results.jsonl").open("a") as file:
        file.write('{"name": "r3", "er')
    run_child(killed, 1)
    content = (killed / "results.jsonl").read_bytes()
    assert content.startswith(begun)
    names = [json.loads(text)["name"] for text in content.splitlines()]
    assert sorted(names) == ["r0", "r1", "r1", "r2", "r3"]  # what is finished is not run again, what failed is
    pages = [render_markdown(pool.read_lines(f / "results.jsonl").values(), "Same") for f in (whole, killed)]
    assert pages[0] == pages[1]
    assert "| **m0** | 51.00 ± 1.41 (2 runs) |" in pages[0]
    assert "- r1: its process ended with exit code 7" in pages[0]


def test_lines_of_results_are_json(tmp_path):
    path = tmp_path / "results.jsonl"
    result = '{"name": "a", "error": null, "run": {}, "release": "r", "scores": [], "seconds": {}}\n'
    path.write_text(result)
    assert [*pool.read_lines(path)] == ["a"]
    path.write_text(f'{result}{{"name": "a", "error": "x"}}\n{{"name": "b"')
    assert pool.read_lines(path) == {"a": {"name": "a", "error": "x"}}
    path.write_text(f"{result}[]\n")
    assert refused("results", path, "--out", "x.md") == f"Expected a result in JSON in line 2 of {path}; there is none."
    for no_result in ('{"name": "x"}', '{"name": "x", "error": null, "release": "r"}'):
        path.write_text(f"{no_result}\n")
        assert "Expected a result in JSON in line 1" in refused("results", path, "--out", "x.md")
    path.write_text("")
    assert (
        refused("results", path, "--out", "x.pdf") == "Expected --out as a page that ends in .md or .html; got x.pdf."
    )


# A whole suite, in this process


@pytest.fixture
def inline(monkeypatch):
    """Runs one after the other in this process, with networks that are trained in no time."""

    def run_all(tasks, work, results, jobs, tell, begin):
        for k, (name, _, arguments) in enumerate(tasks, 1):
            found = work(*arguments)
            assert found["name"] == name
            with results.open("a") as file:
                file.write(json.dumps(found, allow_nan=False) + "\n")
            tell(found, k, len(tasks), 100.0)

    monkeypatch.setattr(pool, "run_all", run_all)
    monkeypatch.setitem(TRAININGS, "quick", TINY)
    for name, network in TINY_NETS.items():
        monkeypatch.setitem(ARCHITECTURES, name, network)


def test_what_the_data_folder_lacks_is_said_before_the_first_run(tmp_path, inline):
    runs = "  - {label: Lost, method: ldpdc, data: [lost], epsilon: [1]}\n"
    path = suite_file(tmp_path, runs, DIGITS + "  - {name: lost, train: lost, test: 'digits:test'}\n")
    code, out, err = dpdistill("benchmark", path, "--out", tmp_path / "out", "--data", tmp_path)
    assert code == 1
    said = f"Warning: {tmp_path} lacks files of lost: only runs on those data sets will fail.\n"
    assert said in err.split("1 of 1, ")[0]
    assert "0 runs, and 1 failed" in out
    (tmp_path / "lost").mkdir()
    again = dpdistill("benchmark", path, "--out", tmp_path / "out", "--data", tmp_path)
    assert (again[0], "lacks files" in again[2]) == (1, False)


def test_a_suite_from_end_to_end(tmp_path, inline):
    score = "score: {architectures: [mlp], kernels: [], classifiers: [logistic regression]}"
    runs = (
        "  - {label: DOS, method: dos, data: [digits], epsilon: [1], per_class: [1, 2], set: {networks: 2, width: 4,"
        f" steps: 3, sampling_prob: 1}}, {score}}}\n"
        "  - {label: Lost, method: ldpdc, data: [lost], epsilon: [1]}\n"
    )
    path = suite_file(tmp_path, runs, DIGITS + "  - {name: lost, train: 'digits:lost', test: 'digits:test'}\n")
    code, out, err = dpdistill("benchmark", path, "--out", tmp_path / "out")
    assert code == 1
    assert out.endswith(f"{tmp_path / 'out' / 'leaderboard.html'}: 2 runs, and 1 failed.\n")
    assert "1 of 3, about 2 min left: digits-dos-" in err
    one, two, lost = pool.read_lines(tmp_path / "out" / "results.jsonl").values()
    assert one["device"] == backend()
    assert "DataError" in lost["error"]
    assert one["release"] == two["release"]
    (folder,) = (tmp_path / "out" / "runs").iterdir()  # paid for once
    assert len(RunLedger.read(folder).events) == 2 + 1
    for found in (one, two):
        shared = tmp_path / "out" / "sets" / found["name"]
        assert found["certificate"]["claim"] == {"epsilon": 1.0, "delta": 1e-5}
        assert found["release"] == json.loads((shared / "certificate.json").read_text())["releases"]
        assert found["certificate"]["sha256"] == worker.sha256(shared / "certificate.json")
        assert found["origin"].startswith("caller changed ")
        assert 100 < found["peak_mb"] < 100_000
        assert found["seconds"]["distil"] >= 0
        assert found["versions"]["dpdistill"] == package.__version__
        names = ["MLP (widths 4)", "logistic regression on pixels"]
        assert [score["score"] for score in found["scores"]] == names
        assert all(0 <= score["value"] <= 100 for score in found["scores"])
    assert package.verify(tmp_path / "out" / "sets" / two["name"]).passed
    board = (tmp_path / "out" / "leaderboard.html").read_text()
    assert board.count("data:image/png;base64,") == 20
    assert "<title>Tiny &amp; small · dpdistill</title>" in board
    page_of = tmp_path / "page.html"
    succeeds("results", tmp_path / "out" / "results.jsonl", "--out", page_of, "--title", "Tiny & small")
    assert page_of.read_text() == board


def test_public_images_of_a_suite(tmp_path, inline):
    runs = (
        "  - {label: A, method: dos, data: [digits], epsilon: [1], per_class: [1, 2], public: p, set: {networks: 2,"
        " width: 4, steps: 3, sampling_prob: 1, subspace: 3}, score: {architectures: [mlp], kernels: []}}\n"
    )
    data = DIGITS + "  - {name: p, train: 'digits:test', test: 'digits:test'}\n"
    succeeds("benchmark", suite_file(tmp_path, runs, data), "--out", tmp_path / "out")
    one, two = pool.read_lines(tmp_path / "out" / "results.jsonl").values()
    assert one["error"] is two["error"] is None
    assert one["release"] == two["release"]
    images = load("digits:test")
    expected = PublicImages.of([images.take(np.arange(len(images)))[0]])
    recipe = json.loads((tmp_path / "out" / "sets" / two["name"] / "recipe.json").read_text())
    assert recipe["fields"]["public_images"]["sha256"] == expected.sha256
    assert recipe["fields"]["public_images"]["pictures"] == len(images)
    (row,) = boards([one])[0].tables[0].rows
    assert row.origin == "dos: networks=2 sampling_prob=1 steps=3 subspace=3 width=4; p as public images"


@pytest.mark.slow
def test_the_certificate_of_a_suites_run_names_the_recipe(tmp_path, inline):
    small = "per_class: [1], set: {networks: 2, width: 4, steps: 3, sampling_prob: 1, subspace: 3}"
    score = "score: {architectures: [mlp], kernels: []}"
    runs = (
        f"  - {{label: A, recipe: dosser-mnist-eps1, data: [digits], epsilon: [1, 2], {small}, {score}}}\n"
        f"  - {{label: B, recipe: dosser-pea-mnist-eps1, data: [digits], epsilon: [1], {small}, {score}}}\n"
    )
    succeeds("benchmark", suite_file(tmp_path, runs), "--out", tmp_path / "out")
    lines = list(pool.read_lines(tmp_path / "out" / "results.jsonl").values())
    assert [found["error"] for found in lines] == [None] * 3
    for found in lines:
        folder, recipe = tmp_path / "out" / "sets" / found["name"], found["run"]["recipe"]
        assert package.verify(folder).passed
        assert json.loads((folder / "recipe.json").read_text()).get("named", "") == recipe
        start = f"recipe {recipe}: Zheng" if recipe else "caller changed"
        assert found["origin"].startswith(start)
    named = {(found["run"]["epsilon"], found["run"]["recipe"]) for found in lines}
    assert named == {(1.0, "dosser-mnist-eps1-ipc10"), (1.0, "dosser-pea-mnist-eps1-ipc10"), (2.0, "")}
    assert len({found["release"] for found in lines}) == 2, "the two recipes share one"


@pytest.mark.parametrize(
    ("by", "then"), few([("classifier", False), ("krr", False), ("krr", True)], ("krr", True), of_several=True)
)
@pytest.mark.slow
def test_networks_that_a_teacher_teaches_have_a_table_of_their_own(tmp_path, inline, by, then):
    student = f"{{pictures: mixed, number: 50, taught_by: {by}, slopes: true, epochs: 2, architectures: [mlp]"
    student += ", then_set: true}" if then else "}"
    runs = (
        "  - {label: A, method: decoupled-kip, data: [digits], epsilon: [1], per_class: [1], set: {rounds: 3,"
        f" steps: 3}}, score: {{architectures: [mlp], kernels: [], student: {student}}}}}\n"
    )
    succeeds("benchmark", suite_file(tmp_path, runs), "--out", tmp_path / "out")
    (found,) = pool.read_lines(tmp_path / "out" / "results.jsonl").values()
    folder, test = tmp_path / "out" / "sets" / found["name"], load("digits:test")
    distilled = read_distilled(folder)
    kernel, ridge = kernel_in(str(folder))
    how = {"kernel": kernel, "ridge": ridge, "targets": distilled.targets}
    teacher = teacher_in(str(folder), distilled)
    if by == "krr":
        teacher = teacher_of(*distilled.support_set, distilled.schema, **how)
    lesson = lesson_of(teacher, make_pictures("mixed", 50, str(folder), distilled, 0), slopes=True)
    more = {"then": own_lesson(distilled) if then else None}
    expected = score_student(lesson, test, training=replace(SLOPES, epochs=2, network=TINY_NETS["mlp"]), **more)
    named = {"classifier": "the released classifier", "krr": "KRR on the set (scatternet-white, ridge 0.001)"}[by]
    learned, released, taught = found["scores"]
    assert (learned["score"], released["score"]) == ("MLP (widths 4)", "released classifier")
    assert taught == {
        "score": "MLP (widths 4), taught",
        "by": f"taught by {named} on 50 mixed pictures and their slopes (epochs: 2)"
        f"{', then trained on the set' * then}, 1 net",
        "value": round(expected.mean, 2),
    }
    (board,) = boards([found])
    assert [table.title for table in board.tables] == [score["score"] for score in found["scores"]]


def test_a_score_of_one_set_counts_once():
    twice, other = line(release="r"), line(release="s")
    for found, release in ((twice, "r"), (other, "s")):
        found["release"] = release
    again = {**twice, "name": "again", "scores": [*twice["scores"], {"score": "MLP", "by": "how", "value": 1.0}]}
    (board,) = boards([twice, again, other])
    assert [[str(f) for row in t.rows if row.ours for f in row.figures.values()] for t in board.tables] == [
        ["90.00 ± 0.00 (2 runs)"],
        ["1.00 (1 run)"],
    ]


def test_an_interrupted_release_is_finished_by_whichever_run_needs_it(tmp_path, inline, monkeypatch):
    """Runs that differ in free fields alone share a release; the one that began it may have been killed."""
    small = "networks: 2, width: 4, steps: 3, sampling_prob: 1"
    runs = "  - {label: A, method: dos, data: [digits], epsilon: [1], per_class: [1, 2], set: {" + small + "}, "
    path = suite_file(tmp_path, runs + "score: {architectures: [mlp], kernels: []}}\n")

    def killed_after_its_first_round(self, t, state, last):
        kept(self, t, state, last)
        raise KeyboardInterrupt

    one, two = read_suite(str(path))[1].all_runs()
    with monkeypatch.context() as patched:
        kept = Store.save
        patched.setattr(Store, "save", killed_after_its_first_round)
        with pytest.raises(KeyboardInterrupt):
            worker.compute(one, path, tmp_path, tmp_path / "out")
    (folder,) = (tmp_path / "out" / "runs").iterdir()
    assert len(RunLedger.read(folder).events) == 1
    found = worker.compute(two, path, tmp_path, tmp_path / "out")
    assert found["error"] is None
    assert len(RunLedger.read(folder).events) == 2 + 1
    assert len(read_distilled(tmp_path / "out" / "sets" / two.name).X) == 20
    assert worker.compute(one, path, tmp_path, tmp_path / "out")["release"] == found["release"]


def test_real_rows_of_mode_paper_are_undersampled_once(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{k},{'yes' if k % 4 == 0 else 'no'}" for k in rng.integers(0, 100, 4000)]
    table_files(tmp_path, rows, "bounds: [0, 100]")
    runs = "  - {label: Real, method: real, data: [t], score: {mode: paper}}\n"
    path = suite_file(tmp_path, runs, TABLE.replace("}", ", keep: 0.25}"))
    (run,) = read_suite(str(path))[1].all_runs()
    found = worker.compute(run, path, tmp_path, tmp_path / "out")
    records, _ = open_source(replace(run.source, keep=1.0), tmp_path, path, True, 0)
    rare, common = sorted(np.bincount(records.y))
    (used,) = {int(score["by"].split(", ")[1].split(" ")[0].replace(",", "")) for score in found["scores"]}
    assert abs(used - rare - common / 4) < 5 * (common * 0.25 * 0.75) ** 0.5


def test_a_set_is_scored_by_the_papers_protocol_in_mode_paper_alone(tmp_path, monkeypatch):
    """All rows of a set teach, whatever share of the majority class is kept of real rows."""
    rng = np.random.default_rng(0)
    table_files(tmp_path, [f"{k},{'yes' if k > 70 else 'no'}" for k in rng.integers(0, 100, 400)], "bounds: [0, 100]")
    said, inner = [], worker.score_tables
    monkeypatch.setattr(
        worker, "score_tables", lambda *what, **how: said.append(how) or inner(*what, **how, names=("LDA",))
    )
    runs = (
        "  - {label: A, method: dp-merf, data: [t], epsilon: [1], set: &few {steps: 5, samples: 40}}\n"
        "  - {label: B, method: dp-merf, data: [t], epsilon: [1], set: *few, score: {mode: paper}}\n"
    )
    path = suite_file(tmp_path, runs, TABLE.replace("}", ", keep: 0.25}"))
    found = [worker.compute(run, path, tmp_path, tmp_path / "out") for run in read_suite(str(path))[1].all_runs()]
    assert said == [{"mode": "honest", "keep": 1.0, "seed": 0}, {"mode": "paper", "keep": 0.25, "seed": 0}]
    assert [[score["score"] for score in each["scores"]] for each in found] == [
        ["ROC, mode honest", "PRC, mode honest"],
        ["ROC, mode paper", "PRC, mode paper"],
    ]
    assert {score["by"] for each in found for score in each["scores"]} == {"mean of 1 classifiers, 40 rows"}


@pytest.mark.parametrize("keep", ["0", "1.5", "-1"])
def test_a_share_that_is_kept_is_one(tmp_path, keep):
    path = suite_file(tmp_path, "  - {label: A, method: real, data: [t]}\n", TABLE.replace("}", f", keep: {keep}}}"))
    assert "Expected data set 't' with 0 < keep <= 1; got" in refused("benchmark", path, "--out", tmp_path / "o")


def test_tables_and_real_rows(tmp_path, inline):
    rng = np.random.default_rng(0)
    rows = [f"{k},{'yes' if k + 10 * rng.normal() > 50 else 'no'}" for k in rng.integers(0, 100, 400)]
    table_files(tmp_path, rows, "bounds: [0, 100]")
    taught = "score: {student: {pictures: drawn, number: 9, taught_by: krr}}"
    path = suite_file(tmp_path, f"  - {{label: Real, method: real, data: [t], {taught}}}\n", TABLE)
    assert "Expected 'Real' without a student" in refused(
        "benchmark", path, "--data", tmp_path, "--out", tmp_path / "o"
    )
    path = suite_file(tmp_path, "  - {label: Real, method: real, data: [t]}\n", TABLE)
    out = succeeds("benchmark", path, "--data", tmp_path, "--out", tmp_path / "out")
    assert "t: ROC, mode honest" in out
    (board,) = boards(pool.read_lines(tmp_path / "out" / "results.jsonl").values())
    roc = board.tables[0].rows[0].figures[Setting(False, float("inf"), 0)]
    assert roc.runs == 1
    assert 85 < roc.mean < 99
    assert board.costs == []


# Tables and pages


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
