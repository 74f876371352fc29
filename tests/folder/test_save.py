"""The public folder's records: written, read back, never over somebody's files."""

from __future__ import annotations

import dataclasses
import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dpdistill.folder.pictures import draw_grid, to_picture
from dpdistill.folder.save import check_output, folder_names, read_distilled, write_distilled
from dpdistill.method import Distilled
from dpdistill.schema import DataError, Schema
from dpdistill.sources.load import load
from dpdistill.storage.atomic import write_atomically

SCHEMA = Schema((4, 4, 1), (0.0, 255.0), ("cat", "dog"))
X = np.linspace(-1, 1, 3 * 16, dtype=np.float32).reshape(3, 4, 4, 1)
Y = np.array([0, 1, 1], np.int32)
TARGETS = np.array([[0.5, -0.25], [-1.0, 3.0], [0.125, 1e-3]])
CLASSIFIER = np.linspace(-2, 2, 10).reshape(5, 2)
PLAIN, LARGE = Distilled(X, Y, SCHEMA), Distilled(X, Y, SCHEMA, (X, Y), TARGETS, CLASSIFIER)


def test_round_trip(tmp_path):
    write_distilled(tmp_path / "out", Distilled(X, Y, SCHEMA, (X[:2] / 2, Y[:2])))
    back = read_distilled(tmp_path / "out")
    np.testing.assert_allclose(back.X, X, atol=1e-6)
    assert (back.X.dtype, back.y.dtype) == (np.float32, np.int32)
    assert back.y.tolist() == [0, 1, 1]
    assert back.schema == SCHEMA
    assert back.training is not None
    np.testing.assert_allclose(back.training[0], X[:2] / 2, atol=1e-6)
    assert back.training[1].tolist() == [0, 1]
    assert back.targets is back.classifier is None


def test_soft_labels_come_back_if_they_are_probabilities(tmp_path):
    soft = np.array([[0.75, 0.25], [0.0, 1.0], [0.5, 0.5]], np.float32)
    write_distilled(tmp_path, dataclasses.replace(PLAIN, soft_labels=soft))
    np.testing.assert_array_equal(read_distilled(tmp_path).soft_labels, soft)
    write_distilled(tmp_path, PLAIN)
    assert read_distilled(tmp_path).soft_labels is None
    for bad in (soft + 0.1, soft - [0.5, -0.5], soft[:2], soft * np.nan):
        with pytest.raises(DataError, match="soft_labels"):
            write_distilled(tmp_path, dataclasses.replace(PLAIN, soft_labels=bad))


def test_soft_labels_are_those_of_the_records_to_train_on(tmp_path):
    soft, tiles = np.array([[0.75, 0.25], [0.0, 1.0]], np.float32), (PLAIN.X[:2] / 2, PLAIN.y[:2])
    made = dataclasses.replace(PLAIN, training=tiles, soft_labels=soft)
    write_distilled(tmp_path, made)
    np.testing.assert_array_equal(read_distilled(tmp_path).soft_labels, soft)
    with np.load(tmp_path / "synthetic.npz") as stored:
        assert "soft_labels" not in stored
    with pytest.raises(DataError, match=re.escape("Expected soft_labels of shape (2, 2); got (3, 2).")):
        write_distilled(tmp_path, dataclasses.replace(made, soft_labels=np.full((3, 2), 0.5)))
    write_distilled(tmp_path, dataclasses.replace(PLAIN, training=tiles))
    assert read_distilled(tmp_path).soft_labels is None


def test_targets_and_a_classifier_come_back(tmp_path):
    write_distilled(tmp_path, LARGE)
    back = read_distilled(tmp_path)
    np.testing.assert_array_equal(back.targets, TARGETS.astype(np.float32))
    np.testing.assert_array_equal(back.classifier, CLASSIFIER.astype(np.float32))
    assert back.targets.dtype == back.classifier.dtype == np.float32
    with np.load(tmp_path / "synthetic.npz") as saved:
        np.testing.assert_array_equal(saved["targets"], TARGETS.astype(np.float32))
    assert load(tmp_path / "synthetic.npz").y.tolist() == [0, 1, 1]


