"""One-run audits: planted leaks are found, and honest runs stay below what they certify."""

import sys
from dataclasses import replace

import contract
import jax
import numpy as np
import pytest
from chosen_tests import few
from contract import TABLE, make_records, table_records, tiny

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.audits import canaries as audit
from dpdistill.audits.leaks import LEAKS
from dpdistill.audits.noiseless_sums import Exact
from dpdistill.errors import CertificateError
from dpdistill.methods import DOS, DPMERF, METHODS
from dpdistill.private.noise import SeededEntropy
from dpdistill.query import Event, Release
from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records

IMAGES = Schema((8, 8, 1), (0.0, 16.0), tuple("0123456789"))
SIGNALS = DOS(networks=12, sampling_prob=1.0, pilot_share=0.0, width=16, steps=1)
MEANS = DPMERF(frequencies=400, steps=1, samples=50)
PLANTED = {"noised-again": MEANS, "same-noise": SIGNALS, "real-start": MEANS}
ATTACK = {
    "noised-again": "all rounds",
    "same-noise": "differences",
    "real-start": "nearest synthetic record",
}


def digits(n=600):
    rng = np.random.default_rng(0)
    return Records(rng.integers(0, 17, (n, 8, 8, 1)).astype(np.float32), np.arange(n) % 10, IMAGES)


def not_called(*asked, **how):
    raise AssertionError("Nothing may be paid.")


@pytest.mark.parametrize("leak", few(LEAKS, "noised-again"))
def test_a_planted_leak_is_found_by_the_attack_made_for_it(leak, tmp_path):
    found = audit.audit_one_run(digits(), PLANTED[leak], Budget(1.0), canaries=500, distill=LEAKS[leak])
    assert found.result.epsilon <= 1.0
    assert found.bounds[ATTACK[leak]] > 1.0, "The leak was not found."
    assert found.bound == max(found.bounds.values())
    with pytest.raises(CertificateError, match="Expected noise"):
        found.result.save(tmp_path / "shared")
    others = [found.bounds[name] for name in found.bounds if name != ATTACK[leak]]
    assert max(others) < 1.0, "It was found by an attack that sees nothing of it."


@pytest.mark.slow
def test_real_records_are_found_where_models_train_on_tiles():
    method = replace(SIGNALS, expand=2, per_class=1)
    found = audit.audit_one_run(digits(), method, Budget(1.0), canaries=500, distill=LEAKS["real-start"])
    assert found.bounds["nearest synthetic record"] > 1.0, "The leak was not found."


@pytest.mark.parametrize("epsilon", few([1.0, 4.0, 16.0], 16.0))
@pytest.mark.parametrize("method", [SIGNALS, MEANS], ids=["dos", "dp-merf"])
def test_an_honest_run_stays_below_what_it_certifies(method, epsilon):
    found = audit.audit_one_run(digits(), method, Budget(epsilon), canaries=500)
    assert found.bound < found.result.epsilon
    assert found.result.epsilon <= epsilon
    if epsilon == 16.0 and method is MEANS:  # one Gaussian release: the attack is nearly as good as any
        assert found.bounds["all rounds"] > 1.0


def test_coins_are_fair_and_decide_who_is_in():
    read = []

    def distill(records, method, budget, **how):
        read.append(records.joined(how["beside"]))
        return run.distill(records, method, budget, **how)

    base = digits(20)
    found = audit.audit_one_run(base, MEANS, Budget(1.0), canaries=400, distill=distill)
    drawn = audit.draw_canaries(400, IMAGES, 0)
    assert 140 < found.included.sum() < 260
    np.testing.assert_array_equal(read[0].X[20:], drawn.X[found.included])
    np.testing.assert_array_equal(read[0].X[:20], base.X)
    again = audit.audit_one_run(base, MEANS, Budget(1.0), canaries=400)
    assert (found.included != again.included).any(), "The coins are nobody's."
    assert audit.audit_one_run(base, MEANS, Budget(1.0), canaries=400, entropy=SeededEntropy(0)).included.sum() > 0


@pytest.mark.parametrize("schema", [IMAGES, TABLE], ids=["images", "table"])
def test_canaries_are_nobodys_and_unlike_each_other(schema):
    one, other = audit.draw_canaries(300, schema, 3), audit.draw_canaries(300, schema, 3)
    np.testing.assert_array_equal(one.X, other.X)
    assert not np.array_equal(one.X, audit.draw_canaries(300, schema, 4).X)
    assert len(np.unique(one.X.reshape(300, -1), axis=0)) == 300
    assert set(np.unique(one.y)) == set(range(len(schema.classes)))
    U, _ = one.take(np.arange(300))
    assert np.isfinite(U).all()
    assert np.abs(U).max() <= 1


def test_estimates_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    V, coins = rng.normal(size=(40, 300)), rng.random(40) < 0.5
    rest = coins @ V
    found = audit.estimate(V @ rest, V @ V.T, 1e-9)
    np.testing.assert_allclose(found, coins - 0.5, atol=1e-6)
    noisy = audit.estimate(V @ (rest + rng.normal(size=300)), V @ V.T, 4.0)
    assert ((noisy > 0) == coins).all()


