"""Runs tests on a mutant: in a copy of the source, in a process of their own."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
import types
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mutant_files import CONFIG, HERE, ROOT, Outcome


def tests_of(module: str) -> tuple[list[str], list[str]]:
    """Returns the test files of a module: its own, and the others of its room, which run if its own pass."""
    room, name = module.split("/")[0], Path(module).stem
    by_name = [f"tests/{room}/test_{name}.py"] if (ROOT / f"tests/{room}/test_{name}.py").is_file() else []
    own, others = CONFIG["first"].get(module, by_name), []
    for path in (ROOT / each for each in CONFIG["rooms"][room]["tests"]):
        others += [path] if path.is_file() else sorted(path.glob("test_*.py"))
    names = [str(each.relative_to(ROOT)) for each in others]
    return own, [name for name in dict.fromkeys(names) if name not in own]


@dataclass(frozen=True)
class Unchanged:
    """Seconds that tests take on the source as it is: of each test, and of the processor in all."""

    took: dict[str, float]
    cpu_seconds: float

    @property
    def most(self) -> int:
        """Processor seconds after which a mutant is timed out."""
        return min(CONFIG["cpu_seconds"], round(10 + 1.5 * self.cpu_seconds))


NOTHING_KNOWN = Unchanged({}, CONFIG["cpu_seconds"])


class Scratch:
    """A copy of the source and its tests in a temporary folder; everything else is linked."""

    def __init__(self, folder: Path):
        self.folder, self.source = folder, folder / "src" / "dpdistill"
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

    def unchanged(self, room: str, tests: list[str]) -> Unchanged:
        """Runs tests on the source as it is, unless that was done before with the same files.

        Raises:
            SystemExit: a test fails.
        """
        shared = [*(self.folder / "tests" / "contract").rglob("*.py"), *(self.folder / "tests").glob("*.py")]
        files = [*self.source.rglob("*.py"), *shared, *(self.folder / name for name in tests)]
        texts = [path.read_bytes() for path in sorted({*files})]
        digest = hashlib.sha256(b"".join(texts) + repr((tests, _without(room))).encode()).hexdigest()
        kept = ROOT / "build" / "mutation" / f"{digest}.json"
        if not kept.exists():
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            outcome = self.run(room, tests, NOTHING_KNOWN)
            used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            print(f"unchanged: {outcome.verdict} {', '.join(tests)} ({used:.0f} of {outcome.seconds} s)", flush=True)
            if outcome.verdict != "survived":
                raise SystemExit(f"A test fails without a mutant: {outcome.test}\n{self.output[-4000:]}")
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(json.dumps([json.loads((self.folder / "took").read_text()), used]))
        return Unchanged(*json.loads(kept.read_text()))

    @property
    def output(self) -> str:
        """What the last tests printed."""
        return (self.folder / "output.txt").read_text()

    def judge(self, room: str, module: str, changed: str) -> Outcome:
        """Runs the tests of a module on a mutant of it: its own, and the others if these pass."""
        source, seconds = (self.source / module).read_text(), 0.0
        outcome = Outcome("survived")
        own, others = tests_of(module)
        for tests, measured in ((own, own), (others, sorted(own + others))):  # all tests of a room are measured once
            if not tests:
                continue
            unchanged = self.unchanged(room, measured)
            self.write(module, changed)
            try:
                outcome = self.run(room, tests, unchanged)
            finally:
                self.write(module, source)
            seconds += outcome.seconds
            if outcome.verdict != "survived":
                break
        return Outcome(outcome.verdict, outcome.test, round(seconds, 1))

    def run(self, room: str, tests: list[str], unchanged: Unchanged) -> Outcome:
        """Runs tests until one fails, in a process of its own."""
        shutil.rmtree(self.folder / ".hypothesis", ignore_errors=True)
        start = time.monotonic()
        for name in ("failed", "took"):
            (self.folder / name).unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            _run_tests(self.folder, tests, _without(room), unchanged)
        code, failed = _wait(child, start + CONFIG["wall_seconds"]), self.folder / "failed"
        seconds = round(time.monotonic() - start, 1)
        if code == 0:
            return Outcome("survived", "", seconds)
        if code in (None, -signal.SIGXCPU):
            return Outcome("timeout", "", seconds)
        return Outcome("killed", failed.read_text() if failed.exists() else f"exit code {code}", seconds)


def _without(room: str) -> list[str]:
    return CONFIG["rooms"][room].get("without", [])


class Recorder:
    """What pytest tells: the first test that fails, and seconds of each test."""

    def __init__(self, folder: Path, took: dict[str, float]):
        self.folder, self.took = folder, took
        self.seconds: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items):
        """Quick files first, and their quick tests."""
        of_file: Counter[str] = Counter()
        for item in items:
            of_file[item.nodeid.partition("::")[0]] += self.took.get(item.nodeid, 0.0)

        def place(item):
            file = item.nodeid.partition("::")[0]
            return of_file[file], file, self.took.get(item.nodeid, 0.0)

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


def _run_tests(folder: Path, tests: list[str], without: list[str], unchanged: Unchanged) -> None:
    """Runs pytest in a forked process, and ends that process with its exit code."""
    code = 70
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (unchanged.most, unchanged.most + 5))
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
        code = int(pytest.main([*options, *tests], plugins=[Recorder(folder, unchanged.took)]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
