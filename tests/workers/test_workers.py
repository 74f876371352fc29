"""Worker processes: the same bits, whatever their number and however many are killed, and nothing left behind."""

import multiprocessing
import os
import random
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import contract
import numpy as np
import pytest
from contract import make_records, tiny

from dpdistill.accounting.schedule import Budget, Schedule
from dpdistill.audits.method_audit import replay_method
from dpdistill.private.aggregator import LocalAggregator, Question
from dpdistill.private.checks import CuratorError, check_query
from dpdistill.private.curator import Curator
from dpdistill.private.grid import make_grid
from dpdistill.private.noise import KeyedEntropy, SeededEntropy
from dpdistill.query import Stage
from dpdistill.schema import DataError
from dpdistill.storage import shards
from dpdistill.storage.feature_store import Features
from dpdistill.storage.memory import Memory
from dpdistill.storage.shards import open_part, remove_parts, write_parts
from dpdistill.workers import Workers, processes, remote_aggregator, worker
from dpdistill.workers.worker import Holding, Worker


def released(workers, folder, records, query, params, rounds=2, q=0.6, entropy=None, during=None):
    """What a curator with these workers releases."""
    schedule = Schedule((Stage(rounds, q),), (contract.NOISE,), Budget(1.0))
    with workers.holders(folder) as holders:
        ledger = contract.memory_ledger(schedule)
        asked = Curator(records, schedule, ledger, entropy or SeededEntropy(3), None, None, holders)
        values = []
        for t in range(rounds):
            values.append(asked.release(t, query, params).value)
            if during is not None:
                during(asked)
        return np.stack(values)


