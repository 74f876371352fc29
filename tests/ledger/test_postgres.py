"""The ledger in PostgreSQL, on a real server: no two payments overlap, and nothing is released unpaid."""

from __future__ import annotations

import os
import pwd
import shlex
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pay_child
import pytest
from contract.postgres import PASSWORD, postgres_server, programs

import dpdistill as dp
from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.errors import LedgerError, LedgerUnusable
from dpdistill.ledger import postgres
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger
from dpdistill.query import Stage

NONCES = ("one", "two")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with postgres_server(tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture
def address(server, request):
    """The address of a new ledger of cap 1.5."""
    name = "t" + str(abs(hash(request.node.name)))[:20]
    DatasetLedger.begin(f"{server}#{name}", 1.5)
    return f"{server}#{name}"


def full(epsilon: float) -> Schedule:
    return calibrate((Stage(1),), Budget(epsilon))


def pay(address: str, run_id: str, epsilon: float = 0.5, nonces: tuple[str, str] = NONCES) -> float:
    ledger = DatasetLedger(address)
    ledger.bind(lambda key: b"d" * 32)
    return ledger.reserve(run_id, f"label {run_id}", full(epsilon), nonces, "2026-01-31", "anna")


def change(address: str, *statements: str) -> None:
    import psycopg

    place, _, name = address.partition("#")
    with psycopg.connect(place) as db:
        db.execute(f"SET search_path TO {postgres.PREFIX}{name}".encode())
        for statement in statements:
            db.execute(statement.encode())


def test_a_ledger_pays_refuses_and_keeps_its_chain_as_a_file_does(address, tmp_path):
    DatasetLedger.begin(tmp_path / "file", 1.5)
    for place in (address, tmp_path / "file"):
        ledger = DatasetLedger(place)
        ledger.check_first(1.0)
        assert pay(place, "a") == pytest.approx(0.5, abs=1e-6)
        with pytest.raises(LedgerError, match="over the cap of 1"):
            pay(place, "b", 1.4)
        with pytest.raises(LedgerError, match="over the cap of 1"):
            ledger.check(full(1.4))
        pay(place, "b", 1.0)
        ledger.advance("a", ("two", "three"))
        with pytest.raises(LedgerError, match="was resumed elsewhere"):
            ledger.advance("a", NONCES)
        with pytest.raises(LedgerError, match="was resumed elsewhere"):
            pay(place, "a")
        with pytest.raises(LedgerError, match="is the ledger of other records"):
            ledger.bind(lambda key: b"e" * 32)
        head = ledger.complete("a")
        assert ledger.complete("a") == head == ledger.summary().head
        assert [(entry.number, entry.kind) for entry in ledger.chain()] == [
            (1, "begin"), (2, "run"), (3, "run"), (4, "complete")
        ]  # fmt: skip
    one, other = DatasetLedger(address).summary(), DatasetLedger(tmp_path / "file").summary()
    assert (one.runs, one.spent, one.left, one.cap) == (other.runs, other.spent, other.left, other.cap)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM runs WHERE run_id = 'b'",
        "UPDATE ledger SET cap = 9",
        "UPDATE runs SET payer = 'x'",
        "DELETE FROM chain WHERE number = 2",
        "UPDATE chain SET random = decode(repeat('00', 32), 'hex') WHERE number = 3",
    ],
)
def test_a_changed_ledger_is_refused(address, statement):
    pay(address, "a")
    pay(address, "b")
    change(address, statement)
    for use in (DatasetLedger(address).summary, lambda: pay(address, "c", 0.1)):
        with pytest.raises(LedgerError, match="is damaged"):
            use()


def test_a_restored_copy_is_found(address, tmp_path):
    pay(address, "a")
    change(address, "CREATE TABLE saved AS SELECT * FROM chain")
    head = DatasetLedger(address).complete("a")
    assert head in {entry.head for entry in DatasetLedger(address).chain()}
    change(address, "DELETE FROM chain", "INSERT INTO chain SELECT * FROM saved")
    assert DatasetLedger(address).complete("a") != head
    assert head not in {entry.head for entry in DatasetLedger(address).chain()}


def test_errors_never_show_the_password(server, address):
    for place, words in (
        (f"{server}#none", "There is no ledger none (in PostgreSQL)."),
        (server.replace(PASSWORD, "wrong-secret") + "#none", "cannot be used"),
        (f"postgresql://anna:{PASSWORD}@127.0.0.1:1/x#none", "cannot be reached"),
        (f"{server}#Not-A-Name", "a ledger's name of lower-case letters"),
        (server, "a ledger's name of lower-case letters"),
    ):
        for use in (lambda p: DatasetLedger(p).summary(), lambda p: pay(p, "a")):
            with pytest.raises(LedgerError) as caught:
                use(place)
            assert words in str(caught.value)
            assert PASSWORD not in str(caught.value)
            assert "wrong-secret" not in str(caught.value)
    with pytest.raises(LedgerError, match=r"Expected no ledger \w+ \(in PostgreSQL\) to begin one; it exists"):
        DatasetLedger.begin(address, 1.0)


