"""Numbers of a generated table have the released marginals, and nothing else of it moves."""

import math
from dataclasses import replace
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chosen_tests import few
from contract import SCHEMA, tiny, toy_records
from contract import TABLE as MIXED

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.methods import METHODS
from dpdistill.methods.generator import Generator, bins_of
from dpdistill.methods.generator_arrays import BINS, LEVELS, numbers_of
from dpdistill.methods.generator_method import GeneratorMethod
from dpdistill.methods.generator_networks import init_weights
from dpdistill.methods.generator_shapes import kernels_of
from dpdistill.methods.marginals import HistogramQuery, expected_shares, match_marginals, shares_of, similar_numbers
from dpdistill.private.noise import SeededEntropy
from dpdistill.query import Event, Release
from dpdistill.schema import Column, TableSchema
from dpdistill.storage.records import Records

NUMBERS, GAPS = numbers_of(MIXED)
WHOLE = [column.kind != "numeric" for column in MIXED.columns if column.kind != "categorical"]


FLAT = np.full(BINS, 1 / BINS)


def generator():
    """One that nobody trained; a third of its rows lack the number that may be missing."""
    classes = len(MIXED.classes)
    weights = init_weights(jax.random.key(0), kernels_of("dense", 3 + classes, (7,), MIXED))
    return Generator(tuple(map(np.asarray, weights)), np.full(classes, 1 / classes), 3, MIXED)


def histograms(rng, peaks=3):
    """Counts of 10,000 records, (numbers, BINS), in a few bins each."""
    counts = np.zeros((len(NUMBERS), BINS))
    for row in counts:
        row[rng.choice(BINS, peaks, replace=False)] = [7000, 2000, 1000]
    return counts


def test_a_contribution_is_the_bins_of_a_row():
    assert (list(NUMBERS), list(GAPS)) == ([0, 1, 6, 10], [-1, -1, 7, -1])
    x = np.zeros(MIXED.dimension, np.float32)
    x[[0, 1, 6, 7, 10]] = [-1.0, 1.0, 0.0, 0.0, 0.51]
    params = {"numbers": NUMBERS, "gaps": GAPS}
    found = np.asarray(HistogramQuery().contribution(params, jnp.asarray(x), 0)).reshape(4, BINS)
    expected = np.zeros((4, BINS))
    expected[range(4), [0, 63, 32, 48]] = 0.5
    np.testing.assert_array_equal(found, expected)
    x[7] = 1.0  # missing
    found = np.asarray(HistogramQuery().contribution(params, jnp.asarray(x), 0)).reshape(4, BINS)
    expected[2] = 0
    np.testing.assert_array_equal(found, expected)


