"""The integer grid: its resolution, its bounds, and the sensitivity that holds by construction."""

import math

import contract
import numpy as np
import pytest

from dpdistill.private.grid import Grid, make_grid


@pytest.mark.parametrize(
    ("noise_multiplier", "dimension", "K"),
    [
        *[
            (1.0, 10, 1 << 20),
            (3.7306, 10, 1 << 19),
            (0.49989, 10, 1 << 22),
            (100.0, 784, 1 << 14),
            (1e6, 3072, 1 << 15),
        ],
        (1e6, 68_719, 1 << 17),  # 500 sqrt(d) is 131,071.6: a power of two when rounded up
    ],
)
def test_resolution(noise_multiplier, dimension, K):
    grid = make_grid(2.0, noise_multiplier, dimension, records=1000)
    assert grid.K == K
    assert grid.step == 2.0 / K
    assert grid.clip_norm == 2.0
    assert grid.float_clip == pytest.approx(2.0 * (1 - math.sqrt(dimension) / (2 * K) - 2.0**-12), rel=1e-15)
    assert max(2**20 / noise_multiplier, 500 * math.sqrt(dimension)) <= K
    assert max(2**20 / noise_multiplier, 500 * math.sqrt(dimension)) > K / 2


@pytest.mark.parametrize("dimension", [1, 100, 20_000])
def test_float_clipping_and_rounding_stay_within_K(dimension):
    rng = np.random.default_rng(0)
    grid = make_grid(0.7, 2.0, dimension, records=8)
    v = rng.standard_normal((8, dimension)).astype(np.float32)
    v[0] = 1.0
    v[1] = 0.0
    v[1, 0] = -1.0
    v *= np.float32(grid.float_clip) / np.linalg.norm(v, axis=1, keepdims=True).astype(np.float32)
    z = np.rint(v / np.float32(grid.step)).astype(np.int32)
    assert grid.admissible(z).all()
    assert np.linalg.norm(z.astype(float), axis=1).min() > 0.998 * grid.K


def test_admissible_is_exact_at_the_border():
    grid = make_grid(1.0, 1.0, 4, records=8)
    K = grid.K
    z = np.array(
        [[K, 0, 0, 0], [-K, 0, 0, 0], [K, 1, 0, 0], [K + 1, 0, 0, 0], [-K - 1, 0, 0, 0], [K // 2] * 4, [0] * 4],
        np.int32,
    )
    assert grid.admissible(z).tolist() == [True, True, False, False, False, True, True]


def test_rows_of_a_unit_are_admitted_by_the_sum_of_their_squares():
    contract.check_units_are_admitted_whole()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_huge_integers_cannot_wrap_into_admissible_ones(dtype):
    grid = make_grid(1.0, 1.0, 4, records=8)
    info = np.iinfo(dtype)
    z = np.array([[info.min, 0, 0, 0], [info.max, 0, 0, 0], [info.min] * 4, [1 << 16, 1 << 16, 0, 0]], dtype)
    assert grid.admissible(z).tolist() == [False, False, False, True]


def test_one_record_moves_the_sum_by_at_most_K():
    rng = np.random.default_rng(1)
    grid = make_grid(1.0, 1.0, 3, records=8)
    z = rng.integers(-2 * grid.K, 2 * grid.K, (20_000, 3))
    kept = z[grid.admissible(z)]
    norms = np.sqrt((kept.astype(float) ** 2).sum(axis=1))
    assert norms.max() <= grid.K
    assert norms.max() > 0.99 * grid.K
    assert (np.sqrt((z[~grid.admissible(z)].astype(float) ** 2).sum(axis=1)) > grid.K).all()


def test_no_contributions_are_legal():
    assert make_grid(1.0, 1.0, 3, records=0).admissible(np.zeros((0, 3), np.int32)).shape == (0,)


GOOD = dict(clip_norm=1.0, noise_multiplier=1.0, dimension=10, records=1000)


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (dict(clip_norm=0.0), "Expected clip_norm=0.0 > 0"),
        (dict(clip_norm=math.inf), "Expected clip_norm=inf > 0 and finite"),
        (dict(clip_norm=math.nan), "Expected clip_norm=nan"),
        (dict(noise_multiplier=0.0), "Expected noise_multiplier=0.0 > 0"),
        (dict(noise_multiplier=math.inf), "Expected noise_multiplier=inf"),
        (dict(dimension=0), "Expected dimension=0 >= 1"),
        (dict(noise_multiplier=0.05), "2\\*\\*24 steps\\): use a smaller epsilon"),
        (dict(dimension=1 << 31), "Expected dimension=2147483648 <= 4398046 at"),
        (dict(dimension=1 << 23), "Expected dimension=8388608 <= 4398046 at noise_multiplier=1.0: "),
        (dict(dimension=4_398_047), "Expected dimension=4398047 <= 4398046 at"),
        (dict(noise_multiplier=0.0625, dimension=1 << 15), "Expected dimension=32768 <= 32767 at"),
        (dict(noise_multiplier=0.5, dimension=1 << 21), "Expected dimension=2097152 <= 2097151 at"),
        (dict(records=1 << 42), "could overflow 64 bits"),
    ],
)
def test_every_check_refuses_in_public_words(bad, sentence):
    arguments = GOOD | bad
    with pytest.raises(ValueError, match=sentence) as caught:
        make_grid(**arguments)
    assert str(arguments["records"]) not in str(caught.value)


def test_the_last_legal_sizes_pass():
    assert make_grid(**GOOD | dict(noise_multiplier=0.0625)).K == 1 << 24
    assert make_grid(**GOOD | dict(records=(1 << 42) - 1)).K == 1 << 20
    assert make_grid(**GOOD | dict(dimension=4_398_046)).K == 1 << 20
    assert make_grid(**GOOD | dict(noise_multiplier=0.0625, dimension=(1 << 15) - 1)).K == 1 << 24
    assert make_grid(**GOOD | dict(noise_multiplier=0.5, dimension=(1 << 21) - 1)).K == 1 << 21


def test_admissible_refuses_floats_and_rows_that_could_overflow():
    grid = Grid(K=1 << 24, step=2.0**-24, clip_norm=1.0, float_clip=0.99)
    with pytest.raises(TypeError, match="Expected signed integers; got float64"):
        grid.admissible(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="dimension=32768"):
        grid.admissible(np.zeros((1, 1 << 15), np.int32))
