"""The curator: one record moves a release by at most the clip norm, the noise is as stated, nothing else is said."""

import copy
import math
import os
import pickle
import platform
import subprocess
import sys
from dataclasses import dataclass
from typing import Any
from unittest import mock

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import (
    FlatQuery,
    Halve,
    NoNoise,
    UnitQuery,
    ZeroQuery,
    full_batches,
    integer_sum,
    known,
    make_curator,
    make_records,
    memory_ledger,
)
from scipy.stats import kstest

from dpdistill import begin_ledger, run
from dpdistill.accounting.schedule import Budget, Schedule
from dpdistill.errors import CuratorError, LedgerError, OutOfMemory
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.methods import METHODS
from dpdistill.private import checks, chunking
from dpdistill.private.aggregator import LocalAggregator
from dpdistill.private.curator import OUT_OF_MEMORY, Curator
from dpdistill.private.noise import SeededEntropy
from dpdistill.programs import jaxprs
from dpdistill.query import Event, Stage
from dpdistill.storage.records import Records

PRIVATE = [name for name, kind in METHODS.items() if kind.private]


@pytest.mark.parametrize("which", [contract.DEFAULT, pytest.param(contract.OTHERS, marks=pytest.mark.variants)])
@pytest.mark.parametrize("name", PRIVATE)
class TestQueriesOfMethods:
    """Beside what tests/methods/test_conformance.py says of them."""

    def test_the_sum_is_the_plain_sum(self, name, which):
        records = make_records(10)
        for label, query, params in by_class(name, which):
            z = integer_sum(records, query, params)
            contribution = jax.jit(query.contribution)
            units = records.schema.to_unit(records.X)
            rows = np.stack([contribution(params, x, y) for x, y in zip(units, records.y, strict=True)])
            norms = np.linalg.norm(rows, axis=1, keepdims=True)
            rows = rows * np.minimum(1.0, query.clip_norm * (1 - 2**-12) / norms)
            plain = np.stack([rows[records.y == c].sum(0) for c in range(3)])
            step = contract.grid_of(query, params, records.schema).step
            np.testing.assert_allclose(z * step, plain, atol=2e-4 * query.clip_norm, err_msg=label)
            assert np.linalg.norm(plain) > query.clip_norm / 2, label

    def test_value_and_shape(self, name, which):
        for label, query, params in by_class(name, which):
            release = make_curator(make_records(5)).release(0, query, params)
            assert release.value.shape == (3, *checks.check_query(query, params, contract.SCHEMA)), label
            assert release.value.dtype == np.float64
            assert release.stddev == contract.NOISE * query.clip_norm
            assert (release.round, release.event) == (0, Event(contract.NOISE, 1.0))


def by_class(name, which):
    """(label, query, params) of every query by class that a method asks."""
    found = [(label, *asked) for label, asked in contract.queries_of(name, which=which).items() if asked[0].by_class]
    return found or pytest.skip("The method asks linear queries only, or no others.")


def test_the_constant_coordinate_counts_records():
    query, params = contract.queries_of("ndpdc")["ndpdc: EmbeddingQuery, as it is"]
    records = make_records(40)
    release = make_curator(records, entropy=NoNoise()).release(0, query, params)
    counts = release.value[:, 0] / query.count
    np.testing.assert_allclose(counts, [(records.y == c).sum() for c in range(3)], rtol=1e-3)


@pytest.mark.parametrize(("name", "kind", "share"), [("dos", "EmbeddingQuery", 0.9), ("ldpdc", "PixelQuery", 0.3)])
def test_the_clip_norm_is_nearly_reached(name, kind, share):
    query, params = contract.queries_of(name)[f"{name}: {kind}, as it is"]
    z = integer_sum(known(1), query, params)
    K = contract.grid_of(query, params, contract.SCHEMA).K
    assert contract.norm(z) > share * K


def test_adversarial_records():
    contract.check_adversarial_records()


def test_sums_and_not_means():
    contract.check_sums_not_means()


def test_an_encoder_sees_one_record_at_a_time():
    contract.check_encoders_see_one_record()


def test_a_query_that_is_not_by_class_adds_all_known_records():
    records = known(9)
    z = integer_sum(records, FlatQuery(clip_norm=100.0, by_class=False), 1.0)
    step = contract.grid_of(FlatQuery(clip_norm=100.0), 1.0, contract.SCHEMA).step
    np.testing.assert_allclose(z * step, records.X.sum(0).ravel(), atol=9 * step)


