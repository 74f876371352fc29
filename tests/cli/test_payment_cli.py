"""After a payment no command ends without a word: what was paid, where it is kept and how the run is resumed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import contract
import jax
import numpy as np
import pytest
from contract.workers import InThisProcess
from full_disk import FullDisk
from run_command import dpdistill, succeeds

from dpdistill import begin_ledger, run
from dpdistill.accounting.schedule import Budget
from dpdistill.api import run as runs
from dpdistill.cli import terminal
from dpdistill.errors import DataError, LedgerUnusable
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger
from dpdistill.methods import LDPDC
from dpdistill.private import aggregator
from dpdistill.private.curator import OUT_OF_MEMORY
from dpdistill.run import checkpoint, driver, start
from dpdistill.run import result as results
from dpdistill.workers import processes, remote_aggregator, worker

COMMAND = sys.modules["dpdistill.cli.distill"]
PAID = "This run has paid epsilon = 1 at delta = 1e-05 (add-remove); the payment is kept in {}."
RESUME = "Run the same command again (in Python: make the same call): it resumes the run and pays nothing more."
REPEATED = (
    "The same command fails again until the cause of the error is removed; then it resumes and pays nothing more."
)


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A run of two rounds on 60 records, kept in a data set's ledger."""
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)
    data = tmp_path.with_name(tmp_path.name + "-data.npz")
    np.savez(data, X=np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8), y=np.arange(60) % 2)
    small = ("--classes", "2", "--method", "ldpdc", "--per-class", 2, "--set", "sampling_prob=1")
    begin_ledger(tmp_path / "all.ledger", 1.2)
    ledger = ("--ledger", tmp_path / "all.ledger")
    return ("distill", data, "--out", tmp_path / "set", *small, *ledger)


def committed(folder: Path) -> dict[int, tuple]:
    """The committed rounds of the run in a folder; a value that was dropped after a checkpoint is None."""
    path = folder / "set.run" / "ledger.sqlite"
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path)) as db:
        try:
            return {row[0]: row[1:] for row in db.execute("SELECT * FROM rounds")}
        except sqlite3.OperationalError:  # no tables yet
            return {}


def reserved(folder: Path) -> int:
    """How many runs the data set's ledger holds."""
    path = folder / "all.ledger"
    if not path.exists() or not path.stat().st_size:
        return 0
    with closing(sqlite3.connect(path)) as db:
        try:
            return db.execute("SELECT COUNT(*) FROM runs").fetchone()[0]
        except sqlite3.OperationalError:
            return 0


def test_a_disk_that_fills_at_every_write_loses_nothing_and_pays_once(command, tmp_path):
    disk, kept, codes = FullDisk(tmp_path), {}, []
    for _ in range(200):
        with disk():
            code, out, err = dpdistill(*command)
        assert "Traceback" not in err, err
        rows = committed(tmp_path)
        for t, row in kept.items():
            assert rows[t][:5] == row[:5], f"Round {t} changed after {disk.kinds[-1]}."
            assert rows[t][5] in (None, row[5]), f"Round {t} was drawn again after {disk.kinds[-1]}."
        kept = {t: (*row[:5], row[5] or kept.get(t, (None,) * 6)[5]) for t, row in rows.items()}
        if code == 0:
            break
        paid = bool(rows) or reserved(tmp_path) > 0
        codes.append(code)
        assert (code, out) == (5 if paid else 2, ""), f"{disk.kinds[-1]}: {err}"
        last = PAID.format(f"{tmp_path / 'set.run'} and in {tmp_path / 'all.ledger'}")
        assert err.endswith(f"{last} {RESUME}\n") if paid else "has paid" not in err
    else:
        raise AssertionError("The command never ends.")
    assert len(disk.kinds) == len(codes) > 30
    for kind in (
        "sql INSERT INTO runs all.ledger", "sql INSERT INTO rounds ledger.sqlite", "sql COMMIT ledger.sqlite",
        "write state-#.tmp", "mkdir set.partial", "write .synthetic.npz.part", "write .certificate.json.part",
        "write .report.html.part", "write handing-over.tmp", "rename set", "rename finished",
    ):  # fmt: skip
        assert kind in disk.kinds, f"The disk never filled at {kind}: {disk.kinds}"
    assert codes == sorted(codes)
    assert codes.count(2) >= 5
    assert codes.count(5) >= 20
    assert sorted(kept) == [0, 1]
    assert reserved(tmp_path) == 1
    assert DatasetLedger(tmp_path / "all.ledger").summary().spent == pytest.approx(1.0, rel=1e-9)
    plain = [*command]
    plain[3], plain[-1] = tmp_path / "plain", begin_ledger(tmp_path / "other.ledger", 1.2)
    succeeds(*plain)
    one, other = (json.loads((tmp_path / name / "certificate.json").read_text()) for name in ("set", "plain"))
    for key in ("claim", "schedule", "events", "epsilons", "attacker", "groups", "noise", "recipe"):
        assert one[key] == other[key]
    assert one["files"].keys() == other["files"].keys()
    succeeds("verify", tmp_path / "set")


