"""Runs with a public encoder: what the folder states, and what `verify` says with and without the file."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from contract.encoders import sha256_of, small_cnn, write_encoder

import dpdistill
import dpdistill as dp
from dpdistill.certificate.public_inputs import not_covered, public_inputs
from dpdistill.encoders import cards
from dpdistill.encoders.onnx_file import write_graph
from dpdistill.errors import DataError
from dpdistill.recipe.encoders import ENCODERS
from dpdistill.recipe.fields import to_json
from dpdistill.recipe.kernel_names import kernel_named

SETTINGS = ("rounds=2", "steps=1")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder from a run with a small encoder side by side with our scattering; the encoder's file lies elsewhere."""
    place = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(place / "cache"))
        patch.delenv(cards.VARIABLE, raising=False)
        file = write_encoder(place)
        choice = dp.RecipeChoice(
            method="decoupled-kip", encoder=f"scatternet+{file}", settings=SETTINGS, per_class=1
        )  # fmt: skip
        rng = np.random.default_rng(0)
        np.savez(place / "data.npz", X=rng.integers(0, 256, (40, 8, 8, 1), np.uint8), y=np.arange(40) % 2)
        dp.distill(place / "data.npz", choice, reading=dp.Reading(classes=2), out=place / "shared")
    return place / "shared", file


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(cards.VARIABLE, raising=False)


def test_the_folder_names_the_encoder_and_no_path(made):
    folder, file = made
    certificate = json.loads((folder / "certificate.json").read_text())
    (entry,) = certificate["public_inputs"]
    assert entry == {
        "kind": "pre-trained encoder", "sha256": sha256_of(file), "declared_by": "a test",
        "source": "small from random weights of a test, CC0-1.0, trained on no data",
    }  # fmt: skip
    assert certificate["scope"].endswith(
        f" Nor does it cover the data that trained the encoder small with sha256 {sha256_of(file)}, no data: by the "
        "word of a test they are public."
    )
    kernel = certificate["recipe"]["fields"]["kernel"]["encoder"]
    assert (kernel["kind"], kernel["weight"], kernel["second"]["size"]) == ("SideBySide", 0.5, 16)
    texts = [path.read_text() for path in folder.rglob("*") if path.suffix in (".json", ".html", ".md", ".yaml")]
    assert not any(str(file.parent) in text for text in texts)
    assert all(
        "small" in (folder / name).read_text() for name in ("report.html", "README.md") if (folder / name).exists()
    )


def test_verify_passes_without_the_file_and_compares_it_where_it_is(made, monkeypatch):
    folder, file = made

    def encoder_check(**how):
        result = dp.verify(folder, **how)
        (found,) = (check for check in result.checks if check.name == "encoder")
        return result.passed, found.passed, found.detail

    facts = "small from random weights of a test, CC0-1.0, trained on no data; declared public by a test."
    assert encoder_check() == (True, None, f"The encoder's file is not on this machine, so not compared: {facts}")
    assert encoder_check(encoder=file) == (True, True, f"The encoder's file has the stated sha256: {facts}")
    monkeypatch.setenv(cards.VARIABLE, str(file.parent))
    assert encoder_check() == (True, True, f"The encoder's file has the stated sha256: {facts}")


def test_verify_refuses_another_file(made, tmp_path):
    folder, _ = made
    other = tmp_path / "other.onnx"
    other.write_bytes(write_graph(small_cnn(seed=5)))
    result = dp.verify(folder, encoder=other)
    assert result.outcome == "FAILED"
    assert "other.onnx has another sha256 than the encoder: small from" in str(result.checks)
    assert "cannot be read" in str(dp.verify(folder, encoder=tmp_path / "none.onnx").checks)


def test_an_encoder_is_not_compared_with_a_folder_that_names_none(made, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", X=rng.integers(0, 256, (20, 8, 8, 1), np.uint8), y=np.arange(20) % 2)
    choice = dp.RecipeChoice(method="ldpdc", per_class=1)
    dp.distill(tmp_path / "d.npz", choice, reading=dp.Reading(classes=2), out=tmp_path / "plain")
    result = dp.verify(tmp_path / "plain", encoder=made[1])
    assert result.outcome == "FAILED"
    assert "An encoder's file is given, and the certificate names no encoder." in str(result.checks)


def test_a_folder_whose_list_omits_the_encoder_fails(made, tmp_path):
    folder, _ = made
    stated = json.loads((folder / "certificate.json").read_text())
    stated["public_inputs"] = []
    (tmp_path / "certificate.json").write_text(json.dumps(stated, indent=2, ensure_ascii=False) + "\n")
    assert "'public_inputs' differ from its recipe's" in str(dp.verify(tmp_path).checks)


def test_the_second_verifier_agrees(made, capsys):
    script = Path(dpdistill.__file__).with_name("verify_minimal.py")
    spec = importlib.util.spec_from_file_location("minimal", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(str(made[0]))
    out = capsys.readouterr().out
    assert "passed check_recipe" in out
    assert "FAILED" not in out


def test_a_receiver_without_the_file_learns_what_is_missing(made, tmp_path):
    """In a process of its own, since this one has read the file."""
    folder, file = made
    command = [sys.executable, "-m", "dpdistill", "evaluate", str(folder), "--test", str(folder.parent / "data.npz")]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 2
    assert f"Expected the file of the encoder small (sha256 {sha256_of(file)})" in " ".join(run.stderr.split())
    assert "Traceback" not in run.stderr


def test_an_encoder_and_a_kernel_contradict_each_other():
    with pytest.raises(DataError, match=r"^Expected --encoder or --set kernel=NAME, not both"):
        dp.RecipeChoice(encoder="efficientnet-lite0", settings=("kernel=drawn",))
    assert dp.RecipeChoice(encoder="efficientnet-lite0").settings == ("kernel=efficientnet-lite0",)


def test_equal_encoders_are_listed_once():
    kernel = to_json(kernel_named("efficientnet-lite0+2*efficientnet-lite0"))
    recipe = {"fields": {"kernel": kernel}}
    assert [each.kind for each in public_inputs(recipe)] == ["pre-trained encoder"]
    (sentence,) = not_covered(recipe)
    assert re.fullmatch(r"Nor does it cover the data that trained the encoder efficientnet-lite0 with .*", sentence)
    assert ENCODERS["efficientnet-lite0"].training_data in sentence
