"""A table without a label, with dates and constraints: draft, shared folder, rows on request and scores."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from run_command import refused, succeeds

import dpdistill as dp
from dpdistill import DPMERF, DataError, TableDistiller, TableSchema
from dpdistill.evaluation.unlabelled import score_unlabelled
from dpdistill.folder.save import read_distilled
from dpdistill.method import Distilled
from dpdistill.schema import Column
from dpdistill.storage.records import Records

QUICK: dict[str, Any] = {"frequencies": 60, "steps": 40, "samples": 300, "hidden": 16}
SETTINGS = [word for name, value in QUICK.items() for word in ("--set", f"{name}={value}")]
SCHEMA = """
dpdistill: table schema
reviewed: true
unit: stay
columns:
  - {name: admitted_on, kind: date, bounds: [2020-01-01, 2020-12-31], format: "%d.%m.%Y"}
  - {name: left_on, kind: date, bounds: [2020-01-01, 2021-06-30], format: "%d.%m.%Y", missing: true}
  - {name: seen_at, kind: datetime, bounds: [2020-01-01, 2021-06-30], resolution: minute, zone: UTC}
  - {name: stay, kind: duration, bounds: [0, 99], resolution: hour}
  - {name: price, kind: numeric, bounds: [0, 100], places: 2}
  - {name: ward, kind: categorical, categories: [A, B]}
  - {name: age, kind: integer, bounds: [0, 110]}
constraints:
  - admitted_on <= left_on
  - ward = A implies age >= 60
