"""What one record's numbers are depends on its content and its own place: for every shape, encoder, query and chunk."""

import dataclasses
import itertools
from typing import Any

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chosen_tests import few
from contract import FlatQuery, MixingEncoder, NoNoise, UnitQuery, make_curator, make_records

from dpdistill.accounting.schedule import Budget, Schedule
from dpdistill.errors import CuratorError, LedgerError
from dpdistill.features import normalised, whitening
from dpdistill.features.eight_bits import EightBits
from dpdistill.features.scattering import ScatterNet
from dpdistill.kernels import KERNELS
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.methods import DOS, DPKIP
from dpdistill.methods.class_means import ClassSumsQuery
from dpdistill.methods.softmax import SoftmaxQuery
from dpdistill.private import aggregator, curator
from dpdistill.private.chunking import ChunkedRecords
from dpdistill.private.noise import SeededEntropy, SystemEntropy
from dpdistill.private.sampling import draw_places
from dpdistill.programs import clipping
from dpdistill.programs.jaxprs import Refused
from dpdistill.programs.self_test import check_rows, rows_stand_alone
from dpdistill.public_images import image_source, pictures
from dpdistill.query import ByValue, Compute, Stage
from dpdistill.schema import Schema
from dpdistill.storage.records import Records

SIDES = (8, 9, 12, 15, 16, 17, 20, 23, 24, 27, 28, 31, 32, 33, 36, 40, 45, 48, 56, 63, 64, 96)
COMMON = {28, 32, 40, 64}
SHAPES = [(s, s, c) for i, s in enumerate(SIDES) for c in (1, 3) if s in COMMON or c == (1 if i % 2 else 3)]
ODD = [(28, 20, 1), (17, 40, 3)]
ENCODERS = {name: kernel.encoder for name, kernel in KERNELS.items() if isinstance(kernel, FeatureKernel)}


def schema_of(shape: tuple[int, int, int]) -> Schema:
    return Schema(shape, (-1.0, 1.0), contract.NAMES)


@pytest.mark.parametrize("shape", few([*SHAPES, *ODD], (8, 8, 3), (28, 28, 1), (17, 40, 3)), ids=str)
def test_features_of_every_shape(shape):
    """Chunks from 1 to 128 take turns: a place at which a record lies alone and places beside others."""
    chunk = (1, 3, 4, 16, 32, 64, 128)[(shape[0] + shape[2]) % 7]
    n = min(2 * chunk + 1, 12 if shape[0] > 40 else 40)
    contract.check_features(ScatterNet(groups=27, normalise=True), schema_of(shape), chunk, n)


@pytest.fixture
def few_pictures(monkeypatch):
    """The means and covariances of encoders are public constants: those of fewer pictures are made sooner."""
    made = (normalised._mean, whitening._whitening)
    monkeypatch.setattr(image_source, "silhouettes", lambda n, shape, seed: pictures.silhouettes(50, shape, seed))
    for module in (normalised, whitening):
        monkeypatch.setattr(module, "pictures_for", lambda shape: 50)
    for function in made:
        function.cache_clear()
    yield
    for function in made:
        function.cache_clear()


@pytest.mark.usefixtures("few_pictures")
@pytest.mark.parametrize("name", few(ENCODERS, "drawn", "scatternet"))
@pytest.mark.parametrize(
    ("shape", "chunk"), few([((28, 28, 3), 5), ((33, 24, 1), 16)], ((28, 28, 3), 5), of_several=True), ids=str
)
def test_features_of_every_encoder(name, shape, chunk):
    contract.check_features(ENCODERS[name], schema_of(shape), chunk, min(2 * chunk + 1, 11))


@pytest.mark.parametrize(
    ("chunk", "shape"),
    few(
        itertools.product([1, 16, 128], [(28, 28, 3), (40, 40, 1), (64, 64, 3)]),
        *((16, (28, 28, 3)), (1, (40, 40, 1))),
        of_several=True,
    ),
    ids=str,
)
def test_features_where_places_used_to_matter(shape, chunk):
    contract.check_features(ScatterNet(groups=27, normalise=True), schema_of(shape), chunk, 20)


