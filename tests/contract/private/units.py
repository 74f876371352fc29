"""What all rows of one unit do together: to a sum, to the others, and to a sample."""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

import numpy as np
from contract.data import adversaries, make_records
from contract.private.curators import NOISE, NoNoise, memory_ledger
from contract.private.queries import CountQuery, FlatQuery

from dpdistill.accounting.schedule import Budget, Schedule
from dpdistill.private import aggregator as holder
from dpdistill.private import checks, curator, linear
from dpdistill.private import chunking as placed
from dpdistill.private.grid import make_grid
from dpdistill.private.noise import SeededEntropy
from dpdistill.query import Compute, LinearQuery, Release, Stage
from dpdistill.storage.records import Records

K = 3
"""Rows of a unit that are used."""


def unit_schedule(rows_per_unit: int = K, sampling_prob: float = 1.0, rounds: int = 1) -> Schedule:
    """So many rounds that protect units."""
    budget = Budget(1.0, unit="person", rows_per_unit=rows_per_unit)
    return Schedule((Stage(rounds, sampling_prob),), (NOISE,), budget)


def of_units(records: Records, units: Any) -> Records:
    """The records, each of a unit."""
    return Records(records.X, records.y, records.schema, units=np.asarray(units, np.int64))


def answer(
    records: Records, query: Any, params: Any, schedule: Schedule | None = None, entropy: Any = None, chunk: int = 4
) -> Release:
    """What the curator of a unit releases, without noise unless an entropy is given."""
    schedule = schedule or unit_schedule()
    asked = curator.Curator(records, schedule, memory_ledger(schedule), entropy or NoNoise(), Compute(chunk, chunk))
    with mock.patch.object(holder, "check_rows", return_value=True):  # it has a test of its own
        return asked.release(0, query, params)


def with_person(records: Records, rows: list[np.ndarray], labels: Any, at: int) -> Records:
    """The records, with one more unit whose rows stand together before position `at`."""
    assert records.units is not None
    X = np.insert(np.asarray(records.X), [at] * len(rows), np.stack(rows).astype(records.X.dtype), axis=0)
    y = np.insert(records.y, [at] * len(rows), labels)
    person = int(records.units.max()) + 1
    return Records(X, y, records.schema, units=np.insert(records.units, [at] * len(rows), person))


