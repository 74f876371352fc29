"""DP-HP: a generator that matches released Hermite mean embeddings of columns and of products of columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.method import Progress
from dpdistill.methods.generator import Generator, indicator_groups
from dpdistill.methods.generator_arrays import number_coordinates
from dpdistill.methods.generator_method import GeneratorMethod
from dpdistill.methods.matching import put_release
from dpdistill.methods.training import Match, MeanEmbedding, distance, project_embeddings
from dpdistill.query import Query, Release
from dpdistill.recipe.methods import dp_hp as recipe

MOST_PRODUCTS = 1 << 16
"""Largest number of coordinates of a product release."""


def hermite(x: Array, order: int, rho: float) -> Array:
    """Returns sqrt(lambda_c) f_c(x), c = 0 .. order, (..., order + 1), features of exp(-rho (x-z)^2 / (1 - rho^2)).

        lambda_c = (1 - rho) rho^c,   f_c(x) = H_c(x) exp(-rho x^2 / (1 + rho)) / sqrt(N_c),
        N_c = 2^c c! sqrt((1 - rho) / (1 + rho))

    by the stable recursion g_{c+1} = x sqrt(2 rho / (c+1)) g_c - rho sqrt(c / (c+1)) g_{c-1}. All orders together
    have norm 1 (Mehler's formula), so that the first orders have norm at most 1.
    """
    g = [(1.0 - rho**2) ** 0.25 * jnp.exp(-rho / (1.0 + rho) * jnp.square(x))]
    for c in range(order):
        before = rho * math.sqrt(c / (c + 1)) * g[c - 1] if c else 0.0
        g.append(math.sqrt(2.0 * rho / (c + 1)) * x * g[c] - before)
    return jnp.stack(g, -1)


def by_column(params: Any, X: Array, order: int, rho: float) -> Array:
    """Returns the concatenated features of all columns, (..., L): Hermite of numbers, one-hot of categories."""
    numbers = hermite(X[..., params["numbers"]], order, rho)
    return jnp.concatenate([numbers.reshape(*X.shape[:-1], -1), X[..., params["categories"]]], -1)


@dataclass(frozen=True)
class SumQuery(MeanEmbedding):
    """Query of the sum kernel: u = (a, sqrt(1 - a^2) phi(x)), phi = features of every column / sqrt(columns).

    Params: coordinates of numbers, coordinates of categories, number of columns.

    Guarantee:
        Sensitivity 1 under add-or-remove, 2 sqrt(1 - a^2) or sqrt(2), whichever is larger, under replace-one: the
        features of a column have norm at most 1.

    Source: Vinaroz et al. 2022 (DP-HP), sections 3 and 4.
    """

    order: int
    rho: float
    count_coordinate: float

    def features(self, params: Any, X: Array) -> Array:
        """Returns phi(X), (..., L), of flat records (..., d)."""
        return by_column(params, X, self.order, self.rho) / jnp.sqrt(params["columns"])


@dataclass(frozen=True)
class ProductQuery:
    """Query of the product kernel: u = the outer product of some columns' features, of norm at most 1.

    Params: those of SumQuery, and the columns' coordinates among all features, (columns, width), padded with L.

    Guarantee: sensitivity 1 under add-or-remove, 2 under replace-one; the columns are public.
    Source: Vinaroz et al. 2022 (DP-HP), section 4.
    """

    order: int
    rho: float
    by_class: bool = True
    encoder: None = None
    clip_norm: float = 1.0

    def features(self, params: Any, X: Array) -> Array:
        """Returns the product features, (..., width^columns), of flat records (..., d)."""
        v = by_column(params, X, self.order, self.rho)
        v = jnp.concatenate([v, jnp.zeros_like(v[..., :1])], -1)
        product = jnp.ones_like(v[..., :1])
        for factor in params["factors"]:
            product = (product[..., :, None] * v[..., None, factor]).reshape(*v.shape[:-1], -1)
        return product

    def contribution(self, params: object, x: Array, y: Array) -> Array:
        return self.features(params, x.ravel())


@dataclass(frozen=True)
class _Match(Match):
    """Loss || mean embedding - released embedding ||^2 per class, of the columns and of one product per step."""

    product: ProductQuery
    rounds: int
    weight: float

    def __call__(self, params: Any, X: Array, step: Array) -> Array:
        loss = super().__call__(params, X, step)
        if not self.rounds:
            return loss
        t = step % self.rounds
        factors = {**params["query"], "factors": params["factors"][t]}
        return loss + self.weight * distance(self.product.features(factors, X), params["products"][t])


class DPHP(recipe.DPHP, GeneratorMethod):
    """Hermite mean embeddings of all columns and of tuples of columns, then a generator.

        stage 0   S_c = sum over class c of (a, sqrt(1 - a^2) (features of every column) / sqrt(columns)) + noise
        stage 1   P_tc = sum over class c of (outer product of the features of columns t) + noise,  t = 1 .. rounds
        stage 2   histograms of a table's numbers + noise, if marginal_share > 0
        finish    min over G of  sum_c share_c ( ||S_c/count_c - E phi(G)||^2 + weight ||P_tc/count_c - E psi_t(G)||^2 )
                  then each number of G is matched to its histogram

    The features of a number are Hermite functions (sum_c phi_c(x) phi_c(z) is a Gaussian kernel), in order of
    importance, so that a few suffice. The features of a categorical column are one coordinate per category. The
    columns of a product are drawn from the public key for each release; every release is paid.

    There are no histograms by default, since their effect on classifiers was measured only once.

    Guarantee: all stages are calibrated together; finish is post-processing.
    Source: Vinaroz et al., 2022; the constant coordinate, products with categories and the unbiased distance are ours.
    """

    def sum_query(self) -> SumQuery:
        return SumQuery(self.order, self.rho, self.count_coordinate)

    def product_query(self) -> ProductQuery:
        return ProductQuery(self.order, self.rho)

    def begin(self, key: Array, schema: Any) -> dict[str, Any]:
        numbers, groups = number_coordinates(schema), indicator_groups(schema)
        classes, each = len(schema.classes), self.order + 1
        sizes = np.array([each] * len(numbers) + [len(group) for group in groups])
        starts, L, width = np.cumsum(sizes) - sizes, int(sizes.sum()), int(sizes.max())
        dims = min(self.product_dims, len(sizes))
        if self.product_rounds and width**dims > MOST_PRODUCTS:
            raise ValueError(f"Expected at most {MOST_PRODUCTS} products of {dims} columns; got {width}^{dims}.")
        places = np.arange(width)
        padded = np.where(places < sizes[:, None], starts[:, None] + places, L)
        keys = [jax.random.fold_in(key, t) for t in range(self.product_rounds)]
        drawn = [np.asarray(jax.random.choice(k, len(sizes), (dims,), replace=False)) for k in keys]
        return {
            "key": np.asarray(jax.random.key_data(key)),
            "layout": {
                "numbers": numbers,
                "categories": np.concatenate([np.zeros(0, np.int32), *groups]),
                "columns": np.float32(len(sizes)),
            },
            "factors": np.array([padded[d] for d in drawn], np.int32).reshape(-1, dims, width),
            "sums": np.zeros((classes, 1 + L), np.float32),
            "products": np.zeros((self.product_rounds, classes, width**dims), np.float32),
        }

    def ask_embedding(self, state: Any, t: int) -> tuple[Query, Any]:
        if t == 0:
            return self.sum_query(), state["layout"]
        return self.product_query(), {**state["layout"], "factors": state["factors"][t - 1]}

    def tell_embedding(self, state: Any, release: Release) -> Any:
        if release.round == 0:
            return super().tell_embedding(state, release)
        return {**state, "products": put_release(state["products"], release.round - 1, release)}

    def trained(self, state: Any, schema: Any, progress: Progress) -> tuple[Generator, np.ndarray]:
        query = self.sum_query()
        counts, targets = self.targets(query, state["sums"])
        params = {"query": state["layout"], "targets": targets, "factors": state["factors"]}
        params["products"] = project_embeddings(state["products"] / counts[:, None])
        match = _Match(query, self.product_query(), self.product_rounds, self.product_weight)
        # Numbers below product_rounds are folded into the key for the columns of product kernels.
        key = jax.random.fold_in(state["key"], self.product_rounds)
        return self.train(match, params, counts, key, schema, progress), counts