def test_synthetic_file_is_a_source(tmp_path):
    write_distilled(tmp_path, PLAIN)
    r = load(tmp_path / "synthetic.npz")
    assert r.schema == SCHEMA
    assert r.X.dtype == np.float32
    np.testing.assert_allclose(r.X, (X + 1) * 127.5, atol=1e-4)
    np.testing.assert_allclose(next(r.chunks(None, 3))[0], X, atol=1e-6)
    with np.load(tmp_path / "synthetic.npz") as saved:
        assert sorted(saved) == ["X", "bounds", "classes", "y"]
        assert saved["y"].dtype == np.int64
        assert saved["bounds"].tolist() == [0.0, 255.0]


def test_classes_that_are_numbers_come_back_as_they_were(tmp_path):
    schema = Schema((4, 4, 1), (0.0, 255.0), ("2", "1"))
    write_distilled(tmp_path, Distilled(X, Y, schema))
    assert read_distilled(tmp_path).y.tolist() == [0, 1, 1]
    assert load(tmp_path / "synthetic.npz").y.tolist() == [0, 1, 1]
    assert load(tmp_path / "synthetic.npz", classes="2,1").y.tolist() == [0, 1, 1]


def test_class_folders_are_a_source(tmp_path):
    write_distilled(tmp_path, PLAIN)
    r = load(tmp_path / "images", channels=1)
    assert r.schema == SCHEMA
    assert r.y.tolist() == [0, 1, 1]
    np.testing.assert_allclose(r.X, (X + 1) * 127.5, atol=0.5)


def test_same_bytes_without_any_time(tmp_path):
    write_distilled(tmp_path / "a", LARGE)
    write_distilled(tmp_path / "b", LARGE)
    written = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*") if p.is_file())
    assert [str(p) for p in written] == [
        "classifier.npz",
        "images/cat/000.png",
        "images/dog/000.png",
        "images/dog/001.png",
        "synthetic.npz",
        "synthetic.png",
        "training.npz",
    ]
    for name in written:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    with zipfile.ZipFile(tmp_path / "a" / "synthetic.npz") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_written_again_leaves_nothing_old_and_nothing_foreign(tmp_path):
    write_distilled(tmp_path, LARGE)
    (tmp_path / "images" / "dog" / "holiday.png").write_bytes(b"mine")
    (tmp_path / "notes.txt").write_bytes(b"mine")
    write_distilled(tmp_path, Distilled(X[:1], Y[:1], SCHEMA))
    left = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    expected = ["images/cat/000.png", "images/dog/holiday.png", "notes.txt", "synthetic.npz", "synthetic.png"]
    assert left == expected
    back = read_distilled(tmp_path)
    assert back.training is back.targets is back.classifier is None


def test_pictures(tmp_path):
    assert np.asarray(to_picture(np.full((1, 2, 1), [[[-1], [1]]]))).tolist() == [[0, 255]]
    colour = np.array([[[-1.0, 0.0, 1.0]]])
    assert np.asarray(to_picture(colour)).tolist() == [[[0, 128, 255]]]
    assert np.asarray(to_picture(np.array([[[-1.0, 1.0]]]))).tolist() == [[128]]
    schema = Schema((2, 2, 3), (0.0, 1.0), ("a/b", "猫"))
    write_distilled(tmp_path, Distilled(np.ones((2, 2, 2, 3)), np.array([0, 1]), schema))
    assert (np.asarray(Image.open(tmp_path / "images" / "a_b" / "000.png")) == 255).all()
    assert (tmp_path / "images" / "猫" / "000.png").is_file()


