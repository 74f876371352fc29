"""Numbers on the command line: how they are read, how epsilon is printed, and numbers that no machine can take."""

from __future__ import annotations

import numpy as np
import pytest
from run_command import dpdistill, refused, succeeds

from dpdistill import Column, DataError, Schema, TableSchema
from dpdistill.cli.terminal import epsilon_text
from dpdistill.folder.save import write_distilled
from dpdistill.method import Distilled
from dpdistill.storage.memory import check_sample, sample_bytes
from dpdistill.storage.options import parse_bounds, parse_resize

SCHEMA = TableSchema(
    (Column("age", "integer", (0, 110)), Column("w", "ordinal", categories=("a", "b"))), "y", ("0", "1")
)


@pytest.mark.parametrize("epsilon", [1e-6, 3.21e-5, 0.0999])
def test_no_epsilon_above_zero_is_printed_as_zero(epsilon):
    assert float(epsilon_text(epsilon)) == pytest.approx(epsilon, rel=1e-3)


def test_an_epsilon_keeps_its_decimals():
    assert [epsilon_text(x) for x in (0.0, 0.1, 1.0, 2.15468, 20851.98871)] == [
        "0",
        "0.1000",
        "1.0000",
        "2.1547",
        "20851.9887",
    ]
    assert "epsilon = 4.966e-07 at delta = 1e-08\n" in succeeds("account", "--noise-multiplier", 3_000_000)


@pytest.mark.parametrize(
    ("argv", "option", "text"),
    [
        (("account", "--epsilon", "1_0"), "--epsilon", "1_0"),
        (("account", "--epsilon", "1", "--rounds", "1_0"), "--rounds", "1_0"),
        (("sample", "shared", "--n", "1_000", "--out", "rows.csv"), "--n", "1_000"),
    ],
)
def test_a_number_is_written_in_digits(argv, option, text):
    assert refused(*argv) == f"Expected {option} as a number of digits from 0 to 9; got {text!r}."


def test_bounds_and_sides_are_written_in_digits():
    with pytest.raises(DataError, match="Expected bounds as two numbers low,high; got '0,2_55'"):
        parse_bounds("0,2_55")
    with pytest.raises(DataError, match="Expected resize=3_2 as a whole number of pixels"):
        parse_resize("3_2")


def test_more_rows_than_memory_holds_are_refused_before_they_are_made(tmp_path):
    write_distilled(tmp_path / "shared", Distilled(np.zeros((2, 2), np.float32), np.array([0, 1], np.int32), SCHEMA))
    said = refused("sample", tmp_path / "shared", "--n", 10**12, "--out", tmp_path / "rows.csv")
    assert said.startswith("Expected n=1,000,000,000,000 <= ")
    assert said.endswith("of memory of this machine. Make several parts, each with a different seed.")
    assert not (tmp_path / "rows.csv").exists()
    assert "has no generator" in dpdistill("sample", tmp_path / "shared", "--n", 1, "--out", tmp_path / "rows.csv")[2]


@pytest.mark.parametrize("schema", [SCHEMA, Schema((28, 28, 1), (0.0, 1.0), ("a", "b"))])
def test_the_most_records_are_half_of_memory(schema):
    available = 2_000 * sample_bytes(schema)
    check_sample(1_000, schema, available)
    with pytest.raises(DataError, match=r"Expected n=1,001 <= 1,000: more records of \d+ numbers do not fit into half"):
        check_sample(1_001, schema, available)
