"""Chooses one of several kernels by two releases: class means of all features, then counts of rightly named records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.features.apply import encode_slices
from dpdistill.features.unit import unit_rows
from dpdistill.methods.softmax import SoftmaxQuery, read
from dpdistill.public_images.pictures import draw_pictures
from dpdistill.query import Release

COUNT = 0.2
"""First feature of every record, from which the records of a class are counted."""
LEAD = 1.0
"""Lead of the first candidate, in standard deviations of the noise in a difference of two counts."""
PICTURES = 200
"""Generated images from which the mean of features is computed."""


@dataclass(frozen=True)
class Candidates:
    """Features of several maps side by side, after a constant.

        phi(x) = (a, b phi_1(x) / ||phi_1(x)||, ..., b phi_K(x) / ||phi_K(x)||),   b = sqrt((1 - a^2) / K)

    Args:
        encoders: frozen and hashable feature maps, X (n, h, w, c) -> (n, d_k).
    """

    encoders: tuple[Any, ...]

    def __call__(self, X: Array) -> Array:
        """Returns features (n, 1 + sum of d_k) of norm at most 1 of X (n, h, w, c)."""
        parts = [self.factor * unit_rows(encoder(X)) for encoder in self.encoders]
        return jnp.concatenate([jnp.full((len(X), 1), COUNT, parts[0].dtype), *parts], 1)

    @property
    def factor(self) -> float:
        """The norm b of one map's features."""
        return math.sqrt((1.0 - COUNT**2) / len(self.encoders))


@dataclass(frozen=True)
class RightlyNamedQuery:
    """Query for the number of records whose class each candidate's class means name.

        u_ik = [argmax_c <phi_ik, M_kc> - offset_kc = y_i] / sqrt(K),   ||u_i|| <= 1

    Params: {"M": (D, classes), "offset": (K, classes)}, float64: from the released class sums of features.

    Args:
        sizes: numbers of features of the K candidates, of D - 1 together.
        encoder: the features of a record: a constant, then those of each candidate.

    Guarantee:
        Each of the K numbers is 0 or 1 / sqrt(K), so that the norm is at most 1.
    Source: ours.
    """

    sizes: tuple[int, ...]
    encoder: Any
    clip_norm: float = 1.0
    by_class: bool = False

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        """Returns u_i, (K,)."""
        phi, M = read(x, jnp.float32), params["M"].astype(jnp.float32)
        scores = jnp.stack([phi[part] @ M[part] for part in parts_of(self.sizes)]) - params["offset"]
        return (scores.argmax(1) == y) / math.sqrt(len(self.sizes))


@dataclass(frozen=True)
class ChosenQuery(SoftmaxQuery):
    """Query for the gradient of the logistic loss on the features of one candidate.

        u_i = psi_i (p_i - y_i)^T,   p_i = softmax(psi_i W),   psi_i the codes of the kept features, of norm 1

    Params: {"W": (D, classes), "kept": (D,), 1 for features of the candidate and 0 for others}, float64.

    Args:
        most: largest number of features of a candidate.

    Guarantee:
        psi_i is a coefficient, as phi_i is in SoftmaxQuery: norm, sum and error_bound are those of that query.
    Source: ours.
    """

    most: int = 0

    @property
    def signal_numbers(self) -> int:
        """Numbers of a sum that are not noise alone."""
        return self.most * self.classes

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        return super().contribution(params["W"], x * params["kept"].astype(x.dtype), y)

    def coefficients(self, params: Any, x: Array, y: Array) -> tuple[Array, Array]:
        return super().coefficients(params["W"], x * params["kept"].astype(x.dtype), y)


@lru_cache(maxsize=16)
def sizes_of(candidates: Candidates, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the numbers d_k of features of images of a shape."""
    record = jax.ShapeDtypeStruct((1, *shape), jnp.float32)
    return tuple(jax.eval_shape(encoder, record).shape[1] for encoder in candidates.encoders)


def parts_of(sizes: Sequence[int]) -> list[slice]:
    """Returns the places of each candidate's features; place 0 is the constant."""
    ends = np.cumsum([1, *sizes])
    return [slice(int(first), int(end)) for first, end in pairwise(ends)]


def class_means(sums: np.ndarray, public: np.ndarray, sizes: Sequence[int]) -> dict[str, np.ndarray]:
    """Returns M (D, classes) and the offsets (K, classes) of RightlyNamedQuery from released class sums.

        n_c = max(s_c0 / a, 1),   M_c = s_c / n_c - mean over the classes,   offset_kc = <public_k, M_kc>

    The score of a class is <phi - public, M_c>. Distances to the noisy means would have squares of their noise, which
    are larger than what the classes differ by; and noise along the mean of all features would shift a class's scores.

    Args:
        sums: class sums of features with noise, (D, classes).
        public: mean features of generated images, (D,).
        sizes: numbers of features of the candidates.
    """
    M = sums / np.maximum(sums[0] / COUNT, 1.0)
    M = M - M.mean(1, keepdims=True)
    return {"M": M, "offset": np.stack([public[part] @ M[part] for part in parts_of(sizes)])}


def counts_with_lead(release: Release, K: int) -> np.ndarray:
    """Returns the released numbers (K,) of rightly named records, with a lead of the first candidate.

        counts_k = sqrt(K) v_k,   and counts_1 + LEAD sqrt(2 K) s

    The first candidate is the default kernel. Among few records the numbers are mostly noise: another candidate is
    chosen only if it leads by more than that. This is post-processing, and without noise there is no lead.

    Args:
        release: v (K,) with noise of standard deviation s, of RightlyNamedQuery.
        K: number of candidates.
    """
    counts = release.value.reshape(-1) * math.sqrt(K)
    counts[0] += LEAD * math.sqrt(2.0 * K) * release.stddev
    return counts


@lru_cache(maxsize=4)
def public_mean(candidates: Candidates, shape: tuple[int, ...]) -> np.ndarray:
    """Returns the mean features (D,) of generated images of a shape, float64."""
    return encode_slices(candidates, draw_pictures(PICTURES, shape, seed=3)).astype(np.float64).mean(0)