def test_grid_has_a_row_a_class_enlarged_without_smoothing():
    blacks, mid = np.full((3, 4, 4, 1), -1.0), np.zeros((2, 4, 4, 1))
    grid = np.asarray(draw_grid(np.concatenate([blacks, mid]), np.array([0, 0, 0, 1, 1]), ("a", "b")))
    step, tile = 98, 96
    assert grid.shape[0] == 2 * step + 2
    right = grid[:, -(3 * step) :]
    for row, level, count in ((0, 0, 3), (1, 128, 2)):
        for column in range(count):
            top, left = 2 + row * step, column * step
            assert (right[top : top + tile, left : left + tile] == level).all()
    assert (right[2 + step : 2 + step + tile, 2 * step :] == 255).all()
    names = grid[:, : -(3 * step)]
    assert names[:step].min() < 100
    assert names[step:].min() < 100


def test_small_pictures_are_enlarged_smoothly_and_others_are_not():
    for side, smooth in ((8, True), (11, True), (12, False), (28, False)):
        edge = np.where(np.arange(side) < side // 2, -1.0, 1.0)[None, None, :, None] * np.ones((1, side, side, 1))
        levels = np.unique(np.asarray(draw_grid(edge, np.array([0]), ("a",)))[20, -90:])
        assert (len(levels) > 3) == smooth, side
        assert {0, 255} <= {*levels.tolist()}


def test_grid_of_many_is_bounded():
    grid = draw_grid(np.zeros((130, 2, 2, 1)), np.arange(130) % 2, tuple(f"class {k}" for k in range(300)))
    assert grid.height < 10_000
    assert grid.width < 3_300


def test_folder_names():
    names = ("cat", "Cat", "a/b", "a\\b", "..", "con", "x" * 90, ".hidden", "NUL.txt", "grün")
    expected = ["cat", "Cat-2", "a_b", "a_b-2", "class", "con_", "x" * 60, "hidden", "NUL.txt_", "grün"]
    assert folder_names(names) == expected


def test_unfinished_file_leaves_the_old_one(tmp_path):
    (tmp_path / "a").write_bytes(b"old")

    def fail(file):
        file.write(b"half")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_atomically(tmp_path / "a", fail)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        (X[:, :3], Y, "Expected synthetic X of shape (m, 4, 4, 1), m >= 1; got (3, 3, 4, 1)."),
        (X[:0], Y[:0], "Expected synthetic X of shape (m, 4, 4, 1), m >= 1; got (0, 4, 4, 1)."),
        (X * np.nan, Y, "Expected a synthetic set of finite values; got NaN or infinity."),
        (X, Y[:2], "Expected one class index from 0 to 1 for each synthetic record."),
        (X, Y - 1, "Expected one class index from 0 to 1 for each synthetic record."),
        (X, Y + 1, "Expected one class index from 0 to 1 for each synthetic record."),
    ],
)
def test_refuses_to_write(tmp_path, x, y, sentence):
    for distilled in (Distilled(x, y, SCHEMA), Distilled(X, Y, SCHEMA, (x, y))):
        with pytest.raises(DataError) as refusal:
            write_distilled(tmp_path, distilled)
        assert str(refusal.value) == sentence
    assert os.listdir(tmp_path) == []


UNFIT = [
    ("targets", TARGETS[:2], "Expected targets of shape (3, 2); got (2, 2)."),
    ("targets", TARGETS[:, :1], "Expected targets of shape (3, 2); got (3, 1)."),
    ("targets", TARGETS[0], "Expected targets of shape (3, 2); got (2,)."),
    ("targets", TARGETS * np.nan, "Expected finite targets; got NaN or infinity."),
    ("classifier", CLASSIFIER.T, "Expected classifier of shape (d, 2); got (2, 5)."),
    ("classifier", CLASSIFIER[:0], "Expected classifier of shape (d, 2); got (0, 2)."),
    ("classifier", CLASSIFIER * 1e300, "Expected finite classifier; got NaN or infinity."),
]


