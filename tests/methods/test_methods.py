"""Conformance: what every method of the command line's table keeps to, and the values of each on data that tell."""

import dataclasses
import math
import sys

import contract
import jax
import numpy as np
import pytest
from contract import SCHEMA, make_records, subset, tiny, toy_records

from dpdistill import run
from dpdistill.accounting.schedule import Budget, Schedule
from dpdistill.certificate.build import read_certificate
from dpdistill.cli.recipes import METHODS, from_fields
from dpdistill.data import read_distilled
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.ledger.database import LedgerError
from dpdistill.ledger.run import RunLedger
from dpdistill.private.noise import SeededEntropy
from dpdistill.private.sampling import poisson_coins
from dpdistill.query import Event, Release
from dpdistill.run import store as stores

NAMES = list(METHODS)
PRIVATE = [name for name in NAMES if METHODS[name].private]
SAMPLING = [name for name in NAMES if "sampling_prob" in METHODS[name].__dataclass_fields__]
GENERATORS = [name for name in NAMES if "samples" in METHODS[name].__dataclass_fields__]
SIZE = {name: "samples" if name in GENERATORS else "per_class" for name in NAMES}
"""How many synthetic records there are: in all, or of each class."""
PAID = {name: "clip_norm" if "kip" in name else "count_coordinate" for name in PRIVATE}
"""A field of each private method that its releases cannot do without."""
RECORDS = make_records(40)
BUDGET = Budget(5.0)


def make(name, records=RECORDS, seed=0, entropy=3, **changes):
    """A result of a method in its tiny setting."""
    if not METHODS[name].private:
        return run.distill_without_privacy(records, tiny(name, **changes), seed=seed)
    return run.distill(records, tiny(name, **changes), BUDGET, seed=seed, entropy=SeededEntropy(entropy))


@pytest.fixture(scope="module")
def results():
    return {name: make(name) for name in NAMES}


class Stop(Exception):
    """A run that is killed."""


def stop_after(rounds):
    def progress(stage, done, total):
        if stage == "releasing" and done == rounds:
            raise Stop

    return progress


def test_every_method_has_a_tiny_setting():
    for name in NAMES:
        assert type(tiny(name)) is METHODS[name]


@pytest.mark.parametrize("name", NAMES)
class TestEveryMethod:
    def test_the_same_seed_and_releases_give_the_same_result(self, name, results):
        np.testing.assert_array_equal(make(name).X, results[name].X)

    def test_another_seed_or_other_noise_gives_another(self, name, results):
        if name != "ldpdc":  # nothing in it is random but the releases
            assert not np.array_equal(make(name, seed=1).X, results[name].X)
        if METHODS[name].private:
            assert not np.array_equal(make(name, entropy=4).X, results[name].X)

    def test_values_are_in_bounds_and_every_class_is_there(self, name, results):
        for records in (RECORDS, subset(RECORDS, RECORDS.y != 1), subset(RECORDS, [])):
            made = results[name] if records is RECORDS else make(name, records)
            assert made.distilled.X.shape == (6, 8, 8, 1)
            assert made.distilled.X.dtype == np.float32
            assert np.isfinite(made.distilled.X).all()
            assert np.abs(made.distilled.X).max() <= 1.0
            assert made.y.dtype == np.int32
            if name in GENERATORS:
                assert len(made.y) == 6
                assert set(made.y.tolist()) <= {0, 1, 2}
            else:
                assert made.y.tolist() == [0, 0, 1, 1, 2, 2]
            assert made.distilled.schema == SCHEMA

    def test_it_saves_and_loads(self, name, results, tmp_path):
        result = results[name]
        folder = result.save(tmp_path / "shared")
        back = read_distilled(folder)
        np.testing.assert_allclose(back.X, result.distilled.X, atol=1e-6)
        np.testing.assert_array_equal(back.y, result.y)
        assert (back.schema, back.training) == (SCHEMA, None)
        for kept, made in ((back.targets, result.distilled.targets), (back.classifier, result.distilled.classifier)):
            assert (kept is None) == (made is None)
            np.testing.assert_array_equal(kept, made)
        recipe = read_certificate(folder)["recipe"]
        assert from_fields(recipe["method"], recipe["fields"]) == tiny(name)

    def test_it_is_a_frozen_value(self, name):
        one, same = tiny(name), tiny(name)
        assert one == same
        assert hash(one) == hash(same)
        assert one != dataclasses.replace(one, **{SIZE[name]: 3})
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, SIZE[name], 5)

    def test_its_fields_say_what_they_are(self, name):
        for field in dataclasses.fields(METHODS[name]):
            assert field.metadata["help"]
            assert isinstance(field.metadata["finish"], bool)
            assert field.kw_only

    def test_its_state_is_a_pytree_that_keeps_its_types(self, name):
        method = tiny(name)
        state = method.init(jax.random.key(0), SCHEMA)
        query, params = method.ask(state)
        value = np.ones(contract.release_shape(query, params))
        after = method.tell(state, Release(0, value, 1.0, Event(1.0)))
        assert jax.tree.structure(state) == jax.tree.structure(after)
        for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
            assert (np.shape(a), np.asarray(a).dtype) == (np.shape(b), np.asarray(b).dtype)


