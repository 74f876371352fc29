"""Pictures and arrays as programs write them: each is read as what it means, or refused with one sentence."""

from __future__ import annotations

import io
import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat
from test_formats import save_npz, write
from test_sources import refusal

from dpdistill.schema import Column, DataError, Schema, TableSchema
from dpdistill.sources.images.decode import decode
from dpdistill.sources.load import load
from dpdistill.storage.options import Stated, parse_bounds, parse_classes
from dpdistill.storage.records import Records
from dpdistill.storage.straighten import straighten_images

RNG = np.random.default_rng(5)
GREY = RNG.integers(0, 256, (8, 16), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (8, 16, 3), dtype=np.uint8)
DEEP = RNG.integers(0, 65_536, (8, 16), dtype=np.uint16)
ALPHA = np.tile(np.arange(0, 256, 17, dtype=np.uint8), (8, 1))
ONE_BIT = np.where(GREY > 127, 255, 0).astype(np.uint8)
SMOOTH = np.zeros((8, 16, 3), np.uint8) + np.array([200, 90, 30], np.uint8)
NOT_READ = "is not a TIFF image, or is damaged, or has values or channels that are not read."


def saved(values, form: str, mode: str | None = None, **options) -> bytes:
    """A picture as Pillow writes it, in another mode if one is named."""
    image, stream = Image.fromarray(values), io.BytesIO()
    (image.convert(mode) if mode else image).save(stream, form, **options)
    return stream.getvalue()


