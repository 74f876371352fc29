"""Observes all outputs of a run: result, files, states, printed text, logs and warnings."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from dpdistill import run
from dpdistill.audits.digest import digest
from dpdistill.audits.replay import Procedure, Tape
from dpdistill.method import Progress, no_progress
from dpdistill.storage.records import Records

SILENCED = ("jax", "absl", "asyncio", "matplotlib", "PIL")
"""Packages whose log reports compilation or start, which a second run in a process does not repeat."""
DEPRECATED = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
"""Warnings about code, not about data, which Python shows at compilation."""
Observation = dict[str, str]
"""Type of an observation: digests of a run's outputs by name."""


@dataclass
class _Heard:
    """Printed text, log lines, warnings and progress of a run, in order."""

    printed: io.StringIO = field(default_factory=io.StringIO)
    log: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    progress: list[tuple] = field(default_factory=list)


def observe(
    procedure: Procedure, records: Records, tape: Tape, progress: Progress = no_progress, **paid: Any
) -> tuple[run.Result | None, Observation]:
    """Runs a procedure, and digests all its outputs.

    Args:
        procedure: what is run.
        records: the records of this run.
        tape: records the releases, or replays recorded ones.
        progress: receives the rounds and steps of the run.
        paid: further arguments of `run.distill`.

    Returns:
        The result, None after an error, and the digests, including that of an error.
    """
    with tempfile.TemporaryDirectory() as folder, _hearing() as (heard, tell):
        result, seen = None, {}
        try:
            result = procedure(records, tape.parts, tell(progress), **paid)
            seen = _of_result(result, Path(folder) / "shared")
        except Exception as error:
            if tape.records:
                raise
            seen["an error"] = digest((type(error).__qualname__, str(error)))
    said = {
        "printed text": heard.printed.getvalue(),
        "the log": heard.log,
        "warnings": heard.warned,
        "the progress": heard.progress,
    }
    told = {name: digest(_anywhere(value, folder)) for name, value in said.items()}
    return result, {**tape.seen, **seen, **told}


def differences(one: Observation, other: Observation) -> tuple[str, ...]:
    """Returns the names of outputs that differ between two observations, or are in only one."""
    names = dict.fromkeys((*one, *other))
    return tuple(name for name in names if one.get(name) != other.get(name))


def _of_result(result: run.Result, folder: Path) -> Observation:
    """Returns digests of the parts of a result, and of every file of the shared folder by name.

    The head of a data set's ledger is left out: it is drawn anew by the ledger, from random bytes alone.
    """
    whole = replace(result, run_dir=None, payment=None, ledger_head=None)
    seen = {f"result.{f.name}": digest(getattr(whole, f.name)) for f in fields(whole) if f.name != "distilled"}
    made = whole.distilled
    seen |= {f"distilled.{f.name}": digest(getattr(made, f.name)) for f in fields(made)}
    path = whole.save(folder)
    files = (p for p in sorted(path.rglob("*")) if p.is_file())
    return seen | {str(p.relative_to(path)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def _anywhere(value: object, folder: str) -> Any:
    """Replaces the name of the temporary folder by a fixed name."""
    if isinstance(value, list):
        return [_anywhere(item, folder) for item in value]
    if isinstance(value, tuple):
        return tuple(_anywhere(item, folder) for item in value)
    return value.replace(folder, "FOLDER") if isinstance(value, str) else value


class _Listener(logging.Handler):
    """Handler that keeps log lines of every level."""

    def __init__(self, log: list[str]) -> None:
        super().__init__(logging.NOTSET)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.split(".")[0] not in SILENCED:
            self._log.append(f"{record.name} {record.levelname} {record.getMessage()}")


@contextlib.contextmanager
def _logging_to(handler: logging.Handler) -> Iterator[None]:
    """Redirects all logging to one handler."""
    loggers = (logging.getLogger(), logging.getLogger("dpdistill"))
    kept = [(logger, logger.handlers, logger.level, logger.propagate) for logger in loggers]
    try:
        for logger in loggers:
            logger.handlers, logger.propagate = [], True
            logger.setLevel(logging.DEBUG)
        loggers[0].handlers = [handler]
        yield
    finally:
        for logger, handlers, level, propagate in kept:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)


@contextlib.contextmanager
def _hearing() -> Iterator[tuple[_Heard, Any]]:
    """Captures printed text, logs, warnings and progress; the owner's progress is still shown."""
    heard, terminal = _Heard(), (sys.stdout, sys.stderr)

    def tell(progress: Progress) -> Progress:
        def told(stage: str, done: int, total: int) -> None:
            heard.progress.append((stage, done, total))
            with contextlib.redirect_stdout(terminal[0]), contextlib.redirect_stderr(terminal[1]):
                progress(stage, done, total)

        return told

    with (
        contextlib.redirect_stdout(heard.printed),
        contextlib.redirect_stderr(heard.printed),
        warnings.catch_warnings(record=True) as warned,
        _logging_to(_Listener(heard.log)),
    ):
        warnings.simplefilter("always")
        yield heard, tell
        heard.warned += [f"{w.category.__qualname__}: {w.message}" for w in warned if w.category not in DEPRECATED]
