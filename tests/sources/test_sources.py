"""Sets as other libraries write them, each from a file made by its own library, value for value."""

from __future__ import annotations

import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat
from test_formats import cifar_bytes, png, save_npz, write

from dpdistill import Budget, distill
from dpdistill.methods import LDPDC
from dpdistill.run.serialize import digest_records
from dpdistill.schema import DataError, Schema
from dpdistill.sources.images import archives, cifar
from dpdistill.sources.load import load, recognise

RNG = np.random.default_rng(20)
COLOUR = RNG.integers(0, 256, (6, 28, 28, 3), dtype=np.uint8)
SMALL = RNG.integers(0, 256, (4, 5, 5, 3), dtype=np.uint8)
DEEP = RNG.integers(0, 65_536, (2, 6, 4), dtype=np.uint16)
LABELS = np.array([[0], [1], [2], [2], [1], [0]], np.uint8)


def refusal(source, **options) -> str:
    """The one sentence with which a source is refused."""
    with pytest.raises(DataError) as refused:
        load(source, **options)
    text = str(refused.value)
    assert text.endswith(".")
    assert text.isprintable()
    return text


class TestMedMNIST:
    def arrays(self, X=COLOUR, y=LABELS):
        parts = {"train": slice(0, 3), "val": slice(3, 5), "test": slice(5, 6)}
        values = {"images": X, "labels": y}
        return {f"{part}_{what}": v[rows] for part, rows in parts.items() for what, v in values.items()}

    @pytest.mark.parametrize("compressed", [False, True])
    @pytest.mark.parametrize("X", [COLOUR, COLOUR[..., 0]])
    def test_parts(self, tmp_path, X, compressed):
        source = save_npz(tmp_path / "pathmnist.npz", compressed, **self.arrays(X))
        assert recognise(source) == "npz"
        found = [load(source, part, classes=3) for part in ("train", "val", "test")]
        np.testing.assert_array_equal(np.concatenate([r.X for r in found]), X.reshape(6, 28, 28, -1))
        assert [r.y.tolist() for r in found] == [[0, 1, 2], [2, 1], [0]]
        assert found[0].schema == Schema((28, 28, X.reshape(6, 28, 28, -1).shape[3]), (0.0, 255.0), ("0", "1", "2"))
        assert [r.notes for r in found] == [(), (), ()]
        for part in ("val", "Val"):
            assert load(f"{source}:{part}", classes="a,b,c").y.tolist() == [2, 1]
        assert refusal(source) == f"{source} does not state its classes: pass --classes (10, or cat,dog)."

    def test_refusals(self, tmp_path):
        source = save_npz(tmp_path / "chestmnist.npz", False, **self.arrays(y=np.zeros((6, 14), np.uint8)))
        assert refusal(source, classes=2).endswith("has 14 labels per image; expected a single label.")
        arrays = self.arrays()
        del arrays["val_labels"]
        source = save_npz(tmp_path / "cut.npz", False, **arrays)
        assert "cut.npz has no array val_labels of the val part; it has: test_images," in refusal(source, part="val")
        assert "has the label '2', which is not one of the 2 classes" in refusal(source, classes=2)


class TestSVHN:
    X, y = RNG.integers(0, 256, (32, 32, 3, 5), dtype=np.uint8), np.array([[1], [10], [9], [5], [10]], np.uint8)

    @pytest.mark.parametrize("compressed", [False, True])
    def test_ten_stands_for_zero(self, tmp_path, compressed):
        path = tmp_path / "train_32x32.mat"
        savemat(path, {"X": self.X, "y": self.y}, do_compression=compressed)
        assert (recognise(path), recognise(tmp_path)) == ("svhn", "svhn")
        for r in (load(path), load(tmp_path)):
            assert r.y.tolist() == [1, 0, 9, 5, 0]
            assert r.schema == Schema((32, 32, 3), (0.0, 255.0), tuple("0123456789"))
            np.testing.assert_array_equal(r.X, np.moveaxis(self.X, 3, 0))
        assert "has no file of the test part (test_32x32.mat)" in refusal(tmp_path, part="test")

    @pytest.mark.parametrize(
        ("arrays", "sentence"),
        [
            (
                {"a": np.eye(2)},
                "a.mat; got a (2, 2) double.",
            ),
            ({"X": X, "y": y[:4]}, "got X (32, 32, 3, 5) uint8, y (4, 1) uint8."),
            ({"X": X.astype(float), "y": y}, "got X (32, 32, 3, 5) double, y (5, 1) uint8."),
            ({"X": X, "y": y + 0.5}, "has the label '1.5', which is not one of the 10 classes."),
            ({"X": X, "y": y + 2}, "has the label '12', which is not one of the 10 classes."),
        ],
    )
    def test_refusals(self, tmp_path, arrays, sentence):
        savemat(tmp_path / "a.mat", arrays)
        assert sentence in refusal(tmp_path / "a.mat")

    def test_a_damaged_file(self, tmp_path):
        savemat(tmp_path / "a.mat", {"y": self.y, "X": self.X})
        content = (tmp_path / "a.mat").read_bytes()
        (tmp_path / "a.mat").write_bytes(content[:9000])
        assert "a.mat is damaged or truncated: it cannot be read as a MATLAB file." in refusal(tmp_path / "a.mat")
        (tmp_path / "b.mat").write_bytes(b"MATLAB 7.3 MAT-file" + bytes(500))
        assert refusal(tmp_path / "b.mat").endswith("b.mat is a MATLAB 7.3 file, which is not read: save it with -v7.")


