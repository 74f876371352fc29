"""Graphical model of released marginals, fitted by mbi, and rows that are drawn from it without mbi."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from dpdistill.schema import DataError

Clique = tuple[int, ...]
MEGABYTE = 1 << 20
"""Bytes of a megabyte of a model, whose numbers have 8 bytes."""


class Measured(NamedTuple):
    """A released table of grouped attributes.

    Args:
        attributes: attributes of the table, in increasing order.
        counts: noised counts, of the shape of the groups, times `weights`.
        stddev: standard deviation of their noise.
        maps: for each attribute, the group of each of the model's values; none if the model's values are counted.
        weights: factors of the counts, so that all have the same noise; none for 1.
    """

    attributes: Clique
    counts: np.ndarray
    stddev: float
    maps: tuple[tuple[int, ...], ...] = ()
    weights: tuple[float, ...] = ()


@dataclass(frozen=True)
class _Grouped:
    """Sums the cells of a marginal over groups, times weights, as `mbi` asks of a measurement; equal by value."""

    maps: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]

    def __call__(self, factor: Any) -> jax.Array:
        values = factor.datavector(flatten=False)
        for axis, groups in enumerate(self.maps):
            member = np.eye(max(groups) + 1)[np.array(groups)]
            values = jnp.moveaxis(jnp.tensordot(values, member, (axis, 0)), -1, axis)
        return values.ravel() * np.array(self.weights) if self.weights else values.ravel()

    def op_norm_sq(self) -> float:
        """Returns the square of the largest singular value of the map, or a bound of it."""
        most = math.prod(int(np.bincount(groups).max()) for groups in self.maps)
        return most * max(self.weights, default=1.0) ** 2


def require_mbi() -> ModuleType:
    """Returns the package mbi.

    Raises:
        DataError: the package is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit below computes in float64; compiled programs may be kept
            import mbi
    except ImportError:
        raise DataError(
            "The method aim needs the package mbi: install it with pip install 'dpdistill[marginals]'."
        ) from None
    return mbi


def megabytes(sizes: Sequence[int], cliques: Iterable[Clique]) -> float:
    """Returns the size of a graphical model in megabytes: 8 bytes for each cell of its junction tree.

    Args:
        sizes: number of values of each attribute.
        cliques: attributes of each marginal.
    """
    return sum(8 * math.prod(sizes[a] for a in clique) for clique, _ in junction_tree(sizes, cliques)) / MEGABYTE


def junction_tree(sizes: Sequence[int], cliques: Iterable[Clique]) -> list[tuple[Clique, int]]:
    """Returns the maximal cliques of a triangulated graph, each with its parent's place in the list, or -1 for a root.

    Attributes are eliminated in greedy order, the one with the smallest clique first. A clique stands after its parent.
    """
    near: list[set[int]] = [set() for _ in sizes]
    for clique in cliques:
        for a in clique:
            near[a] |= {*clique} - {a}
    left, found = {*range(len(sizes))}, []
    logs = [math.log(size) for size in sizes]
    cost = {a: logs[a] + sum(logs[b] for b in near[a]) for a in left}
    while left:
        a = min(left, key=lambda a: (cost[a], a))
        found.append((a, {*near[a]}))
        left.discard(a)
        for b in near[a]:
            near[b] = (near[b] | near[a]) - {a, b}
        for b in near[a]:
            cost[b] = logs[b] + sum(logs[c] for c in near[b])
    tree: list[tuple[Clique, int]] = []
    place: dict[int, int] = {}  # of the clique that eliminates an attribute
    for a, others in reversed(found):
        parent = -1 if not others else place[next(b for b, _ in found if b in others)]
        if parent >= 0 and others == {*tree[parent][0]}:  # the parent's clique is part of this one
            tree[parent] = tuple(sorted({a, *others})), tree[parent][1]
            place[a] = parent
        else:
            place[a] = len(tree)
            tree.append((tuple(sorted({a, *others})), parent))
    return tree


