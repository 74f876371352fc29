"""Queries and loss of DP-NTK: the gradient of a random network as features of a record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.methods.matching import Counting
from dpdistill.methods.training import ClassLoss, MeanEmbedding, squared_distance
from dpdistill.networks.network import convolve
from dpdistill.query import MOST_ROWS

ROUNDING = 2.0**-53
EPSILON = 1e-5


class Tangent(NamedTuple):
    """Features phi of ONE record as outer products of layer inputs and derivatives by pre-activations.

        phi = scale (in_1 out_1^T, ..., in_L out_L^T),   scale = 1 / sqrt(sum_l |in_l|^2 |out_l|^2)

    Args:
        inputs: in_l, (d_l + 1,), with a final 1 for the bias.
        outputs: out_l, (w_l,), the derivatives of the summed outputs by the layer's pre-activations.
        scale: ().
    """

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    scale: Array


def tangent(weights: tuple[Array, ...], x: Array, classes: int) -> Tangent:
    """Returns the normalised gradient of the sum of a network's outputs at a flat record x (d,).

    The network: dense layers with ReLU, layer norm without affine, a dense layer of as many outputs as classes. All
    outputs have the same gradient by their own weights, (z, 1), z the normalised units; one copy times the root of
    their number has the same norm and inner products.

    Args:
        weights: kernels of the hidden layers with biases as last row, (d_l + 1, w_l); then the last layer's kernel,
            summed over its outputs, (w_L,).
        x: a record in [-1, 1], divided by the length scale.
        classes: number of outputs of the network.
    """
    *hidden, last = weights

    def total(shifts: list[Array]) -> tuple[Array, list[Array]]:
        h, inputs = x, []
        for W, shift in zip(hidden, shifts, strict=True):
            inputs.append(_with_bias(h))
            h = jax.nn.relu(inputs[-1] @ W + shift)
        z = normalised(h)
        return z @ last, [*inputs, _with_bias(z)]

    dtype = jnp.result_type(x, last)
    shifts = [jnp.zeros(W.shape[1], dtype) for W in hidden]
    outputs, inputs = jax.grad(total, has_aux=True)(shifts)
    outputs.append(jnp.full((1,), math.sqrt(classes), dtype))
    return Tangent(tuple(inputs), tuple(outputs), 1.0 / jnp.sqrt(_square(inputs, outputs)))


def normalised(h: Array) -> Array:
    """Returns the layer norm, without affine map, of one record's activations (d,)."""
    return (h - h.mean()) / jnp.sqrt(h.var() + EPSILON)


def _with_bias(h: Array) -> Array:
    return jnp.concatenate([h, jnp.ones(1, h.dtype)])


def _square(inputs: Any, outputs: Any) -> Array:
    squares = [jnp.sum(jnp.square(a)) * jnp.sum(jnp.square(b)) for a, b in zip(inputs, outputs, strict=True)]
    return jnp.sum(jnp.stack(squares))


def _concatenate(parts: list[Array]) -> Array:
    """Concatenates vectors by updates, seven times as fast as `concatenate` on a CPU."""
    found, start = jnp.zeros(sum(map(len, parts)), parts[0].dtype), 0
    for part in parts:
        found, start = jax.lax.dynamic_update_slice(found, part, (start,)), start + len(part)
    return found


