"""ResNet-18 for small images at its random initialisation, with group norm, so that records are not mixed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from dpdistill.networks import network
from dpdistill.networks.network import Params, check_sizes, convolve, dense, init_layers, unit_affine
from dpdistill.recipe import networks as recipe

STAGES = ((1, 1), (2, 2), (4, 2), (8, 2))
"""Width relative to the first stage's, and stride, of the four stages, two blocks each."""


def group_norm(X: Array, affine: dict[str, Array], groups: int) -> Array:
    """Returns (x - mean) / sqrt(var + 1e-5) over the places and channels of each group of (n, h, w, c), then the affine
    map.
    """
    n, h, w, c = X.shape
    centred = X.reshape(n, h * w, groups, c // groups)
    centred = centred - centred.mean((1, 3), keepdims=True)
    variance = jnp.square(centred).mean((1, 3), keepdims=True)
    return (centred * lax.rsqrt(variance + 1e-5)).reshape(X.shape) * affine["scale"] + affine["offset"]


class ResNet18(recipe.ResNet18, network.Network):
    """ResNet-18 with a 3 x 3 first convolution of stride 1 and no max pool, as is usual for small images.

        block(x) = relu(norm(conv(relu(norm(conv(x))))) + shortcut(x)),   shortcut = identity or norm(conv 1 x 1)

    Group norm replaces batch norm: the output for a record depends on no other record.

    Args:
        seed: public seed of the parameters.
        width: channels of the first stage, > 0; 64 gives the standard 11 million parameters.
        groups: of the group norm, > 0, a divisor of `width`.

    Source: He, Zhang, Ren & Sun, 2016 (Deep residual learning); Wu & He, 2018 (Group normalization).
    """

    def init(self, shape: tuple[int, ...], classes: int) -> Params:
        check_sizes(shape, classes, self.least_side)
        channels, kernels = self.width, [("stem", (3, 3, shape[2], self.width))]
        for index in range(2 * len(STAGES)):
            width = STAGES[index // 2][0] * self.width
            kernels += [(f"first{index}", (3, 3, channels, width)), (f"second{index}", (3, 3, width, width))]
            if channels != width:
                kernels.append((f"shortcut{index}", (1, 1, channels, width)))
            channels = width
        names, shapes = zip(*kernels, ("head", (channels, classes)), strict=True)
        layers = init_layers(self.seed, shapes, [name == "head" for name in names])
        affine = [unit_affine(s[-1]) if name != "head" else {} for name, s in zip(names, shapes, strict=True)]
        return {name: {**layer, **unit} for name, layer, unit in zip(names, layers, affine, strict=True)}

    def activations(self, params: Params, X: Array) -> list[Array]:
        """Returns outputs of the 17 convolutional layers after ReLU (and the shortcut's sum), and the logits."""
        X = jax.nn.relu(self._norm_conv(X, params["stem"], 1))
        outputs = [X]
        for index in range(2 * len(STAGES)):
            stride = STAGES[index // 2][1] if index % 2 == 0 else 1
            hidden = jax.nn.relu(self._norm_conv(X, params[f"first{index}"], stride))
            shortcut = params.get(f"shortcut{index}")
            X = X if shortcut is None else self._norm_conv(X, shortcut, stride)
            X = jax.nn.relu(X + self._norm_conv(hidden, params[f"second{index}"], 1))
            outputs += [hidden, X]
        return [*outputs, dense(X.mean((1, 2)), params["head"])]

    def _norm_conv(self, X: Array, unit: dict[str, Array], stride: int) -> Array:
        kernel = unit["kernel"]
        return group_norm(convolve(X, kernel, stride, kernel.shape[0] // 2), unit, self.groups)
