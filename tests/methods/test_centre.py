"""The pilot without its noise, and the centre of a network's features: near to records, and nobody's."""

import jax
import numpy as np
import pytest
from contract.float32 import assert_close_float32
from scipy.fft import dctn

from dpdistill.methods.centre import denoised, pictures_around
from dpdistill.methods.matching import mean_features, network
from dpdistill.public_images.pictures import draw_pictures

TERMS = 200 + 2
"""A mean of 200 pictures, one of them and a mean."""
SHAPES = [(28, 28, 1), (32, 32, 3), (28, 28, 3), (9, 13, 2)]


def noisy(means, stddev, seed=0):
    return means + stddev * np.random.default_rng(seed).standard_normal(means.shape)


def distance(X, Z):
    return np.sqrt(np.mean(np.square(X - Z)))


def test_every_frequency_keeps_its_rings_share_of_signal():
    means, s = np.random.default_rng(1).normal(size=(3, 4, 5, 2)), np.array([0.3, 0.3, 0.6])
    before, after = (dctn(X, axes=(1, 2), norm="ortho") for X in (means, denoised(means, s)))
    for ring in range(6):
        own = [(i, j) for i in range(4) for j in range(5) if round(np.hypot(i, j)) == ring]
        power = [np.mean([before[n, i, j] ** 2 - s[n] ** 2 for i, j in own]) for n in range(3)]
        p = max(0.0, np.average(power, weights=1 / s**2))
        for i, j in own:
            np.testing.assert_allclose(after[:, i, j], before[:, i, j] * (p / (p + s**2))[:, None], atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stddev", [0.1, 0.3])
def test_most_of_the_noise_is_gone_from_smooth_means(shape, stddev):
    means = 0.5 * draw_pictures(10, shape, 5)
    released = noisy(means, stddev)
    found = denoised(released, np.full(10, stddev))
    assert distance(found, means) < 0.65 * distance(released, means)


def test_without_noise_means_stay_and_without_signal_nothing_is_left():
    means = draw_pictures(4, (8, 8, 1), 2)
    np.testing.assert_array_equal(denoised(means, np.zeros(4)), means)
    np.testing.assert_allclose(denoised(means, np.full(4, 1e-6)), means, atol=1e-5)
    nothing = denoised(noisy(np.zeros((40, 28, 28, 1)), 3.0), np.full(40, 3.0))
    assert distance(nothing, 0) < 0.3


@pytest.mark.parametrize("stddev", [1e-130, 1e130])
def test_noise_of_any_size_is_filtered(stddev):
    means = noisy(np.zeros((3, 5, 7, 1)), stddev) + 0.5
    found = denoised(means, np.full(3, stddev))
    if stddev < 1:
        np.testing.assert_allclose(found, 0.5, rtol=1e-6)
    else:
        assert np.abs(found / stddev).max() < 5


def test_a_mean_of_few_records_loses_more_than_those_of_many():
    means, stddev = draw_pictures(8, (28, 28, 1), 3), np.array([0.05] * 7 + [5.0])
    found = denoised(means + stddev[:, None, None, None] * noisy(np.zeros(means.shape), 1.0), stddev)
    assert distance(found[:7], means[:7]) < 0.05
    assert distance(found[7], 0) < 0.5


@pytest.mark.parametrize("shape", SHAPES)
def test_pictures_are_around_the_means(shape):
    means = np.linspace(-0.2, 0.2, 4, dtype=np.float32)[:, None, None, None] + np.zeros((4, *shape), np.float32)
    X = pictures_around(means)
    assert X.shape == (200, *shape)
    assert np.abs(X).max() <= 1
    drawn = draw_pictures(200, shape, 0)
    assert_close_float32(X[5], np.clip(means[1] + drawn[5] - drawn.mean(0), -1, 1), TERMS, scale=2.0)


@pytest.mark.parametrize(("classes", "pictures"), [(10, 200), (7, 203), (200, 200), (250, 250)])
def test_every_mean_has_as_many_pictures(classes, pictures):
    means = np.linspace(-0.5, 0.5, classes, dtype=np.float32)[:, None, None, None] + np.zeros((8, 8, 1), np.float32)
    drawn = draw_pictures(200, (8, 8, 1), 0)
    X = pictures_around(means)
    assert X.shape == (pictures, 8, 8, 1)
    for i in range(pictures):
        expected = np.clip(means[i % classes] + drawn[i % 200] - drawn.mean(0), -1, 1)
        assert_close_float32(X[i], expected, TERMS, scale=2.0)


def test_the_centre_is_nearer_to_records_than_that_of_noised_means():
    records = np.clip(0.2 + 0.8 * draw_pictures(400, (32, 32, 3), 9), -1, 1)
    pilot = np.stack([part.mean(0) for part in np.split(records, 10)])
    for t in range(3):
        params = network(jax.random.key(4), t, (32, 32, 3), 16)
        goal = mean_features(params, records)
        released = noisy(pilot, 0.3, t).astype(np.float32)
        plain = np.linalg.norm(mean_features(params, released) - goal)
        found = np.linalg.norm(mean_features(params, pictures_around(denoised(released, np.full(10, 0.3)))) - goal)
        assert found < 0.5 * plain
