"""Linear queries of the kernel methods: no gradient is formed, and each is bounded, added and hidden as if it were."""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chosen_tests import few
from contract import EXACT, LINEAR, PLAIN_KERNELS, SCHEMA, exact, make_records
from contract.methods.ghost import PlainGradient

from dpdistill.features import whitening
from dpdistill.features.apply import encode_slices, pull_back_slices
from dpdistill.features.mirror import Mirrored
from dpdistill.features.scattering import ScatterNet
from dpdistill.features.whitening import WhiteScatterNet
from dpdistill.kernels.empirical_ntk import EmpiricalNTK
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import one_hot
from dpdistill.methods import kip_gradient
from dpdistill.methods.class_means import ClassSumsQuery, LessMeansQuery
from dpdistill.methods.kip_gradient import CountQuery, FCNTKGradient, FeatureGradient, KernelGradient
from dpdistill.methods.matching import labels
from dpdistill.methods.softmax import SoftmaxQuery
from dpdistill.methods.support import fc_ntk_params, feature_params, kernel_params
from dpdistill.networks.network import MLP
from dpdistill.private import checks
from dpdistill.private.linear import release_linear, step_and_sensitivity, sum_limbs
from dpdistill.programs import clipping
from dpdistill.programs.checks import check_programs
from dpdistill.programs.jaxprs import compiles_float16
from dpdistill.programs.self_test import check_rows
from dpdistill.query import ByValue, LinearQuery
from dpdistill.schema import Schema

GREY = Schema((28, 28, 1), (0.0, 255.0), tuple("0123456789"))
UNIT = Schema((28, 28, 1), (-1.0, 1.0), contract.NAMES)
CLASSES, SUPPORT = 3, 6
Y_S = labels(CLASSES, 2)
WIDENED = [
    np.float32,
    np.int8,
    pytest.param(np.float16, marks=pytest.mark.skipif(not compiles_float16(), reason="XLA compiles no float16 here")),
]
"""Types of features: encoders return the first two."""


def flat(X):
    return X.reshape(len(X), -1)


def with_clip(query, clip_norm):
    return dataclasses.replace(query, clip_norm=clip_norm)


def test_they_are_linear_queries_or_not():
    assert all(isinstance(query, LinearQuery) for query, _ in contract.linear_queries().values())
    assert not any(isinstance(query, LinearQuery) for query, _ in contract.plain_gradients().values())


# Sensitivity.


class TestSensitivity:
    @pytest.mark.parametrize(
        ("name", "clip_norm"), [*((name, 1e-6) for name in LINEAR), ("softmax", 10.0), ("fc-ntk", 1.0)]
    )
    def test_one_record_more_less_or_another(self, name, clip_norm):
        query, params = contract.linear_queries()[name]
        copies = contract.support_images()[[0, 3]].astype(np.float64)
        contract.check_linear_sensitivity(with_clip(query, clip_norm), params, make_records(6), [*copies, -copies[1]])

    @pytest.mark.parametrize("size", [0.0, 1e-40, 1e-20, 1e6, 1e30, 3e38])
    @pytest.mark.parametrize("name", LINEAR)
    def test_rows_that_no_record_has(self, name, size):
        """What the bounds of records keep away is clipped as well, and the others stay as they are."""
        query, params = contract.linear_queries()[name]
        rng, shape = np.random.default_rng(2), checks.check_query(query, params, SCHEMA)
        X = rng.normal(size=(4, *contract.rows_of(query, make_records(1)).shape[1:])).astype(np.float32)
        X[3] = np.sign(X[3]) * np.float32(size)
        step, Delta = step_and_sensitivity(query.clip_norm, math.prod(shape))
        rounding = step * math.sqrt(math.prod(shape))

        def total(*y):
            rows = [(X, np.array(y))]
            limbs = sum_limbs(query, params, rows, shape, CLASSES)
            return release_linear(query, limbs, 1.0, contract.NoNoise())[0].ravel()

        moved = total(0, 2, 1, 1) - total(0, 2, 1, -1)
        assert np.linalg.norm(moved) <= Delta
        (u,) = contract.contributions(query, params, X[3:], [1])
        expected = u * min(1.0, query.clip_norm / max(np.linalg.norm(u), 1e-300))
        left_out = size > 1e38 and not moved.any()
        assert left_out or np.linalg.norm(moved - expected) <= rounding + 1e-6 * query.clip_norm
        if size >= 1e6:
            assert np.linalg.norm(expected) == pytest.approx(query.clip_norm)

    @pytest.mark.parametrize("name", PLAIN_KERNELS)
    def test_plain_gradients_are_clipped_by_the_curator(self, name):
        query, params = contract.plain_gradients()[name]
        contract.check_add_remove(query, params, make_records(7), 5)
        contract.check_replace_one(query, params, make_records(6), 5)
        contract.check_places(query, params, contract.known(12), 5)


