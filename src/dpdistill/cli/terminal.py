"""The owner's terminal: results on stdout, as text or JSON; notes, progress and errors in one sentence on stderr."""

from __future__ import annotations

import json
import math
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from threading import current_thread, main_thread
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from dpdistill.errors import DPDistillError
from dpdistill.run import payment
from dpdistill.schema import hide_secrets

out = Console(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

WIDTH = 80
SAY_EVERY = 60.0
SLOWEST = " (the first is often the slowest)"
DONE, FAILED, REFUSED, CRASHED, NOT_COMPARED, PAID_RESUMABLE, PAID_FAILED = 0, 1, 2, 3, 4, 5, 6
STOPPED, TERMINATED = 130, 143
"""Exit codes: docs/scripts.md tells what each means."""
EXTRAS = {
    **{"sklearn": "digits", "pandas": "tables", "pyarrow": "tables", "xgboost": "xgboost", "matplotlib": "plot"},
    **{"sqlalchemy": "sql", "psycopg": "sql", "duckdb": "sql", "duckdb_engine": "sql", "pydicom": "dicom"},
    **{"jax_privacy": "audit", "ray": "ray", "fsspec": "ray"},
}
"""Packages that a command may lack, and the extra that installs each."""


@dataclass
class _Mode:
    """How this command speaks.

    Args:
        as_json: its result is one JSON object on stdout, and its lines go to stderr.
        quiet: no notes and no progress.
        lines: what it said of its result.
        result: what it found, by documented keys.
        terminated: the system has asked it to end.
    """

    as_json: bool = False
    quiet: bool = False
    lines: list[str] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    terminated: bool = False


mode = _Mode()


class Bar:
    """Progress with time left: rounds and steps of public loops, never records.

    Without a terminal it is a line at the beginning, one after the first step where there is time left to tell of, one
    a minute, and one at the end.
    """

    def __init__(self) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TextColumn("after"), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
            console=err, disable=not err.is_terminal or mode.quiet,
        )  # fmt: skip
        self._tasks: dict[str, Any] = {}
        self._said = 0.0
        self._start = (0.0, 0)
        self._estimated = False
        self._first = True

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(stage, total=total, completed=done)
            self._said, self._start, self._estimated, self._first = 0.0, (now, done), False, True
        self._bar.update(self._tasks[stage], completed=done, total=total)
        if err.is_terminal or mode.quiet:
            return
        left = time_left(now - self._start[0], done - self._start[1], total - done)
        if now - self._said > SAY_EVERY or done == total or (left and not self._estimated):
            err.print(f"{stage}: {done} of {total}{left}{SLOWEST if left and self._first else ''}")
            self._said, self._estimated = now, bool(left)
        if self._first and done > self._start[1]:
            self._start, self._first = (now, done), False

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def time_left(spent: float, done: float, left: float) -> str:
    """ ", about 3 minutes left" from the seconds that a part took; nothing where it is less than SAY_EVERY."""
    seconds = spent * left / done if done > 0 else 0.0
    return "" if seconds < SAY_EVERY else f", about {duration(seconds)} left"


def duration(seconds: float) -> str:
    """ "40 seconds", "3 minutes" from one minute on, "3 hours" from two hours on; rounded up."""
    count, unit = (seconds / 3600, "hour") if seconds >= 2 * 3600 else (seconds / 60, "minute")
    count, unit = (seconds, "second") if seconds < 60 else (count, unit)
    return f"{math.ceil(count)} {unit}{'s' if count > 1 else ''}"


def amount(size: float) -> str:
    """Bytes as "12 MiB" or "1.5 GiB", rounded up."""
    if size < 1 << 30:
        return f"{math.ceil(size / (1 << 20))} MiB"
    return f"{math.ceil(10 * size / (1 << 30)) / 10:g} GiB"


def epsilon_text(epsilon: float) -> str:
    """An epsilon with four decimals; one below 0.1 with four significant digits, so that none above 0 reads as 0."""
    return f"{epsilon:.4g}" if epsilon < 0.1 else f"{epsilon:.4f}"


def working(at: str) -> AbstractContextManager[Any]:
    """Something moves on a terminal while there is nothing to count."""
    return err.status(at) if err.is_terminal and not mode.quiet else nullcontext()


def table(*columns: str, title: str | None = None) -> Table:
    """A table without lines; cells are plain text."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def add_row(to: Table, *cells: str) -> None:
    to.add_row(*(escape(plain(cell)) for cell in cells))


def show_table(made: Table) -> None:
    """A table of the result."""
    (err if mode.as_json else out).print(made, soft_wrap=False)


def say_table(header: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """A table of the result in 80 columns: those beyond come in a table below, beside the first column again.

    Args:
        header: of the columns; it is wrapped between its words.
        rows: a text a column, which is not wrapped.
        title: of the table.
    """
    rows = [[plain(cell) for cell in row] for row in rows]
    names = [plain(name) for name in header]
    words = [max(map(len, name.split()), default=0) for name in names]
    widths = [max(words[k], *(len(row[k]) for row in rows), 1) for k in range(len(names))]
    waiting = list(range(1, len(names)))
    while waiting:
        used, room = [0], WIDTH - widths[0]
        while waiting and (len(used) == 1 or room >= widths[waiting[0]] + 2):
            used.append(waiting.pop(0))
            room -= widths[used[-1]] + 2
        made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for k in used:
            made.add_column(escape(names[k]), width=widths[k], overflow="fold")
        for row in rows:
            made.add_row(*(escape(row[k]) for k in used))
        show_table(made)
        title = None
        if waiting:
            say("")


def plain(text: str) -> str:
    """One line; what cannot be printed is escaped, and no address of a database shows who enters, or a password."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in hide_secrets(" ".join(text.split())))


