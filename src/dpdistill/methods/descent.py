"""Optimises synthetic records: optimiser step, projection into bounds, and average of the iterates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from dpdistill.method import Progress

Pull = Callable[[Any, int], Any]
"""Type of pull(X, step), the gradient of a method's loss with respect to synthetic records X."""


def reuse(pull: Pull, steps: int) -> Pull:
    """Returns a pull that is computed every n-th step, n = steps, and reused in between."""
    last: Any = None

    def pull_or_last(X: Any, step: int) -> Any:
        nonlocal last
        if step % steps == 0:
            last = pull(X, step)
        return last

    return pull_or_last


class DescentState(NamedTuple):
    """State of a descent: the records, the average of their iterates, and the optimiser's state."""

    X: Any
    average: Any
    optimiser: Any


@dataclass(frozen=True)
class Descent:
    """Gradient descent; frozen and hashable, so that a step compiles once.

        X <- clip(X - Adam(gradient), -bound, bound),   average <- d average + (1 - d) X,
        d = min(average, (1 + t) / (10 + t))

    Args:
        learning_rate: learning rate; of Adam decayed by a cosine over `steps`, of SGD constant.
        steps: number of steps of Adam.
        average: largest decay d of the average; 0: the average is X itself.
        epsilon: epsilon of Adam.
        momentum: momentum of SGD; None for Adam.
        bound: bound on all numbers; infinite for anything but records.
    """

    learning_rate: float
    steps: int
    average: float = 0.0
    epsilon: float = 1e-8
    momentum: float | None = None
    bound: float = 1.0

    def optimiser(self) -> optax.GradientTransformation:
        if self.momentum is not None:
            return optax.sgd(self.learning_rate, self.momentum)
        return optax.adam(optax.cosine_decay_schedule(self.learning_rate, self.steps), eps=self.epsilon)

    def start(self, X: Any) -> DescentState:
        """Returns the state of X (a pytree of arrays) before the first step."""
        return DescentState(X, X, self.optimiser().init(X))

    def along(self, X: Any, pull: Pull, progress: Progress) -> DescentState:
        """Returns the state after all steps from X; reports every tenth step to progress."""
        moved = self.start(X)
        for step in range(self.steps):
            moved = self.step(moved, pull(moved.X, step), step)
            if step % 10 == 9 or step + 1 == self.steps:
                progress("matching", step + 1, self.steps)
        return moved

    @partial(jax.jit, static_argnums=0)
    def step(self, moved: DescentState, gradient: Any, t: Array | int = 0) -> DescentState:
        """Returns the state after step t, from 0, against a gradient like X; only the average uses t."""
        updates, optimiser = self.optimiser().update(gradient, moved.optimiser)
        X: Any = optax.apply_updates(moved.X, updates)
        if math.isfinite(self.bound):
            X = jax.tree.map(lambda x: jnp.clip(x, -self.bound, self.bound), X)
        if not self.average:
            return DescentState(X, X, optimiser)
        decay = jnp.minimum(self.average, (1 + t) / (10 + t))
        return DescentState(X, jax.tree.map(lambda a, x: decay * a + (1 - decay) * x, moved.average, X), optimiser)
