"""Shards of a sum: their integers add up to the whole, bit by bit, wherever they are computed."""

import contract
import numpy as np
import pytest
from chosen_tests import few
from contract import make_records, of_units, table_records, tiny

from dpdistill.methods import METHODS
from dpdistill.private.aggregator import LocalAggregator, Question
from dpdistill.private.checks import blocks_of, check_query
from dpdistill.private.grid import make_grid
from dpdistill.private.linear import carried
from dpdistill.private.noise import KeyedEntropy
from dpdistill.query import LinearQuery
from dpdistill.schema import Schema
from dpdistill.storage.memory import Memory

PRIVATE = [name for name, kind in METHODS.items() if kind.private]
KEY, COINS = b"k" * 32, b"c" * 32


def question_of(query, params, schema, q, size=4, k=1):
    shape = check_query(query, params, schema, size=size * k, rows_per_unit=k)
    grid = None
    if not isinstance(query, LinearQuery):
        grid = make_grid(query.clip_norm, 1.0, int(np.prod(shape)) * blocks_of(query, schema, k), 100)
    return Question(query, params, shape, size, q, grid, 0)


def total(records, question, shards, space=None, k=None):
    """The sum of all shards, each by a holder of its own."""
    parts = []
    for i in range(shards):
        holder = LocalAggregator(records, KeyedEntropy(KEY), k, space)
        parts.append(holder.sum(question, KeyedEntropy(COINS), (i, shards)))
    found = sum(parts)
    return carried(found) if question.grid is None else found


@pytest.mark.parametrize("q", few([1.0, 0.4], 0.4))
@pytest.mark.parametrize("name", few(PRIVATE, "dos-kip", "dp-kip", "dp-merf", "ndpdc"))
def test_shards_of_every_method_add_up_to_the_whole(name, q, tmp_path):
    records = (
        make_records(150)
        if Schema in METHODS[name].schemas
        else table_records(150, schema=contract.fitting(name, contract.TABLE))
    )
    _, (query, params) = contract.asked(tiny(name), records.schema)
    question = question_of(query, params, records.schema, q)
    whole = total(records, question, 1)
    assert whole.any(), "The sum is nothing."
    np.testing.assert_array_equal(total(records, question, 3), whole)
    if query.encoder is not None:  # features in files: for each process alone, and shared
        np.testing.assert_array_equal(total(records, question, 2, Memory(0)), whole)
        np.testing.assert_array_equal(total(records, question, 2, Memory(0, tmp_path, shared=True)), whole)
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize("query", [contract.FlatQuery(), contract.FlatLinear(0.5)])
def test_units_are_not_cut_apart(query):
    records = of_units(make_records(400), np.arange(400) // 5)
    question = question_of(query, np.float32(1.0), records.schema, 0.5, k=3)
    whole = total(records, question, 1, k=3)
    assert whole.any()
    for shards in (2, 7):
        np.testing.assert_array_equal(total(records, question, shards, k=3), whole)


@pytest.mark.parametrize("query", [contract.FlatQuery(), contract.FlatQuery(encoder=contract.Halve())])
def test_removing_a_record_takes_its_own_integers_from_the_shards(query):
    records, places = make_records(150), np.random.default_rng(4).integers(0, 1 << 16, 150)
    question = question_of(query, np.float32(1.0), records.schema, 1.0)

    def sum_of(rows):
        part = contract.subset(records, rows)
        holders = [LocalAggregator(part, contract.NoNoise(places=places[rows])) for _ in range(3)]
        return sum(each.sum(question, KeyedEntropy(COINS), (i, 3)) for i, each in enumerate(holders))

    for at in np.flatnonzero(records.y >= 0)[[0, 70]]:
        rest, own = np.delete(np.arange(150), at), sum_of(np.array([at]))
        np.testing.assert_array_equal(sum_of(np.arange(150)) - sum_of(rest), own)
        assert own.any()


def test_more_shards_than_chunks():
    records = make_records(20)
    question = question_of(contract.FlatQuery(), np.float32(1.0), records.schema, 1.0)
    np.testing.assert_array_equal(total(records, question, 64), total(records, question, 1))


def test_another_key_tosses_other_coins_and_the_same_one_the_same():
    first, again, other = (KeyedEntropy(key).bytes(64) for key in (KEY, KEY, COINS))
    assert first == again
    assert first != other
    stream = KeyedEntropy(KEY)
    assert len({stream.bytes(32) for _ in range(100)}) == 100
    assert np.mean(np.unpackbits(np.frombuffer(KeyedEntropy(KEY).bytes(1 << 16), np.uint8))) == pytest.approx(
        0.5, abs=3e-3
    )