def test_bounds_are_those_of_the_binomial():
    from scipy.stats import binom

    included = np.arange(500) % 2 == 0
    scores = np.where(included, 1.0, 0.0) + np.arange(500) * 1e-6
    epsilon, correct = audit.bound(scores, included, 100, 1e-9, 0.01)
    assert correct == 100
    # All 100 are right with probability q^100, q = e^eps / (1 + e^eps): that is 0.01 at the bound.
    assert binom.sf(99, 100, 1 / (1 + np.exp(-epsilon))) == pytest.approx(0.01, rel=1e-3)
    assert audit.bound(scores[::-1], included, 100, 1e-9, 0.01) == (0.0, 0)
    assert audit.bound(scores, np.ones(500, bool), 100, 1e-9, 0.01) == (0.0, 0)
    _, correct = audit.bound(np.zeros(500), included, 100, 1e-9, 0.01)
    assert correct == 50, "As many are named as was fixed, whatever scores are equal."


def test_what_cannot_be_audited_is_refused_before_it_pays():
    with pytest.raises(ValueError, match="has no private form"):
        audit.audit_one_run(digits(20), METHODS["dm"](), Budget(1.0), distill=not_called)
    with pytest.raises(ValueError, match="Expected adjacency add-remove"):
        audit.audit_one_run(digits(20), MEANS, Budget(1.0, adjacency="replace-one"), distill=not_called)
    with pytest.raises(ValueError, match="distils images, not tables"):
        audit.audit_one_run(table_records(30), SIGNALS, Budget(1.0), distill=not_called)


@pytest.mark.parametrize("name", few([name for name, kind in METHODS.items() if kind.private], "dos", "dp-kip"))
def test_what_a_record_adds_is_the_same_alone_and_in_a_sum(name):
    records = (
        make_records(9)
        if Schema in METHODS[name].schemas
        else table_records(9, schema=contract.fitting(name, contract.TABLE))
    )
    seen = []

    def watch(query, params, release):
        exact = Exact(records)
        total, rows = exact.sum(query, params, release), exact.contributions(query, params, release)
        blocks = np.zeros((len(total) if query.by_class else 1, rows.shape[1]))
        np.add.at(blocks, np.maximum(records.y, 0) if query.by_class else np.zeros(9, int), rows)
        np.testing.assert_allclose(blocks.reshape(total.shape), total, atol=1e-3 * query.clip_norm)
        assert np.linalg.norm(rows, axis=1).max() <= query.clip_norm * 1.001
        assert (rows[records.y < 0] == 0).all()
        seen.append(np.abs(release.value - total).max() / release.stddev)

    run.distill(records, tiny(name), Budget(1.0), watch=watch)
    assert 0 < max(seen) < 7, "What is left beside the sum is the noise."


def test_many_records_meet_a_classifier_of_zeros():
    """As constants of a program the zeros made all of them NaN, in every other run."""
    records, method = digits(1000), tiny("decoupled-kip")
    query, params = method.ask(method.init(jax.random.key(0), IMAGES))
    release = Release(0, np.zeros(params.size), 1.0, Event(1.0))
    for _ in range(4):
        rows = Exact(records).contributions(query, params, release)
        assert np.isfinite(rows).all()
        assert (np.linalg.norm(rows, axis=1) > 0).all()


def test_what_is_not_finite_is_refused():
    attack = audit.Attack(digits(20), audit.draw_canaries(100, IMAGES, 0))
    query, params = SIGNALS.ask(SIGNALS.init(jax.random.key(0), IMAGES))
    spoiled = {**params, "blocks": jax.tree.map(lambda a: a * np.nan, params["blocks"])}
    attack._own.contributions = lambda *asked: np.full((100, 257), np.nan)
    with pytest.raises(ValueError, match="Expected finite contributions"):
        attack(query, spoiled, Release(0, np.zeros((10, 257)), 1.0, Event(1.0)))


def test_a_run_with_canaries_is_never_resumed(tmp_path):
    base, drawn = digits(20), audit.draw_canaries(5, IMAGES, 0)
    with pytest.raises(ValueError, match="Expected run_dir=None with canaries"):
        run.distill(base, MEANS, Budget(1.0), run_dir=tmp_path / "r", beside=drawn)
    assert not (tmp_path / "r").exists()


def test_bad_arguments():
    with pytest.raises(DataError, match="Expected at least 100 canaries; got 99"):
        audit.audit_one_run(digits(20), MEANS, Budget(1.0), canaries=99)


def test_without_jax_privacy_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax_privacy", None)
    with pytest.raises(DataError, match=r"pip install 'dpdistill\[audit\]'"):
        audit.bound(np.arange(4.0), np.arange(4) < 2, 1, 1e-5, 0.01)
    with pytest.raises(DataError, match=r"pip install 'dpdistill\[audit\]'"):
        audit.audit_one_run(digits(20), MEANS, Budget(1.0), distill=not_called)


def test_releases_that_are_too_large_are_refused(monkeypatch):
    monkeypatch.setattr(audit, "MOST_NUMBERS", 100_000)
    with pytest.raises(ValueError, match="Expected at most 124 canaries for releases of this size"):
        audit.audit_one_run(digits(20), MEANS, Budget(1.0), canaries=400)
