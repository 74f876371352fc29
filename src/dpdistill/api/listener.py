"""Receives notes, warnings and progress of a running public function."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from dpdistill.method import Progress, no_progress

if TYPE_CHECKING:
    from dpdistill.accounting.schedule import Budget, Schedule
    from dpdistill.evaluation.tables import Told
    from dpdistill.run.forecast import Outlook

LOG = logging.getLogger("dpdistill")


class Listener:
    """Logs warnings and forwards progress; drops notes and result lines.

    Warnings are about public facts. Notes and lines may be about private records, and other people may read a log:
    only a listener of the owner shows them, such as that of the command line, which prints. Functions return results.

    Args:
        progress: called with the stage, the number of steps done and their total.
    """

    def __init__(self, progress: Progress = no_progress) -> None:
        self._progress = progress

    def line(self, text: str) -> None:
        """Receives a line of the result, which may be about private records."""

    def note(self, text: str) -> None:
        """Receives a note on the work, which may be about private records."""

    def warn(self, text: str) -> None:
        """Receives a warning about public facts."""
        LOG.warning(text)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Receives a table of the result, which may be about private records."""

    def caution(self, budget: Budget) -> None:
        """Warns of a large delta before the budget is spent."""
        if budget.caution is not None:
            self.warn(budget.caution)

    def scheduled(self, schedule: Schedule) -> None:
        """Receives the releases of a run and their noise, before a record is read."""

    def planned(self, outlook: Outlook) -> None:
        """Receives how large the noise of a run is compared with one class, before anything is paid."""

    def working(self, text: str) -> AbstractContextManager[Any]:
        """Returns a context around work without steps to count."""
        return nullcontext()

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """Yields a function that receives a stage, the number of steps done and their total."""
        yield self._progress

    @contextmanager
    def classifiers(self) -> Iterator[Told]:
        """Yields a function that receives a classifier's score, the names of its values and the share of work done."""
        yield lambda score, metrics, done: None


SILENT = Listener()
