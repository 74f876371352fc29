"""Images as people have them: what is read, what is refused, and what is counted as left out."""

from __future__ import annotations

import unicodedata
import zipfile

import numpy as np
import pytest
from image_sources import BIG, COLOUR, GREY, encoded
from PIL import Image
from test_formats import cifar_bytes, idx_bytes, save_npz, write
from test_sources import dicom_bytes, refusal

from dpdistill.schema import DataError
from dpdistill.sources.load import load
from dpdistill.storage.records import Records

PNG, OTHER = encoded(COLOUR, "PNG"), encoded(255 - COLOUR, "PNG")
CATS = {"cat/a.png": PNG, "cat/b.png": OTHER}
DEEP = encoded(np.full((6, 6), 40_000, np.uint16), "PNG")


def zipped(path, contents):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return str(path)


@pytest.fixture(params=["folder", "zip"])
def place(request, tmp_path):
    """Makes a folder or an archive of files."""
    if request.param == "folder":
        return lambda contents, name="data": write(tmp_path / name, contents)
    return lambda contents, name="data": zipped(tmp_path / f"{name}.zip", contents)


class TestLeftOut:
    def test_a_gif_is_a_picture(self, place):
        image = Image.fromarray(COLOUR).quantize(16)
        r = load(place({**CATS, "dog/a.gif": encoded(image, "GIF")}))
        assert r.y.tolist() == [0, 0, 1]
        np.testing.assert_array_equal(r.X[2], np.asarray(image.convert("RGB")))

    def test_a_class_without_a_picture_that_is_read(self, place):
        source = place({**CATS, "dog/a.heic": b"x", "dog/b.heic": b"x", "dog/c.txt": b"x"})
        said = refusal(source)
        assert "has the class folder 'dog' without a readable image (it holds 2 .heic, 1 .txt): expected" in said
        r = load(source, classes="cat,dog")
        assert (r.y.tolist(), r.schema.classes, r.schema.inferred) == ([0, 0], ("cat", "dog"), ("image size",))
        assert r.notes[:3] == (
            "3 files are left out: 2 .heic, 1 .txt.",
            "HEIC pictures, as phones take them, are not read: export them as JPEG.",
            "There is no class folder of the stated classes dog: they have no records.",
        )

    def test_an_empty_class_folder(self, tmp_path):
        source = write(tmp_path, CATS)
        (tmp_path / "dog").mkdir()
        assert "has the class folder 'dog' without a readable image: expected PNG" in refusal(source)
        assert load(source, classes="cat,dog").y.tolist() == [0, 0]

    def test_a_class_of_damaged_pictures(self, place):
        source = place({**CATS, "dog/a.png": b"damaged"})
        lenient = {"resize": 6, "strict": False}
        assert "has the class folder 'dog' without a usable image" in refusal(source, **lenient)
        assert load(source, classes="cat,dog", **lenient).y.tolist() == [0, 0, -1]

    def test_counts_by_kind(self, place):
        others = {f"cat/{i}.heic": b"x" for i in range(300)} | {f"dog/{i}.txt": b"x" for i in range(12)}
        notes = load(place({**CATS, "dog/a.png": PNG, **others, "dog/old.zip": b"PK"})).notes
        assert notes[0] == "313 files are left out: 300 .heic, 12 .txt, 1 .zip."
        assert notes[2] == "Archives in folders or in archives are not opened: unpack them."

    def test_dicom_of_siemens(self, place):
        stored = np.full((6, 6), 900, np.int16)
        r = load(place({"a/1.IMA": dicom_bytes(stored), "b/2.ima": dicom_bytes(stored + 9)}), bounds="-160,240")
        assert r.X[:, 0, 0, 0].tolist() == [776.0, 794.0]

    def test_folders_of_patients(self, place):
        several = {"cat/p1/a.png": PNG, "cat/p2/a.png": PNG, "dog/p3/a.png": OTHER}
        assert "Put all pictures of a class into its folder, or list them in a CSV file" in refusal(place(several, "a"))
        mixed = place({**CATS, "cat/p1/c.png": PNG, "dog/a.png": PNG}, "b")
        assert "has pictures in the class folder 'cat' and in the folder 'cat/p1' within it" in refusal(mixed)

    def test_links(self, tmp_path):
        source = write(tmp_path / "data", {**CATS, "dog/a.png": PNG})
        write(tmp_path / "elsewhere", {"c.png": OTHER})
        (tmp_path / "data" / "eel").symlink_to(tmp_path / "elsewhere")
        r = load(source)
        assert r.y.tolist() == [0, 0, 1, 2]
        assert f"{source}/eel is a link to another folder, which is read." in r.notes
        (tmp_path / "data" / "latest").symlink_to("dog")
        assert refusal(source).endswith("latest is a link to a folder that is read already: remove it.")
        assert load(source, classes="cat,dog,eel", resize=6, strict=False).y.tolist() == [0, 0, 1, 2]

    def test_parts_and_what_lies_beside_them(self, place):
        parts = {"train/cat/a.png": PNG, "train/dog/a.png": OTHER, "val/dog/a.png": PNG}
        source = place(parts, "a")
        assert (load(source).y.tolist(), load(source, "val").y.tolist()) == ([0, 1], [1])
        said = refusal(place({**parts, "dog/b.png": PNG}, "b"))
        assert "has class folders in parts, such as 'val/dog', and outside of them, such as 'dog'" in said
        assert "in the class folder 'train' and in the folder 'train/cat'" in refusal(
            place({**parts, "train/b.png": PNG}, "c")
        )

    def test_one_record_elsewhere_moves_no_other(self, place):
        stated = {"classes": "cat,dog", "resize": 6, "strict": False}
        good = {"cat/a.png": PNG, "dog/b.png": OTHER}
        for i, stray in enumerate(("train/cat/z.png", "cat/p1/z.png", "z.png", "a/b/c/d/z.png", "elk/z.png")):
            r = load(place({**good, stray: DEEP}, str(i)), **stated)
            used = np.flatnonzero(r.y >= 0)
            assert r.y[used].tolist() == [0, 1]
            np.testing.assert_array_equal(r.X[used], [COLOUR, 255 - COLOUR])
        inner = {f"train/{name}": content for name, content in good.items()}
        r = load(place({**inner, "cat/z.png": DEEP, "train/z.png": DEEP}, "inner"), **stated)
        assert sorted(r.y.tolist()) == [-1, -1, 0, 1]

    def test_pictures_in_no_class_folder_are_counted(self, place):
        r = load(place({**CATS, "dog/a.png": PNG, "x.png": PNG}))
        assert "1 picture is left out: not in a class folder (<class>/*.png)." in r.notes

    def test_a_folder_around(self, tmp_path):
        contents = {"photos/cat/a.png": PNG, "photos/dog/b.png": OTHER}
        assert load(zipped(tmp_path / "a.zip", contents)).y.tolist() == [0, 1]
        said = refusal(zipped(tmp_path / "b.zip", {**contents, "elk/c.png": PNG}))
        assert "has class folders in '.' and 'photos': expected one folder that holds all of them." in said

    def test_an_array_in_a_class_folder_makes_no_npz(self, tmp_path):
        assert load(zipped(tmp_path / "a.zip", {**CATS, "dog/a.png": PNG, "dog/b.npy": b"x"})).y.tolist() == [0, 0, 1]


