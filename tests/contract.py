"""What every query of every method, the curator and the driver must keep to: checks shared by tests and by mutants.

A check is a function without a verdict of its own: it returns when the code keeps the promise, and raises
AssertionError, saying which promise, when it does not. `tests/mutants` runs the same functions against the defects they
are there to find.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import logging
import math
import os
import pickle
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
from scipy import stats

from dpdistill import run
from dpdistill.accounting import schedule as accounting
from dpdistill.accounting.schedule import Budget, Schedule
from dpdistill.data.records import Records
from dpdistill.encode.scattering import ScatterNet
from dpdistill.evaluate import convnet, score
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.kernel import Kernel
from dpdistill.kernels.ridge import one_hot
from dpdistill.ledger.run import RunLedger
from dpdistill.methods import METHODS
from dpdistill.methods.kip_gradient import PlainGradient
from dpdistill.private import checks, curator, linear, programs
from dpdistill.private.checks import CuratorError
from dpdistill.private.curator import Curator
from dpdistill.private.grid import Grid, make_grid
from dpdistill.private.noise import SeededEntropy
from dpdistill.private.placed import PlacedRecords
from dpdistill.private.self_test import check_rows
from dpdistill.query import MOST_ROWS, Compute, Event, Release, Same, Stage
from dpdistill.schema import AnySchema, Column, Schema, TableSchema

NAMES = ("ant", "bee", "cat")
SCHEMA = Schema((8, 8, 1), (-1.0, 1.0), NAMES)
TABLE = TableSchema(
    (
        Column("age", "integer", (0.0, 100.0)),
        Column("income", "numeric", (0.0, 1e5), "log"),
        Column("job", "categorical", categories=("a", "b", "c"), missing=True),
        Column("weight", "numeric", (10.0, 20.0), missing=True),
        Column("sex", "categorical", categories=("f", "m")),
        Column("grade", "ordinal", categories=("low", "mid", "high")),
    ),
    "sick",
    ("no", "yes", "maybe"),
)
NOISE = 4.0
SCATTER = FeatureKernel(ScatterNet(J=1, L=2, groups=1, normalise=True))
FAILED = "Round 0 could not be answered; nothing was released and nothing was paid."


# Data sets.


def make_records(n: int, seed: int = 0, schema: Schema = SCHEMA, low: float = -1.0) -> Records:
    """n random records in [-1, 1] with all labels, unknown ones among them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(low, 1.0, (n, *schema.shape)).astype(np.float32)
    return Records(X, rng.integers(-1, len(schema.classes), n), schema)


def table_records(n: int, seed: int = 0, schema: AnySchema = TABLE) -> Records:
    """n random records with all labels, unknown ones and, in a table, missing values among them."""
    if isinstance(schema, Schema):
        return make_records(n, seed, schema)
    rng = np.random.default_rng(seed)
    X = np.empty((n, len(schema.columns)))
    for i, column in enumerate(schema.columns):
        low, high = column.bounds or (0, len(column.categories) - 1)
        X[:, i] = rng.uniform(low, high, n) if column.is_number else rng.integers(low, high + 1, n)
        if column.missing:
            X[rng.random(n) < 0.2, i] = np.nan
    return Records(X.astype(np.float32), rng.integers(-1, len(schema.classes), n), schema)


def subset(records: Records, rows: Any) -> Records:
    """The records of these rows, in this order."""
    return Records(records.X[rows], records.y[rows], records.schema)


def insert(records: Records, at: int, x: np.ndarray, y: int) -> Records:
    """The records with one more before position `at`."""
    X = np.insert(np.asarray(records.X), at, x.astype(records.X.dtype), axis=0)
    return Records(X, np.insert(records.y, at, y), records.schema)


def replace(records: Records, at: int, x: np.ndarray, y: int) -> Records:
    """The records with another one at position `at`."""
    X, labels = np.array(records.X), np.array(records.y)
    X[at], labels[at] = x, y
    return Records(X, labels, records.schema)


def adversaries(records: Records, at: int) -> list[np.ndarray]:
    """What somebody might put in one place: zeros, extremes, what is not finite, the opposite of what was there."""
    shape = records.schema.raw_shape
    x = np.asarray(records.X[at], np.float64)
    mixed = x.copy()
    mixed.flat[0] = np.nan
    fills = [0.0, 1.0, -1.0, 1e30, -1e30, np.nan, np.inf, -np.inf, 1e-40]
    return [*(np.full(shape, v) for v in fills), -x, mixed, np.sign(x) * 1e30]


def known(n: int, schema: Schema = SCHEMA) -> Records:
    """Random records whose labels are all known."""
    records = make_records(n, schema=schema)
    return Records(records.X, np.arange(n) % 3, schema)


