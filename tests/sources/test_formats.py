"""Every format, value for value."""

from __future__ import annotations

import gzip
import io
import struct
import sys
import zipfile
from pathlib import Path

import malformed
import numpy as np
import pytest
from PIL import Image

from dpdistill.schema import DataError, Schema
from dpdistill.sources.images import cifar, digits, folders
from dpdistill.sources.load import load, recognise
from dpdistill.storage import files
from dpdistill.storage.options import Stated

IDX_X = np.random.default_rng(10).integers(0, 256, (7, 3, 5), dtype=np.uint8)
IDX_Y = np.array([5, 0, 4, 9, 2, 1, 3], np.uint8)
CIFAR_X = np.random.default_rng(11).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)


def idx_bytes(array):
    return struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def cifar_bytes(X, labels):
    planes = X.transpose(0, 3, 1, 2).reshape(len(X), -1)
    return b"".join(bytes(np.atleast_1d(k).tolist()) + row.tobytes() for k, row in zip(labels, planes, strict=True))


def write(folder: Path, contents: dict[str, bytes]) -> str:
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return str(folder)


@pytest.mark.parametrize(
    ("images", "labels", "form"),
    [
        ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", bytes),
        ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", gzip.compress),
        ("train-images.idx3-ubyte", "train-labels.idx1-ubyte", bytes),
        ("train-images-idx3-ubyte", "train-labels.idx1-ubyte", gzip.compress),
        ("emnist-letters-train-images-idx3-ubyte.gz", "emnist-letters-train-labels-idx1-ubyte.gz", gzip.compress),
    ],
)
def test_idx(tmp_path, images, labels, form):
    source = write(tmp_path, {images: form(idx_bytes(IDX_X)), labels: form(idx_bytes(IDX_Y)), "README": b"hello"})
    assert recognise(source) == "idx"
    for r in (load(source), load(tmp_path / images, part="test")):
        assert r.schema == Schema((3, 5, 1), (0.0, 255.0), tuple("0123456789"))
        np.testing.assert_array_equal(r.X[..., 0], IDX_X)
        assert r.y.tolist() == [5, 0, 4, 9, 2, 1, 3]
        assert r.notes[0] == "Classes default to 0-9: pass --classes to change."
    assert r.notes[1:] == ("The file has a single part: all of it is read as the test part.",)


def test_idx_parts_by_name(tmp_path):
    contents = {
        "train-images-idx3-ubyte": idx_bytes(IDX_X),
        "train-labels-idx1-ubyte": idx_bytes(IDX_Y),
        "t10k-images-idx3-ubyte": idx_bytes(IDX_X[:2]),
        "t10k-labels-idx1-ubyte": idx_bytes(IDX_Y[:2]),
    }
    source = write(tmp_path, contents)
    assert load(source, "train").y.tolist() == IDX_Y.tolist()
    assert load(source, "test").y.tolist() == [5, 0]


def test_idx_is_memory_mapped_and_prefers_the_plain_file(tmp_path):
    contents = {
        "train-images-idx3-ubyte": idx_bytes(IDX_X),
        "train-images-idx3-ubyte.gz": b"never read",
        "train-labels-idx1-ubyte": idx_bytes(IDX_Y),
    }
    X = load(write(tmp_path, contents)).X
    while not isinstance(X, np.memmap):
        assert X.base is not None
        X = X.base
    assert X.mode == "r"


def test_idx_stated_classes_are_used_without_a_note(tmp_path):
    contents = {"train-images-idx3-ubyte": idx_bytes(IDX_X), "train-labels-idx1-ubyte": idx_bytes(IDX_Y)}
    source = write(tmp_path, contents)
    assert load(source, classes="12").schema.classes[11] == "11"
    assert load(source, classes=12).notes == ()
    names = "t-shirt,trouser,pullover,dress,coat,sandal,shirt,sneaker,bag,boot"
    assert load(source, classes=names).schema.classes[5] == "sandal"
    assert load(source, classes="3", strict=False).y.tolist() == [-1, 0, -1, -1, 2, 1, -1]
    assert load(source, bounds="0,200").schema.bounds == (0.0, 200.0)


