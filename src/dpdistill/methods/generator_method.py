"""What the methods that release mean embeddings and train a generator share, and their released marginals."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import Any

import jax
import numpy as np
from jax import Array

from dpdistill.method import Distilled, Method, Progress, finish_field, no_progress, release_field
from dpdistill.methods.generator import BINS, Generator, numbers_of
from dpdistill.methods.generator_networks import ARCHITECTURES
from dpdistill.methods.marginals import HistogramQuery, brought_to
from dpdistill.methods.matching import Counting, cost_of, counts_of
from dpdistill.methods.training import MeanEmbedding, Recipe, Training, feasible
from dpdistill.query import Query, Release, Stage
from dpdistill.schema import Schema, TableSchema


@dataclass(frozen=True, kw_only=True)
class GeneratorMethod(Method):
    """A method that releases mean embeddings, and whose `finish` trains a generator and stores a sample of it.

        before    S_c = sum over class c of (a, features of a record) + noise, and what else the method releases
        last      histograms of a table's numbers + noise, if marginal_share > 0
        finish    min over G of a distance to the embeddings; then each number of G is brought to its histogram

    Images, and a table without numbers, have no histograms: with marginal_share > 0 the last round releases S_c once
    more, and the two are weighed by their precision, so that no budget is lost.

    A method states its queries and its generator, and its rounds where S_c is not all (`embeddings`); its state holds
    "key", and S_c as "sums".
    """

    marginal_share: float = release_field(0.0, "share of the budget for histograms of numbers", at_least=0, below=1)
    count_coordinate: float = release_field(0.1, "share of the clip norm that counts records", at_least=1e-3, below=1)
    count_floor: float = finish_field(1.0, "least number of records a class is taken to have", above=0)
    samples: int = finish_field(10_000, "synthetic records to store", at_least=1)
    hidden: int = finish_field(Recipe.hidden, "width of the generator's hidden layers", at_least=1)
    layers: int = finish_field(Recipe.layers, "hidden layers of the generator", at_least=1)
    architecture: str = finish_field(
        Recipe.architecture, "of a generator of images; that of a table is dense", choices=ARCHITECTURES
    )
    code_size: int = finish_field(Recipe.code_size, "random coordinates behind a synthetic record", at_least=1)
    batch: int = finish_field(Recipe.batch, "generated records a step, shared evenly by the classes", at_least=1)
    steps: int = finish_field(Recipe.steps, "steps of Adam", at_least=1)
    learning_rate: float = finish_field(Recipe.learning_rate, "of Adam, decayed by a cosine", above=0)
    hard: bool = finish_field(Recipe.hard, "draw categories while training; false: use their probabilities")
    sample_seed: int = finish_field(0, "public seed of the generator's start, codes and stored sample", at_least=0)

    origin = "package default, selected on a held-out part of Adult's training set"
    schemas = (Schema, TableSchema)
    least_classes = 1

    def embeddings(self) -> tuple[Stage, ...]:
        """The rounds of mean embeddings, all records in each; the first of weight 1, for S_c."""
        return (Stage(1),)

    @abstractmethod
    def begin(self, key: Array, schema: Any) -> dict[str, Any]:
        """The state of these rounds."""

    @abstractmethod
    def ask_embedding(self, state: Any, t: int) -> tuple[Query, Any]:
        """The query of round t, and its parameters."""

    def tell_embedding(self, state: Any, release: Release) -> Any:
        """The state after such a round: with the released S_c."""
        return {**state, "sums": release.value.astype(np.float32)}

    @abstractmethod
    def trained(self, state: Any, schema: Any, progress: Progress) -> tuple[Generator, np.ndarray]:
        """A generator that follows the embeddings, and released records a class, (classes,)."""

    def plan(self) -> tuple[Stage, ...]:
        if not self.marginal_share:
            return self.embeddings()
        return (*self.embeddings(), Stage(1, weight=math.sqrt(self._precision)))

    @property
    def _precision(self) -> float:
        """Precision (1 / variance) of the last release's noise beside the first's."""
        return cost_of(self.embeddings()) * self.marginal_share / (1.0 - self.marginal_share)

    @property
    def _rounds(self) -> int:
        """Of mean embeddings."""
        return sum(stage.rounds for stage in self.embeddings())

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
        if not numbers:  # two releases of the same sums, weighed by their precision
            sums = state["sums"] + self._precision * release.value
            return {**state, "sums": np.float32(sums / (1.0 + self._precision))}
        root = math.sqrt(numbers)
        counts = release.value.reshape(numbers, BINS) * root
        return {**state, "histograms": np.float32(counts), "stddev": np.float32(release.stddev * root)}

    def finish(self, state: Any, schema: Any, progress: Progress = no_progress) -> Distilled:
        generator, counts = self.trained(state, schema, progress)
        if self.marginal_share and len(state["histograms"]):
            histograms, stddev = state["histograms"], float(state["stddev"])
            generator = brought_to(generator, histograms, stddev, float(counts.sum()), self.sample_seed)
        X, y = generator.sample(self.samples, self.sample_seed)
        return Distilled(X, y, schema, generator=generator)

    def counts(self, query: Counting, coordinates: np.ndarray) -> np.ndarray:
        """Released records a class, (classes,), from the constant coordinates of a query's released sums."""
        return counts_of(coordinates[None], query, 1.0, self.count_floor)

    def targets(self, query: MeanEmbedding, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Released records a class, (classes,), and mean embeddings, (classes, D), of a query's released sums."""
        counts = self.counts(query, sums[:, 0])
        return counts, feasible(sums[:, 1:] / (query.bound * counts[:, None]))

    def train(self, loss: Any, params: Any, counts: np.ndarray, key: Any, schema: Any, progress: Progress) -> Generator:
        """A generator that was trained on a loss (`Training.train`)."""
        recipe = Recipe(**{field.name: getattr(self, field.name) for field in fields(Recipe)})
        key = jax.random.fold_in(key, self.sample_seed)
        return Training(recipe, schema, loss).train(params, counts, key, progress)
