"""The pool of runs: a killed benchmark ends with the same table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from result_lines import (
    CHILD,
)
from run_command import refused

from dpdistill.benchmark import pool
from dpdistill.benchmark.page import render_markdown


def run_child(folder: Path, jobs: int, stop_after: int = 0) -> list[str]:
    """What the made-up suite says; killed after so many lines, if any."""
    with subprocess.Popen(
        [sys.executable, str(CHILD), str(folder), str(jobs)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(stop_after)]
        if stop_after:
            child.kill()
        return [*said, *child.stdout]


def check_times(lines: list[str]) -> None:
    """Several runs at a time, but never two of one release; run 1 ends its process before it could say so."""
    running, most = set(), 0
    for word, k in ((word, int(number)) for word, number in map(str.split, lines)):
        if word == "begin":
            assert all(k // 2 != other // 2 for other in running)
            running.add(k)
        else:
            running.remove(k)
        most = max(most, len(running))
    assert most >= 2


def test_a_benchmark_that_is_killed_ends_with_the_same_table(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    said = run_child(whole, 2)
    assert sorted(text.split()[0] for text in said) == ["r0", "r1", "r2", "r3"]
    assert said[-1].split()[1:] == ["4", "4", "True"]
    check_times((whole / "times").read_text().splitlines())
    run_child(killed, 1, stop_after=2)
    begun = (killed / "results.jsonl").read_bytes()
    assert begun.count(b"\n") in (2, 3)
    with (killed / "results.jsonl").open("a") as file:
        file.write('{"name": "r3", "er')
    run_child(killed, 1)
    content = (killed / "results.jsonl").read_bytes()
    assert content.startswith(begun)
    names = [json.loads(text)["name"] for text in content.splitlines()]
    assert sorted(names) == ["r0", "r1", "r1", "r2", "r3"]  # what is finished is not run again, what failed is
    pages = [render_markdown(pool.read_lines(f / "results.jsonl").values(), "Same") for f in (whole, killed)]
    assert pages[0] == pages[1]
    assert "| **m0** | 51.00 ± 1.41 (2 runs) |" in pages[0]
    assert "- r1: its process ended with exit code 7" in pages[0]


def test_lines_of_results_are_json(tmp_path):
    path = tmp_path / "results.jsonl"
    result = '{"name": "a", "error": null, "run": {}, "release": "r", "scores": [], "seconds": {}}\n'
    path.write_text(result)
    assert [*pool.read_lines(path)] == ["a"]
    path.write_text(f'{result}{{"name": "a", "error": "x"}}\n{{"name": "b"')
    assert pool.read_lines(path) == {"a": {"name": "a", "error": "x"}}
    path.write_text(f"{result}[]\n")
    assert refused("results", path, "--out", "x.md") == f"Expected a result in JSON in line 2 of {path}; there is none."
    for no_result in ('{"name": "x"}', '{"name": "x", "error": null, "release": "r"}'):
        path.write_text(f"{no_result}\n")
        assert "Expected a result in JSON in line 1" in refused("results", path, "--out", "x.md")
    path.write_text("")
    assert (
        refused("results", path, "--out", "x.pdf") == "Expected --out as a page that ends in .md or .html; got x.pdf."
    )
