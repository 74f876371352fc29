"""Trains a network on labelled records, or on a teacher's scores of images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from dpdistill.networks.augment import augment_each
from dpdistill.networks.network import ConvNet, Network

CONVNET = ConvNet()
AfterStep = Callable[[int, int], None]
"""after_step(done, steps): called after each step of a training; at its end done == steps, also if that is early."""
CACHED_IMAGES = 10
"""Images per gradient on a CPU: their activations fit its cache, which halves the time."""
STEPS_A_CALL = 500
"""Steps of a compiled loop on an accelerator."""
WINDOW, FALL = 80, 0.2
"""Steps over which a loss is averaged to see whether it is flat, and the factor of the learning rate where it is."""
OPTIMISERS = ("sgd", "adam", "muon")
MUON_RATE = 0.02
"""Largest step of Muon; students learn as much with 0.06, and less with 0.005. Learning rates apply to Adam."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """A recipe for training a network, with DSA; the final iterate is scored.

    Args:
        epochs: passes over the set; fewer if they exceed `most_steps`.
        most_steps: > 0: largest number of steps, in whole passes, at least one pass. 0: no bound.
        learning_rate: multiplied by 0.1 at half time ("step") or decayed by a cosine after a warm-up.
        schedule: "step" or "cosine".
        optimiser: "sgd" with momentum, "adam", or "muon": Adam with Nesterov's momentum, but for kernels of
            convolutions the momentum as an orthogonal matrix, in steps of `MUON_RATE` (Jordan et al., 2024, Muon: an
            optimizer for hidden layers in neural networks).
        scores: learn rows of scores by their squared distance; otherwise rows of probabilities by cross-entropy.
        batch: records a step at most.
        strategies: DSA strategies.
        network: the network to train; its seed is the training's.
        jacobian: weight > 0 for also learning the derivatives of a teacher's scores by the pixels (`Slopes`), if known
            (Czarnecki et al., 2017, Sobolev training; Srinivas & Fleuret, 2018, Jacobian matching).
        mixup: a > 0: records and labels are mixed with others of their batch, in a share from Beta(a, a), drawn once
            per step (Zhang et al., 2018, mixup). 0 for none.
        flat: > 0, for SGD: the learning rate falls when the mean loss of WINDOW steps is not lower by this share, and
            the training ends when the loss is flat again. 0: no earlier end.

    Raises:
        ValueError: another optimiser.
    """

    epochs: int
    learning_rate: float
    schedule: str
    momentum: float = 0.9
    weight_decay: float = 5e-4
    batch: int = 256
    network: Network = CONVNET
    strategies: tuple[str, ...] = ("color", "crop", "cutout", "scale", "rotate")
    optimiser: str = "sgd"
    scores: bool = False
    jacobian: float = 0.0
    mixup: float = 0.0
    most_steps: int = 0
    flat: float = 0.0

    def __post_init__(self) -> None:
        if self.optimiser not in OPTIMISERS:
            raise ValueError(f"Expected optimiser={self.optimiser!r} among {', '.join(OPTIMISERS)}.")

    def with_flip(self) -> Training:
        """Returns a copy with mirror images as augmentation."""
        return replace(self, strategies=(*self.strategies, "flip"))


PAPER = Training(epochs=1000, learning_rate=0.01, schedule="step")
"""The literature's recipe: a thousand epochs, SGD 0.01, a tenth of it from half time on."""

QUICK = Training(epochs=200, learning_rate=0.05, schedule="cosine", batch=50, most_steps=8000)
"""Warm-up, a larger step and a cosine, on smaller batches, in a fifth of the epochs: as accurate as PAPER.

Sets of more than 2,000 records get fewer epochs, in as many steps.
"""

PLATEAU = replace(QUICK, flat=0.03)
"""QUICK until the loss is flat."""

MIXUP = replace(QUICK, mixup=0.3)
"""QUICK on mixtures of two records: improves accuracy on photographs; about equal on clothes and digits."""

