"""The ledgers: what is committed is paid, stays, and is the only thing handed out."""

import dataclasses
import json
import math
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from dpdistill.accounting.bounds import epsilon_lower_bound, epsilon_rdp
from dpdistill.accounting.gaussian import gaussian_epsilon
from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.errors import LedgerError, LedgerUnusable
from dpdistill.ledger import database
from dpdistill.ledger import dataset_file as file_module
from dpdistill.ledger import folder as folder_module
from dpdistill.ledger import run as runs
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.folder import digest_key
from dpdistill.ledger.run import RunLedger
from dpdistill.query import Event, Stage

SCHEDULE = Schedule((Stage(2), Stage(3, sampling_prob=0.25)), (4.0, 2.5), Budget(1.0))
FULL, SAMPLED = Event(4.0), Event(2.5, 0.25)
RECIPE = {"method": "ldpdc", "fields": {"per_class": 10, "ridge": 1e-6}}
HERE = Path(__file__).resolve().parent


def start(folder, **changes):
    return RunLedger.open(folder, **{"recipe": RECIPE, "schedule": SCHEDULE, "digest": b"d" * 32} | changes)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def child(code, *arguments, **options):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE.parents[1] / "src"), str(HERE)])}
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=environment, text=True, **options)


class TestCommit:
    def test_what_is_handed_out_is_what_is_read_back(self):
        value = np.array([[1.0, -2.5], [np.pi, 1e300]])
        with start(":memory:") as ledger:
            stored = ledger.commit(0, FULL, value, 4.0)
            value[0, 0] = 99.0
            for release in (stored, ledger.lookup(0)):
                assert release.round == 0
                assert release.value.dtype == np.float64
                np.testing.assert_array_equal(release.value, [[1.0, -2.5], [np.pi, 1e300]])
                assert (release.stddev, release.event) == (4.0, FULL)
                assert release.value.flags.writeable

    @pytest.mark.parametrize(
        "value", [np.array(7), np.zeros((0, 3)), np.arange(6, dtype=np.int64)[::2], np.ones((2, 2), ">f4")]
    )
    def test_dtype_and_shape_survive(self, value):
        with start(":memory:") as ledger:
            stored = ledger.commit(0, FULL, value, 1.0).value
        assert (stored.dtype, stored.shape) == (value.dtype, value.shape)
        np.testing.assert_array_equal(stored, value)

    def test_long_values_are_kept_in_parts(self, tmp_path, monkeypatch):
        monkeypatch.setattr(runs, "PART", 100)
        long, short = np.arange(40.0).reshape(2, 20), np.arange(12.0)
        with start(tmp_path) as ledger:
            for round, value in enumerate((long, short)):
                np.testing.assert_array_equal(ledger.commit(round, FULL, value, 1.0).value, value)
            lengths = ledger._db.execute("SELECT round, part, LENGTH(value) FROM further").fetchall()
            assert lengths == [(0, 1, 100), (0, 2, 100), (0, 3, 20)]
        with start(tmp_path) as ledger:
            np.testing.assert_array_equal(ledger.lookup(0).value, long)
            ledger.drop_values(1)
            assert ledger._db.execute("SELECT COUNT(*) FROM further").fetchone() == (0,)
            np.testing.assert_array_equal(ledger.lookup(1).value, short)

    def test_a_part_that_cannot_be_written_rolls_the_round_back(self, monkeypatch):
        monkeypatch.setattr(runs, "PART", 100)
        with start(":memory:") as ledger:
            ledger._db.execute("CREATE TRIGGER t BEFORE INSERT ON further BEGIN SELECT RAISE(ABORT, 'no'); END")
            with pytest.raises(LedgerError, match="Round 0 could not be written"):
                ledger.commit(0, FULL, np.zeros(20), 1.0)
            assert ledger.resume_at == 0
            assert not ledger.paid

    def test_a_ledger_of_an_earlier_version_takes_long_values_too(self, tmp_path, monkeypatch):
        with start(tmp_path) as ledger:
            ledger._db.execute("DROP TABLE further")
        monkeypatch.setattr(runs, "PART", 100)
        with start(tmp_path) as ledger:
            np.testing.assert_array_equal(ledger.commit(0, FULL, np.arange(40.0), 1.0).value, np.arange(40.0))

    def test_lookup_of_an_uncommitted_round_is_none(self):
        with start(":memory:") as ledger:
            assert ledger.lookup(0) is None
            assert ledger.resume_at == 0

    def test_events_follow_the_schedule(self):
        with start(":memory:") as ledger:
            for round in range(5):
                ledger.commit(round, SCHEDULE.event(round), np.zeros(2), 1.0)
            assert ledger.events() == (FULL, FULL, SAMPLED, SAMPLED, SAMPLED)
            assert ledger.resume_at == 5

    @pytest.mark.parametrize(
        ("round", "event", "message"),
        [
            (0, FULL, "Round 0 is committed already: it is replayed, never drawn again."),
            (2, SAMPLED, "Expected round 1 next; got round 2."),
            (5, SAMPLED, "Round 5 is not in the schedule of 5 rounds."),
            (1, SAMPLED, "The event of round 1 deviates from the schedule"),
            (1, Event(np.nextafter(4.0, 0.0)), "The event of round 1 deviates from the schedule"),
        ],
    )
    def test_deviations_are_refused_and_leave_no_trace(self, round, event, message):
        with start(":memory:") as ledger:
            ledger.commit(0, FULL, np.zeros(2), 1.0)
            with pytest.raises(LedgerError, match=message):
                ledger.commit(round, event, np.ones(2), 1.0)
            assert ledger.resume_at == 1
            np.testing.assert_array_equal(ledger.lookup(0).value, [0.0, 0.0])

    @pytest.mark.parametrize("stddev", [0.0, -1.0, math.inf, math.nan])
    def test_stddev_must_be_positive(self, stddev):
        with start(":memory:") as ledger, pytest.raises(LedgerError, match="Expected 0 < stddev="):
            ledger.commit(0, FULL, np.zeros(2), stddev)

    def test_objects_are_refused(self):
        with start(":memory:") as ledger, pytest.raises(LedgerError, match="value of numbers; got dtype object"):
            ledger.commit(0, FULL, np.array([object()]), 1.0)

    def test_a_ledger_that_cannot_be_written_says_so(self):
        with start(":memory:") as ledger:
            ledger._db.execute("PRAGMA query_only = 1")
            with pytest.raises(LedgerError, match="Round 0 could not be written to the ledger"):
                ledger.commit(0, FULL, np.zeros(2), 1.0)

    def test_a_value_of_more_than_sqlite_takes_says_so_too(self):
        large = mock.patch(
            "dpdistill.ledger.run.transaction", side_effect=OverflowError("BLOB longer than INT_MAX bytes")
        )
        with start(":memory:") as ledger:
            with (
                large,
                pytest.raises(LedgerError, match="Round 0 could not be written to the ledger: BLOB longer") as said,
            ):
                ledger.commit(0, FULL, np.zeros(2), 1.0)
            assert said.value.__cause__ is None
            assert ledger.resume_at == 0

    def test_a_failed_transaction_rolls_everything_back(self):
        with start(":memory:") as ledger:
            ledger._db.execute("CREATE TRIGGER t BEFORE UPDATE ON run BEGIN SELECT RAISE(ABORT, 'no'); END")
            with pytest.raises(LedgerError, match="could not be written"):
                ledger.commit(0, FULL, np.zeros(2), 1.0)
            assert ledger.resume_at == 0
            ledger._db.execute("DROP TRIGGER t")
            ledger.commit(0, FULL, np.ones(2), 1.0)

    def test_nothing_but_the_round_is_kept(self, tmp_path):
        with start(tmp_path) as ledger:
            ledger.commit(0, FULL, np.ones(2), 4.0)
            kept = ledger._db.execute("SELECT * FROM rounds").fetchall()
        assert kept == [(0, 4.0, 1.0, 4.0, "<f8", "[2]", np.ones(2).tobytes())]

    def test_a_round_that_the_data_sets_ledger_does_not_take_is_never_handed_out(self, tmp_path):
        dataset = DatasetLedger.begin(tmp_path / "ledger", 5.0)
        dataset.bind(of())
        with start(tmp_path / "run") as ledger:
            ledger.join(dataset, "demo")
            assert dataset.summary().spent == pytest.approx(SCHEDULE.epsilon(1e-5))
            ledger.commit(0, FULL, np.zeros(2), 1.0)
            os.rename(tmp_path / "ledger", tmp_path / "gone")
            with pytest.raises(LedgerError, match="There is no ledger at"):
                ledger.commit(1, FULL, np.ones(2), 1.0)
            with pytest.raises(sqlite3.ProgrammingError, match="closed"):
                ledger.lookup(1)
        os.rename(tmp_path / "gone", tmp_path / "ledger")
        with start(tmp_path / "run") as ledger:
            for use in (lambda: ledger.lookup(1), lambda: ledger.commit(2, SAMPLED, np.ones(2), 1.0)):
                with pytest.raises(LedgerError, match="paid in a data set's ledger: state the ledger again"):
                    use()
            ledger.join(dataset, "demo")
            assert ledger.lookup(1).value[0] == 1.0
            assert dataset.summary().runs[0].nonce == RunLedger.read(tmp_path / "run").nonces[1]

    def test_dropped_values_keep_their_events(self):
        with start(":memory:") as ledger:
            for round in range(3):
                ledger.commit(round, SCHEDULE.event(round), np.full(2, float(round)), 1.0)
            ledger.drop_values(before=2)
            assert ledger.events() == (FULL, FULL, SAMPLED)
            with pytest.raises(LedgerError, match="The value of round 1 was dropped after its checkpoint"):
                ledger.lookup(1)
            np.testing.assert_array_equal(ledger.lookup(2).value, [2.0, 2.0])
            with pytest.raises(LedgerError, match="committed already"):
                ledger.commit(1, FULL, np.zeros(2), 1.0)


