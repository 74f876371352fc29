"""What works without JAX, and what without SciPy too: their imports are blocked in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest
from run_command import succeeds

CERTIFICATES = Path(__file__).parents[1] / "certificate"
BLOCKED = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ImportError(f"{{name}} is blocked")

sys.meta_path.insert(0, Block())
from dpdistill.cli import main
for words, expected in {commands}:
    sys.argv = ["dpdistill", *words]
    try:
        main()
    except SystemExit as ended:
        assert ended.code == expected, (words, ended.code)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A shared folder and a data set's ledger."""
    folder = tmp_path_factory.mktemp("light")
    succeeds("budget", "new", folder / "all.ledger", "--cap", 2)
    small = ("--method", "ldpdc", "--per-class", 1, "--set", "sampling_prob=1", "--ledger", folder / "all.ledger")
    succeeds("distill", "digits:train", "--out", folder / "shared", *small)
    return folder


def run_blocked(names, commands, folder):
    code = BLOCKED.format(names=set(names), commands=commands)
    ended = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout


def test_what_a_receiver_does_needs_no_jax(folder):
    commands = [
        (["verify", "shared"], 0),
        (["report", "shared"], 0),
        (["export", "shared", "--to", "csv", "--out", "shared.csv"], 0),
        (["budget", "all.ledger"], 0),
        (["account", "--epsilon", "1"], 0),
        (["verify", "nowhere"], 1),
    ]
    said = run_blocked(["jax", "jaxlib", "optax"], commands, folder)
    assert "\nPASSED\n" in said
    assert "noise_multiplier = 3.73063" in said
    assert (folder / "shared.csv").exists()


def test_every_kind_of_folder_is_verified_without_jax(tmp_path):
    good, earlier = (sorted(CERTIFICATES.glob(each)) for each in ("vectors/good-*", "folders_v0_1/*"))
    assert len([*good, *earlier]) == 9
    assert any((each / "generator.npz").is_file() for each in [*good, *earlier])
    commands = [(["verify", str(each)], 0) for each in good]
    commands += [(["verify", str(each)], 4) for each in earlier]  # whose pages this version writes in other words
    commands += [(["verify", str(CERTIFICATES / "vectors" / "bad-file-hash")], 1)]
    said = run_blocked(["jax", "jaxlib", "optax"], commands, tmp_path)
    assert said.splitlines().count("PASSED") == len(good)
    assert said.count("GUARANTEE PASSED, DOCUMENTS NOT COMPARED") == len(earlier)


def test_what_is_refused_or_listed_needs_no_scipy_either(folder):
    commands = [
        (["--help"], 0),
        (["distill", "--help"], 0),
        (["methods", "dos-kip"], 0),
        (["methods", "--recipes"], 0),
        (["distill", "digits:train", "--out", "x", "--set", "nosuch=1"], 2),
        (["distill", "digits:train", "--out", "x", "--method", "kip"], 2),
        (["distill", "digits:train", "--out", "x", "--method", "dp-kip", "--set", "balance=1", "--set", "rounds=0"], 2),
        (["distill", "nowhere.npz", "--out", "x"], 2),
        (["evaluate", "shared", "--test", "digits:test", "--architecture", "nosuch"], 2),
        (["evaluate", "shared", "--test", "digits:test", "--teacher", "drawn"], 2),
        (["evaluate", "nowhere", "--test", "digits:test"], 2),
        (["student", "--help"], 0),
        (["student", "shared", "--test", "digits:test", "--teacher", "nowhere"], 2),
    ]
    said = run_blocked(["jax", "jaxlib", "optax", "scipy"], commands, folder)
    assert "dos-kip" in said
    assert not (folder / "x").exists()
