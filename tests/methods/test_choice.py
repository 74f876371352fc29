"""A kernel that two releases choose: queries, arithmetic of the choice, and what a folder says of it."""

import json
import math
from dataclasses import replace

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import SCHEMA, NoNoise, make_curator, subset, tiny, toy_records

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.evaluation.teacher import kernel_in
from dpdistill.features.eight_bits import EightBits
from dpdistill.folder.contents import check_contents
from dpdistill.folder.layout import CLASSIFIER, RECIPE, read_arrays, read_counts
from dpdistill.folder.save import read_distilled, write_distilled
from dpdistill.kernels import KERNELS
from dpdistill.ledger.run import RunLedger
from dpdistill.methods.choice import (
    COUNT,
    Candidates,
    ChosenQuery,
    RightlyNamedQuery,
    class_means,
    counts_with_lead,
    parts_of,
    public_mean,
    sizes_of,
)
from dpdistill.methods.softmax import SoftmaxQuery, read
from dpdistill.public_images.pictures import draw_pictures
from dpdistill.publish.report import render_report
from dpdistill.publish.report.folder import read_folder
from dpdistill.query import Event, Release
from dpdistill.recipe.methods.decoupled_kip import DecoupledKIP, chosen
from dpdistill.recipe.methods.dos_kip import DOSKIP
from dpdistill.recipe.saved import changed_releases, recipe_of
from dpdistill.run.forecast import outlook
from dpdistill.schema import DataError
from dpdistill.storage.records import Records
from dpdistill.verification import verify

NAMES = ("scatternet", "scatternet-white")
HUGE = Budget(1000.0)
RNG = np.random.default_rng(0)


def halves(X):
    """The upper half of each image."""
    return X[:, :4].reshape(len(X), -1)


def rows(X):
    """Means of rows."""
    return X.mean((2, 3))


TWO = Candidates((halves, rows))
X = RNG.uniform(-1, 1, (30, *SCHEMA.shape)).astype(np.float32)