@dataclass(frozen=True)
class TangentQuery(Counting):
    """Query u_i = e_y (x) (a, sqrt(C^2 - a^2) phi(x_i)), phi the normalised gradient of a random network (`tangent`).

    No gradient is formed: gradients have rank one per layer, so that a class's sum is one matrix product per layer.

    Params: weights as `tangent` takes them, float32.

    Args:
        count_coordinate: a / C.
        classes: number of classes of the data set.
        length_scale: divisor of the coordinates.
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

    def prepare(self, params: object) -> Any:
        return params

    def coefficients(self, params: Any, x: Array, y: Array) -> tuple[Tangent, Array]:
        found = tangent(params, x.ravel() / self.length_scale, self.classes)
        return found, jax.nn.one_hot(y, self.classes, dtype=found.scale.dtype)

    def norm(self, params: object, coefficients: tuple[Tangent, Array]) -> Array:
        (inputs, outputs, scale), own = jax.tree.map(lambda a: a.astype(jnp.float64), coefficients)
        square = self.count**2 + jnp.square(self.bound * scale) * _square(inputs, outputs)
        return jnp.sqrt(square * jnp.sum(jnp.square(own))) * (1 + 2.0**-20)

    def weighted_sum(self, params: object, coefficients: tuple[Tangent, Array], w: Array) -> Array:
        (inputs, outputs, scale), own = jax.tree.map(lambda a: a.astype(jnp.float64), coefficients)
        shares = own * w[:, None]
        parts = [self.count * shares.sum(0)]
        for a, b in zip(inputs, outputs, strict=True):
            by_class = (shares * (self.bound * scale)[:, None])[:, :, None] * b[:, None, :]
            parts.append((a.T @ by_class.reshape(len(b), -1)).ravel())
        return _concatenate(parts)

    def by_classes(self, value: np.ndarray, weights: tuple[np.ndarray, ...]) -> tuple[np.ndarray, tuple]:
        """Returns (counts' coordinates (classes,), sums per layer (classes, d_l + 1, w_l)) of a release's value."""
        coordinates, rest, parts = value[: self.classes], value[self.classes :], []
        for shape in [*(W.shape for W in weights[:-1]), (len(weights[-1]) + 1, 1)]:
            size = self.classes * math.prod(shape)
            parts.append(np.moveaxis(rest[:size].reshape(shape[0], self.classes, shape[1]), 1, 0).astype(np.float32))
            rest = rest[size:]
        return coordinates, tuple(parts)


@dataclass(frozen=True)
class TangentMatch(ClassLoss):
    """Loss || mean of phi of generated records - released mean ||^2, as in `distance`, by matrix products.

    Params: "weights" as `tangent` takes them; "targets", released means per layer, (classes, d_l + 1, w_l).
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


@dataclass(frozen=True)
class ConvolutionTangentQuery(MeanEmbedding):
    """Query u = e_y (x) (a, sqrt(C^2 - a^2) phi(x)), phi the normalised gradient of a random convolutional network.

    The network: convolutions with 3 x 3 kernels and ReLU, layer norm without affine, a dense layer. A table's record is
    laid out as a square, row by row, zeros behind it.

    Params: kernels (3, 3, c, w) and biases (w,) of the convolutions, then the dense layer's kernel, summed over its
    outputs, (h w w_L,); float32.

    Args:
        count_coordinate: a / C.
        classes: number of outputs of the network.
        shape: input shape (h, w, c).
        length_scale: divisor of the coordinates.

    Guarantee:
        Sensitivity 1 under add-or-remove, at most 2 under replace-one. The coefficients are phi; the norm is a closed
        form of them, sums of squares in float64, whose relative error is below (len(phi) + 16) u, u = 2^-53; it is
        multiplied by 1 + 2^-20, which covers lengths below 2^32. Coordinates of a share of the weighted sum are
        products of three factors beside a one-hot: two roundings, one in the matrix product, and at most 127
        additions to the others of a block, 130 u in all; error_bound = (128 + 8) u.

    Source: Yang et al., 2023 (Differentially private neural tangent kernels for privacy-preserving data generation),
    cnn_2l.
    """

    count_coordinate: float
    classes: int
    shape: tuple[int, ...]
    length_scale: float = 1.0
    by_class = False

    @property
    def error_bound(self) -> float:
        return (MOST_ROWS + 8) * ROUNDING * self.clip_norm

    def features(self, params: object, X: Array) -> Array:
        """Returns phi(X), (..., D), of flat records (..., d)."""
        found = jax.vmap(lambda x: self._gradient(params, x))(X.reshape(-1, X.shape[-1]))
        return found.reshape(*X.shape[:-1], -1)

    def contribution(self, params: object, x: Array, y: Array) -> Array:
        phi, own = self.coefficients(params, x, y)
        return jnp.concatenate([self.count * own, (self.bound * jnp.outer(own, phi)).ravel()])

    def prepare(self, params: object) -> Any:
        return params

    def coefficients(self, params: object, x: Array, y: Array) -> tuple[Array, Array]:
        phi = self._gradient(params, x.ravel())
        return phi, jax.nn.one_hot(y, self.classes, dtype=phi.dtype)

    def norm(self, params: object, coefficients: tuple[Array, Array]) -> Array:
        phi, own = (a.astype(jnp.float64) for a in coefficients)
        square = self.count**2 + self.bound**2 * jnp.sum(jnp.square(phi))
        return jnp.sqrt(square * jnp.sum(jnp.square(own))) * (1 + 2.0**-20)

    def weighted_sum(self, params: object, coefficients: tuple[Array, Array], w: Array) -> Array:
        phi, own = (a.astype(jnp.float64) for a in coefficients)
        shares = own * w[:, None]
        return _concatenate([self.count * shares.sum(0), (shares.T @ (self.bound * phi)).ravel()])

    def by_classes(self, value: np.ndarray) -> np.ndarray:
        """Returns released sums per class, the count's coordinate first, (classes, 1 + D), of a release's value."""
        coordinates, sums = value[: self.classes, None], value[self.classes :].reshape(self.classes, -1)
        return np.concatenate([coordinates, sums], 1)

    def _gradient(self, params: Any, x: Array) -> Array:
        """Returns phi of ONE flat record, (D,)."""
        seen = jnp.pad(x / self.length_scale, (0, math.prod(self.shape) - len(x)))

        def total(params: Any) -> tuple[Array, Array]:
            *layers, last = params
            h = seen.reshape(1, *self.shape)
            for W, b in zip(layers[::2], layers[1::2], strict=True):
                h = jax.nn.relu(convolve(h, W, padding=1) + b)
            z = normalised(h.ravel())
            return z @ last, z

        (*gradients, _), z = jax.grad(total, has_aux=True)(params)
        # All outputs have the same gradient by their own weights: one copy times the root of their number.
        phi = jnp.concatenate([*(g.ravel() for g in gradients), math.sqrt(self.classes) * _with_bias(z)])
        return phi / jnp.linalg.norm(phi)
