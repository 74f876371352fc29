"""What a query and its noise must be before it meets a record: all of it is decided on shapes and types."""

from __future__ import annotations

import math

from dpdistill.private.grid import make_grid
from dpdistill.private.linear import most_records, step_and_sensitivity
from dpdistill.private.noise import MAX_STDDEV
from dpdistill.programs.checks import check_programs
from dpdistill.programs.jaxprs import Refused
from dpdistill.query import MOST_ROWS, LinearQuery, Params, Query
from dpdistill.schema import AnySchema


class CuratorError(RuntimeError):
    """A query that is refused, or a round that could not be answered; its text holds public facts only."""


class Unanswered(CuratorError):
    """A round that this machine could not answer, for want of memory, disk or workers."""

    of_the_machine = True
    """Another try may work."""


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
    """How many blocks of classes one unit can touch."""
    return min(rows_per_unit, len(schema.classes)) if query.by_class else 1


def _check_noise(query: Query, d: int, noise_multiplier: float) -> None:
    """The grid of the round but for its number of records, which is private: 2**38 of them fit every grid."""
    if isinstance(query, LinearQuery):
        step, sensitivity = step_and_sensitivity(query.clip_norm, d)
        stddev = noise_multiplier * sensitivity / step
    else:
        stddev = noise_multiplier * make_grid(query.clip_norm, noise_multiplier, d, 0).K
    if not 0.0 < stddev <= MAX_STDDEV:
        raise ValueError(f"Expected noise_multiplier={noise_multiplier} > 0 and of at most 2**48 grid steps.")
