"""The shared folder is read as a stranger's: names, limits, and nothing that grows while it is read."""

from __future__ import annotations

import json
import os
import zipfile

import numpy as np
import pytest

from dpdistill.folder import layout as shared
from dpdistill.folder.layout import is_listed, list_files, looks_listed, read_arrays, read_json, read_object
from dpdistill.folder.save import read_distilled, read_generator, write_distilled
from dpdistill.method import Distilled
from dpdistill.publish.report.folder import read_folder
from dpdistill.schema import Column, DataError, Schema, TableSchema

SCHEMA = Schema((4, 4, 1), (0.0, 255.0), ("cat", "dog"))
COMPRESSED = "Expected arrays without compression in .*; found compressed ones"


def write(folder):
    write_distilled(folder, Distilled(np.zeros((2, 4, 4, 1), np.float32), np.array([0, 1], np.int32), SCHEMA))
    for name in ("certificate.json", "recipe.json"):
        (folder / name).write_text("{}")


def test_a_bomb_is_not_unpacked(tmp_path):
    bomb = tmp_path / "bomb.npz"
    facts = {"y": np.zeros(1, np.int64), "classes": np.array(["a", "b"]), "bounds": np.array([0.0, 1.0])}
    np.savez_compressed(bomb, X=np.zeros((1, 1, 1 << 24, 1), np.float32), **facts)  # 64 MiB
    assert bomb.stat().st_size < 70_000
    for name in ("training.npz", "classifier.npz", "synthetic.npz"):
        write(tmp_path / name)
        (tmp_path / name / name).write_bytes(bomb.read_bytes())
        with pytest.raises(DataError, match=COMPRESSED):
            read_distilled(tmp_path / name)
    with pytest.raises(DataError, match=COMPRESSED):
        read_folder(tmp_path / "synthetic.npz")
    (tmp_path / "generator.npz").write_bytes(bomb.read_bytes())
    with pytest.raises(DataError, match=COMPRESSED):
        read_generator(tmp_path)


@pytest.mark.parametrize("place", ["directory", "both"])
def test_a_directory_that_lies_about_compression(tmp_path, place):
    """What says that it is stored is never unpacked: its bytes are those of the file, or it is damaged."""
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros(1 << 20))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    at = content.index(b"PK\x01\x02")
    content[at + 10 : at + 12] = b"\0\0"  # method: stored
    if place == "both":
        content[8:10] = b"\0\0"
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError, match="is damaged"):
        read_arrays(tmp_path / "a.npz")


def test_a_directory_that_lies_about_sizes(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.zeros(10))
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        content = archive.read("X.npy").replace(b"(10,)", b"(9999999999,)").replace(b"        \n", b"\n")
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("X.npy", content)
    with pytest.raises(DataError, match="another size than its header promises"):
        read_arrays(tmp_path / "b.npz")
    content = bytearray((tmp_path / "a.npz").read_bytes())
    at = content.index(b"PK\x01\x02")
    for field in (20, 24):  # compressed and plain size
        content[at + field : at + field + 4] = (1 << 30).to_bytes(4, "little")
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"damaged|another size"):
        read_arrays(tmp_path / "a.npz")


def test_arrays_are_mapped(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.arange(5), empty=np.zeros((0, 7)))
    arrays = read_arrays(tmp_path / "a.npz")
    assert isinstance(arrays["X"], np.memmap)
    assert arrays["X"].tolist() == [0, 1, 2, 3, 4]
    assert arrays["empty"].shape == (0, 7)


def test_json_has_a_limit(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text('{"a": 1}')
    monkeypatch.setattr(shared, "MAX_JSON", 8)
    assert read_json(path) == {"a": 1}
    path.write_text('{"a": 11}')
    with pytest.raises(DataError, match=r"Expected at most 0 MiB of JSON in .*a\.json; it is larger"):
        read_json(path)
    assert shared.MAX_JSON == 8


def test_a_schema_in_an_archive_has_a_limit(tmp_path, monkeypatch):
    schema = TableSchema((Column("age", "integer", (0.0, 1.0)),), "y", ("no", "yes"))
    np.savez(tmp_path / "synthetic.npz", X=np.zeros((1, 1)), y=np.zeros(1, int), schema=json.dumps(schema.to_json()))
    assert shared.read_labelled(tmp_path / "synthetic.npz").schema == schema
    monkeypatch.setattr(shared, "MAX_JSON", 8)
    with pytest.raises(DataError, match="Expected the schema of a table as JSON text"):
        shared.read_labelled(tmp_path / "synthetic.npz")


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '[{"b": {"a": 1, "c": 2, "a": 3}}]'])
def test_no_name_is_there_twice(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError, match=r"Expected each name once in an object of .*a\.json; found a duplicate"):
        read_json(tmp_path / "a.json")


def test_what_is_no_object(tmp_path):
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(DataError, match=r"Expected a JSON object in .*a\.json; got list"):
        read_object(tmp_path / "a.json")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "certificate.json")
    os.mkfifo(tmp_path / "synthetic.csv")
    with pytest.raises(DataError, match=r"Expected certificate\.json in"):
        read_json(tmp_path / "certificate.json")
    assert shared.hash_files(tmp_path) == {}
    assert list_files(tmp_path) == ["certificate.json", "synthetic.csv"]


def test_names():
    for name in (*shared.LISTED, "images/cat/000.png", "images/b_c/1000.png"):
        assert is_listed(name)
        assert looks_listed(name)
    documents = [name for name in shared.UNLISTED if name not in ("README.md", "predict.py")]
    assert len(documents) == 5
    for name in (*documents, "images/000.png", "images/a/b/000.png", "images/a/00.png", "images/a/me.png"):
        assert not is_listed(name)
        assert looks_listed(name)
    for name in ("README", "README.md", "predict.py", "LICENSE.txt", "records.pkl", "png", "notes/images"):
        assert not looks_listed(name)
        assert not is_listed(name)


def test_everything_below_is_found(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / ".hidden").touch()
    (tmp_path / "z").symlink_to(tmp_path / "a")
    assert list_files(tmp_path) == ["a/b/.hidden", "z"]
