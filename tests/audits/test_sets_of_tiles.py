"""What is said of a set whose images are cut into tiles is said of the tiles: models are trained on them."""

import numpy as np
import pytest

from dpdistill.audits.canaries import nearness
from dpdistill.audits.membership import membership_scores
from dpdistill.audits.reference import nearest_real
from dpdistill.method import Distilled
from dpdistill.schema import Schema
from dpdistill.storage.records import Records

SCHEMA = Schema((4, 4, 1), (-1.0, 1.0), ("a", "b"))
RNG = np.random.default_rng(5)
X, TILES = (RNG.uniform(-1, 1, (n, 4, 4, 1)).astype(np.float32) for n in (2, 8))
Y = np.array([0, 1], np.int32)
CUT = Distilled(X, Y, SCHEMA, (TILES, np.repeat(Y, 4)))
WHOLE = Distilled(TILES, np.repeat(Y, 4), SCHEMA)
REAL, OTHERS = (Records(RNG.uniform(-1, 1, (20, 4, 4, 1)), np.arange(20) % 2, SCHEMA) for _ in range(2))

READ = {
    "attacks on membership": lambda made: membership_scores(made, REAL),
    "canaries": lambda made: {"nearness": nearness(made, REAL)},
    "nearest real records": lambda made: vars(nearest_real(made, REAL, OTHERS)),
}


@pytest.mark.parametrize("name", READ)
def test_tiles_are_read_in_the_place_of_the_images(name):
    found, expected = (READ[name](made) for made in (CUT, WHOLE))
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-6)
    stored = READ[name](Distilled(X, Y, SCHEMA))
    assert any(not np.array_equal(found[key], values) for key, values in stored.items())
