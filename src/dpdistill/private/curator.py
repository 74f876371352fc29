"""The curator: the only reader of private records while distilling. What it hands out is noised and paid for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.accounting.schedule import Schedule
from dpdistill.data.records import Records
from dpdistill.ledger.database import LedgerError
from dpdistill.ledger.run import RunLedger
from dpdistill.private.checks import CuratorError, check_query
from dpdistill.private.grid import make_grid
from dpdistill.private.linear import release_linear, sum_linear
from dpdistill.private.noise import Entropy, SystemEntropy, rounded_gaussian
from dpdistill.private.sampling import poisson_coins
from dpdistill.query import MOST_ROWS, Encoder, LinearQuery, Params, Query, Release


@dataclass(frozen=True)
class Compute:
    """How the work is cut up; it can change the speed, never the guarantee.

    Args:
        chunk: records a compiled call works on, >= 1.
        block: the same for linear queries, whose work is a few matrix products, <= 128.

    Raises:
        ValueError: a number out of its range; the error bounds of linear queries rest on the block.
    """

    chunk: int = 32
    block: int = 128

    def __post_init__(self) -> None:
        if self.chunk < 1:
            raise ValueError(f"Expected chunk={self.chunk} >= 1.")
        if not 1 <= self.block <= MOST_ROWS:
            raise ValueError(f"Expected 1 <= block={self.block} <= {MOST_ROWS}.")


@partial(jax.jit, static_argnums=0)
def _grid_rows(query: Query, params: Params, X: jax.Array, y: jax.Array, float_clip: Any, step: Any) -> jax.Array:
    """Contributions of a chunk, clipped in float and rounded to the grid: (rows, d) int32; not finite is zero."""

    def row(x: jax.Array, label: jax.Array) -> jax.Array:
        v = query.contribution(params, x, label).ravel().astype(jnp.float32)
        largest = jnp.abs(v).max(initial=0.0)
        unit = v / jnp.where(largest > 0, largest, 1.0)
        norm = largest * jnp.sqrt(jnp.sum(jnp.square(unit)))
        v = v * jnp.minimum(1.0, float_clip / jnp.where(norm > 0, norm, 1.0))
        finite = jnp.isfinite(norm) & jnp.all(jnp.isfinite(v))
        return jnp.where(finite, jnp.rint(v / step), 0.0).astype(jnp.int32)

    return jax.vmap(row)(X, y)


@partial(jax.jit, static_argnums=0)
def _plain_rows(query: Query, params: Params, X: jax.Array, y: jax.Array) -> jax.Array:
    return jax.vmap(lambda x, label: query.contribution(params, x, label).ravel())(X, y)


@partial(jax.jit, static_argnums=0)
def _encode_rows(encoder: Encoder, X: jax.Array) -> jax.Array:
    # One record at a time: an encoder that standardises its batch must not see others.
    return jax.vmap(lambda x: encoder(x[None])[0])(X)


class _Room:
    """What both curators share: records that nobody else sees, cut into chunks of one shape."""

    def __init__(self, records: Records, compute: Compute) -> None:
        self._records, self._compute = records, compute
        self._encoded: dict[Encoder, np.ndarray] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: nothing about its records is shown>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("A curator cannot be pickled or copied: it holds private records.")

    def _encode(self, encoder: Encoder) -> np.ndarray:
        """Per-record outputs of a fixed encoder are records: they are kept in memory and nowhere else."""
        if encoder not in self._encoded:
            size = self._compute.chunk
            with jax.enable_x64(False):  # a linear query may be the first to ask
                chunks = self._records.chunks(None, size)
                rows = [np.asarray(_encode_rows(encoder, X))[:valid] for X, _, valid in chunks]
            empty = np.zeros((0, *self._encoded_shape(encoder)), np.float32)
            self._encoded[encoder] = np.concatenate([empty, *rows])
        return self._encoded[encoder]

    def _encoded_shape(self, encoder: Encoder) -> tuple[int, ...]:
        x = jax.ShapeDtypeStruct((1, *self._records.schema.shape), jnp.float32)
        return tuple(jax.eval_shape(encoder, x).shape[1:])

    def _chunks(
        self, encoder: Encoder | None, indices: np.ndarray | None, size: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
        if encoder is None:
            yield from self._records.chunks(indices, size)
            return
        features = self._encode(encoder)
        n = len(features) if indices is None else len(indices)
        for start in range(0, n, size):
            rows: Any = slice(start, start + size) if indices is None else indices[start : start + size]
            X, y = features[rows], self._records.y[rows]  # all records in turn: nothing is copied
            if len(y) < size:
                short = size - len(y)
                X = np.concatenate([X, np.zeros((short, *X.shape[1:]), X.dtype)])
                y = np.concatenate([y, np.full(short, -1, y.dtype)])
            yield X, y, min(size, n - start)

    def _sum(
        self,
        query: Query,
        rows_of: Callable[[np.ndarray, np.ndarray], jax.Array],
        indices: np.ndarray | None,
        shape: tuple[int, ...],
        dtype: type,
        admissible: Callable[[np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """Sum of the admissible rows with a known label; the next chunk is on its way while one is added."""
        classes = len(self._records.schema.classes)
        total = np.zeros((classes if query.by_class else 1, math.prod(shape)), dtype)

        def add(z: jax.Array, y: np.ndarray, valid: int) -> None:
            rows, labels = np.asarray(z)[:valid], y[:valid]
            kept = (labels >= 0) & (labels < classes) & admissible(rows)
            blocks = labels if query.by_class else np.zeros_like(labels)
            for block in np.unique(blocks[kept]):
                total[block] += rows[kept & (blocks == block)].sum(0, dtype=dtype)

        waiting = None
        for X, y, valid in self._chunks(query.encoder, indices, self._compute.chunk):
            started = rows_of(X, y.astype(np.int32)), y, valid
            if waiting is not None:
                add(*waiting)
            waiting = started
        if waiting is not None:
            add(*waiting)
        return total.reshape((classes, *shape) if query.by_class else shape)


class Curator(_Room):
    """Answers queries with noised sums, each paid for in the ledger before it is handed out.

    Args:
        records: the private records.
        schedule: what every round pays; no deviation is accepted.
        ledger: where releases are committed.
        entropy: source of noise and coins; anything but the operating system's is for tests.
        compute: how the work is cut up.

    Guarantee:
        The release of round t is S + N(0, (noise_multiplier clip_norm)^2) rounded to the grid, S a sum over a Poisson
        sample of integer contributions. Each has norm at most clip_norm, whatever the query's float arithmetic did. The
        sensitivity is clip_norm under add-or-remove and at most 2 clip_norm under replace-one, provided that removing a
        record leaves the integers of the others as they are: XLA must give a row the same integers in every place of a
        chunk. Tests hold that for the queries of our methods on a CPU; it is not claimed for a GPU. Errors after
        loading are fixed sentences of public facts.
    """

    def __init__(
        self,
        records: Records,
        schedule: Schedule,
        ledger: RunLedger,
        entropy: Entropy | None = None,
        compute: Compute | None = None,
    ) -> None:
        super().__init__(records, compute or Compute())
        self._schedule, self._ledger, self._entropy = schedule, ledger, entropy or SystemEntropy()

    @property
    def noise_kind(self) -> str:
        """Where the noise comes from, as the certificate says it."""
        return self._entropy.kind

    def release(self, t: int, query: Query, params: Params) -> Release:
        """The noised answer of round t: drawn and paid for once, replayed ever after.

        Args:
            t: number of the round, from 0, in the schedule's order.
            query: what is asked; the same object (by value) for a whole stage, so that it compiles once.
            params: its parameters of this round, a pytree of arrays.

        Returns:
            Release with value (classes, d...) for a query by class, else (d...).

        Raises:
            CuratorError: a query that is refused, or a round that could not be answered.
            LedgerError: the round is out of order or could not be committed.
        """
        stored = self._ledger.lookup(t)
        if stored is None:
            shape = check_query(query, params, self._records.schema)
            failure = None
            try:
                # No trap of a debugger, no warning: whether it springs would depend on the records.
                with jax.debug_nans(False), jax.debug_infs(False), np.errstate(all="ignore"):
                    value, stddev = self._draw(t, query, params, shape)
            except LedgerError:
                raise
            except Exception:
                failure = CuratorError(f"Round {t} could not be answered; nothing was released and nothing was paid.")
            if failure is not None:
                raise failure
            stored = self._ledger.commit(t, self._schedule.event(t), value, stddev)
        return Release(stored.round, stored.value, stored.stddev, stored.event)

    def _draw(self, t: int, query: Query, params: Params, shape: tuple[int, ...]) -> tuple[np.ndarray, float]:
        event, n = self._schedule.event(t), len(self._records)
        indices = None
        if event.sampling_prob < 1.0:
            indices = np.flatnonzero(poisson_coins(n, event.sampling_prob, self._entropy))
        if isinstance(query, LinearQuery):
            chunks = self._chunks(query.encoder, indices, self._compute.block)
            classes = len(self._records.schema.classes)
            return release_linear(query, params, chunks, shape, classes, event.noise_multiplier, self._entropy)
        grid = make_grid(query.clip_norm, event.noise_multiplier, math.prod(shape), 1, n)

        def rows_of(X: np.ndarray, y: np.ndarray) -> jax.Array:
            return _grid_rows(query, params, X, y, grid.float_clip, grid.step)

        total = self._sum(query, rows_of, indices, shape, np.int64, grid.admissible)
        noise = rounded_gaussian(total.shape, event.noise_multiplier * grid.K, self._entropy)
        return (total + noise).astype(np.float64) * grid.step, event.noise_multiplier * query.clip_norm


class NonPrivateCurator(_Room):
    """Answers with plain sums: no clip, no noise, no guarantee (epsilon is infinite). On request only.

    Args:
        records: the records.
        plan: sampling probabilities by round.
        seed: of the coins.
    """

    noise_kind = "none"

    def __init__(
        self, records: Records, sampling_probs: list[float], seed: int, compute: Compute | None = None
    ) -> None:
        super().__init__(records, compute or Compute())
        self._sampling_probs, self._seed = sampling_probs, seed

    def release(self, t: int, query: Query, params: Params) -> Release:
        """The plain sum of round t over a Poisson sample; rows that are not finite are left out."""
        x = jax.ShapeDtypeStruct(self._records.schema.shape, jnp.float32)
        if query.encoder is not None:
            x = jax.ShapeDtypeStruct(self._encoded_shape(query.encoder), jnp.float32)
        out = jax.eval_shape(query.contribution, params, x, jax.ShapeDtypeStruct((), jnp.int32))
        indices, q = None, self._sampling_probs[t]
        if q < 1.0:
            indices = np.flatnonzero(np.random.default_rng((self._seed, t)).random(len(self._records)) < q)
        if isinstance(query, LinearQuery):
            chunks = self._chunks(query.encoder, indices, self._compute.block)
            shape, classes = tuple(out.shape), len(self._records.schema.classes)
            return Release(t, sum_linear(query, params, chunks, shape, classes), 0.0, None)

        def rows_of(X: np.ndarray, y: np.ndarray) -> jax.Array:
            return _plain_rows(query, params, X, y)

        total = self._sum(
            query, rows_of, indices, tuple(out.shape), np.float64, lambda z: np.asarray(np.isfinite(z).all(1))
        )
        return Release(t, total, 0.0, None)
