"""`dpdistill student`: trains networks on a teacher's scores of images; the same from Python."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from run_command import refused, succeeds
from small_sets import small_nets

import dpdistill as dp
from dpdistill import evaluation
from dpdistill.api.listener import Listener
from dpdistill.evaluation import students
from dpdistill.folder.save import read_distilled
from dpdistill.schema import DataError
from dpdistill.sources.load import load


class Heard(Listener):
    """Keeps the lines of a result."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def line(self, text):
        self.lines.append(text)


@pytest.mark.slow
def test_pictures_of_two_kinds_teach(whole, tmp_path, monkeypatch):
    small_nets(monkeypatch)
    monkeypatch.setattr(students, "STUDENT", replace(evaluation.STUDENT, epochs=1))
    on = ("--test", "digits:test", "--nets", 1)
    command = ("student", whole, *on, "--teacher", "mixed+generated", "--pictures", 20)
    assert "taught by the released classifier on 20 mixed+generated pictures: " in succeeds(*command)
    monkeypatch.setattr(evaluation.student, "FURTHER", replace(evaluation.student.FURTHER, epochs=1))
    out = succeeds(*command, "--taught-by", "krr", "--then-set")
    assert re.search(r"taught by KRR on the set \(.*\) on 20 mixed.generated pictures, then trained on the set: ", out)
    assert "Missing option '--teacher'" in refused("student", whole, *on, "--then-set")
    bare = shutil.copytree(whole, tmp_path / "bare")
    (bare / "generator.npz").unlink()
    assert "bare has no generator" in refused("student", bare, *command[2:])


def test_a_released_classifier_teaches(led, tmp_path, monkeypatch):
    small_nets(monkeypatch)
    monkeypatch.setattr(students, "STUDENT", replace(evaluation.STUDENT, epochs=2))
    pictures = tmp_path / "pictures.npz"
    succeeds("sample", led, "--n", 30, "--out", pictures, "--seed", 5)
    options = ("--test", "digits:test", "--nets", 1, "--include-scores")
    both = ("--architecture", "mlp", "--architecture", "convnet")
    own = succeeds("evaluate", led, *options, *both).splitlines()
    assert [line.split(" ")[0] for line in own] == ["Released", "KRR", "MLP", "ConvNet"]
    command = ("student", led, *options, "--teacher")
    learned = succeeds(*command, "mixed", "--pictures", 40, *both).splitlines()
    assert [line.split(" ")[0] for line in learned] == ["MLP", "ConvNet"]
    assert "MLP (widths 4) accuracy, taught by the released classifier on 40 mixed pictures: " in learned[0]
    scores = json.loads((led / "scores.json").read_text())
    assert scores["MLP (widths 4) accuracy, %"]["mean"] == float(own[2].split()[4])
    assert scores["MLP (widths 4) accuracy, taught by the released classifier on 40 mixed pictures, %"] > 0
    drawn = succeeds(*command, "drawn", "--pictures", 40)
    name = "ConvNet (width 4) accuracy, taught by the released classifier on 40 drawn pictures"
    line = re.search(rf"^{re.escape(name)}: ([\d.]+) %$", drawn, re.M)
    assert line is not None
    scores = json.loads((led / "scores.json").read_text())
    assert scores[f"{name}, %"] == float(line[1])
    krr = succeeds(*command, "drawn", "--pictures", 40, "--taught-by", "krr", "--kernel", "scatternet")
    by = "taught by KRR on the set (scatternet, ridge 0.001) on 40 drawn pictures"
    assert f"ConvNet (width 4) accuracy, {by}: " in krr
    assert "Expected --kernel as a kernel with features, such as scatternet: fc-ntk cannot teach." in refused(
        *command, "drawn", "--taught-by", "krr", "--kernel", "fc-ntk"
    )
    slopes = succeeds(*command, "drawn", "--pictures", 40, "--slopes", "--epochs", 1)
    assert "taught by the released classifier on 40 drawn pictures and their slopes (epochs: 1): " in slopes
    assert "classifier on pictures of the evaluator: " in succeeds(*command, pictures)
    said = refused(*command, "drawn", "--architecture", "mpl")
    assert "Unknown architecture 'mpl': choose among convnet, convnet64, mlp, lenet, vgg11, resnet18, vit." in said
    assert "Architecture lenet takes images with sides >= 16; got (8, 8, 1)." in refused(
        *command, "drawn", "--architecture", "lenet"
    )
    kept = (led / "scores.json").read_text()
    assert "pictures.npz" not in kept
    assert "30" not in re.sub(r"[\d.]+,?\n", "", kept)
    page = re.sub(r"<[^>]+>", "", (led / "report.html").read_text())
    assert f"{name}, %{scores[f'{name}, %']:.6g}" in page
    again = ("evaluate", led, *options, "--kernel", "fc-ntk", "--architecture", "mlp")
    succeeds(*again)
    renewed = json.loads((led / "scores.json").read_text())
    assert renewed[f"{name}, %"] == scores[f"{name}, %"]
    assert "ConvNet (width 4) accuracy, %" not in renewed
    succeeds("verify", led)


