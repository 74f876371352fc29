"""KIP: kernel inducing points without privacy, the baseline of the kernel family."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.features.apply import encode_slices, pull_back_slices
from dpdistill.kernels.kernel import Kernel
from dpdistill.kernels.ridge import check_definite, one_hot, solve
from dpdistill.method import Distilled, Method, Progress, no_progress
from dpdistill.methods.descent import Descent
from dpdistill.methods.matching import labels
from dpdistill.methods.support import SMALL, check_pictures, start_support
from dpdistill.query import Release
from dpdistill.recipe.methods import kip as recipe
from dpdistill.schema import AnySchema


@dataclass(frozen=True)
class BatchGradient:
    """Gradient of a batch's loss with respect to the support set and its targets, by one back-propagation.

    Params: Phi_s (m, d) features of the support set for a kernel of features, else X_s (m, ...); Y_s (m, classes).

    Guarantee: none; the norm of a record is unknown, so only the non-private curator answers this query.
    """

    kernel: Any
    ridge: float
    encoder: Any = None
    clip_norm: float = float("inf")
    by_class: bool = False
    error_bound: float = 0.0

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        return self.weighted_sum(params, (x[None], jax.nn.one_hot(y, params[1].shape[1])[None]), jnp.ones(1))

    def prepare(self, params: object) -> Any:
        return params

    def coefficients(self, params: Any, x: Array, y: Array) -> tuple[Array, Array]:
        return x, jax.nn.one_hot(y, params[1].shape[1], dtype=x.dtype)

    def norm(self, params: object, coefficients: tuple[Array, Array]) -> Array:
        return jnp.full((), jnp.finfo(jnp.float64).max)  # unknown

    def weighted_sum(self, params: Any, coefficients: tuple[Array, Array], w: Array) -> Array:
        X, Y = coefficients

        def loss(support: Array, targets: Array) -> Array:
            if self.encoder is None:
                K_ss, K_ts = self.kernel(support, support), self.kernel(X, support)
            else:
                K_ss, K_ts = support @ support.T, X @ support.T
            alpha = solve(K_ss.astype(w.dtype), targets.astype(w.dtype), self.ridge)
            residuals = K_ts.astype(w.dtype) @ alpha - (Y - 1.0 / Y.shape[1])
            return jnp.sum(w * jnp.mean(jnp.square(residuals), 1)) / 2

        gradients = jax.grad(loss, (0, 1))(*params)
        return jnp.concatenate([g.ravel() for g in gradients])


class KIP(recipe.KIP, Method):
    """X_s, y_s <- Adam on sum_i || y_i - k_is (K_ss + ridge tr(K_ss) / m I)^-1 y_s ||^2 over batches of records.

    Guarantee: none; only the non-private curator answers this query.
    Source: Nguyen et al., 2021 (Dataset meta-learning from kernel ridge-regression), algorithm 1.
    """

    kernel: Kernel

    def init(self, key: Array, schema: AnySchema) -> Any:
        check_pictures(self.kernel, schema)
        classes = len(schema.classes)
        images = start_support(key, classes, self.per_class, schema, self.start_noise)
        targets = one_hot(labels(classes, self.per_class), classes)
        return {"images": self._descent.start(images), "targets": self._descent.start(targets)}

    def ask(self, state: Any) -> tuple[BatchGradient, Any]:
        encoder, X = self.kernel.features, state["images"].X
        X = X if encoder is None else encode_slices(encoder, X)
        return BatchGradient(self.kernel, self.ridge, encoder), (X, state["targets"].X)

    def tell(self, state: Any, release: Release) -> Any:
        check_definite(release.value, self.ridge)
        X, Y = state["images"].X, state["targets"].X
        gradient, by_target = np.split(np.float32(release.value), [release.value.size - Y.size])
        gradient = gradient.reshape(len(X), -1)
        if self.kernel.features is not None:
            gradient = pull_back_slices(self.kernel.features, X, gradient)
        images, targets = self._descent.step(state["images"], gradient.reshape(X.shape)), state["targets"]
        if self.learn_labels:
            targets = replace(self._descent, bound=math.inf).step(targets, by_target.reshape(Y.shape))
        return jax.tree.map(np.asarray, {"images": images, "targets": targets})

    def finish(self, state: Any, schema: AnySchema, progress: Progress = no_progress) -> Distilled:
        y = labels(len(schema.classes), self.per_class)
        targets = np.asarray(state["targets"].X, np.float32) if self.learn_labels else None
        return Distilled(np.asarray(state["images"].X), y, schema, targets=targets)

    @property
    def _descent(self) -> Descent:
        return Descent(self.learning_rate, self.rounds, epsilon=SMALL)
