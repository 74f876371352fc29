"""One function says what a cell means; whole columns are read as it says, bit for bit, however they are cut."""

from __future__ import annotations

import datetime
import math
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpdistill.schema import Column, TableSchema
from dpdistill.sources.tables.cells import (
    Cell,
    Fault,
    Marks,
    cell_of,
    read_category,
    read_label,
    read_number,
    read_unit,
)
from dpdistill.sources.tables.codes import encoder, label_encoder, unit_encoder
from dpdistill.sources.tables.time_cells import is_temporal, read_time

NAN = float("nan")
MISSING = ("", "-9", "-9,5", "7.5", "0.1", "x", "1.234")
CATEGORIES = ("1", "2.5", "0.1", "true north", "7,5", "é", "-8", "1.234")
SCHEMA = TableSchema((Column("a", "numeric", (0, 1)),), "y", ("no", "yes"), (("1", "no", "2.5"), ("0", "7,5")))
COLUMNS = {
    "numeric": Column("a", "numeric", (-10, 10)),
    "numeric or missing": Column("a", "numeric", (-10, 10), missing=True),
    "integer": Column("a", "integer", (-10, 10)),
    "integer or missing": Column("a", "integer", (-10, 10), missing=True),
    "categorical": Column("a", "categorical", categories=CATEGORIES, missing=True),
    "with others": Column("a", "categorical", categories=(*CATEGORIES, "other"), other="other"),
    "ordinal": Column("a", "ordinal", categories=CATEGORIES),
    "date": Column("a", "date", (-9, 9), format="%d/%m/%Y", missing=True),
    "datetime": Column("a", "datetime", (-9, 9), resolution="minute"),
    "instant": Column("a", "datetime", (-9, 9), zone="Europe/Berlin", missing=True),
    "epoch": Column("a", "datetime", (-9, 9), format="epoch ms", resolution="hour"),
    "duration": Column("a", "duration", (-9, 9), format="seconds", resolution="minute"),
    "clock": Column("a", "duration", (0, 9), format="%H:%M:%S", resolution="second", missing=True),
}
KINDS = (*COLUMNS, "label", "unit")


def readers(kind, mark):
    """The reader of a cell and the encoder of a column."""
    marks = Marks.of(MISSING, mark)
    if kind == "label":
        return read_label(SCHEMA, marks), label_encoder(SCHEMA, MISSING, mark)
    if kind == "unit":
        return read_unit(marks, {}), unit_encoder(MISSING, {}, mark)
    column = COLUMNS[kind]
    make = read_time if column.is_time else read_number
    read = make(column, marks, mark) if column.is_number else read_category(column, marks)
    return read, encoder(column, MISSING, mark)


def cell_by_cell(read, cells):
    codes, faults = np.full(len(cells), NAN), {}
    for row, cell in enumerate(cells):
        try:
            codes[row] = read(cell)
        except Fault as fault:
            faults[row] = str(fault)
    return codes, faults


NUMERALS = st.one_of(
    st.from_regex(r"[ \u00a0]?[+-]?(\d{1,3}|\d\.\d{3}|0\d|\d*[.,]\d*)([eE][+-]?\d{1,4})?[ \n]?", fullmatch=True),
    st.floats().map(repr),
    st.decimals().map(str),
)
CLOCKS = st.one_of(
    st.dates().map(lambda day: f"{day:%d/%m/}{day.year:04d}"),
    st.datetimes().map(lambda when: str(when.replace(microsecond=0))),
    st.datetimes(timezones=st.timezones()).map(lambda when: when.isoformat()),
    st.datetimes().map(lambda when: f"{when.year:04d}-{when:%m-%d %H:%M:%S}"),
    st.from_regex(r"[0-2][0-9]{3}-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-6][0-9]:[0-6][0-9]", fullmatch=True),
    st.from_regex(r"[0-3][0-9]/[01][0-9]/[0-2][0-9]{3}", fullmatch=True),
    st.sampled_from(["2020-01-31 09:30:59.9", "2020-10-25T02:30:00+0200", "1969-12-31T23:59:59Z", "31/02/2020"]),
    st.sampled_from(
        ["00:00:59", "1000000:00:00", "-0:30:00", "9:60:00", "29/02/2000", "1/1/0001", "1e99999", "-1e-99999"]
    ),
)
TEXTS = st.one_of(
    NUMERALS,
    CLOCKS,
    st.sampled_from((*MISSING, *CATEGORIES, "true", "FALSE", "NaN", "inf", "-Infinity", "1_0", "0x1F", "1e999", "1d5")),
    st.text("+-.,eE0123456789 naifTrue\u0660\u2212\uff11", max_size=6),
    st.text(max_size=4),
)
SMALL_FLOATS = st.sampled_from([1.0, -9.0, 7.5, 0.1, 2.5, 1.234, -8.0, -0.0, 1e16, 123456789.0, 3.4e38, NAN, math.inf])
VALUES = st.one_of(
    TEXTS,
    st.none(),
    st.booleans(),
    st.integers(-10, 10),
    st.integers(),
    SMALL_FLOATS,
    st.floats(),
    SMALL_FLOATS.map(np.float32),
    st.floats(width=32).map(np.float32),
    st.floats(width=16).map(np.float16),
    st.decimals(),
    st.sampled_from([Decimal("1.000"), Decimal("-9"), Decimal("sNaN"), 2**53 + 1, np.int8(1), np.bool_(True)]),
    st.sampled_from([pd.NA, pd.NaT, np.datetime64("NaT"), b"1", [1], {"a": 1}, 1j, datetime.date(2020, 1, 1)]),
    st.integers(4_900, 5_000).map(lambda digits: 10**digits),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.datetimes(),
    st.datetimes(timezones=st.timezones()),
    st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)).map(pd.Timestamp),
    st.integers(-(2**62), 2**62).map(lambda n: np.datetime64(n, "ns")),
    st.integers(-(2**62), 2**62).map(lambda n: np.timedelta64(n, "us")),
    st.integers(-(2**62), 2**62).map(lambda n: pd.Timedelta(n, "ns")),
    st.sampled_from(
        [np.timedelta64("NaT"), np.timedelta64(1, "M"), np.timedelta64(-1, "ms"), pd.Timestamp(0, tz="UTC")]
    ),
    st.uuids(),
)


