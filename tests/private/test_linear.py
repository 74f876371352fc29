"""Linear queries: norms and one weighted sum in float64 do what clipping every contribution would have done."""

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Any

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import NOISE, NoNoise, full_batches, insert, make_curator, make_records, replace, subset
from scipy import stats

from dpdistill.accounting.schedule import Budget, Schedule
from dpdistill.private import aggregator, curator
from dpdistill.private.checks import CuratorError, check_query
from dpdistill.private.chunking import GROUP
from dpdistill.private.linear import (
    FRACTION,
    carried,
    most_records,
    release_linear,
    step_and_sensitivity,
    sum_limbs,
)
from dpdistill.private.noise import SeededEntropy
from dpdistill.programs.jaxprs import Refused, in_double
from dpdistill.query import MOST_ROWS, ROUNDING_SHARE, SLACK_TEXT, Event, LinearQuery, Stage
from dpdistill.storage.records import Records

D, K = 64, 3


def released(query: Any, params: Any, chunks: list) -> tuple[np.ndarray, float]:
    """What the curator makes of these chunks when every noise is 0."""
    return release_linear(query, sum_limbs(query, params, chunks, (K, D), K), NOISE, NoNoise())


PLACES = ("coefficients", "norm", "weighted_sum")
NARROW: dict[str, Any] = {
    "square": lambda X: jnp.square(X.astype(jnp.float32)).sum(-1).astype(jnp.float64),
    "mul": lambda X: jax.lax.fori_loop(0, 2, lambda _, v: v * 2, X[..., 0].astype(jnp.float32)).astype(jnp.float64),
    "dot_general": lambda X: jnp.dot(*map(jnp.float32, (X, X.reshape(-1, D)[0])), preferred_element_type=jnp.float64),
    "integers": lambda X: X[..., 0].astype(jnp.float64).astype(jnp.int32).astype(jnp.float64),
    "convert_element_type": lambda X: X[..., 0].astype(jnp.float64).astype(jnp.bfloat16).astype(jnp.float64),
    "reduce_precision": lambda X: jax.lax.reduce_precision(X[..., 0].astype(jnp.float64), 8, 7),
}
W = np.random.default_rng(8).normal(size=(K, D))


def test_codes_are_widened_before_anything_else():
    """Squares of whole numbers of eight bits overflow, and would state a norm of 28 where it is 707."""
    codes = jax.ShapeDtypeStruct((D,), jnp.int8)
    with jax.enable_x64(True):
        for name, narrow in (
            ("square", lambda x: jnp.sqrt(jnp.square(x).sum().astype(jnp.float64))),
            ("convert_element_type", lambda x: jnp.sum(jnp.square(x.astype(jnp.int16)).astype(jnp.float64))),
        ):
            with pytest.raises(Refused, match=f"float64 throughout; found '{name}' of fewer bits"):
                in_double("norm", (), narrow, codes)
        in_double("norm", (), lambda x: jnp.sqrt(jnp.square(x[::-1].astype(jnp.float64)).sum()), codes)


