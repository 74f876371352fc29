"""Reads tables in Parquet files with Arrow, in batches of rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from dpdistill.sources.formats import TableFormat
from dpdistill.sources.tables.arrow_columns import ROWS, ArrowColumns
from dpdistill.storage.files import is_gzip

_BLOCK = 1 << 20
_MAGIC = b"PAR1"


class _Parquet(ArrowColumns):
    """Table of a Parquet file."""

    kind, endings = "Parquet", (".parquet",)

    def opened(self) -> AbstractContextManager[Any]:
        from pyarrow import parquet

        return parquet.ParquetFile(self.path, buffer_size=_BLOCK, pre_buffer=False)

    def names_in(self, file: Any) -> list[str]:
        return file.schema_arrow.names

    def batches_in(self, file: Any, names: list[str]) -> Iterator[Any]:
        return file.iter_batches(ROWS, columns=names, use_threads=False)


FORMAT = TableFormat(
    title="Parquet",
    rank=10,
    endings=_Parquet.endings,
    open=lambda path, _: _Parquet(path),
    holds=lambda path, start: start.startswith(_MAGIC) and not is_gzip(path),
)
