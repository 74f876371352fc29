"""Normalised features by the formula, one record and one position after another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract.float32 import assert_close_float32

from dpdistill.features import normalised
from dpdistill.features.apply import encode
from dpdistill.features.normalised import Normalised
from dpdistill.features.unit import signed_power
from dpdistill.features.whitening import WhiteScatterNet
from dpdistill.public_images.image_source import PublicImages, Silhouettes
from dpdistill.public_images.pictures import draw_pictures, silhouettes

X = np.random.default_rng(0).uniform(-1, 1, (4, 8, 12, 2)).astype(np.float32)


def blocks(X):
    """Three channels of each colour at positions of 4 x 4 pixels: mean, and the differences of halves."""
    n, h, w, c = X.shape
    cells = X.reshape(n, h // 4, 4, w // 4, 4, c)
    channels = cells.mean((2, 4)), cells[:, :, :2].mean((2, 4)) - 0.5, cells[:, :, :, :, :2].mean((2, 4)) + 0.1
    return jnp.stack(channels, -1).transpose(0, 3, 4, 1, 2).reshape(n, -1)


NET = Normalised(blocks, channels=3)
TERMS = 16 + 36 + 70
"""A mean of 16 pixels, a norm of 36 numbers, a mean of 70 pictures."""


@pytest.fixture(autouse=True)
def fewer_pictures(monkeypatch):
    monkeypatch.setattr(normalised, "pictures_for", lambda shape: 50)
    normalised._mean.cache_clear()
    yield
    normalised._mean.cache_clear()


def at_positions(X, floor):
    """u of one record after another, in float64."""
    out = []
    for x in np.asarray(blocks(X), np.float64):
        vectors = x.reshape(6, -1).T
        least = floor * np.mean([v @ v for v in vectors])
        u = np.stack([v / np.sqrt(v @ v + least) for v in vectors]).T.ravel()
        out.append(u / np.linalg.norm(u))
    return np.stack(out)


@pytest.mark.parametrize("pictures", [None, Silhouettes(70, 4)])
@pytest.mark.parametrize(("floor", "power"), [(0.1, 0.7), (1.0, 1.0), (0.01, 0.5)])
def test_features_are_those_of_the_formula(floor, power, pictures):
    drawn = draw_pictures(50, (8, 12, 2), 0) if pictures is None else silhouettes(70, (8, 12, 2), 4)
    u = at_positions(X, floor)
    v = u - at_positions(drawn, floor).mean(0)
    expected = v * (np.square(v) + 1e-8) ** ((power - 1) / 2)  # |v|^power, but for numbers near 0
    norms = np.linalg.norm(expected, axis=1, keepdims=True)
    found = jax.jit(Normalised(blocks, 3, floor, power, pictures).__call__)(X)
    steepest = 1e-4 ** (power - 1)  # at 0
    assert_close_float32(found, expected / norms, TERMS, scale=np.abs(u).max() * steepest / norms.min())
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-5)


def test_a_record_is_normalised_by_itself():
    together = np.asarray(encode(NET, X))
    alone = np.concatenate([np.asarray(encode(NET, X[i : i + 1])) for i in range(4)])
    assert_close_float32(together, alone, TERMS, scale=1.0)


def test_gradients_are_finite_on_flat_records():
    gradient = jax.jit(jax.grad(lambda X: NET(X)[0, 3]))
    for value in (-1.0, 0.0, 1.0):
        assert np.isfinite(gradient(np.full((1, 8, 12, 2), value, np.float32))).all()


def test_signed_powers_keep_the_sign_and_a_finite_slope_at_zero():
    a = jnp.asarray([-4.0, -0.25, 0.0, 0.25, 4.0])
    np.testing.assert_allclose(signed_power(a, 0.5), [-2.0, -0.5, 0.0, 0.5, 2.0], rtol=1e-5)
    assert 1.0 < jax.grad(lambda a: signed_power(a, 0.5))(0.0) < 1e3


def test_features_that_are_no_channels_at_positions_are_refused():
    with pytest.raises(ValueError, match=r"Expected features of 14 channels at positions; got 36\."):
        Normalised(blocks, channels=7)(jnp.asarray(X))


def test_pictures_that_no_program_draws_are_refused():
    for kind in (lambda pictures: Normalised(blocks, 3, pictures=pictures), lambda p: WhiteScatterNet(pictures=p)):
        for other in (3, PublicImages("00", 2)):
            with pytest.raises(ValueError, match=r"Expected pictures as a Drawn or Silhouettes or None; got pictures="):
                kind(other)


@pytest.mark.parametrize("fields", [{"floor": 0.0}, {"floor": float("inf")}, {"power": 0.0}, {"power": 1.5}])
def test_settings_out_of_range_are_refused(fields):
    (name,) = fields
    with pytest.raises(ValueError, match=f"Expected .*{name}="):
        Normalised(blocks, channels=3, **fields)
