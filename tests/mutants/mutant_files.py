"""What the sample of mutants is drawn by, its verdicts and its arguments: the files of this folder."""

from __future__ import annotations

import csv
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CONFIG = tomllib.loads((HERE / "sample_mutants.toml").read_text())
VERDICTS, ARGUED = HERE / "sample_verdicts.csv", HERE / "argued.csv"
FIELDS = ("module", "line", "operator", "occurrence", "verdict", "test", "seconds", "text")
Key = tuple[str, str, int, str]
"""What names a mutant: module, operator, occurrence, text of the line."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: killed, survived, timeout, or no program; the test that failed."""

    verdict: str
    test: str = ""
    seconds: float = 0.0


def read_verdicts() -> dict[Key, dict[str, str]]:
    """Returns the last verdict of each mutant, by its key."""
    if not VERDICTS.exists():
        return {}
    with VERDICTS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {(row["module"], row["operator"], int(row["occurrence"]), row["text"]): row for row in rows}


def add_verdict(mutant: Any, outcome: Outcome) -> None:
    """Adds a line to the file of verdicts: the last line of a mutant counts."""
    new = not VERDICTS.exists()
    with VERDICTS.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n", extrasaction="ignore")
        if new:
            writer.writeheader()
        writer.writerow(vars(mutant) | vars(outcome))


def read_arguments() -> dict[Key, str]:
    """Returns why a survivor is no missing test, by the mutant's key."""
    with ARGUED.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {(row["module"], row["operator"], int(row["occurrence"]), row["text"]): row["argument"] for row in rows}


def stands(module: str, text: str) -> bool:
    """Returns whether a module still has a line of this text."""
    path = ROOT / "src" / "dpdistill" / module
    return path.is_file() and text in (line.strip() for line in path.read_text().splitlines())
