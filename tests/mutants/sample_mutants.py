"""Runs tests on mutants that Cosmic Ray makes of the source, and writes docs/experiments/mutation.md.

python tests/mutants/sample_mutants.py [--minutes 60] [--rooms private,ledger] [--again]

Each mutant is a copy of src in which one line is changed; its tests run in a process of their own. Verdicts are added
to sample_verdicts.csv, and the same command resumes. A verdict counts as long as its line stands in the source.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
import types
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CONFIG = tomllib.loads((HERE / "sample_mutants.toml").read_text())
VERDICTS = HERE / "sample_verdicts.csv"
FIELDS = ("module", "line", "operator", "occurrence", "verdict", "test", "seconds", "text")
IMPORTED_ONCE = (
    *("numpy", "scipy.optimize", "scipy.special", "scipy.stats", "jax", "jax.numpy", "optax", "mpmath"),
    *("pytest", "pydantic", "dp_accounting.pld", "PIL.Image"),
)
"""Imported before processes are forked: two seconds a mutant. None of these starts threads or a device of JAX."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: killed, survived, timeout, or no program; the test that failed."""

    verdict: str
    test: str = ""
    seconds: float = 0.0


def tests_of(module: str) -> list[str]:
    """Returns the test files of a module's room, its own first."""
    room, name = module.split("/")[0], Path(module).stem
    by_name = [f"tests/{room}/test_{name}.py"] if (ROOT / f"tests/{room}/test_{name}.py").is_file() else []
    others = []
    for path in (ROOT / each for each in CONFIG["rooms"][room]["tests"]):
        others += [path] if path.is_file() else sorted(path.glob("test_*.py"))
    return list(
        dict.fromkeys([*CONFIG["first"].get(module, by_name), *(str(each.relative_to(ROOT)) for each in others)])
    )


class Scratch:
    """A copy of the source and its tests in a temporary folder; everything else is linked."""

    def __init__(self, folder: Path):
        self.folder, self.source = folder, folder / "src" / "dpdistill"
        self.took: dict[str, float] = {}
        self.cpu_seconds = CONFIG["cpu_seconds"]
        (ROOT / "build" / "compiled").mkdir(parents=True, exist_ok=True)  # compiled programs, shared with the suite
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in ROOT.iterdir():
            if path.name not in ("src", "tests", ".hypothesis", ".git"):
                (folder / path.name).symlink_to(path)

    def write(self, module: str, text: str) -> None:
        """Writes a module; Python would take an older compiled one for it if both are of one second and one length."""
        path = self.source / module
        for kept in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            kept.unlink()
        path.write_text(text)

    def measure(self, room: str) -> Outcome:
        """Runs all tests of a room on the source as it is, and keeps how long each takes."""
        self.took, self.cpu_seconds = {}, CONFIG["cpu_seconds"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        outcome = self.run(room, tests_of(f"{room}/"))
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        if outcome.verdict == "survived":
            self.took = json.loads((self.folder / "took").read_text())
            self.cpu_seconds = min(CONFIG["cpu_seconds"], round(10 + 1.5 * used))
        return outcome

    def run(self, room: str, tests: list[str]) -> Outcome:
        """Runs tests until one fails, in a process of its own."""
        shutil.rmtree(self.folder / ".hypothesis", ignore_errors=True)
        start = time.monotonic()
        for name in ("failed", "took"):
            (self.folder / name).unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            _run_tests(self, tests, CONFIG["rooms"][room].get("without", []))
        code, failed = _wait(child, start + CONFIG["wall_seconds"]), self.folder / "failed"
        seconds = round(time.monotonic() - start, 1)
        if code == 0:
            return Outcome("survived", "", seconds)
        if code in (None, -signal.SIGXCPU):
            return Outcome("timeout", "", seconds)
        return Outcome("killed", failed.read_text() if failed.exists() else f"exit code {code}", seconds)


class Recorder:
    """What pytest tells: the first test that fails, and seconds of each test."""

    def __init__(self, folder: Path, tests: list[str], took: dict[str, float]):
        self.folder, self.tests, self.took = folder, tests, took
        self.seconds: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items):
        """Quick tests first: the first file remains the first, the quickest of the others is the second."""
        of_file: Counter[str] = Counter()
        for item in items:
            of_file[item.nodeid.partition("::")[0]] += self.took.get(item.nodeid, 0.0)

        def place(item):
            file = item.nodeid.partition("::")[0]
            return file != self.tests[0], of_file[file], file, self.took.get(item.nodeid, 0.0)

        if self.took:
            items.sort(key=place)

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] += report.duration
        self.pytest_collectreport(report)

    def pytest_collectreport(self, report):
        if report.failed and not (self.folder / "failed").exists():
            (self.folder / "failed").write_text(report.nodeid)

    def pytest_sessionfinish(self):
        (self.folder / "took").write_text(json.dumps(self.seconds))
        path = getattr(sys.modules.get("dpdistill"), "__file__", None)
        assert path is None or Path(path).is_relative_to(self.folder), path


