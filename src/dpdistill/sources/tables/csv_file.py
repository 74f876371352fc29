"""Reads tables in CSV files, gzip or not, with Arrow, in batches of complete rows."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.schema import DataError
from dpdistill.sources.formats import TableFormat
from dpdistill.sources.tables.csv_text import HEADER, NOT_UTF8, RAGGED, end_of_rows, sentence, unspaced
from dpdistill.sources.tables.other_formats import require_text
from dpdistill.storage.files import is_gzip, reading, show

if TYPE_CHECKING:
    from dpdistill.sources.tables.codes import Values
    from dpdistill.sources.tables.source import CsvFormat

_BLOCK = 1 << 20
_SEPARATORS = (",", ";", "\t", "|")


class _Csv:
    """Returns the table of a CSV file."""

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
        import pyarrow as pa
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


def _is_text(path: Path, start: bytes) -> bool:
    require_text(path, start)
    return True


FORMAT = TableFormat(title="CSV (also gzip)", rank=90, endings=(".csv", ".tsv", ".data"), open=_Csv, holds=_is_text)
"""Has the last rank: a file of no other format is read as text, or refused."""
