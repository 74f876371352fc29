"""Perceptual features: the activations of all layers of an untrained ResNet-18."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from dpdistill.features.unit import unit_rows
from dpdistill.networks.resnet import ResNet18
from dpdistill.recipe import features as recipe


class Perceptual(recipe.Perceptual):
    """Activations of all 18 layers of a ResNet-18 at its random initialisation, of equal weight and norm 1 together.

        phi(x) = (a_1 / ||a_1||, ..., a_18 / ||a_18||) / sqrt(18)

    with a_l the flattened output of layer l. Without the norms the first layers, of a hundred times as many units,
    would decide every inner product; with them it is the mean over layers of the cosine, and ||phi(x)|| <= 1.

    Args:
        seed: public seed of the network.
        width: channels of the network's first stage, > 0, a multiple of `groups`.
        groups: groups of the network's group norm, > 0.
        classes: outputs of the last layer, > 0.

    Raises:
        ValueError: an argument out of its range, or an X that holds no images.

    Source: Vinaroz & Park, 2023 (Differentially private kernel inducing points using features from ScatterNets),
    section 2.5: the features, and the network. The norms are ours; the paper states none.

    Example:
        >>> Perceptual(width=8)(jnp.ones((2, 16, 16, 1))).shape
        (2, 17418)
    """

    def __call__(self, X: Array) -> Array:
        """Returns features (n, d) of images X (n, h, w, c), in their precision; d = 557,066 for 32 x 32, width 64."""
        X = jnp.asarray(X)
        if X.ndim != 4:
            raise ValueError(f"Expected X of shape (n, h, w, c); got {X.shape}.")
        network, X = self._network(), X.astype(jnp.result_type(X, jnp.float32))
        params = jax.tree.map(lambda p: p.astype(X.dtype), network.init(X.shape[1:], self.classes))
        layers = [unit_rows(a.reshape(len(X), -1)) for a in network.activations(params, X)]
        return jnp.concatenate(layers, axis=1) / len(layers) ** 0.5

    def _network(self) -> ResNet18:
        return ResNet18(self.seed, self.width, self.groups)