def ints(kind, bits, low):
    span = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if low else (0, 2**bits - 1)
    return kind, st.one_of(st.integers(*span), st.integers(max(-9, span[0]), 9))


TYPES = [
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
    (pa.string_view(), TEXTS),
    (pa.dictionary(pa.int32(), pa.string()), TEXTS),
    (pa.string(), NUMERALS),
    (pa.string(), st.integers(-9, 9).map(str)),
    (pa.float64(), st.one_of(SMALL_FLOATS, st.floats())),
    (pa.float64(), st.integers(-9, 9).map(float)),
    (pa.float32(), st.one_of(SMALL_FLOATS.map(np.float32), st.floats(width=32).map(np.float32))),
    (pa.float16(), st.floats(width=16).map(np.float16)),
    (pa.bool_(), st.booleans()),
    ints(pa.int8(), 8, True),
    ints(pa.int64(), 64, True),
    ints(pa.uint64(), 64, False),
    (pa.decimal128(38, 9), st.decimals(-10, 10, places=9)),
    (pa.decimal256(60, 30), st.decimals(-10, 10, places=30)),
    (pa.decimal128(5, 1), st.sampled_from([Decimal("-9.0"), Decimal("7.5"), Decimal("1.0")])),
    (pa.null(), st.none()),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.timestamp("s"), st.datetimes().map(lambda when: when.replace(microsecond=0))),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("ns"), st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))),
    (pa.timestamp("us", "America/New_York"), st.datetimes(timezones=st.just(datetime.UTC))),
    (pa.time32("s"), st.times().map(lambda time: time.replace(microsecond=0))),
    (pa.time64("us"), st.times()),
    (pa.duration("us"), st.timedeltas(-datetime.timedelta(10**8), datetime.timedelta(10**8))),
    (pa.string(), CLOCKS),
]


@st.composite
def arrays(draw):
    kind, values = draw(st.sampled_from(TYPES))
    cells = draw(st.lists(values if draw(st.booleans()) else st.one_of(values, st.none()), max_size=6))
    if kind == pa.dictionary(pa.int32(), pa.string()):
        return pa.array(cells, pa.string()).dictionary_encode(), cells
    if pa.types.is_floating(kind):
        gaps = np.array([cell is None for cell in cells], bool)
        numbers = np.array([0 if cell is None else cell for cell in cells], kind.to_pandas_dtype())
        return pa.array(numbers, kind, mask=gaps), cells
    return pa.array(cells, kind), cells


def fits(values, kind):
    """Whether a column of the kind may hold the array: columns of times hold all, other columns no times."""
    return (
        not isinstance(values, pa.Array) or not is_temporal(values.type) or getattr(COLUMNS.get(kind), "is_time", False)
    )


def same(found, expected):
    return found[0].tobytes() == expected[0].tobytes() and found[1].keys() == expected[1].keys()


@settings(max_examples=700, deadline=None, derandomize=True)
@given(arrays(), st.sampled_from(KINDS), st.sampled_from(".,"))
def test_an_array_is_read_as_its_cells_are(array, kind, mark):
    assume(fits(array[0], kind))
    read, encode = readers(kind, mark)
    assert same(encode(array[0]), cell_by_cell(read, array[1]))


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.lists(VALUES, max_size=8), st.sampled_from(KINDS), st.sampled_from(".,"))
def test_values_of_mixed_types_are_read_as_each_of_them_is(cells, kind, mark):
    read, encode = readers(kind, mark)
    assert same(encode(cells), cell_by_cell(read, cells))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data(), st.sampled_from([kind for kind in KINDS if kind != "unit"]), st.sampled_from(".,"))
