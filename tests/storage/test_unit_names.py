"""Units: spellings of a name that look alike are one unit, in tables and in images, and one list says what is none."""

import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile
from dpdistill.storage.records import Records
from dpdistill.storage.unit_names import NO_UNIT, unit_key

STATED = TableFile(TableSchema((Column("x", "integer", (0, 9)),), "y", ("0", "1")), True, unit_column="who")
SPELLINGS = {
    "Zoë  Smith": ["Zoë Smith", "Zoe\u0308 Smith", " Zoë Smith\t", "Zo\u200bë Smith", "Zoë\u00a0Smith", "Zoë\n Smith"],
    "p1": ["p1", "\ufeffp1", "p\u00ad1", "\uff50\uff11", "p1\u2060", "p1\x00", "p1\ufe0f", "\u200ep1"],
    "7": ["7", "7.0", " 7", "+7"[1:], "7e0", "\uff17", "\u200b7"],
    "P1": ["P1"],
    "007": ["007"],
}
NONE = [*NO_UNIT, " ", "\u200b", "-1", "-7.0", "-007", " N/A ", "\ufeffnull", "-1e0"]


def units_of_table(names):
    frame = pd.DataFrame({"x": 1, "y": "0", "who": pd.Series(names, dtype=object)})
    return load_table(frame, STATED, strict=False).units.tolist()


def units_of_images(names):
    X, y = np.zeros((len(names), 4, 4), np.uint8), np.zeros(len(names), int)
    return Records.from_arrays(X, y, classes=2, bounds=(0, 255), strict=False, units=names).units.tolist()


@pytest.mark.parametrize("units", [units_of_table, units_of_images])
def test_spellings_of_a_person_are_one_person(units):
    names = [name for spellings in SPELLINGS.values() for name in spellings]
    found = units(names)
    expected = [k for k, spellings in enumerate(SPELLINGS.values()) for _ in spellings]
    assert len(set(zip(found, expected, strict=True))) == len(SPELLINGS) == len(set(found))


@pytest.mark.parametrize("units", [units_of_table, units_of_images])
def test_nobody_is_the_same_in_tables_and_images(units):
    assert units([*NONE, "a"]) == [-1] * len(NONE) + [0]
    assert units(["nonesuch", "NAN", "na", "0", "-x"]) != [-1] * 5
    assert -1 not in units(["nonesuch", "na", "0", "-x", "..", "N"])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(max_size=8))
def test_a_key_is_its_own_key(text):
    key = unit_key(text)
    assert key is None or unit_key(key) == key
    assert unit_key(f" {text}\u200b\n") == key


def test_uuids_name_units(tmp_path):
    names = [uuid.UUID(int=k) for k in (5, 7, 5)]
    frame = pd.DataFrame({"x": [1, 2, 3], "y": ["0", "1", "0"], "who": names})
    assert load_table(frame, STATED).units.tolist() == [0, 1, 0]
    if hasattr(pa, "uuid"):
        columns = [pa.array([1, 2, 3]), pa.array(["0", "1", "0"]), pa.array([n.bytes for n in names], pa.uuid())]
        parquet.write_table(pa.table(columns, ["x", "y", "who"]), tmp_path / "t.parquet")
        assert load_table(tmp_path / "t.parquet", STATED).units.tolist() == [0, 1, 0]


def test_no_message_shows_a_unit():
    frame = pd.DataFrame({"x": [1, 2], "y": ["0", "1"], "who": ["secret", b"secret"]})
    with pytest.raises(
        DataError, match="row 2: the row has a unit of type bytes: turn units into numbers or texts"
    ) as e:
        load_table(frame, STATED)
    assert "secret" not in str(e.value)
