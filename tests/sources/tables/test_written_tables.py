"""Every schema that is accepted can be written: a hostile synthetic table comes back in its bounds, types, categories.

A synthetic table is written after epsilon is spent: what a file cannot hold must be refused by the schema.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, assume, example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from dpdistill.folder.layout import CSV, PARQUET, SCHEMA
from dpdistill.folder.save import read_distilled, write_distilled
from dpdistill.folder.tables import are_truth_values
from dpdistill.method import Distilled
from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.schema.column import KINDS
from dpdistill.sources.tables.cells import Marks
from dpdistill.sources.tables.codes import encoder, label_encoder
from dpdistill.sources.tables.drafts import draft_schema
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile, read_schema
from dpdistill.sources.tables.time_cells import read_time

CASES = 200
WORDS = (
    *("NA", "nan", "null", "None", "no", "yes", "y", "~", "true", "False", "TRUE", "08", "1e3", "1.0", "0x1F", "1:30"),
    *("-1", "+1", "2001-01-01", "a,b", 'say "x"', "a\nb", "a\r\nb", "a\rb", "a\tb", "a: b", "# a", "- a", "[a]", "{a}"),
    *("a;b", "|", "`", "\\", "%", "&amp;", "</script>", "ü", "u\u0308", "🙂", "\u200b", "a\u2028b", "\u202ex", "'"),
    *("\x85a", "__index_level_0__", "label", "\ud800", "\0", "\ufeffa", "\x1b[0m", "\ufffe", "=1+1", " a"),
)
ENDS = (
    *(0.0, 1.0, 0.2, 0.8, 0.5, 3.5, -1.0, 5e-324, -5e-324, 1e-310, 1e-9, 0.1, 0.3, 1 / 3, 99_999_999.99, 20_200_101.0),
    *(20_241_231.0, 2.0**24 + 1, 2.0**31, 1.7e9, 2.0**53, -(2.0**53), 2.0**53 + 2, 2.0**63, 1.8e19, 1e20, 1e30, -1e30),
    *(1e300, math.nextafter(1.0, 2.0), math.nextafter(1e30, 0.0), 1e9, 1e9 + 1e-3),
)
COORDINATES = (-1.0, 1.0, 0.0, 0.5, 1.0 - 2.0**-24, -1.0 + 2.0**-24, 2.0**-149, 1e30, -1e30, 1.0 + 1e-6, 0.3333, -0.77)


AGE = Column("age", "integer", (0.0, 1.0))


def accepted(make: Callable[..., object]) -> Callable[[object], bool]:
    """Whether a schema with that part is accepted: the strategies ask the code under test, and nothing else."""

    def is_accepted(part: object) -> bool:
        try:
            make(part)
        except DataError:
            return False
        return True

    return is_accepted


def texts(make: Callable[..., object], characters: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Any text that is accepted in a place."""
    is_accepted = accepted(make)
    known = st.sampled_from([word for word in WORDS if is_accepted(word)])
    return known | st.text(characters, min_size=1, max_size=6).filter(is_accepted)


def bounds(kind: Any) -> st.SearchStrategy[tuple[float, float]]:
    """Any bounds that are accepted for a kind of column."""
    is_accepted = accepted(lambda pair: Column("x", kind, pair))
    number = st.floats(-1e30, 1e30) if kind == "numeric" else st.integers(-(2**53), 2**53).map(float)
    drawn = st.tuples(number, number).map(sorted).map(tuple).filter(is_accepted)
    return st.sampled_from([pair for pair in combinations(sorted(ENDS), 2) if is_accepted(pair)]) | drawn


ANY = st.characters(exclude_categories=("Cs",))
VISIBLE = st.characters(categories=("L", "N", "M", "P", "S"))
NAMES = texts(lambda text: Column(text, "integer", (0.0, 1.0)), ANY)
CATEGORIES = texts(lambda text: Column("x", "categorical", categories=(text, "z" * 9)), ANY)
CLASS_NAMES = texts(lambda text: TableSchema((AGE,), "y", (text, "z" * 9)), VISIBLE)
LABELS = texts(lambda text: TableSchema((AGE,), text, ("a", "b")), ANY)
UNITS = texts(lambda text: TableSchema((AGE,), "y", ("a", "b"), unit=text), ANY)
BOUNDS = {kind: bounds(kind) for kind in ("integer", "numeric")}


GRIDS = (None, 1.0, 2.0, 0.25, 50.0, 0.1)
FORMATS = {
    "date": (None, "%d.%m.%Y", "%B %-d, %Y", "%y%m%d", "%Y%m%d", "%d/%m/%Y %H:%M"),
    "datetime": (None, "%m/%d/%Y %I:%M:%S %p", "epoch", "epoch ms", "%Y-%m-%dT%H:%M:%S%z", "%d%b%Y:%H:%M:%S"),
    "duration": (None, "%H:%M:%S", "%M:%S", "seconds", "minutes", "%H:%M"),
}
ENDS_OF_TIMES = (
    -62_135_000_000,
    -(10**9),
    -1,
    0,
    1,
    59,
    60,
    86_399,
    1_364_691_599,
    1_382_835_600,
    10**9,
    253_400_000_000,
)