def processes_of(asked):
    return [process for process, _ in asked._holders._crew.members.values()]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What one worker says."""
    records = make_records(200)
    _, (query, params) = contract.asked(tiny("decoupled-kip"))
    return records, query, params, released(Workers(1), tmp_path_factory.mktemp("one"), records, query, params)


def test_two_workers_are_bit_identical_to_one_and_leave_nothing(expected, tmp_path, capfd):
    records, query, params, value = expected
    seen = []

    def look(asked):
        folder = tmp_path / "workers"
        seen.append({p.relative_to(folder).as_posix(): p.stat().st_mode & 0o777 for p in folder.rglob("*")})
        assert folder.stat().st_mode & 0o777 == 0o700

    found = released(Workers(2, shards=5), tmp_path, records, query, params, during=look)
    np.testing.assert_array_equal(found, value)
    assert value.any()
    names = {re.sub("dpdistill-[0-9a-f]{16}", "RUN", name) for name in seen[-1]}
    assert {"RUN/0/X.npy", "RUN/0/y.npy", "RUN/0/schema.json", "RUN-features/features-of-0/features-0"} <= names
    assert {mode for name, mode in seen[-1].items() if "." in name or "features-" in name.split("/")[-1][:9]} <= {
        0o600,
        0o700,
    }
    assert not (tmp_path / "workers").exists()
    assert capfd.readouterr() == ("", "")


def test_coins_and_places_are_drawn_for_every_round_and_part():
    contract.check_coins_of_workers()


def test_killed_workers_change_nothing(expected, tmp_path):
    """A worker is killed after each round, and others while the next one is computed."""
    records, query, params, value = expected
    rng, kills, stop = random.Random(1), [], threading.Event()

    def murder(asked):
        while not stop.wait(0.3):
            alive = [process for process in processes_of(asked) if process.is_alive()]
            if alive and len(kills) < 3:
                os.kill(rng.choice(alive).pid, signal.SIGKILL)
                kills.append(time.monotonic())

    def during(asked):
        os.kill(rng.choice(processes_of(asked)).pid, signal.SIGKILL)
        if not kills:
            threading.Thread(target=murder, args=(asked,), daemon=True).start()

    found = released(Workers(2, shards=5), tmp_path, records, query, params, during=during)
    stop.set()
    np.testing.assert_array_equal(found, value)


def test_a_query_that_mixes_rows_is_refused_by_workers_too(tmp_path):
    query = contract.FlatQuery(encoder=contract.MixingRows())
    with pytest.raises(CuratorError, match="numbers depend on the other records of its chunk"):
        released(Workers(1), tmp_path, make_records(9), query, np.float32(1.0))


def test_an_error_in_a_worker_says_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_aggregator, "write_parts", lambda *_: None)  # there is nothing to open
    with pytest.raises(CuratorError) as caught:
        released(Workers(1), tmp_path, make_records(9), contract.FlatQuery(), np.float32(1.0), q=1.0)
    assert str(caught.value) == contract.FAILED
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_a_run_with_workers_is_the_run_without(tmp_path):
    """Replays: with workers too, one record moves nothing but its share of the releases."""
    how = {"chosen": (5,), "fresh": False, "workers": Workers(2)}
    audit = replay_method(make_records(12), tiny("dos"), Budget(1.0), **how)
    assert not audit.found
    assert 0.5 < audit.largest <= 1.0


@pytest.mark.slow
def test_workers_that_are_lost_again_and_again_are_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "FIRST_LOSSES", 2)
    holding = Holding(str(tmp_path), b"", "insecure", None, Memory())
    members = processes.Processes(holding, 1)
    monkeypatch.setattr(processes, "_serve", _die)
    with pytest.raises(CuratorError, match="lost repeatedly: use fewer"):
        members.answers([None])
    assert members.members == {}
    # One that answers now and then is given more tries.
    monkeypatch.setattr(processes, "MOST_LOSSES", 4)
    monkeypatch.setattr(processes, "_serve", _die_of_the_second)
    assert members.answers([*range(4)]) == [*range(4)]
    with pytest.raises(CuratorError, match="lost repeatedly: use fewer"):
        members.answers([*range(5)])
    assert members.members == {}


def test_a_store_is_emptied_where_no_worker_starts(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shards, "_write_rows", fail)
    with pytest.raises(DataError, match="No space left on device"):
        released(
            Workers(1, share=str(tmp_path / "s")), tmp_path, make_records(9), contract.FlatQuery(), np.float32(1.0)
        )
    assert list((tmp_path / "s").iterdir()) == []


def test_machines_of_two_kinds_are_refused(expected, tmp_path, monkeypatch):
    records, query, params, _ = expected
    answers = processes.Processes.answers
    kinds = iter([f"kind {i}" for i in range(1000)])
    monkeypatch.setattr(
        processes.Processes, "answers", lambda self, tasks: [(next(kinds), found) for _, found in answers(self, tasks)]
    )
    with pytest.raises(CuratorError, match="Expected workers on machines of one kind; got kind 0 and kind 1"):
        released(Workers(1, shards=2), tmp_path, records, query, params)


def test_features_of_two_encoders_are_told_apart_by_a_worker_that_starts_late(tmp_path):
    """A worker that never met the first encoder takes no file of it for one of the second's."""
    records, asked = make_records(60), Memory(0, tmp_path, shared=True)
    whole = []
    for encoder in (contract.Halve(), contract.MixingEncoder()):
        query = contract.FlatQuery(encoder=encoder, by_class=False)
        whole.append((query, len(whole)))
    both, late = (LocalAggregator(records, KeyedEntropy(b"k" * 32), None, asked) for _ in range(2))
    for query, number in whole:
        grid = make_grid(1.0, 1.0, 64, 60)
        question = Question(
            query, np.float32(1.0), check_query(query, np.float32(1.0), records.schema), 4, 1.0, grid, number
        )
        found = both.sum(question, KeyedEntropy(b"c" * 32))
        if number:
            np.testing.assert_array_equal(late.sum(question, KeyedEntropy(b"c" * 32)), found)
            assert found.any()
    clash = Memory(0, tmp_path, shared=True)
    with pytest.raises(OSError, match="The file of features has another size"):
        Features((3, 5), np.dtype(np.float32), clash, "features-0")