BAD = {
    "dos": [
        *(
            (f, v, f"Expected {f}={v} > 0")
            for f in ("networks", "width", "per_class", "expand", "steps")
            for v in (0, -1)
        ),
        *(
            (f, v, f"Expected {f}={v} > 0")
            for f in ("clip_norm", "learning_rate", "count_floor", "start_noise")
            for v in (0.0, -1.0, math.nan, math.inf)
        ),
        *(("count_coordinate", v, f"count_coordinate={v} < 1") for v in (0.0, -0.1, 1.0, math.nan)),
        *((f, v, f"Expected 0.0 <= {f}={v} < 1") for f in ("pilot_share", "average") for v in (-0.1, 1.0, math.nan)),
        *(("sampling_prob", v, f"Expected 0 < sampling_prob={v} <= 1") for v in (0.0, 1.5, math.nan)),
        ("strategies", ("crop", "blur"), "Expected strategies among color, .*; got blur"),
        ("image_seed", -1, "Expected 0 <= image_seed=-1"),
        ("image_seed", 2**31, "image_seed=2147483648 < 2"),
    ],
    "ndpdc": [
        *((f, 0, f"Expected {f}=0 > 0") for f in ("per_class", "rounds", "width", "clip_norm", "learning_rate")),
        ("count_floor", 0.0, "Expected count_floor=0.0 > 0"),
        ("count_coordinate", 1.0, "count_coordinate=1.0 < 1"),
        ("average", 1.0, "average=1.0 < 1"),
        ("sampling_prob", 0.0, "sampling_prob=0.0"),
    ],
    "ldpdc": [
        ("per_class", 0, "Expected per_class=0 > 0"),
        ("count_floor", -2.0, "Expected count_floor=-2.0 > 0"),
        ("count_coordinate", 0.0, "count_coordinate=0.0 < 1"),
        ("sampling_prob", 1.01, "sampling_prob=1.01"),
    ],
    "dm": [
        *((f, 0, f"Expected {f}=0 > 0") for f in ("per_class", "rounds", "width", "learning_rate", "count_floor")),
        ("momentum", 1.0, "momentum=1.0 < 1"),
        ("average", -0.5, "average=-0.5 < 1"),
        ("sampling_prob", -1.0, "sampling_prob=-1.0"),
        ("strategies", ("turn",), "got turn"),
    ],
    "decoupled-kip": [
        *(
            (f, 0, f"Expected {f}=0 > 0")
            for f in ("rounds", "clip_norm", "step", "per_class", "steps", "learning_rate")
        ),
        *((f, v, f"Expected {f}={v} > 0") for f in ("clip_norm", "step", "ridge") for v in (-1.0, math.nan, math.inf)),
        *(("probes", v, f"Expected probes={v} >= 0") for v in (-1.0, math.nan, math.inf)),
        *(("momentum", v, f"Expected 0.0 <= momentum={v} < 1") for v in (-0.1, 1.0, math.nan)),
        ("image_seed", -1, "Expected 0 <= image_seed=-1"),
        ("image_seed", 2**31, "image_seed=2147483648 < 2"),
        ("start_noise", 0.0, "Expected start_noise=0.0 > 0"),
        ("kernel", FCNTK(), "Expected a kernel of fixed features; got kernel=FCNTK"),
    ],
    "dp-kip": [
        ("start_noise", -0.1, "Expected start_noise=-0.1 > 0"),
        *((f, 0, f"Expected {f}=0 > 0") for f in ("per_class", "rounds", "clip_norm", "learning_rate", "ridge")),
        *((f, v, f"Expected {f}={v} > 0") for f in ("clip_norm", "ridge") for v in (-1.0, math.nan, math.inf)),
        *((f, v, f"Expected 0.0 <= {f}={v} < 1") for f in ("corrupted", "average") for v in (-0.1, 1.0, math.nan)),
        *(("sampling_prob", v, f"Expected 0 < sampling_prob={v} <= 1") for v in (0.0, 1.5, math.nan)),
        *(("balance", v, f"Expected 0 <= balance={v} <= 1") for v in (-0.1, 1.1, math.nan)),
        *(("count_share", v, f"count_share={v} < 1") for v in (0.0, 1.0, math.nan)),
    ],
    "dp-merf": [
        *((f, 0, f"Expected {f}=0 > 0") for f in ("frequencies", "samples", "hidden", "layers", "batch", "steps")),
        *((f, v, f"Expected {f}={v} > 0") for f in ("length_scale", "count_floor") for v in (-1.0, math.nan)),
        *(("count_coordinate", v, f"count_coordinate={v} < 1") for v in (0.0, 1.0, math.nan)),
        ("category_share", 1.0, "Expected 0.0 <= category_share=1.0 < 1"),
        ("sample_seed", -1, "Expected 0 <= sample_seed=-1"),
    ],
    "dp-hp": [
        *((f, 0, f"Expected {f}=0 > 0") for f in ("order", "product_dims", "samples", "code_size", "learning_rate")),
        *((f, v, f"{f}={v} < 1") for f in ("rho", "product_share") for v in (0.0, 1.0, math.nan)),
        ("product_rounds", -1, "Expected product_rounds=-1 >= 0"),
        ("sample_seed", 2**31, "sample_seed=2147483648 < 2"),
    ],
    "kip": [
        ("start_noise", math.nan, "Expected start_noise=nan > 0"),
        *((f, 0, f"Expected {f}=0 > 0") for f in ("per_class", "rounds", "learning_rate", "ridge")),
        *((f, v, f"Expected {f}={v} > 0") for f in ("learning_rate", "ridge") for v in (-1.0, math.nan, math.inf)),
        ("sampling_prob", 0.0, "sampling_prob=0.0"),
    ],
}