@st.composite
def times(draw, name: str, kind: Any, missing: bool) -> Column:
    """A column of times, at the ends of the calendar and where clocks change."""
    resolution = draw(st.sampled_from([None, "day", "hour", "minute", "second"]))
    unit = {"day": 86_400, "hour": 3_600, "minute": 60}.get(resolution or {"date": "day"}.get(kind, ""), 1)
    low, high = sorted(draw(st.tuples(*[st.sampled_from(ENDS_OF_TIMES).map(lambda end: end // unit)] * 2)))
    zone = draw(st.sampled_from([None, "UTC", "Europe/Berlin", "Asia/Kathmandu"]))
    step, format = draw(st.sampled_from((None, None, 10.0))), draw(st.sampled_from(FORMATS[kind]))
    facts: Any = {"resolution": resolution, "zone": zone, "format": format, "step": step, "missing": missing}
    return Column(name, kind, (low, high), **facts)


@st.composite
def columns(draw, name: str) -> Column:
    kind, missing = draw(st.sampled_from(KINDS)), draw(st.booleans())
    if kind in FORMATS:
        return draw(times(name, kind, missing))
    if kind in BOUNDS and draw(st.booleans()):
        places = draw(st.sampled_from((None, 0, 2, 9)))
        return Column(name, kind, draw(BOUNDS[kind]), missing=missing, step=draw(st.sampled_from(GRIDS)), places=places)
    if kind in BOUNDS:
        return Column(name, kind, draw(BOUNDS[kind]), draw(st.sampled_from(["linear", "log"])), missing=missing)
    names = tuple(draw(st.lists(CATEGORIES, min_size=2, max_size=5, unique=True)))
    return Column(name, kind, categories=names, other=draw(st.sampled_from((None, *names))), missing=missing)


@st.composite
def schemas(draw) -> TableSchema:
    """A schema that `schema check` accepts: its columns, label and encoders can be made."""
    try:
        names, label = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True)), draw(LABELS)
        features = tuple(draw(columns(name)) for name in names)
        classes = tuple(draw(st.lists(CLASS_NAMES, min_size=2, max_size=4, unique=True)))
        labels = draw(st.sampled_from([(), tuple((f"value {k}",) for k in range(len(classes)))]))
        schema = TableSchema(features, label, classes, labels, draw(UNITS))
        made_encoders(schema)
    except DataError:  # two names of one number, for instance
        assume(False)
    return schema


def made_encoders(schema: TableSchema) -> None:
    TableFile(schema, reviewed=True)
    label_encoder(schema, ())
    for column in schema.columns:
        encoder(column, ())


@st.composite
def tables(draw) -> Distilled:
    schema, rows = draw(schemas()), draw(st.integers(1, 4))
    coordinate = st.sampled_from(COORDINATES) | st.floats(-1.0, 1.0, width=32)
    X = draw(st.lists(coordinate, min_size=rows * schema.dimension, max_size=rows * schema.dimension))
    y = draw(st.lists(st.integers(0, len(schema.classes) - 1), min_size=rows, max_size=rows))
    return Distilled(np.array(X, np.float32).reshape(rows, -1), np.array(y, np.int32), schema)


def extremes(*features: Column, classes: tuple[str, ...] = ("no", "yes")) -> Distilled:
    """Rows at the lower and the upper end of all columns, and between."""
    schema = TableSchema(features, "ill", classes)
    X = np.repeat(np.array([[-1.0], [1.0], [0.25]], np.float32), schema.dimension, 1)
    return Distilled(X, np.array([0, 1, 0], np.int32), schema)


def values_of(column: Column, raw: np.ndarray) -> list:
    """What each row of a column must hold, and that this lies within the bounds and categories."""
    if column.bounds is not None:
        known = raw[~np.isnan(raw)]
        assert ((known >= column.bounds[0]) & (known <= column.bounds[1])).all()
        assert column.kind == "numeric" or (known == np.rint(known)).all()
        assert column.grid is None or (column.snap(known) == known).all()
        if column.is_time:
            return [None if math.isnan(x) else int(x) * column.time.unit for x in raw.tolist()]
        return [None if math.isnan(x) else int(x) if column.kind == "integer" else x for x in raw.tolist()]
    return [None if math.isnan(x) else column.categories[int(x)] for x in raw.tolist()]


def from_text(column: Column, text: str) -> object:
    if text == "":
        return None
    if column.is_time:
        return int(read_time(column, Marks.of(()))(text)) * column.time.unit
    return int(text) if column.kind == "integer" else float(text) if column.kind == "numeric" else text


def from_frame(column: Column, value: object) -> object:
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    if column.is_time:
        return None if value is pd.NaT else int(read_time(column, Marks.of(()))(value)) * column.time.unit
    if column.kind in ("integer", "numeric"):
        return value
    return (
        value
        if isinstance(value, str)
        else next(name for name in column.categories if (name.lower() == "true") == value)
    )


def type_of(column: Column) -> str:
    """The type of a Parquet column, from the schema alone."""
    if column.is_time:
        zone = f", tz={column.zone}" if column.zone else ""
        return {"date": "date32[day]", "datetime": f"timestamp[ms{zone}]", "duration": "duration[s]"}[column.kind]
    if column.is_number:
        return {"integer": "int64", "numeric": "double"}[column.kind]
    return (
        "bool"
        if are_truth_values(column.categories)
        else f"dictionary<values=string, indices=int8, ordered={int(column.kind == 'ordinal')}>"
    )


def check_written(folder, distilled: Distilled) -> None:
    schema = distilled.schema
    assert isinstance(schema, TableSchema)
    write_distilled(folder, distilled)
    raw = schema.from_unit(distilled.X)
    label = Column(schema.label, "categorical", categories=schema.classes)
    expected = {c.name: values_of(c, raw[:, i]) for i, c in enumerate(schema.columns)}
    expected[schema.label] = values_of(label, distilled.y.astype(float))
    described = [*schema.columns, label]

    text = pd.read_csv(folder / CSV, dtype=str, keep_default_na=False)
    assert {c.name: [from_text(c, x) for x in text[c.name]] for c in described} == expected
    head, *lines = csv.reader(io.StringIO((folder / CSV).read_bytes().decode(), newline=""))
    assert (head, lines) == (list(expected), text.to_numpy().tolist())
    frame = pd.read_parquet(folder / PARQUET)
    assert {c.name: [from_frame(c, x) for x in frame[c.name].tolist()] for c in described} == expected
    for column in described:
        if not column.is_number and not are_truth_values(column.categories):
            assert frame[column.name].cat.categories.tolist() == list(column.categories)
    kinds = {field.name: str(field.type) for field in parquet.read_schema(folder / PARQUET)}
    assert kinds == {c.name: type_of(c) for c in described}

    back, stated = read_distilled(folder), read_schema(folder / SCHEMA)
    assert (back.schema, stated.schema) == (schema, schema)
    np.testing.assert_array_equal(back.X, np.clip(distilled.X, -1.0, 1.0))
    for name in (CSV, PARQUET):
        records = load_table(folder / name, stated)
        np.testing.assert_array_equal(records.X, raw)
        np.testing.assert_array_equal(records.y, distilled.y)


@pytest.mark.slow
@settings(max_examples=CASES, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink))
@example(extremes(Column("day", "integer", (20_200_101.0, 20_241_231.0))))
@example(extremes(Column("cost", "numeric", (0.0, 99_999_999.99))))
@example(extremes(Column("a", "numeric", (-1e30, 1.0), "log"), Column("b", "numeric", (0.0, 5e-324), missing=True)))
@example(extremes(Column("n", "integer", (-(2.0**53), 2.0**53)), Column("m", "integer", (2.0**53 - 1, 2.0**53))))
@example(extremes(Column("flag", "ordinal", categories=("TRUE", "false"), missing=True), classes=("False", "True")))
@example(extremes(Column("code", "categorical", categories=("08", "1e3", "no", "a\r\nb")), classes=("1", "0")))
@given(tables())
def test_what_is_accepted_can_be_written_and_read(tmp_path_factory, distilled):
    check_written(tmp_path_factory.mktemp("table"), distilled)


def test_rows_with_constraints_can_be_written_and_read(tmp_path):
    columns = (
        Column("a", "date", (18_000.0, 18_100.0), format="%d.%m.%Y", missing=True),
        Column("b", "datetime", (26_000_000.0, 26_100_000.0), resolution="minute", step=10.0),
        Column("sex", "categorical", categories=("f", "m")),
    )
    schema = TableSchema(columns, "ill", ("no", "yes"), constraints=("a <= b", "sex = f implies a is missing"))
    X = np.random.default_rng(0).uniform(-1, 1, (50, schema.dimension)).astype(np.float32)
    check_written(tmp_path, Distilled(X, np.zeros(50, np.int32), schema))


DRAFTED = {
    "hash": (["9223372036854775809", "18446744073709551615", "3"], "numeric", (0.0, 2e19)),
    "gap": (["1e20", "0.5", "7"], "numeric", (0.0, 1e20)),
    "narrow": (["3", "5", "4"], "integer", (2.0, 6.0)),
    "wide": (["9007199254740992", "-9007199254740992", "0"], "integer", (-(2.0**53), 2.0**53)),
    "beyond": (["1e300", "-1.7e308", "0"], None, "holds numbers beyond 1e+30"),
}


@pytest.mark.parametrize("name", DRAFTED)
def test_a_draft_states_what_can_be_written(tmp_path, name):
    values, kind, expected = DRAFTED[name]
    frame = pd.DataFrame({"filler": ["x", "y", "x"], "value": values, "ill": ["no", "yes", "no"]})
    frame.to_csv(tmp_path / "table.csv", index=False)
    table_file, notes = draft_schema(tmp_path / "table.csv")
    drafted = [(c.kind, c.bounds) for c in table_file.schema.columns if c.name == "value"]
    assert drafted == ([] if kind is None else [(kind, expected)])
    assert kind is not None or notes["ignored"] == f"value: {expected}"
