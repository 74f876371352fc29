"""The accuracy that a run releases with its classifier: counts, interval, cost, and what a folder says."""

import math
from dataclasses import replace

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import NoNoise, make_curator, subset, tiny, toy_records

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.features.eight_bits import EightBits
from dpdistill.folder.contents import check_contents
from dpdistill.folder.layout import CLASSIFIER, RECIPE
from dpdistill.folder.save import read_distilled, write_distilled
from dpdistill.ledger.run import RunLedger
from dpdistill.methods.released_accuracy import CLIP, WEIGHTS, AccuracyQuery, accuracy_table
from dpdistill.methods.softmax import read
from dpdistill.private.grid import make_grid
from dpdistill.publish.export.card import describe
from dpdistill.publish.export.publisher import Publisher
from dpdistill.publish.report import render_report
from dpdistill.publish.report.folder import read_folder
from dpdistill.publish.report.recipe import WEIGHTED
from dpdistill.publish.report.recipe import accuracy as accuracy_in_words
from dpdistill.recipe.methods.decoupled_kip import DecoupledKIP
from dpdistill.recipe.methods.dos_kip import DOSKIP
from dpdistill.recipe.released_accuracy import accuracy_of
from dpdistill.recipe.stages import cost_of
from dpdistill.storage.records import Records
from dpdistill.verification import verify

RNG = np.random.default_rng(0)
HUGE = Budget(60.0)


