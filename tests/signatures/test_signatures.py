"""Signed folders: who signed, with OpenSSH's own program as the second opinion."""

from __future__ import annotations

import contextlib
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="cryptography, of the extra sign, is not installed")
pytest.importorskip("bcrypt", reason="bcrypt, of the extra sign, is not installed")

import dpdistill as dp
from dpdistill.folder.layout import is_signing, signature_name
from dpdistill.signatures.keys import PublicKey, is_encrypted, new_key, read_signing_key
from dpdistill.signatures.signers import read_signers
from dpdistill.signatures.sshsig import fault, read_signature, sign

VECTORS = Path(__file__).parents[1] / "certificate" / "vectors"
PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIUZ+++GY4RGJ4ZJFxgM6PsWmqmKvOktdSFq5UY7mt0l owner@example"
SIGNATURE = b"""-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAghRn774ZjhEYnhkkXGAzo+xaaqY
q86S11IWrlRjua3SUAAAAJZHBkaXN0aWxsAAAAAAAAAAZzaGE1MTIAAABTAAAAC3NzaC1l
ZDI1NTE5AAAAQFhpKFM1d2mZKg3zpjK2gqCIII1k+PFH3uloL0OXH3704IZeaEIcJCwsuC
kEBz2mVhyQDb9nFv0PfhOmI5No8AM=
-----END SSH SIGNATURE-----
"""
"""Made by ssh-keygen -Y sign -n dpdistill (OpenSSH 9.2) over the bytes b"message\\n"."""
needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not on this machine")


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("owner", "officer", "other"):
        new_key(folder / name, None, f"{name}@example")
    return folder


@pytest.fixture
def shared(tmp_path) -> Path:
    """A folder with a page, which the certificate does not list."""
    shutil.copytree(VECTORS / "good-images", tmp_path / "shared")
    dp.report(tmp_path / "shared")
    return tmp_path / "shared"


def said(folder: Path, signer: Path | None) -> dict[str, tuple[bool | None, str]]:
    """The last check of each name."""
    return {check.name: (check.passed, check.detail) for check in dp.verify(folder, signer=signer).checks}


def openssh(folder: Path, name: str, signers: Path, who: str) -> bool:
    done = subprocess.run(
        ["ssh-keygen", "-Y", "verify", "-f", signers, "-I", who, "-n", "dpdistill", "-s", f"{name}.sig"],
        cwd=folder, input=(folder / name).read_bytes(), capture_output=True, timeout=20,
    )  # fmt: skip
    return done.returncode == 0


def test_a_signature_of_openssh_is_read_and_checked():
    signature = read_signature(SIGNATURE)
    assert fault(signature, b"message\n") == ""
    assert signature.key == PublicKey.parse(*PUBLIC.split()[:2], "here")
    assert signature.key.fingerprint == "SHA256:47BwBpQ1JBubvVCIkyMPvv/WY5aPmU5fO3MBpQktPJ0"
    assert fault(signature, b"message") == "the file was changed after it was signed"


def test_a_signed_folder_passes_for_its_signer_alone(shared, keys):
    dp.sign(shared, keys / "owner")
    result = dp.verify(shared, signer=keys / "owner.pub")
    assert result.outcome == "PASSED"
    key = read_signers(keys / "owner.pub")[0].key.fingerprint
    assert said(shared, keys / "owner.pub")["signed"] == (
        True, f"SIGNED by owner@example (key {key}). A signature says who signed these files, never what was run."
    )  # fmt: skip
    assert not [check for check in result.checks if check.name == "not covered"]
    passed, words = said(shared, keys / "other.pub")["signed"]
    assert passed is False
    assert words == f"NOT SIGNED by a signer that --signer states. The signatures are of other keys: {key}."
    assert dp.verify(shared).outcome == "PASSED"
    assert said(shared, None)["signatures"] == (
        None, "certificate.json.sig, documents.sha256.sig were not checked: state --signer KEY.pub."
    )  # fmt: skip


def test_a_folder_without_signature_is_not_signed(shared, keys):
    assert dp.verify(shared).outcome == "PASSED"
    assert said(shared, keys / "owner.pub")["signed"] == (False, "NOT SIGNED by a signer that --signer states.")


@needs_ssh
def test_openssh_accepts_both_signatures_and_refuses_what_this_package_refuses(shared, keys, tmp_path):
    dp.sign(shared, keys / "owner")
    signers = tmp_path / "allowed_signers"
    signers.write_text(f"owner@example {(keys / 'owner.pub').read_text()}")
    assert openssh(shared, "certificate.json", signers, "owner@example")
    assert openssh(shared, "documents.sha256", signers, "owner@example")
    (shared / "certificate.json.sig").write_bytes((shared / "documents.sha256.sig").read_bytes())
    assert not openssh(shared, "certificate.json", signers, "owner@example")
    assert said(shared, signers)["signed"][0] is False


