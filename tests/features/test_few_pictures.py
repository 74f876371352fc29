"""Drawn pictures, however few are asked for."""

import numpy as np
import pytest

from dpdistill.public_images.image_source import Drawn, ImageSource, PublicImages, Silhouettes
from dpdistill.public_images.pictures import draw_pictures, pictures_for


@pytest.mark.parametrize("shape", [(28, 28, 1), (9, 7, 3), (8, 8, 2)])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_few_pictures_are_drawn(n, shape):
    X = draw_pictures(n, shape, 0)
    assert X.shape == (n, *shape)
    assert X.dtype == np.float32
    assert np.abs(X).max() <= 1
    assert all(len(np.unique(x)) > 10 for x in X)


def test_large_pictures_are_fewer():
    shapes = [(8, 8, 1), (64, 64, 3), (128, 64, 1), (128, 128, 3), (224, 224, 3), (1000, 1000, 1)]
    assert [pictures_for(shape) for shape in shapes] == [2000, 2000, 1000, 500, 163, 100]


def kinds(base):
    """All kinds of images that are nobody's secret, those of kinds included."""
    return {base}.union(*map(kinds, base.__subclasses__()))


def test_numbers_of_which_no_pictures_can_be_drawn_are_refused():
    programs = [kind for kind in kinds(ImageSource) - {PublicImages} if not kind.__abstractmethods__]
    assert {*programs} == {Drawn, Silhouettes}
    for program in programs:
        assert program(pictures=2).images((8, 8, 1)).shape == (2, 8, 8, 1)
        for wrong in (1, 100_001, 2.0, True, "9"):
            with pytest.raises(ValueError, match=r"Expected pictures=.* as a whole number from 2 to 100000"):
                program(pictures=wrong)
        for wrong in (-1, 2**32, 0.5):
            with pytest.raises(ValueError, match=r"Expected seed=.* as a whole number from 0 to 4294967295"):
                program(seed=wrong)
