"""Reads tables in Arrow IPC files, also called Feather, in batches of rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dpdistill.sources.formats import TableFormat
from dpdistill.sources.tables.arrow_columns import ROWS, ArrowColumns
from dpdistill.storage.files import is_gzip

_MAGIC = b"ARROW1"


class _Arrow(ArrowColumns):
    """Table of an Arrow IPC file."""

    kind, endings = "an Arrow file", (".arrow", ".feather")

    @contextmanager
    def opened(self) -> Iterator[Any]:
        import pyarrow as pa

        with pa.OSFile(str(self.path)) as file, pa.ipc.open_file(file) as opened:
            yield opened

    def names_in(self, file: Any) -> list[str]:
        return file.schema.names

    def batches_in(self, file: Any, names: list[str]) -> Iterator[Any]:
        for k in range(file.num_record_batches):
            batch = file.get_batch(k)
            batch.validate(full=True)
            for start in range(0, batch.num_rows, ROWS):
                yield batch.slice(start, ROWS)


FORMAT = TableFormat(
    title="Arrow (Feather)",
    rank=20,
    endings=_Arrow.endings,
    open=lambda path, _: _Arrow(path),
    holds=lambda path, start: start.startswith(_MAGIC) and not is_gzip(path),
)
