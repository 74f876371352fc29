"""Numbers of a generated table have the released marginals, and nothing else of it moves."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import SCHEMA
from contract import TABLE as MIXED

from dpdistill.methods.dp_merf import DPMERF
from dpdistill.methods.generator import BINS, LEVELS, Generator, bins_of, dense_kernels, init_weights, numbers_of
from dpdistill.methods.marginals import HistogramQuery, brought_to, shares_of
from dpdistill.query import Event, Release
from dpdistill.schema import Column, TableSchema

NUMBERS, GAPS = numbers_of(MIXED)
WHOLE = [column.kind != "numeric" for column in MIXED.columns if column.kind != "categorical"]


FLAT = np.full(BINS, 1 / BINS)


def generator():
    """One that nobody trained; a third of its rows lack the number that may be missing."""
    classes = len(MIXED.classes)
    weights = init_weights(jax.random.key(0), dense_kernels(3 + classes, (7,), MIXED.dimension))
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
        X, _ = brought_to(generator(), counts, 0.0, 10_000, 1).sample(20_000, 5)
        for j, gap, row, whole in zip(NUMBERS, GAPS, counts, WHOLE, strict=True):
            values = X[:, j] if gap < 0 else X[X[:, gap] < 0.5, j]
            found = np.bincount(bins_of(values), minlength=BINS) / len(values)
            if not whole:  # others need not have a value in each bin
                np.testing.assert_allclose(found, row / row.sum(), atol=0.02)
                assert (found[row == 0] == 0).all()

    def test_the_order_is_kept_and_the_rest_stays(self):
        plain = generator()
        made = brought_to(plain, histograms(np.random.default_rng(4)), 0.0, 10_000, 1)
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
            rank, bins = np.argsort(outputs[kept, j]), bins_of(X[kept, j])
            if not whole:
                assert (np.diff(bins[rank]) >= 0).all()
        np.testing.assert_array_equal(made.sample(1500, 2)[0], X[:1500])

    def test_a_value_in_the_right_bin_stays(self):
        plain = generator()
        X, _ = plain.outputs(20_000, 1)
        kept = [X[:, j] if gap < 0 else X[X[:, gap] < 0.5, j] for j, gap in zip(NUMBERS, GAPS, strict=True)]
        own = np.array([np.bincount(bins_of(values), minlength=BINS) for values in kept])
        (X, _), (before, _) = brought_to(plain, own, 0.0, 20_000, 1).sample(5000, 2), plain.sample(5000, 2)
        assert (before == X).mean() > 0.97

    def test_equal_values_are_spread_over_their_levels(self):
        plain = generator()
        last = plain.weights[-2].copy()
        last[:, 0] = 0.0  # the first number is 0 in every row
        counts = np.zeros((len(NUMBERS), BINS))
        counts[:, [3, 60]] = [2500, 7500]
        plain = replace(plain, weights=(*plain.weights[:-2], last, plain.weights[-1]))
        X, _ = brought_to(plain, counts, 0.0, 10_000, 1).sample(8000, 3)
        np.testing.assert_allclose(np.mean(X[:, 0] < 0), 0.25, atol=0.02)

    def test_it_comes_back_from_a_file_and_what_is_none_is_refused(self):
        made = brought_to(generator(), histograms(np.random.default_rng(5)), 0.0, 10_000, 1)
        arrays = made.to_arrays()
        back = Generator.from_arrays(arrays, MIXED)
        assert back.sample(500, 3)[0].tobytes() == made.sample(500, 3)[0].tobytes()
        own, shares = arrays["marginals_own"], arrays["marginals_shares"]
        assert (own.shape, shares.shape) == ((4, LEVELS), (4, BINS))
        for name, wrong in (
            *(("marginals_own", one) for one in (own[:3], own[:, ::-1], own * 9, own.astype(np.float64))),
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
        weights = init_weights(jax.random.key(0), dense_kernels(5, (7,), 1))
        plain = Generator(tuple(map(np.asarray, weights)), np.full(2, 0.5), 3, schema)
        rng, peak = np.random.default_rng(9), high * 2 // 5
        real = np.where(rng.random(20_000) < 0.5, peak, rng.integers(0, high + 1, 20_000))
        U = schema.to_unit(real[:, None].astype(np.float32))[:, 0]
        counts = np.bincount(bins_of(U), minlength=BINS)[None]
        X, _ = brought_to(plain, counts, 0.0, 20_000, 1).sample(20_000, 3)
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
        X, _ = brought_to(plain, -np.ones((4, BINS)), 2.0, 100, 1).sample(300, 2)
        assert (X[:, 7] == 1).all()
        assert (X[:, 6] == 0).all()
        assert np.isfinite(X).all()


class TestBudget:
    @pytest.mark.parametrize("share", [0.05, 0.5])
    def test_the_histograms_have_their_share(self, share):
        costs = [stage.rounds * stage.weight**2 for stage in DPMERF(marginal_share=share).plan()]
        assert costs[1] / sum(costs) == pytest.approx(share)
        assert len(DPMERF(marginal_share=0.0).plan()) == 1

    def test_without_numbers_nothing_is_lost(self):
        """Two noised releases of the same sums, weighed, are as precise as one for the whole budget."""
        method, rng = DPMERF(marginal_share=0.2, frequencies=3), np.random.default_rng(6)
        weights = [stage.weight for stage in method.plan()]
        found = []
        for _ in range(300):
            state = method.init(jax.random.key(0), SCHEMA)
            for t, weight in enumerate(weights):
                query, _ = method.ask(state)
                assert query == method.query()
                value = 5.0 + rng.normal(size=state["sums"].shape) / weight
                state = method.tell(state, Release(t, value, 1.0, Event(1.0)))
            found.append(state["sums"])
        assert np.mean(found) == pytest.approx(5.0, abs=0.05)
        whole = 1.0 / math.sqrt(sum(weight**2 for weight in weights))
        assert np.std(found) == pytest.approx(whole, rel=0.05)

    def test_released_counts_are_records(self):
        method, rng = DPMERF(frequencies=3), np.random.default_rng(7)
        state = method.init(jax.random.key(0), MIXED)
        sums = rng.normal(size=state["sums"].shape)
        state = method.tell(state, Release(0, sums, 3.0, Event(3.0)))
        query, params = method.ask(state)
        assert isinstance(query, HistogramQuery)
        row = np.zeros(MIXED.dimension, np.float32)
        value = 10 * np.asarray(query.contribution(params, jnp.asarray(row), 0))
        state = method.tell(state, Release(1, value, 3.0, Event(3.0)))
        assert (state["histograms"].sum(1) == 10).all()
        assert state["stddev"] == pytest.approx(6.0)  # 3 times the root of four numbers
