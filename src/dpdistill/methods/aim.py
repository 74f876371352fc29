"""AIM: releases marginals that earlier releases choose, and rows of a graphical model of them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from jax import Array

from dpdistill.method import Distilled, Method, Progress, no_progress
from dpdistill.methods.graphical_model import GraphicalModel, Measured, fitted, junction_tree, require_mbi
from dpdistill.methods.marginal_choice import chosen, errors_of
from dpdistill.methods.marginal_tables import (
    CELLS,
    Layout,
    coarse_groups,
    counted,
    fine_groups,
    read,
    weights_of,
)
from dpdistill.query import Query, Release
from dpdistill.recipe.methods import aim as recipe
from dpdistill.schema import TableSchema
from dpdistill.schema.bins import rows_of
from dpdistill.schema.counts import DIMENSIONS, Counts, Maps, ReleasedCounts, shape_of, total_of

CHOICE_ITERATIONS = 300
"""Steps of mirror descent on a model that only chooses marginals."""
EXAMPLE_ROWS, ALIKE = 20_000, 0.7
"""Made-up rows of a forecast, and how often a value is that of all columns' common cause."""
CHOICE_ROWS = 50_000
"""Rows of a model that are compared with the coarse tables."""


class AIM(recipe.AIM, Method):
    """Releases counts of tables of one, two and three columns, and rows of a graphical model of these counts.

        stage 1   counts of the bins of every column and of the label + noise
        stage 2   counts of coarse tables of all pairs of columns and the label + noise
        stage 3   rounds of counts of chosen tables + noise;   chosen by post-processing of all earlier releases
        finish    min over graphical models p of sum over tables of ||counts of p - released counts||^2 / noise^2

    Every round is one sum of vectors of length at most 1: a row has the weight w_m in one cell of each table m. Bins
    that the counts of stage 1 cannot tell from zero are joined. A round of stage 3 chooses the tables in which the
    rows of the model of earlier rounds differ most from the coarse tables of stage 2, beyond the noise of both.

    Guarantee: all stages are calibrated together; choices and finish are post-processing.
    Source: McKenna et al., 2022 (AIM); McKenna et al., 2019 (graphical models). AIM chooses by the exponential
    mechanism, a release of its own for each table; the choice by coarse tables is ours.
    """

    def init(self, key: Array, schema: Any) -> Any:
        require_mbi()
        layout = Layout.of(schema, self.bins, self.groups)
        return {
            "round": np.zeros((), np.int64),
            "bins": layout.array(),
            "classes": np.int64(layout.classes),
            "one": np.zeros(sum(layout.sizes)),
            "coarse": np.zeros(layout.coarse_cells),
            "chosen": np.zeros((self.rounds, CELLS)),
            "tables": np.full((self.rounds, self.tables, DIMENSIONS), -1, np.int32),
            "stddevs": np.zeros(2 + self.rounds),
        }

    def _view(self, state: Any) -> _Released:
        return _Released(Layout.from_array(state["bins"], int(state["classes"]), self.groups), state, self.bins)

    def ask(self, state: Any) -> tuple[Query, Any]:
        t, seen = int(state["round"]), self._view(state)
        layout = seen.layout
        if t == 0:
            cells, padded, maps, tables = len(state["one"]), len(layout.sizes), seen.whole, seen.singles
        elif t == 1:
            cells, maps, tables = len(state["coarse"]), seen.coarse, layout.coarse_tables
            padded = len(tables)
        else:
            cells, padded, maps, tables = CELLS, self.tables, seen.fine, seen.tables(t - 2)
        weights = weights_of([math.prod(shape_of(maps, table)) for table in tables])
        return layout.query(cells, padded), layout.params(maps, tables, weights, padded)

    def tell(self, state: Any, release: Release) -> Any:
        t, value = int(state["round"]), release.value
        stddevs = state["stddevs"].copy()
        stddevs[t] = release.stddev
        state = {**state, "round": state["round"] + 1, "stddevs": stddevs}
        if t == 0:
            return {**state, "one": value}
        if t == 1:
            state = {**state, "coarse": value}
        else:
            filled = state["chosen"].copy()
            filled[t - 2] = value
            state = {**state, "chosen": filled}
        return self._choose(state, t - 1) if t - 1 < self.rounds else state

    def example(self, state: Any, value: np.ndarray, stddev: float, records: float) -> np.ndarray:
        """Returns the sum of made-up rows whose columns depend on each other, with noise: most tables are chosen."""
        query: Any
        query, params = self.ask(state)
        rng, sizes = np.random.default_rng(3), self._view(state).layout.sizes
        shared = rng.random((EXAMPLE_ROWS, 1))
        place = np.where(rng.random((EXAMPLE_ROWS, len(sizes))) < ALIKE, shared, rng.random((EXAMPLE_ROWS, len(sizes))))
        codes = np.column_stack([np.floor(np.square(place) * sizes).astype(np.int64), np.zeros(EXAMPLE_ROWS, np.int64)])
        counts = counted(params, codes, query.cells) * (records / EXAMPLE_ROWS)
        return counts + stddev * value

    def _choose(self, state: Any, r: int) -> Any:
        """Returns the state with the tables of round r of chosen marginals."""
        seen = self._view(state)
        measured = [c for i in range(r) for c in seen.chosen(i)]
        codes = self._model(seen, measured, CHOICE_ITERATIONS).sample(CHOICE_ROWS, np.random.default_rng((1, r)))
        sizes = shape_of(seen.coarse, tuple(range(len(seen.layout.sizes))))
        coarse = np.column_stack([groups[codes[:, a]] for a, groups in enumerate(seen.coarse_of_fine)])
        errors = errors_of(seen.coarse_counts, coarse, sizes, seen.total)
        stddev = float(state["stddevs"][1]) * math.sqrt(self.coarse * self.rounds / (1.0 - self.one_way - self.coarse))
        sets = [c.attributes for c in measured]
        found = chosen(errors, sets, seen.fine_sizes, stddev, self.tables, self.model_size)
        tables = state["tables"].copy()
        for m, clique in enumerate(found):
            tables[r, m, : len(clique)] = clique
        return {**state, "tables": tables}

    def _model(self, seen: _Released, measured: list[Counts], iterations: int) -> GraphicalModel:
        """Returns the graphical model of the one-way marginals, and of measured tables and the coarse ones in them."""
        tree = [clique for clique, _ in junction_tree(seen.fine_sizes, [c.attributes for c in measured])]
        tables = seen.one_way_measured + [Measured(c.attributes, c.values, c.stddev) for c in measured]
        if not measured:
            return independent(seen.fine_sizes, seen.one_way_measured)
        for c in seen.coarse_counts:
            if any({*c.attributes} <= {*m.attributes} for m in tables) and tree:
                maps = tuple(tuple(seen.coarse_of_fine[a].tolist()) for a in c.attributes)
                tables.append(Measured(c.attributes, c.values, c.stddev, maps))
        return fitted(seen.fine_sizes, tables, seen.total, iterations)

    def finish(self, state: Any, schema: TableSchema, progress: Progress = no_progress) -> Distilled:
        seen = self._view(state)
        measured = [c for r in range(self.rounds) for c in seen.chosen(r)]
        rng = np.random.default_rng((self.sample_seed, 2))
        codes = self._model(seen, measured, self.iterations).sample(self.samples, rng)
        bins = np.column_stack([seen.bins_in_groups(a, codes[:, a], rng) for a in range(len(seen.layout.sizes))])
        X, y = schema.settle(rows_of(bins[:, :-1], seen.layout.bins, schema, rng), bins[:, -1].astype(np.int32))
        tables = (*seen.one_way, *seen.coarse_counts, *measured)
        released = ReleasedCounts(self.bins, (seen.whole, seen.coarse, seen.fine), tables)
        return Distilled(X, y, schema, marginals=released)


