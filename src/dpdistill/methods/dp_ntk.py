"""DP-NTK: a generator whose mean embedding in the gradient of a random network matches one that is released once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.method import Progress, finish_field, release_field
from dpdistill.methods.generator import Generator
from dpdistill.methods.generator_method import GeneratorMethod
from dpdistill.methods.matching import Counting
from dpdistill.methods.training import ClassLoss, feasible, squared_distance
from dpdistill.query import MOST_ROWS

ROUNDING = 2.0**-53
EPSILON = 1e-5
MOST_BYTES = 500_000_000
"""Of a release: a ledger holds no larger one."""
FIRST = 1000
"""Number of the first layer's draw, apart from those of the generator."""


class Tangent(NamedTuple):
    """phi of ONE record as outer products: of what enters each dense layer, and the derivative of the summed outputs by
    the layer's pre-activations.

        phi = scale (in_1 out_1^T, ..., in_L out_L^T),   scale = 1 / sqrt(sum_l |in_l|^2 |out_l|^2)

    Args:
        inputs: in_l, (d_l + 1,), a 1 for the bias behind the rest.
        outputs: out_l, (w_l,).
        scale: ().
    """

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    scale: Array


def tangent(weights: tuple[Array, ...], x: Array, classes: int) -> Tangent:
    """The gradient of the sum of a network's outputs, divided by its norm, at a flat record x (d,).

    The network: dense layers with ReLU, layer norm without affine, a dense layer of as many outputs as classes. All
    outputs have the same gradient by their own weights, (z, 1), z the normalised units; one copy times the root of
    their number has the same norm and inner products.

    Args:
        weights: kernels of the hidden layers with biases as last row, (d_l + 1, w_l); then the last layer's kernel,
            summed over its outputs, (w_L,).
        x: a record in [-1, 1], divided by the length scale.
        classes: outputs of the network.
    """
    *hidden, last = weights

    def total(shifts: list[Array]) -> tuple[Array, list[Array]]:
        h, inputs = x, []
        for W, shift in zip(hidden, shifts, strict=True):
            inputs.append(_with_bias(h))
            h = jax.nn.relu(inputs[-1] @ W + shift)
        z = (h - h.mean()) / jnp.sqrt(h.var() + EPSILON)
        return z @ last, [*inputs, _with_bias(z)]

    dtype = jnp.result_type(x, last)
    shifts = [jnp.zeros(W.shape[1], dtype) for W in hidden]
    outputs, inputs = jax.grad(total, has_aux=True)(shifts)
    outputs.append(jnp.full((1,), math.sqrt(classes), dtype))
    return Tangent(tuple(inputs), tuple(outputs), 1.0 / jnp.sqrt(_square(inputs, outputs)))


def _with_bias(h: Array) -> Array:
    return jnp.concatenate([h, jnp.ones(1, h.dtype)])


def _square(inputs: Any, outputs: Any) -> Array:
    squares = [jnp.sum(jnp.square(a)) * jnp.sum(jnp.square(b)) for a, b in zip(inputs, outputs, strict=True)]
    return jnp.sum(jnp.stack(squares))


def _joined(parts: list[Array]) -> Array:
    """Vectors one after the other. On a CPU `concatenate` copies them number by number: seven times as slow."""
    found, start = jnp.zeros(sum(map(len, parts)), parts[0].dtype), 0
    for part in parts:
        found, start = jax.lax.dynamic_update_slice(found, part, (start,)), start + len(part)
    return found