@pytest.mark.parametrize(
    ("chunk", "shape"),
    few(
        itertools.product([3, 16], [(8, 8, 1), (28, 28, 3), (33, 33, 1), (45, 45, 3), (64, 64, 1)]),
        *((16, (8, 8, 1)), (3, (28, 28, 3)), (3, (33, 33, 1))),
        of_several=True,
    ),
    ids=str,
)
def test_signals_of_random_networks(shape, chunk):
    _, (query, params) = contract.asked(contract.tiny("dos", width=16), schema_of(shape))
    contract.check_places(query, params, make_records(11, schema=schema_of(shape)), chunk)


def test_an_ill_conditioned_release_moves_by_one_share():
    """40 x 40, ridge 1e-6, clip 1e-8: a record of unknown label has no share, and moves nothing."""
    schema = schema_of((40, 40, 1))
    records = make_records(600, schema=schema)
    records = type(records)(records.X, np.r_[-1, np.arange(599) % 3], schema)
    kernel = FeatureKernel(ScatterNet(groups=27, normalise=True))
    method = contract.tiny("dp-kip", kernel=kernel, ridge=1e-6, clip_norm=1e-8)
    query, params = method.ask(method.init(jax.random.key(1), schema))
    places = np.random.default_rng(4).integers(0, 1 << 16, 600)
    sums = []
    for rows in (np.arange(600), np.arange(1, 600)):
        asked = make_curator(contract.subset(records, rows), entropy=NoNoise(places=places[rows]), chunk=16)
        sums.append(asked.release(0, query, params).value)
    moved = np.linalg.norm(sums[0] - sums[1]) / 1e-8
    assert moved <= 2e-3  # Delta allows for E twice and a rounding: 2 * 2.5e-4 + 5e-4
    assert np.linalg.norm(sums[0]) > 1e-8


class TestPlaces:
    def test_are_independent_and_nearly_uniform(self):
        places = draw_places(60_000, SeededEntropy(3)) % 24
        counts = np.bincount(places, minlength=24)
        assert places.min() == 0
        assert places.max() == 23
        assert ((counts - 2500) ** 2 / 2500).sum() < 50  # chi-squared with 23 degrees of freedom: 99.9 % below 49.7
        pairs = np.histogram2d(places[:-1], places[1:], bins=24)[0]
        assert ((pairs - 60_000 / 576) ** 2 / (60_000 / 576)).sum() < 690  # 575 degrees of freedom

    def test_come_from_the_operating_system(self):
        placed = [ChunkedRecords(make_records(500), SystemEntropy())._places % 16 for _ in range(2)]
        assert np.mean(placed[0] == placed[1]) < 0.15

    def test_every_record_is_in_one_chunk_at_its_own_place(self):
        records = make_records(50)
        placed, unit = ChunkedRecords(records, SeededEntropy(1)), records.schema.to_unit(records.X)
        places, seen = placed._places % 7, []
        for X, y in placed.chunks(None, None, 7):
            assert X.shape == (7, 8, 8, 1)
            for r in range(7):
                if X[r].any():
                    at = int(np.flatnonzero((X[r] == unit).all((1, 2, 3)))[0])
                    assert places[at] == r
                    assert y[r] == records.y[at]
                    seen.append(at)
                else:
                    assert y[r] == -1
        assert sorted(seen) == list(range(50))

    def test_of_a_sample_are_those_of_its_records(self):
        records, sampled = make_records(50), np.array([3, 17, 18, 40])
        placed, unit = ChunkedRecords(records, SeededEntropy(1)), records.schema.to_unit(records.X)
        placed.fill(contract.Halve(), 7, 0)
        for encoder in (None, contract.Halve()):
            found = [(X[r], r) for X, y in placed.chunks(encoder, sampled, 7, number=0) for r in range(7) if X[r].any()]
            factor = 1.0 if encoder is None else 0.5
            assert len(found) == 4
            for x, r in found:
                at = [i for i in sampled if np.array_equal(factor * unit[i].ravel(), x.ravel())]
                assert placed._places[at[0]] % 7 == r

    def test_placeholders_are_few(self):
        chunks = list(ChunkedRecords(make_records(8_000), SeededEntropy(1)).chunks(None, None, 16))
        assert len(chunks) <= 1.1 * 8_000 / 16

    @pytest.mark.parametrize("chunk", [0, -1, 65_537])
    def test_chunk(self, chunk):
        with pytest.raises(ValueError, match=f"Expected 1 <= chunk={chunk} <= 65536"):
            Compute(chunk=chunk)

    @pytest.mark.parametrize("block", [0, 129])
    def test_block(self, block):
        with pytest.raises(ValueError, match=f"Expected 1 <= block={block} <= 128"):
            Compute(block=block)

    @pytest.mark.parametrize(("side", "chunk", "block"), [(32, 16, 64), (64, 16, 64), (128, 4, 16), (224, 1, 5)])
    def test_chunks_of_large_images_are_smaller(self, side, chunk, block):
        queries, schema = (UnitQuery(), SoftmaxQuery(0.1, 3, ScatterNet())), schema_of((side, side, 3))
        sizes = [Compute(chunk=16).units_of(query, schema, prob) for query in queries for prob in (1.0, 0.5)]
        assert sizes == [chunk, chunk, block, chunk]


