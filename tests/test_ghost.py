"""Linear queries of the kernel methods: no gradient is formed, and each is bounded, added and hidden as if it were."""

import dataclasses
import math
from fractions import Fraction

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import SCHEMA, fractions, make_records

from dpdistill.data.records import Records
from dpdistill.encode import whitening
from dpdistill.encode.mirror import Mirrored
from dpdistill.encode.scattering import ScatterNet
from dpdistill.encode.whitening import WhiteScatterNet
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import one_hot
from dpdistill.methods.kip_gradient import FCNTKGradient, FeatureGradient, PlainGradient
from dpdistill.methods.softmax import SoftmaxQuery
from dpdistill.methods.support import encode, fc_ntk_params, feature_params, labels, pull_back
from dpdistill.private import checks
from dpdistill.private.linear import release_linear, step_and_sensitivity
from dpdistill.query import LinearQuery
from dpdistill.schema import Schema

LINEAR, PLAIN = contract.linear_queries(), contract.plain_gradients()
GREY = Schema((28, 28, 1), (0.0, 255.0), tuple("0123456789"))
CLASSES, SUPPORT = 3, 6
Y_S = labels(CLASSES, 2)


def flat(X):
    return X.reshape(len(X), -1)


def with_clip(query, clip_norm):
    return dataclasses.replace(query, clip_norm=clip_norm)


def test_they_are_linear_queries_or_not():
    assert all(isinstance(query, LinearQuery) for query, _ in LINEAR.values())
    assert not any(isinstance(query, LinearQuery) for query, _ in PLAIN.values())


# Sensitivity.


class TestSensitivity:
    @pytest.mark.parametrize("clip_norm", [1e-6, 10.0])
    @pytest.mark.parametrize("name", LINEAR)
    def test_one_record_more_less_or_another(self, name, clip_norm):
        query, params = LINEAR[name]
        copies = contract.support_images()[[0, 3]].astype(np.float64)
        contract.check_linear_sensitivity(with_clip(query, clip_norm), params, make_records(6), [*copies, -copies[1]])

    @pytest.mark.parametrize("size", [0.0, 1e-40, 1e-20, 1e6, 1e30, 3e38])
    @pytest.mark.parametrize("name", LINEAR)
    def test_rows_that_no_record_has(self, name, size):
        """What the bounds of records keep away is clipped as well, and the others stay as they are."""
        query, params = LINEAR[name]
        rng, shape = np.random.default_rng(2), checks.check_query(query, params, SCHEMA)
        X = rng.normal(size=(4, *contract.rows_of(query, make_records(1)).shape[1:])).astype(np.float32)
        X[3] = np.sign(X[3]) * np.float32(size)
        step, Delta = step_and_sensitivity(query.clip_norm, math.prod(shape))
        rounding = step * math.sqrt(math.prod(shape))

        def total(*y):
            rows = [(X, np.array(y), 4)]
            return release_linear(query, params, rows, shape, CLASSES, 1.0, contract.NoNoise())[0].ravel()

        moved = total(0, 2, 1, 1) - total(0, 2, 1, -1)
        assert np.linalg.norm(moved) <= Delta
        (u,) = contract.contributions(query, params, X[3:], [1])
        expected = u * min(1.0, query.clip_norm / max(np.linalg.norm(u), 1e-300))
        assert np.linalg.norm(moved - expected) <= rounding + 1e-6 * query.clip_norm
        if size >= 1e6:
            assert np.linalg.norm(expected) == pytest.approx(query.clip_norm)

    @pytest.mark.parametrize("chunk", [4, 5])
    @pytest.mark.parametrize("name", PLAIN)
    def test_plain_gradients_are_clipped_by_the_curator(self, name, chunk):
        contract.check_add_remove(*PLAIN[name], make_records(7), chunk)
        contract.check_replace_one(*PLAIN[name], make_records(6), chunk)
        records = make_records(12)
        contract.check_rows_stay(*PLAIN[name], Records(records.X, np.arange(12) % 3, SCHEMA), chunk)
