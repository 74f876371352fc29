"""Table classifier: releases a linear classifier of rows, and rows of a generator that it labels."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from jax import Array

from dpdistill.features.table_rows import RowFeatures
from dpdistill.method import Distilled, Method, Progress, no_progress
from dpdistill.methods.class_means import ClassSumsQuery
from dpdistill.methods.dp_merf import DPMERF
from dpdistill.methods.generator_arrays import pieces_of
from dpdistill.methods.row_labels import (
    calibrated,
    class_counts,
    encoded,
    indicators_for,
    labelled,
    row_features,
)
from dpdistill.methods.softmax import SoftmaxQuery, step
from dpdistill.query import Query, Release
from dpdistill.recipe.methods import table_classifier as recipe
from dpdistill.recipe.parts import implement
from dpdistill.schema import TableSchema

KINDS = ("numbers", "gapped", "categories")


class TableClassifier(recipe.TableClassifier, Method):
    """Releases a linear classifier of rows, then rows of a generator whose labels are drawn from its probabilities.

        stage 1   S_c = sum over class c of phi_i + noise,   all records, once
        stage 2   G_t = sum_i clip((p_i - y_i) phi_i^T) + noise,   W <- W - step_t momentum(G_t / ||G_t||),   full batch
        stage 3   the releases of DP-MERF
        finish    probabilities softmax(a phi W + b), a and b the maximum likelihood given S; rows of DP-MERF's
                  generator, with labels drawn from these probabilities

    phi are the features of `RowFeatures`: the classifier is a sum of points, one number per category or knot.

    The step follows from releases. With m released records outside the largest class and noise of standard deviation
    sigma C sqrt(rounds) in a gradient, all steps together have the length pace m / sigma, and a step has at most the
    length `step`. Few records allow few steps: later ones would follow the noise.

    The likelihood of a and b depends on the labels through S alone, and on the rows through their features, for which
    the generated rows stand.

    Guarantee: stages 1, 2 and 3 are calibrated together; finish is post-processing.
    Source: ours; the classifier as in Tramer & Boneh, 2021, the rows as in Harder et al., 2021.
    """

    @property
    def generator(self) -> DPMERF:
        """Returns the method of the part that makes rows."""
        return implement(super().generator, DPMERF)

    def init(self, key: Array, schema: Any) -> Any:
        pieces = np.array([(KINDS.index(kind), start, width) for kind, start, width in pieces_of(schema)])
        W = np.zeros((sum(row_features(schema, self.knots).widths) + 1, len(schema.classes)))
        return {
            "round": np.zeros((), np.int64),
            "pieces": pieces,
            "sums": W,
            "stddev": np.zeros(()),
            "W": W,
            "velocity": W,
            "rows": self.generator.init(key, schema),
        }

    def at_round(self, state: Any, t: int) -> Any:
        rows = self.generator.at_round(state["rows"], max(0, t - self._before))
        return {**state, "round": state["round"] + t, "rows": rows}

    @property
    def _before(self) -> int:
        """Number of rounds before those of the generator."""
        return 1 + self.rounds

    def ask(self, state: Any) -> tuple[Query, Any]:
        t, classes = int(state["round"]), state["W"].shape[1]
        if t >= self._before:
            return self.generator.ask(state["rows"])
        features = self._features(state)
        if t == 0:
            return ClassSumsQuery(1.0, classes, features), np.zeros(0)
        return SoftmaxQuery(self.clip_norm, classes, features), state["W"]

    def _features(self, state: Any) -> RowFeatures:
        pieces = tuple((KINDS[kind], int(start), int(width)) for kind, start, width in np.asarray(state["pieces"]))
        return RowFeatures(pieces, self.knots)

    def tell(self, state: Any, release: Release) -> Any:
        t, state = int(state["round"]), {**state, "round": state["round"] + 1}
        if t >= self._before:
            release = replace(release, round=t - self._before)
            return {**state, "rows": self.generator.tell(state["rows"], release)}
        G = release.value.reshape(state["W"].shape)
        if t == 0:
            return {**state, "sums": G, "stddev": np.float64(release.stddev)}
        return {**state, **step(state, G, t - 1, self.rounds, self.momentum, self._step(state, release))}

    def _step(self, state: Any, release: Release) -> float:
        """Returns the norm of the first step; without noise the largest one."""
        counts = class_counts(state["sums"], float(state["stddev"]), self._features(state))
        others = float(counts.sum() - counts.max())
        noise = release.stddev / self.clip_norm * math.sqrt(self.rounds)
        return min(self.step, self.pace * others / noise) if noise else self.step

    def finish(self, state: Any, schema: TableSchema, progress: Progress = no_progress) -> Distilled:
        generator = replace(self.generator, samples=self.samples, steps=self.steps, sample_seed=self.sample_seed)
        made = generator.finish(state["rows"], schema, progress)
        points = self.classifier(state, schema, made.X)
        y = labelled(points, schema, made.X, made.y, self.sample_seed)
        return replace(made, y=y, classifier=points, encoder=indicators_for(points, schema))

    def classifier(self, state: Any, schema: TableSchema, X: np.ndarray) -> np.ndarray:
        """Returns points (D, classes), float32, whose scores are log odds; X are the generator's rows."""
        features, sums, stddev = row_features(schema, self.knots), state["sums"], float(state["stddev"])
        W = calibrated(state["W"], class_counts(sums, stddev, features), sums, stddev, encoded(features, X))
        return features.points(W).astype(np.float32)
