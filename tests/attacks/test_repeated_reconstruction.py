"""The onion: layers lose the records that came back best, and duals and distances belong to the same records."""

import itertools

import numpy as np
import pytest

from dpdistill.attacks.attacked_networks import Descent, Smooth, kernel_distance, stable_rate, start, tangent_kernel
from dpdistill.attacks.reconstruction import Curve, Reconstruction, curve, outliers
from dpdistill.attacks.repeated_reconstruction import Layer, peel, rank_correlation
from dpdistill.audits.page_chapters import onion_chapter, outlier_chapter

NET, SHAPE = Smooth(), (5, 4, 1)


def task(n=8):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (n, *SHAPE)).astype(np.float32)
    return X, np.where(rng.random((n, 1)) < 0.5, -1.0, 1.0).astype(np.float32)


@pytest.mark.parametrize("linearised", [False, True])
@pytest.mark.slow
def test_each_layer_is_trained_without_those_that_came_back_best(linearised):
    X, T = task()
    params = start(0, (20, 64, 64, 1))
    how = Descent(steps=500, learning_rate=stable_rate(NET, params, X))
    attack = Reconstruction(16, 100)
    found = peel(X, T, NET, params, how, attack, layers=3, removed=2, linearised=linearised, seed=5)
    assert [len(layer.rows) for layer in found] == [8, 6, 4]
    for outer, inner in itertools.pairwise(found):
        assert set(inner.rows) == set(outer.rows[2:])
    second, kept = found[1], np.sort(found[1].rows)
    after = (how.train_linearised if linearised else how.train)(NET, params, X[kept], T[kept])
    made = Reconstruction(12, 100).run(NET, params, after, SHAPE, seed=6)
    pairs = curve(X[kept], made.X)
    np.testing.assert_allclose(second.pairs.distances, pairs.distances, rtol=1e-3)
    assert second.rows.tolist() == kept[pairs.images].tolist()
    kernels = [tangent_kernel(NET, p, X[kept]) for p in (params, after)]
    by_row = dict(zip(kept, outliers(kernels[0], NET(params, X[kept]), T[kept]), strict=True))
    np.testing.assert_allclose(second.duals, [by_row[row] for row in second.rows], rtol=1e-3)
    assert second.turned == pytest.approx(kernel_distance(*kernels), rel=1e-3, abs=1e-6)


def test_too_many_layers_are_refused():
    X, T = task()
    with pytest.raises(ValueError, match="Expected at least two records in the last of 4 layers; got 8 records in all"):
        peel(X, T, NET, [], Descent(), Reconstruction(16), layers=4, removed=3)


def test_rank_correlation():
    assert rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([5.0, 4.0, 1.0])) == pytest.approx(-1.0)
    assert rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([0.1, 0.2, 0.3])) == pytest.approx(1.0)
    assert rank_correlation(np.ones(3), np.arange(3.0)) == 0.0


def layer(rows, distances):
    n = len(rows)
    pairs = Curve(np.arange(n), np.arange(n), np.array(distances))
    return Layer(np.array(rows), pairs, np.zeros((n, *SHAPE)), np.arange(n) + 1.0, 0.25)


def test_chapters_count_what_is_rebuilt_only_then():
    layers = [layer([3, 1, 0, 2], [1.0, 2.0, 30.0, 40.0]), layer([2, 0], [3.0, 50.0])]
    made, results = onion_chapter(layers, 2, nothing=40.0)
    assert [list(each.values())[:4] for each in results["onion"]] == [[4, 2, 18.25, None], [2, 1, 26.5, 35.0]]
    assert [each["correlation"] for each in results["onion"]] == pytest.approx([1.0, 1.0])
    assert results["rebuilt only then"] == 1
    assert "<b>1</b> images that had not been rebuilt before" in made.body
    made, results = outlier_chapter(layers[0].duals, layers[0].pairs.distances[::-1], 0.25)
    assert results == {"rank correlation of duals and distances": pytest.approx(-1.0), "kernel distance": 0.25}
    assert made.body.count("<circle") == 4
