"""DP-MERF and DP-HP: their features are the kernels they claim, their queries keep the contract, and what they make."""

import dataclasses
import itertools
import math

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chosen_tests import few
from contract import check_add_remove, check_places, check_replace_one, subset, table_records
from contract.float32 import assert_close_float32

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.api.options import MAX_SEED
from dpdistill.methods import generator as generators
from dpdistill.methods import training
from dpdistill.methods.dp_hp import DPHP, hermite
from dpdistill.methods.dp_merf import DPMERF, fourier
from dpdistill.methods.dp_ntk import DPNTK
from dpdistill.methods.generator import Generator
from dpdistill.methods.generator_arrays import Piece, pieces_of
from dpdistill.methods.generator_networks import init_weights, outputs_of
from dpdistill.methods.generator_shapes import kernels_of
from dpdistill.methods.matching import counts_of
from dpdistill.private.noise import SeededEntropy
from dpdistill.recipe.generators import GENERATORS, GeneratorSettings
from dpdistill.schema import Column, Schema, TableSchema
from dpdistill.storage.records import Records

MIXED = contract.TABLE
NUMBERS = TableSchema(tuple(Column(f"x{i}", "numeric", (-1.0, 1.0)) for i in range(4)), "y", ("no", "yes"))
CATEGORIES = TableSchema(
    tuple(Column(f"c{i}", "categorical", categories=("a", "b", "c")) for i in range(3)), "y", ("no", "yes")
)
IMAGES = Schema((4, 4, 1), (-1.0, 1.0), ("no", "yes"))
SCHEMAS = {"mixed": MIXED, "numbers": NUMBERS, "categories": CATEGORIES, "images": IMAGES}

QUICK = {"samples": 60, "hidden": 8, "layers": 1, "code_size": 3, "batch": 12, "steps": 4}
TINY = {
    "dp-merf": DPMERF(frequencies=10, **QUICK),
    "dp-merf not joint": DPMERF(frequencies=10, joint=False, hard=False, **QUICK),
    "dp-hp": DPHP(order=4, product_rounds=2, **QUICK),
    "dp-hp without products": DPHP(order=4, product_rounds=0, hard=False, **QUICK),
}
MADE = {
    **TINY,
    "dp-merf dense": DPMERF(frequencies=10, architecture="dense", **QUICK),
    "dp-ntk": DPNTK(width=6, **QUICK),
    "dp-ntk of two layers": DPNTK(width=6, second_width=5, **QUICK),
    "dp-ntk of convolutions": DPNTK(network="convolutional", width=3, second_width=2, **QUICK),
}
"""The same, and those whose queries are linear."""
LEARNS = {"hidden": 64, "batch": 200, "steps": 600, "learning_rate": 0.01, "samples": 4000, "code_size": 6}


def toy_table(n=1500, seed=1, classes=NUMBERS.classes):
    """Two classes that differ in everything; in each the number goes with the category. A quarter has label 1."""
    schema = TableSchema(
        (
            Column("x", "numeric", (-1.0, 1.0)),
            Column("z", "numeric", (-1.0, 1.0)),
            Column("c", "categorical", categories=("a", "b", "c")),
        ),
        "y",
        classes,
    )
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 4 == 0).astype(np.int64)
    c = np.where(rng.random(n) < np.where(y == 1, 0.2, 0.7), 0, np.where(y == 1, 2, 1))
    x = np.where(c == 0, -0.5, 0.5) + 0.1 * rng.normal(size=n)
    z = np.where(y == 1, 0.4, -0.4) + 0.5 * x + 0.05 * rng.normal(size=n)
    return Records(np.stack([x, z, c], 1).astype(np.float32), y, schema)


def queries(schema):
    """Every query of the methods, with params as they make them."""
    found = {}
    for name, method in TINY.items():
        for t, (query, params) in enumerate(contract.asked(method, schema, contract.rounds_of(method))):
            found[f"{name} {t}"] = (query, params)
    return found


