"""The report: what it shows is what the folder says, it loads nothing, and it escapes everything."""

from __future__ import annotations

import base64
import io
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import report_fakes as fakes
from PIL import Image

from dpdistill.kernels import KERNELS
from dpdistill.publish.report.folder import read_folder
from dpdistill.publish.report.page import render_report, write_report
from dpdistill.publish.report.pictures import png_uri, to_pixels
from dpdistill.publish.report.title import stated_title
from dpdistill.publish.report.words import KINDS, bound, guess_bound, percent, plain, power_of_ten
from dpdistill.recipe.build import _parts
from dpdistill.recipe.methods import RECIPES
from dpdistill.schema import DataError, Schema

CLASSES = ["cat", "<script>alert('x')</script>", 'R&D "quoted" {$x}']
VOID = {"meta", "img", "line", "circle", "polyline", "link", "br"}


class Page(HTMLParser):
    """Text, attributes and tag balance of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        self.text = re.sub(r"\s+", " ", "".join(self.words))

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    def images(self) -> list[np.ndarray]:
        sources = [attrs["src"] for tag, attrs in self.tags if tag == "img"]
        return [np.asarray(Image.open(io.BytesIO(base64.b64decode(src.split(",", 1)[1])))) for src in sources]


def digits(channels: int = 1, each: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 255, (3 * each, 6, 5, channels)).astype(np.float32)
    return X, np.tile(np.arange(3, dtype=np.int32), each)


def page(folder: Path, **changes) -> Page:
    X, y = digits()
    path = write_report(fakes.write(folder, X, y, CLASSES, **changes))
    assert path == folder / "report.html"
    assert sorted(p.name for p in folder.iterdir() if p.name.startswith(".")) == []
    parsed = Page(path.read_text(encoding="utf-8"))
    assert parsed.open == []
    return parsed


def test_the_numbers_of_the_certificate_are_on_the_page(tmp_path):
    text = page(tmp_path).text
    for words in (
        "ε = 1 quantifies",
        "δ = 1e-5 (1 in 100,000)",
        "2.72 times",
        "at most 73.2 %",
        "had any one record never",
    ):
        assert words in text
    for words in ("37.3063", "1 (all records)", "operating-system entropy", "one row (adding or removing one row)"):
        assert words in text
    for words in ("2.155", "6.167", "0.8372", "1.144", "1.274", "1.392", "10⁻⁸", "dpdistill verify DIR", "2026-11-20"):
        assert words in text
    for words in (
        "9f86d081884c7d65",
        "jax 0.7.0",
        "per_class",
        "learning_rate",
        "1e-5",
        "https://arxiv.org/abs/2110.04181",
    ):
        assert words in text
    assert "8-bit images, 1" in text
    assert text.index("9f86d081884c7d65") < text.index("60303ae22b998861")
    assert "No privacy guarantee" not in text
    assert "insecure" not in text


def test_facts_that_were_taken_from_the_records_are_named(tmp_path):
    words = "Facts taken from the records."
    assert words not in page(tmp_path / "stated").text
    text = page(tmp_path / "inferred", inferred=np.array(["classes", "image size"])).text
    assert words in text
    said = "The owner did not state the classes, taken from the names of the folders of the images, and the image size"
    assert said in " ".join(text.split())


def test_the_curve_has_its_points_where_the_certificate_says(tmp_path):
    circles = [attrs for tag, attrs in page(tmp_path).tags if tag == "circle"]
    x = np.array([float(circle["cx"]) for circle in circles])
    y = np.array([float(circle["cy"]) for circle in circles])
    epsilons = np.array([fakes.EPSILONS[key] for key in ("1e-08", "1e-07", "1e-06", "1e-05", "0.0001")])
    np.testing.assert_allclose(np.diff(x), np.diff(x)[0], atol=0.15)
    slope, base = np.polyfit(epsilons, y, 1)
    np.testing.assert_allclose(slope * epsilons + base, y, atol=0.15)
    assert slope < 0
    assert [circle["class"] for circle in circles] == ["point"] * 3 + ["paid", "point"]


@pytest.mark.parametrize(("channels", "bounds"), [(1, (0.0, 255.0)), (3, (-20.0, 300.0))])
def test_every_image_is_there_once_in_the_row_of_its_class(tmp_path, channels, bounds):
    X, y = digits(channels)
    shown = Page(write_report(fakes.write(tmp_path, X, y, CLASSES, bounds)).read_text(encoding="utf-8"))
    low, high = bounds
    expected = np.rint((X.astype(np.float64) - low) / (high - low) * 255).astype(np.uint8)[np.argsort(y, kind="stable")]
    expected = expected[..., 0] if channels == 1 else expected
    assert len(shown.images()) == len(X)
    for image, pixels in zip(shown.images(), expected, strict=True):
        np.testing.assert_array_equal(image, pixels)
    rows = [attrs["aria-label"] for _, attrs in shown.tags if attrs.get("class", "").startswith("strip")]
    assert rows == [f"4 images of {name}" for name in CLASSES]


@pytest.mark.parametrize(
    ("height", "width", "drawn"),
    [(8, 11, "strip smooth"), (12, 8, "strip"), (28, 28, "strip"), (4, 129, "strip smooth")],
)
def test_few_pixels_are_not_shown_as_squares(tmp_path, height, width, drawn):
    X, y = np.zeros((3, height, width, 1), np.float32), np.arange(3, dtype=np.int32)
    shown = Page(write_report(fakes.write(tmp_path, X, y, CLASSES)).read_text(encoding="utf-8"))
    strips = [attrs["class"] for _, attrs in shown.tags if attrs.get("class", "").startswith("strip")]
    assert strips == [drawn] * 3


def test_a_class_without_images_keeps_its_row_and_a_huge_set_is_cut(tmp_path):
    X = np.zeros((1200, 4, 4, 1), np.float32)
    y = np.r_[np.zeros(600, np.int32), np.full(600, 2, np.int32)]
    shown = Page(write_report(fakes.write(tmp_path, X, y, CLASSES)).read_text(encoding="utf-8"))
    assert len(shown.images()) == 2 * 333
    assert "The first 333 of each class" in shown.text
    assert "0 images" in shown.text
    assert "1,200in 3 classes" in shown.text


def test_everything_from_a_file_is_escaped(tmp_path):
    evil = "<b onload=x>&\"'$title"
    shown = page(
        tmp_path,
        certificate=fakes.certificate(
            relation=evil, unit=evil, noise=evil, slack=evil, scope=evil, date=evil, backend=evil,
            self_test=evil, versions={evil: evil}, files={evil: evil},
        ),
        recipe=fakes.recipe(
            title=evil, method=evil, origin=evil, seed=evil, fields={evil: evil, "list": [evil]}, references=[evil],
            changed=[],
        ),
        scores={evil: evil},
    )  # fmt: skip
    assert not any("onload" in attrs for _, attrs in shown.tags)
    assert not any(tag == "script" for tag, _ in shown.tags)
    assert shown.text.count(evil) >= 18
    for name in CLASSES:
        assert f"{name} 4 images" in shown.text


def test_the_page_loads_nothing(tmp_path):
    shown = page(tmp_path, scores={"accuracy": 0.9})
    for tag, attrs in shown.tags:
        assert tag not in {"script", "link", "iframe", "object", "embed", "base", "a"}
        assert not {"href", "srcset", "data", "action", "poster"} & set(attrs)
        assert attrs.get("src", "data:image/png;base64,").startswith("data:image/png;base64,")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"url\(|@import", html)
    assert "default-src 'none'" in html
    assert 'name="viewport"' in html


def test_a_set_without_a_guarantee_says_so_first(tmp_path):
    shown = page(tmp_path, certificate=fakes.non_private())
    assert shown.tags[next(k for k, (tag, _) in enumerate(shown.tags) if tag == "main") + 1][1]["class"] == "banner"
    assert "No privacy guaranteeε = ∞" in shown.text
    assert "epsilon is infinite" in shown.text
    assert not {"svg"} & {tag for tag, _ in shown.tags}
    for claim in ("What is guaranteed, in plain words", "noised sums", "This holds for every record", "δ ="):
        assert claim not in shown.text


@pytest.mark.parametrize(
    "certificate",
    [{}, fakes.certificate(claim={}), fakes.certificate(claim={"epsilon": 1.0}), fakes.certificate(noise="none"),
     fakes.certificate(claim={"epsilon": "∞", "delta": 1e-5}),
     fakes.certificate(claim={"epsilon": True, "delta": 1e-5}),
     fakes.certificate(claim={"epsilon": math.nan, "delta": 1e-5}), fakes.certificate(claim=[1.0, 1e-5]),
     fakes.certificate(claim={"epsilon": 1.0, "delta": 1.0}), fakes.certificate(claim={"epsilon": -1, "delta": 1e-5})],
)  # fmt: skip
def test_without_a_finite_epsilon_nothing_is_promised(tmp_path, certificate):
    X, y = digits()
    fakes.write(tmp_path, X, y, CLASSES)
    (tmp_path / "certificate.json").write_text(json.dumps(certificate))
    assert "No privacy guarantee" in Page(write_report(tmp_path).read_text(encoding="utf-8")).text


def test_a_certificate_with_little_in_it_is_shown(tmp_path):
    bare = {"claim": {"epsilon": 2, "delta": 1e-6}, "groups": {"2": None}, "epsilons": {"1e-06": 2.0, "1e-07": None}}
    text = page(tmp_path, certificate=bare).text
    assert "ε = 2 quantifies" in text
    assert "had any one record been different" in text
    assert "not stated" in text


DEEP: Any = []
for _ in range(600):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"certificate": fakes.certificate(epsilons={"1e-05": 1.0, "1e-06": 1.7e308})}, "10⁻⁵"),
        ({"certificate": fakes.certificate(epsilons={"1e-300": 5e-324})}, "10⁻³⁰⁰"),
        ({"certificate": fakes.certificate(epsilons={"1e-305": 1.0, "0.5": 0.0})}, "10⁻³⁰⁵ 10⁻²⁷¹"),
        ({"certificate": fakes.certificate(epsilons={"1e-05": 10**400, "1e-06": 2.0})}, "ε = 1 quantifies"),
        ({"certificate": fakes.certificate(claim={"epsilon": 5e-324, "delta": 5e-324})}, "ε = 1e-300 quantifies"),
        ({"certificate": fakes.certificate(groups={"inf": 3.0})}, "∞3"),
        ({"recipe": fakes.recipe(fields={"deep": DEEP})}, "deep…"),
        ({"recipe": fakes.recipe(fields={"kind": 1, "items": 2, "get": 3})}, "items2"),
        ({"scores": {"a": DEEP}}, "Not covered by ε."),
        ({"scores": DEEP}, "…"),
    ],
)
def test_odd_values_of_json_are_shown(tmp_path, changes, words):
    assert words in page(tmp_path, **changes).text


def test_seeded_noise_is_insecure(tmp_path):
    shown = page(tmp_path, certificate=fakes.certificate(noise="insecure: seeded noise"))
    assert [attrs["role"] for _, attrs in shown.tags if attrs.get("class") == "banner"] == ["alert"]
    assert "insecure: seeded noiseThe noise was drawn from a seed" in shown.text
    assert "does not hold: seeded noise" in shown.text
    assert "noised sums" not in shown.text


def test_scores_only_from_the_folder_and_marked(tmp_path):
    assert "Not covered by ε" not in page(tmp_path / "without").text
    scores = {"ConvNet": {"mean": 0.9532, "std": 0.0021, "runs": 5}, "list": [{"krr": 0.961}], "test": "digits"}
    text = page(tmp_path / "with", scores=scores).text
    assert "Not covered by ε." in text
    for words in ("0.9532 ± 0.0021", "ConvNet / runs5", "list / 1 / krr0.961", "digits"):
        assert words in text


def test_the_scores_of_an_evaluation_are_rows(tmp_path):
    scores = {
        "ConvNet accuracy, %": {"mean": 91.25, "std": 0.5},
        "KRR accuracy, %": {"scatternet, ridge 0.001": 88.6, "fc-ntk, ridge 0.1": 72.9},
        "MLP accuracy, %": {"mean": 71.5, "std": 0.0},
        "released classifier accuracy, %": 93.75,
    }
    text = page(tmp_path, scores=scores).text
    for words in (
        "ConvNet accuracy, %91.25 ± 0.5",
        "KRR accuracy, % / scatternet, ridge 0.00188.6",
        "KRR accuracy, % / fc-ntk, ridge 0.172.9",
        "MLP accuracy, %71.5",
        "released classifier accuracy, %93.75",
    ):
        assert words in text
    assert "71.5 ±" not in text
    assert text.index("Not covered by ε.") < text.index("88.6")


def test_a_classifier_is_mentioned_where_the_certificate_has_one(tmp_path):
    files = fakes.certificate()["files"]
    assert "classifier" not in page(tmp_path / "without").text
    text = page(tmp_path / "with", certificate=fakes.certificate(files={**files, "classifier.npz": "ab" * 32})).text
    assert "classifier.npz holds a linear classifier on the features of the recipe’s kernel" in text
    assert f"classifier.npz{'ab' * 32}" in text


def test_a_generator_of_images_is_mentioned(tmp_path):
    said = "dpdistill sample makes more records from generator.npz."
    files = {"synthetic.npz": "cd" * 32, "generator.npz": "ab" * 32}
    assert said in page(tmp_path / "with", certificate=fakes.certificate(files=files)).text
    assert said not in page(tmp_path / "without").text


def test_soft_labels_are_mentioned_where_there_are_some(tmp_path):
    said = (
        "Their soft_labels, a probability of every class, come from the released classifier; dpdistill evaluate trains"
    )
    files = {**fakes.certificate()["files"], "classifier.npz": "ab" * 32}
    assert said not in page(tmp_path, certificate=fakes.certificate(files=files)).text
    with np.load(tmp_path / "synthetic.npz") as stored:
        arrays = dict(stored)
    np.savez(tmp_path / "synthetic.npz", **arrays, soft_labels=np.eye(len(CLASSES), dtype=np.float32)[arrays["y"]])
    assert said in Page(write_report(tmp_path).read_text(encoding="utf-8")).text
    np.savez(tmp_path / "synthetic.npz", **arrays)
    np.savez(tmp_path / "training.npz", **arrays, soft_labels=np.eye(len(CLASSES), dtype=np.float32)[arrays["y"]])
    assert said in Page(write_report(tmp_path).read_text(encoding="utf-8")).text
    listed = json.loads((tmp_path / "certificate.json").read_text())
    listed["files"]["training.npz"] = "ab" * 32
    (tmp_path / "certificate.json").write_text(json.dumps(listed))
    said = "Models are trained on tiles of these images, in training.npz and as 8-bit images in images."
    soft = f"{said} The tiles’ soft_labels, a probability of every class,"
    assert soft in Page(write_report(tmp_path).read_text(encoding="utf-8")).text
    np.savez(tmp_path / "training.npz", **arrays)
    text = Page(write_report(tmp_path).read_text(encoding="utf-8")).text
    assert said in text
    assert "soft_labels" not in text


def test_soft_labels_of_a_network_are_not_said_to_be_a_classifiers(tmp_path):
    page(tmp_path)
    with np.load(tmp_path / "synthetic.npz") as stored:
        arrays = dict(stored)
    np.savez(tmp_path / "synthetic.npz", **arrays, soft_labels=np.eye(len(CLASSES), dtype=np.float32)[arrays["y"]])
    text = Page(write_report(tmp_path).read_text(encoding="utf-8")).text
    assert "come from a network that was trained on noised gradients and is not in this folder" in text
    assert "released classifier" not in text


def test_kernels_are_shown_in_words(tmp_path):
    encoder = {"kind": "ScatterNet", "J": 2, "normalise": True}
    fields = {
        "kernel": {"kind": "FeatureKernel", "encoder": encoder},
        "other": {"kind": "FCNTK", "depth": 3, "w_std": 2**0.5},
        "evil": {"kind": "<i>Kind</i>", "x": [1, {"kind": 7}]},
    }
    text = page(tmp_path, recipe=fakes.recipe(fields=fields, changed=["kernel"])).text
    for words in (
        "kernelFeatureKernel, the inner product of features (encoder: ScatterNet, two layers of wavelets and moduli"
        " (J: 2, normalise: yes))changed",
        "otherFCNTK, the tangent kernel of an infinitely wide dense network (depth: 3, w_std: 1.41421)default",
        "evil<i>Kind</i> (x: 1, kind: 7)default",
    ):
        assert words in text


def test_stages_relation_and_large_epsilon(tmp_path):
    composition = [
        {"kind": "poisson-gaussian", "rounds": 20, "noise_multiplier": 2.31, "sampling_prob": 0.1},
        {"kind": "gaussian", "rounds": 1, "noise_multiplier": 8.125},
    ]
    shown = page(
        tmp_path,
        certificate=fakes.certificate(
            claim={"epsilon": 10.0, "delta": 2e-5}, relation="replace-one", events={"events": composition}
        ),
    )
    for words in (
        "202.310.1",
        "18.1251 (all records)",
        "had any one record been replaced",
        "99.996 %",
        "ε = 10 is large",
    ):
        assert words in shown.text
    assert "1 in 50,000" in shown.text


def test_the_recipe_marks_what_was_changed(tmp_path):
    text = page(tmp_path / "list", recipe=fakes.recipe(changed=["per_class"], origin="caller changed per_class")).text
    for name, setting in (("per_class", "10changed"), ("networks", "100default")):
        assert f"{name}{RECIPES['dos'].__dataclass_fields__[name].metadata['help']}{setting}" in text
    assert "caller changed per_class" in text
    assert "default" not in page(tmp_path / "none").text.split("Fields")[1].split("Check it")[0]


def npy(array: np.ndarray) -> bytes:
    """Returns an array as the bytes of a .npy file."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _npz(folder: Path, **changes) -> None:
    X, y = digits()
    arrays = {"X": X, "y": y, "classes": np.array(CLASSES), "bounds": np.array([0.0, 255.0]), **changes}
    np.savez(folder / "synthetic.npz", **{name: value for name, value in arrays.items() if value is not None})


