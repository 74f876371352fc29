"""Who was among the records: attacks on a set that was handed out, and how often they are right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import beta

from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.ridge import one_hot, solve
from dpdistill.method import Distilled
from dpdistill.schema import DataError
from dpdistill.storage.records import Records

MOST = 2000
"""Synthetic records that the attack by loss learns from, drawn at random."""
ROWS = 1000
"""Records that are compared at once."""
RIDGE = 1e-3
CONFIDENCE = 0.95


class Rate(NamedTuple):
    """A share that was measured.

    Args:
        value: the share.
        low: end of its interval of confidence 95 % (Clopper & Pearson).
        high: the other end.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Roc:
    """What thresholds on one attack's scores reach.

    Args:
        members: scores of records that were used, (n,): the higher, the more it looks so.
        others: scores of records that were not, (m,).
    """

    members: np.ndarray
    others: np.ndarray

    def true_positives(self, false_positives: float) -> Rate:
        """Share of the members above the least threshold that at most this share of the others is above."""
        allowed = int(false_positives * len(self.others))
        threshold = np.sort(self.others)[::-1][allowed] if allowed < len(self.others) else -np.inf
        return rate(int((self.members > threshold).sum()), len(self.members))

    @property
    def area(self) -> float:
        """Of the curve: how often a member scores above another record; ties count half."""
        order = np.sort(self.others)
        below, upto = (np.searchsorted(order, self.members, side) for side in ("left", "right"))
        return float((below + upto).mean() / (2 * len(order)))

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """(false positives, true positives) of all thresholds, from the highest down."""
        thresholds = np.unique(np.concatenate([self.members, self.others]))[::-1]
        return tuple(
            np.concatenate([[0.0], 1.0 - np.searchsorted(np.sort(side), thresholds) / len(side)])
            for side in (self.others, self.members)
        )  # type: ignore[return-value]


def rate(found: int, of: int) -> Rate:
    """found / of with its interval of confidence."""
    tail = (1 - CONFIDENCE) / 2
    low = beta.ppf(tail, found, of - found + 1) if found else 0.0
    high = beta.ppf(1 - tail, found + 1, of - found) if found < of else 1.0
    return Rate(found / of, float(low), float(high))


def attack_membership(distilled: Distilled, members: Records, others: Records) -> dict[str, Roc]:
    """Attacks by distance and by loss on a synthetic set, whatever made it. They bound no epsilon.

        distance   minus the squared distance to the nearest synthetic record
        loss       minus the squared error, on a record, of kernel ridge regression that has learned the set

    Args:
        distilled: the set.
        members: records it was made from.
        others: records of the same kind that it was not made from.

    Returns:
        One curve an attack, of the records that can contribute to a set: of a known class, without a missing value.

    Raises:
        DataError: records of another kind than the set's, none that can contribute, or the same ones on both sides.

    Source: Yeom et al., 2018 (Privacy risk in machine learning); Chen et al., 2020 (GAN-Leaks).
    """
    can = [contributing(records) for records in (members, others)]
    if not all(rows.any() for rows in can):
        raise DataError("Expected at least one record of a known class on each side of an attack on membership.")
    if np.array_equal(members.X, others.X, equal_nan=members.X.dtype.kind == "f"):
        raise DataError("Expected other records than the members beside them: the same ones are on both sides.")
    inside, outside = (membership_scores(distilled, records) for records in (members, others))
    return {name: Roc(inside[name][can[0]], outside[name][can[1]]) for name in inside}


def on_both_sides(members: Records, others: Records) -> int:
    """How many of the others are the same as a member, value by value: of them no attack can be right."""
    known = {x.tobytes() for X, _ in _chunks(members) for x in X}
    return sum(x.tobytes() in known for X, _ in _chunks(others) for x in X)


def membership_scores(distilled: Distilled, records: Records) -> dict[str, np.ndarray]:
    """Scores of records, (n,), by the attacks of `attack_membership`: the higher, the more each looks like a member.

    Raises:
        DataError: records of another kind than the set's.
    """
    if (records.schema.shape, records.schema.classes) != (distilled.schema.shape, distilled.schema.classes):
        raise DataError(f"Expected records as {distilled.schema}; got {records.schema}.")
    X, y = distilled.support_set
    made, kernel = np.nan_to_num(X.reshape(len(X), -1)), FCNTK()
    Y = one_hot(y, len(distilled.schema.classes)) if distilled.targets is None else distilled.targets
    rows = np.random.default_rng(0).permutation(len(made))[:MOST]
    S = jnp.asarray(made[rows])
    alpha = _taught(kernel, S, jnp.asarray(np.asarray(Y)[rows]))
    parts = [_scores(made, alpha, S, kernel, np.nan_to_num(X), y) for X, y in _chunks(records)]
    return {name: np.concatenate([part[i] for part in parts]) for i, name in enumerate(("distance", "loss"))}


@partial(jax.jit, static_argnums=0)
def _taught(kernel: FCNTK, S: jax.Array, Y: jax.Array) -> jax.Array:
    return solve(kernel(S, S), Y, RIDGE)


@partial(jax.jit, static_argnums=0)
def _said(kernel: FCNTK, X: jax.Array, S: jax.Array, alpha: jax.Array) -> jax.Array:
    return kernel(X, S) @ alpha


def _chunks(records: Records) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for i in range(0, len(records), ROWS):
        X, y = records.take(np.arange(i, min(i + ROWS, len(records))))
        yield X.reshape(len(X), -1), y


def contributing(records: Records) -> np.ndarray:
    """Returns which records can contribute to a set: of a known class, without a missing value; (n,), bool."""
    found = [(y >= 0) & np.isfinite(X).all(1) for X, y in _chunks(records)]
    return np.concatenate([np.zeros(0, bool), *found])


def _scores(
    made: np.ndarray, alpha: jnp.ndarray, S: jnp.ndarray, kernel: FCNTK, X: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    nearest = [
        (np.square(X).sum(1)[:, None] - 2.0 * X @ block.T + np.square(block).sum(1)).min(1)
        for block in (made[i : i + ROWS] for i in range(0, len(made), ROWS))
    ]
    said = np.asarray(_said(kernel, X, S, alpha))
    wanted = one_hot(np.maximum(y, 0), alpha.shape[1])
    return -np.min(nearest, 0), -np.square(said - wanted).sum(1)