NAMES = [f"{name} {t}" for name, method in TINY.items() for t in range(contract.rounds_of(method))]


def corners(schema, n=200, seed=0):
    """Encoded rows at the ends of what a schema allows: numbers at -1, 0, 1, any category, anything missing."""
    rng = np.random.default_rng(seed)
    if isinstance(schema, Schema):
        return rng.choice([-1.0, 1.0], (n, schema.dimension)).astype(np.float32)
    X = table_records(n, seed, schema).X.copy()
    for i, column in enumerate(schema.columns):
        if column.is_number:
            X[:, i] = np.where(np.isnan(X[:, i]), X[:, i], rng.choice(np.float32(column.bounds), n))
    return schema.to_unit(X)


class TestFeatures:
    def test_fourier_features_are_the_gaussian_kernel(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (20, 5))
        W = rng.normal(size=(40_000, 5)) / 0.7
        phi = np.asarray(fourier(jnp.asarray(W), jnp.asarray(X)))
        expected = np.exp(-np.square(X[:, None] - X[None]).sum(2) / (2 * 0.7**2))
        np.testing.assert_allclose(phi @ phi.T, expected, atol=0.02)
        np.testing.assert_allclose(np.diag(phi @ phi.T), 1.0, atol=1e-5)

    @pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
    def test_hermite_features_are_the_gaussian_kernel_of_mehler(self, rho):
        with jax.enable_x64(True):
            x = jnp.linspace(-1.0, 1.0, 41, dtype=jnp.float64)
            g = np.asarray(hermite(x, 250, rho))
        expected = np.exp(-rho / (1 - rho**2) * np.square(np.subtract.outer(x, x)))
        np.testing.assert_allclose(g @ g.T, expected, atol=1e-9)

    def test_hermite_features_are_those_of_the_polynomials(self):
        x, rho = np.linspace(-1, 1, 9), 0.7
        g = np.asarray(hermite(jnp.asarray(x, jnp.float32), 6, rho))
        for c in range(7):
            H = np.polynomial.hermite.hermval(x, np.eye(7)[c])
            N = 2**c * math.factorial(c) * math.sqrt((1 - rho) / (1 + rho))
            expected = math.sqrt((1 - rho) * rho**c / N) * H * np.exp(-rho / (1 + rho) * x**2)
            np.testing.assert_allclose(g[:, c], expected, atol=2e-6)

    def test_merf_frequencies_are_scaled_by_the_columns(self):
        W = DPMERF(frequencies=5000, length_scale=0.5, joint=False).init(jax.random.key(0), MIXED)
        W = W["params"]["frequencies"]
        # Numbers stand at 0, 1, 6 (whose indicator is 7) and 10.
        np.testing.assert_array_equal(np.flatnonzero(W.any(0)), [0, 1, 6, 10])
        np.testing.assert_allclose(W[:, [0, 1, 6, 10]].std(0), 1 / (0.5 * math.sqrt(4)), rtol=0.05)
        joint = DPMERF(frequencies=5000, length_scale=0.5).init(jax.random.key(0), MIXED)["params"]["frequencies"]
        np.testing.assert_allclose(joint.std(0), 1 / (0.5 * math.sqrt(7)), rtol=0.05)

    def test_products_are_outer_products_of_columns(self):
        method = DPHP(order=3, product_rounds=5)
        state = method.init(jax.random.key(1), MIXED)
        x = corners(MIXED, 1)[0]
        v = np.concatenate(
            [np.asarray(hermite(x[[0, 1, 6, 10]], 3, method.rho)).ravel(), x[[2, 3, 4, 5, 7, 8, 9]], [0]]
        )
        columns = [*(range(4 * i, 4 * i + 4) for i in range(4)), range(16, 20), range(20, 21), range(21, 23)]
        pairs = set()
        for factors in state["factors"]:
            found = np.asarray(method.product_query().features({**state["layout"], "factors": factors}, x))
            np.testing.assert_allclose(found, np.outer(v[factors[0]], v[factors[1]]).ravel(), atol=1e-6)
            pair = [[j for j in row if j < 23] for row in factors]
            assert all(one in [list(c) for c in columns] for one in pair)
            assert pair[0] != pair[1]
            pairs.add(str(pair))
        assert len(pairs) > 2


