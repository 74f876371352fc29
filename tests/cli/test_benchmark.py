"""Whole suites, run in this process."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from chosen_tests import few
from result_lines import (
    DIGITS,
    TABLE,
    line,
    suite_file,
    table_files,
)
from run_command import dpdistill, refused, succeeds
from small_sets import TINY, TINY_NETS

import dpdistill as package
from dpdistill.api.pictures import make_pictures
from dpdistill.benchmark import pool, worker
from dpdistill.benchmark.figures import Setting, boards
from dpdistill.benchmark.sources import open_source
from dpdistill.benchmark.suite import read_suite
from dpdistill.evaluation import ARCHITECTURES, SLOPES, TRAININGS, lesson_of, score_student, teacher_of
from dpdistill.evaluation.students import own_lesson
from dpdistill.evaluation.teacher import kernel_in, teacher_in
from dpdistill.folder.save import read_distilled
from dpdistill.ledger.run import RunLedger
from dpdistill.public_images.image_source import PublicImages
from dpdistill.run.checkpoint import Store
from dpdistill.run.driver import backend
from dpdistill.sources.load import load


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


@pytest.mark.filterwarnings("ignore:Only one sample available")  # a set may have one row of a class
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
    assert [each.get("error") for each in found] == [None, None]
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