def toy_records(n: int = 240, seed: int = 3, schema: Schema = SCHEMA) -> Records:
    """Classes that differ: class c is bright in its own band of rows, with a little noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % len(schema.classes)
    X = rng.normal(0.0, 0.05, (n, *schema.shape)) - 0.6
    band = schema.shape[0] // len(schema.classes)
    for c in range(len(schema.classes)):
        X[y == c, c * band : (c + 1) * band] += 1.2
    return Records(X.astype(np.float32), y.astype(np.int64), schema)


def class_means(records: Records) -> np.ndarray:
    """Mean image a class in [-1, 1], (classes, h, w, c)."""
    X = records.schema.to_unit(records.X)
    return np.stack([X[records.y == c].mean(0) for c in range(records.classes)])


# Entropy and curators.


class NoNoise:
    """All bits set: the smallest quantile, so that every rounded Gaussian is 0; coins and places come from lists.

    Args:
        coins: of the first sampled round; tails where there are none.
        places: of the records; all records have the same place where there are none.
    """

    kind = "insecure: no noise"

    def __init__(self, coins: np.ndarray | None = None, places: Any = None) -> None:
        self._coins, self._places = coins, None if places is None else np.asarray(places, np.uint16)

    def bytes(self, n: int) -> bytes:
        if self._coins is not None and n == 8 * len(self._coins):
            coins, self._coins = self._coins, None
            return np.where(coins, np.uint64(0), np.uint64(2**64 - 1)).tobytes()
        if self._places is not None and n == 2 * len(self._places):
            return self._places.tobytes()
        return b"\xff" * n


class OnlyCoins:
    """Real coins for n records and no noise, told apart by the number of words asked for."""

    kind = "insecure: no noise"

    def __init__(self, n: int, seed: int) -> None:
        self._n, self._entropy = n, SeededEntropy(seed)

    def bytes(self, n: int) -> bytes:
        return self._entropy.bytes(n) if n in (8 * self._n, 2 * self._n) else b"\xff" * n


def full_batches(rounds: int = 1, noise: float = NOISE) -> Schedule:
    return Schedule((Stage(rounds),), (noise,), Budget(1.0))


def memory_ledger(schedule: Schedule) -> RunLedger:
    return RunLedger.open(":memory:", {}, schedule, b"d" * 32)


def make_curator(
    records: Records, schedule: Schedule | None = None, entropy: Any = None, chunk: int = 64, ledger: Any = None
) -> Curator:
    """The real curator on a ledger in memory."""
    schedule = schedule or full_batches()
    return Curator(records, schedule, ledger or memory_ledger(schedule), entropy, Compute(chunk, min(chunk, MOST_ROWS)))


def grid_of(query: Any, params: Any, schema: Schema, n: int = 100) -> Grid:
    d = math.prod(checks.check_query(query, params, schema))
    return make_grid(query.clip_norm, NOISE, d, n)


def integer_sum(records: Records, query: Any, params: Any, chunk: int = 64, places: Any = None) -> np.ndarray:
    """The un-noised sum in grid steps, as the curator releases it when every noise is 0."""
    step = grid_of(query, params, records.schema).step
    value = make_curator(records, entropy=NoNoise(places=places), chunk=chunk).release(0, query, params).value
    assert np.isfinite(value).all(), "The sum is not finite."
    z = np.rint(value / step)
    np.testing.assert_allclose(z * step, value, rtol=1e-12)
    return z.astype(np.int64)


def norm(z: np.ndarray) -> float:
    """L2 norm of integers, without overflow."""
    return math.sqrt(sum(int(v) ** 2 for v in np.ravel(z)))


# Queries of our own.


@dataclass(frozen=True)
class FlatQuery:
    """The record times params, flattened; its norm is what the record makes it."""

    clip_norm: float = 1.0
    by_class: bool = True
    encoder: Any = None

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        return jnp.ravel(x) * params


@dataclass(frozen=True)
class FlatLinear:
    """The records, flattened, as a linear query: bounds of their norms and a weighted sum, in float64.

    A sum of 64 squares in float64 and its root are off by less than 2^-40, relatively.
    """

    clip_norm: float = 1.0
    by_class: bool = False
    encoder: Any = None
    error_bound: float = 0.0

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        return jnp.ravel(x)

    def prepare(self, params: Any) -> Any:
        return params

    def coefficients(self, params: Any, x: Any, y: Any) -> Any:
        return x.ravel().astype(jnp.float64)

    def norm(self, params: Any, x: Any) -> Any:
        return jnp.linalg.norm(x) * (1 + 2.0**-40)

    def weighted_sum(self, params: Any, X: Any, w: Any) -> Any:
        return w @ X


@dataclass(frozen=True)
class ZeroQuery:
    """Nothing but noise, d coordinates a class."""

    dimension: int
    clip_norm: float = 1.0
    by_class: bool = True
    encoder: None = None

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        return jnp.zeros(self.dimension)


@dataclass(frozen=True)
class CountQuery:
    """One for every record, in its class."""

    clip_norm: float = 1.0
    by_class: bool = True
    encoder: None = None

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        return jnp.ones(1)


@dataclass(frozen=True)
class MixingEncoder:
    """What an encoder must not do: subtract half the mean of all rows it is given."""

    def __call__(self, X: Any) -> Any:
        return X - X.mean(0, keepdims=True) / 2


@dataclass(frozen=True)
class Halve:
    """An encoder whose arithmetic is exact."""

    def __call__(self, X: Any) -> Any:
        return X.reshape(X.shape[0], -1) / 2


@dataclass(frozen=True)
class PrintingQuery:
    """A contribution that speaks while it is computed."""

    clip_norm: float = 1.0
    by_class: bool = True
    encoder: None = None

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        jax.debug.print("{}", x.mean())
        return jnp.ravel(x)


# Methods in small, from what their fields say of themselves.


def tiny(name: str, most: int = 2, **changes: Any) -> Any:
    """A method of the table in a setting that takes a second: no whole number is more than `most`."""
    kind = METHODS[name]
    return kind(**{**{field.name: _small(field, most) for field in dataclasses.fields(kind)}, **changes})


def _small(field: dataclasses.Field, most: int) -> Any:
    allowed = field.metadata["allowed"]
    if allowed.kind is int:
        return min(field.default, most)
    if (allowed.above, allowed.at_most) == (0, 1):  # a probability of being sampled
        return 1.0
    return next((kernel for kernel in _kernels(allowed.kind)), field.default)


def _kernels(kind: type) -> list[Any]:
    """Small kernels that a field of this kind takes."""
    return [k for k in (FCNTK(), SCATTER, PixelKernel()) if issubclass(kind, Kernel) and isinstance(k, kind)]


def variants(name: str, most: int = 2) -> dict[str, Any]:
    """A method in its tiny setting, and with each field that shapes releases switched: on, off, all, another kernel."""
    found = {"as it is": tiny(name, most)}
    for field in dataclasses.fields(METHODS[name]):
        allowed, default = field.metadata["allowed"], getattr(found["as it is"], field.name)
        ends = [float(v) for v in (allowed.at_least, allowed.at_most) if v in (0, 1) and allowed.kind is float]
        switched = [not default] if allowed.kind is bool else [allowed.choices] if allowed.kind is tuple else ends
        for value in () if field.metadata["finish"] else (*switched, *_kernels(allowed.kind)):
            if value != default:
                found[f"{field.name}={value}"] = tiny(name, most, **{field.name: value})
    return found


def rounds_of(method: Any) -> int:
    """The rounds that a method promises."""
    return sum(stage.rounds for stage in method.plan())


@lru_cache(maxsize=64)
def queries_of(name: str, schema: AnySchema = SCHEMA) -> dict[str, tuple[Any, Any]]:
    """Every query that a method asks, in the first variant that asks it, with params of that one's last round.

    Queries are told apart by their class, by what is no number in them, and by the structure of their params.
    """
    found: dict[Any, tuple[str, Any, Any]] = {}
    for variant, method in variants(name).items():
        with contextlib.suppress(ValueError):  # a kernel of images, with a table
            for query, params in asked(method, schema, rounds_of(method)):
                values = (getattr(query, field.name) for field in dataclasses.fields(query))
                kind = type(query), *(v for v in values if not isinstance(v, int | float)), jax.tree.structure(params)
                if kind not in found or found[kind][0] == variant:
                    found[kind] = variant, query, params
    return {f"{name}: {type(q).__name__}, {variant}": (q, params) for variant, q, params in found.values()}


def asked(method: Any, schema: AnySchema = SCHEMA, rounds: int = 2) -> list[tuple[Any, Any]]:
    """(query, params) of the first rounds, in between a release of random numbers."""
    rng, state, found = np.random.default_rng(5), method.init(jax.random.key(1), schema), []
    for t in range(rounds):
        query, params = method.ask(state)
        found.append((query, params))
        value = 10.0 * rng.normal(size=release_shape(query, params, schema))
        state = method.tell(state, Release(t, value, 1.0, Event(NOISE)))
    return found


def release_shape(query: Any, params: Any, schema: AnySchema = SCHEMA) -> tuple[int, ...]:
    """Shape of a release's value."""
    if math.isfinite(query.clip_norm):
        shape = checks.check_query(query, params, schema)
    else:
        x, label = jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)
        x = x if query.encoder is None else jax.eval_shape(query.encoder, x)
        shape = jax.eval_shape(query.contribution, params, jax.ShapeDtypeStruct(x.shape[1:], x.dtype), label).shape
    return (len(schema.classes), *shape) if query.by_class else tuple(shape)