def independent(sizes: tuple[int, ...], one_way: list[Measured]) -> GraphicalModel:
    """Returns the model of independent attributes with the shares of released counts, negative ones taken as 0."""
    found = []
    for size, one in zip(sizes, one_way, strict=True):
        counts = np.maximum(one.counts / (np.array(one.weights) if one.weights else 1.0), 0.0)
        found.append(
            (
                one.attributes,
                np.log(counts if counts.any() else np.ones(size), where=counts > 0, out=np.full(size, -50.0)),
            )
        )
    return GraphicalModel(sizes, tuple(found))


class _Released:
    """Releases of a state as counts of tables, and the groups of bins that follow from them."""

    def __init__(self, layout: Layout, state: Any, most: int) -> None:
        self.layout, self._state, self._most = layout, state, most

    @property
    def whole(self) -> Maps:
        """Returns each bin as a group of its own, for each attribute."""
        return tuple(np.arange(size) for size in self.layout.sizes)

    @property
    def singles(self) -> list[tuple[int, ...]]:
        """Returns the tables of single attributes."""
        return [(a,) for a in range(len(self.layout.sizes))]

    @cached_property
    def one_way(self) -> list[Counts]:
        """Returns the counts of all bins of each attribute."""
        weights = weights_of(list(self.layout.sizes))
        return read(self._state["one"], float(self._state["stddevs"][0]), self.whole, self.singles, weights, 0)

    @cached_property
    def total(self) -> float:
        """Returns the released number of rows."""
        return total_of(self.one_way)

    @cached_property
    def fine(self) -> Maps:
        """Returns the group of each bin in the graphical model."""
        bins, ordered = self.layout.bins, self.layout.ordered
        found = [
            fine_groups(c.values, c.stddev, max(2, self._most), ordered[a], bins[a].missing)
            for a, c in enumerate(self.one_way[:-1])
        ]
        return (*found, np.arange(self.layout.classes))

    @cached_property
    def fine_sizes(self) -> tuple[int, ...]:
        return shape_of(self.fine, tuple(range(len(self.fine))))

    @cached_property
    def coarse_of_fine(self) -> Maps:
        """Returns the coarse group of each fine group."""
        counts = [np.bincount(groups, c.values) for groups, c in zip(self.fine, self.one_way, strict=True)]
        most = [*[self.layout.groups] * self.layout.label, self.layout.classes]
        return tuple(map(coarse_groups, counts, most, self.layout.ordered))

    @cached_property
    def coarse(self) -> Maps:
        """Returns the coarse group of each bin."""
        return tuple(groups[fine] for groups, fine in zip(self.coarse_of_fine, self.fine, strict=True))

    @cached_property
    def one_way_measured(self) -> list[Measured]:
        """Returns the counts of the fine groups: each is divided by the root of its number of bins."""
        found = []
        for a, (groups, c) in enumerate(zip(self.fine, self.one_way, strict=True)):
            weights = 1.0 / np.sqrt(np.bincount(groups))
            found.append(Measured((a,), np.bincount(groups, c.values) * weights, c.stddev, (), tuple(weights.tolist())))
        return found

    @cached_property
    def coarse_counts(self) -> list[Counts]:
        """Returns the counts of the coarse tables."""
        return self._read(self._state["coarse"], 1, self.coarse, list(self.layout.coarse_tables))

    def tables(self, r: int) -> list[tuple[int, ...]]:
        """Returns the tables of a round of chosen marginals; none before they are chosen."""
        rows = np.asarray(self._state["tables"][r]).tolist()
        return [tuple(a for a in row if a >= 0) for row in rows if row[0] >= 0]

    def chosen(self, r: int) -> list[Counts]:
        """Returns the counts of a round of chosen marginals."""
        return self._read(self._state["chosen"][r], 2 + r, self.fine, self.tables(r))

    def _read(self, value: np.ndarray, t: int, maps: Maps, tables: list[tuple[int, ...]]) -> list[Counts]:
        weights = weights_of([math.prod(shape_of(maps, table)) for table in tables])
        return read(value, float(self._state["stddevs"][t]), maps, tables, weights, min(t, 2))

    def bins_in_groups(self, a: int, groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Returns a bin for each group of an attribute, in proportion to the released counts."""
        bins = np.empty(len(groups), np.int64)
        for group in np.unique(groups):
            members = np.flatnonzero(self.fine[a] == group)
            shares = np.maximum(self.one_way[a].values[members], 0.0) + 1e-9
            rows = np.flatnonzero(groups == group)
            bins[rows] = rng.choice(members, len(rows), p=shares / shares.sum())
        return bins