def test_neither_cuts_nor_order_matter(data, kind, mark):
    values, cells = data.draw(st.one_of(arrays(), st.lists(VALUES, max_size=8).map(lambda c: (c, c))))
    assume(fits(values, kind))
    order = data.draw(st.permutations(range(len(cells))))
    cut = data.draw(st.integers(0, len(cells)))
    encode = readers(kind, mark)[1]
    whole = encode(values)
    if isinstance(values, pa.Array) and values.type != pa.string_view():  # of which Arrow takes no rows
        moved = values.take(pa.array(order, pa.int64()))
    else:
        moved = [cells[i] for i in order]
    parts = [encode(moved[:cut]), encode(moved[cut:])]
    assert np.concatenate([codes for codes, _ in parts]).tobytes() == whole[0][order].tobytes()
    assert {*parts[0][1], *(row + cut for row in parts[1][1])} == {i for i, row in enumerate(order) if row in whole[1]}


@pytest.mark.parametrize("character", [c for c in map(chr, range(0x110000)) if c.isspace()])
def test_arrow_trims_the_spaces_that_python_does(character):
    read, encode = readers("numeric", ".")
    cells = [f"{character}1{character}", "2"]
    assert same(encode(pa.array(cells)), cell_by_cell(read, cells))
    assert encode(pa.array(cells))[0].tolist() == [1.0, 2.0]


NUMBER = COLUMNS["numeric or missing"]


@pytest.mark.parametrize(
    ("value", "point", "comma"),
    [
        (1.234, None, 1.234),  # the mark 1.234 is a number with a point; with a comma it is 1234
        (1234, 1234.0, NAN),
        ("1.234", None, NAN),
        ("1,234", "has a comma", 1.234),
        ("7,25", "has a comma", 7.25),
        ("7.25", 7.25, "is not a number"),
        (7.25, 7.25, 7.25),
        (Decimal("7.250"), 7.25, 7.25),
        (np.float32(0.1), NAN, NAN),
        (0.2, 0.2, 0.2),
        (-9, NAN, NAN),
        ("-9.0", NAN, "is not a number"),
        ("-9,0", "has a comma", NAN),
        (-9.5, -9.5, NAN),
        ("-9,5", NAN, NAN),
        (True, 1.0, 1.0),
        ("False", 0.0, 0.0),
        (Decimal("9007199254740993"), 9007199254740992.0, 9007199254740992.0),
        (Decimal("0.30000000000000004441"), 0.30000000000000004, 0.30000000000000004),
        (1e300, 3.4028234663852886e38, 3.4028234663852886e38),
        (math.inf, "'inf' is not finite", "'inf' is not finite"),
        (10**5_000, "a whole number of more than 1,000 digits", "a whole number of more than 1,000 digits"),
        (datetime.time(9), "the value is a date or a time", "the value is a date or a time"),
        (memoryview(b"1"), "the value is bytes: decode it", "the value is bytes: decode it"),
    ],
    ids=lambda value: f"{str(value) if not isinstance(value, int | memoryview) else type(value).__name__:.30}",
)
def test_what_a_number_is(value, point, comma):
    for mark, expected in ((".", point), (",", comma)):
        read = read_number(NUMBER, Marks.of(MISSING, mark), mark)
        if isinstance(expected, str):
            with pytest.raises(Fault, match=expected):
                read(value)
        else:
            np.testing.assert_equal(read(value), NAN if expected is None else expected)


def test_what_a_category_is():
    read = read_category(COLUMNS["categorical"], Marks.of(MISSING))
    for spelled in (1, 1.0, True, "1", "1.0", " 1e0 ", "TRUE", Decimal("1.0000"), np.float16(1), np.uint8(1)):
        assert read(spelled) == 0.0
    for spelled in (0.1, "0.10", np.float32(0.1), Decimal("0.1")):  # a category, though also a mark
        assert read(spelled) == 2.0
    assert read("7,5") == 4.0
    for missing in (None, NAN, pd.NA, "", "x", -9, "-9.0", 7.5, "7.50", Decimal("7.5")):
        assert math.isnan(read(missing))
    for wrong in ("01", "other", "-9,50", 3):
        with pytest.raises(Fault, match="is not one of its 8 categories"):
            read(wrong)


def test_a_uuid_is_its_text():
    name = uuid.UUID(int=7)
    assert cell_of(name) == Cell("00000000-0000-0000-0000-000000000007", False)
    index: dict[str, int] = {}
    read = read_unit(Marks.of(()), index)
    assert [read(name), read(str(name)), read(uuid.UUID(int=8))] == [0.0, 0.0, 1.0]
    with pytest.raises(Fault, match=r"^the row has a unit of type bytes: turn units into numbers or texts$"):
        read(b"secret")


@pytest.mark.parametrize("cells", [(Decimal(1), Decimal("1." + "0" * 250)), (Decimal("1E+300"), Decimal("10E+299"))])
def test_equal_decimals_that_are_written_in_two_ways_are_read_each_by_itself(cells):
    column = Column("a", "categorical", categories=("1", "1E+300"), other="1")
    encode = encoder(column, (), ".")
    alone = [encode([cell])[0][0] for cell in cells]
    for order in ((0, 1), (1, 0)):
        found, _ = encode([cells[k] for k in order])
        np.testing.assert_array_equal(found, [alone[k] for k in order])
