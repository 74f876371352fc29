"""Features as codes of eight bits: what they are read as, and what is left of the accuracy of features."""

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chosen_tests import few
from contract.float32 import assert_close_float32

from dpdistill.features.apply import encode_slices
from dpdistill.features.eight_bits import EightBits, unit_of
from dpdistill.kernels import KERNELS
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.methods.class_means import ClassSumsQuery, LessMeansQuery
from dpdistill.methods.softmax import SoftmaxQuery, read
from dpdistill.public_images.pictures import draw_pictures

FIXED = {name: kernel for name, kernel in KERNELS.items() if isinstance(kernel, FeatureKernel)}


def test_codes_of_rows():
    rows = np.array([[1.0, -2.0, 0.5, 0.0], [0.0] * 4, [np.nan, 1, 1, 1], [np.inf, 1, 1, 1], [1e30, -1e30, 1e20, 0]])
    found = np.asarray(EightBits(contract.flattened)(jnp.asarray(rows, jnp.float32)))
    expected = [[64, -127, 32, 0], [0] * 4, [0] * 4, [0] * 4, [127, -127, 0, 0]]
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, expected)


def test_they_are_read_with_norm_one():
    codes = jnp.asarray([3, -4, 0, 12], jnp.int8)
    assert_close_float32(read(codes, jnp.float32), np.array([3, -4, 0, 12]) / 13, terms=8)
    np.testing.assert_array_equal(read(jnp.zeros(4, jnp.int8), jnp.float32), np.zeros(4))
    assert unit_of(jnp.asarray([3.0, 4.0]), jnp.float32) == 1.0


@pytest.mark.parametrize("name", few(FIXED, "scatternet"))
def test_every_kernel_keeps_its_directions(name):
    """Features have norm 1, which is what codes are read with; what rounding moves is a tenth of that at most."""
    encoder = FIXED[name].encoder
    X = draw_pictures(30, (16, 16, 1), 0)
    phi = encode_slices(encoder, X)
    np.testing.assert_allclose(np.linalg.norm(phi, axis=1), 1.0, atol=1e-3)
    codes = EightBits(contract.flattened)(jnp.asarray(phi))
    found = np.asarray(jax.vmap(lambda x: read(x, jnp.float32))(codes))
    assert np.linalg.norm(found - phi, axis=1).max() < 0.11


@pytest.mark.parametrize("kind", [SoftmaxQuery, ClassSumsQuery, LessMeansQuery])
def test_queries_of_codes_are_those_of_what_they_are_read_as(kind):
    rng = np.random.default_rng(2)
    codes, y = rng.integers(-127, 128, (20, 50)).astype(np.int8), np.arange(20) % 3
    W = rng.normal(size=(50, 3))
    B = np.linalg.qr(rng.normal(size=(50, 2)))[0]
    params = {SoftmaxQuery: W, ClassSumsQuery: np.zeros(0), LessMeansQuery: {"W": W, "B": B}}[kind]
    phi = codes / np.linalg.norm(codes.astype(np.float64), axis=1, keepdims=True)
    query = kind(1.0, 3, None)
    expected = contract.contributions(query, params, phi, y)
    contract.check_linear_is_plain(query, params, codes, y, expected, 1e-6, 2e-6)
