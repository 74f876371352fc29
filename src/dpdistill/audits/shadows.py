"""Attacks membership by a likelihood ratio of sets distilled with and without a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.audits.membership import Roc, contributing, membership_scores
from dpdistill.method import Distilled, Method, Progress, no_progress
from dpdistill.schema import DataError
from dpdistill.storage.records import Records

LEAST = 4
"""Least number of runs: a spread needs two shadows with and two without a record."""


def attack_by_shadows(
    records: Records,
    method: Method,
    budget: Budget | None,
    *,
    runs: int = 16,
    seed: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Roc]:
    """Distils random halves of the records, and attacks each run with all other runs as shadows.

        ratio_i = log N(s_i; mean with record i, spread) - log N(s_i; mean without it, spread)

    Means are over a record's scores in the shadows, the spread over all records. The attacker knows the method, all
    records and their membership in each shadow, which is more than a real attacker knows.

    Args:
        records: the records, each of which enters a run by a fair public coin.
        method: a distiller.
        budget: budget of each run; None for runs without privacy. The sets are not returned, so no ledger is charged.
        runs: number of runs, at least 4.
        seed: seed of the coins and of everything else public.
        progress: receives the number of runs done.

    Returns:
        The curve of each of `membership_scores`, over the trials of all runs. The trials are dependent: each record is
        tried in every run, and runs are shadows of each other.

    Raises:
        DataError: too few runs.
        ValueError: a method that has no private form, with a budget.

    Guarantee: none: this reads the private records and shares nothing.
    Source: Carlini et al., 2022 (Membership inference attacks from first principles), with a spread for all records
    together, as for few shadows.
    """
    if runs < LEAST:
        raise DataError(f"Expected at least {LEAST} runs of an attack by shadows; got {runs}.")
    entered = np.random.default_rng((seed, 21)).random((runs, len(records))) < 0.5
    made = _distiller(method, budget)
    scores: list[dict[str, np.ndarray]] = []
    progress("distilling shadows", 0, runs)
    for i, included in enumerate(entered):
        half = Records(records.X[included], records.y[included], records.schema)
        scores.append(membership_scores(made(half, seed + i), records))
        progress("distilling shadows", i + 1, runs)
    used = contributing(records)
    return {name: ratios(np.stack([each[name][used] for each in scores]), entered[:, used]) for name in scores[0]}


def _distiller(method: Method, budget: Budget | None) -> Callable[[Records, int], Distilled]:
    if budget is None:
        return lambda half, seed: run.distill_without_privacy(half, method, seed=seed).distilled
    return lambda half, seed: run.distill(half, method, budget, seed=seed).distilled


def ratios(scores: np.ndarray, entered: np.ndarray) -> Roc:
    """Returns log likelihood ratios of every record in every run, by all other runs.

    Args:
        scores: scores of the records in the runs, (runs, n).
        entered: mask of the records in each run, (runs, n), bool.

    Raises:
        DataError: no record is in some shadows and missing in others.
    """
    found: Sequence[list[np.ndarray]] = ([np.zeros(0)], [np.zeros(0)])
    for t, score in enumerate(scores):
        others = np.arange(len(scores)) != t
        sides = [np.where(mask[others], scores[others], np.nan) for mask in (entered, ~entered)]
        # A record in all shadows, or in none, has no likelihood ratio.
        known = np.min([np.isfinite(side).sum(0) for side in sides], 0) > 0
        if not known.any():
            continue
        means = [np.nanmean(side[:, known], 0) for side in sides]
        rest = np.concatenate([side[:, known] - mean for side, mean in zip(sides, means, strict=True)])
        spread = max(float(np.sqrt(np.nanmean(np.square(rest)))), 1e-12)
        errors: Any = [np.square((score[known] - mean) / spread) / 2 for mean in means]
        ratio = errors[1] - errors[0]
        found[0].append(ratio[entered[t, known]])
        found[1].append(ratio[~entered[t, known]])
    if not all(map(np.size, map(np.concatenate, found))):
        raise DataError("Expected records that are in some shadows and not in others: use more records or more runs.")
    return Roc(*(np.concatenate(side) for side in found))