@dataclass(frozen=True, eq=False)
class GraphicalModel:
    """Distribution of attributes: exp(sum of potentials of cliques), normalised.

    Args:
        sizes: number of values of each attribute.
        potentials: an array for each clique of attributes in increasing order.
    """

    sizes: tuple[int, ...]
    potentials: tuple[tuple[Clique, np.ndarray], ...]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Returns the values of rows (n, attributes), int64, in random order.

        The rows of equal earlier values are spread evenly over the distribution of the next attribute.
        """
        tree, beliefs = self._collected()
        codes, drawn = np.zeros((rows, len(self.sizes)), np.int64), set()
        for (clique, _), belief in zip(tree, beliefs, strict=True):
            given, new = [a for a in clique if a in drawn], [a for a in clique if a not in drawn]
            P = np.transpose(np.exp(belief - belief.max()), [clique.index(a) for a in (*given, *new)])
            for i, a in enumerate(new):
                left = tuple(range(P.ndim - (len(new) - i - 1), P.ndim))
                codes[:, a] = _spread(
                    P.sum(left).reshape(-1, self.sizes[a]), self._place(codes, [*given, *new[:i]]), rng
                )
            drawn |= {*new}
        return codes

    def _place(self, codes: np.ndarray, attributes: Sequence[int]) -> np.ndarray:
        place = np.zeros(len(codes), np.int64)
        for a in attributes:
            place = place * self.sizes[a] + codes[:, a]
        return place

    def _collected(self) -> tuple[list[tuple[Clique, int]], list[np.ndarray]]:
        """Returns the junction tree and, per clique, the log of a distribution of it given its parent, unnormalised."""
        tree = junction_tree(self.sizes, [clique for clique, _ in self.potentials])
        beliefs = [np.zeros([self.sizes[a] for a in clique]) for clique, _ in tree]
        for attributes, values in self.potentials:
            home = next(i for i, (clique, _) in enumerate(tree) if {*attributes} <= {*clique})
            beliefs[home] += _spread_over(np.nan_to_num(values), attributes, tree[home][0])
        for i in range(len(tree) - 1, -1, -1):
            clique, parent = tree[i]
            if parent >= 0:
                shared = tuple(a for a in clique if a in tree[parent][0])
                axes = tuple(k for k, a in enumerate(clique) if a not in shared)
                message = np.asarray(logsumexp(beliefs[i], axes))
                beliefs[parent] += _spread_over(message, shared, tree[parent][0])
        return tree, beliefs


def _spread_over(values: np.ndarray, attributes: Clique, clique: Clique) -> np.ndarray:
    """Returns an array of some attributes of a clique with an axis of length 1 for the others."""
    sizes = dict(zip(attributes, np.shape(values), strict=True))
    return np.reshape(values, [sizes.get(a, 1) for a in clique])


def _spread(P: np.ndarray, place: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns values (n,) drawn from the rows `place` (n,) of P, spread evenly over the distribution of each."""
    order = np.lexsort((rng.random(len(place)), place))
    counts = np.bincount(place, minlength=len(P))
    first = np.cumsum(counts) - counts
    rank = np.empty(len(place))
    rank[order] = np.arange(len(place)) - first[place[order]]
    share = (rank + rng.random(len(place))) / counts[place]
    ends = np.cumsum(P, 1)
    ends = np.where(ends[:, -1:] > 0, ends, np.arange(1, P.shape[1] + 1.0))
    values = np.empty(len(place), np.int64)
    for some in np.array_split(np.arange(len(place)), max(1, len(place) * P.shape[1] // (1 << 22))):
        rows = ends[place[some]]
        values[some] = (share[some, None] * rows[:, -1:] >= rows).sum(1)
    return np.minimum(values, P.shape[1] - 1)


def fitted(sizes: Sequence[int], measured: Sequence[Measured], total: float, iterations: int) -> GraphicalModel:
    """Returns the graphical model with the least squares error of measured tables, each divided by its noise.

    Args:
        sizes: number of values of each attribute.
        measured: released tables.
        total: released number of rows, > 0.
        iterations: steps of mirror descent.

    Raises:
        DataError: mbi is not installed.

    Source: McKenna et al., 2019 (Graphical-model based estimation and inference for differential privacy), by mbi.
    """
    mbi = require_mbi()
    with jax.enable_x64(True):
        domain = mbi.Domain(list(range(len(sizes))), list(sizes))
        losses = [
            mbi.LinearMeasurement(
                np.ravel(one.counts), one.attributes, max(one.stddev, 1e-6 * total), _Grouped(one.maps, one.weights)
            )
            for one in measured
        ]
        potentials = _estimator().estimate(domain, losses, known_total=total, iters=iterations).potentials
        found = tuple((tuple(c), np.asarray(potentials[c].values, np.float64)) for c in potentials.cliques)
    return GraphicalModel(tuple(sizes), found)


@lru_cache(maxsize=1)
def _estimator() -> Any:
    """Returns mbi's mirror descent from zero potentials, without the marginals before and after the steps.

    Their programs would take as long to compile as that of a step.
    """
    mbi = require_mbi()

    class PotentialsAlone(mbi.estimation.MirrorDescent):
        def _init(self, domain: Any, loss_fn: Any, known_total: float, **_: Any) -> Any:
            start = mbi.CliqueVector.zeros(domain, loss_fn.cliques)
            alpha = 2.0 / (loss_fn.lipschitz * known_total)
            # A step computes marginals and loss anew: only their shapes matter here.
            return mbi.estimation.MirrorDescentState(start, start, jnp.float64(alpha), jnp.float64(0.0))

        def _finalize(self, state: Any, known_total: float, constraints: Any = ()) -> Any:
            return mbi.MarkovRandomField(potentials=state.potentials, marginals=state.mu, total=known_total)

    return PotentialsAlone()