@dataclass(frozen=True)
class TangentQuery(Counting):
    """u_i = e_y (x) (a, sqrt(C^2 - a^2) phi(x_i)), phi the normalised gradient of a random network (`tangent`).

    No gradient is formed: it is of rank one a layer, so that a class's sum is one matrix product a layer.

    Params: weights as `tangent` takes them, float32.

    Args:
        count_coordinate: a / C.
        classes: of the data set.
        length_scale: what coordinates are divided by.
        clip_norm: C, the norm of every contribution.

    Guarantee:
        Sensitivity C under add-or-remove, and at most 2 C under replace-one. The norm is a closed form of the
        coefficients (in_l, out_l, scale): products of sums of squares in float64, whose relative error is below
        (max_l (d_l + w_l) + classes + 64) u, u = 2^-53; it is multiplied by 1 + 2^-20, which covers sizes below 2^32.
        A share of the weighted sum has norm at most C. Its coordinates are products of six factors, of which the
        one-hot is exact: four roundings, one in the matrix product, and at most 127 additions to the others of a
        block, 132 u in all; error_bound = (128 + 8) u C.

    Source: Yang et al., 2023 (Differentially private neural tangent kernels for privacy-preserving data generation).
    """

    count_coordinate: float
    classes: int
    length_scale: float = 1.0
    clip_norm: float = 1.0
    by_class = False

    @property
    def error_bound(self) -> float:
        return (MOST_ROWS + 8) * ROUNDING * self.clip_norm

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        inputs, outputs, scale = tangent(params, x.ravel() / self.length_scale, self.classes)
        own = jax.nn.one_hot(y, self.classes, dtype=scale.dtype)
        parts = [jnp.einsum("c,i,k->ick", own, a, b) for a, b in zip(inputs, outputs, strict=True)]
        return jnp.concatenate([self.count * own, *(self.bound * scale * part.ravel() for part in parts)])

    def prepare(self, params: Any) -> Any:
        return params

    def coefficients(self, params: Any, x: Array, y: Array) -> tuple[Tangent, Array]:
        found = tangent(params, x.ravel() / self.length_scale, self.classes)
        return found, jax.nn.one_hot(y, self.classes, dtype=found.scale.dtype)

    def norm(self, params: Any, coefficients: tuple[Tangent, Array]) -> Array:
        (inputs, outputs, scale), own = jax.tree.map(lambda a: a.astype(jnp.float64), coefficients)
        square = self.count**2 + jnp.square(self.bound * scale) * _square(inputs, outputs)
        return jnp.sqrt(square * jnp.sum(jnp.square(own))) * (1 + 2.0**-20)

    def weighted_sum(self, params: Any, coefficients: tuple[Tangent, Array], w: Array) -> Array:
        (inputs, outputs, scale), own = jax.tree.map(lambda a: a.astype(jnp.float64), coefficients)
        shares = own * w[:, None]
        parts = [self.count * shares.sum(0)]
        for a, b in zip(inputs, outputs, strict=True):
            by_class = (shares * (self.bound * scale)[:, None])[:, :, None] * b[:, None, :]
            parts.append((a.T @ by_class.reshape(len(b), -1)).ravel())
        return _joined(parts)

    def by_classes(self, value: np.ndarray, weights: tuple[np.ndarray, ...]) -> tuple[np.ndarray, tuple]:
        """Released (counts' coordinates (classes,), sums a layer (classes, d_l + 1, w_l)) of a release's value."""
        coordinates, rest, parts = value[: self.classes], value[self.classes :], []
        for shape in [*(W.shape for W in weights[:-1]), (len(weights[-1]) + 1, 1)]:
            size = self.classes * math.prod(shape)
            parts.append(np.moveaxis(rest[:size].reshape(shape[0], self.classes, shape[1]), 1, 0).astype(np.float32))
            rest = rest[size:]
        return coordinates, tuple(parts)


@dataclass(frozen=True)
class TangentMatch(ClassLoss):
    """|| mean of phi of generated records - released one ||^2 as `distance` has it; the means are matrix products too.

    Params: "weights" as `tangent` takes them; "targets", released means a layer, (classes, d_l + 1, w_l).
    """

    query: TangentQuery

    def __call__(self, params: Any, X: Array, step: Array) -> Array:
        inputs, outputs, scale = self._tangents(params["weights"], X)
        m, square, product = X.shape[1], jnp.zeros(len(X)), jnp.zeros(len(X))
        for a, b, target in zip(inputs, outputs, params["targets"], strict=True):
            mean = jnp.einsum("cmi,cmk->cik", a * (scale / m)[..., None], b)
            square += jnp.sum(jnp.square(mean), (1, 2))
            product += jnp.sum(mean * target, (1, 2))
        return squared_distance(m, square, jnp.ones(len(X)), product)

    def _tangents(self, weights: tuple[Array, ...], X: Array) -> Tangent:
        return jax.vmap(jax.vmap(lambda x: tangent(weights, x / self.query.length_scale, self.query.classes)))(X)


