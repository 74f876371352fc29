"""Shadows: the ratio is that of two normal distributions, a set of copies is told, and a private one is not."""

import numpy as np
import pytest
from scipy.stats import norm
from test_membership import images

from dpdistill.accounting.schedule import Budget
from dpdistill.audits.shadows import attack_by_shadows, ratios
from dpdistill.methods.baselines.kip import KIP
from dpdistill.methods.dp_merf import DPMERF
from dpdistill.schema import DataError


def test_ratios_are_those_of_two_normal_distributions():
    rng = np.random.default_rng(0)
    entered = rng.random((30, 50)) < 0.5
    means = rng.normal(size=(2, 50))
    scores = np.where(entered, means[0], means[1]) + 0.3 * rng.normal(size=(30, 50))
    roc = ratios(scores, entered)
    assert len(roc.members) == entered.sum()
    t = 0
    inside = np.stack([scores[1:, i][entered[1:, i]].mean() for i in range(50)])
    outside = np.stack([scores[1:, i][~entered[1:, i]].mean() for i in range(50)])
    rest = np.where(entered, scores - inside, scores - outside)[1:]
    spread = np.sqrt(np.square(rest).mean())
    expected = norm.logpdf(scores[t], inside, spread) - norm.logpdf(scores[t], outside, spread)
    np.testing.assert_allclose(roc.members[: entered[0].sum()], expected[entered[0]], rtol=1e-9)
    np.testing.assert_allclose(roc.others[: (~entered[0]).sum()], expected[~entered[0]], rtol=1e-9)
    assert roc.area > 0.9


def test_records_that_no_shadow_knows_are_left_out():
    entered = np.array([[True, True], [False, True], [True, True], [False, True], [True, False]])
    roc = ratios(np.random.default_rng(0).normal(size=(5, 2)), entered)
    # The second record was out in one run only: attacked there, it has no shadow without it.
    assert len(roc.members) + len(roc.others) == 5 + 4


def test_nobody_to_compare_is_said():
    with pytest.raises(DataError, match="use more records or more runs"):
        ratios(np.zeros((4, 1)), np.array([[True], [True], [True], [True]]))


def test_chance_is_chance():
    rng = np.random.default_rng(1)
    roc = ratios(rng.normal(size=(20, 400)), rng.random((20, 400)) < 0.5)
    assert abs(roc.area - 0.5) < 0.02
    assert roc.true_positives(0.01).value < 0.016


@pytest.mark.usefixtures("as_users")  # runs for longer than it compiles
def test_without_privacy_members_are_told_and_with_it_they_are_not():
    records = images(40, 0)
    told = attack_by_shadows(records, KIP(per_class=8, rounds=120), None, runs=6)
    private = attack_by_shadows(records, DPMERF(steps=2, samples=30), Budget(0.5), runs=12)
    # 0.81 for the seed of the public coins; without members it is 0.50 ± 0.034 in 20 repetitions, five times that here.
    assert max(roc.area for roc in told.values()) > 0.7
    assert all(0.33 < roc.area < 0.67 for roc in private.values())
    with pytest.raises(DataError, match="Expected at least 4 runs of an attack by shadows; got 3"):
        attack_by_shadows(records, DPMERF(), Budget(1.0), runs=3)