@pytest.mark.usefixtures("as_users")
class TestSelfTest:
    def test_an_encoder_that_mixes_rows_in_its_batching_rule_is_refused(self):
        """It would move others by more than C."""
        asked = make_curator(make_records(9), chunk=4)
        with pytest.raises(CuratorError, match="numbers depend on the other records of its chunk"):
            asked.release(0, FlatQuery(encoder=contract.MixingRows()), 1.0)
        assert asked._ledger.events() == ()

    def test_an_encoder_that_is_mapped_is_not(self):
        check_rows(FlatQuery(encoder=MixingEncoder()), np.float32(1.0), contract.SCHEMA, 4)

    def test_it_is_run_once_for_a_stage(self, monkeypatch):
        times = []
        monkeypatch.setattr(aggregator, "check_rows", lambda *arguments: times.append(arguments) or True)
        asked = make_curator(make_records(9), contract.full_batches(4), chunk=4)
        for t in range(3):
            asked.release(t, FlatQuery(), np.float32(t))
        assert len(times) == 1
        asked.release(3, FlatQuery(by_class=False), np.float32(1.0))
        assert [arguments[3] for arguments in times] == [4, 4]

    @pytest.mark.parametrize(
        ("mixes", "alone"),
        [
            (lambda X: X * 2.0, True),
            (lambda X: X - X.mean(1, keepdims=True), True),
            (lambda X: X - X.mean(0), False),
            (lambda X: X / (1.0 + 1e-30 * jnp.abs(X[0])), False),
            (lambda X: jnp.where(X.max() == X, 1.0, X), False),
            (lambda X: jnp.cumsum(X, 0), False),
            (lambda X: X.at[-1].set(X[0]), False),
            (lambda X: jnp.sort(X, 0), False),
            (lambda X: X + 0.5 * jnp.roll(X, 2, 0), False),
            (lambda X: X + 0.5 * jnp.roll(X, 4, 0), False),
            (lambda X: X - X[::2].mean(0), False),
        ],
    )
    def test_what_it_finds(self, mixes, alone):
        X = np.random.default_rng(0).uniform(-1, 1, (6, 5)).astype(np.float32)
        assert rows_stand_alone(jax.jit(lambda X, y: mixes(X)), X, np.arange(6)) is alone

    @pytest.mark.parametrize(
        ("mixes", "alone"),
        [
            (lambda X: X / jnp.linalg.norm(1.0 * X, axis=1, keepdims=True), True),
            (lambda X: X - X.mean(0), False),
            (lambda X: jnp.cumsum(X, 0), False),
            (lambda X: X.at[-1].set(X[0]), False),
            (lambda X: X + 0.5 * jnp.roll(X, 2, 0), False),
            (lambda X: X + 0.5 * jnp.roll(X, 4, 0), False),
            (lambda X: jnp.where(X.max() == X, 1.0, X), False),
            (lambda X: jnp.where((X == 127).any(), 0.0, X), False),
        ],
    )
    def test_what_it_finds_of_codes(self, mixes, alone):
        X = np.random.default_rng(0).integers(-126, 127, (6, 5)).astype(np.int8)
        assert rows_stand_alone(jax.jit(lambda X, y: mixes(X)), X, np.arange(6)) is alone

    def test_of_codes_a_classifier_of_zeros_does_not_tell(self, monkeypatch):
        """Before its first step, 0 times what another row adds is 0; of floats, NaN would show it."""
        encoder, schema = EightBits(contract.flattened), contract.SCHEMA
        query, W = SoftmaxQuery(0.1, 3, encoder), np.random.default_rng(0).normal(size=(schema.dimension, 3))
        assert not check_rows(query, 0 * W, schema, 4)
        assert check_rows(query, W, schema, 4)
        assert check_rows(ClassSumsQuery(1.0, 3, encoder), np.zeros(0), schema, 4)

        def coefficients(query, params, X, y):
            crossed = X + 0.5 * np.roll(X, 1, 0)  # in the product, as a compiler might
            return X, jax.nn.softmax(crossed @ params) - jax.nn.one_hot(y, 3)

        monkeypatch.setattr(clipping, "coefficients", coefficients)
        assert not check_rows(query, 0 * W, schema, 4)
        with pytest.raises(Refused, match="depend on the other records"):
            check_rows(query, W, schema, 4)

    def test_of_labels(self):
        X = np.ones((6, 2), np.float32)
        assert not rows_stand_alone(lambda X, y: X + y.sum(), X, np.arange(6) ** 2)

    @pytest.mark.parametrize("method", [DOS(width=8), DPKIP(kernel=FCNTK(), per_class=2)], ids=["dos", "dp-kip"])
    @pytest.mark.parametrize("size", [1, 2, 5, 64])
    def test_the_queries_of_methods_pass(self, method, size):
        check_rows(*method.ask(method.init(jax.random.key(1), contract.SCHEMA)), contract.SCHEMA, size)


