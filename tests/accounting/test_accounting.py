"""Accounting: published values, closed form against PLD, tightness of the search, and independent bounds."""

import json
import math

import dp_accounting
import mpmath
import numpy as np
import pytest
from chosen_tests import few
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from dpdistill.accounting import pld
from dpdistill.accounting import schedule as accounting
from dpdistill.accounting.bounds import dp_event, epsilon_lower_bound, epsilon_rdp
from dpdistill.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_noise_multiplier
from dpdistill.accounting.pld import compose, discretization_interval, epsilon_pld
from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.query import Event, Stage

RELATION = {
    "add-remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace-one": dp_accounting.NeighboringRelation.REPLACE_ONE,
}
ADJACENCIES = list(RELATION)


def independent_pld(groups, delta, adjacency, interval=1e-4):
    accountant = PLDAccountant(RELATION[adjacency], interval)
    for rounds, sigma, q in groups:
        event = dp_accounting.GaussianDpEvent(sigma)
        accountant.compose(event if q == 1 else dp_accounting.PoissonSampledDpEvent(q, event), rounds)
    return accountant.get_epsilon(delta)


def test_published_noise_multipliers():
    assert gaussian_noise_multiplier(1.0, 1e-5) == pytest.approx(3.7306, abs=5e-5)
    assert gaussian_noise_multiplier(10.0, 1e-5) == pytest.approx(0.49989, abs=5e-6)
    assert gaussian_noise_multiplier(1.0, 1e-5, "replace-one") == pytest.approx(2 * 3.73063, abs=1e-4)


def test_replace_one_is_never_accounted_by_renyi_orders():
    accountant = RdpAccountant(neighboring_relation=RELATION["replace-one"])
    accountant.compose(dp_accounting.GaussianDpEvent(3.7306))
    assert accountant.get_epsilon(1e-5) == pytest.approx(1.093, abs=1e-3)
    groups = [(1, Event(3.7306))]
    assert gaussian_epsilon(3.7306, 1e-5, "replace-one") == pytest.approx(2.155, abs=1e-3)
    assert compose(groups, 1e-5, "replace-one") == pytest.approx(2.155, abs=1e-3)
    assert epsilon_pld(groups, 1e-5, "replace-one") == pytest.approx(2.155, abs=1e-3)
    assert epsilon_lower_bound(groups, 1e-5, "replace-one") == pytest.approx(2.155, abs=1e-3)
    with pytest.raises(ValueError, match="Renyi accountant ignores 'replace-one'"):
        epsilon_rdp(groups, 1e-5, "replace-one")


def test_the_privacy_unit_of_several_rows():
    sigma = gaussian_noise_multiplier(1.0, 1e-5)
    assert gaussian_epsilon(sigma / 2, 1e-5) == pytest.approx(2.15, abs=0.01)
    assert gaussian_epsilon(sigma / 5, 1e-5) == pytest.approx(6.17, abs=0.01)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("delta", [1e-5, 1e-8])
@pytest.mark.parametrize("sigma", [0.8, 3.7306, 40.0])
def test_closed_form_agrees_with_the_pld_of_dp_accounting(sigma, delta, adjacency):
    assert gaussian_epsilon(sigma, delta, adjacency) == pytest.approx(
        independent_pld([(1, sigma, 1)], delta, adjacency), abs=1e-4
    )


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0, 100.0])
def test_the_closed_form_inverts_itself_and_never_overspends(epsilon, delta, adjacency):
    sigma = gaussian_noise_multiplier(epsilon, delta, adjacency)
    assert gaussian_epsilon(sigma, delta, adjacency) <= epsilon
    assert gaussian_epsilon(sigma, delta, adjacency) >= 0.9999 * epsilon
    assert gaussian_delta(sigma, epsilon, adjacency) == pytest.approx(delta, rel=1e-6)


def test_closed_form_at_its_ends():
    assert gaussian_delta(1.0, 0.0) == pytest.approx(math.erf(0.5 / math.sqrt(2)), rel=1e-12)
    assert gaussian_epsilon(10.0, 0.5) == 0.0
    assert gaussian_delta(0.01, 1.0) == pytest.approx(1.0)
    assert gaussian_delta(1e6, 100.0) == 0.0


