"""Compiled programs are kept for the next command, in a folder of their own, without a value of a record."""

import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from chosen_tests import few

from dpdistill.cli.compile_cache import FOLDER, MOST_BYTES, keep_compiled_programs
from dpdistill.methods import METHODS
from dpdistill.schema import Schema

TESTS = Path(__file__).parents[1]
SETTINGS = {FOLDER, "JAX_COMPILATION_CACHE_MAX_SIZE", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"}
DISTIL = """
from contract import make_records, table_records, tiny
from dpdistill import run
from dpdistill.accounting.schedule import Budget
method = tiny({name!r})
records = table_records(60) if {name!r} == "dp-hp" else make_records(60)
np.savez({out!r}, X=records.X)
run.distill(records, method, Budget(2.0))
"""
CLOSE_OVER = """
X = np.random.default_rng(0).random((60, 5, 5, 1), np.float32)
np.savez({out!r}, X=X)
print(jax.jit(lambda i: jax.numpy.asarray(X)[i].sum())(3))
"""


@pytest.fixture
def unset(monkeypatch, tmp_path):
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return monkeypatch


def test_jax_is_told_of_a_folder_for_this_processor(unset, tmp_path):
    keep_compiled_programs()
    folder = Path(os.environ[FOLDER])
    assert folder.parent == tmp_path / "dpdistill" / "programs"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"] == str(MOST_BYTES)


def test_a_stated_folder_is_kept(unset, tmp_path):
    unset.setenv(FOLDER, "mine")
    keep_compiled_programs()
    assert {name: os.environ.get(name) for name in SETTINGS} == {**dict.fromkeys(SETTINGS), FOLDER: "mine"}
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_done_without(unset, tmp_path):
    (tmp_path / "dpdistill").write_text("")
    keep_compiled_programs()
    assert not SETTINGS & {*os.environ}


def test_runs_whose_logs_are_compared_keep_nothing(unset):
    unset.setattr(sys, "argv", ["dpdistill", "--quiet", "audit", "method", "digits:train"])
    keep_compiled_programs()
    assert not SETTINGS & {*os.environ}


def kept_programs(code, tmp_path):
    """Runs code in a process of its own; the records that it saved, and the bytes of all programs that it left."""
    begin = "import sys; sys.path.insert(0, {!r})\nfrom dpdistill.cli.compile_cache import keep_compiled_programs\n"
    begin += "keep_compiled_programs()\nimport jax\nimport numpy as np\n"
    environment = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    out = str(tmp_path / "records.npz")
    whole = begin.format(str(TESTS)) + code.replace("{out!r}", repr(out))
    ended = subprocess.run([sys.executable, "-c", whole], env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr[-3000:]
    files = list((tmp_path / "dpdistill" / "programs").rglob("*-cache"))
    return np.load(out)["X"], [unpacked(path.read_bytes()) for path in files]


def unpacked(data):
    if data[:4] == b"\x28\xb5\x2f\xfd":
        return pytest.importorskip("zstandard").ZstdDecompressor().decompress(data)
    return zlib.decompress(data)


def records_in(programs, X):
    """Records whose first four numbers stand in a program; four equal numbers would tell nothing."""
    told = [x for x in X.reshape(len(X), -1) if len(np.unique(x[:4])) == 4]
    assert len(told) > 10
    return [x for x in told for program in programs if np.float32(x[:4]).tobytes() in program]


def test_a_program_that_holds_records_would_be_found(tmp_path):
    X, programs = kept_programs(CLOSE_OVER, tmp_path)
    assert len(records_in(programs, X)) >= len(X) / 2


IMAGES = [name for name, kind in METHODS.items() if kind.private and Schema in kind.schemas]


@pytest.mark.parametrize("name", few(IMAGES, "dos-kip"))
def test_kept_programs_hold_no_value_of_a_record(name, tmp_path):
    X, programs = kept_programs(DISTIL.replace("{name!r}", repr(name)), tmp_path)
    assert len(programs) >= 3
    assert records_in(programs, X) == []
