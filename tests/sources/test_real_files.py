"""The published files themselves."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from dpdistill.sources.load import load

DATA = os.environ.get("DPDISTILL_DATA")
pytestmark = pytest.mark.skipif(not DATA, reason="DPDISTILL_DATA does not name a folder with the published files")


def folder(name: str) -> Path:
    path = Path(DATA or "") / name
    if not path.is_dir():
        pytest.skip(f"DPDISTILL_DATA has no folder {name}")
    return path


def test_mnist():
    train, test = load(folder("mnist")), load(folder("mnist"), "test")
    assert (len(train), len(test)) == (60_000, 10_000)
    assert train.X.shape[1:] == (28, 28, 1)
    assert train.y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert test.y[:5].tolist() == [7, 2, 1, 0, 4]
    assert np.bincount(train.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert train.X.mean(dtype=np.float64) == pytest.approx(33.318421, abs=1e-6)


def test_fashion_mnist():
    train = load(folder("fashion_mnist"), classes="t-shirt,trouser,pullover,dress,coat,sandal,shirt,sneaker,bag,boot")
    assert np.bincount(train.y).tolist() == [6000] * 10
    assert train.schema.classes[train.y[0]] == "boot"


def test_cifar10():
    test = load(folder("cifar10"), "test")
    first = load(folder("cifar10") / "data_batch_1.bin.gz")
    assert (len(first), len(test)) == (10_000, 10_000)
    assert first.X.shape[1:] == (32, 32, 3)
    assert first.schema.classes[first.y[0]] == "frog"
    assert first.y[:5].tolist() == [6, 9, 9, 4, 1]
    assert first.X[0, 0, 0].tolist() == [59, 62, 63]
    assert np.bincount(test.y).tolist() == [1000] * 10
