"""A classifier released from a table, from the command to the scorecard that a receiver reads."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from run_command import refused, succeeds
from test_tables_cli import SCHEMA, STATED, patients

import dpdistill as dp
from dpdistill.folder.save import read_distilled, write_distilled
from dpdistill.methods.row_labels import scores_of

QUICK = ("--method", "table-classifier", "--set", "steps=20", "--set", "samples=300")


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A shared folder `shared` of a run that protects persons, with held-out rows and a schema."""
    folder = tmp_path_factory.mktemp("scorecard")
    frame = patients(3000)
    frame["patient_id"] = [f"P{i // 2:05d}" for i in range(3000)]
    frame.to_csv(folder / "patients.csv", index=False)
    patients(600, 1).to_csv(folder / "held-out.csv", index=False)
    (folder / "schema.yaml").write_text(STATED.replace("ignored: [patient_id]", "unit_column: patient_id"))
    data = (folder / "patients.csv", "--schema", folder / "schema.yaml")
    succeeds("distill", *data, "--out", folder / "shared", "--epsilon", "5", *QUICK)
    return folder


def test_the_folder_is_verified_and_finished_again(here, tmp_path):
    assert {path.name for path in (here / "shared").iterdir()} >= {"classifier.npz", "generator.npz", "scorecard.csv"}
    assert "FAIL" not in succeeds("verify", here / "shared")
    certificate = json.loads((here / "shared/certificate.json").read_text())
    assert "patient_id" in certificate["unit"]
    assert [stage["rounds"] for stage in certificate["schedule"]["stages"]] == [1, 60, 1, 1]
    assert certificate["slack"].startswith("float64 ghost sum")
    succeeds(
        "distill", "--from", here / "shared.run", "--set", "samples=500", "--set", "steps=20", "--out", tmp_path / "b"
    )
    assert len(pd.read_csv(tmp_path / "b/synthetic.csv")) == 500
    assert "FAIL" not in succeeds("verify", tmp_path / "b")
    said = refused("distill", "--from", here / "shared.run", "--set", "knots=9", "--out", tmp_path / "c")
    assert "knots" in said


def test_the_classifier_knows_the_rule(here):
    held_out = ("--test", here / "held-out.csv", "--schema", here / "schema.yaml", "--classifier", "decision tree")
    said = succeeds("evaluate", here / "shared", *held_out)
    roc = float(re.search(r"^released classifier +(0\.\d{3})", said, re.M)[1])
    assert roc > 0.85
    found = json.loads(succeeds("evaluate", here / "shared", *held_out, "--json"))["scores"]
    assert found["released classifier"]["ROC"] == pytest.approx(roc, abs=6e-4)
    assert set(found["classifiers"]) == {"decision tree"}
    asked = {"held_out": dp.HeldOut(schema=here / "schema.yaml"), "scoring": dp.Scoring(classifier=("decision tree",))}
    assert dp.evaluate(here / "shared", here / "held-out.csv", **asked).scores == found


def test_more_rows_are_labelled_by_the_classifier(here, tmp_path):
    more = dp.sample(here / "shared", 400, tmp_path / "more.csv", seed=0)
    stored = pd.read_csv(here / "shared/synthetic.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "more.csv")[:300], stored)
    scores = scores_of(read_distilled(here / "shared").classifier, SCHEMA, SCHEMA.to_unit(more.X))
    p = 1 / (1 + np.exp(scores[:, 0] - scores[:, 1]))
    assert np.where(more.y == 1, p, 1 - p).mean() == pytest.approx((p**2 + (1 - p) ** 2).mean(), abs=0.08)


def test_the_scorecard_is_used_as_the_readme_says(here, monkeypatch):
    """The code of README.md, with NumPy and pandas alone, has the scores of the package."""
    monkeypatch.chdir(here / "shared")
    text = (here / "shared/README.md").read_text()
    code = next(block for block in re.findall(r"```python\n(.*?)```", text, re.S) if "scorecard.csv" in block)
    found: dict = {}
    exec(code, found)
    distilled = read_distilled(here / "shared")
    expected = scores_of(distilled.classifier, SCHEMA, distilled.X)
    np.testing.assert_allclose(found["scores"], expected, atol=2e-3 * np.abs(expected).max())
    np.testing.assert_allclose(found["probabilities"].sum(1), 1.0, rtol=1e-6)

    card = pd.read_csv("scorecard.csv", keep_default_na=False)
    assert card.columns.tolist() == ["column", "kind", "value", "recovered", "died"]
    assert card["column"].unique().tolist() == ["(intercept)", "age", "cost", "ward", "stage"]
    assert card[card["column"] == "stage"]["value"].tolist() == ["I", "II", "III"]
    assert card[card["column"] == "ward"]["kind"].tolist() == ["category"] * 3 + ["missing"]
    cost = card[(card["column"] == "cost") & (card["kind"] == "log number")]["value"].astype(float)
    assert (cost.iloc[0], cost.iloc[-1], len(cost)) == (0.0, 1e6, 8)
    died = card[card["column"] == "age"]["died"]
    assert died.iloc[-2] > died.iloc[2]  # old patients die


def test_a_changed_scorecard_or_classifier_is_found(here, tmp_path):
    distilled = read_distilled(here / "shared")
    write_distilled(tmp_path / "set", distilled)
    (tmp_path / "set/recipe.json").write_bytes((here / "shared/recipe.json").read_bytes())
    kept = (tmp_path / "set/scorecard.csv").read_bytes()
    assert kept == (here / "shared/scorecard.csv").read_bytes()
    from dpdistill.folder.contents import check_contents

    names = {"synthetic.npz", "classifier.npz", "synthetic.csv", "synthetic.parquet", "schema.yaml", "scorecard.csv"}
    (tmp_path / "set/scorecard.csv").write_bytes(kept.replace(b"(intercept)", b"(Intercept)"))
    faults = {each.name: each.fault for each in check_contents(tmp_path / "set", {*names, "recipe.json"}, None, None)}
    assert {name for name, fault in faults.items() if fault} == {"scorecard.csv"}
    assert faults["scorecard.csv"] == "scorecard.csv disagrees with classifier.npz"
    (tmp_path / "set/scorecard.csv").unlink()
    with np.load(tmp_path / "set/classifier.npz") as file:
        np.savez(tmp_path / "set/classifier.npz", classifier=file["classifier"][1:])
    faults = [
        (e.name, e.fault) for e in check_contents(tmp_path / "set", {*names, "recipe.json"}, None, None) if e.fault
    ]
    assert any(name == "classifier.npz" and "points per class" in fault for name, fault in faults)
