"""Runs in a data set's ledger: copies of a run's folder, the records it is bound to, and how it comes to be."""

import shutil
from dataclasses import dataclass, replace

import contract
import jax.numpy as jnp
import numpy as np
import pytest
from contract import make_records

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.errors import LedgerError
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger
from dpdistill.method import Distilled, Method, release_field
from dpdistill.private.curator import Curator
from dpdistill.query import Stage
from dpdistill.storage.records import Records

RECORDS, BUDGET, ELSEWHERE = make_records(30), Budget(1.0), "this run was resumed elsewhere"


@dataclass(frozen=True, kw_only=True)
class Sums(Method):
    """One noised sum a round, told apart from all others by its noise."""

    rounds: int = release_field(6, "rounds")

    title, name, references = "Sums", "sums", ()

    def plan(self):
        return (Stage(self.rounds),)

    def init(self, key, schema, public=None):
        return np.zeros((self.rounds, 64))

    def ask(self, state):
        return contract.FlatQuery(2.0, by_class=False), jnp.ones(())

    def tell(self, state, release):
        state = state.copy()
        state[release.round] = release.value
        return state

    def finish(self, state, schema, progress=None):
        X = state.reshape(self.rounds, 8, 8, 1).astype(np.float32)
        return Distilled(X, np.arange(self.rounds, dtype=np.int32) % 2, schema)


class Stopped(Exception):
    pass


def at(round, action):
    """A progress that does something once a round is over."""

    def progress(stage, done, total):
        if (stage, done) == ("releasing", round):
            action()

    return progress


def stop():
    raise Stopped


@pytest.fixture
def go(tmp_path):
    """A run in a folder and in all.ledger, from the start or from where it stopped."""

    def run_in(name, records=RECORDS, cap=2.0, **settings):
        paid = {"ledger": tmp_path / "all.ledger"} | settings
        if paid["ledger"] == tmp_path / "all.ledger" and not paid["ledger"].exists():
            DatasetLedger.begin(paid["ledger"], cap)
        return run.distill(records, Sums(), BUDGET, run_dir=tmp_path / name, **paid)

    return run_in


@pytest.fixture
def copy(tmp_path):
    return lambda: shutil.copytree(tmp_path / "a.run", tmp_path / "b.run")


def stopped(go, round):
    with pytest.raises(Stopped):
        go("a.run", progress=at(round, stop))


def rounds_in(folder):
    return len(RunLedger.read(folder).events)


class TestCopies:
    @pytest.mark.parametrize("round", [0, 2, 5])
    @pytest.mark.parametrize(("first", "second"), [("a.run", "b.run"), ("b.run", "a.run")])
    def test_of_two_copies_of_a_stopped_run_one_goes_on(self, go, copy, first, second, round, tmp_path):
        stopped(go, round)
        copy()
        go(first)
        with pytest.raises(
            LedgerError, match=f"{ELSEWHERE}.* Resume in the folder that ran last, or move this DIR.run"
        ):
            go(second)
        assert (rounds_in(tmp_path / first), rounds_in(tmp_path / second)) == (6, round)
        assert len(DatasetLedger(tmp_path / "all.ledger").summary().runs) == 1

    def test_the_refusal_comes_before_a_record_is_read(self, go, copy, tmp_path):
        stopped(go, 2)
        copy()
        go("a.run")
        asked = Sums(), BUDGET, tmp_path / "all.ledger"
        with pytest.raises(LedgerError, match=ELSEWHERE):
            run.check_ledger(*asked, run_dir=tmp_path / "b.run")
        run.check_ledger(*asked, run_dir=tmp_path / "a.run")
        with pytest.raises(LedgerError, match=ELSEWHERE):
            run.check_ledger(*asked, run_dir=tmp_path / "b.run", overwrite=True)

    def test_a_copy_of_a_running_one_does_not_go_on_either(self, go, copy):
        go("a.run", progress=at(3, copy))
        with pytest.raises(LedgerError, match=ELSEWHERE):
            go("b.run")

    def test_while_a_copy_runs_no_further_round_is_handed_out(self, go, copy, tmp_path):
        told = []

        def overtake():
            copy()
            go("b.run")

        with pytest.raises(LedgerError, match=ELSEWHERE):
            go("a.run", progress=lambda *said: (told.append(said[1]), at(3, overtake)(*said)))
        assert told == [0, 1, 2, 3]
        assert rounds_in(tmp_path / "b.run") == 6
        with pytest.raises(LedgerError, match=ELSEWHERE):
            go("a.run")
        with pytest.raises(LedgerError, match="not complete"):
            run.finish_again(tmp_path / "a.run", Sums())

    def test_a_copy_of_a_finished_run_releases_nothing_and_is_let_be(self, go, copy, monkeypatch, tmp_path):
        X = go("a.run").X
        copy()
        monkeypatch.setattr(Curator, "_draw", None)
        for name in ("a.run", "b.run"):
            np.testing.assert_array_equal(go(name).X, X)
            np.testing.assert_array_equal(run.finish_again(tmp_path / name, Sums()).X, X)

    @pytest.mark.parametrize("moved_on", [False, True])
    def test_a_crash_between_the_two_ledgers_locks_nobody_out(self, go, copy, moved_on, monkeypatch):
        """The round is in the run's ledger, and the data set's has its nonce already, or has not."""
        advance, crashes = DatasetLedger.advance, [False, False, True]

        def crash(self, *arguments):
            if crashes and crashes.pop(0):
                if moved_on:
                    advance(self, *arguments)
                raise Stopped
            advance(self, *arguments)

        stopped(go, 0)
        copy()  # of the start: everything from here on makes it a thing of the past
        monkeypatch.setattr(DatasetLedger, "advance", crash)
        with pytest.raises(Stopped):
            go("a.run")
        drawn, draw = [], Curator._draw
        monkeypatch.setattr(Curator, "_draw", lambda self, t, *rest: (drawn.append(t), draw(self, t, *rest))[1])
        go("a.run")
        assert drawn == [3, 4, 5]
        with pytest.raises(LedgerError, match=ELSEWHERE):
            go("b.run")

    def test_a_run_in_a_ledger_does_not_go_on_without_it(self, go):
        stopped(go, 2)
        with pytest.raises(LedgerError, match="paid in a data set's ledger: state the ledger again"):
            go("a.run", ledger=None)
        go("a.run")

    def test_a_run_may_join_later(self, go, copy):
        with pytest.raises(Stopped):
            go("a.run", ledger=None, progress=at(2, stop))
        copy()
        go("a.run")
        with pytest.raises(LedgerError, match=ELSEWHERE):
            go("b.run")


