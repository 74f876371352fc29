"""Networks that are attacked: their training without privacy, in full or to first order, and their tangent kernel."""

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

STEPS = 100
"""Of gradient descent in one compiled call."""


class Attacked(Protocol):
    """A network as an attack sees it: frozen and hashable."""

    def __call__(self, params: object, X: Array, sharpness: object = math.inf) -> Array:
        """Outputs (n, k) of records X (n, ...); ReLU is softplus(sharpness x) / sharpness where it can be."""
        ...


@dataclass(frozen=True)
class Smooth(Attacked):
    """An MLP whose ReLU may be relaxed. Its parameters are those of `MLP`: a list of {"kernel", "bias"}."""

    def __call__(self, params: Any, X: Array, sharpness: Any = math.inf) -> Array:
        h = X.reshape(len(X), -1)
        for layer in params[:-1]:
            h = dense(h, layer)
            soft = jax.nn.softplus(jnp.minimum(sharpness, 1e6) * h) / jnp.minimum(sharpness, 1e6)
            h = jnp.where(jnp.isinf(sharpness), jax.nn.relu(h), soft)
        return dense(h, params[-1])


@dataclass(frozen=True)
class AsItIs(Attacked):
    """Any network of `encode/`; its ReLU stays."""

    network: Network

    def __call__(self, params: object, X: Array, sharpness: object = math.inf) -> Array:
        return self.network.apply(params, X)


def attacked(network: Network) -> Attacked:
    """Returns what an attack sees of a network."""
    return Smooth() if isinstance(network, MLP) else AsItIs(network)


def start(seed: int, sizes: tuple[int, ...]) -> list[dict[str, Array]]:
    """Parameters of an MLP of these sizes, inputs first: N(0, 1 / fan in), zeros for biases.

    Source: LeCun et al., 1998 (Efficient backprop), the default of the networks of paper E.
    """
    layers = []
    for i, (a, b) in enumerate(pairwise(sizes)):
        draw = jax.random.normal(jax.random.fold_in(jax.random.key(seed), i), (a, b))
        layers.append({"kernel": draw / math.sqrt(a), "bias": jnp.zeros(b)})
    return layers


def squares(outputs: Array, targets: Array) -> Array:
    """Half the sum of squared errors: its derivative by the outputs is outputs - targets."""
    return 0.5 * jnp.sum(jnp.square(outputs - targets))


def cross_entropy(outputs: Array, targets: Array) -> Array:
    """- sum of targets . log softmax of the outputs."""
    return -jnp.sum(targets * jax.nn.log_softmax(outputs, 1))


def targets_of(y: Any, classes: int, loss: str) -> np.ndarray:
    """Returns what a network is trained to say, (n, k): for squares +-1 of two classes, k = 1, and 0.9 or -0.1 of more;
    for cross-entropy 1 or 0.

    Args:
        y: class indices, (n,).
        classes: how many there are.
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
        steps: most steps, in hundreds.
        learning_rate: of the sum of the records' losses.
        momentum: in [0, 1).
        loss: one of LOSSES.
        enough: mean squared error of outputs and targets at which it ends: a larger one stops early. With
            cross-entropy, the loss of a record.
    """

    steps: int = 20_000
    learning_rate: float = 1e-3
    momentum: float = 0.9
    loss: str = "squares"
    enough: float = 1e-10

    def train(self, net: Attacked, params: object, X: Any, targets: Any, progress: Progress = no_progress) -> Any:
        """Parameters after training from `params` on records X and targets (n, k)."""
        X, targets = jnp.asarray(X), jnp.asarray(targets)
        velocity = jax.tree.map(jnp.zeros_like, params)
        for t in range(0, self.steps, STEPS):
            params, velocity, error = _descend(self, net, params, velocity, X, targets)
            progress("training", min(t + STEPS, self.steps), self.steps)
            if float(error) < self._least(targets):
                break
        return params

    def _least(self, targets: Array) -> float:
        """The sum of the losses at which it is enough."""
        return self.enough * (targets.size / 2 if self.loss == "squares" else len(targets))

    def train_linearised(self, net: Attacked, params: object, X: Any, targets: Any) -> Any:
        """The same of the network's first-order expansion at `params`, in the dual: theta = theta_0 + J^T alpha.

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
    """theta + J^T alpha at theta = params."""
    (moved,) = jax.vjp(lambda p: net(p, X), params)[1](alpha)
    return jax.tree.map(jnp.add, params, moved)


@partial(jax.jit, static_argnums=0)
def outputs_of(net: Attacked, params: object, X: Array) -> Array:
    """Returns what a network says of records X (n, ...), (n, k), in one compiled program."""
    return net(params, X)


@partial(jax.jit, static_argnums=0)
def tangent_kernel(net: Attacked, params: object, X: Array) -> Array:
    """K = J J^T of a network at `params`, (n k, n k), outputs of a record beside each other; no Jacobian is formed."""
    outputs, back = jax.vjp(lambda p: net(p, X), params)

    def column(unit: Array) -> Array:
        (gradient,) = back(unit.reshape(outputs.shape))
        return jax.jvp(lambda p: net(p, X), (params,), (gradient,))[1].ravel()

    return jax.lax.map(column, jnp.eye(outputs.size))


def stable_rate(net: Attacked, params: object, X: Any) -> float:
    """A learning rate of `Descent`: 0.3 over the largest eigenvalue of the tangent kernel of records X (n, ...).

    At momentum 0.9 the expansion at `params` diverges above 3.8 over it; a network's kernel grows while it is trained.
    """
    return 0.3 / float(np.linalg.eigvalsh(np.float64(tangent_kernel(net, params, jnp.asarray(X))))[-1])


def kernel_distance(K: Any, other: Any) -> float:
    """1 - tr(K^T K') / (|K| |K'|), in [0, 2]: how far the kernel has turned."""
    K, other = np.float64(K), np.float64(other)
    return float(1.0 - np.sum(K * other) / (np.linalg.norm(K) * np.linalg.norm(other)))
