"""Registers: data sets about the same persons, whose ledgers spend under one further cap."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpdistill.accounting.pld import compose
from dpdistill.errors import LedgerError
from dpdistill.ledger.dataset_rows import LedgerRun
from dpdistill.ledger.folder import NO_LOCKS

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

REGISTERS = "registers.toml"
"""File next to ledgers that states their registers."""
_FIELDS = {"cap", "delta", "ledgers"}


@dataclass(frozen=True)
class Register:
    """Data sets about the same persons.

    Args:
        name: its name in registers.toml.
        cap: the epsilon that all runs on its data sets may spend together.
        delta: the delta at which they are composed.
        ledgers: file names of the ledgers of its data sets.
        folder: folder of registers.toml and of these ledgers.
    """

    name: str
    cap: float
    delta: float
    ledgers: tuple[str, ...]
    folder: Path

    def spent(self, runs: Mapping[str, tuple[LedgerRun, ...]]) -> float:
        """Returns the composed epsilon of the runs of all ledgers; a person may be in every data set.

        Args:
            runs: the runs by file name of their ledger.

        Raises:
            LedgerError: runs of several relations or units, or a cost that cannot be composed.
        """
        budgets = [run.schedule.budget for name in self.ledgers for run in runs[name]]
        if len({(budget.adjacency, budget.unit) for budget in budgets}) > 1:
            raise LedgerError(
                f"The runs of the register {self.name!r} protect several units or relations, so they cannot be added"
                " up: state the same --unit-column and --adjacency in all of its data sets."
            )
        groups = [group for name in self.ledgers for run in runs[name] for group in run.schedule.groups]
        try:
            return compose(groups, self.delta, budgets[0].adjacency) if budgets else 0.0
        except ValueError as error:
            raise LedgerError(f"The spending of the register {self.name!r} cannot be composed: {error}") from None

    def admit(self, runs: Mapping[str, tuple[LedgerRun, ...]]) -> None:
        """Raises LedgerError if the runs of all ledgers exceed the cap."""
        if (spent := self.spent(runs)) > self.cap:
            together = f"With this run the register {self.name!r} would have spent epsilon={spent:.6g}"
            raise LedgerError(f"{together}, over its cap of {self.cap:g} in {self.folder / REGISTERS}.")


def read_registers(folder: Path) -> tuple[Register, ...]:
    """Returns the registers that registers.toml states in a folder; none without that file.

    The file has one table per register: `[cardiology]`, with `cap`, `delta` and `ledgers`, a list of file names.

    Raises:
        LedgerError: a file of another form, a cap or delta out of its bounds, or a ledger that is missing.
    """
    file = folder / REGISTERS
    if not os.path.lexists(file):
        return ()
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise LedgerError(f"Expected TOML in {file}; it cannot be read: {error}.") from None
    return tuple(_register(name, stated, folder) for name, stated in content.items())


def _register(name: str, stated: Any, folder: Path) -> Register:
    where = f"of the register {name!r:.60} in {folder / REGISTERS}"
    if not isinstance(stated, dict) or stated.keys() != _FIELDS:
        raise LedgerError(f"Expected cap, delta and ledgers {where}; it has other fields.")
    cap, delta, ledgers = stated["cap"], stated["delta"], stated["ledgers"]
    if isinstance(cap, bool) or not isinstance(cap, int | float) or not 0.0 < cap < math.inf:
        raise LedgerError(f"Expected 0 < cap < inf {where}; got {cap!r:.40}.")
    if not isinstance(delta, float) or not 0.0 < delta <= 0.01:
        raise LedgerError(f"Expected 0 < delta <= 0.01 {where}; got {delta!r:.40}.")
    if not isinstance(ledgers, list) or not ledgers or not all(isinstance(each, str) for each in ledgers):
        raise LedgerError(f"Expected a list of file names as ledgers {where}.")
    for each in ledgers:
        path = folder / each
        if path.name != each or not path.is_file() or path.is_symlink() or ledgers.count(each) > 1:
            raise LedgerError(f"Expected each of the ledgers once, as files of that folder, {where}; got {each!r:.80}.")
    return Register(name, float(cap), delta, tuple(ledgers), folder)


@contextmanager
def registers_of(file: Path, lock: bool = False) -> Iterator[tuple[Register, ...]]:
    """Yields the registers that have a ledger, locked against other payments until the end if asked.

    Args:
        file: the ledger.
        lock: wait for other payments in the registers of that folder, and keep new ones waiting.

    Raises:
        LedgerError: as `read_registers`, a system without file locks, or a link to a ledger next to registers.toml.
    """
    folder = file.resolve().parent
    if file.is_symlink() and os.path.lexists(file.absolute().parent / REGISTERS):
        raise LedgerError(f"Expected the ledger itself next to {REGISTERS}; {file} is a link: move the ledger there.")
    handle = _locked(folder / REGISTERS) if lock and os.path.lexists(folder / REGISTERS) else None
    try:
        yield tuple(each for each in read_registers(folder) if file.resolve().name in each.ledgers)
    finally:
        if handle is not None:
            os.close(handle)


def _locked(file: Path) -> int:
    """Returns a locked handle of registers.toml: of the present file, also if it was replaced during the wait."""
    if fcntl is None:
        raise LedgerError(NO_LOCKS)
    while True:
        try:
            handle = os.open(file, os.O_RDONLY)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(handle), os.stat(file)):
                return handle
        except OSError as error:
            raise LedgerError(f"{file} cannot be read: {error.strerror}.") from None
        os.close(handle)