def method_queries(schema: Schema = SCHEMA) -> dict[str, tuple[Any, Any]]:
    """Every query by class of every private method, with params as the method makes them."""
    found = [queries_of(name, schema) for name, kind in METHODS.items() if kind.private]
    return {label: query for each in found for label, query in each.items() if query[0].by_class}


@lru_cache(maxsize=2)
def linear_queries(schema: Schema = SCHEMA) -> dict[str, tuple[Any, Any]]:
    """The linear queries of the kernel methods by name, for tests of their values."""
    _, softmax = asked(tiny("decoupled-kip"), schema)
    kernels = {"features": SCATTER, "fc-ntk": FCNTK(), "fc-ntk of depth 2": FCNTK(2)}
    fields = {"clip_norm": 1e-6, "ridge": 1e-3}
    gradients = {name: asked(tiny("dp-kip", kernel=kernel, **fields), schema, 1)[0] for name, kernel in kernels.items()}
    return {"softmax": softmax, **gradients}


def flattened(X: Any) -> Any:
    """The simplest encoder."""
    return X.reshape(len(X), -1)


def plain_gradients(schema: Schema = SCHEMA) -> dict[str, tuple[Any, Any]]:
    """What DP-KIP asks with any other kernel."""
    images, classes = support_images(schema), len(schema.classes)
    params = {"X_s": images, "Y_s": one_hot(np.repeat(np.arange(classes), 2), classes)}
    kernels = {"plain features": FeatureKernel(flattened), "plain fc-ntk": FCNTK()}
    return {name: (PlainGradient(1e-6, kernel, 1e-3), params) for name, kernel in kernels.items()}


@dataclass(frozen=True)
class PixelKernel(Kernel):
    """k(x, z) = <x, z>, a kernel that has no linear query."""

    def __call__(self, X: Any, Z: Any) -> Any:
        return flattened(X) @ flattened(Z).T

    def diagonal(self, X: Any) -> Any:
        return jnp.square(flattened(X)).sum(1)


def support_images(schema: Schema = SCHEMA) -> np.ndarray:
    """The support set behind the params of DP-KIP's queries, (m, h, w, c)."""
    return tiny("dp-kip").init(jax.random.key(1), schema)["images"].X


# Checks of one query.


def check_add_remove(query: Any, params: Any, records: Records, chunk: int = 4) -> None:
    """One record, whatever it holds, moves the sum by its own integer row and by at most K steps."""
    K = grid_of(query, params, records.schema).K
    before = integer_sum(records, query, params, chunk)
    for i, x in enumerate(adversaries(records, 0)):
        y = i % (records.classes + 1) - 1
        at = i % (len(records) + 1)
        after = integer_sum(insert(records, at, x, y), query, params, chunk)
        alone = integer_sum(insert(subset(records, []), 0, x, y), query, params, chunk)
        assert norm(alone) <= K, "One record moves the sum by more than the clip norm."
        if y < 0:
            assert not alone.any(), "A record of an unknown label moves the sum."
        elif query.by_class:
            assert not np.delete(alone, y, 0).any(), "A record moves the sum of another class."
        own = "One more record moves the sum by something other than its own row."
        np.testing.assert_array_equal(after - before, alone, own)


def check_replace_one(query: Any, params: Any, records: Records, chunk: int = 4) -> None:
    """Replacing a record moves the sum by the difference of two rows, by at most 2 K steps, and it does move it."""
    K, at = grid_of(query, params, records.schema).K, 1
    before = integer_sum(records, query, params, chunk)
    old = integer_sum(subset(records, [at]), query, params, chunk)
    moved = 0.0
    for i, x in enumerate(adversaries(records, at)):
        changed = replace(records, at, x, i % (records.classes + 1) - 1)
        difference = integer_sum(changed, query, params, chunk) - before
        assert norm(difference) <= 2 * K, "Replacing a record moves the sum by more than twice the clip norm."
        new = integer_sum(subset(changed, [at]), query, params, chunk)
        np.testing.assert_array_equal(difference, new - old, "Replacing a record does not exchange its row.")
        moved = max(moved, norm(difference))
    assert moved > 0, "Replacing a record leaves the sum as it was."


