"""DOS-KIP: each part is given its own releases and its share, and one set teaches networks and kernels."""

from dataclasses import replace

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import SCATTER, SCHEMA, toy_records

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.evaluation.krr import score_krr
from dpdistill.evaluation.score import score_network
from dpdistill.features.apply import encode_slices
from dpdistill.kernels.ridge import soft_labels
from dpdistill.ledger.run import RunLedger
from dpdistill.methods.class_means import ClassSumsQuery, LessMeansQuery
from dpdistill.methods.decoupled_kip import DecoupledKIP
from dpdistill.methods.dos import SignalMatch
from dpdistill.methods.dos_kip import DOSKIP, SetMatch
from dpdistill.methods.matching import EmbeddingQuery, PixelQuery, counts_of, signal_of
from dpdistill.methods.softmax import SoftmaxQuery
from dpdistill.networks.augment import partition_expand
from dpdistill.networks.network import ConvNet
from dpdistill.networks.training import Training
from dpdistill.private.noise import SeededEntropy
from dpdistill.query import Event, Release, Stage
from dpdistill.run.checkpoint import Store
from dpdistill.run.forecast import outlook

TOY, HELD_OUT = toy_records(240), toy_records(120, seed=8)
KEY = jax.random.key(0)
SMALL = contract.tiny("dos-kip", rounds=3, networks=4, per_class=2)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_the_classifier_has_its_share_of_the_budget(share):
    method = DOSKIP(share=share, rounds=60, networks=150, sampling_prob=0.1)
    classifier, *signals = method.plan()
    costs = [stage.rounds * (stage.sampling_prob * stage.weight) ** 2 for stage in (classifier, *signals)]
    assert classifier.rounds == 60
    assert costs[0] / sum(costs) == pytest.approx(share)
    assert costs[1] / (costs[1] + costs[2]) == pytest.approx(0.05)  # the pilot's share of what DOS has
    assert method.main_stage == 0


def test_the_plan_of_a_shipped_recipe_keeps_its_bits():
    """Stages are compared exactly, by `verify` and by ledgers."""
    assert DOSKIP(share=0.7, cells=4).plan()[0] == Stage(60, weight=0.1800205749557739)


@pytest.mark.parametrize("means", [0.02, 0.4])
def test_class_means_of_features_have_their_part_of_that_share(means):
    method = DOSKIP(share=0.7, rounds=60, means=means)
    plan = method.plan()
    costs = [stage.rounds * (stage.sampling_prob * stage.weight) ** 2 for stage in plan]
    assert [stage.rounds for stage in plan] == [1, 60, 1, 75]
    assert (costs[0] + costs[1]) / sum(costs) == pytest.approx(0.7)
    assert costs[0] / (costs[0] + costs[1]) == pytest.approx(means)
    assert method.main_stage == 1
    plain, shared = (outlook(one, Budget(1.0), SCHEMA).records for one in (replace(method, means=0.0), method))
    assert shared > plain


@pytest.mark.parametrize("means", [0.0, 0.1])
def test_each_part_is_given_its_own_releases(means):
    method = replace(SMALL, means=means)
    first = [ClassSumsQuery, *[LessMeansQuery] * 3] if means else [SoftmaxQuery] * 3
    rng, state, asked = np.random.default_rng(1), method.init(KEY, SCHEMA), []
    parts = {name: getattr(method, name).init(KEY, SCHEMA) for name in ("classifier", "signals")}
    for t in range(contract.rounds_of(method)):
        query, params = method.ask(state)
        asked.append(type(query))
        part, own = ("classifier", t) if t < len(first) else ("signals", t - len(first))
        value = rng.normal(size=contract.release_shape(query, params, SCHEMA))
        state = method.tell(state, Release(t, value, 1.0, Event(1.0)))
        parts[part] = getattr(method, part).tell(parts[part], Release(own, value, 1.0, Event(1.0)))
    assert asked == [*first, PixelQuery, *[EmbeddingQuery] * 4]
    for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(parts), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("stop", [1, 2, 5])
def test_a_run_with_class_means_that_stops_goes_on(stop, tmp_path):
    method, folder = replace(SMALL, means=0.2, taught=2, pictures=40), tmp_path / "run"
    with pytest.raises(contract.Stop):
        run.distill(TOY, method, Budget(150.0), run_dir=folder, progress=contract.stop_after(stop))
    paid = RunLedger.read(folder).events
    assert len(paid) == stop
    made = run.distill(TOY, method, Budget(150.0), run_dir=folder)
    events = RunLedger.read(folder).events
    assert len(events) == contract.rounds_of(method) == 1 + 3 + 1 + 4
    assert events[:stop] == paid
    state = Store(folder, RunLedger.read(folder).run_id).load(method.init(KEY, SCHEMA))[1]
    B, W = (state["classifier"][name] for name in ("B", "W"))
    decides = W - B @ (B.T @ W)
    np.testing.assert_allclose(
        made.distilled.classifier, decides - decides.mean(1, keepdims=True), rtol=1e-4, atol=1e-5
    )
    taught = jax.tree.leaves(state["signals"]["taught"])
    assert all(np.isfinite(leaf).all() and leaf.any() for leaf in taught)