def test_what_pays_nothing_is_refused_by_a_full_disk_as_before(command, tmp_path):
    succeeds(*command)
    free = [("distill", "--from", tmp_path / "set.run", "--out", tmp_path / "again")]
    free += [("export", tmp_path / "set", "--to", "csv", "--out", tmp_path / "set.csv")]
    free += [("report", tmp_path / "set")]
    for again in free:
        with FullDisk(tmp_path)():
            code, out, err = dpdistill(*again)
        assert (code, out) == (2, ""), (again, err)
        assert "No space left on device" in err
        assert "paid" not in err


def fails(kind, *says, **more):
    """A function that fails."""

    def fail(*_, **__):
        raise kind(*says, **more)

    return fail


def ends_in_order(*_, **__):
    """What the system does that shuts a machine down."""
    os.kill(os.getpid(), signal.SIGTERM)


class Loses(InThisProcess):
    """Workers that are lost whenever they are asked."""

    def answer(self, ticket):
        raise processes.Lost


class Speaks(InThisProcess):
    """A cluster that fails, and says how many records it has."""

    def first(self, tickets):
        raise RuntimeError("60 records are lost")


FULL = (OSError, 28, "No space left on device", "/far/x")
NO_MEMORY = (jax.errors.JaxRuntimeError, "RESOURCE_EXHAUSTED: Out of memory allocating 60 bytes.")
CASES = (
    (remote_aggregator, "Processes", Loses, 5, "Workers are lost repeatedly"),
    (remote_aggregator, "Processes", Speaks, 5, "could not be answered"),
    (checkpoint.Store, "load", fails(ValueError, "The checkpoint is damaged."), 6, "The checkpoint is damaged"),
    (checkpoint.Store, "save", fails(*FULL), 5, "No space left on device: /far/x"),
    (checkpoint.Store, "save", fails(MemoryError, "shape (60, 64)"), 5, "There is not enough memory for this"),
    (checkpoint.Store, "save", fails(KeyboardInterrupt), 130, "Stopped."),
    (checkpoint.Store, "save", ends_in_order, 143, "Stopped."),
    (RunLedger, "open", fails(LedgerUnusable, "The ledger cannot be opened."), 5, "The ledger cannot be opened."),
    (RunLedger, "find", fails(LedgerUnusable, "It cannot be read."), 5, "It cannot be read."),
    (DatasetLedger, "bind", fails(LedgerUnusable, "It cannot be read."), 5, "It cannot be read."),
    (runs, "prepared", fails(KeyboardInterrupt), 130, "Stopped."),
    (start, "digest_key", fails(*FULL), 5, "No space left on device: /far/x"),
    (LDPDC, "finish", fails(*NO_MEMORY), 5, "There is not enough memory for this"),
    (LDPDC, "finish", fails(ZeroDivisionError, "by zero"), 6, "This is an error of the program"),
    (LDPDC, "finish", fails(np.linalg.LinAlgError, "singular"), 6, "singular"),
    (LDPDC, "finish", fails(ModuleNotFoundError, "x", name="sklearn"), 5, "This needs sklearn"),
    (results, "write_distilled", fails(DataError, "Arrays that do not fit."), 6, "Arrays that do not fit"),
    (results, "write_documents", fails(KeyError, "a mistake"), 6, "This is an error of the program"),
    (results, "write_report", fails(*FULL), 5, "No space left on device: /far/x"),
    (results, "write_report", fails(KeyboardInterrupt), 130, "Stopped."),
)


BEFORE = (RunLedger, DatasetLedger, runs, start)
"""Where a run that was begun before is not opened yet."""


@pytest.mark.parametrize("ledger", [True, False], ids=["data-set", "run"])
def test_whatever_ends_a_run_after_a_payment_says_so(command, tmp_path, monkeypatch, ledger):
    monkeypatch.setattr(worker, "settle", lambda *_: "kind")
    command = command if ledger else command[:-4]
    places = f"{tmp_path / 'set.run'}" + (f" and in {tmp_path / 'all.ledger'}" if ledger else "")
    released = f" Other settings of the last part can use the releases again at no cost: --from {tmp_path}/set.run."
    for i, (where, name, made, expected, says) in enumerate(CASES):
        if not ledger and (where is DatasetLedger or name == "find"):
            continue  # nobody asks
        workers = ("--workers", 1) if where is remote_aggregator else ()
        with monkeypatch.context() as patch:
            patch.setattr(where, name, made)
            code, out, err = dpdistill(*command, *workers)
        assert out == ""
        assert says in err
        if i < 3 and not ledger:  # the first round is yet to be released
            assert code == (2 if says not in ("Stopped.",) else 130), err
            assert "paid" not in err.replace("the budget of the run stays reserved", "")
            continue
        assert code == expected, err
        earlier = PAID.replace("This run has paid", "An earlier start of this run has paid, or may have paid,")
        assert (earlier if where in BEFORE else PAID).format(places) in err
        last = err.splitlines()[-1]
        if expected == 6:
            assert last.endswith(REPEATED + (released if where is not checkpoint.Store else ""))
        else:
            assert last.endswith(RESUME)
        assert last.startswith(
            ("Stopped. This run", "Stopped. An earlier") if expected > 128 else ("This run", "An earlier start")
        )
        assert "60" not in re.sub(r"line \d+", "", err.replace(str(tmp_path), ""))
        assert ("Traceback" in err) is ("error of the program" in says)
    with monkeypatch.context() as patch:
        patch.setattr(COMMAND, "_say_result", fails(*FULL))
        code, out, err = dpdistill(*command)
    assert code == 6, err
    assert err.splitlines()[-1].endswith(f"The result in {tmp_path / 'set'} is complete: do not pay for it again.")
    assert sorted(committed(tmp_path)) == [0, 1]
    assert reserved(tmp_path) == ledger
    succeeds("verify", tmp_path / "set")


