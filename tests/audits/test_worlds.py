"""Other records for an audit: which are tried first, and what is put in the place of records."""

import numpy as np
import pytest
from contract import TABLE, make_records, table_records

from dpdistill.audits.digest import digest
from dpdistill.audits.neighbours import (
    choose,
    random_records,
    rarest,
    with_all_but_one_replaced,
    with_one_replaced,
    without,
)
from dpdistill.schema import Schema
from dpdistill.storage.records import Records

SCHEMA = Schema((2, 2, 1), (0.0, 16.0), ("ant", "bee", "cat"))


def of(X, y):
    return Records(np.asarray(X), np.asarray(y, np.int64), SCHEMA)


def small():
    """Twelve dark images of two classes; 4 is bright, 7 equals 2, and 9 is the only one of its class."""
    X = np.zeros((12, 4), np.uint8)
    X[:, 0], X[:, 1] = np.arange(12) // 4, np.arange(12) % 4
    X = X.reshape(12, 2, 2, 1)
    X[4], X[7] = 16, X[2]
    y = np.arange(12) % 2
    y[9] = 2
    return of(X, y)


def test_lone_members_outliers_and_duplicates_come_first():
    records = small()
    assert choose(records, 3) == {9: "the only record of its class", 4: "an outlier", 7: "a duplicate"}
    five = choose(records, 5)
    assert list(five)[:3] == [9, 4, 7]
    assert len(five) == 5
    assert choose(records, 5) == five
    assert sorted(choose(records, 99)) == list(range(12))
    assert list(choose(records, 1)) == [9]
    assert choose(records, 0) == {}
    drawn = [list(choose(make_records(200), 9, seed))[-3:] for seed in (0, 1)]
    assert drawn[0] != drawn[1]
    assert set(choose(make_records(200), 9).values()) == {"an outlier", "drawn at random"}


def test_a_record_that_is_not_finite_is_an_outlier():
    records = make_records(20)
    X = records.X.copy()
    X[11, 3] = np.nan
    assert choose(Records(X, records.y, records.schema), 1) == {11: "an outlier"}


def test_one_record_is_removed_or_replaced_and_no_other():
    records = small()
    rest = without(records, 3)
    np.testing.assert_array_equal(rest.X, np.delete(records.X, 3, 0))
    np.testing.assert_array_equal(rest.y, np.delete(records.y, 3))
    other = with_one_replaced(records, 4)
    assert np.flatnonzero((other.X != records.X).any((1, 2, 3))).tolist() == [4]
    assert np.flatnonzero(other.y != records.y).tolist() == [4]
    assert (other.X[4] == 0).all(), "The opposite of the brightest is the darkest."
    assert (other.y[4], other.X.dtype) == (1, np.uint8)
    grey = with_one_replaced(of(np.full((2, 2, 2, 1), 8.0), [0, 1]), 1)
    assert not (grey.X[1] == 8.0).all(), "What is its own opposite is replaced by something else."
    unknown = with_one_replaced(of(np.full((2, 2, 2, 1), np.nan), [0, 1]), 1)
    assert np.isfinite(unknown.X[1]).all()


def test_all_records_but_one_are_replaced():
    records = small()
    other = with_all_but_one_replaced(records, 4)
    same = (other.X == records.X).all((1, 2, 3))
    assert np.flatnonzero(same).tolist() == [4]
    assert (rarest(records), np.bincount(other.y, minlength=3).argmax()) == (2, 2)
    assert len(other) == 12


@pytest.mark.parametrize("schema", [SCHEMA, TABLE], ids=["images", "table"])
def test_random_records_are_records_of_the_schema_that_follow_their_seed(schema):
    dtype = np.uint8 if schema is SCHEMA else np.float32
    one, same, other = (random_records(schema, 40, dtype, seed, 1) for seed in (3, 3, 4))
    assert (len(one), one.X.dtype, one.schema) == (40, dtype, schema)
    assert digest((one.X, one.y)) == digest((same.X, same.y)) != digest((other.X, other.y))
    assert one.y[0] == np.bincount(one.y).argmax() == 1
    assert np.isfinite(one.take(np.arange(40))[0]).all()
    assert np.abs(one.take(np.arange(40))[0]).max() <= 1.0
    assert with_one_replaced(table_records(9, schema=schema), 2).schema == schema


def test_digests_tell_bits_types_and_names():
    X = np.arange(4.0)
    told = [
        X,
        X.astype(np.float32),
        X.reshape(2, 2),
        np.nextafter(X, 9.0),
        [X],
        (X,),
        {"a": X},
        {"b": X},
        "a",
        b"a",
        1,
        1.0,
        True,
    ]
    assert digest(X + 0.0) == digest(X)
    equal = [digest(each) for each in told]
    assert len({*equal}) == len(told)
    assert digest(np.array([0.0])) != digest(np.array([-0.0]))
