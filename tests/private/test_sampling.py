"""Poisson coins: exact thresholds, independence, legal extremes."""

import contract
import numpy as np
import pytest
from scipy import stats

from dpdistill.private.noise import SeededEntropy, SystemEntropy
from dpdistill.private.sampling import poisson_coins


class Words:
    kind = "scripted"

    def __init__(self, *values: int) -> None:
        self.values = list(values)

    def bytes(self, n: int) -> bytes:
        taken, self.values = self.values[: n // 8], self.values[n // 8 :]
        return np.array(taken, np.uint64).tobytes()


@pytest.mark.parametrize("q", [0.5, 0.01, 2.0**-53, 1.0 - 2.0**-53, 2.0**-64])
def test_the_threshold_is_the_floor_of_q_times_two_to_the_64(q):
    numerator, denominator = q.as_integer_ratio()
    threshold = (numerator << 64) // denominator
    coins = poisson_coins(4, q, Words(0, threshold - 1, threshold, 2**64 - 1))
    assert coins.tolist() == [True, True, False, False]


def test_frequencies_and_independence():
    n, q = 300_000, 0.03
    first, second = (poisson_coins(n, q, entropy) for entropy in (SeededEntropy(0), SystemEntropy()))
    for coins in (first, second):
        assert coins.dtype == bool
        assert stats.binomtest(int(coins.sum()), n, q).pvalue > 1e-6
        assert stats.binomtest(int((coins[1:] & coins[:-1]).sum()), n - 1, q * q).pvalue > 1e-6
        assert stats.binomtest(int(coins.sum()), n, 1.2 * q).pvalue < 1e-12
    assert stats.binomtest(int((first & second).sum()), n, q * q).pvalue > 1e-6


def test_blocks_join_into_one_stream():
    contract.check_blocks_of_coins()


def test_batch_sizes_vary_as_binomials_do():
    entropy = SeededEntropy(1)
    sizes = [int(poisson_coins(1000, 0.1, entropy).sum()) for _ in range(2000)]
    assert np.var(sizes) == pytest.approx(90.0, rel=0.15)


def test_all_records_need_no_entropy():
    class NoBytes:
        kind = "none"

        def bytes(self, n: int) -> bytes:
            raise AssertionError("no draw is needed")

    assert poisson_coins(5, 1.0, NoBytes()).tolist() == [True] * 5


def test_no_records_are_legal():
    assert poisson_coins(0, 0.5, SeededEntropy(0)).shape == (0,)
    assert poisson_coins(0, 1.0, SeededEntropy(0)).shape == (0,)


@pytest.mark.parametrize("q", [0.0, -0.1, 1.5, float("nan")])
def test_impossible_probabilities_are_refused_without_naming_n(q):
    with pytest.raises(ValueError, match="Expected 0 < sampling_prob=") as caught:
        poisson_coins(98765, q, SeededEntropy(0))
    assert "98765" not in str(caught.value)
