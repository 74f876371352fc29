"""VGG-11 for small images, with group norm, so that records are not mixed."""

from __future__ import annotations

import jax
from jax import Array, lax

from dpdistill.networks import network
from dpdistill.networks.network import Params, check_sizes, convolve, dense, init_layers, unit_affine
from dpdistill.networks.resnet import group_norm
from dpdistill.recipe import networks as recipe

STAGES = ((1, 1), (2, 1), (4, 2), (8, 2), (8, 2))
"""Width relative to the first stage's, and number of convolutions, of the five stages; a max pool follows each."""


class VGG11(recipe.VGG11, network.Network):
    """VGG-11 without its two wide dense layers: eight 3 x 3 convolutions, 2 x 2 max pools, a mean, a dense layer.

    Group norm replaces batch norm: the output for a record depends on no other record. Maps with a side of 1 are not
    pooled.

    Args:
        seed: public seed of the parameters.
        width: channels of the first stage, > 0.
        groups: of the group norm, > 0, a divisor of `width`.

    Source: Simonyan & Zisserman, 2015 (Very deep convolutional networks); one dense layer as in Zhao, Mopuri & Bilen,
    2021 (Dataset condensation with gradient matching).
    """

    def init(self, shape: tuple[int, ...], classes: int) -> Params:
        check_sizes(shape, classes, self.least_side)
        widths = [times * self.width for times, count in STAGES for _ in range(count)]
        shapes = [(3, 3, a, b) for a, b in zip((shape[2], *widths), widths, strict=False)]
        layers = init_layers(self.seed, [*shapes, (widths[-1], classes)], [False] * len(shapes) + [True])
        return [{**layer, **unit_affine(width)} for layer, width in zip(layers, widths, strict=False)] + layers[-1:]

    def activations(self, params: Params, X: Array) -> list[Array]:
        """Returns outputs of the eight convolutional layers after ReLU, and the logits."""
        units, outputs = iter(params), []
        for _, count in STAGES:
            for _ in range(count):
                unit = next(units)
                X = jax.nn.relu(group_norm(convolve(X, unit["kernel"], 1, 1), unit, self.groups))
                outputs.append(X)
            if min(X.shape[1:3]) > 1:
                X = lax.reduce_window(X, -float("inf"), lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return [*outputs, dense(X.mean((1, 2)), next(units))]
