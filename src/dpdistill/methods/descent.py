"""How synthetic records move: a step of an optimiser, back into bounds, and an average of where they were."""

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
"""pull(X, step): the gradient, with respect to synthetic records, of what a method asks of them."""


def held(pull: Pull, steps: int) -> Pull:
    """The gradient of every n-th step, n = steps, kept until the next: for one that is slow and changes little."""
    last: Any = None

    def pull_or_last(X: Any, step: int) -> Any:
        nonlocal last
        if step % steps == 0:
            last = pull(X, step)
        return last

    return pull_or_last


class Moved(NamedTuple):
    """Synthetic records on their way: where they are, the average of where they were, the optimiser's state."""

    X: Any
    average: Any
    optimiser: Any


@dataclass(frozen=True)
class Descent:
    """Steps down a gradient; frozen and hashable, so that a step compiles once.

        X <- clip(X - Adam(gradient), -bound, bound),   average <- d average + (1 - d) X,
        d = min(average, (1 + t) / (10 + t))

    Args:
        learning_rate: of Adam, decayed by a cosine over `steps`; of SGD, constant.
        steps: of Adam.
        average: the most that the past counts in the average; 0: the average is X itself.
        epsilon: of Adam.
        momentum: of SGD in the place of Adam; None for Adam.
        bound: of all numbers; infinite for what is no record.
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

    def start(self, X: Any) -> Moved:
        """X (a pytree of arrays) before the first step."""
        return Moved(X, X, self.optimiser().init(X))

    def along(self, X: Any, pull: Pull, progress: Progress) -> Moved:
        """All steps from X on; progress is told every tenth."""
        moved = self.start(X)
        for step in range(self.steps):
            moved = self.step(moved, pull(moved.X, step), step)
            if step % 10 == 9 or step + 1 == self.steps:
                progress("matching", step + 1, self.steps)
        return moved

    @partial(jax.jit, static_argnums=0)
    def step(self, moved: Moved, gradient: Any, t: Array | int = 0) -> Moved:
        """Step t, from 0, against a gradient like X; only the average asks for t."""
        updates, optimiser = self.optimiser().update(gradient, moved.optimiser)
        X: Any = optax.apply_updates(moved.X, updates)
        if math.isfinite(self.bound):
            X = jax.tree.map(lambda x: jnp.clip(x, -self.bound, self.bound), X)
        if not self.average:
            return Moved(X, X, optimiser)
        decay = jnp.minimum(self.average, (1 + t) / (10 + t))
        return Moved(X, jax.tree.map(lambda a, x: decay * a + (1 - decay) * x, moved.average, X), optimiser)
