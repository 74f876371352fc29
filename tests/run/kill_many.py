"""Kills runs at random points, rounds and times, and checks what is left.

python tests/run/kill_many.py 50 [seed [method ...]]
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from killing import Killed, any_point

LONGEST = 3


def one_run(rng: random.Random, folder: Path, told: Counter) -> int:
    """A run killed up to three times, in one case of five over one that had ended; the number of kills."""
    method, ledger, twice = (
        rng.choice(sys.argv[3:] or ("dos", "ndpdc", "dos, workers")),
        rng.random() < 0.5,
        rng.random() < 0.2,
    )
    run = Killed(folder, method, twice or rng.random() < 0.5, ledger)
    if twice:
        assert run.start() == 0, run.errors
        run.check()
        run.once_more()
    kills, points = 0, list[str]()
    for _ in range(rng.randint(1, LONGEST)):
        phase, round, seconds = *any_point(rng, method, ledger), None
        if twice and rng.random() < 0.4:
            phase = rng.choice(("archive-before", "archive-after", "created"))
        if rng.random() < 0.4:
            phase, seconds = None, rng.uniform(1.0, 9.0)
        code = run.start(phase, round, seconds)
        points.append(f"{phase} {round}" if phase else f"after {seconds:.2f} s")
        assert code in (0, -9), f"{method} {points}: exit code {code}: {run.errors}"
        if code == -9:
            kills += 1
            told[phase or "from outside"] += 1
        if run.ended:
            break
    else:
        assert run.start() == 0, f"{method} {points}: {run.errors}"
    run.check()
    print(f"{method}{' again' if twice else ''}{' --ledger' if ledger else ''}: {', '.join(points)}: ok", flush=True)
    return kills


def main() -> None:
    wanted, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns()
    rng, kills, runs, told = random.Random(seed), 0, 0, Counter()
    print(f"seed {seed}", flush=True)
    while kills < wanted:
        with tempfile.TemporaryDirectory() as folder:
            kills += one_run(rng, Path(folder), told)
            runs += 1
    print(f"{kills} kills in {runs} runs: all resumed, nothing paid twice. {dict(sorted(told.items()))}")


if __name__ == "__main__":
    main()
