"""A table of odd names, categories and extreme numbers in every format that a shared folder is exported to."""

from __future__ import annotations

import io
import re
from pathlib import Path

import mlcroissant
import numpy as np
import pandas as pd
import pytest
import yaml
from export_fakes import STATED, copied, said_of, save
from pyarrow import parquet

from dpdistill.folder.layout import CARD, CROISSANT, CSV, DEPLOYMENT, SCHEMA
from dpdistill.method import Distilled
from dpdistill.publish.export import FORMATS, export
from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.sources.yaml_text import dump_yaml

TEXTS = (
    *("08", "1e3", "no", "y", "0x1F", "0o17", "1:30", "1_000", ".5", "5.", "~", "null", "NA", "2001-01-01", "-1", "+1"),
    *("a: b", "# a", "a|b", "a\nb", "a\r\nb", "</script>", "[a]", "{a}", "*a", "&a", "!a", "%a", "'", '"', "ü"),
)
CLASSES = ("08", "no", "1e3", "y")
SET = TableSchema(
    (
        Column("08", "categorical", categories=TEXTS),
        Column('a|b <i>, "c"', "integer", (-(2.0**53), 2.0**53), missing=True),
        Column("flag", "categorical", categories=("false", "true"), missing=True),
        Column("Größe: cm", "numeric", (0.0, 99_999_999.99)),
        Column("no", "numeric", (0.0, 5e-324)),
        Column("many\nlines", "ordinal", categories=("no", "yes")),
    ),
    "1e3",
    CLASSES,
    unit="person: 08",
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Path:
    """Every category of the first column once; all else at the lower and the upper end in turn, and missing at last."""
    X = np.repeat(np.resize(np.array([[-1.0], [1.0]], np.float32), (len(TEXTS), 1)), SET.dimension, 1)
    X[:, : len(TEXTS)] = np.eye(len(TEXTS))
    number_gap, flag, flag_gap = len(TEXTS) + 1, len(TEXTS) + 2, len(TEXTS) + 4
    X[:, [number_gap, flag_gap]], X[:, flag] = 0.0, 1.0
    X[-1, [number_gap, flag_gap]], X[-1, flag] = 1.0, 0.0
    y = np.arange(len(TEXTS)) % len(CLASSES)
    return save(tmp_path_factory.mktemp("hostile") / "set", Distilled(X, y.astype(np.int32), SET))


def expected() -> dict[str, list]:
    ends = np.arange(len(TEXTS)) % 2
    rows = {"08": list(TEXTS)}
    for column in SET.columns[1:]:
        either = column.bounds or column.categories
        rows[column.name] = [either[k] for k in ends]
    rows["flag"] = [False] * len(TEXTS)
    for column in SET.columns:
        if column.missing:
            rows[column.name][-1] = None
    return rows


def test_every_document_agrees_and_its_records_are_read(shared):
    assert set(said_of(shared).values()) == {True}
    described = mlcroissant.Dataset(jsonld=shared / CROISSANT)
    assert described.metadata.ctx.issues.errors == set()
    records = list(described.records("records"))
    read = [each["records/08"] for each in records]  # by pandas, to which these two texts are missing values
    assert [text and text.decode() for text in read] == [None if text in ("null", "NA") else text for text in TEXTS]
    assert [each["records/Größe:_cm"] for each in records] == expected()["Größe: cm"]


def test_every_yaml_gives_the_texts_back(shared):
    schema = yaml.safe_load((shared / SCHEMA).read_text("utf-8"))
    assert (schema["label"], schema["classes"], schema["unit"]) == ("1e3", list(CLASSES), "person: 08")
    assert [column["name"] for column in schema["columns"]] == [column.name for column in SET.columns]
    assert schema["columns"][0]["categories"] == list(TEXTS)
    assert schema["columns"][1]["bounds"] == [-(2**53), 2**53]
    assert yaml.safe_load((shared / DEPLOYMENT).read_text("utf-8"))


def test_hugging_face(shared, tmp_path):
    export(shared, "hf", tmp_path / "hub", STATED)
    made = parquet.read_table(next((tmp_path / "hub" / "data").iterdir()))
    types = ["string", "int64", "bool", "double", "double", "string", "int64"]
    assert [str(field.type) for field in made.schema] == types
    columns = made.to_pydict()
    assert columns.pop("1e3") == [k % 4 for k in range(len(TEXTS))]
    assert columns == expected()
    card = yaml.safe_load((tmp_path / "hub" / CARD).read_text("utf-8").split("---\n")[1])
    features = {each["name"]: each["dtype"] for each in card["dataset_info"]["features"]}
    assert features.pop("1e3") == {"class_label": {"names": {str(k): name for k, name in enumerate(CLASSES)}}}
    assert [*features] == [column.name for column in SET.columns]


@pytest.mark.parametrize("to", FORMATS)
def test_every_format_is_written(shared, to, tmp_path):
    target = tmp_path / f"out{FORMATS[to].ending}"
    if to == "onnx":
        with pytest.raises(DataError, match=r"the classifier of a table is its scorecard\.csv"):
            export(shared, to, target, STATED)
        return
    export(shared, to, target, STATED)
    if to == "csv":
        table = pd.read_csv(target, dtype=str, keep_default_na=False)
        assert table["08"].tolist() == list(TEXTS)
        assert table.equals(pd.read_csv(shared / CSV, dtype=str, keep_default_na=False))
    if to == "torch":
        with np.load(target / "train.npz") as arrays:
            assert arrays["classes"].tolist() == list(CLASSES)
            assert (arrays["X"].min(), arrays["X"].max(), len(arrays["y"])) == (-1.0, 1.0, len(TEXTS))


NUMBER_OF_1_2 = re.compile(r"[-+]?(0o[0-7]+|0x[0-9a-fA-F]+|(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?|\.inf|\.nan)", re.I)


@pytest.mark.parametrize("text", [*TEXTS, "Y", "N", "on", "1E5", "-08", "+.5e3", "0123", "1_000.5"])
def test_no_loader_of_yaml_takes_a_text_for_anything_else(text):
    """In YAML 1.2 a scalar without quotes is no text where it looks like a number; in 1.1 `y` and `on` are true."""
    written = dump_yaml({"key": [text]})
    assert yaml.safe_load(written) == {"key": [text]}
    scalar = written.partition("- ")[2].strip()
    quoted = scalar[0] in "'\""
    assert quoted or not (NUMBER_OF_1_2.fullmatch(scalar) or scalar.lower() in ("y", "n", "on", "off", "null", "~"))
    assert yaml.safe_load(io.StringIO(dump_yaml({text: 1.0}))) == {text: 1.0}


def test_a_description_with_spaces_in_its_ids_still_agrees(shared, tmp_path):
    folder = copied(shared, tmp_path)
    text = (folder / CROISSANT).read_text("utf-8")
    assert text.count("records/Größe:_cm") == 1
    (folder / CROISSANT).write_text(text.replace("records/Größe:_cm", "records/Größe: cm"), "utf-8")
    assert said_of(folder)[CROISSANT] is True
    (folder / CROISSANT).write_text(text.replace("records/Größe:_cm", "records/Größe: mm"), "utf-8")
    assert said_of(folder)[CROISSANT] is False
