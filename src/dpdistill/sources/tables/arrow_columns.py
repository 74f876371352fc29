"""Columns of a file that Arrow reads: their names without the index of pandas, and batches of rows."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.schema import DataError
from dpdistill.schema.column import INDEX
from dpdistill.storage.files import reading, show

if TYPE_CHECKING:
    from dpdistill.sources.tables.codes import Values

ROWS = 1 << 16
"""Most rows of a batch."""


class ArrowColumns(ABC):
    """Table in a file that Arrow reads.

    Args:
        path: the file.
    """

    typed, ordered = False, True
    kind: str
    """Name of the file format, to follow "it cannot be read as"."""
    endings: tuple[str, ...]
    """Endings of the names of such files."""

    def __init__(self, path: Path) -> None:
        self.path, self.title = path, show(path)
        with self._reading() as file:
            names = self.names_in(file)
        self._written = [name for name in names if not INDEX.fullmatch(name)]
        self.names = tuple(name.strip() for name in self._written)

    @abstractmethod
    def opened(self) -> AbstractContextManager[Any]:
        """Returns the open file."""

    @abstractmethod
    def names_in(self, file: Any) -> list[str]:
        """Returns the names of all columns of an open file."""

    @abstractmethod
    def batches_in(self, file: Any, names: list[str]) -> Iterator[Any]:
        """Yields batches of at most ROWS rows of an open file, with the named columns at least."""

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        import pyarrow as pa

        with reading(self.path):
            try:
                with self.opened() as file:
                    yield file
            except (pa.ArrowException, OSError) as error:
                if isinstance(error, OSError) and error.errno:
                    raise
                raise DataError(f"{self.title} is damaged: it cannot be read as {self.kind}.") from None

    def batches(self, columns: Sequence[str]) -> Iterator[list[Values]]:
        """Yields the values of some columns, batch by batch."""
        written = [self._written[self.names.index(name)] for name in columns]
        with self._reading() as file:
            for batch in self.batches_in(file, written):
                yield [batch.column(name) for name in written]

    def hint(self, declared: Sequence[str]) -> str:
        """Returns a sentence about a file whose name is that of another format."""
        named = re.search(r"(\.(?:csv|tsv|txt|parquet|arrow|feather))(\.gz)?$", self.path.name, re.IGNORECASE)
        if named is None or named[1].lower() in self.endings:
            return ""
        return f"It is {self.kind}, although its name ends in {named[0]}."