class TestCIFAR100:
    def test_coarse_and_fine(self, tmp_path):
        X = RNG.integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
        source = write(tmp_path, {"train.bin": cifar_bytes(X, [(11, 19), (15, 29), (4, 0)])})
        coarse, fine = load(source, labels="coarse"), load(source, labels="fine")
        assert (coarse.y.tolist(), fine.y.tolist()) == ([11, 15, 4], [19, 29, 0])
        # Cattle are large omnivores and herbivores, dinosaurs reptiles, apples fruit.
        names = [(coarse.schema.classes[k], fine.schema.classes[j]) for k, j in zip(coarse.y, fine.y, strict=True)]
        assert names == [
            ("large_omnivores_and_herbivores", "cattle"),
            ("reptiles", "dinosaur"),
            ("fruit_and_vegetables", "apple"),
        ]
        assert len(set(coarse.schema.classes)) == 20
        assert coarse.notes == (cifar.NOTE100_COARSE,)
        assert load(source, like=coarse.schema).y.tolist() == [11, 15, 4]
        few = coarse.schema.classes[15], coarse.schema.classes[4]
        assert load(source, classes=few, strict=False).y.tolist() == [-1, 0, 1]
        assert "Expected labels='odd' of" in refusal(source, labels="odd")
        assert "has no part 'val': its format has train and test." in refusal(source, part="val")
        (tmp_path / "a").write_bytes(cifar_bytes(X, [1, 2, 3]))
        assert "to be none, since CIFAR-10 has a single label per image" in refusal(tmp_path / "a", labels="fine")