@pytest.mark.parametrize("name", NAMES)
class TestQueries:
    @pytest.mark.parametrize("kind", SCHEMAS)
    def test_norms_are_at_most_the_clip_norm_and_near_it(self, name, kind):
        query, params = queries(SCHEMAS[kind])[name]
        with jax.enable_x64(True):
            X = corners(SCHEMAS[kind]).astype(np.float64)
            rows = np.asarray(jax.vmap(lambda x: query.contribution(params, x, 0))(X))
        norms = np.linalg.norm(rows, axis=1)
        assert norms.max() <= 1.0 + 1e-6
        assert norms.max() >= (0.9 if "merf" in name else 0.3)
        if hasattr(query, "count"):
            np.testing.assert_allclose(rows[:, 0], query.count, rtol=1e-12)

    def test_neighbours(self, name):
        query, params = queries(MIXED)[name]
        check_add_remove(query, params, table_records(9))
        check_replace_one(query, params, table_records(9))

    @pytest.mark.parametrize("chunk", few([3, 8, 32], 8))
    def test_rows_stay(self, name, chunk):
        query, params = queries(MIXED)[name]
        check_places(query, params, table_records(45, 3), chunk)


@pytest.mark.slow
def test_rows_stay_with_the_default_settings():
    for method in (DPMERF(), DPHP()):
        for query, params in contract.asked(method, MIXED, 2 if method.name == "dp-hp" else 1):
            check_places(query, params, table_records(70, 3), 32)


def test_counts_and_shares_are_those_of_the_records():
    records = toy_table(2000)
    result = run.distill_without_privacy(records, TINY["dp-merf"])
    np.testing.assert_allclose(result.distilled.generator.class_shares, [0.75, 0.25], atol=1e-5)
    _, y = result.distilled.generator.sample(40_000, seed=3)
    assert abs(np.mean(y == 1) - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 40_000)


def test_released_counts_are_noised_about_the_true_ones():
    records, method = toy_table(2000), DPMERF(frequencies=10, count_coordinate=0.5)
    query, params = method.ask(method.init(jax.random.key(0), records.schema))
    found = []
    for seed in range(60):
        curator = contract.make_curator(records, entropy=SeededEntropy(seed))
        value = curator.release(0, query, params).value
        found.append(counts_of(value[None, :, 0], query, 1.0, 1.0))
    deviation = contract.NOISE / 0.5  # of one count
    assert (np.abs(np.mean(found, 0) - [1500, 500]) < 4 * deviation / math.sqrt(60) + 1).all()
    assert (np.abs(np.std(found, 0) / deviation - 1) < 0.4).all()


def test_codes_are_fresh_at_every_step():
    class Near(training.ClassLoss):
        def __call__(self, params, X, step):
            return jnp.square(X - params).mean((1, 2))

    recipe = GeneratorSettings(hidden=5, layers=1, code_size=3, batch=8, steps=10, learning_rate=0.01)
    how, key = training.Training(recipe, Schema((2, 1, 1), (-1.0, 1.0), ("a", "b")), Near()), jax.random.key(0)
    moved = how.start(key)
    shares = jnp.array([0.5, 0.5])
    after = [how.step(moved, 0.3, shares, key, t).X[0] for t in (0, 1, 0)]
    np.testing.assert_array_equal(after[0], after[2])
    assert np.abs(after[0] - after[1]).max() > 1e-4


