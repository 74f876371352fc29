"""What a run writes, and what every command prints and does."""

from __future__ import annotations

import getpass
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import jax
import numpy as np
import pytest
from run_command import dpdistill, files_of, refused, succeeds
from small_sets import SMALL_DOS, torn

from dpdistill import __version__
from dpdistill.accounting.gaussian import gaussian_epsilon
from dpdistill.folder.save import read_distilled
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger
from dpdistill.methods import METHODS
from dpdistill.recipe.build import fields_of
from dpdistill.sources.load import load

# What is written


def test_the_public_folder_holds_exactly_the_promised_files(shared):
    pictures = [f"images/{k}/{i:03d}.png" for k in range(10) for i in range(10)]
    named = ["certificate.json", "recipe.json", "report.html", "synthetic.npz", "synthetic.png"]
    named += ["README.md", "croissant.json", "deployment.yaml"]
    assert files_of(shared) == sorted([*named, *pictures])
    with np.load(shared / "synthetic.npz") as file:
        assert sorted(file) == ["X", "bounds", "classes", "y"]
        assert file["X"].shape == (100, 8, 8, 1)
        assert file["X"].std() > 1.0
        assert file["y"].tolist() == [k for k in range(10) for _ in range(10)]
        assert file["bounds"].tolist() == [0.0, 16.0]


def test_the_public_folder_tells_nothing_of_the_owner(shared, digits):
    n = len(load(digits))
    assert n == 1438
    secrets = [str(digits), digits.name, str(digits.parent), digits.parent.name, os.getcwd(), str(Path.home())]
    secrets += [name for name in [getpass.getuser(), socket.gethostname()] if len(name) > 4]
    for path in [shared / name for name in files_of(shared)]:
        content = path.read_bytes()
        for secret in secrets:
            assert secret.encode() not in content, (path.name, secret)
        assert b"tIME" not in content
        if path.suffix in (".json", ".html", ".md", ".yaml"):
            text = re.sub(r"base64,[A-Za-z0-9+/=]+", "", content.decode())
            assert not re.search(rf"(?<![\w.]){n}(?![\w.])|{n // 1000},{n % 1000}", text), path.name
            assert not re.search(r"\d\d?:\d\d(:\d\d)?\b(?![\w;-])", re.sub(r"<style>.*?</style>", "", text, flags=re.S))
    certificate = json.loads((shared / "certificate.json").read_text())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", certificate["date"])
    with zipfile.ZipFile(shared / "synthetic.npz") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_the_search_for_the_owner_would_find_him(shared, digits, tmp_path):
    """A control: a page with the record count fails the test above."""
    text = json.dumps({"records": 1438})
    assert re.search(r"(?<![\w.])1438(?![\w.])", text)


def test_the_certificate_says_what_was_asked(shared):
    certificate = json.loads((shared / "certificate.json").read_text())
    recipe = json.loads((shared / "recipe.json").read_text())
    assert certificate["claim"] == {"epsilon": 0.1, "delta": 1e-6}
    assert certificate["relation"] == "add-remove"
    assert certificate["noise"] == "operating-system entropy"
    assert certificate["recipe"] == recipe
    assert (recipe["origin"], recipe["seed"]) == ("package default", 7)
    assert recipe["method"] == "ldpdc"
    assert recipe["fields"] == {"per_class": 10, "sampling_prob": 0.1, "count_coordinate": 0.1, "count_floor": 1.0}


def test_the_owners_folder_is_the_owners(shared):
    place = shared.with_name("shared.run")
    assert place.stat().st_mode & 0o777 == 0o700
    assert len(RunLedger.read(place).events) == 10


# Commands


def test_version_and_help():
    first, others = succeeds("--version").splitlines()
    assert first == f"dpdistill {__version__}"
    assert others.startswith(f"python {platform.python_version()}, jax {jax.__version__}, numpy {np.__version__}, ")
    commands = (
        "distill plan evaluate student report verify methods account budget schema sample export benchmark results "
        "demo audit attack"
    )
    for name in (*commands.split(), "demo", "audit"):
        assert name in succeeds("--help")
        assert name in succeeds()
        assert "--help" in succeeds(name, "--help")


def test_a_group_alone_shows_its_commands(capfd):
    code, out, err = dpdistill("audit")
    assert (code, err) == (2, "")
    assert "Compare a set with its private records" in out


