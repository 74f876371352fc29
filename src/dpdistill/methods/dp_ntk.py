"""DP-NTK: a generator that matches a mean embedding, released once, of a random network's gradients."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import jax
import numpy as np
from jax import Array

from dpdistill.method import Progress
from dpdistill.methods.draws import rng_of
from dpdistill.methods.generator import Generator
from dpdistill.methods.generator_method import GeneratorMethod
from dpdistill.methods.tangents import ConvolutionTangentQuery, TangentMatch, TangentQuery
from dpdistill.methods.training import Loss, Match, project_embeddings
from dpdistill.recipe.methods import dp_ntk as recipe
from dpdistill.schema import Schema

FIRST = 1000
"""Number of the first layer's draw; differs from the generator's draws."""


class DPNTK(recipe.DPNTK, GeneratorMethod):
    """Mean embeddings in a neural tangent kernel, then a generator as post-processing.

        release   S_c = sum over class c of (a, sqrt(1 - a^2) phi(x_i)) + noise,   all records, once
                  phi(x) = grad of sum_k f_k(x) / its norm,   f a random network: one or two dense layers or
                  convolutions with ReLU, layer norm, a dense layer
        finish    min over G of  sum_c share_c || S_c / (sqrt(1 - a^2) count_c) - E_z phi(G(z, c)) ||^2

    Counts and shares come from the constant coordinate a of the same release, each class's embedding is divided by its
    own count, and new codes z are drawn at each step.

    A data set of one class has the paper's unconditional generator.

    Images have no histograms, so that marginal_share is 0 unless stated.

    Guarantee: all releases, of sensitivity 1 (add-or-remove), are calibrated together; finish is post-processing.
    Source: Yang et al., 2023 (DP-NTK), algorithm 1. Ours: division by a class's own count instead of the number of all
    records, the unbiased distance, and the ReLU of a second layer.
    """

    def begin(self, key: Array, schema: Any) -> dict[str, Any]:
        classes = len(schema.classes)
        weights = self._weights(key, schema)
        entries = classes * (1 + sum(w.size for w in weights) + 1)
        return {
            "key": np.asarray(jax.random.key_data(key)),
            "weights": weights,
            "sums": np.zeros(entries, np.float32),
            "classes": np.array(classes),
            "shape": np.array(_input_shape(schema)),
        }

    def _weights(self, key: Array, schema: Any) -> tuple[np.ndarray, ...]:
        """Returns the random network's weights for the query, uniform in +-1 / sqrt(fan in)."""
        classes, sizes = len(schema.classes), [self.width, *([self.second_width] if self.second_width else [])]

        def draw(i: int, rows: int, width: int, shape: tuple[int, ...] = ()) -> np.ndarray:
            """Returns the kernel of layer i with its biases as last row."""
            drawn = rng_of(jax.random.fold_in(key, FIRST + i)).uniform(-1.0, 1.0, (rows + 1, width))
            return np.asarray(drawn / math.sqrt(rows), np.float32)

        if self.network == "dense":
            hidden = [draw(i, d, w) for i, (d, w) in enumerate(pairwise([schema.dimension, *sizes]))]
            outputs = sizes[-1]
        else:
            h, w, c = _input_shape(schema)
            kernels = [(draw(i, 9 * a, b), (3, 3, a, b)) for i, (a, b) in enumerate(pairwise([c, *sizes]))]
            hidden = [part for W, shape in kernels for part in (W[:-1].reshape(shape), W[-1])]
            outputs = h * w * sizes[-1]
        return (*hidden, draw(len(sizes), outputs, classes)[:-1].sum(1))

    def ask_embedding(self, state: Any, t: int) -> tuple[TangentQuery | ConvolutionTangentQuery, Any]:
        classes, shape = int(state["classes"]), tuple(int(side) for side in state["shape"])
        if self.network == "dense":
            return TangentQuery(self.count_coordinate, classes, self.length_scale), state["weights"]
        return ConvolutionTangentQuery(self.count_coordinate, classes, shape, self.length_scale), state["weights"]

    def trained(self, state: Any, schema: Any, progress: Progress) -> tuple[Generator, np.ndarray]:
        query, weights = self.ask_embedding(state, 0)
        if isinstance(query, TangentQuery):
            loss, params, counts = self._dense_loss(query, weights, state["sums"])
        else:
            counts, targets = self.targets(query, query.by_classes(state["sums"]))
            loss, params = Match(query), {"query": weights, "targets": targets}
        return self.train(loss, params, counts, state["key"], schema, progress), counts

    def _dense_loss(self, query: TangentQuery, weights: Any, sums: np.ndarray) -> tuple[Loss, Any, np.ndarray]:
        """Returns (loss, its params, released counts) of dense layers, with one embedding per layer."""
        coordinates, parts = query.by_classes(sums, weights)
        counts = self.counts(query, coordinates)
        flat = np.concatenate([part.reshape(len(part), -1) for part in parts], 1)
        ends = np.cumsum([part[0].size for part in parts])[:-1]
        means = np.split(project_embeddings(flat / (query.bound * counts[:, None])), ends, 1)
        targets = tuple(mean.reshape(part.shape) for mean, part in zip(means, parts, strict=True))
        return TangentMatch(query), {"weights": weights, "targets": targets}, counts


def _input_shape(schema: Any) -> tuple[int, ...]:
    """Returns the input shape of convolutions: an image, or a square that holds a table's record."""
    if isinstance(schema, Schema):
        return schema.shape
    side = math.isqrt(schema.dimension - 1) + 1
    return side, side, 1
