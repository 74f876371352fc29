"""schema.yaml: what is written is read, as it is written, and nothing else is accepted."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dpdistill.benchmark import suite
from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.schema.number_text import number_key, same_spelling
from dpdistill.sources.tables.schema_file import TableFile, read_schema, write_schema
from dpdistill.sources.tables.source import MISSING, CsvFormat

FULL = """
dpdistill: table schema
reviewed: true
unit: patient
label: income
classes:
  "<=50K": ["<=50K", "<=50K."]
  ">50K": [">50K"]
csv:
  header: false
  names: [age, gain, work, id, income]
  separator: ";"
  missing: ["", "?"]
  comment: "|"
ignored: [id]
columns:
  - {name: age, kind: integer, bounds: [0, 100]}
  - {name: gain, kind: numeric, bounds: [-1.5, 1e5], scale: log}
  - {name: work, kind: categorical, categories: [Private, other], other: other, missing: true}
"""
SCHEMA = TableSchema(
    (
        Column("age", "integer", (0.0, 100.0)),
        Column("gain", "numeric", (-1.5, 1e5), "log"),
        Column("work", "categorical", categories=("Private", "other"), other="other", missing=True),
    ),
    "income",
    ("<=50K", ">50K"),
    (("<=50K", "<=50K."), (">50K",)),
    "patient",
)
FILE = TableFile(SCHEMA, True, CsvFormat(False, ("age", "gain", "work", "id", "income"), ";", ("", "?"), "|"), ("id",))
SHORT = """
dpdistill: table schema
label: y
classes: [a, b]
columns:
- name: x
  kind: integer
  bounds: [0, 1]
