"""Types that cross the wall: the queries of a method and the releases of the curator."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dpdistill.schema import AnySchema, TableSchema

Params = Any
State = Any
Array = Any

CHUNK_CPU, CHUNK = 16, 128
"""Records in a chunk: the CPU's number fits its cache; an accelerator needs more work per call."""
ROUNDING_SHARE = 5e-4
"""Share of the clip norm that rounding may add to a linear query's sensitivity, in addition to the step of its sum."""
SLACK_TEXT = (
    f"float64 ghost sum, bound E = {ROUNDING_SHARE / 2} clip_norm: noise for a sensitivity of at most 1.001 clip_norm"
)
"""Sentence in a certificate about the arithmetic of linear queries."""
PIXELS = 64 * 64 * 3
"""Values of an image up to which a chunk has its full number of images."""
MOST_ROWS = 128
"""Most records in one call of a linear query: rounding grows with the length of a sum."""


def _chunk_here() -> int:
    import jax  # accounting and the command line import this module without JAX

    return CHUNK_CPU if jax.default_backend() == "cpu" else CHUNK


@dataclass(frozen=True)
class Compute:
    """Numbers of records that a compiled program takes at once; they change speed and low bits, never the guarantee.

    Args:
        chunk: records in a chunk, 1 to 65,536; placeholders fill it up, so large chunks of small samples are wasteful.
            16 on a CPU, 128 elsewhere by default.
        block: records in a chunk of linear queries over all records, 1 to 128; their work is a few matrix products.
        rows: records in a chunk of all table rows, 1 to 65,536; each row is little work.

    Raises:
        ValueError: a number out of its range; the error bounds of linear queries depend on the block.
    """

    chunk: int = field(default_factory=_chunk_here)
    block: int = 64
    rows: int = 256

    def __post_init__(self) -> None:
        for name, size in (("chunk", self.chunk), ("rows", self.rows)):
            if not 1 <= size <= 1 << 16:
                raise ValueError(f"Expected 1 <= {name}={size} <= 65536.")
        if not 1 <= self.block <= MOST_ROWS:
            raise ValueError(f"Expected 1 <= block={self.block} <= {MOST_ROWS}.")

    def units_of(self, query: Query, schema: AnySchema, sampling_prob: float, rows_per_unit: int = 1) -> int:
        """Returns the number of units in a chunk, each of `rows_per_unit` rows, when a query is answered.

        Images of more than `PIXELS` values have smaller chunks: the programs take them one by one in any case, and the
        self-tests repeat a chunk some twenty times.
        """
        full = sampling_prob == 1.0
        rows = self.rows if full and isinstance(schema, TableSchema) else self.chunk
        if isinstance(query, LinearQuery):
            rows = self.block if full else min(rows, MOST_ROWS)
        if not isinstance(schema, TableSchema):
            rows //= max(1, schema.dimension // PIXELS)
        return max(1, rows // rows_per_unit)


class Encoder(Protocol):
    """A fixed map of records with no private inputs: frozen, hashable, X (n, ...) in [-1, 1] -> (n, d)."""

    def __call__(self, X: Array) -> Array: ...


@runtime_checkable
class Query(Protocol):
    """A question about every record. Frozen and hashable by value, so that it compiles once.

    Attributes:
        clip_norm: L2 bound of one record's contribution, > 0; enforced by the curator.
        by_class: add each contribution into the block of the record's class.
        encoder: fixed encoder whose per-record output the curator may keep, or None.

    A query whose sums have numbers that are noise alone also states `signal_numbers`, the number of the others, for the
    forecast of the noise.
    """

    @property
    def clip_norm(self) -> float: ...
    @property
    def by_class(self) -> bool: ...
    @property
    def encoder(self) -> Encoder | None: ...

    def contribution(self, params: Params, x: Array, y: Array) -> Array:
        """Returns the contribution of ONE record: x of the schema's shape in [-1, 1] (or encoded), y its class."""
        ...


@runtime_checkable
class LinearQuery(Query, Protocol):
    """A query whose per-record contributions are never formed; its norm bound carries a proof in the docstring.

    Each record is first mapped to a few numbers, its coefficients. They are computed once; the norm and the sum are
    functions of the coefficients alone, so that both have the same rounding. Coefficients and norm belong to ONE
    record, and the curator maps them: a query cannot mix records except in the sum.
    """

    def prepare(self, params: Params) -> Params:
        """Returns the argument `params` of the methods below: computed from the parameters alone, once per release."""
        ...

    def coefficients(self, params: Params, x: Array, y: Array) -> Any:
        """Returns the coefficients of ONE record's contribution: a pytree of arrays, in any precision."""
        ...

    def norm(self, params: Params, coefficients: Any) -> Array:
        """Returns a proven upper bound of ONE contribution's L2 norm, a float64 scalar."""
        ...

    def weighted_sum(self, params: Params, coefficients: Any, w: Array) -> Array:
        """Returns sum_i w_i contribution_i, float64, from the coefficients of a block: arrays with a row per record."""
        ...

    @property
    def error_bound(self) -> float:
        """Returns e: worst-case L2 error of one record's share of a weighted sum, for weights w_i <= clip_norm /
        bound_i.

        The coefficients count as exact. A sum of m records has an error of at most m e.
        """
        ...


class ByValue:
    """A query or an encoder as a cache key: equal only if the types and values of all its contents are.

    Python's own equality is defined by the class (1 == 1.0 == True); the checked object must be the one that runs.
    """

    def __init__(self, value: Any) -> None:
        self.value, self._key = value, _key(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByValue) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _key(value: Any) -> Hashable:
    if is_dataclass(value) and not isinstance(value, type):
        # Besides its fields, attributes computed from init-only arguments (InitVar).
        state = {f.name: getattr(value, f.name) for f in fields(value)} | getattr(value, "__dict__", {})
        return type(value), *((name, _key(item)) for name, item in sorted(state.items()))
    if isinstance(value, tuple):
        return type(value), *map(_key, value)
    if value is None or type(value) in (bool, int, float, str):
        return type(value), repr(value)
    return type(value), id(value)  # kept alive by the ByValue that holds it


@dataclass(frozen=True)
class Stage:
    """Rounds of one kind, promised before any record is read.

    Args:
        rounds: number of releases, >= 1.
        sampling_prob: Poisson sampling probability q in (0, 1]; 1 is the full batch.
        weight: precision of a round relative to the other stages: noise multiplier = common multiplier / weight.
    """

    rounds: int
    sampling_prob: float = 1.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        # A float would be accounted as it is, and released as the next whole number.
        if type(self.rounds) is not int or self.rounds < 1:
            raise ValueError(f"Expected rounds={self.rounds!r:.80} as a whole number >= 1.")
        if isinstance(self.sampling_prob, bool) or not 0.0 < self.sampling_prob <= 1.0:
            raise ValueError(f"Expected 0 < sampling_prob={self.sampling_prob} <= 1.")
        if isinstance(self.weight, bool) or not 0.0 < self.weight < float("inf"):
            raise ValueError(f"Expected weight={self.weight} > 0.")


@dataclass(frozen=True)
class Event:
    """Cost of one round: a Gaussian of noise_multiplier on a Poisson sample of sampling_prob (1: all records)."""

    noise_multiplier: float
    sampling_prob: float = 1.0


@dataclass(frozen=True, eq=False)
class Release:
    """An answer of the curator: noised, paid for, and free to use.

    Args:
        round: number of the round, from 0.
        value: noised sum over the (sampled) records, float64; (classes, d...) for a query by class, else (d...).
        stddev: standard deviation of the noise in each coordinate, in the units of value; 0.0 if not private.
        event: the paid event; None under the non-private curator.
    """

    round: int
    value: np.ndarray
    stddev: float
    event: Event | None
