"""One table of all sources of images: how each is built from records, what is stated of it, and hostile records."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat
from test_formats import cifar_bytes, idx_bytes, write

from dpdistill.sources.load import load
from dpdistill.storage.records import Records

RNG = np.random.default_rng(63)
SIDE = 6
CLASSES = "ant,bee,cow"


class Record(NamedTuple):
    """A record: the bytes of a picture, an array or an item; its label; its person; its place among the others."""

    X: Any
    y: Any
    unit: Any = "p1"
    name: str = "m"
    suffix: str = ".png"


@dataclass(frozen=True)
class Source:
    """A source of images.

    Args:
        form: as `dpdistill.sources.load.recognise` calls it; "arrays" for `Records.from_arrays`.
        build: makes the source of records in a folder.
        stated: all that a caller states when bad records may be left out.
        least: what a caller must state at least.
        good: records that can be used.
        hostile: records of other kinds, by kind.
        labels: class indices of the good records, sorted.
    """

    form: str
    build: Callable[[Path, list[Record]], Any]
    stated: dict[str, Any]
    least: dict[str, Any]
    good: list[Record]
    hostile: dict[str, Record] = field(default_factory=dict)
    labels: tuple[int, ...] = (0, 0, 1, 2)

    @property
    def stated_facts(self) -> set[str]:
        """The public facts that `least` states."""
        options = {"classes": "classes", "resize": "image size", "channels": "channels"}
        return {options[name] for name in self.least if name in options}

    def read(self, folder: Path, records: list[Record], **options: Any) -> Records:
        """The records as the package reads them."""
        folder.mkdir(parents=True)
        source = self.build(folder, records)
        if self.form == "arrays":
            options.pop("memory", None)
            return Records.from_arrays(*source, **options)
        return load(source, **options)


def encoded(values: Any, form: str, **options: Any) -> bytes:
    """The bytes of a picture, of values or of what Pillow has opened."""
    stream = io.BytesIO()
    image = values if isinstance(values, Image.Image) else Image.fromarray(values)
    image.save(stream, form, **options)
    return stream.getvalue()


def _exif() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    return exif


def _integers(*shape: int, most: int = 256, kind: Any = np.uint8) -> np.ndarray:
    return RNG.integers(0, most, shape).astype(kind)


BIG, GREY, COLOUR = _integers(9, 4, 3), _integers(SIDE, SIDE), _integers(SIDE, SIDE, 3)
SHARES = RNG.random((SIDE, SIDE)).astype(np.float32)
NAN, INF = np.where(SHARES > 0.9, np.nan, SHARES), np.where(SHARES > 0.9, np.inf, SHARES)


def _pages(form: str) -> bytes:
    return encoded(COLOUR, form, save_all=True, append_images=[Image.fromarray(255 - COLOUR)])


PICTURES = {
    "another size": Record(encoded(BIG, "PNG"), "bee"),
    "grey": Record(encoded(GREY, "PNG"), "bee"),
    "alpha": Record(encoded(_integers(SIDE, SIDE, 4), "PNG"), "bee"),
    "grey with alpha": Record(encoded(_integers(SIDE, SIDE, 2), "PNG"), "bee"),
    "palette": Record(encoded(Image.fromarray(COLOUR).quantize(8), "PNG"), "bee"),
    "palette with a transparent colour": Record(
        encoded(Image.fromarray(COLOUR).quantize(8), "PNG", transparency=0), "bee"
    ),
    "one bit": Record(encoded(Image.fromarray(GREY).convert("1"), "PNG"), "bee"),
    "four channels of ink": Record(encoded(Image.fromarray(COLOUR).convert("CMYK"), "JPEG"), "bee", suffix=".jpg"),
    "turned": Record(encoded(BIG, "JPEG", exif=_exif()), "bee", suffix=".jpg"),
    "16 bits": Record(encoded(_integers(SIDE, SIDE, most=65_536, kind=np.uint16), "PNG"), "bee"),
    "32 bits": Record(encoded(_integers(SIDE, SIDE, most=1 << 30, kind=np.int32), "TIFF"), "bee", suffix=".tif"),
    "floats": Record(encoded(SHARES, "TIFF"), "bee", suffix=".tif"),
    "NaN": Record(encoded(NAN, "TIFF"), "bee", suffix=".tif"),
    "infinity": Record(encoded(INF, "TIFF"), "bee", suffix=".tif"),
    "huge": Record(encoded(SHARES * np.float32(3e38), "TIFF"), "bee", suffix=".tif"),
    "eight bits": Record(encoded(COLOUR, "PNG"), "bee"),
    "several pages": Record(_pages("TIFF"), "bee", suffix=".tif"),
    "moving": Record(_pages("GIF"), "bee", suffix=".gif"),
    "damaged": Record(encoded(COLOUR, "PNG")[:60], "bee"),
    "empty": Record(b"", "bee"),
    "text": Record(b"<html>", "bee"),
    "of a phone": Record(b"\0\0\0\x18ftypheic" + bytes(80), "bee", suffix=".heic"),
    "unknown label": Record(encoded(COLOUR, "PNG"), "elk"),
    "label of spaces": Record(encoded(COLOUR, "PNG"), " "),
    "without a person": Record(encoded(COLOUR, "PNG"), "bee", unit=""),
    "of another person": Record(encoded(COLOUR, "PNG"), "bee", unit="a9"),
}
LABELS = ("ant", "bee", "cow", "ant")
NUMBERS = {"ant": 0, "bee": 1, "cow": 2, "elk": 7, " ": -3}


def _good(contents: list[Any], labels: Any = LABELS, suffix: str = ".png") -> list[Record]:
    return [
        Record(x, label, f"p{i % 2}", f"m{i}", suffix)
        for i, (x, label) in enumerate(zip(contents, labels, strict=True))
    ]


GOOD = _good([encoded(_integers(SIDE, SIDE, 3), "PNG") for _ in range(4)])
PHOTOS = {"classes": CLASSES, "resize": SIDE, "strict": False}


def _file(r: Record) -> str:
    return f"{r.unit}{'_' * bool(r.unit)}{r.name}{r.suffix}"


def _folders(root: str = "") -> Callable[[Path, list[Record]], str]:
    return lambda folder, records: write(folder, {f"{root}{r.y}/{_file(r)}": r.X for r in records})


def _in_zip(root: str = "") -> Callable[[Path, list[Record]], str]:
    def build(folder: Path, records: list[Record]) -> str:
        with zipfile.ZipFile(folder / "a.zip", "w") as archive:
            for r in records:
                archive.writestr(f"{root}{r.y}/{_file(r)}", r.X)
        return str(folder / "a.zip")

    return build


def _in_tar(mode: str) -> Callable[[Path, list[Record]], str]:
    def build(folder: Path, records: list[Record]) -> str:
        with tarfile.open(folder / "a.tar", mode) as archive:  # pyright: ignore[reportCallIssue, reportArgumentType]
            for r in records:
                info = tarfile.TarInfo(f"{r.y}/{_file(r)}")
                info.size = len(r.X)
                archive.addfile(info, io.BytesIO(r.X))
        return str(folder / "a.tar")

    return build


def _list(folder: Path, records: list[Record]) -> str:
    for r in records:
        if r.suffix != ".gone":
            (folder / _file(r)).write_bytes(r.X)
    rows = [f"{_file(r)},{r.y},{r.unit}" if r.suffix != ".row" else r.X.decode("latin-1") for r in records]
    (folder / "list.csv").write_text("\n".join(["file,label,person", *rows, ""]), "latin-1")
    return str(folder / "list.csv")


def _parquet(labels: Callable[[list[Any]], Any], features: dict | None = None) -> Callable[[Path, list[Record]], str]:
    def build(folder: Path, records: list[Record]) -> str:
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        pictures = pa.array([None if r.X is None else {"bytes": r.X, "path": None} for r in records], kind)
        table = pa.table({"image": pictures, "label": labels([r.y for r in records])})
        if features is not None:
            table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        parquet.write_table(table, folder / "a.parquet", row_group_size=2)
        return str(folder / "a.parquet")

    return build


def _whole(labels: list[Any]) -> Any:
    import pyarrow as pa

    return pa.array([None if y is None else NUMBERS[y] for y in labels], pa.int64())


def _inferred(labels: list[Any]) -> Any:
    """As pandas writes whole numbers: as floats, once one is missing."""
    import pyarrow as pa

    numbers = [np.nan if y is None else NUMBERS[y] for y in labels]
    return pa.array(np.array(numbers) if None in labels else np.array(numbers, np.int64))


def _dictionary(labels: list[Any]) -> Any:
    import pyarrow as pa

    return pa.array(labels, pa.string()).dictionary_encode()


NAMED = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["ant", "bee", "cow"]}}
IN_PARQUET = {
    **{kind: r for kind, r in PICTURES.items() if "person" not in kind},
    "no picture": Record(None, "bee"),
    "no label": Record(encoded(COLOUR, "PNG"), None),
}


def _npz(folder: Path, records: list[Record], save: Any = np.savez, X: str = "X", y: str = "y") -> str:
    save(
        folder / "a.npz",
        **{X: np.array([r.X for r in records]), y: np.array([r.y for r in records])},
        person=np.array([r.unit for r in records]),
    )
    return str(folder / "a.npz")


BYTES = [_integers(SIDE, SIDE) for _ in range(4)]
FLOATS = [RNG.random((SIDE, SIDE)).astype(np.float32) for _ in range(4)]
DIGITS = (0, 1, 2, 0)
IN_BYTES = {
    "black": Record(np.zeros((SIDE, SIDE), np.uint8), 1),
    "white": Record(np.full((SIDE, SIDE), 255, np.uint8), 1),
    "unknown label": Record(GREY, 9),
    "without a person": Record(GREY, 1, unit=""),
    "of another person": Record(GREY, 1, unit="a9"),
}
IN_FLOATS = {
    "NaN": Record(NAN, 1),
    "infinity": Record(INF, 1),
    "huge": Record(SHARES * np.float32(3e38), 1),
    "unknown label": Record(SHARES, 9),
    "negative label": Record(SHARES, -1),
    "label NaN": Record(SHARES, np.nan),
    "half a label": Record(SHARES, 0.5),
}


def _idx(folder: Path, records: list[Record], pack: Any = bytes, whole: bool = True) -> str:
    X, y = np.array([r.X for r in records]), np.array([r.y for r in records], np.uint8)
    write(folder, {"train-images-idx3-ubyte": pack(idx_bytes(X)), "train-labels-idx1-ubyte": pack(idx_bytes(y))})
    return str(folder if whole else folder / "train-images-idx3-ubyte")


def _cifar(name: str, pack: Any = bytes) -> Callable[[Path, list[Record]], str]:
    def build(folder: Path, records: list[Record]) -> str:
        content = cifar_bytes(np.array([r.X for r in records]), [r.y for r in records])
        return write(folder, {name: pack(content)}) + f"/{name}"

    return build


PLANES = [_integers(32, 32, 3) for _ in range(4)]
MAGIC = np.zeros((32, 32, 3), np.uint8)
MAGIC[0, :3, 0] = 0, 8, 3  # behind the label 0 the mark of IDX
GZIP = np.full((32, 32, 3), 0x8B, np.uint8)  # behind the label 31 that of gzip
IN_CIFAR = {
    "black": Record(PLANES[0] * 0, 1),
    "unknown label": Record(PLANES[0], 77),
    "the mark of IDX": Record(MAGIC, 0),
    "the mark of gzip": Record(GZIP, 31),
}
IN_CIFAR100 = {"black": Record(PLANES[0] * 0, (1, 1)), "unknown label": Record(PLANES[0], (77, 177))}


def _svhn(folder: Path, records: list[Record]) -> str:
    X = np.moveaxis(np.array([r.X for r in records]), 0, 3)
    savemat(folder / "train_32x32.mat", {"X": X, "y": np.array([[r.y] for r in records])})
    return str(folder)


class Items:
    """A map-style data set, as PyTorch has them."""

    def __init__(self, items: list[tuple[Any, Any]]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        image, label = self.items[i]
        if isinstance(image, bytes):
            image = Image.open(io.BytesIO(image))
        return image, label


class Tensor:
    """As much of a tensor of PyTorch as is asked for: channels stand first."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> np.ndarray:
        return self.values


