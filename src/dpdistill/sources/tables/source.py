"""Tables in a CSV file, a Parquet file or a pandas DataFrame, read in batches of columns."""

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
    """How CSV files are written.

    Args:
        header: a file begins with the names of its columns.
        names: of all columns in the file's order, where there is no header.
        separator: of fields, one character.
        missing: texts that stand for a missing value, also in other formats; a number among them stands for all
            spellings of that number.
        comment: lines that begin with it are skipped.
        decimal: what the fraction of a number begins with in texts, "." or ",", also in other formats; with a comma
            1.234,5 is 1234.5, 1.234 is 1234 and 0.5 is no number. Values that are numbers by their type are themselves.

    Raises:
        DataError: a separator, comment or decimal that cannot be.
    """

    __pydantic_config__ = STRICT
    header: StrictBool = True
    names: tuple[str, ...] = ()
    separator: str = ","
    missing: tuple[str, ...] = MISSING
    comment: str | None = None
    decimal: str = "."

    def __post_init__(self) -> None:
        if len(self.separator) != 1 or self.separator in '"\r\n' or not self.separator.isascii():
            raise DataError(f"Expected separator={self.separator!r} as one ASCII character other than a quote.")
        if self.comment is not None and (not self.comment or not self.comment.isprintable()):
            raise DataError(f"Expected comment={self.comment!r} as printable characters.")
        if self.decimal not in (".", ",") or self.decimal == self.separator:
            raise DataError(
                f"Expected decimal={self.decimal!r} as '.' or ',', and not what separates the fields; "
                f"that is {self.separator!r}."
            )


class Table(Protocol):
    """A table whose rows can be read as often as wished.

    Args:
        title: what to call it in a sentence.
        names: of all its columns, distinct.
        typed: texts are not numbers, and numbers with a fraction are not whole, whatever their values look like.
        ordered: its rows have the same order whenever they are read.
    """

    title: str
    names: tuple[str, ...]
    typed: bool
    ordered: bool

    def batches(self, columns: Sequence[str]) -> Iterator[list[Values]]:
        """The named columns, in this order, some rows at a time.

        Raises:
            DataError: a file that cannot be read to its end.
        """
        ...

    def hint(self, declared: Sequence[str]) -> str:
        """Why columns that are declared may not be there, and what to do: a sentence without values, or nothing."""
        ...


def open_table(source: object, form: CsvFormat) -> Table:
    """The table in a file or frame, its format recognised by the content.

    Args:
        source: path of a CSV file, gzip or not, or of a Parquet file; a pandas DataFrame; or a DatabaseQuery.
        form: of a CSV file; columns without a header and names are column1, column2, ...

    Raises:
        DataError: nothing that is a table.
    """
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        refuse_elsewhere(os.fspath(source))
        if is_address(source) or (path.is_file() and holds_database(path)):
            raise DataError(f"{show(source)} is a database: state which of its rows to read (--sql 'SELECT ...').")
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
