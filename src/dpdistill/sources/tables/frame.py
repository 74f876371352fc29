"""Reads a pandas DataFrame as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from dpdistill.schema import DataError
from dpdistill.sources.tables.codes import Values

_ROWS = 1 << 16


class Frame:
    """Table of a frame's rows; the frame is never changed."""

    typed, ordered = False, True

    def __init__(self, frame: object) -> None:
        import pandas as pd

        if not isinstance(frame, pd.DataFrame):
            raise DataError(f"Expected a table as a path or a pandas DataFrame; got {type(frame).__name__}.")
        self.title, self._frame = "The frame", frame
        self.names = tuple(str(name).strip() for name in frame.columns)

    def batches(self, columns: Sequence[str]) -> Iterator[list[Values]]:
        at = [self.names.index(name) for name in columns]
        for start in range(0, len(self._frame), _ROWS):
            yield [_values(self._frame.iloc[start : start + _ROWS, i]) for i in at]

    def hint(self, declared: Sequence[str]) -> str:
        """Returns an empty text, since the owner has read the frame."""
        return ""


def _values(series: Any) -> Values:
    """Returns the values of a pandas column: an array if pandas states one type, else individual cells.

    Arrow would infer the type of a column of objects, or of mixed categories, from all values.
    """
    if series.dtype == "category":  # `tolist` converts the type of the categories to Python types
        kept = [*series.cat.categories.to_numpy()]
        return [None if code < 0 else kept[code] for code in series.cat.codes.tolist()]
    if series.dtype == object:
        return series.tolist()
    try:
        values = pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return series.tolist()
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