def test_features_stand_side_by_side_with_norm_one():
    sizes = sizes_of(TWO, SCHEMA.shape)
    assert sizes == (32 * SCHEMA.shape[2], 8)
    phi = np.asarray(TWO(jnp.asarray(X)))
    np.testing.assert_allclose(np.linalg.norm(phi, axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(phi[:, 0], np.float32(COUNT))
    for part, encoder in zip(parts_of(sizes), TWO.encoders, strict=True):
        expected = np.asarray(encoder(jnp.asarray(X)))
        expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(phi[:, part], math.sqrt(0.48) * expected, rtol=1e-4, atol=1e-6)
    zero = np.asarray(TWO(jnp.zeros((1, *SCHEMA.shape))))
    np.testing.assert_array_equal(zero, [[np.float32(COUNT), *np.zeros(sum(sizes))]])


def test_class_means_are_those_of_the_sums():
    sizes = (3, 2)
    phi, y, public = RNG.normal(size=(200, 6)), RNG.integers(0, 4, 200), RNG.normal(size=6)
    phi[:, 0] = COUNT
    sums = np.stack([phi[y == c].sum(0) for c in range(4)], 1)
    found = class_means(sums, public, sizes)
    means = np.stack([phi[y == c].mean(0) for c in range(4)], 1)
    apart = means - means.mean(1, keepdims=True)
    np.testing.assert_allclose(found["M"], apart, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["offset"], [public[p] @ apart[p] for p in parts_of(sizes)], rtol=1e-9)


def test_noise_along_the_public_mean_moves_no_score():
    """Features that all records share would otherwise give every record the class whose noise is largest there."""
    public = np.concatenate([[COUNT], 5.0 * np.eye(40)[0]])
    sums = np.vstack([np.full((1, 3), 100 * COUNT), np.zeros((40, 3))])
    noisy = sums + np.vstack([np.zeros((1, 3)), np.outer(np.eye(40)[0], [900.0, -300.0, 0.0])])
    found = class_means(noisy, public, (40,))
    scores = public[1:] @ found["M"][1:] - found["offset"][0]
    np.testing.assert_allclose(scores, 0.0, atol=1e-9)


def test_empty_classes_have_finite_means():
    found = class_means(np.zeros((6, 3)), np.ones(6), (3, 2))
    assert all(np.isfinite(value).all() for value in found.values())


@pytest.fixture(scope="module")
def asked():
    """Queries of the two rounds of the choice and of the first gradient, without noise, and what they found."""
    encoder, records = EightBits(TWO), toy_records(60)
    y = np.where(np.arange(60) % 3 == 0, RNG.integers(0, 3, 60), records.y)  # some labels are wrong
    records = Records(records.X, y, SCHEMA)
    sizes = sizes_of(TWO, SCHEMA.shape)
    codes = np.asarray(encoder(jnp.asarray(SCHEMA.to_unit(records.X))))
    phi = np.stack([np.asarray(read(jnp.asarray(code), jnp.float32)) for code in codes])
    return encoder, records, sizes, codes, phi


def test_counts_are_those_of_the_class_means(asked):
    encoder, records, sizes, _, phi = asked
    public = public_mean(TWO, SCHEMA.shape)
    pictures = draw_pictures(200, SCHEMA.shape, seed=3)
    np.testing.assert_allclose(public, np.asarray(TWO(jnp.asarray(pictures))).mean(0), rtol=0, atol=1e-5)
    sums = np.stack([phi[records.y == c].sum(0) for c in range(3)], 1)
    params = class_means(sums, public, sizes)
    value = make_curator(records, entropy=NoNoise()).release(0, RightlyNamedQuery(sizes, encoder), params).value
    means = np.stack([phi[records.y == c].mean(0) for c in range(3)], 1)
    scores = [((phi - public)[:, part] @ (means - means.mean(1, keepdims=True))[part]) for part in parts_of(sizes)]
    expected = [(score.argmax(1) == records.y).sum() for score in scores]
    np.testing.assert_allclose(value * math.sqrt(2), expected, atol=0.05)
    assert 20 < min(expected) < 55


@pytest.mark.parametrize("K", [2, 3, 5])
def test_every_count_is_at_most_its_share_of_the_norm(K):
    sizes = (2,) * K
    query = RightlyNamedQuery(sizes, None)
    params = {"M": RNG.normal(size=(1 + 2 * K, 3)), "offset": np.zeros((K, 3))}
    all_right = {"M": np.zeros((1 + 2 * K, 3)), "offset": np.tile([0.0, 1.0, 1.0], (K, 1))}
    for given in (params, all_right):
        for y in range(3):
            u = np.asarray(
                query.contribution(given, jnp.asarray(RNG.normal(size=1 + 2 * K), jnp.float32), jnp.asarray(y))
            )
            assert {*np.round(u * math.sqrt(K), 5)} <= {0.0, 1.0}
            assert np.linalg.norm(u) <= 1 + 1e-6
    longest = np.linalg.norm(query.contribution(all_right, jnp.zeros(1 + 2 * K), jnp.asarray(0)))
    assert longest == pytest.approx(1.0, abs=1e-6)


def test_gradients_are_those_of_the_chosen_features_alone(asked):
    encoder, records, sizes, codes, _ = asked
    W, y = RNG.normal(size=(1 + sum(sizes), 3)), jnp.asarray(records.y[0], jnp.int32)
    for part in parts_of(sizes):
        kept = np.zeros(len(W))
        kept[part] = 1.0
        with jax.enable_x64(True):
            query, alone = ChosenQuery(0.1, 3, encoder), SoftmaxQuery(0.1, 3, encoder)
            params = {"W": jnp.asarray(W), "kept": jnp.asarray(kept)}
            found = np.asarray(query.contribution(params, jnp.asarray(codes[0]), y))
            expected = np.asarray(alone.contribution(jnp.asarray(W[part]), jnp.asarray(codes[0][part]), y))
        np.testing.assert_allclose(found[part], expected, rtol=1e-12)
        assert not np.delete(found, np.r_[part], 0).any()


@pytest.mark.parametrize("kind", [DecoupledKIP, DOSKIP])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"candidates": ("scatternet",)}, "Expected two or more different candidates, or none; got scatternet"),
        ({"candidates": ("drawn", "drawn")}, "Expected two or more different candidates"),
        ({"candidates": NAMES, "means": 0.1}, "Expected means=0 with candidates; got means=0.1"),
        ({"candidates": ("fc-ntk", "drawn")}, "Expected candidates among .*scatternet.*; got fc-ntk"),
        ({"candidates": NAMES, "choice": 1.0}, "choice"),
    ],
)
def test_candidates_that_leave_no_choice_are_refused(kind, fields, message):
    with pytest.raises(ValueError, match=message):
        kind(**fields)


def test_the_choice_costs_its_share():
    first, second, gradients = DecoupledKIP(candidates=NAMES, rounds=60, choice=0.15).plan()
    cost = [stage.rounds * stage.weight**2 for stage in (first, second, gradients)]
    np.testing.assert_allclose(np.array(cost) / sum(cost), [0.10, 0.05, 0.85], rtol=1e-9)
    assert DecoupledKIP(candidates=NAMES).main_stage == 2


