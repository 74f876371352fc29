"""Cells: parts of a class that have signals of their own, in DOS and DOS-KIP."""

import dataclasses
import math
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chosen_tests import few
from contract import SCATTER, SCHEMA, tiny
from contract.float32 import assert_close_float32

from dpdistill import run
from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.features.apply import encode_slices
from dpdistill.ledger.run import RunLedger
from dpdistill.methods.dos import DOS
from dpdistill.methods.dos_kip import DOSKIP
from dpdistill.methods.subclasses import (
    NEAR,
    REACH,
    CellMeans,
    averaging,
    cell_of,
    first_offsets,
    place_in_cell,
    shares,
    view,
)
from dpdistill.methods.teacher_training import Lesson, teach
from dpdistill.private.noise import SeededEntropy
from dpdistill.run.checkpoint import Store
from dpdistill.storage.records import Records

KEY = jax.random.key(0)
SPLIT = tiny("dos", cells=2, networks=6, width=8, steps=120, per_class=4, start_noise=0.1, learning_rate=0.05)
BRIGHT = np.array([1, 2, 1])
"""Of three records of a class, how many are the bright ones."""


def two_kinds(n, seed=0):
    """Records of three classes, each of dark and bright ones; of class 1 twice as many are bright as of the others."""
    rng, y = np.random.default_rng(seed), np.arange(n) % 3
    bright = rng.random(n) < BRIGHT[y] / 3
    base = np.random.default_rng(9).uniform(-0.4, 0.4, (3, *SCHEMA.shape))[y]
    X = base + np.where(bright, 0.25, -0.25)[:, None, None, None] + rng.normal(0, 0.05, base.shape)
    return Records(np.clip(X, -1, 1).astype(np.float32), y.astype(np.int64), SCHEMA), bright


def released(method, records):
    """The state after all rounds, with next to no noise."""
    with tempfile.TemporaryDirectory() as folder:
        run.distill(records, method, Budget(150.0), run_dir=folder, entropy=SeededEntropy(1))
        return Store(Path(folder), RunLedger.read(folder).run_id).load(method.init(KEY, records.schema))[1]


def test_a_record_is_in_the_cell_whose_offset_its_view_is_nearest_to():
    rng = np.random.default_rng(0)
    means, offsets = rng.normal(size=(3, 9, 12, 2)), rng.normal(size=(3, 4, 7 * 7 * 2))
    cells = {"means": jnp.asarray(means), "offsets": jnp.asarray(offsets)}
    for x, y in zip(rng.normal(size=(20, 9, 12, 2)), rng.integers(3, size=20), strict=True):
        seen = np.asarray(view(jnp.asarray((x - means[y])[None])))[0]
        expected = np.square(seen - offsets[y]).sum(1).argmin()
        assert cell_of(cells, jnp.asarray(x), y) == expected
        found = np.asarray(place_in_cell(jnp.arange(1.0, 4.0), cells, jnp.asarray(x), y)).reshape(4, 3)
        np.testing.assert_array_equal(found[expected], [1, 2, 3])
        assert np.abs(found).sum() == 6


def test_the_view_is_the_image_made_smaller():
    row = np.linspace(-1, 1, 28, dtype=np.float32)
    X = np.broadcast_to(row[:, None, None], (2, 28, 28, 3))
    seen = np.asarray(view(jnp.asarray(X))).reshape(2, 7, 7, 3)
    np.testing.assert_allclose(seen[:, 1:-1], X.reshape(2, 7, 4, 28, 3).mean(2)[:, 1:-1, ::4], atol=1e-5)
    flat = jnp.full((1, 5, 40, 2), 0.3)
    assert view(flat).shape == (1, 5 * 7 * 2)
    assert_close_float32(view(flat), np.full((1, 70), 0.3), terms=40 + 2)


def test_the_means_of_cells_are_bounded_by_what_their_noise_is_for():
    query = CellMeans(48, 0.1)
    assert query.bound == pytest.approx(REACH * math.sqrt(48))
    far = {"cells": {"means": -np.ones((1, 4, 4, 3), np.float32), "offsets": np.zeros((1, 2, 48), np.float32)}}
    found = np.asarray(query.contribution(far, jnp.ones((4, 4, 3)), jnp.array(0)))
    assert np.linalg.norm(found) == pytest.approx(query.clip_norm, rel=1e-5)
    assert found[0] == pytest.approx(0.1 * query.clip_norm)


