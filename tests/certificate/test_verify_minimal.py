"""The second verifier agrees with verify on the test vectors and on folders that were changed in one way each."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dpdistill
from dpdistill.accounting.schedule import Budget, Schedule
from dpdistill.certificate.build import certificate_content
from dpdistill.query import Stage
from dpdistill.verification import verify

SCRIPT = Path(dpdistill.__file__).with_name("verify_minimal.py")
VECTORS = Path(__file__).with_name("vectors")
INDEX = json.loads((VECTORS / "index.json").read_text())
CODES = {"PASSED": 0, "FAILED": 1, "GUARANTEE PASSED, DOCUMENTS NOT COMPARED": 4}


def load_script() -> Any:
    spec = importlib.util.spec_from_file_location("verify_minimal_alone", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


minimal = load_script()


def test_the_file_is_short_and_needs_numpy_and_scipy_alone():
    text = SCRIPT.read_text()
    assert len(text.splitlines()) <= 300
    assert max(map(len, text.splitlines())) <= 120
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(str(node.module).split(".")[0])
    assert names - sys.stdlib_module_names == {"numpy", "scipy"}


@pytest.mark.parametrize("vector", INDEX, ids=[vector["name"] for vector in INDEX])
def test_vectors(vector: dict[str, Any], capsys: pytest.CaptureFixture[str]):
    assert minimal.main(str(VECTORS / vector["name"])) == CODES[vector["outcome"]]
    assert capsys.readouterr().out.splitlines()[-1] == vector["outcome"]


Change = Callable[[Path, dict[str, Any]], Any]


def edited(change: Callable[[dict[str, Any]], Any]) -> Change:
    def write(folder: Path, certificate: dict[str, Any]) -> None:
        change(certificate)
        (folder / "certificate.json").write_bytes(certificate_content(certificate))

    return write


def nest(certificate: dict[str, Any]) -> None:
    certificate["events"]["events"] = [dict(certificate["events"])]


def scale_noise(certificate: dict[str, Any]) -> None:
    for event in certificate["events"]["events"]:
        event["noise_multiplier"] *= 1.05
    schedule = certificate["schedule"]
    schedule["noise_multipliers"] = [1.05 * sigma for sigma in schedule["noise_multipliers"]]


def rewrite_recipe(folder: Path, certificate: dict[str, Any]) -> None:
    path = folder / "recipe.json"
    path.write_text(path.read_text() + "\n")
    certificate["files"]["recipe.json"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "certificate.json").write_bytes(certificate_content(certificate))


def list_notes(folder: Path, certificate: dict[str, Any]) -> None:
    (folder / "notes.txt").write_text("notes")
    certificate["files"]["notes.txt"] = hashlib.sha256(b"notes").hexdigest()
    (folder / "certificate.json").write_bytes(certificate_content(certificate))


IMAGES, SAMPLED, NONE, UNITS = "good-images", "good-images-sampled", "good-images-non-private", "good-table-units"
CHANGES: dict[str, tuple[str, Change, str]] = {
    "nested tree": (IMAGES, edited(nest), "PASSED"),
    "notes": (IMAGES, lambda folder, _: (folder / "notes.txt").write_text("notes"), "PASSED"),
    "listed notes": (IMAGES, list_notes, "FAILED"),
    "other arrays": (IMAGES, lambda folder, _: (folder / "other.npz").write_text("x"), "FAILED"),
    "file among pictures": (IMAGES, lambda folder, _: (folder / "images/0/notes").write_text("x"), "FAILED"),
    "empty class": (IMAGES, lambda folder, _: (folder / "images/9").mkdir(), "FAILED"),
    "link": (IMAGES, lambda folder, _: (folder / "notes.txt").symlink_to(folder / "recipe.json"), "FAILED"),
    "missing file": (IMAGES, lambda folder, _: (folder / "synthetic.png").unlink(), "FAILED"),
    "unlisted file": (IMAGES, edited(lambda c: c["files"].pop("synthetic.png")), "FAILED"),
    "recipe.json": (IMAGES, rewrite_recipe, "FAILED"),
    "schema": (IMAGES, edited(lambda c: c["schema"].update(bounds=[0.0, 1.0])), "FAILED"),
    "noise": (IMAGES, edited(lambda c: c.update(noise="seed 0")), "FAILED"),
    "date": (IMAGES, edited(lambda c: c.update(date="2026-02-30")), "FAILED"),
    "rounds 1.0": (IMAGES, edited(lambda c: c["schedule"]["stages"][0].update(rounds=1.0)), "FAILED"),
    "relation": (IMAGES, edited(lambda c: c.update(relation="replace-one")), "FAILED"),
    "claim": (IMAGES, edited(lambda c: c["claim"].update(epsilon=2.0)), "FAILED"),
    "name of a delta": (
        IMAGES,
        edited(lambda c: c["epsilons"].update({"0.00001": c["epsilons"].pop("1e-05")})),
        "FAILED",
    ),
    "ledger head": (IMAGES, edited(lambda c: c.update(ledger_head="1f" * 32)), "PASSED"),
    "short ledger head": (IMAGES, edited(lambda c: c.update(ledger_head="1f")), "FAILED"),
    "ledger head without a guarantee": (NONE, edited(lambda c: c.update(ledger_head="1f" * 32)), "FAILED"),
    "public inputs": (SAMPLED, edited(lambda c: c.update(public_inputs=[])), "FAILED"),
    "more noise": (SAMPLED, edited(scale_noise), "FAILED"),
    "epsilons": (IMAGES, edited(lambda c: c["epsilons"].update({"1e-07": 2.3})), "FAILED"),
    "groups": (SAMPLED, edited(lambda c: c["groups"].update({"2": 4.1})), "FAILED"),
    "attacker": (IMAGES, edited(lambda c: c["attacker"].update(advantage=0.07)), "FAILED"),
    "group privacy": (UNITS, edited(lambda c: c.update(group_privacy=4.7)), "FAILED"),
    "rows of a unit": (UNITS, edited(lambda c: c["schedule"]["budget"].update(rows_per_unit=3)), "FAILED"),
    "scope": (UNITS, edited(lambda c: c.update(scope="all")), "FAILED"),
    "claim without noise": (NONE, edited(lambda c: c["claim"].update(epsilon=1.0, delta=1e-5)), "FAILED"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_folders(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    base, change, outcome = CHANGES[name]
    folder = tmp_path / "shared"
    shutil.copytree(VECTORS / base, folder)
    change(folder, json.loads((folder / "certificate.json").read_text()))
    assert verify(folder).outcome == outcome
    assert minimal.main(str(folder)) == CODES[outcome]
    assert capsys.readouterr().out.splitlines()[-1] == outcome


NOT_CHECKED: dict[str, tuple[str, Change]] = {
    "weight of a stage": (UNITS, edited(lambda c: c["schedule"]["stages"][0].update(weight=0.5))),
    "slack": (IMAGES, edited(lambda c: c.update(slack="none at all"))),
}


@pytest.mark.parametrize("name", NOT_CHECKED)
def test_only_verify_knows_the_recipes_method(name: str, tmp_path: Path):
    base, change = NOT_CHECKED[name]
    folder = tmp_path / "shared"
    shutil.copytree(VECTORS / base, folder)
    change(folder, json.loads((folder / "certificate.json").read_text()))
    assert verify(folder).outcome == "FAILED"
    assert minimal.main(str(folder)) == 0


def test_documents_are_named_and_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "shared"
    shutil.copytree(VECTORS / IMAGES, folder)
    (folder / "report.html").write_text("epsilon = 0.1")
    assert minimal.main(str(folder)) == 4
    assert capsys.readouterr().out.splitlines()[-1] == "GUARANTEE PASSED, DOCUMENTS NOT COMPARED"


def test_no_folder(tmp_path: Path):
    assert minimal.main(str(tmp_path / "nothing")) == 1


@pytest.mark.parametrize(
    ("stages", "sigmas", "relation"),
    [
        ([Stage(100, 0.05)], [1.2], "add-remove"),
        ([Stage(100, 0.05)], [1.2], "replace-one"),
        ([Stage(1, 1.0), Stage(20, 0.5)], [8.0, 4.0], "add-remove"),
        ([Stage(500, 0.002)], [0.8], "add-remove"),
        ([Stage(3, 1.0), Stage(1, 1.0)], [2.0, 5.0], "replace-one"),
    ],
)
def test_epsilons_agree_with_the_package(stages: list[Stage], sigmas: list[float], relation: Any):
    schedule = Schedule(tuple(stages), tuple(sigmas), Budget(10.0, 1e-6, relation))
    events = [(stage.rounds, sigma, stage.sampling_prob) for stage, sigma in zip(stages, sigmas, strict=True)]
    curve = minimal.epsilon_curve(events, relation)
    for delta, epsilon in schedule.epsilons().items():
        assert math.isclose(curve(float(delta)), epsilon, rel_tol=1e-3)
