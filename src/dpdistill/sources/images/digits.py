"""Reads scikit-learn's 8x8 handwritten digits, with a fixed split: every fifth record is test."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dpdistill.schema import DataError
from dpdistill.sources.images.idx import DIGITS, NOTE
from dpdistill.storage.files import show
from dpdistill.storage.parsed import Parsed

PREFIX = "digits:"


def load_digits(source: str) -> Parsed:
    """Reads "digits:train" or "digits:test": X (n, 8, 8, 1) in 0..16, ten classes.

    Raises:
        DataError: another name, or scikit-learn is not installed.
    """
    part = source.removeprefix(PREFIX)
    if part not in ("train", "test"):
        raise DataError(f"Expected digits:train or digits:test; got {show(source)}.")
    try:
        images, labels = _embedded()
    except ImportError:
        raise DataError("The digits need scikit-learn: pip install 'dpdistill[digits]'.") from None
    test = np.arange(len(labels)) % 5 == 4
    rows = test if part == "test" else ~test
    X = images.reshape(-1, 8, 8, 1)[rows].astype(np.float32)
    return Parsed.of(X, labels[rows].astype(np.int64), classes=DIGITS, bounds=(0.0, 16.0), notes=(NOTE,))


@lru_cache
def _embedded() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits as embedded

    images, labels = map(np.array, embedded(return_X_y=True))
    images.setflags(write=False)
    labels.setflags(write=False)
    return images, labels
