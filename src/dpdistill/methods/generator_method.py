"""Base class of methods that release mean embeddings and marginals, and train a generator."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import fields
from typing import Any

import jax
import numpy as np
from jax import Array

from dpdistill.method import Distilled, Method, Progress, no_progress
from dpdistill.methods.generator import Generator
from dpdistill.methods.generator_arrays import BINS, numbers_of
from dpdistill.methods.marginals import HistogramQuery, match_marginals
from dpdistill.methods.matching import Counting, counts_of
from dpdistill.methods.training import MeanEmbedding, Training, project_embeddings
from dpdistill.query import Query, Release
from dpdistill.recipe.generators import GeneratorSettings
from dpdistill.recipe.methods import generator_method as recipe
from dpdistill.schema import TableSchema


class GeneratorMethod(recipe.GeneratorRecipe, Method):
    """Method that releases mean embeddings; `finish` trains a generator and stores a sample.

        before    S_c = sum over class c of (a, features of a record) + noise, and further releases of the method
        last      histograms of a table's numbers + noise, if marginal_share > 0
        finish    min over G of a distance to the embeddings; then each number of G is matched to its histogram

    Images, and tables without numbers, have no histograms: with marginal_share > 0 the last round releases S_c again,
    and both releases are averaged by their precision, so that no budget is lost.

    A method defines its queries and its generator, and its rounds if S_c is not the only embedding (`embeddings`). Its
    state holds "key", and S_c as "sums".
    """

    @abstractmethod
    def begin(self, key: Array, schema: Any) -> dict[str, Any]:
        """Returns the initial state of the embedding rounds."""

    @abstractmethod
    def ask_embedding(self, state: object, t: int) -> tuple[Query, Any]:
        """Returns the query of round t, and its params."""

    def tell_embedding(self, state: Any, release: Release) -> Any:
        """Returns the state after an embedding round, with the released S_c."""
        return {**state, "sums": release.value.astype(np.float32)}

    @abstractmethod
    def trained(self, state: object, schema: Any, progress: Progress) -> tuple[Generator, np.ndarray]:
        """Returns a generator that matches the embeddings, and released counts per class, (classes,)."""

    def init(self, key: Array, schema: Any) -> Any:
        numbers, gaps = numbers_of(schema) if isinstance(schema, TableSchema) else np.zeros((2, 0), np.int32)
        return {
            **self.begin(key, schema),
            "round": np.zeros((), np.int64),
            "bins": {"numbers": numbers, "gaps": gaps},
            "histograms": np.zeros((len(numbers), BINS), np.float32),
            "stddev": np.zeros((), np.float32),
        }

    def ask(self, state: Any) -> tuple[Query, Any]:
        t = int(state["round"])
        if t < self._rounds:
            return self.ask_embedding(state, t)
        return (HistogramQuery(), state["bins"]) if len(state["histograms"]) else self.ask_embedding(state, 0)

    def tell(self, state: Any, release: Release) -> Any:
        numbers, state = len(state["histograms"]), {**state, "round": state["round"] + 1}
        if release.round < self._rounds:
            return self.tell_embedding(state, release)
        if not numbers:  # two releases of the same sums, averaged by their precision
            sums = state["sums"] + self._precision * release.value
            return {**state, "sums": np.float32(sums / (1.0 + self._precision))}
        root = math.sqrt(numbers)
        counts = release.value.reshape(numbers, BINS) * root
        return {**state, "histograms": np.float32(counts), "stddev": np.float32(release.stddev * root)}

    def finish(self, state: Any, schema: Any, progress: Progress = no_progress) -> Distilled:
        generator, counts = self.trained(state, schema, progress)
        if self.marginal_share and len(state["histograms"]):
            histograms, stddev = state["histograms"], float(state["stddev"])
            generator = match_marginals(generator, histograms, stddev, float(counts.sum()), self.sample_seed)
        X, y = generator.sample(self.samples, self.sample_seed)
        return Distilled(X, y, schema, generator=generator)

    def counts(self, query: Counting, coordinates: np.ndarray) -> np.ndarray:
        """Returns released counts per class, (classes,), from the constant coordinates of a query's released sums."""
        return counts_of(coordinates[None], query, 1.0, self.count_floor)

    def targets(self, query: MeanEmbedding, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns released counts per class, (classes,), and mean embeddings, (classes, D), of a query's sums."""
        counts = self.counts(query, sums[:, 0])
        return counts, project_embeddings(sums[:, 1:] / (query.bound * counts[:, None]))

    def train(self, loss: Any, params: Any, counts: np.ndarray, key: Any, schema: Any, progress: Progress) -> Generator:
        """Returns a generator trained on a loss (`Training.train`)."""
        settings = GeneratorSettings(**{f.name: getattr(self, f.name) for f in fields(GeneratorSettings)})
        key = jax.random.fold_in(key, self.sample_seed)
        return Training(settings, schema, loss).train(params, counts, key, progress)
