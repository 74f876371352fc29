"""Reconstructs training images from a network's parameters before and after training, and counts successes."""

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

from dpdistill.attacks.attacked_networks import Attacked, Smooth
from dpdistill.method import Progress, no_progress

STAGES = 100
"""Number of stages of an attack, with increasing sharpness."""
SMALLEST = 1e-4
"""Share of the largest singular value below which others count as zero, above single-precision rounding errors."""


class Found(NamedTuple):
    """Reconstructions of an attacker.

    Args:
        X: reconstructed images, (m, ...).
        duals: dual of each image and output, at each point of the tangent space, (points, m, k).
        loss: unexplained share of the parameters' change: squared distance over squared norm.
    """

    X: np.ndarray
    duals: np.ndarray
    loss: float


class Span(NamedTuple):
    """Span of the training images of a dense network, from the gradients of its first layer.

    Args:
        basis: orthonormal columns, (pixels, r), r at most the number of images.
        before: the network's parameters on coordinates in that basis instead of pixels.
        after: such parameters after training.
    """

    basis: np.ndarray
    before: Any
    after: Any


def span_of(before: Any, after: Any) -> Span | None:
    """Returns the span of the images behind a change of an MLP's first layer.

    Returns None if there are more images than units, or if that layer did not change.

    After gradient descent, with or without momentum, the change (pixels, units) is X^T times something of the size of
    the records, for any loss and number of steps, so that its rank is at most the number of records. With weight decay
    or Adam the rank is full in general, and there is no such span. Ours: the time of the search does not depend on the
    number of pixels.
    """
    change = np.float64(after[0]["kernel"]) - np.float64(before[0]["kernel"])
    U, sizes, _ = np.linalg.svd(change, full_matrices=False)
    rank = int((sizes > SMALLEST * sizes[0]).sum())
    if rank in (0, len(sizes)):
        return None
    basis = np.asarray(U[:, :rank], np.float32)
    turned = [
        [{**params[0], "kernel": basis.T @ np.asarray(params[0]["kernel"])}, *params[1:]] for params in (before, after)
    ]
    return Span(basis, *turned)


