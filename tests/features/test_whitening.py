"""Whitened features by their moments on the drawn pictures, mirrored features by mirroring, and the pictures."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract.float32 import assert_close_float32

from dpdistill.features import whitening
from dpdistill.features.mirror import Mirrored
from dpdistill.features.scattering import ScatterNet
from dpdistill.features.whitening import WhiteScatterNet, dead_leaves
from dpdistill.public_images.image_source import Silhouettes
from dpdistill.public_images.pictures import silhouettes

NET = ScatterNet(J=1, L=2, groups=1, normalise=True)
FEATURES = jax.jit(lambda encoder, X: encoder(X), static_argnums=0)
X = np.random.default_rng(0).uniform(-1, 1, (4, 8, 12, 2)).astype(np.float32)
TERMS = 96 + 96 + 400
"""Sums of a scattering of 8 x 12 pixels: two of filters, and a norm, which is 1."""


@pytest.fixture(autouse=True)
def fewer_pictures(monkeypatch):
    monkeypatch.setattr(whitening, "pictures_for", lambda shape: 300)
    whitening._whitening.cache_clear()
    yield
    whitening._whitening.cache_clear()


def features(encoder, images):
    return np.asarray(FEATURES(encoder, images))


def moments(shape):
    """Second moments of the channels of all colours, over the pictures and their positions."""
    channels = NET.channels * shape[2]
    S = features(NET, dead_leaves(shape, 300, 0)).astype(np.float64).reshape(300, channels, -1)
    return np.mean([S[:, :, p].T @ S[:, :, p] / 300 for p in range(S.shape[2])], 0)


class TestWhitening:
    @pytest.mark.parametrize("shape", [(8, 8, 1), (8, 12, 2)])
    def test_without_strength_it_makes_the_moments_of_the_pictures_the_identity(self, shape):
        P, sigma = whitening._whitening(NET, shape, 1e-9), moments(shape)
        white = P @ sigma @ P
        np.testing.assert_allclose(white / white[0, 0], np.eye(len(P)), atol=1e-4)
        assert np.abs(sigma / sigma[0, 0] - np.eye(len(P))).max() > 0.3
        np.testing.assert_allclose(P, P.T, atol=1e-9 * np.abs(P).max())
        assert np.linalg.eigvalsh(P).min() > 0

    def test_strength_adds_a_share_of_their_mean_to_the_moments(self):
        sigma = moments((8, 8, 1))
        P = whitening._whitening(NET, (8, 8, 1), 0.5)
        shifted = sigma + 0.5 * np.trace(sigma) / 3 * np.eye(3)
        np.testing.assert_allclose(P @ shifted @ P / np.trace(shifted) * 3, np.eye(3), atol=1e-4)

    def test_features_are_the_products_with_norm_one(self):
        found = features(WhiteScatterNet(NET, 0.5), X)
        P, S = whitening._whitening(NET, (8, 12, 2), 0.5), features(NET, X).reshape(4, 6, 4, 6)
        expected = np.stack([[P @ S[n, :, i, j] for i in range(4) for j in range(6)] for n in range(4)])
        expected = expected.transpose(0, 2, 1).reshape(4, -1)
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-5)
        assert np.abs(found - features(NET, X)).max() > 0.01

    @pytest.mark.parametrize("shape", [(8, 8, 1), (8, 12, 2)])
    def test_other_pictures_have_other_moments(self, shape):
        found = whitening._whitening(NET, shape, 0.5, Silhouettes(130, 3))
        channels = NET.channels * shape[2]
        S = features(NET, silhouettes(130, shape, 3)).astype(np.float64).reshape(130, channels, -1)
        sigma = np.mean([S[:, :, p].T @ S[:, :, p] / 130 for p in range(S.shape[2])], 0)
        shifted = sigma + 0.5 * np.trace(sigma) / channels * np.eye(channels)
        np.testing.assert_allclose(found @ shifted @ found / np.trace(shifted) * channels, np.eye(channels), atol=1e-4)
        assert np.abs(found - whitening._whitening(NET, shape, 0.5)).max() > 0.05
        images = X[:, :, :8, :1] if shape == (8, 8, 1) else X
        by_hand = np.einsum("ce,nep->ncp", found, features(NET, images).reshape(4, channels, -1)).reshape(4, -1)
        by_hand /= np.linalg.norm(by_hand, axis=1, keepdims=True)
        np.testing.assert_allclose(features(WhiteScatterNet(NET, 0.5, Silhouettes(130, 3)), images), by_hand, atol=1e-5)

    def test_a_large_strength_leaves_features_as_they_are(self):
        np.testing.assert_allclose(features(WhiteScatterNet(NET, 1e6), X), features(NET, X), atol=1e-5)

    def test_nothing_stays_nothing(self):
        found = features(WhiteScatterNet(NET, 0.5), np.zeros((2, 8, 8, 1), np.float32))
        np.testing.assert_array_equal(found, 0.0)

    def test_it_is_a_value_and_a_constant(self):
        assert WhiteScatterNet(NET, 0.5) == WhiteScatterNet(NET, 0.5)
        assert hash(WhiteScatterNet(NET, 0.5)) == hash(WhiteScatterNet(NET, 0.5))
        first = whitening._whitening(NET, (8, 8, 1), 0.5)
        whitening._whitening.cache_clear()
        np.testing.assert_array_equal(whitening._whitening(NET, (8, 8, 1), 0.5), first)
        with jax.enable_x64(True):
            whitening._whitening.cache_clear()
            np.testing.assert_array_equal(whitening._whitening(NET, (8, 8, 1), 0.5), first)

    def test_records_do_not_see_each_other(self):
        encoder = WhiteScatterNet(NET, 0.5)
        assert_close_float32(features(encoder, X[2:3]), features(encoder, X)[2:3], TERMS, scale=1.0)

    @pytest.mark.parametrize("strength", [0.0, -1.0, float("nan"), float("inf")])
    def test_a_wrong_strength_is_named(self, strength):
        with pytest.raises(ValueError, match=re.escape(f"Expected strength={strength} > 0")):
            WhiteScatterNet(NET, strength)


class TestMirrored:
    def test_a_record_and_its_mirror_image_are_one(self):
        encoder = Mirrored(NET)
        found, mirrored, turned = (features(encoder, images) for images in (X, X[:, :, ::-1], X[:, ::-1]))
        assert_close_float32(found, mirrored, TERMS, scale=1.0)
        assert np.abs(found - turned).max() > 0.01
        assert np.abs(features(NET, X) - features(NET, X[:, :, ::-1])).max() > 0.01

    def test_values(self):
        found = features(Mirrored(NET), X)
        expected = features(NET, X) + features(NET, X[:, :, ::-1])
        assert_close_float32(found, expected / np.linalg.norm(expected, axis=1, keepdims=True), TERMS, scale=1.0)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-5)

    def test_of_any_encoder(self):
        found = Mirrored(lambda X: X.reshape(len(X), -1))(jnp.asarray([[[[3.0], [1.0]]]]))
        assert_close_float32(found, [[4 / 32**0.5, 4 / 32**0.5]], terms=6)
        nothing = Mirrored(lambda X: X.reshape(len(X), -1))(jnp.zeros((1, 2, 2, 1)))
        np.testing.assert_array_equal(nothing, 0.0)


class TestLeaves:
    def test_they_are_the_same_for_a_seed(self):
        pictures = dead_leaves((9, 7, 3), 20, 5)
        np.testing.assert_array_equal(dead_leaves((9, 7, 3), 20, 5), pictures)
        np.testing.assert_array_equal(dead_leaves((9, 7, 3), 3, 5), pictures[:3])
        assert np.abs(dead_leaves((9, 7, 3), 20, 6) - pictures).max() > 0.5

    def test_they_are_pictures_of_something(self):
        pictures = dead_leaves((16, 16, 3), 200, 0)
        assert (pictures.shape, pictures.dtype) == ((200, 16, 16, 3), np.float32)
        assert np.abs(pictures).max() <= 1.0
        # Uniform colours have mean 0 and standard deviation 1 / sqrt(3) = 0.58, and less where an edge mixes two.
        assert abs(pictures.mean()) < 0.05
        assert 0.48 < pictures.std() < 0.6
        # Neighbours are alike, and far corners are not.
        near = np.corrcoef(pictures[:, 8, 8].ravel(), pictures[:, 8, 9].ravel())[0, 1]
        far = np.corrcoef(pictures[:, 0, 0].ravel(), pictures[:, 15, 15].ravel())[0, 1]
        assert near > 0.8
        assert far < near - 0.2
        assert (pictures.std((1, 2, 3)) > 0.1).mean() > 0.9
