"""Membership attacks on a published set, and their true-positive and false-positive rates."""

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
"""Largest number of synthetic records, drawn at random, that the attack by loss learns from."""
ROWS = 1000
"""Number of records compared at once."""
RIDGE = 1e-3
CONFIDENCE = 0.95


class Rate(NamedTuple):
    """Measured share with its confidence interval.

    Args:
        value: the share.
        low: lower end of its 95 % confidence interval (Clopper & Pearson).
        high: upper end of that interval.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Roc:
    """Receiver operating characteristic of one attack's scores.

    Args:
        members: scores of used records, (n,); a higher score means more likely a member.
        others: scores of unused records, (m,).
    """

    members: np.ndarray
    others: np.ndarray

    def true_positives(self, false_positives: float) -> Rate:
        """Returns the true-positive rate at the least threshold with at most this false-positive rate."""
        allowed = int(false_positives * len(self.others))
        threshold = np.sort(self.others)[::-1][allowed] if allowed < len(self.others) else -np.inf
        return rate(int((self.members > threshold).sum()), len(self.members))

    @property
    def area(self) -> float:
        """Returns the area under the curve: how often a member scores above a non-member; ties count half."""
        order = np.sort(self.others)
        below, upto = (np.searchsorted(order, self.members, side) for side in ("left", "right"))
        return float((below + upto).mean() / (2 * len(order)))

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns (false-positive rates, true-positive rates) of all thresholds, from the highest down."""
        thresholds = np.unique(np.concatenate([self.members, self.others]))[::-1]
        return tuple(
            np.concatenate([[0.0], 1.0 - np.searchsorted(np.sort(side), thresholds) / len(side)])
            for side in (self.others, self.members)
        )  # type: ignore[return-value]


def rate(found: int, of: int) -> Rate:
    """Returns found / of with its confidence interval."""
    tail = (1 - CONFIDENCE) / 2
    low = beta.ppf(tail, found, of - found + 1) if found else 0.0
    high = beta.ppf(1 - tail, found + 1, of - found) if found < of else 1.0
    return Rate(found / of, float(low), float(high))


def attack_membership(distilled: Distilled, members: Records, others: Records) -> dict[str, Roc]:
    """Runs membership attacks by distance and by loss on a synthetic set; they do not bound epsilon.

        distance   minus the squared distance to the nearest synthetic record
        loss       minus the squared error, on a record, of kernel ridge regression trained on the set

    Args:
        distilled: the set.
        members: records used for the set.
        others: records of the same kind, not used for the set.

    Returns:
        One curve per attack, for records that can contribute: of a known class, without a missing value.

    Raises:
        DataError: records of a different kind than the set, no record that can contribute, or equal sides.

    Source: Yeom et al., 2018 (Privacy risk in machine learning); Chen et al., 2020 (GAN-Leaks).
    """
    can = [contributing(records) for records in (members, others)]
    if not all(rows.any() for rows in can):
        raise DataError("Expected at least one record of a known class on each side of a membership attack.")
    if np.array_equal(members.X, others.X, equal_nan=members.X.dtype.kind == "f"):
        raise DataError("Expected non-members that differ from the members; got the same records on both sides.")
    inside, outside = (membership_scores(distilled, records) for records in (members, others))
    return {name: Roc(inside[name][can[0]], outside[name][can[1]]) for name in inside}


def on_both_sides(members: Records, others: Records) -> int:
    """Returns the number of non-members equal to a member, for which no attack can be right."""
    known = {x.tobytes() for X, _ in _chunks(members) for x in X}
    return sum(x.tobytes() in known for X, _ in _chunks(others) for x in X)


def membership_scores(distilled: Distilled, records: Records) -> dict[str, np.ndarray]:
    """Returns scores of records, (n,), by the attacks of `attack_membership`; higher means more likely a member.

    Raises:
        DataError: records of a different kind than the set.
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
    """Returns a mask (n,) of records that can contribute: of a known class, without a missing value."""
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