def say(text: str, mark: str = "", style: str | None = None) -> None:
    """A line of the result, after a mark in a style of its own."""
    to = err if mode.as_json else out
    mode.lines.append(f"{mark}{plain(text)}")
    if mark:
        to.print(mark, style=style, end="", markup=False)
    to.print(plain(text), markup=False)


def give(**result: Any) -> None:
    """What a command found, by the keys that docs/scripts.md lists: --json prints it."""
    mode.result |= result


def note(text: str) -> None:
    """A line beside the result, which --quiet leaves out."""
    if not mode.quiet:
        err.print(plain(text), markup=False)


def warn(text: str) -> None:
    """A line beside the result that --quiet does not leave out."""
    err.print(plain(text), markup=False)


def fail(sentence: str) -> int:
    """Say on stderr what a person can mend; the exit code."""
    sentence = plain(sentence)
    warn(f"Error: {sentence}" if sentence.endswith((".", "?", "!")) else f"Error: {sentence}.")
    return REFUSED


def print_json(exit_code: int) -> None:
    """The one object of --json on stdout; numbers that are not finite are null."""
    text = json.dumps({"exit_code": exit_code, "text": mode.lines, **_finite(mode.result)}, indent=2, default=str)
    out.print(text, markup=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def crash(error: BaseException) -> int:
    """Prints the traceback of an exception, and whose mistake it is."""
    traceback.print_exception(error)
    warn("This is a mistake of the program, not yours: please report it with the lines above.")
    return CRASHED


def _lacking_device() -> str | None:
    """The sentence for a machine on which JAX finds no device, whose exceptions differ by version; None if it does."""
    import jax

    try:
        jax.devices()
    except Exception:
        stated = os.environ.get("JAX_PLATFORMS")
        where = f"on JAX_PLATFORMS={stated}, which this machine lacks" if stated else "on any device of this machine"
        return f"JAX cannot compute {where}: set JAX_PLATFORMS=cpu, or leave it out. This command paid nothing."
    return None


class Terminated(KeyboardInterrupt):
    """The system asks the program to end (SIGTERM)."""


def run_app(app: Callable[..., Any]) -> int:
    """Exit code of a command: errors a person can mend are one sentence and code 2, never a traceback.

    A traceback is a mistake of the program, code 3: a script tells it from a check that failed, code 1. Whatever ends a
    command after it has paid, the last line says what was paid, where it is kept and how to resume.
    """
    payment.forget()
    try:
        with _ends_in_order():
            return _exit_code(app)
    finally:
        payment.forget()
        mode.as_json, mode.quiet, mode.lines, mode.result, mode.terminated = False, False, [], {}, False


@contextmanager
def _ends_in_order() -> Iterator[None]:
    """Makes SIGTERM an exception, as Ctrl-C is one, unless somebody else handles it."""

    def end(*_: object) -> None:
        mode.terminated = True
        raise Terminated

    here = current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if here:
        signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        if here:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit_code(app: Callable[..., Any]) -> int:
    try:
        code = app(standalone_mode=False)
        code = code if isinstance(code, int) else DONE
        if code == STOPPED:  # Typer's answer to Ctrl-C, and to what ends the program as that does
            raise Terminated if mode.terminated else KeyboardInterrupt
        if mode.as_json:
            print_json(code)
        return code
    except BaseException as caught:
        # Typer makes an Abort of Ctrl-C.
        error = caught.__cause__ if isinstance(caught, typer.Abort) and caught.__cause__ else caught
        code = CRASHED
        with suppress(OSError):  # nobody may be there to read it
            code = _say_error(error)
        return _after_payment(error, code)


def _after_payment(error: BaseException, code: int) -> int:
    """The exit code of an error once something was paid, which is said."""
    paid = payment.latest()
    if paid is None or not paid.made(error):
        if code in (STOPPED, TERMINATED):
            said = "Nothing was paid." if paid is not None else "Give the same command again to start or resume it."
            warn(f"Stopped. {said}")
        return code
    with suppress(OSError):
        warn(("Stopped. " if code in (STOPPED, TERMINATED) else "") + paid.words(error))
    if code in (STOPPED, TERMINATED):
        return code
    return PAID_RESUMABLE if paid.resumes_after(error) else PAID_FAILED


def _say_error(error: BaseException) -> int:
    """Says on stderr what went wrong; the exit code where nothing was paid."""
    if isinstance(error, Terminated):
        return TERMINATED
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return STOPPED
    if isinstance(error, SystemExit):  # Typer's answer to a pipe that nobody reads
        return error.code if isinstance(error.code, int) else FAILED
    if isinstance(error, ValueError):
        return fail(str(error))
    if isinstance(error, OSError):
        name = f": {error.filename}" if error.filename else ""
        return fail(f"{error.strerror or 'Input or output failed'}{name}")
    if isinstance(error, MemoryError) or payment.is_out_of_memory(error):
        return fail("There is not enough memory for this.")
    if isinstance(error, ModuleNotFoundError):
        package = error.name or ""  # a part that an installed package lacks is another matter
        if package in EXTRAS:
            return fail(f"This needs {package}: pip install 'dpdistill[{EXTRAS[package]}]'.")
        return crash(error)
    format_message = getattr(error, "format_message", None)
    if format_message is not None:
        said = format_message()
        return fail(said) if said else REFUSED  # a group without a command has shown its help
    if isinstance(error, DPDistillError):
        return fail(str(error))
    lacking = _lacking_device()
    return crash(error) if lacking is None else fail(lacking)
