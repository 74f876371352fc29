"""Chooses how many records a program takes at once, so that a run fits into memory, and refuses a run that does not.

All of it follows from the recipe, the schema and the machine: neither records nor their number are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.accounting.schedule import Schedule
from dpdistill.method import Method
from dpdistill.private.checks import check_query
from dpdistill.programs import clipping
from dpdistill.programs.checks import types_of
from dpdistill.query import ByValue, Compute, LinearQuery, Params, Query
from dpdistill.run.dry_run import dry_run, held_bytes
from dpdistill.run.non_private import plain_rows, shape_of
from dpdistill.run.start import queries_of
from dpdistill.schema import AnySchema, DataError
from dpdistill.storage.memory import machine_memory

Asked = tuple[tuple[Query, Params], ...]
ROWS, SUMS = 3, 8
"""Copies of a chunk's contributions, and of a sum in 64 bits, that the host holds at once."""
SIZES = ("per_class", "width", "second_width", "subspace", "cells", "layers")
"""Fields that may lower the memory of a round."""


def program_memory() -> int | None:
    """Returns the bytes for programs: half of this machine's, as features have the other half; or the accelerator's."""
    with suppress(Exception):  # some devices do not tell
        if limit := (jax.devices()[0].memory_stats() or {}).get("bytes_limit"):
            return int(limit)
    available = machine_memory()
    return None if available is None else available // 2


def fitting(
    method: Method,
    schema: AnySchema,
    asked: Asked,
    schedule: Schedule | None,
    compute: Compute | None = None,
    room: float | None = None,
    larger: float = 1.0,
) -> Compute:
    """Returns the numbers of records that programs take at once: those given, halved until every round fits.

    A larger chunk is faster; no chunk changes the guarantee.

    Args:
        method: a distiller.
        schema: of the records.
        asked: its first query in each stage, with parameters.
        schedule: the noise of every round; None without a guarantee.
        compute: the largest numbers; None for the usual ones.
        room: bytes for programs; None for those of this machine.
        larger: pixels of an image of the run, as a multiple of the schema's: memory grows with them.

    Raises:
        DataError: a round that does not fit even with one unit at a time: states gigabytes and what to lower.
    """
    available, compute = room or program_memory(), compute or Compute()
    if available is None:
        return compute
    room = available / larger
    k = 1 if schedule is None else schedule.budget.rows_per_unit
    for stage, (query, params) in zip(method.plan(), asked, strict=True):
        size = compute.units_of(query, schema, stage.sampling_prob, k)
        while (needed := round_bytes(query, params, schema, size, k, schedule is not None)) > room and size > 1:
            size //= 2
            fewer = {name: min(getattr(compute, name), max(1, size * k)) for name in ("chunk", "block", "rows")}
            compute = replace(compute, **fewer)
        if needed > room:
            needed = round_bytes(query, params, schema, 1, k, schedule is not None, by_xla=True)
        if needed > room:
            raise DataError(
                f"Expected a recipe whose rounds fit into {_gib(available)} of memory, which this machine has for "
                f"them; one record of {method.name} needs {_gib(larger * needed)}: "
                f"{_remedy(method, schema, schedule, needed)}."
            )
    return compute


def round_bytes(
    query: Query, params: Params, schema: AnySchema, size: int, k: int, private: bool, by_xla: bool = False
) -> int:
    """Returns the most bytes that a round holds: its largest program, contributions of a chunk, and the sum.

    Args:
        query: the query.
        params: its parameters.
        schema: of the records.
        size: units of a chunk.
        k: rows of a unit.
        private: whether contributions are clipped and rounded.
        by_xla: compile the programs and ask XLA, instead of counting what they hold operation by operation, which
            takes no account of values that are never stored.
    """
    params = jax.tree.map(np.asarray, params)
    if private:
        shape = check_query(query, params, schema, size=size * k, rows_per_unit=k)
    else:
        shape = shape_of(ByValue(query), schema, *types_of(params))
    numbers, rows = math.prod(shape), size * k
    blocks = len(schema.classes) if query.by_class else 1
    held = 0 if isinstance(query, LinearQuery) else 4 * ROWS * rows * numbers
    with clipping.as_tested():
        programs = _programs(query, params, schema, size * k, k, private)
        largest = max((_xla_bytes if by_xla else _counted_bytes)(program) for program in programs)
    return largest + held + 8 * SUMS * blocks * numbers


def _programs(query: Query, params: Params, schema: AnySchema, rows: int, k: int, private: bool) -> list[Any]:
    """Returns the traced programs that a chunk goes through, with the types of a run: they are traced once."""
    same, X = ByValue(query), jax.ShapeDtypeStruct((rows, *schema.shape), jnp.float32)
    y, traced = jax.ShapeDtypeStruct((rows,), jnp.int32), []
    if query.encoder is not None:
        traced.append(clipping.encode_rows.trace(ByValue(query.encoder), X))
        X = _shapes(traced[-1])
    if isinstance(query, LinearQuery):
        with jax.enable_x64(True):
            ready = jax.eval_shape(query.prepare, params)
            traced.append(clipping.coefficients.trace(same, ready, X, y))
            found = _shapes(traced[-1])
            traced.append(clipping.norms.trace(same, ready, found))
            w = jax.ShapeDtypeStruct((rows,), jnp.float64)
            return [*traced, clipping.weighted_sum.trace(same, ready, found, w)]
    if private:
        return [*traced, clipping.grid_rows.trace(same, params, X, y, 1.0, 1.0, k)]
    return [*traced, plain_rows.trace(same, params, X, y)]


def _shapes(traced: Any) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), traced.out_info)


def _counted_bytes(traced: Any) -> int:
    return held_bytes(traced.jaxpr.jaxpr)


def _xla_bytes(traced: Any) -> int:
    found = traced.lower().compile().memory_analysis()
    if found is None:  # some devices do not tell
        return _counted_bytes(traced)
    return found.temp_size_in_bytes + found.argument_size_in_bytes + found.output_size_in_bytes


def _remedy(method: Method, schema: AnySchema, schedule: Schedule | None, needed: int) -> str:
    """Returns the fields whose half needs less memory, in words."""
    k = 1 if schedule is None else schedule.budget.rows_per_unit

    def halved(name: str) -> int:
        other = replace(method, **{name: max(1, vars(method)[name] // 2)})
        asked = queries_of(other, schema)
        return max(round_bytes(query, params, schema, 1, k, schedule is not None) for query, params in asked)

    with dry_run():
        lower = [
            f"{name} (now {vars(method)[name]})"
            for name in SIZES
            if vars(method).get(name, 0) > 1 and _is_less(lambda: halved(name), needed)  # noqa: B023 - called at once
        ]
    smaller = f"lower {' or '.join(lower)}" if lower else "use fewer pixels (--resize)"
    return f"{smaller}, or choose a smaller kernel" if hasattr(method, "kernel") else smaller


def _is_less(bytes_of: Callable[[], int], needed: int) -> bool:
    with suppress(ValueError):  # a half that the recipe does not allow
        return bytes_of() < 0.8 * needed
    return False


def _gib(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"
