"""Everything that leaves a run: its result, its files, its states, and what it says in any way."""

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
"""Packages whose log tells when they compile or start, which a second run in a process does not do again."""
DEPRECATED = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
"""Warnings about code, not about data: Python shows them where it is compiled."""
Observation = dict[str, str]
"""Digests of what leaves a run, by what they are digests of."""


@dataclass
class _Heard:
    """What a run says, in order."""

    printed: io.StringIO = field(default_factory=io.StringIO)
    log: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    progress: list[tuple] = field(default_factory=list)


def observe(
    procedure: Procedure, records: Records, tape: Tape, progress: Progress = no_progress, **paid: Any
) -> tuple[run.Result | None, Observation]:
    """Run a procedure and keep a digest of everything that leaves it.

    Args:
        procedure: what is run.
        records: the records of this run.
        tape: records the releases, or hands out recorded ones.
        progress: told the rounds and steps of the run.
        paid: what else `run.distill` takes.

    Returns:
        The result, None if there was an error, and the digests. An error is one of them.
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
    """Returns what is not the same in two observations, or is in one of them alone."""
    names = dict.fromkeys((*one, *other))
    return tuple(name for name in names if one.get(name) != other.get(name))


def _of_result(result: run.Result, folder: Path) -> Observation:
    """Digests of the parts of a result, and of every file of the shared folder, with its name."""
    whole = replace(result, run_dir=None, payment=None)
    seen = {f"result.{f.name}": digest(getattr(whole, f.name)) for f in fields(whole) if f.name != "distilled"}
    made = whole.distilled
    seen |= {f"distilled.{f.name}": digest(getattr(made, f.name)) for f in fields(made)}
    path = whole.save(folder)
    files = (p for p in sorted(path.rglob("*")) if p.is_file())
    return seen | {str(p.relative_to(path)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def _anywhere(value: object, folder: str) -> Any:
    """The same words with one name for the temporary folder."""
    if isinstance(value, list):
        return [_anywhere(item, folder) for item in value]
    if isinstance(value, tuple):
        return tuple(_anywhere(item, folder) for item in value)
    return value.replace(folder, "FOLDER") if isinstance(value, str) else value


class _Listener(logging.Handler):
    """Keeps what is logged at every level."""

    def __init__(self, log: list[str]) -> None:
        super().__init__(logging.NOTSET)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.split(".")[0] not in SILENCED:
            self._log.append(f"{record.name} {record.levelname} {record.getMessage()}")


@contextlib.contextmanager
def _logging_to(handler: logging.Handler) -> Iterator[None]:
    """Everything that is logged goes to one handler and nowhere else."""
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
    """Returns what is printed, logged, warned of and told as progress inside; the owner's progress is shown as ever."""
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