class Featured(Items):
    """As much of `datasets.Dataset` as is asked for."""

    class Image: ...

    class ClassLabel:
        names = ("ant", "bee", "cow")

    @property
    def features(self) -> dict[str, Any]:
        return {"image": self.Image(), "label": self.ClassLabel()}

    def with_format(self, form: None) -> Featured:
        return self

    def __getitem__(self, i: int) -> Any:
        image, label = super().__getitem__(i)
        return {"image": image, "label": label}


def _items(kind: Any = Items) -> Callable[[Path, list[Record]], Any]:
    return lambda _, records: kind([(r.X, r.y) for r in records])


VALUES = [_integers(SIDE, SIDE, 3) for _ in range(4)]
IN_ITEMS = {
    **{f"PIL, {kind}": r._replace(y=NUMBERS[r.y]) for kind, r in PICTURES.items() if "person" not in kind},
    "floats": Record(VALUES[0] / 255, 1),
    "long integers": Record(VALUES[0].astype(np.int64), 1),
    "huge integers": Record(VALUES[0].astype(np.uint64) << 55, 1),
    "NaN": Record(np.full((SIDE, SIDE, 3), np.nan), 1),
    "beyond float32": Record(np.full((SIDE, SIDE, 3), 1e300), 1),
    "another size of floats": Record(np.full((2, 9, 3), 0.5), 1),
    "one channel": Record(GREY, 1),
    "two channels": Record(GREY[..., None].repeat(2, 2), 1),
    "no picture": Record(None, 1),
    "a text": Record("cat.png", 1),
    "a name as label": Record(VALUES[0], "bee"),
    "bytes as label": Record(VALUES[0], b"bee"),
    "a truth value as label": Record(VALUES[0], True),
    "several labels": Record(VALUES[0], [0, 1]),
    "no label": Record(VALUES[0], None),
    "half a label": Record(VALUES[0], 0.5),
}


