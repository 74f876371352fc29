"""Suites and lines of results that tests share."""

from __future__ import annotations

import json
from pathlib import Path

from kill_benchmark import line_of

from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.query import Stage

ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("kill_benchmark.py")
HEAD = "dpdistill: benchmark suite\ntitle: Tiny & small\ndata:\n"
DIGITS = "  - {name: digits, train: 'digits:train', test: 'digits:test'}\n"
PUBLIC = "  - {label: A, method: dos, data: [digits], epsilon: [1], public: digits, "
TABLE = "  - {name: t, train: t.csv, test_share: 0.5, schema: t.yaml}\n"


def student_line(pictures: str) -> str:
    return f"  - {{label: A, method: dm, data: [digits], score: {{student: {{pictures: {pictures}}}}}}}"


def suite_file(folder: Path, runs: str, data: str = DIGITS) -> Path:
    path = folder / "tiny.yaml"
    path.write_text(f"{HEAD}{data}runs:\n{runs}")
    return path


def table_files(folder: Path, rows: list[str], facts: str) -> None:
    """t.csv with these rows of columns a and b, and its schema t.yaml with facts of a."""
    (folder / "t.csv").write_text("\n".join(["a,b", *rows]) + "\n")
    columns = f"columns:\n  - {{name: a, kind: integer, {facts}}}\n"
    (folder / "t.yaml").write_text(f"dpdistill: table schema\nreviewed: true\nlabel: b\nclasses: [no, yes]\n{columns}")


def line(label: str = "ours", value: float = 90.0, **changed) -> dict:
    """A line of results of MNIST, ten a class at epsilon 1 unless changed."""
    found = line_of(0)
    found["run"] |= {"label": label, "source": {"name": "mnist"}} | {k: v for k, v in changed.items() if k != "score"}
    found["name"] = f"{label} {changed}"
    found["scores"] = [{"score": changed.get("score", "KRR"), "by": "how", "value": value}]
    return found


def paid(found: dict, release: str, epsilon: float) -> dict:
    schedule = calibrate((Stage(4),), Budget(epsilon))
    return found | {"release": release, "certificate": {"schedule": json.loads(schedule.to_json())}}
