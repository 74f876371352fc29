"""Reads tables in Arrow IPC files, also called Feather, in batches of rows."""

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

_ROWS = 1 << 16
_MAGIC = b"ARROW1"
_INDEX = re.compile(r"__index_level_\d+__")  # where pandas keeps the index of rows


class _Arrow:
    """Returns the table of an Arrow IPC file."""

    typed, ordered = False, True

    def __init__(self, path: Path) -> None:
        self.path, self.title = path, show(path)
        with self._open() as file:
            names = file.schema.names
        self._written = [name for name in names if not _INDEX.fullmatch(name)]
        self.names = tuple(name.strip() for name in self._written)

    @contextmanager
    def _open(self) -> Iterator[Any]:
        import pyarrow as pa

        with reading(self.path):
            try:
                with pa.OSFile(str(self.path)) as file, pa.ipc.open_file(file) as opened:
                    yield opened
            except (pa.ArrowException, OSError) as error:
                if isinstance(error, OSError) and error.errno:
                    raise
                raise DataError(f"{self.title} is damaged: it cannot be read as an Arrow file.") from None

    def batches(self, columns: Sequence[str]) -> Iterator[list[Values]]:
        at = [self.names.index(name) for name in columns]
        written = [self._written[i] for i in at]
        with self._open() as file:
            for k in range(file.num_record_batches):
                batch = file.get_batch(k)
                batch.validate(full=True)
                for start in range(0, batch.num_rows, _ROWS):
                    part = batch.slice(start, _ROWS)
                    yield [part.column(name) for name in written]

    def hint(self, declared: Sequence[str]) -> str:
        """Returns a sentence about an Arrow file with a misleading name."""
        named = re.search(r"\.(csv|tsv|txt|parquet)(\.gz)?$", self.path.name, re.IGNORECASE)
        return f"It is an Arrow file, although its name ends in {named[0]}." if named else ""


FORMAT = TableFormat(
    title="Arrow (Feather)",
    rank=20,
    endings=(".arrow", ".feather"),
    open=lambda path, _: _Arrow(path),
    holds=lambda path, start: start.startswith(_MAGIC) and not is_gzip(path),
)
