"""What one record does to a sum, for any query that the curator adds in integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from contract.data import SCHEMA, adversaries, insert, make_records, replace, subset
from contract.private.curators import NoNoise, grid_of, integer_sum, make_curator, norm, tested_once
from contract.private.queries import FlatQuery, MixingEncoder

from dpdistill.accounting import schedule as accounting
from dpdistill.accounting.schedule import Budget
from dpdistill.private.chunking import ChunkedRecords
from dpdistill.query import Release, Stage
from dpdistill.schema import Schema
from dpdistill.storage.records import Records


@tested_once()
def check_add_remove(query: Any, params: Any, records: Records, chunk: int = 4) -> None:
    """One record, whatever it holds, moves the sum by its own integer row and by at most K steps."""
    K = grid_of(query, params, records.schema).K
    before = integer_sum(records, query, params, chunk)
    for i, x in enumerate(adversaries(records, 0)):
        y = i % (records.classes + 1) - 1
        at = i % (len(records) + 1)
        after = integer_sum(insert(records, at, x, y), query, params, chunk)
        alone = integer_sum(insert(subset(records, []), 0, x, y), query, params, chunk)
        assert norm(alone) <= K, "One record moves the sum by more than the clip norm."
        if y < 0:
            assert not alone.any(), "A record of an unknown label moves the sum."
        elif query.by_class:
            assert not np.delete(alone, y, 0).any(), "A record moves the sum of another class."
        own = "One more record moves the sum by something other than its own row."
        np.testing.assert_array_equal(after - before, alone, own)


@tested_once()
def check_replace_one(query: Any, params: Any, records: Records, chunk: int = 4) -> None:
    """Replacing a record moves the sum by the difference of two rows, by at most 2 K steps, and it does move it."""
    K, at = grid_of(query, params, records.schema).K, 1
    before = integer_sum(records, query, params, chunk)
    old = integer_sum(subset(records, [at]), query, params, chunk)
    moved = 0.0
    for i, x in enumerate(adversaries(records, at)):
        changed = replace(records, at, x, i % (records.classes + 1) - 1)
        difference = integer_sum(changed, query, params, chunk) - before
        assert norm(difference) <= 2 * K, "Replacing a record moves the sum by more than twice the clip norm."
        new = integer_sum(subset(changed, [at]), query, params, chunk)
        np.testing.assert_array_equal(difference, new - old, "Replacing a record does not exchange its row.")
        moved = max(moved, norm(difference))
    assert moved > 0, "Replacing a record leaves the sum as it was."


@tested_once()
def check_places(query: Any, params: Any, records: Records, chunk: int) -> None:
    """At real places, a record that is removed takes its own integers with it and leaves all others as they were.

    The others keep the places they have drawn, and move up in the queue of the removed record's place.
    """
    places = np.random.default_rng(4).integers(0, 1 << 16, len(records))
    before = integer_sum(records, query, params, chunk, places)
    for at in (0, len(records) // 2, len(records) - 1):
        rest = np.delete(np.arange(len(records)), at)
        after = integer_sum(subset(records, rest), query, params, chunk, places[rest])
        own = integer_sum(subset(records, [at]), query, params, chunk, places[[at]])
        np.testing.assert_array_equal(before - after, own, "Removing a record changes what the others contribute.")
    assert before.any(), "The sum is nothing."


def check_features(encoder: Any, schema: Schema, chunk: int, n: int) -> None:
    """Features of records at real places: no bit of them changes when another record is removed."""
    records, entropy = make_records(n, schema=schema), np.random.default_rng(4)
    places = entropy.integers(0, 1 << 16, n)

    def features(rows: np.ndarray) -> np.ndarray:
        placed = ChunkedRecords(subset(records, rows), NoNoise(places=places[rows]))
        placed.fill(encoder, chunk, 0)
        kept, y, row_of = placed._found(encoder, chunk, 0)
        return kept.read(0, len(y))[row_of[: len(rows)]]

    all_of_them = features(np.arange(n))
    assert np.linalg.norm(all_of_them, axis=1).min() > 0.1, "The features are zeros."
    for at in (0, n // 2):
        rest = np.delete(np.arange(n), at)
        same = features(rest).view(np.uint32) == all_of_them[rest].view(np.uint32)
        assert same.all(), f"Removing a record changes the features of {(~same.all(1)).sum()} others."


def check_sums_not_means() -> None:
    """A record counts the same beside one other as beside a hundred."""
    one = subset(make_records(1, low=0.5), [0])
    one = Records(one.X, np.zeros(1, np.int64), one.schema)
    alone = integer_sum(one, FlatQuery(), 1.0)
    assert alone.any(), "The record is not in the sum."
    nine = integer_sum(subset(one, [0] * 9), FlatQuery(), 1.0)
    np.testing.assert_array_equal(nine, 9 * alone, "A record counts for less beside others.")


def check_adversarial_records() -> None:
    """Records that are not finite contribute nothing, and none more than the clip norm."""
    records = make_records(6)
    for factor in (1.0, 1e38, np.nan, np.inf, 1e-30):
        check_add_remove(FlatQuery(), np.float32(factor), records)
    huge = FlatQuery(clip_norm=1e-6)
    check_add_remove(huge, 1.0, records)


def check_replacements() -> None:
    """A record that is replaced is read anew, even where nothing else about the data set has changed."""
    check_replace_one(FlatQuery(), 1.0, make_records(6))


def check_encoders_see_one_record() -> None:
    """Even an encoder that mixes its rows is applied record by record: removing one leaves the others as they were."""
    query = FlatQuery(encoder=MixingEncoder())
    check_add_remove(query, 1.0, make_records(7), chunk=4)
    check_places(query, 1.0, make_records(7), chunk=4)


def check_replace_one_is_paid() -> None:
    """Under replace-one the curator's noise covers a record that becomes its opposite, which moves the sum by 2 C.

    3.7306 is the noise multiplier of (1, 1e-5) by the closed form: a release may tell two data sets apart as well as
    N(0, 1) from N(1 / 3.7306, 1), and no better.
    """
    schedule = accounting.calibrate((Stage(1),), Budget(1.0, 1e-5, "replace-one"))
    records = Records(np.ones((3, 8, 8, 1), np.float32), np.zeros(3, np.int64), SCHEMA)

    def answer(records: Records) -> Release:
        return make_curator(records, schedule, NoNoise()).release(0, FlatQuery(), 1.0)

    before, moved = answer(records), []
    for i, x in enumerate(adversaries(records, 1)):
        for y in (0, i % (records.classes + 1) - 1):
            difference = answer(replace(records, 1, x, y)).value - before.value
            moved.append(float(np.linalg.norm(difference)) / before.stddev)
    assert max(moved) <= (1 + 1e-4) / 3.7306, "A replaced record moves the release by more than is paid for."
    assert max(moved) >= 0.999 / 3.7306, "More noise is paid for than a replaced record needs."