class TestClassWeights:
    @pytest.mark.parametrize("clip_norm", [1e-9, 1e9])
    @pytest.mark.parametrize("name", ["features", "fc-ntk"])
    def test_a_record_counts_its_weight_after_the_clip(self, name, clip_norm):
        query, params = with_clip(contract.linear_queries()[name][0], clip_norm), contract.linear_queries()[name][1]
        X, weights = contract.rows_of(query, make_records(3)), np.array([1.0, 0.25, 0.01])
        shape = checks.check_query(query, params, SCHEMA)

        def share(k, **changes):
            rows = [(np.repeat(X[k : k + 1], 2, 0), np.array([k, -1]))]
            limbs = sum_limbs(query, {**params, **changes}, rows, shape, CLASSES)
            return release_linear(query, limbs, 1.0, contract.NoNoise())[0].ravel()

        step, _ = step_and_sensitivity(clip_norm, math.prod(shape))
        for k, weight in enumerate(weights):
            plain, weighted = share(k), share(k, weights=weights)
            if clip_norm < 1:
                assert np.linalg.norm(plain) == pytest.approx(clip_norm, rel=1e-3)
            assert np.abs(weighted - weight * plain).max() <= 2 * step

    @pytest.mark.parametrize("name", ["features", "fc-ntk"])
    def test_the_stated_norm_is_that_without_the_weight(self, name):
        query, params = contract.linear_queries()[name]
        X, y = contract.rows_of(query, make_records(6)), np.arange(6) % 3
        weighted = {**params, "weights": np.array([1.0, 0.5, 1e-3])}
        one, other = (contract.norms_of(query, p, contract.coefficients_of(query, p, X, y)) for p in (params, weighted))
        np.testing.assert_allclose(other, one, rtol=1e-9)

    def test_counts_are_exact(self):
        query, records = CountQuery(3), make_records(50)
        value = contract.make_curator(records, entropy=contract.NoNoise()).release(0, query, {}).value
        step, _ = step_and_sensitivity(1.0, 3)
        np.testing.assert_allclose(value, np.bincount(records.y[records.y >= 0], minlength=3), atol=step)


# The plain gradients.


def fc_ntk_case(kernel, ridge, X_s):
    """(linear query, its params, plain gradients of rows)."""
    plain = PlainGradient(1.0, kernel, ridge)
    expected = {"X_s": X_s, "Y_s": one_hot(Y_S, CLASSES, np.float64)}
    query = FCNTKGradient(1.0, kernel, ridge, SUPPORT)
    params = fc_ntk_params(kernel, X_s, Y_S, CLASSES, ridge)
    return query, params, lambda X, y: contract.contributions(plain, expected, X, y)


def feature_case(_, ridge, Phi_s):
    """The same with respect to features, whose kernel is the inner product."""
    plain = PlainGradient(1.0, FeatureKernel(flat), ridge)
    expected = {"X_s": Phi_s, "Y_s": one_hot(Y_S, CLASSES, np.float64)}
    query, params = FeatureGradient(1.0, None, ridge, SUPPORT), feature_params(Phi_s, Y_S, CLASSES, ridge)
    return query, params, lambda X, y: contract.contributions(plain, expected, X, y)


