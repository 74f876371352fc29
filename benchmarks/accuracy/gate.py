"""Compares accuracy of this code with earlier runs: `make accuracy DATA=FOLDER`, about an hour on two quiet cores.

    make accuracy DATA=FOLDER                                       # the same command resumes after a stop
    nohup make accuracy DATA=FOLDER > accuracy.log 2>&1 &           # in the background
    python benchmarks/accuracy/gate.py --data FOLDER --look         # figures so far

Runs the suite `accuracy` into build/accuracy/<digest of src>, so that a folder holds results of one state of the code.
Adds a line for each figure to lines.jsonl, and compares the figures with reference.csv, whose `note` names the runs of
each mean. Exit code 1: a figure is missing or no number. Or a figure dropped by more than 0.3 points and by more than
two standard errors of the difference between the means of new and earlier runs.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from dpdistill import __version__
from dpdistill.benchmark.pool import read_lines

ROOT = Path(__file__).parents[2]
REFERENCE, LINES = (Path(__file__).with_name(name) for name in ("reference.csv", "lines.jsonl"))
POINTS, ERRORS = 0.3, 2.0
"""A drop is a fault beyond so many points, and beyond so many standard errors of the difference."""

Line = dict[str, Any]


class Key(NamedTuple):
    """Key of a figure: data set, recipe, score."""

    data: str
    label: str
    score: str

    def __str__(self) -> str:
        return f"{self.data}, {self.label}, {self.score}"


class Reference(NamedTuple):
    """Mean of earlier runs, in percent.

    Args:
        mean: mean over the runs; None without an earlier run.
        std: standard deviation between runs.
        runs: number of runs.
    """

    mean: float | None
    std: float
    runs: int

    def error(self, runs: int) -> float:
        """Standard error of the difference to the mean of a number of new runs."""
        return self.std * math.sqrt(1 / self.runs + 1 / runs)

    def __str__(self) -> str:
        return "none" if self.mean is None else f"{self.mean:.2f} ± {self.std:.2f} ({self.runs})"


def fault(key: Key, reference: Reference | None, figures: Sequence[float | None]) -> str | None:
    """One sentence about what is wrong with a line, or None.

    Args:
        key: key of the line.
        reference: earlier runs; None if reference.csv has no such line.
        figures: figures of new runs, in percent; None for a score that is not defined.
    """
    if reference is None:
        return f"{key}: expected a line in {REFERENCE.name}; there is none."
    if not figures:
        return f"{key}: expected a figure; its run failed or has not ended."
    numbers = [value for value in figures if value is not None and math.isfinite(value)]
    if len(numbers) < len(figures):
        return f"{key}: expected numbers; got {', '.join(map(str, figures))}."
    if reference.mean is None:
        return None
    mean = statistics.fmean(numbers)
    drop, error = reference.mean - mean, reference.error(len(numbers))
    if drop <= POINTS or drop <= ERRORS * error:
        return None
    return (
        f"{key}: {mean:.2f} is {drop:.2f} points below {reference}, more than {POINTS:g} points and more than "
        f"{ERRORS:g} standard errors of {error:.2f}."
    )


def read_reference(path: Path = REFERENCE) -> dict[Key, Reference]:
    """References of all keys, in the file's order."""
    with path.open(newline="", encoding="utf-8") as file:
        return {
            Key(row["data"], row["label"], row["score"]): Reference(
                float(row["mean"]) if row["mean"] else None, float(row["std"]), int(row["runs"])
            )
            for row in csv.DictReader(file)
        }


def lines_of(results: Iterable[Line], source: str) -> list[Line]:
    """One line for each figure of a suite's results.

    Args:
        results: lines of results.jsonl.
        source: digest of the code.
    """
    code = {"version": __version__, "commit": commit(), "source": source}
    return [
        {
            **{"date": datetime.now(UTC).date().isoformat(), **code, "run": result["name"]},
            **{"data": result["run"]["source"]["name"], "label": result["run"]["label"], "score": score["score"]},
            **{"by": score["by"], "figure": score["value"], "device": result["device"]},
            **{"cpu_seconds": round(sum(result["cpu_seconds"].values()))},
        }
        for result in results
        if result["error"] is None
        for score in result["scores"]
    ]


def by_key(lines: Iterable[Line]) -> dict[Key, list[float | None]]:
    """The figures of each line of the table."""
    found: dict[Key, list[float | None]] = {}
    for line in lines:
        found.setdefault(Key(line["data"], line["label"], line["score"]), []).append(line["figure"])
    return found


def judge(
    references: dict[Key, Reference], figures: dict[Key, list[float | None]]
) -> list[tuple[Key, list[float | None], Reference | None, str | None]]:
    """Line, figures, reference and fault of every line in the references or the new figures."""
    keys = [*references, *(key for key in figures if key not in references)]
    return [
        (key, figures.get(key, []), references.get(key), fault(key, references.get(key), figures.get(key, [])))
        for key in keys
    ]


def append_new(lines: Iterable[Line], path: Path = LINES) -> int:
    """Adds the lines that the file lacks and returns their number: one per score of a run of one state of the code."""
    known = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    seen = {_same(json.loads(text)) for text in known}
    new = [line for line in lines if _same(line) not in seen]
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line, allow_nan=False) + "\n" for line in new)
    return len(new)


def _same(line: Line) -> tuple[str, ...]:
    return line["source"], line["run"], line["score"], line["by"]


def digest(folder: Path = ROOT / "src") -> str:
    """Digest of the code, equal for equal files: a run resumes by this digest."""
    found = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        found.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def commit() -> str:
    """Commit of the code, with + if src differs from the commit; empty without git."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True, text=True).stdout

    try:
        changed = "+" if git("status", "--porcelain", "--", "src") else ""
        return git("rev-parse", "--short=10", "HEAD").strip() + changed
    except (OSError, subprocess.CalledProcessError):
        return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the rest of the suite, prints the table and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", default="", help="folder with mnist/, fashion_mnist/, cifar10/ and adult/")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--look", action="store_true", help="show the figures so far; run and write nothing")
    given, source = parser.parse_args(arguments), digest()
    data, folder = given.data or os.environ.get("DPDISTILL_DATA", ""), ROOT / "build" / "accuracy" / source
    if not given.look:
        if not data:
            parser.error("expected DATA=FOLDER with mnist/, fashion_mnist/, cifar10/ and adult/, or DPDISTILL_DATA")
        command = [sys.executable, "-m", "dpdistill", "benchmark", "accuracy", "--data", data, "--out", str(folder)]
        subprocess.run([*command, "--jobs", str(given.jobs)], check=False)  # runs that fail have no figure below
    results = folder / "results.jsonl"
    lines = lines_of(read_lines(results).values() if results.exists() else [], source)
    rows = judge(read_reference(), by_key(lines))
    for key, figures, reference, wrong in rows:
        shown = ", ".join(map(str, figures)) or "missing"
        print(f"{'RED  ' if wrong else 'green'} {key!s:58} {shown:>7}   before: {reference or 'none'}")
    faults = [wrong for *_, wrong in rows if wrong]
    print(*faults, sep="\n")
    if not given.look:
        print(f"{append_new(lines)} lines added to {LINES.relative_to(ROOT)}.")
    print(f"{len(rows) - len(faults)} of {len(rows)} lines green, dpdistill {__version__}, source {source}.")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
