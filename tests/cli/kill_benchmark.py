"""Runs a made-up suite of four runs in the folder it is given; they write there when they begin and end.

With several jobs the first two to run wait for each other. The second ends its process.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

from dpdistill.benchmark.pool import run_all


def line_of(k: int) -> dict[str, Any]:
    source = {"name": "digits"}
    run = {"label": f"m{k % 2}", "variant": "", "method": "dos", "settings": [], "source": source, "epsilon": 1.0}
    run |= {"per_class": 10, "repeat": k // 2, "chosen_on": [], "tried": 0}
    return {
        **{"name": f"r{k}", "run": run, "origin": "package default", "release": f"r{k}", "certificate": None},
        **{"versions": {"jax": "1"}, "seconds": {"distil": 1.0, "score": 1.0}, "peak_mb": 1, "error": None},
        **{"cpu_seconds": {"distil": 1.0, "score": 1.0}, "scores": [{"score": "KRR", "by": "", "value": 50.0 + k}]},
    }


def work(k: int, folder: Path, jobs: int) -> dict[str, Any]:
    times = folder / "times"
    with times.open("a") as file:
        file.write(f"begin {k}\n")
    for _ in range(600 if k in (0, 2) and jobs > 1 else 0):
        if times.read_text().count("begin") > 1:
            break
        time.sleep(0.1)
    if k == 1:
        os._exit(7)
    with times.open("a") as file:
        file.write(f"end {k}\n")
    return line_of(k)


def begin() -> None:
    """Has nothing to do before the work."""


def tell(line: dict[str, Any], done: int, total: int, left: float) -> None:
    print(line["name"], done, total, left >= 0, flush=True)


if __name__ == "__main__":
    place, jobs = Path(sys.argv[1]), int(sys.argv[2])
    tasks = [(f"r{k}", f"release {k // 2}", (k, place, jobs)) for k in range(4)]
    run_all(tasks, work, place / "results.jsonl", jobs, tell, begin)