@pytest.mark.parametrize(
    ("rounds", "q", "epsilon", "adjacency"),
    few(
        [
            (rounds, q, epsilon, adjacency)
            for rounds, q in [(10_000, 0.01), (100, 0.1), (3, 0.5)]
            for epsilon in (0.5, 1.0)
            for adjacency in ADJACENCIES
        ],
        *((100, 0.1, 1.0, adjacency) for adjacency in ADJACENCIES),
        (10_000, 0.01, 0.5, "add-remove"),
        of_several=True,
    ),
)
def test_poisson_calibration_is_safe_and_tight(rounds, q, epsilon, adjacency):
    schedule = calibrate([Stage(rounds, q)], Budget(epsilon, 1e-5, adjacency))
    interval = discretization_interval(schedule.groups, adjacency)
    independent = independent_pld([(rounds, schedule.noise_multipliers[0], q)], 1e-5, adjacency, interval)
    assert 0.999 * epsilon <= independent <= epsilon
    assert schedule.epsilon() == pytest.approx(independent, rel=1e-9)
    half = independent_pld([(rounds, schedule.noise_multipliers[0], q)], 1e-5, adjacency, interval / 2)
    assert half <= epsilon * (1 + 1e-3)
    lower = epsilon_lower_bound(schedule.groups, 1e-5, adjacency)
    assert 0.985 * epsilon <= lower <= independent


def test_poisson_noise_multipliers_stay_where_they_were_measured():
    assert calibrate([Stage(10_000, 0.01)], Budget(1.0)).noise_multipliers[0] == pytest.approx(3.814, rel=1e-3)
    assert calibrate([Stage(100, 0.1)], Budget(1.0)).noise_multipliers[0] == pytest.approx(3.942, rel=1e-3)
    replace_one = Budget(1.0, 1e-5, "replace-one")
    assert calibrate([Stage(10_000, 0.01)], replace_one).noise_multipliers[0] == pytest.approx(7.463, rel=1e-3)
    assert calibrate([Stage(100, 0.1)], replace_one).noise_multipliers[0] == pytest.approx(7.459, rel=1e-3)


@pytest.mark.parametrize(
    ("rounds", "q", "budget"),
    few(
        [
            (150, 0.1, Budget(0.05)),
            (150, 0.1, Budget(0.001)),
            (100_000, 0.01, Budget(1.0)),
            (10_000, 0.005, Budget(0.1, 1e-9)),
        ],
        (150, 0.1, Budget(0.001)),
        of_several=True,
    ),
)
def test_rounding_costs_little_however_many_or_private_the_rounds(rounds, q, budget):
    """At 1e-4 throughout, 100,000 rounds cost 0.14 % more, and epsilon = 0.001 took twice the noise."""
    schedule = calibrate([Stage(rounds, q)], budget)
    interval, groups = discretization_interval(schedule.groups), [(rounds, schedule.noise_multipliers[0], q)]
    double, whole, quarter = (independent_pld(groups, budget.delta, "add-remove", interval * k) for k in (2, 1, 0.25))
    assert 0.999 * budget.epsilon <= quarter <= budget.epsilon
    assert whole <= budget.epsilon
    assert double <= budget.epsilon * (1 + 5e-4)


@pytest.mark.parametrize("delta", [1e-5, 1e-10])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-7, 1e-5, 1e-3])
def test_small_epsilons_keep_their_digits(epsilon, delta):
    """Where mu is small the two terms of delta agree in nearly all of theirs."""
    schedule = calibrate([Stage(3)], Budget(epsilon, delta))
    assert (1 - 1e-5) * epsilon <= schedule.epsilon() <= epsilon
    sigma = mpmath.mpf(schedule.noise_multipliers[0]) / mpmath.sqrt(3)
    with mpmath.workdps(60):
        mu, eps = 1 / sigma, mpmath.mpf(epsilon)
        exact = mpmath.ncdf(mu / 2 - eps / mu) - mpmath.exp(eps) * mpmath.ncdf(-mu / 2 - eps / mu)
    assert float(exact) <= delta
    assert float(exact) == pytest.approx(delta, rel=1e-7)