def _wait(child: int, until: float) -> int | None:
    """Returns the exit code, None if the time is over; ends what the child has started and left."""
    found, status = 0, 0
    while found == 0 and time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if found == 0:
        os.waitpid(child, 0)
        return None
    return os.waitstatus_to_exitcode(status)


def _run_tests(scratch: Scratch, tests: list[str], without: list[str]) -> None:
    """Runs pytest in a forked process, and ends that process with its exit code."""
    folder, code = scratch.folder, 70
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (scratch.cpu_seconds, scratch.cpu_seconds + 5))
        resource.setrlimit(resource.RLIMIT_AS, (CONFIG["memory_gib"] << 30,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(folder)
        os.environ["PYTHONPATH"] = str(folder / "src")
        sys.path[:] = [str(folder), str(folder / "src"), *(path for path in sys.path if path != str(HERE))]
        sys.modules["__main__"] = types.ModuleType("__main__")  # processes that a test spawns import no main program
        import pytest

        options = ["-x", "-n", "0", "-p", "no:cacheprovider", *(f"--deselect={each}" for each in without)]
        code = int(pytest.main([*options, *tests], plugins=[Recorder(folder, tests, scratch.took)]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def read_verdicts() -> dict[tuple[str, str, int, str], dict[str, str]]:
    """Returns the last verdict of each mutant, by its key."""
    if not VERDICTS.exists():
        return {}
    with VERDICTS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {(row["module"], row["operator"], int(row["occurrence"]), row["text"]): row for row in rows}


def add_verdict(mutant: Any, outcome: Outcome) -> None:
    """Adds a line to the file of verdicts: the last line of a mutant counts."""
    new = not VERDICTS.exists()
    with VERDICTS.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n", extrasaction="ignore")
        if new:
            writer.writeheader()
        writer.writerow(vars(mutant) | vars(outcome))


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


def run_room(room: str, scratch: Scratch, until: float, again: bool, most: int | None) -> None:
    """Runs the mutants of a room that have no verdict yet; again: survivors without an argument."""
    import mutant_sample
    import mutation_page

    done, left_out = read_verdicts(), CONFIG["left_out"]
    drawn = mutant_sample.sample(scratch.source, room, CONFIG["rooms"][room]["drawn"], CONFIG["seed"], left_out)
    survivors = {key for key, row in done.items() if row["verdict"] == "survived"} - {*mutation_page.read_arguments()}
    open_ones = [each for each in drawn if (each.key in survivors if again else each.key not in done)][:most]
    print(f"{room}: {len(drawn)} drawn, {len(open_ones)} to run", flush=True)
    if not open_ones:
        return
    unchanged = scratch.measure(room)
    print(f"{room} unchanged: {unchanged.verdict} {unchanged.test} ({unchanged.seconds} s)", flush=True)
    if unchanged.verdict != "survived":
        raise SystemExit(
            f"Tests of {room} fail without a mutant: {(scratch.folder / 'output.txt').read_text()[-4000:]}"
        )
    for count, mutant in enumerate(open_ones, 1):
        if time.monotonic() > until:
            return
        source = (scratch.source / mutant.module).read_text()
        changed = mutant_sample.mutated(source, mutant, left_out)
        if changed is None:
            outcome = Outcome("no program")
        else:
            scratch.write(mutant.module, changed)
            try:
                outcome = scratch.run(room, tests_of(mutant.module))
            finally:
                scratch.write(mutant.module, source)
        add_verdict(mutant, outcome)
        where = f"{mutant.module}:{mutant.line} {mutant.operator} {mutant.occurrence}"
        print(f"{count}/{len(open_ones)} {outcome.verdict:9} {where}  {outcome.test} ({outcome.seconds} s)", flush=True)


def main(words: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no mutant after so many minutes")
    parser.add_argument("--rooms", default=",".join(CONFIG["rooms"]), help="rooms in this order, with commas between")
    parser.add_argument(
        "--again", action="store_true", help="run survivors without an argument once more, after a new test"
    )
    parser.add_argument("--most", type=int, help="so many mutants a room at most")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args(words)
    sys.path.insert(0, str(HERE))
    import mutation_page

    if not options.page:
        import_once()
        until = time.monotonic() + 60 * options.minutes
        with tempfile.TemporaryDirectory(prefix="mutants-") as name:
            scratch = Scratch(Path(name).resolve())
            for room in options.rooms.split(","):
                if time.monotonic() < until:
                    run_room(room, scratch, until, options.again, options.most)
    mutation_page.write()


if __name__ == "__main__":
    main()