class TestPoisson:
    def test_a_sample_adds_its_own_records_only(self):
        records, schedule = make_records(11), Schedule((Stage(1, 0.5),), (contract.NOISE,), Budget(1.0))
        coins = np.arange(11) % 3 == 0
        value = make_curator(records, schedule, NoNoise(coins), 3).release(0, FlatQuery(), 1.0).value
        everybody = make_curator(contract.subset(records, coins), entropy=NoNoise()).release(0, FlatQuery(), 1.0).value
        np.testing.assert_array_equal(value, everybody)
        assert value.any()

    def test_batches(self):
        contract.check_batches_are_poisson()

    def test_an_empty_batch_is_answered(self):
        schedule = Schedule((Stage(1, 0.5),), (contract.NOISE,), Budget(1.0))
        release = make_curator(make_records(7), schedule, NoNoise(np.zeros(7, bool))).release(0, FlatQuery(), 1.0)
        assert not release.value.any()
        assert release.value.shape == (3, 64)


class TestNoise:
    def test_scale(self):
        contract.check_noise_scale()

    def test_the_values_lie_on_the_grid(self):
        contract.check_release_on_grid()

    def test_rounds_are_independent(self):
        contract.check_rounds_are_independent()

    def test_a_resumed_run_draws_anew(self):
        contract.check_resumed_rounds_draw_anew()

    def test_it_follows_no_seed(self):
        contract.check_noise_is_nobodys_seed()

    @pytest.mark.parametrize("noise", [0.7, 3.7306])
    def test_mu_is_the_accounted_one(self, noise):
        # One record of norm C against none; 10^5 coordinates say what the noise of each is.
        d = 100_000
        records = Records(np.ones((1, 8, 8, 1), np.float32), np.zeros(1, np.int64), contract.SCHEMA)
        query = ZeroQuery(dimension=d // 3 + 1)
        schedule = full_batches(1, noise)
        sigma = make_curator(records, schedule, SeededEntropy(5)).release(0, query, 0.0).value.std()
        with_record = make_curator(records, schedule, NoNoise()).release(0, FlatQuery(), 1.0).value
        mu = np.linalg.norm(with_record) / sigma
        assert mu == pytest.approx(1 / noise, rel=0.05)
        # A clip a little inside C costs nothing and never reaches beyond what is accounted.
        assert np.linalg.norm(with_record) <= query.clip_norm


class TestRounds:
    def test_a_committed_round_is_replayed(self):
        contract.check_round_is_drawn_once()

    def test_a_round_is_replayed_without_touching_a_record(self, monkeypatch):
        asked = make_curator(make_records(5))
        first = asked.release(0, FlatQuery(), 1.0)
        monkeypatch.setattr(Records, "take", None)
        np.testing.assert_array_equal(asked.release(0, FlatQuery(), 1.0).value, first.value)

    def test_a_round_out_of_order_is_refused(self):
        schedule = full_batches(3)
        ledger = memory_ledger(schedule)
        with pytest.raises(LedgerError, match="Expected round 0 next; got round 2"):
            make_curator(make_records(5), schedule, ledger=ledger).release(2, FlatQuery(), 1.0)
        assert ledger.events() == ()

    @pytest.mark.parametrize("t", [-1, 3])
    def test_a_round_that_was_not_planned_is_refused(self, t):
        schedule = full_batches(3)
        ledger = memory_ledger(schedule)
        with pytest.raises(CuratorError, match=f"Round {t} could not be answered and released nothing"):
            make_curator(make_records(5), schedule, ledger=ledger).release(t, FlatQuery(), 1.0)
        assert ledger.events() == ()

    def test_an_event_that_deviates_from_the_ledgers_schedule_is_refused(self):
        ledger = memory_ledger(full_batches(1, 4.0))
        cheaper = Curator(make_records(5), full_batches(1, 2.0), ledger)
        with pytest.raises(LedgerError, match="deviates from the schedule"):
            cheaper.release(0, FlatQuery(), 1.0)
        assert ledger.events() == ()

    def test_stages_pay_their_own_noise_and_sampling(self):
        schedule = Schedule((Stage(1), Stage(2, 0.5)), (4.0, 2.0), Budget(1.0))
        asked = make_curator(make_records(5), schedule)
        releases = [asked.release(t, ZeroQuery(dimension=3000), 0.0) for t in range(3)]
        assert [r.event for r in releases] == [Event(4.0, 1.0), Event(2.0, 0.5), Event(2.0, 0.5)]
        assert [r.stddev for r in releases] == [4.0, 2.0, 2.0]
        assert [r.value.std() for r in releases] == pytest.approx([4.0, 2.0, 2.0], rel=0.05)

    def test_the_ledger_keeps_the_noised_value_only(self, tmp_path):
        contract.check_ledger_holds_no_plain_sum(tmp_path)


class TestRefusals:
    @pytest.mark.parametrize("clip_norm", [0.0, -1.0, math.inf, math.nan])
    def test_clip_norm(self, clip_norm):
        with pytest.raises(CuratorError, match=f"Expected clip_norm={clip_norm} > 0 and finite"):
            make_curator(make_records(3)).release(0, FlatQuery(clip_norm), 1.0)

    @pytest.mark.parametrize(
        ("noise", "message"),
        [
            (2.0**-5, r"Expected noise_multiplier=0\.03125 >= 2\*\*-4"),
            (1e-300, r"Expected noise_multiplier=1e-300 >= 2\*\*-4"),
            (0.0, r"Expected noise_multiplier=0\.0 > 0"),
            (math.nan, "Expected noise_multiplier=nan > 0"),
            (math.inf, "Expected noise_multiplier=inf > 0"),
            (1e12, r"Expected noise_multiplier=1000000000000\.0 > 0 and of at most 2\*\*48 grid steps"),
        ],
    )
    def test_a_noise_without_a_grid_before_a_record_is_read(self, noise, message):
        with pytest.raises(CuratorError, match=message):
            checks.check_query(FlatQuery(), 1.0, contract.SCHEMA, noise)

    def test_a_noise_is_checked_for_all_classes_that_a_unit_touches(self):
        """500 sqrt(64) steps of the clip norm take 2^12; three blocks of classes take 2^13."""
        noise = 1.5 * 2.0**35
        assert checks.check_query(FlatQuery(), 1.0, contract.SCHEMA, noise) == (64,)
        assert checks.check_query(FlatQuery(by_class=False), 1.0, contract.SCHEMA, noise, rows_per_unit=3) == (64,)
        with pytest.raises(CuratorError, match=r"Expected noise_multiplier=.* of at most 2\*\*48 grid steps"):
            checks.check_query(FlatQuery(), 1.0, contract.SCHEMA, noise, rows_per_unit=3)

    @pytest.mark.parametrize("noise", [None, 2.0**-4, 1.0, 1e9])
    def test_what_has_a_grid_is_answered(self, noise):
        assert checks.check_query(FlatQuery(), 1.0, contract.SCHEMA, noise) == (64,)
        if noise is not None:
            assert make_curator(make_records(3), full_batches(1, noise)).release(0, FlatQuery(), 1.0).value.any()

    def test_a_print(self):
        contract.check_speech_is_refused()

    @pytest.mark.parametrize("how", ["callback", "pure", "io", "debug"])
    @pytest.mark.parametrize("where", ["here", "jit", "scan", "cond", "while", "vmap", "grad", "checkpoint"])
    def test_speech_anywhere(self, how, where):
        with pytest.raises(CuratorError, match=r"The query is refused: it has '\w*(callback|print)"):
            make_curator(make_records(3)).release(0, Speaking(how=how, where=where), 1.0)

    @pytest.mark.parametrize("where", ["here", "jit", "scan"])
    @pytest.mark.parametrize(
        ("how", "message"),
        [
            ("ffi", "it has 'ffi_call', which"),
            ("custom batching", "it has 'custom_vmap_call', which"),
            ("a mutable array", "it has side effects, which"),
            ("an array of its own", "it has side effects, which"),
        ],
    )
    def test_other_ways_out(self, how, where, message):
        with pytest.raises(CuratorError, match=f"The query is refused: {message}"):
            make_curator(make_records(3)).release(0, Speaking(how=how, where=where), 1.0)

    @pytest.mark.parametrize("how", ["pure", "debug"])
    def test_speech_of_an_encoder(self, how):
        with pytest.raises(CuratorError, match="The query is refused"):
            make_curator(make_records(3)).release(0, FlatQuery(encoder=SpeakingEncoder(how)), 1.0)


@dataclass(frozen=True)
class Narrow:
    """An encoder that rounds pixels to float16, at the end or on the way."""

    returned: str = "float16"

    def __call__(self, X: Any) -> Any:
        return X.reshape(len(X), -1).astype(jnp.float16).astype(self.returned)


@dataclass(frozen=True)
class NarrowQuery(UnitQuery):
    """A contribution that rounds pixels to float16."""

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        return jax.jit(lambda v: v.astype(jnp.float16))(jnp.ravel(x)).astype(jnp.float32)


class TestFloat16:
    """A processor without it is simulated, but for the last test."""

    REFUSED = (
        r"The query is refused: .* float16, which XLA cannot compile for this processor\. Use float32: the guarantee"
    )

    @pytest.fixture(autouse=True)
    def without_float16(self, monkeypatch):
        monkeypatch.setattr(jaxprs, "compiles_float16", lambda: False)

    @pytest.mark.parametrize(
        "query", [FlatQuery(encoder=Narrow()), FlatQuery(encoder=Narrow("float32")), NarrowQuery()]
    )
    def test_is_refused_on_shapes_and_types(self, query):
        with pytest.raises(CuratorError, match=self.REFUSED):
            checks.check_query(query, np.float32(1), contract.SCHEMA)
        assert checks.check_query(FlatQuery(), np.float32(1), contract.SCHEMA) == (64,)

    def test_is_refused_before_anything_is_paid(self, tmp_path):
        method = contract.tiny("decoupled-kip", kernel=FeatureKernel(Narrow()))
        paths = {"run_dir": tmp_path / "a.run", "ledger": tmp_path / "ledger"}
        begin_ledger(tmp_path / "ledger", 1.0)
        before = (tmp_path / "ledger").read_bytes()
        with pytest.raises(CuratorError, match=self.REFUSED):
            run.distill(make_records(6), method, Budget(1.0), **paths)
        assert [path.name for path in tmp_path.iterdir()] == ["ledger"]
        assert (tmp_path / "ledger").read_bytes() == before

    @pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="other processors have no such set")
    @pytest.mark.parametrize(("most", "expected"), [("SSE4_2", "False"), ("AVX", "True")])
    def test_where_xla_cannot_compile_it(self, most, expected):
        """Processors have the conversion, F16C, from AVX on."""
        code = "from dpdistill.programs.jaxprs import compiles_float16; print(compiles_float16())"
        limited = {**os.environ, "XLA_FLAGS": f"--xla_cpu_max_isa={most}"}
        done = subprocess.run([sys.executable, "-c", code], env=limited, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


@jax.custom_batching.custom_vmap
def whispering(x: Any) -> Any:
    """Speaks only when it is batched."""
    return x


@whispering.def_vmap
def _(axis_size: int, in_batched: Any, x: Any) -> Any:
    jax.debug.callback(lambda v: None, x)
    return x, True


LEAK = jax.new_ref(jnp.zeros(64))


def speak(how: str, x: Any) -> Any:
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    if how == "ffi":
        return jax.ffi.ffi_call("send", shape, vmap_method="sequential")(x)
    if how == "custom batching":
        return whispering(x)
    if how == "a mutable array":
        LEAK[...] = x
        return x
    if how == "an array of its own":
        return jax.new_ref(x)[...]
    if how == "callback":
        jax.debug.callback(lambda v: None, x)
        return x
    if how == "pure":
        return jax.pure_callback(lambda v: v, shape, x, vmap_method="sequential")
    if how == "io":
        return jax.experimental.io_callback(lambda v: v, shape, x)
    jax.debug.print("{}", x)
    return x


@dataclass(frozen=True)
class Speaking(UnitQuery):
    how: str = ""
    where: str = ""

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        def f(v: Any) -> Any:
            return speak(self.how, v)

        x = jnp.ravel(x)
        if self.where == "jit":
            return jax.jit(lambda v: jax.jit(f)(v))(x)
        if self.where == "scan":
            return jax.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]
        if self.where == "cond":
            return jax.lax.cond(y > 100, f, lambda v: v, x)
        if self.where == "while":
            return jax.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, f(c[1])), (0, x))[1]
        if self.where == "vmap" and self.how != "io":
            return jax.vmap(f)(x.reshape(8, 8)).ravel()
        if self.where == "grad" and self.how in ("callback", "debug"):
            return jax.grad(lambda v: jnp.sum(f(v) ** 2))(x)
        if self.where == "checkpoint" and self.how != "io":
            return jax.checkpoint(f)(x)
        return f(x)


