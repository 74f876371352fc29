"""KIP, DP-KIP and decoupled KIP: their steps by hand, what they learn, and what they hand out."""

import dataclasses
import math
from dataclasses import replace

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chosen_tests import few
from contract import SCATTER, SCHEMA, NoNoise, make_curator, make_records, subset, toy_records
from contract.float32 import assert_close_float32
from scipy.stats import kstest

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.certificate.build import read_certificate
from dpdistill.errors import LedgerError
from dpdistill.evaluation.krr import score_krr
from dpdistill.evaluation.teacher import Teacher, score_classifier
from dpdistill.features.apply import encode_slices
from dpdistill.features.whitening import WhiteScatterNet
from dpdistill.folder.save import read_distilled
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.ridge import one_hot
from dpdistill.ledger.run import RunLedger
from dpdistill.methods import support
from dpdistill.methods.class_means import _remove_directions, common_directions
from dpdistill.methods.gradient_routes import route_of
from dpdistill.methods.kip_gradient import FCNTKGradient, FeatureGradient, KernelGradient
from dpdistill.methods.matching import labels
from dpdistill.methods.support import dual
from dpdistill.networks.augment import partition_expand
from dpdistill.private.noise import SeededEntropy
from dpdistill.query import Event, Release, Stage
from dpdistill.recipe.saved import changed_releases, recipe_of
from dpdistill.run.forecast import outlook
from dpdistill.run.non_private import NonPrivateCurator
from dpdistill.run.serialize import pack, unpack
from dpdistill.run.start import queries_of
from dpdistill.schema import Column, Schema, TableSchema

TOY, HELD_OUT = toy_records(240), toy_records(120, seed=8)
HUGE, RIDGE = Budget(150.0), 1e-3
KEY = jax.random.key(0)
SETTINGS = {
    "decoupled-kip": {"rounds": 3, "steps": 3, "probes": 0.5},
    "dp-kip": {"rounds": 3, "clip_norm": 1e-6, "ridge": 1e-3},
    "kip": {"rounds": 3, "sampling_prob": 0.5},
}


def tiny(name, **changes):
    """A kernel method in a setting that takes a second and clips every gradient."""
    return contract.tiny(name, **{**SETTINGS[name], **changes})


def accuracy(X, y, kernel, ridge, targets=None):
    """Of kernel ridge regression on records that were never seen, in percent."""
    return score_krr(X, y, SCHEMA, HELD_OUT, kernel=kernel, ridge=ridge, targets=targets).accuracies[0]


def whole_loss(kernel, X_s, Y_s, ridge, X, y):
    """sum_i || k_is (K_ss + ridge tr(K_ss) / m I)^-1 Y_s - y_i ||^2 / (2 classes), written out."""
    K_ss, K_ts = kernel(X_s, X_s), kernel(X, X_s)
    A = K_ss + ridge * jnp.trace(K_ss) / len(X_s) * jnp.eye(len(X_s))
    residuals = K_ts @ jnp.linalg.solve(A, Y_s) - (jax.nn.one_hot(y, 3) - 1 / 3)
    return jnp.sum(jnp.square(residuals)) / 6


def gradients_by_hand(kernel, images, targets, ridge, records):
    """Of the whole loss, with respect to the support set and to its targets, in double precision."""
    with jax.enable_x64(True):
        arrays = (jnp.asarray(a, jnp.float64) for a in (images, targets, records.schema.to_unit(records.X)))
        X_s, Y_s, X = arrays
        loss = jax.jit(lambda X_s, Y_s: whole_loss(kernel, X_s, Y_s, ridge, X, jnp.asarray(records.y)))
        return [np.asarray(g) for g in jax.grad(loss, (0, 1))(X_s, Y_s)]


def loss_of_set(made, method, records=HELD_OUT):
    with jax.enable_x64(True):
        Y_s = one_hot(made.y, 3, np.float64) if made.targets is None else made.targets.astype(np.float64)
        X = records.schema.to_unit(records.X).astype(np.float64)
        return float(whole_loss(method.kernel, made.X.astype(np.float64), Y_s, method.ridge, X, records.y))


def released(method, records, curator):
    """The first release, and the state it was asked from."""
    state = method.init(KEY, SCHEMA)
    return state, curator.release(0, *method.ask(state))


