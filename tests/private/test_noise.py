"""Integer noise: the law, the exactness of its roundings, and where its bits come from."""

import hashlib
import os

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri

from dpdistill.accounting.gaussian import gaussian_noise_multiplier
from dpdistill.private import noise
from dpdistill.private.noise import KeyedEntropy, SeededEntropy, SystemEntropy, rounded_gaussian


class Scripted:
    """Entropy that hands out given 64-bit words and counts them."""

    kind = "scripted"

    def __init__(self, *script: int) -> None:
        self.script = list(script)
        self.drawn = 0

    def bytes(self, n: int) -> bytes:
        taken, self.script = self.script[: n // 8], self.script[n // 8 :]
        assert len(taken) == n // 8, "the script has run out"
        self.drawn += len(taken)
        return b"".join(word.to_bytes(8, "little") for word in taken)


def pmf_test(z: np.ndarray, stddev: float) -> float:
    """p-value of chi-square of integers against the rounded Gaussian, cells of expectation >= 10."""
    reach = int(np.ceil(8 * stddev)) + 2
    edges = np.arange(-reach, reach + 2) - 0.5
    expected = z.size * np.diff(ndtr(edges / stddev))
    observed = np.bincount(z + reach, minlength=expected.size)
    big = expected >= 10
    observed = np.append(observed[big], observed[~big].sum())
    expected = np.append(expected[big], z.size - expected[big].sum())
    if expected[-1] < 1e-3:
        assert observed[-1] == 0
        observed, expected = observed[:-1], expected[:-1]
    return stats.chisquare(observed, expected, sum_check=False).pvalue


@pytest.mark.parametrize("stddev", [0.3, 1.0, 5.0])
def test_small_stddev_has_the_law_of_a_rounded_gaussian(stddev):
    z = rounded_gaussian(400_000, stddev, SeededEntropy(1))
    assert z.dtype == np.int64
    assert pmf_test(z, stddev) > 1e-3
    assert pmf_test(z, stddev * 1.02) < 1e-6
    assert pmf_test(z + (z > 0), stddev) < 1e-6


@pytest.mark.parametrize("stddev", [20.0, 2.0**20])
def test_scale_is_accepted_and_two_thirds_and_three_halves_are_rejected(stddev):
    z = rounded_gaussian((200, 100), stddev, SeededEntropy(2)).ravel()
    pvalue = {scale: stats.kstest(z, stats.norm(scale=scale * stddev).cdf).pvalue for scale in (1.0, 2 / 3, 3 / 2)}
    assert pvalue[1.0] > 1e-3 if stddev > 1000 else pvalue[1.0] > 1e-4
    assert pvalue[2 / 3] < 1e-12
    assert pvalue[3 / 2] < 1e-12
    assert abs(np.corrcoef(z[1:], z[:-1])[0, 1]) < 0.03


def test_releases_of_neighbours_show_the_accounted_mu():
    sigma, steps = gaussian_noise_multiplier(1.0, 1e-5), 1 << 19
    entropy = SeededEntropy(3)
    without = rounded_gaussian(100_000, sigma * steps, entropy)
    with_record = steps + rounded_gaussian(100_000, sigma * steps, entropy)
    spread = np.sqrt((without.var() + with_record.var()) / 2)
    mu = (with_record.mean() - without.mean()) / spread
    assert mu == pytest.approx(1 / sigma, rel=0.05)


def mp_quantile(tail: int, n_bits: int, stddev: float) -> mpmath.mpf:
    """stddev times the magnitude whose upper tail is tail / 2**n_bits, by Newton steps on the tail probability."""
    p = mpmath.ldexp(tail, -n_bits)
    x = mpmath.mpf(-float(ndtri(float(p))))
    for _ in range(6):
        density = mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)
        x += (mpmath.erfc(x / mpmath.sqrt(2)) / 2 - p) / density
    return x * stddev


