"""Reads tables in a CSV file, a Parquet file or a pandas DataFrame, in batches of columns."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import StrictBool

from dpdistill.schema import DataError
from dpdistill.schema.facts import STRICT
from dpdistill.sources.formats import table_formats
from dpdistill.sources.tables.codes import Values
from dpdistill.sources.tables.database import DatabaseQuery, Rows, holds_database
from dpdistill.sources.tables.frame import Frame
from dpdistill.storage.files import head, is_address, refuse_elsewhere, require_file, show

MISSING = ("", "NA", "NaN", "nan", "null")


@dataclass(frozen=True)
class CsvFormat:
    """Format of CSV files and workbooks.

    Args:
        header: True if a file begins with column names.
        names: names of all columns in the file's order, for files without a header.
        separator: separator of fields, one character.
        missing: marks of a missing value, also in other formats; a number means all spellings of that number.
        comment: prefix of lines to skip.
        decimal: decimal separator of numbers in texts, "." or ",", also in other formats; with a comma 1.234,5 is
            1234.5, 1.234 is 1234 and 0.5 is no number. Typed numbers are unaffected.
        sheet: sheet of an Excel workbook; None for the first.

    Raises:
        DataError: an invalid separator, comment or decimal.
    """

    __pydantic_config__ = STRICT
    header: StrictBool = True
    names: tuple[str, ...] = ()
    separator: str = ","
    missing: tuple[str, ...] = MISSING
    comment: str | None = None
    decimal: str = "."
    sheet: str | None = None

    def __post_init__(self) -> None:
        if len(self.separator) != 1 or self.separator in '"\r\n' or not self.separator.isascii():
            raise DataError(f"Expected separator={self.separator!r} as one ASCII character other than a quote.")
        if self.comment is not None and (not self.comment or not self.comment.isprintable()):
            raise DataError(f"Expected comment={self.comment!r} as printable characters.")
        if self.decimal not in (".", ",") or self.decimal == self.separator:
            raise DataError(
                f"Expected decimal={self.decimal!r} as '.' or ',', different from the separator of fields; "
                f"got separator {self.separator!r}."
            )


class Table(Protocol):
    """Table whose rows can be read repeatedly.

    Args:
        title: name of the table in sentences.
        names: distinct names of all columns.
        typed: True if types decide: a text is no number, and a float is no integer, whatever the value.
        ordered: True if the order of rows is the same on every read.
    """

    title: str
    names: tuple[str, ...]
    typed: bool
    ordered: bool

    def batches(self, columns: Sequence[str]) -> Iterator[list[Values]]:
        """Yields the named columns, in this order, some rows at a time.

        Raises:
            DataError: a file that cannot be read to its end.
        """
        ...

    def hint(self, declared: Sequence[str]) -> str:
        """Returns why declared columns may be missing, with advice: a sentence without values, or an empty text."""
        ...


def open_table(source: object, form: CsvFormat) -> Table:
    """Opens the table in a file or frame, with the format recognised by content.

    Args:
        source: path of a CSV file, gzip or not, or of a Parquet file; a pandas DataFrame; or a DatabaseQuery.
        form: format of a CSV file; columns without a header and names are column1, column2, ...

    Raises:
        DataError: a source that is no table.
    """
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        refuse_elsewhere(os.fspath(source))
        if is_address(source) or (path.is_file() and holds_database(path)):
            raise DataError(f"{show(source)} is a database: state the rows to read (--sql 'SELECT ...').")
        if not os.fspath(source) or "\0" in os.fspath(source):
            raise DataError("Expected the path of a table; got an empty or impossible one.")
        require_file(path)
        start = head(path, 1 << 12)
        table: Table = next(each for each in table_formats() if each.is_file(path, start)).open(path, form)
    elif isinstance(source, DatabaseQuery):
        table = Rows(source)
    else:
        table = Frame(source)
    if not table.names:
        raise DataError(f"{table.title} has no columns.")
    if twice := next((name for name in table.names if table.names.count(name) > 1), None):
        raise DataError(f"{table.title} has two columns named {twice[:80]!r}.")
    return table
