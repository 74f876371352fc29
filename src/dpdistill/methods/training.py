"""Training a generator against released mean embeddings."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.method import Progress
from dpdistill.methods.descent import Descent, Moved
from dpdistill.methods.draws import rng_of
from dpdistill.methods.generator import Generator, heads
from dpdistill.methods.generator_arrays import pieces_of
from dpdistill.methods.generator_networks import init_weights, outputs_of
from dpdistill.methods.generator_shapes import kernels_of
from dpdistill.methods.matching import Counting
from dpdistill.recipe.generators import GeneratorSettings


class MeanEmbedding(Counting, ABC):
    """u = (a, sqrt(1 - a^2) phi(x)) of one record, ||phi(x)|| <= 1."""

    clip_norm = 1.0

    @abstractmethod
    def features(self, params: object, X: Array) -> Array:
        """phi(X), (..., D), of flat records (..., d)."""

    def contribution(self, params: object, x: Array, y: Array) -> Array:
        return self.beside_count(self.bound * self.features(params, x.ravel()))


class Loss(ABC):
    """What generated records are trained on; hashable, so that it compiles once."""

    @abstractmethod
    def gradient(self, params: object, X: Array, step: Array | int) -> Any:
        """By records X, (classes, m, d), of the sum over the classes."""


class ClassLoss(Loss):
    """A loss of each class, (classes,), of (params, X, step)."""

    @abstractmethod
    def __call__(self, params: object, X: Array, step: Array) -> Array: ...

    @partial(jax.jit, static_argnums=0)
    def gradient(self, params: object, X: Array, step: Array | int) -> Array:
        return jax.grad(lambda X: jnp.sum(self(params, X, jnp.asarray(step))))(X)


@dataclass(frozen=True)
class Match(ClassLoss):
    """|| mean embedding of generated records - released one ||^2, a class."""

    query: MeanEmbedding

    def __call__(self, params: Any, X: Array, step: Array) -> Array:
        return distance(self.query.features(params["query"], X), params["targets"])


@dataclass(frozen=True)
class Training:
    """How a generator is trained: frozen and hashable, so that it compiles once.

    Args:
        how: the generator's size and training.
        schema: of the records.
        loss: of the records it makes.
    """

    how: GeneratorSettings
    schema: Any
    loss: Loss

    @property
    def descent(self) -> Descent:
        return Descent(self.how.learning_rate, self.how.steps, bound=math.inf)

    def start(self, key: Array) -> Moved:
        """The weights before the first step."""
        hidden, inputs = (self.how.hidden,) * self.how.layers, self.how.code_size + len(self.schema.classes)
        kernels = kernels_of(self.how.architecture, inputs, hidden, self.schema)
        return self.descent.start(init_weights(key, kernels))

    def make(self, weights: tuple[Array, ...], codes: Array, key: Array) -> Array:
        """Records as training sees them, (classes, m, d), from codes (classes m, code_size), class by class.

        Categories are drawn, with the gradients of the softmax; or, unless hard, are the softmax itself.
        """
        classes = len(self.schema.classes)
        labels = jnp.repeat(jnp.eye(classes), len(codes) // classes, axis=0)
        drawn, soft = heads(pieces_of(self.schema), outputs_of(weights, codes, labels, self.schema.shape), key)
        X = soft + jax.lax.stop_gradient(drawn - soft) if self.how.hard else soft
        return X.reshape(classes, len(codes) // classes, -1)

    def step(self, moved: Moved, params: object, shares: Array, key: Array, t: Array | int) -> Moved:
        """Step t; its codes are its own, for the same number of records of each class, at least 2."""
        classes, key = len(self.schema.classes), jax.random.fold_in(key, t)
        n = classes * max(2, self.how.batch // classes)
        codes = jnp.asarray(rng_of(key).standard_normal((n, self.how.code_size), np.float32))
        X, back = self._made(moved.X, codes, key)
        return self._moved(moved, back, shares[:, None, None] * self.loss.gradient(params, X, t), t)

    @partial(jax.jit, static_argnums=0)
    def _made(self, weights: tuple[Array, ...], codes: Array, key: Array) -> tuple[Array, Any]:
        """Records, and the function from a gradient by them to that by the weights, which is a pytree too."""
        return jax.vjp(lambda weights: self.make(weights, codes, key), weights)

    @partial(jax.jit, static_argnums=0)
    def _moved(self, moved: Moved, back: Any, gradient: Array, t: Array | int) -> Moved:
        return self.descent.step(moved, *back(gradient), t)

    def train(self, params: object, counts: np.ndarray, key: Array, progress: Progress) -> Generator:
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
