"""`replay_method`: honest methods pass, every planted leak is found, and what is said is what was tried."""

from dataclasses import replace

import contract
import leaky_methods as leaky
import numpy as np
import pytest
from chosen_tests import few
from contract import make_records, table_records, tiny

from dpdistill import begin_ledger, run
from dpdistill.accounting.schedule import Budget
from dpdistill.audits.method_audit import ALL, FRESH, SAME, replay_method
from dpdistill.audits.noiseless_sums import Exact
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.methods import METHODS
from dpdistill.private.noise import SeededEntropy, SystemEntropy
from dpdistill.schema import Schema

RECORDS = make_records(16)


def audited(method, records=RECORDS, budget=None, **how):
    """An audit whose noise follows a seed, so that what a leak shows is the same at each run of the tests."""
    how = {"chosen": (), "fresh": False, "entropy": SeededEntropy(3), **how}
    return replay_method(records, method, budget or Budget(1.0), **how)


def differing(audit):
    return {each.change: each.differ for each in audit.replays if each.found}


@pytest.mark.parametrize(
    "name", few([name for name, kind in METHODS.items() if kind.private], "dos-kip", "dp-kip", "dp-hp")
)
def test_methods_of_the_package_show_nothing_but_their_releases(name):
    records = (
        make_records(8)
        if Schema in METHODS[name].schemas
        else table_records(8, schema=contract.fitting(name, contract.TABLE))
    )
    audit = audited(tiny(name), records, chosen=(3,))
    one_by_one = ["record 3 removed", "record 3 replaced"]
    assert [each.change for each in audit.replays] == [SAME, "all but record 3 replaced", *one_by_one, ALL]
    assert differing(audit) == {}
    assert audit.held == ()
    assert not audit.found
    rounds = sum(stage.rounds for stage in tiny(name).plan())
    assert [len(each.moved) for each in audit.replays] == [0, 0, rounds, rounds, 0]
    assert 0.3 < audit.largest <= 1.0


LEAKS = {
    leaky.captured_record: "distilled.X",
    leaky.seeded_by_records: "recipe.json",
    leaky.copies_by_number: "synthetic.npz",
    leaky.clipped_by_largest: "the query of round 0",
    leaky.scaled_by_maximum: "synthetic.npz",
    leaky.classes_as_they_appear: "distilled.y",
    leaky.stopped_by_private_loss: "the progress",
    leaky.kept_in_state: "the state after round 0",
    leaky.asked_by_records: "the query of round 0",
}
"""Functions that make a method of the records, and something that differs."""


@pytest.mark.parametrize("make", LEAKS, ids=lambda make: make.__name__)
def test_a_method_made_after_a_look_at_the_records_is_found(make):
    audit = audited(make)
    (found,) = differing(audit).items()
    assert found[0] == ALL
    assert LEAKS[make] in found[1]
    assert audit.found
    assert str(audit) == "A leak was found for the 0 records tried, of 16, in 2 replays"


PIPELINES = {
    leaky.real_image_added: "distilled.X",
    leaky.label_by_plain_counts: "distilled.y",
    leaky.number_in_recipe: "report.html",
    leaky.number_logged: "the log",
    leaky.number_printed: "printed text",
    leaky.number_warned_of: "warnings",
    leaky.number_as_progress: "the progress",
    leaky.error_at_small_numbers: "an error",
}
"""Functions in the place of run.distill, and something that differs."""


@pytest.mark.parametrize("distill", PIPELINES, ids=lambda distill: distill.__name__)
def test_a_run_that_does_more_with_the_records_is_found(distill):
    audit = audited(leaky.Means(), distill=distill)
    (found,) = differing(audit).items()
    assert found[0] == ALL
    assert PIPELINES[distill] in found[1]


def test_the_replay_of_one_record_finds_the_leak_of_that_record():
    audit = audited(leaky.Means(), distill=leaky.real_image_added, chosen=(5, 6))
    assert set(differing(audit)) == {"record 5 removed", "record 5 replaced", ALL}


def test_a_record_in_the_code_of_a_finished_method_is_found():
    audit = audited(leaky.captured_record(RECORDS))
    assert differing(audit) == {}
    assert audit.held == ("Captured.finish holds an array of shape (8, 8, 1)",)
    assert audit.found
    assert audited(leaky.Means()).held == ()


