"""Score the classifiers of tables on the pixels of images, as papers on private generators do."""

from __future__ import annotations

import numpy as np

from dpdistill.data.records import Records
from dpdistill.evaluate.classifiers import make_classifier
from dpdistill.evaluate.score import Score, check_test_set, scaled
from dpdistill.schema import Schema


def score_pixels(X: np.ndarray, y: np.ndarray, schema: Schema, test: Records, *, name: str, seed: int = 0) -> Score:
    """Accuracy on test records of a classifier that is fitted to synthetic ones, pixel by pixel.

    Args:
        X: synthetic records in [-1, 1], (m, h, w, c).
        y: class indices, (m,).
        schema: of the synthetic set.
        test: records of the same shape and classes; at least one.
        name: one of the twelve classifiers of tables, such as "logistic regression" or "MLP".
        seed: of its random choices.

    Raises:
        DataError: a test set of another shape or other classes; scikit-learn is not installed.

    Source: Yang et al., 2023 (Differentially private neural tangent kernels), who report these two.
    """
    check_test_set(schema, test)
    X_test, y_test = scaled(test)
    fitted = make_classifier(name, seed=seed, rows=len(X)).fit(X.reshape(len(X), -1), y)
    return Score((100.0 * float((fitted.predict(X_test.reshape(len(X_test), -1)) == y_test).mean()),))