class TestShares:
    def test_of_counts_without_noise_are_exact(self):
        counts = np.random.default_rng(0).integers(0, 50, BINS).astype(float)
        np.testing.assert_allclose(shares_of(counts, 0.0, FLAT, counts.sum()), counts / counts.sum(), atol=1e-12)

    def test_neighbours_are_averaged_where_noise_is_large(self):
        rng, x = np.random.default_rng(1), (np.arange(BINS) - 31.5) / 12
        true = np.exp(-np.square(x) / 2)
        true *= 1000 / true.sum()
        noised = true + 30 * rng.normal(size=(200, BINS))
        smooth = np.array([shares_of(y, 30.0, FLAT, 1000) for y in noised])
        rough = np.array([shares_of(y, 0.0, FLAT, 1000) for y in noised])
        lost = [np.abs(found - true / 1000).sum(1).mean() for found in (smooth, rough)]
        assert lost[0] < 0.7 * lost[1]

    def test_peaks_are_kept(self):
        counts = np.zeros(BINS)
        counts[[0, 40]] = [900, 100]
        noised = counts + 3 * np.random.default_rng(2).normal(size=BINS)
        found = shares_of(noised, 3.0, FLAT, 1000)
        np.testing.assert_allclose(found[[0, 40]], [0.9, 0.1], atol=0.02)
        assert found.min() >= 0

    def test_of_a_generator_stay_where_noise_says_nothing_else(self):
        rng, own = np.random.default_rng(8), np.exp(-np.abs(np.arange(BINS) - 20) / 5.0)
        own /= own.sum()
        noised = 500 * own + 40 * rng.normal(size=(100, BINS))
        lost = [np.abs(shares_of(y, 40.0, base, 500) - own).sum() for y in noised for base in (own, FLAT)]
        assert np.median(lost[::2]) < 0.01
        assert np.mean(lost[::2]) < 0.4 * np.mean(lost[1::2])
        peak = 500 * own
        peak[50] += 500  # what the generator lacks is added to what it has
        found = shares_of(peak + rng.normal(size=BINS), 1.0, own, 1000)
        np.testing.assert_allclose(found, peak / 1000, atol=0.01)

    @pytest.mark.parametrize("records", [300, 602])
    def test_a_peak_above_the_noise_is_kept_in_a_small_table(self, records):
        true = np.full(BINS, 0.15 * records / (BINS - 1))
        true[0] = 0.85 * records
        rng = np.random.default_rng(10)
        for own in (FLAT, np.linspace(2, 0, BINS) / BINS):
            found = [shares_of(true + 41 * rng.normal(size=BINS), 41.0, own, records) for _ in range(50)]
            assert np.mean([np.abs(each - true / records).sum() / 2 for each in found]) < 0.3

    @pytest.mark.parametrize("counts", [np.zeros(BINS), np.full(BINS, -70.0), -np.arange(BINS) * 1e6])
    def test_of_nothing_are_shares(self, counts):
        found = shares_of(counts.astype(np.float32), 4.0, FLAT, 1.0)
        assert found.sum() == pytest.approx(1.0)
        assert found.min() >= 0