CASES = {"fc-ntk": (fc_ntk_case, FCNTK()), "depth 2": (fc_ntk_case, FCNTK(2)), "features": (feature_case, None)}


def rows_and_support(copies):
    """Rows of every kind, and a support set with or without records that are there three times."""
    rng = np.random.default_rng(7)
    X_s, X = rng.uniform(-1, 1, (SUPPORT, 20)), rng.uniform(-1, 1, (9, 20))
    if copies:
        X_s[1] = X_s[3] = X_s[0]
    X[0], X[1], X[2], X[4], X[6] = 0.0, X_s[0], -X_s[1], X_s[4], 1.0
    X[3] *= 1e8
    X[5] *= 1e-12
    return X, np.arange(9) % CLASSES, X_s


class TestPlainGradients:
    @pytest.mark.parametrize(
        ("case", "ridge", "rtol"),
        [
            ("fc-ntk", 1e-1, 1e-12),
            ("fc-ntk", 1e-6, 1e-8),
            ("depth 2", 1e-3, 1e-11),
            ("features", 1e-3, 1e-11),
            ("features", 1e-6, 1e-8),
        ],
    )
    def test_they_are_the_gradients_of_the_loss(self, case, ridge, rtol):
        X, y, X_s = rows_and_support(copies=False)
        build, kernel = CASES[case]
        query, params, expected = build(kernel, ridge, X_s)
        contract.check_linear_is_plain(query, params, X, y, expected(X, y), rtol, 1e-4)

    @pytest.mark.parametrize(
        ("case", "ridge", "rtol"),
        [("fc-ntk", 1e-6, 1e-5), ("depth 2", 1e-3, 1e-8), ("features", 1e-3, 1e-8), ("features", 1e-6, 1e-5)],
    )
    def test_records_that_are_there_three_times(self, case, ridge, rtol):
        """Under other labels, so that their dual weights are as large as the inverse of the ridge.

        Gradients are then small differences of large terms; a norm may be stated as 2^-10 of the terms.
        """
        X, y, X_s = rows_and_support(copies=True)
        build, kernel = CASES[case]
        query, params, expected = build(kernel, ridge, X_s)
        contract.check_linear_is_plain(query, params, X, y, expected(X, y), rtol, 1e5)

    @pytest.mark.parametrize(
        "kernel",
        [FCNTK(), contract.PixelKernel(), EmpiricalNTK(MLP(widths=(9, 7)), CLASSES, chunk=4)],
        ids=["fc-ntk", "pixels", "empirical"],
    )
    def test_of_any_kernel_they_need_no_pass_through_the_support_set(self, kernel):
        X, y, X_s = rows_and_support(copies=False)
        X, X_s = (A[[0, 1, 2, 4, 6] if len(A) > SUPPORT else slice(None)].reshape(-1, 4, 5, 1) for A in (X, X_s))
        found = KernelGradient(1.0, kernel, 0.1), kernel_params(kernel, np.float32(X_s), Y_S, CLASSES, 0.1)
        plain = PlainGradient(1.0, kernel, 0.1), {"X_s": X_s, "Y_s": one_hot(Y_S, CLASSES, np.float64)}
        gradients, expected = (contract.contributions(*one, X, y[: len(X)]) for one in (found, plain))
        np.testing.assert_allclose(gradients, expected, rtol=0, atol=1e-3 * np.abs(expected).max())
        assert np.abs(expected).max(1)[1:].all()

    def test_the_classifiers_gradient_is_that_of_the_logistic_loss(self):
        X, y, _ = rows_and_support(copies=False)
        W = 3.0 * np.random.default_rng(8).normal(size=(20, CLASSES))

        def loss(W, x, label):
            return -jax.nn.log_softmax(x @ W)[label]

        with jax.enable_x64(True):
            expected = np.stack([np.ravel(jax.grad(loss)(jnp.asarray(W), x, k)) for x, k in zip(X, y, strict=True)])
        contract.check_linear_is_plain(SoftmaxQuery(1.0, CLASSES, None), W, X, y, expected, 1e-12, 2e-6)

    @pytest.mark.parametrize("dtype", WIDENED)
    @pytest.mark.parametrize("d", [1, 511, 512, 513, 1024, 1300])
    def test_the_classifiers_sum_is_that_of_all_columns(self, d, dtype):
        rng = np.random.default_rng(d)
        scale = 20 if dtype == np.int8 else 1
        X = (scale * rng.normal(size=(128, d))).astype(dtype)
        residuals, w = rng.normal(size=(128, CLASSES)).astype(np.float32), rng.uniform(size=128)
        with jax.enable_x64(True):
            found = np.asarray(SoftmaxQuery(1.0, CLASSES, None).weighted_sum(None, (X, residuals), w))
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, X.astype(np.float64).T @ (w[:, None] * residuals), rtol=0, atol=1e-12 * scale)

    @pytest.mark.parametrize("d", [512, 1100])
    def test_the_classifiers_sum_is_a_linear_query(self, d):
        params, schema = np.zeros((d, CLASSES)), Schema((d, 1, 1), (-1.0, 1.0), contract.NAMES)
        assert check_programs(SoftmaxQuery(1.0, CLASSES, flat), params, schema, 128) == (d, CLASSES)

    def test_through_the_encoder_it_is_the_gradient_by_pixels(self):
        """After the chain rule; in the float32 of the encoder."""
        query, params = contract.linear_queries()["features"]
        images, records = contract.support_images(), make_records(5)
        X, y = records.schema.to_unit(records.X), np.arange(5) % CLASSES
        by_feature = contract.contributions(query, params, contract.rows_of(query, records), y).sum(0)
        found = pull_back_slices(query.encoder, images, by_feature.reshape(SUPPORT, -1))

        def loss(images):
            alpha = np.asarray(params["alpha"], np.float32)
            K_ss, K_ts = contract.SCATTER(images, images), contract.SCATTER(jnp.asarray(X), images)
            A = K_ss + query.ridge * jnp.trace(K_ss) / SUPPORT * jnp.eye(SUPPORT)
            alpha = jnp.linalg.solve(A, one_hot(Y_S, CLASSES))
            return jnp.sum(jnp.square(K_ts @ alpha - one_hot(y, CLASSES))) / (2 * CLASSES)

        expected = np.asarray(jax.jit(jax.grad(loss))(images))
        assert np.linalg.norm(found - expected) < 1e-3 * np.linalg.norm(expected)
        assert np.linalg.norm(expected) > 1e-2
        np.testing.assert_array_equal(params["Phi_s"], encode_slices(query.encoder, images))

    def test_too_many_support_records_are_refused(self):
        with pytest.raises(ValueError, match="Expected at most 1000 support records with this kernel; got 1001"):
            FCNTKGradient(1.0, FCNTK(), 1e-3, 1001)

    def test_more_terms_than_the_proofs_cover_are_refused(self):
        y = np.arange(2)
        with pytest.raises(ValueError, match=r"Expected 2 \* 2 support records \+ features <= 1000000; got 999997"):
            feature_params(np.zeros((2, 999_997), np.float32), y, 2, 1.0)
        with pytest.raises(ValueError, match="Expected fewer of 2 support records, 999961 pixels and 2 classes"):
            fc_ntk_params(FCNTK(), np.ones((2, 999_961), np.float32), y, 2, 1.0)
        assert feature_params(np.eye(2, 999_996, dtype=np.float32), y, 2, 1.0)["alpha"].shape == (2, 2)


