"""The tables of a data set's ledger: its terms, its runs, and their chain."""

from __future__ import annotations

import math
import secrets
import sqlite3
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path

from dpdistill.accounting.schedule import Schedule
from dpdistill.errors import LedgerError
from dpdistill.ledger import chain
from dpdistill.ledger.chain import Entry
from dpdistill.ledger.database import Tables, check_format
from dpdistill.ledger.dataset_file import damaged
from dpdistill.ledger.folder import KEY_BYTES

Nonces = tuple[str, str]
"""Nonces in a run's ledger: for the round before the last, and for the last."""

FORMAT, WITHOUT_CHAIN = 0x64700005, 0x64700004
"""Formats of the file: with a chain, and of earlier versions. The first command that writes adds the chain."""
TABLES = (
    "CREATE TABLE ledger (id INTEGER PRIMARY KEY CHECK (id = 1), cap REAL NOT NULL, key BLOB NOT NULL, digest BLOB)",
    "CREATE TABLE runs (number INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, label TEXT NOT NULL,"
    " date TEXT NOT NULL, schedule TEXT NOT NULL, nonce TEXT NOT NULL, payer TEXT NOT NULL)",
    chain.TABLE,
)


@dataclass(frozen=True)
class LedgerRun:
    """One run in a data set's ledger: its label, its cost, the nonce of its latest round, and who paid.

    `payer` is the user's name on the paying machine; empty for runs of earlier versions.
    """

    run_id: str
    label: str
    date: str
    schedule: Schedule
    nonce: str
    payer: str = ""


def first(cap: float) -> Iterable[tuple[str, tuple]]:
    """Returns the statements that fill the tables of a new ledger, and their values."""
    begin = chain.entry_after((), chain.BEGIN, "", (repr(cap),))
    return (
        ("INSERT INTO ledger VALUES (1, ?, ?, NULL)", (cap, secrets.token_bytes(KEY_BYTES))),
        ("INSERT INTO chain VALUES (?, ?, ?, ?, ?)", astuple(begin)),
    )


def check_formats(db: sqlite3.Connection, file: Path | str) -> None:
    """Raises LedgerError for a file that is neither of the present format nor of the one without a chain."""
    if not _lacks_chain(db):
        check_format(db, file, FORMAT)


def _lacks_chain(db: Tables) -> bool:
    if getattr(db, "always_chained", False):
        return False
    return db.execute("PRAGMA user_version").fetchone()[0] == WITHOUT_CHAIN


def terms(db: Tables, file: Path | str) -> tuple[float, bytes, bytes | None]:
    """Returns (cap, key, digest of the records) of a ledger.

    Raises:
        LedgerError: the ledger has no cap or no key.
    """
    found = db.execute("SELECT cap, key, digest FROM ledger").fetchall()
    cap, key, digest = found[0] if len(found) == 1 else (None, None, None)
    if not isinstance(cap, float) or not 0.0 < cap < math.inf or not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise LedgerError(damaged(file, "it has no cap or no key"))
    return cap, key, digest


def runs(db: Tables) -> tuple[LedgerRun, ...]:
    """Returns the runs in the order of payment.

    Raises:
        LedgerError: a run without a schedule.
    """
    payer = "''" if _lacks_chain(db) else "payer"
    found = db.execute(f"SELECT run_id, label, date, schedule, nonce, {payer} FROM runs ORDER BY number").fetchall()
    try:
        return tuple(
            LedgerRun(run_id, label, date, Schedule.from_json(schedule), nonce, payer)
            for run_id, label, date, schedule, nonce, payer in found
        )
    except (KeyError, TypeError, ValueError):
        raise LedgerError("The data set's ledger is damaged: a run in it has no schedule.") from None


def add_run(db: Tables, run: LedgerRun) -> None:
    """Adds a run and its entry in the chain, inside a transaction that writes."""
    facts = (run.label, run.date, run.schedule.to_json(), run.payer)
    number = db.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM runs").fetchone()[0]
    columns = "number, run_id, label, date, schedule, payer, nonce"
    db.execute(f"INSERT INTO runs ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", (number, run.run_id, *facts, run.nonce))
    chain.append(db, chain.RUN, run.run_id, facts)


def complete(db: Tables, run_id: str) -> str:
    """Returns the head of the entry that completes a run; adds the entry if there is none."""
    where = (chain.COMPLETE, run_id)
    found = db.execute("SELECT head FROM chain WHERE kind = ? AND run_id = ?", where).fetchone()
    return found[0] if found else chain.append(db, *where)


def add_chain(db: Tables, file: Path | str) -> None:
    """Adds the chain to a ledger of an earlier version, inside a transaction that writes: one entry per paid run.

    Runs that were complete before are completed when they are resumed; their earlier certificates state no head.
    """
    if not _lacks_chain(db):
        return
    db.execute("ALTER TABLE runs ADD COLUMN payer TEXT NOT NULL DEFAULT ''")
    db.execute(chain.TABLE)
    chain.append(db, chain.BEGIN, "", (repr(terms(db, file)[0]),))
    for run_id, facts in _facts(db).items():
        chain.append(db, chain.RUN, run_id, facts)
    db.execute(f"PRAGMA user_version = {FORMAT}")


def checked_chain(db: Tables, cap: float, file: Path | str) -> tuple[Entry, ...]:
    """Returns the chain; none for a ledger of an earlier version.

    Raises:
        LedgerError: the runs are not those of the chain.
    """
    if _lacks_chain(db):
        return ()
    entries = chain.read(db)
    chain.check(entries, cap, _facts(db), file)
    return entries


def _facts(db: Tables) -> dict[str, tuple[str, ...]]:
    """Returns label, date, schedule and payer by run, in the order of payment, as the chain hashes them."""
    found = db.execute("SELECT run_id, label, date, schedule, payer FROM runs ORDER BY number").fetchall()
    return {run_id: tuple(facts) for run_id, *facts in found}
