"""A record brought upright, to the middle and to a common size: values, and what it forgets."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract.float32 import assert_close_float32

from dpdistill.features.apply import encode
from dpdistill.features.deskew import DARK, Deskewed


def pixels(X):
    return X.reshape(len(X), -1)


def moments(x):
    """Means, deviations and slope of columns over rows, of (h, w) lightness above its darkest pixel."""
    weight = x - x.min() + DARK
    weight = weight / weight.sum()
    rows, columns = np.meshgrid(np.linspace(-1, 1, x.shape[0]), np.linspace(-1, 1, x.shape[1]), indexing="ij")
    m_r, m_c = (weight * rows).sum(), (weight * columns).sum()
    rows, columns = rows - m_r, columns - m_c
    v_r, v_rc = (weight * rows**2).sum(), (weight * rows * columns).sum()
    slope = v_rc / v_r
    return m_r, m_c, v_r**0.5, (weight * (columns - slope * rows) ** 2).sum() ** 0.5, slope


def stroke(slope=0.0, row=0.0, column=0.0, height=0.3, width=0.15, side=41):
    """A soft blob of such moments on black, (1, side, side, 1)."""
    rows, columns = np.meshgrid(np.linspace(-1, 1, side), np.linspace(-1, 1, side), indexing="ij")
    u, v = (rows - row) / height, (columns - column - slope * (rows - row)) / width
    return (2 * np.exp(-(u**2 + v**2) / 2) - 1)[None, ..., None].astype(np.float32)


def upright(X, **fields):
    return np.asarray(encode(Deskewed(pixels, **fields), X)).reshape(X.shape)


@pytest.mark.parametrize(
    "given", [{}, {"slope": 0.4}, {"slope": -0.4}, {"row": 0.1, "column": -0.15}, {"slope": 0.3, "row": 0.1}]
)
def test_slant_and_place_are_taken_out(given):
    X = stroke(**given)
    m_r, m_c, s_r, s_c, slope = moments(upright(X, strength=0.0)[0, ..., 0])
    np.testing.assert_allclose([m_r, m_c, slope], 0.0, atol=0.02)
    np.testing.assert_allclose([s_r, s_c], moments(X[0, ..., 0])[2:4], rtol=0.03)


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0])
def test_sizes_come_near_the_targets(strength):
    X = stroke(slope=0.2, height=0.25, width=0.2)
    *_, s_r, s_c, _ = moments(upright(X, strength=strength, height=0.3, width=0.15)[0, ..., 0])
    given = np.array(moments(X[0, ..., 0])[2:4])
    expected = np.array([0.3, 0.15]) * (given / [0.3, 0.15]) ** (1 - strength)
    np.testing.assert_allclose([s_r, s_c], expected, rtol=0.03)


def test_colours_move_together_and_what_comes_in_is_the_darkest_pixel():
    grey = stroke(column=0.4)
    colours = np.concatenate([grey, 0.5 * grey, grey * 0 - 0.5], 3)
    found = upright(colours, strength=0.0)
    assert abs(moments(found[0, ..., 0])[1]) < 0.05
    np.testing.assert_allclose(found[0, :, -1], np.full((41, 3), colours.min()), atol=1e-4)


@pytest.mark.slow
def test_a_record_of_one_colour_and_its_gradient_are_numbers():
    X = jnp.full((1, 9, 7, 1), 0.25)
    assert_close_float32(upright(np.asarray(X)), X, terms=12, scale=1.0)
    gradient = jax.jit(jax.grad(lambda X: jnp.sum(jnp.square(Deskewed(pixels)(X)))))(X)
    assert np.isfinite(gradient).all()


@pytest.mark.slow
def test_gradients_are_those_of_differences():
    rng = np.random.default_rng(0)
    X, to = stroke(slope=0.3, side=12), rng.normal(size=(1, 144)).astype(np.float32)
    X = X + 0.1 * rng.normal(size=X.shape).astype(np.float32)
    with jax.enable_x64(True):
        X, net = X.astype(np.float64), Deskewed(pixels)
        loss = lambda X: jnp.sum(net(X) * to)  # noqa: E731
        gradient = np.asarray(jax.grad(loss)(jnp.asarray(X)))
        for at in ((0, 3, 4, 0), (0, 6, 6, 0), (0, 11, 2, 0)):
            step = np.zeros_like(X)
            step[at] = 1e-6
            found = (loss(jnp.asarray(X + step)) - loss(jnp.asarray(X - step))) / 2e-6
            np.testing.assert_allclose(gradient[at], found, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"strength": 1.5}, "Expected 0 <= strength=1.5 <= 1."),
        ({"strength": float("nan")}, "Expected 0 <= strength=nan <= 1 and finite."),
        ({"height": 0.0}, "Expected height=0.0 > 0."),
        ({"width": float("inf")}, "Expected width=inf > 0 and finite."),
    ],
)
def test_a_wrong_field_is_named(fields, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        Deskewed(pixels, **fields)