# Rows stay.


def full_size(name):
    """A query with the numbers of a real run: 28 x 28 pixels, 3,969 features, 100 support records."""
    rng, y = np.random.default_rng(9), labels(10, 10)
    if name == "softmax":
        return SoftmaxQuery(0.1, 10, None), rng.normal(size=(3969, 10))
    if name == "class sums":
        return ClassSumsQuery(1.0, 10, None), np.zeros(0)
    if name == "softmax less means":
        return LessMeansQuery(0.1, 10, None), {name: rng.normal(size=(3969, 10)) for name in "WB"}
    if name == "features":
        Phi_s = np.abs(rng.normal(size=(100, 3969))) / 63.0
        return FeatureGradient(1e-6, None, 1e-3, 100), feature_params(Phi_s, y, 10, 1e-3)
    X_s = np.clip(rng.normal(size=(100, 784)), -1, 1)
    return FCNTKGradient(1e-6, FCNTK(), 1e-3, 100), fc_ntk_params(FCNTK(), X_s, y, 10, 1e-3)


class TestRowsStandAlone:
    @pytest.mark.parametrize("size", few([128, 100, 16], 16))
    @pytest.mark.parametrize("name", ["softmax", "class sums", "softmax less means", "features", "fc-ntk"])
    def test_at_full_size(self, name, size):
        query, params = full_size(name)
        rows: Any = SimpleNamespace(shape=(784 if name == "fc-ntk" else 3969,), classes=range(10))
        check_rows(query, params, rows, size)

    @pytest.mark.parametrize("name", LINEAR)
    def test_of_small_queries(self, name):
        check_rows(*contract.linear_queries()[name], contract.SCHEMA, 4)

    @pytest.mark.parametrize("kind", [lambda net: net, Mirrored])
    def test_features(self, kind):
        contract.check_features(kind(ScatterNet(groups=27, normalise=True)), UNIT, 32, 40)

    def test_whitened_features(self, monkeypatch):
        monkeypatch.setattr(whitening, "pictures_for", lambda shape: 50)
        contract.check_features(WhiteScatterNet(strength=0.987), UNIT, 32, 40)