ORPHAN = """
import sys, time
from pathlib import Path
import numpy as np
import contract
from dpdistill.private.grid import make_grid
from dpdistill.private.aggregator import LocalAggregator, Question
from dpdistill.private.noise import KeyedEntropy, SeededEntropy
from dpdistill.storage import shards
from dpdistill.storage.feature_store import Features
from dpdistill.storage.memory import Memory
from dpdistill.workers import Workers
if __name__ == "__main__":
    with Workers(1).holders(Path(sys.argv[1])) as start:
        pool = start(contract.make_records(4), SeededEntropy(1), None, Memory())
        pool._crew.answers([None])
        print(pool._crew.members[0][0].pid, flush=True)
        time.sleep(60)
"""


@pytest.mark.slow
def test_workers_end_with_a_run_that_is_killed_and_the_next_one_removes_its_records(tmp_path):
    (tmp_path / "orphan.py").write_text(ORPHAN)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(tmp_path / "orphan.py"), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as run_of_it:
        assert run_of_it.stdout is not None
        worker = int(run_of_it.stdout.readline())
        run_of_it.kill()
    for _ in range(100):
        stat = Path(f"/proc/{worker}/stat")
        if not stat.exists() or stat.read_text().split()[2] == "Z":
            break
        time.sleep(0.1)
    else:
        raise AssertionError("The worker goes on after its run was killed.")
    assert any((tmp_path / "workers").rglob("X.npy"))
    with Workers(0).holders(tmp_path) as start:
        assert start is None
    assert not (tmp_path / "workers").exists()


def _die(*_):
    os._exit(1)


def _die_of_the_second(holding, number, connection):
    connection.send(connection.recv())
    connection.recv()
    os._exit(9)


def _die_while_sending(holding, number, connection):
    """The first process is killed when a part of its answer is sent."""
    first = Path(holding.address) / "first"
    while True:
        task = connection.recv()
        if not first.exists():
            first.touch()
            os.write(connection.fileno(), struct.pack("!i", 1000) + b"the first bytes")
            os.kill(os.getpid(), signal.SIGKILL)
        connection.send(("kind", task))


@pytest.mark.slow
def test_a_worker_that_is_killed_while_it_sends_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_serve", _die_while_sending)
    members = processes.Processes(Holding(str(tmp_path), b"", "insecure", None, Memory()), 2)
    assert members.answers([*range(6)]) == [("kind", i) for i in range(6)]
    members.close()
    assert members.members == {}


def test_what_cannot_be_read_by_a_worker_is_an_error_that_says_nothing(tmp_path):
    members = processes.Processes(Holding(str(tmp_path), b"", "insecure", None, Memory()), 1)
    assert members.answers([Unreadable()]) == [("", "failed")]
    members.close()


class Unreadable:
    def __reduce__(self):
        return int, ("no number",)


