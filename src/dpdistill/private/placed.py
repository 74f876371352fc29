"""Private records at places of their own: what one record's numbers are does not depend on who else is there."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.data.records import Records, Unshown
from dpdistill.private.noise import Entropy
from dpdistill.private.programs import ByValue, encode_rows
from dpdistill.private.sampling import draw_places, keep_rows
from dpdistill.query import Encoder

Chunk = tuple[np.ndarray, np.ndarray]


class PlacedRecords(Unshown):
    """Records cut into chunks of one shape, each record at a row that was drawn for it alone.

    Row r of chunk k holds the k-th record whose place is r; where there is none, a placeholder of label -1.

    Args:
        records: the private records.
        entropy: where the places come from, and the choice among a unit's records.
        rows_per_unit: the most records of a unit that are kept; None takes every record for a unit of its own.

    Guarantee:
        Places are independent of each other and of the records, one for each record and chunk size. So whatever a
        program makes of a row's content and place has the same joint law for all other records with and without one,
        or with and without those of a unit. What is kept of a unit depends on nobody else.
    """

    def __init__(self, records: Records, entropy: Entropy, rows_per_unit: int | None = None) -> None:
        self._records, self._entropy = records, entropy
        kept = self.unit_of = np.arange(len(records))  # the unit of each kept record, 0 .. units - 1
        if rows_per_unit is not None:
            assert records.units is not None
            kept = keep_rows(records.units, rows_per_unit, entropy)
            self.unit_of = np.unique(records.units[kept], return_inverse=True)[1]
        self.units, self._record = int(self.unit_of.max(initial=-1)) + 1, np.append(kept, -1)  # -1 is a placeholder
        self._places: dict[int, np.ndarray] = {}
        self._features: dict[tuple[ByValue, int], tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self.unit_of)

    def chunks(self, encoder: Encoder | None, sampled: np.ndarray | None, size: int) -> Iterator[Chunk]:
        """The records (label -1 if not finite), or their features, in chunks of (X (size, ...), y (size,)).

        Args:
            encoder: its per-record output is a record too: it is kept in memory and nowhere else.
            sampled: indices of the records of this round, or None for all.
            size: rows of a chunk.
        """
        if encoder is None:
            for rows in _table(self._places_of(size), sampled, size):
                X, y = self._records.take(self._record[rows])
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
            self._places[size] = draw_places(len(self), size, self._entropy)
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
            row_of = np.full(len(self) + 1, table.size)  # the last entry, -1, is that of placeholders: zeros
            for i, rows in zip(range(0, table.size, size), table, strict=True):
                x, y[i : i + size] = self._records.take(self._record[rows])
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
