"""Bounds epsilon from below by one run: canaries enter by fair coins, and an attacker guesses their coins."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.audits.noiseless_sums import Exact
from dpdistill.method import Distilled, Method, Progress, no_progress
from dpdistill.private.checks import check_query
from dpdistill.private.noise import Entropy, SystemEntropy
from dpdistill.private.sampling import poisson_coins
from dpdistill.query import Params, Query, Release
from dpdistill.recipe.saved import check_kind
from dpdistill.schema import DataError, Schema, TableSchema
from dpdistill.storage.records import Records

GUESSES = {"all rounds": 0.2, "differences": 0.2, "nearest synthetic record": 0.1}
"""Share of the canaries that each attack guesses as included: fixed before any score is known."""
SIGNIFICANCE = 0.01
LEAST = 100
"""Least number of canaries of an audit."""
MOST_NUMBERS = 400_000_000
"""Largest number of coordinates of all canaries' contributions to a release; each takes about 20 bytes."""


@dataclass(frozen=True, eq=False)
class OneRun:
    """Result of an attack on the canaries of one run.

    Args:
        result: the run's, of the private records and of the canaries whose coins came up heads. It was paid for, and
            it is none to share: canaries are in it.
        included: mask of the canaries in the run, (m,), bool.
        scores: of each attack, (m,): the higher, the more a canary looks like one that was in.
        bounds: lower bound on epsilon of each attack, at the run's delta; all bounds hold jointly with the confidence.
        guesses: fixed number of canaries that each attack guesses as included.
        correct: number of correct guesses of each attack.
        confidence: joint confidence of all bounds.
    """

    result: run.Result
    included: np.ndarray
    scores: dict[str, np.ndarray]
    bounds: dict[str, float]
    guesses: dict[str, int]
    correct: dict[str, int]
    confidence: float

    @property
    def bound(self) -> float:
        """Returns the largest bound."""
        return max(self.bounds.values())


def audit_one_run(
    records: Records,
    method: Method,
    budget: Budget,
    *,
    canaries: int = 500,
    seed: int = 0,
    distill: Callable[..., run.Result] = run.distill,
    entropy: Entropy | None = None,
    progress: Progress = no_progress,
    **how: Any,
) -> OneRun:
    """Distils records and canaries that enter by fair coins, and bounds epsilon from below by guesses.

    The attacker knows the records, the canaries and everything public; it sees what was released, and the final set.

    Args:
        records: the private records.
        method: a private method.
        budget: budget of the run.
        canaries: number m of random records (`draw_canaries`); about half of them enter the run.
        seed: seed of the canaries and of everything public in the run.
        distill: the audited function: the package's, or one that leaks on purpose.
        entropy: entropy of the coins; the operating system's, except in tests.
        progress: receives the rounds and steps of the run.
        how: further arguments of `distill`: ledger and label.

    Raises:
        DataError: too few canaries.
        ValueError: a method or budget that cannot be audited, or releases that are too large for the canaries.
        LedgerError: the data set's ledger refuses the run.

    Guarantee: none: this reads the private records. The run's result alone is covered by its certificate.
    Source: Steinke, Nasr & Jagielski, 2023 (Privacy auditing with one training run).
    """
    if canaries < LEAST:
        raise DataError(f"Expected at least {LEAST} canaries; got {canaries}.")
    run.check_private(method)
    check_kind(method, records.schema)
    if budget.adjacency != "add-remove":
        raise ValueError("Expected adjacency add-remove: canaries enter by coins, and replace no record.")
    if budget.unit is not None:
        raise ValueError("Expected a budget of single records: canaries belong to no unit.")
    _auditor()  # a missing package is refused before anything is paid
    query, params = method.ask(method.init(jax.random.key(seed), records.schema))
    _check_size(math.prod(check_query(query, params, records.schema)), canaries)
    drawn = draw_canaries(canaries, records.schema, seed)
    included = poisson_coins(canaries, 0.5, entropy or SystemEntropy())
    attack = Attack(records, drawn)
    entered = Records(drawn.X[included], drawn.y[included], drawn.schema)
    paid = {"beside": entered, "label": f"audit of {method.name}", **how}
    result = distill(records, method, budget, seed=seed, progress=progress, watch=attack, **paid)
    scores = {**attack.scores(), "nearest synthetic record": nearness(result.distilled, drawn)}
    guesses = {name: round(GUESSES[name] * canaries) for name in scores}
    found = {
        name: bound(each, included, guesses[name], budget.delta, SIGNIFICANCE / len(scores))
        for name, each in scores.items()
    }
    return OneRun(
        result,
        included,
        scores,
        {name: epsilon for name, (epsilon, _) in found.items()},
        guesses,
        {name: correct for name, (_, correct) in found.items()},
        1.0 - SIGNIFICANCE,
    )


def draw_canaries(m: int, schema: Any, seed: int) -> Records:
    """Returns m random records of a schema, of random classes and as different as possible.

    Images: independent values at either bound. Rows: independent values within the bounds, and categories.
    """
    rng = np.random.default_rng((seed, 12))
    y = rng.integers(len(schema.classes), size=m)
    if isinstance(schema, Schema):
        low, high = schema.bounds
        return Records(np.where(rng.random((m, *schema.shape)) < 0.5, low, high).astype(np.float32), y, schema)
    X = np.zeros((m, len(schema.columns)))
    for j, column in enumerate(schema.columns):
        if column.is_number:
            assert column.bounds is not None
            X[:, j] = rng.uniform(*column.bounds, size=m)
            X[:, j] = np.rint(X[:, j]) if column.is_whole else X[:, j]
        else:
            X[:, j] = rng.integers(len(column.categories), size=m)
    return Records(X, y, schema)


