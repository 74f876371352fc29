"""A network of dense layers, whose tangent kernel has a formula, and a limit for infinite width."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
from jax import Array

from dpdistill.networks.network import Network, dense, init_layers


@dataclass(frozen=True)
class DenseNetwork(Network):
    """Dense layers with ReLU.

        standard:  h = x W + b, entries uniform in +-1/sqrt(fan_in)
        ntk:       h = sqrt(2 / fan_in) x W + 0.1 b, entries from N(0, 1); 1 / sqrt(fan_in) in the last layer

    Source: Jacot, Gabriel & Hongler, 2018 (Neural tangent kernel), section 3, for the ntk parameterisation.
    """

    seed: int = 0
    width: int = 1024
    depth: int = 1
    ntk: bool = False

    def init(self, shape: tuple[int, ...], classes: int) -> Any:
        shapes = list(pairwise((math.prod(shape), *[self.width] * self.depth, classes)))
        layers = init_layers(self.seed, shapes)
        if not self.ntk:
            return layers
        keys = jax.random.split(jax.random.key(self.seed), 2 * len(shapes))
        return [
            {"kernel": jax.random.normal(a, shape), "bias": jax.random.normal(b, shape[1:])}
            for a, b, shape in zip(keys[::2], keys[1::2], shapes, strict=True)
        ]

    def activations(self, params: Any, X: Array) -> list[Array]:
        X = X.reshape(X.shape[0], -1)
        outputs = []
        for i, layer in enumerate(params):
            last = i == self.depth
            if self.ntk:
                gain = math.sqrt((1 if last else 2) / X.shape[1])
                layer = {"kernel": gain * layer["kernel"], "bias": 0.1 * layer["bias"]}
            X = dense(X, layer) if last else jax.nn.relu(dense(X, layer))
            outputs.append(X)
        return outputs
