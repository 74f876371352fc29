"""`dpdistill evaluate`: which scores it prints, keeps and refuses; the same from Python."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import typer
from run_command import dpdistill, files_of, refused, succeeds
from sklearn.linear_model import LogisticRegression
from small_sets import CLASSIFIER, ENCODER, TARGETS, TINY, small_nets

import dpdistill as dp
from dpdistill import evaluation as evaluate
from dpdistill.api.evaluate import OF_BOTH, OF_IMAGES, OF_TABLES
from dpdistill.api.listener import Listener
from dpdistill.cli.app import app
from dpdistill.evaluation.teacher import softness_in
from dpdistill.folder.save import read_distilled
from dpdistill.kernels import KERNELS
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.networks.parameters import write_parameters
from dpdistill.recipe.build import from_fields
from dpdistill.recipe.choices import CLASSIFIERS
from dpdistill.schema import DataError, Schema
from dpdistill.sources.load import load


def test_images_are_distilled_for_networks_and_kernels_if_no_method_is_named(whole, tmp_path, monkeypatch):
    small_nets(monkeypatch)
    assert json.loads((whole / "recipe.json").read_text())["method"] == "dos-kip"
    out = succeeds("evaluate", whole, "--test", "digits:test", "--nets", 1)
    assert re.search(r"^ConvNet \(width 4\) accuracy: \d+\.\d\d % \(1 net, plateau training, soft labels\)$", out, re.M)
    assert re.search(r"^KRR accuracy: ", out, re.M)
    assert re.search(r"^Released classifier accuracy: ", out, re.M)
    assert softness_in(whole) == 0.5
    for softness in (-1, "a", True, None):
        other = tmp_path / f"recipe of {softness}"
        other.mkdir()
        (other / "recipe.json").write_text(json.dumps({"fields": {"softness": softness, "removed": 1}}))
        with pytest.raises(DataError, match=f"The softness in .* cannot be used: {softness!r}"):
            softness_in(other)
    (other / "recipe.json").write_text(json.dumps({"fields": {"removed": 1}}))
    assert softness_in(other) == softness_in(tmp_path) == 0
    monkeypatch.setitem(evaluate.TRAININGS, "large", TINY)
    out = succeeds("evaluate", whole, "--test", "digits:test", "--nets", 1, "--generated", 20)
    assert re.search(
        r"^ConvNet \(width 4\) accuracy, trained on 20 generated pictures with soft labels: \d+\.\d\d %$", out, re.M
    )


def test_every_option_of_evaluate_is_of_images_of_tables_or_of_both():
    command = typer.main.get_command(app).commands["evaluate"]
    kinds = (OF_IMAGES, OF_TABLES, OF_BOTH, {"folder", "test", "include_scores"})
    assert sorted(param.name for param in command.params) == sorted(name for kind in kinds for name in kind)


def test_evaluate_has_twenty_options_at_most():
    assert len(typer.main.get_command(app).commands["evaluate"].params) - 1 <= 20


def test_evaluate_prints_the_scores_and_keeps_them_only_if_asked(shared, monkeypatch):
    small_nets(monkeypatch)
    before = files_of(shared)
    back, test = read_distilled(shared), load("digits:test")
    expected = evaluate.score_network(back.X, back.y, back.schema, test, nets=2, training=TINY, seed=3)
    regression = evaluate.score_krr(back.X, back.y, back.schema, test, kernel=KERNELS["scatternet"], ridge=1e-3)
    lines = (
        f"KRR accuracy: {regression.mean:.2f} % (scatternet, ridge 0.001)\n"
        f"ConvNet (width 4) accuracy: {expected.mean:.2f} ± {expected.std:.2f} % "
        "(mean ± std over 2 nets, plateau training)\n"
    )
    command = ("evaluate", shared, "--test", "digits:test", "--nets", 2, "--seed", 3)
    assert succeeds(*command) == lines
    assert files_of(shared) == before
    try:
        assert succeeds(*command, "--include-scores") == lines
        assert files_of(shared) == sorted([*before, "scores.json"])
        scores = json.loads((shared / "scores.json").read_text())
        mean, std = round(expected.mean, 2), round(expected.std, 2)
        assert scores == {
            "ConvNet (width 4) accuracy, %": {"mean": mean, "std": std},
            "nets": 2,
            "training": "plateau",
            "KRR accuracy, %": {"scatternet, ridge 0.001": round(regression.mean, 2)},
            "recall by class, %": {
                name: {k: round(recall, 2) for k, recall in score.recalls.items()}
                for name, score in (
                    ("ConvNet (width 4) accuracy, %", expected),
                    ("scatternet, ridge 0.001", regression),
                )
            },
        }
        assert len(regression.recalls) == 10
        page = (shared / "report.html").read_text()
        assert f"{mean} ± {std}" in page
        assert re.search(rf"scatternet, ridge 0.001</th><td>{round(regression.mean, 2):g}<", page)
        assert "not covered" in page.lower()
        succeeds("verify", shared)
    finally:
        (shared / "scores.json").unlink(missing_ok=True)
        succeeds("report", shared)


def test_evaluate_of_some_of_the_classes(digits, tmp_path, monkeypatch):
    small_nets(monkeypatch)
    some = ("--classes", "7,3", "--lenient", "--method", "ldpdc", "--non-private")
    assert "which is not one of the 2 classes." in refused("distill", digits, "--out", tmp_path / "x", *some[:2])
    succeeds("distill", digits, "--out", tmp_path / "few", *some)
    with np.load(digits) as file:
        X, y = file["X"][::10], file["y"][::10]
    known = np.isin(y, [3, 7])
    bounds = {"bounds": [0.0, 16.0]}
    np.savez(tmp_path / "all.npz", X=X, y=y, classes=np.arange(10).astype(str), **bounds)
    np.savez(tmp_path / "known.npz", X=X[known], y=np.where(y[known] == 7, "7", "3"), **bounds)
    command = ("evaluate", tmp_path / "few", "--nets", 1, "--test")
    assert "which is not one of the 2 classes." in refused(*command, tmp_path / "all.npz")
    code, out, err = dpdistill(*command, tmp_path / "all.npz", "--lenient", "--reference", digits)
    assert code == 0, err
    assert f"{(~known).sum()} of {len(y)} test records are left out: unreadable or of other classes" in err
    assert "of 1,438 real records are left out: unreadable or of other classes" in err
    members = ("--members", tmp_path / "all.npz", "--non-members", tmp_path / "known.npz")
    left_out = f"Left out, since a run cannot use them: {(~known).sum()} of {len(y)} members and 0 of "
    assert left_out in succeeds("audit", tmp_path / "few", *members)
    expected = succeeds(*command, tmp_path / "known.npz")
    assert [line for line in out.splitlines() if "real" not in line][:2] == expected.splitlines()[:2]


def test_evaluate_beside_real_records_writes_nothing(shared, monkeypatch):
    from dpdistill.audits import random_real

    small_nets(monkeypatch)
    before = files_of(shared)
    command = ("evaluate", shared, "--test", "digits:test", "--nets", 1, "--reference", "digits:train")
    said = succeeds(*command, "--epochs", 1)
    wanted = len(read_distilled(shared).y)
    few = random_real(load("digits:train"), read_distilled(shared).y, 0)
    X, y = few.take(np.arange(wanted))
    score = evaluate.score_krr(X, y, few.schema, load("digits:test"), kernel=KERNELS["scatternet"], ridge=1e-3)
    assert f"KRR accuracy, {wanted} random real images: {score.mean:.2f} % (scatternet, ridge 0.001)" in said
    assert f"ConvNet (width 4) accuracy, trained on {wanted} random real images: " in said
    assert "ConvNet (width 4) accuracy, trained on all real images, epochs: 1: " in said
    assert re.search(r"Distance to the nearest real record, median: synthetic [\d.]+, held-out [\d.]+; [\d.]+ %", said)
    assert "not covered by epsilon" in said
    assert files_of(shared) == before
    np.savez(
        shared.parent / "other.npz", X=np.zeros((3, 9, 9, 1), np.uint8), y=[0, 1, 2], classes=np.arange(10).astype(str)
    )
    wrong = refused("evaluate", shared, "--test", "digits:test", "--reference", shared.parent / "other.npz")
    assert "Expected --reference with labelled images of shape (8, 8, 1); got (9, 9, 1)" in wrong
    assert "Expected --reference without --include-scores" in refused(*command, "--include-scores")


def test_evaluate_with_other_kernels_and_ridges(shared, monkeypatch):
    small_nets(monkeypatch)
    back, test = read_distilled(shared), load("digits:test")
    command = ("evaluate", shared, "--test", "digits:test", "--nets", 1, "--ridge", 0.25)
    out = succeeds(*command, "--kernel", "fc-ntk", "--kernel", "scatternet").splitlines()
    assert len(out) == 3
    for line, name in zip(out[:2], ("fc-ntk", "scatternet"), strict=True):
        found = evaluate.score_krr(back.X, back.y, back.schema, test, kernel=KERNELS[name], ridge=0.25)
        assert line == f"KRR accuracy: {found.mean:.2f} % ({name}, ridge 0.25)"
    assert out[0].split()[2] != out[1].split()[2]


class Heard(Listener):
    """Keeps the lines of a result, and its tables."""

    def __init__(self):
        super().__init__()
        self.lines, self.tables = [], []

    def line(self, text):
        self.lines.append(text)

    def table(self, header, rows):
        self.tables.append((header, rows))


@pytest.mark.slow
def test_python_gives_what_the_command_line_gives_of_images(led):
    words = ("--architecture", "mlp", "--architecture", "convnet", "--nets", 2, "--flip", "--seed", 3)
    words += ("--training", "quick", "--classifier", "LDA, Gaussian naive Bayes", "--distance", "scatternet")
    words += ("--kernel", "fc-ntk", "--kernel", "scatternet", "--ridge", 0.25)
    words += ("--reference", "digits:train", "--epochs", 1)
    said = json.loads(succeeds("evaluate", led, "--test", "digits:test", *words, "--json"))
    asked = {
        "scoring": dp.Scoring(
            architecture=("mlp", "convnet"), nets=2, flip=True, seed=3, training="quick",
            classifier=("LDA", "Gaussian naive Bayes"), distance=("scatternet",),
        ),
        "regression": dp.Regression(kernel=("fc-ntk", "scatternet"), ridge=0.25),
    }  # fmt: skip
    heard = Heard()
    found = dp.evaluate(
        led, "digits:test", **asked, reference=dp.Reference(reference="digits:train", epochs=1), listener=heard
    )
    assert found.scores == said["scores"]
    assert heard.lines == str(found).splitlines() == said["text"]
    kinds = ["classifier", *["regression"] * 2, *["pixels"] * 2, "distance", *["network"] * 2]
    assert [each.kind for each in found.found] == kinds
    assert [each.kind for each in found.real] == [*["regression"] * 2, *["network"] * 4]
    assert len(found.found[-1].score.accuracies) == 2
    assert found.nearness.synthetic.shape == (20,)
    assert found.table is None
    assert repr(found) == f"Evaluation(scores={found.scores})"
    records = load("digits:test", like=read_distilled(led).schema)
    again = dp.evaluate(led, records, **asked)
    assert (again.scores, again.found, again.real, again.nearness) == (found.scores, found.found, (), None)
    assert not (led / "scores.json").exists()


def test_classifiers_on_pixels_may_be_a_list_or_the_fast_ones(shared, monkeypatch):
    small_nets(monkeypatch)
    monkeypatch.setattr("dpdistill.evaluation.classifiers.COSTS", dict.fromkeys(CLASSIFIERS, 9.0) | {"LDA": 0.1})
    command = ("evaluate", shared, "--test", "digits:test", "--nets", 1, "--classifier")
    fast, several = succeeds(*command, "fast").splitlines(), succeeds(*command, "LDA,decision tree").splitlines()
    assert [line.partition(" accuracy")[0] for line in fast[1:-1]] == ["LDA"]
    assert [line.partition(" accuracy")[0] for line in several[1:-1]] == ["decision tree", "LDA"]
    assert fast[1] == several[2]


class TestGeneratedImages:
    """Scores of many records, and of generated ones."""

    @pytest.mark.slow
    def test_many_records_are_trained_on_as_such(self, made, monkeypatch):
        small_nets(monkeypatch)
        monkeypatch.setitem(evaluate.TRAININGS, "large", replace(evaluate.LARGE, epochs=1))
        monkeypatch.setattr(evaluate.score, "MANY", 29)
        command = ("evaluate", made, "--test", "digits:test", "--nets", 1, "--classifier", "logistic regression")
        out = succeeds(*command, "--classifier", "MLP").splitlines()
        assert "(1 net, large training)" in out[-1]
        assert out[0].startswith("KRR accuracy: ")
        X, y = load("digits:test").take(np.arange(359))
        back = read_distilled(made)
        fitted = LogisticRegression(max_iter=5000).fit(back.X.reshape(len(back.X), -1), back.y)
        expected = 100 * np.mean(fitted.predict(X.reshape(len(X), -1)) == y)
        assert out[1] == f"logistic regression accuracy: {expected:.2f} % (on pixels)"
        assert expected > 40
        assert out[2].startswith("MLP accuracy: ")
        out = succeeds(*command[:-2], "--generated", 300).splitlines()
        assert re.fullmatch(r"ConvNet \(width 4\) accuracy, trained on 300 generated pictures: [\d.]+ %", out[-1])
        monkeypatch.setitem(evaluate.TRAININGS, "quick", replace(evaluate.QUICK, epochs=1, strategies=()))
        out = succeeds(*command[:-2], "--generated", 30, "--training", "quick").splitlines()
        assert re.fullmatch(r"ConvNet .* trained on 30 generated pictures, quick training: [\d.]+ %", out[-1])
        assert "Unknown classifier 'LR': choose among logistic regression" in refused(*command, "--classifier", "LR")

    @pytest.mark.slow
    def test_distances_are_of_the_set_or_of_generated_images(self, made, monkeypatch, tmp_path):
        small_nets(monkeypatch)
        command = ("evaluate", made, "--test", "digits:test", "--no-nets")
        both = succeeds(*command, "--distance", "scatternet", "--distance", "scatternet-white").splitlines()[-2:]
        back, test = read_distilled(made), load("digits:test")
        for line, name in zip(both, ("scatternet", "scatternet-white"), strict=True):
            found = evaluate.score_distances(back.X, back.schema, test, kernel=KERNELS[name])
            assert found.images == 2000
            assert line == (
                f"Fréchet distance of {found.images:,} images of the set to 359 real ones over {name}: "
                f"{found.frechet:.3f} of the real images' "
                f"variance; kernel distance {found.kernel:.4f}"
            )
        last = succeeds(*command, "--distance", "scatternet", "--generated", 30).splitlines()[-1]
        assert last.startswith("Fréchet distance of 30 generated images to 359 real ones over scatternet: ")
        assert "Unknown distance 'x'" in refused(*command, "--distance", "x")
        assert refused(*command, "--distance", "x").endswith(", NETWORK=FILE.npz.")
        assert "fc-ntk has none" in refused(*command, "--distance", "fc-ntk")
        file = tmp_path / "net.npz"
        write_parameters(file, evaluate.ARCHITECTURES["mlp"].init((8, 8, 1), 10))
        last = succeeds(*command, "--distance", f"mlp={file}").splitlines()[-1]
        assert "real ones over mlp with given weights: " in last
        assert str(file) not in last
        write_parameters(file, evaluate.ARCHITECTURES["mlp"].init((8, 8, 1), 10)[-1:])
        assert "with a hidden layer; " in refused(*command, "--distance", f"mlp={file}")
        assert "Unknown network of --distance 'net'" in refused(*command, "--distance", f"net={file}")
        assert "does not hold the parameters of a ViT" in refused(*command, "--distance", f"vit={file}")
        assert "LeNet: Expected shape=(h, w, c) with sides >= 16" in refused(*command, "--distance", f"lenet={file}")


class TestKernels:
    def test_evaluate_takes_the_recipes_kernel_and_ridge_and_the_classifier(self, led):
        back, test = read_distilled(led), load("digits:test")
        kernel = FeatureKernel(ENCODER)
        one = evaluate.score_krr(
            back.X, back.y, back.schema, test, kernel=kernel, ridge=0.5, targets=TARGETS.astype(np.float32)
        )
        assert isinstance(back.schema, Schema)
        teacher = evaluate.Teacher(CLASSIFIER.astype(np.float32), kernel, back.schema)
        two = evaluate.score_classifier(teacher, test)
        command = ("evaluate", led, "--test", "digits:test", "--nets", 1)
        out = succeeds(*command, "--include-scores").splitlines()
        assert out[-1].startswith("ConvNet (width 4) accuracy: ")
        assert out[:-1] == [
            f"Released classifier accuracy: {two.mean:.2f} %",
            f"KRR accuracy: {one.mean:.2f} % ({kernel!r}, ridge 0.5)",
        ]
        assert succeeds(*command[:-2], "--no-nets").splitlines() == out[:-1]
        assert "Expected --no-nets without --nets, " in refused(*command[:-1], 2, "--no-nets")
        scores = json.loads((led / "scores.json").read_text())
        assert scores["released classifier accuracy, %"] == round(two.mean, 2)
        assert one.mean != two.mean
        page = re.sub(r"<[^>]+>", "", (led / "report.html").read_text())
        assert f"released classifier accuracy, %{scores['released classifier accuracy, %']:.6g}" in page
        succeeds("verify", led)
        assert "(scatternet, ridge 0.001)" in succeeds(*command, "--kernel", "scatternet")
        assert ", ridge 2)" in succeeds(*command, "--ridge", 2)

    @pytest.mark.parametrize(
        ("kernel", "sentence"),
        [
            ({"kind": "Kernel"}, "Unknown kind 'Kernel': expected one of .*FCNTK"),
            ({"kind": ["FCNTK"]}, r"Unknown kind \['FCNTK'\]"),
            ({"kind": "FCNTK", "width": 3}, "FCNTK has no field 'width'"),
            ({"kind": "FCNTK", "depth": 0}, "Expected depth=0 >= 1"),
            ({"kind": "FCNTK", "depth": {"kind": "FCNTK"}}, "Expected another kind of depth; got fc-ntk"),
            ({"kind": "FeatureKernel", "encoder": 3}, "Expected another kind of encoder; got 3"),
            ({"kind": "FeatureKernel"}, "encoder"),
            ("fc-ntk", "Expected another kind of kernel; got fc-ntk"),
            (None, "Expected another kind of kernel; got None"),
        ],
    )
    def test_a_recipe_with_another_kernel_is_refused(self, led, kernel, sentence):
        with pytest.raises(DataError, match=sentence):
            from_fields("kernel-led", {"kernel": kernel})
        recipe = json.loads((led / "recipe.json").read_text())
        recipe["fields"]["kernel"] = kernel
        (led / "recipe.json").write_text(json.dumps(recipe))
        assert re.search(sentence, refused("evaluate", led, "--test", "digits:test"))

    @pytest.mark.parametrize("text", ["[]", "{", "3", '{"fields": 3}', "{}", "[" * 100_000])
    def test_evaluate_of_a_damaged_recipe(self, led, text):
        (led / "recipe.json").write_text(text)
        assert "recipe.json is not a recipe that can be read" in refused("evaluate", led, "--test", "digits:test")

    def test_a_classifier_without_its_kernel(self, led):
        (led / "recipe.json").unlink()
        assert "it names none" in refused("evaluate", led, "--test", "digits:test")

    def test_a_ridge_of_the_recipe_that_is_no_number(self, led):
        recipe = json.loads((led / "recipe.json").read_text())
        recipe["fields"]["ridge"] = "low"
        (led / "recipe.json").write_text(json.dumps(recipe))
        assert "Expected ridge=low >= 0" in refused("evaluate", led, "--test", "digits:test")
