"""`dpdistill audit` and `attack` as a stranger meets them: sets, runs, methods, networks, and what is refused."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from PIL import Image
from run_command import dpdistill, refused, succeeds

from dpdistill import begin_ledger
from dpdistill.api.listener import SILENT
from dpdistill.api.options import Reading
from dpdistill.api.reading import read_records
from dpdistill.attacks.attacked_networks import Descent, Smooth, start
from dpdistill.audits.canaries import LEAST
from dpdistill.cli import app
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.networks.network import LeNet, times
from dpdistill.networks.parameters import write_parameters
from dpdistill.sources.load import load

MOVED = r"record \d+ re(?:moved|placed): sums moved by 0\.\d{4} of the paid sensitivity; else nothing changed"
MERF = ("--method", "dp-merf", "--set", "frequencies=50", "--set", "steps=2", "--set", "samples=40")
LDPDC = ("--method", "ldpdc", "--set", "per_class=2", "--set", "sampling_prob=1")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def page(path):
    text = path.read_text()
    assert "The owner’s page." in text
    assert "not covered by ε" in text
    assert not re.search(r"https?://", text), "It loads nothing."
    return text


def test_a_set_of_images_is_attacked(here):
    succeeds("distill", "digits:train", "--out", "shared", *MERF)
    said = succeeds("audit", "shared", "--members", "digits:train", "--non-members", "digits:test")
    assert len(re.findall(r"by (?:distance|loss): [\d.]+ % of the members recognised", said)) == 2
    text = page(here / "shared.audit/audit.html")
    assert re.search(r"What the certificate allows at most: 0\.2\d % at 0\.1 %", text)
    kept = json.loads((here / "shared.audit/audit.json").read_text())
    assert kept["membership"]["loss"]["true positives"]["0.01"]["value"] < 0.1
    assert kept["bounds"]["0.05"] == pytest.approx(0.0858, abs=2e-3)
    assert "for images also --non-members DATA" in refused("audit", "shared", "--members", "digits:train")
    assert "for images also --non-members DATA" in refused("audit", "--quiet", "--members", "digits:train", "shared")


@pytest.mark.slow
def test_shadows_tell_who_was_in_where_nothing_protects_them(here):
    how = ("--out", "s", "--runs", 4, "--set", "rounds=4", "--set", "per_class=4")
    said = succeeds("audit", "shadows", "digits:train", "--method", "kip", *how)
    assert len(re.findall(r"by (?:distance|loss): [\d.]+ % of the members recognised at 0.1 % wrong", said)) == 2
    text = page(here / "s.audit/shadows.html")
    assert "In each of 4 runs half of the records entered by coins" in text
    assert "kip, without privacy" in text
    assert "What the certificate allows" not in text
    succeeds("audit", "shadows", "digits:train", *MERF[:2], "--out", "p", "--runs", 4, *MERF[2:])
    text = page(here / "p.audit/shadows.html")
    assert "What the certificate allows at most: 0.2" in text
    assert not (here / "p").exists()


def test_a_run_with_a_planted_leak_is_found_out_and_writes_no_set(here):
    how = ("--canaries", 300, "--epsilon", 1)
    said = succeeds("audit", "run", "digits:train", "--out", "leaky", *MERF, *how, "--leak", "real-start")
    assert re.search(r"nearest synthetic record: 30 of 30 right, epsilon is at least 1\.\d\d", said)
    assert not (here / "leaky").exists()
    assert "The guarantee is broken" in page(here / "leaky.audit/canaries.html")
    assert "Unknown leak 'x': choose among noised-again" in refused(
        "audit", "run", "digits:train", "--out", "x", "--leak", "x"
    )


def test_an_honest_run_is_a_run_and_pays_in_the_ledger_of_all_others(here):
    paid = ("--ledger", "digits.ledger")
    begin_ledger("digits.ledger", 2.0)
    succeeds("distill", "digits:train", "--out", "shared", *MERF, *paid)
    said = succeeds("audit", "run", "digits:train", "--out", "honest", *MERF, "--canaries", 300, *paid)
    assert "certified: 1." in said
    assert not (here / "honest").exists()
    succeeds("distill", "digits:train", "--out", "second", *MERF, *paid)
    wrong = refused("audit", "run", "digits:train", "--out", "more", *MERF, "--canaries", 300, *paid)
    few = refused("audit", "run", "digits:train", "--out", "more", *MERF, "--canaries", LEAST - 1)
    assert f"'--canaries': Input should be greater than or equal to {LEAST}" in few
    assert "cap" in wrong
    assert "audit of dp-merf" in succeeds("budget", "digits.ledger")
    text = page(here / "honest.audit/canaries.html")
    assert "The guarantee is broken" not in text
    kept = json.loads((here / "honest.audit/canaries.json").read_text())
    assert kept["canaries"] == 300
    assert kept["certified"] == {"epsilon": 1.0, "delta": 1e-5}


def test_a_method_is_replayed_on_other_records(here):
    said = succeeds("audit", "method", "digits:train", "--out", "mine", *LDPDC, "--records", 2, "--no-fresh")
    assert len(re.findall(MOVED, said)) == 4
    summary = "No leak was found for the 2 records tried, of 1,438, in 7 replays."
    assert summary in said
    assert summary in page(here / "mine.audit/method.html")
    kept = json.loads((here / "mine.audit/method.json").read_text())
    assert list(kept["tried"].values()) == ["an outlier", "drawn at random"]
    assert not (here / "mine").exists()
    wrong = refused("audit", "method", "digits:train", "--out", "mine", "--method", "nosuch")
    assert "Unknown method 'nosuch'" in wrong


LEAKY = Path(__file__).parents[1] / "audits" / "leaky_methods.py"


def audited(name, *how):
    return dpdistill("audit", "method", "plain.npz", "--out", "mine", "--method", f"{LEAKY}:{name}", *how, "--no-fresh")


def test_a_method_of_a_file_is_audited(here, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    rng = np.random.default_rng(0)
    X, classes, bounds = (
        rng.integers(0, 17, (40, 8, 8)).astype(np.uint8),
        np.array(["cat", "dog"]),
        np.array([0.0, 16.0]),
    )
    np.savez(here / "plain.npz", X=X, y=np.arange(40) % 2, classes=classes, bounds=bounds)
    code, out, _ = audited("Means", "--set", "copies=3", "--records", "3,17")
    assert (code, len(re.findall(MOVED, out))) == (0, 4)
    assert "record 17 removed" in out
    code, out, _ = audited("captured_record", "--records", 1)
    assert code == 1
    assert re.search(r"all records replaced: changed: .*distilled\.X.*synthetic\.npz", out)
    assert "A leak was found for the 1 record tried, of 40, in 5 replays." in out
    again = ("audit", "method", "plain.npz", "--out", "mine", "--method")
    assert "cannot be imported" in refused(*again, f"{LEAKY}:Nothing")
    assert "no --set with" in refused(*again, f"{LEAKY}:honest", "--set", "copies=3")
    assert "a method class, a method, or a function" in refused(*again, f"{LEAKY}:FILLED")
    for wrong in ("0", "x", "-1,2", "1,x", ""):
        assert "Expected --records as a number from 1" in refused(*again, "dos", "--records", wrong)
    assert "from 0 to 39; got 40" in refused(*again, "dos", *("--set", "steps=2"), "--records", "40,")


def test_arrays_that_state_no_classes_are_audited_with_those_of_the_caller(here):
    rng = np.random.default_rng(0)
    np.savez(here / "plain.npz", X=rng.integers(0, 17, (40, 8, 8)).astype(np.uint8), y=np.arange(40) % 2)
    again = ("audit", "method", "plain.npz", "--out", "mine", "--records", 1, "--no-fresh", *LDPDC)
    assert "plain.npz does not state its classes: pass --classes" in refused(*again)
    said = succeeds(*again, "--classes", "cat,dog", "--bounds", "0,16")
    assert len(re.findall(MOVED, said)) == 2
    stated = (("--classes", "2"), ("--bounds", "0,1"), ("--resize", "8"), ("--channels", "1"), ("--straighten",))
    for option in (*stated, ("--labels", "fine")):
        assert "With --schema leave out --classes, --bounds, " in refused(
            "audit", "method", "plain.npz", "--out", "mine", *MERF, *option, "--schema", "schema.yaml"
        )


def test_photographs_are_audited_as_they_are_distilled(here):
    rng = np.random.default_rng(0)
    for name, side in (("cat", 9), ("dog", 12)):
        (here / "photos" / name).mkdir(parents=True)
        for k in range(20):
            Image.fromarray(rng.integers(0, 256, (side, side, 3)).astype(np.uint8)).save(
                here / f"photos/{name}/{k}.png"
            )
    again = ("audit", "method", "photos", "--out", "mine", "--records", 1, "--no-fresh", *LDPDC)
    assert "--resize" in refused(*again)
    said = succeeds(*again, "--resize", 8, "--channels", 1, "--straighten")
    assert len(re.findall(MOVED, said)) == 2
    read = read_records("photos", Reading(resize="8", channels=1, straighten=True), SILENT)
    expected = load("photos", resize="8", channels=1, straighten=True)
    assert read.schema == expected.schema
    assert read.schema.straightened
    np.testing.assert_array_equal(read.X, expected.X)


def test_labels_are_those_that_the_caller_names(here):
    table = of_two_labels(here / "photos.parquet")
    for name in ("kind", "place"):
        read = read_records("photos.parquet", Reading(classes="2", channels=1, labels=name), SILENT)
        np.testing.assert_array_equal(read.y, table[name])


@pytest.mark.slow
def test_a_set_is_scored_and_audited_by_the_labels_it_was_distilled_with(here):
    of_two_labels(here / "photos.parquet")
    asked = ("--labels", "place")
    succeeds("distill", "photos.parquet", "--out", "shared", "--classes", 2, "--channels", 1, *asked, *MERF)
    scored = ("evaluate", "shared", "--test", "photos.parquet", "--nets", 1)
    of_two_labels(here / "others.parquet", seed=1)
    audited = ("audit", "shared", "--members", "photos.parquet", "--non-members", "others.parquet")
    for command in (scored, audited):
        assert "has several columns of labels, or none: name one of kind, place (--labels NAME)" in refused(*command)
    assert "ConvNet accuracy" in succeeds(*scored, *asked)
    assert "of the members recognised" in succeeds(*audited, *asked)


def of_two_labels(path, seed=0):
    """Images with two columns of labels in a Parquet file."""
    rng = np.random.default_rng(seed)
    pictures = []
    for _ in range(6):
        file = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (8, 8)).astype(np.uint8)).save(file, "PNG")
        pictures.append({"bytes": file.getvalue()})
    table = {"image": pictures, "kind": [0, 1, 0, 1, 0, 1], "place": [1, 1, 0, 0, 1, 0]}
    pq.write_table(pa.table(table), path)
    return table


@pytest.mark.parametrize("audit", [("run",), ("method", *MERF), ("shadows", *MERF), ("training",)], ids=lambda a: a[0])
def test_an_audit_is_told_which_labels(here, audit):
    name, *how = audit
    np.savez(here / "plain.npz", X=np.zeros((40, 8, 8), np.uint8), y=np.arange(40) % 2)
    how = (
        "attack" if name == "training" else "audit",
        name,
        "plain.npz",
        "--out",
        "mine",
        *how,
        "--classes",
        2,
        "--labels",
        "fine",
    )
    assert "a single label per image: leave out --labels" in refused(*how)


def test_every_audit_that_reads_images_reads_them_as_distill_does():
    root: Any = typer.main.get_command(app)
    how = {"classes", "bounds", "resize", "channels", "straighten", "labels"}
    assert how <= {param.name for param in root.commands["distill"].params}
    audits = {
        name: {param.name for param in command.params}
        for group in ("audit", "attack")
        for name, command in root.commands[group].commands.items()
    }
    assert {name for name, params in audits.items() if "data" in params} == {"run", "method", "shadows", "training"}
    assert all(how <= params for params in audits.values() if "data" in params)
    assert how - {"bounds"} <= audits["model"]
    bounds = [param for param in root.commands["attack"].commands["model"].params if "--bounds" in param.opts]
    assert [param.default for param in bounds] == ["0,1"]  # those that the network saw


def test_a_network_is_searched_for_its_images(here):
    records = load("digits:train")
    X, y = records.take(np.array([0, 1]))
    X = (X + 1) / 2
    np.savez(here / "two.npz", X=records.X[:2], y=y, classes=np.arange(10).astype(str), bounds=[0.0, 16.0])
    params, net = start(0, (64, 128, 128, 1)), Smooth()
    targets = np.array([[1.0], [-1.0]], np.float32)
    after = Descent(steps=2000, learning_rate=2e-4).train(net, params, X, targets)
    write_parameters(here / "before.npz", params)
    write_parameters(here / "after.npz", after)
    how = ("--before", "before.npz", "--after", "after.npz", "--members", "two.npz", "--out", "net")
    said = succeeds("attack", "model", *how, "--steps", 400)
    assert re.search(r"\d of 2 training images were reconstructed to less than half the distance from their mean", said)
    text = page(here / "net.audit/model.html")
    assert text.count("data:image/png;base64,") == 4
    assert text.count("<circle") == 2
    assert len(json.loads((here / "net.audit/model.json").read_text())["distances"]) == 2
    assert "Expected at least as many --images as members, 2; got 1" in refused("attack", "model", *how, "--images", 1)
    of_two_labels(here / "photos.parquet")
    photos = ("attack", "model", *how, "--members", "photos.parquet", "--classes", 2, "--images", 1)
    assert "several columns of labels" in refused(*photos)
    read = refused(*photos, "--labels", "kind", "--resize", 8, "--channels", 1)
    assert "Expected at least as many --images as members, 6; got 1" in read
    assert "Unknown architecture 'x'" in refused("attack", "model", *how, "--architecture", "x")
    assert "does not hold the parameters of a ConvNet" in refused("attack", "model", *how, "--architecture", "convnet")
    assert "Expected --bounds as two numbers" in refused("attack", "model", *how, "--bounds", "1")
    missing = refused("attack", "model", *how[2:], "--before", "missing.npz")
    assert "missing.npz does not exist." in missing
    assert jnp.isfinite(after[0]["kernel"]).all()


@pytest.mark.slow
def test_what_training_gives_away_is_told_before_it_is_done(here):
    how = ("--out", "net", "--records", 8, "--widths", "64,32", "--steps", 60, "--positive", "1,3,5,7,9")
    how = (*how, "--training-steps", 500)
    said = succeeds("attack", "training", "digits:train", *how, "--layers", 2, "--peel", 3)
    assert re.search(r"\d of 8 training images were reconstructed to less than half the distance from their mean", said)
    text = page(here / "net.audit/training.html")
    assert text.count("data:image/png;base64,") == 16
    assert "MLP (widths 64, 32) trained on 8 records in full, by squares" in text
    kept = json.loads((here / "net.audit/training.json").read_text())
    assert [layer["images"] for layer in kept["onion"]] == [8, 5]
    assert 0 <= kept["kernel distance"] < 1
    assert not (here / "net").exists()


@pytest.mark.usefixtures("as_users")  # runs for longer than it compiles
@pytest.mark.slow
def test_a_network_with_given_weights_is_trained_on_all_classes(here):
    network = LeNet()
    write_parameters(here / "start.npz", times(network, 2).init((32, 32, 1), 10))
    np.savez(
        here / "mine.npz",
        X=np.random.default_rng(0).integers(0, 255, (4, 32, 32, 1)).astype(np.uint8),
        y=[0, 1, 9, 3],
        classes=np.arange(10).astype(str),
    )
    how = ("--architecture", "lenet", "--weights", "start.npz", "--records", 4, "--steps", 3, "--layers", 1)
    how = (*how, "--training-steps", 100)
    succeeds("attack", "training", "mine.npz", "--out", "net", *how, "--loss", "cross-entropy")
    text = page(here / "net.audit/training.html")
    assert "LeNet (widths 12, 32, 240, 168) trained on 4 records in full, by cross-entropy" in text
    assert "The onion" not in text
    wrong = refused("attack", "training", "mine.npz", "--out", "x", *how, "--positive", "0,1")
    assert "Expected --weights of a network with outputs 1; got 10" in wrong
    wrong = refused("attack", "training", "mine.npz", "--out", "x", *how, "--architecture", "convnet")
    assert "does not hold the parameters of a ConvNet" in wrong
    succeeds("attack", "training", "mine.npz", "--out", "wide", *how[:2], "--multiplier", 2, *how[4:])


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (("--loss", "x"), "Unknown loss 'x': choose among squares, cross-entropy"),
        (("--positive", "1,33"), "Unknown class '33' in --positive"),
        (("--positive", "0,1,2,3,4,5,6,7,8,9"), "Expected --positive to leave out at least one class"),
        (("--widths", "0"), "Expected --widths as whole numbers above zero, 512,512; got '0'"),
        (("--widths", "a"), "Expected --widths as whole numbers above zero"),
        (("--layers", "10"), "Expected at least two records in the last of 10 layers; got 20 records in all"),
        (("--at", "x"), "Expected at as final, initial or both; got 'x'"),
        (("--records", "9999"), "Expected fewer --records than 9999: fewer records have a known class"),
        (("--records", "300"), "Expected at most --records 200 for 10 outputs; got 300"),
        (("--weights", "none.npz"), "none.npz"),
        (("--multiplier", "2"), "Expected --multiplier with an architecture other than mlp, and without --weights"),
    ],
)
def test_a_training_that_cannot_be_is_refused(here, how, said):
    assert said in refused("attack", "training", "digits:train", "--out", "x", "--steps", "2", *how)
    assert not (here / "x.audit").exists()


class TestBeforeAnythingIsPaid:
    @pytest.mark.parametrize("to", ["file.npz/x", "/"])
    @pytest.mark.parametrize("audit", ["run", "method", "shadows", "training"])
    def test_a_page_that_cannot_be_written_is_refused(self, here, audit, to):
        (here / "file.npz").write_bytes(b"")
        ledger = begin_ledger("all.ledger", 9.0)
        how = () if audit == "training" else (*MERF, "--ledger", ledger)[: 6 + 2 * (audit == "run")]
        group = "attack" if audit == "training" else "audit"
        said = refused(group, audit, "digits:train", "--out", to, *how)
        assert "a name for the page's folder" in said if to == "/" else "is a file; expected a folder" in said
        assert DatasetLedger(ledger).summary().runs == ()

    def test_records_to_remove_are_needed(self, here):
        np.savez(here / "none.npz", X=np.zeros((0, 8, 8), np.uint8), y=np.zeros(0, np.int64))
        said = refused("audit", "method", "none.npz", "--classes", "2", "--out", "x", *MERF)
        assert "none.npz has no records" in said


@pytest.mark.slow
def test_the_same_records_on_both_sides_are_told(here):
    X, y = np.random.default_rng(0).integers(0, 256, (60, 8, 8)).astype(np.uint8), np.arange(60) % 2
    for name, rows in (("a", slice(0, 30)), ("b", slice(25, 60))):
        np.savez(here / f"{name}.npz", X=X[rows], y=y[rows])
    succeeds("distill", "a.npz", "--classes", "2", "--out", "shared", *MERF)
    said = succeeds("audit", "shared", "--members", "a.npz", "--non-members", "b.npz")
    assert "Warning: 5 of the 35 non-members are equal to a member." in said
    alike = ("--members", "a.npz", "--non-members", "a.npz")
    assert "same records on both sides" in refused("audit", "shared", "--quiet", *alike)
    said = refused("audit", "shared", "--members", "a.npz", "--non-members", "b.npz", "--schema", "no.yaml")
    assert "The set holds images: --schema is for tables." in said
    said = refused(
        "attack", "training", "a.npz", "--classes", "2", "--out", "x", "--architecture", "lenet", "--widths", "7"
    )
    assert "Expected --widths with --architecture mlp; got lenet" in said