def check_places(query: Any, params: Any, records: Records, chunk: int) -> None:
    """At real places, a record that is removed takes its own integers with it and leaves all others as they were.

    The others keep the places they have drawn, and move up in the queue of the removed record's place.
    """
    places = np.random.default_rng(4).integers(0, 1 << 16, len(records))
    before = integer_sum(records, query, params, chunk, places)
    for at in (0, len(records) // 2, len(records) - 1):
        rest = np.delete(np.arange(len(records)), at)
        after = integer_sum(subset(records, rest), query, params, chunk, places[rest])
        own = integer_sum(subset(records, [at]), query, params, chunk, places[[at]])
        np.testing.assert_array_equal(before - after, own, "Removing a record changes what the others contribute.")
    assert before.any(), "The sum is nothing."


# Checks of one linear query.


def linear_sum(records: Records, query: Any, params: Any, chunk: int = 4) -> np.ndarray:
    """The un-noised release of a linear query."""
    value = make_curator(records, entropy=NoNoise(), chunk=chunk).release(0, query, params).value
    assert np.isfinite(value).all(), "The sum is not finite."
    return value


def prepared(query: Any, params: Any) -> Any:
    """What a linear query is given in the place of its params."""
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, programs.prepared(Same(query), params))


def coefficients_of(query: Any, params: Any, X: np.ndarray, y: np.ndarray) -> Any:
    """Coefficients of rows as the curator has them: of records, or of their features."""
    params = prepared(query, params)
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, programs.coefficients(Same(query), params, X, y))


def norms_of(query: Any, params: Any, coefficients: Any) -> np.ndarray:
    """The norms that a linear query states, from coefficients."""
    params = prepared(query, params)
    with jax.enable_x64(True):
        return np.asarray(programs.norms(Same(query), params, coefficients))


def weighted_sum_of(query: Any, params: Any, coefficients: Any, w: np.ndarray) -> np.ndarray:
    """The weighted sum of a block."""
    params = prepared(query, params)
    with jax.enable_x64(True):
        return np.ravel(programs.weighted_sum(Same(query), params, coefficients, w))


def rows_of(query: Any, records: Records) -> np.ndarray:
    """What a query is given of the records: themselves in [-1, 1], or their features."""
    X = records.schema.to_unit(records.X)
    return X if query.encoder is None else np.asarray(programs.encode_rows(Same(query.encoder), X))


@partial(jax.jit, static_argnums=0)
def _contribution(query: Any, params: Any, x: Any, y: Any) -> Any:
    return query.contribution(params, x, y).ravel()


def contributions(query: Any, params: Any, X: np.ndarray, y: Any) -> np.ndarray:
    """Every contribution formed, in float64, (n, d)."""
    with jax.enable_x64(True):
        each = [_contribution(query, params, x.astype(np.float64), np.int64(k)) for x, k in zip(X, y, strict=True)]
        return np.stack([np.asarray(one) for one in each])


def check_linear_sensitivity(query: Any, params: Any, records: Records, more: Any = (), chunk: int = 4) -> None:
    """One record, whatever it holds, moves the sum by its own clipped contribution, and by at most Delta."""
    C, d = query.clip_norm, math.prod(checks.check_query(query, params, records.schema))
    step, Delta = linear.step_and_sensitivity(C, d)
    rounding, at = step * math.sqrt(d), 1
    before, old = (linear_sum(r, query, params, chunk) for r in (records, subset(records, [at])))
    for i, x in enumerate([*adversaries(records, at), *more]):
        y = i % (records.classes + 1) - 1
        added = linear_sum(insert(records, i % (len(records) + 1), x, y), query, params, chunk) - before
        replaced = linear_sum(replace(records, at, x, y), query, params, chunk) - before
        alone = insert(subset(records, []), 0, x, y)
        new = linear_sum(alone, query, params, chunk)
        assert np.linalg.norm(added) <= Delta, "One record moves the sum by more than Delta."
        assert np.linalg.norm(replaced) <= 2 * Delta, "Replacing a record moves the sum by more than 2 Delta."
        assert np.linalg.norm(added - new) <= 2 * rounding, (
            "A record moves the sum by something else than its own share."
        )
        assert np.linalg.norm(replaced - (new - old)) <= 2 * rounding, "Replacing a record does not exchange its share."
        row = rows_of(query, alone)
        if y < 0 or not np.isfinite(row).all():
            assert not new.any(), "A record that cannot be used moves the sum."
            continue
        expected = min(C, np.linalg.norm(contributions(query, params, row, [y])))
        assert abs(np.linalg.norm(new) - expected) <= rounding + 1e-6 * C, "A record moves the sum by another length."


def check_linear_is_plain(
    query: Any, params: Any, X: np.ndarray, y: np.ndarray, expected: np.ndarray, rtol: float, loose: float = 1e-4
) -> None:
    """Contributions, norms and sum of a linear query are those of the plain gradients that it stands for.

    Args:
        query: with a clip norm of any size.
        params: in float64.
        X: rows as the query is given them, (n, ...).
        y: class indices.
        expected: gradients of the loss in float64, (n, d).
        rtol: of contributions and sum, relative to the norm that the query states.
        loose: by how much it may state more, relatively: 2^-20 of the terms that cancel are added to its square.
    """
    coefficients = coefficients_of(query, params, np.asarray(X, np.float64), y)
    bounds = norms_of(query, params, coefficients)
    w = np.random.default_rng(4).uniform(0.2, 1.0, len(y)) / np.maximum(bounds, 1e-300)
    total = weighted_sum_of(query, params, coefficients, w)
    each, norms = contributions(query, params, X, y), np.linalg.norm(expected, axis=1)
    off = np.linalg.norm(each - expected, axis=1)
    assert (off <= rtol * bounds).all(), "A contribution is not the gradient of the loss."
    assert (norms <= bounds * (1 + rtol)).all(), "The norm of a gradient is more than is stated."
    assert (bounds <= norms * (1 + loose)).all(), "The norm of a gradient is much less than is stated."
    assert np.linalg.norm(total - w @ expected) <= rtol * len(y), "The weighted sum is not that of the gradients."
    assert np.linalg.norm(total) > 1e-2, "The weighted sum is nothing."


