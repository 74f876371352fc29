"""Runs a suite in a pool of processes, one process per run; skips finished runs."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any

from dpdistill.schema import DataError
from dpdistill.storage.files import reading, show

Work = Callable[..., dict[str, Any]]
Begin = Callable[[], None]
Tell = Callable[[dict[str, Any], int, int, float], None]
"""Type of a callback (line, done, total, seconds left)."""
_OF_A_RESULT = {"run", "release", "scores", "seconds"}


def read_lines(path: Path) -> dict[str, dict[str, Any]]:
    """Returns lines of results by name of their run; the last line of a name counts, and incomplete lines do not.

    Raises:
        DataError: a file that cannot be read, or that holds other text.
    """
    found = {}
    with reading(path):
        content = path.read_text()
    for number, text in enumerate(content.splitlines(keepends=True), 1):
        if not text.endswith("\n"):  # the incomplete line of a killed process
            continue
        try:
            line = json.loads(text)
            if line["error"] is None and not line.keys() >= _OF_A_RESULT:
                raise KeyError
            found[line["name"]] = line
        except (ValueError, TypeError, KeyError):
            raise DataError(f"Expected a result in JSON in line {number} of {show(path)}; there is none.") from None
    return found


def run_all(
    tasks: list[tuple[str, str, tuple]], work: Work, results: Path, jobs: int, tell: Tell, begin: Begin
) -> None:
    """Executes all tasks without a result, and failed ones again, and appends a line for each.

    Args:
        tasks: (name, release, arguments) of every run; two of one release never run at a time.
        work: returns a line from the arguments, in a new process.
        results: file of lines, created if missing.
        jobs: number of processes at a time, >= 1.
        tell: receives every line.
        begin: first function called in every process.
    """
    results.touch()
    _drop_half_line(results)
    known = read_lines(results)
    waiting = [task for task in tasks if known.get(task[0], {"error": "missing"})["error"] is not None]
    total, began, left = len(tasks), time.monotonic(), len(waiting)
    busy: dict[Any, tuple[str, str, Any]] = {}
    context = get_context("spawn")
    try:
        while waiting or busy:
            for task in waiting[:]:
                name, release, arguments = task
                if len(busy) < jobs and release not in (other for _, other, _ in busy.values()):
                    waiting.remove(task)
                    ours, theirs = context.Pipe(duplex=False)
                    process = context.Process(target=_child, args=(theirs, work, arguments, begin), daemon=True)
                    process.start()
                    theirs.close()
                    busy[ours] = (name, release, process)
            for ours in connection.wait(list(busy)):
                line = _result(ours, *busy.pop(ours))
                with results.open("a") as file:
                    file.write(json.dumps(line, allow_nan=False) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                running = len(waiting) + len(busy)
                spent = time.monotonic() - began
                tell(line, total - running, total, spent / (left - running) * running)
    finally:
        for _, _, process in busy.values():
            process.kill()


def _drop_half_line(results: Path) -> None:
    """Removes the incomplete last line of a killed process."""
    content = results.read_bytes()
    if whole := content.rfind(b"\n") + 1:
        os.truncate(results, whole)
    else:
        os.truncate(results, 0)


def _result(ours: Any, name: str, _: str, process: Any) -> dict[str, Any]:
    """Returns the line that a process sent, or a line with the process's exit code."""
    try:
        line = ours.recv()
        process.join()
    except (EOFError, OSError):  # it sent nothing, or was killed while it did
        process.join()
        line = {"name": name, "error": f"its process ended with exit code {process.exitcode}"}
    ours.close()
    return line


def _child(theirs: Any, work: Work, arguments: tuple, begin: Begin) -> None:
    """Runs in the new process; ends with its parent, and leaves messages on interrupts to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
    begin()
    theirs.send(work(*arguments))