def near(found, expected, tolerance):
    assert np.linalg.norm(expected) > 0
    return np.linalg.norm(found - expected) <= tolerance * np.linalg.norm(expected)


class TestKIP:
    @pytest.fixture(scope="class")
    @staticmethod
    def made():
        fields = {"rounds": 40, "learning_rate": 0.05, "ridge": RIDGE}
        methods = {learn: tiny("kip", learn_labels=learn, **fields) for learn in (False, True)}
        return {k: (method, run.distill_without_privacy(TOY, method).distilled) for k, method in methods.items()}

    @pytest.mark.parametrize("learn_labels", [False, True])
    def test_it_learns_the_classes(self, made, learn_labels):
        method, distilled = made[learn_labels]
        start = dataclasses.replace(distilled, X=method.init(KEY, SCHEMA)["images"].X, targets=None)
        assert accuracy(start.X, start.y, method.kernel, method.ridge) < 60.0
        assert accuracy(distilled.X, distilled.y, method.kernel, method.ridge, distilled.targets) > 99.0
        assert loss_of_set(distilled, method) < 0.1 * loss_of_set(start, method)

    def test_targets_are_moved_only_on_request(self, made):
        assert made[False][1].targets is None
        targets = made[True][1].targets
        assert (targets.shape, targets.dtype) == ((6, 3), np.float32)
        assert 0.05 < np.abs(targets - one_hot(labels(3, 2), 3)).min(1).max() < 40 * 0.05
        assert not np.array_equal(made[True][1].X, made[False][1].X)

    @pytest.mark.parametrize("kernel", [FCNTK(), SCATTER], ids=["fc-ntk", "features"])
    def test_a_step_is_adams_on_the_gradient_of_the_whole_loss(self, kernel):
        method = tiny("kip", kernel=kernel, ridge=RIDGE, learning_rate=0.05, learn_labels=True)
        state, release = released(method, TOY, NonPrivateCurator(TOY, [1.0], 0))
        targets = one_hot(labels(3, 2), 3)
        by_image, by_target = gradients_by_hand(kernel, state["images"].X, targets, RIDGE, TOY)
        if kernel is not SCATTER:  # otherwise the release is the gradient by features
            assert near(release.value[:-18], by_image.ravel(), 1e-3)
        assert near(release.value[-18:], by_target.ravel(), 1e-3)
        after = method.tell(state, release)
        # Adam's first step is as long as the learning rate wherever there is a gradient.
        clear = np.abs(by_image) > 1e-2 * np.abs(by_image).max()
        expected = np.clip(state["images"].X - 0.05 * np.sign(by_image), -1, 1)
        np.testing.assert_allclose(after["images"].X[clear], expected[clear], atol=1e-5)
        np.testing.assert_allclose(after["targets"].X, targets - 0.05 * np.sign(by_target), atol=1e-5)
        assert clear.mean() > 0.5

    def test_targets_stay_unless_they_are_learned(self):
        method = tiny("kip", ridge=RIDGE)
        state, release = released(method, TOY, NonPrivateCurator(TOY, [1.0], 0))
        np.testing.assert_array_equal(method.tell(state, release)["targets"].X, one_hot(labels(3, 2), 3))

    def test_batches_are_samples_of_the_records(self):
        method = tiny("kip", ridge=RIDGE)
        _, whole = released(method, TOY, NonPrivateCurator(TOY, [1.0], 0))
        coins = np.random.default_rng((7, 0)).random(240) < 0.25
        _, part = released(method, TOY, NonPrivateCurator(TOY, [0.25], 7))
        _, expected = released(method, TOY, NonPrivateCurator(subset(TOY, coins), [1.0], 0))
        assert near(part.value, expected.value, 1e-5)  # other places, other low bits
        assert np.linalg.norm(part.value) < 0.5 * np.linalg.norm(whole.value)

    def test_it_has_no_private_form(self):
        with pytest.raises(ValueError, match="KIP has no private form"):
            run.distill(TOY, tiny("kip"))
        method = tiny("kip")
        with pytest.raises(Exception, match="Expected clip_norm=inf > 0 and finite"):
            released(method, TOY, make_curator(TOY))