@pytest.mark.parametrize("stddev", [0.7, 1000.0, 2.0**20, 2.0**34])
def test_every_bit_string_rounds_as_the_exact_quantile_does(stddev):
    entropy = SeededEntropy(4)
    n = 700
    bits = noise.words(n, entropy).copy()
    bits[: n // 3] >>= np.arange(n // 3, dtype=np.uint64) % np.uint64(50)
    values = noise._block(bits, stddev, entropy)
    with mpmath.workprec(220):
        for word, value in zip(bits.tolist(), values.tolist(), strict=True):
            tail = word >> 11
            if tail == 0:
                assert abs(value) >= 8.2 * stddev - 1
                continue
            ends = [int(mpmath.floor(mp_quantile(tail + i, 54, stddev) + 0.5)) for i in (1, 0)]
            assert ends[0] <= abs(value) <= ends[1]
            assert value == 0 or (value < 0) == bool(word & 1)


def straddling_tail(m: int, stddev: float) -> tuple[int, int]:
    """The 53-bit tail value whose interval holds the boundary m + 1/2, and the 64 bits that follow the boundary."""
    with mpmath.workprec(300):
        p = mpmath.erfc((m + mpmath.mpf(0.5)) / stddev / mpmath.sqrt(2)) / 2
        tail = int(mpmath.floor(mpmath.ldexp(p, 54)))
        return tail, int(mpmath.floor(mpmath.ldexp(p, 54 + 64))) - (tail << 64)


@pytest.mark.parametrize(("m", "stddev"), [(0, 1.0), (3, 1.0), (7, 5.0), (1 << 20, 2.0**20), (5 << 20, 2.0**20)])
def test_a_straddled_boundary_is_decided_by_more_bits(m, stddev):
    tail, following = straddling_tail(m, stddev)
    for sign in (0, 1):
        word = tail << 11 | sign
        below, above = Scripted(word, following + 1), Scripted(word, following - 1)
        assert abs(rounded_gaussian(1, stddev, below)[0]) == m
        assert abs(rounded_gaussian(1, stddev, above)[0]) == m + 1
        assert below.drawn == above.drawn == 2
        undecided = Scripted(word, following, 0)
        assert abs(rounded_gaussian(1, stddev, undecided)[0]) == m + 1
        assert undecided.drawn == 3
    neighbour = Scripted((tail + 4) << 11)
    assert rounded_gaussian(1, stddev, neighbour)[0] == m
    assert neighbour.drawn == 1


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 2.0])
@pytest.mark.parametrize("stddev", [1.0, 10.0])
def test_a_wrong_guess_of_the_floats_is_corrected(monkeypatch, factor, stddev):
    """The float quantile only says where the exact decision begins."""
    intervals = [1000, 1 << 20, 1 << 40, 1 << 50, (1 << 53) - 1]
    exact = [noise._decide(interval, 54, stddev) for interval in intervals]
    expected = [round(-float(ndtri(interval * 2.0**-54)) * stddev) for interval in intervals]
    assert exact == expected
    assert exact[0] >= 7 * stddev
    monkeypatch.setattr(noise, "ndtri", lambda p: factor * ndtri(p))
    assert [noise._decide(interval, 54, stddev) for interval in intervals] == exact


def test_the_last_interval_takes_more_bits_however_little_the_noise():
    entropy = Scripted(0, 1 << 63)
    assert rounded_gaussian((), 0.01, entropy) == 0
    assert entropy.drawn == 2


def test_the_last_interval_has_no_end_and_takes_more_bits():
    entropy = Scripted(0, 0, 1 << 63)
    with mpmath.workprec(300):
        expected = int(mpmath.floor(mp_quantile(1 << 63, 54 + 128, 1000.0) + 0.5))
    assert rounded_gaussian((), 1000.0, entropy) == expected > 12_000
    assert entropy.drawn == 3


def test_keyed_bytes_are_those_of_shake_256():
    """Processes of all versions toss the same coins for the same key: SHAKE-256 of the key and a counter from 1."""
    entropy = KeyedEntropy(b"k" * 32)
    for counter in (1, 2, 3):
        expected = hashlib.shake_256(b"k" * 32 + counter.to_bytes(8, "little")).digest(20)
        assert entropy.bytes(20) == expected
    assert entropy.kind == "operating-system entropy"


def test_blocks_join_into_one_stream(monkeypatch):
    whole = rounded_gaussian((3, 50), 9.0, SeededEntropy(5))
    monkeypatch.setattr(noise, "BLOCK", 7)
    assert rounded_gaussian((3, 50), 9.0, SeededEntropy(5)).tolist() != np.zeros((3, 50)).tolist()
    np.testing.assert_array_equal(rounded_gaussian(7, 9.0, SeededEntropy(5)), whole.ravel()[:7])


@pytest.mark.parametrize("stddev", [0.0, -1.0, float("nan"), float("inf"), 2.0**49])
def test_impossible_stddev_is_refused(stddev):
    with pytest.raises(ValueError, match=r"Expected 0 < stddev=.* <= 2\*\*48\."):
        rounded_gaussian(3, stddev, SeededEntropy(0))


def repeats(entropy) -> bool:
    first, second = (rounded_gaussian(64, 1000.0, entropy) for _ in range(2))
    return bool(np.any(first == second) and np.mean(first == second) > 0.5)


def test_noise_is_fresh_in_every_call():
    class ReseededPerCall:
        kind = "mutant"

        def bytes(self, n: int) -> bytes:
            return SeededEntropy(0).bytes(n)

    assert repeats(ReseededPerCall())
    assert not repeats(SeededEntropy(0))
    assert not repeats(SystemEntropy())


def test_seeded_noise_replays_and_says_so():
    np.testing.assert_array_equal(*(rounded_gaussian(9, 50.0, SeededEntropy(8)) for _ in range(2)))
    assert np.any(rounded_gaussian(9, 50.0, SeededEntropy(9)) != rounded_gaussian(9, 50.0, SeededEntropy(8)))
    assert SeededEntropy(0).kind == "insecure: seeded noise"
    assert SystemEntropy().kind == "operating-system entropy"


def child_bytes(entropy, n: int) -> bytes:
    """What a forked child draws from the same object."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write_end, entropy.bytes(n))
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        return pipe.read()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, which the child does not use
def test_system_entropy_does_not_survive_a_fork():
    system, seeded = SystemEntropy(), SeededEntropy(0)
    assert child_bytes(system, 64) != system.bytes(64)
    assert child_bytes(seeded, 64) == seeded.bytes(64)