class TestParts:
    def test_are_the_records(self, tmp_path):
        records = contract.of_units(make_records(31), np.arange(31) // 4 - 1)
        write_parts(records, str(tmp_path / "set"), 3)
        found = [open_part(str(tmp_path / "set"), i) for i in range(3)]
        assert [sorted(set(part.units.tolist())) for part in found] == [[0, 1], [2, 3, 4], [5, 6]]
        known = records.units >= 0
        np.testing.assert_array_equal(np.concatenate([part.X for part in found]), records.X[known])
        np.testing.assert_array_equal(np.concatenate([part.y for part in found]), records.y[known])
        assert found[0].schema == records.schema
        assert {p.stat().st_mode & 0o777 for p in tmp_path.rglob("*")} == {0o700, 0o600}
        with pytest.raises(DataError, match=r"The records cannot be written to .*set: File exists"):
            write_parts(records, str(tmp_path / "set"))
        remove_parts(str(tmp_path / "set"))
        assert list(tmp_path.iterdir()) == []

    def test_in_a_store_of_objects(self):
        records = make_records(10)
        write_parts(records, "memory://bucket/set", 2)
        found = [open_part("memory://bucket/set", i) for i in range(2)]
        np.testing.assert_array_equal(np.concatenate([part.X for part in found]), records.X)
        assert found[0].y.tolist() == records.y[:5].tolist()
        remove_parts("memory://bucket/set")
        with pytest.raises(DataError, match="Part 0 of the records cannot be read"):
            open_part("memory://bucket/set", 0)

    @pytest.mark.slow
    def test_by_an_address_that_workers_fetch_from(self, expected, tmp_path):
        records, query, params, _ = expected
        share = f"file://{tmp_path}/store"
        (tmp_path / "store" / "0").mkdir(parents=True)  # somebody else's
        (tmp_path / "store" / "0" / "mine.png").write_text("")
        found = [
            released(Workers(n, share=share, parts=2), tmp_path, records, query, params, entropy=SeededEntropy(3))
            for n in (1, 2)
        ]
        np.testing.assert_array_equal(*found)
        assert [path.name for path in (tmp_path / "store").rglob("*")] == ["0", "mine.png"]

    def test_no_place(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(DataError, match=r"The records cannot be written to .*file"):
            write_parts(make_records(3), str(tmp_path / "file"))
        with pytest.raises(DataError, match="nosuch://bucket needs fsspec and its own package"):
            write_parts(make_records(3), "nosuch://bucket")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"count": -1}, "Expected workers=-1 >= 0"),
        ({"count": 1, "parts": 0}, "parts=0 >= 1"),
        ({"count": 1, "shards": 0}, "shards >= 1"),
        ({"count": 2, "ray": "auto"}, "Expected share: a location that is visible to all machines of the Ray cluster"),
        ({"ray": "local"}, "Expected the number of workers with the address of a Ray cluster"),
    ],
)
def test_wrong_numbers(wrong, said):
    with pytest.raises(ValueError, match=said):
        Workers(**wrong)


def test_what_a_worker_holds_is_never_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "settle", lambda *_: "kind")  # it would settle this process
    records = make_records(4)
    write_parts(records, str(tmp_path / "set"))
    one = Worker(Holding(str(tmp_path / "set"), b"k" * 32, "insecure", None, Memory()), silent=False)
    assert one.size(0) == 4
    assert one.size(1) == "failed"
    assert "kkkk" not in repr(Holding("set", b"k" * 32, "insecure", None, Memory()))
    assert repr(one) == "<Worker: nothing about its records is shown>"
    with pytest.raises(TypeError, match="cannot be pickled"):
        one.__reduce_ex__(4)


def test_a_worker_that_imports_the_script_of_its_run_begins_no_other_one(monkeypatch):
    """It would pay as often as workers are started."""
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(RuntimeError, match='code under if __name__ == "__main__": workers import'):
        Workers(1)
    assert Workers().count == 0


def test_a_cluster_with_too_few_cores_is_refused(tmp_path, monkeypatch):
    ray = SimpleNamespace(is_initialized=lambda: True, cluster_resources=lambda: {"CPU": 1.0}, remote=lambda kind: kind)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(DataError, match="The Ray cluster has 1 cores for 2 workers, which would wait for ever"):
        processes.Actors(Holding("nowhere", b"", "secret", None, Memory()), 2, "local")


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # Ray starts its own programs so
class TestRay:
    @pytest.mark.slow
    def test_the_same_bits_also_when_actors_are_killed(self, expected, tmp_path):
        pytest.importorskip("ray", reason="Ray is not installed.")
        records, query, params, value = expected

        def during(asked):
            processes = asked._holders._crew
            processes._ray.kill(processes.members[0])

        found = released(Workers(2, ray="local"), tmp_path, records, query, params, during=during)
        np.testing.assert_array_equal(found, value)
