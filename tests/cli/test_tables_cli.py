"""A table from file to shared folder and back, by the command line and by the door for pandas users."""

import gzip
import json
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from run_command import refused, succeeds
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import dpdistill as dp
from dpdistill import DOS, DPKIP, DPMERF, Column, DataError, TableDistiller, TableSchema, begin_ledger
from dpdistill.errors import LedgerError
from dpdistill.folder.save import read_distilled
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger

QUICK = {"frequencies": 60, "steps": 40, "samples": 300, "hidden": 16}
SETTINGS = [word for name, value in QUICK.items() for word in ("--set", f"{name}={value}")]
SCHEMA = TableSchema(
    (
        Column("age", "integer", (0.0, 110.0)),
        Column("cost", "numeric", (0.0, 1e6), "log", missing=True),
        Column("ward", "categorical", categories=("A", "B", "other"), other="other", missing=True),
        Column("stage", "ordinal", categories=("I", "II", "III")),
    ),
    "outcome",
    ("recovered", "died"),
    unit="patient",
)
STATED = """
dpdistill: table schema
reviewed: true
unit: patient
label: outcome
classes: [recovered, died]
columns:
  - {name: age, kind: integer, bounds: [0, 110]}
  - {name: cost, kind: numeric, bounds: [0, 1000000], scale: log, missing: true}
  - {name: ward, kind: categorical, categories: [A, B, other], other: other, missing: true}
  - {name: stage, kind: ordinal, categories: [I, II, III]}
ignored: [patient_id]
"""


