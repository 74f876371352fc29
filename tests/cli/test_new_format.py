"""A format is one module and its test: reading, refusals and --help find it by themselves."""

import json
import sys

import numpy as np
import pytest
from run_command import refused, succeeds

from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.sources import images, tables
from dpdistill.sources.formats import image_formats, image_titles, listed, table_formats, table_titles
from dpdistill.sources.load import load, recognise
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile

XYZ = '''
"""Images in lines of JSON."""

import json

import numpy as np

from dpdistill.sources.formats import ImageFormat
from dpdistill.storage.parsed import Parsed


def load_file(path, part, stated):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    X = np.array([line["image"] for line in lines], np.uint8)[..., None]
    return Parsed.of(X, np.array([line["label"] for line in lines]), classes=("a", "b"), bounds=(0.0, 255.0))


FORMAT = ImageFormat(name="xyz", title="JSON lines (.xyz)", endings=(".xyz",), load_file=load_file)
'''
ROWS = '''
"""Tables in lines of JSON."""

import json

import pyarrow as pa

from dpdistill.sources.formats import TableFormat


class Lines:
    typed, ordered = False, True

    def __init__(self, path):
        self.title, self._lines = path.name, [json.loads(line) for line in path.read_text().splitlines()]
        self.names = tuple(self._lines[0])

    def batches(self, columns):
        yield [pa.array([str(line[name]) for line in self._lines]) for name in columns]

    def hint(self, declared):
        return ""


FORMAT = TableFormat(title="JSON rows (.rows)", endings=(".rows",), open=lambda path, _: Lines(path))
'''


@pytest.fixture
def added(tmp_path, monkeypatch):
    """The two formats, as from a file more in sources/images/ and one in sources/tables/."""
    for package, name, text in ((images, "xyz", XYZ), (tables, "rows", ROWS)):
        folder = tmp_path / package.__name__
        folder.mkdir()
        (folder / f"{name}.py").write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    yield tmp_path
    for package, name in ((images, "xyz"), (tables, "rows")):
        sys.modules.pop(f"{package.__name__}.{name}", None)
        vars(package).pop(name, None)


def lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_images_are_read_and_a_run_takes_them(added):
    records = [{"image": [[k, 2 * k]] * 2, "label": k % 2} for k in range(40)]
    path = lines(added / "set.XYZ", records)
    assert recognise(path) == "xyz"
    found = load(path)
    np.testing.assert_array_equal(found.X[:, 0, 1, 0], 2 * np.arange(40))
    assert found.schema.classes == ("a", "b")
    with pytest.raises(DataError, match="has fixed channels"):
        load(path, channels=1)
    small = ("--method", "ldpdc", "--set", "sampling_prob=1", "--per-class", 1)
    succeeds("distill", path, "--out", added / "out", *small)


def test_a_table_is_read(added):
    path = lines(added / "t.rows", [{"age": 31, "ill": "no"}, {"age": 64, "ill": "yes"}])
    schema = TableSchema((Column("age", "integer", (0, 100)),), "ill", ("no", "yes"))
    found = load_table(path, TableFile(schema, reviewed=True))
    assert (found.X[:, 0].tolist(), found.y.tolist()) == ([31.0, 64.0], [0, 1])
    with pytest.raises(DataError, match="looks like a table"):
        recognise(path)


def test_refusals_and_help_list_it(added):
    (added / "a.txt").write_text("no data")
    said = " ".join(refused("distill", added / "a.txt", "--out", added / "x").split())
    assert f"expected {image_titles()}, or a table with its schema" in said
    assert "JSON lines (.xyz)" in said
    shown = " ".join(succeeds("distill", "--help").replace("│", " ").split())
    assert f"Images as {image_titles()}, or digits:train." in shown
    assert f"DATA is a {table_titles()} file, or a database." in shown
    assert "JSON rows (.rows)" in shown


def test_it_is_gone_with_its_module():
    assert [each.name for each in image_formats()] == [
        *("idx", "cifar", "npz", "svhn", "parquet", "list", "camelyon", "chexpert", "folders", "archive"),
    ]
    assert [each.title for each in table_formats()] == [
        "Parquet",
        "Arrow (Feather)",
        "Excel (.xlsx)",
        "CSV (also gzip)",
    ]
    shown = succeeds("plan", "--help")
    assert "JSON lines" not in shown
    assert "-FORMATS" not in shown


def test_words_are_listed_as_in_a_sentence():
    assert [listed(words) for words in (["a"], ["a", "", "b"], ["a", "b", "c"])] == ["a", "a or b", "a, b, or c"]
