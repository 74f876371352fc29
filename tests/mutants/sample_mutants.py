"""Runs tests on mutants that Cosmic Ray makes of the source, and writes docs/experiments/mutation.md.

python tests/mutants/sample_mutants.py [--minutes 60] [--rooms private/grid.py,ledger] [--again]

Each mutant is a copy of src in which one line is changed; its tests run in a process of their own. Verdicts are added
to sample_verdicts.csv, and the same command resumes. A verdict counts as long as its line stands in the source.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import mutant_sample
import mutation_page
from mutant_files import CONFIG, Outcome, add_verdict, read_arguments, read_verdicts
from mutant_run import Scratch

IMPORTED_ONCE = (
    *("numpy", "scipy.optimize", "scipy.special", "scipy.stats", "jax", "jax.numpy", "optax", "mpmath"),
    *("pytest", "pydantic", "dp_accounting.pld", "PIL.Image"),
)
"""Imported before processes are forked: two seconds a mutant. None of these starts threads or a device of JAX."""


def import_once() -> None:
    """Imports what every mutant's tests import, and makes sure that forking is safe."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported: a process with threads must not be forked
    for name in IMPORTED_ONCE:
        importlib.import_module(name)
    xla_bridge = importlib.import_module("jax._src.xla_bridge")
    threads = len(list(Path("/proc/self/task").iterdir())) if Path("/proc/self/task").exists() else 1
    if xla_bridge.backends_are_initialized() or threads > 1 or "dpdistill" in sys.modules:
        raise SystemExit(
            f"Expected one thread, no device of JAX and no dpdistill before forking; got {threads} threads."
        )


def run_room(part: str, scratch: Scratch, until: float, again: bool, most: int | None) -> None:
    """Runs the mutants of a room, or of one module, that have no verdict yet; again: survivors without an argument."""
    room = part.partition("/")[0]
    done, left_out = read_verdicts(), CONFIG["left_out"]
    drawn = mutant_sample.sample(scratch.source, room, CONFIG["rooms"][room]["drawn"], CONFIG["seed"], left_out)
    survivors = {key for key, row in done.items() if row["verdict"] == "survived"} - {*read_arguments()}
    drawn = [each for each in drawn if part in (room, each.module)]
    open_ones = [each for each in drawn if (each.key in survivors if again else each.key not in done)][:most]
    print(f"{part}: {len(drawn)} drawn, {len(open_ones)} to run", flush=True)
    for count, mutant in enumerate(open_ones, 1):
        if time.monotonic() > until:
            return
        source = (scratch.source / mutant.module).read_text()
        changed = mutant_sample.mutated(source, mutant, left_out)
        outcome = Outcome("no program") if changed is None else scratch.judge(room, mutant.module, changed)
        add_verdict(mutant, outcome)
        where = f"{mutant.module}:{mutant.line} {mutant.operator} {mutant.occurrence}"
        print(f"{count}/{len(open_ones)} {outcome.verdict:9} {where}  {outcome.test} ({outcome.seconds} s)", flush=True)


def main(words: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no mutant after so many minutes")
    parser.add_argument(
        "--rooms",
        default=",".join(CONFIG["rooms"]),
        help="rooms or modules, such as private/grid.py, in this order, with commas between",
    )
    parser.add_argument(
        "--again", action="store_true", help="run survivors without an argument once more, after a new test"
    )
    parser.add_argument("--most", type=int, help="so many mutants a room at most")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args(words)
    if not options.page:
        import_once()
        until = time.monotonic() + 60 * options.minutes
        with tempfile.TemporaryDirectory(prefix="mutants-") as name:
            scratch = Scratch(Path(name).resolve())
            for part in options.rooms.split(","):
                if time.monotonic() < until:
                    run_room(part, scratch, until, options.again, options.most)
    mutation_page.write()


if __name__ == "__main__":
    main()
