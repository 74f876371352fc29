"""Prints notes, warnings and progress of a public function on the owner's terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from dpdistill.api.listener import Listener
from dpdistill.cli.terminal import Bar, note, say, say_table, time_left, warn, working
from dpdistill.method import Progress

if TYPE_CHECKING:
    from dpdistill.accounting.schedule import Budget
    from dpdistill.evaluation.tables import ClassifierScore, Told
    from dpdistill.run.outlook import Outlook


class Terminal(Listener):
    """Prints results on stdout, and notes, warnings and progress on stderr.

    Args:
        speak: prints the public forecast of a run before the run is paid.
    """

    def __init__(self, speak: Callable[[str], None] = note) -> None:
        super().__init__()
        self._speak = speak

    def line(self, text: str) -> None:
        say(text)

    def note(self, text: str) -> None:
        note(text)

    def warn(self, text: str) -> None:
        warn(text)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        say_table(header, rows)

    def caution(self, budget: Budget) -> None:
        from dpdistill.cli.outlook import say_caution

        say_caution(budget)

    def planned(self, outlook: Outlook) -> None:
        from dpdistill.cli.outlook import say_outlook

        say_outlook(outlook, self._speak)

    def working(self, text: str) -> AbstractContextManager[Any]:
        return working(text)

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        with Bar() as bar:
            yield bar

    @contextmanager
    def classifiers(self) -> Iterator[Told]:
        started = time.monotonic()

        def show(score: ClassifierScore, metrics: tuple[str, ...], done: float) -> None:
            spent = time.monotonic() - started
            values = ", ".join(f"{name} {value:.3f}" for name, value in zip(metrics, score.values, strict=True))
            note(f"{score.name}: {values}{time_left(spent, done, 1 - done)}")

        yield show
