"""DICOM files of CT, MR, CR, ultrasound: what a picture means is what its own file says, or one sentence refuses it."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from test_formats import write
from test_sources import dicom_bytes, refusal

from dpdistill.sources.load import load

pydicom = pytest.importorskip("pydicom", reason="the extra dpdistill[dicom] is not installed")
from pydicom.data import get_testdata_file  # noqa: E402
from pydicom.dataset import Dataset  # noqa: E402
from pydicom.encaps import encapsulate  # noqa: E402
from pydicom.pixels import apply_color_lut, get_decoder  # noqa: E402
from pydicom.uid import (  # noqa: E402
    MPEG2MPML,
    HTJ2KLossless,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGExtended12Bit,
    JPEGLosslessSV1,
    JPEGLSLossless,
    RLELossless,
)

RNG = np.random.default_rng(7)
STORED = RNG.integers(0, 1000, (6, 6)).astype(np.int16)
GREY8 = RNG.integers(0, 256, (6, 6), dtype=np.uint8)
RGB = RNG.integers(0, 256, (6, 6, 3), dtype=np.uint8)
BYTES = {"BitsAllocated": 8, "BitsStored": 8, "HighBit": 7, "PixelRepresentation": 0}
PLAIN = {"RescaleSlope": None, "RescaleIntercept": None}


def group(**facts):
    """A functional group that says how stored values become values."""
    outer, inner = Dataset(), Dataset()
    for name, value in facts.items():
        setattr(inner, name, value)
    outer.PixelValueTransformationSequence = [inner]
    return [outer]


def modality_lut(first: int, entries: list[int], vr: str = "US") -> list[Dataset]:
    item = Dataset()
    item.add_new("LUTDescriptor", "SS" if first < 0 else "US", [len(entries), first, 16])
    item.add_new("LUTData", vr, entries if vr == "US" else np.array(entries, "<u2").tobytes())
    item.ModalityLUTType = "OD"
    return [item]


def palette(bits: int = 16, entries: int = 256, scale: int = 257) -> dict:
    """A palette whose red is the index, green its mirror image, blue 7 everywhere."""
    ramp = np.minimum(np.arange(entries), 255)
    facts = {}
    for name, values in (("Red", ramp), ("Green", 255 - ramp), ("Blue", np.full(entries, 7))):
        facts[f"{name}PaletteColorLookupTableDescriptor"] = [entries, 0, bits]
        kept = (values * scale).astype("<u2") if bits == 16 else values.astype(np.uint8)
        facts[f"{name}PaletteColorLookupTableData"] = kept.tobytes()
    return {"PhotometricInterpretation": "PALETTE COLOR", **BYTES, **PLAIN, **facts}


LUT = [3 * k + 11 for k in range(1000)]
TRUE = STORED.astype(np.float64)
GREY = {
    "slope and intercept": (STORED, {}, 2 * TRUE - 1024),
    "no rescale": (STORED, PLAIN, TRUE),
    "intercept alone": (STORED, {"RescaleSlope": None}, TRUE - 1024),
    "slope alone": (STORED, {"RescaleIntercept": None}, 2 * TRUE),
    "empty slope": (STORED, {"RescaleSlope": ""}, TRUE - 1024),
    "empty both": (STORED, {"RescaleSlope": "", "RescaleIntercept": ""}, TRUE),
    "shared group": (
        STORED,
        {**PLAIN, "SharedFunctionalGroupsSequence": group(RescaleSlope="3", RescaleIntercept="-50")},
        3 * TRUE - 50,
    ),
    "group of the frame": (
        STORED,
        {
            "NumberOfFrames": 1,
            "SharedFunctionalGroupsSequence": group(RescaleSlope="3", RescaleIntercept="-50"),
            "PerFrameFunctionalGroupsSequence": group(RescaleSlope="0.5", RescaleIntercept="7"),
        },
        0.5 * TRUE + 7,
    ),
    "groups that say nothing of values": (
        STORED,
        {"SharedFunctionalGroupsSequence": [Dataset()], "PerFrameFunctionalGroupsSequence": []},
        2 * TRUE - 1024,
    ),
    "modality table": (STORED, {**PLAIN, "ModalityLUTSequence": modality_lut(0, LUT)}, 3 * TRUE + 11),
    "modality table in words": (STORED, {**PLAIN, "ModalityLUTSequence": modality_lut(0, LUT, "OW")}, 3 * TRUE + 11),
    "modality table of bytes": (
        GREY8,
        {**PLAIN, **BYTES, "ModalityLUTSequence": modality_lut(0, LUT)},
        3.0 * GREY8 + 11,
    ),
    "modality table from below zero": (
        STORED.astype(np.uint16),
        {**PLAIN, "PixelRepresentation": 0, "ModalityLUTSequence": modality_lut(-5, [0] * 5 + LUT)},
        3 * TRUE + 11,
    ),
    "signed": (STORED - 500, PLAIN, TRUE - 500),
    "unsigned": (STORED.astype(np.uint16) + 60_000, {**PLAIN, "PixelRepresentation": 0}, TRUE + 60_000),
    "overlay in the unused bits": (
        STORED | 0x5000,
        {**PLAIN, "BitsStored": 12, "HighBit": 11, "PixelRepresentation": 0},
        TRUE,
    ),
    "signed twelve bits": ((STORED - 500) & 0x0FFF, {**PLAIN, "BitsStored": 12, "HighBit": 11}, TRUE - 500),
    "bytes": (GREY8, {**PLAIN, **BYTES}, GREY8.astype(float)),
    "low is white": (STORED, {"PhotometricInterpretation": "MONOCHROME1"}, 900 - (2 * TRUE - 1024)),
}


def packed(values: np.ndarray, syntax: str, **facts) -> bytes:
    """A file whose picture is compressed, by pydicom for RLE and by Pillow else."""
    image = pydicom.dcmread(io.BytesIO(dicom_bytes(values, **facts)))
    if syntax == RLELossless:
        image.compress(RLELossless)
    else:
        stream = io.BytesIO()
        form = {JPEGBaseline8Bit: ("JPEG", {"quality": 100}), JPEG2000Lossless: ("JPEG2000", {"no_jp2": True})}
        name, options = form.get(syntax, ("PNG", {}))
        Image.fromarray(values).save(stream, name, **options)
        image.PixelData = encapsulate([stream.getvalue()])
        image["PixelData"].VR = "OB"
        image.file_meta.TransferSyntaxUID = syntax
    stream = io.BytesIO()
    pydicom.dcmwrite(stream, image, enforce_file_format=True)
    return stream.getvalue()


def only(tmp_path, content: bytes, **options):
    """What a file says beside another, which is plain: the first record."""
    side = pydicom.dcmread(io.BytesIO(content)).Rows
    options.setdefault("bounds", "-100,1000")
    other = dicom_bytes(np.zeros((side, side), np.int16)) if options["bounds"] else content
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load(write(tmp_path, {"a/a.dcm": content, "b/a.dcm": other}), **options)


@pytest.mark.parametrize("name", GREY)
def test_grey_values(tmp_path, name):
    stored, facts, expected = GREY[name]
    r = only(tmp_path, dicom_bytes(stored, **facts), channels=1)
    np.testing.assert_allclose(r.X[0, ..., 0], expected, rtol=1e-6)


def test_padding_is_dark(tmp_path):
    """What pads a picture is none of it: it is as dark as the window goes, also where low values are white."""
    stored = STORED.copy()
    stored[0], stored[1] = -2000, -1990
    facts = {**PLAIN, "PixelPaddingValue": -2000, "PixelPaddingRangeLimit": -1980}
    for kind, rest in (("MONOCHROME2", stored[2:]), ("MONOCHROME1", 900.0 - stored[2:])):
        r = only(tmp_path, dicom_bytes(stored, PhotometricInterpretation=kind, **facts), channels=1)
        np.testing.assert_array_equal(r.X[0, :2, :, 0], -100.0)
        np.testing.assert_array_equal(r.X[0, 2:, :, 0], rest)


@pytest.mark.parametrize("syntax", [RLELossless, JPEG2000Lossless, ImplicitVRLittleEndian])
def test_compressed_grey(tmp_path, syntax):
    facts = {**PLAIN, "PixelRepresentation": 0}
    values = STORED.astype(np.uint16)
    content = dicom_bytes(values, **facts) if syntax == ImplicitVRLittleEndian else packed(values, syntax, **facts)
    np.testing.assert_array_equal(only(tmp_path, content, channels=1).X[0, ..., 0], STORED)


def test_colours(tmp_path):
    """Colours come out as red, green and blue of eight bits, as those of a PNG file."""
    ybr = np.asarray(Image.fromarray(RGB).convert("YCbCr"))
    three = {**PLAIN, **BYTES, "SamplesPerPixel": 3, "PlanarConfiguration": 0}
    planar = {**three, "PhotometricInterpretation": "RGB", "PlanarConfiguration": 1}
    smooth = np.zeros((16, 16, 3), np.uint8) + np.array([200, 30, 90], np.uint8)
    lossy = {**three, "PhotometricInterpretation": "YBR_FULL_422"}
    cases = (
        (dicom_bytes(GREY8, **palette()), coloured(), 0),
        (dicom_bytes(GREY8, **palette(8)), coloured(), 0),
        (dicom_bytes(GREY8.astype(np.uint16), **{**palette(8), "BitsAllocated": 16}), coloured(), 0),
        (dicom_bytes(GREY8, **palette(entries=100)), coloured(99), 0),
        (dicom_bytes(RGB, **{**three, "PhotometricInterpretation": "RGB"}), RGB, 0),
        (dicom_bytes(RGB, PixelData=RGB.transpose(2, 0, 1).tobytes(), **planar), RGB, 0),
        (dicom_bytes(ybr, **{**three, "PhotometricInterpretation": "YBR_FULL"}), RGB, 2),
        (packed(smooth, JPEGBaseline8Bit, **lossy), smooth, 3),
    )
    for content, expected, off in cases:
        for bounds in (None, "0,255"):
            r = load(write(tmp_path, {"a/a.dcm": content, "b/a.dcm": content}), bounds=bounds)
            np.testing.assert_allclose(r.X[0].astype(int), expected.astype(int), atol=off)
            assert (r.X.dtype, r.schema.bounds) == (np.uint8, (0.0, 255.0))
    grey = np.asarray(Image.fromarray(coloured()).convert("L"))
    r = load(write(tmp_path, dict.fromkeys(("a/a.dcm", "b/a.dcm"), cases[0][0])), channels=1)
    np.testing.assert_array_equal(r.X[0, ..., 0], grey)


def coloured(last: int = 255) -> np.ndarray:
    index = np.minimum(GREY8, last)
    return np.dstack([index, 255 - index, np.full_like(index, 7)])


def refusals():
    three = {**PLAIN, **BYTES, "SamplesPerPixel": 3, "PlanarConfiguration": 0}
    yield (
        "colours under a window",
        dicom_bytes(GREY8, **palette()),
        "is in colour, with values from 0 to 255, and takes no window; got the bounds -100,1000: leave",
    )
    yield (
        "deep colours",
        dicom_bytes(
            RGB.astype(np.uint16), SamplesPerPixel=3, PlanarConfiguration=0, PhotometricInterpretation="RGB", **PLAIN
        ),
        "has more than 8 bits per value in colour: convert it to 8 bits.",
    )
    yield "palette of another range", dicom_bytes(GREY8, **palette(scale=1)), "has a palette of 16 bits"
    no_palette = {**PLAIN, **BYTES, "PhotometricInterpretation": "PALETTE COLOR"}
    yield "no palette", dicom_bytes(GREY8, **no_palette), "is damaged: its DICOM image cannot be decoded."
    mixed = {**PLAIN, "PixelPresentation": "COLOR"}
    yield "grey and colours", dicom_bytes(STORED, **mixed), "shows some of its grey values in colour"
    kind = {**three, "PhotometricInterpretation": "HSV"}
    yield "unknown kind", dicom_bytes(RGB, **kind), "is a DICOM image of the kind 'HSV'"
    yield "frames", dicom_bytes(STORED, NumberOfFrames=3), "has 3 frames; expected a single image"
    yield "no slope", dicom_bytes(STORED, RescaleSlope="0"), "is damaged: its DICOM image cannot be decoded."
    report = pydicom.dcmread(io.BytesIO(dicom_bytes(STORED)))
    del report.PixelData
    stream = io.BytesIO()
    report.save_as(stream, enforce_file_format=True)
    yield "no pixels", stream.getvalue(), "is not a DICOM image, or is damaged."
    shifted = {**PLAIN, "BitsStored": 12, "HighBit": 15, "PixelRepresentation": 0}
    yield "bits at the top", dicom_bytes(STORED << 4, **shifted), "keeps its values in bits 4 to 15"
    for syntax, package in {JPEGLosslessSV1: "libjpeg", JPEGLSLossless: "libjpeg", HTJ2KLossless: "openjpeg"}.items():
        sentence = f"as {syntax.name}, which needs a further package: pip install pylibjpeg pylibjpeg-{package}."
        here = "is damaged" if get_decoder(syntax).is_available else f"is compressed {sentence}"
        yield syntax.name, packed(GREY8, syntax, **PLAIN, **BYTES), here
    deep = f"is compressed as {JPEGExtended12Bit.name} and cannot be decoded: it is damaged, or needs a further package"
    yield "JPEG of 12 bits", packed(STORED.astype(np.uint16), JPEGExtended12Bit, **PLAIN), deep
    yield "doses", dicom_bytes(STORED, DoseGridScaling="0.001", **PLAIN), "is a grid of radiation doses"
    film = f"is compressed as {MPEG2MPML.name}, which pydicom does not decode."
    yield "film", packed(GREY8, MPEG2MPML, **PLAIN, **BYTES), film
    rle = packed(STORED.astype(np.uint16), RLELossless, **PLAIN, PixelRepresentation=0)
    at = rle.rindex(b"\xfe\xff\xdd\xe0")
    yield "cut", rle[: at - 20] + bytes(20) + rle[at:], "is damaged: its DICOM image cannot be decoded."


@pytest.mark.parametrize(("content", "sentence"), [case[1:] for case in refusals()], ids=[c[0] for c in refusals()])
def test_refusals(tmp_path, content, sentence):
    source = write(tmp_path, {"a/a.dcm": content, "b/a.dcm": dicom_bytes(STORED)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = refusal(source, bounds="-100,1000" if "window" in sentence else "0,255")
    assert sentence in said
    assert said.startswith(f"{source}/a/a.dcm ")


def test_warnings_of_pydicom_are_not_shown(tmp_path, recwarn):
    """A file with a value of a wrong form and more pixels than it needs reads as what it is, without a word."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        content = dicom_bytes(STORED, PatientBirthDate="last summer", PixelData=STORED.tobytes() + bytes(6), **PLAIN)
    r = load(write(tmp_path, dict.fromkeys(("a/a.dcm", "b/a.dcm"), content)), bounds="0,1000", channels=1)
    np.testing.assert_array_equal(r.X[0, ..., 0], STORED)
    assert not [w for w in recwarn if "pydicom" in w.filename]


