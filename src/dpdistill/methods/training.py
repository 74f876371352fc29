"""Training a generator against released mean embeddings, and what the methods that do so share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.method import Distilled, Method, Progress, finish_field, release_field
from dpdistill.methods.descent import Descent, Moved
from dpdistill.methods.generator import (
    Generator,
    dense_kernels,
    heads,
    image_kernels,
    init_weights,
    outputs_of,
    pieces_of,
)
from dpdistill.methods.matching import Counting, counts_of
from dpdistill.schema import Schema, TableSchema


class MeanEmbedding(Counting, ABC):
    """u = (a, sqrt(1 - a^2) phi(x)) of one record, ||phi(x)|| <= 1."""

    clip_norm = 1.0

    @abstractmethod
    def features(self, params: Any, X: Array) -> Array:
        """phi(X), (..., D), of flat records (..., d)."""

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        return self.beside_count(self.bound * self.features(params, x.ravel()))


class Loss(ABC):
    """What generated records are trained on; hashable, so that it compiles once."""

    @abstractmethod
    def gradient(self, params: Any, X: Array, step: Array | int) -> Any:
        """By records X, (classes, m, d), of the sum over the classes."""


class ClassLoss(Loss):
    """A loss of each class, (classes,), of (params, X, step)."""

    @abstractmethod
    def __call__(self, params: Any, X: Array, step: Array) -> Array: ...

    @partial(jax.jit, static_argnums=0)
    def gradient(self, params: Any, X: Array, step: Array | int) -> Array:
        return jax.grad(lambda X: jnp.sum(self(params, X, jnp.asarray(step))))(X)


@dataclass(frozen=True)
class Match(ClassLoss):
    """|| mean embedding of generated records - released one ||^2, a class."""

    query: MeanEmbedding

    def __call__(self, params: Any, X: Array, step: Array) -> Array:
        return distance(self.query.features(params["query"], X), params["targets"])


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A generator's size and training.

    Args:
        hidden: width of the hidden layers.
        layers: hidden layers.
        convolutions: a generator of images ends in convolutions; otherwise in a dense layer.
        code_size: random coordinates behind a record.
        batch: generated records a step, shared evenly by the classes.
        steps: of Adam.
        learning_rate: of Adam, decayed by a cosine.
        hard: draw categories while training; otherwise use their probabilities.
    """

    hidden: int = 256
    layers: int = 2
    convolutions: bool = True
    code_size: int = 16
    batch: int = 500
    steps: int = 2000
    learning_rate: float = 0.002
    hard: bool = True