MUON = replace(MIXUP, optimiser="muon", learning_rate=2e-3)
"""MIXUP by Muon, in the same time: improves accuracy on photographs, not on clothes and digits."""

FURTHER = replace(MIXUP, epochs=60, learning_rate=0.01)
"""Continues the training of a network that a teacher has taught, on the set itself, in small steps."""

LARGE = Training(epochs=20, learning_rate=1e-3, schedule="cosine", weight_decay=1e-4, strategies=(), optimiser="adam")
"""Training for ten thousands of labelled records: Adam, few epochs, no augmentation."""

STUDENT = Training(
    epochs=4,
    learning_rate=2e-3,
    schedule="cosine",
    weight_decay=1e-4,
    batch=32,
    strategies=(),
    optimiser="muon",
    scores=True,
)
"""Training for ten thousands of images and a teacher's scores: Muon on the squared distance, in small batches."""

SLOPES = replace(STUDENT, jacobian=2.0)
"""STUDENT that also learns the scores' derivatives by the pixels: two to three times the time, more accurate."""


class Slopes(NamedTuple):
    """Derivatives of a teacher's scores by the pixels of n images: gradients of weighted sums of the scores.

    Args:
        weights: weights of the classes' scores, (n, classes).
        gradients: gradients of weights_i . scores(x_i) by x_i, times the units, (n, h, w, c).
        units: change of a pixel for a unit step of the teacher's input at its place, (n, h, w, c); None: 1.
    """

    weights: Any
    gradients: Any
    units: Any = None

    def of(self, gradients: Array) -> Array:
        """Returns gradients by x_i in the units of `gradients`."""
        return gradients if self.units is None else gradients * self.units


class Classifier(NamedTuple):
    """A trained network: classifier(X) returns the logits (n, classes) of records X (n, h, w, c)."""

    network: Network
    params: Any

    def __call__(self, X: np.ndarray | Array) -> Array:
        return _logits(self.network, self.params, X)


@partial(jax.jit, static_argnums=0)
def _logits(network: Network, params: object, X: Array) -> Array:
    return network.apply(params, X)