def test_the_package_runs_as_a_module():
    ran = subprocess.run([sys.executable, "-m", "dpdistill", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith(f"dpdistill {__version__}\n")


def test_defaults_are_in_the_help():
    text = re.sub(r"[\s│]+", " ", succeeds("distill", "--help"))
    for default in ("10 if left out", "1 if left out", "1e-5 if left out", "dos-kip if left out", "default: strict"):
        assert default in text


@pytest.mark.parametrize("arguments", ["--version", "--help", "distill --help", "attack training --help"])
def test_help_waits_for_nothing_that_takes_seconds(arguments):
    script = (
        "import sys; from dpdistill.cli import main; sys.argv[1:] = sys.argv[1].split()\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'jax', 'scipy', 'sklearn', 'pandas', 'dp_accounting'} & {*sys.modules}\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", script, arguments], check=True, capture_output=True, timeout=60)


def test_the_package_offers_its_names_when_they_are_asked_for():
    import dpdistill
    from dpdistill.methods import METHODS

    assert {method.__name__ for method in METHODS.values()} <= {*dpdistill.__all__} <= {*dir(dpdistill)}
    assert dpdistill.DOS is METHODS["dos"]
    assert all(getattr(dpdistill, name).__name__ == name for name in dpdistill.__all__)
    parts = "import dpdistill; dpdistill.sources.load; dpdistill.run.distill; dpdistill.schema.Schema"
    subprocess.run([sys.executable, "-c", parts], check=True, capture_output=True, timeout=60)
    with pytest.raises(AttributeError, match="module 'dpdistill' has no attribute 'nosuch'"):
        _ = dpdistill.nosuch


def test_report_is_written_anew(shared):
    page = (shared / "report.html").read_text()
    (shared / "report.html").unlink()
    assert succeeds("report", shared) == f"{shared / 'report.html'}\n"
    assert (shared / "report.html").read_text() == page


def test_verify_passes_and_fails(dos, tmp_path):
    out = succeeds("verify", dos)
    assert "FAIL" not in out
    listed = ("certificate", "files", "recipe", "origin", "schema", "report", "handover", "noise", "slack")
    for name in (*listed, "events", "plan", "ledger", "epsilon", "epsilons", "groups"):
        assert re.search(rf"^ok   {name}: ", out, re.M), out
    picture = dos / "images" / "3" / "001.png"
    content = picture.read_bytes()
    picture.write_bytes(content + b"\0")
    code, out, _ = dpdistill("verify", dos)
    picture.write_bytes(content)
    assert code == 1
    assert "FAIL files: The files are not those of the certificate: images/3/001.png was changed." in out
    assert dpdistill("verify", tmp_path / "missing")[0] == 1
    assert "FAIL ledger" in dpdistill("verify", dos, "--run", tmp_path / "missing")[1]


def test_methods_lists_every_field():
    out = succeeds("methods")
    for name in METHODS:
        assert f"\n{name}: " in f"\n{out}"
        for field in fields_of(name):
            assert re.search(rf"^{field} ", out, re.M)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--epsilon", "1"], "noise_multiplier = 3.7306"),
        (["--epsilon", "10"], "noise_multiplier = 0.499889"),
        (["--noise-multiplier", "3.7306"], "epsilon = 1.0000 at delta = 1e-05"),
        (["--noise-multiplier", "0.005"], "epsilon = 20851.9887 at delta = 1e-05"),
        (["--noise-multiplier", "3.7306", "--adjacency", "replace-one"], "epsilon = 2.1547 at delta = 1e-05"),
        (["--epsilon", "1", "--rounds", "100"], "noise_multiplier = 37.306"),
        (["--noise-multiplier", "37.3063", "--rounds", "100"], "epsilon = 1.0000 at delta = 1e-05"),
    ],
)
def test_account(argv, expected):
    assert expected in succeeds("account", *argv)


def test_a_large_delta_is_said_before_it_is_spent(tmp_path):
    sentence = "the guarantee of a record may fail altogether; of 1,000 records that may be about one."
    assert sentence in dpdistill("account", "--epsilon", "1", "--delta", "0.001")[2]
    assert sentence in dpdistill("distill", torn(tmp_path / "t.npz"), "--out", tmp_path / "x", "--delta", "0.001")[2]
    assert "records" not in dpdistill("account", "--epsilon", "1", "--delta", "0.0001")[2]


