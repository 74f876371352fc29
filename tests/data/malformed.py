"""Malformed inputs: more than 200 ways in which a source can be unusable, each a builder of files."""

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
Case = tuple[str, Builder]

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
N, SIDE = 6, 4


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
        yield f"idx images cut at {cut}", folder_of({IMAGES: images[:cut], LABELS: labels})
    for cut in (0, 1, 3, 4, 7, 8, 9, len(labels) - 1):
        yield f"idx labels cut at {cut}", folder_of({IMAGES: images, LABELS: labels[:cut]})
    for at in range(4):
        yield f"idx images magic flipped at {at}", folder_of({IMAGES: flipped(images, at), LABELS: labels})
        yield f"idx labels magic flipped at {at}", folder_of({IMAGES: images, LABELS: flipped(labels, at)})
        yield f"idx file magic flipped at {at}", _idx_file(flipped(images, at), labels)
    for at in range(4, 16):
        yield f"idx images header flipped at {at}", folder_of({IMAGES: flipped(images, at), LABELS: labels})
    for at in range(4, 8):
        yield f"idx labels header flipped at {at}", folder_of({IMAGES: images, LABELS: flipped(labels, at)})
    for extra in (b"\0", b"\n\n", images):
        yield f"idx images with {len(extra)} bytes more", folder_of({IMAGES: images + extra, LABELS: labels})
        yield f"idx labels with {len(extra)} bytes more", folder_of({IMAGES: images, LABELS: labels + extra})
    for n in (0, 1, N - 1, N + 1, 100):
        yield f"idx {n} labels for {N} images", folder_of({IMAGES: images, LABELS: idx_labels(n)})
    for h, w in ((0, 4), (4, 0), (0, 0), (70_000, 1)):
        yield f"idx images of {h}x{w}", folder_of({IMAGES: idx_images(1, h, w), LABELS: idx_labels(1)})
    yield "idx no images", folder_of({LABELS: labels})
    yield "idx no labels", folder_of({IMAGES: images})
    yield "idx only test", folder_of({"t10k-images-idx3-ubyte": images, "t10k-labels-idx1-ubyte": labels})
    yield "idx images and labels exchanged", folder_of({IMAGES: labels, LABELS: images})
    yield "idx images is a folder", folder_of({IMAGES + "/": b"", LABELS: labels})
    yield "idx labels is a folder", folder_of({IMAGES: images, LABELS + "/": b""})
    yield (
        "idx two train sets",
        folder_of(
            {f"emnist-{k}-{n}": c for k in ("letters", "digits") for n, c in ((IMAGES, images), (LABELS, labels))}
        ),
    )
    yield "idx label above the classes", folder_of({IMAGES: images, LABELS: labels[:-1] + b"\x0a"})
    yield "idx label 255", folder_of({IMAGES: images, LABELS: labels[:-1] + b"\xff"})
    yield "idx fewer classes than labels", folder_of({IMAGES: images, LABELS: labels}, classes="3")
    yield "idx channels asked", folder_of({IMAGES: images, LABELS: labels}, channels=3)
    yield "idx label file named", file_of(LABELS, labels)
    yield "idx single file, no labels", file_of(IMAGES, images)
    yield "idx single file, odd name", file_of("numbers", images)


def _idx_file(images: bytes, labels: bytes) -> Builder:
    inner = folder_of({IMAGES: images, LABELS: labels})

    def build(tmp: Path) -> Source:
        source, options = inner(tmp)
        return os.path.join(source, IMAGES), options

    return build


