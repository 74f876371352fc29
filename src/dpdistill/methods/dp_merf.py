"""DP-MERF: a generator that matches a released mean embedding in random Fourier features, and released marginals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.method import Progress
from dpdistill.methods.draws import rng_of
from dpdistill.methods.generator import Generator, indicator_groups
from dpdistill.methods.generator_arrays import number_coordinates
from dpdistill.methods.generator_method import GeneratorMethod
from dpdistill.methods.training import Match, MeanEmbedding
from dpdistill.query import Query
from dpdistill.recipe.methods import dp_merf as recipe


def fourier(frequencies: Array, X: Array) -> Array:
    """Returns sqrt(1/k) (cos Wx, sin Wx), (..., 2k), of norm 1: random features of exp(-||x - z||^2 / (2 l^2))."""
    angles = X @ frequencies.T
    return jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], -1) / math.sqrt(max(1, len(frequencies)))


def mixed(parts: list[Array], weights: tuple[float, ...]) -> Array:
    """Concatenates parts of norm at most 1, (..., D), each times the root of its share of the squared norm.

    A part without coordinates leaves its share to the others.
    """
    kept = [(part, w) for part, w in zip(parts, weights, strict=True) if part.shape[-1] and w > 0]
    if not kept:
        raise ValueError("Expected category_share > 0, or joint features, for a table without numbers.")
    total = sum(w for _, w in kept)
    return jnp.concatenate([part * math.sqrt(w / total) for part, w in kept], -1)


@dataclass(frozen=True)
class FourierQuery(MeanEmbedding):
    """Query u = (a, sqrt(1 - a^2) phi(x)) of Fourier features and one-hot categories.

    Params: frequencies (k, d), coordinates of categories (q,), their scale 1 / sqrt(columns).

    Guarantee:
        Sensitivity 1 under add-or-remove, 2 sqrt(1 - a^2) or sqrt(2), whichever is larger, under replace-one: at most
        one coordinate of a categorical column is 1, so ||phi|| <= 1, and the frequencies are public.

    Source: Harder, Adamczewski & Park 2021 (DP-MERF), sections 3 and 4.2.
    """

    count_coordinate: float
    category_share: float

    def features(self, params: Any, X: Array) -> Array:
        """Returns phi(X), (..., D), of flat records (..., d)."""
        categories = X[..., params["categories"]] * params["scale"]
        return mixed([fourier(params["frequencies"], X), categories], (1.0 - self.category_share, self.category_share))


class DPMERF(recipe.DPMERF, GeneratorMethod):
    """Mean embeddings with random features and histograms of numbers, then a generator as post-processing.

        stage 0   S_c = sum over class c of (a, sqrt(1 - a^2) phi(x_i)) + noise,   all records, once
        stage 1   histograms of a table's numbers + noise
        finish    min over G of  sum_c share_c || S_c / (sqrt(1 - a^2) count_c) - E_z phi(G(z, c)) ||^2,
                  then each number of G is brought to its histogram

    Counts and shares come from the constant coordinate a of the same release, and each class's embedding is divided by
    its own count, so that rare classes keep their weight. With joint features the frequencies include categories, so
    that dependence between columns is matched. The frequencies' scale is public: the number of columns.

    Guarantee: stages 0 and 1, of sensitivity 1 (add-or-remove), are calibrated together; finish is post-processing.
    Source: Harder, Adamczewski & Park, 2021; heterogeneous and imbalanced tables after its sections 4.2 and 4.3; joint
    features, the unbiased distance and the marginals are ours.
    """

    def query(self) -> FourierQuery:
        return FourierQuery(self.count_coordinate, self.category_share)

    def begin(self, key: Array, schema: Any) -> dict[str, Any]:
        groups, numbers = indicator_groups(schema), number_coordinates(schema)
        d = schema.dimension
        seen = np.ones(d, bool) if self.joint else np.isin(np.arange(d), numbers)
        columns = len(numbers) + (len(groups) if self.joint else 0)
        k = self.frequencies if seen.any() else 0
        scale = self.length_scale * math.sqrt(max(1, columns))
        params = {
            "frequencies": rng_of(key).standard_normal((k, d), np.float32) / np.float32(scale) * seen,
            "categories": np.concatenate([np.zeros(0, np.int32), *groups]),
            "scale": np.float32(1.0 / math.sqrt(max(1, len(groups)))),
        }
        D = jax.eval_shape(self.query().features, params, jax.ShapeDtypeStruct((d,), jnp.float32)).shape[0]
        return {
            "key": np.asarray(jax.random.key_data(key)),
            "params": params,
            "sums": np.zeros((len(schema.classes), 1 + D), np.float32),
        }

    def ask_embedding(self, state: Any, t: int) -> tuple[Query, Any]:
        return self.query(), state["params"]

    def trained(self, state: Any, schema: Any, progress: Progress) -> tuple[Generator, np.ndarray]:
        query = self.query()
        counts, targets = self.targets(query, state["sums"])
        params = {"query": state["params"], "targets": targets}
        return self.train(Match(query), params, counts, state["key"], schema, progress), counts
