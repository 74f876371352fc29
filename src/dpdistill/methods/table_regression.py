"""Table regression: releases a ridge regression of a number, and rows of a generator whose number it draws."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from jax import Array

from dpdistill.features.table_rows import GroupedFeatures, RowsAndTarget
from dpdistill.method import Distilled, Method, Progress, no_progress
from dpdistill.methods.dp_merf import DPMERF
from dpdistill.methods.row_numbers import drawn_numbers, input_pieces
from dpdistill.methods.second_moments import SecondMomentsQuery, positive, symmetric
from dpdistill.query import Query, Release
from dpdistill.recipe.methods import table_regression as recipe
from dpdistill.recipe.parts import implement
from dpdistill.schema import TableSchema

KINDS = ("numbers", "gapped", "categories")


class TableRegression(recipe.TableRegression, Method):
    """Releases a ridge regression of a number, then rows of a generator whose number is drawn from its prediction.

        stage 1   A = sum_i v_i v_i^T + noise,   v_i = (phi_i, w y_i) / sqrt(1 + w^2),   all records, once
        stage 2   the releases of DP-MERF
        finish    A <- nearest positive semi-definite matrix,   W = (A_phi,phi + lambda I)^-1 A_phi,y,
                  lambda = ridge 2 tau sqrt(D);   rows of DP-MERF's generator with y ~ N(phi W, s^2)

    phi are the features of `GroupedFeatures` without the number to predict. y is the number between its bounds, scaled
    to [-1, 1] on its scale. tau is the standard deviation of the noise of an entry beside the diagonal, and 2 tau
    sqrt(D) the norm of such a matrix of noise. s^2 is the released mean of squared residuals.

    Guarantee: stages 1 and 2 are calibrated together; finish is post-processing.
    Source: Wang, 2018 (AdaSSP), without its private choice of lambda; the rows as in Harder et al., 2021.
    """

    @property
    def generator(self) -> DPMERF:
        """Returns the method of the part that makes rows."""
        return implement(super().generator, DPMERF)

    def init(self, key: Array, schema: Any) -> Any:
        pieces = input_pieces(schema)
        size = self._encoder(pieces, schema.target_at).size
        return {
            "round": np.zeros((), np.int64),
            "pieces": np.array([(KINDS.index(kind), start, width) for kind, start, width in pieces]),
            "target": np.int64(schema.target_at),
            "moments": np.zeros(size * (size + 1) // 2),
            "stddev": np.zeros(()),
            "rows": self.generator.init(key, schema),
        }

    def _encoder(self, pieces: tuple[tuple[str, int, int], ...], target: int) -> RowsAndTarget:
        return RowsAndTarget(GroupedFeatures(pieces, self.knots, self.groups), target, self.weight)

    def at_round(self, state: Any, t: int) -> Any:
        rows = self.generator.at_round(state["rows"], max(0, t - 1))
        return {**state, "round": state["round"] + t, "rows": rows}

    def ask(self, state: Any) -> tuple[Query, Any]:
        if int(state["round"]):
            return self.generator.ask(state["rows"])
        pieces = tuple((KINDS[kind], int(start), int(width)) for kind, start, width in np.asarray(state["pieces"]))
        encoder = self._encoder(pieces, int(state["target"]))
        return SecondMomentsQuery(1.0, encoder.size, encoder), np.zeros(0)

    def tell(self, state: Any, release: Release) -> Any:
        t, state = int(state["round"]), {**state, "round": state["round"] + 1}
        if t == 0:
            return {**state, "moments": release.value, "stddev": np.float64(release.stddev)}
        return {**state, "rows": self.generator.tell(state["rows"], replace(release, round=t - 1))}

    def finish(self, state: Any, schema: TableSchema, progress: Progress = no_progress) -> Distilled:
        generator = replace(self.generator, samples=self.samples, steps=self.steps, sample_seed=self.sample_seed)
        made = generator.finish(state["rows"], schema, progress)
        points = self.classifier(state, schema)
        X, y = drawn_numbers(points, schema, made.X, self.sample_seed)
        return replace(made, X=X, y=y, classifier=points)

    def classifier(self, state: Any, schema: TableSchema) -> np.ndarray:
        """Returns points (D, 2), float32: mean of the scaled number, and standard deviation of the residuals.

        The points of the standard deviation are 0 but for the intercept.
        """
        encoder = self._encoder(input_pieces(schema), schema.target_at)
        features, size = encoder.features, encoder.size
        factor = 1.0 + self.weight**2
        A = positive(symmetric(state["moments"], size)) * factor
        M, b, squares = A[:-1, :-1], A[:-1, -1] / self.weight, A[-1, -1] / self.weight**2
        noise = float(state["stddev"]) * factor / math.sqrt(2.0)
        penalty = self.ridge * 2.0 * noise * math.sqrt(size - 1) + 1e-9 * max(float(np.trace(M)), 1e-9)
        W = np.linalg.solve(M + penalty * np.eye(size - 1), b)
        rows = max(M[-1, -1] * features.constant**-2, 1.0)
        spread = math.sqrt(min(max((squares - 2.0 * b @ W + W @ M @ W) / rows, 1e-6), 1.0))
        points = features.points(np.column_stack([W, np.zeros(size - 1)]))
        points[-1, 1] = spread
        return points.astype(np.float32)