@dataclass(frozen=True)
class SpeakingEncoder:
    how: str

    def __call__(self, X: Any) -> Any:
        return speak(self.how, X)


class TestErrors:
    @pytest.mark.parametrize(
        "error_in",
        [
            "dpdistill.private.curator.rounded_gaussian",
            "dpdistill.programs.clipping.grid_rows",
            "dpdistill.storage.records.Records.take",
            "dpdistill.schema.Schema.to_unit",
        ],
    )
    def test_say_nothing(self, error_in):
        contract.check_errors_say_nothing(error_in)

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("encoder", [None, Halve()])
    def test_traps_of_debuggers_are_off(self, encoder, capfd):
        records = make_records(6)
        X = np.array(records.X, np.float64)
        X[2, 0, 0, 0], X[3, 0, 0, 0] = np.nan, 1e300
        records, query = Records(X, np.arange(6) % 3, contract.SCHEMA), FlatQuery(encoder=encoder)
        value = make_curator(records, entropy=NoNoise()).release(0, query, 1e30).value
        with jax.debug_nans(True), jax.debug_infs(True), np.errstate(all="raise"):
            trapped = make_curator(records, entropy=NoNoise()).release(0, query, 1e30).value
        np.testing.assert_array_equal(trapped, value)
        assert value.any()
        assert capfd.readouterr() == ("", "")

    def test_of_a_query_that_fails_on_real_records_only(self):
        with pytest.raises(CuratorError) as caught:
            make_curator(make_records(3), chunk=17).release(0, FailsLater(), 1.0)
        assert str(caught.value) == contract.FAILED
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None

    @pytest.mark.parametrize(
        "error", [MemoryError("(5, 64)"), jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: allocating 5 bytes")]
    )
    def test_of_a_round_that_does_not_fit_into_memory(self, monkeypatch, error):
        monkeypatch.setattr(LocalAggregator, "answer", mock.Mock(side_effect=error))
        with pytest.raises(OutOfMemory) as caught:
            make_curator(make_records(5)).release(0, FlatQuery(), 1.0)
        assert str(caught.value) == OUT_OF_MEMORY.format(0)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None

    def test_of_an_integer_sum_that_could_overflow(self):
        schedule = full_batches(1, 2.0**-5)
        with pytest.raises(CuratorError, match="Round 0 could not be answered"):
            make_curator(make_records(3), schedule).release(0, FlatQuery(), 1.0)


TRACED: list[Any] = []


@dataclass(frozen=True)
class FailsLater(UnitQuery):
    """Raises, naming a shape, when it is traced for a second time: on the real chunk."""

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        TRACED.append(x)
        if len(TRACED) > 1:
            raise FloatingPointError("in a batch of 3 records")
        return jnp.ravel(x)


@dataclass(frozen=True)
class Counting(UnitQuery):
    """Counts how often it is traced."""

    counted: Any = None

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        self.counted.times += 1
        return jnp.ravel(x) * params["scale"]


class Counter:
    times = 0


def test_a_stage_is_traced_once_for_the_check_and_once_for_the_chunk():
    counter, schedule = Counter(), full_batches(5)
    asked = make_curator(make_records(30), schedule, NoNoise(), chunk=8)
    for t in range(5):
        value = asked.release(t, Counting(counted=counter), {"scale": np.float32(t / 10)}).value
        assert counter.times <= 2
        assert value.any() == (t > 0)


class TestEdges:
    def test_no_records(self):
        records = contract.subset(make_records(3), [])
        release = make_curator(records, entropy=SeededEntropy(1)).release(0, ZeroQuery(dimension=2000), 0.0)
        assert release.value.std() == pytest.approx(contract.NOISE, rel=0.05)
        for query in (FlatQuery(), FlatQuery(by_class=False), FlatQuery(encoder=Halve())):
            assert not make_curator(records, entropy=NoNoise()).release(0, query, 1.0).value.any()

    def test_a_class_without_records_has_noise_like_any_other(self):
        records = known(9)
        two = contract.subset(records, records.y != 1)
        value = make_curator(two, entropy=SeededEntropy(1)).release(0, ZeroQuery(dimension=2000), 0.0).value
        assert value.shape == (3, 2000)
        assert value.std(1) == pytest.approx(contract.NOISE, rel=0.1)
        assert not make_curator(two, entropy=NoNoise()).release(0, FlatQuery(), 1.0).value[1].any()

    def test_more_chunk_than_records(self):
        records = known(3)
        np.testing.assert_array_equal(
            integer_sum(records, FlatQuery(), 1.0, 1000), integer_sum(records, FlatQuery(), 1.0, 1)
        )

    def test_nothing_is_shown_and_nothing_is_pickled(self):
        contract.check_nothing_is_pickled()
        records = make_records(5)
        for secret in (records, make_curator(records)):
            for refused in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match=r"cannot be pickled or copied"):
                    refused(secret)
        assert repr(make_curator(records)) == "<Curator: nothing about its records is shown>"