def test_idx_letters_are_labelled_from_1(tmp_path):
    contents = {"train-images-idx3-ubyte": idx_bytes(IDX_X), "train-labels-idx1-ubyte": idx_bytes(IDX_Y + 1)}
    r = load(write(tmp_path, contents), classes=",".join(str(k) for k in range(1, 27)))
    assert r.y.tolist() == IDX_Y.tolist()


def test_idx_without_records_is_legal_when_lenient(tmp_path):
    contents = {"train-images-idx3-ubyte": idx_bytes(IDX_X[:0]), "train-labels-idx1-ubyte": idx_bytes(IDX_Y[:0])}
    source = write(tmp_path, contents)
    with pytest.raises(DataError, match="has no records"):
        load(source)
    r = load(source, strict=False)
    assert len(r) == 0
    assert r.schema.shape == (3, 5, 1)


def test_idx_resized(tmp_path):
    flat = np.full((2, 3, 5), 77, np.uint8)
    contents = {"train-images-idx3-ubyte": idx_bytes(flat), "train-labels-idx1-ubyte": idx_bytes(IDX_Y[:2])}
    r = load(write(tmp_path, contents), resize=8)
    assert r.X.shape == (2, 8, 8, 1)
    assert (r.X == 77).all()


@pytest.mark.parametrize("form", [bytes, gzip.compress])
def test_cifar10_folder(tmp_path, form):
    suffix = ".bin.gz" if form is gzip.compress else ".bin"
    contents = {
        f"data_batch_2{suffix}": form(cifar_bytes(CIFAR_X[1:], [9, 1])),
        f"data_batch_1{suffix}": form(cifar_bytes(CIFAR_X[:1], [6])),
        f"test_batch{suffix}": form(cifar_bytes(CIFAR_X[2:], [3])),
        "batches.meta.txt": b"airplane\n",
    }
    source = write(tmp_path, contents)
    assert recognise(source) == "cifar"
    r = load(source)
    np.testing.assert_array_equal(r.X, CIFAR_X)
    assert r.y.tolist() == [6, 9, 1]
    assert r.schema == Schema((32, 32, 3), (0.0, 255.0), cifar.CIFAR10)
    assert r.schema.classes[6] == "frog"
    assert r.notes == (cifar.NOTE10,)
    test = load(source, "test")
    np.testing.assert_array_equal(test.X, CIFAR_X[2:])
    assert test.y.tolist() == [3]


@pytest.mark.parametrize("name", ["data_batch_1.bin", "anything", "anything.gz"])
def test_cifar10_file(tmp_path, name):
    content = cifar_bytes(CIFAR_X, [0, 1, 2])
    write(tmp_path, {name: gzip.compress(content) if name.endswith(".gz") else content})
    r = load(tmp_path / name, classes=list("abcdefghij"))
    np.testing.assert_array_equal(r.X, CIFAR_X)
    assert r.schema.classes[0] == "a"
    assert r.notes == ()


def test_cifar_names_that_are_numbers_are_looked_up(tmp_path):
    write(tmp_path, {"a.bin": cifar_bytes(CIFAR_X, [11, 13, 12])})
    assert load(tmp_path / "a.bin", classes="11,12,13").y.tolist() == [0, 2, 1]


def test_cifar10_that_begins_like_idx(tmp_path):
    X = CIFAR_X.copy()
    X[0, 0, :3, 0] = [0, 8, 3]
    content = cifar_bytes(X, [0, 1, 2])
    assert content[:4] == b"\0\0\x08\x03"
    write(tmp_path, {"data_batch_1.bin": content})
    assert load(tmp_path / "data_batch_1.bin").y.tolist() == [0, 1, 2]


def test_cifar100_uses_the_fine_labels(tmp_path):
    contents = {
        "train.bin": cifar_bytes(CIFAR_X, [(1, 99), (2, 0), (3, 50)]),
        "test.bin.gz": gzip.compress(cifar_bytes(CIFAR_X[:1], [(19, 7)])),
    }
    source = write(tmp_path, contents)
    r = load(source)
    assert r.y.tolist() == [99, 0, 50]
    np.testing.assert_array_equal(r.X, CIFAR_X)
    assert len(set(r.schema.classes)) == 100
    assert list(r.schema.classes) == sorted(r.schema.classes)
    assert (r.schema.classes[0], r.schema.classes[99]) == ("apple", "worm")
    assert r.notes == (cifar.NOTE100,)
    assert load(source, "test").y.tolist() == [7]


