"""The chain of a data set's ledger: it cannot be shortened or changed unseen, and says nothing about records."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from pathlib import Path

import pytest

from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.errors import LedgerError
from dpdistill.ledger import chain
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger
from dpdistill.query import Event, Stage

NONCES = ("one", "two")
EARLIER = 0x64700004


def full(epsilon: float) -> Schedule:
    return calibrate((Stage(1),), Budget(epsilon))


def pay(ledger: DatasetLedger, run_id: str, epsilon: float = 0.5) -> None:
    ledger.bind(lambda key: b"d" * 32)
    ledger.reserve(run_id, f"label {run_id}", full(epsilon), NONCES, "2026-01-31", "anna")


@pytest.fixture
def file(tmp_path) -> Path:
    DatasetLedger.begin(tmp_path / "all.ledger", 3.0)
    return tmp_path / "all.ledger"


def change(file: Path, *statements: str) -> None:
    db = sqlite3.connect(file)
    with db:
        for statement in statements:
            db.execute(statement)
    db.close()


def make_earlier(file: Path) -> None:
    """Turns a ledger into one of the format without a chain."""
    change(file, "DROP TABLE chain", "ALTER TABLE runs DROP COLUMN payer", f"PRAGMA user_version = {EARLIER}")


def test_every_payment_and_every_complete_run_is_one_entry(file):
    ledger = DatasetLedger(file)
    pay(ledger, "a")
    pay(ledger, "b")
    head = ledger.complete("a")
    assert ledger.complete("a") == head
    pay(ledger, "a")  # resumed: paid already
    entries = ledger.chain()
    assert [(entry.kind, entry.run_id) for entry in entries] == [
        ("begin", ""), ("run", "a"), ("run", "b"), ("complete", "a")
    ]  # fmt: skip
    assert entries[3].head == head == ledger.summary().head
    assert len({entry.random for entry in entries}) == 4
    assert {len(entry.random) for entry in entries} == {32}
    assert [ledger.holds(run_id) for run_id in "abc"] == [True, True, False]
    with pytest.raises(LedgerError, match="Run c is not in"):
        ledger.complete("c")


def test_a_head_is_the_hash_that_the_page_on_certificates_states(file):
    ledger = DatasetLedger(file)
    pay(ledger, "a")
    begin, run = ledger.chain()

    def head(*fields: bytes) -> str:
        return hashlib.sha256(
            b"dpdistill ledger chain 1" + b"".join(len(x).to_bytes(8, "big") + x for x in fields)
        ).hexdigest()

    assert begin.head == head(b"", b"begin", b"", begin.random, b"3.0")
    facts = (b"label a", b"2026-01-31", full(0.5).to_json().encode(), b"anna")
    assert run.head == head(begin.head.encode(), b"run", b"a", run.random, *facts)


def test_the_chain_holds_nothing_of_the_records(tmp_path):
    """The same entries follow from other records: the digest of the records is in no entry."""
    for name, digest in (("x", b"x" * 32), ("y", b"y" * 32)):
        ledger = DatasetLedger.begin(tmp_path / name, 1.0)
        ledger.bind(lambda key, digest=digest: digest)
        ledger.reserve("a", "", full(0.5), NONCES, "2026-01-31")
        entry = ledger.chain()[1]
        change(tmp_path / name, "UPDATE ledger SET digest = x'00'")
        assert ledger.chain()[1] == entry


CHANGES = {
    "last entry": ("DELETE FROM chain WHERE number = 4",),
    "last run": ("DELETE FROM runs WHERE run_id = 'b'",),
    "last run and its entry": ("DELETE FROM runs WHERE run_id = 'b'", "DELETE FROM chain WHERE number >= 3"),
    "inner entry": ("DELETE FROM chain WHERE number = 2",),
    "label": ("UPDATE runs SET label = 'other' WHERE run_id = 'a'",),
    "payer": ("UPDATE runs SET payer = 'bert' WHERE run_id = 'a'",),
    "date": ("UPDATE runs SET date = '2026-01-01'",),
    "schedule": ("UPDATE runs SET schedule = (SELECT schedule FROM runs WHERE run_id = 'b') WHERE run_id = 'a'",),
    "cap": ("UPDATE ledger SET cap = 9.0",),
    "random bytes": ("UPDATE chain SET random = zeroblob(32) WHERE number = 2",),
    "shorter random bytes": ("UPDATE chain SET random = zeroblob(31) WHERE number = 2",),
    "all entries": ("DELETE FROM chain",),
    "head": ("UPDATE chain SET head = 'x' WHERE number = 3",),
    "kind": ("UPDATE chain SET kind = 'begin' WHERE number = 4",),
    "order": ("UPDATE runs SET number = 9 WHERE run_id = 'a'",),
    "added run": ("INSERT INTO runs SELECT 9, 'c', label, date, schedule, nonce, payer FROM runs WHERE run_id = 'a'",),
}
UNSEEN = {"last entry", "last run and its entry"}
"""Changes to a shorter, consistent chain: only a head that is kept elsewhere shows them."""


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_ledger_is_refused_and_a_shortened_one_lacks_the_head(file, name):
    ledger = DatasetLedger(file)
    pay(ledger, "a")
    pay(ledger, "b", 0.7)
    head = ledger.complete("a")
    change(file, *CHANGES[name])
    if name in UNSEEN:
        assert head not in {entry.head for entry in ledger.chain()}
        return
    for use in (ledger.summary, ledger.chain, lambda: ledger.check(full(0.1)), lambda: pay(ledger, "c")):
        with pytest.raises(
            LedgerError, match=r"is damaged: (entry \d of its chain|its runs are not|its chain is empty)"
        ):
            use()


def test_a_completed_run_must_be_paid(file):
    with sqlite3.connect(file) as db:
        chain.append(db, chain.COMPLETE, "a")
    db.close()
    with pytest.raises(LedgerError, match="entry 2 of its chain completes a run that was not paid"):
        DatasetLedger(file).chain()


def test_a_restored_copy_never_has_a_later_head(file, tmp_path):
    ledger = DatasetLedger(file)
    pay(ledger, "a")
    shutil.copy(file, tmp_path / "backup")
    head = ledger.complete("a")
    shutil.copy(tmp_path / "backup", file)
    pay(ledger, "b")
    ledger.complete("a")  # the same run, complete again: other random bytes
    assert head not in {entry.head for entry in ledger.chain()}


def test_a_ledger_of_an_earlier_version_gets_its_chain_with_the_next_payment(file):
    ledger = DatasetLedger(file)
    pay(ledger, "a")
    make_earlier(file)
    before = file.read_bytes()
    assert ledger.chain() == ()
    assert ledger.summary().head is None
    assert [run.payer for run in ledger.summary().runs] == [""]
    assert ledger.summary().spent == pytest.approx(0.5, abs=1e-6)
    assert file.read_bytes() == before, "what only reads changes nothing"
    pay(ledger, "b")
    assert [(entry.kind, entry.run_id) for entry in ledger.chain()] == [("begin", ""), ("run", "a"), ("run", "b")]
    assert len(ledger.complete("a")) == 64


def test_a_refused_payment_adds_no_chain(file):
    ledger = DatasetLedger(file)
    pay(ledger, "a")
    make_earlier(file)
    with pytest.raises(LedgerError, match="over the cap"):
        ledger.reserve("b", "", full(9.0), NONCES)
    assert ledger.chain() == ()


def test_a_run_keeps_the_head_for_its_certificates(file, tmp_path):
    schedule = Schedule((Stage(2),), (4.0,), Budget(1.0))
    stated = {"recipe": {"method": "x"}, "schedule": schedule, "digest": b"d" * 32}
    ledger = DatasetLedger(file)
    ledger.bind(lambda key: b"d" * 32)
    with RunLedger.open(tmp_path / "run", **stated) as run:
        run.join(ledger, "label")
        run.commit(0, Event(4.0), [1.0], 4.0)
        with pytest.raises(LedgerError, match="Expected 2 rounds to be committed; 1 are"):
            run.complete()
        assert RunLedger.read(tmp_path / "run").head is None
        run.commit(1, Event(4.0), [1.0], 4.0)
        head = run.complete()
    with RunLedger.open(tmp_path / "run", **stated) as run:
        run.join(ledger, "label")
        assert run.complete() == head
    assert RunLedger.read(tmp_path / "run").head == head == ledger.chain()[-1].head
    with RunLedger.open(":memory:", **stated | {"schedule": Schedule((Stage(1),), (4.0,), Budget(1.0))}) as alone:
        alone.commit(0, Event(4.0), [1.0], 4.0)
        assert alone.complete() is None
    change(tmp_path / "run" / "ledger.sqlite", "DROP TABLE head")
    assert RunLedger.read(tmp_path / "run").head is None, "a run of an earlier version"