def test_account_of_sampled_rounds():
    """Against the accountant of the tests' own: 1000 rounds at q = 0.01."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.pld import PLDAccountant

    out = succeeds("account", "--epsilon", 1, "--rounds", 1000, "--sampling-prob", 0.01)
    sigma = float(re.search(r"noise_multiplier = (\S+) for 1000 releases", out).group(1))
    accountant = PLDAccountant().compose(PoissonSampledDpEvent(0.01, GaussianDpEvent(sigma)), 1000)
    assert accountant.get_epsilon(1e-5) == pytest.approx(1.0, rel=2e-3)


def test_budget_adds_runs_up_and_the_cap_refuses_before_records_are_opened(tmp_path, digits):
    ledger = tmp_path / "all.ledger"
    command = ("distill", digits, "--method", "ldpdc", "--set", "sampling_prob=1", "--epsilon", 0.5)
    capped = ("--ledger", ledger)
    assert "all.ledger is a new ledger" in succeeds("budget", "new", ledger, "--cap", 0.8)
    assert "Expected no file at" in refused("budget", "new", ledger, "--cap", 5)
    for name in ("one", "two [red]"):
        succeeds(*command, "--out", tmp_path / name, *capped)
    out = succeeds("budget", ledger)
    sigma = 1.0 / np.sqrt(2.0 / 7.0318**2)
    together = gaussian_epsilon(sigma, 1e-5)
    assert re.search(r"^one +\d{4}-\d\d-\d\d +\S+ +0.5 +1e-05$", out, re.M)
    assert "two [red]" in out
    assert f"Spent together: epsilon = {together:.3f}" in out
    assert "Cap: epsilon = 0.8; one more full-batch run of epsilon = 0.28" in out
    nowhere = ("distill", torn(tmp_path / "torn.npz"), *command[2:])
    before = sorted(tmp_path.iterdir()), ledger.read_bytes()
    assert "over the cap of 0.8" in refused(*nowhere, "--out", tmp_path / "three", "--ledger", ledger)
    assert "over the cap of 0.8" in refused(*nowhere, "--out", tmp_path / "one", "--overwrite", *capped)
    for cap in (0.8, 0.9):
        assert "use `dpdistill budget new FILE --cap EPSILON` instead of --cap" in refused(
            *nowhere, "--out", tmp_path / "three", "--ledger", ledger, "--cap", cap
        )
    inside = ("--out", tmp_path / "three", "--ledger", tmp_path / "three" / "all.ledger")
    assert "Expected --ledger outside of --out" in refused(*nowhere, *inside)
    unprotected = ("distill", nowhere[1], "--method", "dm", "--non-private")
    assert "without a privacy guarantee" in refused(*unprotected, "--out", tmp_path / "three", "--ledger", ledger)
    assert "torn.npz" in refused(*nowhere[:2], "--epsilon", 0.1, "--out", tmp_path / "three", "--ledger", ledger)
    assert (sorted(tmp_path.iterdir()), ledger.read_bytes()) == before
    # A script that runs every night must not begin another account where the file has gone, or was cut off.
    content = ledger.read_bytes()
    for left in (None, b"", content[:5000]):
        ledger.unlink(missing_ok=True)
        if left is not None:
            ledger.write_bytes(left)
        said = refused(*command, "--epsilon", 0.3, "--out", tmp_path / "three", "--ledger", ledger)
        assert ("There is no ledger at" if left is None else "damaged") in said or "malformed" in said
        assert ledger.exists() is (left is not None)


@pytest.mark.parametrize("cap", [30_000, 10**9])
def test_a_ledger_whose_cap_is_larger_than_what_is_calibrated_says_what_is_left(cap, tmp_path, digits):
    ledger = tmp_path / "all.ledger"
    how = ("--method", "ldpdc", "--set", "sampling_prob=1", "--ledger", ledger)
    succeeds("budget", "new", ledger, "--cap", cap)
    succeeds("distill", digits, *how, "--out", tmp_path / "one")
    left = re.search(r"; one more full-batch run of epsilon = (\S+) still fits", succeeds("budget", ledger))
    assert left is not None
    assert 9_999 <= float(left[1]) <= 10_000


def test_a_run_at_a_smaller_delta_may_state_more_than_the_cap(tmp_path, digits):
    """The ledger composes at the delta of its first run, where the second costs less than it states."""
    ledger = tmp_path / "all.ledger"
    how = ("distill", digits, "--method", "ldpdc", "--set", "sampling_prob=1", "--ledger", ledger)
    succeeds("budget", "new", ledger, "--cap", 1.5)
    succeeds(*how, "--epsilon", 0.1, "--delta", 1e-4, "--out", tmp_path / "one")
    succeeds(*how, "--epsilon", 1.8, "--delta", 1e-8, "--out", tmp_path / "two")
    assert DatasetLedger(ledger).summary().spent < 1.5


def test_a_copy_of_the_owners_folder_is_refused_before_records_are_opened(tmp_path, digits, monkeypatch):
    small = ("--set", "rounds=3", "--set", "width=4", "--set", "sampling_prob=1")
    command = ("--method", "ndpdc", *small, "--ledger", tmp_path / "all.ledger")
    succeeds("budget", "new", tmp_path / "all.ledger", "--cap", 2)
    commit = RunLedger.commit

    def stop_at_two(self, round, *row):
        if round == 2:
            raise KeyboardInterrupt
        return commit(self, round, *row)

    with monkeypatch.context() as patch:
        patch.setattr(RunLedger, "commit", stop_at_two)
        assert dpdistill("distill", digits, *command, "--out", tmp_path / "x")[0] == 130
    shutil.copytree(tmp_path / "x.run", tmp_path / "y.run")
    succeeds("distill", digits, *command, "--out", tmp_path / "x")
    refusal = refused("distill", torn(tmp_path / "torn.npz"), *command, "--out", tmp_path / "y")
    assert "this run was resumed elsewhere" in refusal
    assert "move this DIR.run away" in refusal
    assert len(RunLedger.read(tmp_path / "y.run").events) == 2
    assert "all.ledger is the ledger of other records" in refused(
        "distill", digits, "--resize", 4, *command, "--out", tmp_path / "z"
    )
    shutil.move(tmp_path / "y.run", tmp_path / "away")
    succeeds("distill", digits, *command, "--out", tmp_path / "y")
    assert len(DatasetLedger(tmp_path / "all.ledger").summary().runs) == 2


def test_overwriting_a_finished_run_pays_anew_and_an_ended_one_is_not_touched_without_it(tmp_path, digits):
    ledger, folder = tmp_path / "all.ledger", tmp_path / "x"
    command = ("distill", digits, "--method", "ldpdc", "--set", "sampling_prob=1", "--out", folder, "--ledger", ledger)
    assert "There is no ledger at" in refused(*command)
    assert not ledger.exists()
    succeeds("budget", "new", ledger, "--cap", 3)
    succeeds(*command)
    content = {name: (folder / name).read_bytes() for name in files_of(folder)}
    assert "--overwrite" in refused(*command)
    assert content == {name: (folder / name).read_bytes() for name in files_of(folder)}
    succeeds(*command, "--overwrite", "--per-class", 3)
    assert len(DatasetLedger(ledger).summary().runs) == 2
    assert len(files_of(folder)) == 8 + 30
    assert (folder.with_name("x.run") / "ledger-001.sqlite").exists()
    succeeds("verify", folder)


def test_from_uses_releases_again_at_no_cost(dos, tmp_path):
    place = dos.with_name("dos.run")
    before = {name: (place / name).read_bytes() for name in files_of(place)}
    again = tmp_path / "again"
    out = succeeds("distill", "--from", place, "--out", again, "--per-class", 5)
    assert "epsilon = 0.5 at delta = 1e-05" in out
    assert "had been paid for" in out
    assert {name: (place / name).read_bytes() for name in files_of(place)} == before
    assert not again.with_name("again.run").exists()
    assert np.bincount(read_distilled(again).y).tolist() == [5] * 10
    first, second = (json.loads((folder / "certificate.json").read_text()) for folder in (dos, again))
    assert first["schedule"] == second["schedule"]
    assert second["recipe"]["fields"]["networks"] == 3
    succeeds("verify", again, "--run", place)
    assert "networks" in refused("distill", "--from", place, "--out", tmp_path / "b", "--set", "networks=4")
    assert refused("distill", "--from", again, "--out", tmp_path / "b") == (
        f"Expected --from with the owner's folder {again}.run; got {again}, which may be shared."
    )
    assert "method" in refused("distill", "--from", place, "--out", tmp_path / "b", "--method", "ldpdc")
    assert "another budget" in refused("distill", "--from", place, "--out", tmp_path / "b", "--epsilon", "2")
    assert not (tmp_path / "b").exists()


def test_from_the_same_recipe_gives_the_same_set(dos, tmp_path):
    succeeds("distill", "--from", dos.with_name("dos.run"), "--out", tmp_path / "again")
    assert (tmp_path / "again" / "synthetic.npz").read_bytes() == (dos / "synthetic.npz").read_bytes()


@pytest.mark.parametrize(
    "method", [["dm", "--set", "rounds=2", "--set", "width=4"], ["dos", *SMALL_DOS]], ids=["dm", "dos"]
)
def test_without_a_guarantee_everything_says_infinite(method, tmp_path):
    folder = tmp_path / "open"
    command = ("distill", "digits:train", "--out", folder, "--per-class", 1, "--non-private")
    out = succeeds(*command, "--method", *method)
    assert out == f"{folder}: no privacy guarantee, epsilon is infinite.\n"
    assert not folder.with_name("open.run").exists()
    certificate = json.loads((folder / "certificate.json").read_text())
    assert certificate["claim"] == {"epsilon": "infinite: no privacy guarantee", "delta": None}
    assert certificate["noise"] == "none"
    page = (folder / "report.html").read_text()
    assert "No privacy guarantee" in page
    assert "infinite: no guarantee" in page
    assert "epsilon is infinite: this run gives no privacy guarantee." in succeeds("verify", folder)
