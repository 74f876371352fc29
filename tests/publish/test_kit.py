"""The hand-over kit: what the partner and the officer receive, and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from export_fakes import STATED, images, rows, save

from dpdistill import verify
from dpdistill.publish.export import Publisher, export
from dpdistill.schema import DataError


def kit_of(folder: Path, to: Path, publisher: Publisher | None = None) -> dict[str, bytes]:
    made = export(folder, "kit", to, publisher)
    assert {path.name for path in made.iterdir()} == {"partner.zip", "officer.html"}
    with zipfile.ZipFile(made / "partner.zip") as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("distilled", [images(), rows()], ids=["images", "table"])
def test_the_partner_gets_the_set_and_nothing_of_the_owner(distilled, tmp_path):
    folder = save(tmp_path / "shared", distilled)
    run = tmp_path / "shared.run"
    run.mkdir()
    (run / "ledger.sqlite").write_bytes(b"SQLite format 3\0 a secret of the owner")
    (folder / "notes.txt").write_text("a secret of the owner")
    (folder / "scores.json").write_text(json.dumps({"a secret of the owner": 97.25}))
    files = kit_of(folder, tmp_path / "kit")
    listed = json.loads((folder / "certificate.json").read_text())["files"]
    documents = {"README.md", "croissant.json", "report.html", "certificate.json"}
    assert files.keys() == {"START_HERE.txt", "verify_minimal.py"} | {f"set/{name}" for name in {*listed, *documents}}
    page = (tmp_path / "kit" / "officer.html").read_text().encode()
    for content in [*files.values(), page]:
        assert b"a secret of the owner" not in content
        assert b"97.25" not in content
        assert b"SQLite format 3\0" not in content
        assert str(tmp_path).encode() not in content
    for name in listed:
        assert files[f"set/{name}"] == (folder / name).read_bytes()


def test_the_partners_copy_is_verified_by_both_verifiers(tmp_path):
    kit_of(save(tmp_path / "shared", images()), tmp_path / "kit")
    shutil.unpack_archive(tmp_path / "kit" / "partner.zip", tmp_path / "there")
    outcomes = {check.name: check.passed for check in verify(tmp_path / "there" / "set").checks}
    assert {outcomes[name] for name in ("files", "contents", "recipe", "report", "croissant.json")} == {True}
    command = [sys.executable, "verify_minimal.py", "set"]
    done = subprocess.run(command, cwd=tmp_path / "there", capture_output=True, text=True)
    assert "passed check_files" in done.stdout
    assert "passed check_epsilon" in done.stdout


def test_the_officers_page_states_the_certificate(tmp_path):
    folder = save(tmp_path / "shared", images())
    kit_of(folder, tmp_path / "kit", STATED)
    page = (tmp_path / "kit" / "officer.html").read_text()
    for sentence in (
        "ε = 1.5, δ = 1e-6 (1 in 1,000,000)",
        "one unit added or removed",
        "guesses right with a probability of at most 81.8 %",
        "Noise was added to 4 sums",
        "General Hospital",
        "accurate enough for its use: Teaching.",
        "a*b &lt;i&gt;c&lt;/i&gt;|d",
    ):
        assert sentence in page, sentence
    for heading in ("What was done", "What is protected", "What is not protected", "Who signs"):
        assert f"<h2>{heading}</h2>" in page


def test_equal_folders_give_equal_kits(tmp_path):
    folder = save(tmp_path / "shared", images())
    for name in ("one", "two"):
        export(folder, "kit", tmp_path / name)
    assert (tmp_path / "one/partner.zip").read_bytes() == (tmp_path / "two/partner.zip").read_bytes()


def test_a_set_without_a_guarantee_is_not_handed_over(tmp_path):
    folder = save(tmp_path / "shared", images(), None)
    with pytest.raises(DataError, match="a set with a privacy guarantee for a hand-over kit; this set has none"):
        export(folder, "kit", tmp_path / "kit")
    assert not (tmp_path / "kit").exists()