# Exact arithmetic.


def softmax_share(query, params, phi, residuals):
    return np.outer(phi, residuals)


def feature_share(query, params, phi, a, beta):
    Phi, m = exact(params["Phi_s"]), len(params["Phi_s"])
    S = np.outer(beta, a) + np.outer(a, beta) + 2 * EXACT.mpf(query.ridge) / m * (beta @ a) * exact(np.eye(m))
    return (np.outer(a, phi) - S @ Phi) / params["alpha"].shape[1]


def fc_ntk_share(query, params, x, r, beta, c, own):
    a = exact(params["alpha"]) @ r
    D = -(np.outer(beta, a) + np.outer(a, beta)) * exact(params["k1"]) + np.diag(own)
    return (D @ exact(params["X_s"]) + np.outer(c, x)) / (len(x) * params["alpha"].shape[1])


SHARES = {
    **{kind: softmax_share for kind in (SoftmaxQuery, ClassSumsQuery, LessMeansQuery)},
    **{FeatureGradient: feature_share, FCNTKGradient: fc_ntk_share},
}


def shares(query, params, coefficients):
    """The contributions that coefficients stand for, in exact arithmetic."""
    if not isinstance(query, SoftmaxQuery):
        coefficients = coefficients[:-1]  # the class's weight is in the others
    rows = zip(*map(exact, coefficients), strict=True)
    return [SHARES[type(query)](query, params, *row) for row in rows]


