"""Light by a root: values, slopes, and which exponents there are."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract.float32 import assert_close_float32

from dpdistill.features.gamma_correction import GammaCorrected


def pixels(X):
    return X.reshape(len(X), -1)


@pytest.mark.parametrize("exponent", [1.0, 0.5, 1 / 3, 0.1])
def test_values(exponent):
    X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 2, 3, 2)
    u = (X.astype(np.float64) + 1) / 2
    v = ((u + 0.01) ** exponent - 0.01**exponent) / (1.01**exponent - 0.01**exponent)
    steepest = exponent * 0.01 ** (exponent - 1) / (1.01**exponent - 0.01**exponent)  # at black
    found = GammaCorrected(pixels, exponent)(jnp.asarray(X))
    assert_close_float32(found, pixels(2 * v - 1), terms=6, scale=1 + steepest)


def test_black_white_and_a_dark_shade():
    v = GammaCorrected(pixels)(jnp.array([[-1.0, 1.0, -0.9]])[..., None, None])
    np.testing.assert_allclose(v, [[-1.0, 1.0, 2 * (0.06 ** (1 / 3) - 0.01 ** (1 / 3)) / 0.78788 - 1]], atol=1e-4)
    assert GammaCorrected(pixels, 1.0)(jnp.array([[-0.9]])[..., None, None])[0, 0] == pytest.approx(-0.9, abs=1e-6)


def test_the_slope_of_black_is_finite():
    slopes = jax.grad(lambda X: GammaCorrected(pixels)(X).sum())(jnp.linspace(-1, 1, 9).reshape(1, 9, 1, 1))
    assert np.isfinite(slopes).all()
    assert (np.diff(slopes[0, :, 0, 0]) < 0).all()
    np.testing.assert_allclose(slopes[0, 0, 0, 0], 0.01 ** (-2 / 3) / 3 / 0.78788, rtol=1e-3)


@pytest.mark.parametrize("exponent", [1.0, 0.5, 1 / 3])
def test_units_are_the_inverse_of_the_slope(exponent):
    encoder, X = GammaCorrected(pixels, exponent), jnp.linspace(-1, 1, 9).reshape(1, 9, 1, 1)
    np.testing.assert_allclose(encoder.units(X) * jax.grad(lambda X: encoder(X).sum())(X), 1.0, rtol=1e-5)
    units = encoder.units(jnp.array([-1.5, -1.0, 1.0]))
    np.testing.assert_allclose(units[0], units[1], rtol=1e-6)
    np.testing.assert_allclose(units[2] / units[1], 101 ** (1 - exponent), rtol=1e-4)


def test_beyond_the_bounds_and_not_finite():
    v = GammaCorrected(pixels)(jnp.array([[-1.5, np.nan]])[..., None, None])
    np.testing.assert_array_equal(v, [[-1.0, np.nan]])


@pytest.mark.parametrize("exponent", [0.0, -1.0, 1.5, float("nan")])
def test_refused(exponent):
    with pytest.raises(ValueError, match=re.escape(f"Expected 0 < exponent={exponent} <= 1")):
        GammaCorrected(pixels, exponent)
