"""KIP, RKIP and RKIP-finite: distilled sets without noise. NOT private."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from dpdistill.attacks.attacked_networks import Attacked, tangent_kernel
from dpdistill.attacks.reconstruction import Reconstruction
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.method import Progress, no_progress

TWO_LAYERS = FCNTK(depth=2)
STEPS = 100
"""Number of steps of Adam per compiled call."""


class NotPrivate(NamedTuple):
    """Distilled set without any guarantee, which may reveal single records.

    Args:
        X: images, (m, ...).
        targets: targets of the images, (m, k).
    """

    X: np.ndarray
    targets: np.ndarray


@dataclass(frozen=True)
class Inducing:
    """Kernel inducing points of records X_t, y_t by Adam, for images alone.

        kip    || y_t - K_ts alpha_s ||^2
        rkip   alpha_s^T K_ss alpha_s - 2 alpha_t^T K_ts alpha_s + alpha_t^T K_tt alpha_t
        alpha = (K + ridge tr(K) / n I)^-1 y

    Args:
        loss: "kip" or "rkip".
        kernel: kernel of an infinitely wide network with two hidden layers.
        steps: number of steps of Adam.
        learning_rate: learning rate of Adam.
        ridge: relative to the mean of a kernel's diagonal.
        start: standard deviation of the first images.

    Source: Nguyen, Chen & Lee, 2021 (KIP); Loo et al., 2024 (RKIP, theorem 2 and appendix H).
    """

    loss: str
    kernel: Any = TWO_LAYERS
    steps: int = 20_000
    learning_rate: float = 1e-3
    ridge: float = 1e-5
    start: float = 0.2

    def __post_init__(self) -> None:
        if self.loss not in ("kip", "rkip"):
            raise ValueError(f"Expected loss as kip or rkip; got {self.loss!r}.")

    def distill(self, X: Any, targets: Any, to: Any, *, seed: int = 0, progress: Progress = no_progress) -> NotPrivate:
        """Returns images for targets `to` (m, k) from records X (n, ...) with targets (n, k)."""
        X, targets, to = (jnp.asarray(a, jnp.float32) for a in (X, targets, to))
        images = self.start * jax.random.normal(jax.random.key(seed), (len(to), *X.shape[1:]))
        moments = optax.adam(self.learning_rate).init(images)
        known = targets if self.loss == "kip" else _taught(self.kernel, X, targets, self.ridge)
        for t in range(0, self.steps, STEPS):
            images, moments = _adam(self, images, moments, X, known, to)
            progress("distilling", min(t + STEPS, self.steps), self.steps)
        return NotPrivate(np.asarray(images), np.asarray(to))

    def scores(self, made: NotPrivate, X: Any) -> np.ndarray:
        """Returns scores (n, k) of X (n, ...) by an infinitely wide network trained on the set."""
        S = jnp.asarray(made.X)
        alpha = _taught(self.kernel, S, jnp.asarray(made.targets), self.ridge)
        return np.asarray(_scored(self.kernel, jnp.asarray(X, jnp.float32), S, alpha))


@partial(jax.jit, static_argnums=0)
def _taught(kernel: Any, X: Array, targets: Array, ridge: float) -> Array:
    return duals(kernel(X, X), targets, ridge)


@partial(jax.jit, static_argnums=0)
def _scored(kernel: Any, X: Array, S: Array, alpha: Array) -> Array:
    return kernel(X, S) @ alpha


def duals(K: Array, targets: Array, ridge: float) -> Array:
    """Returns (K + ridge tr(K) / n I)^-1 targets."""
    n = len(K)
    return jax.scipy.linalg.solve(K + ridge * jnp.trace(K) / n * jnp.eye(n), targets, assume_a="pos")


def missed(how: Inducing, images: Array, X: Array, known: Array, to: Array) -> Array:
    """Returns the loss without constants; `known` are the records' targets for kip, and their duals for rkip."""
    K_ss, K_ts = how.kernel(images, images), how.kernel(X, images)
    alpha = duals(K_ss, to, how.ridge)
    if how.loss == "kip":
        return jnp.sum(jnp.square(known - K_ts @ alpha))
    return jnp.sum(alpha * (K_ss @ alpha)) - 2.0 * jnp.sum(known * (K_ts @ alpha))


@partial(jax.jit, static_argnums=0)
def _adam(how: Inducing, images: Array, moments: Any, X: Array, known: Array, to: Array) -> Any:
    adam = optax.adam(how.learning_rate)

    def step(carried: Any, _: None) -> Any:
        images, moments = carried
        gradient = jax.grad(lambda images: missed(how, images, X, known, to))(images)
        updates, moments = adam.update(gradient, moments)
        return (optax.apply_updates(images, updates), moments), None

    return jax.lax.scan(step, (images, moments), None, STEPS)[0]


def rkip_finite(
    net: Attacked,
    before: Any,
    after: Any,
    shape: tuple[int, ...],
    attack: Reconstruction,
    *,
    seed: int = 0,
    progress: Progress = no_progress,
) -> NotPrivate:
    """Returns a set from a network alone: few reconstructions, with targets K_RR a from the kernel.

    Args:
        net: the network.
        before: its parameters before training.
        after: its parameters after training.
        shape: shape of an image.
        attack: options of the attack, at one point of the tangent space. A few images replace many, without bounds.
        seed: seed of the attack.
        progress: receives the attack's stages.

    Raises:
        ValueError: an attack at both points.

    Source: Loo et al., 2024 (Understanding reconstruction attacks with the neural tangent kernel), section 6.
    """
    if attack.at == "both":
        raise ValueError("Expected an attack at final or initial; got both.")
    found = attack.run(net, before, after, shape, seed=seed, progress=progress)
    K = tangent_kernel(net, before, jnp.asarray(found.X))
    alpha = found.duals.sum(0)
    return NotPrivate(found.X, np.asarray(K @ alpha.ravel()).reshape(alpha.shape))
