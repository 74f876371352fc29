"""DP-KIP: a support set trained by noisy gradients of kernel ridge regression's loss on the private records."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import Array

from dpdistill.kernels.kernel import Kernel
from dpdistill.method import Distilled, Method, Progress, no_progress
from dpdistill.methods.descent import Descent
from dpdistill.methods.draws import rng_of
from dpdistill.methods.gradient_routes import Route, route_of
from dpdistill.methods.kip_gradient import CountQuery
from dpdistill.methods.matching import labels
from dpdistill.methods.support import SMALL, check_pictures, start_support
from dpdistill.query import Release
from dpdistill.recipe.methods import dp_kip as recipe
from dpdistill.schema import AnySchema


class DPKIP(recipe.DPKIP, Method):
    """Kernel inducing points under privacy, with ghost clipping where the kernel allows it.

        L(X_s) = sum_i || y_i - k_is (K_ss + ridge tr(K_ss) / m I)^-1 y_s ||^2 / (2 classes)
        X_s <- X_s - Adam( (sum_i clip(dL_i / dX_s) + noise) / stddev )

    For the FC-NTK and for kernels of fixed features no per-record gradient is formed. With features the release is the
    gradient with respect to the support set's features, and pixels follow by the chain rule. The support set starts
    from noise and stays in [-1, 1]; its labels are fixed. With balance b, a first round releases the class sizes n_c,
    and a clipped gradient has the weight (n_min / n_c)^b. Sums are divided by the noise before Adam, so that small
    clip norms such as 1e-7 do not reach Adam's epsilon.

    Guarantee: rounds releases of sensitivity C (add-or-remove); everything else is post-processing.
    Source: Vinaroz & Park, 2024 (Differentially private kernel inducing points using features from ScatterNets),
    algorithm 1.
    """

    kernel: Kernel

    @property
    def linear(self) -> bool:
        return self._route.linear

    def init(self, key: Array, schema: AnySchema) -> Any:
        check_pictures(self.kernel, schema)
        start_key, mask_key = jax.random.split(key)
        images = start_support(start_key, len(schema.classes), self.per_class, schema, self.start_noise)
        state = {
            "round": np.zeros((), np.int32),
            "images": self._descent.start(images),
            "kept": rng_of(mask_key).random(images.shape, np.float32) >= self.corrupted,
            "weights": np.ones(len(schema.classes)),
        }
        return jax.tree.map(np.asarray, state)

    def ask(self, state: Any) -> tuple[Any, Any]:
        X, classes = state["images"].X, len(state["weights"])
        if self.balance and state["round"] == 0:
            return CountQuery(classes), {}
        y = labels(classes, self.per_class)
        return self._route.query(len(X)), self._route.params(X, y, classes, state["weights"])

    def tell(self, state: Any, release: Release) -> Any:
        t = state["round"]
        if self.balance and t == 0:
            counts = np.maximum(release.value, max(1.0, release.stddev))
            return {**state, "round": np.ones((), np.int32), "weights": (counts.min() / counts) ** self.balance}
        X = state["images"].X
        gradient = release.value.reshape(len(X), -1) / (release.stddev or self.clip_norm)
        gradient = self._route.by_record(X, gradient).reshape(X.shape).astype(np.float32)
        moved = self._descent.step(state["images"], np.where(state["kept"], gradient, np.float32(0.0)), t)
        return {**state, "round": np.int32(t + 1), "images": jax.tree.map(np.asarray, moved)}

    def finish(self, state: Any, schema: AnySchema, progress: Progress = no_progress) -> Distilled:
        return Distilled(np.asarray(state["images"].average), labels(len(schema.classes), self.per_class), schema)

    @property
    def _route(self) -> Route:
        return route_of(self.kernel, self.clip_norm, self.ridge)

    @property
    def _descent(self) -> Descent:
        return Descent(self.learning_rate, self.rounds, self.average, SMALL)
