"""Training images from a network's parameters before and after training, and how many were found again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from dpdistill.audit.attacked import Attacked, tangent_kernel
from dpdistill.method import Progress, no_progress

STAGES = 100
"""Parts of an attack; sharpness rises from one to the next."""


class Found(NamedTuple):
    """What an attacker holds.

    Args:
        X: reconstructed images, (m, ...).
        duals: of each image and output, at each point of the tangent space, (points, m, k).
        loss: squared distance to the parameters' change, over its squared length.
    """

    X: np.ndarray
    duals: np.ndarray
    loss: float


@dataclass(frozen=True)
class Reconstruction:
    """min over images x_j and duals a_j of  || theta_f - theta_0 - sum_j a_j . grad f(x_j) ||^2,   by Adam.

    Args:
        images: m, twice as many as were trained on is usual.
        steps: of Adam.
        learning_rate: of Adam.
        start: standard deviation of the first images.
        sharpness: of softplus in the place of ReLU, from the first stage to the last, in equal ratios.
        at: whose gradients: "final", "initial", or "both", which have duals of their own.
        batch: images that move in a step, drawn at random; the sum over the others is kept. None for all.

    Source: Loo, Hasani, Lechner & Rus, 2024 (Understanding reconstruction attacks with the neural tangent kernel and
    dataset distillation), algorithms 1 and 2, appendices H and I.
    """

    images: int
    steps: int = 20_000
    learning_rate: float = 0.02
    start: float = 0.2
    sharpness: tuple[float, float] = (10.0, 200.0)
    at: str = "final"
    batch: int | None = None

    def __post_init__(self) -> None:
        if self.at not in ("final", "initial", "both"):
            raise ValueError(f"Expected at as final, initial or both; got {self.at!r}.")
        if not 1 <= (self.batch or self.images) <= self.images:
            raise ValueError(f"Expected 1 <= batch={self.batch} <= images={self.images}.")

    def run(
        self,
        net: Attacked,
        before: Any,
        after: Any,
        shape: tuple[int, ...],
        *,
        seed: int = 0,
        progress: Progress = no_progress,
    ) -> Found:
        """Images of a shape from parameters before and after training; no training image is looked at.

        Args:
            net: the network.
            before: its parameters before training.
            after: the same afterwards.
            shape: of an image.
            seed: of the start and of the batches.
            progress: told the stages done.

        Raises:
            ValueError: parameters that did not change, or are not finite.
        """
        points = {"final": [after], "initial": [before], "both": [after, before]}[self.at]
        k = jax.eval_shape(net, after, jax.ShapeDtypeStruct((1, *shape), jnp.float32)).shape[1]
        image_key, dual_key, key = jax.random.split(jax.random.key(seed), 3)
        held = (
            self.start * jax.random.normal(image_key, (self.images, *shape)),
            jax.random.uniform(dual_key, (len(points), self.images, k), minval=-0.5, maxval=0.5),
        )
        change = jax.tree.map(jnp.subtract, after, before)
        size = optax.tree.norm(change, squared=True)
        if not 0 < float(size) < math.inf:
            raise ValueError("Expected parameters that training has changed, all finite: there is nothing to explain.")
        moments, rate = optax.scale_by_adam().init(held), (self.sharpness[1] / self.sharpness[0]) ** (1 / (STAGES - 1))
        stages = min(STAGES, self.steps)
        loss = jnp.inf
        for stage in range(stages):
            sharpness = self.sharpness[0] * rate ** (stage * STAGES // stages)
            steps = self.steps * (stage + 1) // stages - self.steps * stage // stages
            args = (points, change, jnp.float32(sharpness), jax.random.fold_in(key, stage))
            held, moments, loss = _stage(self, net, steps, held, moments, *args)
            progress("reconstructing", stage + 1, stages)
        X, duals = map(np.asarray, held)
        return Found(X, duals, float(loss / size))


def _gradient(net: Any, points: list[Any], X: Array, duals: Array, sharpness: Array) -> Any:
    """sum_j a_j . grad f(x_j), like the parameters."""
    parts = [jax.vjp(lambda p: net(p, X, sharpness), p)[1](a)[0] for p, a in zip(points, duals, strict=True)]
    return jax.tree.map(lambda *each: sum(each), *parts)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _stage(
    how: Reconstruction, net: Attacked, steps: int, held: Any, moments: Any, points: Any, change: Any, sharpness: Array,
    key: Array,
) -> Any:  # fmt: skip
    """Steps of Adam at one sharpness. The sum over all images is formed once, and follows the batches from then on."""
    adam, whole = optax.scale_by_adam(), how.batch is None or how.batch == how.images

    def loss(part: Any, rest: Any) -> tuple[Array, Any]:
        found = _gradient(net, points, part[0], part[1], sharpness)
        missing = jax.tree.map(lambda c, r, g: c - r - g, change, rest, found)
        return optax.tree.norm(missing, squared=True), found

    def step(carried: Any, key: Array) -> Any:
        held, moments, total = carried
        X, duals = held
        if whole:
            rest = jax.tree.map(jnp.zeros_like, change)
            (value, _), by_part = jax.value_and_grad(loss, has_aux=True)(held, rest)
            updates, moments = adam.update(by_part, moments)
            held = jax.tree.map(lambda a, u: a - how.learning_rate * u, held, updates)
            return (held, moments, total), value
        chosen = jax.random.permutation(key, how.images)[: how.batch]
        part = X[chosen], duals[:, chosen]
        rest = jax.tree.map(jnp.subtract, total, _gradient(net, points, part[0], part[1], sharpness))
        (value, _), (by_X, by_duals) = jax.value_and_grad(loss, has_aux=True)(part, rest)
        by_held = jnp.zeros_like(X).at[chosen].set(by_X), jnp.zeros_like(duals).at[:, chosen].set(by_duals)
        updates, after = adam.update(by_held, moments)
        # What is not in the batch stays, and keeps its moments.
        asked = jnp.zeros(how.images, bool).at[chosen].set(True)
        masks = asked.reshape(-1, *[1] * (X.ndim - 1)), asked[None, :, None]
        held = jax.tree.map(lambda m, a, u: jnp.where(m, a - how.learning_rate * u, a), masks, held, updates)
        known: Any = after
        mu, nu = (jax.tree.map(jnp.where, masks, *each) for each in ((known.mu, moments.mu), (known.nu, moments.nu)))
        moments = known._replace(mu=mu, nu=nu)
        total = jax.tree.map(jnp.add, rest, _gradient(net, points, held[0][chosen], held[1][:, chosen], sharpness))
        return (held, moments, total), value

    total = jax.tree.map(jnp.zeros_like, change) if whole else _gradient(net, points, held[0], held[1], sharpness)
    (held, moments, _), values = jax.lax.scan(step, (held, moments, total), jax.random.split(key, steps))
    return held, moments, values[-1]


class Curve(NamedTuple):
    """Training images beside what was taken for them, best first.

    Args:
        images: index of the training image, (n,).
        found: index of the reconstruction, (n,).
        distances: squared distance of the two, (n,), from the least up: the reconstruction curve.
    """

    images: np.ndarray
    found: np.ndarray
    distances: np.ndarray

    @property
    def error(self) -> float:
        """Mean of the curve."""
        return float(self.distances.mean())


def curve(members: np.ndarray, found: np.ndarray) -> Curve:
    """Pairs of training images and reconstructions: the nearest pair first, both then taken out, until none is left.

    Args:
        members: training images, (n, ...).
        found: reconstructions, (m, ...), m >= n.

    Raises:
        ValueError: fewer reconstructions of finite values than images.
    """
    A, B = (np.asarray(X, np.float64).reshape(len(X), -1) for X in (members, found))
    finite = np.asarray(np.isfinite(B).all(1))
    if finite.sum() < len(A):
        raise ValueError(f"Expected at least {len(A)} reconstructions of finite values; got {finite.sum()}.")
    B = np.where(finite[:, None], B, 0.0)
    left = np.square(A).sum(1)[:, None] - 2.0 * A @ B.T + np.square(B).sum(1)
    left[:, ~finite] = math.inf
    pairs = []
    for _ in range(len(A)):
        i, j = np.unravel_index(left.argmin(), left.shape)
        pairs.append((i, j, max(0.0, left[i, j])))
        left[i], left[:, j] = math.inf, math.inf
    images, taken, distances = zip(*pairs, strict=True)
    return Curve(np.array(images), np.array(taken), np.array(distances))


def outliers(net: Attacked, params: Any, X: Any, targets: Any, ridge: float = 1e-6) -> np.ndarray:
    """Size of the duals K^-1 (y - f_0) of training images, (n,): the larger, the easier an image is found again.

    Args:
        net: the network.
        params: before training.
        X: training images, (n, ...).
        targets: (n, k).
        ridge: times the mean of K's diagonal.
    """
    K = np.asarray(tangent_kernel(net, params, jnp.asarray(X)), np.float64)
    K += ridge * K.diagonal().mean() * np.eye(len(K))
    rest = np.asarray(targets, np.float64) - np.asarray(net(params, jnp.asarray(X)), np.float64)
    return np.linalg.norm(np.linalg.solve(K, rest.ravel()).reshape(rest.shape), axis=1)