@pytest.mark.slow
def test_python_gives_what_the_command_line_gives(led, monkeypatch):
    monkeypatch.setattr(evaluation.student, "FURTHER", replace(evaluation.student.FURTHER, epochs=1))
    words = ("--teacher", "mixed", "--taught-by", "krr", "--pictures", 20, "--epochs", 1, "--slopes", "--then-set")
    nets = ("--nets", 2, "--architecture", "mlp", "--architecture", "convnet", "--flip", "--seed", 3)
    fit = ("--kernel", "scatternet", "--ridge", 0.25)
    said = json.loads(succeeds("student", led, "--test", "digits:test", *words, *nets, *fit, "--json"))
    asked = {
        "teaching": dp.Teaching(taught_by="krr", pictures=20, epochs=1, slopes=True, then_set=True),
        "networks": dp.Networks(nets=2, architecture=("mlp", "convnet"), flip=True, seed=3),
        "regression": dp.Regression(kernel=("scatternet",), ridge=0.25),
    }
    heard = Heard()
    found = dp.student(led, "digits:test", "mixed", **asked, listener=heard)
    assert found.scores == said["scores"]
    assert list(found.scores.values()) == [round(each.score.mean, 2) for each in found.found]
    assert [len(each.score.accuracies) for each in found.found] == [2, 2]
    assert heard.lines == str(found).splitlines() == said["text"]
    records = load("digits:test", like=read_distilled(led).schema)
    assert dp.student(led, records, "mixed", **asked).scores == said["scores"]
    assert not (led / "scores.json").exists()


def test_what_cannot_be_is_refused(shared, tmp_path):
    scored = ("student", shared, "--test", "digits:test", "--teacher")
    for words, sentence in (
        (("drawn", "--taught-by", "classifier"), f"{shared} has no released classifier: use --taught-by krr."),
        (("drawn", "--taught-by", "x"), "Unknown teacher 'x': choose among classifier, krr."),
        (
            ("digits:train", "--pictures", 3),
            "Expected --teacher drawn, generated, mixed with --pictures 3, the number",
        ),
        (("nowhere",), "nowhere does not exist."),
        (("drawn", "--epochs", 0), "--epochs"),
        (("drawn", "--ridge", "-1"), "ridge=-1"),
        (("drawn", "--kernel", "nosuch"), "Unknown kernel 'nosuch': choose among fc-ntk,"),
    ):
        assert sentence in refused(*scored, *words)
    for made, sentence in (
        (lambda: dp.Teaching(taught_by="x"), "Unknown teacher 'x': choose among classifier, krr."),
        (lambda: dp.Teaching(epochs=0), "Expected epochs=0 >= 1."),
        (lambda: dp.Teaching(pictures=0), "Expected pictures=0 >= 1."),
        (lambda: dp.Networks(nets=0), "Expected nets=0 >= 1."),
        (lambda: dp.Networks(seed=-1), "Expected a seed from 0 to 4294967295; got -1."),
    ):
        with pytest.raises(DataError, match=re.escape(sentence)):
            made()


def test_a_student_is_written_with_a_statement_of_its_guarantee(led, tmp_path, monkeypatch):
    import onnxruntime
    from safetensors.numpy import load_file

    small_nets(monkeypatch)
    monkeypatch.setattr(students, "STUDENT", replace(evaluation.STUDENT, epochs=1))
    command = ("student", led, "--test", "digits:test", "--teacher", "drawn", "--pictures", 20)
    to = tmp_path / "net"
    said = succeeds(*command, "--out", to)
    assert {path.name for path in to.iterdir()} == {
        *("student.safetensors", "student.onnx", "student.json", "predict.py", "README.md"),
        *("certificate.json", "recipe.json"),
    }
    stated = json.loads((to / "student.json").read_text())
    assert stated["guarantee"].startswith("Post-processing: ")
    assert stated["claim"]["epsilon"] == json.loads((led / "certificate.json").read_text())["claim"]["epsilon"]
    assert stated["certificate_sha256"] == hashlib.sha256((to / "certificate.json").read_bytes()).hexdigest()
    assert stated["files"] == {
        name: hashlib.sha256((to / name).read_bytes()).hexdigest() for name in ("student.safetensors", "student.onnx")
    }
    assert "Post-processing: " in (to / "README.md").read_text()
    assert {array.dtype for array in load_file(to / "student.safetensors").values()} == {np.dtype("float32")}
    test = load("digits:test")
    session = onnxruntime.InferenceSession(to / "student.onnx")
    X = test.schema.from_unit(test.take(np.flatnonzero(test.y >= 0))[0])
    scores = np.asarray(session.run(None, {"images": X})[0])
    (accuracy,) = re.findall(r": ([0-9.]+) %", said)
    assert f"{100 * (scores.argmax(1) == test.y).mean():.2f}" == accuracy
    assert "Expected a new folder outside of" in refused(*command, "--out", to)
    assert "Expected a new folder outside of" in refused(*command, "--out", led / "net")
    assert "Expected one network with --out" in refused(*command, "--out", tmp_path / "two", "--nets", 2)
    own = tmp_path / "own"
    succeeds("student", led, "--test", "digits:test", "--teacher", "digits:train", "--out", own)
    stated = json.loads((own / "student.json").read_text())
    assert (stated["claim"], "does not cover these images" in stated["guarantee"]) == (None, True)
    assert "digits" not in (own / "student.json").read_text()
