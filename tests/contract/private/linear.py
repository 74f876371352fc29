"""What one record does to the sum of a linear query, and what such a query states of norms and rounding."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import mpmath
import numpy as np
from contract.data import adversaries, insert, make_records, replace, subset
from contract.private.curators import NOISE, NoNoise, OneQuantile, make_curator, tested_once
from contract.private.queries import FlatLinear

from dpdistill.private import checks, linear
from dpdistill.programs import clipping
from dpdistill.query import ByValue
from dpdistill.storage.records import Records


def linear_sum(records: Records, query: Any, params: Any, chunk: int = 4) -> np.ndarray:
    """The un-noised release of a linear query."""
    value = make_curator(records, entropy=NoNoise(), chunk=chunk).release(0, query, params).value
    assert np.isfinite(value).all(), "The sum is not finite."
    return value


def prepared(query: Any, params: Any) -> Any:
    """What a linear query is given in the place of its params."""
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, clipping.prepared(ByValue(query), params))


def coefficients_of(query: Any, params: Any, X: np.ndarray, y: np.ndarray) -> Any:
    """Coefficients of rows as the curator has them: of records, or of their features."""
    params = prepared(query, params)
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, clipping.coefficients(ByValue(query), params, X, y))


def norms_of(query: Any, params: Any, coefficients: Any) -> np.ndarray:
    """The norms that a linear query states, from coefficients."""
    params = prepared(query, params)
    with jax.enable_x64(True):
        return np.asarray(clipping.norms(ByValue(query), params, coefficients))


def weighted_sum_of(query: Any, params: Any, coefficients: Any, w: np.ndarray) -> np.ndarray:
    """The weighted sum of a block."""
    params = prepared(query, params)
    with jax.enable_x64(True):
        return np.ravel(clipping.weighted_sum(ByValue(query), params, coefficients, w))


def rows_of(query: Any, records: Records) -> np.ndarray:
    """What a query is given of the records: themselves in [-1, 1], or their features."""
    X = records.schema.to_unit(records.X)
    return X if query.encoder is None else np.asarray(clipping.encode_rows(ByValue(query.encoder), X))


@partial(jax.jit, static_argnums=0)
def _contribution(query: Any, params: Any, x: Any, y: Any) -> Any:
    return query.contribution(params, x, y).ravel()


def contributions(query: Any, params: Any, X: np.ndarray, y: Any) -> np.ndarray:
    """Every contribution formed, in float64, (n, d); what is whole stays so."""
    X = _in_double(X)
    with jax.enable_x64(True):
        each = [_contribution(query, params, x, np.int64(k)) for x, k in zip(X, y, strict=True)]
        return np.stack([np.asarray(one) for one in each])


def _in_double(X: np.ndarray) -> np.ndarray:
    return np.asarray(X, np.float64) if np.issubdtype(np.asarray(X).dtype, np.floating) else X


@tested_once()
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
    coefficients = coefficients_of(query, params, _in_double(X), y)
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


EXACT: Any = mpmath.MPContext()
EXACT.prec = 2000
"""Sums and products of a few numbers of float64 are exact in so many bits."""


def exact(a: Any) -> np.ndarray:
    """The same numbers, with 2000 bits to compute with."""
    return np.vectorize(EXACT.mpf, otypes=[object])(np.asarray(a, np.float64))


def squared(a: np.ndarray) -> Any:
    """Sum of squares."""
    return sum((v * v for v in a.ravel()), EXACT.mpf(0))


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