def test_the_outlook_is_that_of_the_largest_candidate():
    sizes = sizes_of(Candidates(tuple(KERNELS[name].encoder for name in NAMES)), SCHEMA.shape)
    found = outlook(tiny("decoupled-kip", rounds=60, candidates=NAMES), Budget(1.0), SCHEMA)
    assert found.coordinates == 3 * max(sizes) < 3 * sum(sizes)
    plain = outlook(tiny("decoupled-kip", rounds=60), Budget(1.0), SCHEMA)
    noise = plain.schedule.noise_multipliers[-1] / found.schedule.noise_multipliers[-1]
    assert noise == pytest.approx(math.sqrt(0.85), rel=1e-3)


@pytest.mark.parametrize("kind", [DecoupledKIP, DOSKIP])
def test_recipes_without_a_choice_are_saved_as_before(kind):
    assert not {"candidates", "choice"} & recipe_of(kind(), 0)["fields"].keys()
    saved = recipe_of(kind(candidates=NAMES), 0)
    assert saved["fields"]["candidates"] == [*NAMES]
    assert "choice" not in saved["fields"]
    assert saved["changed"] == ["candidates"]
    assert changed_releases(kind(), saved) == ["candidates"]
    assert changed_releases(kind(candidates=NAMES, choice=0.3), saved) == ["choice"]


def test_the_first_of_equal_counts_is_chosen():
    assert [chosen(counts) for counts in ([1.0, 3.0, 2.0], np.array([-5.0, -7.0]), [4.0, 4.0])] == [1, 0, 0]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("auto")
    method = tiny("decoupled-kip", rounds=3, steps=1, candidates=NAMES)
    result = run.distill(subset(toy_records(60), range(60)), method, HUGE, run_dir=folder / "run")
    result.save(folder / "shared")
    return folder, method, result


def test_the_classifier_is_on_the_chosen_features(made):
    folder, method, result = made
    counts, W = result.distilled.counts, result.distilled.classifier
    name = NAMES[int(np.argmax(counts))]
    assert counts.shape == (2,)
    assert np.abs(counts).max() < 62
    assert result.distilled.encoder == KERNELS[name].encoder
    assert len(W) == sizes_of(Candidates((KERNELS[name].encoder,)), SCHEMA.shape)[0]
    phi = np.asarray(result.distilled.encoder(jnp.asarray(SCHEMA.to_unit(toy_records(60).X))))
    assert ((phi @ W).argmax(1) == toy_records(60).y).mean() > 0.8
    assert len(RunLedger.read(folder / "run").events) == 5
    again = run.finish_again(folder / "run", method)
    np.testing.assert_array_equal(again.distilled.classifier, W)
    np.testing.assert_array_equal(again.distilled.counts, counts)


def test_other_candidates_are_chosen_by_other_counts():
    method = tiny("decoupled-kip", rounds=2, steps=1, candidates=NAMES)
    state = method.init(jax.random.key(0), SCHEMA)
    sizes = sizes_of(Candidates(tuple(KERNELS[name].encoder for name in NAMES)), SCHEMA.shape)
    for k, counts in enumerate(([5.0, 2.0], [2.0, 5.0])):
        now = method.tell(state, Release(0, RNG.normal(size=state["W"].shape), 1.0, Event(1.0)))
        now = method.tell(now, Release(1, np.array(counts) / math.sqrt(2), 0.0, Event(1.0)))
        np.testing.assert_allclose(now["counts"], counts, rtol=1e-12)
        assert method.kernel_of(now) == KERNELS[NAMES[k]]
        query, params = method.ask(now)
        assert isinstance(query, ChosenQuery)
        np.testing.assert_array_equal(np.flatnonzero(params["kept"]), np.r_[parts_of(sizes)[k]])
        now = method.tell(now, Release(2, RNG.normal(size=state["W"].shape), 1.0, Event(1.0)))
        assert set(np.flatnonzero(now["W"].any(1))) == set(np.r_[parts_of(sizes)[k]])


@pytest.mark.parametrize(("ahead", "first"), [(-9.0, True), (0.0, True), (3.9, True), (4.1, False)])
def test_another_candidate_is_chosen_if_it_leads_by_more_than_noise(ahead, first):
    """The noise of a difference of two counts has the standard deviation 2 sqrt(2) sqrt(2) = 4 here."""
    release = Release(1, np.array([20.0, 20.0 + ahead]) / math.sqrt(2), 2.0, Event(1.0))
    counts = counts_with_lead(release, 2)
    np.testing.assert_allclose(counts, [24.0, 20.0 + ahead], rtol=1e-12)
    assert (counts.argmax() == 0) == first
    np.testing.assert_allclose(release.value[0] * math.sqrt(2), 20.0, rtol=1e-12)


