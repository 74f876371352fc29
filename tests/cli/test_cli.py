"""Every command: what it prints and writes; and what cannot be used ends in one sentence, with nothing written."""

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
from dataclasses import fields
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from run_command import dpdistill, files_of, refused, succeeds
from small_sets import CLASSIFIER, ENCODER, SMALL_DOS, TARGETS, Kernelled

from dpdistill import __version__, run
from dpdistill import evaluation as evaluate
from dpdistill.accounting.gaussian import gaussian_epsilon
from dpdistill.evaluation.student import margin_weights
from dpdistill.features.gamma_correction import GammaCorrected
from dpdistill.folder.save import read_distilled, read_generator
from dpdistill.kernels import KERNELS
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger
from dpdistill.methods import METHODS
from dpdistill.methods.generator import Generator
from dpdistill.networks.mixing import mix_pictures
from dpdistill.public_images.image_source import PublicImages
from dpdistill.public_images.pictures import draw_pictures
from dpdistill.publish.export import Publisher
from dpdistill.recipe.build import fields_of, from_fields
from dpdistill.run import driver
from dpdistill.sources.load import load


@pytest.mark.slow
def test_pictures_of_two_kinds_are_equal_parts_of_both(whole, tmp_path):
    out = succeeds("sample", whole, "--n", 31, "--out", tmp_path / "v.npz", "--seed", 5, "--kind", "mixed+generated")
    assert "31 mixed+generated images with the released classifier's scores" in out
    back = read_distilled(whole)
    mixed = mix_pictures(draw_pictures(15, (8, 8, 1), 5), back.train_set[0], 5)
    made, _ = Generator.from_arrays(read_generator(whole), back.schema).sample(16, 5)
    with np.load(tmp_path / "v.npz", allow_pickle=False) as file:
        found, about = file["X"] / 8 - 1, json.loads(str(file["about"]))
    expected = np.concatenate([mixed, made])
    order = [np.abs(expected - picture).sum((1, 2, 3)).argmin() for picture in found]
    assert sorted(order) == list(range(31))
    assert order != list(range(31))
    np.testing.assert_allclose(found, expected[order], atol=1e-5)
    files = json.loads((whole / "certificate.json").read_text())["files"]
    assert about["images_sha256"] == files["synthetic.npz"]
    assert about["generator_sha256"] == files["generator.npz"]
    succeeds("sample", whole, "--n", 1, "--out", tmp_path / "one.npz", "--seed", 5, "--kind", "drawn+generated")
    with np.load(tmp_path / "one.npz", allow_pickle=False) as file:
        made, _ = Generator.from_arrays(read_generator(whole), back.schema).sample(1, 5)
        np.testing.assert_allclose(file["X"] / 8 - 1, made, atol=1e-5)
    bare = shutil.copytree(whole, tmp_path / "bare")
    (bare / "generator.npz").unlink()
    assert "bare has no generator" in refused(
        "sample", bare, "--n", 3, "--out", tmp_path / "w.npz", "--kind", "mixed+generated"
    )


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


def torn(path):
    """Records that are there and cannot be opened."""
    np.savez(path, X=np.zeros((3, 4, 4), np.uint8), y=[0, 1, 2])
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes(200) + content[300:])
    return path


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
    assert re.search(r"^one +\d{4}-\d\d-\d\d +0.5 +1e-05$", out, re.M)
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


# Methods with a kernel