class TestDPKIP:
    @pytest.mark.parametrize("kernel", [FCNTK(), SCATTER], ids=["fc-ntk", "features"])
    def test_with_balance_the_sizes_of_the_classes_come_first(self, kernel):
        method = tiny("dp-kip", kernel=kernel, balance=0.5, rounds=20, sampling_prob=0.1, count_share=0.2)
        counts, gradients = method.plan()
        assert (counts.rounds, counts.sampling_prob, gradients.rounds, gradients.sampling_prob) == (1, 1.0, 20, 0.1)
        # mu^2 of the counts over that of all rounds, where a sampled one costs (q / sigma)^2
        assert counts.weight**2 / (counts.weight**2 + 20 * 0.1**2) == pytest.approx(0.2)
        few = subset(TOY, np.flatnonzero((TOY.y != 1) | (np.arange(len(TOY)) < 60)))
        sizes = np.bincount(few.y)
        state = method.init(KEY, SCHEMA)
        release = make_curator(few, entropy=NoNoise()).release(0, *method.ask(state))
        state = method.tell(state, dataclasses.replace(release, stddev=0.5))
        np.testing.assert_allclose(state["weights"], np.sqrt(sizes.min() / sizes), rtol=1e-3)
        assert sizes.min() < 0.5 * sizes.max()
        query, params = method.ask(state)
        np.testing.assert_array_equal(params["weights"], state["weights"])
        assert type(query) is type(tiny("dp-kip", kernel=kernel).ask(tiny("dp-kip").init(KEY, SCHEMA))[0])

    def test_sizes_that_noise_brought_to_nothing_are_floored_by_the_noise(self):
        method = tiny("dp-kip", balance=1.0)
        state = method.tell(method.init(KEY, SCHEMA), Release(0, np.array([100.0, -7.0, 40.0]), 10.0, Event(1.0)))
        np.testing.assert_allclose(state["weights"], [0.1, 1.0, 0.25], rtol=1e-6)

    def test_more_support_records_than_the_kernel_takes_are_refused_before_the_sizes_are_paid(self):
        with pytest.raises(ValueError, match="Expected at most 1000 support records"):
            queries_of(tiny("dp-kip", per_class=400, balance=1.0), SCHEMA)
        many = Schema((4, 4, 1), (0.0, 1.0), tuple(map(str, range(100))))
        with pytest.raises(ValueError, match="fewer than 1000 support records in 100 classes"):
            queries_of(tiny("dp-kip", per_class=10, balance=1.0), many)

    @pytest.mark.parametrize("weight", [0.0, 1.5, np.nan])
    def test_weights_beyond_one_are_refused(self, weight):
        with pytest.raises(ValueError, match=r"Expected weights of 3 classes in \(0, 1\]"):
            support.feature_params(np.eye(3, 4), np.arange(3), 3, 1.0, np.array([1.0, weight, 1.0]))

    @pytest.mark.parametrize("balance", [0.0, 1.0])
    def test_a_state_keeps_its_types_through_all_rounds(self, balance):
        method = tiny("dp-kip", balance=balance)
        like = state = method.init(KEY, SCHEMA)
        for t in range(3):
            query, params = method.ask(state)
            state = method.tell(state, Release(t, np.ones(contract.release_shape(query, params)), 1.0, Event(1.0)))
            _, back = unpack(pack((np.asarray(t), state)), (np.zeros((), np.int64), like))
            np.testing.assert_array_equal(back["weights"], state["weights"])

    def test_balance_with_another_kernel_is_refused(self):
        with pytest.raises(ValueError, match="Expected kernel=fc-ntk or a kernel of features with balance"):
            tiny("dp-kip", kernel=contract.PixelKernel(), balance=1.0)

    def test_a_table_has_the_dense_kernel_only(self):
        schema = TableSchema((Column("x", "numeric", (0.0, 1.0)),), "y", ("a", "b"))
        with pytest.raises(ValueError, match="Expected kernel=fc-ntk for a table"):
            tiny("dp-kip", kernel=SCATTER).init(KEY, schema)
        assert tiny("dp-kip").init(KEY, schema)["images"].X.shape == (4, 1)

    @pytest.mark.parametrize("kernel", [FCNTK(), SCATTER], ids=["fc-ntk", "features"])
    def test_without_noise_and_clipping_a_release_is_kips(self, kernel):
        method = tiny("dp-kip", kernel=kernel)
        query, params = method.ask(method.init(KEY, SCHEMA))
        norms = np.linalg.norm(contract.contributions(query, params, contract.rows_of(query, TOY), TOY.y), axis=1)
        method = dataclasses.replace(method, clip_norm=2.0 * float(norms.max()))
        kip = tiny("kip", kernel=kernel, ridge=method.ridge)
        state, release = released(method, TOY, make_curator(TOY, entropy=NoNoise(), chunk=64))
        query, params = kip.ask(kip.init(KEY, SCHEMA) | {"images": state["images"]})
        plain = NonPrivateCurator(TOY, [1.0], 0).release(0, query, params).value[:-18]
        assert near(release.value, plain, 1e-3)
        assert np.linalg.norm(plain) > 0.1

    def test_the_query_follows_the_kernel(self):
        kinds = [type(route_of(k, 1.0, 1e-3).query(6)) for k in (FCNTK(2), SCATTER, contract.PixelKernel())]
        assert kinds == [FCNTKGradient, FeatureGradient, KernelGradient]

    def test_it_learns_the_classes(self):
        method = tiny("dp-kip", rounds=40, learning_rate=0.1)
        made = run.distill(TOY, method, HUGE, entropy=SeededEntropy(1)).distilled
        assert accuracy(made.X, made.y, method.kernel, method.ridge) > 99.0
        nothing = run.distill(subset(TOY, []), method, HUGE, entropy=SeededEntropy(1)).distilled
        assert accuracy(nothing.X, nothing.y, method.kernel, method.ridge) < 70.0

    def test_steps_do_not_depend_on_the_clip_norm_where_everything_is_clipped(self):
        """By powers of two, so that even the rounding is the same; of others, see the mutants."""
        sets = []
        for clip_norm in (2.0**-40, 2.0**-17):
            method = tiny("dp-kip", clip_norm=clip_norm)
            sets.append(run.distill(TOY, method, HUGE, entropy=SeededEntropy(5)).X)
        np.testing.assert_array_equal(*sets)
        assert np.abs(sets[0] - method.init(KEY, SCHEMA)["images"].X).max() > 0.05

    def test_corrupted_pixels_stay_where_they_were(self):
        method = tiny("dp-kip", corrupted=0.3, average=0.0)
        start = method.init(KEY, SCHEMA)
        X = run.distill(TOY, method, HUGE, entropy=SeededEntropy(1)).distilled.X
        stayed = start["images"].X == X
        fixed = ~start["kept"]
        assert abs(fixed.mean() - 0.3) < 0.08
        assert stayed[fixed].all()
        at_bounds = np.abs(start["images"].X) == 1.0
        assert not stayed[~fixed & ~at_bounds].any()
        assert tiny("dp-kip").init(KEY, SCHEMA)["kept"].all()

    def test_what_is_handed_out_is_an_average_of_the_steps(self):
        method, last = tiny("dp-kip", average=0.15), tiny("dp-kip", average=0.0)
        rng, states = np.random.default_rng(4), [method.init(KEY, SCHEMA)]
        for t in range(3):
            states.append(method.tell(states[-1], Release(t, rng.normal(size=384), 1.0, Event(1.0))))
        average = states[0]["images"].X
        for t, state in enumerate(states[1:]):
            decay = min(0.15, (1 + t) / (10 + t))
            average = decay * average + (1 - decay) * state["images"].X
        assert_close_float32(method.finish(states[-1], SCHEMA).X, average, terms=3 * 3)
        assert np.abs(average - states[-1]["images"].X).max() > 1e-3
        state = last.init(KEY, SCHEMA)
        state = last.tell(state, Release(0, rng.normal(size=384), 1.0, Event(1.0)))
        np.testing.assert_array_equal(last.finish(state, SCHEMA).X, state["images"].X)


