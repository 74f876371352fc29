"""Translates a traced JAX function of records into an ONNX graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from onnx import ModelProto

from dpdistill.graphs.graph import INPUT, RECORDS, Graph, Value, constant_of, has_records
from dpdistill.graphs.operators import OPERATORS
from dpdistill.graphs.refusal import NotExported

_INNER = ("jaxpr", "call_jaxpr", "call", "fun_jaxpr")
"""Parameters of primitives that call a function: compiled functions and those with derivatives of their own."""


def to_model(function: Callable[[Any], Any], shape: Sequence[int], facts: dict[str, str], most: int) -> ModelProto:
    """Returns the ONNX model of a function of records.

    The function is traced once. Each primitive becomes an operator of the table OPERATORS; whatever does not depend on
    the records is computed here and stored as a constant.

    Args:
        function: X (n, h, w, c), float32 -> (n, classes), for any n, record by record.
        shape: (h, w, c) of a record.
        facts: texts for the file's metadata.
        most: largest number of bytes of all constants.

    Raises:
        NotExported: a primitive without a translation, or constants that are too large.
    """
    record = jax.ShapeDtypeStruct((RECORDS, *shape), jnp.float32)
    traced, graph = jax.make_jaxpr(function)(record), Graph()
    images = Value(tuple(record.shape), np.dtype(np.float32), tuple(record.shape), INPUT)
    (scores,) = _run(graph, traced.jaxpr, [constant_of(jnp.asarray(each)) for each in traced.consts], [images])
    if graph.size > most:
        raise NotExported(f"it would have {graph.size / 2**20:.0f} MiB of constants, more than {most >> 20}")
    return graph.model(scores, shape, facts)


def _run(graph: Graph, jaxpr: Any, constants: Sequence[Value], inputs: Sequence[Value]) -> list[Value]:
    """Adds the equations of a traced function to a graph, and returns its outputs."""
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *inputs), strict=True))

    def read(each: Any) -> Value:
        return constant_of(np.asarray(each.val, each.aval.dtype)) if hasattr(each, "val") else values[each]  # a literal

    for equation in _needed(jaxpr):
        if all(0 in each.aval.shape for each in equation.outvars):
            outputs = [constant_of(np.zeros(each.aval.shape, each.aval.dtype)) for each in equation.outvars]
        else:
            outputs = _outputs(graph, equation, [read(each) for each in equation.invars])
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(each) for each in jaxpr.outvars]


def _needed(jaxpr: Any) -> list[Any]:
    """Returns the equations that the outputs depend on, in their order."""
    wanted, kept = {each for each in jaxpr.outvars if not hasattr(each, "val")}, []
    for equation in reversed(jaxpr.eqns):
        if not wanted.isdisjoint(equation.outvars):
            kept.append(equation)
            if not all(0 in each.aval.shape for each in equation.outvars):
                wanted |= {each for each in equation.invars if not hasattr(each, "val")}
    return kept[::-1]


def _outputs(graph: Graph, equation: Any, inputs: list[Value]) -> list[Value]:
    """Returns the outputs of an equation: those of an inner function, constants, or values of new nodes."""
    params, primitive = equation.params, equation.primitive
    inner = next((params[name] for name in _INNER if hasattr(params.get(name), "eqns")), None)
    if inner is not None:
        constants = [constant_of(jnp.asarray(each)) for each in getattr(inner, "consts", ())]
        return _run(graph, getattr(inner, "jaxpr", inner), constants, inputs)
    shapes = [tuple(each.aval.shape) for each in equation.outvars]
    fixed = not any(value.name for value in inputs) and not any(map(has_records, shapes))
    if fixed and primitive.name != "broadcast_in_dim":
        arrays = [graph.full(value).constant for value in inputs]
        results = primitive.bind(*arrays, **params)
        return [constant_of(each) for each in (results if primitive.multiple_results else [results])]
    if primitive.name == "optimization_barrier":
        return inputs
    if primitive.name not in OPERATORS or len(shapes) != 1:
        raise NotExported(f"it would need {primitive.name}, which has no ONNX operator in this version")
    return [OPERATORS[primitive.name](graph, inputs, params, shapes[0], equation.outvars[0].aval.dtype)]
