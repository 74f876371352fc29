"""The distribution-matching methods: values on data that tell; releases that are used again; what fields may hold."""

import dataclasses
import math
import re
from typing import Literal
from unittest import mock

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import SCHEMA, Stop, make_records, stop_after, subset, tiny, toy_records
from contract.float32 import assert_close_float32, float32_tolerance
from PIL import Image

import dpdistill
from dpdistill import run
from dpdistill.accounting.schedule import Budget, Schedule
from dpdistill.certificate import build
from dpdistill.errors import LedgerError
from dpdistill.folder.save import read_distilled
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.ledger.run import RunLedger
from dpdistill.method import Method
from dpdistill.methods import LDPDC, METHODS
from dpdistill.methods.descent import Descent
from dpdistill.methods.dos import SignalMatch
from dpdistill.networks.augment import mosaic
from dpdistill.private.noise import SeededEntropy
from dpdistill.private.sampling import poisson_coins
from dpdistill.query import Event, Release
from dpdistill.recipe.fields import ORIGINS, release_field
from dpdistill.recipe.methods import RECIPES
from dpdistill.recipe.rules import rules_of
from dpdistill.run import checkpoint as stores

RECORDS = make_records(40)
BUDGET = Budget(5.0)


class TestFinishAgain:
    @pytest.fixture(scope="class")
    @staticmethod
    def paid(tmp_path_factory):
        folder = tmp_path_factory.mktemp("paid") / "run"
        return folder, run.distill(RECORDS, tiny("dos"), BUDGET, run_dir=folder, entropy=SeededEntropy(3))

    def test_it_gives_the_same_and_other_sets_at_no_cost(self, paid):
        folder, result = paid
        before = RunLedger.read(folder)
        np.testing.assert_array_equal(run.finish_again(folder, tiny("dos")).X, result.X)
        more = run.finish_again(folder, tiny("dos", per_class=3, image_seed=4), budget=BUDGET)
        assert more.X.shape == (9, 8, 8, 1)
        assert more.epsilon == result.epsilon
        assert more.noise == result.noise
        assert more.recipe["fields"]["per_class"] == 3
        assert RunLedger.read(folder) == before

    def test_tiles_are_saved_beside_the_set(self, paid, tmp_path):
        made = run.finish_again(paid[0], tiny("dos", expand=2))
        folder = made.save(tmp_path / "shared")
        back = read_distilled(folder)
        words = "Models are trained on enlarged tiles of the images, in `training.npz` and in the 8-bit images."
        assert words in (folder / "README.md").read_text(encoding="utf-8")
        assert "Models are trained on tiles of these images, in" in (folder / "report.html").read_text(encoding="utf-8")
        plain = run.finish_again(paid[0], tiny("dos")).save(tmp_path / "plain")
        assert "tiles" not in (plain / "README.md").read_text(encoding="utf-8")
        X, y, training, expanded = back.X, back.y, back.training, made.distilled.training
        assert training is not None
        assert expanded is not None
        assert (X.shape, training[0].shape) == ((6, 8, 8, 1), (24, 8, 8, 1))
        np.testing.assert_array_equal(training[1], np.repeat(y, 4))
        assert_close_float32(training[0], expanded[0], terms=12, scale=1.0)
        assert back.train_set is back.support_set is training
        raw, classes = made.train_set
        np.testing.assert_allclose(raw, made.distilled.schema.from_unit(training[0]), atol=1e-4)
        np.testing.assert_array_equal(classes, training[1])
        pictures = sorted((folder / "images").rglob("*.png"))
        shown = np.stack([np.asarray(Image.open(path)) for path in pictures])
        half = 1 / 255 + float32_tolerance(4)  # of a step of eight bits
        np.testing.assert_allclose(shown / 127.5 - 1, np.clip(training[0][..., 0], -1, 1), rtol=0, atol=half)
        assert len(list((plain / "images").rglob("*.png"))) == 6

    def test_images_start_from_tiles_of_the_pilots_means(self, paid):
        folder, _ = paid
        still = tiny("dos", expand=2, steps=1, learning_rate=1e-9, start_noise=1e-9)
        made = run.finish_again(folder, still).distilled
        plain = run.finish_again(folder, tiny("dos", steps=1, learning_rate=1e-9, start_noise=1e-9)).distilled
        np.testing.assert_allclose(made.X, mosaic(jnp.repeat(plain.X[:, None], 4, 1), 2), atol=1e-5)
        assert np.abs(made.X - plain.X).max() > 0.1

    @pytest.mark.parametrize(
        ("changes", "named"),
        [
            ({"networks": 4}, "networks"),
            ({"width": 3, "clip_norm": 2.0}, "width, clip_norm"),
            ({"sampling_prob": 0.5, "count_floor": 2.0}, "sampling_prob, count_floor"),
            ({"strategies": ("crop",)}, "strategies"),
            ({"pilot_share": 0.1}, "pilot_share"),
        ],
    )
    def test_paid_fields_are_refused(self, paid, changes, named):
        with pytest.raises(LedgerError, match=f"made with another {named}: they do not fit"):
            run.finish_again(paid[0], tiny("dos", **changes))

    def test_another_method_or_budget_is_refused(self, paid):
        with pytest.raises(LedgerError, match="made with another method"):
            run.finish_again(paid[0], tiny("ldpdc"))
        with pytest.raises(LedgerError, match="paid with another budget"):
            run.finish_again(paid[0], tiny("dos"), budget=Budget(6.0))

    def test_a_run_that_is_not_complete_is_refused(self, tmp_path):
        with pytest.raises(Stop):
            run.distill(RECORDS, tiny("dos"), BUDGET, run_dir=tmp_path, progress=stop_after(2))
        with pytest.raises(LedgerError, match="This run is not complete"):
            run.finish_again(tmp_path, tiny("dos"))