class TestRecords:
    def test_of_another_data_set_are_refused(self, go, tmp_path):
        go("a.run")
        for records in (make_records(30, seed=7), make_records(29), contract.subset(RECORDS, [*range(1, 30), 0])):
            with pytest.raises(LedgerError, match=r"all\.ledger is the ledger of other records"):
                go("b.run", records)
        assert not (tmp_path / "b.run").exists()
        assert len(DatasetLedger(tmp_path / "all.ledger").summary().runs) == 1

    def test_may_be_described_in_another_way(self, go):
        go("a.run", cap=4.0)
        other = replace(RECORDS, schema=replace(RECORDS.schema, bounds=(-1.0, 2.0)))
        assert other.schema != RECORDS.schema
        go("b.run", other)

    def test_the_first_that_are_read_are_bound_before_anything_is_released(self, go, tmp_path):
        with pytest.raises(Stopped):
            go("a.run", progress=at(0, stop))
        with pytest.raises(LedgerError, match="is the ledger of other records"):
            go("b.run", make_records(30, seed=7))


class TestNew:
    def test_a_ledger_that_is_not_there_is_not_made(self, go, tmp_path):
        with pytest.raises(LedgerError, match=r"There is no ledger at .*al\.ledger\. .* dpdistill budget new"):
            go("a.run", ledger=tmp_path / "al.ledger")
        assert not list(tmp_path.iterdir())

    def test_a_ledger_that_has_gone_is_not_begun_again(self, go, tmp_path):
        go("a.run")
        (tmp_path / "all.ledger").rename(tmp_path / "elsewhere")
        for left in (None, b""):
            if left is not None:
                (tmp_path / "all.ledger").write_bytes(left)
            with pytest.raises(LedgerError, match=r"There is no ledger at|damaged"):
                run.distill(RECORDS, Sums(), BUDGET, run_dir=tmp_path / "b.run", ledger=tmp_path / "all.ledger")
        assert not (tmp_path / "b.run").exists()


def test_a_refused_overwrite_leaves_the_run_that_is_there(go, tmp_path):
    """It was archived first, and what it had paid for could not be gone on with."""
    X, y = np.random.default_rng(0).integers(0, 255, (6, 8, 8), np.uint8), np.arange(6) % 2
    one, wider = (Records.from_arrays(X, y, classes=2, bounds=(0, high)) for high in (255, 256))
    with pytest.raises(Stopped):
        go("a.run", one, progress=at(2, stop), cap=1.0)
    with pytest.raises(LedgerError, match="over the cap of"):
        go("a.run", wider, overwrite=True, cap=1.0)
    assert rounds_in(tmp_path / "a.run") == 2
    go("a.run", one, cap=1.0)
    assert rounds_in(tmp_path / "a.run") == 6