@pytest.mark.parametrize("mu", [1e-6, 1e-4, 9.9e-4, 1e-3, 1.1e-3])
@pytest.mark.parametrize("share", [0.0, 0.5, 3.0])
def test_the_series_for_little_privacy_loss_is_exact(mu, share):
    """Below mu = 1e-3 delta is a series, above it the closed form: both have ten digits where they meet."""
    with mpmath.workdps(60):
        exact_mu = 1 / mpmath.mpf(1 / mu)
        eps = mpmath.mpf(share * mu)
        upper = mpmath.ncdf(exact_mu / 2 - eps / exact_mu)
        exact = upper - mpmath.exp(eps) * mpmath.ncdf(-exact_mu / 2 - eps / exact_mu)
    assert gaussian_delta(1 / mu, share * mu) == pytest.approx(float(exact), rel=1e-10)


def test_an_epsilon_through_which_nothing_is_heard_is_refused():
    for plan in ([Stage(3)], [Stage(3, 0.1)]):
        with pytest.raises(ValueError, match=r"Expected epsilon=1e-10 >= 1e-09: the noise would hide any signal"):
            calibrate(plan, Budget(1e-10, 1e-10))


def test_a_delta_below_what_floats_can_invert_is_refused():
    assert calibrate([Stage(1)], Budget(1.0, 1e-300)).epsilon() <= 1.0
    with pytest.raises(ValueError, match=r"Expected 1e-300 <= delta=1e-320 < 1"):
        Budget(1.0, 1e-320)


def test_numbers_of_numpy_are_taken_as_those_of_python():
    budget = Budget(np.float32(1.0), np.float64(1e-5))
    assert (type(budget.epsilon), type(budget.delta)) == (float, float)
    assert json.loads(calibrate([Stage(1)], budget).to_json())["budget"]["epsilon"] == 1.0
    assert Budget(np.int64(2), rows_per_unit=1) == Budget(2.0)


@pytest.mark.parametrize("rounds", [1.4, 2.0, True, np.int64(3), math.nan, 0])
def test_rounds_are_whole(rounds):
    """1.4 rounds were accounted as such, and two released."""
    with pytest.raises(ValueError, match=r"Expected rounds=.* as a whole number >= 1"):
        Stage(rounds)


def test_calibration_needs_few_evaluations():
    pld._accountant.cache_clear()
    pld._epsilon.cache_clear()
    accounting._common_multiplier.cache_clear()
    calibrate([Stage(10_000, 0.01)], Budget(1.0))
    assert 0 < pld._accountant.cache_info().misses <= 6


@pytest.mark.parametrize("epsilon", few([1.0, 30.0], 1.0))
def test_few_computations_are_as_fine_as_what_is_claimed(monkeypatch, epsilon):
    intervals, plan = [], (Stage(20, weight=0.1), Stage(40, 0.137))
    compute = pld.epsilon_pld
    monkeypatch.setattr(pld, "epsilon_pld", lambda *asked: intervals.append(asked[3]) or compute(*asked))
    schedule = calibrate(plan, Budget(epsilon))
    assert 0.9995 * epsilon <= compute(schedule.groups, 1e-5) <= epsilon
    assert intervals.count(discretization_interval(schedule.groups)) <= 3
    assert {round(interval / min(intervals)) for interval in intervals} == {1, 16}


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_full_batches_are_one_gaussian(adjacency):
    plan = (Stage(5), Stage(20, weight=0.5), Stage(1, weight=3.0))
    schedule = calibrate(plan, Budget(1.0, 1e-6, adjacency))
    mu = math.sqrt(sum(s.rounds / n**2 for s, n in zip(plan, schedule.noise_multipliers, strict=True)))
    assert 1 / mu == pytest.approx(gaussian_noise_multiplier(1.0, 1e-6, adjacency), rel=1e-9)
    assert schedule.epsilon() <= 1.0
    assert schedule.epsilon() == pytest.approx(1.0, rel=1e-8)
    groups = [(s.rounds, n, 1) for s, n in zip(plan, schedule.noise_multipliers, strict=True)]
    assert schedule.epsilon() == pytest.approx(independent_pld(groups, 1e-6, adjacency), abs=1e-4)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_weights_are_ratios_of_precision_in_a_mixed_plan(adjacency):
    plan = (Stage(1, weight=4.0), Stage(200, 0.05), Stage(3, weight=0.5))
    schedule = calibrate(plan, Budget(2.0, 1e-5, adjacency))
    first, second, third = schedule.noise_multipliers
    assert second / first == pytest.approx(4.0)
    assert third / second == pytest.approx(2.0)
    groups = [(s.rounds, n, s.sampling_prob) for s, n in zip(plan, schedule.noise_multipliers, strict=True)]
    assert 0.999 * 2.0 <= independent_pld(groups, 1e-5, adjacency) <= 2.0
    assert 0.99 * 2.0 <= epsilon_lower_bound(schedule.groups, 1e-5, adjacency) <= 2.0


