"""A run killed at any point goes on with the same command and pays nothing twice: real processes, real SIGKILL.

`python tests/run/kill_many.py 50` kills at random points and times.
"""

from __future__ import annotations

import signal

import pytest
from chosen_tests import few
from killing import Killed

CHAINS = {
    "dos": (
        ("created", 0), ("reserve-after", 0), ("rotate-before", 0), ("sampling", 1), ("commit-before", 1),
        ("commit-after", 1), ("sum", 2), ("rotate-after", 2),
        ("checkpoint-before", 3), ("finish", 0), ("certificate.json-before", 0), ("shared-after", 0),
    ),
    "ndpdc": (
        ("sampling", 0), ("commit-after", 1), ("checkpoint-after", 2), ("noise", 3), ("drop-before", 3),
        ("finish", 0), ("000.png-before", 0), ("shared-after", 0),
    ),
    "dos, workers": (("noise", 1), ("commit-after", 2)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("method", few(CHAINS, "ndpdc"))
def test_a_run_killed_again_and_again_pays_once(method, tmp_path):
    cache = tmp_path / "compiled"
    run = Killed(tmp_path, method, overwrite=method == "dos", ledger=method == "dos", cache=cache)
    for phase, round in CHAINS[method]:
        assert run.start(phase, round) == -signal.SIGKILL, f"{phase} was not reached: {run.errors}"
    assert run.start() == 0, run.errors
    run.check()
