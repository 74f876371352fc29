"""What a score is of: the final iterate, and classes that are compared by name."""

from __future__ import annotations

import dataclasses

import numpy as np

from contract.data import NAMES, SCHEMA, make_records
from dpdistill.evaluation import score
from dpdistill.networks.network import ConvNet
from dpdistill.networks.training import Training
from dpdistill.storage.records import Records


def check_score_is_the_final_iterate() -> None:
    """No test label picks a net: accuracy on a test set and on its opposite labels add up to 100 %, net by net."""
    schema = dataclasses.replace(SCHEMA, classes=("a", "b"))
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-1, 1, (8, 8, 8, 1)).astype(np.float32), np.arange(8) % 2
    test = Records(rng.uniform(-1, 1, (101, 8, 8, 1)), rng.integers(0, 2, 101), schema)
    other = Records(test.X, 1 - test.y, schema)
    training = Training(epochs=4, learning_rate=0.05, schedule="cosine", network=ConvNet(width=4), strategies=())
    scores = [score.score_network(X, y, schema, t, nets=2, training=training).accuracies for t in (test, other)]
    sums = np.sum(scores, 0)
    np.testing.assert_allclose(sums, 100.0, rtol=1e-6, err_msg="A test label picks the net that is scored.")


def check_test_classes_by_name() -> None:
    """A test set whose classes stand in another order is refused."""
    other = dataclasses.replace(SCHEMA, classes=NAMES[::-1])
    try:
        score.check_test_set(SCHEMA, make_records(4, schema=other))
    except ValueError as error:
        said = str(error)
    else:
        raise AssertionError("A test set with other classes was accepted.")
    assert "ant, bee, cat" in said, "The error does not name the classes."