def test_a_file_of_records_that_is_opened_is_found(tmp_path, monkeypatch):
    """And nothing else differs: a fresh process makes the same of the same releases, bit for bit."""
    path = tmp_path / "data.npz"
    np.savez(path, X=RECORDS.X)
    monkeypatch.setenv("LEAKY_DATA", str(path))
    audit = audited(leaky.ReadFromDisk(), fresh=True, private_files=[path])
    assert [each.change for each in audit.replays] == [SAME, FRESH]
    assert differing(audit) == {FRESH: (f"{path}, which was opened",)}
    assert audit.not_tried == ()


@pytest.mark.slow
def test_a_cache_and_what_lies_in_memory_are_found_in_a_fresh_process(monkeypatch):
    """In this process all replays see the records that were here first."""
    monkeypatch.setattr(leaky, "FILLED", {})
    for method in (leaky.FoundInMemory(), leaky.cached_globally):
        assert differing(audited(method)) == {}
    audit = audited(leaky.cached_globally, fresh=True)
    assert "distilled.X" in differing(audit)[FRESH]


def test_a_function_that_cannot_be_imported_is_replayed_here():
    audit = audited(lambda records: leaky.Means(), fresh=True)
    assert [each.change for each in audit.replays] == [SAME, ALL]
    assert audit.not_tried == (f"{FRESH}: the method cannot be imported there",)


def test_where_the_number_of_records_is_public_it_may_show():
    audit = audited(leaky.copies_by_number, budget=Budget(1.0, adjacency="replace-one"), chosen=(3,))
    assert [each.change for each in audit.replays] == [SAME, "all but record 3 replaced", "record 3 replaced", ALL]
    assert not audit.found


def test_a_sum_that_moves_further_than_was_paid_for_is_found(monkeypatch):
    exact = Exact.sum
    monkeypatch.setattr(Exact, "sum", lambda self, *asked: 1.01 * exact(self, *asked))
    audit = audited(tiny("dos"), make_records(8), chosen=(3,))
    assert {each.change: bool(each.differ) for each in audit.replays if each.found} == {"record 3 removed": False}
    assert audit.largest == pytest.approx(1.01, abs=1e-3)


def test_a_method_that_dices_is_told_from_one_that_leaks():
    """Without a change of the records it differs already: nothing can be said of it."""

    class Dices(leaky.Means):
        def finish(self, state, schema, progress=lambda *said: None):
            made = super().finish(state, schema)
            return replace(made, X=made.X * np.float32(np.random.default_rng().random()))

    audit = audited(Dices())
    assert SAME in differing(audit)
    assert audit.undecided
    assert str(audit) == "Nothing can be said: two runs on the same records and releases differ"


def test_the_result_is_that_of_the_first_run_and_pays_for_it():
    audit = audited(leaky.Means(), label="audit", entropy=SystemEntropy())
    again = run.distill(RECORDS, leaky.Means(), Budget(1.0))
    assert audit.result.schedule == again.schedule
    assert audit.result.noise == "operating-system entropy"
    assert not np.array_equal(audit.result.distilled.X, again.distilled.X)


def test_a_run_that_is_paid_in_a_ledger_is_audited(tmp_path):
    ledger = begin_ledger(tmp_path / "all.ledger", 2.0)
    audit = audited(leaky.Means(), ledger=ledger, chosen=1, fresh=False)
    assert not [replay for replay in audit.replays if replay.found]
    assert DatasetLedger(ledger).summary().spent == pytest.approx(1.0)


def test_refusals():
    with pytest.raises(ValueError, match="from 0 to 15; got 16"):
        audited(leaky.Means(), chosen=(3, 16))
    with pytest.raises(ValueError, match="single records"):
        audited(leaky.Means(), budget=Budget(1.0, unit="patient", rows_per_unit=2))

    def twice(records, method, budget, **how):
        run.distill(records, method, budget, **how)
        if len(records) != len(RECORDS):
            run.distill(records, method, budget, **how)
        return run.distill(records, method, budget, **how)

    assert "an error" in differing(audited(leaky.Means(), distill=twice))[ALL]
