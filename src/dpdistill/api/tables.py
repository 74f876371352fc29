"""Drafts schemas of tables for their owner to review, and checks tables against schemas."""

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
    """Draft of a table's schema, for the owner of the records alone.

    Args:
        schema: columns, label and classes as the records suggest them.
        notes: facts that come from the records, by their position in the file: replace each by public knowledge.
        ignored: columns that are left out.
        path: written file, or None.
    """

    schema: TableSchema
    notes: dict[str, str]
    ignored: tuple[str, ...]
    path: Path | None


@dataclass(frozen=True)
class TableCheck:
    """Result of checking a table against its schema, for the owner of the records alone.

    Args:
        lines: sentences with exact counts, including the warnings.
    """

    lines: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Returns the warnings: records that a run refuses, and columns that lose 1 % or more of their values."""
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
    unlabelled: bool = False,
    number: bool = False,
    header: bool | None = None,
    names: Sequence[str] = (),
    separator: str = ",",
    decimal: str = ".",
    comment: str | None = None,
    sheet: str | None = None,
    listener: Listener = SILENT,
) -> SchemaDraft:
    """Drafts the schema of a table for review; the draft is derived from the records and is not private.

    Args:
        data: CSV or Parquet file, database, or pandas DataFrame.
        out: new file for the draft; None writes no file.
        sql: one SELECT, for a database.
        label: column with the classes; None for the last column.
        unlabelled: True for a table without a label.
        number: True if the label is a number to predict, instead of classes.
        header: True if a CSV file begins with column names; None refuses a first line that looks like a record.
        names: names of all columns in the file's order, for a CSV file without column names.
        separator: separator of a CSV file's fields, one character, or "tab".
        decimal: decimal separator of a CSV file, "." or ",".
        comment: prefix of lines of a CSV file to skip.
        sheet: sheet of an Excel workbook; None for the first.
        listener: receives a note that the records are being read.

    Returns:
        The draft, with marks on facts from the records.

    Raises:
        DataError: a source that is no table, a label that cannot be one, or an existing file.

    Example:
        >>> draft_schema("patients.csv", "schema.yaml").notes  # doctest: +SKIP
    """
    from dpdistill.sources.tables.drafts import draft_schema as draft
    from dpdistill.sources.tables.schema_file import write_schema
    from dpdistill.sources.tables.source import CsvFormat

    if unlabelled and label is not None:
        raise DataError(f"Expected a label, or a table without one; got --no-label and --label {label!r:.80}.")
    if unlabelled and number:
        raise DataError("Expected --number, or a table without a label; got both.")
    if out is not None and Path(out).exists():
        raise DataError(f"{out} exists: choose another file with --out.")
    with listener.working("reading the records"):
        between = "\t" if separator in ("tab", "\\t") else separator
        form = CsvFormat(
            header is not False and not names, tuple(names), between, comment=comment, decimal=decimal, sheet=sheet
        )
        kind = {"named": header is True, "unlabelled": unlabelled, "number": number}
        table_file, notes = draft(table_source(data, sql), label, form, **kind)
    if out is not None:
        write_schema(out, table_file, notes)
    return SchemaDraft(table_file.schema, notes, table_file.ignored, None if out is None else Path(out))


def check_table(
    data: Any, schema: str | os.PathLike, *, sql: str | None = None, listener: Listener = SILENT
) -> TableCheck:
    """Checks a table against its schema, with exact counts: for the owner of the records alone.

    Args:
        data: CSV or Parquet file, database, or pandas DataFrame.
        schema: a schema.yaml, reviewed or not.
        sql: one SELECT, for a database.
        listener: receives a note that the records are being read.

    Returns:
        Sentences with exact counts, including the warnings.

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