def dicom_bytes(values: np.ndarray, **more: Any) -> bytes:
    """A DICOM file of one grey picture."""
    from test_sources import dicom_bytes as made

    return made(values, **more)


STORED = [RNG.integers(700, 1200, (SIDE, SIDE)).astype(np.int16) for _ in range(4)]


def _dicom() -> Source:
    good = _good([dicom_bytes(x) for x in STORED], suffix=".dcm")
    hostile = {
        "another size": Record(dicom_bytes(np.full((9, 4), 900, np.int16)), "bee", suffix=".dcm"),
        "another slope": Record(dicom_bytes(STORED[0], RescaleSlope="7.5"), "bee", suffix=".dcm"),
        "low is white": Record(dicom_bytes(STORED[0], PhotometricInterpretation="MONOCHROME1"), "bee", suffix=".dcm"),
        "frames": Record(dicom_bytes(STORED[0], NumberOfFrames=3), "bee", suffix=".dcm"),
        "cut": Record(dicom_bytes(STORED[0])[:-20], "bee", suffix=".dcm"),
        "without a suffix": Record(dicom_bytes(STORED[0]), "bee", suffix=""),
        "PNG": PICTURES["eight bits"],
        "16 bits": PICTURES["16 bits"],
        "floats": PICTURES["NaN"],
        "unknown label": Record(dicom_bytes(STORED[0]), "elk", suffix=".dcm"),
    }
    stated = {**PHOTOS, "bounds": (-160, 240), "channels": 1}
    return Source("folders", _folders(), stated, {"bounds": (-160, 240)}, good, hostile)