class Attack:
    """Watches a run, and scores canaries by matched filters on the releases.

        rest_t   = released_t - q sum of the records' contributions,   v_it = q u_it,   u a canary's contribution
        scores_i = sum_t <rest_t, v_it> / stddev_t^2,     products_ij = sum_t <v_it, v_jt> / stddev_t^2
        estimate = (products + 4 I)^-1 (scores - products 1/2),   of the coins minus 1/2, whose variance is 1/4

    "all rounds" adds up every release: noise that is drawn again for the same answer averages out. "differences" uses
    the difference of consecutive releases: noise that is used twice cancels. For "differences" the ridge is a
    thousandth of the mean of products_ii instead of 4.

    Args:
        records: the private records.
        canaries: the canaries.
    """

    def __init__(self, records: Records, canaries: Records) -> None:
        self._base, self._own, self._y = Exact(records), Exact(canaries), np.asarray(canaries.y, np.int64)
        m = len(canaries)
        self._found = {name: (np.zeros(m), np.zeros((m, m))) for name in ("all rounds", "differences")}
        self._before: tuple[np.ndarray, np.ndarray, float] | None = None

    def __call__(self, query: Query, params: Params, release: Release) -> None:
        q = release.event.sampling_prob if release.event else 1.0
        d = release.value[0].size if query.by_class else release.value.size
        _check_size(d, len(self._y))
        rows = q * self._own.contributions(query, params, release).astype(np.float32)
        if not np.isfinite(rows).all():
            raise ValueError("Expected finite contributions of canaries: the query's are not.")
        rest = (release.value - q * self._base.sum(query, params, release)).reshape(-1, d)
        variance = release.stddev**2
        self._add("all rounds", rows, rest, variance)
        if self._before is not None and (self._before[0].shape, self._before[1].shape) == (rows.shape, rest.shape):
            rows_before, rest_before, variance_before = self._before
            self._add("differences", rows - rows_before, rest - rest_before, variance + variance_before)
        self._before = rows, rest, variance

    def _add(self, name: str, rows: np.ndarray, rest: np.ndarray, variance: float) -> None:
        """Adds a round: contributions (m, d), and the remainder of their possible blocks (blocks, d)."""
        block = self._y if len(rest) > 1 else np.zeros_like(self._y)
        scores, products = self._found[name]
        scores += np.array([one.astype(np.float64) @ rest[b] for one, b in zip(rows, block, strict=True)]) / variance
        products += (rows @ rows.T) * (block[:, None] == block) / variance

    def scores(self) -> dict[str, np.ndarray]:
        """Returns the scores (m,) of each attack with data."""
        seen = {name: found for name, found in self._found.items() if found[1].any()}
        ridges = {"all rounds": lambda products: 4.0, "differences": lambda products: 1e-3 * products.diagonal().mean()}
        return {name: estimate(*found, ridges[name](found[1])) for name, found in seen.items()}


def estimate(scores: np.ndarray, products: np.ndarray, ridge: float) -> np.ndarray:
    """Returns the linear estimate of the coins minus 1/2; a ridge of 4 minimises the mean square error."""
    return np.linalg.solve(products + ridge * np.eye(len(scores)), scores - 0.5 * products.sum(1))


def nearness(distilled: Distilled, canaries: Records) -> np.ndarray:
    """Returns minus the squared distance of each canary to the nearest synthetic record, (m,), encoded."""
    X, _ = canaries.take(np.arange(len(canaries)))
    made, _ = distilled.train_set
    X, made = X.reshape(len(X), -1), made.reshape(len(made), -1)
    if isinstance(canaries.schema, TableSchema):
        X, made = np.nan_to_num(X), np.nan_to_num(made)
    return np.array([-np.square(made - x).sum(1).min() for x in X], np.float64)


def bound(
    scores: np.ndarray, included: np.ndarray, guesses: int, delta: float, significance: float
) -> tuple[float, int]:
    """Returns (lower bound on epsilon, correct guesses) if the highest scores are guessed as included.

    Args:
        scores: (m,).
        included: mask of the canaries in the run, (m,), bool.
        guesses: number of guesses, fixed before the scores are known.
        delta: delta of the guarantee.
        significance: chance that the bound is wrong.

    Raises:
        DataError: jax-privacy is not installed.
    """
    auditing = _auditor()
    if included.all() or not included.any():
        return 0.0, 0
    # Ranks without ties keep the number of guesses fixed; a public order ranks equal scores.
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = np.arange(len(scores))
    threshold = float(len(scores) - guesses)
    auditor = auditing.CanaryScoreAuditor(ranks[included], ranks[~included])
    found = auditor.epsilon_one_run(significance, delta, threshold_strategy=auditing.Explicit(threshold))
    return float(found), int((ranks[included] >= threshold).sum())


def _auditor() -> Any:
    """Returns the library that turns guesses into a bound."""
    try:
        from jax_privacy import auditing
    except ImportError:
        raise DataError("An audit needs jax-privacy: pip install 'dpdistill[audit]'.") from None
    return auditing


def _check_size(d: int, canaries: int) -> None:
    if d * canaries > MOST_NUMBERS:
        raise ValueError(f"Expected at most {MOST_NUMBERS // d:,} canaries for releases of this size.")
