"""The commands that make keys, sign and say who signed; a run that signs its result."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from run_command import dpdistill, refused, succeeds

pytest.importorskip("cryptography", reason="cryptography, of the extra sign, is not installed")
pytest.importorskip("bcrypt", reason="bcrypt, of the extra sign, is not installed")

from dpdistill.cli.passphrase import VARIABLE

SMALL = ("--method", "ldpdc", "--per-class", 1, "--set", "sampling_prob=1")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A key with a passphrase, and a result that the run signed with it."""
    place = tmp_path_factory.mktemp("signed")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, "correct horse")
        made = succeeds("key", "new", place / "owner", "--comment", "owner@house")
        assert made.startswith(f"{place / 'owner'} is the private key: keep it to yourself.\n")
        out = succeeds("distill", "digits:train", "--out", place / "shared", *SMALL, "--sign", place / "owner")
    assert "\nshared is signed with the key SHA256:" in out
    assert out.endswith(", in certificate.json.sig.\n")
    return place


def test_verify_says_who_signed(place):
    code, out, _ = dpdistill("verify", place / "shared", "--signer", place / "owner.pub")
    assert code == 0
    assert "ok   signed: SIGNED by owner@house (key SHA256:" in out
    assert "A signature says who signed these files, never what was run." in out
    assert out.endswith("\nPASSED\n")
    succeeds("key", "new", place / "other", "--no-passphrase")
    code, out, _ = dpdistill("verify", place / "shared", "--signer", place / "other.pub")
    assert code == 1
    assert "FAIL signed: NOT SIGNED by a signer that --signer states." in out


def test_a_further_signer_signs_and_the_kit_carries_all_signatures(place):
    succeeds("key", "new", place / "officer", "--no-passphrase")
    found = json.loads(succeeds("sign", place / "shared", "--key", place / "officer", "--as", "officer", "--json"))
    assert [Path(name).name for name in found["signatures"]] == [
        "certificate.json.officer.sig", "documents.sha256.officer.sig"
    ]  # fmt: skip
    succeeds("export", place / "shared", "--to", "kit", "--out", place / "kit")
    with zipfile.ZipFile(place / "kit" / "partner.zip") as archive:
        archive.extractall(place / "unpacked")
    kit = place / "unpacked" / "set"
    assert sorted(path.name for path in kit.glob("*.sig")) == [
        *("certificate.json.officer.sig", "certificate.json.sig"),
        *("documents.sha256.officer.sig", "documents.sha256.sig"),
    ]
    code, out, _ = dpdistill("verify", kit, "--signer", place / "officer.pub")
    assert code == 0
    assert "1 of 5 are not here" in out
    succeeds("export", place / "shared", "--to", "kit", "--out", place / "other-kit", "--about", "license=cc-by-4.0")
    with zipfile.ZipFile(place / "other-kit" / "partner.zip") as archive:
        assert not [name for name in archive.namelist() if name.endswith(".sig")]


def test_what_cannot_sign_is_refused_before_anything_is_paid(place, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    small = ("distill", "digits:train", "--out", place / "unpaid", *SMALL, "--sign")
    assert "as there is no terminal to ask on" in refused(*small, place / "owner")
    monkeypatch.setenv(VARIABLE, "wrong horse")
    assert "with this passphrase" in refused(*small, place / "owner")
    assert "there is no such file" in refused(*small, place / "none")
    assert not (place / "unpaid.run").exists()
    assert "Expected 1 to 40 letters" in refused("sign", place / "shared", "--key", place / "other", "--as", "a b")


def test_a_result_that_replaces_a_signed_one_has_no_signature(place):
    succeeds("distill", "digits:train", "--out", place / "again", *SMALL, "--seed", 1)
    succeeds("key", "new", place / "third", "--no-passphrase")
    succeeds("sign", place / "again", "--key", place / "third")
    succeeds("distill", "digits:train", "--out", place / "again", *SMALL, "--seed", 2, "--overwrite")
    assert not [path.name for path in (place / "again").iterdir() if path.suffix in (".sig", ".sha256")]


def test_a_passphrase_is_asked_for_twice(place, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    answers = iter(["correct horse", "correct horsf", "correct horse", "correct horse", "correct horse"])
    monkeypatch.setattr("dpdistill.cli.passphrase.getpass", lambda _: next(answers))
    assert "the two differ" in refused("key", "new", place / "asked")
    succeeds("key", "new", place / "asked")
    succeeds("sign", place / "shared", "--key", place / "asked", "--as", "asked")
    assert next(answers, None) is None