def png(values, bits: int, kind: int, transparent: bytes = b"", interlaced: bool = False, side: int = 0) -> bytes:
    """A PNG file chunk by chunk, for what Pillow does not write."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    rows = [r for x, y, dx, dy in passes for r in values[y::dy, x::dx]] if interlaced else list(values)
    if bits < 8:
        digits = [np.unpackbits(r.astype(np.uint8)[:, None], axis=1)[:, -bits:].reshape(-1) for r in rows]
        rows = [np.packbits(r) for r in digits]
    packed = b"".join(b"\0" + r.astype(">u2" if bits == 16 else np.uint8).tobytes() for r in rows)
    height, width = (side, side) if side else values.shape[:2]
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, interlaced))
    more = chunk(b"tRNS", transparent) if transparent else b""
    return b"\x89PNG\r\n\x1a\n" + header + more + chunk(b"IDAT", zlib.compress(packed)) + chunk(b"IEND", b"")


def tiff(values, photometric: int, tile: int = 0, **tags) -> bytes:
    """A plain TIFF file tag by tag, for what Pillow does not write.

    Args:
        values: (h, w) or (h, w, c), of the type that is written.
        photometric: 0 is white, 1 is black, 2 RGB.
        tile: width and height of tiles; 0 for one strip.
        tags: further ones, t339=[2].
    """
    values = values if values.ndim == 3 else values[..., None]
    (h, w, c), item = values.shape, values.dtype.itemsize
    planes = [values[..., k : k + 1] for k in range(c)] if tags.get("t284") == [2] else [values]
    size = tile or max(h, w)
    blocks = [p[y : y + size, x : x + size] for p in planes for y in range(0, h, size) for x in range(0, w, size)]
    content = [block.astype(values.dtype.newbyteorder("<")).tobytes() for block in blocks]
    starts = [8 + sum(map(len, content[:k])) for k in range(len(content))]
    kind = {"u": 1, "i": 2, "f": 3, "c": 6}[values.dtype.kind]
    lengths = [len(block) for block in content]
    stated = {256: [w], 257: [h], 258: [8 * item] * c, 259: [1], 262: [photometric], 277: [c], 339: [kind] * c}
    where = {322: [tile], 323: [tile], 324: starts, 325: lengths} if tile else {273: starts, 278: [h], 279: lengths}
    stated |= where | {int(name[1:]): value for name, value in tags.items()}
    at = 8 + sum(lengths)
    entries, beyond = b"", b""
    for tag, numbers in sorted(stated.items()):
        packed = struct.pack(f"<{len(numbers)}I", *numbers)
        if len(packed) > 4:
            place = at + 2 + 12 * len(stated) + 4 + len(beyond)
            packed, beyond = struct.pack("<I", place), beyond + packed
        entries += struct.pack("<HHI", tag, 4, len(numbers)) + packed
    return (
        b"II*\0"
        + struct.pack("<I", at)
        + b"".join(content)
        + struct.pack("<H", len(stated))
        + entries
        + bytes(4)
        + beyond
    )


def turned(form: str, orientation: int, **options) -> bytes:
    exif = Image.Exif()
    exif[0x112] = orientation
    return saved(COLOUR, form, exif=exif, **options)


def on_white(values, alpha):
    share = alpha[..., None] / 255 if values.ndim == 3 else alpha / 255
    return np.round(values * share + 255 * (1 - share))


def as_rgb(values):
    return np.repeat(np.asarray(values)[..., None], 3, axis=2) if np.ndim(values) == 2 else np.asarray(values)


PALETTE = Image.fromarray(COLOUR).convert("P", palette=Image.Palette.ADAPTIVE, colors=16)
OF_PALETTE = np.asarray(PALETTE.convert("RGB"))
KEYED = np.where((np.asarray(PALETTE) == 3)[..., None], 255, OF_PALETTE)
TURNS = {
    2: COLOUR[:, ::-1], 3: COLOUR[::-1, ::-1], 4: COLOUR[::-1], 5: COLOUR.transpose(1, 0, 2),
    6: np.rot90(COLOUR, -1), 7: COLOUR[::-1, ::-1].transpose(1, 0, 2), 8: np.rot90(COLOUR),
}  # fmt: skip


def of_palette(form: str, **options) -> bytes:
    stream = io.BytesIO()
    PALETTE.save(stream, form, **options)
    return stream.getvalue()


def pictures():
    """Name, file, what it means or the sentence that refuses it, and by how much lossy values may differ."""
    rgba, white, deep = np.dstack([COLOUR, ALPHA]), np.full_like(COLOUR, 255), DEEP.astype(np.uint32) * 65_000
    for form, more in (("PNG", {}), ("WEBP", {"lossless": True, "exact": True}), ("TIFF", {})):
        yield f"{form} transparent", saved(rgba, form, **more), on_white(COLOUR, ALPHA), 1
        opaque = np.dstack([COLOUR, np.full_like(ALPHA, 255)])
        yield f"{form} opaque with alpha", saved(opaque, form, **more), COLOUR, 0
        for k, seen in TURNS.items():
            yield f"{form} turned {k}", turned(form, k, **more), seen, 0
    yield "PNG grey transparent", saved(np.dstack([GREY, ALPHA]), "PNG"), on_white(GREY, ALPHA), 1
    yield "PNG alpha alone", saved(np.dstack([0 * COLOUR, ALPHA]), "PNG"), 255 - ALPHA, 0
    yield "PNG white in alpha alone", saved(np.dstack([white, ALPHA]), "PNG"), "is invisible on white", 0
    yield "PNG all clear", saved(np.dstack([COLOUR, 0 * ALPHA]), "PNG"), "is invisible on white", 0
    key = int(GREY[0, 0])
    keyed = np.where(key == GREY, 255, GREY)
    yield "PNG with a clear grey", png(GREY, 8, 0, struct.pack(">H", key)), keyed, 0
    yield "PNG deep with a clear grey", png(DEEP, 16, 0, b"\0\1"), "has transparent pixels and more than 8 bits", 0
    yield "PNG of a palette", of_palette("PNG"), OF_PALETTE, 0
    yield "PNG of a palette with a clear colour", of_palette("PNG", transparency=3), KEYED, 0
    yield "BMP of a palette", of_palette("BMP"), OF_PALETTE, 0
    yield "TIFF of a palette", of_palette("TIFF"), OF_PALETTE, 0
    yield "PNG interlaced", png(COLOUR, 8, 2, interlaced=True), COLOUR, 0
    for bits in (1, 2, 4):
        yield f"PNG of {bits} bits", png(GREY >> 8 - bits, bits, 0), (GREY >> 8 - bits) * (255 // (2**bits - 1)), 0
    yield "PNG deep", png(DEEP, 16, 0), DEEP, 0
    yield "PNG deep colour", png(np.dstack([DEEP] * 3), 16, 2), "has more than 8 bits per value in colour", 0
    yield "PNG deep grey with alpha", png(np.dstack([DEEP] * 2), 16, 4), "has more than 8 bits per value in colour", 0
    yield "PNG bomb", png(GREY, 8, 0, side=60_000), "has too many pixels to be decoded safely.", 0
    for name, form, more in (("PNG", "PNG", {}), ("WebP", "WEBP", {}), ("TIFF", "TIFF", {})):
        moving = saved(COLOUR, form, save_all=True, append_images=[Image.fromarray(255 - COLOUR)], **more)
        what = "pages" if name == "TIFF" else "frames"
        yield f"{name} of two", moving, f"has 2 {what}; expected a single image.", 0
    two = saved(SMOOTH, "MPO", save_all=True, append_images=[Image.fromarray(255 - SMOOTH)], quality=100)
    yield "JPEG with a preview", two, SMOOTH, 3
    yield "JPEG", saved(SMOOTH, "JPEG", quality=100), SMOOTH, 3
    yield "JPEG grey", saved(SMOOTH[..., 0], "JPEG", quality=100), SMOOTH[..., 0], 3
    yield "JPEG progressive", saved(SMOOTH, "JPEG", progressive=True, quality=100), SMOOTH, 3
    yield "JPEG CMYK", saved(SMOOTH, "JPEG", "CMYK", quality=100), SMOOTH, 3
    whole = saved(COLOUR, "JPEG", quality=95)
    yield (
        "JPEG cut",
        whole[: len(whole) // 2],
        "is not a PNG or JPEG or TIFF or BMP or WEBP or GIF image, or is damaged.",
        0,
    )
    yield "BMP of 1 bit", saved(ONE_BIT, "BMP", "1"), np.asarray(Image.fromarray(ONE_BIT).convert("1")) * 255, 0
    yield "BMP grey", saved(GREY, "BMP"), GREY, 0
    yield "BMP colour", saved(COLOUR, "BMP"), COLOUR, 0
    yield "BMP of 32 bits", saved(np.dstack([COLOUR, 0 * ALPHA]), "BMP"), COLOUR, 0
    yield "WebP", saved(SMOOTH, "WEBP", quality=100), SMOOTH, 6
    for packing in ("tiff_lzw", "tiff_adobe_deflate", "packbits"):
        yield f"TIFF {packing}", saved(COLOUR, "TIFF", compression=packing), COLOUR, 0
    yield "TIFF jpeg", saved(SMOOTH, "TIFF", compression="jpeg", quality=100), SMOOTH, 4
    yield "TIFF CMYK", saved(SMOOTH, "TIFF", "CMYK"), SMOOTH, 1
    yield "TIFF of 1 bit by fax", saved(ONE_BIT, "TIFF", "1", compression="group4"), ONE_BIT_DITHERED, 0
    yield "TIFF white is zero", tiff(GREY, 0), 255 - GREY, 0
    yield "TIFF in planes", tiff(COLOUR, 2, t284=[2]), COLOUR, 0
    yield "TIFF in tiles", tiff(np.tile(COLOUR, (4, 2, 1)), 2, tile=16), np.tile(COLOUR, (4, 2, 1)), 0
    yield "TIFF deep", tiff(DEEP, 1), DEEP, 0
    yield "TIFF deep, white is zero", tiff(DEEP, 0), 65_535 - DEEP, 0
    yield "TIFF deep below zero", tiff((DEEP - 32_768.0).astype(np.int16), 1), DEEP - 32_768.0, 0
    yield "TIFF of 32 bits", tiff(deep, 1), deep.astype(np.float32), 0
    yield "TIFF of 32 bits below zero", tiff((DEEP - 32_768.0).astype(np.int32), 1), DEEP - 32_768.0, 0
    yield "TIFF floats", tiff(DEEP.astype(np.float32) / 9, 1), DEEP.astype(np.float32) / 9, 0
    yield "TIFF deep colour", tiff(np.dstack([DEEP] * 3), 2), "has more than 8 bits per value in colour", 0
    yield "TIFF bytes below zero", tiff(GREY.view(np.int8), 1), "has values below zero in 8 bits", 0
    yield "TIFF volume", tiff(np.tile(GREY, (5, 1)), 1, t257=[8], t32997=[5]), "is a volume of 5 slices", 0
    yield "TIFF of two channels", tiff(np.dstack([GREY, GREY]), 1, t338=[0]), "has a channel of unknown meaning", 0
    yield (
        "TIFF colour and a channel",
        tiff(np.dstack([COLOUR, GREY]), 2, t338=[0]),
        "has a channel of unknown meaning",
        0,
    )
    yield "TIFF of five channels", tiff(np.dstack([GREY] * 5), 1, t338=[0] * 4), NOT_READ, 0
    yield "TIFF of long floats", tiff(DEEP.astype(np.float64), 1), NOT_READ, 0
    yield "TIFF of complex numbers", tiff(DEEP.astype(np.complex64), 1), NOT_READ, 0
    yield "not a TIFF", b"II*\0hello", NOT_READ, 0


ONE_BIT_DITHERED = np.asarray(Image.fromarray(ONE_BIT).convert("1")) * np.uint8(255)
PICTURES = {name: rest for name, *rest in pictures()}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures(name):
    content, expected, off = PICTURES[name]
    refused = isinstance(expected, str)
    deep = not refused and (expected.max() > 255 or expected.min() < 0 or (expected.dtype.kind == "f" and off == 0))
    formats = {"formats": ("TIFF",)} if "TIFF" in name else {}
    low = 0.0 if refused or expected.min() >= 0 else -40_000.0
    stated = Stated(bounds=(low, 5e9) if deep or "deep" in name else None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if refused:
            with pytest.raises(DataError) as error:
                decode(io.BytesIO(content), "It", stated, **formats)
            assert expected in str(error.value)
            assert str(error.value).startswith("It ")
            return
        found = decode(io.BytesIO(content), "It", stated, **formats)
    np.testing.assert_allclose(found.astype(np.float64), as_rgb(expected), atol=off, rtol=1e-7)


X = RNG.integers(0, 256, (6, 8, 9, 3), dtype=np.uint8)
Y = np.arange(6) % 3


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int64", ">u2", ">f4", ">i8", "fortran", "(n, 1)"])
def test_arrays(tmp_path, kind):
    """Arrays of any type and order are the same numbers; labels may be a column."""
    values = X if kind == "(n, 1)" else np.asfortranarray(X) if kind == "fortran" else X.astype(kind)
    labels = Y[:, None] if kind == "(n, 1)" else Y
    for resize in (None, 4):
        r = load(
            save_npz(tmp_path / "a.npz", False, x_train=values, y_train=labels),
            classes=3,
            bounds="0,255",
            resize=resize,
        )
        plain = Records.from_arrays(
            X.astype(np.float32 if X.dtype != values.dtype else np.uint8), Y, 3, "0,255", resize=resize
        )
        np.testing.assert_array_equal(r.X.astype(np.float32), plain.X)
        assert r.y.tolist() == Y.tolist()


def arrays():
    yield "bool", {"X": X > 9}, "Expected X as whole numbers or floats; got bool."
    yield "complex", {"X": X * 1j}, "Expected X as whole numbers or floats; got complex128."
    yield (
        "objects",
        {"X": np.array([X[0], None], object)},
        "has an array 'X' of Python objects, which are never loaded.",
    )
    yield "label objects", {"y": np.array([*"abcabc"], object)}, "has an array 'y' of Python objects"
    yield "one-hot", {"y": np.eye(3)[Y]}, "Expected one label an image; got 3: turn one-hot rows into numbers"
    yield "a single label", {"y": np.array(1)}, "Expected as many labels as images; got labels of shape ()"
    yield "channels first", {"X": X.transpose(0, 3, 1, 2)}, "channels stand first, move them to the end."
    yield "volumes", {"X": np.zeros((6, 28, 28, 28), np.uint8)}, "(6, 28, 28, 28): volumes are not read"
    yield "two channels first", {"X": np.zeros((6, 2, 28, 28), np.uint8)}, "channels stand at the end."
    yield "flat", {"X": np.zeros((6, 784), np.uint8)}, "Expected X of shape (n, h, w) or (n, h, w, c); got (6, 784)."
    yield "records last", {"X": X.transpose(1, 2, 3, 0)}, "channels"
    yield "other names", {"X": None, "y": None, "data": X, "target": Y}, "has no arrays X and y"


@pytest.mark.parametrize(("changed", "sentence"), [case[1:] for case in arrays()], ids=[c[0] for c in arrays()])
def test_arrays_that_are_refused(tmp_path, changed, sentence):
    kept = {name: value for name, value in {"X": X, "y": Y, **changed}.items() if value is not None}
    np.savez(tmp_path / "a.npz", **kept)
    assert sentence in refusal(tmp_path / "a.npz", classes=3, bounds="0,255")


def test_volumes_of_medmnist(tmp_path):
    source = save_npz(
        tmp_path / "a.npz", True, train_images=np.zeros((6, 28, 28, 28), np.uint8), train_labels=Y[:, None]
    )
    said = refusal(source, classes=3)
    assert "has volumes of 28x28x28 values; expected images" in said
    # Spectra have fewer channels than rows or columns: they are images.
    assert Records.from_arrays(np.zeros((6, 28, 28, 13), np.uint8), Y, 3).schema.shape == (28, 28, 13)


def test_masked_values_are_refused():
    masked = np.ma.array(X, mask=False)
    np.testing.assert_array_equal(Records.from_arrays(masked, Y, 3).X, X)
    masked[0, 0, 0, 0] = np.ma.masked
    hidden = np.ma.array(Y, mask=[True] + [False] * 5)
    for name, images, labels, units in (
        ("X", masked, Y, None),
        ("X", list(masked), Y, None),
        ("y", X, hidden, None),
        ("units", X, Y, hidden),
    ):
        with pytest.raises(DataError, match=f"Expected {name} without masked values: fill them"):
            Records.from_arrays(images, labels, 3, units=units)
    with pytest.raises(DataError, match="Expected images without masked values"):
        straighten_images(masked)
    with pytest.raises(DataError, match="Expected item 0 of the data set without masked values"):
        load([(image, 0) for image in masked], classes=2)


@pytest.mark.parametrize("kind", [set, frozenset, dict.fromkeys])
def test_what_has_no_order_is_refused(kind):
    """Python orders the texts of a set anew in every process: labels would stand for other classes."""
    names, ends = kind(["cat", "dog"]), kind([0.0, 255.0])
    kept = type(names).__name__
    for parse, value in ((parse_classes, names), (parse_bounds, ends)):
        with pytest.raises(DataError, match=f"Expected .* as a list or tuple, in their order; got a {kept}."):
            parse(value)
    for facts in ({"classes": names}, {"bounds": ends}):
        with pytest.raises(DataError, match=f"as a list or tuple, in their order; got a {kept}."):
            Schema(**{"shape": (2, 2, 1), "bounds": (0.0, 255.0), "classes": ("a", "b"), **facts})
    with pytest.raises(DataError, match="Expected the categories of column 'x' as a list"):
        Column("x", "categorical", categories=names)
    column = Column("x", "numeric", (0.0, 1.0))
    with pytest.raises(DataError, match="Expected classes as a list or tuple"):
        TableSchema((column,), "y", names)


def test_classes_are_texts_or_whole_numbers():
    assert parse_classes(np.int64(3)) == parse_classes(range(3)) == ("0", "1", "2")
    assert parse_classes(np.array(["b", "a"])) == parse_classes(name for name in "ba") == ("b", "a")
    for odd in ([b"a", b"b"], ["a", None], [0.5, 1.5]):
        with pytest.raises(DataError, match="Expected class names as texts or whole numbers; got "):
            parse_classes(odd)
    with pytest.raises(DataError, match="Expected classes as a number or as names"):
        parse_classes(b"a,b")


def mats():
    four = X.transpose(1, 2, 3, 0)
    yield "records first", {"X": X, "y": Y[:, None]}, "Expected the arrays of SVHN"
    yield "doubles", {"X": four.astype(float), "y": Y[:, None]}, "Expected the arrays of SVHN"
    yield "a cell", {"X": four, "y": np.array([["a"]], object)}, "Expected the arrays of SVHN"
    yield (
        "halves",
        {"X": four, "y": Y[:, None] + 0.5},
        "Record 0 has the label '0.5', which is not one of the 10 classes.",
    )
    yield "no numbers", {"X": four, "y": np.where(Y == 1, np.nan, Y)[:, None]}, "Record 1 has no label."


@pytest.mark.parametrize(("arrays", "sentence"), [case[1:] for case in mats()], ids=[case[0] for case in mats()])
def test_mat_files_that_are_refused(tmp_path, arrays, sentence):
    savemat(tmp_path / "a.mat", arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sentence in refusal(tmp_path / "a.mat")


def test_mat_files(tmp_path):
    for options in ({}, {"do_compression": True}):
        savemat(tmp_path / "a.mat", {"X": X.transpose(1, 2, 3, 0), "y": Y[:, None] + 8.0}, **options)
        r = load(tmp_path / "a.mat")
        np.testing.assert_array_equal(r.X, X)
        assert r.y.tolist() == [8, 9, 0, 8, 9, 0]
    write(tmp_path, {"b.mat": b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(600, b"\0")})
    assert "is a MATLAB 7.3 file, which is not read: save it with -v7." in refusal(tmp_path / "b.mat")