def test_cifar_is_memory_mapped(tmp_path):
    write(tmp_path, {"a.bin": cifar_bytes(CIFAR_X, [0, 1, 2])})
    assert isinstance(load(tmp_path / "a.bin").X, np.memmap)


def test_cifar_folder_of_two_kinds(tmp_path, monkeypatch):
    contents = {"data_batch_1.bin": cifar_bytes(CIFAR_X, [0, 1, 2]), "data_batch_2.bin": bytes(3074)}
    monkeypatch.setattr(cifar, "is_cifar100", lambda path, size: path.name == "data_batch_2.bin")
    with pytest.raises(DataError, match="mixes files of CIFAR-10 and CIFAR-100"):
        load(write(tmp_path, contents))


def save_npz(path: Path, compressed: bool, **arrays) -> str:
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    return str(path)


@pytest.mark.parametrize("compressed", [False, True])
def test_npz(tmp_path, compressed):
    source = save_npz(tmp_path / "d.npz", compressed, X=IDX_X, y=IDX_Y)
    assert recognise(source) == "npz"
    r = load(source, classes="10")
    assert r.schema == Schema((3, 5, 1), (0.0, 255.0), tuple("0123456789"))
    np.testing.assert_array_equal(r.X[..., 0], IDX_X)
    assert r.y.tolist() == IDX_Y.tolist()
    assert r.notes == ()
    assert load(source, "test", classes=10).notes == (
        "The file has a single part: all of it is read as the test part.",
    )


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npz_floats_in_any_order(tmp_path, compressed, order):
    X = np.asarray(IDX_X[..., None] / 255, order=order)
    labels = np.array(list("abbabab"))
    source = save_npz(tmp_path / "d.npz", compressed, images=X, labels=labels, classes=["b", "a"], bounds=[0, 1])
    r = load(source)
    np.testing.assert_array_equal(r.X, X)
    assert r.y.tolist() == [1, 0, 0, 1, 0, 1, 0]
    assert r.schema == Schema((3, 5, 1), (0.0, 1.0), ("b", "a"))
    assert load(source, bounds="-1,1").schema.bounds == (-1.0, 1.0)


@pytest.mark.parametrize("image_key", ["X", "x"])
def test_npz_parts(tmp_path, image_key):
    arrays = {f"{image_key}_train": IDX_X, "y_train": IDX_Y, f"{image_key}_test": IDX_X[:2], "y_test": IDX_Y[:2]}
    source = save_npz(tmp_path / "mnist.npz", True, **arrays)
    assert load(source, "train", classes=10).y.tolist() == IDX_Y.tolist()
    assert load(source, "test", classes=10).y.tolist() == [5, 0]


def test_npz_whole_numbers_are_names_where_names_are_and_else_indices(tmp_path):
    source = save_npz(tmp_path / "d.npz", False, X=IDX_X, y=IDX_Y % 2)
    assert load(source, classes="1,0").y.tolist() == (1 - IDX_Y % 2).tolist()
    assert load(source, classes="cat,dog").y.tolist() == (IDX_Y % 2).tolist()
    folders = sorted(str(name) for name in range(11))  # 0, 1, 10, 2, ...
    y = np.arange(11)
    source = save_npz(tmp_path / "e.npz", False, X=np.zeros((11, 2, 2), np.uint8), y=y)
    assert [folders[k] for k in load(source, classes=folders).y] == [str(label) for label in y]