class TestDecoupledKIP:
    @pytest.fixture(scope="class")
    @staticmethod
    def method():
        return tiny("decoupled-kip", rounds=20, steps=150)

    @pytest.fixture(scope="class")
    @staticmethod
    def paid(method, tmp_path_factory):
        folder = tmp_path_factory.mktemp("paid") / "run"
        return folder, run.distill(TOY, method, HUGE, run_dir=folder, entropy=SeededEntropy(1))

    @staticmethod
    def taught(made, method):
        """V = Phi_s^T (K_ss + ridge tr(K_ss) / m I)^-1 y_s of a set."""
        X, y = made.support_set
        Phi = encode_slices(method.kernel.encoder, X).astype(np.float64)
        A = Phi @ Phi.T + method.ridge * np.square(Phi).sum() / len(Phi) * np.eye(len(Phi))
        return Phi.T @ np.linalg.solve(A, one_hot(y, 3, np.float64))

    def check_it_teaches_its_classifier(self, made, method):
        V, W = self.taught(made, method), made.classifier
        assert W is not None
        assert np.sum(V * W) > 0.95 * np.linalg.norm(V) * np.linalg.norm(W)
        np.testing.assert_allclose(W.sum(1), 0.0, atol=1e-4)
        assert score_classifier(Teacher(W, method.kernel, SCHEMA), HELD_OUT).accuracies[0] > 95.0
        assert accuracy(*made.support_set, method.kernel, method.ridge) > 95.0
        phi = encode_slices(method.kernel.encoder, SCHEMA.to_unit(HELD_OUT.X))
        assert np.mean((phi @ V).argmax(1) == (phi @ W).argmax(1)) > 0.95

    def test_the_result_scores_pictures(self, paid, method):
        result, X = paid[1], np.asarray(HELD_OUT.X[:23])
        phi = encode_slices(method.kernel.encoder, SCHEMA.to_unit(X))
        found = result.teacher(X)
        np.testing.assert_allclose(found, phi @ result.distilled.classifier, atol=1e-4)  # its classes are centred
        assert np.mean(found.argmax(1) == HELD_OUT.y[:23]) > 0.9
        with pytest.raises(ValueError, match=r"Expected images of shape \('n', 8, 8, 1\), n >= 1; got \(8, 8, 1\)"):
            result.teacher(X[0])
        plain = run.distill(TOY, tiny("dp-kip"), HUGE)
        with pytest.raises(ValueError, match="The method dp-kip releases no classifier"):
            plain.teacher(X)

    def test_the_set_teaches_the_classifier_that_was_released(self, paid, method):
        self.check_it_teaches_its_classifier(paid[1].distilled, method)
        start = tiny("decoupled-kip", rounds=20, steps=1)
        made = run.finish_again(paid[0], start).distilled
        V, W = self.taught(made, start), paid[1].distilled.classifier
        np.testing.assert_array_equal(made.classifier, W)
        assert np.sum(V * W) < 0.8 * np.linalg.norm(V) * np.linalg.norm(W)

    def test_tiles_teach_the_classifier(self, paid, method):
        folder, result = paid
        made = run.finish_again(folder, dataclasses.replace(method, per_class=1, expand=2)).distilled
        assert made.X.shape == (3, 8, 8, 1)
        np.testing.assert_array_equal(made.training[0], partition_expand(made.X, 2))
        np.testing.assert_array_equal(made.training[1], np.repeat(made.y, 4))
        np.testing.assert_array_equal(made.classifier, result.distilled.classifier)
        assert accuracy(*made.support_set, method.kernel, method.ridge) > 95.0
        V, W = self.taught(made, method), made.classifier
        assert np.sum(V * W) > 0.9 * np.linalg.norm(V) * np.linalg.norm(W)

    def test_the_classifier_is_a_function_of_releases(self):
        method = tiny("decoupled-kip", rounds=3, steps=1, momentum=0.5, step=2.0)
        rng, state = np.random.default_rng(6), method.init(KEY, SCHEMA)
        releases = rng.normal(size=(3, *state["W"].shape))
        W, velocity = np.zeros_like(state["W"]), np.zeros_like(state["W"])
        for t, G in enumerate(releases):
            assert np.array_equal(method.ask(state)[1], state["W"])
            state = method.tell(state, Release(t, G, 0.1 + t, Event(1.0)))
            velocity = 0.5 * velocity + G / np.linalg.norm(G)
            size = min(2.0, 0.07 * np.linalg.norm(G) / (0.1 + t))
            W = W - 0.5 * size * (1 + math.cos(math.pi * t / 3)) * velocity
        made = method.finish(state, SCHEMA)
        np.testing.assert_allclose(made.classifier, W - W.mean(1, keepdims=True), rtol=1e-5, atol=1e-6)
        assert np.linalg.norm(made.classifier) > 1.0

    def test_class_means_are_paid_first_and_count_less(self):
        method = tiny("decoupled-kip", rounds=3, steps=1, means=0.1)
        first, gradients = method.plan()
        assert (first.rounds, gradients) == (1, Stage(3))
        assert first.weight**2 / (first.weight**2 + 3) == pytest.approx(0.1)  # of the sum of squared precisions
        rng, state = np.random.default_rng(6), method.init(KEY, SCHEMA)
        records = subset(TOY, range(30))
        phi = encode_slices(method.kernel.encoder, SCHEMA.to_unit(records.X)).astype(np.float64)
        sums = make_curator(records, entropy=NoNoise()).release(0, *method.ask(state))
        by_class = np.stack([phi[records.y == c].sum(0) for c in range(3)], 1)
        rounded = np.abs(phi).max(1) / 254  # features of a record in eight bits: off by half a code each
        np.testing.assert_allclose(sums.value, by_class, rtol=0, atol=rounded.sum())
        state = method.tell(state, replace(sums, value=by_class))
        h = phi.sum(0) / np.linalg.norm(phi.sum(0))
        apart = by_class - np.outer(h, h @ by_class)
        vectors, values, _ = np.linalg.svd(apart - apart.mean(1, keepdims=True))
        V = vectors[:, :2]  # three means lie in a plane
        assert values[2] < 1e-9 * values[1]
        A = np.eye(len(h)) - np.outer(h, h) - 0.5 * V @ V.T
        W = rng.normal(size=state["W"].shape)
        state = {**state, "W": W}
        G = make_curator(records, entropy=NoNoise()).release(0, *method.ask(state)).value
        psi = phi @ A
        psi /= np.linalg.norm(psi, axis=1, keepdims=True)
        residuals = np.asarray(jax.nn.softmax(psi @ W)) - np.eye(3)[records.y]
        norms = np.linalg.norm(residuals, axis=1)
        expected = psi.T @ (residuals * np.minimum(1, method.clip_norm / norms)[:, None])
        off = rounded @ np.minimum(norms, method.clip_norm)
        np.testing.assert_allclose(G, expected, rtol=0, atol=2 * off)
        assert off < 0.01 * np.linalg.norm(expected)
        np.testing.assert_allclose(method.classifier(state), A @ W - (A @ W).mean(1, keepdims=True), atol=1e-5)

    @pytest.mark.parametrize(("d", "classes", "rank"), [(9, 2, 1), (9, 4, 3), (9, 4, 1), (3, 5, 2), (4, 3, 0)])
    def test_common_directions_of_few_means(self, d, classes, rank):
        """Two classes, class means on a line, more classes than features, all means alike."""
        rng = np.random.default_rng(3)
        h = np.linalg.qr(rng.normal(size=(d, 1)))[0][:, 0]
        apart = rng.normal(size=(d, rank)) @ rng.normal(size=(rank, classes))
        apart -= apart.mean(1, keepdims=True)
        apart -= np.outer(h, h @ apart)
        sums = np.outer(h, rng.uniform(1, 2, classes)) + apart
        B = common_directions(sums)
        assert B.shape == (d, classes)
        A = np.eye(d) - B @ B.T
        found = np.sort(np.linalg.eigvalsh(A))
        expected = np.sort([0.0, *[0.5] * rank, *[1.0] * (d - rank - 1)])
        np.testing.assert_allclose(found, expected, atol=1e-9)
        np.testing.assert_allclose(A @ h, 0.0, atol=1e-9)
        np.testing.assert_allclose(A @ apart, apart / 2, atol=1e-9)
        assert not common_directions(np.zeros((d, classes))).any()

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_what_is_rounding_of_a_record_along_common_directions_stays_small(self, dtype):
        rng = np.random.default_rng(4)
        sums = rng.normal(size=(900, 3)) + 5
        B = common_directions(sums)
        h, apart = B[:, 0], rng.normal(size=900) / 30
        A = np.eye(900) - B @ B.T
        for x, expected in ((h, np.zeros(900)), (apart, A @ apart / np.linalg.norm(A @ apart))):
            with jax.enable_x64(dtype == np.float64):
                found = _remove_directions(jnp.asarray(B, dtype), jnp.asarray(x, dtype))
            assert found.dtype == dtype
            np.testing.assert_allclose(found, expected, atol=1e-4)

    def test_a_run_that_stops_after_the_class_sums_goes_on(self, tmp_path):
        records, method = subset(TOY, range(40)), tiny("decoupled-kip", rounds=3, means=0.2)
        with pytest.raises(contract.Stop):
            run.distill(records, method, HUGE, run_dir=tmp_path / "run", progress=contract.stop_after(1))
        paid = RunLedger.read(tmp_path / "run").events
        assert len(paid) == 1
        result = run.distill(records, method, HUGE, run_dir=tmp_path / "run")
        events = RunLedger.read(tmp_path / "run").events
        assert (len(events), events[0]) == (4, paid[0])
        assert (events[1].noise_multiplier / events[0].noise_multiplier) ** 2 == pytest.approx(3 * 0.2 / 0.8)
        again = run.finish_again(tmp_path / "run", method)
        np.testing.assert_array_equal(again.distilled.classifier, result.distilled.classifier)

    def test_the_outlook_is_that_of_the_gradients(self):
        plain, shared = (outlook(tiny("decoupled-kip", rounds=50, means=m), Budget(1.0), SCHEMA) for m in (0, 0.02))
        assert shared.records == pytest.approx(plain.records / math.sqrt(0.98), rel=1e-6)
        assert plain.records == pytest.approx(math.sqrt(plain.coordinates) * 3.7306, rel=1e-3)

    def test_a_recipe_of_before_a_field_fits_its_default(self):
        method = tiny("decoupled-kip", kernel=FeatureKernel(WhiteScatterNet()))
        recipe = recipe_of(method, 0)
        assert "pictures" not in recipe["fields"]["kernel"]["encoder"]
        del recipe["fields"]["means"]
        assert changed_releases(method, recipe) == []
        assert changed_releases(replace(method, means=0.1), recipe) == ["means"]

    def test_other_sets_from_the_same_releases_cost_nothing(self, paid, method, tmp_path):
        folder, result = paid
        before = RunLedger.read(folder)
        np.testing.assert_array_equal(run.finish_again(folder, method).X, result.X)
        changes = {"per_class": 1, "steps": 120, "learning_rate": 0.06, "probes": 0.0, "image_seed": 3, "ridge": 1e-2}
        method = dataclasses.replace(method, **changes)
        more = run.finish_again(folder, method, budget=HUGE)
        assert RunLedger.read(folder) == before
        assert (more.X.shape, more.epsilon) == ((3, 8, 8, 1), result.epsilon)
        np.testing.assert_array_equal(more.distilled.classifier, result.distilled.classifier)
        self.check_it_teaches_its_classifier(more.distilled, method)
        back = read_distilled(more.save(tmp_path / "shared"))
        np.testing.assert_array_equal(back.classifier, result.distilled.classifier)
        assert read_certificate(tmp_path / "shared")["recipe"]["fields"]["per_class"] == 1

    @pytest.mark.parametrize(
        "changes",
        [
            {"rounds": 21},
            {"clip_norm": 0.2},
            {"step": 1.0},
            {"momentum": 0.8},
            {"kernel": FeatureKernel(WhiteScatterNet())},
        ],
    )
    def test_paid_fields_are_refused(self, paid, method, changes):
        with pytest.raises(LedgerError, match=f"made with another {next(iter(changes))}: they do not fit"):
            run.finish_again(paid[0], dataclasses.replace(method, **changes))


