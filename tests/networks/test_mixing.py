"""Mixtures of drawn pictures and released images: what they are made of."""

import numpy as np

from dpdistill.networks import mixing
from dpdistill.networks.mixing import mix_pictures

IMAGES = np.full((2, 12, 10, 1), -1.0, np.float32)
IMAGES[0, 4:8, 4:6], IMAGES[1] = 1.0, 0.5
MIDDLE, CORNER = (slice(None), 5, 5, 0), (slice(None), 0, 0, 0)


def flat(values):
    """Pictures of one shade each."""
    return np.tile(np.asarray(values, np.float32)[:, None, None, None], (1, 12, 10, 1))


def test_they_are_the_same_for_a_seed_and_within_bounds():
    pictures = np.random.default_rng(0).uniform(-1, 1, (700, 12, 10, 1)).astype(np.float32)
    found = mix_pictures(pictures, IMAGES, 3)
    assert (found.shape, found.dtype) == (pictures.shape, np.float32)
    assert np.abs(found).max() <= 1.0
    np.testing.assert_array_equal(found, mix_pictures(pictures, IMAGES, 3))
    assert np.abs(found - mix_pictures(pictures, IMAGES, 4)).max() > 0.5


def test_half_have_a_picture_over_them_by_a_share():
    pictures = flat(np.linspace(-1, 1, 400))
    found = mix_pictures(pictures, IMAGES[1:], 0)  # an image of one colour is the same wherever it is moved to
    seen = np.abs(pictures[CORNER] - 0.5) > 0.05
    share = ((found - pictures) / (0.5 - pictures + 1e-9)).mean((1, 2, 3))[seen]
    untouched = np.abs(share - 1) < 1e-4  # an image that is nothing but its background has no shades to change
    assert 0.4 < untouched.mean() < 0.6
    assert 0.3 - 1e-3 < share.min() < 0.32
    assert 0.98 < share[~untouched].max() <= 1 + 1e-3
    assert abs(np.median(share[~untouched]) - 0.65) < 0.06


def test_the_other_half_keep_their_background_and_change_their_shades_by_the_picture_before(monkeypatch):
    monkeypatch.setattr(mixing, "LEAST", 1.0)  # no picture is seen over an image
    dark = np.arange(1000) % 2 == 1  # the picture before is dark
    image = np.full((1, 12, 10, 1), -1.0, np.float32)
    image[:, 3:9, 3:8] = 1.0
    found = mix_pictures(flat(np.where(dark, 1.0, -1.0)), image, 2)
    np.testing.assert_allclose(found[CORNER], -1.0, atol=1e-5)
    brightness = (1 + found[MIDDLE]) / 2
    changed = brightness[dark & (brightness < 1)]
    assert 0.45 < len(changed) / 500 < 0.55
    assert abs(changed.mean() - 0.375) < 0.04  # E[level] E[max(1 - contrast, 0)]
    lighter = brightness[~dark & (brightness < 1)]
    assert 0.5 < lighter.min() < 0.6  # the least level


def test_images_are_turned_moved_and_scaled(monkeypatch):
    monkeypatch.setattr(mixing, "LEAST", 1.0)
    found = mix_pictures(np.zeros((300, 12, 10, 1), np.float32), IMAGES[:1], 1)[..., 0]
    light = found - found.min((1, 2), keepdims=True)
    weight = light / light.sum((1, 2), keepdims=True)
    rows, columns = (weight.sum(2) * np.arange(12)).sum(1), (weight.sum(1) * np.arange(10)).sum(1)
    assert abs(rows.mean() - 5.5) < 0.1
    assert abs(columns.mean() - 4.5) < 0.1
    assert 0.2 < rows.std() < 0.45
    assert 0.15 < columns.std() < 0.4
    size = (light > 0.5 * light.max((1, 2), keepdims=True)).sum((1, 2))
    assert size.std() > 0.4


def test_what_comes_in_has_the_colour_of_the_border(monkeypatch):
    monkeypatch.setattr(mixing, "LEAST", 1.0)
    image = np.full((1, 12, 10, 3), 0.9, np.float32)
    image[:, 4:8, 3:7] = -0.5
    found = mix_pictures(np.zeros((200, 12, 10, 3), np.float32), image, 5)
    edges = np.concatenate([found[:, 0], found[:, -1]])
    np.testing.assert_allclose(edges, 0.9, atol=1e-5)