# Values.

TOY = toy_records(240)
HUGE = Budget(150.0)


def matches(X, y):
    """Correlation of the set's class means with the true ones, without what all classes share: (classes, classes)."""
    true = contract.class_means(TOY).reshape(3, -1)
    made = np.stack([X[y == c].mean(0).ravel() for c in range(3)])
    true, made = true - true.mean(0), made - made.mean(0)
    return np.corrcoef(made, true)[:3, 3:]


def check_classes_are_learned(result):
    correlation = matches(result.distilled.X, result.y)
    assert np.diag(correlation).min() > 0.5
    assert (correlation - 2 * np.diag(np.diag(correlation))).max() < np.diag(correlation).min()


class TestValues:
    def test_ldpdc_of_all_records_is_the_class_means(self):
        result = run.distill(TOY, tiny("ldpdc", sampling_prob=1.0), HUGE, entropy=SeededEntropy(1))
        means = contract.class_means(TOY)
        np.testing.assert_allclose(result.distilled.X, np.repeat(means, 2, 0), atol=0.06)
        assert abs(result.distilled.X - np.repeat(means[[1, 2, 0]], 2, 0)).max() > 1.0

    def test_ldpdc_is_the_means_of_poisson_subsets(self):
        method, seed = tiny("ldpdc", per_class=3, sampling_prob=0.3), 6
        schedule = Schedule(method.plan(), (contract.NOISE,), Budget(1.0))
        asked = contract.make_curator(TOY, schedule, contract.OnlyCoins(240, seed))
        state = run.run_rounds(method, asked, stores.Store(None), 3, 0, SCHEMA, lambda *said: None)
        X = method.finish(state, SCHEMA).X.reshape(3, 3, 8, 8, 1)
        stream = SeededEntropy(seed)
        stream.bytes(2 * 240)  # the places of the records are drawn once, before any coin
        coins = [poisson_coins(240, 0.3, stream) for _ in range(3)]
        for c in range(3):
            size = np.mean([np.sum(heads & (TOY.y == c)) for heads in coins])
            for j, heads in enumerate(coins):
                expected = TOY.X[heads & (TOY.y == c)].sum(0) / size
                np.testing.assert_allclose(X[c, j], np.clip(expected, -1, 1), atol=2e-3)

    def test_ldpdc_floors_a_count_that_noise_brought_to_nothing(self):
        method = tiny("ldpdc", count_floor=7.0, sampling_prob=0.5)
        value = np.full((3, 65), 14.0)
        value[:, 0] = -5.0
        state = method.init(jax.random.key(0), SCHEMA)
        for t in range(2):
            state = method.tell(state, Release(t, value / 10, 1.0, Event(1.0)))
        np.testing.assert_allclose(method.finish(state, SCHEMA).X, 1.4 / (0.5 * 7.0), rtol=1e-6)

    def test_dos_learns_the_classes_from_its_signals(self):
        # Without a pilot images start from noise; releases of no record at all teach them nothing.
        method = tiny("dos", networks=6, width=8, steps=120, learning_rate=0.1, average=0.9, pilot_share=0.0)
        check_classes_are_learned(run.distill(TOY, method, HUGE, entropy=SeededEntropy(1)))
        nothing = run.distill(subset(TOY, []), method, HUGE, entropy=SeededEntropy(1))
        assert np.diag(matches(nothing.distilled.X, nothing.y)).min() < 0.5

    @pytest.mark.usefixtures("as_users")  # runs for longer than it compiles
    @pytest.mark.slow
    def test_a_generator_of_dos_learns_the_classes(self):
        method = tiny("dos", networks=6, width=8, generator_steps=400)
        made = run.distill(TOY, method, HUGE, entropy=SeededEntropy(1)).distilled
        X, y = made.generator.sample(90, 3)
        np.testing.assert_allclose(made.generator.class_shares, 1 / 3, atol=0.01)
        correlation = matches(X, y)
        assert np.diag(correlation).min() > 0.7
        assert (correlation - 2 * np.diag(np.diag(correlation))).max() < np.diag(correlation).min()
        assert len(np.unique(X.reshape(90, -1), axis=0)) == 90
        plain = dataclasses.replace(method, generator_steps=0)
        assert run.distill(TOY, plain, HUGE, entropy=SeededEntropy(1)).distilled.generator is None

    @pytest.mark.slow
    def test_generated_images_are_pulled_class_by_class(self, monkeypatch):
        method, rng = tiny("dos", networks=2, width=8), np.random.default_rng(4)
        d = method.init(jax.random.key(0), SCHEMA)["signals"].shape[2] - 1
        params = {
            "key": jax.random.key_data(jax.random.key(0)),
            "pilot": jnp.asarray(rng.uniform(-1, 1, (1, 3, *SCHEMA.shape)), jnp.float32),
            "targets": jnp.asarray(rng.normal(size=(2, 3, d)), jnp.float32),
            "turns": jnp.array([1, 0]),
            "spaces": [{}, {}],
        }
        X, loss = (
            jnp.asarray(rng.uniform(-1, 1, (3, 4, SCHEMA.dimension)), jnp.float32),
            SignalMatch(method, SCHEMA.shape),
        )
        whole = jax.grad(lambda X: jnp.sum(loss(params, X, jnp.asarray(0))))(X)
        for backend in ("cpu", "gpu"):
            monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
            np.testing.assert_allclose(loss.gradient(params, X, 0), whole, atol=1e-6)

    def test_dos_starts_at_the_pilot(self):
        result = run.distill(TOY, tiny("dos"), HUGE, entropy=SeededEntropy(1))
        check_classes_are_learned(result)

    @pytest.mark.slow
    def test_ndpdc_learns_the_classes(self):
        method = tiny("ndpdc", rounds=120, width=8, learning_rate=0.1, average=0.9, sampling_prob=1.0)
        check_classes_are_learned(run.distill(TOY, method, Budget(400.0), entropy=SeededEntropy(1)))

    def test_dm_learns_the_classes_and_says_that_nothing_is_private(self, tmp_path):
        result = run.distill_without_privacy(TOY, tiny("dm", rounds=120, width=8, learning_rate=0.3))
        check_classes_are_learned(result)
        assert result.epsilon == math.inf
        assert (result.schedule, result.noise) == (None, None)
        folder = result.save(tmp_path / "shared")
        assert "infinite: no privacy guarantee" in (folder / "certificate.json").read_text()
        assert "no privacy guarantee" in (folder / "report.html").read_text().lower()

    def test_dm_has_no_private_form(self, tmp_path):
        with pytest.raises(ValueError, match="DM has no private form: `dpdistill distill --non-private` runs it"):
            run.distill(RECORDS, tiny("dm"), run_dir=tmp_path / "run")
        assert not (tmp_path / "run").exists()


