"""Freed memory is kept for the next step: page faults of a block that was in use before."""

import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from dpdistill.benchmark import pool
from dpdistill.cli import malloc
from dpdistill.cli.benchmark import begin_process
from dpdistill.cli.malloc import BLOCK, OLDER, STATED
from dpdistill.cli.progress import Bar

resource = pytest.importorskip("resource")
LIBRARY, VERSION = platform.libc_ver()
pytestmark = pytest.mark.skipif(
    LIBRARY != "glibc" or tuple(map(int, VERSION.split("."))) < (2, 35), reason="blocks of 64 MiB need glibc 2.35"
)

FEW = 16
"""Pages; of 2 MiB at most, so that 64 MiB have more."""
CODE = "import sys; sys.argv[1:] = ['--version']\n{}\nfrom test_malloc import faults; print(*faults())"
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
    kept = {name: value for name, value in os.environ.items() if name not in (*STATED, "GLIBC_TUNABLES")}
    run = [sys.executable, "-c", CODE.format(code)]
    out = subprocess.run(run, env={**kept, "PYTHONPATH": path, **environment}, capture_output=True, text=True)
    return [int(word) for word in out.stdout.splitlines()[-1].split()]


def work() -> dict:
    with Bar() as bar:
        bar("work", 1, 1)
    return {"name": "a", "error": None, "run": {}, "release": "r", "scores": faults(), "seconds": {}}


@pytest.mark.slow
def test_the_command_line_keeps_freed_blocks_but_large_ones():
    (small, large), (plain, _) = in_process(MAIN), in_process("")
    assert small < FEW < plain
    assert large > FEW
    assert BLOCK == 256 << 20


@pytest.mark.slow
def test_thresholds_in_the_environment_are_left_as_they_are():
    assert in_process(MAIN, MALLOC_MMAP_THRESHOLD_="100000")[0] > FEW
    assert in_process(MAIN, GLIBC_TUNABLES="glibc.malloc.mmap_threshold=100000")[0] > FEW
    assert in_process(MAIN, MALLOC_ARENA_MAX="2")[0] < FEW, "which is no threshold"


@pytest.mark.parametrize(("most", "taken"), [(1 << 30, [-3, -1]), (OLDER, [-3, -3, -1]), (0, [-3, -3])])
def test_the_trim_threshold_is_not_set_alone(most, taken, monkeypatch):
    asked = []

    class Library:
        @staticmethod
        def mallopt(option, value):
            asked.append(option)
            return option == -1 or value <= most

    for name in (*STATED, "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(malloc.ctypes, "CDLL", lambda _: Library)
    malloc.keep_freed_memory()
    assert asked == taken


def test_a_run_of_a_suite_keeps_them_and_leaves_progress_to_the_suite(tmp_path, monkeypatch, capfd):
    for name in (*STATED, "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    pool.run_all([("a", "r", ())], work, tmp_path / "results.jsonl", 1, lambda *_: None, begin_process)
    (found,) = pool.read_lines(tmp_path / "results.jsonl").values()
    assert found["scores"][0] < FEW
    assert capfd.readouterr() == ("", "")