"""


def stays(n, seed=0):
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 365, n)
    admitted = pd.Timestamp("2020-01-01") + pd.to_timedelta(days, "D")
    left = admitted + pd.to_timedelta(rng.integers(0, 30, n), "D")
    frame = pd.DataFrame({"admitted_on": admitted.strftime("%d.%m.%Y"), "left_on": left.strftime("%d.%m.%Y")})
    frame.loc[rng.random(n) < 0.2, "left_on"] = None
    frame["seen_at"] = (admitted + pd.to_timedelta(600, "m")).strftime("%Y-%m-%dT%H:%M:%SZ")
    frame["stay"] = rng.integers(0, 99, n)
    frame["price"] = rng.integers(0, 10_000, n) / 100
    frame["ward"] = rng.choice(["A", "B"], n)
    frame["age"] = np.where(frame["ward"] == "A", rng.integers(60, 100, n), rng.integers(0, 100, n))
    return frame


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unlabelled")
    stays(600).to_csv(folder / "stays.csv", index=False)
    stays(300, 1).to_csv(folder / "test.csv", index=False)
    (folder / "schema.yaml").write_text(SCHEMA)
    said = succeeds("schema", "check", folder / "stays.csv", folder / "schema.yaml")
    assert "constraint 'admitted_on <= left_on': 0 of 600 rows break it" in said
    assert "class" not in said
    where = ("--schema", folder / "schema.yaml", "--out", folder / "shared")
    succeeds("distill", folder / "stays.csv", *where, "--method", "dp-merf", *SETTINGS)
    return folder / "shared"


def test_the_folder_has_dates_and_no_label(shared):
    succeeds("verify", shared)
    frame = pd.read_csv(shared / "synthetic.csv", dtype=str)
    assert [*frame] == ["admitted_on", "left_on", "seen_at", "stay", "price", "ward", "age"]
    assert frame["admitted_on"].str.fullmatch(r"\d\d\.\d\d\.2020").all()
    assert frame["price"].str.fullmatch(r"\d+\.\d\d").all()
    admitted, left = (pd.to_datetime(frame[name], format="%d.%m.%Y") for name in ("admitted_on", "left_on"))
    assert (left.isna() | (admitted <= left)).all()
    assert (frame.loc[frame["ward"] == "A", "age"].astype(int) >= 60).all()
    distilled = read_distilled(shared)
    assert isinstance(distilled.schema, TableSchema)
    assert (distilled.schema.label, distilled.schema.classes) == (None, ("rows",))
    report = (shared / "report.html").read_text()
    assert "7 columns, no label" in report
    assert "2020-12-31" in report
    assert "None" not in (shared / "README.md").read_text()
    croissant = json.loads((shared / "croissant.json").read_text())
    kinds = {field["name"]: field["dataType"] for field in croissant["recordSet"][0]["field"]}
    assert (kinds["admitted_on"], kinds["seen_at"], kinds["age"]) == ("sc:Text", "sc:DateTime", "sc:Integer")


@pytest.mark.parametrize("form", ["hf", "torch", "csv"])
def test_exports(shared, tmp_path, form):
    target = tmp_path / ("x.csv" if form == "csv" else "x")
    succeeds("export", shared, "--to", form, "--out", target)
    if form == "hf":
        frame = pd.read_parquet(target / "data" / "train-00000-of-00001.parquet")
        assert str(frame["seen_at"].dtype) == "datetime64[ms, UTC]"


def test_evaluate_compares_columns_and_pairs(shared):
    said = succeeds("evaluate", shared, "--test", shared.parent / "test.csv")
    for words in ("Distance of columns from the test rows", "Distance of pairs of columns", "Detector of synthetic"):
        assert words in said
    message = refused("evaluate", shared, "--test", shared.parent / "test.csv", "--classifier", "LDA")
    assert message == f"{shared} holds a table without a label: leave out --classifier and --reference."


@pytest.mark.parametrize("method", ["table-classifier", "dp-kip"])
def test_methods_that_need_a_label_say_so(shared, tmp_path, method):
    folder = shared.parent
    where = ("--schema", folder / "schema.yaml", "--out", tmp_path / "x", "--method", method)
    message = refused("distill", folder / "stays.csv", *where)
    assert "needs a label, and this table has none: choose one of dp-merf, dp-hp, dp-ntk, or state label" in message
    assert not (tmp_path / "x.run").exists()


def test_rows_on_request(shared, tmp_path):
    out = tmp_path / "rows.csv"
    succeeds("sample", shared, "--where", "age > 60 and admitted_on >= 2020-03-01", "--n", 500, "--out", out)
    frame = pd.read_csv(out, dtype=str)
    assert len(frame) == 500
    assert (frame["age"].astype(int) > 60).all()
    assert (pd.to_datetime(frame["admitted_on"], format="%d.%m.%Y") >= pd.Timestamp("2020-03-01")).all()
    again = dp.sample(shared, 500, where="age > 60 and admitted_on >= 2020-03-01")
    assert dp.sample(shared, 500, where="age > 60 and admitted_on >= 2020-03-01").X.tobytes() == again.X.tobytes()
    assert again.X[:, 6].tolist() == frame["age"].astype(int).tolist()


def test_a_condition_that_no_row_fulfils_ends(shared, tmp_path, monkeypatch):
    monkeypatch.setattr("dpdistill.api.rows.MOST_MADE", 3_000)
    message = refused("sample", shared, "--where", "age < 0", "--n", 20, "--out", tmp_path / "x.csv")
    assert message == "0 of 3,000 made rows fulfil the condition; expected 20: take a wider condition."
    message = refused("sample", shared, "--where", "ward = C", "--n", 20, "--out", tmp_path / "x.csv")
    assert message == "Expected a category of 'ward' in the condition; got 'C'."
    (shared.parent / "rows").mkdir(exist_ok=True)
    for name in ("synthetic.npz", "recipe.json"):
        (shared.parent / "rows" / name).write_bytes((shared / name).read_bytes())
    assert (dp.sample(shared.parent / "rows", 5, where="age >= 60").X[:, 6] >= 60).all()
    with pytest.raises(DataError, match="of 300 rows of the folder, which has no generator, fulfil the condition"):
        dp.sample(shared.parent / "rows", 301, where="age >= 0")


def test_a_draft_without_a_label(shared, tmp_path):
    succeeds("schema", "draft", shared.parent / "stays.csv", "--no-label", "--out", tmp_path / "s.yaml")
    text = (tmp_path / "s.yaml").read_text()
    assert "label:" not in text
    assert "%d.%m.%Y" in text
    assert "# constraints: [admitted_on <= left_on" in text
    sides = ("--no-label", "--label", "age", "--out", tmp_path / "t.yaml")
    assert "got --no-label and --label 'age'" in refused("schema", "draft", shared.parent / "stays.csv", *sides)


def test_frames_without_a_label():
    schema = TableSchema((Column("when", "date", (0.0, 99.0)), Column("x", "integer", (0.0, 9.0))))
    frame = pd.DataFrame({"when": pd.Timestamp("1970-02-01"), "x": [1, 2, 3] * 40})
    distiller = TableDistiller(schema, method=DPMERF(**QUICK)).fit(frame)
    rows = distiller.sample(50)
    assert [*rows] == ["when", "x"]
    assert str(rows["when"].dtype) == "datetime64[s]"
    with pytest.raises(ValueError, match="Expected no y: the schema states a table without a label"):
        distiller.fit(frame, [1] * 120)


def test_scores_by_hand():
    """Equal rows have distance 0 and are not told apart; disjoint ones have distance 1 and are always."""
    schema = TableSchema((Column("a", "integer", (0.0, 19.0)), Column("b", "categorical", categories=("u", "v"))))
    rng = np.random.default_rng(0)
    raw = np.column_stack([rng.integers(0, 10, 4_000), rng.integers(0, 2, 4_000)]).astype(float)
    test = Records(raw, np.zeros(4_000, np.int64), schema)
    same = score_unlabelled(Distilled(schema.to_unit(raw), np.zeros(4_000, np.int32), schema), test)
    assert (same.columns, same.pairs) == ({"a": 0.0, "b": 0.0}, 0.0)
    assert same.detector is not None
    assert all(0.45 < roc < 0.55 for roc in same.detector.values())
    moved = raw + np.array([10.0, 0.0])
    far = score_unlabelled(Distilled(schema.to_unit(moved), np.zeros(4_000, np.int32), schema), test)
    assert (far.columns, far.pairs) == ({"a": 1.0, "b": 0.0}, 1.0)
    assert far.detector is not None
    assert all(roc > 0.99 for roc in far.detector.values())
    half = np.concatenate([raw[:2_000], moved[:2_000]])
    found = score_unlabelled(Distilled(schema.to_unit(half), np.zeros(4_000, np.int32), schema), test)
    assert found.columns["a"] == pytest.approx(0.5, abs=0.02)
    with pytest.raises(DataError, match="Expected test rows with the same columns"):
        score_unlabelled(
            same_columns(schema), Records(raw[:, :1], np.zeros(4_000, np.int64), TableSchema(schema.columns[:1]))
        )


def same_columns(schema):
    return Distilled(np.zeros((1, schema.dimension), np.float32), np.zeros(1, np.int32), schema)
