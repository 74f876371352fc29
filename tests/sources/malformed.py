"""Malformed inputs: more than 400 ways in which a source can be unusable.

Each is a name, a telling part of the sentence that refuses it, and a builder of its files.
"""

from __future__ import annotations

import gzip
import io
import os
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

Source = tuple[str, dict]
Builder = Callable[[Path], Source]
Case = tuple[str, str, Builder]

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
N, SIDE = 6, 4
UNKNOWN_FILE = "is no known data set: expected IDX files, CIFAR binary files, a .npz with X and y, or"
UNKNOWN_FOLDER = "data holds no known data set: expected IDX files, CIFAR binary files, a .npz with X and y, or"
NO_IMAGE = "is not a PNG or JPEG image, or is damaged."
DEEP = "has more than 8 bits per value: state the bounds of a value (--bounds 0,65535), or convert it to 8 bits."
NO_NPZ = "d.npz is not a .npz file, or is truncated."
DAMAGED_X = "d.npz is damaged: its array 'X' cannot be read."
OTHER_SIZE = "d.npz has an array 'X' of another size than its header promises."


def idx_images(n: int = N, h: int = SIDE, w: int = SIDE, magic: int = 0x803) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, n * h * w, dtype=np.uint8)
    return struct.pack(">IIII", magic, n, h, w) + pixels.tobytes()


def idx_labels(n: int = N, magic: int = 0x801) -> bytes:
    return struct.pack(">II", magic, n) + bytes(k % 10 for k in range(n))


def cifar_rows(n: int = 3, labels: tuple[int, ...] = (6, 9, 0)) -> bytes:
    pixels = np.random.default_rng(1).integers(0, 256, (n, 3072), dtype=np.uint8)
    return b"".join(bytes([labels[i % len(labels)]]) + pixels[i].tobytes() for i in range(n))


def picture(side: int = 8, mode: str = "RGB", form: str = "PNG", width: int | None = None) -> bytes:
    shape = (side, width or side, 3) if mode == "RGB" else (side, width or side)
    values = np.random.default_rng(2).integers(0, 256, shape, dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, form)
    return stream.getvalue()


def packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def archive(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def archive_compressed(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def flipped(content: bytes, at: int, by: int = 0xFF) -> bytes:
    return content[:at] + bytes([content[at] ^ by]) + content[at + 1 :]


def folder_of(files: dict[str, bytes], **options: object) -> Builder:
    """A builder of a folder with these files; a name that ends in a slash is a folder."""

    def build(tmp: Path) -> Source:
        root = tmp / "data"
        root.mkdir()
        for name, content in files.items():
            path = root / name
            if name.endswith("/"):
                path.mkdir(parents=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return str(root), dict(options)

    return build


def file_of(name: str, content: bytes, **options: object) -> Builder:
    """A builder of one file."""

    def build(tmp: Path) -> Source:
        (tmp / name).write_bytes(content)
        return str(tmp / name), dict(options)

    return build


def idx_cases() -> Iterator[Case]:
    images, labels = idx_images(), idx_labels()
    for cut in (0, 1, 3, 4, 7, 8, 12, 15, 16, 17, 40, len(images) - 1):
        yield f"idx images cut at {cut}", _cut(IMAGES, cut, 16, 112), folder_of({IMAGES: images[:cut], LABELS: labels})
    for cut in (0, 1, 3, 4, 7, 8, 9, len(labels) - 1):
        yield f"idx labels cut at {cut}", _cut(LABELS, cut, 8, 14), folder_of({IMAGES: images, LABELS: labels[:cut]})
    magics = ("ff000803", "ff000801"), ("00ff0803", "00ff0801"), ("0000f703", "0000f701"), ("000008fc", "000008fe")
    for at, found in enumerate(magics):
        yield from _idx_magic(at, *found)
    promised, sides = (
        "is truncated: 112 bytes where its header promises {}.",
        "has images of {} pixels; expected 1 to 65536",
    )
    headers = {
        4: promised.format(68451041392),
        5: promised.format(267386992),
        6: promised.format(1044592),
        7: promised.format(4000),
        8: sides.format("4278190084x4"),
        9: sides.format("16711684x4"),
        10: promised.format(1566832),
        11: promised.format(6040),
        12: sides.format("4x4278190084"),
        13: sides.format("4x16711684"),
        14: promised.format(1566832),
        15: promised.format(6040),
    }
    for at, says in headers.items():
        files = {IMAGES: flipped(images, at), LABELS: labels}
        yield f"idx images header flipped at {at}", f"{IMAGES} {says}", folder_of(files)
    for at, size in enumerate((4278190094, 16711694, 65294, 257), 4):
        says = f"{LABELS} is truncated: 14 bytes where its header promises {size}."
        yield f"idx labels header flipped at {at}", says, folder_of({IMAGES: images, LABELS: flipped(labels, at)})
    for extra in (b"\0", b"\n\n", images):
        more, says = f"with {len(extra)} bytes more", "is longer than the {} bytes that its header promises."
        yield f"idx images {more}", f"{IMAGES} {says.format(112)}", folder_of({IMAGES: images + extra, LABELS: labels})
        yield f"idx labels {more}", f"{LABELS} {says.format(14)}", folder_of({IMAGES: images, LABELS: labels + extra})
    for n in (0, 1, N - 1, N + 1, 100):
        yield f"idx {n} labels for {N} images", f" has {n} labels.", folder_of({IMAGES: images, LABELS: idx_labels(n)})
    for h, w in ((0, 4), (4, 0), (0, 0), (70_000, 1)):
        says = f"has images of {h}x{w} pixels; expected 1 to 65536 a side."
        yield f"idx images of {h}x{w}", says, folder_of({IMAGES: idx_images(1, h, w), LABELS: idx_labels(1)})
    both = {IMAGES: images, LABELS: labels}
    no_images = f"data has no file of train images (such as {IMAGES}.gz)."
    no_labels = f"{IMAGES} has no file of labels: expected {LABELS} or {LABELS}.gz next to it."
    yield "idx no images", no_images, folder_of({LABELS: labels})
    yield "idx no labels", no_labels, folder_of({IMAGES: images})
    test = {"t10k-images-idx3-ubyte": images, "t10k-labels-idx1-ubyte": labels}
    yield "idx only test", no_images, folder_of(test)
    exchanged = f"{IMAGES} has the IDX magic 0x00000801; expected 0x00000803."
    yield "idx images and labels exchanged", exchanged, folder_of({IMAGES: labels, LABELS: images})
    yield "idx images is a folder", no_images, folder_of({IMAGES + "/": b"", LABELS: labels})
    yield "idx labels is a folder", no_labels, folder_of({IMAGES: images, LABELS + "/": b""})
    two = {f"emnist-{k}-{n}": c for k in ("letters", "digits") for n, c in both.items()}
    says = f"has several files of train images: name one of them, such as emnist-digits-{IMAGES}."
    yield "idx two train sets", says, folder_of(two)
    yield "idx label above the classes", _label(5, 10, 10), folder_of({IMAGES: images, LABELS: labels[:-1] + b"\x0a"})
    yield "idx label 255", _label(5, 255, 10), folder_of({IMAGES: images, LABELS: labels[:-1] + b"\xff"})
    yield "idx fewer classes than labels", _label(3, 3, 3), folder_of(both, classes="3")
    yield "idx channels asked", "data has fixed channels", folder_of(both, channels=3)
    yield "idx label file named", "is a file of labels; name the images", file_of(LABELS, labels)
    yield "idx single file, no labels", no_labels, file_of(IMAGES, images)
    yield "idx single file, odd name", "numbers needs a name with 'images'", file_of("numbers", images)


def _cut(name: str, cut: int, header: int, size: int) -> str:
    """The sentence on an IDX file of some size that ends early."""
    if cut == 0:
        return f"{name} is empty."
    if cut < header:
        return f"{name} is truncated: its IDX header needs {header} bytes."
    return f"{name} is truncated: {cut} bytes where its header promises {size}."


def _label(record: int, label: object, classes: int) -> str:
    return f": Record {record} has the label '{label}', which is not one of the {classes} classes."


def _idx_magic(at: int, x: str, y: str) -> Iterator[Case]:
    images, labels = idx_images(), idx_labels()
    bad_x, bad_y = flipped(images, at), flipped(labels, at)
    says = f"{IMAGES} has the IDX magic 0x{x}; expected 0x00000803."
    yield f"idx images magic flipped at {at}", says, folder_of({IMAGES: bad_x, LABELS: labels})
    says = f"{LABELS} has the IDX magic 0x{y}; expected 0x00000801."
    yield f"idx labels magic flipped at {at}", says, folder_of({IMAGES: images, LABELS: bad_y})
    says = f"{IMAGES} has the magic 0x{x}; expected 0x00000803 of IDX images."
    yield f"idx file magic flipped at {at}", says, _idx_file(bad_x, labels)


def _idx_file(images: bytes, labels: bytes) -> Builder:
    inner = folder_of({IMAGES: images, LABELS: labels})

    def build(tmp: Path) -> Source:
        source, options = inner(tmp)
        return os.path.join(source, IMAGES), options

    return build


def gzip_cases() -> Iterator[Case]:
    images, labels = idx_images(), idx_labels()
    small, tags, half = packed(images), packed(labels), len(packed(images)) // 2
    early, damaged = ".gz is truncated: its gzip stream ends early.", ".gz is damaged: its gzip "
    no_header = ".gz is truncated: its IDX header needs 16 bytes."
    for cut in (1, 2, 5, 9, 10, 11, 20, half, len(small) - 9, len(small) - 8, len(small) - 4, len(small) - 1):
        says = IMAGES + (early if cut > 1 else no_header)
        yield f"gzip images cut at {cut}", says, folder_of({IMAGES + ".gz": small[:cut], LABELS + ".gz": tags})
    magic = {0: ".gz has the IDX magic 0xe08b0800;", 1: ".gz has the IDX magic 0x1f740800;"}
    for at in (0, 1, 2, 12, 30, half, len(small) - 10, len(small) - 8, len(small) - 5, len(small) - 4):
        says = IMAGES + magic.get(at, damaged)
        yield (
            f"gzip images flipped at {at}",
            says,
            folder_of({IMAGES + ".gz": flipped(small, at), LABELS + ".gz": tags}),
        )
    for cut in (1, 5, 10, 15, len(tags) - 8, len(tags) - 1):
        says = LABELS + (early if cut > 1 else ".gz is truncated: its IDX header needs 8 bytes.")
        yield f"gzip labels cut at {cut}", says, folder_of({IMAGES + ".gz": small, LABELS + ".gz": tags[:cut]})
    zipped: dict[str, tuple[str, bytes]] = {
        "rubbish behind": (damaged, small + b"rubbish"),
        "of nothing": (no_header, packed(b"")),
        "twice": (".gz has the IDX magic 0x1f8b0800;", packed(small)),
    }
    for name, (says, content) in zipped.items():
        yield f"gzip {name}", IMAGES + says, folder_of({IMAGES + ".gz": content, LABELS + ".gz": tags})
    longer = " is longer than the 112 bytes that its header promises."
    disguised: dict[str, tuple[str, bytes]] = {
        "promises too much": (" is too large to be unpacked in memory: gunzip it first.", _promise(2**32 - 1, 28)),
        "promises somewhat more": (" is truncated: 16 bytes where its header promises 1616.", _promise(100, 4)),
        "longer than promised": (longer, images + bytes(50)),
        "bomb": (longer, images + bytes(20_000_000)),
    }
    for name, (says, content) in disguised.items():
        yield f"gzip {name}", IMAGES + says, folder_of({IMAGES: packed(content), LABELS: labels})
    says = _no_cifar("data_batch_1.bin.gz", 3_073_001)
    yield "gzip cifar bomb of odd size", says, file_of("data_batch_1.bin.gz", packed(bytes(3_073_001)))
    yield "gzip text", f"data.gz {UNKNOWN_FILE}", file_of("data.gz", packed(b"not a data set"))
    rows = packed(cifar_rows())
    for cut in (2, 9, 100, len(rows) // 2, len(rows) - 8, len(rows) - 1):
        yield f"gzip cifar cut at {cut}", f"data_batch_1.bin{early}", folder_of({"data_batch_1.bin.gz": rows[:cut]})
    for at in (1, 2, 50, len(rows) // 2, len(rows) - 6):
        says = _no_cifar("data_batch_1.bin.gz", len(rows)) if at == 1 else f"data_batch_1.bin{damaged}"
        yield f"gzip cifar flipped at {at}", says, folder_of({"data_batch_1.bin.gz": flipped(rows, at)})


def _no_cifar(name: str, size: int, record: str = "3073") -> str:
    return f"{name} is not a CIFAR file: its {size} bytes are not a whole number of records of {record} bytes."


def _promise(n: int, side: int) -> bytes:
    return struct.pack(">IIII", 0x803, n, side, side)


def cifar_cases() -> Iterator[Case]:
    rows = cifar_rows()
    for cut in (0, 1, 100, 3072, 3074, 6145, 6147, len(rows) - 1):
        first, second = (
            _no_cifar(f"data_batch_{k}.bin", cut) if cut else f"data_batch_{k}.bin is empty." for k in (1, 2)
        )
        yield f"cifar folder cut at {cut}", first, folder_of({"data_batch_1.bin": rows[:cut]})
        yield f"cifar file cut at {cut}", first, file_of("data_batch_1.bin", rows[:cut])
        files = {"data_batch_1.bin": rows, "data_batch_2.bin": rows[:cut]}
        yield f"cifar second batch cut at {cut}", second, folder_of(files)
    for label in (10, 11, 100, 255):
        files = {"data_batch_1.bin": cifar_rows(3, (1, label, 2))}
        yield f"cifar label {label}", _label(1, label, 10), folder_of(files)
    no_train = "data has no CIFAR file of the train part (data_batch_*.bin or train.bin)."
    yield "cifar only test", no_train, folder_of({"test_batch.bin": rows})
    yield "cifar fewer classes", _label(0, 6, 2), folder_of({"data_batch_1.bin": rows}, classes="cat,dog")
    pickle = "data_batch_1 looks like a Python pickle, which is never loaded"
    yield "cifar pickle", pickle, folder_of({"data_batch_1": b"\x80\x02}q\x00" + bytes(500)})
    yield "cifar pickle file", pickle, file_of("data_batch_1", b"\x80\x04\x95" + bytes(500))
    yield "cifar batch is a folder", no_train, folder_of({"data_batch_1.bin/": b""})
    text = b"label,pixels\n"
    yield "cifar batch of text", _no_cifar("data_batch_1.bin", 13), folder_of({"data_batch_1.bin": text})
    yield "cifar 100 label", _label(0, 100, 100), folder_of({"train.bin": b"\0\x64" + bytes(3072)})
    either = "3073 (CIFAR-10) or 3074 (CIFAR-100)"
    yield "cifar 100 cut", _no_cifar("train.bin", 3079, either), folder_of({"train.bin": bytes(3074 + 5)})
    yield "cifar channels asked", "has fixed channels", folder_of({"data_batch_1.bin": rows}, channels=1)


def npz_cases() -> Iterator[Case]:
    X, y = np.random.default_rng(3).integers(0, 256, (5, 4, 4), dtype=np.uint8), np.arange(5) % 2
    two: dict = {"classes": "2"}
    good, small = archive(X=X, y=y), archive_compressed(X=X, y=y)
    cut_says = {0: "d.npz is empty.", 1: f"d.npz {UNKNOWN_FILE}"}
    no_classes = "d.npz does not state its classes: pass --classes (10, or cat,dog)."
    for content, kind in ((good, "stored"), (small, "compressed")):
        for cut in (0, 1, 4, 30, 100, len(content) // 2, len(content) - 30, len(content) - 1):
            yield f"npz {kind} cut at {cut}", cut_says.get(cut, NO_NPZ), file_of("d.npz", content[:cut], **two)
        yield f"npz {kind} without classes", no_classes, file_of("d.npz", content)
        yield f"npz {kind} tail flipped", NO_NPZ, file_of("d.npz", flipped(content, len(content) - 22), **two)
    deflated = small.index(b"X.npy") + 40
    for at in (deflated, deflated + 10, deflated + 30):
        yield f"npz compressed data flipped at {at}", DAMAGED_X, file_of("d.npz", flipped(small, at), **two)
    magic = good.index(b"\x93NUMPY")
    for at in (magic, magic + 1, magic + 6, magic + 8, magic + 10, magic + 12):
        yield f"npz array header flipped at {at}", DAMAGED_X, file_of("d.npz", flipped(good, at), **two)
    yield from _npz_arrays(X, y)
    single = "d.npy is an array without labels; save X and y in one .npz."
    yield "npz single array", single, file_of("d.npy", good[magic : magic + 200], **two)
    yield "npz no members", _npz_lacks("none"), file_of("d.npz", _zip({}), **two)
    yield "npz of texts", DAMAGED_X, file_of("d.npz", _zip({"X.npy": b"hello", "y.npy": b"world"}), **two)
    yield "npz empty members", DAMAGED_X, file_of("d.npz", _zip({"X.npy": b"", "y.npy": b""}), **two)
    yield "npz member shorter than promised", DAMAGED_X, file_of("d.npz", _short_member(), **two)
    shapes = {"(99999999999, 4, 4)": OTHER_SIZE, "(-5, 4, 4)": DAMAGED_X, "(5, 4, 400000000000)": OTHER_SIZE}
    for shape, says in {**shapes, "(5, 4)": OTHER_SIZE}.items():
        content = _zip({"X.npy": _npy(shape), "y.npy": _npy("(5,)")})
        yield f"npz header of {shape}", says, file_of("d.npz", content, **two)
    types = {"|V8": OTHER_SIZE, "<M8[s]": OTHER_SIZE, "<i3": DAMAGED_X, "nonsense": DAMAGED_X}
    for dtype, says in {"|O": _npz_objects("X"), **types}.items():
        content = _zip({"X.npy": _npy("(5, 4, 4)", dtype), "y.npy": _npy("(5,)")})
        yield f"npz header of type {dtype}", says, file_of("d.npz", content, **two)


def _npz_lacks(found: str) -> str:
    return f"d.npz has no arrays X and y (or X_train and y_train); it has: {found}."


def _npz_objects(name: str) -> str:
    return f"d.npz has an array '{name}' of Python objects, which are never loaded."


def _short_member() -> bytes:
    """A compressed member with fewer bytes than both its header and the archive's directory promise."""
    real = _npy("(6, 4, 4)", size=80)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr("X.npy", real)
        writer.writestr("y.npy", _npy("(6,)", size=6))
    content = stream.getvalue()
    entry = content.index(b"PK\x01\x02")
    return content[: entry + 24] + struct.pack("<I", len(real) + 16) + content[entry + 28 :]


def _npy(shape: str, dtype: str = "|u1", size: int = 80) -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(size)


def _zip(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as writer:
        for name, content in members.items():
            writer.writestr(name, content)
    return stream.getvalue()


def _npz_arrays(X: np.ndarray, y: np.ndarray) -> Iterator[Case]:
    unit = X / 255.0
    nan, infinite = unit.copy(), unit.copy()
    nan[3, 1, 1], infinite[0, 0, 0] = np.nan, -np.inf
    shape = "d.npz: Expected X of shape (n, h, w) or (n, h, w, c); got {}."
    labels = "d.npz: Expected as many labels as images; got labels of shape {} and 5 images."
    one_hot = "d.npz: Expected one label an image; got 2: turn one-hot rows into numbers, argmax(axis=1)."
    label_type = "d.npz: Expected labels as whole numbers or class names; got {}."
    image_type = "d.npz: Expected X as whole numbers or floats; got {}."
    bounds = "d.npz: Expected bounds -1e30 <= low < high <= 1e30; got {}."
    arrays: dict[str, tuple[str, dict]] = {
        "no labels": (_npz_lacks("X"), {"X": X}),
        "no images": (_npz_lacks("y"), {"y": y}),
        "other names": (_npz_lacks("a, b"), {"a": X, "b": y}),
        "other part": (_npz_lacks("X_test, y_test"), {"X_test": X, "y_test": y}),
        "labels of another part": (_npz_lacks("X_train, y_test"), {"X_train": X, "y_test": y}),
        "rows": (shape.format("(5, 16)"), {"X": X.reshape(5, 16), "y": y}),
        "one value": (shape.format("()"), {"X": np.array(3, np.uint8), "y": y}),
        "five axes": (shape.format("(5, 4, 4, 1, 1)"), {"X": X[..., None, None], "y": y}),
        "no height": (shape.format("(5, 0, 4)"), {"X": X[:, :0], "y": y}),
        "fewer labels": (labels.format("(4,)"), {"X": X, "y": y[:4]}),
        "more labels": (labels.format("(9,)"), {"X": X, "y": np.zeros(9, int)}),
        "no label at all": (labels.format("(0,)"), {"X": X, "y": y[:0]}),
        "a row of labels": (labels.format("(1, 5)"), {"X": X, "y": y[None]}),
        "one-hot labels": (one_hot, {"X": X, "y": np.eye(2)[y]}),
        "half a label": (_label(0, 0.5, 2), {"X": X, "y": y + 0.5}),
        "NaN as a label": ("Record 0 has no label.", {"X": X, "y": np.full(5, np.nan)}),
        "infinity as a label": (_label(0, np.inf, 2), {"X": X, "y": np.full(5, np.inf)}),
        "times as labels": (label_type.format("datetime64[s]"), {"X": X, "y": y.astype("M8[s]")}),
        "complex labels": (label_type.format("complex128"), {"X": X, "y": y.astype(complex)}),
        "label 2 of 2": (_label(1, 2, 2), {"X": X, "y": y + 1}),
        "label -1": (_label(0, -1, 2), {"X": X, "y": y - 1}),
        "label of 64 bits": (_label(0, 2**64 - 1, 2), {"X": X, "y": np.full(5, 2**64 - 1, np.uint64)}),
        "unknown names": (_label(0, "a", 2), {"X": X, "y": np.array(list("abcde"))}),
        "unknown byte names": (
            "Record 0 has the label '\N{REPLACEMENT CHARACTER}', which",
            {"X": X, "y": np.array([b"\xff"] * 5)},
        ),
        "object labels": (_npz_objects("y"), {"X": X, "y": np.array(["0", 1, None, "1", 0], object)}),
        "object images": (_npz_objects("X"), {"X": np.array([[[None]]] * 5, object), "y": y}),
        "text images": (image_type.format("<U3"), {"X": X.astype(str), "y": y}),
        "complex images": (image_type.format("complex128"), {"X": X.astype(complex), "y": y}),
        "bool images": (image_type.format("bool"), {"X": X > 3, "y": y}),
        "times as images": (image_type.format("datetime64[s]"), {"X": X.astype("M8[s]"), "y": y}),
        "structured images": ("got [('f0', 'u1'), ('f1', '<f4')].", {"X": np.zeros((5, 4, 4), "u1, f4"), "y": y}),
        "class table": (
            "has an array 'classes' that is not a list of",
            {"X": X, "y": y, "classes": np.zeros((2, 2), int)},
        ),
        "bounds of three": ("has an array 'bounds' that is not two", {"X": X, "y": y, "bounds": np.arange(3)}),
        "bounds upside down": (bounds.format("1,0"), {"X": X, "y": y, "bounds": np.array([1, 0])}),
        "bounds of NaN": (bounds.format("0,nan"), {"X": X, "y": y, "bounds": np.array([0, np.nan])}),
        "object bounds": (_npz_objects("bounds"), {"X": X, "y": y, "bounds": np.array([0, None])}),
    }
    for name, (says, content) in arrays.items():
        yield f"npz {name}", says, file_of("d.npz", archive(**content), classes="2")
        yield f"npz compressed {name}", says, file_of("d.npz", archive_compressed(**content), classes="2")
    for dtype in ("f4", "f8", "i2", "i8", "u2"):
        says = f"d.npz: Expected bounds for {np.dtype(dtype)} values: state them (--bounds LOW,HIGH)."
        content = archive(X=X.astype(dtype), y=y)
        yield f"npz {dtype} without bounds", says, file_of("d.npz", content, classes="2")
    for name, record, values in (("NaN", 3, nan), ("infinity", 0, infinite), ("half NaN", 3, nan.astype(np.float16))):
        says = f"d.npz: Record {record} has a value that is not finite (NaN or infinity)."
        yield f"npz {name}", says, file_of("d.npz", archive(X=values, y=y), classes="2", bounds="0,1")
    classes = {
        "classes named twice": ("d.npz: Expected distinct class names; at least one is named twice.", ["a", "a"]),
        "classes in objects": (_npz_objects("classes"), ["a", None]),
        "one class": ("d.npz: Expected 2 to 65536 classes; got 1.", ["a"]),
    }
    for name, (says, names) in classes.items():
        yield f"npz {name}", says, file_of("d.npz", archive(X=X, y=y, classes=np.array(names)))


def option_cases() -> Iterator[Case]:
    files = {IMAGES: idx_images(), LABELS: idx_labels()}
    classes = {
        "": "Expected class names of printable characters; got ''.",
        "0": "Expected 2 <= classes=0 <= 65536.",
        "1": "Expected 2 <= classes=1 <= 65536.",
        "-3": "Expected 2 <= classes=-3 <= 65536.",
        "cat": "Expected 2 to 65536 classes; got 1.",
        "cat,cat": "Expected distinct class names; at least one is named twice.",
        "cat,,dog": "Expected class names of printable characters; got ''.",
        ",": "Expected class names of printable characters; got ''.",
        "1e3": "Expected 2 to 65536 classes; got 1.",
        "99999999999999999999": "Expected 2 to 65536 classes; got a number of 20 digits.",
        "a\tb,c": "Expected class names of printable characters; got 'a\\tb'.",
        "²": "Expected 2 to 65536 classes; got 1.",
    }
    for value, says in classes.items():
        yield f"classes {value!r}", says, folder_of(files, classes=value)
    for bounds in ("", "1", "a,b", "0,1,2", "0;1"):
        says = f"Expected bounds as two numbers low,high; got '{bounds}'."
        yield f"bounds {bounds!r}", says, folder_of(files, bounds=bounds)
    for bounds in ("1,0", "0,0", "0,nan", "0,inf", "-inf,0", "0,1e40"):
        says = f"Expected bounds -1e30 <= low < high <= 1e30; got {bounds.replace('e40', 'e+40')}."
        yield f"bounds {bounds!r}", says, folder_of(files, bounds=bounds)
    for resize in (0, -1, 4097, 10**9):
        says = f"Expected resize={resize} as a whole number of pixels, 1 to 4096."
        yield f"resize {resize}", says, folder_of(files, resize=resize)


def picture_cases() -> Iterator[Case]:
    png, jpeg = picture(16), picture(16, form="JPEG")
    bodies = (("png", png), ("jpg", jpeg), ("jpeg", jpeg))
    for suffix, body in bodies:
        for cut in (0, 1, 3, 8, 20, 30, len(body) // 3, len(body) // 2):
            says = f"dog/b.{suffix} {NO_IMAGE if cut else 'is empty.'}"
            yield f"{suffix} cut at {cut}", says, folder_of({f"cat/a.{suffix}": body, f"dog/b.{suffix}": body[:cut]})
        for at in range(3):
            files = {f"cat/a.{suffix}": flipped(body, at), "dog/b.png": png}
            yield f"first {suffix} flipped at {at}", f"cat/a.{suffix} {NO_IMAGE}", folder_of(files)
    for at in (12, 17, 18, 22, 24, 25, 29, 50, 60):
        files = {"cat/a.png": png, "dog/b.png": flipped(png, at)}
        yield f"png flipped at {at}", f"dog/b.png {NO_IMAGE}", folder_of(files)
    sizes = {
        "taller": ("17x17", picture(17)),
        "smaller": ("4x4", picture(4)),
        "wider": ("16x20", picture(16, width=20)),
    }
    for name, (side, other) in sizes.items():
        says = f"/b.png is {side} pixels where "
        yield f"mixed sizes, {name}", f"dog{says}", folder_of({"cat/a.png": png, "dog/b.png": other})
        files = {"cat/a.png": png, "cat/b.png": other, "dog/b.png": png}
        yield f"mixed sizes in a class, {name}", f"cat{says}", folder_of(files)
    foreign = {
        "text": (NO_IMAGE, b"hello"),
        "html": (NO_IMAGE, b"<html></html>"),
        "gif": (NO_IMAGE, picture(16, "L", "GIF")),
        "bmp": (NO_IMAGE, picture(16, form="BMP")),
        "tiff": (NO_IMAGE, picture(16, form="TIFF")),
        "webp magic": (NO_IMAGE, b"RIFF\x10\0\0\0WEBPVP8 "),
        "gzip": (NO_IMAGE, packed(png)),
        "zeros": (NO_IMAGE, bytes(400)),
        "random": (NO_IMAGE, np.random.default_rng(4).bytes(500)),
        "16 bits": (
            DEEP,
            _deep_png(),
        ),
        "too many pixels": ("has too many pixels to be decoded safely.", _bomb_png()),
        "only a header": (NO_IMAGE, png[:33]),
    }
    for name, (says, content) in foreign.items():
        yield f"png of {name}", f"dog/b.png {says}", folder_of({"cat/a.png": png, "dog/b.png": content})
        first = {"cat/a.png": content, "dog/b.png": png}
        yield f"first png of {name}", f"cat/a.png {says}", folder_of(first, resize=8)
    both = {"cat/a.png": png, "dog/b.png": png}
    says = "data has the class folder 'dog', which is not one of the stated classes."
    yield "classes that no folder has", says, folder_of(both, classes="cat,cow")
    yield "a single class folder", "data: Expected 2 to 65536 classes; got 1.", folder_of({"cat/a.png": png})
    no_png = "data has no PNG, JPEG, TIFF, BMP, WebP, GIF or DICOM in class folders (<class>/*.png)."
    yield "class folders without images", no_png, folder_of({"cat/": b"", "dog/": b""})
    yield "class folders of texts", no_png, folder_of({"cat/a.txt": b"meow", "dog/b.txt": b"woof"})
    yield "images without class folders", UNKNOWN_FOLDER, folder_of({"a.png": png, "b.png": png})
    says = "data has pictures in 'all/cat', deeper than in class folders (<class>/*.png): name the folder that holds"
    yield "images too deep", says, folder_of({"all/cat/a.png": png, "all/dog/b.png": png})
    says = "data has no folder 'train' with class folders."
    yield "only a test folder", says, folder_of({"test/cat/a.png": png, "test/dog/b.png": png})
    says = "data has a class folder with a name that cannot be printed: "
    yield "class folder with a line break", says + r"ca\nt.", folder_of({"ca\nt/a.png": png, "dog/b.png": png})
    yield "class folder with an escape", says + r"ca\x1b[31mt.", folder_of({"ca\x1b[31mt/a.png": png, "dog/b.png": png})
    for channels in (0, 2, 4, -1):
        says = f"Expected channels={channels} to be 1 (grey) or 3 (colour)."
        yield f"channels {channels}", says, folder_of(both, channels=channels)


def _deep_png() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.arange(256, dtype=np.uint16).reshape(16, 16) * 200).save(stream, "PNG")
    return stream.getvalue()


def _bomb_png() -> bytes:
    stream = io.BytesIO()
    Image.new("1", (20_000, 6_000)).save(stream, "PNG")
    return stream.getvalue()


def place_cases() -> Iterator[Case]:
    for name in ("missing", "missing/deeper", "kätzchen", "two words", "new\nline", "x" * 300, "-", "~", "*.png"):
        says = "x cannot be read: File name too long." if len(name) > 255 else f"/{name} does not exist."
        says = says.replace("\n", r"\n")
        yield f"no such path {name[:20]!r}", says, lambda tmp, name=name: (str(tmp / name), {})
    impossible = "Expected the path of a file or folder; got an empty or impossible one."
    yield "empty path", impossible, lambda tmp: ("", {})
    yield "path with a zero byte", impossible, lambda tmp: (str(tmp) + "\0", {})
    for name in ("digits:", "digits:validation", "digits:Train", "digits:train:test"):
        says = f"Expected digits:train or digits:test; got {name}."
        yield f"source {name}", says, lambda tmp, name=name: (name, {})
    yield "empty folder", UNKNOWN_FOLDER, folder_of({})
    yield "folder of texts", UNKNOWN_FOLDER, folder_of({"readme.txt": b"hello"})
    yield "folder of hidden files", UNKNOWN_FOLDER, folder_of({".hidden/a.png": picture(), ".other": b"x"})
    yield "a device", f"{os.devnull} is not a regular file.", lambda tmp: (os.devnull, {})
    for name in ("a.txt", "a.npz", "a.bin", "a.png", "a.gz", "kätzchen.npz", "new\nline.npz"):
        shown = name.replace("\n", r"\n")
        text, noise = b"hello, world\n", np.random.default_rng(5).bytes(999)
        unknown = [
            _no_cifar(name, n) if name == "a.bin" else f"{shown} {UNKNOWN_FILE}" for n in (len(text), len(noise))
        ]
        yield f"empty file {name!r}", f"{shown} is empty.", file_of(name, b"")
        yield f"text file {name!r}", unknown[0], file_of(name, text)
        yield f"random file {name!r}", unknown[1], file_of(name, noise)
    single = "is a single image; name the folder that holds the class folders."
    yield "a single png", f"a.png {single}", file_of("a.png", picture())
    yield "a single jpeg", f"a.jpg {single}", file_of("a.jpg", picture(form="JPEG"))
    rows = b"\xee" + np.random.default_rng(6).bytes(3072)
    yield "random bytes of a cifar size", f"a.bin{_label(0, 238, 10)}", file_of("a.bin", rows)
    yield "loop of links", "a cannot be read: Too many levels of symbolic links.", _loop
    yield "class folder of broken links", "dog/c.png does not exist.", _broken_links
    says = "dog/c.png cannot be read: Too many levels of symbolic links."
    yield "loop of links in a class folder", says, _loop_in_folder
    yield "pipe", "pipe.npz is not a regular file.", _pipe
    yield "pipe in a class folder", "dog/c.png is not a regular file.", _pipe_in_folder
    yield "name that is not UTF-8", r"with a name that cannot be printed: do\udcffg.", _bytes_name
    yield "below a file", "file/data cannot be read: Not a directory.", _below_file


def _loop(tmp: Path) -> Source:
    (tmp / "a").symlink_to(tmp / "b")
    (tmp / "b").symlink_to(tmp / "a")
    return str(tmp / "a"), {}


def _broken_links(tmp: Path) -> Source:
    source, options = folder_of({"cat/a.png": picture(), "dog/b.png": picture()})(tmp)
    (Path(source) / "dog" / "c.png").symlink_to(tmp / "nowhere.png")
    return source, options


def _loop_in_folder(tmp: Path) -> Source:
    source, options = folder_of({"cat/a.png": picture(), "dog/b.png": picture()})(tmp)
    (Path(source) / "dog" / "c.png").symlink_to("c.png")
    return source, options


def _pipe(tmp: Path) -> Source:
    os.mkfifo(tmp / "pipe.npz")
    return str(tmp / "pipe.npz"), {}


def _pipe_in_folder(tmp: Path) -> Source:
    source, options = folder_of({"cat/a.png": picture(), "dog/b.png": picture()})(tmp)
    os.mkfifo(Path(source) / "dog" / "c.png")
    return source, options


def _bytes_name(tmp: Path) -> Source:
    source, options = folder_of({"cat/a.png": picture()})(tmp)
    folder = os.path.join(os.fsencode(source), b"do\xffg")
    os.mkdir(folder)
    with open(os.path.join(folder, b"b.png"), "wb") as file:
        file.write(picture())
    return source, options


def _below_file(tmp: Path) -> Source:
    (tmp / "file").write_bytes(b"x")
    return str(tmp / "file" / "data"), {}


def cases() -> Iterator[Case]:
    """Every malformed input: its name, what is said of it, and builder(empty folder) -> (source, options of load)."""
    for family in (idx_cases, gzip_cases, cifar_cases, npz_cases, option_cases, picture_cases, place_cases):
        yield from family()