def check_unit_sensitivity(query: Any, params: Any, records: Records, chunk: int = 4, most: int = 10 * K) -> None:
    """A person of 1, k or 10 k rows, whatever they hold, moves the release by at most what its noise is scaled to."""
    d = math.prod(checks.check_query(query, params, records.schema, rows_per_unit=K))
    records = of_units(records, np.arange(len(records)) // 2)
    before = answer(records, query, params, chunk=chunk)
    paid = before.stddev / NOISE
    bound = query.clip_norm * (1 + 1e-9)
    if isinstance(query, LinearQuery):
        bound = linear.step_and_sensitivity(query.clip_norm, d)[1] * (1 + 1e-9)
    assert paid >= query.clip_norm * (1 - 1e-12), "The noise is not scaled to what a person may contribute."
    assert paid <= bound, "The noise is scaled to more than a person may contribute."
    found, same = adversaries(records, 0), np.array(records.X[0])  # the same row again and again: nothing cancels
    people = [[found[3]], [same] * K, [same] * most, (found * most)[:most]]  # huge; then zeros, NaN, the opposite, ...
    moved = []
    for i, rows in enumerate(people):
        y = [1] * len(rows) if i < 3 else [j % (records.classes + 1) - 1 for j in range(len(rows))]
        after = answer(with_person(records, rows, y, i % len(records)), query, params, chunk=chunk)
        moved.append(float(np.linalg.norm(after.value - before.value)))
        assert moved[-1] <= paid * (1 + 1e-9), "A person moves the sum by more than the noise is scaled to."
    replaced = answer(with_person(without(records, 0), people[-1], y, 0), query, params, chunk=chunk)
    off = float(np.linalg.norm(replaced.value - before.value))
    assert off <= 2 * paid * (1 + 1e-9), "Replacing a person moves the sum by more than twice that."
    assert max(moved[1:3]) > 0, "A person does not move the sum."
    assert moved[1] == moved[2] or isinstance(query, LinearQuery), "Ten times as many equal rows move the sum by more."


def without(records: Records, unit: int) -> Records:
    """The records without those of one unit."""
    assert records.units is not None
    kept = records.units != unit
    return Records(records.X[kept], records.y[kept], records.schema, units=records.units[kept])


def check_clip_is_shared() -> None:
    """One row at the clip norm moves the sum by what the noise is scaled to; k and 10 k equal ones, no more."""
    records = make_records(6)
    x = np.full(records.schema.shape, 1.0)  # of norm 8, clipped to 1
    base = of_units(records, np.arange(6))
    before = answer(base, FlatQuery(), 1.0)
    for rows in (1, K, 10 * K):
        for labels in (0, np.arange(rows) % records.classes):
            after = answer(with_person(base, [x] * rows, labels, 2), FlatQuery(), 1.0)
            moved = float(np.linalg.norm(after.value - before.value)) * NOISE / before.stddev
            assert moved <= 1 + 1e-9, "A person moves the sum by more than the noise is scaled to."
            assert moved >= 0.99, "A person moves the sum by less than is paid for."


def check_units_are_admitted_whole() -> None:
    """The integers of a unit's rows are admitted together: the squares of all of them add up to K^2 at most.

    The float clip comes before and hides what this check forgets, so it is asked directly.
    """
    grid = make_grid(1.0, NOISE, 4, 8)
    K, half = grid.K, grid.K // 2
    units = {
        "one row at the clip norm": ([[K, 0, 0, 0], [0] * 4, [0] * 4], True),
        "four squares that add up to it": ([[half, half, 0, 0], [0, 0, half, 0], [0, 0, 0, half]], True),
        "one step more": ([[half, half, 0, 0], [0, 0, half, 1], [0, 0, 0, half]], False),
        "two rows at the clip norm": ([[K, 0, 0, 0], [0, -K, 0, 0], [0] * 4], False),
        "three rows just below it": ([[K - 1, 0, 0, 0]] * 3, False),
        "a row beyond it beside zeros": ([[0] * 4, [K + 1, 0, 0, 0], [0] * 4], False),
        "a row beyond it beside a small one": ([[1, 0, 0, 0], [0] * 4, [K, K, 0, 0]], False),
        "zeros": ([[0] * 4] * 3, True),
    }
    z = np.concatenate([np.array(rows, np.int32) for rows, _ in units.values()])
    found = grid.admissible(z, 3).reshape(-1, 3)
    for (name, (_, expected)), kept in zip(units.items(), found, strict=True):
        assert kept.tolist() == [expected] * 3, f"The rows of a unit are not admitted by their sum: {name}."


def check_kept_rows() -> None:
    """Of more than k rows of a unit each is kept equally often, in whatever order they come; no other unit matters."""
    units, runs = np.array([0] * 5 + [1] * 2 + [-1] * 3 + [2] * 8), 4000
    entropy = SeededEntropy(6)
    counts = np.zeros(len(units))
    for _ in range(runs):
        rows = placed.keep_rows(units, K, entropy)
        assert (rows >= 0).sum(1).tolist() == [3, 2, 3], "Another number of rows is kept."
        kept = rows[rows >= 0]
        owners = np.repeat([0, 1, 2], [3, 2, 3])
        assert (units[kept] == owners).all(), "The rows of a unit are another's."
        counts[kept] += 1
    expected = np.array([3 / 5] * 5 + [1.0] * 2 + [0.0] * 3 + [3 / 8] * 8)
    off = np.abs(counts / runs - expected)
    assert off.max() < 4.5 * math.sqrt(0.25 / runs), "Which rows of a unit are kept depends on their order."
    alone = placed.keep_rows(units[:5], K, _Words(np.arange(5)[::-1]))
    beside = placed.keep_rows(units, K, _Words(np.r_[np.arange(5)[::-1], np.arange(13)]))
    assert alone.tolist() == beside[:1].tolist(), "What is kept of a unit depends on others."


class _Words:
    """An entropy that hands out these words."""

    kind = "insecure: stated words"

    def __init__(self, words: np.ndarray) -> None:
        self._words = np.asarray(words, np.uint64)

    def bytes(self, n: int) -> bytes:
        assert n == 8 * len(self._words), "Another number of words is drawn than one a record."
        return self._words.tobytes()


def check_coins_by_unit() -> None:
    """All rows of a unit are in a sample or none: sizes vary as those of whole units, of the public probability."""
    rounds, people, q = 300, 60, 0.25
    y = np.repeat(np.arange(people) % 2, K)
    records = Records(np.zeros((people * K, 8, 8, 1), np.float32), y, make_records(1).schema)
    records = of_units(records, np.repeat(np.arange(people), K))
    schedule = unit_schedule(K, q, rounds)
    entropy = _CoinsAndPlaces(people, len(y))
    asked = curator.Curator(records, schedule, memory_ledger(schedule), entropy, Compute(256, 64))
    query = CountQuery(clip_norm=2.0 * K)  # K rows, one each, are not clipped
    releases = [asked.release(t, query, None) for t in range(rounds)]
    rows = np.stack([release.value[:2, 0] for release in releases])
    whole = np.abs(rows / K - np.rint(rows / K)) < 1e-3
    assert whole.all(), "Some rows of a unit are in a sample, and others of it are not."
    sizes = rows.sum(1) / K
    assert abs(sizes.mean() - people * q) < 4.5 * math.sqrt(people * q * (1 - q) / rounds), (
        "The probability is another."
    )
    variance = sizes.var(ddof=1) / (people * q * (1 - q))
    assert 0.65 < variance < 1.4, "Units are not in a sample independently of each other."


class _CoinsAndPlaces:
    """Real coins of units, or of rows where somebody draws those, and no noise: told apart by their number."""

    kind = "insecure: no noise"

    def __init__(self, people: int, rows: int) -> None:
        self._known, self._entropy = (8 * people, 8 * rows, 2 * people, 2 * rows), SeededEntropy(8)

    def bytes(self, n: int) -> bytes:
        return self._entropy.bytes(n) if n in self._known else b"\xff" * n


def check_others_of_a_unit_stay(query: Any, params: Any, records: Records, chunk: int = 4) -> None:
    """Removing a unit takes away its own integers and leaves those of all others, who keep the places they drew."""
    n = len(records)
    units, places = np.arange(n) // K, np.random.default_rng(4).integers(0, 1 << 16, n)

    def total(rows: np.ndarray) -> np.ndarray:
        part = Records(records.X[rows], records.y[rows], records.schema, units=units[rows])
        value = answer(part, query, params, entropy=NoNoise(places=places[rows]), chunk=chunk).value
        return np.rint(value / grid.step)

    d = math.prod(checks.check_query(query, params, records.schema))
    grid = make_grid(query.clip_norm, NOISE, d * checks.blocks_of(query, records.schema, K), n)
    whole, rest, own = (total(np.flatnonzero(rows)) for rows in (units >= 0, units != 2, units == 2))
    assert whole.any(), "The sum is nothing."
    np.testing.assert_array_equal(whole - rest, own, "Removing a unit changes what the others contribute.")
