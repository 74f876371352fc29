"""The self-test of a compiled program before it sees a record: no arithmetic crosses the rows of a chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from dpdistill.programs import clipping
from dpdistill.programs.jaxprs import Refused
from dpdistill.query import ByValue, LinearQuery, Params, Query
from dpdistill.schema import AnySchema

PASSED = "every program that reads records was tested before: no row of a chunk changes a bit of another"
"""Sentence in the certificate of a run whose every release came from a curator."""
_MIXED = "The query is refused: on this machine a record's numbers depend on the other records of its chunk."


def check_rows(query: Query, params: Params, schema: AnySchema, size: int, rows_per_unit: int = 1) -> bool:
    """Refuses a query if one of its programs, compiled here for chunks of this many units, mixes rows, or units.

    The programs of features, contributions, or coefficients and norms are run on public random numbers.

    Returns:
        Whether the test is conclusive. It must be repeated for parameters that make all rows zeros, and for integer
        records with parameters of zeros, which hide the effect of NaN.

    Raises:
        Refused: a row's bits change with the other rows.
    """
    rng, same, rows = np.random.default_rng(0), ByValue(query), size * rows_per_unit
    X = rng.uniform(-1.0, 1.0, (rows, *schema.shape)).astype(np.float32)
    y = rng.integers(0, len(schema.classes), rows)
    alone = True
    if query.encoder is not None:
        encoder = ByValue(query.encoder)
        with jax.enable_x64(False):
            alone = rows_stand_alone(lambda X, y: clipping.encode_rows(encoder, X), X, y)
            X = np.asarray(clipping.encode_rows(encoder, X))

    def plain(X: np.ndarray, y: np.ndarray) -> Any:
        # A bound in the middle of the values, so that some rows are clipped and some are not.
        X, labels = X.reshape(-1, *X.shape[2:]), y.reshape(-1).astype(np.int32)
        clip, step = query.clip_norm / 2, query.clip_norm * 2.0**-20
        return clipping.grid_rows(same, params, X, labels, clip, step, rows_per_unit).reshape(size, -1)

    def linear(X: np.ndarray, y: np.ndarray) -> Any:
        ready = clipping.prepared(same, params)
        result = clipping.coefficients(same, ready, X, y)
        return result, clipping.norms(same, ready, result)

    with jax.enable_x64(isinstance(query, LinearQuery)):
        if isinstance(query, LinearQuery):
            program = linear
        else:
            program, X, y = plain, X.reshape(size, -1, *X.shape[1:]), y.reshape(size, -1)
        alone = alone and rows_stand_alone(program, X, y)
        tells = any(np.asarray(leaf).any() for leaf in jax.tree.leaves(program(X, y)))
        if np.issubdtype(X.dtype, np.integer):
            tells = tells and all(np.asarray(leaf).any() or not np.size(leaf) for leaf in jax.tree.leaves(params))
    if not alone:
        raise Refused(_MIXED)
    return tells


def rows_stand_alone(program: Callable[[np.ndarray, np.ndarray], Any], X: np.ndarray, y: np.ndarray) -> bool:
    """Returns whether the bits of every row stay equal when the other rows change, on this machine.

    Half of the rows are exchanged for others: random, zero, huge, not finite. The halves are the rows whose index has a
    certain bit, and those that have not: of any two rows there is a half with the one and without the other, and one
    NaN among the terms of a kept row is enough. Integers have no NaN: their rows are exchanged for random, zero, the
    largest and the least ones in all halves, and a dependence that changes no bit in these cases is not found.

    The program maps X (m, ...) and y (m, ...) to a pytree of arrays, with a row per record, or a row per unit.
    """
    first, m = _bits(program(X, y)), len(y)
    bits = [(np.arange(m) >> b) & 1 == 1 for b in range(max(1, (m - 1).bit_length()))]
    others = [(np.roll(X, 1, 0) * -0.7).astype(X.dtype), *(np.full_like(X, v) for v in (0, *_extremes(X.dtype)))]
    telling = others if np.issubdtype(X.dtype, np.integer) else others[-1:]
    trials = [(other, half) for other in others for half in bits[:1]]
    trials += [(other, half) for other in telling for half in bits[1:]]
    for other, half in trials:
        for kept in (half, ~half):
            mixed = np.where(kept.reshape(m, *[1] * (X.ndim - 1)), X, other)
            labels = np.where(kept.reshape(m, *[1] * (y.ndim - 1)), y, np.roll(y, 1, 0))
            result = _bits(program(mixed, labels))
            if not all(np.array_equal(a[kept], b[kept]) for a, b in zip(first, result, strict=True)):
                return False
    return True


def _extremes(dtype: np.dtype) -> tuple[float, float]:
    if np.issubdtype(dtype, np.floating):
        return float(np.finfo(dtype).max), np.nan
    return np.iinfo(dtype).max, np.iinfo(dtype).min


def _bits(tree: object) -> list[np.ndarray]:
    """Returns the bytes of every row of every array, (m, bytes)."""
    arrays = [np.ascontiguousarray(leaf) for leaf in jax.tree.leaves(tree)]
    return [a.reshape(len(a), -1).view(np.uint8) for a in arrays]
