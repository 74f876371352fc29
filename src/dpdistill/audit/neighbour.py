"""A run beside its neighbour: the releases are recorded and frozen, one record is removed, and all else is compared."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.audit.exact import Exact
from dpdistill.data.records import Records
from dpdistill.method import Method, Progress, no_progress
from dpdistill.private.linear import ROUNDING_SHARE
from dpdistill.query import ByValue, LinearQuery, Params, Query, Release
from dpdistill.run.driver import run_rounds
from dpdistill.run.store import Store

TOLERANCE = 1e-6
"""Of a sum's movement beside the clip norm, where sums are of float64: far below what is paid for rounding."""


@dataclass(frozen=True)
class Neighbour:
    """What changed when one record was removed and every release stayed as it was.

    Args:
        removed: index of the record.
        moved: how far the sum of each round moved, over the sensitivity that was paid for, (rounds,): at most 1.
        differ: what else is not byte for byte the same, in words: nothing may be.
    """

    removed: int
    moved: tuple[float, ...]
    differ: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether the record moved nothing further than was paid for, and nothing else at all."""
        return max(self.moved) <= 1.0 and not self.differ


class _Frozen:
    """A curator that hands out what was recorded, and notes what was asked and how far the true sum has moved."""

    def __init__(self, recorded: list[tuple[Query, Params, Release]], whole: list[np.ndarray], rest: Exact) -> None:
        self._recorded, self._whole, self._rest = recorded, whole, rest
        self.moved: list[float] = []
        self.differ: list[str] = []

    def release(self, t: int, query: Query, params: Params) -> Release:
        """The recorded release of round t."""
        asked, asked_params, release = self._recorded[t]
        if ByValue(query) != ByValue(asked) or not _same(params, asked_params):
            self.differ.append(f"what round {t} asks")
        moved = float(np.linalg.norm(self._whole[t] - self._rest.sum(asked, asked_params, release)))
        allowed = 1.0 + (TOLERANCE + ROUNDING_SHARE if isinstance(asked, LinearQuery) else TOLERANCE)
        self.moved.append(moved / (asked.clip_norm * allowed))
        return release


def recorded_neighbours(
    records: Records,
    method: Method,
    budget: Budget,
    *,
    removed: Iterable[int] = (0,),
    seed: int = 0,
    progress: Progress = no_progress,
    **how: Any,
) -> tuple[run.Result, list[Neighbour]]:
    """Run once and record the releases; replay with one record removed while every release stays what was recorded.

    Each sum without noise must move by at most the clip norm, and what the method asks, what it says of its progress
    and every file that is shared must stay the same, byte for byte: a method learns of records by releases alone.

    Args:
        records: the private records.
        method: a private one; perhaps your own.
        budget: what the run pays.
        removed: indices of records, each removed in a replay of its own.
        seed: of everything public.
        progress: told the rounds and steps of the run.
        how: what else `run.distill` takes: ledger, label.

    Returns:
        The run's result, and what each replay found.

    Raises:
        ValueError: a budget that protects units.

    Guarantee: none: this reads the private records. The run's result alone is covered by its certificate.
    Source: after dp-recorder (arXiv 2602.17454).
    """
    if budget.unit is not None:
        raise ValueError("Expected a budget of single records: one record is removed, not all of a unit.")
    recorded: list[tuple[Query, Params, Release]] = []
    told: list[tuple] = []

    def watch(query: Query, params: Params, release: Release) -> None:
        recorded.append((query, jax.tree.map(np.array, params), release))

    def tell(stage: str, done: int, total: int) -> None:
        told.append((stage, done, total))
        progress(stage, done, total)

    result = run.distill(records, method, budget, seed=seed, progress=tell, watch=watch, **how)
    exact = Exact(records)
    whole = [exact.sum(*each) for each in recorded]
    files = _files(result)
    return result, [
        _replay(i, exact.without(i), without(records, i), method, result, recorded, whole, files, told, seed)
        for i in removed
    ]


def without(records: Records, i: int) -> Records:
    """The records but for one."""
    kept = np.arange(len(records)) != i
    return Records(records.X[kept], records.y[kept], records.schema)


def _replay(
    i: int,
    sums: Exact,
    rest: Records,
    method: Method,
    result: run.Result,
    recorded: list,
    whole: list[np.ndarray],
    files: dict[str, bytes],
    told: list[tuple],
    seed: int,
) -> Neighbour:
    frozen, again = _Frozen(recorded, whole, sums), []

    def tell(*said: Any) -> None:
        again.append(said)

    state = run_rounds(method, frozen, Store(None), len(recorded), seed, rest.schema, tell)
    made = replace(result, distilled=method.finish(state, rest.schema, tell))
    differ = list(dict.fromkeys(frozen.differ))
    if again != told:
        differ.append("what is said of the progress")
    found = _files(made)
    differ += [name for name in sorted(files.keys() | found.keys()) if files.get(name) != found.get(name)]
    return Neighbour(i, tuple(frozen.moved), tuple(differ))


def _same(one: Params, other: Params) -> bool:
    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


def _files(result: run.Result) -> dict[str, bytes]:
    """Every file of the shared folder."""
    with tempfile.TemporaryDirectory() as folder:
        path = replace(result, run_dir=None).save(Path(folder) / "shared")
        return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}