class TestAll:
    @pytest.mark.parametrize("name", few(["decoupled-kip", "dp-kip", "kip"], "dp-kip"))
    def test_one_record_a_class(self, name):
        method, records = tiny(name, per_class=1, kernel=SCATTER), make_records(12)
        distill = run.distill if method.private else run.distill_without_privacy
        made = distill(records, method).distilled
        assert (made.X.shape, made.y.tolist()) == ((3, 8, 8, 1), [0, 1, 2])
        assert not np.array_equal(made.X[0], made.X[1])

    @pytest.mark.parametrize(
        ("name", "changes"),
        [
            ("decoupled-kip", {"rounds": 20, "steps": 150}),
            ("dp-kip", {"rounds": 40}),
            ("dp-kip", {"rounds": 40, "kernel": SCATTER}),
        ],
    )
    def test_without_privacy_they_learn_from_plain_sums(self, name, changes, tmp_path):
        method = tiny(name, **changes)
        result = run.distill_without_privacy(TOY, method)
        made = result.distilled
        assert accuracy(made.X, made.y, method.kernel, method.ridge) > 95.0
        assert (result.epsilon, result.noise) == (math.inf, None)
        folder = result.save(tmp_path / "shared")
        assert "infinite: no privacy guarantee" in (folder / "certificate.json").read_text()

    @pytest.mark.parametrize("name", contract.linear_queries())
    def test_a_plain_sum_is_that_of_all_known_records(self, name):
        query, params = contract.linear_queries()[name]
        records = make_records(20)
        value = NonPrivateCurator(records, [1.0], 0).release(0, query, params).value
        known = subset(records, records.y >= 0)
        rows = contract.rows_of(query, known)
        each = contract.contributions(query, params, rows, known.y)
        # Low bits of a feature differ between chunks, and in eight bits that may round it to the next code.
        assert near(value.ravel(), each.sum(0), 2.0**-10 if rows.dtype == np.int8 else 1e-5)
        assert 0 < len(known) < 20

    @pytest.mark.parametrize("sampling_prob", [1.0, 1e-9])
    def test_no_records_are_legal_without_privacy(self, sampling_prob):
        records = subset(TOY, []) if sampling_prob == 1.0 else TOY
        made = run.distill_without_privacy(records, tiny("kip", sampling_prob=sampling_prob)).distilled
        np.testing.assert_array_equal(made.X, tiny("kip").init(KEY, SCHEMA)["images"].X)