class TestBroughtTo:
    def test_numbers_have_the_released_shares(self):
        counts = histograms(np.random.default_rng(3))
        X, _ = match_marginals(generator(), counts, 0.0, 10_000, 1).sample(20_000, 5)
        for j, gap, row, whole in zip(NUMBERS, GAPS, counts, WHOLE, strict=True):
            values = X[:, j] if gap < 0 else X[X[:, gap] < 0.5, j]
            found = np.bincount(bins_of(values), minlength=BINS) / len(values)
            if not whole:  # others need not have a value in each bin
                np.testing.assert_allclose(found, row / row.sum(), atol=0.02)
                assert (found[row == 0] == 0).all()

    def test_the_order_is_kept_and_the_rest_stays(self):
        plain = generator()
        made = match_marginals(plain, histograms(np.random.default_rng(4)), 0.0, 10_000, 1)
        (X, y), (before, labels) = made.sample(3000, 2), plain.sample(3000, 2)
        np.testing.assert_array_equal(y, labels)
        rest = np.setdiff1d(np.arange(MIXED.dimension), NUMBERS)
        np.testing.assert_array_equal(X[:, rest], before[:, rest])
        gone = before[:, 7] == 1
        assert 500 < gone.sum() < 2500
        assert (X[gone, 6] == 0).all()
        outputs, _ = plain.outputs(3000, 2)
        for j, gap, whole in zip(NUMBERS, GAPS, WHOLE, strict=True):
            kept = np.ones(3000, bool) if gap < 0 else ~gone
            own, bins = bins_of(outputs[kept, j]), bins_of(X[kept, j])
            each = [bins[own == value] for value in np.unique(own)]
            assert len(each) > 5
            assert all(
                one.max() <= other.min() + int(whole) for one, other in pairwise(each)
            )  # rounding crosses an edge
        np.testing.assert_array_equal(made.sample(1500, 2)[0], X[:1500])

    def test_a_value_in_the_right_bin_stays(self):
        plain = generator()
        X, _ = plain.outputs(20_000, 1)
        kept = [X[:, j] if gap < 0 else X[X[:, gap] < 0.5, j] for j, gap in zip(NUMBERS, GAPS, strict=True)]
        own = np.array([np.bincount(bins_of(values), minlength=BINS) for values in kept])
        (X, _), (before, _) = match_marginals(plain, own, 0.0, 20_000, 1).sample(5000, 2), plain.sample(5000, 2)
        assert (before == X).mean() > 0.97

    def test_small_differences_in_one_bin_do_not_say_who_has_another_value(self):
        """A number that is its least value for all rows but for a little more in one class."""
        plain = generator()
        last, bias = plain.weights[-2].copy(), plain.weights[-1].copy()
        last[:, 0] *= 1e-3
        bias[0] = -4.0
        plain = replace(plain, weights=(*plain.weights[:-2], last, bias))
        outputs, y = plain.outputs(20_000, 3)
        means = [outputs[y == c, 0].mean() for c in range(3)]
        assert np.ptp(means) > 0.1 * outputs[:, 0].std()
        counts = np.zeros((len(NUMBERS), BINS))
        counts[:, [0, 60]] = [9000, 1000]
        X, y = match_marginals(plain, counts, 0.0, 10_000, 1).sample(20_000, 3)
        shares = [np.mean(X[y == c, 0] > 0) for c in range(3)]
        np.testing.assert_allclose(shares, 0.1, atol=0.015)

    def test_equal_values_are_spread_over_their_levels(self):
        plain = generator()
        last = plain.weights[-2].copy()
        last[:, 0] = 0.0  # the first number is 0 in every row
        counts = np.zeros((len(NUMBERS), BINS))
        counts[:, [3, 60]] = [2500, 7500]
        plain = replace(plain, weights=(*plain.weights[:-2], last, plain.weights[-1]))
        X, _ = match_marginals(plain, counts, 0.0, 10_000, 1).sample(8000, 3)
        np.testing.assert_allclose(np.mean(X[:, 0] < 0), 0.25, atol=0.02)

    def test_it_comes_back_from_a_file_and_what_is_none_is_refused(self):
        made = match_marginals(generator(), histograms(np.random.default_rng(5)), 0.0, 10_000, 1)
        arrays = made.to_arrays()
        back = Generator.from_arrays(arrays, MIXED)
        assert back.sample(500, 3)[0].tobytes() == made.sample(500, 3)[0].tobytes()
        own, shares = arrays["marginals_own"], arrays["marginals_shares"]
        assert (own.shape, shares.shape) == ((4, LEVELS), (4, BINS))
        for name, wrong in (
            *(
                ("marginals_own", one)
                for one in (own[:3], own[:, ::-1], own * 9, own.astype(np.float64), own * np.float32(np.nan))
            ),
            *(("marginals_shares", one) for one in (shares[:, 1:], shares * 2, -shares, shares * np.float32(np.nan))),
        ):
            with pytest.raises(ValueError, match="Expected marginals of a generator"):
                Generator.from_arrays({**arrays, name: wrong}, MIXED)
        without = {name: array for name, array in arrays.items() if name != "marginals_shares"}
        with pytest.raises(ValueError, match="Expected class_shares, code_size and weights_0"):
            Generator.from_arrays(without, MIXED)

    @pytest.mark.parametrize("high", [1, 40, 63, 99, 500])
    def test_whole_numbers_stay_in_their_bins(self, high):
        """Half of the records have one value: so has half of the sample, and its neighbours have what they had."""
        schema = TableSchema((Column("hours", "integer", (0, high)),), "y", ("no", "yes"))
        weights = init_weights(jax.random.key(0), kernels_of("dense", 5, (7,), schema))
        plain = Generator(tuple(map(np.asarray, weights)), np.full(2, 0.5), 3, schema)
        rng, peak = np.random.default_rng(9), high * 2 // 5
        real = np.where(rng.random(20_000) < 0.5, peak, rng.integers(0, high + 1, 20_000))
        U = schema.to_unit(real[:, None].astype(np.float32))[:, 0]
        counts = np.bincount(bins_of(U), minlength=BINS)[None]
        X, _ = match_marginals(plain, counts, 0.0, 20_000, 1).sample(20_000, 3)
        found = np.bincount(bins_of(X[:, 0]), minlength=BINS) / 20_000
        np.testing.assert_allclose(found, counts[0] / 20_000, atol=0.015)
        assert (found[counts[0] == 0] == 0).all()
        if high < BINS:  # then each value has a bin
            values = schema.from_unit(X)[:, 0]
            expected = [np.mean(real == v) for v in range(high + 1)]
            np.testing.assert_allclose([np.mean(values == v) for v in range(high + 1)], expected, atol=0.015)

    def test_a_column_that_no_row_has_is_left(self):
        plain = generator()
        last = plain.weights[-1].copy()
        last[7] = 50.0  # always missing
        plain = replace(plain, weights=(*plain.weights[:-1], last))
        X, _ = match_marginals(plain, -np.ones((4, BINS)), 2.0, 100, 1).sample(300, 2)
        assert (X[:, 7] == 1).all()
        assert (X[:, 6] == 0).all()
        assert np.isfinite(X).all()


