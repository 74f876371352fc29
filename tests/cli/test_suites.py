"""Suites: which can be run, what their runs are called, and what is refused."""

from __future__ import annotations

import csv
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from result_lines import (
    PUBLIC,
    ROOT,
    line,
    student_line,
    suite_file,
    table_files,
)
from run_command import refused

from dpdistill.benchmark import SUITES, suite
from dpdistill.benchmark.figures import PUBLISHED, boards
from dpdistill.benchmark.sources import open_source
from dpdistill.benchmark.suite import OF_IMAGES, Source, read_suite
from dpdistill.methods.dos import DOS
from dpdistill.recipe.published import published, statements
from dpdistill.schema import DataError
from dpdistill.sources.load import load

SIZES = {
    "smoke": (7, 4),
    "papers": (391, 341),
    "frontier": (88, 37),
    "subspaces": (51, 20),
    "dosser": (57, 13),
    "transferred": (8, 8),
    "accuracy": (9, 9),
    "medical": (24, 24),
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
    [
        {"straighten": True},
        {"classes": "3"},
        {"bounds": "0,1"},
        {"resize": "8"},
        {"channels": "3"},
        {"labels": "fine"},
        {"unit": "patient", "rows_per_unit": 2},
    ],
    ids=lambda said: next(iter(said)),
)
def test_runs_whose_images_are_read_in_another_way_have_names_of_their_own(said):
    plain, other = (
        replace(next(read_suite("smoke")[1].all_runs()), source=Source(name="a", train="b", test="c", **each))
        for each in ({}, said)
    )
    assert set(said) < {*OF_IMAGES, "rows_per_unit"}
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
    monkeypatch.setattr(statements, "published", lambda name: changed)
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
    assert (
        "among smoke, papers, frontier, subspaces, dosser, transferred, accuracy, medical, or as a YAML file"
        in refused("benchmark", "all", "--out", "o")
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