def test_a_user_who_may_only_read_is_refused_before_anything_is_paid(server, address):
    name = address.partition("#")[2]
    change(
        address,
        "CREATE ROLE reader LOGIN PASSWORD 'r'",
        f"GRANT USAGE ON SCHEMA {postgres.PREFIX}{name} TO reader",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {postgres.PREFIX}{name} TO reader",
    )
    reader = address.replace(f"anna:{PASSWORD}", "reader:r")
    assert DatasetLedger(reader).summary().cap == 1.5
    with pytest.raises(LedgerError, match="this one may only read"):
        DatasetLedger(reader).check_first(0.1)
    with pytest.raises(LedgerUnusable, match="permission denied"):
        pay(reader, "a")


def test_of_payments_at_once_only_as_many_are_paid_as_fit(address):
    start = threading.Barrier(8)

    def race(number: int) -> bool:
        start.wait()
        try:
            pay(address, f"run {number}", 1.0)
        except LedgerError as error:
            return "over the cap" not in str(error)
        return True

    with ThreadPoolExecutor(8) as pool:
        paid = sum(pool.map(race, range(8)))
    assert paid == 2  # of epsilon 1 each: together 1.46
    summary = DatasetLedger(address).summary()
    assert len(summary.runs) == 2
    assert summary.spent < 1.5


def judge(address: str, folder: Path) -> None:
    """Each round has one value, all are paid by one run, and the head is the ledger's."""
    lines = {tuple(line.split()) for line in (folder / "log").read_text().splitlines()}
    assert sorted(int(t) for t, _ in lines) == list(range(pay_child.ROUNDS)), "a round was released with two values"
    ledger = DatasetLedger(address)
    run = RunLedger.read(folder)
    assert [each.run_id for each in ledger.summary().runs if each.label == folder.name] == [run.run_id]
    heads = {*(folder / "head").read_text().split()}
    assert heads == {run.head}
    assert run.head in {entry.head for entry in ledger.chain()}


def test_a_connection_that_breaks_in_the_middle_of_a_payment(address, tmp_path, monkeypatch):
    """The server ends the session before or after the commit: the round is not released, and the run resumes."""
    execute = postgres.Connection.execute
    broken = []

    def breaking(self, sql, values=(), /):
        result = execute(self, sql, values)
        if sql.startswith(("UPDATE runs", "INSERT INTO runs", "INSERT INTO chain")) and len(broken) < 4:
            broken.append(sql)
            (pid,) = execute(self, "SELECT pg_backend_pid()").fetchone()
            change(address, f"SELECT pg_terminate_backend({pid})")
        return result

    monkeypatch.setattr(postgres.Connection, "execute", breaking)
    codes = []
    while not codes or codes[-1] != pay_child.DONE:
        codes.append(pay_child.main(address, tmp_path / "run"))
        assert len(codes) < 9
    assert codes == [pay_child.LOST] * 4 + [pay_child.DONE]
    judge(address, tmp_path / "run")


def test_an_answer_to_a_commit_that_is_lost(address, tmp_path, monkeypatch):
    """The payment is made and the run does not know it: it is found by its id, and paid once."""
    import psycopg

    execute, lost = psycopg.Connection.execute, []

    def losing(self, query, *how, **other):
        result = execute(self, query, *how, **other)
        if query == "COMMIT" and len(lost) < 5:
            lost.append(query)
            raise psycopg.OperationalError
        return result

    monkeypatch.setattr(psycopg.Connection, "execute", losing)
    codes = []
    while not codes or codes[-1] != pay_child.DONE:
        codes.append(pay_child.main(address, tmp_path / "run"))
        assert len(codes) < 9
    assert codes == [pay_child.LOST] * 5 + [pay_child.DONE]
    judge(address, tmp_path / "run")


def crash(server: str) -> None:
    """Kills the server's processes, and starts the server again."""
    import psycopg

    with psycopg.connect(server) as db:
        (data,) = db.execute("SHOW data_directory").fetchone() or ("",)
    words = shlex.split((Path(data) / "postmaster.opts").read_text())[1:]
    place = words.index("-D")
    stated = shlex.join(words[:place] + words[place + 2 :])
    pid = int((Path(data) / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for each in (pid, *map(int, children)):
        os.kill(each, signal.SIGKILL)
    time.sleep(0.3)
    # Where no parent collects dead processes, their numbers look alive to the next server.
    for lock in (Path(data) / "postmaster.pid", *Path(data).parent.glob(".s.PGSQL.*")):
        lock.unlink()
    folder = programs()
    assert folder is not None
    user = pwd.getpwuid(os.stat(data).st_uid).pw_name if os.getuid() == 0 else None
    command = [folder / "pg_ctl", "-D", data, "-l", f"{data}/../log", "-o", stated, "-w", "start"]
    subprocess.run(command, check=True, user=user, cwd="/", capture_output=True, timeout=60, env={"LC_ALL": "C"})


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's list of child processes")
def test_a_server_and_clients_that_are_killed(address, server, tmp_path):
    command = [sys.executable, pay_child.__file__, address, tmp_path / "run", "0.3"]
    rng = np.random.default_rng(7)
    for kill_server in (False, True, False):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not (tmp_path / "run" / "log").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(float(rng.uniform(0, 0.05)))
        if kill_server:
            crash(server)
            process.wait(30)
        process.kill()
        process.wait()
    assert pay_child.main(address, tmp_path / "run") == pay_child.DONE
    judge(address, tmp_path / "run")


def test_the_account_of_a_database(server, address):
    pay(address, "a")
    name = address.partition("#")[2]
    found = dp.house_summary(server)
    assert found.ledgers[name].spent == pytest.approx(0.5, abs=1e-6)
    assert (name, "anna") in [(ledger, run.payer) for ledger, run in found.payments]