def test_renyi_bound_is_looser_but_not_wildly():
    groups = calibrate([Stage(100, 0.1)], Budget(1.0)).groups
    assert 1.05 < epsilon_rdp(groups, 1e-5) < 1.2
    assert epsilon_rdp([(1, Event(3.7306))], 1e-5) == pytest.approx(1.09, abs=0.02)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("interval", [None, 1e-4])
def test_lower_bound_finds_a_claim_that_is_too_small(adjacency, interval):
    sigma = calibrate([Stage(100, 0.1)], Budget(1.0, 1e-5, adjacency)).noise_multipliers[0]
    assert epsilon_lower_bound([(100, Event(sigma, 0.1))], 1e-5, adjacency, interval) <= 1.0
    assert epsilon_lower_bound([(100, Event(0.97 * sigma, 0.1))], 1e-5, adjacency, interval) > 1.0


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_lower_bound_against_the_closed_form(adjacency):
    for sigma in (0.3, 1.0, 30.0):
        truth = gaussian_epsilon(sigma / 3, 1e-5, adjacency)
        assert 0.998 * truth <= epsilon_lower_bound([(9, Event(sigma))], 1e-5, adjacency) <= truth
    assert epsilon_lower_bound([(1, Event(1e6))], 1e-2, adjacency) == 0.0


def test_runs_on_one_data_set_add_up():
    one, two = calibrate([Stage(3)], Budget(1.0)), calibrate([Stage(1), Stage(100, 0.1)], Budget(1.0))
    mu2 = 2 / gaussian_noise_multiplier(1.0, 1e-5) ** 2
    assert compose([*one.groups, *one.groups], 1e-5) == pytest.approx(gaussian_epsilon(mu2**-0.5, 1e-5), rel=1e-8)
    both = compose([*one.groups, *two.groups], 1e-5)
    assert 1.3 < both < 2.0
    assert compose([*two.groups, *one.groups], 1e-5) == both
    assert compose([], 1e-5) == 0.0
    assert compose([(50, Event(9.0, 0.1)), (50, Event(9.0, 0.1))], 1e-5) == compose([(100, Event(9.0, 0.1))], 1e-5)


def test_small_noise_takes_a_coarser_interval_and_stays_an_upper_bound():
    assert discretization_interval([(10, Event(1.0, 0.1))]) == 1e-4
    assert discretization_interval([(10, Event(0.1))], "replace-one") > 1e-4
    groups = [(1, Event(0.1, 0.5))]
    assert epsilon_lower_bound(groups, 1e-5) <= epsilon_pld(groups, 1e-5) <= gaussian_epsilon(0.1, 1e-5) + 1e-3


def test_an_event_is_what_dp_accounting_calls_it():
    gaussian = dp_accounting.GaussianDpEvent(2.0)
    assert dp_event(Event(2.0)) == gaussian
    assert dp_event(Event(2.0, 0.25)) == dp_accounting.PoissonSampledDpEvent(0.25, gaussian)


@pytest.mark.parametrize("weight", [1.0, 8.0])
def test_rounds_that_hardly_sample_begin_the_search_at_little_noise(weight):
    """No noise above e^-3 of the heaviest stage has the budget's mu where a sample is nearly always empty."""
    plan = (Stage(1, 1e-100, weight), Stage(2, 1e-100, weight / 2))
    assert accounting._clt_guess(plan, Budget(1.0)) == pytest.approx(weight * math.exp(-3.0), rel=1e-12)


