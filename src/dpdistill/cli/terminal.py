"""Prints on the owner's terminal: results on stdout, as text or JSON; notes, progress and errors on stderr."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from threading import Timer, current_thread, main_thread
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpdistill.errors import DPDistillError, OutOfMemory, is_out_of_memory
from dpdistill.run import payment
from dpdistill.schema import hide_secrets

out = Console(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

WIDTH = 80
DONE, FAILED, REFUSED, CRASHED, NOT_COMPARED, PAID_RESUMABLE, PAID_FAILED, FULL = 0, 1, 2, 3, 4, 5, 6, 7
STOPPED, TERMINATED = 130, 143
"""Exit codes; docs/scripts.md explains them."""
EXTRAS = {
    **{"sklearn": "digits", "pandas": "tables", "pyarrow": "tables", "xgboost": "xgboost", "matplotlib": "plot"},
    **{"sqlalchemy": "sql", "psycopg": "sql", "duckdb": "sql", "duckdb_engine": "sql", "pydicom": "dicom"},
    **{"jax_privacy": "audit", "mbi": "marginals", "onnx": "onnx", "ray": "ray", "fsspec": "ray"},
}
"""Packages that a command may lack, and the extra that installs each."""


@dataclass
class _Mode:
    """Output mode and collected output of this command.

    Args:
        as_json: print the result as one JSON object on stdout, and lines on stderr.
        quiet: print no notes and no progress.
        lines: printed lines of the result.
        result: values of the result, by documented keys.
        terminated: True once the system has asked the command to end.
    """

    as_json: bool = False
    quiet: bool = False
    lines: list[str] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    terminated: bool = False


mode = _Mode()


def amount(size: float) -> str:
    """Returns bytes as "12 MiB" or "1.5 GiB", rounded up."""
    if size < 1 << 30:
        return f"{math.ceil(size / (1 << 20))} MiB"
    return f"{math.ceil(10 * size / (1 << 30)) / 10:g} GiB"


def epsilon_text(epsilon: float) -> str:
    """Returns an epsilon with four decimals, or four significant digits below 0.1, so that only 0 prints as 0."""
    return f"{epsilon:.4g}" if epsilon < 0.1 else f"{epsilon:.4f}"


def working(at: str) -> AbstractContextManager[Any]:
    """Returns a context with a spinner on a terminal, for work without steps to count."""
    return err.status(at) if err.is_terminal and not mode.quiet else nullcontext()


def table(*columns: str, title: str | None = None) -> Table:
    """Returns a table without lines, with plain-text cells."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def add_row(to: Table, *cells: str) -> None:
    to.add_row(*(escape(plain(cell)) for cell in cells))


def show_table(made: Table) -> None:
    """Prints a table of the result."""
    (err if mode.as_json else out).print(made, soft_wrap=False)


