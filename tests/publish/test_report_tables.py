"""The report of a table: its rows and pictures are those of the file, and nothing in a name can break the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import report_fakes as fakes
from test_page import Page

from dpdistill.publish.report.charts import BINS, count, edges, histogram
from dpdistill.publish.report.page import write_report
from dpdistill.publish.report.recipe import fields
from dpdistill.publish.report.tables import unit
from dpdistill.publish.report.words import number, share
from dpdistill.schema import Column, DataError, TableSchema

EVIL = '<script>alert("x")</script>&\'$title'
AGE = Column("age", "integer", (0.0, 100.0))
SEX = Column("sex", "categorical", categories=("Female", "Male"))
SCHEMA = TableSchema(
    (
        AGE,
        Column("dose", "numeric", (0.0, 2.0), missing=True),
        Column("gain", "integer", (0.0, 99_999.0), scale="log"),
        Column("stage", "ordinal", categories=("I", "II", "III"), missing=True),
        SEX,
    ),
    "ill",
    ("no", "yes"),
    unit="patient",
)
ROWS = np.array(
    [
        [41.0, 0.125, 0.0, 0.0, 0.0],
        [67.0, np.nan, 99_999.0, 2.0, 1.0],
        [0.0, 2.0, 7.0, np.nan, 1.0],
    ]
)
LABELS = np.array([1, 0, 1])


def write(folder: Path, schema: TableSchema, X: np.ndarray, y: np.ndarray, **changes: Any) -> Path:
    """A shared folder with raw rows of a table."""
    fakes.write(folder, np.zeros((1, 1, 1, 1)), np.zeros(1, int), ["a", "b"], **changes)
    return write_npz(folder, X=schema.to_unit(X), y=y, schema=np.array(json.dumps(schema.to_json())))


def write_npz(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "synthetic.npz", **{name: array for name, array in arrays.items() if array is not None})
    return folder


def page(folder: Path, schema: TableSchema = SCHEMA, X: np.ndarray = ROWS, y: np.ndarray = LABELS, **changes) -> Page:
    parsed = Page(write_report(write(folder, schema, X, y, **changes)).read_text(encoding="utf-8"))
    assert parsed.open == []
    return parsed


def cells(folder: Path) -> list[list[str]]:
    """The table of rows, read back: its head, then its rows."""
    html = (folder / "report.html").read_text(encoding="utf-8")
    body = re.search(r'<div class="rows">(.*?)</table>', html, re.DOTALL).group(1)
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    return [[Page(cell).text for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)] for row in rows]


def bars(shown: Page, kind: str) -> list[tuple[str, ...]]:
    """(x, y, width, height) of the bars of a colour."""
    paths = [attrs["d"] for tag, attrs in shown.tags if tag == "path" and attrs["class"] == kind]
    return [bar for path in paths for bar in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-\3z", path)]


STANDS = "Protectsone rowadded or removed; stands for: patient, as declared by the publisher"


def test_the_page_speaks_of_rows(tmp_path):
    text = page(tmp_path).text
    for words in ("5 columns and the label ill", "Synthetic rows3in 2 classes", STANDS):
        assert words in text
    assert "mage" not in text.split("Check it yourself")[0]
    assert "A person with several rows" in text
    for words in ("synthetic.csv", "synthetic.parquet", "No row was copied from a private row"):
        assert words in text
    assert "generator.npz" not in text


def test_rows_are_the_files_rows_in_their_own_columns(tmp_path):
    shown = page(tmp_path)
    assert cells(tmp_path) == [
        ["ill", "age", "dose", "gain", "stage", "sex"],
        ["no", "67", "–", "99999", "III", "Male"],
        ["yes", "41", "0.125", "0", "I", "Female"],
        ["yes", "0", "2", "7", "–", "Male"],
    ]
    assert "These are all the rows of the set." in shown.text


def test_the_first_five_of_each_class(tmp_path):
    X = np.column_stack([np.arange(20.0), np.arange(20) % 2])
    schema = TableSchema((AGE, SEX), "ill", ("no", "yes"))
    shown = page(tmp_path, schema, X, np.array([0, 1] * 10))
    assert [row[1] for row in cells(tmp_path)[1:]] == ["0", "2", "4", "6", "8", "1", "3", "5", "7", "9"]
    assert "The first 5 rows of each class." in shown.text
    assert "10 in each of 2 classes" in shown.text


def test_a_generator_is_mentioned_where_the_certificate_has_one(tmp_path):
    files = {"generator.npz": "ab" * 32, "classifier.npz": "cd" * 32}
    text = page(tmp_path, certificate=fakes.certificate(files=files)).text
    assert "dpdistill sample makes more records from generator.npz." in text
    assert "classifier.npz holds a linear classifier" in text
    assert "noised sums" not in page(tmp_path, certificate=fakes.non_private()).text


def test_a_histogram_has_the_bars_of_its_counts(tmp_path):
    # Ages 0 to 100 in steps of ceil(101 / 24) = 5: bins 0-4, 5-9, ...; 5 and 9 and one of 6 of the other class.
    schema = TableSchema((AGE,), "ill", ("no", "yes"))
    shown = page(tmp_path, schema, np.array([[5.0], [9.0], [6.0], [100.0]]), np.array([0, 0, 1, 1]))
    x = [float(x) for x, _, _, _ in bars(shown, "c0")]
    step = 240 / 21
    np.testing.assert_allclose(x, [step], atol=0.06)
    heights = [float(h) for _, _, _, h in bars(shown, "c0")]
    np.testing.assert_allclose(heights, [82 * 2 / 3], atol=0.06)
    (top,) = [(float(x), float(y), float(h)) for x, y, _, h in bars(shown, "c1") if float(x) < 100]
    np.testing.assert_allclose(top, (step, 16.0, 82 / 3), atol=0.11)
    (last,) = [float(x) for x, _, _, _ in bars(shown, "c1") if float(x) > 100]
    np.testing.assert_allclose(last, 20 * step, atol=0.06)
    assert "75 % of rows0100" in shown.text


def test_bars_have_the_shares_of_categories(tmp_path):
    schema = TableSchema(
        (Column("sex", "categorical", categories=("Female", "Male"), missing=True),), "ill", ("a", "b")
    )
    shown = page(tmp_path, schema, np.array([[0.0], [0.0], [1.0], [np.nan]]), np.array([0, 1, 1, 1]))
    wide = 96
    np.testing.assert_allclose([float(w) for _, _, w, _ in bars(shown, "c0")], [wide / 2], atol=0.06)
    np.testing.assert_allclose([float(w) for _, _, w, _ in bars(shown, "c1")], [wide / 2] * 3, atol=0.06)
    places = [(float(x), float(y)) for x, y, _, _ in bars(shown, "c0") + bars(shown, "c1")]
    np.testing.assert_allclose(places, [(104, 3), (104 + wide / 2, 3), (104, 21), (104, 39)], atol=0.06)
    assert "Female50 %Male25 %–25 %" in shown.text
    assert "categories, 25 % missing" in shown.text


def test_of_many_categories_the_rest_is_one_bar(tmp_path):
    names = tuple(f"k{k}:" for k in range(40))
    for kind, first in (("categorical", "k39:"), ("ordinal", "k0:")):
        schema = TableSchema((Column("c", kind, categories=names),), "ill", ("no", "yes"))
        X = np.concatenate([np.arange(40.0), np.full(60, 39.0)])[:, None]
        text = page(tmp_path, schema, X, np.arange(100) % 2).text
        shown = re.findall(r"(k\d+:|\d+ others)(\d+) %", text.split("Marginals")[1].split("What is guaranteed")[0])
        assert len(shown) == 12
        assert shown[0][0] == first
        assert ("k39:", "61") in shown
        assert shown[-1] == ("29 others", "29")


def test_a_long_category_is_cut_and_named_in_full_by_its_title(tmp_path):
    schema = TableSchema((Column("c", "categorical", categories=("n" * 15, "m" * 14)),), "ill", ("no", "yes"))
    text = page(tmp_path, schema, np.array([[0.0], [1.0]]), np.array([0, 1])).text
    assert f"{'n' * 15}{'n' * 13}…50 %{'m' * 14}50 %" in text


def test_edges_by_hand():
    np.testing.assert_allclose(
        edges(Column("x", "numeric", (-1.0, 1.0))), np.linspace(-1, 1, BINS + 1)[1:-1], atol=1e-12
    )
    np.testing.assert_allclose(edges(Column("x", "integer", (1.0, 4.0))), [1.5, 2.5, 3.5], rtol=1e-12)
    np.testing.assert_allclose(edges(AGE), np.arange(4.5, 100, 5), rtol=1e-12)
    tens = Column("x", "numeric", (10.0, 10.0 + 9_999.0), scale="log")
    np.testing.assert_allclose(edges(tens)[[5, 11, 17]], [10 + 9, 10 + 99, 10 + 999], rtol=1e-12)
    whole = edges(Column("x", "integer", (0.0, 9_999.0), scale="log"))
    assert (whole % 1 == 0.5).all()
    assert (np.diff(whole) > 0).all()


def test_counts_by_hand():
    counts = count(
        Column("x", "integer", (1.0, 3.0), missing=True), np.array([1, 3, 3, np.nan]), np.array([0, 0, 1, 1]), 2
    )
    assert counts.bins.tolist() == [[1, 0, 1], [0, 0, 1]]
    assert counts.absent.tolist() == [0, 1]
    assert counts.rows == 4
    picture = histogram(Column("x", "integer", (1.0, 3.0), missing=True), counts)
    assert "".join(picture["paths"]).count("M") == 4


@pytest.mark.parametrize(("classes", "colours"), [(2, 2), (5, 5), (6, 1)])
def test_colours_for_two_to_five_classes(tmp_path, classes, colours):
    names = tuple(f"class {k}" for k in range(classes))
    schema = TableSchema((AGE,), "kind", names)
    shown = page(tmp_path, schema, np.arange(30.0)[:, None], np.arange(30) % classes)
    kinds = {attrs["class"] for tag, attrs in shown.tags if tag == "path"}
    assert kinds == {f"c{k}" for k in range(colours)}
    assert ("kind class 0 class 1" in shown.text) == (classes <= 5)


def test_hostile_names_stay_text(tmp_path):
    long = "n" * 5_000 + EVIL
    schema = TableSchema(
        (
            Column(EVIL, "categorical", categories=(EVIL, "ok", "é" * 300 + "<i>")),
            Column('" onload="x', "numeric", (0.0, 1.0)),
            Column(long, "integer", (0.0, 9.0)),
            Column("\u202e<b>", "ordinal", categories=("<img src=x>", "</svg>")),
        ),
        "label" + EVIL,
        (EVIL, "</title>"),
        unit=f"one {EVIL}: {EVIL}",
    )
    shown = page(tmp_path, schema, np.array([[0.0, 0.5, 3.0, 1.0], [2.0, 0.0, 1.0, 0.0]]), np.array([0, 1]))
    tags = {tag for tag, _ in shown.tags}
    assert not {"script", "img", "b onload", "i onload"} & tags
    assert not any("onload" in attrs or "onerror" in attrs for _, attrs in shown.tags)
    assert shown.text.count(EVIL) >= 6
    assert long in shown.text
    assert f"Protectsone rowadded or removed; stands for: {EVIL}, as declared by the publisher; {EVIL}" in shown.text


def test_the_page_loads_nothing(tmp_path):
    shown = page(tmp_path)
    for tag, attrs in shown.tags:
        assert tag not in {"script", "link", "iframe", "object", "embed", "base", "a", "img", "image", "use"}
        assert not {"href", "src", "srcset", "data", "action"} & set(attrs)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"url\(|@import", html)
    assert "prefers-color-scheme: dark" in html


def test_a_class_without_rows_one_row_and_a_constant_column(tmp_path):
    schema = TableSchema((AGE, SEX), "ill", ("no", "yes", "<maybe>"))
    shown = page(tmp_path, schema, np.array([[7.0, 1.0]]), np.array([1]))
    assert cells(tmp_path)[1:] == [["yes", "7", "Male"]]
    assert "No row has the class no, <maybe>." in shown.text
    assert "over the 1 synthetic rows" in shown.text
    assert [round(float(h)) for _, _, _, h in bars(shown, "c1")] == [82, 12]
    constant = page(tmp_path, schema, np.tile([[7.0, 1.0]], (9, 1)), np.arange(9) % 3)
    assert "100 % of rows0100" in constant.text


def test_a_column_that_is_missing_everywhere(tmp_path):
    columns = (
        Column("a", "numeric", (0.0, 1.0), missing=True),
        Column("b", "ordinal", None, "linear", ("x", "y"), None, True),
    )
    shown = page(tmp_path, TableSchema(columns, "ill", ("no", "yes")), np.full((4, 2), np.nan), np.arange(4) % 2)
    assert [row[1:] for row in cells(tmp_path)[1:]] == [["–", "–"]] * 4
    assert "number, 100 % missing" in shown.text
    assert "x0 %y0 %–100 %" in shown.text


def test_a_set_without_rows_has_its_columns(tmp_path):
    shown = page(tmp_path, SCHEMA, np.zeros((0, 5)), np.zeros(0, int))
    assert len(cells(tmp_path)) == 1
    assert "over the 0 synthetic rows" in shown.text


def test_two_hundred_columns_and_more(tmp_path):
    columns = tuple(Column(f"c{k}", "numeric", (0.0, 1.0)) for k in range(250))
    shown = page(tmp_path, TableSchema(columns, "y", ("no", "yes")), np.full((10, 250), 0.25), np.arange(10) % 2)
    assert sum(tag == "svg" and attrs["aria-label"].startswith("histogram") for tag, attrs in shown.tags) == 60
    assert "190 more columns, not drawn" in shown.text
    assert "c60, c61" in shown.text
    assert "c248, c249" in shown.text
    assert "The first 200 of 250 columns." in shown.text
    assert len(cells(tmp_path)[0]) == 201
    assert (
        '<div class="rows"><div class="scroll" tabindex="0" role="region" aria-label="synthetic rows">'
        in (tmp_path / "report.html").read_text()
    )


def test_many_classes_show_one_row_each(tmp_path):
    names = tuple(f"n{k}" for k in range(150))
    shown = page(tmp_path, TableSchema((AGE,), "y", names), np.zeros((300, 1)), np.arange(300) % 150)
    assert len(cells(tmp_path)) == 151
    assert "The first row of each class." in shown.text


def test_huge_bounds_are_shown(tmp_path):
    columns = (
        Column("a", "numeric", (-1e30, 1e30)),
        Column("b", "integer", (0.0, 2.0**53), scale="log"),
        Column("c", "integer", (0.0, 2.0**53)),
    )
    X = np.array([[1e30, 2.0**53, 0.0], [-1e30, 0.0, 2.0**53]])
    page(tmp_path, TableSchema(columns, "y", ("no", "yes")), X, np.array([0, 1]))
    assert cells(tmp_path)[1:] == [["no", "1e+30", "9.0072e+15", "0"], ["yes", "-1e+30", "0", "9.0072e+15"]]


BROKEN = [
    ({"schema": "{"}, "Expected the schema of a table as JSON text in .*; it cannot be read."),
    ({"schema": "[]"}, "Expected the schema of a table as JSON text in .*; it cannot be read."),
    ({"schema": '{"columns": [{}]}'}, "Expected the schema of a table as JSON text in .*; it cannot be read."),
    ({"schema": "[" * 100_000}, "Expected the schema of a table as JSON text in .*; it cannot be read."),
    ({"schema": {**SCHEMA.to_json(), "label": 7}}, "Expected the schema of a table as JSON text"),
    ({"schema": {**SCHEMA.to_json(), "classes": ["no"]}}, "The schema in .* contradicts itself: Expected at least 2"),
    ({"y": None}, "Expected arrays X, y and schema in .*y"),
    ({"X": np.zeros((3, 9))}, r"Expected X of shape \(m, 8\) in \[-1, 1\] in .*; got float64 \(3, 9\)."),
    ({"X": np.zeros(3)}, r"Expected X of shape \(m, 8\) in \[-1, 1\]"),
    ({"X": np.full((3, 8), "a")}, r"Expected X of shape \(m, 8\) in \[-1, 1\]"),
    ({"X": np.full((3, 8), np.nan)}, r"Expected X of shape \(m, 8\) in \[-1, 1\] in .*; got nan to nan."),
    ({"X": np.full((3, 8), np.inf)}, r"Expected X of shape \(m, 8\) in \[-1, 1\] in .*; got inf to inf."),
    ({"X": np.full((3, 8), 1.5)}, r"Expected X of shape \(m, 8\) in \[-1, 1\] in .*; got 1.5 to 1.5."),
    ({"y": np.zeros(2, int)}, r"Expected y of shape \(3,\), integers"),
    ({"y": np.array([0, 1, 2])}, "Expected labels 0 to 1 in .*; got 0 to 2."),
]


@pytest.mark.parametrize(("damage", "sentence"), BROKEN)
def test_a_damaged_table_is_one_sentence(tmp_path, damage, sentence):
    write(tmp_path, SCHEMA, ROWS, LABELS)
    text = damage.get("schema", SCHEMA.to_json())
    arrays = {"X": SCHEMA.to_unit(ROWS), "y": LABELS, **damage}
    write_npz(tmp_path, **{**arrays, "schema": np.array(text if isinstance(text, str) else json.dumps(text))})
    with pytest.raises(DataError, match=sentence) as caught:
        write_report(tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "report.html").exists()


def test_a_flag_that_is_a_number_is_refused(tmp_path):
    data = SCHEMA.to_json()
    data["columns"][0]["missing"] = 1
    write(tmp_path, SCHEMA, ROWS, LABELS)
    X = np.zeros((3, 9), np.float32)
    write_npz(tmp_path, X=X, y=LABELS, schema=np.array(json.dumps(data)))
    with pytest.raises(DataError, match="it cannot be read"):
        write_report(tmp_path)


def test_rounding_of_single_precision_is_let_through(tmp_path):
    X = SCHEMA.to_unit(ROWS)
    X[1, 0] = np.nextafter(np.float32(1), np.float32(2))
    write(tmp_path, SCHEMA, ROWS, LABELS)
    write_npz(tmp_path, X=X, y=LABELS, schema=np.array(json.dumps(SCHEMA.to_json())))
    write_report(tmp_path)
    assert cells(tmp_path)[1][1] == "100"


def test_words_for_values():
    assert [number(x) for x in (0.0, -0.0, 7.0, 0.1234567, 1e30, 123456789.0, np.inf)] == [
        "0", "0", "7", "0.123457", "1e+30", "123456789", "∞",
    ]  # fmt: skip
    assert [share(p) for p in (0.0, 0.001, 0.01, 0.5, 1.0)] == ["0 %", "<1 %", "1 %", "50 %", "100 %"]
    assert [number(x, ",") for x in (1e6, -1e5, 0.5, 1e30)] == ["1,000,000", "-100,000", "0.5", "1e+30"]
    assert unit("one patient") == "stands for: patient, as declared by the publisher"
    assert unit("visit: of a day") == "stands for: visit, as declared by the publisher; of a day"
    assert unit("row: one second; 23 a recording") == "one second; 23 a recording"
    assert unit("") == unit("row") == ""


def test_fields_of_images_are_not_said_of_a_table():
    recipe = {"fields": {"architecture": "convolutional", "steps": 5}, "changed": ["steps"]}
    assert fields(recipe, table=True) == [("steps", 5, "changed", "")]
    assert fields(recipe) == [("architecture", "convolutional", "default", ""), ("steps", 5, "changed", "")]
