"""What a query must be before it meets a record: all of it is decided on shapes and types."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.private.grid import make_grid
from dpdistill.private.linear import most_records, step_and_sensitivity
from dpdistill.private.noise import MAX_STDDEV
from dpdistill.query import ByValue, LinearQuery, Params, Query
from dpdistill.schema import AnySchema

FORBIDDEN = ("callback", "print", "infeed", "outfeed", "ffi_call", "custom_vmap")
"""Words in names of primitives that speak, or that hold code which is not looked through."""
MOVES = (
    *("reshape", "transpose", "squeeze", "broadcast_in_dim", "slice", "dynamic_slice", "split", "gather"),
    *("concatenate", "pad", "rev", "copy", "copy_p"),
)
"""What may be done to numbers narrower than float64 in a linear query, besides widening them: none of it rounds."""


class CuratorError(RuntimeError):
    """A query that is refused, or a round that could not be answered; its text holds public facts only."""


def check_query(
    query: Query, params: Params, schema: AnySchema, noise_multiplier: float | None = None, size: int = 2
) -> tuple[int, ...]:
    """Shape of one contribution, found on abstract values: no record is read, so its errors may be read by anybody.

    Args:
        query: hashable by value, so that it is looked at once for all rounds of a stage.
        params: a pytree of arrays; only their shapes and types matter.
        schema: of the records.
        noise_multiplier: of a round; with it, a noise for which there is no grid is refused too.
        size: rows of a chunk.

    Raises:
        CuratorError: a clip norm that is no positive number, a contribution that could speak while it is computed, a
            linear query that is by class or not in float64 throughout, or a noise that is too small or too large.
    """
    if not 0.0 < query.clip_norm < math.inf:
        raise CuratorError(f"Expected clip_norm={query.clip_norm} > 0 and finite.")
    shape = _contribution_shape(ByValue(query), schema, size, *types_of(params))
    if isinstance(query, LinearQuery):
        with jax.enable_x64(True):
            _check_linear(ByValue(query), schema, size, shape, *types_of(params))
    if noise_multiplier is not None:
        _check_noise(query, math.prod(shape), noise_multiplier)
    return shape


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
    return tuple(_trace(query.contribution, _abstract(structure, leaves), one, label)[1].shape)


def _one_record(query: Query, schema: AnySchema, size: int) -> Any:
    """Shape and type of what the query is given of one record."""
    x = jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32)
    if query.encoder is not None:
        # As the curator runs it: mapped over records, its own rule for that looked through.
        rows = jax.ShapeDtypeStruct((size, *x.shape), x.dtype)
        with jax.enable_x64(False):
            x = jax.eval_shape(lambda X: X[0], _trace(jax.vmap(query.encoder), rows, allowed=("custom_vmap_call",))[1])
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
    params = _in_double("prepare", None, query.prepare, _abstract(structure, leaves))
    _, one = _trace(query.coefficients, params, _one_record(query, schema, rows), y)
    block = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((rows, *leaf.shape), leaf.dtype), one)
    _in_double("norm", (), query.norm, params, one)
    _in_double("weighted_sum", shape, query.weighted_sum, params, block, w)


def _in_double(name: str, expected: tuple[int, ...] | None, f: Any, *abstract: Any) -> Any:
    """f's result, once it is sure that f has no side effects, the expected shape, and no arithmetic but in float64."""
    jaxpr, out = _trace(f, *abstract)
    if expected is not None and (out.shape != expected or out.dtype != jnp.float64):
        raise CuratorError(f"Expected {name} in float64 of shape {expected}; got {out.dtype} {out.shape}.")
    _refuse_narrow(name, jaxpr)
    return out


def _trace(f: Any, *abstract: Any, allowed: tuple[str, ...] = ()) -> tuple[Any, Any]:
    """(jaxpr of f, shape and type of its result), once it is sure that f has no side effects."""
    jaxpr, out = jax.make_jaxpr(f, return_shape=True)(*abstract)
    _refuse_side_effects(jaxpr.jaxpr, allowed)
    return jaxpr.jaxpr, out


def _refuse_side_effects(jaxpr: Any, allowed: tuple[str, ...] = ()) -> None:
    jaxprs = list(_with_inner(jaxpr))
    for name in (equation.primitive.name for one in jaxprs for equation in one.eqns):
        if name not in allowed and any(word in name for word in FORBIDDEN):
            raise CuratorError(f"The query is refused: it holds {name!r}, which can carry records out.")
    if any(one.effects for one in jaxprs):
        raise CuratorError("The query is refused: it has side effects, which can carry records out.")


def _refuse_narrow(of: str, jaxpr: Any) -> None:
    """Arithmetic in less than float64 is refused, and floats made whole: that rounding is beyond any stated bound."""
    for equation in (equation for one in _with_inner(jaxpr) for equation in one.eqns):
        name, precision = equation.primitive.name, equation.params.get("precision")
        bits = [_float_bits(variable) for variable in (*equation.invars, *equation.outvars)]
        widened = name == "convert_element_type" and equation.params["new_dtype"] == jnp.float64
        rounds = any(0 < b < 64 for b in bits) and not (widened or name in MOVES or _inner(equation))
        rounds |= name == "reduce_precision" or (name == "convert_element_type" and bits[0] > 0 and bits[1] == 0)
        # An algorithm of a matrix product may compute in fewer bits than its arguments have.
        plain = all(p is None or isinstance(p, jax.lax.Precision) for p in np.ravel(np.array(precision, object)))
        if rounds or not plain:
            raise CuratorError(f"Expected {of} in float64 throughout; it holds {name!r} of fewer bits.")


def _float_bits(variable: Any) -> int:
    """Bits of a float; 0 of anything else."""
    dtype = getattr(variable.aval, "dtype", None)
    return jnp.finfo(dtype).bits if dtype is not None and jnp.issubdtype(dtype, jnp.inexact) else 0


def _with_inner(jaxpr: Any) -> Iterator[Any]:
    yield jaxpr
    for equation in jaxpr.eqns:
        for inner in _inner(equation):
            yield from _with_inner(inner)


def _inner(equation: Any) -> list[Any]:
    """The jaxprs that an equation calls."""
    values = (
        v for value in equation.params.values() for v in (value if isinstance(value, (tuple, list)) else (value,))
    )
    found = (getattr(value, "jaxpr", value) for value in values)
    return [jaxpr for jaxpr in found if hasattr(jaxpr, "eqns")]
