"""Drawn pictures, however few are asked for."""

import numpy as np
import pytest

from dpdistill.encode.pictures import draw_pictures


@pytest.mark.parametrize("shape", [(28, 28, 1), (9, 7, 3), (8, 8, 2)])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_few_pictures_are_drawn(n, shape):
    X = draw_pictures(n, shape, 0)
    assert X.shape == (n, *shape)
    assert X.dtype == np.float32
    assert np.abs(X).max() <= 1
    assert all(len(np.unique(x)) > 10 for x in X)