def test_idx_labels_of_more_classes_than_digits(tmp_path):
    X, y = np.zeros((36, 2, 2), np.uint8), np.arange(36, dtype=np.uint8)
    write(tmp_path, {"train-images-idx3-ubyte": idx_bytes(X), "train-labels-idx1-ubyte": idx_bytes(y)})
    names = [*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", *"0123456789"]  # letters first: no digit stands for itself
    assert load(tmp_path, classes=names).y.tolist() == y.tolist()
    assert load(tmp_path, classes=36).y.tolist() == y.tolist()


def test_classes_that_a_source_names_may_be_stated_in_any_order(tmp_path):
    source = save_npz(tmp_path / "d.npz", False, X=IDX_X, y=IDX_Y % 3, classes=np.array(["cat", "dog", "3"]))
    expected = [["cat", "dog", "3"][k] for k in IDX_Y % 3]
    for names in (["cat", "dog", "3"], ["3", "cat", "dog"], ["dog", "3", "cat"]):
        assert [names[k] for k in load(source, classes=names).y] == expected
    few = load(source, classes="dog,cat", strict=False).y
    assert few.tolist() == [{"dog": 0, "cat": 1}.get(name, -1) for name in expected]
    assert load(source, classes="a,b,c").y.tolist() == (IDX_Y % 3).tolist()
    assert load(source, classes="cat,hound,3").y.tolist() == (IDX_Y % 3).tolist()  # one of them is called otherwise
    assert load(source, classes=3).y.tolist() == (IDX_Y % 3).tolist()  # as many, numbered
    with pytest.raises(DataError, match=r"d.npz numbers the class 'cat' as 0, not 1, and has no class 'hound'"):
        load(source, classes="hound,cat,3")


def test_npz_stored_is_memory_mapped(tmp_path):
    source = save_npz(tmp_path / "d.npz", False, X=IDX_X, y=IDX_Y)
    X = load(source, classes=10).X
    while not isinstance(X, np.memmap):
        assert X.base is not None
        X = X.base
    assert X.mode == "r"


def test_npz_of_the_second_version(tmp_path):
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        for name, array in (("X", IDX_X), ("y", IDX_Y)):
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, (2, 0))
    r = load(tmp_path / "d.npz", classes=10)
    np.testing.assert_array_equal(r.X[..., 0], IDX_X)
    assert r.y.tolist() == IDX_Y.tolist()