def test_the_distance_is_unbiased():
    """Of two records a class, over many draws, it is the distance of the true mean."""
    rng = np.random.default_rng(0)
    phi = rng.normal([0.5, -0.2, 0.1], [1.0, 0.3, 2.0], (200_000, 2, 3))
    target = np.array([0.1, 0.2, 0.3])
    found = training.distance(jnp.asarray(phi), jnp.broadcast_to(target, (200_000, 3)))
    expected = np.square([0.4, -0.4, -0.2]).sum() - np.square(target).sum()
    assert abs(float(found.mean()) - expected) < 0.03


def test_targets_are_brought_back_to_norm_1():
    near = training.project_embeddings(np.array([[0.3, 0.4], [30.0, 40.0], [0.0, 0.0]]))
    assert_close_float32(near, [[0.3, 0.4], [0.6, 0.8], [0, 0]], terms=4)


@pytest.mark.parametrize(
    ("method", "least"),
    [
        (DPMERF(frequencies=300, **LEARNS), 0.8),
        pytest.param(DPHP(order=10, product_rounds=20, **LEARNS | {"steps": 1200}), 0.8, marks=pytest.mark.variants),
        pytest.param(DPNTK(width=300, **LEARNS), 0.65, marks=pytest.mark.variants),
    ],
    ids=["dp-merf", "dp-hp", "dp-ntk"],
)
def test_a_table_is_learned(method, least):
    records = toy_table()
    X, y = records.schema.to_unit(records.X), records.y
    distilled = run.distill_without_privacy(records, method).distilled
    assert set(np.unique(distilled.X[:, 2:])) == {0.0, 1.0}
    np.testing.assert_array_equal(distilled.X[:, 2:].sum(1), 1.0)
    for c in (0, 1):
        real, made = X[y == c], distilled.X[distilled.y == c]
        np.testing.assert_allclose(made.mean(0), real.mean(0), atol=0.08)
        np.testing.assert_allclose(made[:, :2].std(0), real[:, :2].std(0), atol=0.1)
        # x goes with z, and with the category.
        assert np.corrcoef(made[:, 0], made[:, 1])[0, 1] > least
        assert np.corrcoef(made[:, 0], made[:, 2])[0, 1] < -least


@pytest.mark.parametrize(
    "name", few(MADE, *(name for name in MADE if name not in ("dp-ntk of convolutions", "dp-ntk of two layers")))
)
@pytest.mark.parametrize("kind", few(SCHEMAS, "mixed"))
def test_a_result_is_in_bounds_whatever_the_records(name, kind):
    schema, records = SCHEMAS[kind], table_records(30, schema=SCHEMAS[kind])
    classless = subset(records, records.y != 1)
    for some in (records, classless, subset(records, [np.argmax(records.y >= 0)]), subset(records, [])):
        result = run.distill(some, MADE[name], Budget(1.0), entropy=SeededEntropy(1))
        distilled = result.distilled
        assert distilled.X.shape == (60, *schema.shape)
        assert (distilled.X.dtype, distilled.y.dtype) == (np.float32, np.int32)
        assert np.isfinite(distilled.X).all()
        assert np.abs(distilled.X).max() <= 1.0
        assert set(distilled.y) <= set(range(len(schema.classes)))
        assert distilled.generator.class_shares.min() > 0
        assert result.epsilon <= 1.0 + 1e-6
        if kind != "images":
            again = schema.to_unit(schema.from_unit(distilled.X))
            assert_close_float32(
                again, distilled.X, terms=6, scale=1.0
            )  # whole numbers and categories, as records have


def test_a_class_without_records_is_hardly_made():
    records = toy_table(classes=("no", "yes", "never"))
    distilled = run.distill(records, DPMERF(frequencies=20, **{**QUICK, "samples": 2000}), Budget(5.0)).distilled
    assert np.mean(distilled.y == 2) < 0.03


