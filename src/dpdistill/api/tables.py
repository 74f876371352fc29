"""Schemas of tables: a draft for their owner to correct, and how records fit a stated one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.api.listener import SILENT, Listener
from dpdistill.api.reading import table_source
from dpdistill.schema import DataError

if TYPE_CHECKING:
    from dpdistill.schema import TableSchema

WARNING = "Warning: "


@dataclass(frozen=True)
class SchemaDraft:
    """A draft of a table's schema, for the owner of the records alone.

    Args:
        schema: columns, label and classes as the records suggest them.
        notes: facts that come from the records, by their place in the file: each is to be replaced by what is known
            without them.
        ignored: columns that are left out.
        path: the file that was written, or None.
    """

    schema: TableSchema
    notes: dict[str, str]
    ignored: tuple[str, ...]
    path: Path | None


@dataclass(frozen=True)
class TableCheck:
    """How a table fits its schema, for the owner of the records alone.

    Args:
        lines: sentences with exact counts, the warnings among them.
    """

    lines: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Returns the warnings: of records that a run refuses, and of columns that lose 1 % or more of their values."""
        return tuple(line for line in self.lines if line.startswith(WARNING))

    @property
    def fits(self) -> bool:
        """Returns whether there is no warning."""
        return not self.warnings


def draft_schema(
    data: Any,
    out: str | os.PathLike | None = None,
    *,
    sql: str | None = None,
    label: str | None = None,
    header: bool | None = None,
    names: Sequence[str] = (),
    separator: str = ",",
    decimal: str = ".",
    comment: str | None = None,
    listener: Listener = SILENT,
) -> SchemaDraft:
    """Drafts the schema of a table, to be reviewed: the draft looks at the records and is not private.

    Args:
        data: CSV or Parquet file, database, or pandas DataFrame.
        out: file for the draft; nothing may be there. None writes no file.
        sql: one SELECT, for a database.
        label: column with the classes; the last one if None.
        header: a CSV file begins with the names of its columns; None refuses a first line that looks like a record.
        names: of all columns in the file's order, for a CSV file without them.
        separator: of a CSV file's fields, one character, or "tab".
        decimal: what a CSV file's fractions begin with, "." or ",".
        comment: lines of a CSV file that begin with it are skipped.
        listener: receives the note that the records are being read.

    Returns:
        The draft, its facts from the records marked.

    Raises:
        DataError: nothing that is a table, a label that cannot be one, or a file that exists.

    Example:
        >>> draft_schema("patients.csv", "schema.yaml").notes  # doctest: +SKIP
    """
    from dpdistill.sources.tables.drafts import draft_schema as draft
    from dpdistill.sources.tables.schema_file import write_schema
    from dpdistill.sources.tables.source import CsvFormat

    if out is not None and Path(out).exists():
        raise DataError(f"{out} exists: choose another file with --out.")
    with listener.working("reading the records"):
        between = "\t" if separator in ("tab", "\\t") else separator
        form = CsvFormat(header is not False and not names, tuple(names), between, comment=comment, decimal=decimal)
        table_file, notes = draft(table_source(data, sql), label, form, named=header is True)
    if out is not None:
        write_schema(out, table_file, notes)
    return SchemaDraft(table_file.schema, notes, table_file.ignored, None if out is None else Path(out))


def check_table(
    data: Any, schema: str | os.PathLike, *, sql: str | None = None, listener: Listener = SILENT
) -> TableCheck:
    """Returns how a table fits its schema, with exact counts: for the owner of the records alone.

    Args:
        data: CSV or Parquet file, database, or pandas DataFrame.
        schema: a schema.yaml, reviewed or not.
        sql: one SELECT, for a database.
        listener: receives the note that the records are being read.

    Raises:
        DataError: a file that cannot be read, or columns that are missing or not declared.

    Example:
        >>> check_table("patients.csv", "schema.yaml").fits  # doctest: +SKIP
        True
    """
    from dpdistill.sources.tables.drafts import check_table as check
    from dpdistill.sources.tables.schema_file import read_schema

    table_file = read_schema(schema)
    with listener.working("reading the records"):
        return TableCheck(tuple(check(table_source(data, sql), table_file)))
