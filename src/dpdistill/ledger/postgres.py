"""A data set's ledger in PostgreSQL: the same tables, in a schema of their own, by serialisable transactions.

No message shows an address, which may hold a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from dpdistill.errors import LedgerError, LedgerUnusable
from dpdistill.ledger import dataset_rows as rows
from dpdistill.ledger.register import Register

if TYPE_CHECKING:
    import psycopg

PREFIX = "dpdistill_"
"""Beginning of the schemas that hold ledgers."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_TYPES = (("INTEGER PRIMARY KEY", "BIGINT PRIMARY KEY"), (" BLOB", " BYTEA"), (" REAL", " DOUBLE PRECISION"))
_WAIT = "60s"
_SETTINGS = {"lock_timeout": _WAIT, "idle_in_transaction_session_timeout": _WAIT, "synchronous_commit": "on"}


class Connection:
    """A connection with SQLite's marks for values, so that both stores run the same statements."""

    always_chained = True
    """No earlier version wrote a ledger without a chain here."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Any:
        """Runs one statement whose values are marked by "?"."""
        return self._connection.execute(sql.replace("?", "%s").encode(), values)


class PostgresStore:
    """A ledger in a schema of a PostgreSQL database.

    Args:
        address: postgresql://user@host/database#ledger. The password is better left to PGPASSWORD or ~/.pgpass.

    Guarantee:
        A transaction that writes first locks the table `ledger` against all other writers, and then reads: so no two
        payments overlap, and none is decided on an older state. It is serialisable as well, so a client that ignores
        the lock makes it fail instead of wrong. A commit returns after the server has synced it, whatever the
        database's default of synchronous_commit is. If the connection breaks during the commit, the payment may be
        there: the run is then found by its id when it is resumed, and pays nothing again.
    """

    def __init__(self, address: str) -> None:
        self._address, _, ledger = address.partition("#")
        if _NAME.fullmatch(ledger) is None:
            raise LedgerError(
                "Expected postgresql://user@host/database#ledger, with a ledger's name of lower-case letters, digits"
                f" and '_' that begins with a letter, at most 40; got {ledger!r:.60}."
            )
        self._schema, self.name = f"{PREFIX}{ledger}", f"{ledger} (in PostgreSQL)"

    def begin(self, cap: float) -> None:
        """Creates the schema and its tables in one transaction."""
        with self._session("SERIALIZABLE") as db:
            found = db.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (self._schema,)).fetchone()
            if found:
                raise LedgerError(f"Expected no ledger {self.name} to begin one; it exists.")
            db.execute(f'CREATE SCHEMA "{self._schema}"')
            for table in rows.TABLES:
                for ours, theirs in _TYPES:
                    table = table.replace(ours, theirs)
                db.execute(table)
            for statement, values in rows.first(cap):
                db.execute(statement, values)

    def check_writable(self) -> None:
        """Raises LedgerError if the user may not pay in the ledger."""
        with self.reading() as db:
            tables = ("ledger", "runs", "chain")
            allowed = [db.execute("SELECT has_table_privilege(?, 'INSERT')", (each,)).fetchone()[0] for each in tables]
        if not all(allowed):
            raise LedgerError(f"Expected a user who may write to the ledger {self.name}; this one may only read.")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Opens one transaction that reads one state of the ledger."""
        with self._session("REPEATABLE READ READ ONLY") as db:
            self._require(db)
            yield db

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Opens one serialisable transaction that waits for all other writers."""
        with self._session("SERIALIZABLE") as db:
            try:
                db.execute("LOCK TABLE ledger IN EXCLUSIVE MODE")  # before the first SELECT, which fixes the state
            except _errors("UndefinedTable"):
                raise self._missing() from None
            yield db

    def registers(self, lock: bool = False) -> AbstractContextManager[tuple[Register, ...]]:
        """Returns no registers: they are stated for folders of ledgers."""
        return nullcontext(())

    def _require(self, db: Connection) -> None:
        if db.execute("SELECT to_regclass(?)", (f'"{self._schema}".ledger',)).fetchone()[0] is None:
            raise self._missing()

    def _missing(self) -> LedgerError:
        return LedgerError(
            f"There is no ledger {self.name}. Restore the data set's ledger if the data set had one: a new ledger"
            " forgets earlier spending. Otherwise begin one: dpdistill budget new ADDRESS#NAME --cap EPSILON."
        )

    @contextmanager
    def _session(self, isolation: str) -> Iterator[Connection]:
        """Yields a connection inside one transaction, which is committed at the end of the block."""
        import psycopg

        try:
            with psycopg.connect(self._address, autocommit=True, connect_timeout=20) as connection:
                connection.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
                for setting, value in _SETTINGS.items():
                    connection.execute(f"SET LOCAL {setting} = '{value}'".encode())
                connection.execute(f'SET LOCAL search_path TO "{self._schema}"'.encode())
                yield Connection(connection)
                connection.execute("COMMIT")
        except psycopg.Error as error:
            raise LedgerUnusable(f"The ledger {self.name} cannot be used{_said(error)}.") from None


def ledgers_in(address: str) -> list[str]:
    """Returns the addresses of all ledgers in a database that the user may read, sorted by name.

    Raises:
        LedgerUnusable: the database cannot be reached.
    """
    import psycopg

    sql = "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s) AND has_schema_privilege(oid, 'USAGE')"
    try:
        with psycopg.connect(address, connect_timeout=20) as connection:
            found = connection.execute(sql, (PREFIX,)).fetchall()
    except psycopg.Error as error:
        raise LedgerUnusable(f"The database of ledgers cannot be used{_said(error)}.") from None
    return sorted(f"{address}#{name.removeprefix(PREFIX)}" for (name,) in found)


def _errors(*names: str) -> tuple[type[Exception], ...]:
    from psycopg import errors

    return tuple(getattr(errors, name) for name in names)


def _said(error: BaseException) -> str:
    """Returns what the server said, from its own first line alone: other lines may repeat the address."""
    stated = getattr(getattr(error, "diag", None), "message_primary", None)
    if stated:
        return f": {' '.join(stated.split())[:200]}"
    return ": it cannot be reached, or the connection broke. A payment may have been made: resume the run"