class TestEncoder:
    def test_it_is_kept_and_gives_what_it_gave(self, monkeypatch):
        calls, encode = [], chunking.encode_rows
        monkeypatch.setattr(chunking, "encode_rows", lambda *a: calls.append(1) or encode(*a))
        records, schedule = make_records(11), full_batches(4)
        asked = make_curator(records, schedule, NoNoise(places=range(11)), chunk=4)
        values = [asked.release(t, FlatQuery(encoder=Halve()), 1.0).value for t in range(4)]
        assert len(calls) == 3  # chunks, not chunks times rounds
        np.testing.assert_array_equal(values[0], values[3])
        np.testing.assert_array_equal(
            values[0], make_curator(records, entropy=NoNoise()).release(0, FlatQuery(), 0.5).value
        )

    def test_it_is_kept_for_samples_too(self):
        records, coins = make_records(11), np.arange(11) % 2 == 0
        schedule = Schedule((Stage(1, 0.5),), (contract.NOISE,), Budget(1.0))
        value = make_curator(records, schedule, NoNoise(coins), 4).release(0, FlatQuery(encoder=Halve()), 1.0).value
        some = contract.subset(records, coins)
        np.testing.assert_array_equal(value, make_curator(some, entropy=NoNoise()).release(0, FlatQuery(), 0.5).value)

    def test_its_records_move_by_the_clip_norm_too(self):
        contract.check_add_remove(FlatQuery(encoder=Halve()), 1.0, make_records(6))
        contract.check_replace_one(FlatQuery(encoder=Halve()), 1.0, make_records(6))