@pytest.mark.usefixtures("as_users")
class TestWhatIsTestedIsWhatRuns:
    def test_precision_and_types_that_are_set_outside_do_not_count(self):
        records = make_records(9)
        _, (query, params) = contract.asked(contract.tiny("dos", width=4))
        values = []
        for context in (jax.enable_x64(False), jax.enable_x64(True), jax.default_matmul_precision("BF16_BF16_F32")):
            with context:
                values.append(make_curator(records, entropy=NoNoise(), chunk=4).release(0, query, params).value)
        np.testing.assert_array_equal(values[1], values[0])
        np.testing.assert_array_equal(values[2], values[0])
        assert values[0].any()

    def test_a_linear_query_is_given_128_rows_at_most(self, monkeypatch):
        sizes = []
        monkeypatch.setattr(aggregator, "sum_limbs", lambda q, p, chunks, *_: sizes.append(len(next(chunks)[1])))
        monkeypatch.setattr(curator, "release_linear", lambda *_: (None, 1.0))
        schedule = Schedule((Stage(1, 0.5),), (contract.NOISE,), Budget(1.0))
        asked = curator.Curator(
            make_records(600), schedule, contract.memory_ledger(schedule), SeededEntropy(1), Compute(chunk=4096)
        )
        asked._draw(0, contract.FlatLinear(), 1.0, (64,))
        assert sizes == [128]

    def test_a_test_on_zeros_is_repeated(self, monkeypatch):
        times, test = [], aggregator.check_rows
        monkeypatch.setattr(aggregator, "check_rows", lambda *arguments: times.append(1) or test(*arguments))
        asked = make_curator(make_records(9), contract.full_batches(3), chunk=4)
        for t, scale in enumerate((0.0, 1.0, 1.0)):
            asked.release(t, FlatQuery(), np.float32(scale))
        assert len(times) == 2

    def test_a_matrix_product_by_a_narrow_algorithm_is_refused(self):
        with pytest.raises(CuratorError, match="Expected norm in float64 throughout; found 'dot_general'"):
            make_curator(make_records(3)).release(0, Narrow(), 1.0)

    def test_a_coefficient_that_the_norm_overlooks_costs_its_own_record_only(self):
        records = contract.known(6)
        X = np.array(records.X)
        X[2, 0, 0, 0] = 0.5
        value = make_curator(type(records)(X, records.y, records.schema), entropy=NoNoise()).release(
            0, Overlooking(), 1.0
        )
        assert np.isfinite(value.value).all()
        assert value.value.any()

    def test_an_error_of_the_ledger_shows_no_value(self, monkeypatch):
        asked = make_curator(make_records(5))

        def fail(*arguments):
            raise LedgerError("The disk is full.")

        monkeypatch.setattr(asked._ledger, "commit", fail)
        with pytest.raises(LedgerError, match="The disk is full") as caught:
            asked.release(0, FlatQuery(), 1.0)
        frame, names = caught.tb, set()
        while frame is not None:
            names |= {
                name for name in frame.tb_frame.f_locals if frame.tb_frame.f_code.co_filename.endswith("curator.py")
            }
            frame = frame.tb_next
        assert names == {"self", "t", "query", "params", "stored"}


