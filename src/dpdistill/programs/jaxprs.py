"""Checks a traced function on abstract values: its side effects, and the precision in which it computes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

FORBIDDEN = ("callback", "print", "infeed", "outfeed", "ffi_call", "custom_vmap")
"""Words in names of primitives that have side effects, or that hide code from these checks."""
MOVES = (
    *("reshape", "transpose", "squeeze", "broadcast_in_dim", "slice", "dynamic_slice", "split", "gather"),
    *("concatenate", "pad", "rev", "copy", "copy_p"),
)
"""Operations without rounding, allowed in a linear query on numbers narrower than float64 besides widening."""


class Refused(ValueError):
    """The fault of a function, in one sentence of public facts."""


def in_double(name: str, expected: tuple[int, ...] | None, f: object, *abstract: Any) -> Any:
    """Returns f's result after checking that f has no side effects, the expected shape, and float64 arithmetic."""
    jaxpr, out = trace(f, *abstract)
    if expected is not None and (out.shape != expected or out.dtype != jnp.float64):
        raise Refused(f"Expected {name} in float64 of shape {expected}; got {out.dtype} {out.shape}.")
    _refuse_narrow(name, jaxpr)
    return out


def trace(f: Any, *abstract: Any, allowed: tuple[str, ...] = ()) -> tuple[Any, Any]:
    """Returns (jaxpr of f, shape and type of its result) after checking that f has no side effects."""
    jaxpr, out = jax.make_jaxpr(f, return_shape=True)(*abstract)
    _refuse_side_effects(jaxpr.jaxpr, allowed)
    _refuse_float16(jaxpr.jaxpr)
    return jaxpr.jaxpr, out


@cache
def compiles_float16() -> bool:
    """Returns whether XLA can compile float16 for this processor; x86 needs the instruction set F16C."""
    try:
        jax.jit(lambda x: x + x)(np.ones(1, np.float16)).block_until_ready()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def _refuse_float16(jaxpr: object) -> None:
    """Refuses float16 if it cannot be compiled: otherwise the run would fail after its budget is reserved."""
    for one in _with_inner(jaxpr):
        variables = (*one.invars, *one.constvars, *(variable for equation in one.eqns for variable in equation.outvars))
        if any(getattr(v.aval, "dtype", None) == jnp.float16 for v in variables) and not compiles_float16():
            raise Refused(
                "The query is refused: its encoder or its formulas use float16, which XLA cannot compile for this "
                "processor. Use float32: the guarantee stays the same."
            )


def _refuse_side_effects(jaxpr: object, allowed: tuple[str, ...] = ()) -> None:
    jaxprs = list(_with_inner(jaxpr))
    for name in (equation.primitive.name for one in jaxprs for equation in one.eqns):
        if name not in allowed and any(word in name for word in FORBIDDEN):
            raise Refused(f"The query is refused: it has {name!r}, which can leak records.")
    if any(one.effects for one in jaxprs):
        raise Refused("The query is refused: it has side effects, which can leak records.")


def _refuse_narrow(of: str, jaxpr: object) -> None:
    """Refuses arithmetic below float64 or in short integers, and floats rounded to integers: no bound covers these."""
    for equation in (equation for one in _with_inner(jaxpr) for equation in one.eqns):
        name, precision = equation.primitive.name, equation.params.get("precision")
        bits = [_bits(variable) for variable in (*equation.invars, *equation.outvars)]
        widened = name == "convert_element_type" and equation.params["new_dtype"] == jnp.float64
        rounds = any(0 < b < 64 for b in bits) and not (widened or name in MOVES or _inner(equation))
        rounds |= name == "reduce_precision" or (name == "convert_element_type" and bits[0] > 0 and bits[1] == 0)
        # An algorithm of a matrix product may compute in fewer bits than its arguments have.
        plain = all(p is None or isinstance(p, jax.lax.Precision) for p in np.ravel(np.array(precision, object)))
        if rounds or not plain:
            raise Refused(f"Expected {of} in float64 throughout; found {name!r} of fewer bits.")


def _bits(variable: Any) -> int:
    """Returns the bits of a float, or of an integer type so short that squares and sums overflow; 0 for other types."""
    dtype = getattr(variable.aval, "dtype", None)
    if dtype is not None and jnp.issubdtype(dtype, jnp.inexact):
        return jnp.finfo(dtype).bits
    short = dtype is not None and jnp.issubdtype(dtype, jnp.integer) and jnp.iinfo(dtype).bits < 32
    return jnp.iinfo(dtype).bits if short else 0


def _with_inner(jaxpr: Any) -> Iterator[Any]:
    yield jaxpr
    for equation in jaxpr.eqns:
        for inner in _inner(equation):
            yield from _with_inner(inner)


def _inner(equation: Any) -> list[Any]:
    """Returns the jaxprs that an equation calls."""
    values = (
        v for value in equation.params.values() for v in (value if isinstance(value, (tuple, list)) else (value,))
    )
    jaxprs = (getattr(value, "jaxpr", value) for value in values)
    return [jaxpr for jaxpr in jaxprs if hasattr(jaxpr, "eqns")]
