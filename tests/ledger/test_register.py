"""Registers: data sets about the same persons spend under one further cap, also when several processes pay at once."""

from __future__ import annotations

import fcntl
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpdistill.accounting.gaussian import gaussian_epsilon
from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.errors import LedgerError
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.house import is_ledger, summarise
from dpdistill.ledger.register import read_registers, registers_of
from dpdistill.query import Stage

NONCES = ("one", "two")
STATED = '[heart]\ncap = {cap}\ndelta = 1e-5\nledgers = ["scans", "visits"]\n'


def full(epsilon: float, **budget) -> Schedule:
    return calibrate((Stage(1),), Budget(epsilon, **budget))


def pay(file: Path, run_id: str, schedule: Schedule, payer: str = "anna") -> None:
    ledger = DatasetLedger(file)
    ledger.bind(lambda key: b"d" * 32)
    ledger.reserve(run_id, f"label {run_id}", schedule, NONCES, "2026-01-31", payer)


@pytest.fixture
def house(tmp_path) -> Path:
    """Three ledgers of cap 3, of which two are of one register of cap 1.5."""
    for name in ("scans", "visits", "other"):
        DatasetLedger.begin(tmp_path / name, 3.0)
    (tmp_path / "registers.toml").write_text(STATED.format(cap=1.5))
    return tmp_path


def mu(epsilon: float) -> float:
    return 1.0 / full(epsilon).noise_multipliers[0]


def test_a_run_over_the_cap_of_its_register_is_refused(house):
    pay(house / "scans", "a", full(1.0))
    with pytest.raises(
        LedgerError, match=r"the register 'heart' would have spent epsilon=1\.69847, over its cap of 1\.5"
    ):
        pay(house / "visits", "b", full(1.3))
    with pytest.raises(LedgerError, match="the register 'heart' would have spent"):
        DatasetLedger(house / "visits").check(full(1.3))
    pay(house / "visits", "c", full(1.0))
    pay(house / "visits", "c", full(1.0))  # resumed: paid already
    assert DatasetLedger(house / "visits").check(full(1.0), "c", NONCES) == pytest.approx(1.0, abs=1e-6)
    pay(house / "other", "d", full(2.9))
    (register,) = summarise(house).registers
    both = gaussian_epsilon(1.0 / math.hypot(mu(1.0), mu(1.0)), 1e-5, "add-remove")
    assert register.spent == pytest.approx(both, rel=1e-6)
    assert 1.4 < both < 1.5


def test_the_account_says_who_spent_what_when(house):
    pay(house / "scans", "a", full(0.5))
    pay(house / "other", "b", full(0.7), "bert")
    (house / "damaged").write_bytes((house / "other").read_bytes()[:200])
    (house / "notes.txt").write_text("notes")
    found = summarise(house)
    assert [(name, run.payer, run.date, run.label) for name, run in found.payments] == [
        ("other", "bert", "2026-01-31", "label b"),
        ("scans", "anna", "2026-01-31", "label a"),
    ]
    assert [*found.ledgers] == ["other", "scans", "visits"]
    assert "damaged" in found.faults["damaged"]
    assert found.ledgers["visits"].spent == 0.0
    assert not is_ledger(house / "notes.txt")
    with pytest.raises(LedgerError, match="it has none"):
        summarise(house.parent)


def test_several_units_are_not_added_up(house):
    pay(house / "scans", "a", full(0.5))
    with pytest.raises(LedgerError, match="protect several units or relations, so they cannot be added up"):
        pay(house / "visits", "b", full(0.5, unit="patient", rows_per_unit=2))
    (house / "registers.toml").unlink()
    pay(house / "visits", "b", full(0.5, unit="patient", rows_per_unit=2))
    (house / "registers.toml").write_text(STATED.format(cap=1.5))
    (register,) = summarise(house).registers
    assert register.spent is None
    assert "several units" in register.fault


BAD = {
    "no TOML": ("[heart", "Expected TOML in"),
    "no table": ("heart = 3", "it has other fields"),
    "unknown field": (STATED.format(cap=1) + "owner = 'x'", "it has other fields"),
    "cap": (STATED.format(cap=0), "Expected 0 < cap < inf"),
    "infinite cap": (STATED.format(cap="inf"), "Expected 0 < cap < inf"),
    "true": (STATED.format(cap="true"), "Expected 0 < cap < inf"),
    "delta": (STATED.format(cap=1).replace("1e-5", "0.5"), "Expected 0 < delta <= 0.01"),
    "ledgers": (STATED.format(cap=1).replace('["scans", "visits"]', '"scans"'), "Expected a list of file names"),
    "missing": (STATED.format(cap=1).replace("visits", "none"), "got 'none'"),
    "path": (STATED.format(cap=1).replace("visits", "./scans"), "got './scans'"),
    "twice": (STATED.format(cap=1).replace("visits", "scans"), "got 'scans'"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_cannot_be_used_refuses_every_payment(house, case):
    text, words = BAD[case]
    (house / "registers.toml").write_text(text)
    for use in (
        lambda: read_registers(house),
        lambda: pay(house / "scans", "a", full(0.5)),
        lambda: DatasetLedger(house / "scans").check(full(0.5)),
    ):
        with pytest.raises(LedgerError, match=words):
            use()
    assert DatasetLedger(house / "scans").summary().runs == ()


PAY = """
import sys
sys.path.insert(0, {here!r})
from test_register import full, pay
from pathlib import Path
try:
    pay(Path(sys.argv[1]), sys.argv[2], full(1.0))
except ValueError as error:
    assert "the register 'heart'" in str(error), error
    sys.exit(9)
"""


def test_of_processes_that_pay_at_once_only_as_many_pay_as_fit(house):
    code = PAY.format(here=str(Path(__file__).parent))
    racing = [
        subprocess.Popen([sys.executable, "-c", code, house / name, f"{name}{i}"], env=os.environ)
        for i in range(2)
        for name in ("scans", "visits")
    ]
    codes = sorted(process.wait(120) for process in racing)
    assert codes == [0, 0, 9, 9]  # two runs of epsilon 1 cost 1.46, three more than 1.5
    (register,) = summarise(house).registers
    assert register.spent is not None
    assert 1.4 < register.spent < 1.5


def test_a_ledger_behind_a_link_is_refused_not_paid_without_its_register(house):
    (house / "far").mkdir()
    (house / "visits").rename(house / "far" / "visits")
    (house / "visits").symlink_to(house / "far" / "visits")
    for name in ("scans", "visits"):
        for use in (
            lambda: pay(house / name, "a", full(2.0)),  # noqa: B023
            lambda: DatasetLedger(house / name).check(full(2.0)),  # noqa: B023
        ):
            with pytest.raises(LedgerError, match=r"got 'visits'|Expected the ledger itself next to registers.toml"):
                use()
    assert DatasetLedger(house / "far" / "visits").summary().runs == ()


def test_the_lock_is_that_of_the_present_file_after_a_wait(house, monkeypatch):
    file, locked, lock = house / "registers.toml", [], fcntl.flock

    def replaced_during_the_first_wait(handle, kind):
        lock(handle, kind)
        locked.append(handle)
        if len(locked) == 1:
            (house / "new").write_text(STATED.format(cap=0.5))
            os.replace(house / "new", file)

    monkeypatch.setattr(fcntl, "flock", replaced_during_the_first_wait)
    with registers_of(house / "scans", lock=True) as (register,):
        assert os.path.samestat(os.fstat(locked[-1]), file.stat())
        assert register.cap == 0.5
    assert len(locked) == 2
