"""Query for weighted counts of rows in several tables: cells of one, two or three grouped columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array

from dpdistill.query import MOST_ROWS
from dpdistill.schema.bins import EDGE, ColumnBins

ROUNDING = 2.0**-53


@dataclass(frozen=True)
class CountsQuery:
    """Query u = sum over tables m of w_m e(cell of the row in table m): one cell of each table is w_m, others are 0.

    The attributes of a row are its columns, its class, and a constant. Each has a bin, and `maps` gives the bin's
    group. A table counts the groups of three attributes. The tables lie one behind the other.

    Params: "maps" (columns + 2, bins), int32; "attributes" (M, 3), int32; "shapes" (M, 3), int32, groups of these
    attributes, 0 for an unused table; "weights" (M,), float64.

    Args:
        bins: bins of the columns.
        cells: numbers of the sum; cells beyond them are not counted.

    Guarantee:
        Cells of different tables are different, since a cell is clamped to its own table: ||u|| <= ||w||, which is the
        stated norm, in float64 with a relative error below M u, u = 2^-53; it is multiplied by 1 + 2^-20 (M < 2^32).
        Tables with more than `cells` numbers, whose places could overflow and coincide, have an infinite norm, so that
        no row is counted. A cell of the weighted sum adds up at most 128 shares of a block, so that error_bound =
        (128 + 4) u C.
    Source: Dwork et al., 2006 (Calibrating noise to sensitivity in private data analysis).
    """

    bins: tuple[ColumnBins, ...]
    cells: int
    signal_numbers: int = 1
    clip_norm: float = 1.0
    by_class: bool = False
    encoder: None = None

    @property
    def error_bound(self) -> float:
        return (MOST_ROWS + 4) * ROUNDING * self.clip_norm

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        cells, usable = self.coefficients(params, x, y)
        u = jnp.zeros(self.cells, params["weights"].dtype).at[cells].add(params["weights"], mode="drop")
        return jnp.where(usable > 0, u, jnp.nan)

    def prepare(self, params: object) -> Any:
        return params

    def coefficients(self, params: Any, x: Array, y: Array) -> tuple[Array, Array]:
        """Returns the row's cell in each table, (M,), int32, and 1, or NaN for a row that is not finite."""
        wide = x.astype(params["weights"].dtype)  # float64 in a run: single precision would move values over an edge
        codes = jnp.stack([*(_code(one, wide) for one in self.bins), y.astype(jnp.int32), jnp.zeros((), jnp.int32)])
        attributes, shapes = params["attributes"], params["shapes"]
        groups = jnp.clip(params["maps"][attributes, codes[attributes]], 0, jnp.maximum(shapes - 1, 0))
        shapes = jnp.maximum(shapes, 0)
        sizes = shapes.prod(1, dtype=jnp.int32)
        cells = (groups[:, 0] * shapes[:, 1] + groups[:, 1]) * shapes[:, 2] + groups[:, 2]
        cells = jnp.cumsum(sizes, dtype=jnp.int32) - sizes + cells
        unused = self.cells + jnp.arange(len(cells), dtype=jnp.int32)
        return jnp.where(sizes > 0, cells, unused), jnp.where(jnp.isfinite(x).all(), 1.0, jnp.nan).astype(x.dtype)

    def norm(self, params: Any, coefficients: tuple[Array, Array]) -> Array:
        numbers = jnp.maximum(params["shapes"], 0).astype(jnp.float64).prod(1).sum()
        length = jnp.where(numbers <= self.cells, jnp.sqrt(jnp.sum(jnp.square(params["weights"]))), jnp.inf)
        return length * (1 + 2.0**-20) * coefficients[1].astype(jnp.float64)

    def weighted_sum(self, params: Any, coefficients: tuple[Array, Array], w: Array) -> Array:
        cells, shares = coefficients[0], w[:, None] * params["weights"]
        return jnp.zeros(self.cells, jnp.float64).at[cells.ravel()].add(shares.ravel(), mode="drop")


def _code(one: ColumnBins, x: Array) -> Array:
    """Returns the bin of one column of one encoded row, as `codes_of` does."""
    if one.kind == "categories":
        return x[one.start : one.start + one.cells].argmax().astype(jnp.int32)
    share = (x[one.start] + 1.0) / 2.0
    at = jnp.rint(share * (one.size - 1)) if one.kind == "values" else jnp.floor((share + EDGE) * one.size)
    code = jnp.clip(jnp.nan_to_num(at), 0, one.size - 1).astype(jnp.int32)
    return jnp.where(x[one.start + 1] > 0.5, one.size, code) if one.missing else code