@dataclass(frozen=True)
class SpreadQuery:
    """One record moves each of a hundred numbers by a tenth of the clip norm."""

    clip_norm: float = 1.0
    encoder = None
    by_class = False

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        return jnp.full(100, 0.1) * params


def test_a_hundred_thousand_scalars_tell_as_much_as_was_accounted_for():
    """mu = shift / standard deviation, as an attacker measures it, is what the accountant took it for."""
    rounds, noise = 1000, 0.8
    plan = full_batches(rounds, noise)

    def released(n, entropy):
        asked = Curator(known(n), plan, memory_ledger(plan), entropy)
        return np.stack([asked.release(t, SpreadQuery(), np.float32(1.0)).value.ravel() for t in range(rounds)])

    exact = np.linalg.norm(released(3, NoNoise())[0] - released(2, NoNoise())[0])
    with_it, without_it = released(3, SeededEntropy(5)), released(2, SeededEntropy(6))
    noises = np.concatenate([side - side.mean(0) for side in (with_it, without_it)])
    deviation = float(np.sqrt(np.square(noises).sum() / (200 * (rounds - 1))))
    # The deviation of 200,000 values has a standard error of 0.16 %.
    assert 0.99 < (exact / deviation) / (1.0 / noise) < 1.007
    # The shift too as it is measured: along the record's direction, whose mean has a standard error of 0.036.
    measured = (with_it - without_it).sum(1).mean() / 10
    assert measured == pytest.approx(1.0, abs=4 * noise * math.sqrt(2 / rounds))
    assert kstest(noises.ravel() / noise, "norm").pvalue > 1e-3
