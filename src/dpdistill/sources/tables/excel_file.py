"""Reads tables in Excel workbooks (.xlsx): one sheet, with the names of the columns in its first row."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.schema import DataError
from dpdistill.sources.formats import TableFormat
from dpdistill.storage.files import reading, show

if TYPE_CHECKING:
    from dpdistill.sources.tables.codes import Values

_ROWS = 1 << 14
_MOST_BYTES = 4 << 30
_BOOK = "xl/workbook.xml"


class _Sheet:
    """Returns the table of a sheet: the stated one, or the first. Cells keep their types; empty rows are left out."""

    typed, ordered = False, True

    def __init__(self, path: Path, sheet: str | None) -> None:
        self.path, self.title, self._sheet = path, show(path), sheet
        with self._open() as rows:
            header = next(rows, ())
        filled = [i for i, name in enumerate(header) if name is not None]
        self.names = tuple(str(name).strip() for name in header[: filled[-1] + 1]) if filled else ()
        if unnamed := next((i for i, name in enumerate(header[: len(self.names)], 1) if name is None), None):
            raise DataError(f"Column {unnamed} of {self.title} has no name in the first row.")

    @contextmanager
    def _open(self) -> Iterator[Iterator[tuple[Any, ...]]]:
        """Yields the rows of the sheet as Python values."""
        try:
            from openpyxl import load_workbook
        except ImportError:
            raise DataError("Excel workbooks need openpyxl: pip install 'dpdistill[excel]'.") from None
        with reading(self.path):
            try:
                book = load_workbook(self.path, read_only=True, data_only=True)
            except Exception:  # openpyxl raises many exception types for damaged input
                raise DataError(f"{self.title} is damaged: it cannot be read as an Excel workbook.") from None
            try:
                if self._sheet is not None and self._sheet not in book.sheetnames:
                    known = ", ".join(book.sheetnames[:20])
                    raise DataError(f"{self.title} has no sheet {self._sheet!r:.80}: choose among {known}.")
                yield book[self._sheet or book.sheetnames[0]].iter_rows(values_only=True)
            finally:
                book.close()

    def batches(self, columns: Sequence[str]) -> Iterator[list[Values]]:
        at = [self.names.index(name) for name in columns]
        with self._open() as rows:
            next(rows, None)
            filled = (row for row in rows if any(cell is not None for cell in row))
            while part := list(islice(filled, _ROWS)):
                yield [[row[i] if i < len(row) else None for row in part] for i in at]

    def hint(self, declared: Sequence[str]) -> str:
        return "Its columns are those of the first row of the sheet: `csv: {sheet: NAME}` in the schema states another."


def _is_workbook(path: Path, start: bytes) -> bool:
    if not start.startswith(b"PK\3\4") or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        if _BOOK not in archive.namelist():
            return False
        if sum(member.file_size for member in archive.infolist()) > _MOST_BYTES:
            raise DataError(f"{show(path)} holds more than 4 GiB: save it as CSV UTF-8.")
    return True


FORMAT = TableFormat(
    title="Excel (.xlsx)",
    rank=30,
    endings=(".xlsx", ".xlsm"),
    open=lambda path, form: _Sheet(path, form.sheet),
    holds=_is_workbook,
)