@dataclass(frozen=True, kw_only=True)
class DPNTK(GeneratorMethod):
    """Mean embeddings in a neural tangent kernel, then a generator as post-processing.

        release   S_c = sum over class c of (a, sqrt(1 - a^2) phi(x_i)) + noise,   all records, once
                  phi(x) = grad of sum_k f_k(x) / its norm,   f a random network: one or two dense layers with ReLU,
                  layer norm, a dense layer
        finish    min over G of  sum_c share_c || S_c / (sqrt(1 - a^2) count_c) - E_z phi(G(z, c)) ||^2

    Counts and shares come from the constant coordinate a of the same release, each class's embedding is divided by its
    own count, and the codes z are drawn afresh at each step.

    Images have no histograms, and would be read twice for them: marginal_share is 0 unless stated.

    Guarantee: all releases, of sensitivity 1 (add-or-remove), are calibrated together; finish is post-processing.
    Source: Yang et al., 2023 (DP-NTK), algorithm 1. Ours: the division by a class's own count in the place of all
    records, the unbiased distance, and the ReLU of a second layer.
    """

    width: int = release_field(800, "units of the network's hidden layer", at_least=1)
    length_scale: float = release_field(
        1.0, "coordinates are divided by it: the larger, the more a network sees how large they are", at_least=1e-3
    )
    second_width: int = release_field(0, "units of a second hidden layer; 0: there is none", at_least=0)
    code_size: int = finish_field(5, "random coordinates behind a synthetic record", at_least=1)
    hidden: int = finish_field(500, "width of the generator's hidden layers", at_least=1)
    convolutions: bool = finish_field(False, "a generator of images ends in convolutions; false: in a dense layer")

    name = "dp-ntk"
    title = "DP-NTK: mean embeddings in a neural tangent kernel"
    references = (
        "Yang, Y., Adamczewski, K., Sutherland, D. J., Li, X., Park, M. (2023). Differentially Private Neural Tangent "
        "Kernels for Privacy-Preserving Data Generation. arXiv:2303.01687.",
    )
    origin = "package default, the generator selected on a held-out part of MNIST's training set"
    linear = True

    def begin(self, key: Array, schema: Any) -> dict[str, Any]:
        classes = len(schema.classes)
        sizes = [schema.dimension, self.width]
        if self.second_width:
            sizes.append(self.second_width)
        entries = classes * (1 + sum((d + 1) * w for d, w in pairwise(sizes)) + sizes[-1] + 1)
        if 8 * entries > MOST_BYTES:
            raise ValueError(
                f"Expected a release of at most {MOST_BYTES:,} bytes; {classes} classes of {schema.dimension} "
                f"coordinates with width={self.width} and second_width={self.second_width} take {8 * entries:,}."
            )
        weights = []
        for i, (d, w) in enumerate(pairwise([*sizes, classes])):
            draw = jax.random.uniform(jax.random.fold_in(key, FIRST + i), (d + 1, w), minval=-1.0) / math.sqrt(d)
            weights.append(np.asarray(draw, np.float32))
        weights[-1] = weights[-1][:-1].sum(1)
        return {
            "key": np.asarray(jax.random.key_data(key)),
            "weights": tuple(weights),
            "sums": np.zeros(entries, np.float32),
            "classes": np.array(classes),
        }

    def ask_embedding(self, state: Any, t: int) -> tuple[TangentQuery, Any]:
        return TangentQuery(self.count_coordinate, int(state["classes"]), self.length_scale), state["weights"]

    def trained(self, state: Any, schema: Any, progress: Progress) -> tuple[Generator, np.ndarray]:
        query, weights = self.ask_embedding(state, 0)
        coordinates, sums = query.by_classes(state["sums"], weights)
        counts = self.counts(query, coordinates)
        flat = np.concatenate([part.reshape(len(part), -1) for part in sums], 1)
        ends = np.cumsum([part[0].size for part in sums])[:-1]
        means = np.split(feasible(flat / (query.bound * counts[:, None])), ends, 1)
        targets = tuple(mean.reshape(part.shape) for mean, part in zip(means, sums, strict=True))
        params = {"weights": weights, "targets": targets}
        return self.train(TangentMatch(query), params, counts, state["key"], schema, progress), counts
