"""Ghost clipping: the kernel methods' linear queries beside the plain gradients that they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from contract.data import SCHEMA, make_records, toy_records
from contract.methods.small import SCATTER, asked, flattened, tiny
from contract.private.curators import make_curator
from contract.private.linear import check_linear_is_plain, check_linear_sensitivity, contributions, rows_of
from jax import Array

from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import one_hot, solve
from dpdistill.methods.kip_gradient import target_of
from dpdistill.private.noise import SeededEntropy
from dpdistill.programs.jaxprs import Refused
from dpdistill.programs.self_test import check_rows
from dpdistill.schema import Schema

KERNELS = {"features": SCATTER, "fc-ntk": FCNTK(), "fc-ntk of depth 2": FCNTK(2)}
PLAIN_KERNELS = {"plain features": FeatureKernel(flattened), "plain fc-ntk": FCNTK()}
LINEAR = ("softmax", "class sums", "softmax less means", *KERNELS)


def loss_of(kernel: Any, X_s: Array, Y_s: Array, ridge: float, x: Array, target: Array) -> Array:
    """Returns KIP's loss of one record: mean over classes of (k(x, X_s) alpha - target)^2 / 2."""
    alpha = solve(kernel(X_s, X_s), Y_s, ridge)
    return jnp.mean(jnp.square(kernel(x[None], X_s)[0] @ alpha - target)) / 2


@dataclass(frozen=True)
class PlainGradient:
    """Query u = d loss(x, y) / d X_s, by one back-propagation through the support set per record.

    Params: X_s (m, ...), Y_s (m, classes).

    Guarantee: the curator clips the vector itself.
    """

    clip_norm: float
    kernel: Any
    ridge: float
    by_class: bool = False
    encoder: None = None

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        X_s, Y_s = params["X_s"], params["Y_s"]
        target = target_of(y, Y_s.shape[1], X_s.dtype)
        return jax.grad(lambda X_s: loss_of(self.kernel, X_s, Y_s, self.ridge, x, target))(X_s).ravel()


@lru_cache(maxsize=2)
def linear_queries(schema: Schema = SCHEMA) -> dict[str, tuple[Any, Any]]:
    """The linear queries of the kernel methods by name, for tests of their values."""
    _, softmax = asked(tiny("decoupled-kip"), schema)
    sums, less_means = asked(tiny("decoupled-kip", means=0.5), schema)
    fields = {"clip_norm": 1e-6, "ridge": 1e-3}
    gradients = {name: asked(tiny("dp-kip", kernel=kernel, **fields), schema, 1)[0] for name, kernel in KERNELS.items()}
    return {"softmax": softmax, "class sums": sums, "softmax less means": less_means, **gradients}


@lru_cache(maxsize=2)
def plain_gradients(schema: Schema = SCHEMA) -> dict[str, tuple[Any, Any]]:
    """The gradients by one back-propagation through the support set per record, which DP-KIP's queries stand for."""
    images, classes = support_images(schema), len(schema.classes)
    params = {"X_s": images, "Y_s": one_hot(np.repeat(np.arange(classes), 2), classes)}
    return {name: (PlainGradient(1e-6, kernel, 1e-3), params) for name, kernel in PLAIN_KERNELS.items()}


def support_images(schema: Schema = SCHEMA) -> np.ndarray:
    """The support set behind the params of DP-KIP's queries, (m, h, w, c)."""
    return tiny("dp-kip").init(jax.random.key(1), schema)["images"].X


def check_ghost_sensitivity() -> None:
    """A record that is much longer than the clip norm moves the sum by the clip norm."""
    check_linear_sensitivity(*linear_queries()["fc-ntk"], make_records(5))


def check_ghost_norms() -> None:
    """Norms that are stated without forming a gradient are those of the gradients."""
    (query, params), (plain, plain_params) = linear_queries()["fc-ntk"], plain_gradients()["plain fc-ntk"]
    X, y = rows_of(query, make_records(60)), np.arange(60) % 3
    expected = contributions(plain, {name: np.float64(value) for name, value in plain_params.items()}, X, y)
    check_linear_is_plain(query, params, X, y, expected, 1e-6)


def check_ghost_rows_stand_alone() -> None:
    """What is computed of a record does not depend on who else is in its block."""
    query, params = linear_queries()["softmax"]
    try:
        check_rows(query, params, SCHEMA, 4)
    except Refused as error:
        raise AssertionError(str(error)) from None


def check_steps_without_the_clip_norm() -> None:
    """Where every gradient is clipped, DP-KIP moves its support set by the same steps whatever the clip norm is."""
    records, moved = toy_records(60), []
    for clip_norm in (1e-9, 1e-5):
        method = tiny("dp-kip", clip_norm=clip_norm, average=0.0)
        state = method.init(jax.random.key(0), SCHEMA)
        start = state["images"].X
        for _ in range(2):
            release = make_curator(records, entropy=SeededEntropy(2)).release(0, *method.ask(state))
            state = method.tell(state, release)
        moved.append(state["images"].X - start)
    assert np.abs(moved[1]).mean() > 0.1, "The support set does not move."
    off = np.abs(moved[0] - moved[1]).mean() / np.abs(moved[1]).mean()
    assert off < 0.02, "With a small clip norm the support set moves by less, or elsewhere."