class TestExactArithmetic:
    @pytest.mark.parametrize("name", LINEAR)
    def test_of_records(self, name):
        query, params = contract.linear_queries()[name]
        X, y = contract.rows_of(query, make_records(4)), np.arange(4) % 3
        coefficients = contract.coefficients_of(query, params, X, y)
        formed = shares(query, params, coefficients)
        assert contract.check_error_bound(query, params, coefficients, formed) < 1e-2
        plain = contract.contributions(query, params, X, y)
        off = np.linalg.norm(np.stack(formed).reshape(4, -1).astype(float) - plain, axis=1)
        assert (off <= (1e-6 if name.startswith("softmax") else 1e-10) * np.linalg.norm(plain, axis=1)).all()

    @pytest.mark.parametrize(("case", "ridge"), [("fc-ntk", 1e-6), ("depth 2", 1e-3), ("features", 1e-6)])
    def test_of_badly_conditioned_support_sets(self, case, ridge):
        X, y, X_s = rows_and_support(copies=True)
        build, kernel = CASES[case]
        query, params, _ = build(kernel, ridge, X_s)
        with jax.enable_x64(True):
            ready = jax.tree.map(jnp.asarray, params)
            found = jax.vmap(query.coefficients, (None, 0, 0))(ready, jnp.asarray(X), jnp.asarray(y))
            coefficients = jax.tree.map(np.asarray, found)
        assert contract.check_error_bound(query, params, coefficients, shares(query, params, coefficients)) < 1e-2

    @pytest.mark.parametrize("dtype", WIDENED)
    def test_of_more_columns_than_are_widened_at_once(self, dtype):
        rng, query = np.random.default_rng(4), SoftmaxQuery(0.1, CLASSES, None)
        X, residuals = (30 * rng.normal(size=(4, 1100))).astype(dtype), rng.normal(size=(4, CLASSES)).astype(np.float32)
        formed = shares(query, None, (X, residuals))
        assert contract.check_error_bound(query, None, (X, residuals), formed) < 1e-2

    def test_of_features_that_cancel(self):
        """a phi^T is S Phi_s but for rounding: nothing of the terms is left, and weights are 2^10 C / terms."""
        rng, ridge = np.random.default_rng(3), 1e-30
        params = {"Phi_s": rng.normal(size=(4, 12)), "alpha": rng.normal(size=(4, CLASSES)), "inverse": np.eye(4)}
        a, t = 1e6 * rng.normal(size=(16, 4)), rng.normal(size=(16, 1))
        coefficients = 2 * t * (a @ params["Phi_s"]), a, t * a, np.ones(16)
        query = FeatureGradient(1.0, None, ridge, 4)
        formed = shares(query, params, coefficients)
        terms = np.linalg.norm(a, axis=1) * np.linalg.norm(coefficients[0], axis=1) / CLASSES
        assert (
            max(EXACT.sqrt(contract.squared(share)) / size for share, size in zip(formed, terms, strict=True)) < 1e-14
        )
        assert 1e-6 < contract.check_error_bound(query, params, coefficients, formed) < 1

    def test_of_pixels_that_cancel(self):
        """own_s x_s is -c_s x but for the last bits."""
        query, params = contract.linear_queries()["fc-ntk"]
        rng, n = np.random.default_rng(3), 12
        at, c = np.arange(n) % SUPPORT, np.zeros((n, SUPPORT))
        c[np.arange(n), at] = 1e6 * rng.normal(size=n)
        nothing = np.zeros((n, CLASSES)), np.zeros((n, SUPPORT))
        coefficients = params["X_s"][at], *nothing, c, -c * (1 + 2.0**-50), np.ones(n)
        formed = shares(query, params, coefficients)
        assert 1e-6 < contract.check_error_bound(query, params, coefficients, formed) < 1


def test_a_form_that_fits_no_memory_is_refused():
    X = np.zeros((1000, 4, 4, 1), np.float32)
    with pytest.raises(ValueError, match="fewer than 1000 support records in 100 classes"):
        fc_ntk_params(FCNTK(), X, np.repeat(np.arange(100), 10), 100, 1e-3)
    assert kip_gradient.form_bytes(1000, 10) < kip_gradient.MOST_BYTES


def test_plain_numbers_among_the_params_do_not_narrow():
    """A Python float beside float32 would round in float32, where the checks count on float64."""
    with jax.enable_x64(True):
        (kept,) = jax.tree.leaves(clipping.prepared(ByValue(CountQuery(3)), {"scale": 0.1}))
        product = kept * np.float32(1 / 3)
    assert float(product) == 0.1 * float(np.float32(1 / 3))