def test_a_missing_number_is_encoded_as_zero():
    generator = generator_of(MIXED)
    X, _ = generator.sample(500)
    missing = X[:, 7] == 1
    assert 50 < missing.sum() < 450
    assert (X[missing, 6] == 0).all()
    assert (X[~missing, 6] != 0).all()


def test_pieces_of_a_table():
    assert pieces_of(MIXED) == (
        Piece("numbers", 0, 2),
        Piece("categories", 2, 4),
        Piece("gapped", 6, 2),
        Piece("categories", 8, 2),
        Piece("numbers", 10, 1),
    )


def generator_of(schema, seed=0, shares=None, architecture="dense"):
    """A generator that nobody trained."""
    classes = len(schema.classes)
    weights = init_weights(jax.random.key(seed), kernels_of(architecture, 3 + classes, (7,), schema))
    shares = np.arange(1, classes + 1) if shares is None else np.array(shares)
    return Generator(tuple(map(np.asarray, weights)), shares / shares.sum(), 3, schema)


class TestGenerator:
    def test_a_short_sample_is_the_start_of_a_long_one(self):
        generator = generator_of(MIXED)
        X, y = generator.sample(2 * generators.CHUNK + 7, seed=5)
        for n in (0, 1, 10, generators.CHUNK, generators.CHUNK + 1):
            part, labels = generator.sample(n, seed=5)
            np.testing.assert_array_equal(part, X[:n])
            np.testing.assert_array_equal(labels, y[:n])
        assert len(np.unique(X, axis=0)) == len(X)
        assert not np.array_equal(generator.sample(10, seed=6)[0], X[:10])

    def test_images_have_their_shape(self):
        X, y = generator_of(IMAGES).sample(5)
        assert X.shape == (5, 4, 4, 1)
        assert y.shape == (5,)

    @pytest.mark.parametrize("architecture", GENERATORS)
    @pytest.mark.parametrize(
        "shape", few([(28, 28, 1), (9, 14, 3), (3, 2, 1), (1, 1, 1), (64, 64, 3)], (28, 28, 1), (3, 2, 1))
    )
    def test_images_of_any_sides_are_made(self, shape, architecture):
        schema = Schema(shape, (-1.0, 1.0), ("no", "yes"))
        generator = generator_of(schema, architecture=architecture)
        X, _ = generator.sample(40, seed=2)
        assert X.shape == (40, *shape)
        assert len(np.unique(X)) > 30
        assert (generator.weights[-2].ndim == 4) == (architecture != "dense")
        back = Generator.from_arrays(generator.to_arrays(), schema)
        assert back.sample(40, 2)[0].tobytes() == X.tobytes()
        with pytest.raises(ValueError, match="Expected a generator of 2 classes"):
            Generator.from_arrays(generator.to_arrays(), Schema((*shape[:2], 2), (-1.0, 1.0), ("no", "yes")))

    @pytest.mark.slow
    def test_convolutions_are_those_of_the_formula(self):
        schema = Schema((6, 7, 1), (-1.0, 1.0), ("no", "yes"))
        weights = [np.float64(w) for w in generator_of(schema, architecture="convolutional").weights]
        code, label = np.random.default_rng(3).normal(size=3), np.array([0.0, 1.0])

        def normal(h):
            return np.maximum((h - h.mean()) / np.sqrt(h.var() + 1e-5), 0)

        h = normal(np.concatenate([code, label]) @ weights[0] + weights[1])
        maps = normal(h @ weights[2] + weights[3]).reshape(2, 2, 32)
        for i in (4, 6):
            maps = np.pad(maps.repeat(2, 0).repeat(2, 1), ((2, 2), (2, 2), (0, 0)))
            windows = np.lib.stride_tricks.sliding_window_view(maps, (5, 5), (0, 1))
            maps = np.einsum("hwcij,ijco->hwo", windows, weights[i]) + weights[i + 1]
            maps = normal(maps) if i == 4 else maps
        found = outputs_of(
            tuple(map(jnp.asarray, weights)), jnp.asarray(code[None]), jnp.asarray(label[None]), (6, 7, 1)
        )
        np.testing.assert_allclose(found[0], maps[:6, :7].ravel(), atol=1e-4)

    @pytest.mark.slow
    def test_residual_blocks_are_those_of_the_formula(self):
        schema = Schema((14, 11, 2), (-1.0, 1.0), ("no", "yes"))
        weights = [np.float64(w) for w in generator_of(schema, architecture="residual").weights]
        weights = [w if w.ndim > 1 else np.linspace(0, 0.1, w.size) for w in weights]
        code, label = np.random.default_rng(3).normal(size=3), np.array([0.0, 1.0])

        def normal(h):
            return np.maximum((h - h.mean()) / np.sqrt(h.var() + 1e-5), 0)

        def convolved(maps, i):
            pad = weights[i].shape[0] // 2
            windows = np.pad(maps, ((pad, pad), (pad, pad), (0, 0)))
            windows = np.lib.stride_tricks.sliding_window_view(windows, weights[i].shape[:2], (0, 1))
            return np.einsum("hwcij,ijco->hwo", windows, weights[i]) + weights[i + 1]

        h = normal(np.concatenate([code, label]) @ weights[0] + weights[1])
        maps = normal(h @ weights[2] + weights[3]).reshape(4, 3, 64)  # the least sides that double twice to 14 x 11
        for i in (4, 10):
            maps = maps.repeat(2, 0).repeat(2, 1)
            maps = convolved(normal(convolved(normal(maps), i)), i + 2) + convolved(maps, i + 4)
        maps = convolved(normal(maps), 16)
        assert len(weights) == 18
        found = outputs_of(
            tuple(map(jnp.asarray, weights)), jnp.asarray(code[None]), jnp.asarray(label[None]), (14, 11, 2)
        )
        np.testing.assert_allclose(found[0], maps[:14, :11].ravel(), atol=1e-3)

    def test_labels_follow_the_shares(self):
        _, y = generator_of(MIXED, shares=[0.5, 0.0, 0.5]).sample(20_000)
        shares = np.bincount(y, minlength=3) / 20_000
        np.testing.assert_allclose(shares, [0.5, 0.0, 0.5], atol=0.015)
        assert shares[1] == 0

    def test_it_saves_and_loads_bit_for_bit(self, tmp_path):
        generator = generator_of(MIXED)
        np.savez(tmp_path / "generator.npz", **generator.to_arrays())
        with np.load(tmp_path / "generator.npz", allow_pickle=False) as arrays:
            back = Generator.from_arrays(arrays, MIXED)
        for one, other in zip(generator.sample(1200, 4), back.sample(1200, 4), strict=True):
            assert one.tobytes() == other.tobytes()
        assert all(a.tobytes() == b.tobytes() for a, b in zip(generator.weights, back.weights, strict=True))
        assert generator.class_shares.tobytes() == back.class_shares.tobytes()

    @pytest.mark.parametrize("lost", ["class_shares", "code_size", "weights_0", "weights_3"])
    def test_what_is_no_generator_is_refused(self, lost):
        arrays = generator_of(MIXED).to_arrays()
        del arrays[lost]
        with pytest.raises(ValueError, match="Expected"):
            Generator.from_arrays(arrays, MIXED)

    @pytest.mark.parametrize(
        ("name", "value", "said"),
        [
            ("weights_0", np.full((6, 7), np.nan, np.float32), "finite weights"),
            ("weights_0", np.zeros((6, 7)), "single precision"),
            ("weights_1", np.zeros(8, np.float32), "2 classes and 16 coordinates"),
            ("class_shares", np.array([-5.0, 6.0]), "at least 0 and sum to 1"),
            ("class_shares", np.array([np.nan, 1.0]), "at least 0 and sum to 1"),
            ("class_shares", np.array([0.5, 0.5], np.float32), "class_shares of 2 classes"),
            ("code_size", np.array(3.0), "code_size of a generator"),
            ("code_size", np.array(4), "2 classes and 16 coordinates"),
        ],
    )
    def test_arrays_that_do_not_fit_are_refused(self, name, value, said):
        arrays = generator_of(IMAGES).to_arrays()
        shape = arrays["weights_0"].shape
        arrays[name] = value.reshape(-1)[: 5 * 7].reshape(shape) if name == "weights_0" else value
        with pytest.raises(ValueError, match=said):
            Generator.from_arrays(arrays, IMAGES)

    @pytest.mark.parametrize("more", [1, 20])
    def test_other_convolutions_than_the_packages_are_refused_before_they_take_memory(self, more):
        arrays = generator_of(IMAGES, architecture="convolutional").to_arrays()
        for i in range(len(arrays) - 2, len(arrays) - 2 + 2 * more, 2):
            arrays |= {f"weights_{i}": np.zeros((5, 5, 1, 1), np.float32), f"weights_{i + 1}": np.zeros(1, np.float32)}
        with pytest.raises(ValueError, match="Expected a generator of 2 classes and 16 coordinates"):
            Generator.from_arrays(arrays, IMAGES)

    def test_a_generator_of_another_table_is_refused(self):
        with pytest.raises(ValueError, match="Expected class_shares of 2 classes"):
            Generator.from_arrays(generator_of(MIXED).to_arrays(), NUMBERS)

    def test_bad_arguments(self):
        generator = generator_of(NUMBERS)
        with pytest.raises(ValueError, match="Expected n=-1 >= 0"):
            generator.sample(-1)
        for seed in (-1, MAX_SEED + 1):
            with pytest.raises(ValueError, match=f"Expected 0 <= seed={seed} < "):
                generator.sample(1, seed)
        ends = [generator.sample(20, seed)[0] for seed in (2**31 - 1, 2**31, MAX_SEED)]  # what commands take
        assert not any(np.array_equal(a, b) for a, b in itertools.combinations(ends, 2))


