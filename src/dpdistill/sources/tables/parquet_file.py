"""Reads tables in Parquet files with Arrow, in batches of rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.schema import DataError
from dpdistill.sources.formats import TableFormat
from dpdistill.storage.files import is_gzip, reading, show

if TYPE_CHECKING:
    from dpdistill.sources.tables.codes import Values

_BLOCK = 1 << 20
_ROWS = 1 << 16
_MAGIC = b"PAR1"
_INDEX = re.compile(r"__index_level_\d+__")  # where pandas keeps the index of rows


class _Parquet:
    """Returns the table of a Parquet file."""

    typed, ordered = False, True

    def __init__(self, path: Path) -> None:
        self.path, self.title = path, show(path)
        with self._open() as file:
            names = file.schema_arrow.names
        self._written = [name for name in names if not _INDEX.fullmatch(name)]
        self.names = tuple(name.strip() for name in self._written)

    @contextmanager
    def _open(self) -> Iterator[Any]:
        import pyarrow as pa
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


FORMAT = TableFormat(
    title="Parquet",
    rank=10,
    endings=(".parquet",),
    open=lambda path, _: _Parquet(path),
    holds=lambda path, start: start.startswith(_MAGIC) and not is_gzip(path),
)