def one_field(kind, **bounds):
    """A recipe with a field n of a type and bounds."""
    field = ("n", kind, release_field(None, "a field", **bounds))
    return dataclasses.make_dataclass("OneField", [field], bases=(LDPDC,), frozen=True, kw_only=True)


class TestFields:
    """What a field may hold, by its type and bounds; test_conformance.py has those of all methods."""

    @pytest.mark.parametrize(
        ("bounds", "value", "said"),
        [
            ({"kind": int, "ge": 1}, 0, "Expected n=0 >= 1."),
            ({"kind": int, "ge": 1}, 2.0, "Expected n as a whole number; got n=2.0."),
            ({"kind": int, "ge": 1}, True, "Expected n as a whole number; got n=True."),
            ({"kind": int, "ge": 0}, 2**31, "Expected n=2147483648 >= 0 and < 2147483648."),
            ({"kind": float, "gt": 0}, 0.0, "Expected n=0.0 > 0."),
            ({"kind": float, "gt": 0}, math.inf, "Expected n=inf > 0 and finite."),
            ({"kind": float, "gt": 0}, math.nan, "Expected n=nan > 0 and finite."),
            ({"kind": float, "gt": 0}, "1", "Expected n as a number; got n='1'."),
            ({"kind": float, "gt": 0}, np.float32(1), "Expected n as a number; got n=np.float32(1.0)."),
            ({"kind": float, "ge": 0}, np.True_, "Expected n as a number; got n=np.True_."),
            ({"kind": float, "ge": 0}, 2**31, "Expected n=2147483648 >= 0 and < 2147483648."),
            ({"kind": int, "ge": 0}, np.int64(1), "Expected n as a whole number; got n=np.int64(1)."),
            ({"kind": float, "gt": 0, "le": 1}, 1.5, "Expected 0 < n=1.5 <= 1."),
            ({"kind": float, "ge": 0, "lt": 1}, 1, "Expected 0 <= n=1 < 1."),
            ({"kind": float, "lt": 1}, 1, "Expected n=1 < 1."),
            ({"kind": bool}, 1, "Expected n as true or false; got n=1."),
            ({"kind": tuple[Literal["a", "b"], ...]}, ("a", "c", "d"), "Expected n among a, b; got c, d."),
            ({"kind": tuple[Literal["a", "b"], ...]}, "a", "Expected n as a tuple of words; got n='a'."),
            ({"kind": Literal["a", "b"]}, "c", "Expected n among a, b; got c."),
            ({"kind": Literal["a", "b"]}, 3, "Expected n as a word; got n=3."),
            ({"kind": FeatureKernel}, 3, "Expected n as a FeatureKernel; got n=3."),
        ],
    )
    def test_what_is_refused_is_said_with_the_value(self, bounds, value, said):
        with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
            one_field(**bounds)(n=value)

    @pytest.mark.parametrize(
        ("bounds", "values"),
        [
            ({"kind": int, "ge": 1}, (1, 2**31 - 1)),
            ({"kind": float, "gt": 0, "le": 1}, (1e-300, 1, 1.0)),
            ({"kind": float, "ge": 0, "lt": 1}, (0, 0.0, 1 - 1e-16)),
            ({"kind": bool}, (True, False)),
            ({"kind": tuple[Literal["a", "b"], ...]}, ((), ("b",), ("b", "a"))),
            ({"kind": Literal["a", "b"]}, ("a", "b")),
            ({"kind": FeatureKernel}, (contract.SCATTER,)),
        ],
    )
    def test_what_is_allowed_is_let_through(self, bounds, values):
        for value in values:
            one_field(**bounds)(n=value)

    @pytest.mark.parametrize(
        ("bounds", "words"),
        [
            ({"kind": int, "ge": 1}, "whole >= 1"),
            ({"kind": float, "gt": 0, "le": 1}, "0 < x <= 1"),
            ({"kind": bool}, "true or false"),
            ({"kind": tuple[Literal["a", "b"], ...]}, "a, b"),
            ({"kind": Literal["a", "b"]}, "a or b"),
            ({"kind": FeatureKernel}, "FeatureKernel"),
        ],
    )
    def test_it_is_written_as_a_person_reads_it(self, bounds, words):
        assert str(rules_of(one_field(**bounds))["n"]) == words

    @pytest.mark.parametrize(
        ("kind", "bounds", "said"),
        [
            (float | None, {}, "Expected OneField.n of type int, float, bool, str, Literal of words, "),
            (tuple, {}, "Expected OneField.n of type int, float, bool, str, Literal of words, "),
            (tuple[int, ...], {}, "Expected OneField.n of type int, float, bool, str, Literal of words, "),
            (bool, {"ge": 0}, "Expected OneField.n without bounds, which are for int and float; got bool."),
        ],
    )
    def test_a_field_of_another_type_is_refused_with_its_place(self, kind, bounds, said):
        with pytest.raises(TypeError, match=f"^{re.escape(said)}"):
            one_field(kind, **bounds)()

    @pytest.mark.parametrize("name", RECIPES)
    def test_a_value_is_kept_as_it_was_stated(self, name):
        numbers = [
            f for f, rule in rules_of(RECIPES[name]).items() if rule.kind is float and (rule.ge, rule.le) == (0, None)
        ]
        for field in numbers:
            assert type(getattr(RECIPES[name](**{field: 0}), field)) is int

    def test_a_part_of_the_contract_that_is_left_out_is_named(self):
        @dataclasses.dataclass(frozen=True, kw_only=True)
        class Plain(LDPDC):
            extra: int = 3

        with pytest.raises(TypeError, match=r"Expected Plain\.extra to be a release_field or a finish_field\."):
            Plain()
        with mock.patch.object(RECIPES["ldpdc"], "title"):
            del RECIPES["ldpdc"].title
            with pytest.raises(TypeError, match=r"Expected LDPDC to state its title\."):
                LDPDC()
        with (
            mock.patch.object(LDPDC, "origin", "the authors'"),
            pytest.raises(
                TypeError, match=r"Expected LDPDC's origin to begin with 'package default' or 'selected on '\."
            ),
        ):
            LDPDC()
        assert set(ORIGINS) < set(build._ORIGINS)
        with pytest.raises(TypeError, match="abstract"):
            Method()


