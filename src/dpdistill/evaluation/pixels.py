"""Scores table classifiers on the pixels of images, like papers on private generators."""

from __future__ import annotations

import numpy as np

from dpdistill.evaluation.classifiers import answers, make_classifier, without_warnings
from dpdistill.evaluation.score import Score, TestSet, test_set
from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records


def score_pixels(
    X: np.ndarray, y: np.ndarray, schema: Schema, test: Records | TestSet, *, name: str, seed: int = 0
) -> Score:
    """Returns the test accuracy of a classifier fitted to the pixels of synthetic records.

    Args:
        X: synthetic records in [-1, 1], (m, h, w, c).
        y: class indices, (m,).
        schema: schema of the synthetic set.
        test: records of the same shape and classes; at least one.
        name: one of the twelve classifiers of tables, such as "logistic regression" or "MLP".
        seed: seed of its random numbers.

    Raises:
        DataError: a test set of another shape or other classes; records that it cannot be fitted to, such as those of
            one class; scikit-learn is not installed.

    Source: Yang et al., 2023 (Differentially private neural tangent kernels), who report these two.
    """
    X_test, y_test = test_set(schema, test)
    model = make_classifier(name, seed=seed, rows=len(X))
    with without_warnings():
        found = answers(model, X.reshape(len(X), -1), y, X_test.reshape(len(X_test), -1), len(schema.classes))
    if found is None:
        raise DataError(f"The classifier {name} cannot be fitted to these records.")
    return Score.of([found[1]], y_test, schema.classes)
