"""CPU seconds until a command answers that needs no arrays: python benchmarks/start.py. Exit code 1 above the limit."""

from __future__ import annotations

import resource
import subprocess
import sys

LIMIT = 0.5
COMMANDS = (
    "--version",
    "--help",
    "distill --help",
    "nonsense",
    "distill missing --out x",
    "distill digits:train --out x --method nosuch",
    "distill digits:train --out x --epsilon -1",
    "distill digits:train --out x --classes -2",
    "distill digits:train --out x --set steps=-3",
    "distill digits:train --out x --set kernel=nosuch",
    "distill digits:train --out x --recipe nosuch",
    "distill digits:train --out x --ledger nosuch.ledger",
    "distill --from missing --out x",
    "audit missing",
    "audit method digits:train --out x --method dp-merf --set steps=a",
    "export missing --to csv --out x.csv",
    "evaluate missing --test digits:test",
    "sample missing --n 3 --out x.csv",
    "schema check missing missing",
    "report missing",
    "budget missing",
    "account --epsilon 0",
)


def cpu_seconds(arguments: str) -> float:
    """User and system time of one command in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", "from dpdistill.cli import main; main()", *arguments.split()]
    subprocess.run(command, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    found = {arguments: min(cpu_seconds(arguments) for _ in range(3)) for arguments in COMMANDS}
    for arguments, seconds in found.items():
        print(f"{seconds:.2f} s  dpdistill {arguments}")
    return int(max(found.values()) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
