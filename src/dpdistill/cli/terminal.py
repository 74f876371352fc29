"""The owner's terminal: output, progress, and errors in one sentence."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from dpdistill.schema import hide_secrets

out = Console(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

SAY_EVERY = 60.0
STOPPED = 130


class Bar:
    """Progress with time left: rounds and steps of public loops, never records; without a terminal, a line a minute."""

    def __init__(self) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TextColumn("after"), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
            console=err, disable=not err.is_terminal,
        )  # fmt: skip
        self._tasks: dict[str, Any] = {}
        self._said = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(stage, total=total, completed=done)
            self._said = 0.0
        self._bar.update(self._tasks[stage], completed=done, total=total)
        if not err.is_terminal and (time.monotonic() - self._said > SAY_EVERY or done == total):
            err.print(f"{stage}: {done} of {total}")
            self._said = time.monotonic()

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def working(at: str) -> AbstractContextManager[Any]:
    """Something moves on a terminal while there is nothing to count."""
    return err.status(at) if err.is_terminal else nullcontext()


def table(*columns: str, title: str | None = None) -> Table:
    """A table without lines; cells are plain text."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def add_row(to: Table, *cells: str) -> None:
    to.add_row(*(escape(plain(cell)) for cell in cells))


def plain(text: str) -> str:
    """One line; what cannot be printed is escaped, and no address of a database shows who enters, or a password."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in hide_secrets(" ".join(text.split())))


def say(text: str) -> None:
    """A line of the result."""
    out.print(plain(text), markup=False)


def fail(sentence: str) -> int:
    """Say on stderr what a person can mend; the exit code."""
    sentence = plain(sentence)
    err.print(f"Error: {sentence}" if sentence.endswith((".", "?", "!")) else f"Error: {sentence}.", markup=False)
    return 2


def run_app(app: Callable[..., Any]) -> int:
    """Exit code of a command: errors a person can mend are one sentence and code 2, never a traceback."""
    try:
        code = app(standalone_mode=False)
    except ValueError as error:
        return fail(str(error))
    except OSError as error:
        name = f": {error.filename}" if error.filename else ""
        return fail(f"{error.strerror or 'Input or output failed'}{name}")
    except MemoryError:
        return fail("There is not enough memory for this.")
    except (KeyboardInterrupt, typer.Abort):
        code = STOPPED
    except Exception as error:
        format_message = getattr(error, "format_message", None)
        if format_message is not None:
            return fail(format_message())
        # Imported only here: JAX, which comes with it, takes longer than most commands.
        from dpdistill.private.curator import CuratorError

        if isinstance(error, CuratorError):
            return fail(str(error))
        raise
    if code == STOPPED:
        err.print("Stopped. A run of distill goes on where it stopped with the same command.")
    return code if isinstance(code, int) else 0
