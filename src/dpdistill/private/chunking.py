"""Places private records independently: a record's numbers do not depend on the presence of other records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.private.noise import Entropy
from dpdistill.private.sampling import draw_places, keep_rows
from dpdistill.programs.clipping import encode_rows
from dpdistill.query import ByValue, Encoder
from dpdistill.storage.feature_store import Features
from dpdistill.storage.memory import Memory
from dpdistill.storage.records import Records, Unshown

Chunk = tuple[np.ndarray, np.ndarray]
Shard = tuple[int, int]
WHOLE: Shard = (0, 1)
GROUP = 8
"""Chunks in a group. Shards are cut between groups, so that sums within a group never depend on the number of shards.
"""


class Numbers(dict[tuple[ByValue, int], int]):
    """Numbers of encoders and sizes, in the order of their first request; each has its own features."""

    def __missing__(self, key: tuple[ByValue, int]) -> int:
        return self.setdefault(key, len(self))


class ChunkedRecords(Unshown):
    """Records in chunks of one shape: the rows of each unit are together, at a place drawn for the unit.

    For k = 1, every record is a unit. Place r of chunk c has the c-th unit whose place is r, in k rows. Empty places,
    and the rows after a smaller unit, are filled with placeholders of label -1.

    Args:
        records: the private records.
        entropy: source of the places, and of the choice among a unit's records.
        rows_per_unit: k, the largest number of records kept per unit; None takes every record for a unit of its own.
        space: memory limit and folder of features.

    Guarantee:
        Places are independent of each other and of the records, one for each unit. So any function of a unit's content
        and place has the same joint law for all other units with and without that unit. Which records of a unit are
        kept depends on no other unit. None of this depends on the number of shards.
    """

    def __init__(
        self, records: Records, entropy: Entropy, rows_per_unit: int | None = None, space: Memory | None = None
    ) -> None:
        self._records, self._space, self.k = records, space or Memory(), rows_per_unit or 1
        kept = np.arange(len(records))[:, None]
        if rows_per_unit is not None:
            assert records.units is not None
            kept = keep_rows(records.units, rows_per_unit, entropy)
        self._rows = np.concatenate([kept, np.full((1, self.k), -1)])  # the last entry, -1, is a placeholder
        self._places = draw_places(len(self), entropy)
        self._tables: dict[int, np.ndarray] = {}
        self._features: dict[int, tuple[Features, np.ndarray, np.ndarray]] = {}

    def __len__(self) -> int:
        """Returns the number of units."""
        return len(self._rows) - 1

    def chunks(
        self,
        encoder: Encoder | None,
        sampled: np.ndarray | None,
        size: int,
        shard: Shard = WHOLE,
        number: int | None = None,
    ) -> Iterator[Chunk]:
        """Yields the records (label -1 if not finite), or their features, in chunks of (X (rows, ...), y (rows,)).

        Args:
            encoder: its per-record output is a record too.
            sampled: indices of the units of this round, or None for all.
            size: units of a chunk, each of k rows.
            shard: (i, n): the i-th of n parts of the chunks.
            number: number of the encoder and the size, whose features are kept: `fill` must have computed those of this
                shard, or all of them for a sample. None computes them again.
        """
        if encoder is not None and number is not None:
            yield from self._kept(encoder, sampled, size, shard, number)
            return
        for units in _part(self._table(sampled, size), shard):
            X, y = self._records.take(self._rows[units].ravel())
            if encoder is None:
                yield X, np.where(np.isfinite(X.reshape(len(y), -1)).all(1), y, -1)
                continue
            with jax.enable_x64(False):  # a linear query may be the first to need them
                X = np.asarray(encode_rows(ByValue(encoder), X))
            yield X, y

    def fill(self, encoder: Encoder, size: int, number: int, shard: Shard = WHOLE) -> None:
        """Computes the features of a shard, once. The number is the same in all processes that share files."""
        features = self._found(encoder, size, number)[0]
        if features.filled(shard):
            return
        start = _part(range(len(self._table(None, size))), shard)[:1]
        for c, (X, _) in enumerate(self.chunks(encoder, None, size, shard), *start):
            features.write(c * size * self.k, X)
        features.say_filled(shard)

    def _kept(
        self, encoder: Encoder, sampled: np.ndarray | None, size: int, shard: Shard, number: int
    ) -> Iterator[Chunk]:
        features, y, row_of = self._found(encoder, size, number)
        if sampled is None:  # features are stored in this order
            starts = range(0, len(y) - self.k, size * self.k)
            yield from ((features.read(at, size * self.k), y[at : at + size * self.k]) for at in _part(starts, shard))
            return
        for units in _part(self._table(sampled, size), shard):
            rows = row_of[units]
            at = (rows[:, None] + np.arange(self.k)).ravel()
            yield np.concatenate([features.read(row, self.k) for row in rows]), y[at]

    def _found(self, encoder: Encoder, size: int, number: int) -> tuple[Features, np.ndarray, np.ndarray]:
        """Returns (features, labels) of all rows of all chunks, including placeholders, and the first row of every
        unit.
        """
        if number not in self._features:
            table = self._table(None, size)
            x = jax.ShapeDtypeStruct((1, *self._records.schema.shape), jnp.float32)
            made, rows = jax.eval_shape(encoder, x), self._rows[table].ravel()
            y = np.append(np.where(rows >= 0, np.append(self._records.y, -1)[rows], -1), np.full(self.k, -1))
            row_of = np.full(len(self) + 1, len(rows))  # the last entry, -1, is the placeholders': zeros
            row_of[table[table >= 0]] = self.k * np.flatnonzero(table.ravel() >= 0)
            result = Features((len(y), *made.shape[1:]), made.dtype, self._space, f"features-{number}")
            self._features[number] = result, y, row_of
        return self._features[number]

    def _table(self, sampled: np.ndarray | None, size: int) -> np.ndarray:
        if sampled is not None:
            return place_table(self._places[sampled], sampled, size)
        if size not in self._tables:
            self._tables[size] = place_table(self._places, np.arange(len(self)), size)
        return self._tables[size]


def place_table(places: np.ndarray, indices: np.ndarray, size: int) -> np.ndarray:
    """Returns indices of units (chunks, size): entry (c, r) is the c-th unit at place r; -1 is a placeholder.

    Places 2, 0, 2 of units 0, 1, 2 in chunks of 3 give [[1, -1, 0], [-1, -1, 2]].
    """
    at = places.astype(np.int64) % size
    counts = np.bincount(at, minlength=size)
    order = np.argsort(at, kind="stable")
    table = np.full((counts.max(initial=0), size), -1, np.int64)
    table[np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts), at[order]] = indices[order]
    return table


def _part(chunks: Any, shard: Shard) -> Any:
    """Returns the chunks of a shard: whole, consecutive groups."""
    (i, n), groups = shard, -(-len(chunks) // GROUP)
    return chunks[GROUP * (groups * i // n) : GROUP * (groups * (i + 1) // n)]
