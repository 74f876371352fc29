"""Distances of images are those of the formulas, and zero where nothing differs."""

import numpy as np
import pytest
from contract import SCATTER, SCHEMA, toy_records
from scipy.linalg import sqrtm

from dpdistill.evaluation.distances import frechet, kernel_distance, score_distances
from dpdistill.evaluation.score import scaled
from dpdistill.kernels import KERNELS
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records


def test_frechet_is_that_of_the_covariances():
    rng = np.random.default_rng(0)
    F, R = rng.normal(size=(50, 6)) @ rng.normal(size=(6, 6)) + 1.0, rng.normal(size=(40, 6)) @ rng.normal(size=(6, 6))
    C, D = np.cov(F.T), np.cov(R.T)
    expected = np.square(F.mean(0) - R.mean(0)).sum() + np.trace(C + D - 2 * np.real(sqrtm(C @ D)))
    assert frechet(F, R) == pytest.approx(expected / np.trace(D), rel=1e-6)
    assert frechet(R, R) == pytest.approx(0.0, abs=1e-9)
    assert frechet(R + 3.0, R) == pytest.approx(54.0 / np.trace(D), rel=1e-6)
    wide = rng.normal(size=(10, 300))  # more features than images
    assert frechet(wide, wide[::-1]) == pytest.approx(0.0, abs=1e-9)


def test_the_kernel_distance_is_unbiased():
    rng = np.random.default_rng(1)
    same = [kernel_distance(rng.normal(size=(20, 3)), rng.normal(size=(30, 3))) for _ in range(400)]
    assert abs(np.mean(same)) < 4 * np.std(same) / 20
    F, R = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    size = np.mean([r @ r for r in R])

    def mean(A, B, skip):
        pairs = [(a @ b / size + 1) ** 3 for i, a in enumerate(A) for j, b in enumerate(B) if not (skip and i == j)]
        return np.mean(pairs)

    assert kernel_distance(F, R) == pytest.approx(mean(F, F, True) + mean(R, R, True) - 2 * mean(F, R, False))
    assert kernel_distance(F + 2.0, R) > 10 * np.std(same)


class TestScore:
    def test_records_are_near_and_noise_is_far(self):
        test, others = toy_records(120, seed=8), toy_records(90)
        near = score_distances(scaled(others)[0], SCHEMA, test, kernel=SCATTER)
        noise = np.random.default_rng(2).uniform(-1, 1, (90, *SCHEMA.shape)).astype(np.float32)
        far = score_distances(noise, SCHEMA, test, kernel=SCATTER, chunk=7)
        assert (near.images, near.real) == (far.images, far.real) == (90, 120)
        assert near.frechet < 0.3 < 1.0 < far.frechet
        assert near.kernel < 0.02 * far.kernel

    def test_what_cannot_be_measured_is_refused(self):
        test = toy_records(20)
        X = scaled(test)[0]
        with pytest.raises(DataError, match="Expected a kernel with features"):
            score_distances(X, SCHEMA, test, kernel=FCNTK())
        with pytest.raises(DataError, match="Expected at least two images"):
            score_distances(X[:1], SCHEMA, test, kernel=SCATTER)
        alike = Records(np.repeat(test.X[:1], 5, 0), test.y[:5], SCHEMA)
        with pytest.raises(DataError, match="Expected test images that differ"):
            score_distances(X, SCHEMA, alike, kernel=SCATTER)
        small = Schema((3, 3, 1), SCHEMA.bounds, SCHEMA.classes)
        tiny = Records(np.zeros((5, 3, 3, 1)), test.y[:5], small)
        with pytest.raises(ValueError, match="at least 4"):
            score_distances(X[:5, :3, :3], small, tiny, kernel=KERNELS["scatternet"])
