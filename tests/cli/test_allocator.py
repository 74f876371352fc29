"""Freed memory is kept for the next step: page faults of a block that was in use before."""

import os
import platform
import resource
import subprocess
import sys

import numpy as np
import pytest

from dpdistill.cli.allocator import BLOCK
from dpdistill.cli.benchmarks import pool

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")

FEW = 16
"""Pages; of 2 MiB at most, so that 64 MiB have more."""
CODE = "import sys; sys.argv[1:] = ['--version']\n{}\nfrom test_allocator import faults; print(*faults())"
MAIN = "from dpdistill.cli.app import main\ntry: main()\nexcept SystemExit: pass"


def faults() -> list[int]:
    """Pages that the system maps for the second block of 64 MiB, and for one of 300 MiB."""
    found = []
    for megabytes in (64, 300):
        for _ in range(2):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            np.ones(megabytes << 17)
            after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        found.append(after - before)
    return found


def in_process(code: str, **environment: str) -> list[int]:
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    run = [sys.executable, "-c", CODE.format(code)]
    out = subprocess.run(run, env={**kept, "PYTHONPATH": path, **environment}, capture_output=True, text=True)
    return [int(word) for word in out.stdout.splitlines()[-1].split()]


def work() -> dict:
    return {"name": "a", "error": None, "run": {}, "release": "r", "scores": faults(), "seconds": {}}


def test_the_command_line_keeps_freed_blocks_but_large_ones():
    (small, large), (plain, _) = in_process(MAIN), in_process("")
    assert small < FEW < plain
    assert large > FEW
    assert BLOCK == 256 << 20


def test_thresholds_in_the_environment_are_left_as_they_are():
    small, _ = in_process(MAIN, MALLOC_MMAP_THRESHOLD_="100000")
    assert small > FEW


def test_a_run_of_a_suite_keeps_them(tmp_path):
    pool.run_all([("a", "r", ())], work, tmp_path / "results.jsonl", 1, lambda *_: None)
    (found,) = pool.read_lines(tmp_path / "results.jsonl").values()
    assert found["scores"][0] < FEW
