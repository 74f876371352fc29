"""Tables as they come: every method gets through them, and what cannot be encoded counts as the schema says."""

from __future__ import annotations

import contract
import numpy as np
import pandas as pd
import pytest
from chosen_tests import few

from dpdistill import Budget, Column, TableSchema, run
from dpdistill.folder.tables import to_frame
from dpdistill.methods import DPMERF, METHODS
from dpdistill.private.noise import SeededEntropy
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile

SCHEMA = TableSchema(
    (
        Column("amount", "numeric", (-50.0, 1000.0), scale="log", missing=True),
        Column("same", "integer", (0, 10)),
        Column("empty", "numeric", (0.0, 1.0), missing=True),
        Column("place", "categorical", categories=("A", "B", "other"), other="other", missing=True),
        Column("grade", "ordinal", categories=("I", "II", "III"), missing=True),
    ),
    "outcome",
    ("no", "yes", "never"),
)
METHODS = {
    f"{name}, {variant}": method
    for name, kind in METHODS.items()
    if kind.private and TableSchema in kind.schemas and kind.target != "only"  # test_table_regression has its own
    for variant, method in contract.variants(name, most=8).items()
    if variant == "as it is" or method.plan() != contract.tiny(name, most=8).plan()
}
"""Every method of tables, and those with rounds of another kind when a field is switched."""


def frame(n=30):
    """One yes in n, nobody of the last class, a constant column, one that is empty."""
    rng = np.random.default_rng(2)
    return pd.DataFrame({
        "amount": rng.uniform(-50, 1000, n),
        "same": 5,
        "empty": np.nan,
        "place": rng.choice(np.array(["A", "B", None], object), n),
        "grade": rng.choice(["I", "II", "III"], n),
        "outcome": ["yes"] + ["no"] * (n - 1),
    })  # fmt: skip


def distilled(table, name, strict=True):
    records = load_table(table, TableFile(SCHEMA, reviewed=True), strict)
    result = run.distill(records, METHODS[name], Budget(1.0), entropy=SeededEntropy(3))
    assert result.epsilon <= 1.0 + 1e-6
    return result.distilled


@pytest.mark.parametrize("name", few(METHODS, "dp-merf, as it is", "dp-kip, as it is"))
class TestEveryMethod:
    @pytest.mark.parametrize("rows", [30, 2, 1])
    def test_rows_come_back_as_the_schema_says(self, name, rows):
        made = distilled(frame(rows), name)
        back = to_frame(SCHEMA.from_unit(made.X), made.y, SCHEMA)
        assert back["same"].between(0, 10).all()
        assert (back["same"] % 1 == 0).all()
        assert (back["amount"].isna() | back["amount"].between(-50, 1000)).all()
        assert set(back["place"].dropna()) <= {"A", "B", "other"}
        assert set(back["grade"].dropna()) <= {"I", "II", "III"}
        assert set(back["outcome"]) <= {"no", "yes", "never"}

    def test_numbers_beyond_the_bounds_count_as_the_bounds(self, name):
        wild, tame = frame(), frame()
        wild.loc[[3, 4, 5, 6], "amount"] = [1e30, -1e30, 1001.0, -50.5]
        tame.loc[[3, 4, 5, 6], "amount"] = [1000.0, -50.0, 1000.0, -50.0]
        wild["same"], tame["same"] = 10**9, 10
        np.testing.assert_array_equal(distilled(wild, name).X, distilled(tame, name).X)

    def test_unknown_categories_and_missing_values_count_as_declared(self, name):
        wild, tame = frame(), frame()
        wild.loc[[7, 8, 9], "place"] = ["Z", "?", np.nan]
        tame.loc[[7, 8, 9], "place"] = ["other", "other", None]
        wild["amount"] = wild["amount"].astype(object)
        wild.loc[[10, 11], "amount"] = ["", None]
        tame.loc[[10, 11], "amount"] = np.nan
        np.testing.assert_array_equal(distilled(wild, name).X, distilled(tame, name).X)

    def test_missing_everywhere(self, name):
        table = frame()
        table[["amount", "empty", "place", "grade"]] = None
        made = distilled(table, name)
        assert np.isfinite(made.X).all()
        assert np.abs(made.X).max() <= 1.0

    def test_a_row_that_cannot_be_encoded_contributes_nothing(self, name):
        bad, other = frame(), frame()
        bad["same"], other["same"] = bad["same"].astype(object), other["same"].astype(object)
        bad.loc[12, ["same", "amount"]] = [None, 7.0]
        other.loc[12, ["same", "amount"]] = ["many", 900.0]
        first, second = distilled(bad, name, strict=False), distilled(other, name, strict=False)
        np.testing.assert_array_equal(first.X, second.X)
        assert not np.array_equal(first.X, distilled(frame(), name).X)


def test_features_of_nothing_are_refused():
    schema = TableSchema((Column("work", "categorical", categories=("a", "b")),), "ill", ("no", "yes"))
    rows = load_table(pd.DataFrame({"work": ["a", "b"] * 5, "ill": ["no", "yes"] * 5}), TableFile(schema, True))
    for stated in ({"joint": False}, {"category_share": 0.0}):
        assert np.isfinite(run.distill(rows, DPMERF(steps=2, samples=10, **stated), Budget(1.0)).X).all()
    with pytest.raises(ValueError, match="Expected category_share > 0, or joint features, for a table without numbers"):
        run.distill(rows, DPMERF(steps=2, samples=10, joint=False, category_share=0.0), Budget(1.0))
