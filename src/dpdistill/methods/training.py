"""Trains a generator on released mean embeddings."""

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
from dpdistill.methods.descent import Descent, DescentState
from dpdistill.methods.draws import rng_of
from dpdistill.methods.generator import Generator, heads
from dpdistill.methods.generator_arrays import pieces_of
from dpdistill.methods.generator_networks import init_weights, outputs_of
from dpdistill.methods.generator_shapes import kernels_of
from dpdistill.methods.matching import Counting
from dpdistill.recipe.generators import GeneratorSettings


class MeanEmbedding(Counting, ABC):
    """Query u = (a, sqrt(1 - a^2) phi(x)) of one record, ||phi(x)|| <= 1."""

    clip_norm = 1.0

    @abstractmethod
    def features(self, params: object, X: Array) -> Array:
        """Returns phi(X), (..., D), of flat records (..., d)."""

    def contribution(self, params: object, x: Array, y: Array) -> Array:
        return self.beside_count(self.bound * self.features(params, x.ravel()))


class Loss(ABC):
    """Loss of generated records; hashable, so that a step compiles once."""

    @abstractmethod
    def gradient(self, params: object, X: Array, step: Array | int) -> Any:
        """Returns the gradient of the sum over the classes with respect to records X, (classes, m, d)."""


class ClassLoss(Loss):
    """Loss per class, (classes,), as a function of (params, X, step)."""

    @abstractmethod
    def __call__(self, params: object, X: Array, step: Array) -> Array: ...

    @partial(jax.jit, static_argnums=0)
    def gradient(self, params: object, X: Array, step: Array | int) -> Array:
        return jax.grad(lambda X: jnp.sum(self(params, X, jnp.asarray(step))))(X)


@dataclass(frozen=True)
class Match(ClassLoss):
    """Loss || mean embedding of generated records - released embedding ||^2 per class."""

    query: MeanEmbedding

    def __call__(self, params: Any, X: Array, step: Array) -> Array:
        return distance(self.query.features(params["query"], X), params["targets"])


@dataclass(frozen=True)
class Training:
    """Training of a generator; frozen and hashable, so that a step compiles once.

    Args:
        how: size and training options of the generator.
        schema: schema of the records.
        loss: loss of the generated records.
    """

    how: GeneratorSettings
    schema: Any
    loss: Loss

    @property
    def descent(self) -> Descent:
        return Descent(self.how.learning_rate, self.how.steps, bound=math.inf)

    def start(self, key: Array) -> DescentState:
        """Returns the weights before the first step."""
        hidden, inputs = (self.how.hidden,) * self.how.layers, self.how.code_size + len(self.schema.classes)
        kernels = kernels_of(self.how.architecture, inputs, hidden, self.schema)
        return self.descent.start(init_weights(key, kernels))

    def make(self, weights: tuple[Array, ...], codes: Array, key: Array) -> Array:
        """Returns records for training, (classes, m, d), from codes (classes m, code_size), class by class.

        Categories are drawn, with the gradients of the softmax; without `hard` they are the softmax itself.
        """
        classes = len(self.schema.classes)
        labels = jnp.repeat(jnp.eye(classes), len(codes) // classes, axis=0)
        drawn, soft = heads(pieces_of(self.schema), outputs_of(weights, codes, labels, self.schema.shape), key)
        X = soft + jax.lax.stop_gradient(drawn - soft) if self.how.hard else soft
        return X.reshape(classes, len(codes) // classes, -1)

    def step(self, moved: DescentState, params: object, shares: Array, key: Array, t: Array | int) -> DescentState:
        """Returns the state after step t, with new codes for an equal number of records per class, at least 2."""
        classes, key = len(self.schema.classes), jax.random.fold_in(key, t)
        n = classes * max(2, self.how.batch // classes)
        codes = jnp.asarray(rng_of(key).standard_normal((n, self.how.code_size), np.float32))
        X, back = self._generate(moved.X, codes, key)
        return self._update(moved, back, shares[:, None, None] * self.loss.gradient(params, X, t), t)

    @partial(jax.jit, static_argnums=0)
    def _generate(self, weights: tuple[Array, ...], codes: Array, key: Array) -> tuple[Array, Any]:
        """Returns records, and the function (a pytree) from their gradient to the gradient of the weights."""
        return jax.vjp(lambda weights: self.make(weights, codes, key), weights)

    @partial(jax.jit, static_argnums=0)
    def _update(self, moved: DescentState, back: Any, gradient: Array, t: Array | int) -> DescentState:
        return self.descent.step(moved, *back(gradient), t)

    def train(self, params: object, counts: np.ndarray, key: Array, progress: Progress) -> Generator:
        """Minimises sum_c share_c loss_c over the weights, with new codes at every step.

        Classes are weighted by their released shares, since a small class has a noisy mean embedding.

        Args:
            params: params of the loss, a pytree of arrays.
            counts: released counts per class, all > 0, (classes,): their shares also draw the labels.
            key: public key of the initial weights and of the codes.
            progress: receives the number of steps done.
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
    """Returns an unbiased estimate of ||E phi - target||^2 - ||target||^2 per class.

    ||E phi||^2 is estimated as (m ||mean||^2 - mean ||phi||^2) / (m - 1), without pairs of a record with itself.

    The plain square of the mean of m records would also reward similar records.

    Args:
        phi: features, (classes, m, D).
        targets: mean embeddings, (classes, D).
    """
    m, mean = phi.shape[1], phi.mean(1)
    norms = jnp.sum(jnp.square(phi), 2).mean(1)
    return squared_distance(m, jnp.sum(jnp.square(mean), 1), norms, jnp.sum(mean * targets, 1))


def squared_distance(m: int, square: Array, norms: Array, product: Array) -> Array:
    """Returns `distance` from ||mean||^2, the mean of ||phi||^2 and <mean, target>, (classes,), of m records each."""
    return (m * square - norms) / (m - 1) - 2.0 * product


def project_embeddings(embeddings: np.ndarray) -> np.ndarray:
    """Projects noised mean embeddings onto norm at most 1, the norm of records' embeddings, (classes, D), float32."""
    norms = np.linalg.norm(embeddings.astype(np.float64), axis=-1, keepdims=True)
    return (embeddings / np.maximum(norms, 1.0)).astype(np.float32)