NAN = np.full((12, 6, 5, 1), np.nan, np.float32)
BROKEN = [
    (lambda f: (f / "certificate.json").unlink(), "Expected certificate.json in .*; it does not exist."),
    (lambda f: (f / "recipe.json").unlink(), "Expected recipe.json in .*; it does not exist."),
    (lambda f: (f / "synthetic.npz").unlink(), "Expected synthetic.npz in .*; it does not exist."),
    (lambda f: (f / "certificate.json").write_text("{"), "Expected JSON in .*certificate.json; it cannot be read"),
    (lambda f: (f / "scores.json").write_bytes(b"\xff"), "Expected JSON in .*scores.json; it cannot be read"),
    (lambda f: (f / "recipe.json").write_text("[]"), "Expected a JSON object in .*recipe.json; got list."),
    (lambda f: (f / "synthetic.npz").write_bytes(b"PK\x03\x04"), "synthetic.npz is not a .npz file"),
    (
        lambda f: (f / "synthetic.npz").write_bytes(npy(np.zeros(3))),
        "synthetic.npz is not a .npz file",
    ),
    (lambda f: _npz(f, y=None), "Expected arrays X, y, classes and bounds in .*y"),
    (lambda f: _npz(f, classes=np.array(CLASSES, object)), "array 'classes' of Python objects"),
    (lambda f: _npz(f, X=np.zeros((12, 30), np.float32)), r"Expected finite X of shape .*; got float32 \(12, 30\)."),
    (lambda f: _npz(f, X=NAN), "Expected finite X"),
    (lambda f: _npz(f, bounds=np.zeros(3)), r"Expected bounds \(low, high\)"),
    (lambda f: _npz(f, bounds=np.zeros(2)), "Expected bounds low < high"),
    (lambda f: _npz(f, classes=np.array([CLASSES])), "Expected a list of class names"),
    (lambda f: _npz(f, y=np.zeros(11, int)), r"Expected y of shape \(12,\), integers"),
    (lambda f: _npz(f, y=np.zeros(12)), r"Expected y of shape \(12,\), integers"),
    (lambda f: _npz(f, y=np.full(12, 3)), "Expected labels 0 to 2 in .*; got 3 to 3."),
    (lambda f: _npz(f, y=np.full(12, -1)), "Expected labels 0 to 2 in .*; got -1 to -1."),
]