def sources() -> dict[str, Source]:
    """Every source by name: those below, and SOURCES of each `test_format_NAME.py`, the test of a new format."""
    return _sources() | {
        name: source
        for path in sorted(Path(__file__).parent.glob("test_format_*.py"))
        for name, source in getattr(import_module(path.stem), "SOURCES", {}).items()
    }


def _sources() -> dict[str, Source]:
    persons = {**PHOTOS, "unit": "person"}
    deep = _good([encoded(_integers(SIDE, SIDE, most=65_536, kind=np.uint16), "PNG") for _ in range(4)])
    floats = _good([encoded(x, "TIFF") for x in FLOATS], suffix=".tif")
    listed = {
        **PICTURES,
        "no file": Record(b"", "bee", suffix=".gone"),
        "short row": Record(b"x.png", "bee", suffix=".row"),
        "long row": Record(b"x.png,bee,p1,p2", "bee", suffix=".row"),
        "open quote": Record(b'"x.png,bee,p1', "bee", suffix=".row"),
        "not UTF-8": Record("ä.png,bee,p1".encode("latin-1"), "bee", suffix=".row"),
        "NUL": Record(b"x\0.png,bee,p1", "bee", suffix=".row"),
    }
    numbered = {"classes": 3, "strict": False}
    values = _good(VALUES, DIGITS)
    whole = [Record(x, k, f"p{k}", f"m{i}") for i, (x, k) in enumerate(zip(BYTES, DIGITS, strict=True))]
    shares = [Record(x, k) for x, k in zip(FLOATS, DIGITS, strict=True)]
    planes = [Record(x, k) for x, k in zip(PLANES, DIGITS, strict=True)]
    pairs = [Record(x, (k, k)) for x, k in zip(PLANES, DIGITS, strict=True)]
    named = [r._replace(y=LABELS[i]) for i, r in enumerate(whole)]
    bounded = {"bounds": (0, 1)}
    archive = {kind: r for kind, r in PICTURES.items() if kind != "label of spaces"}
    return {
        "folders": Source("folders", _folders(), PHOTOS, {}, GOOD, PICTURES),
        "folders of persons": Source("folders", _folders(), persons, {"unit": "person"}, GOOD, PICTURES),
        "folders in parts": Source("folders", _folders("train/"), {**PHOTOS, "channels": 1}, {}, GOOD, PICTURES),
        "folders, straightened": Source("folders", _folders(), {**PHOTOS, "straighten": True}, {}, GOOD, PICTURES),
        "folders with bounds, straightened": Source(
            "folders",
            _folders(),
            {**PHOTOS, "bounds": (0, 255), "straighten": True},
            {"bounds": (0, 255)},
            GOOD,
            PICTURES,
        ),
        "16 bits": Source(
            "folders", _folders(), {**PHOTOS, "bounds": (0, 65_535)}, {"bounds": (0, 65_535)}, deep, PICTURES
        ),
        "16 bits, straightened": Source(
            "folders",
            _folders(),
            {**PHOTOS, "bounds": (0, 65_535), "straighten": True},
            {"bounds": (0, 65_535)},
            deep,
            PICTURES,
        ),
        "floats in TIFF": Source("folders", _folders(), {**PHOTOS, **bounded}, bounded, floats, PICTURES),
        "DICOM": _dicom(),
        "zip": Source("archive", _in_zip(), PHOTOS, {}, GOOD, archive),
        "zip with a folder around": Source("archive", _in_zip("photos/"), PHOTOS, {}, GOOD, archive),
        "zip in parts": Source("archive", _in_zip("train/"), PHOTOS, {}, GOOD, archive),
        "tar": Source("archive", _in_tar("w"), PHOTOS, {}, GOOD, archive),
        "tar.gz": Source("archive", _in_tar("w:gz"), {**PHOTOS, "channels": 1}, {}, GOOD, archive),
        "list": Source("list", _list, {**PHOTOS, "unit": "person"}, {"classes": CLASSES}, GOOD, listed),
        "Parquet, ClassLabel": Source("parquet", _parquet(_whole, NAMED), PHOTOS, {}, GOOD, IN_PARQUET),
        "Parquet of pandas": Source("parquet", _parquet(_inferred), PHOTOS, {"classes": CLASSES}, GOOD, IN_PARQUET),
        "Parquet, dictionary": Source("parquet", _parquet(_dictionary), PHOTOS, {"classes": CLASSES}, GOOD, IN_PARQUET),
        "npz": Source("npz", _npz, {**numbered, "unit": "person"}, {"classes": 3}, whole, IN_BYTES),
        "npz of names": Source(
            "npz",
            _npz,
            PHOTOS,
            {"classes": CLASSES},
            named,
            {"unknown label": Record(GREY, "elk"), "long label": Record(GREY, "e" * 90)},
        ),
        "npz, packed": Source(
            "npz",
            lambda folder, records: _npz(folder, records, np.savez_compressed),
            {**numbered, **bounded},
            {"classes": 3, **bounded},
            shares,
            IN_FLOATS,
        ),
        "npz in parts": Source(
            "npz",
            lambda folder, records: _npz(folder, records, np.savez, "X_train", "y_train"),
            {**numbered, **bounded, "resize": 4, "straighten": True},
            {"classes": 3, **bounded},
            shares,
            IN_FLOATS,
        ),
        "MedMNIST": Source(
            "npz",
            lambda folder, records: _npz(folder, records, np.savez, "train_images", "train_labels"),
            numbered,
            {"classes": 3},
            whole,
            IN_BYTES,
        ),
        "IDX": Source("idx", _idx, {"strict": False, "classes": 3, "resize": 4}, {}, whole, IN_BYTES),
        "IDX, gzip": Source(
            "idx", lambda folder, records: _idx(folder, records, gzip.compress, False), numbered, {}, whole, IN_BYTES
        ),
        "CIFAR-10": Source("cifar", _cifar("data_batch_1.bin"), {"strict": False}, {}, planes, IN_CIFAR),
        "CIFAR-10 without a suffix": Source("cifar", _cifar("data_batch_1"), {"strict": False}, {}, planes, IN_CIFAR),
        "CIFAR-10, gzip": Source(
            "cifar", _cifar("data_batch_1.bin.gz", gzip.compress), {"strict": False}, {}, planes, IN_CIFAR
        ),
        "CIFAR-100": Source("cifar", _cifar("train.bin"), {"strict": False}, {}, pairs, IN_CIFAR100),
        "SVHN": Source(
            "svhn",
            _svhn,
            {"strict": False},
            {},
            planes,
            {
                "unknown label": Record(PLANES[0], 55),
                "half a label": Record(PLANES[0], 0.5),
                "label NaN": Record(PLANES[0], np.nan),
                "label 10": Record(PLANES[0], 10),
            },
        ),
        "items": Source("object", _items(), {**PHOTOS, "channels": 3}, {"classes": 3}, values, IN_ITEMS),
        "items of floats": Source(
            "object",
            _items(),
            {**PHOTOS, "channels": 1, **bounded},
            {"classes": 3, **bounded},
            _good(FLOATS, DIGITS),
            IN_ITEMS,
        ),
        "tensors": Source(
            "object",
            lambda _, records: Items([(Tensor(np.moveaxis(np.asarray(r.X), -1, 0)), r.y) for r in records]),
            {**PHOTOS, "channels": 3},
            {"classes": 3},
            values,
            {"floats": IN_ITEMS["floats"], "NaN": IN_ITEMS["NaN"], "one channel": Record(GREY[..., None], 1)},
        ),
        "data set of Hugging Face": Source(
            "object",
            _items(Featured),
            PHOTOS,
            {"channels": 3},
            [r._replace(y=NUMBERS[r.y]) for r in GOOD],
            {kind: r for kind, r in IN_ITEMS.items() if not isinstance(r.X, np.ndarray) or "label" in kind},
        ),
        "arrays": Source(
            "arrays",
            lambda _, records: (np.array([r.X for r in records]), np.array([r.y for r in records])),
            {"classes": 3, "strict": False, **bounded, "straighten": True},
            {"classes": 3, **bounded},
            shares,
            IN_FLOATS,
        ),
        "arrays of names": Source(
            "arrays",
            lambda _, records: (np.array([r.X for r in records]), np.array([r.y for r in records], object)),
            {"classes": CLASSES, "strict": False},
            {"classes": CLASSES},
            named,
            {
                "no label": Record(GREY, None),
                "number": Record(GREY, 1),
                "bytes": Record(GREY, b"cow"),
                "NaN": Record(GREY, np.nan),
                "unknown label": Record(GREY, "elk"),
            },
        ),
    }
