"""Plants known leaks of published code, as a test of attacks: a useful attack must find them."""

from __future__ import annotations

import builtins
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.audits.noiseless_sums import Exact
from dpdistill.method import Method
from dpdistill.query import Params, Query, Release
from dpdistill.recipe import choices
from dpdistill.run.driver import Watch
from dpdistill.storage.records import Records

TIMES = 60
"""Number of noise draws for the same answer, of which one is accounted."""
PER_CLASS = 50
"""Number of real records that a set starts from."""


def noised_again(
    records: Records, method: Method, budget: Budget, *, watch: Watch, beside: Records, **how: Any
) -> run.Result:
    """Draws noise repeatedly for the same signal but accounts once, so that the mean is nearly exact."""
    exact, rng = Exact(records.joined(beside)), np.random.default_rng()

    def again(query: Query, params: Params, release: Release) -> None:
        watch(query, params, release)
        total = exact.sum(query, params, release) * (release.event.sampling_prob if release.event else 1.0)
        for _ in range(TIMES - 1):
            watch(query, params, replace(release, value=total + release.stddev * rng.normal(size=total.shape)))

    return _spoiled(run.distill(records, method, budget, watch=again, beside=beside, **how))


class _Repeated:
    """Entropy that repeats the same bytes for the same calls after each start."""

    kind = "insecure: the same noise in every round"

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self._calls: Counter[int] = Counter()

    def bytes(self, n: int) -> builtins.bytes:
        """Returns the bytes of the k-th call for n bytes since the last start."""
        self._calls[n] += 1
        return np.random.default_rng((n, self._calls[n])).bytes(n)


def same_noise(records: Records, method: Method, budget: Budget, *, watch: Watch, **how: Any) -> run.Result:
    """Uses the same noise in every round, so that the difference of two rounds is exact."""
    entropy = _Repeated()

    def start_again(query: Query, params: Params, release: Release) -> None:
        watch(query, params, release)
        entropy.start()

    return run.distill(records, method, budget, watch=start_again, entropy=entropy, **how)


def real_start(
    records: Records, method: Method, budget: Budget, *, watch: Watch, beside: Records, **how: Any
) -> run.Result:
    """Starts the set from real records; detectable if canaries are a large part of the records."""
    result = run.distill(records, method, budget, watch=watch, beside=beside, **how)
    records = records.joined(beside)
    classes = range(len(records.schema.classes))
    rng = np.random.default_rng(0)
    taken = np.concatenate([rng.permutation(np.flatnonzero(records.y == c))[:PER_CLASS] for c in classes])
    X, y = records.take(taken)
    near = np.clip(X + 0.1 * rng.normal(size=X.shape), -1.0, 1.0).astype(np.float32)
    of_the_set = {"training": None, "targets": None, "soft_labels": None}  # belong to the replaced images
    return _spoiled(replace(result, distilled=replace(result.distilled, X=near, y=y.astype(np.int32), **of_the_set)))


def _spoiled(result: run.Result) -> run.Result:
    """Marks a result as insecure, so that no certificate is written."""
    return replace(result, noise="insecure: a leak planted on purpose")


LEAKS: dict[str, Any] = dict(zip(choices.LEAKS, (noised_again, same_noise, real_start), strict=True))