@pytest.mark.slow
def test_first_offsets_are_nobodys_and_of_as_many_directions():
    found = first_offsets((8, 8, 1), 4)
    assert found.shape == (4, 49)
    assert_close_float32(found.mean(0), np.zeros(49), terms=4 + 4, scale=np.abs(found).max())
    assert 0.1 * NEAR < np.linalg.norm(found, axis=1).min() <= np.linalg.norm(found, axis=1).max() < 7 * NEAR
    np.testing.assert_array_equal(found, first_offsets.__wrapped__((8, 8, 1), 4))


def test_tiles_are_shared_out_by_records():
    counts = np.array([[10.0, 30.0, 60.0], [1.0, 1.0, 998.0], [1.0, 1.0, 1.0]])
    np.testing.assert_array_equal(shares(counts, 10), [[1, 3, 6], [0, 0, 10], [4, 3, 3]])
    matrices = averaging(np.array([[1, 3], [4, 0]]))
    np.testing.assert_allclose(matrices[0], [[1, 0, 0, 0], [0, 1 / 3, 1 / 3, 1 / 3]], rtol=1e-6)
    np.testing.assert_allclose(matrices[1], [[1 / 4] * 4, [0] * 4], rtol=1e-6)


@pytest.mark.slow
def test_signals_of_cells_add_up_to_the_signal_of_the_class():
    records, _ = two_kinds(90)
    state = released(SPLIT, records)
    plain = dataclasses.replace(SPLIT, cells=0)
    params = SPLIT.params(SPLIT.known(state), 0)
    per_record = jax.vmap(plain.query().contribution, (None, 0, 0))(params, records.X, records.y)
    cells = state["signals"][0].reshape(3, 2, -1)
    for c in range(3):
        np.testing.assert_allclose(cells[c].sum(0), per_record[records.y == c].sum(0), atol=1.5)
        assert np.abs(cells[c]).sum(1).min() > 3


@pytest.mark.slow
def test_cells_are_the_kinds_of_records_and_images_follow_them_in_their_shares():
    records, bright = two_kinds(600)
    state = released(SPLIT, records)
    X = SPLIT.finish(state, SCHEMA).X
    counts, _ = SPLIT._targets(state, 2)
    for c in range(3):
        own = [records.X[(records.y == c) & (bright == kind)] for kind in (False, True)]
        order = np.argsort(state["cells"][c].mean((1, 2, 3)))
        np.testing.assert_allclose(counts[c][order], [len(each) for each in own], atol=6)
        for k, each in zip(order, own, strict=True):
            np.testing.assert_allclose(state["cells"][c, k], each.mean(0), atol=0.15)
        shades = X.reshape(3, 4, -1)[c].mean(1)
        assert (shades > records.X[records.y == c].mean()).sum() == shares(counts, 4)[c][order[1]]
        assert shades.max() - shades.min() > 0.3


def test_without_cells_images_of_a_class_are_all_between_its_kinds():
    records, _ = two_kinds(600)
    plain = dataclasses.replace(SPLIT, cells=0)
    X = plain.finish(released(plain, records), SCHEMA).X.reshape(3, 4, -1).mean(2)
    assert (X.max(1) - X.min(1)).max() < 0.3


def test_fewer_images_than_cells_have_targets_of_the_whole_class():
    state = SPLIT.init(KEY, SCHEMA)
    signals = np.random.default_rng(0).uniform(50, 90, state["signals"].shape)
    state, one = {**state, "signals": signals}, dataclasses.replace(SPLIT, per_class=1)
    assert (one._followed, SPLIT._followed) == (1, 2)
    (counts, targets), (each, _) = (SPLIT._targets(state, parts) for parts in (1, 2))
    np.testing.assert_allclose(counts[:, 0], each.sum(1), rtol=1e-12)
    sums = signals.reshape(*signals.shape[:2], 2, -1).sum(2)
    np.testing.assert_allclose(targets[:, :, 0], sums[..., 1:] / counts, rtol=1e-12)


