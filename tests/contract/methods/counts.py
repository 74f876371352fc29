"""Counts of tables: the norm that a row's query states is at least that of what the row adds."""

from __future__ import annotations

import jax
import numpy as np
from contract.data import TABLE, table_records
from contract.private.linear import coefficients_of, contributions, norms_of

from dpdistill.methods.marginal_tables import BELOW, Layout, weights_of


def check_count_norms() -> None:
    """Tables of released groups, and tables whose groups come from nowhere."""
    layout, rng = Layout.of(TABLE, 4, 3), np.random.default_rng(3)
    records = table_records(9)
    X = TABLE.to_unit(records.X).astype(np.float64)
    tables = [(0, 6), (1, 2), (0, 3, 6), (4,)]
    maps = tuple(np.arange(size) for size in layout.sizes)
    found = [layout.params(maps, tables, weights_of([1, 2, 3, 4]), 5)]
    for _ in range(5):
        made = {
            "maps": rng.integers(-5, 40, (8, max(layout.sizes))).astype(np.int32),
            "attributes": rng.integers(0, 8, (5, 3)).astype(np.int32),
            "shapes": rng.integers(-1, 5, (5, 3)).astype(np.int32),
            "weights": np.full(5, BELOW * 5**-0.5),
        }
        found.append(made)
    query, y = layout.query(3000, 5), np.maximum(records.y, 0)
    for params in found:
        stated = norms_of(query, params, coefficients_of(query, params, X, y))
        with jax.enable_x64(True):
            lengths = np.linalg.norm(contributions(query, params, X, y), axis=1)
        assert (lengths <= stated).all(), "A row adds more to the counts than is stated."
        assert (stated <= 1.0).all(), "A row is clipped, so that counts are too small."