@pytest.mark.parametrize(("name", "value", "sentence"), UNFIT)
def test_refuses_what_does_not_belong_to_the_records(tmp_path, name, value, sentence):
    with pytest.raises(DataError) as refusal:
        write_distilled(tmp_path / "out", dataclasses.replace(PLAIN, **{name: value}))
    assert str(refusal.value) == sentence
    assert not (tmp_path / "out").exists()
    write_distilled(tmp_path, PLAIN)
    if name == "classifier":
        np.savez(tmp_path / "classifier.npz", classifier=value)
    else:
        np.savez(tmp_path / "synthetic.npz", X=X, y=Y, classes=["cat", "dog"], bounds=[0, 255], targets=value)
    with pytest.raises(DataError) as refusal:
        read_distilled(tmp_path)
    assert str(refusal.value) == sentence


def test_refuses_to_read_a_classifier_that_is_none(tmp_path):
    write_distilled(tmp_path, PLAIN)
    np.savez(tmp_path / "classifier.npz", weights=CLASSIFIER)
    with pytest.raises(DataError, match=r"classifier\.npz has no array 'classifier'\.$"):
        read_distilled(tmp_path)
    np.savez(tmp_path / "classifier.npz", classifier=np.array([["a", "b"]]))
    with pytest.raises(DataError, match=r"Expected classifier of numbers; got <U1\.$"):
        read_distilled(tmp_path)
    (tmp_path / "classifier.npz").write_bytes(b"weights")
    with pytest.raises(DataError, match=r"classifier\.npz is not a \.npz file"):
        read_distilled(tmp_path)


def test_refuses_to_write_into_a_file(tmp_path):
    (tmp_path / "out").write_bytes(b"")
    with pytest.raises(DataError, match=r"out cannot be written: File exists\.$"):
        write_distilled(tmp_path / "out", PLAIN)


def test_refuses_to_read(tmp_path):
    with pytest.raises(DataError, match="missing is not a folder with a synthetic set"):
        read_distilled(tmp_path / "missing")
    with pytest.raises(DataError, match=r"Expected synthetic\.npz in .*; it does not exist"):
        read_distilled(tmp_path)
    (tmp_path / "synthetic.npz").mkdir()
    with pytest.raises(DataError, match=r"Expected synthetic\.npz in .*; it does not exist"):
        read_distilled(tmp_path)
    (tmp_path / "synthetic.npz").rmdir()
    np.savez(tmp_path / "synthetic.npz", X=X, y=Y)
    with pytest.raises(DataError, match=r"Expected arrays X, y, classes and bounds in .*; it has no classes, bounds"):
        read_distilled(tmp_path)
    np.savez(tmp_path / "synthetic.npz", X=X, y=Y[:2], classes=["a", "b"], bounds=[0, 1])
    with pytest.raises(DataError, match=r"Expected y of shape \(3,\), integers"):
        read_distilled(tmp_path)
    np.savez(tmp_path / "synthetic.npz", X=X, y=Y + 5, classes=["a", "b"], bounds=[0, 1])
    with pytest.raises(DataError, match=r"Expected labels 0 to 1 in .*; got 5 to 6"):
        read_distilled(tmp_path)
    write_distilled(tmp_path, PLAIN)
    np.savez(tmp_path / "training.npz", X=X, y=Y, classes=["a", "b"], bounds=[0, 1])
    with pytest.raises(DataError, match=r"has a training\.npz that does not belong to its synthetic\.npz"):
        read_distilled(tmp_path)


def test_output_may_be_new_empty_or_an_earlier_result(tmp_path):
    assert check_output(tmp_path / "new" / "deeper") == (tmp_path / "new" / "deeper").resolve()
    for ending in (".run", ".audit"):
        with pytest.raises(
            DataError, match="has the name of an owner's folder, which is never shared: choose an output"
        ):
            check_output(tmp_path / f"new{ending}")
    assert not (tmp_path / "new").exists()
    assert check_output(tmp_path) == tmp_path.resolve()
    for name in ("recipe.json", "certificate.json"):
        (tmp_path / name).write_text("{}")
        assert check_output(tmp_path, overwrite=True) == tmp_path.resolve()
        with pytest.raises(DataError, match="is not empty: choose another folder, or pass --overwrite"):
            check_output(tmp_path)
        (tmp_path / name).unlink()


