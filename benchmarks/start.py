"""CPU seconds of commands that need no arrays: python benchmarks/start.py. Exit code 1 above the limit.

The limit is 0.5 s if importing NumPy takes 0.12 s, and in proportion on slower machines.
"""

from __future__ import annotations

import resource
import subprocess
import sys

LIMIT, NUMPY = 0.5, 0.12
COMMANDS = (
    "--version",
    "--help",
    "distill --help",
    "nonsense",
    "distill missing --out x",
    "distill digits:train --out x --method nosuch",
    "distill digits:train --out x --epsilon -1",
    "distill digits:train --out x --epsilon 1e9",
    "distill digits:train --out x --classes -2",
    "distill digits:train --out x --set steps=-3",
    "distill digits:train --out x --set kernel=nosuch",
    "distill digits:train --out x --recipe nosuch",
    "distill missing --out x --recipe psg-mnist-eps1-ipc10",
    "distill digits:train --out x --recipe dm-mnist-ipc10",
    "distill digits:train --out x --set kernel=fc-ntk",
    "distill digits:train --out x --ledger nosuch.ledger",
    "distill --from missing --out x",
    "audit missing",
    "distill digits:train --out x --method dm",
    "benchmark nosuch --out x",
    "audit run digits:train --out x --leak nosuch",
    "attack training digits:train --out x --weights missing",
    "audit method digits:train --out x --method dp-merf --set steps=a",
    "export missing --to csv --out x.csv",
    "evaluate missing --test digits:test",
    "sample missing --n 3 --out x.csv",
    "schema check missing missing",
    "report missing",
    "budget missing",
    "account --epsilon 0",
)


def cpu_seconds(program: str, arguments: str = "") -> float:
    """User and system time of one Python program in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program, *arguments.split()], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    found, numpy = dict.fromkeys(COMMANDS, float("inf")), float("inf")
    for _ in range(3):  # in turn
        numpy = min(numpy, cpu_seconds("import numpy"))
        found = {each: min(found[each], cpu_seconds("from dpdistill.cli import main; main()", each)) for each in found}
    limit = LIMIT * max(1.0, numpy / NUMPY)
    for arguments, seconds in found.items():
        print(f"{seconds:.2f} s  dpdistill {arguments}")
    print(f"{numpy:.2f} s  importing NumPy; so that the limit is {limit:.2f} s")
    return int(max(found.values()) > limit)


if __name__ == "__main__":
    sys.exit(main())
