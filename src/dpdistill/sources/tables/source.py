"""Reads tables in a CSV file, a Parquet file or a pandas DataFrame, in batches of columns."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pydantic import StrictBool

from dpdistill.schema import DataError
from dpdistill.schema.facts import STRICT
from dpdistill.sources.tables.codes import Values
from dpdistill.sources.tables.csv_text import HEADER, NOT_UTF8, RAGGED, end_of_rows, sentence, unspaced
from dpdistill.sources.tables.database import DatabaseQuery, Rows, holds_database
from dpdistill.sources.tables.frame import Frame
from dpdistill.sources.tables.other_formats import require_text
from dpdistill.storage.files import head, is_address, is_gzip, reading, refuse_elsewhere, require_file, show

MISSING = ("", "NA", "NaN", "nan", "null")
_BLOCK = 1 << 20
_ROWS = 1 << 16
_PARQUET = b"PAR1"
_INDEX = re.compile(r"__index_level_\d+__")  # where pandas keeps the index of rows
_SEPARATORS = (",", ";", "\t", "|")


@dataclass(frozen=True)
class CsvFormat:
    """Format of CSV files.

    Args:
        header: True if a file begins with column names.
        names: names of all columns in the file's order, for files without a header.
        separator: separator of fields, one character.
        missing: marks of a missing value, also in other formats; a number means all spellings of that number.
        comment: prefix of lines to skip.
        decimal: decimal separator of numbers in texts, "." or ",", also in other formats; with a comma 1.234,5 is
            1234.5, 1.234 is 1234 and 0.5 is no number. Typed numbers are unaffected.

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


def open_table(source: Any, form: CsvFormat) -> Table:
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
        if start.startswith(_PARQUET) and not is_gzip(path):
            table: Table = _Parquet(path)
        else:
            require_text(path, start)
            table = _Csv(path, form)
    elif isinstance(source, DatabaseQuery):
        table = Rows(source)
    else:
        table = Frame(source)
    if not table.names:
        raise DataError(f"{table.title} has no columns.")
    if twice := next((name for name in table.names if table.names.count(name) > 1), None):
        raise DataError(f"{table.title} has two columns named {twice[:80]!r}.")
    return table