def parquet_bytes(X, columns, features, form="PNG"):
    """Image Parquet with the metadata that the library `datasets` writes."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    pictures = [{"bytes": None if x is None else png(x, form), "path": None} for x in X]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"image": pa.array(pictures, kind), **columns})
    if features is not None:
        stated = {"info": {"features": {"image": {"_type": "Image"}, **features}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(stated)})
    stream = io.BytesIO()
    parquet.write_table(table, stream, row_group_size=2)
    return stream.getvalue()


ANIMALS = {"label": {"names": ["ant", "bee", "cow"], "_type": "ClassLabel"}}
TWO = {"fine": ANIMALS["label"], "coarse": {"names": ["small", "large"], "_type": "ClassLabel"}}


class TestParquet:
    def test_one_file(self, tmp_path):
        write(tmp_path, {"a.parquet": parquet_bytes(SMALL, {"label": [2, 0, 1, 1]}, ANIMALS)})
        source = tmp_path / "a.parquet"
        assert recognise(source) == "parquet"
        r = load(source)
        np.testing.assert_array_equal(r.X, SMALL)
        assert r.y.tolist() == [2, 0, 1, 1]
        assert r.schema == Schema((5, 5, 3), (0.0, 255.0), ("ant", "bee", "cow"))
        said = "Classes are the data set's (ant, bee, cow)"
        assert [note.startswith(said) for note in r.notes].count(True) == 1
        named = load(source, classes="x,y,z")
        assert named.schema.classes == ("x", "y", "z")
        assert not any(note.startswith("Classes") for note in named.notes)
        assert load(source, resize=8, channels=1).X.shape == (4, 8, 8, 1)

    @pytest.mark.parametrize("inner", ["", "data/"])
    def test_shards(self, tmp_path, inner):
        contents = {
            f"{inner}train-00000-of-00002.parquet": parquet_bytes(SMALL[:1], {"label": [2]}, ANIMALS),
            f"{inner}train-00001-of-00002.parquet": parquet_bytes(SMALL[1:3], {"label": [0, 1]}, ANIMALS),
            f"{inner}validation-00000-of-00001.parquet": parquet_bytes(SMALL[3:], {"label": [1]}, ANIMALS),
        }
        source = write(tmp_path, contents)
        assert recognise(source) == "parquet"
        np.testing.assert_array_equal(load(source).X, SMALL[:3])
        assert load(source).y.tolist() == [2, 0, 1]
        np.testing.assert_array_equal(load(source, "val").X, SMALL[3:])
        assert "has no Parquet file of the test part (test-*.parquet)." in refusal(source, part="test")

    def test_several_labels(self, tmp_path):
        columns = {"fine": [2, 0, 1, 1], "coarse": [0, 0, 1, 1]}
        write(tmp_path, {"a.parquet": parquet_bytes(SMALL, columns, TWO)})
        source = tmp_path / "a.parquet"
        assert "name one of fine, coarse (--labels NAME)." in refusal(source)
        assert "has no column of labels 'odd'; it has fine, coarse." in refusal(source, labels="odd")
        coarse = load(source, labels="coarse")
        assert (coarse.y.tolist(), coarse.schema.classes) == ([0, 0, 1, 1], ("small", "large"))
        assert load(source, like=coarse.schema).y.tolist() == [0, 0, 1, 1]

    def test_names_without_metadata(self, tmp_path):
        write(tmp_path, {"a.parquet": parquet_bytes(SMALL, {"label": ["bee", "ant", "bee", None]}, None)})
        assert "does not state its classes" in refusal(tmp_path / "a.parquet")
        assert "Record 3 has no label." in refusal(tmp_path / "a.parquet", classes="ant,bee")
        r = load(tmp_path / "a.parquet", classes="ant,bee", resize=5, strict=False)
        assert r.y.tolist() == [1, 0, 1, -1]

    def test_bad_pictures(self, tmp_path):
        contents = {
            "none.parquet": parquet_bytes([SMALL[0], None], {"label": [0, 1]}, ANIMALS),
            "sizes.parquet": parquet_bytes([SMALL[0], COLOUR[0]], {"label": [0, 1]}, ANIMALS),
            "unlabelled.parquet": parquet_bytes(SMALL[:1], {"label": [-1]}, ANIMALS),
            "list.parquet": parquet_bytes(SMALL[:1], {"label": [[0, 1]]}, None),
            "cut.parquet": parquet_bytes(SMALL, {"label": [0, 1, 2, 0]}, ANIMALS)[:200],
            "odd/a.parquet": parquet_bytes(SMALL[:1], {"label": [0]}, ANIMALS),
            "odd/b.parquet": parquet_bytes(SMALL[:1], {"label": [0]}, None),
        }
        write(tmp_path, contents)
        said = {name: refusal(tmp_path / name) for name in [*list(contents)[:5], "odd"]}
        assert "Row 2 of " in said["none.parquet"]
        assert said["none.parquet"].endswith(
            "holds no image, or only its path: write the bytes of images into the file."
        )
        assert "Row 2 of" in said["sizes.parquet"]
        assert "is 28x28 pixels where Row 1 of" in said["sizes.parquet"]
        assert "Record 0 has the label '-1', which is not one of the 3 classes." in said["unlabelled.parquet"]
        assert "has several columns of labels, or none" in said["list.parquet"]
        assert said["cut.parquet"].endswith("cut.parquet is damaged: it cannot be read as Parquet.")
        assert "b.parquet has other columns or classes than" in said["odd"]
        assert "no single label per image in the column 'label'" in refusal(tmp_path / "list.parquet", labels="label")
        lenient = load(tmp_path / "none.parquet", resize=5, strict=False)
        assert lenient.y.tolist() == [0, -1]

    def test_made_by_the_library_itself(self, tmp_path):
        datasets = pytest.importorskip("datasets", reason="the library datasets is not installed")
        features = datasets.Features(image=datasets.Image(), label=datasets.ClassLabel(names=["ant", "bee", "cow"]))
        pictures = {"image": [Image.fromarray(x) for x in SMALL], "label": [2, 0, 1, 1]}
        data = datasets.Dataset.from_dict(pictures, features=features)
        data.to_parquet(tmp_path / "a.parquet")
        for source in (tmp_path / "a.parquet", data, datasets.DatasetDict(train=data)):
            r = load(source)
            np.testing.assert_array_equal(r.X, SMALL)
            assert (r.y.tolist(), r.schema.classes) == ([2, 0, 1, 1], ("ant", "bee", "cow"))


class Featured:
    """As much of `datasets.Dataset` as is asked for."""

    class Image: ...

    class ClassLabel:
        names = ("ant", "bee", "cow")

    def __init__(self, X, y):
        self.X, self.y, self.features = X, y, {"image": self.Image(), "label": self.ClassLabel()}

    def with_format(self, form):
        assert form is None
        return self

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return {"image": Image.fromarray(self.X[i]), "label": self.y[i]}


class Numbered:
    """A map-style data set."""

    def __init__(self, items, classes=None):
        self.items = items
        if classes:
            self.classes = classes

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]() if callable(self.items[i]) else self.items[i]


class TestObjects:
    def test_features(self):
        data = Featured(SMALL, [2, 0, 1, None])
        assert recognise(data) == "object"
        r = load(data, resize=5, strict=False)
        np.testing.assert_array_equal(r.X, SMALL)
        assert (r.y.tolist(), r.schema.classes) == ([2, 0, 1, -1], ("ant", "bee", "cow"))
        parts = {"train": Featured(SMALL[:3], [0, 1, 2]), "validation": Featured(SMALL[3:], [2])}
        assert load(parts, "val").y.tolist() == [2]
        assert refusal(parts, part="test") == "The data set has no part 'test'; it has train, validation."

    def test_numbered_items(self):
        pictures = Numbered([(Image.fromarray(x), k) for k, x in enumerate(SMALL)], classes=["a", "b", "c", "d"])
        r = load(pictures)
        np.testing.assert_array_equal(r.X, SMALL)
        assert r.y.tolist() == [0, 1, 2, 3]
        assert r.notes[0].startswith("Classes are the data set's (a, b, c, d)")
        floats = Numbered([(x / np.float32(255), np.int64(k % 2)) for k, x in enumerate(SMALL)])
        assert "Expected bounds for float32 values: state them" in refusal(floats, classes=2)
        r = load(floats, classes=2, bounds=(0, 1))
        np.testing.assert_array_equal(r.X, SMALL / np.float32(255))
        assert r.y.tolist() == [0, 1, 0, 1]
        assert r.schema.inferred == ("image size", "channels")
        assert r.notes[-1].startswith("Taken from the records and treated as public: channels 3, from the first item.")

    def test_what_is_like_a_tensor_has_its_channels_first(self):
        class Tensor:
            def __init__(self, values):
                self.values = values

            def detach(self):
                return self

            def cpu(self):
                return self.values

        r = load(Numbered([(Tensor(np.moveaxis(x, 2, 0)), 0) for x in SMALL]), classes=2)
        np.testing.assert_array_equal(r.X, SMALL)
        r = load(Numbered([(Tensor(x[..., 0]), 1) for x in SMALL]), classes=2)
        np.testing.assert_array_equal(r.X[..., 0], SMALL[..., 0])
        assert r.y.tolist() == [1, 1, 1, 1]
        assert "has a single label per image: leave labels out." in refusal(
            Numbered([(SMALL[0], 0)]), classes=2, labels="fine"
        )

        class Strange(Tensor):
            def cpu(self):
                return self

            def __array__(self, *_, **__):
                raise TypeError("Got unsupported ScalarType BFloat16")

        strange = refusal(Numbered([(Strange(SMALL[0]), 0)]), classes=2)
        assert strange.endswith("or a tensor (h, w) or (c, h, w), of a type that NumPy has.")

    def test_tensors_of_pytorch(self):
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        data = torch.utils.data
        X = torch.from_numpy(np.moveaxis(SMALL, 3, 1).copy())
        y = torch.arange(4)
        r = load(data.TensorDataset(X, y), classes=4)
        np.testing.assert_array_equal(r.X, SMALL)
        assert (r.y.tolist(), r.schema.bounds) == ([0, 1, 2, 3], (0.0, 255.0))
        r = load(data.Subset(data.TensorDataset(X, y), [3, 1]), classes=4)
        np.testing.assert_array_equal(r.X, SMALL[[3, 1]])
        assert r.y.tolist() == [3, 1]
        floats = (X / 255).requires_grad_()
        r = load(
            data.ConcatDataset([data.TensorDataset(floats, y), data.TensorDataset(floats, y)]), classes=4, bounds="0,1"
        )
        np.testing.assert_array_equal(r.X, np.concatenate([SMALL, SMALL]) / np.float32(255))
        assert "Expected bounds for float32 values" in refusal(data.TensorDataset(floats, y), classes=4)
        for unread in (floats.bfloat16(), X[:, 0].float().to_sparse()):
            assert "of a type that NumPy has" in refusal(data.TensorDataset(unread, y), classes=4, bounds="0,1")
        assert "has no items" in refusal(data.TensorDataset(X[:0], y[:0]), classes=4)

    def test_a_map_style_data_set_of_pytorch(self):
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")

        class Pictures(torch.utils.data.Dataset):
            classes = ("ant", "bee")

            def __len__(self):
                return len(SMALL)

            def __getitem__(self, i):
                return Image.fromarray(SMALL[i]), torch.tensor(i % 2)

        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter([])

        r = load(Pictures())
        np.testing.assert_array_equal(r.X, SMALL)
        assert (r.y.tolist(), r.schema.classes) == ([0, 1, 0, 1], ("ant", "bee"))
        assert "has no length" in refusal(Stream(), classes=2)

    @pytest.mark.parametrize(
        ("source", "sentence"),
        [
            (3, "Expected a path, or a data set of images and labels; got int."),
            (iter([]), "Expected a path, or a data set of images and labels; got list_iterator."),
            (Numbered([]), "The data set has no items, from which the shape of images follows."),
            (Numbered([([[1, 2], [3]], 0)]), "or a tensor (h, w) or (c, h, w), of a type that NumPy has."),
            (Numbered([3]), "Expected item 0 of the data set as (image, label); got int."),
            (Numbered([("a", 0)]), "Expected item 0 of the data set as a PIL image, an array"),
            (Numbered([(SMALL[0], [0, 1])]), "has the label '[0, 1]': expected a whole number or a name."),
            (
                Numbered([(SMALL[0], 0), (SMALL[1], "a")]),
                "Record 1 has the label 'a', which is not one of the 2 classes.",
            ),
            (Numbered([(SMALL[0], 0), (COLOUR[0], 1)]), "Item 1 of the data set is 28x28 pixels where Item 0"),
            (Numbered([lambda: (RNG.integers(0, 256, (5, 5)), 0)]), "returns another image on every read"),
        ],
    )
    def test_refusals(self, source, sentence):
        assert sentence in refusal(source, classes=2, bounds=(0, 255))


CONTENTS = {"dog/b.png": SMALL[0], "dog/a.png": SMALL[1], "cat/z.png": SMALL[2]}


def zipped(path, contents, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in contents.items():
            archive.writestr(name, content if isinstance(content, bytes) else png(content))
    return path


def tarred(path, contents, mode="w"):
    with tarfile.open(path, mode) as archive:
        for name, content in contents.items():
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            body = (
                b"" if isinstance(content, tarfile.TarInfo) else content if isinstance(content, bytes) else png(content)
            )
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return path


PACKERS = {
    "zip": zipped,
    "tar": tarred,
    "tar.gz": lambda path, contents: tarred(path, contents, "w:gz"),
}


class TestArchives:
    @pytest.fixture(params=list(PACKERS))
    def pack(self, request, tmp_path):
        return lambda contents, name="photos": PACKERS[request.param](tmp_path / name, contents)

    @pytest.mark.parametrize("around", ["", "photos/", "./"])
    def test_the_same_as_the_folder(self, tmp_path, pack, around):
        folder = write(tmp_path / "folder", {name: png(x) for name, x in CONTENTS.items()})
        contents = {f"{around}{name}": x for name, x in CONTENTS.items()}
        if around != "./":
            contents = {
                f"{around}.hidden/a.png": b"",
                "__MACOSX/cat/z.png": b"",
                f"{around}cat/notes.txt": b"",
                **contents,
            }
        source = pack(contents)
        assert recognise(source) == "archive"
        r, expected = load(source), load(folder)
        np.testing.assert_array_equal(r.X, SMALL[[2, 1, 0]])
        left_out = () if around == "./" else ("1 file is left out: 1 .txt.",)
        assert (r.y.tolist(), r.schema, r.notes) == ([0, 1, 1], expected.schema, (*left_out, *expected.notes))
        assert digest_records(r, bytes(32)) == digest_records(expected, bytes(32))

    @pytest.mark.parametrize("train", ["train", "Train"])
    def test_parts(self, pack, train):
        source = pack({f"{train}/cat/a.png": SMALL[0], f"{train}/dog/a.png": SMALL[1], "val/dog/c.png": SMALL[2]})
        assert load(source).y.tolist() == [0, 1]
        val = load(source, "val")
        np.testing.assert_array_equal(val.X, SMALL[2:3])
        assert (val.y.tolist(), val.schema.classes) == ([1], ("cat", "dog"))
        assert "has no folder 'test' with class folders." in refusal(source, part="test")

    @pytest.mark.parametrize("name", ["/etc/cat/a.png", "../cat/a.png", "cat/../../a.png", "C:/cat/a.png"])
    def test_names_that_lead_out(self, pack, name):
        assert "a name that leads out of the archive." in refusal(pack({**CONTENTS, name: SMALL[3]}))

    def test_refusals(self, tmp_path, pack, monkeypatch):
        assert "dog/b.png in " in refusal(pack({**CONTENTS, "dog/b.png": b"broken"}))
        source = pack({**CONTENTS, "dog/c.png": COLOUR[0]})
        assert "is 28x28 pixels where" in refusal(source)
        content = source.read_bytes()
        source.write_bytes(content[: len(content) // 2])
        assert refusal(source).startswith(str(source))
        monkeypatch.setattr(archives, "MAX_MEMBER", 40)
        assert "MiB; expected at most" in refusal(pack(CONTENTS, "again"))

    def test_links_and_duplicates(self, tmp_path):
        link = tarfile.TarInfo("cat/link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        said = refusal(tarred(tmp_path / "link.tar", {**CONTENTS, "cat/link.png": link}))
        assert said.endswith("link.tar holds cat/link.png as a link or a device; expected a file.")
        with tarfile.open(tmp_path / "twice.tar", "w") as archive:
            for _ in range(2):
                info = tarfile.TarInfo("cat/a.png")
                info.size = len(png(SMALL[0]))
                archive.addfile(info, io.BytesIO(png(SMALL[0])))
        assert refusal(tmp_path / "twice.tar").endswith("twice.tar holds cat/a.png twice.")

    def test_a_bomb(self, tmp_path, monkeypatch):
        monkeypatch.setattr(archives, "MAX_UNPACKED", 100_000)
        source = PACKERS["tar.gz"](tmp_path / "a.tar.gz", {**CONTENTS, "cat/notes.txt": bytes(300_000)})
        assert "a.tar.gz is too large to be unpacked in memory: gunzip it first." in refusal(source)

    def test_nothing_is_written(self, tmp_path, pack):
        source = pack(CONTENTS)
        load(source)
        assert [path for path in tmp_path.iterdir()] == [source]


def picture(values, form, **options) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, form, **options)
    return stream.getvalue()


class TestDeepPictures:
    @pytest.mark.parametrize(("form", "suffix"), [("PNG", "png"), ("TIFF", "tif"), ("TIFF", "TIFF")])
    def test_sixteen_bits(self, tmp_path, form, suffix):
        contents = {f"{k}/a.{suffix}": picture(x, form) for k, x in zip("ab", DEEP, strict=True)}
        source = write(tmp_path, contents)
        r = load(source, bounds="0,65535", channels=1)
        np.testing.assert_array_equal(r.X[..., 0], DEEP)
        assert r.schema.bounds == (0.0, 65535.0)
        for stated in ({}, {"bounds": "0,255"}):
            assert "has more than 8 bits per value: state the bounds of a value" in refusal(source, **stated)
        small = load(source, bounds="0,65535", channels=1, resize=3)
        expected = [Image.fromarray(x.astype(np.float32)).resize((3, 3), Image.Resampling.BILINEAR) for x in DEEP]
        np.testing.assert_array_equal(small.X[..., 0], np.stack([np.asarray(x) for x in expected]))

    def test_floats(self, tmp_path):
        values = (DEEP / 65_535).astype(np.float32)
        source = write(tmp_path, {f"{k}/a.tif": picture(x, "TIFF") for k, x in zip("ab", values, strict=True)})
        r = load(source, bounds="0,1", channels=1)
        np.testing.assert_array_equal(r.X[..., 0], values)

    def test_pictures_as_windows_saves_them(self, tmp_path):
        pictures = {
            f"{k}/{name}": picture(x, "JPEG") for k, name, x in zip("ab", ("x.jfif", "y.JFIF"), SMALL, strict=False)
        }
        assert load(write(tmp_path, pictures)).y.tolist() == [0, 1]

    def test_bounds_of_shares_are_refused_of_eight_bits(self, tmp_path):
        source = write(tmp_path, {f"{k}/a.png": png(x) for k, x in zip("ab", SMALL, strict=False)})
        said = refusal(source, bounds="0,1")
        assert "has 8 bits a value, from 0 to 255, and the bounds are 0,1: the images would be nearly white" in said
        np.testing.assert_array_equal(load(source, bounds="0,200").X, SMALL[:2])

    def test_tiff_of_eight_bits(self, tmp_path):
        source = write(tmp_path, {f"{k}/a.tif": picture(x, "TIFF") for k, x in zip("ab", SMALL, strict=False)})
        np.testing.assert_array_equal(load(source).X, SMALL[:2])

    @pytest.mark.parametrize(("form", "suffix"), [("BMP", "bmp"), ("WEBP", "WebP")])
    def test_of_eight_bits_in_other_formats(self, tmp_path, form, suffix):
        contents = {f"{k}/a.{suffix}": picture(x, form, lossless=True) for k, x in zip("ab", SMALL, strict=False)}
        np.testing.assert_array_equal(load(write(tmp_path, contents)).X, SMALL[:2])
        write(tmp_path, {f"b/a.{suffix}": b"hello"})
        assert f"is not a {form} image, or is damaged." in refusal(tmp_path)

    def test_moving_pictures(self, tmp_path):
        moving = picture(SMALL[0], "WEBP", save_all=True, append_images=[Image.fromarray(SMALL[1])])
        source = write(tmp_path, {"a/a.webp": moving, "b/b.png": png(SMALL[1])})
        assert "a.webp has 2 frames; expected a single image." in refusal(source)

    def test_one_record_does_not_change_another(self, tmp_path):
        # A record of 16 bits is bad under the bounds of the others, and they are under its own.
        contents = {"a/b.png": png(SMALL[0]), "b/c.png": png(SMALL[1])}
        deep = {"a/a.png": picture(np.full((5, 5), 60_000, np.uint16), "PNG")}
        write(tmp_path, {**contents, **deep})
        stated = {"classes": "a,b", "resize": 5, "strict": False}
        assert load(tmp_path, **stated, bounds="0,65535").y.tolist() == [0, -1, -1]
        unstated = load(tmp_path, **stated)
        assert unstated.y.tolist() == [-1, 0, 1]
        np.testing.assert_array_equal(unstated.X[1:], SMALL[:2])

    def test_refusals(self, tmp_path):
        pages = [Image.fromarray(x) for x in SMALL]
        stream = io.BytesIO()
        pages[0].save(stream, "TIFF", save_all=True, append_images=pages[1:])
        write(tmp_path, {"two/a/a.tif": stream.getvalue(), "text/a/a.tif": b"hello"})
        for name in ("two/b", "text/b"):
            write(tmp_path / name, {"b.png": png(SMALL[0])})
        assert "a.tif has 4 pages; expected a single image." in refusal(tmp_path / "two")
        assert "a.tif is not a TIFF image, or is damaged, or has values or channels that are not read." in refusal(
            tmp_path / "text"
        )
        write(tmp_path, {"a.tif": stream.getvalue()})
        assert "a.tif is a single image; name the folder" in refusal(tmp_path / "a.tif")


def dicom_bytes(values, **more):
    pydicom = pytest.importorskip("pydicom", reason="the extra dpdistill[dicom] is not installed")
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = CTImageStorage, generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    image = FileDataset("", {}, file_meta=meta, preamble=bytes(128))
    image.Rows, image.Columns = values.shape[:2]
    image.SamplesPerPixel, image.PhotometricInterpretation = 1, "MONOCHROME2"
    image.BitsAllocated, image.BitsStored, image.HighBit, image.PixelRepresentation = 16, 16, 15, 1
    image.RescaleSlope, image.RescaleIntercept = "2", "-1024"
    kept = values.astype("<i2") if values.dtype == np.int16 else values
    image.PixelData = kept.tobytes() + b"\0" * (kept.nbytes % 2)
    for name, value in more.items():
        if value is None:
            delattr(image, name)
        else:
            setattr(image, name, value)
    stream = io.BytesIO()
    pydicom.dcmwrite(stream, image, enforce_file_format=True)
    return stream.getvalue()


class TestDICOM:
    stored = RNG.integers(0, 1000, (2, 6, 6)).astype(np.int16)

    @pytest.mark.parametrize("name", ["a.dcm", "IM0001", "1.2.840.5"])
    def test_values_in_their_units(self, tmp_path, name):
        source = write(tmp_path, {f"{k}/{name}": dicom_bytes(x) for k, x in zip("ab", self.stored, strict=True)})
        r = load(source, bounds="-160,240", channels=1)
        np.testing.assert_array_equal(r.X[..., 0], 2.0 * self.stored - 1024.0)
        # The window is the caller's: values outside are clamped where records are scaled.
        unit = np.clip((2.0 * self.stored - 1024.0 + 160.0) / 200.0 - 1.0, -1.0, 1.0)
        np.testing.assert_allclose(r.take(np.arange(2))[0][..., 0], unit, atol=1e-6)
        assert "is a DICOM image: state its window in the units of its modality" in refusal(source)

    def test_low_is_white(self, tmp_path):
        content = dicom_bytes(self.stored[0], PhotometricInterpretation="MONOCHROME1")
        source = write(tmp_path, {"a/a.dcm": content, "b/a.dcm": dicom_bytes(self.stored[0])})
        r = load(source, bounds="-160,240", channels=1)
        np.testing.assert_array_equal(r.X[0], 80.0 - r.X[1])

    def test_in_an_archive(self, tmp_path):
        contents = {f"{k}/a.dcm": dicom_bytes(x) for k, x in zip("ab", self.stored, strict=True)}
        r = load(zipped(tmp_path / "a.zip", contents), bounds="-160,240", channels=1)
        np.testing.assert_array_equal(r.X[..., 0], 2.0 * self.stored - 1024.0)

    def test_refusals(self, tmp_path):
        good = dicom_bytes(self.stored[0])
        contents = {
            "frames": (
                dicom_bytes(self.stored[0], NumberOfFrames=3),
                "has 3 frames; expected a single image: write each frame to a separate file.",
            ),
            "colour": (
                dicom_bytes(self.stored[0], SamplesPerPixel=3),
                "is a DICOM image of the kind 'MONOCHROME2'; expected a grey one, or RGB.",
            ),
            "cut": (good[:-20], "is damaged: its DICOM image cannot be decoded."),
            "head": (good[:140], "is not a DICOM image, or is damaged."),
            "large": (dicom_bytes(self.stored[0], Rows=60_000, Columns=60_000), "has too many pixels"),
        }
        for name, (content, sentence) in contents.items():
            source = write(tmp_path / name, {"a/a.dcm": content, "b/a.dcm": good})
            assert sentence in refusal(source, bounds="0,1")
        (tmp_path / "a.dcm").write_bytes(good)
        assert "a.dcm is a single image; name the folder" in refusal(tmp_path / "a.dcm")

    def test_without_pydicom(self, tmp_path, monkeypatch):
        source = write(tmp_path, {"a/a.dcm": dicom_bytes(self.stored[0]), "b/a.dcm": b"never read"})
        monkeypatch.setitem(sys.modules, "pydicom", None)
        assert refusal(source, bounds="0,1") == "DICOM files need pydicom: pip install 'dpdistill[dicom]'."


def test_options_of_other_formats(tmp_path):
    source = save_npz(tmp_path / "a.npz", False, X=COLOUR, y=LABELS[:, 0])
    assert "has a single label per image: leave out --labels" in refusal(source, classes=3, labels="fine")
    assert load(source, like=Schema((28, 28, 3), (0.0, 255.0), ("a", "b", "c"))).schema.classes == ("a", "b", "c")


def test_pictures_are_read_as_a_set_has_them(tmp_path):
    source = write(tmp_path, {"a/a.png": png(COLOUR[0]), "b/b.png": png(SMALL[0])})
    r = load(source, like=Schema((8, 8, 1), (0.0, 255.0), ("b", "a")))
    assert (r.X.shape, r.y.tolist(), r.notes) == ((2, 8, 8, 1), [1, 0], ())


@pytest.mark.parametrize("name", ["medmnist", "cifar100"])
def test_distilled_end_to_end(tmp_path, name):
    rng = np.random.default_rng(3)
    if name == "medmnist":
        X, y = rng.integers(0, 256, (60, 28, 28, 3), dtype=np.uint8), np.arange(60) % 9
        records = load(save_npz(tmp_path / "a.npz", True, train_images=X, train_labels=y[:, None]), classes=9)
    else:
        X, y = rng.integers(0, 256, (100, 32, 32, 3), dtype=np.uint8), np.arange(100)
        records = load(write(tmp_path, {"train.bin": cifar_bytes(X, [(k // 5, k) for k in y])}))
    np.testing.assert_array_equal(records.X, X)
    result = distill(records, LDPDC(per_class=1), Budget(epsilon=1.0))
    assert result.epsilon == pytest.approx(1.0, abs=1e-3)
    assert result.X.shape == (records.classes, *X.shape[1:])
    assert result.y.tolist() == list(range(records.classes))
    assert np.isfinite(result.X).all()
    assert result.X.std() > 1.0
    result.save(tmp_path / "shared")
    certificate = json.loads(Path(tmp_path / "shared/certificate.json").read_text())
    assert "synthetic.npz" in certificate["files"]