class TestBitDepth:
    def test_eight_bits_among_sixteen(self, place):
        source = place({"a/1.png": DEEP, "b/2.png": PNG})
        said = refusal(source, bounds="0,65535")
        assert "has 8 bits a value, from 0 to 255, and the bounds are 0,65535: the images would be nearly black" in said
        lenient = load(source, bounds="0,65535", classes="a,b", resize=6, strict=False)
        assert lenient.y.tolist() == [0, -1]

    def test_a_picture_beside_dicom(self, place):
        source = place({"a/1.dcm": dicom_bytes(np.full((6, 6), 900, np.int16)), "b/2.png": PNG, "b/3.png": DEEP})
        assert "has 8 bits a value, from 0 to 255, and the bounds are -160,240" in refusal(source, bounds="-160,240")
        lenient = load(source, bounds="-1000,2000", classes="a,b", resize=6, strict=False)
        assert lenient.y.tolist() == [0, -1, -1]

    @pytest.mark.parametrize("bounds", ["0,1", "-1,1", "0,65535", "-160,240"])
    def test_arrays_of_eight_bits(self, tmp_path, bounds):
        X, y = np.stack([GREY, 255 - GREY]), np.array([0, 1], np.uint8)
        write(tmp_path, {"train-images-idx3-ubyte": idx_bytes(X), "train-labels-idx1-ubyte": idx_bytes(y)})
        write(tmp_path, {"data_batch_1.bin": cifar_bytes(np.zeros((2, 32, 32, 3), np.uint8), y)})
        save_npz(tmp_path / "a.npz", False, X=X, y=y)
        save_npz(tmp_path / "medmnist.npz", False, train_images=X, train_labels=y[:, None])
        for name in ("train-images-idx3-ubyte", "data_batch_1.bin", "a.npz", "medmnist.npz"):
            assert "has 8 bits a value, from 0 to 255, and the bounds are" in refusal(
                tmp_path / name, classes=2, bounds=bounds
            )
        with pytest.raises(DataError, match="has 8 bits a value"):
            Records.from_arrays(X, y, 2, bounds)
        assert Records.from_arrays(X, y, 2, (0, 200)).schema.bounds == (0.0, 200.0)
        assert Records.from_arrays(X / 255, y, 2, (0, 1)).schema.bounds == (0.0, 1.0)