class TestGeneratedImages:
    """A generator of images: more of them, and scores of many."""

    @pytest.mark.slow
    def test_more_images_are_the_generators(self, made, tmp_path):
        out = succeeds("sample", made, "--n", 30, "--out", tmp_path / "a.npz", "--seed", 5)
        assert "30 generated images with their classes, at no further epsilon" in out
        back = read_distilled(made)
        X, y = Generator.from_arrays(read_generator(made), back.schema).sample(30, 5)
        with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
            np.testing.assert_allclose(file["X"], (X + 1) * 8, atol=1e-5)
            np.testing.assert_array_equal(file["y"], y)
            assert "targets" not in file
            about = json.loads(str(file["about"]))
        files = json.loads((made / "certificate.json").read_text())["files"]
        assert about["generator_sha256"] == files["generator.npz"]
        succeeds("sample", made, "--n", 3, "--out", tmp_path / "last.npz", "--seed", 2**32 - 1)
        succeeds("sample", made, "--n", 30, "--out", tmp_path / "folder", "--seed", 5, "--kind", "generated")
        rows = (tmp_path / "folder" / "labels.csv").read_text().splitlines()
        assert rows[0] == "file,class"
        assert [int(row.split(",")[1]) for row in rows[1:]] == y.tolist()
        assert "no released classifier" in refused("sample", made, "--n", 3, "--out", tmp_path / "b", "--kind", "drawn")
        bench = ("sample", made, "--n", 30, "--out", tmp_path / "bench", "--seed", 5, "--format", "dpimagebench")
        assert "trains on the first 55,000 images and validates on the rest" in dpdistill(*bench)[2]
        with np.load(tmp_path / "bench" / "gen" / "gen.npz", allow_pickle=False) as file:
            assert (file["x"].dtype, file["x"].shape) == (np.float32, (30, 1, 8, 8))
            np.testing.assert_allclose(file["x"][:, 0], (X[..., 0] + 1) / 2, atol=1e-6)
            np.testing.assert_array_equal(file["y"], y)
        broken = shutil.copytree(made, tmp_path / "broken")
        with np.load(made / "generator.npz") as file:
            np.savez(broken / "generator.npz", **{**dict(file), "code_size": np.array(2.0)})
        said = refused("sample", broken, "--n", 3, "--out", tmp_path / "e")
        assert "broken: Expected class_shares of 10 classes and code_size of a generator." in said
        (broken / "generator.npz").unlink()
        said = refused("sample", broken, "--n", 3, "--out", tmp_path / "e", "--kind", "generated")
        assert said.count("broken") == 1
        assert "broken has no generator" in said
        again = ("sample", made, "--n", 3, "--out")
        assert "Expected --out as a folder with --format" in refused(*again, "c.npz", "--format", "dpimagebench")
        assert "Unknown format 'x'" in refused(*again, tmp_path / "d", "--format", "x")