def test_counts_are_those_of_the_records_and_of_the_errors():
    records, encoder = toy_records(60), EightBits(contract.flattened)
    y = np.where(np.arange(60) % 4 == 0, RNG.integers(0, 3, 60), records.y)  # some labels are wrong
    records = Records(records.X, y, records.schema)
    phi = np.stack([np.asarray(read(jnp.asarray(x), jnp.float32)) for x in encoder(records.schema.to_unit(records.X))])
    W = np.stack([phi[records.y == c].mean(0) for c in range(3)], 1)
    with jax.enable_x64(True):
        release = make_curator(records, entropy=NoNoise()).release(0, AccuracyQuery(3, encoder), W)
    table, missed = accuracy_table(release, 3), (phi @ W).argmax(1) != records.y
    assert 3 < missed.sum() < 40
    expected = [((records.y == c).sum(), (missed & (records.y == c)).sum()) for c in range(3)]
    np.testing.assert_allclose(table[:, :2], [*expected, (60, missed.sum())], atol=0.05)
    np.testing.assert_allclose(table[:, 2:] * WEIGHTS, release.stddev, rtol=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_no_record_is_longer_than_one_and_none_is_clipped(classes):
    query, x = AccuracyQuery(classes, None), jnp.asarray(RNG.normal(size=5), jnp.float32)
    lengths = set()
    for y in range(classes):
        for W in (np.zeros((5, classes)), RNG.normal(size=(5, classes))):
            u = np.asarray(query.contribution(W, x, jnp.asarray(y)))
            lengths.add(round(float(np.linalg.norm(u)), 6))
            assert np.count_nonzero(u[:-1].any(1)) == 1
    assert lengths == {0.5, 1.0}
    assert CLIP == query.clip_norm > 1.0 + 1e-7


@pytest.mark.parametrize("sigma", [0.1, 4.0, 30.0, 1000.0, 1e5])
def test_the_margin_of_the_grid_cuts_no_record(sigma):
    for classes in (2, 10, 1000):
        assert make_grid(CLIP, sigma, 2 * (classes + 1), 1000).float_clip >= 1.0 + 1e-6


def test_no_accuracy_is_stated_for_persons_whose_rows_count_less(tmp_path):
    """Two missed rows of a person have the length 2 and are halved; two rows that are not missed count fully."""
    records = toy_records(60)
    persons = Records(records.X, records.y, records.schema, units=np.arange(60) // 2)
    made = run.distill(
        persons, tiny("decoupled-kip", rounds=2, steps=1, accuracy=0.3), Budget(60.0, unit="patient", rows_per_unit=2)
    )
    made.save(tmp_path / "set")
    assert made.distilled.accuracy is not None
    assert made.accuracy is None
    (stated,) = accuracy_in_words(read_folder(tmp_path / "set"))
    assert stated == ("all records", WEIGHTED)
    assert verify(tmp_path / "set").passed


@pytest.mark.parametrize(("N", "missed"), [(60_000, 1_500), (2_000, 250), (2_000, 900), (500, 30), (300, 0)])
def test_the_interval_covers_the_accuracy_as_often_as_it_states(N, missed):
    s, t = 12.0 / np.asarray(WEIGHTS)
    noisy = RNG.normal((N, missed), (s, t), (10_000, 2))
    found = [accuracy_of((n, e, s, t)) for n, e in noisy]
    true = 100.0 * (1.0 - missed / N)
    covered = np.mean([one is not None and one.low <= true <= one.high for one in found])
    assert covered >= 0.945
    width = np.median([one.high - one.low for one in found if one])
    exact = 200.0 * 1.96 * math.hypot(t, missed / N * s) / N
    assert width <= min(1.2 * exact, 100.0)


def test_an_accuracy_without_noise_is_exact_and_one_below_the_noise_is_not_stated():
    assert accuracy_of((200, 13, 0.0, 0.0)) == pytest.approx((93.5, 93.5, 93.5))
    assert accuracy_of((60, 13, 40.0, 20.0)) is None
    assert accuracy_of((60, 13, 20.0, 30.0)) is None
    assert accuracy_of((-5, 13, 0.0, 0.0)) is None
    assert str(accuracy_of((1000, 100, 10.0, 5.0))) == "90.0 % (95 % interval: 89.0 to 91.0 %)"


@pytest.mark.parametrize("fields", [{}, {"means": 0.1}, {"candidates": ("scatternet", "drawn")}])
def test_the_accuracy_costs_its_share(fields):
    method = DecoupledKIP(accuracy=0.05, **fields)
    *before, last = method.plan()
    assert cost_of([last]) / cost_of(method.plan()) == pytest.approx(0.05)
    assert tuple(before) == replace(method, accuracy=0.0).plan()
    assert method.plan()[method.main_stage].rounds == method.rounds
    within = DOSKIP(accuracy=0.05, **fields).plan()
    parts = within[: len(method.plan())]
    assert cost_of(parts) / cost_of(within) == pytest.approx(0.5)
    assert cost_of([parts[-1]]) / cost_of(parts) == pytest.approx(0.05)


@pytest.fixture(scope="module", params=["decoupled-kip", "dos-kip"])
def made(request):
    method = tiny(request.param, rounds=3, steps=1, accuracy=0.3)
    return run.distill(subset(toy_records(60), range(60)), method, HUGE)


def test_a_run_releases_the_accuracy_of_its_own_classifier(made):
    records, distilled = toy_records(60), made.distilled
    scores = np.asarray(distilled.encoder(records.schema.to_unit(records.X))) @ distilled.classifier
    true = 100.0 * np.mean(scores.argmax(1) == records.y)
    assert accuracy_of(distilled.accuracy[-1]).estimate == pytest.approx(true, abs=3.5)
    np.testing.assert_allclose(distilled.accuracy[:-1, 0], np.bincount(records.y), atol=3)


def test_a_folder_states_the_accuracy(made, tmp_path):
    made.save(tmp_path / "set")
    assert verify(tmp_path / "set").passed
    np.testing.assert_array_equal(read_distilled(tmp_path / "set").accuracy, made.distilled.accuracy)
    folder = read_folder(tmp_path / "set")
    stated = str(accuracy_of(made.distilled.accuracy[-1]))
    for page in (render_report(folder), describe(folder, Publisher())):
        assert stated in page
        assert "may be less" in page


def test_an_accuracy_that_the_recipe_does_not_release_fails(made, tmp_path):
    made.save(tmp_path / "set")
    write_distilled(tmp_path / "set", replace(made.distilled, accuracy=None))
    content = {p.name for p in (tmp_path / "set").iterdir()} - {RECIPE}
    faults = [c.fault for c in check_contents(tmp_path / "set", content, lambda *_: None, lambda *_: True)]
    assert f"{CLASSIFIER} has no accuracy, unlike {RECIPE}" in faults


def test_a_run_that_stops_before_the_accuracy_resumes(tmp_path):
    records, method = toy_records(40), tiny("decoupled-kip", rounds=2, steps=1, accuracy=0.3)
    with pytest.raises(contract.Stop):
        run.distill(records, method, HUGE, run_dir=tmp_path / "run", progress=contract.stop_after(2))
    result = run.distill(records, method, HUGE, run_dir=tmp_path / "run")
    assert len(RunLedger.read(tmp_path / "run").events) == 3
    again = run.finish_again(tmp_path / "run", replace(method, per_class=1))
    np.testing.assert_array_equal(again.distilled.accuracy, result.distilled.accuracy)
