"""`dpdistill budget check`: the heads on certificates find a ledger that was restored from a copy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from run_command import dpdistill, refused, succeeds

import dpdistill as dp
from dpdistill import verify_minimal

SMALL = ("--method", "ldpdc", "--per-class", 1, "--set", "sampling_prob=1", "--epsilon", 0.5)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Two runs in one ledger, a copy of the ledger between them, and a set from the releases of the second."""
    place = tmp_path_factory.mktemp("heads")
    succeeds("budget", "new", place / "all.ledger", "--cap", 2)
    succeeds("distill", "digits:train", "--out", place / "first", *SMALL, "--ledger", place / "all.ledger")
    shutil.copy(place / "all.ledger", place / "copy.ledger")
    succeeds("distill", "digits:train", "--out", place / "second", *SMALL, "--ledger", place / "all.ledger")
    succeeds("distill", "--from", place / "second.run", "--out", place / "again")
    succeeds("distill", "digits:train", "--out", place / "alone", *SMALL)
    return place


def head_of(folder: Path) -> str | None:
    return json.loads((folder / "certificate.json").read_text())["ledger_head"]


def test_every_certificate_of_a_run_has_the_head_of_its_ledger(place):
    assert head_of(place / "first") != head_of(place / "second")
    assert head_of(place / "again") == head_of(place / "second") == dp.ledger_summary(place / "all.ledger").head
    assert head_of(place / "alone") is None
    for name in ("first", "again"):
        out = succeeds("verify", place / name)
        assert f"Head of the data set's ledger, as stated, not checked: {head_of(place / name)}" in out
        assert out.endswith("\nPASSED\n")


def test_the_second_verifier_accepts_a_head(place, capsys):
    assert verify_minimal.main(str(place / "first")) == 4
    assert "failed" not in capsys.readouterr().out


def test_the_ledger_has_every_head(place):
    out = succeeds("budget", "check", *(place / name for name in ("first", "again", "alone")), "--ledger",
                   place / "all.ledger")  # fmt: skip
    assert out.splitlines() == [
        f"ok   {place / 'first'}: The certificate's head is entry 3 of 5 in the ledger.",
        f"ok   {place / 'again'}: The certificate's head is entry 5 of 5 in the ledger.",
        f"     {place / 'alone'}: The certificate states no head: its run had no ledger, or an earlier version.",
    ]


def test_a_restored_copy_lacks_a_head(place):
    shutil.copy(place / "copy.ledger", place / "restored.ledger")
    certificates = (place / "first", place / "second" / "certificate.json")
    code, out, _ = dpdistill("budget", "check", *certificates, "--ledger", place / "restored.ledger", "--json")
    found = json.loads(out)
    assert (code, found["exit_code"], found["passed"]) == (1, 1, False)
    assert [each["found"] for each in found["certificates"]] == [True, False]
    assert "it was restored from a copy that is older than this run" in found["certificates"][1]["detail"]
    assert found["text"][-1] == "FAILED"


def test_a_head_of_another_run_is_found(place, tmp_path):
    shutil.copytree(place / "first", tmp_path / "changed")
    path = tmp_path / "changed" / "certificate.json"
    content = json.loads(path.read_text())
    content["schedule"]["noise_multipliers"] = [1.0]
    path.write_text(json.dumps(content))
    (check,) = dp.check_heads([tmp_path / "changed"], place / "all.ledger")
    assert check == dp.HeadCheck(
        str(tmp_path / "changed"), False, "Entry 3 of the ledger was paid for another schedule."
    )
    for other in ("begin", 7, ["x"]):
        content["ledger_head"] = other
        path.write_text(json.dumps(content))
        assert dp.check_heads([tmp_path / "changed"], place / "all.ledger")[0].found is False


def test_what_is_no_certificate_or_ledger_is_refused(place):
    assert "certificate.json" in refused("budget", "check", place / "none", "--ledger", place / "all.ledger")
    assert "There is no ledger at" in refused("budget", "check", place / "first", "--ledger", place / "none")


def test_another_head_than_the_runs_fails(place):
    shutil.copytree(place / "first", place / "moved")
    shutil.copytree(place / "first.run", place / "moved.run")
    path = place / "moved" / "certificate.json"
    path.write_text(path.read_text().replace(head_of(place / "first") or "", "1f" * 32))
    code, out, _ = dpdistill("verify", place / "moved")
    assert code == 1
    assert "FAIL ledger: The run's ledger states another head of the data set's ledger." in out


def test_show_a_folder_of_ledgers(tmp_path, monkeypatch):
    monkeypatch.setenv("DPDISTILL_USER", "anna <admin>")
    for name in ("scans.ledger", "visits.ledger"):
        succeeds("budget", "new", tmp_path / name, "--cap", 3)
    stated = '[heart]\ncap = 0.6\ndelta = 1e-5\nledgers = ["scans.ledger", "visits.ledger"]\n'
    (tmp_path / "registers.toml").write_text(stated)
    paid = ("distill", "digits:train", *SMALL, "--ledger")
    succeeds(*paid, tmp_path / "scans.ledger", "--out", tmp_path / "first")
    sentence = refused(*paid, tmp_path / "visits.ledger", "--out", tmp_path / "second")
    assert sentence.startswith("With this run the register 'heart' would have spent epsilon=0.7")
    assert not (tmp_path / "second").exists()
    out = succeeds("budget", "show", tmp_path, "--page", tmp_path / "account.html")
    assert [line.split() for line in out.splitlines() if line.startswith("heart")] == [
        ["heart", "0.5000", "0.6", "1e-05", "scans.ledger,", "visits.ledger"]
    ]
    assert "anna <admin>" in out
    page = (tmp_path / "account.html").read_text()
    assert "anna &lt;admin&gt;" in page
    assert "<admin>" not in page
    assert (tmp_path / "account.html").stat().st_mode & 0o777 == 0o600
    found = json.loads(succeeds("budget", "show", tmp_path, "--json"))
    assert [*found["ledgers"]] == ["scans.ledger", "visits.ledger"]
    assert [run["payer"] for run in found["ledgers"]["scans.ledger"]["runs"]] == ["anna <admin>"]
    assert found["registers"][0]["spent"] == pytest.approx(0.5, abs=1e-3)
    assert "payer" in succeeds("budget", "show", tmp_path / "scans.ledger")
    assert "Expected a folder" in refused("budget", "show", tmp_path / "scans.ledger", "--page", tmp_path / "x.html")
    assert "outside of a shared folder" in refused("budget", "show", tmp_path, "--page", tmp_path / "first" / "x.html")
