"""Private records at places of their own: what one record's numbers are does not depend on who else is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.data.records import Records
from dpdistill.private.noise import Entropy
from dpdistill.private.programs import ByValue, encode_rows
from dpdistill.private.sampling import draw_places
from dpdistill.query import Encoder

Chunk = tuple[np.ndarray, np.ndarray]


class PlacedRecords:
    """Records cut into chunks of one shape, each record at a row that was drawn for it alone.

    Row r of chunk k holds the k-th record whose place is r; where there is none, a placeholder of label -1.

    Args:
        records: the private records.
        entropy: where the places come from.

    Guarantee:
        Places are independent of each other and of the records, one for each record and chunk size. So whatever a
        program makes of a row's content and place has the same joint law for all other records with and without one.
    """

    def __init__(self, records: Records, entropy: Entropy) -> None:
        self._records, self._entropy = records, entropy
        self._places: dict[int, np.ndarray] = {}
        self._features: dict[tuple[ByValue, int], tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: nothing about its records is shown>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("Placed records cannot be pickled or copied: they are private.")

    def __len__(self) -> int:
        return len(self._records)

    def chunks(self, encoder: Encoder | None, sampled: np.ndarray | None, size: int) -> Iterator[Chunk]:
        """The records (label -1 if not finite), or their features, in chunks of (X (size, ...), y (size,)).

        Args:
            encoder: its per-record output is a record too: it is kept in memory and nowhere else.
            sampled: indices of the records of this round, or None for all.
            size: rows of a chunk.
        """
        if encoder is None:
            for rows in _table(self._places_of(size), sampled, size):
                X, y = self._records.take(rows)
                yield X, np.where(np.isfinite(X.reshape(len(y), -1)).all(1), y, -1)
            return
        X, y, row_of = self._encoded(encoder, size)
        if sampled is None:  # they lie in this order: nothing is copied
            yield from ((X[i : i + size], y[i : i + size]) for i in range(0, len(y) - 1, size))
            return
        for rows in _table(self._places_of(size), sampled, size):
            at = row_of[rows]
            yield X[at], y[at]

    def _places_of(self, size: int) -> np.ndarray:
        if size not in self._places:
            self._places[size] = draw_places(len(self._records), size, self._entropy)
        return self._places[size]

    def _encoded(self, encoder: Encoder, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(features, labels) of all rows of all chunks, placeholders among them, and the row of every record."""
        key = ByValue(encoder), size
        if key not in self._features:
            table = _table(self._places_of(size), None, size)
            x = jax.ShapeDtypeStruct((1, *self._records.schema.shape), jnp.float32)
            made = jax.eval_shape(encoder, x)
            X = np.zeros((table.size + 1, *made.shape[1:]), made.dtype)
            y = np.full(table.size + 1, -1, np.int64)
            row_of = np.full(len(self._records) + 1, table.size)  # the last entry, -1, is that of placeholders: zeros
            for i, rows in zip(range(0, table.size, size), table, strict=True):
                x, y[i : i + size] = self._records.take(rows)
                with jax.enable_x64(False):  # a linear query may be the first to ask
                    X[i : i + size] = encode_rows(key[0], x)
                row_of[rows[rows >= 0]] = np.arange(i, i + size)[rows >= 0]
            self._features[key] = X, y, row_of
        return self._features[key]


def _table(places: np.ndarray, sampled: np.ndarray | None, size: int) -> np.ndarray:
    """Indices of records (chunks, size): entry (k, r) is the k-th record of those at place r; -1 is a placeholder.

    Places 2, 0, 2 in chunks of 3 give [[1, -1, 0], [-1, -1, 2]].
    """
    indices = np.arange(len(places)) if sampled is None else sampled
    places = places[indices]
    counts = np.bincount(places, minlength=size)
    order = np.argsort(places, kind="stable")
    table = np.full((counts.max(initial=0), size), -1, np.int64)
    table[np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts), places[order]] = indices[order]
    return table
