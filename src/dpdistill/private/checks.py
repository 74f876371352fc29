"""What a query must be before it meets a record: all of it is decided on shapes and types."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from dpdistill.private.grid import make_grid
from dpdistill.private.linear import step_and_sensitivity
from dpdistill.private.noise import MAX_STDDEV
from dpdistill.query import LinearQuery, Params, Query
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
    query: Query, params: Params, schema: AnySchema, noise_multiplier: float | None = None
) -> tuple[int, ...]:
    """Shape of one contribution, found on abstract values: no record is read, so its errors may be read by anybody.

    Args:
        query: hashable by value, so that it is looked at once for all rounds of a stage.
        params: a pytree of arrays; only their shapes and types matter.
        schema: of the records.
        noise_multiplier: of a round; with it, a noise for which there is no grid is refused too.

    Raises:
        CuratorError: a clip norm that is no positive number, a contribution that could speak while it is computed, a
            linear query that is by class or not in float64 throughout, or a noise that is too small or too large.
    """
    if not 0.0 < query.clip_norm < math.inf:
        raise CuratorError(f"Expected clip_norm={query.clip_norm} > 0 and finite.")
    shape = _contribution_shape(query, schema, *_types(params))
    if isinstance(query, LinearQuery):
        with jax.enable_x64(True):
            _check_linear(query, schema, shape, *_types(params))
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
            stddev = noise_multiplier * make_grid(query.clip_norm, noise_multiplier, d, 1, 0).K
    except ValueError as error:
        raise CuratorError(str(error)) from None
    if not 0.0 < stddev <= MAX_STDDEV:
        raise CuratorError(f"Expected noise_multiplier={noise_multiplier} > 0 and of at most 2**48 grid steps.")


def _types(params: Params) -> tuple[Any, tuple]:
    leaves, structure = jax.tree.flatten(params)
    return structure, tuple((leaf.shape, leaf.dtype) for leaf in map(jax.typeof, leaves))


def _abstract(structure: Any, leaves: tuple) -> Params:
    return jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in leaves])


@lru_cache(maxsize=256)
def _contribution_shape(query: Query, schema: AnySchema, structure: Any, leaves: tuple) -> tuple[int, ...]:
    x = jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32)
    if query.encoder is not None:
        x = _quiet_encoder(query.encoder, x)
    one, label = jax.ShapeDtypeStruct(x.shape[1:], x.dtype), jax.ShapeDtypeStruct((), jnp.int32)
    return tuple(_quiet(query.contribution, _abstract(structure, leaves), one, label).shape)


@lru_cache(maxsize=256)
def _check_linear(
    query: LinearQuery, schema: AnySchema, shape: tuple[int, ...], structure: Any, leaves: tuple, rows: int = 2
) -> None:
    if query.by_class:
        raise CuratorError("Expected by_class=False of a linear query: its own sum has the blocks of the classes.")
    params, x = _abstract(structure, leaves), jax.ShapeDtypeStruct((rows, *schema.shape), jnp.float32)
    if query.encoder is not None:
        with jax.enable_x64(False):
            x = jax.eval_shape(query.encoder, x)
    y, w = jax.ShapeDtypeStruct((rows,), jnp.int64), jax.ShapeDtypeStruct((rows,), jnp.float64)
    jaxpr, params = _traced(query.prepare, params)
    _refuse_speech(jaxpr)
    _refuse_narrow("prepare", jaxpr)
    jaxpr, coefficients = _traced(query.coefficients, params, x, y)
    _refuse_speech(jaxpr)
    if any(leaf.shape[:1] != (rows,) for leaf in jax.tree.leaves(coefficients)):
        raise CuratorError("Expected coefficients with a row for every record.")
    found = [("norms", *_traced(query.norms, params, coefficients), (rows,))]
    found += [("weighted_sum", *_traced(query.weighted_sum, params, coefficients, w), shape)]
    for name, jaxpr, out, expected in found:
        _refuse_speech(jaxpr)
        if out.shape != expected or out.dtype != jnp.float64:
            raise CuratorError(f"Expected {name} in float64 of shape {expected}; got {out.dtype} {out.shape}.")
        _refuse_narrow(name, jaxpr)


def _quiet(f: Any, *abstract: Any) -> Any:
    """Shape and type of f's result, once it is sure that f does not speak."""
    jaxpr, out = _traced(f, *abstract)
    _refuse_speech(jaxpr)
    return out


def _quiet_encoder(encoder: Any, x: Any) -> Any:
    """The same for an encoder as the curator runs it: mapped over records, its own rule for that looked through."""
    rows = jax.ShapeDtypeStruct((2, *x.shape), x.dtype)
    jaxpr, out = _traced(jax.vmap(encoder), rows)
    _refuse_speech(jaxpr, allowed=("custom_vmap_call",))
    return jax.ShapeDtypeStruct(out.shape[1:], out.dtype)


def _traced(f: Any, *abstract: Any) -> tuple[Any, Any]:
    jaxpr, out = jax.make_jaxpr(f, return_shape=True)(*abstract)
    return jaxpr.jaxpr, out


def _refuse_speech(jaxpr: Any, allowed: tuple[str, ...] = ()) -> None:
    jaxprs = list(_with_inner(jaxpr))
    for name in (equation.primitive.name for one in jaxprs for equation in one.eqns):
        if name not in allowed and any(word in name for word in FORBIDDEN):
            raise CuratorError(f"The query is refused: it holds {name!r}, which can carry records out of the room.")
    if any(one.effects for one in jaxprs):
        raise CuratorError("The query is refused: it has side effects, which can carry records out of the room.")


def _refuse_narrow(of: str, jaxpr: Any) -> None:
    """Arithmetic in less than float64 is refused: its rounding is beyond any stated error bound."""
    for equation in (equation for one in _with_inner(jaxpr) for equation in one.eqns):
        name = equation.primitive.name
        narrow = any(map(_is_narrow, (*equation.invars, *equation.outvars)))
        widened = name == "convert_element_type" and equation.params["new_dtype"] == jnp.float64
        rounds = narrow and not (widened or name in MOVES or _inside(equation))
        if rounds or name == "reduce_precision":
            raise CuratorError(f"Expected {of} in float64 throughout; it holds {name!r} of fewer bits.")


def _is_narrow(variable: Any) -> bool:
    dtype = getattr(variable.aval, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jnp.inexact) and jnp.finfo(dtype).bits < 64


def _with_inner(jaxpr: Any) -> Iterator[Any]:
    yield jaxpr
    for equation in jaxpr.eqns:
        for inner in _inside(equation):
            yield from _with_inner(inner)


def _inside(equation: Any) -> list[Any]:
    """The jaxprs that an equation calls."""
    values = (
        v for value in equation.params.values() for v in (value if isinstance(value, (tuple, list)) else (value,))
    )
    found = (getattr(value, "jaxpr", value) for value in values)
    return [jaxpr for jaxpr in found if hasattr(jaxpr, "eqns")]
