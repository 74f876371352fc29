"""Checks what a query's programs may do and return, from shapes and types: no record is read."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.programs.jaxprs import Refused, in_double, trace
from dpdistill.query import ByValue, LinearQuery, Params, Query
from dpdistill.schema import AnySchema


def check_programs(query: Query, params: Params, schema: AnySchema, size: int) -> tuple[int, ...]:
    """Returns the shape of one contribution.

    Args:
        query: hashable by value, so that it is checked once for all rounds of a stage.
        params: a pytree of arrays; only their shapes and types matter.
        schema: schema of the records.
        size: rows of a chunk.

    Raises:
        Refused: a contribution with side effects, or a linear query that is by class or not in float64 throughout.
    """
    shape = _contribution_shape(ByValue(query), schema, size, *types_of(params))
    if isinstance(query, LinearQuery):
        if query.by_class:
            raise Refused("Expected by_class=False in a linear query: its sum already has the blocks of the classes.")
        with jax.enable_x64(True):
            _check_linear(ByValue(query), schema, size, shape, *types_of(params))
    return shape


def types_of(params: Params) -> tuple[Any, tuple]:
    """Returns structure, shapes and types of parameters, for which programs are compiled."""
    leaves, structure = jax.tree.flatten(params)
    return structure, tuple((leaf.shape, leaf.dtype) for leaf in map(np.asarray, leaves))


def abstract(structure: Any, leaves: tuple) -> Params:
    """Returns abstract values of these types."""
    return jax.tree.unflatten(
        structure, [jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype)) for shape, dtype in leaves]
    )


@lru_cache(maxsize=256)
def _contribution_shape(same: ByValue, schema: AnySchema, size: int, structure: Any, leaves: tuple) -> tuple[int, ...]:
    query = same.value
    one, label = _one_record(query, schema, size), jax.ShapeDtypeStruct((), jnp.int32)
    return tuple(trace(query.contribution, abstract(structure, leaves), one, label)[1].shape)


def _one_record(query: Query, schema: AnySchema, size: int) -> Any:
    """Returns shape and type of the query's input from one record."""
    x = jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32)
    if query.encoder is not None:
        # As the curator runs it: mapped over records, with the encoder's own vmap rule checked, too.
        rows = jax.ShapeDtypeStruct((size, *x.shape), x.dtype)
        with jax.enable_x64(False):
            x = jax.eval_shape(lambda X: X[0], trace(jax.vmap(query.encoder), rows, allowed=("custom_vmap_call",))[1])
    return jax.ShapeDtypeStruct(x.shape[1:], x.dtype)


@lru_cache(maxsize=256)
def _check_linear(
    same: ByValue, schema: AnySchema, rows: int, shape: tuple[int, ...], structure: Any, leaves: tuple
) -> None:
    query = same.value
    y, w = jax.ShapeDtypeStruct((), jnp.int64), jax.ShapeDtypeStruct((rows,), jnp.float64)
    params = in_double("prepare", None, query.prepare, abstract(structure, leaves))
    _, one = trace(query.coefficients, params, _one_record(query, schema, rows), y)
    block = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((rows, *leaf.shape), leaf.dtype), one)
    in_double("norm", (), query.norm, params, one)
    in_double("weighted_sum", shape, query.weighted_sum, params, block, w)