@pytest.mark.slow
def test_fewer_images_than_cells_follow_the_whole_class():
    records, _ = two_kinds(600)
    state = released(SPLIT, records)
    one = dataclasses.replace(SPLIT, per_class=1)
    np.testing.assert_allclose(one._targets(state, 1)[0], np.bincount(records.y)[:, None], atol=6)
    X, plain = one.finish(state, SCHEMA).X, dataclasses.replace(one, cells=0)
    expected = plain.finish(released(plain, records), SCHEMA).X
    np.testing.assert_allclose(X.mean((1, 2, 3)), expected.mean((1, 2, 3)), atol=0.1)


def test_what_finish_asks_of_networks_has_no_cells(monkeypatch):
    state = SPLIT.init(KEY, SCHEMA)
    state = {**state, "round": np.asarray(8), "signals": state["signals"] + 1}
    monkeypatch.setattr(DOS, "_cells", lambda *_: pytest.fail("Cells are for records: images are told by their order."))
    SPLIT.finish(state, SCHEMA)


def test_the_round_of_means_is_paid_for():
    plan = DOS(networks=10, cells=4, pilot_share=0.1, cell_share=0.2).plan()
    assert [stage.rounds for stage in plan] == [1, 1, 10]
    costs = np.array([stage.rounds * (stage.sampling_prob * stage.weight) ** 2 for stage in plan])
    np.testing.assert_allclose(costs / costs.sum(), [0.1, 0.2, 0.7], rtol=1e-12)
    sigmas = calibrate(plan, Budget(1.0)).noise_multipliers
    assert sigmas[2] > calibrate(DOS(networks=10, pilot_share=0.1).plan(), Budget(1.0)).noise_multipliers[1]


@pytest.mark.parametrize("changes", [{"pilot_share": 0.0}, {"pilot_share": 0.6, "cell_share": 0.5}])
def test_cells_without_a_pilot_or_with_nothing_left_are_refused(changes):
    with pytest.raises(
        ValueError, match=r"Expected pilot_share=0.\d > 0 with cells, and pilot_share \+ cell_share < 1"
    ):
        DOS(cells=2, **changes)


def test_more_cells_than_records_could_fill_are_refused():
    for kind in (DOS, DOSKIP):
        with pytest.raises(ValueError, match="Expected 0 <= cells=101 <= 100"):
            kind(cells=101)


def test_one_cell_is_none():
    one = tiny("dos", cells=1)
    assert one.plan() == tiny("dos", cells=0).plan()
    assert "cells" not in one.init(KEY, SCHEMA)


@pytest.mark.parametrize("shape", few([(28, 28, 3), (9, 13, 1), (2, 2, 1)], (2, 2, 1)))
def test_images_of_any_shape(shape):
    schema = dataclasses.replace(SCHEMA, shape=shape)
    rng = np.random.default_rng(0)
    records = Records(rng.uniform(-1, 1, (30, *shape)).astype(np.float32), np.arange(30) % 3, schema)
    method = tiny("dos", cells=2, per_class=3, expand=2)
    result = run.distill(records, method, Budget(50.0), entropy=SeededEntropy(1))
    assert result.X.shape == (9, *shape)
    assert np.isfinite(result.X).all()


@pytest.mark.slow
def test_networks_are_taught_by_pictures_of_the_means_of_cells():
    method = DOSKIP(
        kernel=SCATTER, rounds=5, networks=5, taught=5, pictures=64, sampling_prob=1.0, width=4, steps=2, cells=2
    )
    state = released(method, two_kinds(60)[0])
    signals, W = state["signals"], method.classifier.classifier(state["classifier"])
    means, key = signals["cells"].reshape(-1, *SCHEMA.shape), jax.random.split(signals["key"])[1]
    again = teach(key, lambda X: encode_slices(SCATTER.encoder, X) @ W, means, Lesson(5, 64, 4))
    for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(signals["taught"]), strict=True):
        np.testing.assert_array_equal(one, other)