class _Csv:
    typed, ordered = False, True

    def __init__(self, path: Path, form: CsvFormat) -> None:
        self.path, self.title, self.form, self.names = path, show(path), form, form.names
        if not self.names:
            with self._open() as file:
                first = self._read_header(file)
            self.names = first if form.header else tuple(f"column{i}" for i in range(1, len(first) + 1))

    @contextmanager
    def _open(self) -> Iterator[io.BufferedIOBase]:
        opener = gzip.open if is_gzip(self.path) else open
        with reading(self.path), opener(self.path, "rb") as file:
            mark = (self.form.comment or "").encode()
            yield io.BufferedReader(_Uncommented(file, mark), _BLOCK) if mark else file

    def _read_header(self, file: io.BufferedIOBase) -> tuple[str, ...]:
        """Returns the column names, and leaves the file at its first row."""
        decoded = chain(["utf-8-sig"], repeat("utf-8"))  # a byte order mark may precede the first quote
        lines = (line.decode(code) for line, code in zip(_physical_lines(file), decoded, strict=False))
        try:
            rows = csv.reader(lines, delimiter=self.form.separator, skipinitialspace=True)
            row = next((row for row in rows if row), [])
        except UnicodeDecodeError:
            raise DataError(f"{self.title} {NOT_UTF8}.") from None
        except csv.Error:
            raise DataError(f"{self.title} has no header that can be read: {HEADER}.") from None
        if row and re.fullmatch("sep=.?", row[0]):
            raise DataError(f"{self.title} begins with Excel's line sep=, which has no column names: remove this line.")
        return tuple(name.strip() for name in row)

    def batches(self, columns: Sequence[str]) -> Iterator[list[Values]]:
        from pyarrow import csv as arrow

        with self._open() as file:
            if self.form.header:
                self._read_header(file)
            read = arrow.ReadOptions(column_names=self.names, block_size=4 * _BLOCK, use_threads=False)
            parse = arrow.ParseOptions(delimiter=self.form.separator, newlines_in_values=True)
            convert = arrow.ConvertOptions(
                column_types={name: pa.string() for name in self.names},
                strings_can_be_null=False,
                include_columns=list(columns),
            )
            before = 0
            # open_csv is avoided: after an error its thread may hang or abort the process at exit.
            for rows in self._whole_rows(file):
                try:
                    table = arrow.read_csv(pa.BufferReader(unspaced(rows, self.form.separator)), read, parse, convert)
                except pa.ArrowInvalid as error:
                    if "Empty CSV" in str(error):
                        continue
                    raise DataError(f"{self.title} {sentence(str(error), before)}.{self._ragged(str(error))}") from None
                before += len(table)
                for batch in table.to_batches():
                    yield batch.columns

    def _whole_rows(self, file: io.BufferedIOBase) -> Iterator[bytes]:
        """Yields complete rows of the rest of the file, about one block at a time."""
        # A leading line end, which is no row: Arrow removes a byte order mark only from the first bytes.
        rest = b"\n" if self.form.header else b""
        while block := file.read(_BLOCK):
            rest += block
            end = end_of_rows(rest, self.form.separator)
            if len(rest) - end > _BLOCK:
                raise DataError(f"{self.title} has a row of more than {_BLOCK} bytes, or a quote that is never closed.")
            yield rest[:end]
            rest = b"\n" + rest[end:]
        yield rest

    def _ragged(self, problem: str) -> str:
        """Returns the line of the file with a wrong number of fields, with advice."""
        if not RAGGED.search(problem):
            return ""
        with self._open() as file:
            lines = (line.decode("utf-8", "replace") for line in _physical_lines(file))
            rows = csv.reader(lines, delimiter=self.form.separator, skipinitialspace=True)
            line = next((rows.line_num for row in rows if row and len(row) != len(self.names)), None)
        where = "" if line is None or self.form.comment else f"That is line {line}: "
        rows = " R names its rows in a column without a name: write.table(..., row.names = FALSE)."
        return (
            f" {where}a field that contains {self.form.separator!r} must be in double quotes."
            f"{rows if re.search(f'Row #1: .* {len(self.names)} columns, got {len(self.names) + 1}', problem) else ''}"
        )

    def hint(self, declared: Sequence[str]) -> str:
        """Returns the separator of the file's first line, or that there are no names; never the content."""
        named = re.search(r"\.(parquet|pq|xlsx?|json)$", self.path.name, re.IGNORECASE)
        kind = f"It is CSV text, although its name ends in {named[0]}. " if named else ""
        if not self.form.header or self.form.names:
            return kind + "Its columns are those of csv.names in the schema."
        with self._open() as file:
            first = next((line for line in _physical_lines(file) if line.strip()), b"").decode("utf-8", "replace")
        for separator in _SEPARATORS:
            names = {name.strip(" \r\n\ufeff\"'") for name in first.split(separator)}
            if separator != self.form.separator and names.issuperset(declared):
                return (
                    f"{kind}Its line 1 is separated by {separator!r}, not by {self.form.separator!r}: write `csv: "
                    f"{{separator: {json.dumps(separator)}}}` into the schema (schema draft takes --separator)."
                )
        names = {name.casefold(): name for name in self.names}
        if other := next((names[name.casefold()] for name in declared if names.get(name.casefold(), name) != name), ""):
            return f"{kind}Its line 1 has {other[:80]!r}: names must be equal, including case."
        if not set(self.names) & set(declared):
            return (
                f"{kind}Its line 1 holds none of the {len(declared)} columns of the schema: where the file has no "
                "header, write `csv: {header: false, names: [...]}` with all of its columns into the schema."
            )
        return kind.rstrip()


def _physical_lines(file: io.BufferedIOBase) -> Iterator[bytes]:
    return iter(lambda: file.readline(_BLOCK), b"")


class _Uncommented(io.RawIOBase):
    """Stream of a file's lines without comment lines."""

    def __init__(self, file: io.BufferedIOBase, mark: bytes) -> None:
        self._lines = (line for line in _physical_lines(file) if not line.startswith(mark))
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        chunk = self._rest or next(self._lines, b"")
        size = min(len(chunk), len(buffer))
        buffer[:size], self._rest = chunk[:size], chunk[size:]
        return size


class _Parquet:
    typed, ordered = False, True

    def __init__(self, path: Path) -> None:
        self.path, self.title = path, show(path)
        with self._open() as file:
            names = file.schema_arrow.names
        self._written = [name for name in names if not _INDEX.fullmatch(name)]
        self.names = tuple(name.strip() for name in self._written)

    @contextmanager
    def _open(self) -> Iterator[Any]:
        from pyarrow import parquet

        with reading(self.path):
            try:
                with parquet.ParquetFile(self.path, buffer_size=_BLOCK, pre_buffer=False) as file:
                    yield file
            except (pa.ArrowException, OSError) as error:
                if isinstance(error, OSError) and error.errno:
                    raise
                raise DataError(f"{self.title} is damaged: it cannot be read as Parquet.") from None

    def batches(self, columns: Sequence[str]) -> Iterator[list[Values]]:
        written = [self._written[self.names.index(name)] for name in columns]
        with self._open() as file:
            for batch in file.iter_batches(_ROWS, columns=written, use_threads=False):
                yield [batch.column(name) for name in written]

    def hint(self, declared: Sequence[str]) -> str:
        """Returns a sentence about a Parquet file with a misleading name."""
        named = re.search(r"\.(csv|tsv|txt)(\.gz)?$", self.path.name, re.IGNORECASE)
        return f"It is Parquet, although its name ends in {named[0]}." if named else ""
