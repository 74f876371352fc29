"""Encoders by name and by hash: cards, folders, links, and what a recipe states of them."""

import dataclasses
import json
import os

import pytest
from contract.encoders import CARD, sha256_of, small_cnn, write_encoder

from dpdistill.encoders import cards
from dpdistill.encoders.onnx_file import write_graph
from dpdistill.errors import DataError
from dpdistill.recipe.build import from_json, shown
from dpdistill.recipe.encoders import ENCODERS, PublicEncoder, SideBySide, encoder_named
from dpdistill.recipe.fields import to_json
from dpdistill.recipe.kernel_names import kernel_named, name_of_kernel
from dpdistill.recipe.kernels import KERNELS, FeatureKernel

LITE0 = ENCODERS["efficientnet-lite0"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(cards.VARIABLE, raising=False)


def test_a_file_is_named_by_its_path_its_folder_or_its_name(tmp_path, monkeypatch):
    file = write_encoder(tmp_path)
    found = encoder_named(str(file))
    assert found == encoder_named(str(tmp_path))
    assert (found.name, found.sha256, found.size) == ("small", sha256_of(file), 16)
    assert (found.mean, found.scale, found.outputs) == ((0.5, 0.5, 0.5), (0.25, 0.25, 0.5), ("block", "features"))
    assert (found.licence, found.declared_by) == ("CC0-1.0", "a test")
    with pytest.raises(DataError, match="'small' is neither"):
        encoder_named("small")
    monkeypatch.setenv(cards.VARIABLE, os.pathsep.join(["/nowhere", str(tmp_path)]))
    assert encoder_named("small") == found


def test_a_named_file_is_found_again_by_its_hash_and_by_no_other(tmp_path, monkeypatch):
    file = write_encoder(tmp_path)
    found = encoder_named(str(file))
    assert cards.read_by_hash(found.sha256, "small") == file.read_bytes()
    assert cards._cached(found.sha256).is_symlink()
    file.write_bytes(write_graph(small_cnn(seed=9)))
    with pytest.raises(DataError, match=rf"^Expected the file of the encoder small \(sha256 {found.sha256}\) on this"):
        cards.read_by_hash(found.sha256, "small")
    folder = tmp_path / "others"
    folder.mkdir()
    write_encoder(folder, name="moved")
    monkeypatch.setenv(cards.VARIABLE, str(folder))
    assert cards.read_by_hash(found.sha256, "small") == (folder / "moved.onnx").read_bytes()


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file instead of a folder")
    file = write_encoder(tmp_path)
    found = encoder_named(str(file))
    with pytest.raises(DataError, match="on this machine"):
        cards.read_by_hash(found.sha256, "small")
    monkeypatch.setenv(cards.VARIABLE, str(tmp_path))
    assert cards.read_by_hash(found.sha256, "small") == file.read_bytes()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"sha256": "0" * 64}, "states another sha256 than the file has"),
        ({"licence": None}, "cannot be used: Expected licence as a word"),
        ({"licence": "two\nlines"}, "Expected licence in 1 to 300 printable characters"),
        ({"source": " "}, "Expected source in 1 to 300 printable characters"),
        ({"size": 4}, "Expected 8 <= size=4 <= 1024"),
        ({"mean": [0.5]}, "Expected mean and scale of one number .grey. or three .colours."),
        ({"mean": [0.5, 0.5], "scale": [1, 1]}, "Expected mean and scale of one number"),
        ({"scale": [0, 1, 1]}, "Expected 0 < scale"),
        ({"mean": 0.5}, r"Expected mean in small\.card\.yaml as a list; got 0\.5"),
        ({"outputs": [1]}, r"Expected outputs in small\.card\.yaml as a list"),
        ({"outputs": []}, "Expected outputs as 1 to 16 different names"),
        ({"outputs": ["a", "a"]}, "Expected outputs as 1 to 16 different names"),
        ({"weights": 1}, "got 'weights'"),
        ({"name": "a+b"}, "Expected name of letters, digits"),
    ],
)
def test_a_card_is_checked(tmp_path, changed, sentence):
    file = write_encoder(tmp_path)
    write_encoder(tmp_path, **changed) if "name" not in changed else None
    if "name" in changed:
        card = tmp_path / "small.card.yaml"
        card.write_text(card.read_text().replace("name: small", f"name: {changed['name']}"))
    with pytest.raises(DataError, match=sentence):
        encoder_named(str(file))


