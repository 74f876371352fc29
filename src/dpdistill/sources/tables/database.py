"""Reads the rows of a database query by SQLAlchemy: streamed, in a read-only session.

No message shows an address, which may hold a password. A driver's message with a secret is left out.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpdistill.schema import DataError
from dpdistill.storage.files import is_address, require_file, show

_ROWS = 1 << 14
_SQLITE, _DUCKDB = b"SQLite format 3\0", b"DUCK"
_INSTALL = "Databases need SQLAlchemy and a driver: pip install 'dpdistill[sql]'"
_READ_ONLY = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"
_TITLE = "The query"


@dataclass(frozen=True, repr=False)
class DatabaseQuery:
    """Query whose rows are the records.

    Args:
        place: postgresql://user@host:5432/name, or the path of a SQLite or DuckDB file. A password is better left to
            PGPASSWORD or ~/.pgpass than written here, where the history of a shell keeps it.
        sql: one SELECT.

    Example:
        >>> DatabaseQuery("postgresql://anna:secret@host/clinic", "SELECT age, outcome FROM stays")
        <a query on a database; its address is not shown>
    """

    place: str | os.PathLike
    sql: str

    def __repr__(self) -> str:
        return "<a query on a database; its address is not shown>"


def holds_database(path: Path) -> bool:
    """Returns whether a file is a SQLite or DuckDB database, by its content."""
    return _kind_of(path) is not None


def _kind_of(path: Path) -> str | None:
    with path.open("rb") as file:
        start = file.read(16)
    return "sqlite" if start == _SQLITE else "duckdb" if start[8:12] == _DUCKDB else None


class Rows:
    """Rows of a query as a table, with the database's types and in any order."""

    title, typed, ordered = _TITLE, True, False

    def __init__(self, query: DatabaseQuery) -> None:
        self._sql = re.sub(r"[\s;]+\Z", "", query.sql)
        if not self._sql:
            raise DataError("Expected --sql as one SELECT; got an empty text.")
        self._engine, self._secrets = _engine(query.place)
        with self._run("*", "WHERE 1 = 0") as rows:
            self._written = [*map(str, rows.keys())]
        self.names = tuple(name.strip() for name in self._written)

    def hint(self, declared: Sequence[str]) -> str:
        return "Use the schema's names for the columns of the query: SELECT age_at_visit AS age."

    def batches(self, columns: Sequence[str]) -> Iterator[list[Sequence[Any]]]:
        """Yields the named columns as the driver's values, with individual types."""
        written = [self._written[self.names.index(name)] for name in columns]
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in written)
        with self._run(quoted) as rows:
            for part in rows.partitions(_ROWS):
                yield [*zip(*part, strict=True)]

    @contextmanager
    def _run(self, columns: str, where: str = "") -> Iterator[Any]:
        """Yields the rows of the query in the database's order, in a transaction that is never committed."""
        from sqlalchemy import exc

        sql = f"SELECT {columns} FROM (\n{self._sql}\n) AS dpdistill_rows {where}"
        try:
            with self._engine.connect() as connection:
                if self._engine.dialect.name == "postgresql":
                    connection.exec_driver_sql(_READ_ONLY)
                    connection.commit()  # makes the session read-only before the query runs
                options = {"stream_results": True, "yield_per": _ROWS, "no_parameters": True}
                with connection.execution_options(**options).exec_driver_sql(sql) as rows:
                    yield rows
        except exc.OperationalError as error:
            raise DataError(f"The database cannot be reached or read{self._said(error)}.") from None
        except exc.SQLAlchemyError as error:
            raise DataError(f"The database refuses the query of --sql{self._said(error)}.") from None
        except UnicodeError:
            raise DataError(
                "The database holds a text that is not UTF-8: convert it in the query (in PostgreSQL by "
                "convert_from(name::bytea, 'LATIN1') AS name), or leave its row out."
            ) from None
        except sqlite3.Error as error:
            raise DataError(f"The database cannot be read ({type(error).__name__}).") from None

    def _said(self, error: object) -> str:
        """Returns the driver's message, unless the message holds a secret."""
        said = str(getattr(error, "orig", None) or "")
        said = " ".join(said.partition("\n\n")[0].split()).rstrip(".")
        return f": {said[:300]}" if said and not any(secret in said for secret in self._secrets) else ""


def _engine(place: str | os.PathLike) -> tuple[Any, tuple[str, ...]]:
    """Returns SQLAlchemy's engine for an address or a file, and the secrets that no message may hold."""
    try:
        import sqlalchemy as sa
        from sqlalchemy import exc
    except ImportError:
        raise DataError(f"{_INSTALL}.") from None
    kept: dict[str, Any] = {"poolclass": sa.NullPool, "hide_parameters": True}
    url = _url(os.fspath(place)) if is_address(place) else None
    try:
        if url is not None and url.get_backend_name() == "postgresql":
            stated = [value for key, values in url.normalized_query.items() if "pass" in key for value in values]
            secrets = (url.password, os.environ.get("PGPASSWORD"), *stated)
            encoding = {} if "client_encoding" in url.query else {"client_encoding": "utf8"}  # also of SQL_ASCII
            engine = sa.create_engine(url.set(drivername="postgresql+psycopg"), connect_args=encoding, **kept)
            return engine, tuple(str(secret) for secret in secrets if secret)
        path = Path(place if url is None else url.database or "")
        require_file(path)
        match _kind_of(path):
            case "sqlite":
                name = f"{path.resolve().as_uri()}?mode=ro"
                return sa.create_engine("sqlite://", creator=lambda: sqlite3.connect(name, uri=True), **kept), ()
            case "duckdb":
                file = sa.URL.create("duckdb", database=os.fspath(path))
                return sa.create_engine(file, connect_args={"read_only": True}, **kept), ()
        raise DataError(f"{show(path)} is no known database: expected a file of SQLite or DuckDB.")
    except (ImportError, exc.NoSuchModuleError):
        raise DataError(f"{_INSTALL}, and for DuckDB duckdb-engine.") from None


def _url(address: str) -> Any:
    import sqlalchemy as sa
    from sqlalchemy import exc

    known = "postgresql://user@host:5432/name, sqlite:///FILE or duckdb:///FILE"
    if address.partition("?")[0].count("@") > 1:
        raise DataError("The address of the database has more than one @: write %40 for an @ in a password.")
    try:
        url = sa.make_url(re.sub(r"\Apostgres(?=[:+])", "postgresql", address))
        kind = url.get_backend_name()
    except (exc.SQLAlchemyError, ValueError):
        raise DataError(f"The address of the database cannot be read: expected {known}.") from None
    if kind not in ("postgresql", "sqlite", "duckdb"):
        raise DataError(
            f"Expected a database of PostgreSQL, SQLite or DuckDB ({known}): export rows of other databases to Parquet."
        )
    return url