def parquet_of(path, labels):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    images = pa.array([{"bytes": PNG, "path": None}] * len(labels))
    parquet.write_table(pa.table({"image": images, "label": labels}), path)
    return str(path)


class TestLabels:
    @pytest.mark.parametrize(
        ("values", "kind", "stated", "y"),
        [
            (["cat", "dog", "cat"], "dictionary", "cat,dog", [0, 1, 0]),
            ([b"cat", b"dog", b"cat"], "binary", "cat,dog", [0, 1, 0]),
            ([1.0, 0.0, 1.0], "float64", "cat,dog", [1, 0, 1]),
            ([True, False, True], "bool", "cat,dog", [1, 0, 1]),
            ([True, False, True], "bool", "true,false", [0, 1, 0]),
            ([True, False, True], "bool", None, [1, 0, 1]),
        ],
    )
    def test_types_of_parquet(self, tmp_path, values, kind, stated, y):
        pa = pytest.importorskip("pyarrow")
        labels = pa.array(values) if kind != "dictionary" else pa.array(values).dictionary_encode()
        assert kind in str(labels.type).replace("double", "float64")
        r = load(parquet_of(tmp_path / "a.parquet", labels), classes=stated)
        assert r.y.tolist() == y
        assert r.schema.classes == (("False", "True") if stated is None else tuple(stated.split(",")))

    @pytest.mark.parametrize("values", [[0, None, 1], [0.0, np.nan, 1.0], ["cat", None, "dog"]])
    def test_a_missing_label(self, tmp_path, values):
        pa = pytest.importorskip("pyarrow")
        source = parquet_of(tmp_path / "a.parquet", pa.array(values))
        assert refusal(source, classes="cat,dog").endswith("Record 1 has no label.")
        assert load(source, classes="cat,dog", resize=6, strict=False).y.tolist() == [0, -1, 1]

    def test_numbers_in_a_list(self, tmp_path):
        write(tmp_path, {"a.png": PNG, "list.csv": b"file,label\na.png,1\na.png,0\na.png,dog\n"})
        source = tmp_path / "list.csv"
        assert load(source, classes="cat,dog").y.tolist() == [1, 0, 1]
        assert "Record 1 has the label '0', which is not one of the 2 classes." in refusal(source, classes="1,2")
        write(tmp_path, {"list.csv": b"file,label\na.png,2\na.png,1\n"})
        assert load(source, classes="1,2").y.tolist() == [1, 0]

    def test_each_value_of_a_list_is_read_by_itself(self):
        X = np.stack([GREY] * 3)
        for third, expected in ((1, 1), ("b", 1), (None, -1), (0.5, -1), ("c", -1), (True, 1)):
            found = Records.from_arrays(X, [0, 1, third], classes="a,b", strict=False)
            assert found.y.tolist() == [0, 1, expected], third

    @pytest.mark.parametrize("third", [1, 1.5, "1.5", None, "x", 2.0**60])
    def test_each_unit_of_a_list_is_read_by_itself(self, third):
        X = np.stack([GREY] * 4)
        units = Records.from_arrays(X, [0, 1, 0, 1], "a,b", units=[2**60 + 1, 2**60, third, 7.5], strict=False).units
        assert units is not None
        assert min(units[0], units[1]) >= 0
        assert units[0] != units[1]
        assert units[3] == -1  # a fraction names no person
        assert (units[2] >= 0) == (third in (1, "1.5", "x"))

    def test_series_of_pandas(self):
        pd = pytest.importorskip("pandas")
        X, names = np.stack([GREY] * 3), pd.Series(["dog", "cat", "dog"], index=[7, 8, 9])
        assert Records.from_arrays(X, names, "cat,dog").y.tolist() == [1, 0, 1]
        assert Records.from_arrays(X, names.astype(object), "cat,dog").y.tolist() == [1, 0, 1]
        assert Records.from_arrays(X, names.astype("category"), "cat,dog").y.tolist() == [1, 0, 1]
        people = pd.Series(["p1", None, "p1"], dtype=object)
        numbers = pd.Series([5, None, 5])  # of floats, since one is missing
        for units in (people, numbers):
            found = Records.from_arrays(X, names, "cat,dog", units=units, strict=False).units
            assert found is not None
            assert (found[0] == found[2] >= 0, found[1]) == (True, -1)
        with pytest.raises(DataError, match="Record 1 has no unit"):
            Records.from_arrays(X, names, "cat,dog", units=numbers)

    @pytest.mark.parametrize(("here", "there"), [("NFD", "NFC"), ("NFC", "NFD")])
    def test_two_spellings_of_accents(self, tmp_path, here, there):
        folder, stated = (unicodedata.normalize(form, "Käfer") for form in (here, there))
        assert folder != stated
        source = write(tmp_path, {f"{folder}/a.png": PNG, "Ameise/b.png": OTHER})
        r = load(source, classes=["Ameise", stated])
        assert (r.y.tolist(), r.schema.classes) == ([0, 1], ("Ameise", stated))
        assert not [note for note in r.notes if "no class folder" in note]
        labels = np.array([folder, "Ameise"])
        assert Records.from_arrays(np.stack([GREY] * 2), labels, [stated, "Ameise"]).y.tolist() == [0, 1]
        with pytest.raises(DataError, match="Expected distinct class names"):
            load(source, classes=[folder, stated])


