"""Checks a query and its noise before it reads a record: all checks use shapes and types only."""

from __future__ import annotations

import math

from dpdistill.errors import CuratorError
from dpdistill.private.grid import make_grid
from dpdistill.private.linear import most_records, step_and_sensitivity
from dpdistill.private.noise import MAX_STDDEV
from dpdistill.programs.checks import check_programs
from dpdistill.programs.jaxprs import Refused
from dpdistill.query import MOST_ROWS, LinearQuery, Params, Query
from dpdistill.schema import AnySchema


def check_query(
    query: Query,
    params: Params,
    schema: AnySchema,
    noise_multiplier: float | None = None,
    size: int = 2,
    rows_per_unit: int = 1,
) -> tuple[int, ...]:
    """Returns the shape of one contribution from abstract values: no record is read, so errors may be public.

    Args:
        query: hashable by value, so that it is checked once for all rounds of a stage.
        params: a pytree of arrays; only their shapes and types matter.
        schema: schema of the records.
        noise_multiplier: noise multiplier of a round; if given, a noise without a grid is refused, too.
        size: rows of a chunk.
        rows_per_unit: largest number of used records per unit.

    Raises:
        CuratorError: a clip norm that is not positive, a contribution with side effects, a linear query that is by
            class or not in float64 throughout, or a noise that is too small or too large.
    """
    if not 0.0 < query.clip_norm < math.inf:
        raise CuratorError(f"Expected clip_norm={query.clip_norm} > 0 and finite.")
    try:
        shape = check_programs(query, params, schema, size)
    except Refused as error:
        raise CuratorError(str(error)) from None
    if isinstance(query, LinearQuery) and rows_per_unit > MOST_ROWS:
        raise CuratorError(
            f"Expected rows_per_unit={rows_per_unit} <= {MOST_ROWS} for this method, whose sums are of blocks."
        )
    try:
        if isinstance(query, LinearQuery):
            most_records(query)
        if noise_multiplier is not None:
            _check_noise(query, math.prod(shape) * blocks_of(query, schema, rows_per_unit), noise_multiplier)
    except ValueError as error:
        raise CuratorError(str(error)) from None
    return shape


def blocks_of(query: Query, schema: AnySchema, rows_per_unit: int) -> int:
    """Returns the number of class blocks that one unit can touch."""
    return min(rows_per_unit, len(schema.classes)) if query.by_class else 1


def _check_noise(query: Query, d: int, noise_multiplier: float) -> None:
    """Checks the grid of the round except for its private number of records: 2**38 records fit every grid."""
    if isinstance(query, LinearQuery):
        step, sensitivity = step_and_sensitivity(query.clip_norm, d)
        stddev = noise_multiplier * sensitivity / step
    else:
        stddev = noise_multiplier * make_grid(query.clip_norm, noise_multiplier, d, 0).K
    if not 0.0 < stddev <= MAX_STDDEV:
        raise ValueError(f"Expected noise_multiplier={noise_multiplier} > 0 and of at most 2**48 grid steps.")
