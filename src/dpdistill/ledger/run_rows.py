"""The tables of a run's ledger: the run's row, its rounds, and further parts of long values."""

from __future__ import annotations

import json
import secrets
import sqlite3
from dataclasses import dataclass

from dpdistill.accounting.schedule import Schedule
from dpdistill.errors import LedgerError, LedgerUnusable
from dpdistill.ledger.database import check_format, create_tables, is_new, is_of_the_disk, transaction
from dpdistill.ledger.dataset_rows import Nonces
from dpdistill.query import Event
from dpdistill.recipe.earlier_names import current_recipe

FORMAT = 0x64700003
_TABLES = (
    "CREATE TABLE run (id INTEGER PRIMARY KEY CHECK (id = 1), run_id TEXT NOT NULL, recipe TEXT NOT NULL,"
    " schedule TEXT NOT NULL, digest BLOB NOT NULL, joined INTEGER NOT NULL, previous TEXT NOT NULL,"
    " nonce TEXT NOT NULL)",
    "CREATE TABLE rounds (round INTEGER PRIMARY KEY, noise_multiplier REAL NOT NULL, sampling_prob REAL NOT NULL,"
    " stddev REAL NOT NULL, dtype TEXT NOT NULL, shape TEXT NOT NULL, value BLOB)",
)
_FURTHER = (
    "CREATE TABLE IF NOT EXISTS further (round INTEGER NOT NULL, part INTEGER NOT NULL, value BLOB NOT NULL,"
    " PRIMARY KEY (round, part))"
)
"""Further parts of values that are longer than PART; ledgers of earlier versions lack the table."""
_HEAD = "CREATE TABLE IF NOT EXISTS head (id INTEGER PRIMARY KEY CHECK (id = 1), head TEXT NOT NULL)"
"""Head of the data set's ledger after the last round; ledgers of earlier versions lack the table."""


@dataclass(frozen=True)
class RunRecord:
    """Contents of a run's ledger.

    Args:
        run_id: random name of the run.
        recipe: recipe at the start of the run, with the current names of its fields.
        schedule: schedule at the start of the run.
        events: events of the committed rounds.
        nonces: nonces of the round before the last, and of the last (`DatasetLedger`).
        head: head of the data set's ledger after the last round; None without such a ledger, or before.
    """

    run_id: str
    recipe: dict
    schedule: Schedule
    events: tuple[Event, ...]
    nonces: Nonces
    head: str | None = None


def start(db: sqlite3.Connection, texts: dict[str, str], digest: bytes, name: object) -> None:
    """Creates the tables and the run's row in one transaction, or checks that an existing row is equal."""
    stated = {**texts, "records": digest}
    try:
        with transaction(db):
            if is_new(db):
                create_tables(db, _TABLES, FORMAT)
                row = (secrets.token_hex(16), *stated.values(), *[secrets.token_hex(16)] * 2)
                db.execute("INSERT INTO run VALUES (1, ?, ?, ?, ?, 0, ?, ?)", row)
            check_format(db, name, FORMAT)
            db.execute(_FURTHER)
            db.execute(_HEAD)
            stored = db.execute("SELECT recipe, schedule, digest FROM run").fetchone()
    except sqlite3.Error as error:
        kind = LedgerUnusable if is_of_the_disk(error) else LedgerError
        raise kind(f"The ledger in {name} cannot be used: {error}.") from None
    differ = " and ".join(
        what
        for what, mine, other in zip(stated, stated.values(), stored, strict=True)
        if mine != other and not (what == "recipe" and same_recipe(json.loads(texts["recipe"]), json.loads(other)))
    )
    if differ:
        again = " Fields that only its last part reads may change later: finish it unchanged, then use --from DIR.run."
        text = f"Another run is kept in {name} (its {differ} differ): --overwrite archives it and pays anew."
        raise LedgerError(text + again * (differ == "recipe"))


def record(db: sqlite3.Connection) -> RunRecord:
    """Returns the contents of a run's ledger, inside a transaction."""
    run_id, recipe, schedule = db.execute("SELECT run_id, recipe, schedule FROM run").fetchone()
    texts = current_recipe(json.loads(recipe)), Schedule.from_json(schedule)
    return RunRecord(run_id, *texts, events(db), nonces(db), _head(db))


def events(db: sqlite3.Connection) -> tuple[Event, ...]:
    """Returns the events of the committed rounds, in order."""
    rows = db.execute("SELECT noise_multiplier, sampling_prob FROM rounds ORDER BY round").fetchall()
    return tuple(Event(*row) for row in rows)


def nonces(db: sqlite3.Connection) -> Nonces:
    """Returns the nonces of the round before the last, and of the last."""
    return db.execute("SELECT previous, nonce FROM run").fetchone()


def _head(db: sqlite3.Connection) -> str | None:
    """Returns the stored head of the data set's ledger, or None."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'head'").fetchone():
        return None
    row = db.execute("SELECT head FROM head").fetchone()
    return row[0] if row else None


def same_recipe(one: dict, other: dict) -> bool:
    """Returns whether two recipes are equal, apart from the origin of public facts and earlier names of fields."""
    return without_origin_of_facts(current_recipe(one)) == without_origin_of_facts(current_recipe(other))


def without_origin_of_facts(recipe: dict) -> dict:
    """Returns a recipe without the names of the public facts that were taken from the records."""
    schema = recipe.get("schema")
    if not isinstance(schema, dict):
        return recipe
    return {**recipe, "schema": {key: value for key, value in schema.items() if key != "inferred"}}