OF_PYDICOM = {
    "CT_small.dcm": lambda x, image: x - 1024.0,
    "693_J2KI.dcm": lambda x, image: np.where(x == -2000, -5000.0, x - 1024.0),  # padding
    "MR_small_RLE.dcm": lambda x, image: x,
    "MR_small_bigendian.dcm": lambda x, image: x,
    "image_dfl.dcm": lambda x, image: x,
    "SC_rgb_jpeg_dcmtk.dcm": lambda x, image: x,
    "SC_ybr_full_422_uncompressed.dcm": lambda x, image: x,
    "examples_jpeg2k.dcm": lambda x, image: x,
    "examples_palette.dcm": lambda x, image: apply_color_lut(x, image) >> 8,
}
"""Files of scanners and other programs that come with pydicom, and what they mean."""


@pytest.mark.parametrize("name", OF_PYDICOM)
def test_files_of_other_programs(tmp_path, name):
    if (path := get_testdata_file(name, download=False)) is None:
        pytest.skip("pydicom came without its test files")
    image = pydicom.dcmread(path)
    expected = np.asarray(OF_PYDICOM[name](image.pixel_array, image), np.float32)
    in_colour = expected.ndim == 3
    contents = dict.fromkeys(("a/a.dcm", "b/a.dcm"), Path(path).read_bytes())
    r = load(write(tmp_path, contents), bounds=None if in_colour else "-5000,5000", channels=3 if in_colour else 1)
    np.testing.assert_array_equal(r.X[1] if in_colour else r.X[1, ..., 0], expected)
    assert np.ptp(expected) > 100