def test_output_is_never_somebody_elses(tmp_path):
    (tmp_path / "holiday.png").write_bytes(b"mine")
    with pytest.raises(DataError, match="is not empty"):
        check_output(tmp_path)
    with pytest.raises(DataError, match="holds files that are not an earlier result: choose another"):
        check_output(tmp_path, overwrite=True)


def test_output_is_never_the_root_home_or_working_folder(tmp_path, monkeypatch):
    home, work = tmp_path / "home" / "me", tmp_path / "work" / "here"
    home.mkdir(parents=True)
    work.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    (tmp_path / "link").symlink_to(home)
    (work / "recipe.json").write_text("{}")
    for folder in ("/", home, home.parent, work, work.parent, ".", "..", tmp_path / "link"):
        for overwrite in (False, True):
            with pytest.raises(DataError, match="is or holds your home or working folder"):
                check_output(folder, overwrite)
    assert check_output("result") == work.resolve() / "result"
    assert check_output(home / "result") == home.resolve() / "result"


def test_output_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(DataError, match="is a file; expected a folder for the output"):
            check_output(folder)
    for folder in ("", "a\0b"):
        with pytest.raises(DataError, match="Expected a folder for the output; got an empty or impossible path"):
            check_output(folder)
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(DataError, match=r"is a loop of links|Too many levels"):
        check_output(tmp_path / "a")
    monkeypatch.setattr("dpdistill.folder.save.os.access", lambda *_: False)
    with pytest.raises(DataError, match="cannot be written to"):
        check_output(tmp_path / "new")


def test_nothing_but_public_types_is_imported():
    folder = Path(load.__code__.co_filename).parent
    for module in folder.glob("*.py"):
        for line in module.read_text().splitlines():
            if line.startswith(("from dpdistill", "import dpdistill")):
                assert line.split()[1].startswith(("dpdistill.sources", "dpdistill.storage", "dpdistill.schema"))
            assert "import jax" not in line


def test_facts_that_were_taken_from_the_records_stay_with_the_set(tmp_path):
    schema = Schema((2, 2, 1), (0.0, 1.0), ("a", "b"), inferred=("classes", "image size"))
    X, y = np.zeros((2, 2, 2, 1), np.float32), np.array([0, 1], np.int32)
    write_distilled(tmp_path / "new", Distilled(X, y, schema))
    assert read_distilled(tmp_path / "new").schema.inferred == ("classes", "image size")
    with np.load(tmp_path / "new" / "synthetic.npz") as arrays:
        np.savez(tmp_path / "odd.npz", **{**arrays, "inferred": np.zeros(2)})
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd.npz").rename(tmp_path / "odd" / "synthetic.npz")
    with pytest.raises(DataError, match="Expected inferred as a list of names"):
        read_distilled(tmp_path / "odd")


def test_pictures_show_what_is_read_back(tmp_path):
    """A pixel between two levels falls on the same side before and after it is stored."""
    edges = np.nextafter((np.arange(255) + 0.5) / 127.5 - 1.0, np.array([[-2.0], [2.0]])).astype(np.float32).ravel()
    X = np.resize(edges, (510, 1, 1, 1)) * np.ones((1, 8, 8, 1), np.float32)
    y, schema = np.arange(510) % 2, Schema((8, 8, 1), (0.0, 255.0), ("a", "b"))
    write_distilled(tmp_path / "set", Distilled(X, y, schema))
    back = read_distilled(tmp_path / "set")
    with Image.open(tmp_path / "set" / "synthetic.png") as picture:
        np.testing.assert_array_equal(np.asarray(picture), np.asarray(draw_grid(back.X, back.y, schema.classes)))