@dataclasses.dataclass(frozen=True)
class Narrow(contract.FlatLinear):
    """float64 in its types, and bfloat16 inside of a product."""

    def norm(self, params: Any, x: Any) -> Any:
        return jnp.sqrt(jnp.dot(x, x, precision=jax.lax.DotAlgorithmPreset.BF16_BF16_F32))


@dataclasses.dataclass(frozen=True)
class Overlooking(contract.FlatLinear):
    """A first coordinate of 1/2 becomes infinite, and the norm leaves it out."""

    def coefficients(self, params: Any, x: Any, y: Any) -> Any:
        v = x.ravel().astype(jnp.float64)
        return v.at[0].set(jnp.where(v[0] == 0.5, jnp.inf, v[0]))

    def norm(self, params: Any, x: Any) -> Any:
        return jnp.linalg.norm(x[1:]) + 1.0


def test_records_that_are_not_finite_have_no_label():
    records = make_records(40)
    X = np.array(records.X, np.float32)
    X[[3, 30], 1, 2, 0] = np.nan
    broken = Records(X, records.y, records.schema)
    chunks = list(ChunkedRecords(broken, SeededEntropy(0)).chunks(None, None, 7))
    labels = np.concatenate([y for _, y in chunks])
    finite = np.concatenate([np.isfinite(X).all((1, 2, 3)) for X, _ in chunks])
    assert (~finite).sum() == 2
    assert (labels[~finite] == -1).all()
    kept = np.delete(np.asarray(records.y), [3, 30])
    assert sorted(labels[labels >= 0]) == sorted(kept[kept >= 0])


class TestByValue:
    """What was checked is what runs: Python's own equality is what a class says it is."""

    def test_types_count(self):
        assert FlatQuery(clip_norm=1) == FlatQuery(clip_norm=True)
        keys = {ByValue(FlatQuery(clip_norm=value)) for value in (1, 1.0, True)}
        assert len(keys) == 3
        assert ByValue(FlatQuery(1.0)) == ByValue(FlatQuery(1.0))
        assert ByValue(FlatQuery(0.0)) != ByValue(FlatQuery(-0.0))
        assert ByValue(FlatQuery(encoder=ScatterNet())) == ByValue(FlatQuery(encoder=ScatterNet()))
        assert ByValue(FlatQuery(encoder=ScatterNet(J=1))) != ByValue(FlatQuery(encoder=ScatterNet()))
        assert ByValue((1, 2.0)) != ByValue((1, 2))
        assert ByValue(1) != 1

    def test_state_that_is_no_field_counts(self):
        assert ByValue(Hidden(1.0, scale=2.0)) == ByValue(Hidden(1.0, scale=2.0))
        assert ByValue(Hidden(1.0, scale=2.0)) != ByValue(Hidden(1.0, scale=3.0))
        one, other = Hidden(1.0, scale=2.0), Hidden(1.0, scale=2.0)
        object.__setattr__(one, "more", 1)
        assert ByValue(one) != ByValue(other)

    def test_a_class_that_calls_everything_equal_is_checked_anew(self):
        assert Agreeable() == Agreeable(prints=True)
        asked = make_curator(make_records(3), contract.full_batches(2))
        asked.release(0, Agreeable(), 1.0)
        with pytest.raises(CuratorError, match="The query is refused"):
            asked.release(1, Agreeable(prints=True), 1.0)


@dataclasses.dataclass(frozen=True)
class Hidden:
    clip_norm: float
    scale: dataclasses.InitVar[float]

    def __post_init__(self, scale: float) -> None:
        object.__setattr__(self, "_scale", scale)


@dataclasses.dataclass(frozen=True, eq=False)
class Agreeable(UnitQuery):
    prints: bool = False

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        if self.prints:
            jax.debug.print("{}", x.mean())
        return jnp.ravel(x)
