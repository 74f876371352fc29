"""Commands and code of docs/tables.md, in a folder that holds two tables only."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from run_command import dpdistill

from dpdistill import DPMERF, table_distiller, verify
from dpdistill.sources.tables.schema_file import read_schema

ROOT = Path(__file__).parents[2]
QUICK = {"frequencies": 60, "steps": 40, "samples": 300, "hidden": 16}
OPTIONS = "[distill.set]\n" + "".join(f"{name} = {value}\n" for name, value in QUICK.items())
OPTIONS += '\n[evaluate]\nclassifier = "fast"\n'
"""A dpdistill.toml: the commands stay as they are and take seconds."""


def blocks(language: str) -> list[str]:
    """Returns the page's blocks of code in a language."""
    page = (ROOT / "docs" / "tables.md").read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)


def patients(n: int, seed: int) -> pd.DataFrame:
    """Stays that the schema of docs/tables.md describes, two of each person; age and stage decide."""
    rng = np.random.default_rng(seed)
    age, stage = rng.integers(18, 95, n), rng.choice(["I", "II", "III", "IV"], n)
    ill = age + 10 * (stage == "IV") + rng.normal(0, 5, n) > 60
    return pd.DataFrame(
        {
            "patient_id": [f"P{i // 2:04d}" for i in range(n)],
            "admitted_on": [f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(n)],
            "age": age,
            "cost": np.exp(rng.normal(7, 1, n)).round(2),
            "stage": stage,
            "ward": rng.choice(np.array(["A", "B", "C", None], object), n),
            "outcome": np.where(ill, "died", "recovered"),
        }
    )


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    patients(600, 0).to_csv("patients.csv", index=False)
    patients(200, 1).to_csv("held-out.csv", index=False)
    Path("dpdistill.toml").write_text(OPTIONS)
    return tmp_path


def test_the_commands(here):
    said = {}
    for line in blocks("sh")[0].splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["$EDITOR"]:
            assert not read_schema(words[1]).reviewed
            Path(words[1]).write_text(blocks("yaml")[0], "utf-8")
        elif words[:1] == ["dpdistill"]:
            code, out, err = dpdistill(*words[1:])
            assert code == 0, (line, err)
            said[" ".join(words[1 : 3 if words[1] == "schema" else 2])] = out
    assert [*said] == ["schema draft", "schema check", "distill", "sample", "evaluate", "audit", "verify"]
    assert (
        "The guarantee holds for one unit (patient_id), all records together; at most 4 of each are used"
        in said["distill"]
    )
    assert "column 'ward': " in said["schema check"]
    assert len(pd.read_csv("more.csv")) == 10_000
    assert "logistic regression" in said["evaluate"]
    assert {path.name for path in here.iterdir()} >= {"shared", "shared.run", "shared.audit"}
    made = pd.read_parquet("shared/synthetic.parquet")
    assert made.columns.tolist() == ["age", "cost", "stage", "ward", "admitted_on", "outcome"]
    assert made["age"].between(0, 110).all()
    assert made["cost"].between(0, 1e6).all()


def test_the_python(here, monkeypatch):
    Path("schema.yaml").write_text(blocks("yaml")[0], "utf-8")
    monkeypatch.setattr(table_distiller, "DPMERF", lambda: DPMERF(**QUICK))
    names = {"df": pd.read_csv("patients.csv")}
    exec(blocks("python")[0], names)
    budget = names["distiller"].result_.schedule.budget
    assert (budget.unit, budget.rows_per_unit, budget.epsilon) == ("patient_id", 4, 1.0)
    assert len(names["distiller"].sample(10_000)) == 10_000
    assert verify("shared").passed