def say_table(header: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Prints a table of the result in 80 characters; further columns follow in tables below.

    Args:
        header: column headings, which are wrapped between words.
        rows: one text per column, which is not wrapped.
        title: title of the table.
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
    """Returns a text as one line, with unprintable characters escaped and database users and passwords removed."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in hide_secrets(" ".join(text.split())))


def say(text: str, mark: str = "", style: str | None = None) -> None:
    """Prints a line of the result after a styled mark."""
    to = err if mode.as_json else out
    mode.lines.append(f"{mark}{plain(text)}")
    if mark:
        to.print(mark, style=style, end="", markup=False)
    to.print(plain(text), markup=False)


def give(**result: Any) -> None:
    """Adds values to the JSON result, by the keys that docs/scripts.md lists."""
    mode.result |= result


def note(text: str) -> None:
    """Prints a note on stderr, unless --quiet is set."""
    if not mode.quiet:
        err.print(plain(text), markup=False)


def warn(text: str) -> None:
    """Prints a warning on stderr, even with --quiet."""
    err.print(plain(text), markup=False)


def fail(sentence: str) -> int:
    """Prints an error that the user can fix, and returns the exit code."""
    sentence = plain(sentence)
    warn(f"Error: {sentence}" if sentence.endswith((".", "?", "!")) else f"Error: {sentence}.")
    return REFUSED


def print_json(exit_code: int) -> None:
    """Prints the JSON object of --json on stdout; non-finite numbers become null."""
    text = json.dumps({"exit_code": exit_code, "text": mode.lines, **_finite(mode.result)}, indent=2, default=str)
    out.print(text, markup=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def crash(error: BaseException) -> int:
    """Prints the traceback of a program error, and asks for a report."""
    traceback.print_exception(error)
    warn("This is an error of the program, not yours: please report it with the lines above.")
    return CRASHED


def _lacking_device() -> str | None:
    """Returns the error for a machine without a device for JAX, whose exceptions differ by version; None otherwise."""
    import jax

    try:
        jax.devices()
    except Exception:
        stated = os.environ.get("JAX_PLATFORMS")
        where = f"on JAX_PLATFORMS={stated}, which this machine lacks" if stated else "on any device of this machine"
        return f"JAX cannot compute {where}: set JAX_PLATFORMS=cpu, or unset it. This command paid nothing."
    return None


class Terminated(KeyboardInterrupt):
    """Request of the system to end the program (SIGTERM)."""


def run_app(app: Callable[..., Any]) -> int:
    """Runs a command and returns its exit code; errors that a user can fix are one sentence and code 2.

    An error of the program prints a traceback and has code 3; a failed check has code 1. If a command ends after it
    has paid, the last line states what was paid, where the payment is recorded and how to resume.
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
    """Turns SIGTERM into an exception like Ctrl-C, unless a handler is installed already.

    Python drops exceptions in callbacks of the garbage collector, such as JAX's: a request to end is repeated.
    """

    def end(*_: object) -> None:
        mode.terminated = True
        raise Terminated

    def repeat(dropped: Any) -> None:
        if not isinstance(dropped.exc_value, KeyboardInterrupt):
            return shown(dropped)
        Timer(0.1, os.kill, [os.getpid(), signal.SIGTERM if mode.terminated else signal.SIGINT]).start()

    shown, sys.unraisablehook = sys.unraisablehook, repeat
    here = current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if here:
        signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        sys.unraisablehook = shown
        if here:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit_code(app: Callable[..., Any]) -> int:
    try:
        code = app(standalone_mode=False)
        code = code if isinstance(code, int) else DONE
        if code == STOPPED:  # Typer's exit code for Ctrl-C and for Terminated
            raise Terminated if mode.terminated else KeyboardInterrupt
        if mode.as_json:
            print_json(code)
        return code
    except BaseException as caught:
        # Typer turns Ctrl-C into Abort.
        error = caught.__cause__ if isinstance(caught, typer.Abort) and caught.__cause__ else caught
        code = CRASHED
        with suppress(OSError):  # the pipe may have no reader
            code = _say_error(error)
        return _after_payment(error, code)


def _after_payment(error: BaseException, code: int) -> int:
    """Prints what was paid before an error, and returns the exit code."""
    paid = payment.latest()
    if paid is None or not paid.made(error):
        if code in (STOPPED, TERMINATED):
            advice = "Nothing was paid." if paid is not None else "Give the same command again to start or resume it."
            warn(f"Stopped. {advice}")
        return code
    with suppress(OSError):
        warn(("Stopped. " if code in (STOPPED, TERMINATED) else "") + paid.words(error))
    if code in (STOPPED, TERMINATED, FULL):
        return code
    return PAID_RESUMABLE if paid.resumes_after(error) else PAID_FAILED


def _say_error(error: BaseException) -> int:
    """Prints an error on stderr, and returns the exit code for a command that paid nothing."""
    if isinstance(error, Terminated):
        return TERMINATED
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return STOPPED
    if isinstance(error, SystemExit):  # Typer's answer to a pipe without a reader
        return error.code if isinstance(error.code, int) else FAILED
    if isinstance(error, OutOfMemory):
        fail(str(error))
        return FULL
    if isinstance(error, ValueError):
        return fail(str(error))
    if isinstance(error, OSError):
        name = f": {error.filename}" if error.filename else ""
        return fail(f"{error.strerror or 'Input or output failed'}{name}")
    if is_out_of_memory(error):
        return fail("There is not enough memory for this.")
    if isinstance(error, ModuleNotFoundError):
        package = error.name or ""  # a missing module of an installed package is a program error
        if package in EXTRAS:
            return fail(f"This needs {package}: pip install 'dpdistill[{EXTRAS[package]}]'.")
        return crash(error)
    format_message = getattr(error, "format_message", None)
    if format_message is not None:
        sentence = format_message()
        return fail(sentence) if sentence else REFUSED  # a group without a command has shown its help
    if isinstance(error, DPDistillError):
        return fail(str(error))
    lacking = _lacking_device()
    return crash(error) if lacking is None else fail(lacking)