class TestKernels:
    def test_the_recipe_holds_them_and_they_come_back(self, led):
        recipe = json.loads((led / "recipe.json").read_text())
        assert recipe["method"] == "kernel-led"
        encoder = {"kind": "ScatterNet", "J": 1, "L": 2, "groups": 3, "per_position": False, "normalise": False}
        assert recipe["fields"]["kernel"] == {"kind": "FeatureKernel", "encoder": encoder}
        assert recipe["changed"] == ["per_class", "sampling_prob", "second"]
        expected = Kernelled(per_class=2, sampling_prob=1.0, second=KERNELS["scatternet"])
        assert from_fields("kernel-led", recipe["fields"]) == expected
        page = re.sub(r"<[^>]+>", " ", (led / "report.html").read_text())
        assert "FeatureKernel, the inner product of features (encoder: ScatterNet, two layers" in page
        assert "classifier.npz" in page

    def test_everything_of_the_result_is_saved_and_verified(self, led, tmp_path):
        assert {"classifier.npz", "synthetic.npz"} < set(files_of(led))
        back = read_distilled(led)
        np.testing.assert_array_equal(back.targets, TARGETS.astype(np.float32))
        np.testing.assert_array_equal(back.classifier, CLASSIFIER.astype(np.float32))
        assert re.search(r"^ok   plan: ", succeeds("verify", led), re.M)
        with np.load(led / "classifier.npz") as file:
            np.savez(led / "classifier.npz", classifier=2 * file["classifier"])
        code, out, _ = dpdistill("verify", led)
        assert code == 1
        assert "classifier.npz was changed" in out
        command = ("distill", "digits:train", "--out", led, "--overwrite", "--method", "ldpdc")
        succeeds(*command, "--set", "sampling_prob=1")
        assert "classifier.npz" not in files_of(led)
        assert read_distilled(led).classifier is read_distilled(led).targets is None

    def test_slopes_of_a_teacher_that_sees_a_root_of_the_light_have_units(self, led, tmp_path):
        folder, made = shutil.copytree(led, tmp_path / "rooted"), tmp_path / "slopes.npz"
        recipe = json.loads((folder / "recipe.json").read_text())
        encoder = recipe["fields"]["kernel"]["encoder"]
        recipe["fields"]["kernel"]["encoder"] = {"kind": "GammaCorrected", "encoder": encoder, "exponent": 0.5}
        (folder / "recipe.json").write_text(json.dumps(recipe))
        succeeds("sample", folder, "--n", 30, "--out", made, "--seed", 5, "--slopes")
        with np.load(made, allow_pickle=False) as file:
            stored = dict(file)
        rooted, X = GammaCorrected(ENCODER, 0.5), draw_pictures(30, (8, 8, 1), 5)
        teacher = evaluate.Teacher(CLASSIFIER.astype(np.float32), FeatureKernel(rooted), read_distilled(led).schema)
        np.testing.assert_allclose(stored["units"], rooted.units(X), rtol=1e-6)
        _, by_pixel = teacher.sloped(X, margin_weights)
        np.testing.assert_allclose(stored["slopes"], by_pixel / 8, rtol=1e-4, atol=1e-5)
        assert "multiply a network's gradients and slopes by these" in json.loads(str(stored["about"]))["units"]

    def test_a_released_classifier_scores_pictures(self, led, tmp_path):
        pictures = tmp_path / "pictures.npz"
        out = succeeds("sample", led, "--n", 30, "--out", pictures, "--seed", 5)
        assert "30 drawn images with the released classifier's scores, at no further epsilon" in out
        with np.load(pictures, allow_pickle=False) as file:
            stored = dict(file)
        X = draw_pictures(30, (8, 8, 1), 5)
        np.testing.assert_allclose(stored["X"], (X + 1) * 8, atol=1e-5)
        expected = np.asarray(ENCODER(X)) @ CLASSIFIER.astype(np.float32)
        expected -= expected.mean(1, keepdims=True)
        np.testing.assert_allclose(stored["targets"], expected, atol=1e-4)
        np.testing.assert_array_equal(stored["y"], expected.argmax(1))
        about = json.loads(str(stored["about"]))
        assert about["seed"] == 5
        assert (
            about["classifier_sha256"] == json.loads((led / "certificate.json").read_text())["files"]["classifier.npz"]
        )
        with_slopes = tmp_path / "slopes.npz"
        succeeds("sample", led, "--n", 30, "--out", with_slopes, "--seed", 5, "--slopes")
        with np.load(with_slopes, allow_pickle=False) as file:
            more = dict(file)
        assert set(more) - set(stored) == {"margins", "slopes"}
        np.testing.assert_array_equal(more["margins"], np.argsort(-stored["targets"], 1)[:, :2])
        first, second = more["margins"].T
        weights = CLASSIFIER.astype(np.float32)[:, first] - CLASSIFIER.astype(np.float32)[:, second]
        slopes = jax.grad(lambda U: jnp.vdot(ENCODER(U), weights.T))(X) / 8
        np.testing.assert_allclose(more["slopes"], slopes, atol=1e-3 * np.abs(slopes).max())
        assert ".npz file with --slopes" in refused("sample", led, "--n", 3, "--out", tmp_path / "c", "--slopes")
        as_benchmark = ("--format", "dpimagebench", "--slopes")
        for out in ("c", "c.npz"):
            said = refused("sample", led, "--n", 3, "--out", tmp_path / out, "--kind", "drawn", *as_benchmark)
            assert "dpimagebench has no slopes" in said
        folder = tmp_path / "folder"
        succeeds("sample", led, "--n", 30, "--out", folder, "--seed", 5)
        rows = [line.split(",") for line in (folder / "labels.csv").read_text().splitlines()]
        assert rows[0][:3] == ["file", "class", "score of 0"]
        assert [int(row[1]) for row in rows[1:]] == stored["y"].tolist()
        np.testing.assert_allclose(np.array([row[2:] for row in rows[1:]], float), expected, rtol=1e-3, atol=1e-4)
        picture = np.asarray(Image.open(folder / rows[7][0]), np.float32)
        np.testing.assert_allclose(picture / 127.5 - 1, X[6, :, :, 0], atol=0.005)
        assert json.loads((folder / "about.json").read_text()) == about
        assert "exists: choose another" in refused("sample", led, "--n", 3, "--out", pictures)
        assert ".npz file or a folder" in refused("sample", led, "--n", 3, "--out", tmp_path / "a.csv")
        mixed = tmp_path / "mixed.npz"
        out = succeeds("sample", led, "--n", 30, "--out", mixed, "--seed", 5, "--kind", "mixed")
        assert "30 mixed images with the released classifier's scores, at no further epsilon" in out
        with np.load(mixed, allow_pickle=False) as file:
            np.testing.assert_allclose(file["X"] / 8 - 1, mix_pictures(X, read_distilled(led).X, 5), atol=1e-5)
            assert "mixed with the folder's synthetic images" in str(file["about"])
            files = json.loads((led / "certificate.json").read_text())["files"]
            assert json.loads(str(file["about"]))["images_sha256"] == files["synthetic.npz"]
        for kind in ("x", "drawn+x", "drawn+drawn", "+"):
            said = refused("sample", led, "--n", 3, "--out", tmp_path / "b.npz", "--kind", kind)
            several = "choose among drawn, generated, mixed, or several kinds, each once: drawn+generated."
            assert f"Unknown kind {kind!r} of images: {several}" in said

    def test_releases_are_used_again_with_another_kernel_for_finish_only(self, led, tmp_path):
        again = ("distill", "--from", led.with_name("led.run"), "--out")
        succeeds(*again, tmp_path / "b", "--set", "second=fc-ntk")
        assert json.loads((tmp_path / "b" / "recipe.json").read_text())["fields"]["second"]["kind"] == "FCNTK"
        assert "second" in succeeds("verify", tmp_path / "b", "--run", led.with_name("led.run"))
        assert "another kernel: they do not fit" in refused(*again, tmp_path / "c", "--set", "kernel=fc-ntk")

    def test_methods_shows_the_short_name(self, led):
        out = succeeds("methods")
        assert re.search(r"^second +fc-ntk +Kernel +free +another kernel", out, re.M)
        assert re.search(r"^kernel +FeatureKernel\(", out, re.M)
        assert f"Kernels: {', '.join(KERNELS)}.\n" in out

    @pytest.mark.parametrize("name", KERNELS)
    def test_every_kernel_of_the_table_is_saved_and_read(self, led, name):
        fields = run.recipe_of(Kernelled(kernel=KERNELS[name]), 0)["fields"]
        made = from_fields("kernel-led", json.loads(json.dumps(fields)))
        assert made.kernel == KERNELS[name]
        assert hash(made.kernel) == hash(KERNELS[name])