TAKEN = [name for name, kind in METHODS.items() if issubclass(kind, GeneratorMethod)]


@pytest.mark.parametrize("name", TAKEN)
class TestEveryGeneratorMethod:
    @pytest.mark.parametrize("share", [0.05, 0.5])
    def test_histograms_have_their_share(self, name, share):
        costs = [stage.rounds * stage.weight**2 for stage in METHODS[name](marginal_share=share).plan()]
        assert costs[-1] / sum(costs) == pytest.approx(share)
        without = METHODS[name](marginal_share=0.0)
        assert without.plan() == without.embeddings()
        assert without.embeddings()[0].weight == 1.0

    def test_without_numbers_nothing_is_lost(self, name):
        """Two noised releases of the same sums, weighed, are as precise as one for both their budgets."""
        method, rng = tiny(name, marginal_share=0.2), np.random.default_rng(6)
        weights = [stage.weight for stage in method.plan() for _ in range(stage.rounds)]
        found, start = [], method.init(jax.random.key(0), SCHEMA)
        for _ in range(300):
            state = start
            for t, weight in enumerate(weights):
                query, _ = method.ask(state)
                if t in (0, len(weights) - 1):
                    assert query == method.ask(start)[0]
                    shape = state["sums"].shape
                else:
                    shape = state["products"].shape[1:]
                state = method.tell(state, Release(t, 5.0 + rng.normal(size=shape) / weight, 1.0, Event(1.0)))
            found.append(state["sums"].ravel()[:100])
        assert np.mean(found) == pytest.approx(5.0, abs=0.05)
        assert np.std(found) == pytest.approx(1.0 / math.hypot(weights[0], weights[-1]), rel=0.05)

    def test_released_counts_are_records(self, name):
        method, rng = tiny(name, marginal_share=0.2), np.random.default_rng(7)
        state = method.init(jax.random.key(0), MIXED)
        for t in range(sum(stage.rounds for stage in method.embeddings())):
            shape = state["products"].shape[1:] if t else state["sums"].shape
            state = method.tell(state, Release(t, rng.normal(size=shape), 3.0, Event(3.0)))
        query, params = method.ask(state)
        assert isinstance(query, HistogramQuery)
        row = np.zeros(MIXED.dimension, np.float32)
        value = 10 * np.asarray(query.contribution(params, jnp.asarray(row), 0))
        state = method.tell(state, Release(t + 1, value, 3.0, Event(3.0)))
        assert (state["histograms"].sum(1) == 10).all()
        assert state["stddev"] == pytest.approx(6.0)  # 3 times the root of four numbers