def test_schedule_tells_what_each_round_pays():
    schedule = Schedule((Stage(2), Stage(3, 0.25, 2.0)), (4.0, 2.0), Budget(1.0, 3e-6))
    assert schedule.rounds == 5
    assert [schedule.event(t) for t in range(5)] == [Event(4.0)] * 2 + [Event(2.0, 0.25)] * 3
    for t in (-1, 5):
        with pytest.raises(IndexError, match=f"Expected 0 <= round={t} < 5"):
            schedule.event(t)
    assert schedule.event_tree() == {
        "relation": "add-remove",
        "composition": [
            {"rounds": 2, "mechanism": "gaussian", "noise_multiplier": 4.0, "sampling_prob": 1.0},
            {"rounds": 3, "mechanism": "poisson-gaussian", "noise_multiplier": 2.0, "sampling_prob": 0.25},
        ],
    }
    epsilons = schedule.epsilons()
    assert list(epsilons) == [1e-4, 1e-5, 3e-6, 1e-6, 1e-7, 1e-8]
    assert list(epsilons.values()) == sorted(epsilons.values())
    assert epsilons[3e-6] == schedule.epsilon() == compose(schedule.groups, 3e-6)


def test_schedule_survives_json_bit_for_bit():
    schedule = calibrate([Stage(7, weight=3.0), Stage(2)], Budget(0.3, 1e-6, "replace-one"))
    assert Schedule.from_json(schedule.to_json()) == schedule
    json.loads(schedule.to_json())
    broken = json.loads(schedule.to_json())
    broken["noise_multipliers"][0] = 0.0
    with pytest.raises(ValueError, match=r"Expected noise_multiplier=0.0 > 0"):
        Schedule.from_json(json.dumps(broken))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((-1.0,), r"Expected epsilon=-1\.0 > 0\."),
        ((0.0,), r"Expected epsilon=0\.0 > 0\."),
        ((math.nan,), "Expected epsilon=nan > 0"),
        ((math.inf,), "Expected a finite epsilon"),
        (("1",), "Expected epsilon as a number; got '1'"),
        ((True,), "Expected epsilon as a number; got True"),
        ((1.0, None), "Expected delta as a number; got None"),
        ((1.0, 0.9999), r"Expected delta=0\.9999 <= 0\.01: with probability up to delta the guarantee of a record may"),
        ((1.0, 0.010001), r"Expected delta=0\.010001 <= 0\.01"),
        ((1.0, 0.0), r"Expected 0 < delta=0\.0 < 1\."),
        ((1.0, 1.0), r"Expected 0 < delta=1\.0 < 1\."),
        ((1.0, 1e-5, "replace"), "Expected adjacency 'add-remove' or 'replace-one'; got 'replace'"),
    ],
)
def test_impossible_budgets_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        Budget(*arguments)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: gaussian_epsilon(0.0, 1e-5), "Expected noise_multiplier=0.0 > 0"),
        (lambda: gaussian_epsilon(math.inf, 1e-5), "Expected noise_multiplier=inf > 0"),
        (lambda: gaussian_epsilon(1e-151, 1e-5), "Expected 1e-150 <= noise_multiplier=1e-151 <= 1e150"),
        (lambda: Schedule((Stage(1),), (1e300,), Budget(1.0)), "Expected 1e-150 <= noise_multiplier=1e\\+300 <= 1e150"),
        (lambda: gaussian_epsilon(1.0, 2.0), "Expected 0 < delta=2.0 < 1"),
        (lambda: gaussian_delta(1.0, -1.0), "Expected epsilon=-1.0 >= 0"),
        (lambda: gaussian_delta(1.0, 1.0, "other"), "Expected adjacency"),
        (lambda: gaussian_noise_multiplier(0.0, 1e-5), "Expected epsilon=0.0 > 0"),
        (lambda: gaussian_noise_multiplier(1.0, 0.0), "Expected 0 < delta=0.0 < 1"),
        (lambda: epsilon_pld([(1, Event(1.0, 0.5))], 1e-11), "delta=1e-11 < 1 for privacy loss distributions"),
        (lambda: epsilon_pld([(1, Event(1.0))], 1e-5, "add-remove", 0.0), "Expected discretization=0.0 > 0"),
        (lambda: epsilon_pld([(1, Event(0.0))], 1e-5), "Expected noise_multiplier=0.0 > 0"),
        (lambda: epsilon_pld([(1, Event(1.0))], 1e-5, "other"), "Expected adjacency"),
        (lambda: epsilon_lower_bound([(1, Event(1.0))], 1e-5, "other"), "Expected adjacency"),
        (lambda: epsilon_lower_bound([(1, Event(1.0))], 0.0), "Expected 0 < delta=0.0 < 1"),
        (lambda: epsilon_lower_bound([(1, Event(1.0))], 1e-5, "add-remove", -1.0), "Expected interval=-1.0 > 0"),
        (lambda: epsilon_rdp([(1, Event(1.0))], 0.0), "Expected 0 < delta=0.0 < 1"),
        (lambda: compose([], 0.0), "Expected 0 < delta=0.0 < 1"),
        (lambda: compose([], 1e-5, "other"), "Expected adjacency"),
        (lambda: calibrate([], Budget(1.0)), "Expected a plan of at least one stage"),
        (lambda: Schedule((Stage(1),), (1.0, 2.0), Budget(1.0)), "got 2 for 1"),
        (lambda: Schedule((), (), Budget(1.0)), "got 0 for 0"),
    ],
)
def test_impossible_arguments_are_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ([Stage(1_000_001)], r"at most 1,000,000 rounds, to compute its epsilon; got 1,000,001\."),
        ([Stage(999_999), Stage(2, 0.5)], r"at most 1,000,000 rounds, to compute its epsilon; got 1,000,001\."),
        ([Stage(10**9 - 1)], r"got 999,999,999\."),
        ([Stage(10**9)], r"got a billion or more\."),
        ([Stage(1)] * 65, r"at most 64 stages, to compute its epsilon; got 65\."),
        ([Stage(1, 0.5)] * 5, r"at most 4 stages with sampling, to compute its epsilon; got 5\."),
    ],
)
def test_a_plan_that_takes_hours_is_refused(plan, sentence):
    with pytest.raises(ValueError, match=sentence):
        calibrate(plan, Budget(1.0))
    accounting.check_work([Stage(1_000_000 - 63), *[Stage(1, 0.5)] * 4, *[Stage(1)] * 59])


