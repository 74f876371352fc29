"""Mixtures of drawn pictures and released images: what they are made of."""

import numpy as np

from dpdistill.encode import mixing
from dpdistill.encode.mixing import mix_pictures

IMAGES = np.full((2, 12, 10, 1), -1.0, np.float32)
IMAGES[0, 4:8, 4:6], IMAGES[1] = 1.0, 0.5


def test_they_are_the_same_for_a_seed_and_within_bounds():
    pictures = np.random.default_rng(0).uniform(-1, 1, (700, 12, 10, 1)).astype(np.float32)
    found = mix_pictures(pictures, IMAGES, 3)
    assert (found.shape, found.dtype) == (pictures.shape, np.float32)
    assert np.abs(found).max() <= 1.0
    np.testing.assert_array_equal(found, mix_pictures(pictures, IMAGES, 3))
    assert np.abs(found - mix_pictures(pictures, IMAGES, 4)).max() > 0.5


def test_shares_of_an_image_and_of_a_picture():
    flat = np.stack([np.full((12, 10, 1), value, np.float32) for value in np.linspace(-1, 1, 400)])
    found = mix_pictures(flat, IMAGES[1:], 0)  # an image of one colour is the same wherever it is moved to
    share = ((found - flat) / (0.5 - flat + 1e-9)).mean((1, 2, 3))[np.abs(flat[:, 0, 0, 0] - 0.5) > 0.05]
    assert 0.3 - 1e-3 < share.min() < 0.32
    assert 0.98 < share.max() <= 1 + 1e-3


def test_images_are_turned_moved_and_scaled(monkeypatch):
    monkeypatch.setattr(mixing, "LEAST", 1.0)
    found = mix_pictures(np.zeros((300, 12, 10, 1), np.float32), IMAGES[:1], 1)[..., 0]
    light = found - found.min((1, 2), keepdims=True)
    weight = light / light.sum((1, 2), keepdims=True)
    rows, columns = (weight.sum(2) * np.arange(12)).sum(1), (weight.sum(1) * np.arange(10)).sum(1)
    assert abs(rows.mean() - 5.5) < 0.15
    assert abs(columns.mean() - 4.5) < 0.15
    assert 0.3 < rows.std() < 0.8
    assert 0.25 < columns.std() < 0.8
    size = (light > 0.5 * light.max((1, 2), keepdims=True)).sum((1, 2))
    assert size.std() > 0.5
