"""Durable notes of an owner in a run: its keys, the questions, and the list that it unmasked in each round."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

from dpdistill.errors import LedgerError
from dpdistill.ledger.database import check_format, connect, create_tables, is_new, transaction, usable
from dpdistill.ledger.folder import make_folder
from dpdistill.together.masks import KEY_BYTES

FILE = "together.sqlite"
_FORMAT = 74
_TABLES = (
    "CREATE TABLE own (run TEXT NOT NULL, name TEXT NOT NULL, secret BLOB NOT NULL, x25519 BLOB NOT NULL, roster TEXT)",
    "CREATE TABLE questions (round INTEGER PRIMARY KEY, params TEXT NOT NULL)",
    "CREATE TABLE contributions (attempt BLOB PRIMARY KEY, statement TEXT NOT NULL)",
    "CREATE TABLE unmasked (round INTEGER PRIMARY KEY, attempt BLOB NOT NULL)",
)


class OwnerStore:
    """The synced file of an owner in its DIR.run.

    Args:
        folder: the owner's folder of the run.
        run: name of the run.
        name: the owner.

    Raises:
        LedgerError: a folder of another run, or one that cannot be written.

    Guarantee:
        For each round one attempt at most is ever noted as unmasked, and it is on the disk before `unmask` returns.
    """

    def __init__(self, folder: Path, run: str, name: str) -> None:
        path = make_folder(folder) / FILE
        self._db = connect(path, "WAL")
        self._db.close()
        self._db = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False)
        with usable(path):
            for pragma in ("synchronous = FULL", "fullfsync = 1", "checkpoint_fullfsync = 1"):
                self._db.execute(f"PRAGMA {pragma}")
            with transaction(self._db):
                if is_new(self._db):
                    create_tables(self._db, _TABLES, _FORMAT)
                    # 256 bits each from the operating system, used for this run in this folder alone.
                    keys = os.urandom(KEY_BYTES), os.urandom(KEY_BYTES)
                    self._db.execute("INSERT INTO own VALUES (?, ?, ?, ?, NULL)", (run, name, *keys))
            check_format(self._db, path, _FORMAT)
            stored = self._db.execute("SELECT run, name, secret, x25519 FROM own").fetchone()
        if stored[:2] != (run, name):
            self.close()
            raise LedgerError(f"{folder} belongs to another run or another owner: name the folder of this one.")
        self.secret, self.x25519 = stored[2:]

    def settle_roster(self, roster: list) -> bool:
        """Stores the public keys of all owners, and returns whether they are the stored ones."""
        text = json.dumps(roster)
        with usable(FILE), transaction(self._db):
            self._db.execute("UPDATE own SET roster = ? WHERE roster IS NULL", (text,))
            return self._db.execute("SELECT roster FROM own").fetchone()[0] == text

    def roster(self) -> list | None:
        """Returns the stored roster, or None before it is settled."""
        text = self._db.execute("SELECT roster FROM own").fetchone()[0]
        return None if text is None else json.loads(text)

    def settle_question(self, round: int, params: str) -> bool:
        """Stores the SHA-256 of a round's parameters, and returns whether it is the stored one."""
        with usable(FILE), transaction(self._db):
            self._db.execute("INSERT OR IGNORE INTO questions VALUES (?, ?)", (round, params))
            return self.question(round) == params

    def question(self, round: int) -> str | None:
        """Returns the SHA-256 of a round's parameters, or None."""
        row = self._db.execute("SELECT params FROM questions WHERE round = ?", (round,)).fetchone()
        return None if row is None else row[0]

    def keep_contribution(self, attempt: bytes, statement: list[str]) -> None:
        """Stores what the owner stated about its masked words of an attempt."""
        with usable(FILE), transaction(self._db):
            self._db.execute("INSERT OR REPLACE INTO contributions VALUES (?, ?)", (attempt, json.dumps(statement)))

    def contribution(self, attempt: bytes) -> list[str] | None:
        """Returns what the owner stated about its masked words of an attempt, or None."""
        row = self._db.execute("SELECT statement FROM contributions WHERE attempt = ?", (attempt,)).fetchone()
        return None if row is None else json.loads(row[0])

    def unmask(self, round: int, attempt: bytes) -> bool:
        """Notes that a round is unmasked in an attempt; returns False, and changes nothing, if it was in another."""
        with usable(FILE), transaction(self._db):
            self._db.execute("INSERT OR IGNORE INTO unmasked VALUES (?, ?)", (round, attempt))
            return self.unmasked(round) == attempt

    def unmasked(self, round: int) -> bytes | None:
        """Returns the attempt in which a round was unmasked, or None."""
        row = self._db.execute("SELECT attempt FROM unmasked WHERE round = ?", (round,)).fetchone()
        return None if row is None else row[0]

    def close(self) -> None:
        """Closes the file."""
        self._db.close()
