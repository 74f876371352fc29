"""Shows the account of an organisation: data sets, registers and payments, as tables and as a page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dpdistill.ledger.house import HouseSummary


class Part(NamedTuple):
    """A table of the account.

    Args:
        title: its heading.
        header: headings of its columns.
        rows: texts, one per column.
    """

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def house_summary(folder: str | os.PathLike) -> HouseSummary:
    """Returns the account of an organisation: all data sets' ledgers in a folder, and their registers.

    Args:
        folder: folder with ledgers, and with registers.toml where data sets are about the same persons; or a database
            of ledgers, postgresql://user@host/database.

    Returns:
        What each ledger and register spent, and every payment with its date and payer.

    Raises:
        LedgerError: a folder without ledgers, or a registers.toml that cannot be used.

    Example:
        >>> house_summary("ledgers").registers[0].spent  # doctest: +SKIP
        1.9
    """
    from dpdistill.errors import LedgerError
    from dpdistill.ledger.house import summarise, summarise_database
    from dpdistill.ledger.store import is_address

    if is_address(folder):
        return summarise_database(str(folder))
    path = Path(folder)
    if not path.is_dir():
        raise LedgerError(f"Expected a folder of ledgers at {path}; there is none.")
    return summarise(path)


def house_tables(summary: HouseSummary) -> list[Part]:
    """Returns the account as tables of texts: registers, data sets, payments, and ledgers that cannot be read."""
    of_ledger = {name: each.name for each in summary.registers for name in each.ledgers}
    registers = [
        (each.name, _number(each.spent), f"{each.cap:g}", f"{each.delta:g}", ", ".join(each.ledgers), each.fault)
        for each in summary.registers
    ]
    sets = [
        (name, of_ledger.get(name, ""), str(len(each.runs)), _number(each.spent), f"{each.cap:g}", _number(each.left),
         "" if each.delta is None else f"{each.delta:g}")
        for name, each in summary.ledgers.items()
    ]  # fmt: skip
    payments = [
        (run.date, name, run.label, run.payer, f"{run.schedule.budget.epsilon:.6g}", f"{run.schedule.budget.delta:g}")
        for name, run in summary.payments
    ]
    return [
        Part("Registers", ("register", "spent", "cap", "delta", "data sets", "fault"), registers),
        Part("Data sets", ("ledger", "register", "runs", "spent", "cap", "one more run", "delta"), sets),
        Part("Payments", ("date", "ledger", "run", "payer", "epsilon", "delta"), payments),
        Part("Ledgers that cannot be read", ("ledger", "fault"), [*summary.faults.items()]),
    ]


def write_house_page(folder: str | os.PathLike, page: str | os.PathLike) -> Path:
    """Writes the account of an organisation as one HTML file of mode 0600, for the owner alone.

    Args:
        folder: folder or database of ledgers.
        page: the new file, outside of shared folders; an existing one is replaced.

    Returns:
        The path of the page.

    Raises:
        LedgerError: as `house_summary`.
        DataError: the page cannot be written, or would lie in a shared folder.

    Example:
        >>> write_house_page("ledgers", "account.html")  # doctest: +SKIP
        PosixPath('account.html')
    """
    from dpdistill.folder.layout import CERTIFICATE
    from dpdistill.ledger.store import is_address
    from dpdistill.publish.templating import environment
    from dpdistill.schema import DataError
    from dpdistill.storage.atomic import write_atomically, writing

    path = Path(page)
    if any((above / CERTIFICATE).is_file() for above in path.resolve().parents):
        raise DataError("Expected --page outside of a shared folder: the account is the owner's.")
    template = environment("dpdistill.api", "dpdistill.audits").get_template("budget.html")
    name = "the database" if is_address(folder) else Path(folder).resolve().name
    html = template.render(folder=name, parts=house_tables(house_summary(folder)))
    with writing(path):
        write_atomically(path, lambda file: (os.fchmod(file.fileno(), 0o600), file.write(html.encode())))
    return path


def _number(epsilon: float | None) -> str:
    return "" if epsilon is None else f"{epsilon:.4f}"