@dataclass(frozen=True)
class Reconstruction:
    """Search min over images x_j and duals a_j of  || theta_f - theta_0 - sum_j a_j . grad f(x_j) ||^2,   by Adam.

    Ours: images behind a network of dense layers are searched for in their span (`span_of`); duals are counted in
    units in which the start explains as much as there is; pixels are kept to the bounds, since a large image with a
    small dual has nearly the gradient of a small one with a large dual.

    Args:
        images: number m of images, usually twice the training images.
        steps: number of steps of Adam.
        learning_rate: learning rate of Adam for a pixel with bounds 1 apart, decayed by a cosine.
        start: standard deviation of a pixel of the first images, around the middle of the bounds.
        sharpness: sharpness of softplus instead of ReLU, from the first stage to the last, in equal ratios.
        at: network whose gradients are matched: "final", "initial" (complete for first-order training), or "both", with
            separate duals.
        batch: number of random images updated per step; the sum over the others is kept. None for all.
        bounds: bounds of a pixel as network input; None for any value, around 0.
        weight: weight of the mean squared distance to the bounds, relative to the unexplained share of the change.

    Source: Loo, Hasani, Lechner & Rus, 2024 (Understanding reconstruction attacks with the neural tangent kernel and
    dataset distillation), algorithms 1 and 2, appendices H and I.
    """

    images: int
    steps: int = 10_000
    learning_rate: float = 0.02
    start: float = 0.2
    sharpness: tuple[float, float] = (10.0, 200.0)
    at: str = "both"
    batch: int | None = None
    bounds: tuple[float, float] | None = (0.0, 1.0)
    weight: float = 10.0

    def __post_init__(self) -> None:
        if self.at not in ("final", "initial", "both"):
            raise ValueError(f"Expected at as final, initial or both; got {self.at!r}.")
        if not 1 <= (self.batch or self.images) <= self.images:
            raise ValueError(f"Expected 1 <= batch={self.batch} <= images={self.images}.")
        if self.bounds is not None and not self.bounds[0] < self.bounds[1]:
            raise ValueError(f"Expected bounds with the lower one first; got {self.bounds}.")

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
        """Returns reconstructions from parameters before and after training, without reading training images.

        Args:
            net: the network.
            before: its parameters before training.
            after: its parameters after training.
            shape: shape of an image.
            seed: seed of the start and of the batches.
            progress: receives the stages done.

        Raises:
            ValueError: parameters of other shapes, that did not change, or that are not finite.
        """
        shapes = [[np.shape(leaf) for leaf in jax.tree.leaves(params)] for params in (before, after)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"Expected parameters of the same shapes before and after; got {shapes[0]}, {shapes[1]}.")
        size = sum(float(np.square(leaf).sum()) for leaf in jax.tree.leaves(_change(before, after)))
        if not 0 < size < math.inf:
            raise ValueError("Expected parameters that training has changed, all finite: there is nothing to explain.")
        span = span_of(before, after) if isinstance(net, Smooth) else None
        if span is None:
            return self._search(net, before, after, shape, None, seed, progress)
        found = self._search(net, span.before, span.after, span.basis.shape[1:], span.basis, seed, progress)
        return found._replace(X=(found.X @ span.basis.T).reshape(-1, *shape))

    def _search(
        self, net: Attacked, before: Any, after: Any, shape: tuple[int, ...], basis: Any, seed: int,
        progress: Progress,
    ) -> Found:  # fmt: skip
        """Searches in the coordinates of a basis, or in pixels without a basis."""
        low, high = self.bounds or (-0.5, 0.5)
        scale = (high - low) * (1.0 if basis is None else math.sqrt(basis.shape[0] / basis.shape[1]))
        points = {"final": [after], "initial": [before], "both": [after, before]}[self.at]
        k = jax.eval_shape(net, after, jax.ShapeDtypeStruct((1, *shape), jnp.float32)).shape[1]
        image_key, dual_key, key = jax.random.split(jax.random.key(seed), 3)
        middle = 0.5 * (low + high) * (1.0 if basis is None else basis.sum(0))
        X = middle + self.start * scale * jax.random.normal(image_key, (self.images, *shape))
        duals = jax.random.uniform(dual_key, (len(points), self.images, k), minval=-0.5, maxval=0.5)
        change = _change(before, after)
        unit = _unit(net, points, change, X, duals, self.sharpness[0])
        problem = _Problem(points, change, unit, basis)
        held, growth = (X, duals), (self.sharpness[1] / self.sharpness[0]) ** (1 / (STAGES - 1))
        moments, share = optax.scale_by_adam().init(held), jnp.inf
        stages = min(STAGES, self.steps)
        for stage in range(stages):
            steps = self.steps * (stage + 1) // stages - self.steps * stage // stages
            rate = 0.5 * self.learning_rate * (1 + math.cos(math.pi * stage / stages))
            sharpness = self.sharpness[0] * growth ** (stage * STAGES // stages)
            rates = (jnp.float32(rate * scale), jnp.float32(rate))
            now = (jnp.float32(sharpness), rates, jax.random.fold_in(key, stage))
            held, moments, share = _stage(self, net, steps, problem, held, moments, *now)
            progress("reconstructing", stage + 1, stages)
        X, duals = map(np.asarray, held)
        return Found(X, float(unit) * duals, float(share))


class _Problem(NamedTuple):
    """Search problem: points of the tangent space, the change, the unit of duals, and a basis or None."""

    points: list[Any]
    change: Any
    unit: Array
    basis: Any


def _change(before: Any, after: Any) -> Any:
    """Returns after - before, by NumPy, since JAX would compile a program for every shape."""
    return jax.tree.map(lambda a, b: np.asarray(a) - np.asarray(b), after, before)


@partial(jax.jit, static_argnums=0)
def _unit(net: object, points: list[Any], change: object, X: Array, duals: Array, sharpness: object) -> Array:
    """Returns the unit of duals for which the initial sum has the norm of the change."""
    return optax.tree.norm(change) / optax.tree.norm(_gradient(net, points, X, duals, sharpness))


def _gradient(net: Any, points: list[Any], X: Array, duals: Array, sharpness: Any) -> Any:
    """Returns sum_j a_j . grad f(x_j), in the structure of the parameters."""
    parts = [jax.vjp(lambda p: net(p, X, sharpness), p)[1](a)[0] for p, a in zip(points, duals, strict=True)]
    return jax.tree.map(lambda *each: sum(each), *parts)


def _outside(how: Reconstruction, basis: Any, X: Array) -> Array:
    """Returns a batch's part of the mean squared distance of pixels to the bounds, in units of their width."""
    if how.bounds is None:
        return jnp.zeros(())
    pixels = X if basis is None else X @ basis.T
    found = jnp.mean(jnp.square((pixels - jnp.clip(pixels, *how.bounds)) / (how.bounds[1] - how.bounds[0])))
    return found * (len(X) / how.images)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _stage(
    how: Reconstruction, net: Attacked, steps: int, problem: _Problem, held: Any, moments: Any, sharpness: Array,
    rates: Any, key: Array,
) -> Any:  # fmt: skip
    """Runs steps of Adam at one sharpness, with separate rates for images and duals.

    The sum over all images is computed once, and updated by the batches.
    """
    adam, whole = optax.scale_by_adam(), how.batch is None or how.batch == how.images
    size = optax.tree.norm(problem.change, squared=True)

    def explained(X: Array, duals: Array) -> Any:
        return _gradient(net, problem.points, X, problem.unit * duals, sharpness)

    def loss(part: Any, rest: Any) -> tuple[Array, Array]:
        missing = jax.tree.map(lambda c, r, g: c - r - g, problem.change, rest, explained(*part))
        share = optax.tree.norm(missing, squared=True) / size
        return share + how.weight * _outside(how, problem.basis, part[0]), share

    def step(carried: Any, key: Array) -> Any:
        held, moments, total = carried
        X, duals = held
        if whole:
            rest = jax.tree.map(jnp.zeros_like, problem.change)
            (_, share), by_part = jax.value_and_grad(loss, has_aux=True)(held, rest)
            updates, moments = adam.update(by_part, moments)
            held = jax.tree.map(lambda a, u, rate: a - rate * u, held, updates, rates)
            return (held, moments, total), share
        chosen = jax.random.permutation(key, how.images)[: how.batch]
        part = X[chosen], duals[:, chosen]
        rest = jax.tree.map(jnp.subtract, total, explained(*part))
        (_, share), (by_X, by_duals) = jax.value_and_grad(loss, has_aux=True)(part, rest)
        by_held = jnp.zeros_like(X).at[chosen].set(by_X), jnp.zeros_like(duals).at[:, chosen].set(by_duals)
        updates, after = adam.update(by_held, moments)
        # Images outside the batch keep their values and moments.
        asked = jnp.zeros(how.images, bool).at[chosen].set(True)
        masks = asked.reshape(-1, *[1] * (X.ndim - 1)), asked[None, :, None]
        held = jax.tree.map(lambda m, a, u, rate: jnp.where(m, a - rate * u, a), masks, held, updates, rates)
        known: Any = after
        mu, nu = (jax.tree.map(jnp.where, masks, *each) for each in ((known.mu, moments.mu), (known.nu, moments.nu)))
        moments = known._replace(mu=mu, nu=nu)
        total = jax.tree.map(jnp.add, rest, explained(held[0][chosen], held[1][:, chosen]))
        return (held, moments, total), share

    total = jax.tree.map(jnp.zeros_like, problem.change) if whole else explained(*held)
    (held, moments, _), shares = jax.lax.scan(step, (held, moments, total), jax.random.split(key, steps))
    return held, moments, shares[-1]


class Curve(NamedTuple):
    """Reconstruction curve: pairs of training images and reconstructions, best first.

    Args:
        images: index of the training image, (n,).
        found: index of the reconstruction, (n,).
        distances: increasing squared distances of the pairs, (n,).
    """

    images: np.ndarray
    found: np.ndarray
    distances: np.ndarray

    @property
    def error(self) -> float:
        """Returns the mean of the curve."""
        return float(self.distances.mean())

    def rebuilt(self, baseline: float) -> int:
        """Returns the number of images reconstructed to less than half the distance from their mean.

        Args:
            baseline: mean squared distance of the images to their mean (`mean_image_error`).
        """
        return int((self.distances < baseline / 4).sum())


def curve(members: np.ndarray, found: np.ndarray) -> Curve:
    """Pairs training images and reconstructions greedily, nearest pair first.

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


def mean_image_error(X: np.ndarray) -> float:
    """Returns the mean squared distance of images (n, h, w, c) to their mean, or of a single image to grey."""
    known = X.mean(0) if len(np.unique(X.reshape(len(X), -1), axis=0)) > 1 else 0.5
    return float(np.square(X - known).sum((1, 2, 3)).mean())


def outliers(kernel: Any, at_start: object, targets: Any, ridge: float = 1e-6) -> np.ndarray:
    """Returns the size of the duals K^-1 (y - f_0) of training images, (n,), which is large for outliers.

    Args:
        kernel: the tangent kernel before training, (n k, n k).
        at_start: outputs before training, (n, k).
        targets: (n, k).
        ridge: ridge relative to the mean of K's diagonal.
    """
    K = np.array(kernel, np.float64)
    K += ridge * K.diagonal().mean() * np.eye(len(K))
    rest = np.asarray(targets, np.float64) - np.asarray(at_start, np.float64)
    return np.linalg.norm(np.linalg.solve(K, rest.ravel()).reshape(rest.shape), axis=1)