def test_a_start_is_noise_of_the_stated_deviation():
    whole = support.start_support(KEY, 3, 50, SCHEMA, 1.0)
    small = support.start_support(KEY, 3, 50, SCHEMA, 0.1)
    assert np.std(small) == pytest.approx(0.1, rel=0.03)
    assert_close_float32(np.clip(10 * small, -1, 1), whole, terms=3)
    assert kstest(10 * np.ravel(small), "norm").pvalue > 0.01
    assert (np.abs(whole) == 1.0).mean() == pytest.approx(0.317, abs=0.02)
    for name in ("dp-kip", "kip"):
        small, large = (tiny(name, start_noise=s).init(KEY, SCHEMA)["images"].X for s in (0.01, 0.1))
        np.testing.assert_allclose(10 * small, large, rtol=1e-5)
        assert large.std() == pytest.approx(0.1, abs=0.01)


class TestRidge:
    MESSAGE = r"K_ss \+ ridge\*I is not positive definite: raise ridge \(now 1e-30\)"

    def test_a_singular_matrix(self):
        with pytest.raises(ValueError, match=self.MESSAGE):
            dual(np.ones((4, 4)), np.arange(4) % 3, 3, 1e-30)
        alpha, inverse = dual(np.ones((4, 4)), np.arange(4) % 3, 3, 0.5)
        np.testing.assert_allclose(inverse @ (np.ones((4, 4)) + 0.5 * np.eye(4)), np.eye(4), atol=1e-12)
        np.testing.assert_allclose(alpha, inverse @ one_hot(np.arange(4) % 3, 3, np.float64), atol=1e-12)

    @pytest.mark.parametrize("name", few(["decoupled-kip", "dp-kip", "kip"], "dp-kip"))
    def test_more_support_records_than_features(self, name):
        """20 of each class and 48 features: without a ridge there is no inverse."""
        method = tiny(name, kernel=SCATTER, per_class=20, ridge=1e-30)
        distill = run.distill if method.private else run.distill_without_privacy
        with pytest.raises(ValueError, match=self.MESSAGE):
            distill(TOY, method)