def test_npz_that_may_not_be_read(tmp_path, monkeypatch):
    source = save_npz(tmp_path / "d.npz", False, X=IDX_X, y=IDX_Y)

    def fail(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("dpdistill.sources.images.npz.zipfile.ZipFile", fail)
    with pytest.raises(DataError, match=r"d\.npz cannot be read: Permission denied\.$"):
        load(source, classes=10)


def test_npz_without_records_is_legal_when_lenient(tmp_path):
    source = save_npz(tmp_path / "d.npz", False, X=IDX_X[:0], y=IDX_Y[:0])
    with pytest.raises(DataError, match="has no records"):
        load(source, classes=10)
    assert len(load(source, classes=10, strict=False)) == 0


def png(values: np.ndarray, form: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, form)
    return stream.getvalue()


RED, GREY = np.full((4, 4, 3), (200, 10, 30), np.uint8), np.full((4, 4), 90, np.uint8)


def test_class_folders(tmp_path):
    contents = {
        "dog/b.png": png(RED),
        "dog/a.PNG": png(GREY),
        "cat/z.jpg": png(GREY, "JPEG"),
        "cat/notes.txt": b"ignored",
        "cat/._z.jpg": b"ignored",
        ".cache/x.png": b"ignored",
    }
    source = write(tmp_path, contents)
    assert recognise(source) == "folders"
    r = load(source)
    assert r.schema == Schema((4, 4, 3), (0.0, 255.0), ("cat", "dog"))
    assert r.y.tolist() == [0, 1, 1]
    assert (r.X[0] == 90).all()
    assert (r.X[1] == 90).all()
    np.testing.assert_array_equal(r.X[2], RED)
    assert r.notes == (
        "1 file is left out: 1 .txt.",
        "Images are read in colour (3 channels): pass --channels 1 for grey.",
        "Taken from the records and treated as public: classes (cat, dog), from the names of the folders of the "
        "images. Pass --classes to be independent of them.",
        "Taken from the records and treated as public: image size 4x4, from the first image. Pass --resize to be "
        "independent of them.",
    )


def test_class_folders_with_everything_stated(tmp_path):
    source = write(tmp_path, {"cat/a.png": png(GREY), "dog/b.png": png(np.full((9, 3), 8, np.uint8))})
    r = load(source, classes="dog,cow,cat", resize=6, channels=1, bounds=(0, 256))
    assert r.schema == Schema((6, 6, 1), (0.0, 256.0), ("dog", "cow", "cat"))
    assert r.y.tolist() == [2, 0]
    assert (r.X[0] == 90).all()
    assert (r.X[1] == 8).all()
    assert r.notes == ("There is no class folder of the stated classes cow: they have no records.",)
    assert r.schema.inferred == ()


@pytest.mark.parametrize(("training", "testing"), [("train", "test"), ("Train", "TEST")])
def test_class_folders_in_parts_share_the_classes_of_training(tmp_path, training, testing):
    contents = {
        f"{training}/cat/a.png": png(RED), f"{training}/dog/b.png": png(RED), f"{testing}/dog/c.png": png(GREY),
    }  # fmt: skip
    source = write(tmp_path, contents)
    assert load(source, "train").y.tolist() == [0, 1]
    test = load(source, "test")
    assert test.schema.classes == ("cat", "dog")
    assert test.y.tolist() == [1]
    assert (test.X == 90).all()


def test_classes_may_be_called_train_and_test(tmp_path):
    source = write(tmp_path, {"train/a.png": png(RED), "test/b.png": png(RED)})
    r = load(source, part="test")
    assert r.schema.classes == ("test", "train")
    assert r.notes[0] == "The folder has a single part: all of it is read as the test part."


def test_class_folders_lenient(tmp_path):
    contents = {"cat/a.png": b"broken", "cat/b.png": png(RED), "cow/c.png": png(RED), "dog/d.png": png(GREY)}
    source = write(tmp_path, contents)
    r = load(source, classes="cat,dog", resize=4, strict=False)
    assert r.y.tolist() == [-1, 0, -1, 1]
    np.testing.assert_array_equal(r.X[1], RED)
    with pytest.raises(DataError, match="Bad images can be left out only when the size is stated: pass --resize H"):
        load(source, strict=False)


def test_grey_palette_and_transparent_images_are_converted(tmp_path):
    palette = Image.fromarray(RED).convert("P", palette=Image.Palette.ADAPTIVE)
    stream = io.BytesIO()
    palette.save(stream, "PNG")
    transparent = png(np.dstack([RED, np.full((4, 4), 255, np.uint8)]))
    r = load(write(tmp_path, {"a/1.png": stream.getvalue(), "b/2.png": transparent}))
    np.testing.assert_array_equal(r.X[0], RED)
    np.testing.assert_array_equal(r.X[1], RED)


def test_decompression_warning_is_a_refusal(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 15)
    write(tmp_path, {"a.png": png(RED)})
    with pytest.raises(DataError, match="has too many pixels to be decoded safely"):
        folders.decode_file(tmp_path / "a.png", Stated())


def test_digits_split_every_fifth():
    sklearn = pytest.importorskip("sklearn.datasets", reason="the extra dpdistill[digits] is not installed")
    images, labels = sklearn.load_digits(return_X_y=True)
    train, test = load("digits:train"), load("digits:test", part="train")
    assert (len(train), len(test)) == (1438, 359)
    assert train.schema == test.schema == Schema((8, 8, 1), (0.0, 16.0), tuple("0123456789"))
    np.testing.assert_array_equal(test.X.reshape(-1, 64), images[4::5])
    assert test.y.tolist() == labels[4::5].tolist()
    assert train.y[:6].tolist() == [0, 1, 2, 3, 5, 6]
    assert train.notes == ("Classes default to 0-9: pass --classes to change.",)
    assert next(train.chunks(None, 4))[0].max() <= 1.0


def test_digits_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    digits._embedded.cache_clear()
    with pytest.raises(DataError) as refusal:
        load("digits:train")
    assert str(refusal.value) == "The digits need scikit-learn: pip install 'dpdistill[digits]'."


def test_part_must_be_one_of_two():
    with pytest.raises(DataError, match="Expected part='validation' to be 'train', 'val' or 'test'"):
        load("digits:train", part="validation")


def test_gzip_larger_than_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_UNPACKED", 5000)
    write(tmp_path, {"a.bin.gz": gzip.compress(cifar_bytes(CIFAR_X, [0, 1, 2]))})
    with pytest.raises(DataError, match="is too large to be unpacked in memory: gunzip it first"):
        load(tmp_path / "a.bin.gz")


def test_gzip_that_promises_more_than_it_can_hold(tmp_path):
    header = struct.pack(">IIII", 0x803, 1000, 28, 28)
    contents = {"train-images-idx3-ubyte": gzip.compress(header), "train-labels-idx1-ubyte": idx_bytes(IDX_Y)}
    with pytest.raises(DataError, match="is truncated: its header promises 784016 bytes"):
        load(write(tmp_path, contents))


def test_npz_larger_than_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("dpdistill.sources.images.npz.MAX_UNPACKED", 50)
    source = save_npz(tmp_path / "d.npz", True, X=IDX_X, y=IDX_Y)
    with pytest.raises(DataError, match="is too large to be unpacked in memory: save it without compression"):
        load(source, classes=10)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (PermissionError(13, "Permission denied"), "cannot be read: Permission denied."),
        (OSError("odd"), "cannot be read: input/output error."),
        (MemoryError(), "does not fit into memory."),
    ],
)
def test_failures_of_the_system(tmp_path, monkeypatch, error, sentence):
    source, _ = malformed.folder_of({"cat/a.png": png(RED), "dog/b.png": png(RED)})(tmp_path)

    def fail(*_, **__):
        raise error

    monkeypatch.setattr("dpdistill.storage.files.os.scandir", fail)
    with pytest.raises(DataError) as refusal:
        load(source)
    assert str(refusal.value) == f"{source} {sentence}"


