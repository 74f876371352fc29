"""What a generator is trained to match."""

from __future__ import annotations

from unittest import mock

import jax
import numpy as np
from contract.data import SCHEMA
from contract.methods.small import tiny

from dpdistill import run
from dpdistill.methods.generator_method import GeneratorMethod
from dpdistill.storage.records import Records

MEAN_EMBEDDINGS = ("dp-merf", "dp-ntk")


def check_rare_classes_are_not_drowned() -> None:
    """The mean embedding of a class of equal records is as long as theirs, however few they are."""
    y = np.array([0] * 90 + [1] * 9 + [2])
    X = np.random.default_rng(0).uniform(-1, 1, (3, *SCHEMA.shape)).astype(np.float32)[y]
    for name in MEAN_EMBEDDINGS:
        with mock.patch.object(GeneratorMethod, "train", autospec=True, side_effect=_Caught) as train:
            try:
                run.distill_without_privacy(Records(X, y.astype(np.int64), SCHEMA), tiny(name))
            except _Caught:
                params = train.call_args.args[2]
            else:
                raise AssertionError(f"{name} trains no generator.")
        squares = [np.square(part).reshape(3, -1).sum(1) for part in jax.tree.leaves(params["targets"])]
        norms = np.sqrt(np.sum(squares, 0))
        assert np.abs(norms - 1).max() < 0.01, f"A class of few records is to be matched less: {norms}."


class _Caught(Exception):
    """In the place of a trained generator."""

    def __init__(self, *args: object) -> None:
        super().__init__("caught")