@needs_ssh
def test_a_key_and_signatures_of_openssh_work_here(shared, keys, tmp_path):
    key = tmp_path / "theirs"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "their words", "-f", key], check=True, timeout=20)
    assert is_encrypted(key)
    dp.sign(shared, key, passphrase="their words")
    assert dp.verify(shared, signer=Path(f"{key}.pub")).passed
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", "dpdistill", "-f", keys / "owner"]
    for name in ("certificate.json", "documents.sha256"):
        (shared / f"{name}.sig").unlink()
        subprocess.run([*command, shared / name], check=True, timeout=20, capture_output=True)
    assert dp.verify(shared, signer=keys / "owner.pub").passed
    (shared / "certificate.json.sig").unlink()
    subprocess.run([*command[:5], "git", *command[6:], shared / "certificate.json"], check=True, capture_output=True)
    assert "another purpose, 'git'" in " ".join(
        check.detail for check in dp.verify(shared, signer=keys / "owner.pub").checks
    )


CHANGES = {
    "page": ("report.html", "report.html was changed"),
    "certificate": ("certificate.json", "certificate.json was changed"),
    "card": ("README.md", "README.md was added"),
    "scores": ("scores.json", "scores.json was added"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_after_signing_fails(shared, keys, change):
    dp.sign(shared, keys / "owner")
    name, words = CHANGES[change]
    with (shared / name).open("ab") as file:
        file.write(b" ")
    for signer in (None, keys / "owner.pub"):
        passed, detail = said(shared, signer)["documents"]
        assert passed is False
        assert words in detail
        assert dp.verify(shared, signer=signer).outcome == "FAILED"


def test_a_list_of_documents_without_its_signature_is_not_signed(shared, keys):
    dp.sign(shared, keys / "owner")
    (shared / "documents.sha256.sig").unlink()
    assert said(shared, keys / "owner.pub")["signed"] == (
        False,
        "NOT SIGNED completely: a signer stated by --signer signed only one of certificate.json and documents.sha256.",
    )


def test_a_document_that_is_left_out_is_no_fault(shared, keys):
    dp.sign(shared, keys / "owner")
    (shared / "report.html").unlink()
    assert said(shared, keys / "owner.pub")["documents"] == (
        True, "The SHA-256 of all files in documents.sha256 agree; 1 of 2 are not here."
    )  # fmt: skip
    assert dp.verify(shared, signer=keys / "owner.pub").passed


def test_an_officer_countersigns(shared, keys, tmp_path):
    dp.sign(shared, keys / "owner")
    assert [path.name for path in dp.sign(shared, keys / "officer", signer="officer")] == [
        "certificate.json.officer.sig", "documents.sha256.officer.sig"
    ]  # fmt: skip
    signers = tmp_path / "allowed_signers"
    both = [f"{name} {(keys / f'{name}.pub').read_text()}" for name in ("owner", "officer")]
    signers.write_text("# the house\n\n" + "".join(both))
    passed, words = said(shared, signers)["signed"]
    assert passed is True
    assert "by officer (key SHA256:" in words
    assert "by owner (key SHA256:" in words
    assert said(shared, keys / "officer.pub")["signed"][0] is True
    (shared / "report.html").unlink()
    with pytest.raises(dp.DataError, match=r"The documents of .* changed since certificate.json.officer.sig was made"):
        dp.sign(shared, keys / "owner")


def test_a_folder_that_verify_fails_is_not_signed(shared, keys):
    (shared / "synthetic.png").unlink()
    with pytest.raises(dp.DataError, match=r"does not fail; .*: files: .*synthetic.png is missing"):
        dp.sign(shared, keys / "owner")
    assert not list(shared.glob("*.sig"))


def test_completed_documents_are_signed_again(shared, keys):
    (shared / "README.md").write_text("A card.\n")
    dp.sign(shared, keys / "owner")
    (shared / "README.md").unlink()
    dp.sign(shared, keys / "owner")
    assert "README.md" not in (shared / "documents.sha256").read_text()
    assert dp.verify(shared, signer=keys / "owner.pub").passed


OPTIONS = {
    "none": ("", ""),
    "namespaces": ('namespaces="git,dpdistill" ', ""),
    "pattern": ('namespaces="dp*" ', ""),
    "other namespace": ('namespaces="git" ', "its line allows other purposes than 'dpdistill'"),
    "excluded": ('namespaces="*,!dpdistill" ', "its line allows other purposes than 'dpdistill'"),
    "valid": ('valid-after="20200101",valid-before="29990101Z" ', ""),
    "too early": ('valid-after="29990101" ', "its line is valid only later"),
    "too late": ('Valid-Before="202001011200Z" ', "its line is not valid any more"),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_options_of_allowed_signers_are_honoured(shared, keys, tmp_path, option):
    text, fault = OPTIONS[option]
    dp.sign(shared, keys / "owner")
    signers = tmp_path / "allowed_signers"
    signers.write_text(f'"owner@example,*@house" {text}{(keys / "owner.pub").read_text()}')
    assert dp.verify(shared, signer=signers).passed is (fault == "")
    assert fault in said(shared, signers)["signature"][1]
    if shutil.which("ssh-keygen"):
        assert openssh(shared, "certificate.json", signers, "owner@example") is (fault == "")


REFUSED = {
    "authority": ("who cert-authority {}", "'cert-authority' is not honoured"),
    "unknown option": ('who no-such="1" {}', "'no-such' is not honoured"),
    "twice": ('who namespaces="a",namespaces="b" {}', "'namespaces' is there twice"),
    "no value": ("who namespaces {}", "'namespaces' is not honoured"),
    "time": ('who valid-after="tomorrow" {}', "Expected a time as 20260131"),
    "no key": ("who", "it has another form"),
    "empty": ("# nothing", "it has no line with one"),
    "other kind": (f"who ssh-rsa {PUBLIC.split()[1]}", "it is 'ssh-ed25519'"),
    "no Base64": ("who ssh-ed25519 A!", "Expected a public key in Base64"),
    "short": ("who ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAAQA=", "Expected an Ed25519 key of 32 bytes"),
    "private": ("-----BEGIN OPENSSH PRIVATE KEY-----", "holds a private one"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_lines_that_are_not_honoured_are_refused(shared, tmp_path, case):
    line, words = REFUSED[case]
    (tmp_path / "signers").write_text(line.format(PUBLIC) + "\n")
    with pytest.raises(dp.DataError, match=words):
        dp.verify(shared, signer=tmp_path / "signers")
    with pytest.raises(dp.DataError, match="there is no such file"):
        dp.verify(shared, signer=tmp_path / "none")


DAMAGED = {
    "empty": b"",
    "no armour": b"signature",
    "no Base64": b"-----BEGIN SSH SIGNATURE-----\nAAA\n-----END SSH SIGNATURE-----\n",
    "no magic": b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n",
    "cut": b"-----BEGIN SSH SIGNATURE-----\nU1NIU0lHAAAAAQAAADM=\n-----END SSH SIGNATURE-----\n",
    "large": b"x" * 70_000,
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_signature_is_a_failed_check(shared, keys, case):
    dp.sign(shared, keys / "owner")
    (shared / "certificate.json.sig").write_bytes(DAMAGED[case])
    checks = dp.verify(shared, signer=keys / "owner.pub").checks
    assert [check.passed for check in checks if check.name == "signature"] == [False, True]
    assert said(shared, keys / "owner.pub")["signed"][0] is False


def test_every_changed_bit_of_a_signature_is_found(keys):
    key = read_signing_key(keys / "owner")
    signature, found = read_signature(sign(b"x", key)), 0
    for at in range(len(signature.value)):
        changed = bytearray(signature.value)
        changed[at] ^= 1
        other = type(signature)(signature.key, signature.namespace, signature.hash, bytes(changed))
        with contextlib.suppress(dp.DataError):  # a length in the signature
            assert fault(other, b"x") != ""
            found += 1
    assert found >= len("ssh-ed25519") + 64


def test_keys_are_private_and_never_replaced(tmp_path, shared):
    public = new_key(tmp_path / "key", "eight or more", "me")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert public.read_text().endswith(" me\n")
    assert read_signing_key(tmp_path / "key", "eight or more").public == read_signers(public)[0].key
    for file, passphrase, words in (
        (tmp_path / "key", "eight or more", "Expected no file at"),
        (tmp_path / "short", "seven..", "at least 8 characters"),
        (shared / "key", "eight or more", "outside of a shared folder"),
        (tmp_path / "none" / "key", None, "cannot be written"),
    ):
        with pytest.raises(dp.DataError, match=words):
            new_key(file, passphrase)
    for passphrase, words in ((None, "Expected the passphrase of"), ("wrong words", "with this passphrase")):
        with pytest.raises(dp.DataError, match=words):
            read_signing_key(tmp_path / "key", passphrase)
    (tmp_path / "text").write_text("no key")
    with pytest.raises(dp.DataError, match="Expected an OpenSSH private key"):
        read_signing_key(tmp_path / "text")
    with pytest.raises(dp.DataError, match="one printable line"):
        new_key(tmp_path / "comment", None, "two\nlines")


@pytest.mark.parametrize("name", ["a b", "", "x" * 41, "../x", "é"])
def test_names_of_signers_make_file_names(name):
    with pytest.raises(dp.DataError, match="as the signer's name"):
        signature_name("certificate.json", name)


def test_files_of_a_signed_folder_are_recognised():
    names = ("certificate.json.sig", "certificate.json.a-B_1.sig", "documents.sha256", "documents.sha256.sig")
    assert [is_signing(name) for name in names] == [True] * 4
    others = ("certificate.json", "report.html.sig", "images/certificate.json.sig", "certificate.json.a.b.sig", "x.sig")
    assert [is_signing(name) for name in others] == [False] * 5
