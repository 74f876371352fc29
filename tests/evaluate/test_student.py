"""A network that learns a released classifier's scores, and nothing else."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from contract import SCHEMA, toy_records

from dpdistill.encode.networks import ConvNet
from dpdistill.encode.train import STUDENT
from dpdistill.evaluate.student import score_student
from dpdistill.evaluate.teacher import Teacher
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import centred
from dpdistill.schema import DataError


@dataclass(frozen=True)
class Pixels:
    """The pixels themselves."""

    def __call__(self, X: Any) -> Any:
        return X.reshape(X.shape[0], -1)


RNG = np.random.default_rng(0)
TOYS, TEST = toy_records(300, seed=1), toy_records(200, seed=2)
MEANS = np.stack([TOYS.X[TOYS.y == k].mean(0).ravel() for k in range(3)], 1).astype(np.float32)
TEACHER = Teacher(MEANS - MEANS.mean(1, keepdims=True), FeatureKernel(Pixels()), SCHEMA)
PICTURES = RNG.uniform(-1, 1, (600, 8, 8, 1)).astype(np.float32)
TINY = replace(STUDENT, epochs=25, learning_rate=0.01, network=ConvNet(width=8), batch=64)


def test_scores_are_products_with_the_classifier():
    expected = PICTURES.reshape(600, -1) @ TEACHER.classifier
    np.testing.assert_allclose(TEACHER(PICTURES), expected, atol=1e-5)
    np.testing.assert_allclose(TEACHER(PICTURES[:7], chunk=3), expected[:7], atol=1e-5)
    with pytest.raises(DataError, match=r"Expected pictures of shape \('n', 8, 8, 1\), n >= 1; got \(2, 8, 9, 1\)"):
        TEACHER(np.zeros((2, 8, 9, 1)))


def test_what_all_classes_share_says_nothing():
    scores = RNG.normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_allclose(centred(scores + 7), centred(scores), atol=1e-5)
    np.testing.assert_allclose(centred(scores).sum(1), 0, atol=1e-6)


def test_a_student_of_noise_finds_the_classes():
    (accuracy,) = score_student(TEACHER, PICTURES, TEST, training=TINY).accuracies
    turned = replace(TEACHER, classifier=TEACHER.classifier[:, [1, 2, 0]])
    (other,) = score_student(turned, PICTURES, TEST, training=TINY).accuracies
    assert accuracy > 90.0
    assert other < 30.0


def test_the_scale_of_the_scores_does_not_count():
    larger = replace(TEACHER, classifier=100 * TEACHER.classifier)
    short = replace(TINY, epochs=2)
    found = [score_student(t, PICTURES, TEST, training=short).mean for t in (TEACHER, larger)]
    assert found[0] == pytest.approx(found[1], abs=1.5)


def test_refusals():
    with pytest.raises(ValueError, match="Expected nets=0 >= 1"):
        score_student(TEACHER, PICTURES, TEST, nets=0)
