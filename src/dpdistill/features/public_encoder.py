"""Features of a public pre-trained network, read from an ONNX file that a recipe names by its hash."""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
from jax import Array

from dpdistill.encoders.cards import read_by_hash
from dpdistill.encoders.onnx_file import Graph, read_graph
from dpdistill.encoders.program import pooled
from dpdistill.features.batched import in_pieces
from dpdistill.features.unit import unit_rows
from dpdistill.recipe import encoders as recipe

_AT_ONCE = 40_000
"""Pixels of the images in a piece: their activations fit a processor's cache."""


class PublicEncoder(recipe.PublicEncoder):
    """Pooled activations of a network, one vector after another, of norm 1 together.

        phi(x) = (a_1, ..., a_k) / ||(a_1, ..., a_k)||,   a_j the mean of output j over positions or tokens
        of the image u = (x + 1) / 2, resized bilinearly to size x size pixels, minus `mean`, divided by `scale`

    A grey image has three equal channels for a network of colours; a network of grey images gets the mean of the
    colours. The features are zeros if one of them is not finite.

    The network is a fixed function of one image: its operators are a list of such functions, its shapes are those of
    one image, and its weights are constants of the file. It is read from the file with this hash, and from no other.

    Args:
        name: name of the encoder.
        sha256: hash of the ONNX file.
        source: where the file comes from.
        licence: licence of the weights.
        training_data: what the network was trained on.
        declared_by: who says that these data are public.
        size: side of the network's images, in pixels.
        mean: mean of the network's channels, in units of 1 for white.
        scale: divisor of the network's channels.
        outputs: names of outputs or inner values.

    Raises:
        ValueError: a value that is not allowed.

    Guarantee: ||phi(x)|| is 0 or 1 up to rounding; the curator enforces every bound by itself.
    Source: Tramer & Boneh, 2021 (Differentially private learning needs better features), features of public networks.
    """

    def __call__(self, X: Array) -> Array:
        """Returns features (n, d) of norm 1 of X (n, h, w, c).

        Raises:
            DataError: the file is not on this machine, or is refused.
        """
        features = in_pieces(self._features, _AT_ONCE // self.size**2)(jnp.asarray(X))
        largest = jnp.max(jnp.abs(features), 1, keepdims=True)  # NaN if a feature is
        return unit_rows(jnp.where(largest < jnp.inf, features, 0.0))

    def _features(self, X: Array) -> Array:
        X, dtype = (X + 1) / 2, X.dtype
        if X.shape[3] != len(self.mean):
            X = X.mean(3, keepdims=True)
            X = jnp.broadcast_to(X, (*X.shape[:3], len(self.mean)))
        X = jax.image.resize(X, (len(X), self.size, self.size, X.shape[3]), "bilinear")
        X = (X - jnp.asarray(self.mean, dtype)) / jnp.asarray(self.scale, dtype)
        return jnp.concatenate(pooled(_graph(self.sha256, self.name), X, self.outputs), 1)


@lru_cache(maxsize=4)
def _graph(sha256: str, name: str) -> Graph:
    return read_graph(read_by_hash(sha256, name))
