"""Data sets for tests: random ones, ones that tell, and what somebody might put in one record's place."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpdistill.recipe.methods import RECIPES
from dpdistill.schema import AnySchema, Column, Schema, TableSchema
from dpdistill.storage.records import Records

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

NUMBERS = TableSchema(TABLE.columns, target="age", edges=(18.0, 40.0, 65.0))
"""The columns of TABLE, one of them a number to predict."""


def fitting(name: str, schema: AnySchema) -> AnySchema:
    """A schema from which a method learns: with a number to predict for one that takes no other label."""
    only = RECIPES[name].target == "only" and isinstance(schema, TableSchema) and schema.target is None
    return NUMBERS if only else schema


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
