"""Arrow IPC files and Feather: read and written, one record changes no other, and damaged files are refused."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather

from dpdistill.folder.tables import write_rows
from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile

COLUMNS = ("number", "amount", "whole", "choice", "size", "day", "seen", "stay", "ill", "who")


def an_arrow_file(kind, compression):
    def select(rows, folder):
        def build(numbers):
            kinds = [pa.int64(), *[kind] * (len(COLUMNS) - 1)]
            columns = zip(*[rows[i] for i in numbers], strict=True)
            arrays = [pa.array(values, k) for values, k in zip(columns, kinds, strict=True)]
            feather.write_feather(pa.table(arrays, COLUMNS), str(folder / "t.feather"), compression, chunksize=3)
            return folder / "t.feather"

        return build

    return select


TEXTS = [None, "1", "2.5", "-9", "7,5", "x", "2020-01-31", "03/04/2026 09:30", "", " 1 ", "0:30", "true"]
SOURCES = {
    "arrow of texts": (an_arrow_file(pa.string(), "lz4"), TEXTS),
    "arrow of doubles": (
        an_arrow_file(pa.float64(), "uncompressed"),
        [None, 1.0, 2.5, -9.0, 1.234, 1e300, float("nan")],
    ),
}
SCHEMA = TableSchema(
    (Column("when", "date", (0.0, 99.0), missing=True), Column("x", "numeric", (0.0, 9.0))), "y", ("a", "b")
)


@pytest.mark.parametrize("ending", [".feather", ".arrow"])
def test_rows_come_back(tmp_path, ending):
    X = np.array([[0.0, 1.5], [np.nan, 9.0], [99.0, 0.0]])
    write_rows(tmp_path / f"t{ending}", X, np.array([0, 1, 1]), SCHEMA)
    records = load_table(tmp_path / f"t{ending}", TableFile(SCHEMA, reviewed=True))
    np.testing.assert_array_equal(records.X, X)
    assert records.y.tolist() == [0, 1, 1]
    frame = pd.read_feather(tmp_path / f"t{ending}")
    assert frame["when"].tolist() == [datetime.date(1970, 1, 1), None, datetime.date(1970, 4, 10)]


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "t.arrow").write_bytes(b"ARROW1\0\0" + b"\xff" * 200)
    with pytest.raises(DataError, match=r"t\.arrow is damaged: it cannot be read as an Arrow file\."):
        load_table(tmp_path / "t.arrow", TableFile(SCHEMA, reviewed=True))


def test_a_misleading_name_is_told(tmp_path):
    feather.write_feather(pd.DataFrame({"when": ["1970-01-01"], "y": ["a"]}), str(tmp_path / "t.csv"))
    with pytest.raises(
        DataError, match=r"lacks the column 'x'\. It is an Arrow file, although its name ends in \.csv\."
    ):
        load_table(tmp_path / "t.csv", TableFile(SCHEMA, reviewed=True))