# Wrong input


def fields_and_bad_values():
    bad = {int: ("-1", "1.5", "x", "", "9" * 400), float: ("-1", "nan", "inf", "x", "")}
    for method in METHODS:
        for name, field in fields_of(method).items():
            kind = type(field.default)
            for value in bad.get(kind, ("nosuch", "color,nosuch")):
                yield method, name, value


def test_every_field_refuses_bad_values_by_name(tmp_path):
    for method, name, value in fields_and_bad_values():
        privacy = ["--non-private"] if method in ("dm", "kip") else []
        setting = f"{name}={value}"
        sentence = refused(
            "distill", "digits:train", "--out", tmp_path / "x", "--method", method, "--set", setting, *privacy
        )
        assert name in sentence or "too large" in sentence, (setting, sentence)
    assert list(tmp_path.iterdir()) == []


OUT = ["--out", "OUT"]
WRONG = {
    "unknown command": (["nonsense"], "nonsense"),
    "unknown option": (["distill", "digits:train", *OUT, "--nonsense"], "--nonsense"),
    "no data": (["distill", *OUT], "DATA"),
    "no out": (["distill", "digits:train"], "--out"),
    "empty out": (["distill", "digits:train", "--out", ""], "empty"),
    "out without a value": (["distill", "digits:train", "--out"], "--out"),
    "two data": (["distill", "digits:train", "digits:test", *OUT], "digits:test"),
    "data and from": (["distill", "digits:train", *OUT, "--from", "x"], "Expected either DATA or --from"),
    "unknown method": (
        ["distill", "digits:train", *OUT, "--method", "nosuch"],
        "dos, decoupled-kip, dos-kip, dp-kip, dp-merf, dp-hp, dp-ntk, ndpdc, ldpdc, psg, dp-sgd, dm, kip",
    ),
    "method without privacy": (["distill", "TORN", *OUT, "--method", "dm"], "--non-private"),
    "unknown field": (["distill", "digits:train", *OUT, "--set", "nosuch=1"], "'nosuch'"),
    "set without equals": (["distill", "digits:train", *OUT, "--set", "steps"], "field=value"),
    "set twice": (["distill", "digits:train", *OUT, "--set", "steps=1", "--set", "steps=2"], "twice"),
    "per class twice": (["distill", "digits:train", *OUT, "--per-class", "1", "--set", "per_class=2"], "twice"),
    "per class 0": (["distill", "digits:train", *OUT, "--per-class", "0"], "per_class=0"),
    "per class a word": (["distill", "digits:train", *OUT, "--per-class", "many"], "--per-class"),
    "tiles that do not fit": (
        ["distill", "digits:train", *OUT, "--method", "dos", "--set", "expand=9"],
        "at least 9x9",
    ),
    "images too small": (["distill", "digits:train", *OUT, "--resize", "1"], "4 x 4 pixels"),
    **{
        f"epsilon {value}": (["distill", "digits:train", *OUT, "--epsilon", value], "epsilon")
        for value in ("0", "-1", "nan", "inf", "x", "")
    },
    **{
        f"delta {value}": (["distill", "digits:train", *OUT, "--delta", value], "delta")
        for value in ("0", "1", "-1", "nan", "inf", "x")
    },
    "unknown adjacency": (["distill", "digits:train", *OUT, "--adjacency", "nearby"], "nearby"),
    "seed -1": (["distill", "digits:train", *OUT, "--seed", "-1"], "--seed"),
    "seed 2^32": (["distill", "digits:train", *OUT, "--seed", str(2**32)], "--seed"),
    "missing data": (["distill", "missing", *OUT], "missing does not exist"),
    "missing data with a ledger": (
        ["distill", "missing", *OUT, "--ledger", "BEGUN"],
        "missing does not exist",
    ),
    "torn data": (["distill", "TORN", *OUT], "TORN.npz"),
    "epsilon 10,001": (["distill", "digits:train", *OUT, "--epsilon", "10001"], "Expected epsilon=10001 <= 10,000: "),
    "account epsilon 1e9": (["account", "--epsilon", "1e9"], "Expected epsilon=1e+09 <= 10,000: "),
    "empty data": (["distill", "", *OUT], "path"),
    "unknown digits": (["distill", "digits:all", *OUT], "digits:all"),
    "out not empty": (["distill", "digits:train", "--out", "FULL"], "--overwrite"),
    "out not ours": (["distill", "digits:train", "--out", "FULL", "--overwrite"], "choose another folder"),
    "out is a file": (["distill", "digits:train", "--out", "FULL/file"], "is a file"),
    "out below a file": (["distill", "digits:train", "--out", "FULL/file/x"], "is a file"),
    "out is here": (["distill", "digits:train", "--out", ".", "--overwrite"], "working folder"),
    "out with a zero byte": (["distill", "digits:train", "--out", "a\0b"], "impossible"),
    "budget without privacy": (["distill", "missing", *OUT, "--non-private", "--epsilon", "1"], "--epsilon"),
    "cap of a run": (["distill", "digits:train", *OUT, "--ledger", "BEGUN", "--cap", "1"], "dpdistill budget new FILE"),
    "cap of an audit": (["audit", "run", "digits:train", *OUT, "--cap", "1"], "dpdistill budget new FILE"),
    "cap 0": (["budget", "new", "OUT.ledger", "--cap", "0"], "cap=0"),
    "cap nan": (["budget", "new", "OUT.ledger", "--cap", "nan"], "cap=nan"),
    "no cap": (["budget", "new", "OUT.ledger"], "--cap"),
    "a ledger twice": (["budget", "new", "BEGUN", "--cap", "5"], "Expected no file at BEGUN to begin a ledger"),
    "epsilon over a new cap": (["distill", "TORN", *OUT, "--epsilon", "5", "--ledger", "BEGUN"], "cap of 2.0 in BEGUN"),
    "sql without a schema": (
        ["distill", "digits:train", *OUT, "--sql", "SELECT 1"],
        "Expected --schema SCHEMA with --sql",
    ),
    "no ledger, no cap": (["distill", "missing", *OUT, "--ledger", "OUT.ledger"], "There is no ledger at OUT.ledger"),
    "ledger in no folder": (["distill", "digits:train", *OUT, "--ledger", "no/such/x"], "folder"),
    "ledger is a folder": (["distill", "digits:train", *OUT, "--ledger", "FULL"], "FULL"),
    "ledger is no ledger": (["distill", "digits:train", *OUT, "--ledger", "FULL/file"], "file"),
    "from a missing run": (["distill", "--from", "missing", *OUT], "missing"),
    "from a folder without a run": (["distill", "--from", "FULL", *OUT], "FULL"),
    "from with a seed": (["distill", "--from", "x", *OUT, "--seed", "1"], "--seed"),
    "from with a ledger": (["distill", "--from", "x", *OUT, "--ledger", "y"], "--ledger"),
    "from without privacy": (["distill", "--from", "x", *OUT, "--non-private"], "--non-private"),
    "from with classes": (["distill", "--from", "x", *OUT, "--classes", "2"], "no record is read"),
    "noise that cannot be found": (
        [
            "distill",
            "TORN",
            *OUT,
            "--ledger",
            "BEGUN",
            "--delta",
            "1e-12",
            "--set",
            "sampling_prob=0.5",
        ],
        "delta=1e-12",
    ),
    "evaluate nothing": (["evaluate"], "DIR"),
    "evaluate without a test set": (["evaluate", "FULL"], "--test"),
    "evaluate a missing folder": (["evaluate", "missing", "--test", "digits:test"], "missing"),
    "evaluate another folder": (["evaluate", "FULL", "--test", "digits:test"], "synthetic.npz"),
    "evaluate unknown training": (["evaluate", "SHARED", "--test", "digits:test", "--training", "long"], "long"),
    "evaluate with an unknown kernel": (
        ["evaluate", "SHARED", "--test", "digits:test", "--kernel", "nosuch"],
        f"Unknown kernel 'nosuch': choose among {', '.join(KERNELS)}",
    ),
    "evaluate with a ridge below 0": (["evaluate", "SHARED", "--test", "digits:test", "--ridge", "-1"], "ridge=-1"),
    "evaluate with a ridge nan": (["evaluate", "SHARED", "--test", "digits:test", "--ridge", "nan"], "ridge=nan"),
    "evaluate with LeNet on 8 x 8": (
        ["evaluate", "SHARED", "--test", "digits:test", "--architecture", "lenet"],
        "Architecture lenet takes images with sides >= 16; got (8, 8, 1)",
    ),
    "evaluate without nets": (["evaluate", "SHARED", "--test", "digits:test", "--nets", "0"], "--nets"),
    "evaluate on a missing test set": (["evaluate", "SHARED", "--test", "missing"], "missing does not exist"),
    "evaluate on another shape": (["evaluate", "SHARED", "--test", "OTHER"], "(8, 8, 1); got (4, 4, 1)"),
    "report nothing": (["report"], "DIR"),
    "report a missing folder": (["report", "missing"], "missing"),
    "report another folder": (["report", "FULL"], "certificate.json"),
    "verify nothing": (["verify"], "DIR"),
    "budget nothing": (["budget"], "FILE"),
    "budget of a missing file": (["budget", "missing"], "missing"),
    "budget of another file": (["budget", "FULL/file"], "file"),
    "account nothing": (["account"], "--epsilon"),
    "account both": (["account", "--epsilon", "1", "--noise-multiplier", "1"], "one of"),
    "account epsilon 0": (["account", "--epsilon", "0"], "epsilon=0.0"),
    "account noise 0": (["account", "--noise-multiplier", "0"], "noise_multiplier=0"),
    "account noise nan": (["account", "--noise-multiplier", "nan"], "noise_multiplier=nan"),
    "account no rounds": (["account", "--epsilon", "1", "--rounds", "0"], "rounds=0"),
    "account too often": (["account", "--epsilon", "1", "--sampling-prob", "1.5"], "sampling_prob=1.5"),
    "account never": (["account", "--epsilon", "1", "--sampling-prob", "0"], "sampling_prob=0"),
    "delta 0.5": (["distill", "missing", *OUT, "--delta", "0.5"], "Expected delta=0.5 <= 0.01"),
    "account delta 2": (["account", "--epsilon", "1", "--delta", "2"], "delta=2"),
    "account a delta too small": (
        ["account", "--epsilon", "1", "--sampling-prob", "0.5", "--delta", "1e-300"],
        "delta",
    ),
    "account adjacency": (["account", "--epsilon", "1", "--adjacency", "far"], "far"),
}