def test_noise_alone_seldom_chooses_another_candidate():
    """P(Z > 1) = 0.159 for two candidates; 0.322 for four, by 2,000,000 simulated draws."""
    noise = np.random.default_rng(4).normal(size=(20_000, 4))
    for K, expected in ((2, 0.1587), (4, 0.3219)):
        found = [counts_with_lead(Release(1, row[:K].copy(), 1.0, Event(1.0)), K).argmax() > 0 for row in noise]
        assert np.mean(found) == pytest.approx(expected, abs=0.01)


def test_a_folder_names_the_chosen_kernel(made, tmp_path):
    folder, _, result = made
    counts = read_arrays(folder / "shared" / CLASSIFIER)["counts"]
    np.testing.assert_array_equal(counts, result.distilled.counts)
    name = NAMES[int(np.argmax(counts))]
    found = kernel_in(str(folder / "shared"))
    assert found is not None
    assert found[0] == KERNELS[name]
    other = replace(read_distilled(folder / "shared"), counts=counts[::-1].copy())
    write_distilled(tmp_path, other)
    (tmp_path / RECIPE).write_text((folder / "shared" / RECIPE).read_text())
    changed = kernel_in(str(tmp_path))
    assert changed is not None
    assert changed[0] == KERNELS[NAMES[1 - NAMES.index(name)]]
    write_distilled(tmp_path, replace(other, counts=np.zeros(3)))
    with pytest.raises(DataError, match="Expected a count for each of 2 candidates; got 3"):
        kernel_in(str(tmp_path))
    for wrong in (np.array([1.0, np.nan]), np.zeros(1), np.zeros((2, 2))):
        with pytest.raises(DataError, match="Expected counts as two or more finite float64 numbers"):
            write_distilled(tmp_path, replace(other, counts=wrong))
    W = read_distilled(folder / "shared").classifier
    for wrong in (np.array(1.0), np.array(["a", "b"]), np.zeros(2, np.float32)):
        np.savez(tmp_path / CLASSIFIER, classifier=W, counts=wrong)
        for reader in (read_counts, read_distilled, lambda path: kernel_in(str(path))):
            with pytest.raises(DataError, match="Expected counts as two or more finite float64 numbers"):
                reader(tmp_path)
    assert json.loads((folder / "shared" / RECIPE).read_text())["fields"]["candidates"] == list(NAMES)


def test_a_folder_with_another_number_of_counts_fails(made, tmp_path):
    folder, _, _ = made
    verified = verify(folder / "shared", folder / "run")
    assert verified.passed, [check for check in verified.checks if not check.passed]
    counts = read_arrays(folder / "shared" / CLASSIFIER)["counts"]
    name = NAMES[int(np.argmax(counts))]
    page = render_report(read_folder(folder / "shared"))
    assert f"{name}: the largest of the released noisy numbers" in page
    assert f"scatternet {counts[0]:.0f}, scatternet-white {counts[1]:.0f}" in page
    for number, fields in ((3, {"candidates": [*NAMES]}), (2, {}), (2, {"candidates": [*NAMES, "drawn"]})):
        write_distilled(tmp_path, replace(read_distilled(folder / "shared"), counts=np.arange(float(number))))
        (tmp_path / RECIPE).write_text(json.dumps({"fields": fields}))
        faults = [
            c.fault
            for c in check_contents(tmp_path, [CLASSIFIER], lambda *_: None, lambda *_: True)
            if c.name == CLASSIFIER
        ]
        wanted = (
            f"classifier.npz has {number} counts for the {len(fields.get('candidates', []))} candidates of recipe.json"
        )
        assert faults == [None, wanted]


def test_a_run_that_stops_after_the_choice_goes_on(tmp_path):
    records, method = subset(toy_records(40), range(40)), tiny("decoupled-kip", rounds=2, steps=1, candidates=NAMES)
    with pytest.raises(contract.Stop):
        run.distill(records, method, HUGE, run_dir=tmp_path / "run", progress=contract.stop_after(2))
    paid = RunLedger.read(tmp_path / "run").events
    result = run.distill(records, method, HUGE, run_dir=tmp_path / "run")
    events = RunLedger.read(tmp_path / "run").events
    assert (len(paid), len(events), events[:2]) == (2, 4, paid)
    assert result.distilled.counts is not None