@dataclass(frozen=True)
class Training:
    """How a generator is trained: frozen and hashable, so that it compiles once.

    Args:
        how: the generator's size and training.
        schema: of the records.
        loss: of the records it makes.
    """

    how: Recipe
    schema: Any
    loss: Loss

    @property
    def descent(self) -> Descent:
        return Descent(self.how.learning_rate, self.how.steps, bound=math.inf)

    def start(self, key: Array) -> Moved:
        """The weights before the first step."""
        hidden, inputs = (self.how.hidden,) * self.how.layers, self.how.code_size + len(self.schema.classes)
        if isinstance(self.schema, Schema) and self.how.convolutions:
            kernels = image_kernels(inputs, hidden, self.schema.shape)
        else:
            kernels = dense_kernels(inputs, hidden, self.schema.dimension)
        return self.descent.start(init_weights(key, kernels))

    def make(self, weights: tuple[Array, ...], key: Array) -> Array:
        """Records as training sees them, (classes, m, d), from fresh codes: the same number of each class, >= 2.

        Categories are drawn, with the gradients of the softmax; or, unless hard, are the softmax itself.
        """
        classes = len(self.schema.classes)
        each, (code_key, head_key) = max(2, self.how.batch // classes), jax.random.split(key)
        codes = jax.random.normal(code_key, (classes * each, self.how.code_size))
        labels = jnp.repeat(jnp.eye(classes), each, axis=0)
        drawn, soft = heads(pieces_of(self.schema), outputs_of(weights, codes, labels, self.schema.shape), head_key)
        X = soft + jax.lax.stop_gradient(drawn - soft) if self.how.hard else soft
        return X.reshape(classes, each, -1)

    def step(self, moved: Moved, params: Any, shares: Array, key: Array, t: Array | int) -> Moved:
        """Step t; its codes are its own."""
        key = jax.random.fold_in(key, t)
        gradient = self.loss.gradient(params, self._made(moved.X, key), t)
        return self._moved(moved, shares[:, None, None] * gradient, key, t)

    @partial(jax.jit, static_argnums=0)
    def _made(self, weights: tuple[Array, ...], key: Array) -> Array:
        return self.make(weights, key)

    @partial(jax.jit, static_argnums=0)
    def _moved(self, moved: Moved, gradient: Array, key: Array, t: Array | int) -> Moved:
        (by_weights,) = jax.vjp(lambda weights: self.make(weights, key), moved.X)[1](gradient)
        return self.descent.step(moved, by_weights, t)

    def train(self, params: Any, counts: np.ndarray, key: Array, progress: Progress) -> Generator:
        """min over weights of  sum_c share_c loss_c,  with fresh codes at every step.

        Classes count by their released shares: the noise of a class's mean embedding grows as its share falls.

        Args:
            params: of the loss, a pytree of arrays.
            counts: released records a class, all > 0, (classes,): their shares draw the labels as well.
            key: public, of the weights' start and of the codes.
            progress: told the steps done.
        """
        init_key, key = jax.random.split(key)
        shares, moved = counts / counts.sum(), self.start(init_key)
        weighed, params = jnp.asarray(shares, jnp.float32), jax.tree.map(jnp.asarray, params)
        # A Python loop, not lax.fori_loop: XLA runs convolutions inside a loop on one thread of the CPU.
        for t in range(self.how.steps):
            moved = self.step(moved, params, weighed, key, t)
            if t % 50 == 49 or t + 1 == self.how.steps:
                jax.block_until_ready(moved)
                progress("training", t + 1, self.how.steps)
        return Generator(tuple(np.asarray(w) for w in moved.X), shares, self.how.code_size, self.schema)


def distance(phi: Array, targets: Array) -> Array:
    """||E phi - target||^2 - ||target||^2 a class, without bias.

    ||E phi||^2 is estimated as (m ||mean||^2 - mean ||phi||^2) / (m - 1): no record is paired with itself.

    The plain square of the mean of m records would also ask them to be alike.

    Args:
        phi: features, (classes, m, D).
        targets: mean embeddings, (classes, D).
    """
    m, mean = phi.shape[1], phi.mean(1)
    norms = jnp.sum(jnp.square(phi), 2).mean(1)
    return squared_distance(m, jnp.sum(jnp.square(mean), 1), norms, jnp.sum(mean * targets, 1))


def squared_distance(m: int, square: Array, norms: Array, product: Array) -> Array:
    """As `distance`, from ||mean||^2, the mean of ||phi||^2 and <mean, target>, (classes,), of m records a class."""
    return (m * square - norms) / (m - 1) - 2.0 * product


def feasible(embeddings: np.ndarray) -> np.ndarray:
    """Noised mean embeddings brought back to where those of records are: norm at most 1, (classes, D), float32."""
    norms = np.linalg.norm(embeddings.astype(np.float64), axis=-1, keepdims=True)
    return (embeddings / np.maximum(norms, 1.0)).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class GeneratorMethod(Method):
    """A method that releases mean embeddings, and whose `finish` trains a generator and stores a sample of it."""

    count_coordinate: float = release_field(0.1, "share of the clip norm that counts records", at_least=1e-3, below=1)
    count_floor: float = finish_field(1.0, "least number of records a class is taken to have", above=0)
    samples: int = finish_field(10_000, "synthetic records to store", at_least=1)
    hidden: int = finish_field(Recipe.hidden, "width of the generator's hidden layers", at_least=1)
    layers: int = finish_field(Recipe.layers, "hidden layers of the generator", at_least=1)
    convolutions: bool = finish_field(
        Recipe.convolutions, "a generator of images ends in convolutions; false: in a dense layer"
    )
    code_size: int = finish_field(Recipe.code_size, "random coordinates behind a synthetic record", at_least=1)
    batch: int = finish_field(Recipe.batch, "generated records a step, shared evenly by the classes", at_least=1)
    steps: int = finish_field(Recipe.steps, "steps of Adam", at_least=1)
    learning_rate: float = finish_field(Recipe.learning_rate, "of Adam, decayed by a cosine", above=0)
    hard: bool = finish_field(Recipe.hard, "draw categories while training; false: use their probabilities")
    sample_seed: int = finish_field(0, "public seed of the generator's start, codes and stored sample", at_least=0)

    origin = "package default, selected on a held-out part of Adult's training set"
    schemas = (Schema, TableSchema)

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

    def sampled(self, generator: Generator) -> Distilled:
        """A generator and a stored sample of it."""
        return Distilled(*generator.sample(self.samples, self.sample_seed), generator.schema, generator=generator)