@pytest.mark.parametrize(("damage", "sentence"), BROKEN)
def test_a_damaged_folder_is_one_sentence(tmp_path, damage, sentence):
    X, y = digits()
    fakes.write(tmp_path, X, y, CLASSES)
    damage(tmp_path)
    with pytest.raises(DataError, match=sentence) as caught:
        write_report(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    assert not (tmp_path / "report.html").exists()


def test_no_folder_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"Expected a folder at .*none; it does not exist\."):
        write_report(tmp_path / "none")


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 3), (300, 301, 1), (200, 150, 3)])
def test_a_png_holds_its_pixels_in_the_same_bytes_everywhere(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    data = base64.b64decode(png_uri(pixels).removeprefix("data:image/png;base64,"))
    image = Image.open(io.BytesIO(data))
    np.testing.assert_array_equal(np.asarray(image).reshape(shape), pixels)
    stored = pixels.size + shape[0]
    # Signature, three chunks of 12 bytes and a header of 13; zlib's 2 + 4 and 5 for each 65,535 bytes.
    assert len(data) == 8 + 3 * 12 + 13 + 6 + stored + 5 * math.ceil(stored / 65_535)


def test_the_same_folder_gives_the_same_page(tmp_path):
    X, y = digits()
    path = write_report(fakes.write(tmp_path, X, y, ["\ud800", "b", "c"], scores={"a": 1}))
    first = path.read_bytes()
    assert render_report(read_folder(tmp_path)).encode() == first
    assert b"&#55296; <small>4 images" in first
    path.unlink()
    assert write_report(tmp_path).read_bytes() == first


def test_two_channels_are_shown_as_their_mean():
    schema = Schema((1, 1, 2), (0.0, 1.0), ("a", "b"))
    assert to_pixels(np.array([[[[0.0, 1.0]]]]), schema).tolist() == [[[[128]]]]
    assert to_pixels(np.array([[[[-5.0, -5.0]]], [[[9.0, 9.0]]]]), schema).ravel().tolist() == [0, 255]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (1.0000000001, "1"), (1.00001, "1.001"), (6.16651, "6.167"), (0.83712, "0.8372"), (0.0, "0"),
     (284.4991, "284.5"), (12.753, "12.76"), (math.inf, "∞")],
)  # fmt: skip
def test_bounds_are_rounded_up(value, text):
    assert bound(value) == text


