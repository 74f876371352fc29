"""The accuracy gate: which differences to earlier figures are faults, what it keeps, and what it is given."""

import importlib.util
import json
import math
import sys
from pathlib import Path

import pytest
from kill_benchmark import line_of

from dpdistill.benchmark.suite import read_suite

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def gate():
    spec = importlib.util.spec_from_file_location("accuracy_gate", ROOT / "benchmarks" / "accuracy" / "gate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def key(gate):
    return gate.Key("mnist", "default", "KRR")


@pytest.mark.parametrize(
    ("std", "runs", "figures", "red"),
    [
        (0.01, 3, [97.3], False),  # 0.2 is less than 0.3 points, however sure
        (0.01, 3, [97.2], False),  # 0.3 is not more
        (0.1, 3, [97.0], True),  # 0.5, and a standard error of 0.12
        (0.5, 3, [97.0], False),  # 0.5, and a standard error of 0.58
        (0.2, 1, [97.0], False),  # an error of 0.28: one earlier run says little
        (0.2, 3, [97.0], True),  # an error of 0.23
        (0.2, 100, [97.09], True),  # an error of 0.201
        (0.2, 1, [97.1, 97.1], False),  # 0.4, and an error of 0.245: more new runs,
        (0.2, 3, [97.1, 97.1], True),  # and more earlier ones, an error of 0.18
        (0.0, 3, [97.1], True),
        (0.01, 3, [99.0], False),  # a gain is none
    ],
)
def test_a_drop_is_a_fault_beyond_points_and_standard_errors(gate, key, std, runs, figures, red):
    wrong = gate.fault(key, gate.Reference(97.5, std, runs), figures)
    assert (wrong is not None) == red


def test_a_fault_names_its_line_in_one_sentence(gate, key):
    assert gate.fault(key, gate.Reference(97.5, 0.1, 3), [97.0]) == (
        "mnist, default, KRR: 97.00 is 0.50 points below 97.50 ± 0.10 (3), more than 0.3 points and more than 2 "
        "standard errors of 0.12."
    )


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_a_fault(gate, key, value):
    for reference in (gate.Reference(97.5, 9.0, 3), gate.Reference(None, 0.3, 0)):
        for figures in ([value], [97.5, value]):
            assert "mnist, default, KRR: expected numbers; got " in gate.fault(key, reference, figures)


def test_a_missing_line_is_a_fault_on_either_side(gate, key):
    other = gate.Key("adult", "default", "ROC")
    rows = gate.judge({key: gate.Reference(97.5, 0.1, 3)}, {other: [84.0]})
    assert [(found, wrong) for found, _, _, wrong in rows] == [
        (key, "mnist, default, KRR: expected a figure; its run failed or has not ended."),
        (other, "adult, default, ROC: expected a line in reference.csv; there is none."),
    ]
    assert gate.judge({key: gate.Reference(97.5, 0.1, 3)}, {key: [97.4]})[0][3] is None


def test_without_an_earlier_run_a_figure_has_only_to_be_there(gate, key):
    unknown = gate.Reference(None, 0.3, 0)
    assert gate.fault(key, unknown, [1.0]) is None
    assert "its run failed" in gate.fault(key, unknown, [])


def test_every_line_of_the_reference_is_of_a_run_of_the_suite(gate):
    references = gate.read_reference()
    runs = list(read_suite("accuracy")[1].all_runs())
    assert {(run.source.name, run.label) for run in runs} == {key[:2] for key in references}
    classifiers = {key[:2] for key in references if key.score == "released classifier"}
    assert classifiers == {(run.source.name, run.label) for run in runs if not run.source.schema}
    for reference in references.values():
        assert 0.0 < reference.std < 1.0
        assert (reference.mean is None) == (reference.runs == 0)
        assert reference.mean is None or 50.0 < reference.mean < 100.0


def results(value):
    line = line_of(0)
    line["run"] |= {"label": "default", "source": {"name": "mnist"}}
    failed = {"name": "lost", "run": line["run"], "error": "DataError: gone"}
    return [{**line, "device": "cpu", "scores": [{"score": "KRR", "by": "", "value": value}]}, failed]


def test_lines_are_kept_once_for_each_state_of_the_code(gate, key, tmp_path):
    path = tmp_path / "lines.jsonl"
    lines = gate.lines_of(results(97.5), "aa")
    assert gate.by_key(lines) == {key: [97.5]}
    assert [gate.append_new(lines, path), gate.append_new(lines, path)] == [1, 0]
    assert gate.append_new(gate.lines_of(results(None), "bb"), path) == 1
    kept = [json.loads(text) for text in path.read_text().splitlines()]
    assert [(each["source"], each["figure"], each["cpu_seconds"]) for each in kept] == [
        ("aa", 97.5, 2),
        ("bb", None, 2),
    ]
    assert kept[0]["version"] == gate.__version__
    assert kept[0]["run"] == "r0"


def test_a_change_of_the_code_is_another_run(gate, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.py").write_text("1")
    first = gate.digest(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.pyc").write_text("2")
    assert gate.digest(tmp_path) == first
    (tmp_path / "a" / "x.py").write_text("2")
    second = gate.digest(tmp_path)
    (tmp_path / "a" / "x.py").rename(tmp_path / "a" / "y.py")
    assert len({first, second, gate.digest(tmp_path)}) == 3


@pytest.fixture
def alone(gate, tmp_path, monkeypatch):
    """The gate in an empty folder, with one line of reference, and a suite that ends with the given figure."""
    (tmp_path / "src").mkdir()
    (tmp_path / "reference.csv").write_text(
        "data,label,score,mean,std,runs,training,note\nmnist,default,KRR,97.5,0.1,3,,here\n"
    )
    asked = []

    def run(command, **how):
        asked.append(command)
        folder = Path(command[command.index("--out") + 1])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in results(run.value)))

    monkeypatch.setattr(gate, "ROOT", tmp_path)
    monkeypatch.setattr(gate.subprocess, "run", run)
    monkeypatch.setattr(gate, "digest", lambda: "aa")
    monkeypatch.setattr(gate, "commit", lambda: "c0ffee")
    monkeypatch.setattr(gate, "LINES", tmp_path / "lines.jsonl")
    reference, append = gate.read_reference, gate.append_new
    monkeypatch.setattr(gate, "read_reference", lambda: reference(tmp_path / "reference.csv"))
    monkeypatch.setattr(gate, "append_new", lambda lines: append(lines, tmp_path / "lines.jsonl"))
    run.asked = asked
    return run


@pytest.mark.parametrize(("value", "code", "says"), [(97.4, 0, "1 of 1 lines green"), (96.0, 1, "1.50 points below")])
def test_the_gate_from_end_to_end(gate, alone, tmp_path, capsys, value, code, says):
    alone.value = value
    assert gate.main(["--data", "D", "--jobs", "3", "--look"]) == 1  # nothing is there yet
    assert alone.asked == []
    assert gate.main(["--data", "D", "--jobs", "3"]) == code
    assert says in capsys.readouterr().out
    (command,) = alone.asked
    assert command[:7] == [sys.executable, "-m", "dpdistill", "benchmark", "accuracy", "--data", "D"]
    assert command[7:] == ["--out", str(tmp_path / "build" / "accuracy" / "aa"), "--jobs", "3"]
    assert gate.main(["--look"]) == code
    (kept,) = (json.loads(text) for text in (tmp_path / "lines.jsonl").read_text().splitlines())
    assert (kept["commit"], kept["figure"]) == ("c0ffee", value)


def test_a_folder_of_data_is_needed(gate, alone, monkeypatch, capsys):
    monkeypatch.delenv("DPDISTILL_DATA", raising=False)
    with pytest.raises(SystemExit) as ended:
        gate.main([])
    assert ended.value.code == 2
    assert "expected DATA=FOLDER with mnist/" in capsys.readouterr().err
    assert alone.asked == []
