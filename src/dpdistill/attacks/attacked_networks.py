"""Trains networks under attack without privacy, fully or to first order, and computes their tangent kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.method import Progress, no_progress
from dpdistill.networks.network import MLP, Network, dense
from dpdistill.recipe import choices

STEPS, PARTS = 100, 100
"""Number of gradient descent steps per compiled call; parts of a training that its progress counts."""


class Attacked(Protocol):
    """Network under attack; frozen and hashable."""

    def __call__(self, params: object, X: Array, sharpness: object = math.inf) -> Array:
        """Returns outputs (n, k) of records X (n, ...), ReLU relaxed to softplus(sharpness x) / sharpness."""
        ...


@dataclass(frozen=True)
class Smooth(Attacked):
    """MLP whose ReLU may be relaxed, with the parameters of `MLP`: a list of {"kernel", "bias"}."""

    def __call__(self, params: Any, X: Array, sharpness: Any = math.inf) -> Array:
        h = X.reshape(len(X), -1)
        for layer in params[:-1]:
            h = dense(h, layer)
            soft = jax.nn.softplus(jnp.minimum(sharpness, 1e6) * h) / jnp.minimum(sharpness, 1e6)
            h = jnp.where(jnp.isinf(sharpness), jax.nn.relu(h), soft)
        return dense(h, params[-1])


@dataclass(frozen=True)
class AsItIs(Attacked):
    """Any network of `networks/`, with its ReLU unchanged."""

    network: Network

    def __call__(self, params: object, X: Array, sharpness: object = math.inf) -> Array:
        return self.network.apply(params, X)


def attacked(network: Network) -> Attacked:
    """Returns a network in the form that attacks take."""
    return Smooth() if isinstance(network, MLP) else AsItIs(network)


def start(seed: int, sizes: tuple[int, ...]) -> list[dict[str, Array]]:
    """Returns initial parameters of an MLP of these sizes, inputs first: N(0, 1 / fan in), zeros for biases.

    Source: LeCun et al., 1998 (Efficient backprop), the default of the networks of paper E.
    """
    layers = []
    for i, (a, b) in enumerate(pairwise(sizes)):
        draw = jax.random.normal(jax.random.fold_in(jax.random.key(seed), i), (a, b))
        layers.append({"kernel": draw / math.sqrt(a), "bias": jnp.zeros(b)})
    return layers


def squares(outputs: Array, targets: Array) -> Array:
    """Returns half the sum of squared errors, whose derivative by the outputs is outputs - targets."""
    return 0.5 * jnp.sum(jnp.square(outputs - targets))


def cross_entropy(outputs: Array, targets: Array) -> Array:
    """Returns - sum of targets . log softmax of the outputs."""
    return -jnp.sum(targets * jax.nn.log_softmax(outputs, 1))


def targets_of(y: Any, classes: int, loss: str) -> np.ndarray:
    """Returns training targets, (n, k).

    For squares they are +-1 of two classes, k = 1, and 0.9 or -0.1 of more classes; for cross-entropy 1 or 0.

    Args:
        y: class indices, (n,).
        classes: number of classes.
        loss: one of LOSSES.
    """
    if loss == "squares" and classes == 2:
        return np.where(np.asarray(y) == 1, 1.0, -1.0)[:, None].astype(np.float32)
    chosen = np.eye(classes, dtype=np.float32)[np.asarray(y)]
    return chosen - np.float32(0.1) if loss == "squares" else chosen


LOSSES: dict[str, Callable[[Array, Array], Array]] = dict(zip(choices.LOSSES, (squares, cross_entropy), strict=True))


@dataclass(frozen=True)
class Descent:
    """Full-batch gradient descent with momentum.

    Args:
        steps: maximum number of steps, a multiple of 100.
        learning_rate: learning rate for the sum of the records' losses.
        momentum: in [0, 1).
        loss: one of LOSSES.
        enough: mean squared error of outputs at which training ends; with cross-entropy, the mean loss of a record.
    """

    steps: int = 20_000
    learning_rate: float = 1e-3
    momentum: float = 0.9
    loss: str = "squares"
    enough: float = 1e-10

    def train(self, net: Attacked, params: object, X: Any, targets: Any, progress: Progress = no_progress) -> Any:
        """Returns the parameters after training from `params` on records X and targets (n, k)."""
        X, targets = jnp.asarray(X), jnp.asarray(targets)
        velocity, least = jax.tree.map(jnp.zeros_like, params), self._least(targets)
        share, first = 0.0, math.nan
        for t in range(0, self.steps, STEPS):
            params, velocity, error = _descend(self, net, params, velocity, X, targets)
            first = float(error) if t == 0 else first
            share = max(share, self._share(t + STEPS, first, float(error), least))
            progress("training", math.floor(PARTS * share), PARTS)
            if share == 1.0:
                break
        return params

    def _share(self, steps: int, first: float, error: float, least: float) -> float:
        """Returns the share of the training that is done: of its steps, or of the orders of magnitude of its error."""
        if error < least or steps >= self.steps:
            return 1.0
        fallen = math.log(first / error) / math.log(first / least) if first > least and 0.0 < error < first else 0.0
        return max(steps / self.steps, min(fallen, 1.0 - 1.0 / PARTS))

    def _least(self, targets: Array) -> float:
        """Returns the sum of the losses at which training ends."""
        return self.enough * (targets.size / 2 if self.loss == "squares" else len(targets))

    def train_linearised(self, net: Attacked, params: object, X: Any, targets: Any) -> Any:
        """Returns the parameters of the trained first-order expansion at `params`: theta = theta_0 + J^T alpha.

        A step of descent on theta is a step on alpha, by the derivative of the loss at f_0 + K alpha.
        """
        X, targets = jnp.asarray(X), jnp.asarray(targets)
        K, at_start = tangent_kernel(net, params, X), outputs_of(net, params, X)
        alpha, velocity = jnp.zeros_like(targets), jnp.zeros_like(targets)
        for _ in range(0, self.steps, STEPS):
            alpha, velocity, error = _descend_dual(self, K, at_start, alpha, velocity, targets)
            if float(error) < self._least(targets):
                break
        return _expansion(net, params, X, alpha)


@partial(jax.jit, static_argnums=(0, 1))
def _descend(how: Descent, net: Attacked, params: Any, velocity: Any, X: Array, targets: Array) -> Any:
    def loss(params: object) -> Array:
        return LOSSES[how.loss](net(params, X), targets)

    def step(carried: Any, _: None) -> Any:
        params, velocity = carried
        value, gradient = jax.value_and_grad(loss)(params)
        velocity = jax.tree.map(lambda v, g: how.momentum * v - how.learning_rate * g, velocity, gradient)
        return (jax.tree.map(jnp.add, params, velocity), velocity), value

    (params, velocity), values = jax.lax.scan(step, (params, velocity), None, STEPS)
    return params, velocity, values[-1]


@partial(jax.jit, static_argnums=0)
def _descend_dual(how: Descent, K: Array, at_start: Array, alpha: Array, velocity: Array, targets: Array) -> Any:
    def step(carried: Any, _: None) -> Any:
        alpha, velocity = carried
        outputs = at_start + (K @ alpha.ravel()).reshape(alpha.shape)
        value, gradient = jax.value_and_grad(LOSSES[how.loss])(outputs, targets)
        velocity = how.momentum * velocity - how.learning_rate * gradient
        return (alpha + velocity, velocity), value

    (alpha, velocity), values = jax.lax.scan(step, (alpha, velocity), None, STEPS)
    return alpha, velocity, values[-1]


@partial(jax.jit, static_argnums=0)
def _expansion(net: Attacked, params: object, X: Array, alpha: Array) -> Any:
    """Returns theta + J^T alpha at theta = params."""
    (moved,) = jax.vjp(lambda p: net(p, X), params)[1](alpha)
    return jax.tree.map(jnp.add, params, moved)


@partial(jax.jit, static_argnums=0)
def outputs_of(net: Attacked, params: object, X: Array) -> Array:
    """Returns the outputs (n, k) of records X (n, ...), in one compiled program."""
    return net(params, X)


@partial(jax.jit, static_argnums=0)
def tangent_kernel(net: Attacked, params: object, X: Array) -> Array:
    """Returns K = J J^T of a network at `params`, (n k, n k), with a record's outputs adjacent, without forming J."""
    outputs, back = jax.vjp(lambda p: net(p, X), params)

    def column(unit: Array) -> Array:
        (gradient,) = back(unit.reshape(outputs.shape))
        return jax.jvp(lambda p: net(p, X), (params,), (gradient,))[1].ravel()

    return jax.lax.map(column, jnp.eye(outputs.size))


def stable_rate(net: Attacked, params: object, X: Any) -> float:
    """Returns a stable learning rate: 0.3 over the largest eigenvalue of the tangent kernel of records X (n, ...).

    At momentum 0.9 the expansion at `params` diverges above 3.8 over that eigenvalue; the kernel grows in training.
    """
    return 0.3 / float(np.linalg.eigvalsh(np.float64(tangent_kernel(net, params, jnp.asarray(X))))[-1])


def kernel_distance(K: Any, other: Any) -> float:
    """Returns 1 - tr(K^T K') / (|K| |K'|), in [0, 2], the cosine distance of two kernels."""
    K, other = np.float64(K), np.float64(other)
    return float(1.0 - np.sum(K * other) / (np.linalg.norm(K) * np.linalg.norm(other)))
