"""Dates, times and durations as codes and texts; decimal places and steps: values by hand, and every refusal."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest

from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.schema.times import EPOCH, Facts, Moment, reader, writer

DAY = 86_400


@pytest.mark.parametrize(
    ("kind", "format", "text", "expected"),
    [
        ("date", "%Y-%m-%d", "1970-01-02", Moment(DAY)),
        ("date", "%d/%m/%Y", "03/04/2026", Moment(20_546 * DAY)),
        ("date", "%m/%d/%Y", "03/04/2026", Moment(20_516 * DAY)),
        ("date", "%d %b %Y", "1 Jan 1969", Moment(-365 * DAY)),
        ("date", "%B %-d, %Y", "February 29, 2000", Moment(11_016 * DAY)),
        ("date", "%y%m%d", "690101", Moment(-365 * DAY)),
        ("date", "%y%m%d", "680101", Moment(35_794 * DAY)),
        ("date", "%Y-%m-%d", "2021-02-29", None),
        ("date", "%Y-%m-%d", "70-01-02", None),
        ("date", "%Y-%m-%d", "1970-01-02 ", None),
        ("datetime", "%Y-%m-%d %H:%M:%S", "1970-01-01 23:59:59.999", Moment(DAY - 1)),
        ("datetime", "%Y-%m-%d %I:%M %p", "1970-01-01 12:30 AM", Moment(1_800)),
        ("datetime", "%Y-%m-%d %I:%M %p", "1970-01-01 12:30 PM", Moment(45_000)),
        ("datetime", "%Y-%m-%d %I:%M %p", "1970-01-01 13:30 PM", None),
        ("datetime", "%Y-%m-%dT%H:%M:%S%z", "1970-01-01T00:00:00-05:30", Moment(0, -19_800)),
        ("datetime", "%Y-%m-%dT%H:%M:%S%z", "1970-01-01T00:00:00Z", Moment(0, 0)),
        ("datetime", "%Y-%m-%d %H:%M", "1970-01-01 24:00", None),
        ("duration", "%H:%M", "100:59", Moment(363_540)),
        ("duration", "%M:%S", "90:01", Moment(5_401)),
        ("duration", "%H:%M:%S", "-0:00:01", Moment(-1)),
        ("duration", "%H:%M", "1:60", None),
        ("duration", "%H%M", "517", Moment(19_020)),
        ("duration", "%H%M", "5", Moment(300)),
        ("duration", "%H%M", "2400", Moment(86_400)),
        ("duration", "%H%M", "517.0", Moment(19_020)),
        ("duration", "%H%M", "5:17", None),
        ("date", "%Y%m%d", "2020115", None),
    ],
)
def test_a_text_is_read(kind, format, text, expected):
    assert reader(Facts(kind, "second", format, None))(text) == expected


@pytest.mark.parametrize(
    ("facts", "code", "expected"),
    [
        (Facts("date", "day", "%d/%m/%Y", None), 20_546, "03/04/2026"),
        (Facts("date", "day", "%B %-d, %Y", None), -1, "December 31, 1969"),
        (Facts("datetime", "minute", "%Y-%m-%d %H:%M:%S", None), -1, "1969-12-31 23:59:00"),
        (Facts("datetime", "hour", "%d.%m.%y %I%p", None), 12, "01.01.70 12PM"),
        (
            Facts("datetime", "second", "%Y-%m-%dT%H:%M:%S%z", "Europe/Berlin"),
            1_382_835_600,
            "2013-10-27T02:00:00+0100",
        ),
        (
            Facts("datetime", "second", "%Y-%m-%dT%H:%M:%S%z", "Europe/Berlin"),
            1_382_832_000,
            "2013-10-27T02:00:00+0200",
        ),
        (Facts("datetime", "minute", EPOCH, None), 22_616_666, "1356999960"),
        (Facts("datetime", "second", "epoch ms", None), 1_357_000_001, "1357000001000"),
        (Facts("duration", "minute", "%H:%M", None), 6_059, "100:59"),
        (Facts("duration", "hour", "seconds", None), -2, "-7200"),
    ],
)
def test_a_code_is_written_and_read_back(facts, code, expected):
    assert writer(facts)(code) == expected
    if "%" in facts.format:
        moment = reader(facts)(expected)
        assert moment is not None
        assert (moment.seconds - (moment.offset or 0)) // facts.unit == code


def test_bounds_of_times_are_texts_dates_or_codes():
    expected = Column("born", "date", (-1.0, 366.0))
    assert Column("born", "date", ("1969-12-31", "1971-01-02")) == expected  # type: ignore[arg-type]
    days: Any = (datetime.date(1969, 12, 31), datetime.date(1971, 1, 2))
    assert Column("born", "date", days) == expected
    seen = Column("seen", "datetime", ("1970-01-01 09:30", "1970-01-02"), resolution="minute")  # type: ignore[arg-type]
    assert seen.bounds == (570.0, 1_440.0)
    assert (seen.text(570), seen.text(1_440)) == ("1970-01-01 09:30", "1970-01-02 00:00")


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"kind": "date", "resolution": "hour"}, "Expected resolution of column 'x', which is a date, among day; got"),
        ({"kind": "datetime", "resolution": "week"}, "among day, hour, minute, second; got 'week'."),
        ({"kind": "date", "zone": "UTC"}, "Expected no time zone of column 'x', which is a date; got 'UTC'."),
        ({"kind": "datetime", "zone": "Mars"}, "as a name such as UTC or Europe/Berlin; got 'Mars'."),
        ({"kind": "datetime", "zone": "../etc"}, "as a name such as UTC or Europe/Berlin; got '../etc'."),
        ({"kind": "date", "format": "%Y-%m"}, "that writes every day, with %d; got '%Y-%m'."),
        ({"kind": "date", "format": "%d.%m"}, "that writes every day, with %Y; got '%d.%m'."),
        ({"kind": "datetime", "format": "%Y-%m-%d"}, "that writes every second, with %H, %M, %S; got"),
        ({"kind": "datetime", "resolution": "hour", "format": "%Y-%m-%d %I"}, "writes every hour, with %H; got"),
        ({"kind": "date", "format": "%Y-%m-%d%d"}, "with each of %Y, %y, %m"),
        ({"kind": "date", "format": "%Y-%m-%d %A"}, "with each of %Y, %y, %m"),
        ({"kind": "date", "format": "=%Y-%m-%d"}, "without spaces around it and without a formula's first sign."),
        ({"kind": "datetime", "format": "%Y-%m-%d %H:%M:%S%z"}, "Expected the time zone of column 'x', as its format"),
        (
            {"kind": "datetime", "format": "%Y-%m-%d %H:%M:%S", "zone": "Europe/Berlin"},
            "without it an hour of autumn is there twice in Europe/Berlin",
        ),
        ({"kind": "duration", "format": "%H:%M"}, "which writes every second; got '%H:%M'."),
        ({"kind": "duration", "format": "hours", "resolution": "minute"}, "which writes every minute; got 'hours'."),
        ({"kind": "duration", "format": "%M:%H"}, "which writes every second; got '%M:%H'."),
        ({"kind": "duration", "format": "%H:%M:%S", "bounds": (-1.0, 9.0)}, "from 0 on for the format %H:%M:%S"),
        ({"kind": "duration", "bounds": (0.0, 1e13)}, "of at most 1,000,000,000,000 seconds."),
        ({"kind": "duration", "bounds": ("a", "b")}, "as numbers of seconds; got 'a'."),
        ({"kind": "date", "bounds": ("1.1.2020", "2")}, "as texts such as 2020-01-31; got '1.1.2020'."),
        ({"kind": "date", "bounds": ("2020-01-01 09:30", "2021-01-01")}, "as texts such as 2020-01-31; got"),
        ({"kind": "date", "bounds": (0.5, 9.0)}, "as whole numbers of days; got 0.5 and 9.0."),
        ({"kind": "date", "bounds": (0.0, 1e7)}, "from 0001-01-02 to 9999-12-30."),
        ({"kind": "date", "format": "%d.%m.%y", "bounds": (-1e4, 9.0)}, "which years of two digits (%y) mean."),
        ({"kind": "date", "scale": "log"}, "Expected scale linear of column 'x', which is a date."),
        ({"kind": "date", "bounds": (9.0, 9.0)}, "Expected bounds low < high of column 'x', both finite; got 9 and 9."),
        (
            {"kind": "integer", "format": "%Y"},
            "Expected no resolution, format or zone of column 'x', which is integer.",
        ),
        ({"kind": "categorical", "bounds": None, "categories": ("a", "b"), "step": 1.0}, "Expected no places, step"),
        ({"kind": "integer", "places": 2}, "Expected places of column 'x' from 0 to 12, of a numeric column; got 2."),
        ({"kind": "numeric", "places": 13}, "Expected places of column 'x' from 0 to 12"),
        ({"kind": "integer", "step": 0.5}, "Expected step > 0 of column 'x', whole unless it is numeric; got 0.5."),
        ({"kind": "numeric", "step": 0.0}, "Expected step > 0 of column 'x'"),
        ({"kind": "numeric", "step": 0.25, "places": 1}, "with at most its 1 places; got 0.25."),
        ({"kind": "numeric", "step": 50.0, "bounds": (1.0, 99.0)}, "at least two multiples of 50 between the bounds"),
        ({"kind": "numeric", "places": 12, "bounds": (0.0, 1e9)}, "of at most 2^53 parts"),
    ],
)
def test_facts_that_contradict_each_other(facts, message):
    with pytest.raises(DataError) as caught:
        Column("x", **{"bounds": (0.0, 99.0), **facts})
    assert message in str(caught.value)


def test_numbers_have_their_places_and_steps():
    columns = (
        Column("price", "numeric", (0.1, 0.9), places=1),
        Column("fifty", "numeric", (10.0, 999.0), step=50.0),
        Column("quarter", "numeric", (-1.0, 1.0), step=0.25, places=2),
        Column("tens", "datetime", (0.0, 59.0), resolution="minute", step=10.0),
    )
    schema = TableSchema(columns, "y", ("a", "b"))
    U = np.random.default_rng(0).uniform(-1, 1, (10_000, 4)).astype(np.float32)
    X = schema.from_unit(np.vstack([U, -np.ones((1, 4)), np.ones((1, 4))]).astype(np.float32))
    assert sorted({*X[:, 0]}) == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert sorted({*X[:, 1]}) == [float(x) for x in range(50, 1_000, 50)]
    assert sorted({*X[:, 2]}) == [-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0]
    assert sorted({*X[:, 3]}) == [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
    assert [c.ends for c in columns] == [(0.1, 0.9), (50.0, 950.0), (-1.0, 1.0), (0.0, 50.0)]
    assert columns[0].snap(np.array([0.29, 0.3, 0.34]), np.floor).tolist() == [0.2, 0.3, 0.3]
    assert columns[0].snap(np.array([0.29, 0.3, 0.31]), np.ceil).tolist() == [0.3, 0.3, 0.4]


def test_earlier_files_stay_as_they_are():
    facts = TableSchema((Column("x", "integer", (0.0, 9.0)),), "y", ("a", "b")).to_json()
    assert [*facts["columns"][0]] == ["name", "kind", "bounds", "scale", "categories", "other", "missing"]
    assert [*facts] == ["columns", "label", "classes", "labels", "unit"]