@pytest.mark.parametrize(("name", "field", "value", "message"), [(n, *bad) for n in NAMES for bad in BAD[n]])
def test_a_bad_field_is_refused_by_its_value(name, field, value, message):
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        tiny(name, **{field: value}).plan()


@pytest.mark.parametrize("name", PRIVATE)
class TestPrivateMethods:
    def test_the_budget_is_spent_and_every_round_is_in_the_ledger_once(self, name, tmp_path):
        method = tiny(name, **({"sampling_prob": 0.5} if name in SAMPLING else {}))
        result = run.distill(RECORDS, method, BUDGET, run_dir=tmp_path / "run", entropy=SeededEntropy(3))
        assert result.schedule is not None
        kept = RunLedger.read(tmp_path / "run")
        plan = method.plan()
        assert len(kept.events) == sum(stage.rounds for stage in plan) == result.schedule.rounds
        assert list(kept.events) == [result.schedule.event(t) for t in range(result.schedule.rounds)]
        q = [stage.sampling_prob for stage in plan for _ in range(stage.rounds)]
        assert [event.sampling_prob for event in kept.events] == q
        assert BUDGET.epsilon * (1 - 1e-3) <= result.epsilon <= BUDGET.epsilon
        assert result.noise == "insecure: seeded noise"

    @pytest.mark.parametrize("every", [0.0, 1e9])
    def test_a_killed_run_goes_on_where_it_stopped(self, name, every, tmp_path, monkeypatch, results):
        monkeypatch.setattr(stores, "EVERY", every)
        entropy = SeededEntropy(3)
        settings = {"run_dir": tmp_path / "run", "entropy": entropy}
        done = min(2, sum(stage.rounds for stage in tiny(name).plan()))
        with pytest.raises(Stop):
            run.distill(RECORDS, tiny(name), BUDGET, progress=stop_after(done), **settings)
        assert len(RunLedger.read(tmp_path / "run").events) == done
        told = []
        result = run.distill(RECORDS, tiny(name), BUDGET, progress=lambda *said: told.append(said), **settings)
        assert result.schedule is not None
        from_checkpoint = every == 0.0 or result.schedule.rounds == done
        assert told[0] == ("releasing", done if from_checkpoint else 0, result.schedule.rounds)
        assert len(RunLedger.read(tmp_path / "run").events) == result.schedule.rounds
        # The seeded stream went on where it was: replayed and fresh rounds are those of a run that was not stopped.
        np.testing.assert_array_equal(result.X, results[name].X)

    def test_it_goes_on_for_the_same_recipe_and_records_only(self, name, tmp_path):
        settings = {"run_dir": tmp_path / "run", "entropy": SeededEntropy(3)}
        with pytest.raises(Stop):
            run.distill(RECORDS, tiny(name), BUDGET, progress=stop_after(1), **settings)
        others = [
            (subset(RECORDS, np.arange(39)), tiny(name), BUDGET, 0),
            (RECORDS, tiny(name, **{PAID[name]: 0.2}), BUDGET, 0),
            (RECORDS, tiny(name), Budget(4.0), 0),
            (RECORDS, tiny(name), BUDGET, 1),
        ]
        for records, method, budget, seed in others:
            with pytest.raises(LedgerError, match="Another run is kept"):
                run.distill(records, method, budget, seed=seed, **settings)
        assert len(RunLedger.read(tmp_path / "run").events) == 1

    def test_only_releases_speak(self, name, tmp_path):
        contract.check_only_releases_speak(tmp_path, name)

    def test_the_fields_that_may_change_afterwards_are_read_by_finish_alone(self, name):
        method, read = recording(tiny(name))
        free = {field.name for field in dataclasses.fields(method) if field.metadata["finish"]}
        state = method.init(jax.random.key(0), SCHEMA)
        read.clear()  # a start may refuse images that do not fall into tiles
        for t in range(sum(stage.rounds for stage in method.plan())):
            query, params = method.ask(state)
            value = np.ones(contract.release_shape(query, params))
            state = method.tell(state, Release(t, value, 1.0, Event(1.0)))
        assert not read & free
        assert PAID[name] in read
        method.finish(state, SCHEMA)
        assert free <= read


