"""`dpdistill doctor` on a good machine and on bad ones: each lacks one thing that a run needs."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import dpdistill as dp
from dpdistill.errors import EXTRAS
from dpdistill.machine import disk, system


def found(folder: Path) -> dict[str, tuple[bool | None, str]]:
    return {each.name: (each.passed, each.detail) for each in dp.doctor(folder).findings}


def test_a_good_machine(tmp_path):
    (tmp_path / "set.run").mkdir(mode=0o700)
    before = sorted(tmp_path.rglob("*"))
    diagnosis = dp.doctor(tmp_path)
    assert diagnosis.passed
    assert diagnosis.refused == ()
    said = {each.name: each.detail for each in diagnosis.findings}
    assert f"dpdistill {dp.__version__}" in said["python"]
    assert said["devices"].endswith("computes on cpu: 1 of cpu.")
    assert said["permissions"] == f"All 1 owner's folders in {tmp_path} are closed to other users."
    assert {each.name for each in diagnosis.findings if each.passed} >= {
        *("python", "packages", "entropy", "clock", "devices", "modes", "locks", "ledger of a run"),
        *("ledger of a data set", "whole files", "permissions"),
    }
    assert sorted(tmp_path.rglob("*")) == before


def refuses(*_: object) -> None:
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


class TestFolders:
    def test_no_locks(self, tmp_path, monkeypatch):
        monkeypatch.setattr(disk.fcntl, "flock", refuses)
        assert found(tmp_path)["locks"] == (
            False,
            "This folder cannot hold what a run writes (Operation not supported).",
        )
        assert dp.doctor(tmp_path).refused == ("distill",)

    def test_locks_that_lock_nothing(self, tmp_path, monkeypatch):
        monkeypatch.setattr(disk.fcntl, "flock", lambda *_: None)
        assert found(tmp_path)["locks"] == (False, "Two processes get the same lock, so a run could be paid twice.")

    def test_no_write_ahead(self, tmp_path, monkeypatch):
        connect = disk.connect
        monkeypatch.setattr(
            disk, "connect", lambda path, journal, *other, **how: connect(path, "DELETE", *other, **how)
        )
        assert found(tmp_path)["ledger of a run"] == (
            False,
            "SQLite cannot write ahead (WAL): its journal is 'delete'.",
        )

    def test_sqlite_without_locks(self, tmp_path, monkeypatch):
        connect = disk.connect

        def lockless(path, *how, create=True):
            connect(path, *how, create=create).close()
            return sqlite3.connect(f"file:{path}?vfs=unix-none", uri=True, isolation_level=None)

        monkeypatch.setattr(disk, "connect", lockless)
        passed, words = found(tmp_path)["ledger of a data set"]
        assert passed is False
        assert words == "Two connections write to one SQLite file at once, so a budget could be spent twice."

    def test_modes_that_are_not_kept(self, tmp_path, monkeypatch):
        monkeypatch.setattr(Path, "chmod", lambda *_: None)
        assert found(tmp_path)["modes"] == (False, "Permissions are not kept, so other users could read a run.")

    def test_no_links(self, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "link", refuses)
        assert found(tmp_path)["whole files"][0] is False
        assert dp.doctor(tmp_path).refused == ("budget new", "distill")

    def test_links_that_replace(self, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "link", lambda old, new: shutil.copy(old, new))
        assert found(tmp_path)["whole files"][1] == "A link replaces a file, so two ledgers could begin at once."

    @pytest.mark.parametrize(("free", "passed"), [(1 << 40, True), (500 << 20, None), (10 << 20, False)])
    def test_space(self, tmp_path, monkeypatch, free, passed):
        monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
        assert found(tmp_path)["space"][0] is passed

    def test_a_folder_that_cannot_be_written_to(self, tmp_path, monkeypatch):
        monkeypatch.setattr(disk.tempfile, "mkdtemp", lambda **_: refuses())
        passed, words = found(tmp_path)["folder"]
        assert (passed, words) == (False, f"{tmp_path} cannot be written to: Operation not supported.")
        assert "There is no folder" in found(tmp_path / "none")["folder"][1]

    def test_a_run_that_others_can_read(self, tmp_path):
        (tmp_path / "set.run").mkdir()
        (tmp_path / "set.run").chmod(0o755)
        (tmp_path / "set").mkdir(mode=0o755)
        passed, words = found(tmp_path)["permissions"]
        assert passed is False
        assert words.startswith("Open to other users: set.run; ")
        assert dp.doctor(tmp_path).refused == ("the guarantee",)

    def test_a_file_system_of_another_machine(self, tmp_path, monkeypatch):
        mounts = f"/dev/sda / ext4 rw 0 0\nserver:/home {tmp_path} nfs4 rw 0 0\n"
        monkeypatch.setattr(Path, "is_file", lambda self: True)
        read = Path.read_text
        monkeypatch.setattr(Path, "read_text", lambda self, *how: mounts if self.name == "mounts" else read(self, *how))
        (remark,) = disk._file_system(tmp_path)
        assert remark.passed is None
        assert "lies on nfs4, a file system of another machine" in remark.detail
        assert [*disk._file_system(tmp_path.parent)] == []


class TestSystem:
    def test_entropy_that_is_not_ready(self, monkeypatch):
        def waits(*_: object) -> bytes:
            raise BlockingIOError

        monkeypatch.setattr(os, "getrandom", waits, raising=False)
        finding = system.check_entropy()
        assert finding.passed is False
        assert "has no random bytes yet" in finding.detail
        assert finding.refused == ("distill", "key new")

    @pytest.mark.parametrize("bytes_of", [lambda n: b"\0" * n, lambda n: bytes(range(n))])
    def test_entropy_that_repeats(self, monkeypatch, bytes_of):
        monkeypatch.setattr(os, "urandom", bytes_of)
        assert "repeat" in system.check_entropy().detail

    @pytest.mark.parametrize("now", [0.0, 5e9, 1e20])
    def test_a_wrong_clock(self, monkeypatch, now):
        monkeypatch.setattr(system.time, "time", lambda: now)
        finding = system.check_clock()
        assert finding.passed is False
        assert "set the clock" in finding.detail

    def test_other_versions(self, monkeypatch):
        monkeypatch.setattr(system, "requires", lambda _: ["numpy>=99", "none-such>=1", "onnx>=99; extra == 'onnx'"])
        *_, finding = system.check_versions()
        assert finding.passed is False
        assert "numpy is " in finding.detail
        assert "none-such is not installed" in finding.detail
        assert "onnx" not in finding.detail
        monkeypatch.setattr(system.sys, "version_info", (3, 10, 0))
        assert next(system.check_versions()).passed is False

    def test_no_extras(self, monkeypatch):
        monkeypatch.setattr(system, "packages_distributions", lambda: dict.fromkeys({*EXTRAS} - {"onnx"}))
        assert system.check_extras(EXTRAS).detail.endswith("commands that need one say so: onnx (onnx).")
        assert system.check_extras(EXTRAS).passed is None

    def test_jax_is_missing(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "jax", None)
        assert "JAX is not installed" in system.check_devices().detail


def test_the_command_on_a_machine_without_a_device(tmp_path):
    command = [sys.executable, "-m", "dpdistill", "doctor", tmp_path, "--json"]
    done = subprocess.run(
        command, env=os.environ | {"JAX_PLATFORMS": "cuda"}, capture_output=True, text=True, timeout=60
    )
    said = json.loads(done.stdout)
    assert done.returncode == said["exit_code"] == 1
    assert said["passed"] is False
    assert said["refused"] == ["distill", "evaluate", "sample", "student"]
    (devices,) = [each for each in said["findings"] if each["name"] == "devices"]
    assert "set JAX_PLATFORMS=cpu" in devices["detail"]
    assert said["text"][-1] == "REFUSED OR UNSAFE HERE: distill, evaluate, sample, student"