@pytest.mark.parametrize("name", few(TAKEN, "dp-merf"))
def test_a_run_has_the_marginals_of_its_records(name):
    rng = np.random.default_rng(8)
    schema = TableSchema((Column("wage", "numeric", (0, 1)), Column("age", "integer", (0, 99))), "y", ("no", "yes"))
    X = np.stack([rng.beta(2, 9, 4000), rng.choice([18, 40, 65], 4000)], 1).astype(np.float32)
    records = Records(X, rng.integers(0, 2, 4000), schema)
    method = replace(tiny(name, marginal_share=0.2), samples=4000)
    made = run.distill(records, method, Budget(2.0), entropy=SeededEntropy(1)).distilled
    real, found = schema.to_unit(X), made.X
    for j in range(2):
        a, b = (np.bincount(bins_of(values[:, j]), minlength=BINS) / 4000 for values in (real, found))
        assert np.abs(a - b).sum() / 2 < 0.06


@pytest.mark.parametrize("name", few(TAKEN, "dp-merf"))
@pytest.mark.parametrize("share", few([0.0, 0.2], 0.2))
@pytest.mark.parametrize("shape", few([(28, 28, 3), (9, 7, 1)], (9, 7, 1)))
def test_images_have_no_histograms(name, shape, share):
    records = toy_records(30, schema=replace(SCHEMA, shape=shape))
    method = tiny(name, marginal_share=share)
    made = run.distill(records, method, Budget(50.0), entropy=SeededEntropy(1)).distilled
    assert made.generator.marginals is None
    assert made.X.shape == (method.samples, *shape)
    assert np.abs(made.X).max() <= 1
    np.testing.assert_array_equal(made.X[:1], made.generator.sample(1, method.sample_seed)[0])


class TestNumbersAlike:
    SCHEMA = TableSchema(
        (
            *(Column(f"x{i}", "numeric", (-1.0, 1.0)) for i in range(40)),
            Column("other", "numeric", (0.0, 2.0)),
            *(Column(f"n{i}", "integer", (-1.0, 1.0)) for i in range(2)),
        ),
        "y",
        ("no", "yes"),
    )

    def test_are_those_of_the_same_facts(self):
        assert [group.tolist() for group in similar_numbers(self.SCHEMA)] == [list(range(40)), [41, 42]]

    def test_share_the_mean_of_their_histograms(self):
        rng, edges = np.random.default_rng(3), (np.arange(BINS) - 31.5) / 12
        true = np.exp(-np.square(edges) / 2)
        true *= 9000 / true.sum()
        counts = true + 150 * rng.normal(size=(40, BINS))
        own, totals = np.repeat(FLAT[None], 40, 0), np.full(40, 9000.0)
        alone = [shares_of(row, 150.0, FLAT, 9000.0) for row in counts]
        shared = expected_shares(counts, 150.0, own, totals, [np.arange(40)])
        lost = [np.abs(np.array(found) - true / 9000).sum(1).mean() / 2 for found in (alone, shared)]
        assert lost[1] < 0.06 < 0.15 < lost[0]
        np.testing.assert_array_equal(expected_shares(counts, 150.0, own, totals, []), own)

    def test_one_that_differs_is_still_found(self):
        rng = np.random.default_rng(4)
        true = np.full((40, BINS), 9000 / BINS)
        true[7] = 0.0
        true[7, 50] = 9000.0
        counts = true + 150 * rng.normal(size=true.shape)
        slope = np.repeat(np.linspace(2, 0, BINS)[None] / BINS, 40, 0)
        shared = expected_shares(counts, 150.0, slope, np.full(40, 9000.0), [np.arange(40)])
        assert np.abs(shared[0] - true.mean(0) / 9000).max() < 0.006
        assert shares_of(counts[7], 150.0, shared[7], 9000.0)[50] > 0.8

    def test_that_are_not_alike_keep_their_own(self):
        """A peak of its own in each, which the generator has learned."""
        rng = np.random.default_rng(5)
        true = np.full((40, BINS), 50.0)
        true[np.arange(40), np.arange(40)] += 9000 - 50 * BINS
        counts = true + 150 * rng.normal(size=true.shape)
        own = true / 9000
        found = expected_shares(counts, 150.0, own, np.full(40, 9000.0), [np.arange(40)])
        np.testing.assert_array_equal(found, own)
