"""What a public function tells its caller while it works: notes, warnings, progress."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from dpdistill.method import Progress, no_progress

if TYPE_CHECKING:
    from dpdistill.accounting.schedule import Budget
    from dpdistill.evaluation.tables import Told
    from dpdistill.run.outlook import Outlook

LOG = logging.getLogger("dpdistill")


class Listener:
    """Passes notes and warnings on to the logger "dpdistill", and progress to a function.

    The command line has a listener of its own that prints.

    Args:
        progress: called with the stage, the number of steps done and their total.
    """

    def __init__(self, progress: Progress = no_progress) -> None:
        self._progress = progress

    def line(self, text: str) -> None:
        """A sentence of the result."""
        LOG.info(text)

    def note(self, text: str) -> None:
        """A sentence about how the work is done."""
        LOG.info(text)

    def warn(self, text: str) -> None:
        """A sentence that no caller may miss."""
        LOG.warning(text)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table of the result."""
        for row in rows:
            LOG.info(", ".join(f"{name} {cell}" for name, cell in zip(header, row, strict=True)))

    def caution(self, budget: Budget) -> None:
        """Warns of a large delta, before it is spent."""
        if budget.caution is not None:
            self.warn(budget.caution)

    def planned(self, outlook: Outlook) -> None:
        """What is public about a run, before anything is paid."""
        LOG.info("%d releases at epsilon %g", outlook.schedule.rounds, outlook.schedule.budget.epsilon)

    def working(self, text: str) -> AbstractContextManager[Any]:
        """A context during which something is done that has no steps to count."""
        return nullcontext()

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """A context with a function of a stage, the number of steps done and their total."""
        yield self._progress

    @contextmanager
    def classifiers(self) -> Iterator[Told]:
        """A context with a function of a classifier's score, the names of its values and the share of work done."""
        yield lambda score, metrics, done: None


SILENT = Listener()