class TestFolder:
    def test_modes_are_the_owners(self, tmp_path):
        folder = tmp_path / "a" / "demo.run"
        key = digest_key(folder)
        with start(folder) as ledger:
            ledger.commit(0, FULL, np.zeros(2), 1.0)
            assert mode(folder) == 0o700
            names = {path.name: mode(path) for path in folder.iterdir()}
            assert names.keys() >= {"key", "lock", "ledger.sqlite", "ledger.sqlite-wal"}
            assert set(names.values()) == {0o600}
        assert len(key) == 32

    def test_an_open_folder_is_closed(self, tmp_path):
        tmp_path.chmod(0o755)
        start(tmp_path).close()
        assert mode(tmp_path) == 0o700

    def test_a_folder_of_other_files_is_left_as_it_is(self, tmp_path):
        (tmp_path / "thesis.tex").write_text("mine")
        tmp_path.chmod(0o755)
        for begin in (start, digest_key):
            with pytest.raises(LedgerError, match="holds files that are not a run's: name a new folder, or an empty"):
                begin(tmp_path)
        assert mode(tmp_path) == 0o755
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
        (tmp_path / "thesis.tex").rename(tmp_path / "lost+found")  # as a new disk has it
        start(tmp_path).close()
        assert mode(tmp_path) == 0o700

    def test_a_run_that_was_copied_without_its_modes_is_closed(self, tmp_path):
        tmp_path.chmod(0o755)
        (tmp_path / "notes.txt").write_text("mine")
        (tmp_path / "key").write_bytes(bytes(32))  # of a run that was copied without its modes
        start(tmp_path).close()
        assert mode(tmp_path) == 0o700

    def test_a_private_folder_of_other_files_may_be_used(self, tmp_path):
        """Nobody else can read what is in it: mode 0700, or narrower."""
        (tmp_path / "notes.txt").write_text("mine")
        for bits in (0o700, 0o500):
            tmp_path.chmod(bits)
            folder_module.make_folder(tmp_path)
            assert mode(tmp_path) == 0o700

    def test_what_systems_make_on_a_new_disk_is_nobodys(self, tmp_path):
        for name in ("lost+found", ".DS_Store"):
            (tmp_path / name).touch()
            tmp_path.chmod(0o755)
            folder_module.make_folder(tmp_path)
            assert mode(tmp_path) == 0o700

    def test_durability_settings(self, tmp_path):
        with start(tmp_path / "run") as ledger:
            settings = [ledger._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
            assert settings == ["wal", 2]
            assert ledger._db.execute("PRAGMA fullfsync").fetchone()[0] == 1

    def test_the_key_is_made_once(self, tmp_path):
        key = digest_key(tmp_path)
        assert digest_key(tmp_path) == key
        assert key != digest_key(tmp_path / "other")
        assert len(digest_key(None)) == 32
        assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["key"]

    def test_a_damaged_key_is_refused(self, tmp_path):
        (tmp_path / "key").write_bytes(b"short")
        with pytest.raises(LedgerError, match=r"a key of 32 bytes in .*; the file is damaged"):
            digest_key(tmp_path)

    def test_a_file_in_the_place_of_the_folder(self, tmp_path):
        (tmp_path / "demo.run").write_text("")
        with pytest.raises(LedgerError, match="The run's folder cannot be created"):
            start(tmp_path / "demo.run")

    def test_a_file_that_is_no_ledger(self, tmp_path):
        (tmp_path / "ledger.sqlite").write_text("no database at all" * 100)
        with pytest.raises(LedgerError, match=r"ledger\.sqlite is not a ledger"):
            start(tmp_path)
        start(tmp_path, overwrite=True).close()
        assert (tmp_path / "ledger-001.sqlite").read_text() == "no database at all" * 100

    def test_another_kind_of_database(self, tmp_path):
        db = sqlite3.connect(tmp_path / "ledger.sqlite")
        db.execute("CREATE TABLE other (a)")
        db.close()
        with pytest.raises(LedgerError, match="another kind or version of ledger"):
            start(tmp_path)
        with pytest.raises(LedgerError, match="another kind or version of ledger"):
            RunLedger.read(tmp_path)


class TestResume:
    def test_the_same_run_goes_on(self, tmp_path):
        with start(tmp_path) as first:
            first.commit(0, FULL, np.array([1.5]), 1.0)
        with start(tmp_path) as second:
            assert second.run_id == first.run_id
            assert second.resume_at == 1
            assert second.lookup(0).value[0] == 1.5
            second.commit(1, FULL, np.array([2.5]), 1.0)
        assert RunLedger.read(tmp_path).events == (FULL, FULL)

    @pytest.mark.parametrize(
        ("changes", "differ"),
        [
            ({"recipe": RECIPE | {"method": "other"}}, "its recipe differ"),
            ({"schedule": Schedule(SCHEDULE.stages, (4.0, 2.6), Budget(1.0))}, "its schedule differ"),
            ({"digest": b"e" * 32}, "its records differ"),
            ({"recipe": {}, "digest": b"e" * 32}, "its recipe and records differ"),
        ],
    )
    def test_another_run_is_refused_by_what_differs(self, tmp_path, changes, differ):
        start(tmp_path).close()
        with pytest.raises(LedgerError, match=f"{differ}.*--overwrite archives it") as caught:
            start(tmp_path, **changes)
        assert "dddd" not in str(caught.value)
        assert "eeee" not in str(caught.value)
        assert (b"d" * 32).hex() not in str(caught.value)
        start(tmp_path).close()

    def test_a_recipe_says_the_same_in_any_order(self, tmp_path):
        start(tmp_path).close()
        start(tmp_path, recipe=dict(reversed(RECIPE.items()))).close()
        with start(tmp_path, recipe={"a": 1, "method": "ldpdc"}, overwrite=True) as ledger:
            stored = ledger._db.execute("SELECT recipe FROM run").fetchone()[0]
        assert stored == '{"a": 1, "method": "ldpdc"}'
        with start(tmp_path, recipe={"method": "ldpdc", "a": 1}, overwrite=True) as ledger:
            assert ledger._db.execute("SELECT recipe FROM run").fetchone()[0] == stored

    def test_a_run_has_paid_once_a_round_is_committed(self, tmp_path):
        with start(tmp_path) as ledger:
            assert ledger.paid is False
            with pytest.raises(LedgerError, match="Expected round 0 next"):
                ledger.commit(1, FULL, np.zeros(1), 1.0)
            assert ledger.paid is False
            ledger.commit(0, FULL, np.zeros(1), 1.0)
            assert ledger.paid is True
        with start(tmp_path) as ledger:
            assert ledger.paid is True

    def test_overwrite_archives_and_never_deletes(self, tmp_path):
        runs = []
        for number in range(3):
            with start(tmp_path, recipe={"number": number}, overwrite=True) as ledger:
                runs.append(ledger.run_id)
                ledger.commit(0, FULL, np.array([float(number)]), 1.0)
        assert len(set(runs)) == 3
        for number, name in ((0, "ledger-001.sqlite"), (1, "ledger-002.sqlite"), (2, "ledger.sqlite")):
            db = sqlite3.connect(tmp_path / name)
            assert json.loads(db.execute("SELECT recipe FROM run").fetchone()[0]) == {"number": number}
            assert np.frombuffer(db.execute("SELECT value FROM rounds").fetchone()[0])[0] == number
            db.close()
        assert mode(tmp_path / "ledger-001.sqlite") == 0o600

    def test_a_recipe_that_is_not_json(self):
        with pytest.raises(LedgerError, match="The recipe cannot be written as JSON"):
            start(":memory:", recipe={"a": object()})


class TestRead:
    def test_reads_beside_a_running_process(self, tmp_path):
        with start(tmp_path) as ledger:
            first = RunLedger.read(tmp_path)
            ledger.commit(0, FULL, np.zeros(1), 1.0)
            record = RunLedger.read(tmp_path)
            assert (record.recipe, record.schedule, record.events) == (RECIPE, SCHEDULE, (FULL,))
            assert record.run_id == first.run_id == ledger.run_id
            assert record.nonces[0] == first.nonces[0] == first.nonces[1] != record.nonces[1]

    def test_there_is_none(self, tmp_path):
        with pytest.raises(LedgerError, match="There is no ledger at"):
            RunLedger.read(tmp_path)
        (tmp_path / "ledger.sqlite").touch()
        assert RunLedger.find(tmp_path) is None
        with pytest.raises(LedgerError, match="There is no ledger at"):
            RunLedger.read(tmp_path)

    def test_a_damaged_one(self, tmp_path):
        with start(tmp_path) as ledger:
            ledger._db.execute("UPDATE run SET schedule = '{}'")
        with pytest.raises(LedgerError, match="is damaged"):
            RunLedger.read(tmp_path)
        (tmp_path / "ledger.sqlite").write_text("no database at all" * 100)
        with pytest.raises(LedgerError, match="is not a ledger"):
            RunLedger.read(tmp_path)


HOLDER = """
import sys
from test_ledger import start
with start(sys.argv[1]):
    print("open", flush=True)
    sys.stdin.read()
"""
COMMITTER = """
import sys
import numpy as np
from test_ledger import LONG, start
with start(sys.argv[1], schedule=LONG) as ledger:
    print("open", flush=True)
    while True:
        t = ledger.resume_at
        ledger.commit(t, LONG.event(t), np.full(5000, float(t)), 1.0)
        print(t, flush=True)
        if t % 7 == 6:
            ledger.drop_values(before=t - 3)
"""
LONG = Schedule((Stage(1_000_000),), (4.0,), Budget(1.0))


class TestProcesses:
    def test_a_second_process_is_told_in_one_sentence(self, tmp_path):
        holder = child(HOLDER, tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert holder.stdout.readline() == "open\n"
            with pytest.raises(LedgerError, match=r"^Another process is using .*: wait until it ends\.$"):
                start(tmp_path)
            with pytest.raises(LedgerError, match="Another process is using"):
                start(tmp_path, overwrite=True)
            assert not (tmp_path / "ledger-001.sqlite").exists()
        finally:
            holder.communicate("", timeout=60)
        start(tmp_path).close()

    def test_what_is_recorded_cannot_be_changed(self, tmp_path):
        start(tmp_path / "run").close()
        record = RunLedger.read(tmp_path / "run")
        with pytest.raises(dataclasses.FrozenInstanceError):
            record.events = (FULL,)
        ledger = DatasetLedger.begin(tmp_path / "ledger", 3.0)
        with pytest.raises(dataclasses.FrozenInstanceError):
            ledger.summary().spent = 0.0

    def test_a_second_opening_in_this_process_too(self, tmp_path):
        with start(tmp_path), pytest.raises(LedgerError, match="Another process is using"):
            start(tmp_path)

    def test_a_refused_opening_frees_the_lock(self, tmp_path):
        start(tmp_path).close()
        with pytest.raises(LedgerError, match="its recipe differ"):
            start(tmp_path, recipe={})
        ledger = start(tmp_path)
        ledger.close()
        ledger.close()

    def test_a_killed_run_keeps_every_round_once(self, tmp_path):
        rng = np.random.default_rng(0)
        seen = -1
        for _ in range(12):
            process = child(COMMITTER, tmp_path, stdout=subprocess.PIPE)
            assert process.stdout.readline() == "open\n"
            time.sleep(rng.uniform(0.0, 0.15))
            process.send_signal(signal.SIGKILL)
            printed = process.communicate(timeout=60)[0].splitlines()
            assert process.returncode == -signal.SIGKILL
            seen = max([seen, *map(int, printed)])
            with start(tmp_path, schedule=LONG) as ledger:
                rows = ledger._db.execute("SELECT round, LENGTH(value) FROM rounds ORDER BY round")
                rounds, values = zip(*rows.fetchall(), strict=True) if ledger.resume_at else ((), ())
                assert rounds == tuple(range(len(rounds)))
                assert seen + 1 <= len(rounds) <= seen + 2
                seen = len(rounds) - 1
                assert set(values) <= {40000, None}
                if rounds:
                    assert set(ledger.lookup(rounds[-1]).value) == {float(rounds[-1])}
        assert seen > 12


def full(epsilon, delta=1e-5, adjacency="add-remove", rounds=1):
    return calibrate((Stage(rounds),), Budget(epsilon, delta, adjacency))


def composed(*schedules):
    return gaussian_epsilon(
        1.0 / math.sqrt(sum(rounds / e.noise_multiplier**2 for s in schedules for rounds, e in s.groups)), 1e-5
    )


def of(digest=b"r" * 32):
    return lambda key: digest


NONCES = ("m", "n")


def pay(ledger, run_id, schedule, nonces=NONCES, **more):
    """Bind to the records if that is still to be done, and reserve."""
    ledger.bind(of())
    return ledger.reserve(run_id, more.pop("label", ""), schedule, nonces, **more)


class TestDataset:
    def test_runs_are_composed(self, tmp_path):
        ledger = DatasetLedger.begin(tmp_path / "mnist.ledger", 3.0)
        assert pay(ledger, "a", full(1.0), label="first", date="2026-01-02") == pytest.approx(1.0, abs=1e-8)
        spent = pay(ledger, "b", full(1.0, rounds=7), label="second")
        assert spent == pytest.approx(composed(full(1.0), full(1.0)), abs=1e-9)
        assert spent == pytest.approx(1.46517, abs=1e-5)
        summary = ledger.summary()
        assert [(run.run_id, run.label) for run in summary.runs] == [("a", "first"), ("b", "second")]
        assert summary.runs[0].date == "2026-01-02"
        assert len(summary.runs[1].date) == 10
        assert (summary.cap, summary.delta, summary.adjacency) == (3.0, 1e-5, "add-remove")
        assert summary.spent == spent
        assert mode(tmp_path / "mnist.ledger") == 0o600

    def test_the_records_are_those_of_the_first_run(self, tmp_path):
        keys = []
        ledger = DatasetLedger.begin(tmp_path / "ledger", 3.0)
        other = DatasetLedger.begin(tmp_path / "other", 3.0)
        for each in (ledger, other):
            for _ in range(2):
                each.bind(lambda key: (keys.append(key), b"r" * 32)[1])
        assert [len(key) for key in keys] == [32] * 4
        assert keys[0] == keys[1] != keys[2] == keys[3]
        with pytest.raises(LedgerError, match="is the ledger of other records"):
            ledger.bind(of(b"s" * 32))
        ledger.bind(of(b"r" * 32))

    def test_formats_are_those_of_files_that_exist(self, tmp_path):
        """A ledger is kept for years: another number here would refuse all that exist."""
        DatasetLedger.begin(tmp_path / "ledger", 3.0)
        start(tmp_path / "run").close()
        found = []
        for file in (tmp_path / "ledger", tmp_path / "run" / "ledger.sqlite"):
            db = sqlite3.connect(file)
            found.append(db.execute("PRAGMA user_version").fetchone()[0])
            db.close()
        assert found == [0x64700005, 0x64700003]  # and 0x64700004, without a chain: tests/ledger/test_chain.py

    @pytest.mark.parametrize("other", [b"q" * 32, b"s" * 32])
    def test_other_records_are_refused_whichever_digest_is_larger(self, other, tmp_path):
        ledger = DatasetLedger.begin(tmp_path / "ledger", 3.0)
        ledger.bind(of())
        with pytest.raises(LedgerError, match="is the ledger of other records"):
            ledger.bind(of(other))

    def test_an_empty_ledger_has_spent_nothing(self, tmp_path):
        summary = DatasetLedger.begin(tmp_path / "ledger", 3.0).summary()
        assert (summary.runs, summary.spent, summary.left) == ((), 0.0, 3.0)
        assert (summary.delta, summary.adjacency) == (None, None)

    def test_a_first_run_within_the_cap_passes(self, tmp_path):
        ledger = DatasetLedger.begin(tmp_path / "ledger", 3.0)
        for epsilon in (0.1, 3.0):
            ledger.check_first(epsilon)
        with pytest.raises(LedgerError, match=r"Expected a run within the cap of 3\.0 in .*; got epsilon=3\.1"):
            ledger.check_first(3.1)

    def test_a_refused_run_counts_as_joined(self, tmp_path):
        """Whether the data set's ledger knows it is not known here: no round is handed out without asking again."""
        ledger = DatasetLedger.begin(tmp_path / "ledger", 0.5)
        ledger.bind(of())
        with start(tmp_path / "run") as run:
            with pytest.raises(LedgerError, match="over the cap"):
                run.join(ledger, "")
            for use in (lambda: run.lookup(0), lambda: run.commit(0, FULL, np.zeros(1), 1.0)):
                with pytest.raises(LedgerError, match="paid in a data set's ledger: state the ledger again"):
                    use()

    def test_another_unit_is_refused(self, tmp_path):
        ledger = DatasetLedger.begin(tmp_path / "ledger", 50.0)
        units = calibrate((Stage(1),), Budget(1.0, unit="patient", rows_per_unit=2))
        pay(ledger, "a", full(1.0))
        with pytest.raises(LedgerError, match="protect one record; a run for another unit cannot join them"):
            pay(ledger, "b", units)
        other = DatasetLedger.begin(tmp_path / "other", 50.0)
        pay(other, "a", units)
        with pytest.raises(LedgerError, match="protect one patient; a run for another unit cannot join them"):
            pay(other, "b", full(1.0))

    def test_nothing_is_paid_before_the_records_are_stated(self, tmp_path):
        ledger = DatasetLedger.begin(tmp_path / "ledger", 3.0)
        with pytest.raises(ZeroDivisionError):
            ledger.bind(lambda key: 1 // 0)
        with pytest.raises(LedgerError, match=r"Expected the records of .* to be stated"):
            ledger.reserve("a", "", full(1.0), NONCES)
        pay(ledger, "a", full(1.0))

    def test_a_nonce_is_taken_in_its_turn_only(self, tmp_path):
        ledger = DatasetLedger.begin(tmp_path / "ledger", 3.0)
        pay(ledger, "a", full(1.0), ("1", "2"))
        for nonces in (("1", "2"), ("2", "3"), ("2", "3"), ("3", "4")):
            ledger.advance("a", nonces)
        assert ledger.summary().runs[0].nonce == "4"
        for nonces in (("1", "2"), ("2", "3"), ("3", "other"), ("", "")):
            for refused in (
                lambda n: ledger.advance("a", n),
                lambda n: pay(ledger, "a", full(1.0), n),
                lambda n: ledger.check(full(1.0), "a", n),
            ):
                with pytest.raises(LedgerError, match="this run was resumed elsewhere"):
                    refused(nonces)
        pay(ledger, "a", full(1.0), ("4", "5"))
        ledger.advance("a", ("5", "6"))
        with pytest.raises(LedgerError, match="this run was resumed elsewhere"):
            ledger.advance("unknown", ("5", "6"))

    def test_what_is_left_fits_and_no_more(self, tmp_path):
        ledger = DatasetLedger.begin(tmp_path / "ledger", 3.0)
        pay(ledger, "a", full(1.0))
        left = ledger.summary().left
        assert left > 3.0 - 1.0 + 0.5
        assert composed(full(1.0), full(left)) <= 3.0
        assert composed(full(1.0), full(left + 6e-4)) > 3.0
        pay(ledger, "b", full(left))
        assert ledger.summary().left < 0.05

    def test_the_cap_is_held(self, tmp_path):
        ledger = DatasetLedger.begin(tmp_path / "ledger", 1.4)
        pay(ledger, "a", full(1.0))
        with pytest.raises(LedgerError, match=r"would have spent epsilon=1\.46517, over the cap of 1\.4"):
            pay(ledger, "b", full(1.0))
        assert [run.run_id for run in ledger.summary().runs] == ["a"]

    def test_a_run_of_exactly_the_cap_fits(self, tmp_path):
        ledger = DatasetLedger.begin(tmp_path / "ledger", 1.0)
        assert pay(ledger, "a", full(1.0, rounds=10)) <= 1.0
        assert ledger.summary().left == 0.0

    def test_a_resumed_run_pays_nothing_again(self, tmp_path):
        ledger = DatasetLedger.begin(tmp_path / "ledger", 1.0)
        spent = pay(ledger, "a", full(1.0))
        assert pay(ledger, "a", full(1.0)) == spent
        assert len(ledger.summary().runs) == 1
        with pytest.raises(LedgerError, match=r"Run a is in .* with another schedule"):
            pay(ledger, "a", full(0.5))

    def test_sampled_runs(self, tmp_path):
        ledger = DatasetLedger.begin(tmp_path / "ledger", 2.0)
        sampled = Schedule((Stage(50, sampling_prob=0.1),), (2.0,), Budget(2.0))
        first = pay(ledger, "a", sampled)
        assert first == pytest.approx(sampled.epsilon(1e-5))
        both = [*sampled.groups, *full(1.0).groups]
        spent = pay(ledger, "b", full(1.0))
        assert first < epsilon_lower_bound(both, 1e-5) <= spent <= epsilon_rdp(both, 1e-5)
        left = ledger.summary().left
        with pytest.raises(LedgerError, match="over the cap"):
            pay(ledger, "c", full(left + 1e-3))
        assert spent < pay(ledger, "c", full(left)) <= 2.0

    def test_delta_is_the_first_runs(self, tmp_path):
        ledger = DatasetLedger.begin(tmp_path / "ledger", 50.0)
        pay(ledger, "a", full(1.0))
        second = full(1.0, delta=1e-7)
        assert pay(ledger, "b", second) == pytest.approx(composed(full(1.0), second), abs=1e-9)
        assert ledger.summary().delta == 1e-5

    def test_another_relation_is_refused(self, tmp_path):
        ledger = DatasetLedger.begin(tmp_path / "ledger", 50.0)
        pay(ledger, "a", full(1.0))
        with pytest.raises(LedgerError, match="protect add-remove; one of another relation cannot join"):
            pay(ledger, "b", full(1.0, adjacency="replace-one"))
        assert len(ledger.summary().runs) == 1

    def test_no_run_begins_a_ledger(self, tmp_path):
        ledger = DatasetLedger(tmp_path / "ledger")
        for use in (
            lambda: ledger.check(full(1.0)),
            lambda: ledger.check_first(1.0),
            lambda: ledger.bind(of()),
            lambda: pay(ledger, "a", full(1.0)),
            lambda: ledger.advance("a", NONCES),
            ledger.summary,
        ):
            with pytest.raises(LedgerError, match=rf"There is no ledger at {tmp_path}.* dpdistill budget new .* --cap"):
                use()
        assert [*tmp_path.iterdir()] == []

    def test_a_ledger_is_begun_once(self, tmp_path):
        pay(DatasetLedger.begin(tmp_path / "ledger", 2.0), "a", full(1.0))
        before = (tmp_path / "ledger").read_bytes()
        (tmp_path / "empty").touch()
        (tmp_path / "link").symlink_to(tmp_path / "nothing")
        (tmp_path / "gone-journal").touch()
        (tmp_path / "of another-wal").touch()
        for name in ("ledger", "empty", "link", "gone", "of another"):
            with pytest.raises(LedgerError, match=r"Expected no file at .* to begin a ledger; it exists"):
                DatasetLedger.begin(tmp_path / name, 5.0)
        assert (tmp_path / "ledger").read_bytes() == before
        assert DatasetLedger(tmp_path / "ledger").summary().cap == 2.0
        assert len([*tmp_path.iterdir()]) == 5

    def test_a_ledger_is_there_whole_or_not_at_all(self, tmp_path, monkeypatch):
        def stop(*_):
            raise KeyboardInterrupt

        for name in ("create_tables", "sync_folder"):
            with monkeypatch.context() as patch:
                patch.setattr(file_module, name, stop)
                with pytest.raises(KeyboardInterrupt):
                    DatasetLedger.begin(tmp_path / name, 2.0)
        assert [path.name for path in tmp_path.iterdir()] == ["sync_folder"]
        assert DatasetLedger(tmp_path / "sync_folder").summary().cap == 2.0

    def test_a_ledger_that_is_empty_or_cut_off_is_damaged(self, tmp_path):
        """An empty one counted as a new one, so that a run which the whole file refuses was taken."""
        file = tmp_path / "ledger"
        pay(DatasetLedger.begin(file, 1.4), "a", full(1.0))
        whole = file.read_bytes()
        with pytest.raises(LedgerError, match="over the cap"):
            DatasetLedger(file).check(full(1.0))
        for size in {0, 1, 15, 16, 99, 100, 511, 4095, 4096, *range(4097, len(whole), 1500)}:
            file.write_bytes(whole[:size])
            for use in (
                lambda: DatasetLedger(file).check(full(0.3)),
                lambda: DatasetLedger(file).check_first(0.3),
                lambda: DatasetLedger(file).bind(of()),
                lambda: pay(DatasetLedger(file), "b", full(0.3)),
                DatasetLedger(file).summary,
            ):
                with pytest.raises(LedgerError, match=r"damaged|cannot be used as a ledger|is not a ledger"):
                    use()
            assert file.read_bytes() == whole[:size]
        file.write_bytes(whole)
        assert DatasetLedger(file).summary().spent == pytest.approx(1.0, abs=1e-8)

    @pytest.mark.parametrize("ending", ["-journal", "-wal"])
    def test_an_empty_ledger_beside_a_journal_stays_as_it_is(self, ending, tmp_path):
        """SQLite would have taken the journal away, with all that could still tell what was spent."""
        file, journal = tmp_path / "ledger", tmp_path / f"ledger{ending}"
        file.touch()
        journal.write_bytes(b"pages")
        with pytest.raises(LedgerError, match=r"damaged|Expected no file at .*-wal"):
            DatasetLedger(file).check(full(0.3))
        assert (file.read_bytes(), journal.read_bytes()) == (b"", b"pages")

    def test_pages_of_another_database_beside_a_ledger(self, tmp_path):
        file = tmp_path / "ledger"
        pay(DatasetLedger.begin(file, 1.4), "a", full(1.0))
        (tmp_path / "ledger-wal").write_bytes(b"pages of another database")
        with pytest.raises(LedgerError, match=r"Expected no file at .*ledger-wal: .* Move it away\."):
            DatasetLedger(file).check(full(0.1))

    def test_what_is_no_ledger(self, tmp_path):
        (tmp_path / "text").write_text("spent: 0\n" * 99)
        (tmp_path / "folder").mkdir()
        (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
        os.mkfifo(tmp_path / "pipe")
        sqlite3.connect(tmp_path / "bare").execute("CREATE TABLE patients (age)").connection.close()
        for name, sentence in (
            ("text", "is not a ledger: it is not an SQLite database"),
            ("folder", "Expected a data set's ledger at .*folder; it is a folder"),
            ("dangling", "broken link"),
            ("pipe", "or a device"),
            ("bare", "another kind or version of ledger"),
        ):
            with pytest.raises(LedgerError, match=sentence):
                DatasetLedger(tmp_path / name).check(full(0.3))

    def test_a_link_to_a_ledger_is_the_ledger(self, tmp_path):
        pay(DatasetLedger.begin(tmp_path / "ledger", 1.4), "a", full(1.0))
        (tmp_path / "link").symlink_to(tmp_path / "ledger")
        with pytest.raises(LedgerError, match="over the cap"):
            pay(DatasetLedger(tmp_path / "link"), "b", full(1.0))

    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM ledger",
            "UPDATE ledger SET cap = -1.0",
            "UPDATE ledger SET cap = 'much'",
            "UPDATE ledger SET cap = 9e999",
            "UPDATE ledger SET key = x'00'",
            "UPDATE ledger SET key = 'text'",
        ],
    )
    def test_a_ledger_without_cap_or_key(self, statement, tmp_path):
        pay(DatasetLedger.begin(tmp_path / "ledger", 2.0), "a", full(1.0))
        db = sqlite3.connect(tmp_path / "ledger")
        with db:
            db.execute(statement)
        db.close()
        for use in (DatasetLedger(tmp_path / "ledger").summary, lambda: DatasetLedger(tmp_path / "ledger").bind(of())):
            with pytest.raises(LedgerError, match=r"is damaged: it has no cap or no key\."):
                use()

    def test_a_check_says_what_paying_would_and_writes_nothing(self, tmp_path):
        ledger = DatasetLedger.begin(tmp_path / "ledger", 1.4)
        before = (tmp_path / "ledger").read_bytes()
        assert ledger.check(full(1.0)) == pytest.approx(1.0, abs=1e-8)
        with pytest.raises(LedgerError, match=r"over the cap of 1\.4"):
            ledger.check(full(2.0))
        assert (tmp_path / "ledger").read_bytes() == before
        pay(ledger, "a", full(1.0))
        before = (tmp_path / "ledger").read_bytes()
        with pytest.raises(LedgerError, match=r"over the cap of 1\.4"):
            ledger.check(full(1.0))
        assert ledger.check(full(1.0), "a", NONCES) == pytest.approx(1.0, abs=1e-8)
        assert (tmp_path / "ledger").read_bytes() == before

    @pytest.mark.parametrize("cap", [0.0, -1.0, math.inf, math.nan])
    def test_a_cap_is_positive_and_finite(self, cap, tmp_path):
        with pytest.raises(LedgerError, match="Expected 0 < cap="):
            DatasetLedger.begin(tmp_path / "ledger", cap)
        assert not (tmp_path / "ledger").exists()

    def test_no_ledger(self, tmp_path):
        with pytest.raises(LedgerError, match="There is no ledger at"):
            DatasetLedger(tmp_path / "ledger").summary()
        assert not (tmp_path / "ledger").exists()

    def test_no_such_folder(self, tmp_path):
        with pytest.raises(LedgerError, match="cannot be created: "):
            DatasetLedger.begin(tmp_path / "none" / "ledger", 2.0)

    def test_a_runs_ledger_is_another_kind(self, tmp_path):
        start(tmp_path).close()
        with pytest.raises(LedgerError, match="another kind or version of ledger"):
            pay(DatasetLedger(tmp_path / "ledger.sqlite"), "a", full(1.0))

    def test_a_damaged_ledger(self, tmp_path):
        pay(DatasetLedger.begin(tmp_path / "ledger", 2.0), "a", full(1.0))
        db = sqlite3.connect(tmp_path / "ledger")
        db.execute("DROP TABLE runs")
        db.close()
        with pytest.raises(LedgerError, match="cannot be used as a ledger"):
            DatasetLedger(tmp_path / "ledger").summary()

    def test_an_earlier_format(self, tmp_path):
        pay(DatasetLedger.begin(tmp_path / "ledger", 2.0), "a", full(1.0))
        start(tmp_path / "run").close()
        for file in (tmp_path / "ledger", tmp_path / "run" / "ledger.sqlite"):
            db = sqlite3.connect(file)
            db.execute(f"PRAGMA user_version = {0x64700002 if file.name == 'ledger' else 0x64700001}")
            db.close()
        for look in (
            DatasetLedger(tmp_path / "ledger").summary,
            lambda: pay(DatasetLedger(tmp_path / "ledger"), "b", full(0.1)),
            lambda: start(tmp_path / "run"),
            lambda: RunLedger.read(tmp_path / "run"),
        ):
            with pytest.raises(LedgerError, match="another kind or version of ledger: this version cannot use"):
                look()

    def test_a_damaged_run(self, tmp_path):
        pay(DatasetLedger.begin(tmp_path / "ledger", 2.0), "a", full(1.0))
        db = sqlite3.connect(tmp_path / "ledger")
        for text in ("{}", "[]", "7", "no JSON"):
            with db:
                db.execute("UPDATE runs SET schedule = ?", (text,))
            with pytest.raises(LedgerError, match="a run in it has no schedule"):
                DatasetLedger(tmp_path / "ledger").summary()
        db.close()

    def test_a_cost_that_cannot_be_composed(self, tmp_path):
        ledger = DatasetLedger.begin(tmp_path / "ledger", 50.0)
        pay(ledger, "a", full(1.0, delta=1e-12))
        with pytest.raises(LedgerError, match="cannot be composed"):
            pay(ledger, "b", Schedule((Stage(5, sampling_prob=0.1),), (2.0,), Budget(1.0)))

    def test_two_processes_cannot_both_take_the_last_of_it(self, tmp_path):
        code = (
            "import sys\n"
            "from test_ledger import DatasetLedger, LedgerError, full, pay\n"
            "try:\n"
            "    pay(DatasetLedger(sys.argv[1]), sys.argv[2], full(1.0))\n"
            "    print('paid')\n"
            "except LedgerError:\n"
            "    print('refused')\n"
        )
        DatasetLedger.begin(tmp_path / "ledger", 1.4)
        runs = [child(code, tmp_path / "ledger", name, stdout=subprocess.PIPE) for name in "ab"]
        assert sorted(run.communicate(timeout=120)[0].strip() for run in runs) == ["paid", "refused"]


@pytest.mark.parametrize(
    "name", ["SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_BUSY", "SQLITE_IOERR_WRITE"]
)
def test_errors_of_the_disk_say_nothing_against_the_file(name):
    error = sqlite3.OperationalError()
    assert not database.is_of_the_disk(error)
    error.sqlite_errorcode = getattr(sqlite3, name)
    assert database.is_of_the_disk(error)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    assert not database.is_of_the_disk(error)


def test_a_disk_that_fails_is_another_error_than_a_damaged_file(tmp_path, monkeypatch):
    start(tmp_path).close()

    for code, kind, sentence in (
        (sqlite3.SQLITE_IOERR, LedgerUnusable, r"cannot be (read|used): disk I/O error\."),
        (sqlite3.SQLITE_CORRUPT, LedgerError, r"is damaged\.|cannot be used: disk I/O error\."),
    ):
        failure = sqlite3.OperationalError("disk I/O error")
        failure.sqlite_errorcode = code
        for module in ("run", "run_rows"):
            monkeypatch.setattr(f"dpdistill.ledger.{module}.is_new", mock.Mock(side_effect=failure))
        for use in (lambda: RunLedger.read(tmp_path), lambda: start(tmp_path)):
            with pytest.raises(LedgerError, match=sentence) as caught:
                use()
            assert type(caught.value) is kind


def test_a_mistake_of_ours_is_not_blamed_on_the_file():
    db = sqlite3.connect(":memory:")
    db.close()
    with pytest.raises(sqlite3.ProgrammingError), database.usable("The ledger"):
        db.execute("SELECT 1")


def test_without_file_locks_no_run_is_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_module, "fcntl", None)
    for begin in (folder_module.make_folder, folder_module.lock_folder):
        with pytest.raises(LedgerError, match="on Windows make sets in WSL"):
            begin(tmp_path / "x.run")
    assert list(tmp_path.iterdir()) == []