def test_words_for_numbers():
    assert power_of_ten(1e-5) == "10⁻⁵"
    assert power_of_ten(2.5e-5) == "2.5·10⁻⁵"
    assert plain([1e-5, True, None, {"a": math.inf}]) == "1e-5, yes, none, a: ∞"
    assert guess_bound(0.0, 0.0) == 0.5
    assert math.isclose(guess_bound(math.log(3.0), 0.1), 3.1 / 4.0)
    assert guess_bound(1e6, 0.5) == 1.0
    assert [percent(p) for p in (0.5, 0.7310612, 0.9999546, 1.0)] == ["50.0 %", "73.2 %", "99.996 %", "100 %"]


def test_every_part_of_a_kernel_has_a_word():
    parts = {name for kernel in KERNELS.values() for name in _parts(kernel)}
    assert parts <= set(KINDS)


def test_a_page_is_headed_by_the_classes_or_by_the_title_that_its_publisher_states(tmp_path):
    assert "Synthetic images: cat, <script>alert('x')</script>, …" in page(tmp_path).text
    write_report(tmp_path, " Scans & more ")
    named = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<h1 class="stated">Scans &amp; more</h1>' in named
    assert "<title>Scans &amp; more · dpdistill</title>" in named
    assert stated_title(tmp_path) == "Scans & more"
    write_report(tmp_path)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == named


@pytest.mark.parametrize("title", ["", "x" * 101, "a\nb", "Scans, ε = 0.1", "EPSILON small", "fully private", "Ｄelta"])
def test_a_title_that_states_a_guarantee_or_cannot_be_shown_is_refused(tmp_path, title):
    page(tmp_path)
    with pytest.raises(DataError, match=r"^Expected a title"):
        write_report(tmp_path, title)
    forged = (tmp_path / "report.html").read_text(encoding="utf-8")
    forged = re.sub("<h1>.*</h1>", f'<h1 class="stated">{title}</h1>', forged)
    (tmp_path / "report.html").write_text(forged, encoding="utf-8")
    assert stated_title(tmp_path) is None
