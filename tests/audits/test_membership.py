"""Attacks on membership: rates and areas are those of the definition, a copied set is told, a strange one is not."""

import numpy as np
import pytest
from contract import TABLE, make_records, table_records

from dpdistill.audits.membership import MOST, Roc, attack_membership, on_both_sides, rate
from dpdistill.method import Distilled
from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records

SCHEMA = Schema((8, 8, 1), (-1.0, 1.0), ("a", "b", "c"))


def images(n, seed):
    rng = np.random.default_rng(seed)
    return Records(rng.uniform(-1, 1, (n, 8, 8, 1)).astype(np.float32), rng.integers(0, 3, n), SCHEMA)


def test_rates_are_those_of_thresholds():
    roc = Roc(np.array([5.0, 4.0, 3.0, 0.5]), np.array([4.5, 2.0, 1.0, 0.0]))
    assert roc.true_positives(0.0).value == 0.25
    assert roc.true_positives(0.25).value == 0.75
    assert roc.true_positives(0.999).value == 1.0
    assert roc.true_positives(1.0).value == 1.0
    assert roc.area == np.mean([4 / 4, 3 / 4, 3 / 4, 1 / 4])
    assert Roc(np.ones(3), np.ones(2)).area == 0.5
    false, true = roc.curve()
    assert false.tolist() == [0.0, 0.0, 0.25, 0.25, 0.25, 0.5, 0.75, 0.75, 1.0]
    assert true.tolist() == [0.0, 0.25, 0.25, 0.5, 0.75, 0.75, 0.75, 1.0, 1.0]


def test_intervals_are_those_of_clopper_and_pearson():
    assert rate(0, 10) == pytest.approx((0.0, 0.0, 1 - 0.025**0.1))
    assert rate(10, 10) == pytest.approx((1.0, 0.025**0.1, 1.0))
    assert rate(5, 10) == pytest.approx((0.5, 0.18709, 0.81291), abs=1e-5)


def test_a_set_of_members_is_told_and_one_of_nobody_is_not():
    members, others, nobody = images(400, 0), images(400, 1), images(400, 2)
    X, y = members.take(np.arange(400))
    for roc in attack_membership(Distilled(X, y.astype(np.int32), SCHEMA), members, others).values():
        assert roc.true_positives(0.01).value > 0.95
        assert roc.area > 0.99
    X, y = nobody.take(np.arange(400))
    for roc in attack_membership(Distilled(X, y.astype(np.int32), SCHEMA), members, others).values():
        assert roc.true_positives(0.01).value < 0.06
        assert 0.44 < roc.area < 0.56


def test_tables_with_missing_values_are_attacked():
    records = table_records(60, 0, TABLE)
    X, y = records.take(np.arange(30))
    kept = np.isfinite(X).all(1) & (y >= 0)
    members = Records(records.X[:30][kept], records.y[:30][kept], TABLE)
    others = Records(records.X[30:], records.y[30:], TABLE)
    found = attack_membership(Distilled(X[kept], y[kept].astype(np.int32), TABLE), members, others)
    assert found["distance"].true_positives(0.0).value > 0.9
    assert all(np.isfinite(roc.others).all() for roc in found.values())


def test_records_that_contributed_nothing_are_no_members():
    members, others = images(200, 0), images(200, 1)
    X, y = members.take(np.arange(200))
    made = Distilled(X[100:], y[100:].astype(np.int32), SCHEMA)
    unknown = Records(members.X, np.where(np.arange(200) < 100, -1, members.y), SCHEMA)
    found = attack_membership(made, unknown, others)["distance"]
    assert (len(found.members), len(found.others)) == (100, 200)
    assert found.true_positives(0.0).value == 1.0
    with pytest.raises(DataError, match="Expected at least one record of a known class on each side"):
        attack_membership(made, Records(members.X, np.full(200, -1), SCHEMA), others)


def test_the_same_records_on_both_sides_are_counted_and_alone_refused():
    members, others = images(200, 0), images(200, 1)
    X, y = members.take(np.arange(200))
    made = Distilled(X, y.astype(np.int32), SCHEMA)
    assert on_both_sides(members, others) == 0
    some = Records(np.concatenate([members.X[5:9], others.X]), np.concatenate([members.y[5:9], others.y]), SCHEMA)
    assert on_both_sides(members, some) == 4
    with pytest.raises(DataError, match="the same records on both sides"):
        attack_membership(made, members, members)


def test_of_a_large_set_the_last_record_counts_too():
    members, others = images(50, 0), images(50, 1)
    X, y = images(MOST + 10, 3).take(np.arange(MOST + 10))
    X[-50:], y = members.X, y.astype(np.int32)
    found = attack_membership(Distilled(X, y, SCHEMA), members, others)
    assert found["distance"].true_positives(0.0).value == 1.0, "Every record of the set is compared."


def test_other_records_are_refused():
    members = images(5, 0)
    X, y = members.take(np.arange(5))
    made = Distilled(X, y.astype(np.int32), SCHEMA)
    with pytest.raises(DataError, match="Expected records as 8x8x1"):
        attack_membership(made, members, table_records(5))
    with pytest.raises(DataError, match="Expected at least one record of a known class on each side"):
        attack_membership(made, members, Records(members.X[:0], members.y[:0], SCHEMA))
    assert make_records(3).schema != SCHEMA