def optimiser(training: Training, steps: int) -> optax.GradientTransformation:
    def scheduled(rate: float) -> optax.Schedule:
        if training.schedule == "step":
            return optax.piecewise_constant_schedule(rate, {steps // 2: 0.1})
        return optax.warmup_cosine_decay_schedule(0.0, rate, steps // 10, max(steps, 1))

    rate, decay = scheduled(training.learning_rate), training.weight_decay
    if training.optimiser == "adam":
        return optax.adamw(rate, weight_decay=decay)
    if training.optimiser == "muon":
        return optax.contrib.muon(
            scheduled(MUON_RATE),
            weight_decay=decay,
            adam_learning_rate=rate,
            adam_weight_decay=decay,
            muon_weight_dimension_numbers=_as_matrices,
        )
    steps_of_sgd = [optax.add_decayed_weights(decay), optax.sgd(rate, training.momentum)]
    if training.flat:
        steps_of_sgd += [optax.contrib.reduce_on_plateau(FALL, 1, rtol=training.flat, accumulation_size=WINDOW)]
    return optax.chain(*steps_of_sgd)


def _is_flat(training: Training, opt_state: Any) -> bool:
    """Returns whether the loss was flat twice: at the full learning rate and at a share of it."""
    return training.flat > 0 and float(opt_state[-1].scale) < 1.5 * FALL**2


def _as_matrices(params: object) -> Any:
    """Returns how Muon reshapes kernels of convolutions (h, w, in, out) to matrices; None for parameters of Adam."""
    as_matrix = optax.contrib.MuonDimensionNumbers(reduction_axis=(0, 1, 2), output_axis=3)
    return jax.tree.map(lambda leaf: as_matrix if leaf.ndim == 4 else None, params)


@partial(jax.jit, static_argnames=("training", "steps"))
def _batch(
    key: Array, t: Array, X: Array, Y: Array, training: Training, steps: int, slopes: Slopes | None = None
) -> tuple[Array, Array, Slopes | None]:
    """Returns the augmented batch of step t: an epoch is a new permutation, repeated to fill the last batch."""
    size = min(training.batch, X.shape[0])
    per_epoch = -(-X.shape[0] // size)
    epoch_key, batch_key = jax.random.fold_in(key, t // per_epoch), jax.random.fold_in(key, steps + t)
    order = jax.random.permutation(epoch_key, X.shape[0])
    rows = jnp.take(order, (jnp.arange(size) + (t % per_epoch) * size) % X.shape[0])
    images, labels = augment_each(batch_key, X[rows], training.strategies), Y[rows]
    if slopes is not None:
        # One key, one draw: the gradient of a mirror image is the mirror image of the gradient.
        by_pixel = jax.tree.map(lambda a: augment_each(batch_key, a[rows], training.strategies), slopes[1:])
        slopes = Slopes(slopes.weights[rows], *by_pixel)
    if training.mixup:
        images, labels = _mixed(jax.random.fold_in(batch_key, size), images, labels, training.mixup)
    return images, labels, slopes


def _mixed(key: Array, X: Array, Y: Array, a: float) -> tuple[Array, Array]:
    """Mixes each record and its row of labels with another's, in one share for all."""
    share_key, other_key = jax.random.split(key)
    share, other = jax.random.beta(share_key, a, a), jax.random.permutation(other_key, len(X))
    return share * X + (1 - share) * X[other], share * Y + (1 - share) * Y[other]


@partial(jax.jit, static_argnames=("network", "scores", "jacobian"))
def _gradient(
    network: Network, params: object, X: Array, Y: Array, slopes: Slopes | None, scores: bool, jacobian: float
) -> Any:
    def loss(params: object) -> Array:
        if slopes is None:
            outputs = network.apply(params, X)
            return jnp.square(outputs - Y).mean(1).sum() if scores else optax.softmax_cross_entropy(outputs, Y).sum()

        def weighted(X: Array, weights: Array = slopes.weights) -> tuple[Array, Array]:
            outputs = network.apply(params, X)
            return jnp.vdot(weights, outputs), outputs

        gradients, outputs = jax.grad(weighted, has_aux=True)(X)
        return (
            jnp.square(outputs - Y).mean(1).sum() + jacobian * jnp.square(slopes.of(gradients) - slopes.gradients).sum()
        )

    return jax.value_and_grad(loss)(params)


@partial(jax.jit, static_argnames=("training", "steps"), donate_argnums=(0, 1))
def _update(params: Any, opt_state: Any, gradients: list, size: int, training: Training, steps: int) -> tuple:
    loss, mean = jax.tree.map(lambda *parts: sum(parts) / size, *gradients)
    transformation = optax.with_extra_args_support(optimiser(training, steps))
    updates, opt_state = transformation.update(mean, opt_state, params, value=loss)
    return optax.apply_updates(params, updates), opt_state


def train_classifier(
    key: Array,
    X: np.ndarray,
    Y: np.ndarray,
    training: Training,
    slopes: Slopes | None = None,
    params: object = None,
    after_step: AfterStep = lambda done, steps: None,
) -> Classifier:
    """Returns a network trained on records X (n, h, w, c) in [-1, 1] with rows Y (n, classes) of labels or scores.

    Args:
        key: random key of the initialisation and the batches.
        X: records.
        Y: labels or scores.
        training: the training settings.
        slopes: derivatives of the scores, if known; used if training.jacobian is above 0.
        params: parameters of a network to train further; None draws new ones.
        after_step: called with the number of steps done and of all steps.

    Raises:
        ValueError: slopes with another augmentation than mirror images, with mixup, or without scores.
    """
    start = _start(key, X, Y, training, slopes, params)
    if jax.default_backend() != "cpu":
        return _in_one_loop(start, training, after_step)
    done, trained = 0, Classifier(training.network, start.params)
    for after in _steps(start, training):
        done, trained = done + 1, after
        after_step(done, start.steps)
    if done < start.steps:
        after_step(done, done)
    return trained


def training_steps(
    key: Array, X: np.ndarray, Y: np.ndarray, training: Training, slopes: Slopes | None = None
) -> Iterator[Classifier]:
    """Yields the network of `train_classifier` after each step; a caller must copy it before the next step."""
    return _steps(_start(key, X, Y, training, slopes), training)


class _Start(NamedTuple):
    """A network before its first step, and its training data."""

    params: Any
    opt_state: Any
    key: Array
    lesson: tuple[Array, Array, Slopes | None]
    size: int
    steps: int


def _start(
    key: Array, X: np.ndarray, Y: np.ndarray, training: Training, slopes: Slopes | None, params: Any = None
) -> _Start:
    if slopes is not None and (training.mixup or not training.scores or set(training.strategies) - {"flip"}):
        raise ValueError("Expected slopes with scores and no other augmentation than mirror images.")
    init_key, train_key = jax.random.split(key)
    network: Any = training.network
    if params is None:
        params = replace(network, seed=int(jax.random.bits(init_key))).init(X.shape[1:], Y.shape[1])
    else:
        params = jax.tree.map(jnp.copy, params)  # a step donates its arrays
    size = min(training.batch, X.shape[0])
    per_epoch = -(-X.shape[0] // size)
    most = training.most_steps // per_epoch if training.most_steps else training.epochs
    steps = max(1, min(training.epochs, most)) * per_epoch
    known = None if slopes is None or not training.jacobian else slopes
    lesson = jax.tree.map(jnp.asarray, (X, Y, known))
    return _Start(params, optimiser(training, steps).init(params), train_key, lesson, size, steps)


def _steps(start: _Start, training: Training) -> Iterator[Classifier]:
    # A Python loop, not lax.scan: XLA runs convolutions inside a loop on one thread of the CPU.
    network, (X, Y, known), (params, opt_state) = training.network, start.lesson, start[:2]
    part = CACHED_IMAGES if jax.default_backend() == "cpu" else start.size
    parts = [slice(i, i + part) for i in range(0, start.size, part)]
    for t in range(start.steps):
        batch = _batch(start.key, t, X, Y, training, start.steps, known)
        gradients = [
            _gradient(network, params, *jax.tree.map(itemgetter(p), batch), training.scores, training.jacobian)
            for p in parts
        ]
        params, opt_state = _update(params, opt_state, gradients, start.size, training, start.steps)
        yield Classifier(network, params)
        if (t + 1) % WINDOW == 0 and _is_flat(training, opt_state):
            return


def _in_one_loop(start: _Start, training: Training, after_step: AfterStep) -> Classifier:
    """Trains in one compiled loop for an accelerator, which would wait between the small calls of single steps."""
    params, opt_state = start[:2]
    until = 0
    for t in range(0, start.steps, STEPS_A_CALL):
        if _is_flat(training, opt_state):
            break
        until = min(t + STEPS_A_CALL, start.steps)
        params, opt_state = _many(
            params, opt_state, t, until, start.key, start.lesson, training, start.size, start.steps
        )
        after_step(until, start.steps)
    if until < start.steps:
        after_step(until, until)
    return Classifier(training.network, params)


@partial(jax.jit, static_argnames=("training", "size", "steps"))
def _many(
    params: object,
    opt_state: object,
    t: int,
    until: int,
    key: Array,
    lesson: tuple,
    training: Training,
    size: int,
    steps: int,
) -> tuple:
    def step(t: Array, state: tuple) -> tuple:
        batch = _batch(key, t, *lesson[:2], training, steps, lesson[2])
        gradient = _gradient(training.network, state[0], *batch, training.scores, training.jacobian)
        return _update(*state, [gradient], size, training, steps)

    return jax.lax.fori_loop(t, until, step, (params, opt_state))