@pytest.mark.parametrize("failure", [OverflowError("math range error"), MemoryError()])
def test_an_accountant_that_fails_is_a_clear_error(monkeypatch, failure):
    def fail(*_):
        raise failure

    monkeypatch.setattr(pld, "_accountant", fail)
    with pytest.raises(ValueError, match="cannot be computed: raise the noise"):
        epsilon_pld([(1, Event(1.0, 0.5))], 1e-5)


def test_an_accountant_without_an_answer_is_a_clear_error(monkeypatch):
    class NotANumber:
        def get_epsilon(self, delta):
            return math.nan

    monkeypatch.setattr(pld, "_accountant", lambda *_: NotANumber())
    with pytest.raises(ValueError, match="cannot be computed: raise the noise"):
        epsilon_pld([(1, Event(1.0, 0.5))], 1e-5)


def test_a_search_without_an_end_is_a_clear_error():
    with pytest.raises(ValueError, match=r"No noise was found for epsilon=1\.0"):
        accounting._search(lambda common: math.inf, 1.0, 1.0)


def test_a_search_that_stalls_returns_the_safe_side():
    found = accounting._search(lambda common: 2.0 if common < 3.0 else 0.5, 1.0, 1.0)
    assert found == pytest.approx(3.0, rel=1e-6)
    assert found >= 3.0


def test_a_large_delta_is_explained():
    for delta in (1e-300, 1e-8, 1e-5, 1e-4):
        assert Budget(1.0, delta).caution is None
    assert Budget(1.0, 0.01).caution == (
        "delta = 0.01 is large: with probability up to delta the guarantee of a record may fail altogether; of 100"
        " records that may be about one."
    )
    assert "of 5,000 records" in str(Budget(1.0, 2e-4).caution)


def test_no_noise_is_calibrated_beyond_ten_thousand_and_what_was_is_still_read():
    with pytest.raises(ValueError, match=r"Expected epsilon=10001 <= 10,000: so little noise gives no protection"):
        calibrate((Stage(1),), Budget(10_001.0))
    most = calibrate((Stage(1),), Budget(10_000.0))
    assert most.epsilon() <= 10_000.0
    earlier = Schedule((Stage(1),), (0.004,), Budget(40_000.0))
    assert Schedule.from_json(earlier.to_json()) == earlier
