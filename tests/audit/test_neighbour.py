"""A recorded neighbour: honest methods pass, and one that has seen a record is told apart."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from contract import make_records, table_records, tiny

from dpdistill.accounting.schedule import Budget
from dpdistill.audit.exact import Exact
from dpdistill.audit.neighbour import recorded_neighbours, without
from dpdistill.methods import LDPDC, METHODS
from dpdistill.schema import Schema


@pytest.mark.parametrize("name", [name for name, kind in METHODS.items() if kind.private])
def test_nothing_but_a_releases_share_changes(name):
    records = make_records(8) if Schema in METHODS[name].schemas else table_records(8)
    result, found = recorded_neighbours(records, tiny(name), Budget(1.0), removed=(3, 5))
    assert [each.removed for each in found] == [3, 5]
    for each in found:
        assert len(each.moved) == result.schedule.rounds
        assert each.differ == ()
        assert each.holds
    assert max(max(each.moved) for each in found) > 0.5, "Nothing moved at all."


PEEKED = {}


@dataclass(frozen=True, kw_only=True)
class Peeking(LDPDC):
    """It has a way to the records beside its releases.

    Guarantee: none.
    Source: nobody.
    """

    def finish(self, state, schema, progress=lambda *said: None):
        made = super().finish(state, schema)
        PEEKED["calls"] = PEEKED.get("calls", 0) + 1
        progress("counting", PEEKED["n"], PEEKED["n"])
        return replace(made, X=made.X + np.float32(1e-3 * PEEKED["n"]))


def test_a_method_that_sees_the_records_is_told_apart(monkeypatch):
    import dpdistill.audit.neighbour as neighbour

    records = make_records(8)
    PEEKED["n"] = 8

    def one_less(records, i):
        PEEKED["n"] = 7
        return without(records, i)

    monkeypatch.setattr(neighbour, "without", one_less)
    _, (found,) = recorded_neighbours(records, Peeking(), Budget(1.0), removed=(3,))
    assert not found.holds
    assert max(found.moved) <= 1.0
    assert "what is said of the progress" in found.differ
    assert "synthetic.npz" in found.differ
    assert "recipe.json" not in found.differ


def test_a_sum_that_moves_further_than_was_paid_for_is_told_apart(monkeypatch):
    exact = Exact.sum
    monkeypatch.setattr(Exact, "sum", lambda self, *asked: 1.01 * exact(self, *asked))
    _, (found,) = recorded_neighbours(make_records(8), tiny("dos"), Budget(1.0), removed=(3,))
    assert found.differ == ()
    assert max(found.moved) > 1.0
    assert not found.holds


def test_the_record_and_no_other_is_removed():
    records = make_records(8)
    rest = without(records, 3)
    np.testing.assert_array_equal(rest.X, np.delete(records.X, 3, 0))
    np.testing.assert_array_equal(rest.y, np.delete(records.y, 3))
