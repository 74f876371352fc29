"""What a query must be before it meets a record: all of it is decided on shapes and types."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.jaxprs import Refused, in_double, trace
from dpdistill.private.grid import make_grid
from dpdistill.private.linear import most_records, step_and_sensitivity
from dpdistill.private.noise import MAX_STDDEV
from dpdistill.query import MOST_ROWS, ByValue, LinearQuery, Params, Query
from dpdistill.schema import AnySchema


class CuratorError(RuntimeError):
    """A query that is refused, or a round that could not be answered; its text holds public facts only."""


def check_query(
    query: Query,
    params: Params,
    schema: AnySchema,
    noise_multiplier: float | None = None,
    size: int = 2,
    rows_per_unit: int = 1,
) -> tuple[int, ...]:
    """Shape of one contribution, found on abstract values: no record is read, so its errors may be read by anybody.

    Args:
        query: hashable by value, so that it is looked at once for all rounds of a stage.
        params: a pytree of arrays; only their shapes and types matter.
        schema: of the records.
        noise_multiplier: of a round; with it, a noise for which there is no grid is refused too.
        size: rows of a chunk.
        rows_per_unit: the most records of a unit that are used.

    Raises:
        CuratorError: a clip norm that is no positive number, a contribution that could speak while it is computed, a
            linear query that is by class or not in float64 throughout, or a noise that is too small or too large.
    """
    if not 0.0 < query.clip_norm < math.inf:
        raise CuratorError(f"Expected clip_norm={query.clip_norm} > 0 and finite.")
    try:
        shape = _contribution_shape(ByValue(query), schema, size, *types_of(params))
        if isinstance(query, LinearQuery):
            with jax.enable_x64(True):
                _check_linear(ByValue(query), schema, size, shape, *types_of(params))
    except Refused as error:
        raise CuratorError(str(error)) from None
    if isinstance(query, LinearQuery) and rows_per_unit > MOST_ROWS:
        raise CuratorError(
            f"Expected rows_per_unit={rows_per_unit} <= {MOST_ROWS} for this method, whose sums are of blocks."
        )
    if noise_multiplier is not None:
        _check_noise(query, math.prod(shape) * blocks_of(query, schema, rows_per_unit), noise_multiplier)
    return shape


def blocks_of(query: Query, schema: AnySchema, rows_per_unit: int) -> int:
    """How many blocks of classes one unit can touch."""
    return min(rows_per_unit, len(schema.classes)) if query.by_class else 1


def _check_noise(query: Query, d: int, noise_multiplier: float) -> None:
    """The grid of the round but for its number of records, which is private: 2**38 of them fit every grid."""
    try:
        if isinstance(query, LinearQuery):
            step, sensitivity = step_and_sensitivity(query.clip_norm, d)
            stddev = noise_multiplier * sensitivity / step
        else:
            stddev = noise_multiplier * make_grid(query.clip_norm, noise_multiplier, d, 0).K
    except ValueError as error:
        raise CuratorError(str(error)) from None
    if not 0.0 < stddev <= MAX_STDDEV:
        raise CuratorError(f"Expected noise_multiplier={noise_multiplier} > 0 and of at most 2**48 grid steps.")


def types_of(params: Params) -> tuple[Any, tuple]:
    """Structure, shapes and types of parameters: what programs are compiled for."""
    leaves, structure = jax.tree.flatten(params)
    return structure, tuple((leaf.shape, leaf.dtype) for leaf in map(np.asarray, leaves))


def _abstract(structure: Any, leaves: tuple) -> Params:
    return jax.tree.unflatten(
        structure, [jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype)) for shape, dtype in leaves]
    )


@lru_cache(maxsize=256)
def _contribution_shape(same: ByValue, schema: AnySchema, size: int, structure: Any, leaves: tuple) -> tuple[int, ...]:
    query = same.value
    one, label = _one_record(query, schema, size), jax.ShapeDtypeStruct((), jnp.int32)
    return tuple(trace(query.contribution, _abstract(structure, leaves), one, label)[1].shape)


def _one_record(query: Query, schema: AnySchema, size: int) -> Any:
    """Shape and type of what the query is given of one record."""
    x = jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32)
    if query.encoder is not None:
        # As the curator runs it: mapped over records, its own rule for that looked through.
        rows = jax.ShapeDtypeStruct((size, *x.shape), x.dtype)
        with jax.enable_x64(False):
            x = jax.eval_shape(lambda X: X[0], trace(jax.vmap(query.encoder), rows, allowed=("custom_vmap_call",))[1])
    return jax.ShapeDtypeStruct(x.shape[1:], x.dtype)


@lru_cache(maxsize=256)
def _check_linear(
    same: ByValue, schema: AnySchema, rows: int, shape: tuple[int, ...], structure: Any, leaves: tuple
) -> None:
    query = same.value
    if query.by_class:
        raise CuratorError("Expected by_class=False of a linear query: its own sum has the blocks of the classes.")
    try:
        most_records(query)
    except ValueError as error:
        raise CuratorError(str(error)) from None
    y, w = jax.ShapeDtypeStruct((), jnp.int64), jax.ShapeDtypeStruct((rows,), jnp.float64)
    params = in_double("prepare", None, query.prepare, _abstract(structure, leaves))
    _, one = trace(query.coefficients, params, _one_record(query, schema, rows), y)
    block = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((rows, *leaf.shape), leaf.dtype), one)
    in_double("norm", (), query.norm, params, one)
    in_double("weighted_sum", shape, query.weighted_sum, params, block, w)