"""


def read(folder: Path, text: str | bytes) -> TableFile:
    path = folder / "schema.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_schema(path)


def test_every_fact_is_read(tmp_path):
    assert read(tmp_path, FULL) == FILE


def test_what_is_left_out_has_defaults(tmp_path):
    expected = TableFile(TableSchema((Column("x", "integer", (0.0, 1.0)),), "y", ("a", "b")), reviewed=False)
    assert read(tmp_path, SHORT) == expected
    assert (expected.csv.header, expected.csv.separator, expected.schema.unit) == (True, ",", "row")
    assert expected.csv.missing == MISSING == ("", "NA", "NaN", "nan", "null")


def test_texts_are_as_they_are_written(tmp_path):
    words = "[yes, no, true, null, 2.0, 3, 007, 0x10, 2020-01-02, ~, 1e3]"
    text = SHORT.replace("kind: integer\n  bounds: [0, 1]", f"kind: categorical\n  categories: {words}")
    categories = read(tmp_path, text).schema.columns[0].categories
    assert categories == ("yes", "no", "true", "null", "2.0", "3", "007", "0x10", "2020-01-02", "~", "1e3")


def test_tags_of_python_objects_are_texts(tmp_path):
    text = SHORT.replace("label: y", "label: !!python/object/apply:os.getcwd y")
    assert read(tmp_path, text).schema.label == "y"


@pytest.mark.parametrize(
    "table_file", [FILE, replace(FILE, reviewed=False, csv=CsvFormat(separator=";", missing=("", "?"), comment="|"))]
)
def test_what_is_written_is_read(tmp_path, table_file):
    notes = {"columns.gain": "bounds from\nthe records", "classes": "two", "nothing": "never written"}
    write_schema(tmp_path / "s.yaml", table_file, notes)
    assert read_schema(tmp_path / "s.yaml") == table_file
    lines = (tmp_path / "s.yaml").read_text().splitlines()
    assert lines[lines.index("  # bounds from the records") + 1].startswith("  - {name: gain")
    assert lines[lines.index("# two") + 1] == "classes:"
    assert "never written" not in "".join(lines)
    assert [path.name for path in tmp_path.iterdir()] == ["s.yaml"]


WRITABLE = st.characters(
    exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff\ufffe\uffff", include_characters="\t\n"
)
WORDS = st.text(WRITABLE, min_size=1, max_size=40).filter(lambda text: text == text.strip() and text[0] not in "=+-@")
PRINTABLE = WORDS.filter(str.isprintable)
NUMBERS = st.floats(-1e30, 1e30, allow_nan=False)
TOLD_APART = (number_key, same_spelling)
"""Categories and classes differ as numbers and in every form of Unicode."""


@settings(max_examples=60, deadline=None)
@given(
    names=st.lists(WORDS, min_size=4, max_size=4, unique=True),
    categories=st.lists(WORDS, min_size=2, max_size=30, unique_by=TOLD_APART),
    classes=st.lists(PRINTABLE, min_size=2, max_size=5, unique_by=TOLD_APART),
    bounds=st.tuples(NUMBERS, NUMBERS).filter(lambda b: b[0] < b[1]),
    missing=st.lists(WORDS | st.just(""), max_size=4, unique=True),
)
def test_every_text_and_number_survives(tmp_path_factory, names, categories, classes, bounds, missing):
    columns = (
        Column(names[0], "ordinal", categories=tuple(categories), other=categories[-1]),
        Column(names[1], "numeric", bounds, "log", missing=True),
    )
    labels = tuple((name,) for name in classes)
    schema = TableSchema(columns, names[2], tuple(classes), labels, names[3])
    expected = TableFile(schema, True, CsvFormat(missing=tuple(missing)), (names[3],))
    path = tmp_path_factory.mktemp("schema") / "s.yaml"
    write_schema(path, expected)
    assert read_schema(path) == expected


def changed(old: str, new: str, text: str = FULL) -> str:
    assert old in text
    return text.replace(old, new, 1)


BAD = {
    "no table schema": ("[1, 2]", "Expected a table schema that begins with `dpdistill: table schema`."),
    "another file": (changed("table schema", "recipe"), "Expected a table schema"),
    "yaml": (changed("[0, 100]", "[0, 100"), "Expected YAML; "),
    "tab": (changed("  header", "\theader"), "Expected YAML; found character '\\t' that cannot start any token"),
    "control": (changed("patient", "pat\x01ient"), "Expected YAML; the text has characters"),
    "nested": ("[" * 5_000, "Expected YAML; the text has characters or a nesting"),
    "encoding": (FULL.replace("patient", "Fraü").encode("latin-1"), "Expected UTF-8 text"),
    "key": (changed("unit", "units"), "Unknown key 'units' in the schema; expected dpdistill, reviewed,"),
    "csv key": (changed("separator", "sep"), "Unknown key 'sep' in csv; expected header, names,"),
    "column key": (
        changed("scale: log", "log: true"),
        "Unknown key 'log' in columns[2] of 'gain'; expected name, kind,",
    ),
    "key twice": (changed("unit: patient", "label: y"), "Key 'label' is written twice, again in line 5."),
    "list as key": (changed("unit", "[a]"), "Expected a text as key in line 4."),
    "csv": (changed("csv:", "csv: no\n_:"), "Expected csv as a mapping; got 'no'."),
    "csv text": (SHORT + "csv: x\n", "Expected csv as a mapping; got 'x'."),
    "no label": (changed("label: income", ""), "Expected the label of the classes <=50K, >50K; got a table"),
    "empty label": (changed("label: income", "label:"), "Expected label as a text without spaces around it; got ''."),
    "reviewed": (changed("reviewed: true", "reviewed: yes"), "Expected reviewed as true or false; got 'yes'."),
    "columns": (
        "dpdistill: table schema\nlabel: y\nclasses: [a, b]\ncolumns: x",
        "Expected columns as a list; got 'x'",
    ),
    "no columns": (changed("- name: x\n  kind: integer\n  bounds: [0, 1]", "  []", SHORT), "at least one column"),
    "column text": (
        changed("- {name: age, kind: integer, bounds: [0, 100]}", "- age"),
        "Expected columns[1] as a mapping; got 'age'.",
    ),
    "no kind": (changed("kind: integer, ", ""), "Expected columns[1].kind of 'age', which is missing."),
    "kind": (
        changed("kind: integer", "kind: int"),
        "Expected columns[1].kind of 'age' among 'numeric', 'integer', 'date', 'datetime', 'duration', 'ordinal' or "
        "'categorical'; got 'int'.",
    ),
    "no bounds": (changed(", bounds: [0, 100]", ""), "Expected bounds low < high of column 'age'"),
    "bound": (
        changed("[0, 100]", "[0, many]"),
        "Expected columns[1].bounds[2] of 'age' as a number (1e30 at most); got 'many'.",
    ),
    "infinite": (
        changed("[0, 100]", "[0, .inf]"),
        "Expected columns[1].bounds[2] of 'age' as a number (1e30 at most); got '.inf'.",
    ),
    "large": (
        changed("[0, 100]", "[0, 1e31]"),
        "Expected columns[1].bounds[2] of 'age' as a number (1e30 at most); got '1e31'.",
    ),
    "order": (
        changed("[0, 100]", "[100, 0]"),
        "Expected bounds low < high of column 'age', both finite; got 100 and 0.",
    ),
    "one bound": (changed("[0, 100]", "[100]"), "Expected columns[1].bounds[2] of 'age', which is missing."),
    "flag": (
        changed("missing: true", "missing: maybe"),
        "Expected columns[3].missing of 'work' as true or false; got 'maybe'.",
    ),
    "category": (changed("[Private,", "[[Private],"), "Expected columns[3].categories[1] of 'work' as a text"),
    "spaces": (
        changed("[Private,", "[' Private',"),
        "Expected each category of column 'work' as a text without spaces around it; got ' Private'.",
    ),
    "categories": (
        changed("[Private, other]", "Private"),
        "Expected columns[3].categories of 'work' as a list; got 'Private'.",
    ),
    "same twice": (
        changed("[Private,", "[other,"),
        "Expected at least 2 distinct categories of column 'work'; got other, other.",
    ),
    "other": (changed("other: other", "other: rest"), "Expected other='rest' of column 'work' among its categories."),
    "one class": (changed('  ">50K": [">50K"]\n', ""), "Expected 2 to 65536 classes; got 1."),
    "class text": (
        changed("classes: [a, b]", "classes: a", SHORT),
        "Expected classes as a list, or as a mapping to lists; got 'a'.",
    ),
    "no value": (changed('[">50K"]', "[]"), "Expected distinct values of 'income' for each of 2 classes."),
    "value twice": (changed('[">50K"]', '["<=50K."]'), "Expected distinct values of 'income' for each of 2 classes."),
    "crossed": (
        changed('["<=50K", "<=50K."]', '[">50K"]').replace('">50K": [">50K"]', '">50K": ["x"]'),
        "of another class",
    ),
    "column twice": (changed("name: gain", "name: age"), "Expected distinct column names; 'age' is named twice."),
    "ignored twice": (changed("[id]", "[id, id]"), "Expected distinct ignored; got 'id' twice."),
    "ignored": (changed("[id]", "[id, age]"), "Expected column 'age' as declared or as ignored, not as both."),
    "header": (changed("header: false", "header: true"), "where, and only where, header is false."),
    "no names": (changed("  names: [age, gain, work, id, income]\n", ""), "where, and only where, header is false."),
    "name missing": (changed("[age, gain, work,", "[age, gain,"), "Expected the declared column 'work' among names."),
    "name odd": (
        changed("id, income]", "id, x, income]"),
        "Expected column 'x' of names under columns, or under ignored.",
    ),
    "comment": (changed('comment: "|"', 'comment: "\\t|"'), "Expected comment='\\t|' as printable characters."),
    "bell": (changed('comment: "|"', 'comment: "a\\ab"'), "Expected comment='a\\x07b' as printable characters."),
    "decimal": (
        changed('";"', '","\n  decimal: ","'),
        "Expected decimal=',' as '.' or ',', different from the separator",
    ),
    "separator": (changed('";"', '"; "'), "Expected separator='; ' as one ASCII character other than a quote."),
}


@pytest.mark.parametrize("name", BAD)
def test_malformed(tmp_path, name):
    text, fragment = BAD[name]
    with pytest.raises(DataError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'schema.yaml'}: ")
    assert fragment in message
    assert len(message.splitlines()) == 1
    assert message.endswith(".")


def test_what_is_no_file(tmp_path, monkeypatch):
    (tmp_path / "empty").touch()
    for path, fragment in [("none", "does not exist"), ("", "is a folder"), ("empty", "is empty")]:
        with pytest.raises(DataError, match=fragment):
            read_schema(tmp_path / path)
    (tmp_path / "large").write_text(FULL)
    monkeypatch.setattr("dpdistill.sources.tables.schema_file._MAX_BYTES", 100)
    with pytest.raises(DataError, match="is too large for a table schema"):
        read_schema(tmp_path / "large")
    with pytest.raises(DataError, match="cannot be written: No such file"):
        write_schema(tmp_path / "none" / "s.yaml", FILE)


@pytest.mark.parametrize(
    ("name", "columns", "coordinates", "classes"),
    [("adult", 14, 108, 2), ("cervical", 32, 78, 2), ("epileptic", 178, 178, 2), ("kdd99", 41, 127, 5)],
)
def test_schemas_of_the_benchmarks(name, columns, coordinates, classes):
    table_file = read_schema(Path(suite.__file__).with_name("suites") / "schemas" / f"{name}.yaml")
    schema = table_file.schema
    assert table_file.reviewed
    assert (len(schema.columns), schema.dimension, len(schema.classes)) == (columns, coordinates, classes)
    assert all(math.isfinite(sum(column.bounds or (0.0,))) for column in schema.columns)


AMBIGUOUS = ("no", "y", "On", "08", "1e3", "1_000", "0x1F", "0o17", "12:30", "~", "null", "True", ".5", "2020-01-02")


def test_ambiguous_texts_are_texts_to_every_program(tmp_path):
    """Quoted as written by us, and as they are where a person writes them without quotes."""
    column = Column("08", "categorical", categories=(*AMBIGUOUS, "plain", "a-b", "Grade 3"))
    written = TableFile(TableSchema((column,), "no", AMBIGUOUS), True, CsvFormat(missing=("", *AMBIGUOUS)), ("1e3",))
    write_schema(tmp_path / "s.yaml", written)
    assert read_schema(tmp_path / "s.yaml") == written
    text = (tmp_path / "s.yaml").read_text()
    found = yaml.safe_load(text)  # YAML 1.1 with types
    assert tuple(found["columns"][0]["categories"]) == column.categories
    for word in AMBIGUOUS:
        assert text.count(f"'{word}'") >= 3, word
    assert "plain, a-b, Grade 3]" in text.replace("\n", " ").replace("  ", "")
    (tmp_path / "s.yaml").write_text(text.replace("'", "").replace("missing: [,", "missing: ['',"))
    assert read_schema(tmp_path / "s.yaml") == written
