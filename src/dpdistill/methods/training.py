"""Training a generator against released mean embeddings, and what the methods that do so share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.method import Distilled, Method, Progress, finish_field, no_progress
from dpdistill.methods.descent import Descent, Moved
from dpdistill.methods.generator import Generator, Piece, heads, init_weights, outputs_of, pieces_of
from dpdistill.methods.matching import Counting
from dpdistill.schema import Schema, TableSchema

SLICE = 50
"""Steps of training between two reports of progress."""


class MeanEmbedding(Counting, ABC):
    """u = (a, sqrt(C^2 - a^2) phi(x)) of one record, ||phi(x)|| <= 1."""

    @abstractmethod
    def features(self, params: Any, X: Array) -> Array:
        """phi(X), (..., D), of flat records (..., d)."""

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        return jnp.concatenate([jnp.full((1,), self.count), self.bound * self.features(params, x.ravel())])


@dataclass(frozen=True)
class Training:
    """How a generator is trained: frozen and hashable, so that it compiles once.

    Args:
        pieces: kinds of the coordinates.
        loss: of (params, X, step): X (classes, m, d) made by the generator -> (classes,).
        classes: how many.
        hidden: widths of the hidden layers.
        code_size: coordinates of a code.
        batch: records a step, shared evenly by the classes, at least two of each.
        steps: of Adam.
        learning_rate: of Adam, decayed by a cosine.
        hard: categories are drawn while training, gradients are those of the softmax; else the softmax itself.
    """

    pieces: tuple[Piece, ...]
    loss: Callable[[Any, Array, Array], Array]
    classes: int
    hidden: tuple[int, ...]
    code_size: int
    batch: int
    steps: int
    learning_rate: float
    hard: bool

    @property
    def each(self) -> int:
        """Records of a class in a step."""
        return max(2, self.batch // self.classes)

    @property
    def descent(self) -> Descent:
        return Descent(self.learning_rate, self.steps, bound=math.inf)

    def make(self, weights: tuple[Array, ...], key: Array) -> Array:
        """Records as training sees them, (classes, m, d), from fresh codes: the same number of each class."""
        code_key, head_key = jax.random.split(key)
        codes = jax.random.normal(code_key, (self.classes * self.each, self.code_size))
        labels = jnp.repeat(jnp.eye(self.classes), self.each, axis=0)
        drawn, soft = heads(self.pieces, outputs_of(weights, codes, labels), head_key)
        X = soft + jax.lax.stop_gradient(drawn - soft) if self.hard else soft
        return X.reshape(self.classes, self.each, -1)


def train_generator(
    training: Training,
    key: Array,
    schema: Any,
    class_shares: np.ndarray,
    params: Any,
    progress: Progress = no_progress,
) -> Generator:
    """min over weights of  sum_c share_c loss_c,  with fresh codes at every step.

    Classes count by their released shares: the noise of a class's mean embedding grows as its share falls.

    Args:
        training: sizes, loss and steps.
        key: public, of the weights' start and of the codes.
        schema: of the records.
        class_shares: released, (classes,).
        params: of the loss, a pytree of arrays.
        progress: told the steps done.
    """
    init_key, key = jax.random.split(key)
    sizes = (training.code_size + training.classes, *training.hidden, schema.dimension)
    moved = training.descent.start(init_weights(init_key, sizes))
    shares = jnp.asarray(class_shares, jnp.float32)
    for start in range(0, training.steps, SLICE):
        stop = min(start + SLICE, training.steps)
        moved = jax.block_until_ready(steps(training, moved, params, shares, key, start, stop))
        progress("training", stop, training.steps)
    made = tuple(np.asarray(w) for w in moved.X)
    return Generator(made, np.asarray(class_shares, np.float64), training.code_size, schema)


@partial(jax.jit, static_argnums=0)
def steps(training: Training, moved: Moved, params: Any, shares: Array, key: Array, start: Array, stop: Array) -> Moved:
    """Steps start .. stop - 1 of training; the codes of each are its own."""

    def step(t: Array, moved: Moved) -> Moved:
        def loss(weights: tuple[Array, ...]) -> Array:
            X = training.make(weights, jax.random.fold_in(key, t))
            return jnp.sum(shares * training.loss(params, X, t))

        return training.descent.step(moved, jax.grad(loss)(moved.X), t)

    return jax.lax.fori_loop(start, stop, step, moved)


def distance(phi: Array, targets: Array) -> Array:
    """||E phi - target||^2 - ||target||^2 a class, without bias.

    ||E phi||^2 is estimated as (m ||mean||^2 - mean ||phi||^2) / (m - 1): no record is paired with itself.

    The plain square of the mean of m records would also ask them to be alike.

    Args:
        phi: features, (classes, m, D).
        targets: mean embeddings, (classes, D).
    """
    m, mean = phi.shape[1], phi.mean(1)
    square = (m * jnp.sum(jnp.square(mean), 1) - jnp.sum(jnp.square(phi), 2).mean(1)) / (m - 1)
    return square - 2.0 * jnp.sum(mean * targets, 1)


def feasible(embeddings: np.ndarray) -> np.ndarray:
    """Noised mean embeddings brought back to where those of records are: norm at most 1, (classes, D), float32."""
    norms = np.linalg.norm(embeddings.astype(np.float64), axis=-1, keepdims=True)
    return (embeddings / np.maximum(norms, 1.0)).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class GeneratorMethod(Method):
    """A method whose `finish` trains a generator and stores a sample of it."""

    count_floor: float = finish_field(1.0, "least number of records a class is taken to have", above=0)
    samples: int = finish_field(10_000, "synthetic records to store", at_least=1)
    hidden: int = finish_field(256, "width of the generator's hidden layers", at_least=1)
    layers: int = finish_field(2, "hidden layers of the generator", at_least=1)
    code_size: int = finish_field(16, "random coordinates behind a synthetic record", at_least=1)
    batch: int = finish_field(500, "generated records a step, shared evenly by the classes", at_least=1)
    steps: int = finish_field(2000, "steps of Adam", at_least=1)
    learning_rate: float = finish_field(0.002, "of Adam, decayed by a cosine", above=0)
    hard: bool = finish_field(True, "draw categories while training; false: use their probabilities")
    sample_seed: int = finish_field(
        0, "public seed of the generator's start, of codes and of the stored sample", at_least=0
    )

    origin = "package default, selected on a held-out part of Adult's training set"
    schemas = (Schema, TableSchema)

    def train(
        self, loss: Any, params: Any, counts: np.ndarray, key: Array, schema: Any, progress: Progress
    ) -> Distilled:
        """Train a generator as the fields say, and store a sample of it.

        Args:
            loss: hashable, (params, X (classes, m, d), step) -> (classes,).
            params: of the loss, a pytree of arrays.
            counts: released records a class, all > 0, (classes,): their shares weigh the classes and draw the labels.
            key: public.
            schema: of the records.
            progress: told the steps done.
        """
        training = Training(
            pieces_of(schema),
            loss,
            len(schema.classes),
            (self.hidden,) * self.layers,
            self.code_size,
            self.batch,
            self.steps,
            self.learning_rate,
            self.hard,
        )
        key = jax.random.fold_in(key, self.sample_seed)
        generator = train_generator(training, key, schema, counts / counts.sum(), params, progress)
        X, y = generator.sample(self.samples, self.sample_seed)
        return Distilled(X, y, schema, generator=generator)
