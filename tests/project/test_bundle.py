"""The bundle that installs without a network: hashes of all wheels, and pip refuses a wheel with another one."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
METADATA = "Metadata-Version: 2.1\nName: tiny\nVersion: 1.5\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture(scope="module")
def bundle() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("bundle", str(ROOT / ".ci" / "bundle"))
    spec = importlib.util.spec_from_loader("bundle", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path, bundle) -> Path:
    """A bundle of one wheel of a few bytes."""
    (tmp_path / "wheels").mkdir()
    wheel = tmp_path / "wheels" / "tiny-1.5-py3-none-any.whl"
    about = {"tiny.py": "seven = 7\n", "tiny-1.5.dist-info/METADATA": METADATA, "tiny-1.5.dist-info/WHEEL": WHEEL}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in about.items():
            archive.writestr(name, text)
        archive.writestr("tiny-1.5.dist-info/RECORD", "".join(f"{name},,\n" for name in about))
    (tmp_path / "requirements.txt").write_text(bundle.requirement(wheel) + "\n")
    return tmp_path


def install(folder: Path) -> subprocess.CompletedProcess[str]:
    offline = ("--no-index", "--find-links", "wheels", "--only-binary", ":all:", "--require-hashes")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--target",
        "here",
        *offline,
        "-r",
        "requirements.txt",
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_a_requirement_has_the_hash_of_its_wheel(folder, bundle):
    (wheel,) = (folder / "wheels").iterdir()
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert bundle.requirement(wheel) == f"tiny==1.5 --hash=sha256:{digest}"
    assert bundle.sums(folder).splitlines()[1] == f"{digest}  wheels/tiny-1.5-py3-none-any.whl"
    built = wheel.with_name("dm_tree-0.1.10-1-cp311-cp311-manylinux_2_17_x86_64.whl")
    wheel.rename(built)
    assert bundle.requirement(built).startswith("dm_tree==0.1.10 --hash=sha256:")
    with pytest.raises(SystemExit, match="is not the name of a wheel"):
        bundle.requirement(folder / "requirements.txt")


def test_pip_installs_the_wheel_and_refuses_another(folder):
    done = install(folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "here" / "tiny.py").read_text() == "seven = 7\n"
    (wheel,) = (folder / "wheels").iterdir()
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("evil.py", "")
    done = install(folder)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_the_command_checks_hashes_and_takes_nothing_from_a_network(bundle, tmp_path):
    script = bundle.INSTALL.format(python="python3.11")
    for words in ("--no-index", "--require-hashes", "sha256sum --quiet --check SHA256SUMS", "set -eu"):
        assert words in script
    (tmp_path / "install.sh").write_text(script)
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  install.sh\n")
    done = subprocess.run(["sh", tmp_path / "install.sh", "venv"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "install.sh: FAILED" in done.stdout
    assert not (tmp_path / "venv").exists()
    done = subprocess.run(["sh", tmp_path / "install.sh"], capture_output=True, text=True, cwd=tmp_path)
    assert "sh install.sh VENV" in done.stderr
    known = (ROOT / "pyproject.toml").read_text()
    assert all(f"\n{extra} = [" in known for extra in bundle.EXTRAS.split(","))
