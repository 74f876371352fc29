"""The payment of a run: every later error states it, where it is stored, and how to resume the run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.errors import LedgerError, LedgerUnusable, is_out_of_memory

if TYPE_CHECKING:
    from dpdistill.accounting.schedule import Budget
    from dpdistill.ledger.run import RunLedger

RESUME = "Run the same command again (in Python: make the same call): it resumes the run and pays nothing more."
REPEATED = (
    "The same command fails again until the cause of the error is removed; then it resumes and pays nothing more."
)
OTHER_SETTINGS = "Other settings of the last part can use the releases again at no cost: --from {}."
IN_MEMORY = (
    "Its releases were kept in memory only (run_dir=None): this run cannot be resumed, and another one pays again."
)
COMPLETE = "The result in {} is complete: do not pay for it again."
LOST_BY_THE_MACHINE = (OSError, sqlite3.Error)


@dataclass(eq=False)
class Payment:
    """The payment of one run, and the ledgers that store it.

    Args:
        budget: paid in full as soon as the first round is paid: stopping early saves nothing.
        run_dir: the owner's folder; None if the releases are kept in memory.
        ledger: the place of the data set's ledger, without a password, or None.
        run: the run's ledger, once it is open.
        released: whether all rounds are released.
        saved: the folder of the complete result, or None.
    """

    budget: Budget
    run_dir: Path | None
    ledger: str | None
    run: RunLedger | None = None
    released: bool = False
    saved: Path | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state without the open ledger, so that results can be copied."""
        return {**vars(self), "run": None}

    def made(self, error: BaseException) -> bool:
        """Returns whether a ledger on disk has, or may have, a payment of this run when an error ends the run."""
        if self.run is not None:
            return self.run.paid and bool(self.run_dir or self.ledger)
        return is_of_the_machine(error) and self._made_before()

    def _made_before(self) -> bool:
        """Returns whether an earlier start of an unfinished run may have paid, also if its ledger cannot be read."""
        from dpdistill.folder.layout import FINISHED
        from dpdistill.ledger.run import RunLedger  # this import needs SciPy, which refusals do not wait for

        if self.run_dir is None or (self.run_dir / FINISHED).exists():
            return False
        try:
            result = RunLedger.find(self.run_dir)
        except LedgerUnusable:
            return True
        except LedgerError:
            return False
        return result is not None and (self.ledger is not None or len(result.events) > 0)

    def resumes_after(self, error: BaseException) -> bool:
        """Returns whether the same command can resume the run after this error."""
        return self.saved is None and self.run_dir is not None and is_of_the_machine(error)

    def words(self, error: BaseException) -> str:
        """Returns the payment, where it is stored and what to do: public facts and the kind of the error only."""
        b, places = self.budget, [str(place) for place in (self.run_dir, self.ledger) if place]
        who = "An earlier start of this run has paid, or may have paid," if self.run is None else "This run has paid"
        paid = f"{who} epsilon = {b.epsilon:.10g} at delta = {b.delta:.10g} ({b.adjacency}); "
        paid += f"the payment is kept in {' and in '.join(places)}."
        if self.saved is not None:
            return f"{paid} {COMPLETE.format(self.saved)}"
        if self.run_dir is None:
            return f"{paid} {IN_MEMORY}"
        if self.resumes_after(error):
            return f"{paid} {RESUME}"
        other = f" {OTHER_SETTINGS.format(self.run_dir)}" if self.released else ""
        return f"{paid} {REPEATED}{other}"


_latest: Payment | None = None


def latest() -> Payment | None:
    """Returns the latest payment of this process; the command line prints it, whatever ended the command."""
    return _latest


def forget() -> None:
    """Forgets the latest payment when another command begins."""
    global _latest
    _latest = None


def expect(payment: Payment) -> None:
    """Registers a payment as the latest before anything is paid: an earlier start of the run may have paid."""
    global _latest
    _latest = payment


@contextmanager
def told(payment: Payment | None) -> Iterator[None]:
    """Adds the run's payment as a note to every exception raised inside the `with` block."""
    if payment is not None:
        expect(payment)
    try:
        yield
    except BaseException as error:
        if payment is not None and payment.made(error):
            words = payment.words(error)
            if words not in getattr(error, "__notes__", ()):
                error.add_note(words)
        raise


def is_of_the_machine(error: BaseException) -> bool:
    """Returns whether the machine caused an error, not the run: a full disk, too little memory, lost workers."""
    if isinstance(error, KeyboardInterrupt | SystemExit | ModuleNotFoundError) or hasattr(error, "of_the_machine"):
        return True
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, LOST_BY_THE_MACHINE) or is_out_of_memory(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
