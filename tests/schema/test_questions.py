"""Public bins of columns, and questions that choose bins."""

import numpy as np
import pytest

from dpdistill import Column, TableSchema
from dpdistill.errors import DataError
from dpdistill.schema.bins import bins_of, codes_of, edges_of, rows_of
from dpdistill.schema.condition import parse_condition
from dpdistill.schema.condition import rows_of as raw_rows
from dpdistill.schema.counts import Counts, ReleasedCounts
from dpdistill.schema.questions import bins_chosen, comparisons_of

SCHEMA = TableSchema(
    (
        Column("age", "integer", (0.0, 100.0)),
        Column("pay", "integer", (0.0, 1000.0)),
        Column("cost", "numeric", (0.0, 4.0), missing=True),
        Column("ward", "categorical", categories=("A", "B", "A and B"), missing=True),
        Column("stage", "ordinal", categories=("I", "II", "III")),
        Column("gain", "integer", (0.0, 99999.0), "log"),
    ),
    "outcome",
    ("well", "ill"),
)


def chosen_bins(question, schema, intervals):
    return bins_chosen(comparisons_of(parse_condition(question, schema)), schema, intervals)


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.integers(0, 101, n),
            rng.integers(0, 1001, n),
            rng.uniform(0, 4, n),
            rng.integers(0, 3, n),
            rng.integers(0, 3, n),
            np.floor(np.expm1(rng.uniform(0, 11.5, n))),
        ]
    ).astype(np.float64)
    X[rng.random(n) < 0.2, 2] = np.nan
    X[rng.random(n) < 0.2, 3] = np.nan
    return X, rng.integers(0, 2, n)


class TestBins:
    def test_kinds_and_sizes(self):
        bins = bins_of(SCHEMA, 8)
        assert [(one.kind, one.size, one.missing) for one in bins] == [
            ("values", 101, False),
            ("intervals", 8, False),
            ("intervals", 8, True),
            ("categories", 3, True),
            ("values", 3, False),
            ("intervals", 8, False),
        ]
        assert [one.cells for one in bins] == [101, 8, 9, 4, 3, 8]
        assert [one.start for one in bins] == list(SCHEMA.offsets)

    def test_codes_worked_out_by_hand(self):
        X = np.array([[33, 125, 1.0, 2, 1, 0], [100, 124, np.nan, np.nan, 2, 99999]])
        codes = codes_of(SCHEMA.to_unit(X), bins_of(SCHEMA, 8))
        np.testing.assert_array_equal(codes, [[33, 1, 2, 2, 1, 0], [100, 0, 8, 3, 2, 7]])

    def test_rows_stay_in_their_bins(self):
        bins, rng = bins_of(SCHEMA, 8), np.random.default_rng(1)
        codes = np.column_stack([rng.integers(0, one.cells, 4000) for one in bins])
        codes = codes[codes[:, 5] != 0]  # log(1 + 99999) / 8 is above log 4: all others hold whole numbers, too
        X = rows_of(codes, bins, SCHEMA, rng)
        np.testing.assert_array_equal(codes_of(SCHEMA.to_unit(SCHEMA.from_unit(X)), bins), codes)

    def test_edges_share_no_whole_number(self):
        low, high = edges_of(bins_of(SCHEMA, 8)[1], SCHEMA.columns[1])
        np.testing.assert_allclose(low, np.arange(8) * 125.0, rtol=1e-12)
        np.testing.assert_allclose(high, [124, 249, 374, 499, 624, 749, 874, 1000], rtol=1e-12)


class TestQuestions:
    @pytest.mark.parametrize(
        ("question", "column", "bins"),
        [
            ("age>60", 0, range(61, 101)),
            ("age >= 60 and age<62", 0, [60, 61]),
            ("pay<125", 1, [0]),
            ("pay<=124", 1, [0]),
            ("pay>=875", 1, [7]),
            ("pay>874", 1, [7]),
            ("cost<0.5", 2, [0]),
            ("cost>=3.5", 2, [7]),
            ("cost is missing", 2, [8]),
            ("cost is not missing", 2, range(8)),
            ("cost<=4", 2, range(8)),
            ("ward=B", 3, [1]),
            ("ward!=B", 3, [0, 2]),
            ("ward='A and B'", 3, [2]),
            ("stage>=II", 4, [1, 2]),
            ("outcome=ill", 6, [1]),
            ("age in (3, 7, 500)", 0, [3, 7]),
            ("ward in (A, 'A and B')", 3, [0, 2]),
        ],
    )
    def test_chosen_bins(self, question, column, bins):
        chosen = chosen_bins(question, SCHEMA, 8)
        assert [*chosen] == [column]
        for met in chosen[column]:
            assert np.flatnonzero(met).tolist() == [*bins]

    @pytest.mark.parametrize(
        ("question", "column", "whole", "some"),
        [
            ("pay<126", 1, [0], [0, 1]),
            ("pay=3", 1, [], [0]),
            ("pay!=3", 1, range(1, 8), range(8)),
            ("pay=3.5", 1, [], []),
            ("pay in (3, 999.5, 124)", 1, [], [0]),
            ("cost<=0.5", 2, [0], [0, 1]),
            ("cost>0.5", 2, range(2, 8), range(1, 8)),
            ("cost<4", 2, range(7), range(8)),
            ("cost=1", 2, [], [1, 2]),
            ("cost!=1", 2, [0, *range(3, 8)], range(8)),
            ("gain>5", 5, range(2, 8), range(1, 8)),
        ],
    )
    def test_bins_that_a_question_splits(self, question, column, whole, some):
        chosen = chosen_bins(question, SCHEMA, 8)[column]
        assert np.flatnonzero(chosen.whole).tolist() == [*whole]
        assert np.flatnonzero(chosen.some).tolist() == [*some]

    def test_other_conditions_have_no_bins(self):
        for question in ("age>60 or ward=B", "not ward=B", "age>60 and not (ward=B)"):
            assert comparisons_of(parse_condition(question, SCHEMA)) is None

    def test_bins_and_rows_agree(self):
        X, y = rows(3000)
        bins = bins_of(SCHEMA, 8)
        codes = np.column_stack([codes_of(SCHEMA.to_unit(X), bins), y])
        for question in ("age>60 and ward=B", "pay<500 and outcome=ill and stage!=I", "cost is missing and ward!=A"):
            chosen = chosen_bins(question, SCHEMA, 8)
            assert all((of.whole == of.some).all() for of in chosen.values())
            met = np.all([of.whole[codes[:, a]] for a, of in chosen.items()], 0)
            np.testing.assert_array_equal(met, parse_condition(question, SCHEMA).holds(raw_rows(X, y)))
            assert 0 < met.sum() < len(y)