@pytest.mark.parametrize("name", MADE)
class TestMethods:
    def test_it_is_deterministic_in_key_and_releases(self, name):
        def made(seed=0, entropy=1, **changes):
            method = dataclasses.replace(MADE[name], **changes)
            return run.distill(table_records(30), method, Budget(1.0), seed=seed, entropy=SeededEntropy(entropy))

        X = made().distilled.X
        np.testing.assert_array_equal(made().distilled.X, X)
        for other in (made(seed=1), made(entropy=2), made(sample_seed=1)):
            assert not np.array_equal(other.distilled.X, X)

    def test_the_stored_records_are_a_sample_of_the_generator(self, name):
        distilled = run.distill_without_privacy(table_records(30), MADE[name]).distilled
        X, y = distilled.generator.sample(60, MADE[name].sample_seed)
        np.testing.assert_array_equal(distilled.X, X)
        np.testing.assert_array_equal(distilled.y, y)

    def test_progress_counts_steps(self, name):
        told = []
        run.distill_without_privacy(table_records(30), MADE[name], progress=lambda *said: told.append(said))
        assert told[-1] == ("training", 4, 4)


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_products_cost_their_share_of_the_budget(share):
    first, products = DPHP(product_share=share, product_rounds=7).embeddings()
    cost = products.rounds * products.weight**2
    assert math.isclose(cost / (1 + cost), share)
    assert (first.rounds, first.weight, products.rounds) == (1, 1.0, 7)


def test_too_many_products_are_refused():
    with pytest.raises(ValueError, match=r"Expected at most 65536 products of 4 columns; got 21\^4"):
        DPHP(product_dims=4).init(jax.random.key(0), NUMBERS)
