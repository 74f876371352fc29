"""LDPDC: each synthetic image is the noised mean of a random subset's pixels; a baseline that takes seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import Array

from dpdistill.method import Distilled, Method, Progress, no_progress
from dpdistill.methods.matching import PixelQuery, counts_of, labels, put_release
from dpdistill.query import Release
from dpdistill.recipe.methods import ldpdc as recipe
from dpdistill.schema import Schema


class LDPDC(recipe.LDPDC, Method):
    """Noised means of Poisson subsets: image j of class c = (sum of a subset's pixels + noise) / (q count_c).

    Guarantee: per_class releases of sensitivity sqrt(d) / sqrt(1 - a^2), all classes in one.
    Source: Zheng & Li, 2024 (Differentially private dataset condensation), algorithm 1.
    """

    def _query(self, d: int) -> PixelQuery:
        return PixelQuery(d, self.count_coordinate)

    def init(self, key: Array, schema: Schema) -> Any:
        return {"sums": np.zeros((self.per_class, len(schema.classes), 1 + schema.dimension), np.float32)}

    def ask(self, state: Any) -> tuple[PixelQuery, Any]:
        return self._query(state["sums"].shape[2] - 1), {}

    def tell(self, state: Any, release: Release) -> Any:
        return {"sums": put_release(state["sums"], release.round, release)}

    def finish(self, state: Any, schema: Schema, progress: Progress = no_progress) -> Distilled:
        sums = state["sums"]
        query, classes = self._query(schema.dimension), len(schema.classes)
        counts = counts_of(sums[:, :, 0], query, self.sampling_prob, self.count_floor)
        means = sums[:, :, 1:].transpose(1, 0, 2) / (self.sampling_prob * counts[:, None, None])
        X = np.clip(means, -1.0, 1.0).reshape(-1, *schema.shape).astype(np.float32)
        return Distilled(X, labels(classes, self.per_class), schema)