def patients(n, seed=0):
    """Patients whose age and stage decide."""
    rng = np.random.default_rng(seed)
    age, stage = rng.integers(18, 95, n), rng.choice(["I", "II", "III"], n)
    frame = pd.DataFrame({"patient_id": [f"P{i:05d}" for i in range(n)], "age": age})
    frame["cost"] = np.where(rng.random(n) < 0.1, np.nan, np.exp(rng.normal(7, 1, n)).round(2))
    frame["ward"] = rng.choice(np.array(["A", "B", "C", None], object), n)
    frame["stage"] = stage
    risk = (age - 60) / 8 + (stage == "III")
    frame["outcome"] = np.where(rng.random(n) < 1 / (1 + np.exp(-risk)), "died", "recovered")
    return frame


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a table, held-out rows and a schema."""
    monkeypatch.chdir(tmp_path)
    patients(600).to_csv("patients.csv", index=False)
    patients(400, 1).to_csv("held-out.csv", index=False)
    (tmp_path / "schema.yaml").write_text(STATED)
    return tmp_path


class TestCommands:
    def test_from_a_draft_to_scores(self, here, monkeypatch):
        said = succeeds("schema", "draft", "patients.csv", "--out", "draft.yaml")
        assert "facts were derived from your records" in said
        assert "from the records" in (here / "draft.yaml").read_text()
        assert "draft.yaml is a draft" in refused(
            "distill", "patients.csv", "--schema", "draft.yaml", "--out", "shared"
        )
        assert "draft.yaml exists" in refused("schema", "draft", "patients.csv", "--out", "draft.yaml")
        assert not (here / "shared").exists()

        checked = succeeds("schema", "check", "patients.csv", "schema.yaml")
        assert "600 rows" in checked
        succeeds("distill", "patients.csv", "--schema", "schema.yaml", "--out", "shared", *SETTINGS)
        assert {path.name for path in (here / "shared").iterdir()} == {
            *("certificate.json", "recipe.json", "report.html", "schema.yaml", "generator.npz"),
            *("README.md", "croissant.json", "deployment.yaml"),
            *("synthetic.npz", "synthetic.csv", "synthetic.parquet"),
        }
        recipe = json.loads((here / "shared/recipe.json").read_text())
        assert (recipe["method"], recipe["fields"]["samples"]) == ("dp-merf", 300)
        assert len(RunLedger.read(here / "shared.run").events) == 2
        certificate = json.loads((here / "shared/certificate.json").read_text())
        assert "; a row stands for: patient; a person with k rows" in certificate["unit"]
        certified = certificate["files"]
        assert set(certified) == {
            *("generator.npz", "recipe.json", "schema.yaml", "synthetic.csv", "synthetic.npz", "synthetic.parquet")
        }
        succeeds("verify", "shared")

        table = pd.read_csv(here / "shared/synthetic.csv")
        assert list(table) == ["age", "cost", "ward", "stage", "outcome"]
        assert set(table["ward"].dropna()) <= {"A", "B", "other"}
        assert table["age"].between(0, 110).all()
        back = read_distilled(here / "shared")
        assert back.schema == SCHEMA
        np.testing.assert_array_equal(SCHEMA.from_unit(back.X)[:, 0], table["age"])
        assert [SCHEMA.classes[k] for k in back.y] == table["outcome"].tolist()

        succeeds("sample", "shared", "--n", "450", "--out", "more.csv", "--seed", "0")
        more = pd.read_csv(here / "more.csv")
        assert len(more) == 450
        pd.testing.assert_frame_equal(more[:300], table)
        assert "more.csv exists" in refused("sample", "shared", "--n", "3", "--out", "more.csv")
        succeeds("sample", "shared", "--n", "3", "--out", "new/deep/more.csv")
        for flag, *value in (
            *(("--architecture", "mlp"), ("--generated", "5"), ("--training", "paper")),
            *(("--distance", "scatternet"), ("--labels", "fine")),
            *(("--kernel", "scatternet"), ("--ridge", "0.1"), ("--nets", "2"), ("--epochs", "2"), ("--flip",)),
        ):
            said = refused("evaluate", "shared", "--test", "patients.csv", flag, *value)
            assert f"shared holds a table: {flag} is for images." in said
        said = refused("evaluate", "shared", "--test", "patients.csv", "--flip", "--kernel", "scatternet")
        assert "shared holds a table: --flip, --kernel are for images." in said
        said = refused("student", "shared", "--test", "patients.csv", "--teacher", "drawn", "--pictures", "9")
        assert "shared holds a table: students learn from images." in said
        wrong = refused("sample", "shared", "--n", "3", "--out", "other.csv", "--format", "dpimagebench")
        assert "shared holds a table: --format is for images" in wrong
        wrong = refused("sample", "shared", "--n", "3", "--out", "other.csv", "--kind", "mixed")
        assert "shared holds a table: --kind is for images." in wrong

        scored = succeeds("evaluate", "shared", "--test", "held-out.csv", "--schema", "schema.yaml", "--include-scores")
        rows = re.findall(r"^(\w.*?) +(0\.\d{3}) +(0\.\d{3}) ", scored, re.M)
        assert len(rows) == 13
        assert "Mode honest" in scored
        kept = json.loads((here / "shared/scores.json").read_text())
        assert kept["mean"]["ROC"] == pytest.approx(float(rows[-1][1]), abs=6e-4)
        assert "not covered by" in (here / "shared/report.html").read_text().lower()
        assert "scores.json" in (here / "shared/README.md").read_text()
        assert "FAIL" not in succeeds("verify", "shared")

        monkeypatch.setattr("dpdistill.evaluation.tables.available", lambda: ("logistic regression", "decision tree"))
        held_out = ("--test", "held-out.csv", "--schema", "schema.yaml")
        said = succeeds("evaluate", "shared", *held_out, "--reference", "patients.csv")
        sizes = [int(size.replace(",", "")) for size in re.findall(r"was trained on ([\d,]+) rows", said)]
        assert sizes[0] == sizes[1] <= sizes[2] == len(pd.read_csv(here / "patients.csv"))
        assert re.search(r"Distance to the nearest real record, median: synthetic [\d.]+, held-out [\d.]+; ", said)

        audit = ("audit", "shared", "--members", "patients.csv", "--schema", "schema.yaml")
        said = succeeds(*audit, "--non-members", "held-out.csv")
        assert "nothing in it is covered by epsilon" in said
        assert re.search(r"by distance: [\d.]+ % of the members recognised at 0.1 % wrong, area 0\.\d{3}", said)
        assert (here / "shared.audit").stat().st_mode & 0o777 == 0o700
        kept = json.loads((here / "shared.audit/audit.json").read_text())
        assert set(kept["membership"]) == {"distance", "loss"}
        assert kept["rows"]["real"] > 0
        page = (here / "shared.audit/audit.html").read_text()
        assert "Who was among the records" in page
        assert "Pairs of columns" in page
        succeeds("audit", "set", *audit[1:])
        assert "Who was among" not in (here / "shared.audit/audit.html").read_text()
        assert "Expected --members DATA" in refused("audit", "shared")
        assert "Expected --schema SCHEMA: the set is a table" in refused(*audit[:4])

    def test_python_gives_what_the_command_line_gives(self, here):
        succeeds("distill", "patients.csv", "--schema", "schema.yaml", "--out", "shared", *SETTINGS)
        words = ("--classifier", "LDA, decision tree", "--seed", 3, "--schema", "schema.yaml")
        tested = ("evaluate", "shared", "--test", "held-out.csv", *words, "--reference", "patients.csv")
        said = json.loads(succeeds(*tested, "--json"))
        asked = {
            "held_out": dp.HeldOut(schema="schema.yaml"),
            "scoring": dp.Scoring(classifier=("LDA", "decision tree"), seed=3),
            "reference": dp.Reference(reference="patients.csv"),
        }
        found = dp.evaluate("shared", "held-out.csv", **asked)
        assert found.scores == said["scores"]
        counts = found.scores["errors of counts"]
        assert {**found.table.to_json(), "errors of counts": counts} == found.scores
        assert 0.0 < counts["2 columns"]["mean total variation"] < 1.0
        assert [each.name for each in found.table.classifiers] == ["decision tree", "LDA"]
        few, all_rows = found.real
        assert few.name == f"{found.table.training_rows} random real rows"
        assert [few.score.training_rows, all_rows.score.training_rows] == [found.table.training_rows, 600]
        first, *others = [line for line in said["text"] if line]
        assert first.startswith("Counts of 1 column: mean total variation 0.")
        assert others == [
            found.table.text,
            f"Trained on {few.name}:",
            few.score.text,
            "Trained on all real rows (20,000 at most):",
            all_rows.score.text,
            found.nearness.text,
            "Computed from the private records, for their owner: not covered by epsilon.",
        ]
        printed = succeeds(*tested)
        tables = [each for each in (*found.found, *found.real) if each.name != "errors of counts"]
        assert len(tables) == 3
        for each in tables:
            for row in each.score.rows():
                assert re.search(rf"^{re.escape(row[0])} +{row[1]} +{row[2]} ", printed, re.M)
                assert re.search(rf"^{re.escape(row[0])} +{row[1]} +{row[2]} ", each.text, re.M)
        frame = pd.read_csv("held-out.csv").drop(columns="patient_id")
        again = dp.evaluate("shared", frame, scoring=asked["scoring"])
        assert (again.scores, again.real, again.nearness) == (found.scores, (), None)

    def test_ten_rows_a_class_have_no_generator(self, here):
        with gzip.open("patients.csv.gz", "wb") as file:
            file.write((here / "patients.csv").read_bytes())
        how = ("--method", "dp-kip", "--set", "rounds=3", "--set", "sampling_prob=1")
        succeeds("distill", "patients.csv.gz", "--schema", "schema.yaml", "--out", "ten", *how)
        assert pd.read_csv("ten/synthetic.csv")["outcome"].tolist() == ["recovered"] * 10 + ["died"] * 10
        said = refused("sample", "ten", "--n", "10", "--out", "more.csv")
        assert (
            "ten has no generator, so it cannot make more records. For more rows distil anew, at a cost, with" in said
        )

    @pytest.mark.parametrize("name", ["patients.csv", "patients.CSV.gz", "patients.parquet", "renamed"])
    def test_a_table_without_a_schema(self, here, name):
        frame = patients(5)
        frame.to_parquet(name) if name in ("patients.parquet", "renamed") else frame.to_csv(name)
        said = refused("distill", name, "--out", "shared")
        assert f"{name} looks like a table, which needs a schema" in said
        assert f"dpdistill schema draft {name}" in said

    def test_what_cannot_be_done(self, here):
        table = ("distill", "patients.csv", "--schema", "schema.yaml", "--out", "shared")
        assert "DOS distils images, not tables" in refused(*table, "--method", "dos")
        assert "leave out --classes" in refused(*table, "--classes", "2")
        assert "kernel=fc-ntk" in refused(*table, "--method", "dp-kip", "--set", "kernel=scatternet")
        succeeds("distill", "digits:train", "--method", "ldpdc", "--out", "digits")
        assert "digits has no released classifier" in refused("sample", "digits", "--n", "10", "--out", "more.npz")
        assert "holds images" in refused("evaluate", "digits", "--test", "digits:test", "--schema", "schema.yaml")
        assert not (here / "shared").exists()


class TestDistiller:
    def test_fit_and_sample(self):
        frame = patients(500).drop(columns="patient_id")
        before = frame.copy(deep=True)
        distiller = TableDistiller(SCHEMA, epsilon=2.0, method=DPMERF(**QUICK))
        made = distiller.fit(frame).sample(120)
        pd.testing.assert_frame_equal(frame, before)
        assert list(made) == list(frame)
        assert len(made) == 120
        assert distiller.epsilon_ == pytest.approx(2.0, abs=1e-3)
        assert distiller.classes_.tolist() == ["recovered", "died"]
        pd.testing.assert_frame_equal(made, distiller.sample(120))
        assert not made.equals(distiller.sample(120, seed=2))
        assert len(distiller.sample()) == 300
        with pytest.raises(ValueError, match="Expected n=0 >= 1"):
            distiller.sample(0)

    def test_labels_apart(self):
        frame = patients(200).drop(columns="patient_id")
        apart = TableDistiller(SCHEMA, method=DPKIP(rounds=2)).fit(frame.drop(columns="outcome"), frame["outcome"])
        assert apart.sample()["outcome"].tolist() == ["recovered"] * 10 + ["died"] * 10
        with pytest.raises(ValueError, match=r"no generator: call sample\(\) without n for its 20 rows"):
            apart.sample(21)

    def test_nothing_private_is_kept(self):
        frame = patients(300).drop(columns="patient_id")
        frame["cost"] = 123456.75
        distiller = TableDistiller(SCHEMA, method=DPMERF(**QUICK)).fit(frame)

        kept = pickle.dumps(distiller)  # records cannot be pickled
        for value in (frame["cost"][0], SCHEMA.to_unit(np.array([[50.0, frame["cost"][0], 0.0, 0.0]]))[0, 1]):
            for dtype in (np.float32, np.float64):
                assert dtype(value).tobytes() not in kept
        assert distiller.result_.distilled.X.tobytes() in kept

    def test_scikit_learns_conventions(self, here):
        distiller = TableDistiller("schema.yaml", epsilon=0.5, seed=3)
        assert clone(distiller).get_params() == distiller.get_params()
        assert distiller.set_params(epsilon=2.0).epsilon == 2.0
        for method in (distiller.sample, lambda: distiller.save("shared")):
            with pytest.raises(NotFittedError):
                method()
        distiller.set_params(method=DPMERF(**QUICK)).fit(patients(200)).save("shared")
        assert (here / "shared/certificate.json").exists()

    def test_fits_are_added_up_in_a_ledger(self, tmp_path):
        frame, ledger = patients(200).drop(columns="patient_id"), tmp_path / "all.ledger"
        paid = {"method": DPMERF(**QUICK), "ledger": ledger}
        with pytest.raises(LedgerError, match="There is no ledger at"):
            TableDistiller(SCHEMA, **paid).fit(frame)
        begin_ledger(ledger, 1.2)
        TableDistiller(SCHEMA, epsilon=1.0, **paid).fit(frame)
        summary = DatasetLedger(ledger).summary()
        assert [(run.label, run.schedule.budget.epsilon) for run in summary.runs] == [("TableDistiller", 1.0)]
        assert summary.cap == 1.2
        with pytest.raises(LedgerError, match=r"over the cap of 1\.2"):
            TableDistiller(SCHEMA, epsilon=1.0, **paid).fit(None)  # before the frame is looked at
        with pytest.raises(LedgerError, match="is the ledger of other records"):
            TableDistiller(SCHEMA, epsilon=0.2, **paid).fit(frame[::-1])
        TableDistiller(SCHEMA, epsilon=0.2, **paid).fit(frame)
        assert len(DatasetLedger(ledger).summary().runs) == 2

    def test_drafts_and_methods_for_images_are_refused(self, here):
        (here / "draft.yaml").write_text(STATED.replace("reviewed: true", "reviewed: false"))
        with pytest.raises(DataError, match=r"draft\.yaml is a draft"):
            TableDistiller("draft.yaml").fit(patients(20))
        with pytest.raises(ValueError, match="DOS distils images, not tables"):
            TableDistiller("schema.yaml", method=DOS()).fit(patients(20))