def gzip_cases() -> Iterator[Case]:
    images, labels = idx_images(), idx_labels()
    small, tags = packed(images), packed(labels)
    for cut in (
        1,
        2,
        5,
        9,
        10,
        11,
        20,
        len(small) // 2,
        len(small) - 9,
        len(small) - 8,
        len(small) - 4,
        len(small) - 1,
    ):
        yield f"gzip images cut at {cut}", folder_of({IMAGES + ".gz": small[:cut], LABELS + ".gz": tags})
    for at in (0, 1, 2, 12, 30, len(small) // 2, len(small) - 10, len(small) - 8, len(small) - 5, len(small) - 4):
        yield f"gzip images flipped at {at}", folder_of({IMAGES + ".gz": flipped(small, at), LABELS + ".gz": tags})
    for cut in (1, 5, 10, 15, len(tags) - 8, len(tags) - 1):
        yield f"gzip labels cut at {cut}", folder_of({IMAGES + ".gz": small, LABELS + ".gz": tags[:cut]})
    yield "gzip rubbish behind", folder_of({IMAGES + ".gz": small + b"rubbish", LABELS + ".gz": tags})
    yield "gzip of nothing", folder_of({IMAGES + ".gz": packed(b""), LABELS + ".gz": tags})
    yield "gzip twice", folder_of({IMAGES + ".gz": packed(small), LABELS + ".gz": tags})
    yield "gzip promises too much", folder_of({IMAGES: packed(_promise(2**32 - 1, 28)), LABELS: labels})
    yield "gzip promises somewhat more", folder_of({IMAGES: packed(_promise(100, 4)), LABELS: labels})
    yield "gzip longer than promised", folder_of({IMAGES: packed(images + bytes(50)), LABELS: labels})
    yield "gzip bomb", folder_of({IMAGES: packed(images + bytes(20_000_000)), LABELS: labels})
    yield "gzip cifar bomb of odd size", file_of("data_batch_1.bin.gz", packed(bytes(3_073_001)))
    yield "gzip text", file_of("data.gz", packed(b"not a data set"))
    rows = packed(cifar_rows())
    for cut in (2, 9, 100, len(rows) // 2, len(rows) - 8, len(rows) - 1):
        yield f"gzip cifar cut at {cut}", folder_of({"data_batch_1.bin.gz": rows[:cut]})
    for at in (1, 2, 50, len(rows) // 2, len(rows) - 6):
        yield f"gzip cifar flipped at {at}", folder_of({"data_batch_1.bin.gz": flipped(rows, at)})


def _promise(n: int, side: int) -> bytes:
    return struct.pack(">IIII", 0x803, n, side, side)


def cifar_cases() -> Iterator[Case]:
    rows = cifar_rows()
    for cut in (0, 1, 100, 3072, 3074, 6145, 6147, len(rows) - 1):
        yield f"cifar folder cut at {cut}", folder_of({"data_batch_1.bin": rows[:cut]})
        yield f"cifar file cut at {cut}", file_of("data_batch_1.bin", rows[:cut])
        yield f"cifar second batch cut at {cut}", folder_of({"data_batch_1.bin": rows, "data_batch_2.bin": rows[:cut]})
    for label in (10, 11, 100, 255):
        yield f"cifar label {label}", folder_of({"data_batch_1.bin": cifar_rows(3, (1, label, 2))})
    yield "cifar only test", folder_of({"test_batch.bin": rows})
    yield "cifar fewer classes", folder_of({"data_batch_1.bin": rows}, classes="cat,dog")
    yield "cifar pickle", folder_of({"data_batch_1": b"\x80\x02}q\x00" + bytes(500)})
    yield "cifar pickle file", file_of("data_batch_1", b"\x80\x04\x95" + bytes(500))
    yield "cifar batch is a folder", folder_of({"data_batch_1.bin/": b""})
    yield "cifar batch of text", folder_of({"data_batch_1.bin": b"label,pixels\n"})
    yield "cifar 100 label", folder_of({"train.bin": b"\0\x64" + bytes(3072)})
    yield "cifar 100 cut", folder_of({"train.bin": bytes(3074 + 5)})
    yield "cifar channels asked", folder_of({"data_batch_1.bin": rows}, channels=1)


def npz_cases() -> Iterator[Case]:
    X, y = np.random.default_rng(3).integers(0, 256, (5, 4, 4), dtype=np.uint8), np.arange(5) % 2
    two: dict = {"classes": "2"}
    good, small = archive(X=X, y=y), archive_compressed(X=X, y=y)
    for content, kind in ((good, "stored"), (small, "compressed")):
        for cut in (0, 1, 4, 30, 100, len(content) // 2, len(content) - 30, len(content) - 1):
            yield f"npz {kind} cut at {cut}", file_of("d.npz", content[:cut], **two)
        yield f"npz {kind} without classes", file_of("d.npz", content)
        yield f"npz {kind} tail flipped", file_of("d.npz", flipped(content, len(content) - 22), **two)
    deflated = small.index(b"X.npy") + 40
    for at in (deflated, deflated + 10, deflated + 30):
        yield f"npz compressed data flipped at {at}", file_of("d.npz", flipped(small, at), **two)
    magic = good.index(b"\x93NUMPY")
    for at in (magic, magic + 1, magic + 6, magic + 8, magic + 10, magic + 12):
        yield f"npz array header flipped at {at}", file_of("d.npz", flipped(good, at), **two)
    yield from _npz_arrays(X, y)
    yield "npz single array", file_of("d.npy", good[magic : magic + 200], **two)
    yield "npz no members", file_of("d.npz", _zip({}), **two)
    yield "npz of texts", file_of("d.npz", _zip({"X.npy": b"hello", "y.npy": b"world"}), **two)
    yield "npz empty members", file_of("d.npz", _zip({"X.npy": b"", "y.npy": b""}), **two)
    yield "npz member shorter than promised", file_of("d.npz", _short_member(), **two)
    for shape in ("(99999999999, 4, 4)", "(-5, 4, 4)", "(5, 4, 400000000000)", "(5, 4)"):
        yield f"npz header of {shape}", file_of("d.npz", _zip({"X.npy": _npy(shape), "y.npy": _npy("(5,)")}), **two)
    for dtype in ("|O", "|V8", "<i3", "nonsense", "<M8[s]"):
        content = _zip({"X.npy": _npy("(5, 4, 4)", dtype), "y.npy": _npy("(5,)")})
        yield f"npz header of type {dtype}", file_of("d.npz", content, **two)


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
    arrays: dict[str, dict] = {
        "no labels": {"X": X},
        "no images": {"y": y},
        "other names": {"a": X, "b": y},
        "other part": {"X_test": X, "y_test": y},
        "labels of another part": {"X_train": X, "y_test": y},
        "rows": {"X": X.reshape(5, 16), "y": y},
        "one value": {"X": np.array(3, np.uint8), "y": y},
        "five axes": {"X": X[..., None, None], "y": y},
        "no height": {"X": X[:, :0], "y": y},
        "fewer labels": {"X": X, "y": y[:4]},
        "more labels": {"X": X, "y": np.zeros(9, int)},
        "no label at all": {"X": X, "y": y[:0]},
        "columns of labels": {"X": X, "y": y[:, None]},
        "one-hot labels": {"X": X, "y": np.eye(2)[y]},
        "float labels": {"X": X, "y": y.astype(float)},
        "bool labels": {"X": X, "y": y.astype(bool)},
        "complex labels": {"X": X, "y": y.astype(complex)},
        "label 2 of 2": {"X": X, "y": y + 1},
        "label -1": {"X": X, "y": y - 1},
        "label of 64 bits": {"X": X, "y": np.full(5, 2**64 - 1, np.uint64)},
        "unknown names": {"X": X, "y": np.array(list("abcde"))},
        "unknown byte names": {"X": X, "y": np.array([b"\xff"] * 5)},
        "object labels": {"X": X, "y": np.array(["0", 1, None, "1", 0], object)},
        "object images": {"X": np.array([[[None]]] * 5, object), "y": y},
        "text images": {"X": X.astype(str), "y": y},
        "complex images": {"X": X.astype(complex), "y": y},
        "bool images": {"X": X > 3, "y": y},
        "times as images": {"X": X.astype("M8[s]"), "y": y},
        "structured images": {"X": np.zeros((5, 4, 4), [("a", "u1"), ("b", "f4")]), "y": y},
        "class table": {"X": X, "y": y, "classes": np.zeros((2, 2), int)},
        "bounds of three": {"X": X, "y": y, "bounds": np.arange(3)},
        "bounds upside down": {"X": X, "y": y, "bounds": np.array([1, 0])},
        "bounds of NaN": {"X": X, "y": y, "bounds": np.array([0, np.nan])},
        "object bounds": {"X": X, "y": y, "bounds": np.array([0, None])},
    }
    for name, content in arrays.items():
        yield f"npz {name}", file_of("d.npz", archive(**content), classes="2")
        yield f"npz compressed {name}", file_of("d.npz", archive_compressed(**content), classes="2")
    for dtype in ("f4", "f8", "i2", "i8", "u2"):
        yield f"npz {dtype} without bounds", file_of("d.npz", archive(X=X.astype(dtype), y=y), classes="2")
    for name, values in (("NaN", nan), ("infinity", infinite), ("half NaN", nan.astype(np.float16))):
        yield f"npz {name}", file_of("d.npz", archive(X=values, y=y), classes="2", bounds="0,1")
    same = archive(X=X, y=y, classes=np.array(["a", "a"]))
    yield "npz classes named twice", file_of("d.npz", same)
    yield "npz classes in objects", file_of("d.npz", archive(X=X, y=y, classes=np.array(["a", None])))
    yield "npz one class", file_of("d.npz", archive(X=X, y=y, classes=np.array(["a"])))


def option_cases() -> Iterator[Case]:
    files = {IMAGES: idx_images(), LABELS: idx_labels()}
    for classes in (
        "",
        "0",
        "1",
        "-3",
        "cat",
        "cat,cat",
        "cat,,dog",
        ",",
        "1e3",
        "99999999999999999999",
        "a\tb,c",
        "²",
    ):
        yield f"classes {classes!r}", folder_of(files, classes=classes)
    for bounds in ("", "1", "1,0", "0,0", "a,b", "0,nan", "0,inf", "-inf,0", "0,1,2", "0;1", "0,1e40"):
        yield f"bounds {bounds!r}", folder_of(files, bounds=bounds)
    for resize in (0, -1, 4097, 10**9):
        yield f"resize {resize}", folder_of(files, resize=resize)


def picture_cases() -> Iterator[Case]:
    png, jpeg = picture(16), picture(16, form="JPEG")
    bodies = (("png", png), ("jpg", jpeg), ("jpeg", jpeg))
    for suffix, body in bodies:
        for cut in (0, 1, 3, 8, 20, 30, len(body) // 3, len(body) // 2):
            files = {f"cat/a.{suffix}": body, f"dog/b.{suffix}": body[:cut]}
            yield f"{suffix} cut at {cut}", folder_of(files)
        for at in range(3):
            yield f"first {suffix} flipped at {at}", folder_of({f"cat/a.{suffix}": flipped(body, at), "dog/b.png": png})
    for at in (12, 17, 18, 22, 24, 25, 29, 50, 60):
        yield f"png flipped at {at}", folder_of({"cat/a.png": png, "dog/b.png": flipped(png, at)})
    sizes = {"taller": picture(17), "smaller": picture(4), "wider": picture(16, width=20)}
    for name, other in sizes.items():
        yield f"mixed sizes, {name}", folder_of({"cat/a.png": png, "dog/b.png": other})
        yield f"mixed sizes in a class, {name}", folder_of({"cat/a.png": png, "cat/b.png": other, "dog/b.png": png})
    foreign = {
        "text": b"hello",
        "html": b"<html></html>",
        "gif": picture(16, "L", "GIF"),
        "bmp": picture(16, form="BMP"),
        "tiff": picture(16, form="TIFF"),
        "webp magic": b"RIFF\x10\0\0\0WEBPVP8 ",
        "gzip": packed(png),
        "zeros": bytes(400),
        "random": np.random.default_rng(4).bytes(500),
        "16 bits": _deep_png(),
        "too many pixels": _bomb_png(),
        "only a header": png[:33],
    }
    for name, content in foreign.items():
        yield f"png of {name}", folder_of({"cat/a.png": png, "dog/b.png": content})
        yield f"first png of {name}", folder_of({"cat/a.png": content, "dog/b.png": png}, resize=8)
    yield "classes that no folder has", folder_of({"cat/a.png": png, "dog/b.png": png}, classes="cat,cow")
    yield "a single class folder", folder_of({"cat/a.png": png})
    yield "class folders without images", folder_of({"cat/": b"", "dog/": b""})
    yield "class folders of texts", folder_of({"cat/a.txt": b"meow", "dog/b.txt": b"woof"})
    yield "images without class folders", folder_of({"a.png": png, "b.png": png})
    yield "images too deep", folder_of({"all/cat/a.png": png, "all/dog/b.png": png})
    yield "only a test folder", folder_of({"test/cat/a.png": png, "test/dog/b.png": png})
    yield "class folder with a line break", folder_of({"ca\nt/a.png": png, "dog/b.png": png})
    yield "class folder with an escape", folder_of({"ca\x1b[31mt/a.png": png, "dog/b.png": png})
    for channels in (0, 2, 4, -1):
        yield f"channels {channels}", folder_of({"cat/a.png": png, "dog/b.png": png}, channels=channels)


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
        yield f"no such path {name[:20]!r}", lambda tmp, name=name: (str(tmp / name), {})
    yield "empty path", lambda tmp: ("", {})
    yield "path with a zero byte", lambda tmp: (str(tmp) + "\0", {})
    for name in ("digits:", "digits:validation", "digits:Train", "digits:train:test"):
        yield f"source {name}", lambda tmp, name=name: (name, {})
    yield "empty folder", folder_of({})
    yield "folder of texts", folder_of({"readme.txt": b"hello"})
    yield "folder of hidden files", folder_of({".hidden/a.png": picture(), ".other": b"x"})
    yield "a device", lambda tmp: (os.devnull, {})
    for name in ("a.txt", "a.npz", "a.bin", "a.png", "a.gz", "kätzchen.npz", "new\nline.npz"):
        yield f"empty file {name!r}", file_of(name, b"")
        yield f"text file {name!r}", file_of(name, b"hello, world\n")
        yield f"random file {name!r}", file_of(name, np.random.default_rng(5).bytes(999))
    yield "a single png", file_of("a.png", picture())
    yield "a single jpeg", file_of("a.jpg", picture(form="JPEG"))
    yield "random bytes of a cifar size", file_of("a.bin", b"\xee" + np.random.default_rng(6).bytes(3072))
    yield "loop of links", _loop
    yield "class folder of broken links", _broken_links
    yield "loop of links in a class folder", _loop_in_folder
    yield "pipe", _pipe
    yield "pipe in a class folder", _pipe_in_folder
    yield "name that is not UTF-8", _bytes_name
    yield "below a file", _below_file


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
    """Every malformed input as (name, builder): builder(empty folder) -> (source, options of load)."""
    for family in (idx_cases, gzip_cases, cifar_cases, npz_cases, option_cases, picture_cases, place_cases):
        yield from family()