def test_the_table_of_methods_is_what_the_package_offers():
    found = {name: getattr(dpdistill, name) for name in dir(dpdistill)}
    offered = {name for name, kind in found.items() if isinstance(kind, type) and issubclass(kind, Method)}
    assert offered == {kind.__name__ for kind in METHODS.values()} <= set(dpdistill.__all__)
    assert list(METHODS) == [
        "dos",
        "decoupled-kip",
        "dos-kip",
        "dp-kip",
        "dp-merf",
        "dp-hp",
        "table-classifier",
        "table-regression",
        "aim",
        "dp-ntk",
        "ndpdc",
        "ldpdc",
        "psg",
        "dp-sgd",
        "dm",
        "kip",
    ]
    assert [name for name, kind in METHODS.items() if not kind.private] == ["dm", "kip"]


class TestDescent:
    def test_adam_by_hand(self):
        descent = Descent(0.1, 4, average=0.5)
        rng = np.random.default_rng(3)
        X, m, v = rng.uniform(-0.9, 0.9, 5), np.zeros(5), np.zeros(5)
        moved, average = descent.start(jnp.asarray(X)), X
        for t in range(3):
            g = rng.normal(size=5)
            moved = descent.step(moved, jnp.asarray(g), t)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            rate = 0.05 * (1 + math.cos(math.pi * t / 4))
            step = m / (1 - 0.9 ** (t + 1)) / (np.sqrt(v / (1 - 0.999 ** (t + 1))) + 1e-8)
            X = np.clip(X - rate * step, -1.0, 1.0)
            d = min(0.5, (1 + t) / (10 + t))
            average = d * average + (1 - d) * X
        np.testing.assert_allclose(moved.X, X, atol=1e-5)
        np.testing.assert_allclose(moved.average, average, atol=1e-5)
        assert np.abs(average - X).max() > 1e-3

    def test_sgd_by_hand_and_bounds(self):
        X = {"a": jnp.array([0.5, -0.9]), "b": jnp.array([0.0])}
        g = {"a": jnp.array([1.0, 2.0]), "b": jnp.array([-30.0])}
        descent = Descent(0.1, 9, momentum=0.5)
        moved = descent.step(descent.step(descent.start(X), g), g)
        assert_close_float32(moved.X["a"], [0.5 - 0.1 - 0.15, -1.0], terms=6)
        assert moved.X["b"] == moved.average["b"] == 1.0
        free = dataclasses.replace(descent, bound=math.inf)
        assert free.step(free.start(X), g).X["b"] == pytest.approx(3.0)