@dataclass(frozen=True)
class FeaturesQuery:
    """What an encoder makes of a record, as it is: its integers show every bit that counts."""

    encoder: Any
    clip_norm: float = 1.0
    by_class: bool = False

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        return x


def check_features(encoder: Any, schema: Schema, chunk: int, n: int) -> None:
    """Features of records at real places: no bit of them changes when another record is removed."""
    records, entropy = make_records(n, schema=schema), np.random.default_rng(4)
    places = entropy.integers(0, 1 << 16, n)

    def features(rows: np.ndarray) -> np.ndarray:
        placed = PlacedRecords(subset(records, rows), NoNoise(places=places[rows]))
        X, _, row_of = placed._encoded(encoder, chunk)
        return X[row_of[: len(rows)]]

    all_of_them = features(np.arange(n))
    assert np.linalg.norm(all_of_them, axis=1).min() > 0.1, "The features are zeros."
    for at in (0, n // 2):
        rest = np.delete(np.arange(n), at)
        same = features(rest).view(np.uint32) == all_of_them[rest].view(np.uint32)
        assert same.all(), f"Removing a record changes the features of {(~same.all(1)).sum()} others."


def check_error_bound(query: Any, params: Any, coefficients: Any, shares: list[np.ndarray]) -> float:
    """Against exact arithmetic: norms are bounds, and the weighted sum is off by at most the stated error a record.

    Args:
        query: with a clip norm that clips.
        params: in float64.
        coefficients: of n records, in float64; they count as exact.
        shares: the contributions that these coefficients stand for, arrays of `exact` numbers.

    Returns:
        The error of the sum, in units of what is stated.
    """
    bounds = norms_of(query, params, coefficients)
    w = np.minimum(1.0, query.clip_norm / np.maximum(bounds, 1e-300))
    found = weighted_sum_of(query, params, coefficients, w)
    total = sum(weight * share.ravel() for weight, share in zip(exact(w), shares, strict=True))
    for bound, share in zip(exact(bounds), shares, strict=True):
        assert bound**2 >= squared(share), "A stated norm is less than the norm."
    stated = len(shares) * EXACT.mpf(query.error_bound)
    error = EXACT.sqrt(squared(exact(found) - total))
    assert error <= stated, "The weighted sum is further off than is stated."
    return float(error / stated)


def check_ghost_sensitivity() -> None:
    """A record that is much longer than the clip norm moves the sum by the clip norm."""
    check_linear_sensitivity(*linear_queries()["fc-ntk"], make_records(5))


def check_ghost_norms() -> None:
    """Norms that are stated without forming a gradient are those of the gradients."""
    (query, params), (plain, plain_params) = linear_queries()["fc-ntk"], plain_gradients()["plain fc-ntk"]
    X, y = rows_of(query, make_records(9)), np.arange(9) % 3
    expected = contributions(plain, {name: np.float64(value) for name, value in plain_params.items()}, X, y)
    check_linear_is_plain(query, params, X, y, expected, 1e-6)


def check_ghost_rows_stand_alone() -> None:
    """What is computed of a record does not depend on who else is in its block."""
    query, params = linear_queries()["softmax"]
    try:
        check_rows(query, params, SCHEMA, 4)
    except CuratorError as error:
        raise AssertionError(str(error)) from None


class OneQuantile:
    """The same word always: every Gaussian is one quantile of its law, about 1.5 standard deviations above 0."""

    kind = "insecure: no noise"
    tail = int(stats.norm.sf(1.5) * 2**54)

    def bytes(self, n: int) -> bytes:
        return np.full(-(-n // 8), self.tail << 11, np.uint64).tobytes()[:n]


def check_ghost_noise_scale() -> None:
    """The noise of a linear query is that of Delta, not of C: within a ten-thousandth, where they differ by ten."""
    for clip_norm in (1.0, 3e-7):
        release = make_curator(make_records(0), entropy=OneQuantile()).release(0, FlatLinear(clip_norm), 1.0)
        step = 2.0 ** math.floor(math.log2(5e-4 * clip_norm / 8.0))
        Delta = clip_norm + step * 8.0 + 5e-4 * clip_norm
        found = np.abs(release.value) / 1.5
        off = np.abs(found / (NOISE * Delta) - 1).max()
        assert off < 1e-4, "The noise is not that of the stated sensitivity."
        assert abs(release.stddev / (NOISE * Delta) - 1) < 1e-12, "The stated deviation is not that of the sensitivity."


EXACT: Any = mpmath.MPContext()
EXACT.prec = 2000
"""Sums and products of a few numbers of float64 are exact in so many bits."""


def exact(a: Any) -> np.ndarray:
    """The same numbers, with 2000 bits to compute with."""
    return np.vectorize(EXACT.mpf, otypes=[object])(np.asarray(a, np.float64))


def squared(a: np.ndarray) -> Any:
    """Sum of squares."""
    return sum((v * v for v in a.ravel()), EXACT.mpf(0))


def check_sums_not_means() -> None:
    """A record counts the same beside one other as beside a hundred."""
    one = subset(make_records(1, low=0.5), [0])
    one = Records(one.X, np.zeros(1, np.int64), one.schema)
    alone = integer_sum(one, FlatQuery(), 1.0)
    assert alone.any(), "The record is not in the sum."
    nine = integer_sum(subset(one, [0] * 9), FlatQuery(), 1.0)
    np.testing.assert_array_equal(nine, 9 * alone, "A record counts for less beside others.")


def check_adversarial_records() -> None:
    """Records that are not finite contribute nothing, and none more than the clip norm."""
    records = make_records(6)
    for factor in (1.0, 1e38, np.nan, np.inf, 1e-30):
        check_add_remove(FlatQuery(), np.float32(factor), records)
    huge = FlatQuery(clip_norm=1e-6)
    check_add_remove(huge, 1.0, records)


def check_replacements() -> None:
    """A record that is replaced is read anew, even where nothing else about the data set has changed."""
    check_replace_one(FlatQuery(), 1.0, make_records(6))


def check_encoders_see_one_record() -> None:
    """Even an encoder that mixes its rows is applied record by record: removing one leaves the others as they were."""
    query = FlatQuery(encoder=MixingEncoder())
    check_add_remove(query, 1.0, make_records(7), chunk=4)
    check_places(query, 1.0, make_records(7), chunk=4)


# Checks of the curator.


def check_noise_scale() -> None:
    """The noise has the stated standard deviation: accepted, and 2/3 and 3/2 of it rejected."""
    query = ZeroQuery(4000, clip_norm=0.3)
    release = make_curator(make_records(5), full_batches(), SeededEntropy(11)).release(0, query, 0.0)
    assert math.isclose(release.stddev, NOISE * 0.3), "The stated standard deviation is not the schedule's."
    p = {
        r: stats.kstest(release.value.ravel(), stats.norm(scale=r * release.stddev).cdf).pvalue for r in (1, 2 / 3, 1.5)
    }
    assert p[1] > 1e-3, "The noise does not have the stated standard deviation."
    assert max(p[2 / 3], p[1.5]) < 1e-9, "The noise fits a wrong standard deviation."


def check_release_on_grid() -> None:
    """Values are whole multiples of the step: no low bit speaks of the sum."""
    query, records = FlatQuery(), make_records(9)
    step = grid_of(query, 1.0, records.schema).step
    steps = make_curator(records, entropy=SeededEntropy(1)).release(0, query, 1.0).value / step
    np.testing.assert_array_equal(steps, np.rint(steps), "A value lies between two multiples of the step.")


def check_rounds_are_independent() -> None:
    """Every round has its own noise: no repeat, no shift, no correlation between any two of six."""
    schedule = full_batches(6)
    asked = make_curator(make_records(5), schedule, SeededEntropy(12))
    noise = np.stack([asked.release(t, ZeroQuery(2000), 0.0).value.ravel() for t in range(6)])
    correlation = np.corrcoef(noise) - np.eye(6)
    assert np.abs(correlation).max() < 0.08, "The noises of two rounds are correlated."
    p = stats.kstest(noise.sum(0), stats.norm(scale=math.sqrt(6) * NOISE).cdf).pvalue
    assert p > 1e-3, "The noises of six rounds do not add up as independent ones."


def check_noise_is_nobodys_seed() -> None:
    """By default the noise comes from the operating system: the same run twice has nothing in common but its law."""
    method, noises = tiny("dos", strategies=("crop",)), []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002 - whatever the process has seeded
        ledger = memory_ledger(full_batches(4))
        asked, state = (
            make_curator(make_records(5), full_batches(4), ledger=ledger),
            method.init(jax.random.key(0), SCHEMA),
        )
        assert asked.noise_kind == "operating-system entropy", "The noise is stamped as another kind."
        for t in range(2):
            query, params = method.ask(state)
            release = asked.release(t, query, params)
            state = method.tell(state, release)
        noises.append(asked.release(2, ZeroQuery(3000), 0.0).value.ravel())
    assert abs(np.corrcoef(noises)[0, 1]) < 0.07, "The noises of two runs are correlated."


def check_round_is_drawn_once() -> None:
    """A round that is committed is handed out again as it was, for whatever is asked: its sum is never noised anew."""
    schedule = full_batches(2)
    ledger = memory_ledger(schedule)
    records = make_records(9)
    asked = make_curator(records, schedule, ledger=ledger)
    first = asked.release(0, FlatQuery(), 1.0)
    for again in (asked, asked, make_curator(records, schedule, ledger=ledger)):
        release = again.release(0, FlatQuery(), 1.0)
        np.testing.assert_array_equal(release.value, first.value, "A committed round is drawn anew.")
        same = (release.round, release.stddev, release.event) == (0, first.stddev, first.event)
        assert same, "A committed round is described anew."
    assert ledger.events() == (Event(NOISE),), "A round that is handed out again is paid again."
    assert not np.array_equal(asked.release(1, FlatQuery(), 1.0).value, first.value), "The next round is the last one."


def check_release_is_the_committed_one() -> None:
    """What is handed out when a round is drawn is, bit by bit, what the ledger has been paid for."""
    schedule = full_batches()
    ledger = memory_ledger(schedule)
    release = make_curator(make_records(9), schedule, ledger=ledger).release(0, FlatQuery(), 1.0)
    stored = ledger.lookup(0)
    assert stored is not None, "A release is handed out and not committed."
    same = release.value.dtype == stored.value.dtype and release.value.tobytes() == stored.value.tobytes()
    assert same, "The value handed out is not the committed one."
    described = (release.round, release.stddev, release.event) == (stored.round, stored.stddev, stored.event)
    assert described, "The release is not described as the committed one."


def check_replace_one_is_paid() -> None:
    """Under replace-one the curator's noise covers a record that becomes its opposite, which moves the sum by 2 C.

    3.7306 is the noise multiplier of (1, 1e-5) by the closed form: a release may tell two data sets apart as well as
    N(0, 1) from N(1 / 3.7306, 1), and no better.
    """
    schedule = accounting.calibrate((Stage(1),), Budget(1.0, 1e-5, "replace-one"))
    records = Records(np.ones((3, 8, 8, 1), np.float32), np.zeros(3, np.int64), SCHEMA)

    def answer(records: Records) -> Release:
        return make_curator(records, schedule, NoNoise()).release(0, FlatQuery(), 1.0)

    before, moved = answer(records), []
    for i, x in enumerate(adversaries(records, 1)):
        for y in (0, i % (records.classes + 1) - 1):
            difference = answer(replace(records, 1, x, y)).value - before.value
            moved.append(float(np.linalg.norm(difference)) / before.stddev)
    assert max(moved) <= (1 + 1e-4) / 3.7306, "A replaced record moves the release by more than is paid for."
    assert max(moved) >= 0.999 / 3.7306, "More noise is paid for than a replaced record needs."


def check_batches_are_poisson() -> None:
    """Independent coins of the public probability: the size of a batch varies as a binomial, class by class."""
    rounds, n, q = 300, 200, 0.25
    y = (np.arange(n) % 10 == 0).astype(np.int64)  # 180 and 20 records
    records = Records(np.zeros((n, 8, 8, 1), np.float32), y, SCHEMA)
    schedule = Schedule((Stage(rounds, q),), (NOISE,), Budget(1.0))
    asked = make_curator(records, schedule, OnlyCoins(n, 4), chunk=200)
    step = grid_of(CountQuery(), None, SCHEMA, n).step
    one = np.rint(make_grid(1.0, NOISE, 1, n).float_clip / step) * step
    counts = np.stack([asked.release(t, CountQuery(), None).value[:, 0] for t in range(rounds)]) / one
    for sizes, m in ((counts[:, 0], 180), (counts[:, 1], 20), (counts.sum(1), n)):
        variance = m * q * (1 - q)
        off = abs(sizes.mean() - m * q)
        assert off < 4 * math.sqrt(variance / rounds), "The mean size of a batch is not the public one."
        p = stats.chi2(rounds - 1).cdf(sizes.var(ddof=1) * (rounds - 1) / variance)
        assert 1e-4 < p < 1 - 1e-4, "The size of a batch does not vary as a binomial."
    assert counts.sum(1).max() > n * q + 8, "No batch is large."


def check_speech_is_refused() -> None:
    """A contribution that prints is refused before a record is read."""
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
        try:
            make_curator(make_records(3)).release(0, PrintingQuery(), None)
            jax.effects_barrier()
        except CuratorError as error:
            said = str(error)
        else:
            raise AssertionError("A query that prints was answered.")
    assert said.startswith("The query is refused: it holds "), "The query failed for another reason."
    assert not heard.getvalue(), "The query spoke before it was refused."


@contextlib.contextmanager
def everything_said() -> Iterator[dict[str, list[str]]]:
    """What is said meanwhile: on file descriptors 1 and 2, on Python's streams, in logs of any level, in warnings.

    JAX's own logs below a warning are left out: they tell of compilations, hence of chunks, at the level of debugging.
    """
    said: dict[str, list[str]] = {"file descriptor 1": [], "file descriptor 2": [], "stdout": [], "stderr": []}
    said |= {"logging": [], "warnings": []}

    def log(logger: logging.Logger, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING or record.name.split(".")[0] != "jax":
            said["logging"].append(f"{record.name}: {record.getMessage()}")

    streams, level, disabled = (io.StringIO(), io.StringIO()), logging.root.level, logging.root.manager.disable
    with contextlib.ExitStack() as stack:
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            if stream is not None:
                stream.flush()
        files = {fd: stack.enter_context(tempfile.TemporaryFile()) for fd in (1, 2)}
        kept = {fd: os.dup(fd) for fd in files}
        try:
            logging.root.setLevel(1)
            logging.disable(logging.NOTSET)
            for fd, file in files.items():
                os.dup2(file.fileno(), fd)
            with (
                mock.patch.object(logging.Logger, "callHandlers", log),
                warnings.catch_warnings(record=True) as warned,
                contextlib.redirect_stdout(streams[0]),
                contextlib.redirect_stderr(streams[1]),
            ):
                warnings.simplefilter("always")
                yield said
                jax.effects_barrier()
            for stream in filter(None, (sys.__stdout__, sys.__stderr__)):
                stream.flush()
        finally:
            logging.root.setLevel(level)
            logging.disable(disabled)
            for fd, copy in kept.items():
                os.dup2(copy, fd)
                os.close(copy)
        said["warnings"] += [str(warning.message) for warning in warned]
        for fd, file in files.items():
            file.seek(0)
            said[f"file descriptor {fd}"] += file.read().decode(errors="replace").splitlines()
    for name, stream in zip(("stdout", "stderr"), streams, strict=True):
        said[name] += stream.getvalue().splitlines()


def check_releases_are_silent() -> None:
    """The curator says nothing while it reads records, whatever they hold and however many are sampled."""
    records = make_records(40)
    X = np.array(records.X)
    X[3, 0, 0, 0], X[7], X[11], X[12] = np.nan, np.inf, -3e38, 1e-40
    records = Records(X, records.y, SCHEMA)
    assert 0 < (records.y < 0).sum() < 40
    queries = (FlatQuery(), FlatQuery(by_class=False, encoder=MixingEncoder()), FlatLinear())
    stages = tuple(Stage(len(queries), q) for q in (1.0, 0.5, 1e-12))
    schedule = Schedule(stages, (NOISE,) * len(stages), Budget(1.0))
    asked = make_curator(records, schedule, chunk=16)
    with everything_said() as said:
        releases = [asked.release(t, queries[t % len(queries)], np.float32(1.0)) for t in range(schedule.rounds)]
    for where, words in said.items():
        assert not words, f"The curator speaks by way of {where}: {words}"
    assert all(np.isfinite(release.value).all() for release in releases), "The sum is not finite."


def check_errors_say_nothing(error_in: str = "dpdistill.private.curator.rounded_gaussian") -> None:
    """What goes wrong after loading ends in a fixed sentence without cause, context or shapes; nothing is paid."""
    schedule = full_batches()
    ledger = memory_ledger(schedule)
    asked = make_curator(make_records(5), schedule, ledger=ledger)
    with mock.patch(error_in, side_effect=MemoryError("an array of shape (5, 8, 8, 1)")):
        try:
            asked.release(0, FlatQuery(), 1.0)
        except Exception as error:
            caught = error
        else:
            raise AssertionError("The failure was swallowed.")
    assert type(caught) is CuratorError, "The error is of another type."
    assert str(caught) == FAILED, "The error says something else."
    assert caught.__cause__ is None, "The error shows its cause."
    assert caught.__context__ is None, "The error shows its context."
    assert "(5," not in "".join(traceback.format_exception(caught)), "The traceback shows a shape."
    assert ledger.events() == (), "A round that failed is paid."
    assert asked.release(0, FlatQuery(), 1.0).round == 0


def check_nothing_is_pickled() -> None:
    """Records and curators refuse to be pickled, and show nothing of themselves."""
    records = make_records(5)
    for secret in (records, make_curator(records)):
        try:
            pickle.dumps(secret)
        except TypeError:
            pass
        else:
            raise AssertionError(f"{type(secret).__name__} was pickled.")
        for shown in (repr(secret), str(secret), f"{secret}"):
            assert "0." not in shown, "A record is shown."
            assert "5" not in shown, "The number of records is shown."


def check_ledger_holds_no_plain_sum(folder: Path) -> None:
    """The owner's ledger keeps the noised value only."""
    records, query = make_records(9), FlatQuery()
    plain = integer_sum(records, query, 1.0)
    step = grid_of(query, 1.0, records.schema).step
    schedule = full_batches()
    with RunLedger.open(folder, {}, schedule, b"d" * 32) as ledger:
        value = make_curator(records, schedule, ledger=ledger).release(0, query, np.float32(1.0)).value
    content = b"".join(path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file())
    assert value.tobytes() in content, "The noised value is not in the ledger."
    for trace in (plain, plain * step, (plain * step).astype(np.float32), plain.astype(np.int32)):
        row = np.ascontiguousarray(trace[0]).tobytes()
        assert np.count_nonzero(trace[0]) > 10
        assert row not in content, "The plain sum is in the ledger."


# Checks of the driver and the methods.


def check_steps_without_the_clip_norm() -> None:
    """Where every gradient is clipped, DP-KIP moves its support set by the same steps whatever the clip norm is."""
    records, moved = toy_records(60), []
    for clip_norm in (1e-9, 1e-5):
        method = tiny("dp-kip", clip_norm=clip_norm, average=0.0)
        state = method.init(jax.random.key(0), SCHEMA)
        start = state["images"].X
        for _ in range(2):
            release = make_curator(records, entropy=SeededEntropy(2)).release(0, *method.ask(state))
            state = method.tell(state, release)
        moved.append(state["images"].X - start)
    assert np.abs(moved[1]).mean() > 0.1, "The support set does not move."
    off = np.abs(moved[0] - moved[1]).mean() / np.abs(moved[1]).mean()
    assert off < 0.02, "With a small clip norm the support set moves by less, or elsewhere."


@contextlib.contextmanager
def canned_releases(seed: int = 9):
    """Releases that do not depend on the records: whatever else comes out must not either."""

    def draw(self: Any, t: int, query: Any, params: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, float]:
        blocks = (len(self._schema.classes),) if query.by_class else ()
        return 20.0 * np.random.default_rng((seed, t)).normal(size=(*blocks, *shape)), 1.0

    with mock.patch.object(curator.Curator, "_draw", draw):
        yield


def digest_folder(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def check_only_releases_speak(folder: Path, name: str = "dos") -> None:
    """With the same releases, other records give the same result, the same files and the same words on the terminal."""
    found = []
    for k, records in enumerate((make_records(30, 1), subset(make_records(11, 2, low=0.7), [3, 1, 2]))):
        heard = io.StringIO()
        told: list[tuple] = []
        target = folder / str(k) / "shared"
        with canned_releases(), contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
            result = run.distill(records, tiny(name), Budget(1.0), progress=lambda *said: told.append(said))  # noqa: B023
            result.save(target)
        files = digest_folder(target)
        found.append((result.X.tobytes(), result.y.tobytes(), files, heard.getvalue(), told))
        assert {"synthetic.npz", "certificate.json", "recipe.json", "report.html"} <= set(files)
        if hasattr(tiny(name), "per_class"):
            assert result.y.tolist() == sorted([0, 1, 2] * 2), "The labels are not the planned ones."
    for what, one, other in zip(("images", "labels", "files", "terminal", "progress"), *found, strict=True):
        assert one == other, f"Something beside the releases speaks of the records: the {what}."


def check_score_is_the_final_iterate() -> None:
    """No test label picks a net: accuracy on a test set and on its opposite labels add up to 100 %, net by net."""
    schema = dataclasses.replace(SCHEMA, classes=("a", "b"))
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-1, 1, (8, 8, 8, 1)).astype(np.float32), np.arange(8) % 2
    test = Records(rng.uniform(-1, 1, (101, 8, 8, 1)), rng.integers(0, 2, 101), schema)
    other = Records(test.X, 1 - test.y, schema)
    training = convnet.Training(epochs=4, learning_rate=0.05, schedule="cosine", width=4, strategies=())
    scores = [score.score_convnet(X, y, schema, t, nets=2, training=training).accuracies for t in (test, other)]
    np.testing.assert_allclose(np.sum(scores, 0), 100.0, err_msg="A test label picks the net that is scored.")


def check_replace_one_costs_more() -> None:
    """sigma = 3.7306 costs epsilon 1 under add-or-remove and 2.155 under replace-one."""
    relations: tuple[tuple[Any, float], ...] = (("add-remove", 1.0), ("replace-one", 2.155))
    for adjacency, truth in relations:
        schedule = Schedule((Stage(1),), (3.7306,), Budget(1.0, 1e-5, adjacency))
        assert abs(schedule.epsilon() - truth) < 2e-3, f"The epsilon under {adjacency} is not {truth}."
    sigma = accounting.calibrate((Stage(1),), Budget(1.0, 1e-5, "replace-one")).noise_multipliers[0]
    assert sigma > 7.4, "The noise under replace-one is that of add-or-remove."


def check_test_classes_by_name() -> None:
    """A test set whose classes stand in another order is refused."""
    other = dataclasses.replace(SCHEMA, classes=NAMES[::-1])
    try:
        score.check_test_set(SCHEMA, make_records(4, schema=other))
    except ValueError as error:
        said = str(error)
    else:
        raise AssertionError("A test set with other classes was accepted.")
    assert "ant, bee, cat" in said, "The error does not name the classes."