def test_who_stops_a_run_that_has_paid_nothing_is_told(command, monkeypatch):
    monkeypatch.setattr(driver, "run_rounds", fails(KeyboardInterrupt))
    code, out, err = dpdistill(*command[:-4])
    assert (code, out) == (130, "")
    assert err.endswith("\nStopped. Nothing was paid.\n")


@pytest.mark.parametrize("kind", [(MemoryError, "shape (60, 64)"), NO_MEMORY], ids=["numpy", "xla"])
def test_too_little_memory_for_a_round_has_a_sentence_and_a_code(command, tmp_path, monkeypatch, kind):
    for options in (command, command[:-2]):  # with a data set's ledger, and without one
        with monkeypatch.context() as patch:
            patch.setattr(aggregator.LocalAggregator, "answer", fails(*kind))
            code, out, err = dpdistill(*options)
        assert (code, out) == (terminal.FULL, "") == (7, "")
        assert f"Error: {OUT_OF_MEMORY.format(0)}" in err
        assert "60" not in err.replace(str(tmp_path), "")
        assert ("This run has paid" in err) == (options is command)
        succeeds(*options)
        shutil.rmtree(tmp_path / "set.run")
        shutil.rmtree(tmp_path / "set")


def test_a_refused_run_has_paid_nothing(command, tmp_path):
    """Neither over the cap, nor where another run has paid into the same folder."""
    over = [*command]
    over[-1] = 0.5
    for _ in range(2):
        code, _, err = dpdistill(*over)
        assert code == 2
        assert "has paid" not in err
    succeeds(*command)
    code, _, err = dpdistill(*command, "--overwrite")
    assert code == 2
    assert "over the cap" in err
    assert "has paid" not in err
    assert reserved(tmp_path) == 1


def test_a_pipe_that_nobody_reads_does_not_hide_a_payment(command, monkeypatch):
    monkeypatch.setattr(COMMAND, "_say_result", fails(BrokenPipeError, 32, "Broken pipe"))
    code, _, err = dpdistill(*command)
    assert code == 6
    assert "is complete: do not pay for it again" in err


def test_in_python_the_exception_carries_the_words(tmp_path, monkeypatch):
    records, method = contract.known(60), LDPDC(per_class=2, sampling_prob=1.0)
    with monkeypatch.context() as patch:
        patch.setattr(LDPDC, "finish", fails(ZeroDivisionError, "by zero"))
        with pytest.raises(ZeroDivisionError) as caught:
            run.distill(records, method, run_dir=tmp_path / "x.run")
        (words,) = caught.value.__notes__
        assert words.startswith(PAID.format(tmp_path / "x.run"))
        with pytest.raises(ZeroDivisionError) as caught:  # nothing is kept, and nothing was seen
            run.distill(records, method)
        assert not hasattr(caught.value, "__notes__")
        with pytest.raises(ZeroDivisionError) as caught:
            run.distill(records, method, ledger=begin_ledger(tmp_path / "all.ledger", 2.0))
        (words,) = caught.value.__notes__
        assert words.startswith(PAID.format(tmp_path / "all.ledger"))
        assert words.endswith("this run cannot be resumed, and another one pays again.")
    with pytest.raises(ValueError, match="Expected run_dir=None") as caught:
        run.distill(records, method, run_dir=tmp_path / "x.run", beside=records)
    assert not hasattr(caught.value, "__notes__")
    result = run.distill(records, method, Budget(1.0), run_dir=tmp_path / "x.run")
    with monkeypatch.context() as patch:
        patch.setattr(results, "write_report", fails(*FULL))
        with pytest.raises(OSError, match="No space left") as caught:
            result.save(tmp_path / "x")
    assert caught.value.__notes__ == [f"{PAID.format(tmp_path / 'x.run')} {RESUME}"]
    assert result.save(tmp_path / "x") == tmp_path / "x"
    assert terminal.PAID_RESUMABLE == 5
    assert terminal.PAID_FAILED == 6