def test_a_card_must_exist_and_be_complete(tmp_path):
    file, card = write_encoder(tmp_path), tmp_path / "small.card.yaml"
    card.write_text("name: small\n")
    with pytest.raises(DataError, match=r"^Expected size, mean, scale, outputs, source, licence, training_data"):
        encoder_named(str(file))
    for text in ("- a\n", "a: [", "x" * (cards.MOST_CARD + 1)):
        card.write_text(text)
        with pytest.raises(DataError, match=r"^Expected YAML in small\.card\.yaml, with name, size"):
            encoder_named(str(file))
    card.unlink()
    with pytest.raises(DataError, match=r"^Expected the card small\.card\.yaml next to small\.onnx"):
        encoder_named(str(file))
    write_encoder(tmp_path, name="other")
    with pytest.raises(DataError, match=r"^Expected one .onnx file in .*; got 2: name the file"):
        encoder_named(str(tmp_path))


def test_a_file_above_two_gigabytes_is_not_hashed(tmp_path):
    file = write_encoder(tmp_path)
    with file.open("r+b") as opened:
        opened.truncate(2**31 + 1)
    with pytest.raises(DataError, match=r"^Expected small\.onnx of at most 2 GiB; got 2\.0 GiB"):
        encoder_named(str(file))


def test_facts_of_a_recipe_are_saved_and_read():
    for encoder in (LITE0, dataclasses.replace(LITE0, name="other", mean=(0.5,), scale=(0.5,), outputs=("a",))):
        kernel = FeatureKernel(SideBySide(KERNELS["drawn"].encoder, encoder, 0.25))  # type: ignore[attr-defined]
        assert from_json(json.loads(json.dumps(to_json(kernel)))) == kernel
        assert from_json(json.loads(json.dumps(to_json(FeatureKernel(encoder))))) == FeatureKernel(encoder)


def test_a_strangers_recipe_names_no_file(tmp_path):
    """What a folder states is facts and a hash: no path in it is opened."""
    stated = {**to_json(LITE0), "name": str(write_encoder(tmp_path))}
    with pytest.raises(ValueError, match=r"^Expected name of letters, digits"):
        from_json(stated)
    with pytest.raises(ValueError, match=r"^Expected sha256 of 64 hexadecimal digits"):
        from_json({**to_json(LITE0), "sha256": "../x"})


@pytest.mark.parametrize(
    "name",
    ["drawn", "efficientnet-lite0", "drawn+efficientnet-lite0", "drawn+3*efficientnet-lite0", "2*drawn+3*scatternet",
     "drawn+scatternet+efficientnet-lite0", "fc-ntk"],
)  # fmt: skip
def test_a_name_is_that_of_its_kernel(name):
    assert name_of_kernel(kernel_named(name)) == name
    assert shown(kernel_named(name)) == name


def test_weights_of_a_sum_are_shares():
    encoder = kernel_named("drawn+scatternet+2*efficientnet-lite0").encoder  # type: ignore[attr-defined]
    assert encoder.weight == 0.5
    assert encoder.first.weight == 0.5
    assert encoder.second == LITE0
    odd = FeatureKernel(dataclasses.replace(encoder, weight=0.123456789))
    assert name_of_kernel(odd) is None
    assert shown(odd) == repr(odd)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nothing", "^Unknown kernel 'nothing': choose among fc-ntk, .*, efficientnet-lite0, or name an encoder"),
        ("drawn+fc-ntk", r"^Expected kernels of fixed features in a sum; got 'fc-ntk' in kernel='drawn\+fc-ntk'"),
        ("drawn+", r"^Expected a sum of kernels as drawn\+2\*efficientnet-lite0; got kernel='drawn\+'"),
        ("+drawn", r"^Unknown kernel '\+drawn'"),
        ("no/such.onnx", "^Expected an encoder: FILE.onnx with its card"),
        ("0*drawn+drawn", r"^Unknown kernel '0\*drawn'"),
    ],
)
def test_other_names_are_refused(name, sentence):
    with pytest.raises(DataError, match=sentence):
        kernel_named(name)


def test_the_facts_of_a_card_are_those_of_a_recipe():
    fields = {field.name for field in dataclasses.fields(PublicEncoder)}
    assert fields == {*cards.KEYS, "sha256"}
    assert {*CARD} == {*cards.KEYS}