class TestPlaces:
    @pytest.mark.parametrize("name", ["mit Leerzeichen und Umlaut ä", "a'b\"c", "日本"])
    def test_names_of_folders(self, tmp_path, name):
        source = write(tmp_path / name, {f"{name}/a b.png": PNG, "dög/ü.png": OTHER})
        r = load(source)
        assert sorted(r.y.tolist()) == [0, 1]
        assert set(r.schema.classes) == {name, "dög"}

    def test_what_may_only_be_read(self, tmp_path):
        source = write(tmp_path / "shared", {**CATS, "dog/a.png": PNG, "dog/Thumbs.db": b"x"})
        for path in sorted((tmp_path / "shared").rglob("*"), reverse=True):
            path.chmod(0o555 if path.is_dir() else 0o444)
        (tmp_path / "shared").chmod(0o555)
        try:
            r = load(source)
            assert r.y.tolist() == [0, 0, 1]
            assert (r.X[2] == COLOUR).all()
        finally:
            for path in (tmp_path / "shared", tmp_path / "shared/cat", tmp_path / "shared/dog"):
                path.chmod(0o755)

    def test_another_size_is_named(self, place):
        assert "is 9x4 pixels where" in refusal(place({**CATS, "dog/a.png": encoded(BIG, "PNG")}))