class TestOneSet:
    @pytest.fixture(scope="class")
    @staticmethod
    def paid(tmp_path_factory):
        method = DOSKIP(
            kernel=SCATTER, rounds=20, networks=10, taught=5, pictures=1600, sampling_prob=1.0, width=8, steps=120
        )
        folder = tmp_path_factory.mktemp("paid") / "run"
        return folder, method, run.distill(TOY, method, Budget(150.0), run_dir=folder, entropy=SeededEntropy(1))

    @staticmethod
    def signals_lost(paid, X, y=None):
        """How far the class signals of a set are from what was released, as a share of the released."""
        folder, method, _ = paid
        like = method.init(KEY, SCHEMA)
        state = Store(folder, RunLedger.read(folder).run_id).load(like)[1]["signals"]
        dos, lost = method.signals, []
        known = dos.known(state)
        counts = counts_of(state["signals"][:, :, 0], dos.query(), 1.0, 1.0)
        sets = [X[y == c] for c in range(3)] if y is not None else np.split(X, 3)
        for t, signal in enumerate(state["signals"]):
            target, params = signal[:, 1:] / counts[:, None], dos.params(known, t)
            found = np.concatenate([signal_of(dos.query(), params, one, len(one)) for one in sets])
            lost.append(np.square(found - target).sum() / np.square(target).sum())
        return np.mean(lost)

    @pytest.mark.slow
    def test_teaches_networks_and_kernels(self, paid):
        made = paid[2].distilled
        assert score_krr(made.X, made.y, SCHEMA, HELD_OUT, kernel=SCATTER, ridge=1e-3).mean > 95.0
        training = Training(epochs=60, learning_rate=0.05, schedule="cosine", network=ConvNet(width=16), strategies=())
        for labels in (None, made.soft_labels):
            found = score_network(made.X, made.y, SCHEMA, HELD_OUT, nets=1, training=training, soft_labels=labels)
            assert found.mean > 95.0
        assert self.signals_lost(paid, made.X) < 0.1

    @pytest.mark.slow
    def test_the_weight_says_what_is_followed(self, paid):
        folder, method, result = paid
        alone = {weight: run.finish_again(folder, replace(method, weight=weight)).distilled for weight in (0.0, 1.0)}
        assert self.signals_lost(paid, alone[0.0].X) < self.signals_lost(paid, result.distilled.X)
        assert self.signals_lost(paid, alone[1.0].X) > 3 * self.signals_lost(paid, result.distilled.X)
        W = result.distilled.classifier

        def cosine(made):
            phi = encode_slices(SCATTER.encoder, made.X).astype(np.float64)
            A = phi @ phi.T + 1e-3 * np.square(phi).sum() / len(phi) * np.eye(len(phi))
            V = phi.T @ np.linalg.solve(A, np.eye(3)[made.y] - 1 / 3)
            return np.sum(V * W) / np.linalg.norm(V) / np.linalg.norm(W)

        assert cosine(alone[0.0]) < cosine(result.distilled) <= cosine(alone[1.0]) + 0.02

    def test_soft_labels_are_the_classifiers(self, paid):
        folder, method, result = paid
        made = result.distilled
        scores = encode_slices(SCATTER.encoder, made.X) @ made.classifier
        own = np.eye(3)[made.y] > 0
        above = scores[own] - np.where(own, -np.inf, scores).max(1)
        odds = np.exp(scores / (0.33 * above.mean()))
        agreed = scores.argmax(1) == made.y
        assert agreed.mean() > 0.9
        expected = np.where(agreed[:, None], odds / odds.sum(1, keepdims=True), np.eye(3)[made.y])
        np.testing.assert_allclose(made.soft_labels, expected, rtol=1e-4)
        turned = (made.y + 1) % 3  # no label is the classifier's
        np.testing.assert_array_equal(soft_labels(scores, turned, 0.33)[agreed], np.eye(3)[turned][agreed])
        hard = run.finish_again(folder, replace(method, softness=0.0, steps=1)).distilled
        assert hard.soft_labels is None

    def test_images_are_cut_by_default_where_tiles_are_large_enough(self, paid, monkeypatch):
        folder, method, result = paid
        assert method.expand == 0
        assert result.distilled.training is None
        monkeypatch.setattr("dpdistill.methods.tiles.TILE", 4)
        made = run.finish_again(folder, replace(method, steps=2)).distilled
        assert len(made.train_set[0]) == len(made.soft_labels) == 4 * len(made.X)

    @pytest.mark.slow
    def test_with_tiles_networks_and_kernels_learn_from_them(self, paid):
        folder, method, _ = paid
        made = run.finish_again(folder, replace(method, expand=2)).distilled
        tiles, y = made.train_set
        np.testing.assert_array_equal(tiles, partition_expand(made.X, 2))
        np.testing.assert_array_equal(y, np.repeat(made.y, 4))
        assert made.targets is None
        assert made.support_set[0] is tiles
        scores = encode_slices(SCATTER.encoder, tiles) @ made.classifier
        agreed = scores.argmax(1) == y
        np.testing.assert_array_equal(made.soft_labels[~agreed], np.eye(3)[y[~agreed]])
        np.testing.assert_array_equal(made.soft_labels[agreed].argmax(1), y[agreed])
        kept = made.soft_labels[agreed].max(1)
        assert 0.4 < kept.mean() < 0.999
        assert score_krr(*made.support_set, SCHEMA, HELD_OUT, kernel=SCATTER, ridge=1e-3).mean > 95.0
        training = Training(epochs=60, learning_rate=0.05, schedule="cosine", network=ConvNet(width=16), strategies=())
        found = score_network(tiles, y, SCHEMA, HELD_OUT, nets=1, training=training, soft_labels=made.soft_labels)
        assert found.mean > 90.0

    def test_a_held_gradient_is_computed_every_so_many_steps(self, paid, monkeypatch):
        folder, method, _ = paid
        asked, pull = [], DecoupledKIP.pull

        def counted(self, *args):
            towards = pull(self, *args)
            return lambda X, step: (asked.append(step), towards(X, step))[1]

        monkeypatch.setattr(DecoupledKIP, "pull", counted)
        made = run.finish_again(folder, replace(method, hold=4)).distilled
        assert asked == list(range(0, 120, 4))
        assert score_krr(made.X, made.y, SCHEMA, HELD_OUT, kernel=SCATTER, ridge=1e-3).mean > 95.0
        assert self.signals_lost(paid, made.X) < 0.1

    @pytest.mark.usefixtures("as_users")  # runs for longer than it compiles
    @pytest.mark.slow
    def test_a_generator_follows_both(self, paid):
        folder, method, result = paid
        W = result.distilled.classifier

        def found(**settings):
            again = replace(method, steps=1, generator_steps=150, **settings)
            X, y = run.finish_again(folder, again).distilled.generator.sample(90, 3)
            return np.mean((encode_slices(SCATTER.encoder, X) @ W).argmax(1) == y), self.signals_lost(paid, X, y)

        for weight in (0.0, 0.5):
            agreed, lost = found(weight=weight)
            assert agreed > 0.95
            assert lost < 0.02
        agreed, lost = found(weight=1.0)
        assert agreed > 0.9
        assert lost > 0.5

    @pytest.mark.slow
    def test_generated_images_are_pulled_by_both_parts(self):
        rng, signals = np.random.default_rng(5), DOSKIP(networks=2, width=8).signals
        d = signals.init(KEY, SCHEMA)["signals"].shape[2] - 1
        W = rng.normal(size=(encode_slices(SCATTER.encoder, np.zeros((1, *SCHEMA.shape), np.float32)).shape[1], 3))
        params = {
            "key": jax.random.key_data(KEY),
            "pilot": jnp.asarray(rng.uniform(-1, 1, (1, 3, *SCHEMA.shape)), jnp.float32),
            "targets": jnp.asarray(rng.normal(size=(2, 3, d)), jnp.float32),
            "turns": jnp.array([1, 0]),
            "spaces": [{}, {}],
            "classifier": jnp.asarray(W, jnp.float32),
        }
        X, y = jnp.asarray(rng.uniform(-1, 1, (3, 4, SCHEMA.dimension)), jnp.float32), np.repeat(np.arange(3), 4)
        match = SignalMatch(signals, SCHEMA.shape)

        def own(X):
            scores = SCATTER.encoder(X.reshape(-1, *SCHEMA.shape)) @ params["classifier"]
            return jax.nn.softmax(scores)[np.arange(12), y]

        def unit(gradient):
            return np.asarray(gradient) / np.linalg.norm(gradient)

        by_signal = [unit(match.gradient(params, X, t)) for t in (0, 1)]
        by_classifier = unit(jax.grad(lambda X: -jnp.sum(jnp.log(own(X))))(X)) * (1 - own(X).mean())
        expected = 0.7 * by_signal[0] + 0.3 * by_classifier
        both = SetMatch(match, SCATTER, 0.3, 2)
        np.testing.assert_allclose(both.gradient(params, X, 0), expected, atol=1e-5)
        np.testing.assert_allclose(both.gradient(params, X, 1), 0.7 * by_signal[1], atol=1e-6)
        np.testing.assert_allclose(SetMatch(match, SCATTER, 0.0, 1).gradient(params, X, 1), by_signal[1], atol=1e-6)
