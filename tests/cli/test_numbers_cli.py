"""A table with a number to predict, from the draft to its scores; and rows in the order of a column."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from run_command import refused, succeeds

import dpdistill as dp
from dpdistill import TableDistiller, TableRegression
from dpdistill.sources.tables.schema_file import read_schema

QUICK = ("--method", "table-regression", "--set", "steps=20", "--set", "samples=600")
SCHEMA = """dpdistill: table schema
reviewed: true
unit: stay
label: cost
edges: [10, 20, 40]
columns:
  - {name: age, kind: integer, bounds: [0, 100]}
  - {name: cost, kind: numeric, bounds: [0, 50], places: 1}
  - {name: ward, kind: categorical, categories: [A, B, C]}
"""


def stays(n, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(0, 101, n), "ward": rng.choice(["A", "B", "C"], n)})
    cost = 5 + 0.3 * frame["age"] + 5 * (frame["ward"] == "B") + rng.normal(size=n)
    frame.insert(1, "cost", np.round(np.clip(cost, 0, 50), 1))
    return frame


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    stays(5000).to_csv(folder / "stays.csv", index=False)
    stays(800, 1).to_csv(folder / "test.csv", index=False)
    (folder / "schema.yaml").write_text(SCHEMA)
    succeeds("distill", folder / "stays.csv", "--schema", folder / "schema.yaml", "--out", folder / "shared", *QUICK)
    return folder


def test_a_draft_of_a_number(here, tmp_path):
    succeeds("schema", "draft", here / "stays.csv", "--label", "cost", "--number", "--out", tmp_path / "s.yaml")
    drafted = read_schema(tmp_path / "s.yaml").schema
    assert (drafted.target, drafted.label) == ("cost", None)
    assert len(drafted.edges) == 7
    assert "# where bins of the number begin" in (tmp_path / "s.yaml").read_text()
    gaps = stays(200).astype({"cost": object})
    gaps.loc[3, "cost"] = None
    found = dp.draft_schema(gaps, label="cost", number=True)
    assert not next(column for column in found.schema.columns if column.name == "cost").missing
    assert "left out with --lenient" in found.notes["edges"]
    draft = ("schema", "draft", here / "stays.csv", "--out", tmp_path / "x.yaml")
    assert "leave out --number for classes" in refused(*draft, "--label", "ward", "--number")
    assert "Expected --number, or a table without a label; got both" in refused(*draft, "--no-label", "--number")
    assert "state --number to predict the column as a number" in refused(*draft, "--label", "cost")


def test_the_check_counts_bins(here):
    said = succeeds("schema", "check", here / "stays.csv", here / "schema.yaml")
    cost = stays(5000)["cost"]
    assert f"bin 0 to 10 of 'cost': {(cost < 10).sum()} rows" in said
    assert f"bin 20 to 40 of 'cost': {((cost >= 20) & (cost < 40)).sum()} rows" in said


def test_the_folder_is_verified_and_finished_again(here, tmp_path):
    assert "FAIL" not in succeeds("verify", here / "shared")
    assert read_schema(here / "shared/schema.yaml").schema == read_schema(here / "schema.yaml").schema
    rows = pd.read_csv(here / "shared/synthetic.csv", dtype=str)
    assert [*rows] == ["age", "cost", "ward"]
    assert rows["cost"].str.fullmatch(r"\d+\.\d").all()
    certificate = json.loads((here / "shared/certificate.json").read_text())
    assert [stage["rounds"] for stage in certificate["schedule"]["stages"]] == [1, 1, 1]
    changed = ("--from", here / "shared.run", "--set", "steps=20", "--set", "samples=300")
    succeeds("distill", *changed, "--set", "ridge=1", "--out", tmp_path / "b")
    assert "FAIL" not in succeeds("verify", tmp_path / "b")
    assert "weight" in refused("distill", *changed, "--set", "weight=1", "--out", tmp_path / "c")
    page = (here / "shared/report.html").read_text()
    assert "with a number to predict</dd>" in page
    assert "linear regression from the same releases" in page
    assert "the number to predict" in page
    assert "log odds" not in page


def test_scores(here):
    asked = ("evaluate", here / "shared", "--test", here / "test.csv")
    said = succeeds(*asked)
    assert "Number to predict: cost. MAE, RMSE and pinball losses are in its units." in said
    found = json.loads(succeeds(*asked, "--json"))["scores"]
    assert found["released regression"]["R2"] > 0.8
    assert found["models"]["ridge"]["R2"] > 0.8
    assert found["models"]["mean, quantiles"]["R2"] < 0.05
    assert found["models"]["quantile trees"]["pinball 0.5"] < 0.6 * found["models"]["mean, quantiles"]["pinball 0.5"]
    assert "leave out --classifier" in refused(*asked, "--classifier", "LDA")
    compared = dp.evaluate(here / "shared", here / "test.csv", reference=dp.Reference(reference=here / "stays.csv"))
    assert compared.scores == found
    assert compared.real[0].value["models"]["ridge"]["R2"] > 0.97


def test_the_program_of_the_readme_predicts(here):
    text = (here / "shared/README.md").read_text()
    program = next(part for part in text.split("```python\n")[1:] if "scorecard.csv" in part).split("```")[0]
    space: dict = {}
    frame = stays(50, 3)
    read = {"synthetic.csv": frame.astype(str), "scorecard.csv": pd.read_csv(
        here / "shared/scorecard.csv", dtype={"value": str}, keep_default_na=False
    )}  # fmt: skip
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pd, "read_csv", lambda name, **_: read[name].copy())
        exec(program, space)
    assert np.corrcoef(space["predicted"], frame["cost"])[0, 1] > 0.9
    assert abs(space["predicted"] - frame["cost"]).mean() < 4


def test_rows_in_the_order_of_a_column(here, tmp_path):
    succeeds("sample", here / "shared", "--n", 300, "--sort", "cost", "--out", tmp_path / "s.csv")
    rows = pd.read_csv(tmp_path / "s.csv")
    assert rows["cost"].is_monotonic_increasing
    plain = dp.sample(here / "shared", 300).to_frame()
    assert sorted(map(tuple, plain.astype(str).to_numpy())) == sorted(map(tuple, rows.astype(str).to_numpy()))
    wards = dp.sample(here / "shared", 300, sort="ward", where="cost > 10").to_frame()["ward"].astype(str)
    assert wards.is_monotonic_increasing
    said = refused("sample", here / "shared", "--n", 3, "--sort", "price", "--out", tmp_path / "x.csv")
    assert "Expected --sort as a column among age, cost, ward; got 'price'." in said


def test_from_python(here):
    distiller = TableDistiller(here / "schema.yaml", method=TableRegression(steps=5, samples=50), epsilon=5.0)
    frame = stays(900)
    distiller.fit(frame.drop(columns="cost"), frame["cost"])
    assert [*distiller.sample(20)] == ["age", "cost", "ward"]
    with pytest.raises(ValueError, match="this table has a number to predict: read"):
        distiller.result_.teacher(np.zeros((2, 3)))


LABEL = "label: cost\nedges: [10, 20, 40]\n"
WRONG = {
    "edges and bins": (LABEL, f"{LABEL}bins: 5\n", "Expected bins or edges of 'cost', not both."),
    "one bin": (LABEL, "label: cost\nbins: 1\n", "Expected bins=1 of column 'cost' from 2 to 100."),
    "bins as a text": (LABEL, "label: cost\nbins: many\n", "Expected bins as a whole number; got 'many'."),
    "falling edges": ("10, 20, 40", "20, 10", "increasing edges above 0 and at most 50"),
    "edges out of the bounds": ("10, 20, 40", "10, 70", "increasing edges above 0 and at most 50"),
    "a category to predict": (LABEL, "label: ward\n", "Expected the label 'ward' among the columns of kind numeric"),
    "classes of a number": (LABEL, "label: cost\nclasses: [low, high]\n", "with classes or under columns, not both"),
    "a label without classes": (LABEL, "label: price\n", "A number to predict stands under columns, with its bounds."),
    "bins of classes": (
        LABEL,
        "label: sick\nclasses: ['no', 'yes']\nbins: 3\n",
        "a label that stands among the columns",
    ),
    "missing numbers": ("places: 1", "places: 1, missing: true", "Expected no missing values of the label 'cost'"),
    "several labels": (LABEL, "label: [cost, age]\n", "Expected one label; got 2: run once per label, where each run"),
    "no label": (LABEL, "", "TableRegression predicts a number: name a numeric column of schema.yaml as label"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_schemas_are_refused_before_anything_is_paid(case, here, tmp_path):
    old, new, sentence = WRONG[case]
    assert old in SCHEMA
    (tmp_path / "s.yaml").write_text(SCHEMA.replace(old, new))
    said = refused("distill", here / "stays.csv", "--schema", tmp_path / "s.yaml", "--out", tmp_path / "x", *QUICK)
    assert sentence in said
    assert not (tmp_path / "x.run").exists()


def test_methods_of_classes_are_refused(here, tmp_path):
    data = (here / "stays.csv", "--schema", here / "schema.yaml", "--out", tmp_path / "x")
    said = refused("distill", *data, "--method", "table-classifier")
    assert "TableClassifier learns classes, and the label 'cost' is a number to predict: choose one of dp-merf" in said
    assert not (tmp_path / "x.run").exists()
