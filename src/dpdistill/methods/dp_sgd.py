"""DP-SGD: a network trained on noised gradients, and procedurally generated images with its soft labels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from dpdistill.kernels.feature import FeatureKernel
from dpdistill.method import Distilled, Method, Progress, no_progress
from dpdistill.networks.network import MLP, Network
from dpdistill.public_images.pictures import draw_pictures
from dpdistill.query import Release
from dpdistill.recipe.methods import dp_sgd as recipe
from dpdistill.schema import Schema

PICTURES = 500
"""Number of images scored at once."""


@dataclass(frozen=True)
class GradientQuery:
    """Query u = the flat gradient of a record's cross-entropy with respect to a network's parameters.

    Args:
        network: the network.
        clip_norm: C.
        encoder: fixed features that are the network's input, or None for pixels.

    Guarantee: sensitivity C under add-or-remove, 2 C under replace-one: the curator clips each contribution.
    Source: Abadi et al., 2016 (Deep learning with differential privacy).
    """

    network: Network
    clip_norm: float
    encoder: Any = None
    by_class = False

    def contribution(self, params: object, x: Array, y: Array) -> Array:
        x = x.reshape(1, 1, 1, -1) if self.encoder is not None else x[None]

        def loss(params: object) -> Array:
            return -jax.nn.log_softmax(self.network.apply(params, x)[0])[y]

        return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(jax.grad(loss)(params))])


class DPSGD(recipe.DPSGD, Method):
    """Trains a network on clipped, noised gradients, and labels procedurally generated images with it.

        round t   G_t = sum over a Poisson sample of clip(grad of the cross-entropy) + noise
                  theta <- Adam(theta, G_t), whose steps do not depend on the norm of G_t, so that the method does not
                  need the number of records
        finish    generated images, with softmax of the network's scores as soft labels

    Guarantee: rounds releases of sensitivity C (add-or-remove); finish is post-processing.
    Source: Abadi et al., 2016; Tramer & Boneh, 2021, for fixed features. Ours: images instead of a network.
    """

    kernel: FeatureKernel

    @property
    def net(self) -> MLP:
        """Returns the network of dense layers."""
        return MLP(widths=(self.hidden,) if self.hidden else ())

    @property
    def _adam(self) -> Any:
        return optax.adam(optax.cosine_decay_schedule(self.learning_rate, self.rounds))

    def init(self, key: Array, schema: Schema) -> Any:
        shape = schema.shape
        if self.sees == "features":
            record = jax.ShapeDtypeStruct((1, *shape), jnp.float32)
            shape = (1, 1, math.prod(jax.eval_shape(self.kernel.encoder, record).shape[1:]))
        seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
        params = replace(self.net, seed=seed).init(shape, len(schema.classes))
        # The last layer starts from zeros, so that the first gradients depend on the features alone.
        params[-1] = jax.tree.map(jnp.zeros_like, params[-1])
        state = {"params": params, "moments": self._adam.init(params)}
        return {"key": np.asarray(jax.random.key_data(key)), **jax.tree.map(np.asarray, state)}

    def ask(self, state: Any) -> tuple[GradientQuery, Any]:
        encoder = self.kernel.encoder if self.sees == "features" else None
        return GradientQuery(self.net, self.clip_norm, encoder), state["params"]

    def tell(self, state: Any, release: Release) -> Any:
        gradient = _reshape(release.value.astype(np.float32), state["params"])
        updates, moments = self._adam.update(gradient, state["moments"])
        moved = {"params": optax.apply_updates(state["params"], updates), "moments": moments}
        return {**state, **jax.tree.map(np.asarray, moved)}

    def scores(self, state: Any, X: np.ndarray) -> np.ndarray:
        """Returns the network's scores, (n, classes), of images X (n, h, w, c) in [-1, 1]."""
        parts = [X[i : i + PICTURES] for i in range(0, len(X), PICTURES)]
        return np.concatenate([np.asarray(_scores(self, state["params"], part)) for part in parts])

    def finish(self, state: Any, schema: Schema, progress: Progress = no_progress) -> Distilled:
        seed = int(jax.random.randint(jax.random.fold_in(state["key"], self.image_seed), (), 0, 2**31 - 1))
        X = draw_pictures(self.samples, schema.shape, seed)
        scores = self.scores(state, X)
        progress("labelling", 1, 1)
        soft = np.asarray(jax.nn.softmax(jnp.asarray(scores), 1))
        return Distilled(X, scores.argmax(1).astype(np.int32), schema, soft_labels=soft)


def _reshape(flat: np.ndarray, like: Any) -> Any:
    """Returns a flat gradient in the structure of the parameters."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
    parts = [part.reshape(leaf.shape) for part, leaf in zip(np.split(flat, ends), leaves, strict=True)]
    return jax.tree.unflatten(structure, parts)


@partial(jax.jit, static_argnums=0)
def _scores(method: DPSGD, params: object, X: Array) -> Array:
    if method.sees == "features":
        X = method.kernel.encoder(X).reshape(len(X), 1, 1, -1)
    return method.net.apply(params, X)
