"""Makes neighbouring data sets (a record removed, one or all replaced), and chooses the records to try."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import zip_longest
from typing import Any

import numpy as np

from dpdistill.schema import AnySchema
from dpdistill.storage.records import Records

BLOCK = 4096
"""Number of records processed at once."""


def without(records: Records, i: int) -> Records:
    """Returns the records without one."""
    kept = np.arange(len(records)) != i
    return Records(records.X[kept], records.y[kept], records.schema)


def with_one_replaced(records: Records, i: int, seed: int = 0) -> Records:
    """Returns the records with one replaced by its opposite, under the next label.

    A record that equals its opposite is replaced by a random record.
    """
    X, y = np.array(records.X), np.array(records.y)
    X[i] = _raw(records.schema, -records.schema.to_unit(records.X[i : i + 1]), X.dtype)[0]
    if X[i].tobytes() == records.X[i].tobytes() or np.isnan(X[i]).any():
        X[i] = random_records(records.schema, 1, X.dtype, (seed, i)).X[0]
    y[i] = (y[i] + 1) % records.classes
    return Records(X, y, records.schema)


def with_all_but_one_replaced(records: Records, i: int, seed: int = 0) -> Records:
    """Returns random records around one of the records, equal in number, most of them of the rarest class."""
    drawn = random_records(records.schema, len(records), records.X.dtype, (seed, 1), rarest(records))
    X, y = np.array(drawn.X), np.array(drawn.y)
    X[i], y[i] = records.X[i], records.y[i]
    return Records(X, y, records.schema)


def rarest(records: Records) -> int:
    """Returns the index of the class with the fewest records."""
    return int(np.bincount(records.y[records.y >= 0], minlength=records.classes).argmin())


def random_records(schema: AnySchema, n: int, dtype: Any, seed: Any, majority: int = 0) -> Records:
    """Returns random records well inside the bounds, with the first and most of them in one class.

    Args:
        schema: public facts of the records.
        n: number of records.
        dtype: type of the raw values.
        seed: seed of the draw.
        majority: index of the class of most records.
    """
    rng, classes = np.random.default_rng(seed), len(schema.classes)
    X = _raw(schema, rng.uniform(-0.5, 0.5, (n, *schema.shape)).astype(np.float32), dtype)
    y = np.where(rng.random(n) < 0.7, majority, rng.integers(0, classes, n))
    y[:1] = majority
    return Records(X, y.astype(np.int64), schema)


def choose(records: Records, most: int, seed: int = 0) -> dict[int, str]:
    """Returns records to try with reasons: single members of a class, outliers and duplicates, then random ones.

    Outliers and duplicates are a third each at most.

    Args:
        records: the private records.
        most: maximum number of records.
        seed: seed of the random records.
    """
    labels, norms, third = Counter(records.y.tolist()), _distances(records), -(-most // 3)
    lone = [i for i, y in enumerate(records.y.tolist()) if y >= 0 and labels[y] == 1]
    far, again = np.argsort(-norms, kind="stable")[:third].tolist(), _duplicates(records)[:third]
    kinds = {"the only record of its class": lone, "an outlier": far, "a duplicate": again}
    turns = zip_longest(*[[(i, why) for i in found] for why, found in kinds.items()])
    drawn = np.random.default_rng(seed).permutation(len(records)).tolist()
    chosen: dict[int, str] = {}
    for i, why in [*(pair for turn in turns for pair in turn if pair), *((i, "drawn at random") for i in drawn)]:
        if len(chosen) < most:
            chosen.setdefault(i, why)
    return chosen


def _raw(schema: AnySchema, X: np.ndarray, dtype: Any) -> np.ndarray:
    raw = schema.from_unit(X)
    return (np.rint(raw) if np.dtype(dtype).kind in "ui" else raw).astype(dtype)


def _distances(records: Records) -> np.ndarray:
    """Returns the distance of each record to the mean, (n,); infinite for non-finite values."""
    n = len(records)
    total, found = np.zeros(records.schema.shape), np.empty(n)
    blocks = [np.arange(start, min(n, start + BLOCK)) for start in range(0, n, BLOCK)]
    for rows in blocks:
        total += np.nan_to_num(records.take(rows)[0], posinf=0, neginf=0).sum(0)
    for rows in blocks:
        apart = (records.take(rows)[0] - total / n).reshape(len(rows), -1)
        found[rows] = np.linalg.norm(np.where(np.isfinite(apart), apart, np.inf), axis=1)
    return found


def _duplicates(records: Records) -> list[int]:
    """Returns the second and all later records of equal content."""
    seen: set[bytes] = set()
    again = []
    for i in range(len(records)):
        key = hashlib.blake2b(np.ascontiguousarray(records.X[i]).tobytes(), digest_size=16).digest()
        if key in seen:
            again.append(i)
        seen.add(key)
    return again
