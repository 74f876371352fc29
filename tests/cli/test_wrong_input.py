"""What cannot be used ends in one sentence, with nothing written."""

from __future__ import annotations

import json
import os
import re
from dataclasses import fields

import numpy as np
import pytest
from run_command import dpdistill, files_of, refused, succeeds
from small_sets import torn

from dpdistill.kernels import KERNELS
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger
from dpdistill.methods import METHODS
from dpdistill.public_images.image_source import PublicImages
from dpdistill.publish.export import Publisher
from dpdistill.recipe.build import fields_of
from dpdistill.run import driver
from dpdistill.schema import Schema
from dpdistill.sources.load import load


def fields_and_bad_values():
    bad = {int: ("-1", "1.5", "x", "", "9" * 400), float: ("-1", "nan", "inf", "x", "")}
    for method in METHODS:
        for name, field in fields_of(method).items():
            kind = type(field.default)
            for value in bad.get(kind, ("nosuch", "color,nosuch")):
                yield method, name, value


ROWS = """dpdistill: table schema
reviewed: true
unit: row
label: sick
classes: ['no', 'yes']
columns:
  - {name: age, kind: integer, bounds: [0, 100]}
"""
NUMBERS = ROWS.replace("label: sick\nclasses: ['no', 'yes']\n", "label: age\n") + (
    "  - {name: sick, kind: categorical, categories: ['no', 'yes']}\n"
)


def test_every_field_refuses_bad_values_by_name(tmp_path, tmp_path_factory):
    table = tmp_path_factory.mktemp("table")
    (table / "rows.csv").write_text("age,sick\n30,no\n60,yes\n")
    (table / "schema.yaml").write_text(ROWS)
    (table / "numbers.yaml").write_text(NUMBERS)
    of_table = [table / "rows.csv", "--schema", table / "schema.yaml"]
    for method, name, value in fields_and_bad_values():
        of_table[2] = table / ("numbers.yaml" if METHODS[method].target == "only" else "schema.yaml")
        data = ["digits:train"] if Schema in METHODS[method].schemas else of_table
        privacy = ["--non-private"] if method in ("dm", "kip") else []
        setting = f"{name}={value}"
        sentence = refused("distill", *data, "--out", tmp_path / "x", "--method", method, "--set", setting, *privacy)
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
        "dos, decoupled-kip, dos-kip, dp-kip, dp-merf, dp-hp, table-classifier, table-regression, aim, dp-ntk, ndpdc, "
        "ldpdc, psg, dp-sgd",
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
