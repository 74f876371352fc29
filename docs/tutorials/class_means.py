"""Class means, noised once: the smallest complete method."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from dpdistill.method import Distilled, Method, finish_field, no_progress, release_field
from dpdistill.query import Stage


@dataclass(frozen=True)
class PixelsAndOne:
    """A record's pixels, in [-1, 1], and a 1 that counts it, scaled so that no norm exceeds clip_norm."""

    clip_norm: float = 2.0**0.5
    by_class: bool = True
    encoder: None = None

    def contribution(self, params, x, y):
        return jnp.concatenate([jnp.ones(1), x.ravel() / x.size**0.5])


@dataclass(frozen=True, kw_only=True)
class ClassMeans(Method):
    """Noised means of each class, stored per_class times."""

    rounds: int = release_field(1, "releases of the same sums, which are averaged", ge=1)
    per_class: int = finish_field(1, "synthetic records a class", ge=1)

    name = "class-means"
    title = "CLASS-MEANS: noised means of each class"
    references = ()

    def plan(self):
        return (Stage(self.rounds),)

    def init(self, key, schema):
        return {"sums": np.zeros((len(schema.classes), 1 + schema.dimension))}

    def ask(self, state):
        return PixelsAndOne(), {}

    def tell(self, state, release):
        return {"sums": state["sums"] + release.value / self.rounds}

    def finish(self, state, schema, progress=no_progress):
        counts, sums = np.maximum(state["sums"][:, :1], 1.0), state["sums"][:, 1:]
        means = np.clip(sums * schema.dimension**0.5 / counts, -1.0, 1.0).astype(np.float32)
        y = np.repeat(np.arange(len(schema.classes), dtype=np.int32), self.per_class)
        return Distilled(means[y].reshape(-1, *schema.shape), y, schema)