def test_no_memory_for_the_records(tmp_path, monkeypatch):
    source = save_npz(tmp_path / "d.npz", True, X=IDX_X, y=IDX_Y)

    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("dpdistill.storage.prepare.label_indices", fail)
    with pytest.raises(DataError, match="does not fit into memory"):
        load(source, classes=10)


def test_folders_of_systems_are_no_classes(tmp_path):
    for name in ("a", "b", "__MACOSX", "@eaDir"):
        (tmp_path / name).mkdir()
        Image.new("L", (4, 4)).save(tmp_path / name / "0.png")
    assert load(tmp_path, channels=1).schema.classes == ("a", "b")


def test_pictures_are_read_as_they_are_seen(tmp_path):
    """A photograph that says how it is to be turned was read lying; deep TIFF whose zero is white as its negative."""
    for name in ("flat", "deep"):
        (tmp_path / name / "a").mkdir(parents=True)
    seen = np.zeros((16, 8), np.uint8)
    seen[:4] = 255
    exif = Image.Exif()
    exif[0x112] = 6
    Image.fromarray(np.rot90(seen)).save(tmp_path / "flat" / "a" / "0.jpg", exif=exif, quality=100)
    (found,) = load(tmp_path / "flat", channels=1, classes="a,b").X
    np.testing.assert_allclose(found[..., 0], seen, atol=8)
    deep = tmp_path / "deep" / "a"
    dark = np.full((8, 8), 1000, np.uint16)
    Image.fromarray(dark).save(deep / "0.tif")
    Image.fromarray(65535 - dark).save(deep / "1.tif", tiffinfo={262: 0})
    assert set(np.unique(load(tmp_path / "deep", channels=1, classes="a,b", bounds=(0, 65535)).X)) == {1000}


@pytest.mark.parametrize("shape", [(5, 3, 28, 28), (5, 1, 9, 12)])
def test_channels_that_stand_first_are_refused(tmp_path, shape):
    np.savez(tmp_path / "a.npz", X=np.zeros(shape, np.uint8), y=np.zeros(5, int))
    with pytest.raises(DataError, match="channels stand first, move them to the end"):
        load(tmp_path / "a.npz", classes=2, bounds=(0, 255))
