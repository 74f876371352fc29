"""The chain of a data set's ledger: each entry hashes the one before, so the ledger cannot be shortened unseen.

An entry holds 32 random bytes, and hashes what the ledger states about a run: never anything computed from records. The
random bytes keep the head, which every certificate states, free of any fact about the ledger.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpdistill.errors import LedgerError
from dpdistill.ledger.database import Tables
from dpdistill.ledger.dataset_file import damaged

BEGIN, RUN, COMPLETE = "begin", "run", "complete"
"""Kinds of entries: the ledger began (or got its chain), a run was paid, the last round of a run was released."""
RANDOM_BYTES = 32
TABLE = (
    "CREATE TABLE chain (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, run_id TEXT NOT NULL, random BLOB NOT NULL,"
    " head TEXT NOT NULL)"
)
_COLUMNS = "number, kind, run_id, random, head"
_DOMAIN = b"dpdistill ledger chain 1"


@dataclass(frozen=True)
class Entry:
    """One entry of the chain.

    Args:
        number: 1, 2, ...
        kind: BEGIN, RUN or COMPLETE.
        run_id: the run; empty for BEGIN.
        random: 32 random bytes.
        head: SHA-256 of the previous head and this entry, 64 hexadecimal digits.
    """

    number: int
    kind: str
    run_id: str
    random: bytes
    head: str


def entry_after(entries: Sequence[Entry], kind: str, run_id: str, facts: Iterable[str]) -> Entry:
    """Returns a new entry at the end of a chain.

    Args:
        entries: the chain, of which only the last entry is used.
        kind: kind of the entry.
        run_id: the run, or empty.
        facts: what the ledger states: the cap for BEGIN; label, date, schedule and payer for RUN; nothing for COMPLETE.
    """
    number, previous = (entries[-1].number + 1, entries[-1].head) if entries else (1, "")
    random = secrets.token_bytes(RANDOM_BYTES)
    return Entry(number, kind, run_id, random, _head(previous, kind, run_id, random, facts))


def _head(previous: str, kind: str, run_id: str, random: bytes, facts: Iterable[str]) -> str:
    """Returns the SHA-256 of all fields, each after its length in 8 bytes."""
    digest = hashlib.sha256(_DOMAIN)
    for content in (previous.encode(), kind.encode(), run_id.encode(), random, *(fact.encode() for fact in facts)):
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def append(db: Tables, kind: str, run_id: str = "", facts: Iterable[str] = ()) -> str:
    """Adds an entry inside a transaction that writes; returns the new head."""
    entry = entry_after(last(db), kind, run_id, facts)
    row = (entry.number, entry.kind, entry.run_id, entry.random, entry.head)
    db.execute(f"INSERT INTO chain ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)", row)
    return entry.head


def last(db: Tables) -> tuple[Entry, ...]:
    """Returns the last entry as a tuple; an empty tuple before the first one."""
    rows = db.execute(f"SELECT {_COLUMNS} FROM chain ORDER BY number DESC LIMIT 1").fetchall()
    return tuple(Entry(*row) for row in rows)


def read(db: Tables) -> tuple[Entry, ...]:
    """Returns the chain, unchecked."""
    return tuple(Entry(*row) for row in db.execute(f"SELECT {_COLUMNS} FROM chain ORDER BY number").fetchall())


def check(entries: Sequence[Entry], cap: float, runs: dict[str, tuple[str, ...]], file: Path | str) -> None:
    """Recomputes every head.

    Args:
        entries: the chain.
        cap: the ledger's cap.
        runs: label, date, schedule and payer by run_id, in the order of payment.
        file: the ledger, for the error.

    Raises:
        LedgerError: an entry was changed, removed or added, or a run is not the one that was paid.
    """
    if not entries:
        raise LedgerError(damaged(file, "its chain is empty"))
    previous, paid, complete = "", [], set()
    for number, entry in enumerate(entries, 1):
        facts = {BEGIN: (repr(cap),), RUN: runs.get(entry.run_id, ())}.get(entry.kind, ())
        expected = _head(previous, entry.kind, entry.run_id, entry.random, facts)
        first = entry.kind == BEGIN
        if (entry.number, entry.head, first) != (number, expected, number == 1) or len(entry.random) != RANDOM_BYTES:
            raise LedgerError(damaged(file, f"entry {number} of its chain is not the one that was written"))
        if entry.kind == RUN:
            paid.append(entry.run_id)
        elif entry.kind == COMPLETE and (entry.run_id not in paid or entry.run_id in complete):
            raise LedgerError(damaged(file, f"entry {number} of its chain completes a run that was not paid"))
        complete |= {entry.run_id} if entry.kind == COMPLETE else set()
        previous = entry.head
    if paid != [*runs]:
        raise LedgerError(damaged(file, "its runs are not those of its chain"))