@pytest.mark.parametrize(("argv", "expected"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_one_sentence_and_nothing_is_written(argv, expected, tmp_path, monkeypatch, shared):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FULL").mkdir()
    (tmp_path / "FULL" / "file").write_text("mine")
    np.savez(tmp_path / "OTHER.npz", X=np.zeros((3, 4, 4), np.uint8), y=[0, 1, 2], bounds=[0.0, 16.0])
    torn(tmp_path / "TORN.npz")
    DatasetLedger.begin("BEGUN", 2.0)
    before = files_of(tmp_path), sorted(tmp_path.iterdir())
    stands_for = {"SHARED": str(shared), **{name: str(tmp_path / f"{name}.npz") for name in ("OTHER", "TORN")}}
    assert expected in refused(*[stands_for.get(word, word) for word in argv])
    assert (files_of(tmp_path), sorted(tmp_path.iterdir())) == before
    assert (tmp_path / "FULL" / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    assert "cannot be written" in refused("distill", "digits:train", "--out", tmp_path / "closed" / "x")


def test_from_a_run_that_has_not_ended(tmp_path, digits, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    command = ("distill", digits, "--out", tmp_path / "x", "--method", "ldpdc", "--set", "sampling_prob=1")
    with monkeypatch.context() as patch:
        patch.setattr(RunLedger, "commit", stop)
        code, out, err = dpdistill(*command)
        assert (code, out) == (130, "")
        assert err.endswith("\nStopped. Nothing was paid.\n")
        assert "Traceback" not in err
    assert "not complete" in refused("distill", "--from", tmp_path / "x.run", "--out", tmp_path / "y")
    assert "--overwrite archives it" in refused(*command, "--per-class", 3)
    succeeds(*command)
    succeeds("verify", tmp_path / "x")


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (MemoryError("1438"), "not enough memory"),
        (OSError(28, "No space left on device", "/far/x"), "No space left on device: /far/x"),
        (OSError("odd"), "Input or output failed"),
    ],
)
def test_what_the_machine_refuses_is_one_sentence(failure, expected, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise failure

    monkeypatch.setattr(driver, "distill", fail)
    sentence = refused("distill", "digits:train", "--out", tmp_path / "x")
    assert expected in sentence


def test_export_writes_and_refuses(shared, tmp_path):
    out = succeeds("export", shared, "--to", "csv", "--out", tmp_path / "a.csv")
    assert out.startswith(f"{tmp_path / 'a.csv'}: written. The guarantee of the certificate holds for the export")
    with (tmp_path / "a.csv").open() as file:
        assert len(file.readlines()) == 101
    succeeds(
        "export", shared, "--to", "card", "--out", tmp_path / "a.md", "--about", "license=mit", "--about", "name=B"
    )
    assert "license: mit\n" in (tmp_path / "a.md").read_text()
    (tmp_path / "about.yaml").write_text("license: pddl\ncurator: General Hospital\n")
    stated = ("--about-file", tmp_path / "about.yaml", "--about", "license=mit")
    said = succeeds("export", shared, "--to", "hf", "--out", tmp_path / "hub", *stated)
    assert said.endswith("\nFields to add to README.md by --about: name, url, intended_use.\n")
    card = (tmp_path / "hub" / "README.md").read_text()
    assert "license: mit\n" in card
    assert "Published by General Hospital, at TO BE FILLED IN. Licence: mit." in card
    helped = " ".join(succeeds("export", "--help").split())
    assert all(re.search(rf"\b{each.name}\b", helped) for each in fields(Publisher))
    assert "choose among hf, torch, csv" in refused("export", shared, "--to", "zip", "--out", tmp_path / "b")
    assert "field=value" in refused("export", shared, "--to", "card", "--out", tmp_path / "b.md", "--about", "mit")


def test_public_images_are_named_by_their_hash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ("--method", "dos", "--set", "networks=2", "--set", "steps=2", "--set", "width=8", "--set", "subspace=4")
    succeeds("distill", "digits:train", "--out", "shared", *small, "--public", "digits:test")
    made = PublicImages.of(X[:valid] for X, _, valid in load("digits:test").chunks(None, 1000))
    certificate = json.loads((tmp_path / "shared" / "certificate.json").read_text())
    assert certificate["recipe"]["fields"]["public_images"]["sha256"] == made.sha256
    assert (
        f"the 359 images with sha256 {made.sha256}: by the word of the caller they are public" in certificate["scope"]
    )
    again = ("distill", "--from", "shared.run", "--out", "more", "--per-class", 2)
    assert f"Name the public images with sha256 {made.sha256} again" in refused(*again)
    succeeds(*again, "--public", "digits:test")
    assert "made with another public_images" in refused(*again, "--overwrite", "--public", "digits:train")
    for data, same in (("digits:train", "digits:train"), ("a.npz", "./a.npz"), ("a.npz", "a.npz:train")):
        wrong = refused("distill", data, "--out", "x", *small, "--public", same)
        assert "The images of --public are the private images of DATA" in wrong
    wrong = refused("distill", "digits:train", "--out", "x", "--method", "dp-kip", "--public", "digits:test")
    assert "Method dp-kip reads no public images: leave --public out" in wrong