class TestDates:
    DATES = TableSchema((Column("day", "date", ("2024-01-01", "2024-12-31")),), "y", ("a", "b"))

    def test_a_date_is_compared_with_a_text(self):
        low, high = self.DATES.columns[0].bounds
        chosen = chosen_bins("day<2024-01-20", self.DATES, 4)[0]
        assert (chosen.whole.tolist(), chosen.some.tolist()) == ([False] * 4, [True, False, False, False])
        half = chosen_bins("day<2024-07-02", self.DATES, 4)[0]
        assert half.whole.tolist() == half.some.tolist() == [True, True, False, False]
        with pytest.raises(DataError, match="2020-01-31"):
            parse_condition("day>soon", self.DATES)
        assert high - low == 365

    def test_dates_stay_in_their_bins(self):
        bins = bins_of(self.DATES, 4)
        codes = np.repeat(np.arange(4), 500)[:, None]
        X = rows_of(codes, bins, self.DATES, np.random.default_rng(0))
        np.testing.assert_array_equal(codes_of(self.DATES.to_unit(self.DATES.from_unit(X)), bins), codes)


class TestCounts:
    MAPS = (np.arange(3), np.array([0, 0, 1, 1]), np.arange(2))

    def counts(self):
        whole = (np.arange(3), np.arange(4), np.arange(2))
        one = [Counts((0,), np.array([1.0, 2.0, 3.0]), 2.0), Counts((1,), np.array([1.0, 1.0, 2.0, 2.0]), 1.0)]
        pair = Counts((0, 1), np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 4.0]]), 1.0, 1)
        return ReleasedCounts(8, (whole, self.MAPS), (*one, pair))

    def test_a_sum_of_cells_is_weighted_by_precision(self):
        found = self.counts().estimate({0: np.array([False, True, True])})
        # 5 with variance 8, and 6 with variance 4
        assert found.rows == pytest.approx((5 / 8 + 6 / 4) / (1 / 8 + 1 / 4))
        assert found.stddev == pytest.approx((1 / 8 + 1 / 4) ** -0.5)
        assert found.tables == 2

    def test_a_split_group_is_not_counted(self):
        counts = self.counts()
        found = counts.estimate({1: np.array([True, False, False, False])})
        assert (found.rows, found.stddev, found.tables) == (1.0, 1.0, 1)
        assert counts.estimate({0: np.array([True, False, False]), 1: np.array([True, False, False, False])}) is None
        assert counts.estimate({2: np.array([True, False])}) is None

    def test_a_split_group_lies_in_the_interval(self):
        """Rows (0, 0) of a table that joins bins 0 and 1 of b: 0 to 1 rows, and 1.96 standard deviations."""
        first, none = np.array([True, False, False]), np.zeros(4, bool)
        part = np.array([True, False, False, False])
        codes = np.zeros((10, 3), int)
        found = self.counts().bracket({0: first, 1: part & none}, {0: first, 1: part}, codes)
        assert found.low == 0.0
        assert found.high == pytest.approx(1.0 + 1.959964)
        assert self.counts().bracket({2: part[:2]}, {2: part[:2]}, codes) is None

    def test_the_narrowest_table_is_taken(self):
        one = ReleasedCounts(8, self.counts().maps[:1], (Counts((0,), np.array([9.0, 9, 9]), 1.0),
                             Counts((0,), np.array([5.0, 5, 5]), 0.1)))  # fmt: skip
        bins = {0: np.array([True, False, False])}
        assert one.bracket(bins, bins, np.zeros((4, 3), int)).high == pytest.approx(5 + 0.1959964)

    def test_total(self):
        # 6 with variance 12, and 6 with variance 4
        assert self.counts().total == pytest.approx(6.0)
