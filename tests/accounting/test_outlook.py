"""How loud records are above the noise of a plan, and from which epsilon on."""

import math

import pytest
from scipy.stats import norm

from dpdistill.accounting.gaussian import gaussian_noise_multiplier
from dpdistill.accounting.outlook import HOPELESS, least_epsilon, recognised, records_heard
from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.query import Stage

ONE = (Stage(1),)


def test_records_are_heard_where_their_sum_is_as_long_as_its_noise():
    schedule = Schedule((Stage(4), Stage(1, 0.5)), (3.0, 2.0), Budget(1.0))
    assert records_heard(schedule, 400) == pytest.approx(3.0 * 20.0 / 2.0)
    assert records_heard(schedule, 25, stage=1) == pytest.approx(2.0 * 5.0 / 0.5)


def test_rounds_that_share_a_budget_are_as_loud_as_one():
    budget = Budget(1.0)
    once, often = (calibrate((Stage(rounds),), budget) for rounds in (1, 50))
    assert records_heard(often, 9) == pytest.approx(records_heard(once, 9))
    assert records_heard(once, 9) == pytest.approx(3.0 * gaussian_noise_multiplier(1.0, 1e-5))


def test_a_unit_has_the_noise_of_all_its_rows():
    plan = (Stage(3),)
    one, four = Budget(1.0), Budget(1.0, unit="person", rows_per_unit=4)
    alone, together = (records_heard(calibrate(plan, budget), 100) for budget in (one, four))
    assert together == pytest.approx(4 * alone)
    assert least_epsilon(plan, four, 100, 4 * alone / 10) == least_epsilon(plan, one, 100, alone / 10)


@pytest.mark.parametrize(("records", "coordinates"), [(100, 2_000), (10_000, 64), (10_000, 3_240)])
def test_the_least_epsilon_is_the_least(records, coordinates):
    start = Budget(1e-9, 1e-6)
    found = least_epsilon(ONE, start, coordinates, records)
    assert found is not None

    def ratio(epsilon):
        return records / (math.sqrt(coordinates) * gaussian_noise_multiplier(epsilon, 1e-6))

    assert ratio(found) >= HOPELESS > ratio(0.85 * found)


@pytest.mark.parametrize("start", [1e-9, 0.03, 1.0, 4.0, 7.9])
def test_the_search_may_begin_anywhere_below(start):
    """8 is the least epsilon for this many records: sqrt(d) sigma(8) / 10, and a little more."""
    records = 0.1 * math.sqrt(10_000) * gaussian_noise_multiplier(8.0, 1e-5) * 1.0001
    assert least_epsilon(ONE, Budget(start), 10_000, records) == pytest.approx(8.0, rel=0.03)


def test_a_plan_that_the_accountant_does_not_handle_has_no_least_epsilon():
    """Sampled rounds are not accounted for below delta = 1e-10, however many records there are."""
    assert least_epsilon((Stage(5, 0.1),), Budget(1.0, 1e-11), 1, 1e9) is None
    assert least_epsilon((Stage(5),), Budget(1.0, 1e-11), 1, 1e9) == 1.0


def test_no_least_epsilon_above_ten():
    assert least_epsilon(ONE, Budget(1e-9), 10_000, 0.01) is None
    assert least_epsilon(ONE, Budget(20.0), 10_000, 0.01) is None


def test_who_is_recognised_is_what_the_optimal_attack_on_a_gaussian_reaches():
    assert recognised(Budget(10.0)) is None
    for epsilon in (10.5, 20.0):
        mu = 1.0 / gaussian_noise_multiplier(epsilon, 1e-5)
        exact = norm.cdf(norm.ppf(0.001) + mu)
        assert exact <= recognised(Budget(epsilon)) <= 1.35 * exact
    assert recognised(Budget(1000.0)) == pytest.approx(1.0, abs=1e-6)
    assert recognised(Budget(10.5, 1e-5, "replace-one")) == pytest.approx(recognised(Budget(10.5)), rel=1e-6)
