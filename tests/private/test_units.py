"""Units: all rows of a person together move a release by what is paid for, and enter a sample together."""

import contract
import numpy as np
import pytest
from contract import FlatLinear, FlatQuery, make_curator, make_records, memory_ledger, of_units, unit_schedule

from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.errors import CuratorError
from dpdistill.private import curator
from dpdistill.private.chunking import ChunkedRecords
from dpdistill.private.noise import SeededEntropy, SystemEntropy
from dpdistill.private.sampling import keep_rows
from dpdistill.query import Stage


def test_the_clip_is_shared():
    contract.check_clip_is_shared()


def test_which_rows_are_kept():
    contract.check_kept_rows()


def test_coins_are_tossed_by_unit():
    contract.check_coins_by_unit()


@pytest.mark.parametrize("query", [FlatQuery(), FlatQuery(0.2, by_class=False), FlatLinear(0.5)])
def test_a_person(query):
    contract.check_unit_sensitivity(query, np.float32(1.0), make_records(8, low=0.3))


def test_kept_rows_follow_the_operating_system():
    units = np.zeros(400, np.int64)
    (one,), (other,) = (keep_rows(units, 20, SystemEntropy()).tolist() for _ in range(2))
    assert len(set(one)) == len(set(other)) == 20
    assert set(one) != set(other)
    assert keep_rows(units[:0], 3, SystemEntropy()).shape == (0, 3)


def test_a_row_of_no_known_unit_is_never_used():
    records = of_units(make_records(9), [0, 0, -1, 1, 1, 1, -1, 2, 2])
    placed = ChunkedRecords(records, SeededEntropy(1), 2)
    assert len(placed) == 3
    seen = np.concatenate([X for X, _ in placed.chunks(None, None, 4)]).reshape(-1, 64)
    given = records.schema.to_unit(records.X).reshape(9, 64)
    found = [bool((seen == row).all(1).any()) for row in given]
    assert found[2] is found[6] is False
    assert found[0] is found[1] is found[7] is found[8] is True
    assert sum(found[3:6]) == 2


def test_units_and_budget_go_together():
    records, schedule = make_records(5), unit_schedule()
    units = of_units(records, np.arange(5))
    said = "Expected records with units if and only if the budget protects a unit"
    with pytest.raises(CuratorError, match=said):
        curator.Curator(records, schedule, memory_ledger(schedule))
    with pytest.raises(CuratorError, match=said):
        make_curator(units)


def test_no_rows_and_only_unknown_units_are_answered():
    for records in (of_units(make_records(0), []), of_units(make_records(4), [-1] * 4)):
        for q in (1.0, 0.5):
            schedule = unit_schedule(3, q)
            asked = curator.Curator(records, schedule, memory_ledger(schedule), contract.NoNoise())
            assert not asked.release(0, FlatQuery(), 1.0).value.any()


def test_replacing_a_person_is_paid():
    """Three rows that become their opposites move a release by what the noise of replace-one is calibrated to."""
    schedule = calibrate((Stage(1),), Budget(1.0, 1e-5, "replace-one", "person", 3))
    X, y = np.ones((9, 8, 8, 1), np.float32), np.zeros(9, np.int64)
    values = []
    for sign in (1.0, -1.0):
        X[3:6] = sign
        records = of_units(type(make_records(1))(X, y, contract.SCHEMA), np.arange(9) // 3)
        asked = curator.Curator(records, schedule, memory_ledger(schedule), contract.NoNoise())
        values.append(asked.release(0, FlatQuery(), 1.0))
    moved = float(np.linalg.norm(values[0].value - values[1].value)) / values[0].stddev
    assert 0.999 / 3.7306 <= moved <= (1 + 1e-4) / 3.7306
