"""PSG: images whose network gradients point in the direction of the records' noised gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.method import Distilled, Method, Progress, no_progress
from dpdistill.methods.descent import Descent
from dpdistill.methods.matching import check_pixels, labels, start_images
from dpdistill.networks.convnet import block_outputs, conv3x3, conv3x3_patches
from dpdistill.networks.network import ConvNet, dense
from dpdistill.query import Release
from dpdistill.recipe.methods import psg as recipe
from dpdistill.schema import Schema


@dataclass(frozen=True)
class KernelGradientQuery:
    """u = the gradient of a record's cross-entropy by a ConvNet's kernels, flat; the curator clips it.

    Params: the network's parameters (`ConvNet.init`). The query leaves out biases and the norms' affine maps, since
    matching does not use their gradients.

    Guarantee: sensitivity C under add-or-remove, 2 C under replace-one: the curator clips each contribution.
    Source: Abadi et al., 2016; Chen et al., 2022 (Private set generation with discriminative information).
    """

    clip_norm: float
    by_class = False
    encoder = None

    def contribution(self, params: object, x: Array, y: Array) -> Array:
        gradient = jax.grad(lambda params: cross_entropy(params, x[None], y[None], conv3x3_patches))(params)
        return jnp.concatenate([kernel.ravel() for kernel in kernels(gradient)])


class PSG(recipe.PSG, Method):
    """Private set generation: gradient matching on noised gradients, in networks that are trained on the set itself.

        a fresh network theta, networks times; then, outer times,
          batches times   G = sum over a Poisson sample of clip(grad_theta of the cross-entropy of a record) + noise
                          S <- S - Adam(grad_S sum over output channels of 1 - cos(grad_theta of S's mean loss, G))
          inner times     theta <- theta - network_rate grad_theta of S's mean loss

    The cosine ignores norms, so that the method does not need the number of records.

    Guarantee: networks x outer x batches releases of sensitivity C (add-or-remove). Networks start from public
    randomness and are trained on S, which follows the releases: everything else is post-processing.
    Source: Chen et al., 2022, algorithm 1 and its code, with Adam and an average of the images instead of 100,000
    steps of SGD; cosines per output channel as in Zhao, Mopuri & Bilen, 2021.
    """

    def descent(self) -> Descent:
        return Descent(self.learning_rate, self.networks * self.outer * self.batches, self.average)

    def init(self, key: Array, schema: Schema) -> Any:
        check_pixels(schema.shape)
        network_key, image_key = jax.random.split(key)
        images = start_images(image_key, len(schema.classes) * self.per_class, schema)
        return {
            "key": jax.random.key_data(network_key),
            "images": self.descent().start(images),
            "network": self._network(network_key, 0, schema.shape, len(schema.classes)),
        }

    def ask(self, state: Any) -> tuple[KernelGradientQuery, Any]:
        return KernelGradientQuery(self.clip_norm), state["network"]

    def tell(self, state: Any, release: Release) -> Any:
        images, network, t = state["images"], state["network"], release.round
        classes = len(network["head"]["bias"])
        y = labels(classes, self.per_class)
        target = _reshape(jnp.asarray(release.value, jnp.float32), network)
        images = self.descent().step(images, pull(network, images.X, y, target), t)
        part, done = divmod(t + 1, self.batches)
        if not done and part % self.outer:
            for _ in range(self.inner):
                network = _trained(network, images.X, y, self.network_rate)
        elif not done:
            network = self._network(state["key"], part // self.outer, images.X.shape[1:], classes)
        return {**state, "images": images, "network": network}

    def finish(self, state: Any, schema: Schema, progress: Progress = no_progress) -> Distilled:
        X = np.clip(np.asarray(state["images"].average), -1.0, 1.0)
        return Distilled(X, labels(len(schema.classes), self.per_class), schema)

    def _network(self, key: Array, number: int, shape: tuple[int, ...], classes: int) -> Any:
        seed = int(jax.random.randint(jax.random.fold_in(key, number), (), 0, 2**31 - 1))
        return ConvNet(seed, self.width).init(shape, classes)


def cross_entropy(params: Any, X: Array, y: Array, conv: Any = conv3x3) -> Array:
    """Returns the mean cross-entropy of a ConvNet on images X (n, h, w, c) with classes y (n,)."""
    scores = dense(block_outputs(params["blocks"], X, conv)[-1], params["head"])
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), y[:, None], 1).mean()


def kernels(params: Any) -> list[Array]:
    """Returns the kernels among a ConvNet's parameters or their gradients, outputs last."""
    return [block["kernel"] for block in params["blocks"]] + [params["head"]["kernel"]]


def distance(gradient: list[Array], target: list[Array]) -> Array:
    """Returns the sum over layers and output channels of 1 - cos(gradient, target); a channel of zeros counts 1.

    Args:
        gradient, target: gradients of the kernels, output channels last.
    """

    def unit(kernel: Array) -> Array:
        columns = kernel.reshape(-1, kernel.shape[-1])
        return columns * jax.lax.rsqrt(jnp.maximum(jnp.square(columns).sum(0), 1e-24))

    return jnp.stack([(1.0 - (unit(g) * unit(t)).sum(0)).sum() for g, t in zip(gradient, target, strict=True)]).sum()


@jax.jit
def pull(network: Any, X: Array, y: Array, target: list[Array]) -> Array:
    """Returns grad_X of distance(g, target), g = grad_theta loss(theta, X), by a derivative along one direction.

        v = d distance / d g,    grad_X <v, g> = d/dh grad_X loss(theta + h v, X) at h = 0

    Args:
        network: theta.
        X: images, (n, h, w, c).
        y: their classes, (n,).
        target: gradients of the kernels, in the order of `kernels`.
    """
    found = jax.grad(cross_entropy)(network, X, y)
    v = jax.grad(lambda gradient: distance(kernels(gradient), target))(found)
    by_images = jax.grad(cross_entropy, 1)
    return jax.jvp(lambda network: by_images(network, X, y), (network,), (v,))[1]


@jax.jit
def _trained(network: Any, X: Array, y: Array, rate: float) -> Any:
    """Returns the network after one step of SGD on all images."""
    return jax.tree.map(lambda p, g: p - rate * g, network, jax.grad(cross_entropy)(network, X, y))


def _reshape(flat: Array, network: Any) -> list[Array]:
    """Splits a flat contribution, or a sum of contributions, into the kernels."""
    shapes = [kernel.shape for kernel in kernels(network)]
    ends = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
    return [part.reshape(shape) for part, shape in zip(jnp.split(flat, ends), shapes, strict=True)]