def recording(method):
    """The same method, and the names of the fields that its own code has read since it was made."""
    read = set()

    class Recording(type(method)):
        def __getattribute__(self, name):
            if sys._getframe(1).f_code.co_name not in ("__hash__", "__eq__", "__post_init__"):
                read.add(name)
            return super().__getattribute__(name)

    made = Recording(**{field.name: getattr(method, field.name) for field in dataclasses.fields(method)})
    read.clear()
    return made, read


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
        back = read_distilled(made.save(tmp_path / "shared"))
        X, y, training, expanded = back.X, back.y, back.training, made.distilled.training
        assert training is not None
        assert expanded is not None
        assert (X.shape, training[0].shape) == ((6, 8, 8, 1), (24, 8, 8, 1))
        np.testing.assert_array_equal(training[1], np.repeat(y, 4))
        np.testing.assert_allclose(training[0], expanded[0], atol=1e-6)

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

    def test_dos_starts_at_the_pilot(self):
        result = run.distill(TOY, tiny("dos"), HUGE, entropy=SeededEntropy(1))
        check_classes_are_learned(result)

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
        with pytest.raises(ValueError, match="DM has no private form: run it without a guarantee"):
            run.distill(RECORDS, tiny("dm"), run_dir=tmp_path / "run")
        assert not (tmp_path / "run").exists()
