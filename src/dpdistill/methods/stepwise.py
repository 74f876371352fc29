"""Base class of DM and NDPDC: one query of a fresh network, then one step of the images."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.method import Distilled, Method, Progress, no_progress
from dpdistill.methods.descent import Descent
from dpdistill.methods.matching import labels, network, signal_of, start_images
from dpdistill.query import Release
from dpdistill.recipe.methods import stepwise as recipe
from dpdistill.schema import Schema


class Stepwise(recipe.Stepwise, Method):
    """Asks a signal of network t, steps on || signal / count - mean of the synthetic features ||^2, and repeats."""

    per_class: int
    width: int
    count_floor: float
    average: float
    strategies: tuple[str, ...] = ()

    @abstractmethod
    def query(self) -> Any:
        """Returns the query of every round."""

    @abstractmethod
    def descent(self) -> Descent:
        """Returns the descent of the images."""

    def init(self, key: Array, schema: Schema) -> Any:
        network_key, image_key = jax.random.split(key)
        images = start_images(image_key, len(schema.classes) * self.per_class, schema)
        return {
            "key": jax.random.key_data(network_key),
            "round": jnp.zeros((), jnp.int32),
            "coordinates": jnp.zeros(len(schema.classes)),
            "images": self.descent().start(images),
        }

    def ask(self, state: object) -> tuple[Any, Any]:
        return self.query(), _params(self, state)

    def tell(self, state: object, release: Release) -> Any:
        return _step(self, state, _params(self, state), jnp.asarray(release.value, jnp.float32))

    def finish(self, state: Any, schema: Schema, progress: Progress = no_progress) -> Distilled:
        X = np.clip(np.asarray(state["images"].average), -1.0, 1.0)
        return Distilled(X, labels(len(schema.classes), self.per_class), schema)


def _params(method: Stepwise, state: Any) -> Any:
    return network(state["key"], state["round"], state["images"].X.shape[1:], method.width, method.strategies)


@partial(jax.jit, static_argnums=0)
def _step(method: Stepwise, state: Any, params: Any, value: Array) -> Any:
    """Returns the images after one step; counts are the mean of all constant coordinates released so far."""
    query, t = method.query(), state["round"]
    coordinates = state["coordinates"] + (value[:, 0] - state["coordinates"]) / (t + 1)
    weights = jnp.maximum(coordinates / query.count, method.sampling_prob * method.count_floor)
    target = value[:, 1:] / weights[:, None]

    def loss(images: Array) -> Array:
        return jnp.sum(jnp.square(signal_of(query, params, images, method.per_class) - target)) / query.scale

    moved = method.descent().step(state["images"], jax.grad(loss)(state["images"].X), t)
    return {**state, "round": t + 1, "coordinates": coordinates, "images": moved}