@dataclass(frozen=True)
class SoftmaxGradient:
    """(p - y) x^T of multinomial logistic regression: its norm is ||p - y|| ||x||, exactly. Coefficients: y, x, p - y.

    The relative error of either product of float64 is below 2^-40 for d = 64, hence e <= 2^-40 C for one record.
    """

    clip_norm: float = 0.5
    error: float = 1e-12
    flaw: str = ""
    place: str = ""
    by_class: bool = False
    encoder: None = None

    @property
    def error_bound(self) -> float:
        return self.error

    def contribution(self, params: Any, x: Any, y: Any) -> Any:
        return jnp.outer(jax.nn.softmax(params @ x.ravel()) - jax.nn.one_hot(y, K), x.ravel())

    def prepare(self, params: Any) -> Any:
        return params

    def coefficients(self, params: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
        raw, x = x.ravel(), x.ravel().astype(jnp.float64)
        r = jax.nn.softmax(x @ params.astype(jnp.float64).T) - jax.nn.one_hot(y, K, dtype=jnp.float64)
        broken = {"nan coefficients": jnp.nan, "inf coefficients": -jnp.inf}
        if self.flaw in broken:
            x = jnp.where(y == 1, broken[self.flaw], x)
        return self.flawed("coefficients", raw, y.astype(jnp.float64)), x, r

    def norm(self, params: Any, coefficients: Any) -> Any:
        y, x, r = coefficients
        found = jnp.linalg.norm(r) * jnp.linalg.norm(x) * (1 + 2.0**-40)
        broken = {"nan norms": jnp.nan, "inf norms": jnp.inf, "negative norms": -1.0}
        if self.flaw in broken:
            found = jnp.where(y == 1, broken[self.flaw], found)
        return self.flawed("norm", x, found)

    def weighted_sum(self, params: Any, coefficients: Any, w: Any) -> Any:
        y, X, R = coefficients
        if self.flaw == "a sum that is not finite":
            X = X / jnp.where(jnp.any(y == 2), 0.0, 1.0)
        found = (w[:, None] * R).T @ X
        if self.flaw == "narrow products":
            found = ((w[:, None] * R).T.astype(jnp.float32) @ X.astype(jnp.float32)).astype(jnp.float64)
        return self.flawed("weighted_sum", X, found)

    def flawed(self, place: str, X: Any, found: Any) -> Any:
        """What is found, with the flaw if it has its place here."""
        if self.place != place:
            return found
        if self.flaw == "a print":
            jax.debug.print("{}", X.mean())
        if self.flaw == "a callback":
            jax.debug.callback(lambda v: None, X)
        if self.flaw in NARROW:
            found = found + 0.0 * NARROW[self.flaw](X).sum()
        if self.flaw == "a vector":
            return jnp.stack([found])
        if self.flaw == "one row less":
            return found[1:]
        if self.flaw == "transposed":
            return found.T
        return found.astype(jnp.float32) if self.flaw == "float32" else found


QUERY = SoftmaxGradient()
STEP = 2.0 ** math.floor(math.log2(ROUNDING_SHARE * QUERY.clip_norm / math.sqrt(K * D)))
DELTA = QUERY.clip_norm + STEP * math.sqrt(K * D) + ROUNDING_SHARE * QUERY.clip_norm


def plain(records: Records, clip_norm: float = QUERY.clip_norm) -> np.ndarray:
    """Every contribution formed, clipped and added in NumPy."""
    total = np.zeros((K, D))
    for x, y in zip(records.schema.to_unit(records.X).reshape(-1, D).astype(np.float64), records.y, strict=True):
        if y >= 0 and np.isfinite(x).all():
            logits = W @ x
            p = np.exp(logits - logits.max())
            v = np.outer(p / p.sum() - np.eye(K)[y], x)
            total += v * min(1.0, clip_norm / np.linalg.norm(v))
    return total


def linear_sum(records: Records, query: Any = QUERY, chunk: int = 4) -> np.ndarray:
    """The un-noised release."""
    return make_curator(records, entropy=NoNoise(), chunk=chunk).release(0, query, W).value


def known(n: int, seed: int = 0) -> Records:
    records = make_records(n, seed)
    return Records(records.X, np.arange(n) % K, records.schema)


def rows(chunks: Any) -> int:
    """Records in chunks, placeholders left out."""
    return sum(int((y >= 0).sum()) for _, y in chunks)


def test_it_is_a_linear_query():
    assert isinstance(QUERY, LinearQuery)
    assert not isinstance(contract.FlatQuery(), LinearQuery)


@pytest.mark.parametrize("clip_norm", [0.5, 3.0, 1e-6, 100.0])
@pytest.mark.parametrize("chunk", [4, 5])
def test_it_is_the_sum_of_clipped_contributions(clip_norm, chunk):
    records, query = make_records(20), SoftmaxGradient(clip_norm, error=1e-12 * clip_norm)
    expected, found = plain(records, clip_norm), linear_sum(records, query, chunk)
    step = 2.0 ** math.floor(math.log2(ROUNDING_SHARE * clip_norm / math.sqrt(K * D)))
    assert np.abs(found - expected).max() <= step / 2 + query.error
    assert np.linalg.norm(expected) > min(clip_norm, 2.0)
    np.testing.assert_array_equal(np.rint(found / step), found / step)


def test_norms_bound_the_contributions_they_stand_for():
    records = known(30)
    X = np.asarray(records.X) * np.linspace(0.0, 1.0, 30, dtype=np.float32)[:, None, None, None]
    with jax.enable_x64(True):
        norms = contract.norms_of(QUERY, W, contract.coefficients_of(QUERY, W, X, np.asarray(records.y)))
        each = [
            np.linalg.norm(QUERY.contribution(W, x.astype(np.float64), y)) for x, y in zip(X, records.y, strict=True)
        ]
    assert (norms >= each).all()
    np.testing.assert_allclose(norms, each, rtol=1e-9)


class TestSensitivity:
    def test_one_record_more_or_less(self):
        records = make_records(7)
        before = linear_sum(records)
        for i, x in enumerate(contract.adversaries(records, 0)):
            for y in (-1, i % K):
                moved = np.linalg.norm(linear_sum(insert(records, i % 8, x, y)) - before)
                assert moved <= DELTA
                if y < 0 or not np.isfinite(records.schema.to_unit(x)).all():
                    assert moved <= STEP * math.sqrt(K * D)

    def test_one_record_replaced(self):
        records = known(7)
        before = linear_sum(records)
        for i, x in enumerate(contract.adversaries(records, 1)):
            assert np.linalg.norm(linear_sum(replace(records, 1, x, i % (K + 1) - 1)) - before) <= 2 * DELTA

    def test_the_bound_is_nearly_reached(self):
        records = known(1)
        assert 0.99 * QUERY.clip_norm < np.linalg.norm(linear_sum(records)) <= DELTA

    def test_order_and_chunks_matter_by_less_than_the_stated_bound(self):
        records = known(23)
        first = linear_sum(records, chunk=4)
        for chunk in (1, 5, 64):
            other = linear_sum(subset(records, np.random.default_rng(chunk).permutation(23)), chunk=chunk)
            assert np.linalg.norm(other - first) <= STEP * math.sqrt(K * D) + 2 * QUERY.error

    @pytest.mark.parametrize("clip_norm", [1e-7, 0.3, 1.0, 7.0])
    def test_delta_is_the_clip_norm_within_a_thousandth(self, clip_norm):
        query = SoftmaxGradient(clip_norm, error=ROUNDING_SHARE / 8 * clip_norm / 2**20)
        stddev = make_curator(known(3)).release(0, query, W).stddev
        assert clip_norm < stddev / NOISE <= 1.001 * clip_norm

    @pytest.mark.parametrize("flaw", ["nan norms", "inf norms", "negative norms"])
    def test_a_record_without_a_usable_norm_contributes_nothing(self, flaw):
        records = known(12)
        found = linear_sum(records, dataclasses.replace(QUERY, flaw=flaw))
        np.testing.assert_allclose(found, plain(subset(records, records.y != 1)), atol=STEP)

    @pytest.mark.parametrize("flaw", ["nan coefficients", "inf coefficients", "nan norms"])
    def test_what_is_wrong_with_one_record_leaves_the_others_alone(self, flaw):
        records = known(12)
        found = linear_sum(records, dataclasses.replace(QUERY, flaw=flaw))
        others = Records(records.X, np.where(records.y == 1, -1, records.y), records.schema)
        np.testing.assert_array_equal(found, linear_sum(others))
        assert np.linalg.norm(found) > 0.5

    @pytest.mark.parametrize("flaw", ["nan norms", "inf norms", "nan coefficients", "inf coefficients"])
    def test_traps_of_debuggers_are_off(self, flaw, capfd):
        records, query = known(12), dataclasses.replace(QUERY, flaw=flaw)
        value = linear_sum(records, query)
        with jax.debug_nans(True), jax.debug_infs(True), np.errstate(all="raise"):
            np.testing.assert_array_equal(linear_sum(records, query), value)
        assert capfd.readouterr() == ("", "")

    def test_no_records(self):
        assert not linear_sum(subset(known(3), [])).any()

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_a_record_that_is_not_finite_contributes_nothing_and_its_norm_is_never_asked_for(self, bad, capfd):
        records = known(6)
        X = np.array(records.X)
        X[3, 0, 0, 0] = bad
        value, _ = released(QUERY, W, [(X, np.asarray(records.y))])
        unlabelled = np.where(np.arange(6) == 3, -1, records.y)  # as it comes from `ChunkedRecords`
        with jax.debug_nans(True), jax.debug_infs(True):
            trapped, _ = released(QUERY, W, [(X, unlabelled)])
        np.testing.assert_array_equal(trapped, value)
        others = np.arange(6) != 3
        np.testing.assert_allclose(value, plain(subset(records, others)), atol=STEP)
        assert capfd.readouterr() == ("", "")

    @pytest.mark.filterwarnings("error")
    def test_a_record_of_norm_zero_is_not_spoken_of(self):
        # C / 1e-300 is beyond the largest float.
        records = Records(np.zeros((3, 8, 8, 1), np.float32), np.arange(3), contract.SCHEMA)
        query = SoftmaxGradient(1e10, error=0.0)
        assert not linear_sum(records, query).any()
        with np.errstate(all="raise"):
            assert not released(query, W, [(np.asarray(records.X), np.arange(3))])[0].any()

    def test_the_noise_follows_neither_the_error_bound_nor_the_number_of_records(self):
        stddevs = [
            make_curator(known(n)).release(0, dataclasses.replace(QUERY, error=error), W).stddev
            for n, error in (
                (0, 0.0),
                (3, 1e-12),
                (40, 0.0),
                (40, 1e-11),
                (1, ROUNDING_SHARE / 4 * QUERY.clip_norm / 2**20),
            )
        ]
        assert stddevs == [pytest.approx(NOISE * DELTA, rel=1e-12)] * 5
        assert len(set(stddevs)) == 1

    def test_the_certificate_says_so(self):
        assert SLACK_TEXT.startswith("float64 ghost sum, bound E = 0.00025 clip_norm: ")
        assert ROUNDING_SHARE == 2 * 0.00025


class TestNoise:
    def test_it_has_the_stated_standard_deviation(self):
        records = known(9)
        noise = []
        for seed in range(20):
            release = make_curator(records, entropy=SeededEntropy(seed)).release(0, QUERY, W)
            noise.append((release.value - linear_sum(records)).ravel())
        assert release.stddev == pytest.approx(NOISE * DELTA, rel=1e-12)
        assert release.event == Event(NOISE)
        p = {r: stats.kstest(np.ravel(noise), stats.norm(scale=r * release.stddev).cdf).pvalue for r in (1, 2 / 3, 1.5)}
        assert p[1] > 1e-3
        assert max(p[2 / 3], p[1.5]) < 1e-9

    def test_it_is_scaled_to_the_sensitivity_within_a_ten_thousandth(self):
        contract.check_ghost_noise_scale()

    def test_samples(self):
        records, coins = known(11), np.arange(11) % 2 == 0
        schedule = Schedule((Stage(1, 0.5),), (NOISE,), Budget(1.0))
        value = make_curator(records, schedule, NoNoise(coins), 4).release(0, QUERY, W).value
        np.testing.assert_allclose(value, plain(subset(records, coins)), atol=STEP)

    def test_a_round_is_drawn_once(self):
        asked = make_curator(known(5), full_batches(2))
        first = asked.release(0, QUERY, W).value
        np.testing.assert_array_equal(asked.release(0, QUERY, W).value, first)
        assert not np.array_equal(asked.release(1, QUERY, W).value, first)


class TestRefusals:
    @pytest.mark.parametrize(
        "error", [-1e-9, 1.01 * ROUNDING_SHARE / 2 * QUERY.clip_norm / 2**20, 1e-5, math.nan, math.inf]
    )
    def test_an_error_bound_that_does_not_hold_for_a_million_records(self, error):
        # Decided on public facts: no record is counted, no coin is drawn.
        query = dataclasses.replace(QUERY, error=error)
        for n in (0, 3):
            said = f"Expected 0 <= error_bound / clip_norm = {error / QUERY.clip_norm:.3g} <= 2.38e-10: "
            with pytest.raises(CuratorError, match=re.escape(said)):
                make_curator(known(n)).release(0, query, W)
        with pytest.raises(CuratorError, match="Use fewer synthetic records per class"):
            check_query(query, W, contract.SCHEMA)

    def test_more_records_than_the_error_bound_allows_before_any_coin_is_drawn(self, monkeypatch):
        class Counted(SeededEntropy):
            drawn = 0

            def bytes(self, n):
                self.drawn += n
                return super().bytes(n)

        monkeypatch.setattr(curator, "most_records", lambda query: 50)
        schedule, sizes = Schedule((Stage(100, 0.5),), (NOISE,), Budget(1.0)), []
        for n in (50, 51):
            entropy = Counted(1)
            asked = make_curator(known(n), schedule, entropy, 4)
            if n > 50:
                with pytest.raises(CuratorError, match="more records than the error bound of this query allows"):
                    asked.release(0, QUERY, W)
                assert entropy.drawn == 2 * n  # their places
                continue
            # Every sample is answered, whatever its size: a limit of 22 sampled records would leave small ones only.
            monkeypatch.setattr(aggregator, "sum_limbs", lambda q, p, chunks, *_: sizes.append(rows(chunks)))
            monkeypatch.setattr(curator, "release_linear", lambda *_: (None, 1.0))
            for t in range(100):
                asked._draw(t, QUERY, W, (K, D))
            assert np.mean(sizes) == pytest.approx(25.0, abs=1.5)
            assert max(sizes) > 30

    def test_the_number_of_records_that_an_error_bound_allows(self):
        assert most_records(dataclasses.replace(QUERY, error=0.0)) == int(ROUNDING_SHARE / 2 * 2**47)
        half = dataclasses.replace(QUERY, error=ROUNDING_SHARE / 4 * QUERY.clip_norm / 2**20)
        E = ROUNDING_SHARE / 2
        assert most_records(half) == pytest.approx(E / (E / 2**21 + 2**-47), rel=1e-6)

    def test_chunks_are_added_without_an_error_that_grows_with_their_number(self):
        # Small chunks after a large one: plain addition of all of them is off by hundreds of units in the last place.
        query = contract.FlatLinear(16.0)
        step, _ = step_and_sensitivity(16.0, D)
        X = np.full((1, 8, 8, 1), 1 / 3, np.float32)
        chunks = [(X * 3, np.zeros(1, np.int64)), *[(X * 2.0**-30, np.zeros(1, np.int64))] * 4096]

        def total(chunks: list) -> np.ndarray:
            limbs = sum_limbs(query, 1.0, chunks, (D,), K)
            return (limbs[0] + np.ldexp(limbs[1].astype(np.longdouble), -FRACTION)) * step

        small, groups = float(np.float32(1 / 3)) * 2.0**-30, 4097 // GROUP + 1
        assert abs(np.cumsum([1.0] + [small] * 4096)[-1] - (1.0 + 4096 * small)) > 4 * GROUP * 2.0**-53
        off = GROUP * 2.0**-53 + groups * step * 2.0 ** -(FRACTION + 1)
        assert off < 4097 * 16.0 * 2.0**-47  # what `most_records` allows for
        assert np.abs(total(chunks) - (1.0 + 4096 * small)).max() <= off
        # With nothing beside the large one in what is added plainly, only the second limb rounds.
        apart = [chunks[0], *[(X * 0, np.zeros(1, np.int64))] * (GROUP - 1), *chunks[1:]]
        assert np.abs(total(apart) - (1.0 + 4096 * small)).max() <= groups * step * 2.0 ** -(FRACTION + 1)

    def test_usable_rows_of_a_unit_share_one_scale(self):
        """A unit is scaled by C / (the sum of its usable norms); rows of no class, or not finite, count nothing."""
        query, rng = contract.FlatLinear(1.0), np.random.default_rng(6)
        X = rng.normal(size=(12, 8, 8, 1)).astype(np.float32)
        norms = np.array([0.2, 0.3, 0.1, 0.5, 0.5, 0.5, 4.0, 3.0, 2.0, 0.4, 0.5, 9.0])
        X *= (norms / np.linalg.norm(X.reshape(12, -1), axis=1)).astype(np.float32)[:, None, None, None]
        y = np.array([0, 1, 2, 0, -1, 1, 2, 2, 2, 1, 0, -1])
        X[7, 0, 0] = np.nan
        scales = np.array([1.0] * 3 + [1.0, 0.0, 1.0] + [1 / 6, 0.0, 1 / 6] + [1.0, 1.0, 0.0])
        step = step_and_sensitivity(1.0, D)[0]
        found = sum_limbs(query, 1.0, [(X, y)], (D,), K, k=3)
        total = (found[0] + np.ldexp(found[1].astype(np.longdouble), -FRACTION)) * step
        expected = np.nan_to_num(X.reshape(12, -1).astype(np.float64)).T @ scales
        np.testing.assert_allclose(total.astype(np.float64), expected, rtol=0, atol=1e-6)

    def test_limbs_of_shards_are_added_in_any_order(self):
        query, rng = contract.FlatLinear(0.7), np.random.default_rng(5)
        chunks = [(rng.normal(size=(5, 8, 8, 1)).astype(np.float32), np.arange(5) % K) for _ in range(6 * GROUP)]
        whole = sum_limbs(query, 1.0, chunks, (D,), K)
        parts = [sum_limbs(query, 1.0, chunks[i : i + 2 * GROUP], (D,), K) for i in (0, 2 * GROUP, 4 * GROUP)]
        for order in ((0, 1, 2), (2, 0, 1)):
            np.testing.assert_array_equal(carried(sum(parts[i] for i in order)), whole)
        assert (whole[1] != 0).any()
        assert ((whole[1] >= 0) & (whole[1] < 1 << FRACTION)).all()
        np.testing.assert_array_equal(
            release_linear(query, sum(parts), NOISE, NoNoise())[0], release_linear(query, whole, NOISE, NoNoise())[0]
        )

    @pytest.mark.parametrize("place", PLACES[1:])  # coefficients count as exact, whatever made them
    @pytest.mark.parametrize("flaw", NARROW)
    def test_arithmetic_of_fewer_bits_than_float64(self, flaw, place):
        seen = flaw if flaw == "reduce_precision" else "convert_element_type"
        query = dataclasses.replace(QUERY, flaw=flaw, place=place)
        with pytest.raises(CuratorError, match=f"Expected {place} in float64 throughout; found '{seen}' of fewer"):
            make_curator(known(3)).release(0, query, W)

    @pytest.mark.parametrize("flaw", [*NARROW, "float32"])
    def test_coefficients_may_be_made_in_any_precision(self, flaw):
        records = known(9)
        found = linear_sum(records, dataclasses.replace(QUERY, flaw=flaw, place="coefficients"))
        np.testing.assert_array_equal(found, linear_sum(records))

    def test_products_of_fewer_bits(self):
        with pytest.raises(CuratorError, match="Expected weighted_sum in float64 throughout; found 'convert_element"):
            make_curator(known(3)).release(0, dataclasses.replace(QUERY, flaw="narrow products"), W)

    def test_a_sum_that_is_not_finite(self):
        query = dataclasses.replace(QUERY, flaw="a sum that is not finite")
        with pytest.raises(CuratorError) as caught:
            make_curator(known(3)).release(0, query, W)
        assert str(caught.value) == contract.FAILED
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
        X, y = np.asarray(known(3).X), np.arange(3)
        with pytest.raises(ValueError, match="The weighted sum is not finite"):
            released(query, W, [(X, y)])

    @pytest.mark.parametrize("place", PLACES)
    @pytest.mark.parametrize("flaw", ["a print", "a callback"])
    def test_speech(self, flaw, place):
        with pytest.raises(CuratorError, match="The query is refused: it has"):
            make_curator(known(3)).release(0, dataclasses.replace(QUERY, flaw=flaw, place=place), W)

    @pytest.mark.parametrize(
        ("flaw", "place", "message"),
        [
            ("float32", "norm", r"Expected norm in float64 of shape \(\); got float32 \(\)"),
            ("float32", "weighted_sum", r"Expected weighted_sum in float64 of shape \(3, 64\); got float32 \(3, 64\)"),
            ("a vector", "norm", r"Expected norm .* \(\); got float64 \(1,\)"),
            ("one row less", "weighted_sum", r"Expected weighted_sum .* \(3, 64\); got float64 \(2, 64\)"),
            ("transposed", "weighted_sum", r"Expected weighted_sum .* \(3, 64\); got float64 \(64, 3\)"),
        ],
    )
    def test_another_type_or_shape(self, flaw, place, message):
        with pytest.raises(CuratorError, match=message):
            make_curator(known(3)).release(0, dataclasses.replace(QUERY, flaw=flaw, place=place), W)

    @pytest.mark.parametrize("noise", [0.0, -1.0, math.nan, math.inf, 1e12])
    def test_a_noise_that_cannot_be_drawn_before_a_record_is_read(self, noise):
        with pytest.raises(CuratorError, match=f"Expected noise_multiplier={noise} > 0 and of at most 2"):
            check_query(QUERY, W, contract.SCHEMA, noise)

    def test_units_of_more_rows_than_a_block(self):
        with pytest.raises(CuratorError, match=f"Expected rows_per_unit={MOST_ROWS + 1} <= {MOST_ROWS} for this meth"):
            check_query(QUERY, W, contract.SCHEMA, rows_per_unit=MOST_ROWS + 1)
        assert check_query(QUERY, W, contract.SCHEMA, rows_per_unit=MOST_ROWS) == (K, D)
        assert check_query(contract.FlatQuery(), 1.0, contract.SCHEMA, rows_per_unit=MOST_ROWS + 1) == (D,)

    def test_a_noise_of_less_than_a_step_can(self):
        """Steps of a linear query are about 2^-11 C / sqrt(d) long."""
        step, sensitivity = step_and_sensitivity(QUERY.clip_norm, K * D)
        for share in (0.5, 2.0):
            assert check_query(QUERY, W, contract.SCHEMA, share * step / sensitivity) == (K, D)

    @pytest.mark.parametrize("noise", [1e-3, 1.0, 1e9])
    def test_any_other_noise_can(self, noise):
        assert check_query(QUERY, W, contract.SCHEMA, noise) == (K, D)
        assert make_curator(known(3), full_batches(1, noise)).release(0, QUERY, W).value.any()

    def test_blocks_of_classes(self):
        with pytest.raises(CuratorError, match="Expected by_class=False in a linear query"):
            make_curator(known(3)).release(0, dataclasses.replace(QUERY, by_class=True), W)

    def test_clip_norm(self):
        with pytest.raises(CuratorError, match=r"Expected clip_norm=0\.0 > 0"):
            make_curator(known(3)).release(0, dataclasses.replace(QUERY, clip_norm=0.0), W)
