"""DP-KIP: a support set moved by noisy gradients of kernel ridge regression's loss on the private records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import one_hot
from dpdistill.method import Distilled, Progress, no_progress, release_field
from dpdistill.methods.kip_gradient import CountQuery, FCNTKGradient, FeatureGradient, PlainGradient
from dpdistill.methods.matching import check_fields, check_share, labels
from dpdistill.methods.support import (
    adam,
    check_pictures,
    encode,
    fc_ntk_params,
    feature_params,
    pull_back,
    start_support,
)
from dpdistill.query import Release, Stage
from dpdistill.schema import AnySchema


@dataclass(frozen=True, kw_only=True)
class DPKIP:
    """Kernel inducing points under privacy, with ghost clipping where the kernel allows it.

        L(X_s) = sum_i || y_i - k_is (K_ss + ridge tr(K_ss) / m I)^-1 y_s ||^2 / (2 classes)
        X_s <- X_s - Adam( (sum_i clip(dL_i / dX_s) + noise) / stddev )

    For the FC-NTK and for kernels of fixed features no per-record gradient is ever formed; with features the release
    is the gradient with respect to the support set's features, and pixels follow by the chain rule. The support set
    starts from noise and stays in [-1, 1]; its labels are fixed. With balance b, a first round releases the classes'
    sizes n_c, and a clipped gradient counts (n_min / n_c)^b times. Adam sees sums in units of the noise, so that
    clip norms of 1e-7 do not meet its own epsilon.

    Guarantee: rounds releases of sensitivity C (add-or-remove); what is done with them is post-processing.
    Source: Vinaroz & Park, 2024 (Differentially private kernel inducing points using features from ScatterNets),
    algorithm 1.
    """

    kernel: Any = release_field(FCNTK(), "kernel of the regression: a name, see the table of kernels")
    per_class: int = release_field(10, "synthetic records a class")
    rounds: int = release_field(150, "noisy gradient steps")
    sampling_prob: float = release_field(0.06, "Poisson sampling probability of a step")
    ridge: float = release_field(1e-2, "regularisation, relative to the mean of the kernel's diagonal")
    clip_norm: float = release_field(1e-2, "L2 bound of one record's gradient")
    learning_rate: float = release_field(0.1, "of Adam, decayed by a cosine")
    start_noise: float = release_field(1.0, "standard deviation of the noise that the support set starts from")
    corrupted: float = release_field(0.0, "share of the pixels that are fixed to noise and left out of the gradient")
    balance: float = release_field(0.0, "1: every class weighs the same, whatever its size; 0: every record does")
    count_share: float = release_field(0.05, "share of the budget for the classes' sizes, where balance is not 0")
    average: float = release_field(0.9, "exponential average of the support set: it is what is handed out")

    title = "DP-KIP: differentially private kernel inducing points"
    references = (
        "Vinaroz, M., Park, M. (2024). Differentially Private Kernel Inducing Points using features from ScatterNets "
        "(DP-KIP-ScatterNet) for Privacy Preserving Data Distillation. TMLR.",
        "Nguyen, T., Chen, Z., Lee, J. (2021). Dataset Meta-Learning from Kernel Ridge-Regression. ICLR.",
    )
    name = "dp-kip"
    private = True
    tables = True

    def __post_init__(self) -> None:
        check_fields(
            per_class=self.per_class,
            rounds=self.rounds,
            clip_norm=self.clip_norm,
            learning_rate=self.learning_rate,
            start_noise=self.start_noise,
            ridge=self.ridge,
        )
        check_share("corrupted", self.corrupted)
        check_share("average", self.average)
        check_share("count_share", self.count_share, low=1e-6)
        if not 0.0 <= self.balance <= 1.0:
            raise ValueError(f"Expected 0 <= balance={self.balance} <= 1.")
        if self.balance and not isinstance(self.kernel, FCNTK | FeatureKernel):
            raise ValueError("Expected kernel=fc-ntk or a kernel of features with balance.")

    def plan(self) -> tuple[Stage, ...]:
        gradients = Stage(self.rounds, self.sampling_prob)
        if not self.balance:
            return (gradients,)
        # A sampled round costs about (q / sigma)^2 of mu^2: weight^2 / (weight^2 + rounds q^2) = share.
        weight = self.sampling_prob * math.sqrt(self.rounds * self.count_share / (1.0 - self.count_share))
        return (Stage(1, 1.0, weight), gradients)

    def init(self, key: Array, schema: AnySchema, public: np.ndarray | None = None) -> Any:
        check_pictures(self.kernel, schema)
        start_key, mask_key = jax.random.split(key)
        images = start_support(start_key, len(schema.classes), self.per_class, schema, self.start_noise)
        kept = np.asarray(jax.random.uniform(mask_key, images.shape) >= self.corrupted)
        optimiser = jax.tree.map(np.asarray, self._optimiser().init(jnp.asarray(images)))
        state = {
            "round": np.zeros((), np.int32),
            "images": images,
            "average": images,
            "kept": kept,
            "weights": np.ones(len(schema.classes)),
            "optimiser": optimiser,
        }
        if (
            self.balance
        ):  # gradients are not the first query then: one that cannot be asked is refused before that is paid
            self.ask({**state, "round": np.ones((), np.int32)})
        return state

    def query(self, m: int) -> Any:
        """The query of every round for m support records."""
        if isinstance(self.kernel, FCNTK):
            return FCNTKGradient(self.clip_norm, self.kernel, self.ridge, m)
        if isinstance(self.kernel, FeatureKernel):
            return FeatureGradient(self.clip_norm, self.kernel.encoder, self.ridge, m)
        return PlainGradient(self.clip_norm, self.kernel, self.ridge)

    def ask(self, state: Any) -> tuple[Any, Any]:
        X, classes = state["images"], len(state["images"]) // self.per_class
        if self.balance and state["round"] == 0:
            return CountQuery(classes), {}
        y, query = labels(classes, self.per_class), self.query(len(state["images"]))
        if isinstance(query, FCNTKGradient):
            return query, fc_ntk_params(query.kernel, X, y, classes, self.ridge, state["weights"])
        if isinstance(query, FeatureGradient):
            return query, feature_params(encode(query.encoder, X), y, classes, self.ridge, state["weights"])
        return query, {"X_s": X, "Y_s": one_hot(y, classes)}

    def tell(self, state: Any, release: Release) -> Any:
        if self.balance and state["round"] == 0:
            counts = np.maximum(release.value, max(1.0, release.stddev))
            return {**state, "round": np.ones((), np.int32), "weights": (counts.min() / counts) ** self.balance}
        X = state["images"]
        gradient = release.value.reshape(len(X), -1) / (release.stddev or self.clip_norm)
        if isinstance(self.kernel, FeatureKernel):
            gradient = pull_back(self.kernel.encoder, X, gradient)
        gradient = jnp.asarray(gradient.reshape(X.shape), jnp.float32)
        return {**jax.tree.map(np.asarray, _step(self, state, gradient)), "weights": state["weights"]}

    def finish(self, state: Any, schema: AnySchema, progress: Progress = no_progress) -> Distilled:
        return Distilled(np.asarray(state["average"]), labels(len(schema.classes), self.per_class), schema)

    def _optimiser(self) -> optax.GradientTransformation:
        return adam(self.learning_rate, self.rounds)


@partial(jax.jit, static_argnums=0)
def _step(method: Any, state: Any, gradient: Array) -> Any:
    gradient = jnp.where(state["kept"], gradient, 0.0)
    updates, optimiser = method._optimiser().update(gradient, state["optimiser"])
    images = jnp.clip(optax.apply_updates(state["images"], updates), -1.0, 1.0)  # type: ignore[arg-type]
    t = state["round"]
    decay = jnp.minimum(method.average, (1 + t) / (10 + t))
    average = decay * state["average"] + (1 - decay) * images
    average = jnp.where(state["kept"], average, images)
    return {**state, "round": t + 1, "images": images, "average": average, "optimiser": optimiser}
