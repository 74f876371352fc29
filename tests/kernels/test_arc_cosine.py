"""What a ReLU layer makes of correlations: values by the closed form and by hand, and the derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpdistill.kernels.arc_cosine import arc_cosines


def computed(function, *arrays, dtype):
    with jax.enable_x64(dtype == np.float64):
        return jax.tree.map(np.asarray, function(*(jnp.asarray(array, dtype) for array in arrays)))


@pytest.mark.parametrize(("dtype", "precision"), [(np.float64, 1e-14), (np.float32, 5e-7)])
def test_arc_cosines(dtype, precision):
    cosine = np.concatenate([np.linspace(-1, 1, 2001), 1 - np.logspace(-5, -1, 50), [1.0000001, -1.0000001]])
    kappa_0, kappa_1 = computed(arc_cosines, cosine, dtype=dtype)
    cosine = cosine.astype(dtype).astype(np.float64)
    angle = np.arccos(np.clip(cosine, -1, 1))
    np.testing.assert_allclose(kappa_0, 1 - angle / np.pi, rtol=0, atol=precision)
    np.testing.assert_allclose(kappa_1, (np.sin(angle) + (np.pi - angle) * cosine) / np.pi, rtol=0, atol=precision)


@pytest.mark.parametrize(("c", "zero", "one"), [(1.0, 0.5, 0.5), (-1.0, 0.0, 0.0), (0.0, 0.25, 1 / (2 * np.pi))])
def test_by_hand(c, zero, one):
    """Half of them: P(u > 0, v > 0) and E[relu(u) relu(v)] of standard normals of correlation c."""
    kappa_0, kappa_1 = arc_cosines(jnp.asarray(c))
    assert float(kappa_0) / 2 == pytest.approx(zero, abs=1e-6)
    assert float(kappa_1) / 2 == pytest.approx(one, abs=1e-6)


def test_derivatives():
    cosine = np.concatenate([np.linspace(-0.999, 0.999, 101), [1 - 1e-8, -1 + 1e-8, 1.0, -1.0, 1 - 1e-15]])

    def slopes(c):
        return jax.vmap(jax.grad(lambda c: arc_cosines(c)[0]))(c), jax.vmap(jax.grad(lambda c: arc_cosines(c)[1]))(c)

    by_0, by_1 = computed(slopes, cosine, dtype=np.float64)
    expected = 1 / (np.pi * np.sqrt((1 - cosine[:-3]) * (1 + cosine[:-3])))
    np.testing.assert_allclose(by_0[:-3], expected, rtol=1e-8)
    np.testing.assert_array_equal(by_0[-3:], 0.0)
    np.testing.assert_allclose(by_1, 1 - np.arccos(cosine) / np.pi, atol=2e-7)
