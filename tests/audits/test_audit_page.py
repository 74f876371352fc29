"""The owner's page about marginals: says whose it is, shows the numbers, loads nothing and escapes everything."""

from __future__ import annotations

import json
import re
import stat
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from dpdistill.audits import Comparison, compare_marginals, write_marginals
from dpdistill.method import Distilled
from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.storage.records import Records

EVIL = '<script>alert("x")</script>&\'$title'
SCHEMA = TableSchema(
    (
        Column("age", "integer", (0.0, 100.0)),
        Column("gain", "integer", (0.0, 99.0), scale="log"),
        Column("sex", "categorical", categories=("Female", "Male"), missing=True),
    ),
    "ill",
    ("no", "yes"),
)
REAL = np.array([[7.0, 0.0, 0.0], [7.0, 0.0, 1.0], [30.0, 9.5, np.nan], [30.0, 0.0, 0.0]])
SYNTHETIC = np.array([[7.0, 0.0, 0.0], [7.0, 0.0, 0.0], [7.0, 0.0, 0.0], [30.0, 0.0, 1.0]])
LABELS = np.array([0, 0, 1, 0])


class Page(HTMLParser):
    """Tags in order, text, and whether every tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words, self.tags, self.open = [], [], []
        self.feed(html)
        self.close()
        self.text = re.sub(r"\s+", " ", "".join(self.words))

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)


def compared(schema: TableSchema = SCHEMA, X=REAL, y=LABELS, Z=SYNTHETIC, z=LABELS) -> Comparison:
    X, Z = np.asarray(X, float), np.asarray(Z, float)
    return compare_marginals(
        Distilled(schema.to_unit(Z), np.asarray(z, np.int32), schema), Records(X, np.asarray(y, np.int64), schema)
    )


def page(folder: Path, schema: TableSchema = SCHEMA, **changes) -> Page:
    path = write_marginals(folder / "set.audit", compared(schema, **changes), schema)
    assert path == folder / "set.audit" / "marginals.html"
    assert sorted(file.name for file in path.parent.iterdir()) == ["marginals.html", "marginals.json"]
    shown = Page(path.read_text(encoding="utf-8"))
    assert shown.open == []
    return shown


def test_only_the_owner_may_read_the_folder(tmp_path):
    page(tmp_path / "new")
    assert stat.S_IMODE((tmp_path / "new" / "set.audit").stat().st_mode) == 0o700
    (tmp_path / "set.audit").mkdir(mode=0o755)
    page(tmp_path)
    assert stat.S_IMODE((tmp_path / "set.audit").stat().st_mode) == 0o700


def test_every_screen_says_that_it_is_the_owners(tmp_path):
    shown = page(tmp_path)
    body = [tag for tag, _ in shown.tags].index("body")
    assert shown.tags[body + 1] == ("div", {"class": "owner", "role": "alert"})
    assert "Computed from the private records without noise: not covered by ε. Do not share it." in shown.text
    html = (tmp_path / "set.audit" / "marginals.html").read_text(encoding="utf-8")
    assert re.search(r"\.owner \{ position: sticky; top: 0;", html)
    assert "NOT covered by ε" in html.split("@page")[1]
    data = json.loads((tmp_path / "set.audit" / "marginals.json").read_text())
    assert "NOT covered by epsilon" in data["notice"]


def test_the_numbers_are_on_the_page_and_in_the_file(tmp_path):
    text = page(tmp_path).text
    # Age: 2 of 4 against 3 of 4 in the bin of 7. Sex: 2, 1, 1 missing of 4 against 3, 1, 0. Gain: 9.5 (rounds to 10).
    assert "age integer0.250" in text
    assert "sex categorical0.250" in text
    assert "5 to 10: 50.0 % of the records, 75.0 % synthetic" in text
    assert "Female: 50.0 % of the records, 75.0 % synthetic" in text
    assert "4 private records, 4 synthetic rows, 3 columns." in text
    assert "no375.0 %375.0 %" in text
    data = json.loads((tmp_path / "set.audit" / "marginals.json").read_text())
    assert data["rows"] == {"real": 4, "synthetic": 4, "left_out": 0}
    assert [column["distance"] for column in data["columns"]] == [0.25, 0.25, 0.25]
    assert data["columns"][2]["values"] == ["Female", "Male", "missing"]
    assert data["columns"][2]["real"] == [[2, 1, 0], [0, 0, 1]]
    assert data["columns"][2]["synthetic"] == [[2, 1, 0], [1, 0, 0]]
    assert data["classes"][0] == {"name": "no", "real": 3, "synthetic": 3, "real_share": 0.75, "synthetic_share": 0.75}
    assert f"{data['correlations']['largest']:.3f}, between {' and '.join(data['correlations']['pair'])}" in text


def test_the_farthest_column_is_first_and_the_range_is_in_raw_units(tmp_path):
    Z = REAL.copy()
    Z[:, 1] = 99.0
    text = page(tmp_path, Z=Z).text
    assert text.index("gain integer, log scale1.000") < text.index("age integer0.000")
    assert "0.000nowhere" in text.replace(" ", "")
    assert re.search(r"78\.43 to 99: 0\.0 % of the records, 100\.0 % synthetic", text)


def test_bars_have_the_heights_of_the_shares(tmp_path):
    paths = [attrs for tag, attrs in page(tmp_path).tags if tag == "path"]
    heights = {kind: [] for kind in ("real", "synthetic")}
    for attrs in paths:
        heights[attrs["class"]].append([float(h) for h in re.findall(r"v-([\d.]+)", attrs["d"])])
    assert heights["real"][0] == [28.0, 28.0]
    assert heights["synthetic"][0] == [42.0, 14.0]


def test_left_out_records_and_empty_classes(tmp_path):
    schema = TableSchema(SCHEMA.columns, "ill", ("no", "yes", "<maybe>"))
    shown = page(tmp_path, schema, y=[0, 0, -1, 0])
    assert "Left out: 1 records that contribute nothing" in shown.text
    assert "<maybe>00.0 %00.0 %" in shown.text
    data = json.loads((tmp_path / "set.audit" / "marginals.json").read_text())
    assert data["columns"][0]["distances"][1:] == [None, None]


def test_hostile_names_stay_text(tmp_path):
    schema = TableSchema(
        (
            Column(EVIL, "categorical", categories=(EVIL, "b" * 9_000, "\u202e")),
            Column("n" * 5_000, "numeric", (-1e30, 1e30)),
            Column('" onload="x', "ordinal", categories=("</svg>", "<img src=x>")),
        ),
        "label" + EVIL,
        (EVIL, "</title>"),
    )
    shown = page(tmp_path, schema, X=[[1, 1e30, 1]], y=[0], Z=[[0, -1e30, 0]], z=[0])
    assert not {"script", "img", "i onload"} & {tag for tag, _ in shown.tags}
    assert not any("onload" in attrs for _, attrs in shown.tags)
    assert EVIL in shown.text
    assert "n" * 79 + "…" in shown.text
    assert json.loads((tmp_path / "set.audit" / "marginals.json").read_text())["columns"][0]["name"] == EVIL


def test_the_page_loads_nothing(tmp_path):
    shown = page(tmp_path)
    for tag, attrs in shown.tags:
        assert tag not in {"script", "link", "iframe", "object", "embed", "base", "a", "img", "image", "use"}
        assert not {"href", "src", "srcset", "data", "action"} & set(attrs)
    html = (tmp_path / "set.audit" / "marginals.html").read_text(encoding="utf-8")
    assert not re.search(r"url\(|@import", html)
    assert "default-src 'none'" in html
    assert 'name="viewport"' in html


def test_two_hundred_columns_and_many_classes(tmp_path):
    columns = tuple(Column(f"c{k}", "numeric", (0.0, 1.0), missing=True) for k in range(200))
    schema = TableSchema(columns, "y", tuple(f"class {k}" for k in range(9)))
    X, y = np.random.default_rng(0).random((90, 200)), np.arange(90) % 9
    X[:, 7] = np.nan
    shown = page(tmp_path, schema, X=X, y=y, Z=X[::-1], z=y)
    assert sum(tag == "svg" for tag, _ in shown.tags) == 200
    assert "largest within a class" in shown.text
    assert "within class 3" not in shown.text


def test_what_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"file.set\.audit cannot be written"):
        write_marginals(tmp_path / "file" / "set.audit", compared(), SCHEMA)
    other = TableSchema(SCHEMA.columns[:2], "ill", ("no", "yes"))
    with pytest.raises(DataError, match="Expected a comparison of the schema's columns"):
        write_marginals(tmp_path / "set.audit", compared(), other)
    assert not (tmp_path / "set.audit").exists()


def test_a_log_scale_around_zero_names_its_bins_by_the_values_in_them(tmp_path):
    """Every record is -500 and every synthetic row 500: the farthest bin is one that holds one of them."""
    schema = TableSchema((Column("volt", "numeric", (-1000.0, 1000.0), "log"),), "y", ("a", "b"))
    y = np.array([0, 1])
    records = Records(np.full((2, 1), -500.0, np.float32), y.astype(np.int64), schema)
    made = Distilled(schema.to_unit(np.full((2, 1), 500.0)), y.astype(np.int32), schema)
    page = write_marginals(tmp_path / "audit", compare_marginals(made, records), schema).read_text()
    low, high = (float(text.replace(",", "")) for text in re.findall(r"(-?[\d.,]+) to (-?[\d.,]+):", page)[0])
    assert low <= -500 <= high or low <= 500 <= high
    assert high - low < 600
