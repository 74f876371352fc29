"""AIM: the query of counts, the choice of marginals, the graphical model, and intervals of counts."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import table_records, tiny
from contract.private.linear import check_error_bound, coefficients_of, contributions, exact

from dpdistill import Column, TableSchema, run
from dpdistill.accounting.schedule import Budget
from dpdistill.methods.aim import AIM
from dpdistill.methods.graphical_model import GraphicalModel, Measured, fitted, junction_tree, megabytes
from dpdistill.methods.marginal_choice import chosen, counts_of, errors_of, excess
from dpdistill.methods.marginal_tables import BELOW, Layout, coarse_groups, fine_groups, weights_of
from dpdistill.private.noise import SeededEntropy
from dpdistill.query import Event, Release
from dpdistill.schema.bins import bins_of, codes_of, edges_of
from dpdistill.schema.counts import LEVEL, Counts, ReleasedCounts
from dpdistill.storage.records import Records

SCHEMA = TableSchema(
    (
        Column("age", "integer", (0.0, 30.0)),
        Column("ward", "categorical", categories=("A", "B", "C", "D")),
        Column("cost", "numeric", (0.0, 4.0), missing=True),
        Column("stage", "ordinal", categories=("I", "II", "III")),
    ),
    "outcome",
    ("well", "ill"),
)


def records(n=4000, seed=0):
    """Rows whose ward follows from age, cost from ward, and outcome from both."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 31, n)
    ward = (age // 8 + (rng.random(n) < 0.2)) % 4
    cost = np.clip(ward + rng.random(n), 0, 4)
    cost[rng.random(n) < 0.1] = np.nan
    y = (rng.random(n) < np.where(ward > 1, 0.8, 0.2)).astype(np.int64)
    return Records(np.column_stack([age, ward, cost, rng.integers(0, 3, n)]).astype(np.float64), y, SCHEMA)


def plain_release(method, state, data):
    """The sum that the curator would return without noise, by counting."""
    query, params = method.ask(state)
    U = data.schema.to_unit(data.X)
    codes = np.column_stack([codes_of(U, query.bins), data.y, np.zeros(len(U), int)])
    total, start = np.zeros(query.cells), 0
    for attributes, shape, weight in zip(params["attributes"], params["shapes"], params["weights"], strict=True):
        if not shape.prod():
            continue
        groups = [params["maps"][a][codes[:, a]] for a in attributes]
        place = np.ravel_multi_index(groups, shape)
        total[start : start + shape.prod()] = weight * np.bincount(place, minlength=shape.prod())
        start += shape.prod()
    return total


class TestQuery:
    def test_a_row_has_weights_of_length_below_one_in_one_cell_of_each_table(self):
        method, data = AIM(bins=4), records(5)
        query, params = method.ask(method.init(None, SCHEMA))
        each = contributions(query, params, SCHEMA.to_unit(data.X), data.y)
        np.testing.assert_allclose(np.linalg.norm(each, axis=1), BELOW, rtol=1e-12)
        assert ((each > 0).sum(1) == 5).all()
        np.testing.assert_allclose(each.sum(0), plain_release(method, method.init(None, SCHEMA), data), atol=1e-12)

    def test_tables_of_any_params_share_no_cell(self):
        """Shapes, groups and attributes from nowhere: the norm is still at most that of the weights."""
        layout = Layout.of(SCHEMA, 4, 3)
        rng = np.random.default_rng(3)
        for _ in range(20):
            params = {
                "maps": rng.integers(-5, 40, (6, 31)).astype(np.int32),
                "attributes": rng.integers(0, 6, (7, 3)).astype(np.int32),
                "shapes": rng.integers(-2, 5, (7, 3)).astype(np.int32),
                "weights": np.full(7, 7**-0.5),
            }
            (u,) = contributions(layout.query(100, 7), params, SCHEMA.to_unit(records(1).X), [1])
            assert np.linalg.norm(u) <= 1 + 1e-12

    @pytest.mark.parametrize("shape", [(2048, 2048, 1024), (50, 2, 2), (1 << 20, 1 << 20, 1 << 20)])
    def test_tables_that_do_not_fit_count_no_row(self, shape):
        """Places of 2^32 cells would coincide with others: 32-bit numbers have an overflow."""
        import jax

        params = {
            "maps": np.zeros((6, 31), np.int32),
            "attributes": np.zeros((2, 3), np.int32),
            "shapes": np.array([shape, (2, 1, 1)], np.int32),
            "weights": np.full(2, 0.5**0.5),
        }
        query = Layout.of(SCHEMA, 4, 3).query(100, 2)
        with jax.enable_x64(True):
            one = (np.zeros(2, np.int32), np.float64(1.0))
            assert np.isinf(query.norm(params, one))
            fitting = {**params, "shapes": np.array([(7, 7, 2), (2, 1, 1)], np.int32)}
            assert query.norm(fitting, one) == pytest.approx(1.0, rel=1e-5)

    def test_error_bound(self):
        layout, data = Layout.of(SCHEMA, 4, 3), records(64)
        tables = list(itertools.combinations(range(5), 2))
        maps = tuple(np.arange(size) for size in layout.sizes)
        params = layout.params(maps, tables, 1.7 * weights_of([1] * len(tables)), 12)
        query, X = layout.query(2000, 12), SCHEMA.to_unit(data.X).astype(np.float64)
        coefficients = coefficients_of(query, params, X, data.y)
        shares = [exact(u) for u in contributions(query, params, X, data.y)]
        assert check_error_bound(query, params, coefficients, shares) < 1


class TestGroups:
    def test_weights_minimise_the_sum_of_errors(self):
        cells = [100, 8, 1]
        weights = weights_of(cells)
        assert np.linalg.norm(weights) == pytest.approx(BELOW)
        best = np.divide(cells, weights).sum()
        for move in ((1, -1, 0), (0, 1, -1), (-1, 0, 1)):
            other = weights + 0.01 * np.array(move)
            other *= BELOW / np.linalg.norm(other)
            assert np.divide(cells, other).sum() > best

    def test_fine_groups_exceed_the_noise(self):
        ordered = fine_groups(np.array([9.0, 1, 1, 8, 0, 0, 2, 5.0]), 2.0, 10, True, False)
        assert ordered.tolist() == [0, 1, 1, 1, 2, 2, 2, 2]
        missing = fine_groups(np.array([9.0, 9, 1, 1.0]), 2.0, 10, True, True)
        assert missing.tolist() == [0, 1, 1, 2]
        rare = fine_groups(np.array([1.0, 9, 8, 2, 90.0]), 2.0, 10, False, False)
        assert rare.tolist() == [3, 0, 1, 3, 2]
        one_rare = fine_groups(np.array([1.0, 9, 8]), 2.0, 10, False, False)
        assert sorted(one_rare.tolist()) == [0, 1, 2]
        assert fine_groups(np.full(100, 50.0), 0.1, 8, True, False).max() < 8
        assert fine_groups(np.full(100, -5.0), 1.0, 8, True, True).tolist() == [*[0] * 99, 1]

    def test_coarse_groups_are_even(self):
        assert coarse_groups(np.array([1.0, 1, 1, 1, 4, 4]), 3, True).tolist() == [0, 0, 0, 0, 1, 2]
        assert coarse_groups(np.array([1.0, 50, 1, 48]), 3, False).max() == 2
        assert coarse_groups(np.array([5.0, 5.0]), 3, False).tolist() == [0, 1]

    def test_wide_tables_have_neighbours(self):
        columns = tuple(Column(f"x{i}", "numeric", (0.0, 1.0)) for i in range(60))
        tables = Layout.of(TableSchema(columns, "y", ("a", "b")), 4, 3).coarse_tables
        assert len(tables) == 60 + 59
        assert (0, 60) in tables
        assert (58, 59, 60) in tables


class TestModel:
    SIZES = (2, 3, 4, 2)

    def test_junction_tree_of_a_cycle(self):
        tree = junction_tree(self.SIZES, [(0, 1), (1, 2), (2, 3), (0, 3)])
        cliques = [clique for clique, _ in tree]
        assert sorted(map(len, cliques)) == [3, 3]
        for pair in ((0, 1), (1, 2), (2, 3), (0, 3)):
            assert any({*pair} <= {*clique} for clique in cliques)
        assert [parent for _, parent in tree] == [-1, 0]

    @pytest.mark.parametrize("seed", range(20))
    def test_trees_have_running_intersections(self, seed):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(2, 6, 9)
        cliques = [tuple(sorted(rng.choice(9, rng.integers(1, 4), False).tolist())) for _ in range(8)]
        tree, seen = junction_tree(sizes, cliques), set()
        for i, (clique, parent) in enumerate(tree):
            assert parent < i
            assert {*clique} & seen <= ({*tree[parent][0]} if parent >= 0 else set())
            seen |= {*clique}
        assert seen == {*range(9)}
        assert all(any({*one} <= {*clique} for clique, _ in tree) for one in cliques)
        assert not any(a != b and {*a} <= {*b} for (a, _), (b, _) in itertools.permutations(tree, 2))

    def test_megabytes(self):
        assert megabytes((512, 512, 2), [(0, 1)]) == pytest.approx((512 * 512 * 8 + 16) / 2**20)

    def test_rows_have_the_distribution_of_the_potentials(self):
        rng = np.random.default_rng(0)
        potentials = tuple((c, rng.normal(size=[self.SIZES[a] for a in c])) for c in ((0, 1), (1, 2), (2, 3), (0, 3)))
        joint = np.zeros(self.SIZES)
        for clique, values in potentials:
            joint = joint + values.reshape([self.SIZES[a] if a in clique else 1 for a in range(4)])
        joint = np.exp(joint) / np.exp(joint).sum()
        codes = GraphicalModel(self.SIZES, potentials).sample(60_000, rng)
        found = counts_of(codes, range(4), self.SIZES) / 60_000
        assert np.abs(found - joint).sum() / 2 < 0.01
        assert np.abs(found - 1 / 48).sum() / 2 > 0.2

    def test_a_fit_meets_its_marginals(self):
        rng = np.random.default_rng(2)
        codes = np.column_stack([rng.integers(0, 2, 9000)] * 2 + [rng.integers(0, 4, 9000), rng.integers(0, 2, 9000)])
        codes[:, 1] += codes[:, 2] % 2
        sizes, half = self.SIZES, (tuple(range(3)), (0, 0, 1, 1))
        measured = [
            Measured((0, 1), counts_of(codes, (0, 1), sizes), 1.0),
            Measured((2,), counts_of(codes, (2,), sizes) * 0.5, 1.0, (), (0.5,) * 4),
            Measured((1, 2), np.add.reduceat(counts_of(codes, (1, 2), sizes), [0, 2], 1), 1.0, half),
        ]
        made = fitted(sizes, measured, 9000.0, 400).sample(9000, rng)
        for attributes in ((0, 1), (2,)):
            difference = counts_of(made, attributes, sizes) - counts_of(codes, attributes, sizes)
            assert np.abs(difference).sum() < 120
        grouped = np.add.reduceat(counts_of(made, (1, 2), sizes) - counts_of(codes, (1, 2), sizes), [0, 2], 1)
        assert np.abs(grouped).sum() < 120


class TestChoice:
    def test_excess_is_nothing_for_noise_and_the_error_without(self):
        noise = np.random.default_rng(0).normal(0, 5, (200, 50))
        assert np.mean([excess(one, 5.0) == 0 for one in noise]) > 0.4
        assert excess(np.array([3.0, 3.0]), 0.0) == pytest.approx(6.0)

    def test_the_dependent_pair_is_chosen(self):
        rng = np.random.default_rng(1)
        codes = rng.integers(0, 3, (5000, 4))
        real = codes.copy()
        real[:, 1] = real[:, 0]
        sizes = (3, 3, 3, 3)
        coarse = [Counts((*pair, 3), counts_of(real, (*pair, 3), sizes) + rng.normal(0, 9, (3, 3, 3)), 9.0)
                  for pair in itertools.combinations(range(3), 2)]  # fmt: skip
        errors = errors_of(coarse, codes, sizes, 5000.0)
        assert max(errors, key=errors.get) in ((0, 1), (0, 1, 3))
        found = chosen(errors, [], sizes, 9.0, 2, 80.0)
        assert found[0] in ((0, 1), (0, 1, 3))
        assert chosen(errors, [found[0]], sizes, 9.0, 2, 80.0)[0] != found[0]

    def test_model_size_and_cells_are_kept(self):
        sizes = (200, 200, 200)
        errors = {(0, 1): 3e6, (1, 2): 2e6, (0, 1, 2): 9e6, (0, 2): 1e6}
        assert chosen(errors, [], sizes, 1.0, 5, 1.0) == [(0,), (1,), (2,)]  # 40,000 cells exceed a round
        errors = {clique: 1e6 for clique in errors}
        small = (60, 60, 60)
        assert chosen(errors, [], small, 1.0, 3, 0.06) == [(0, 1), (0, 2)]
        assert megabytes(small, [(0, 1), (0, 2)]) < 0.06 < megabytes(small, [(0, 1), (0, 2), (1, 2)])


def noise_free(method, data):
    state = method.init(None, SCHEMA)
    for t in range(sum(stage.rounds for stage in method.plan())):
        state = method.tell(state, Release(t, plain_release(method, state, data), 0.0, None))
    return state


@pytest.mark.parametrize(
    ("bins", "high", "scale"), [(200, 1000, "linear"), (200, 3000, "linear"), (96, 960, "linear"), (256, 4000, "log")]
)
def test_whole_numbers_on_an_edge_are_counted_in_the_bin_that_edges_state(bins, high, scale):
    schema = TableSchema((Column("a", "integer", (0.0, float(high)), scale=scale),), "y", ("p", "q"))
    values, layout = np.arange(high + 1.0)[:, None], Layout.of(schema, bins, 6)
    first, last = edges_of(layout.bins[0], schema.columns[0])
    U, params = schema.to_unit(values), layout.params((np.arange(bins), np.arange(2)), [(0,)], np.array([1.0]), 1)
    with jax.enable_x64(True):
        query = layout.query(bins, 1)
        cells, _ = jax.vmap(query.coefficients, (None, 0, 0))(
            jax.tree.map(jnp.asarray, params), U, np.zeros(len(U), np.int32)
        )
    for codes in (np.asarray(cells)[:, 0], codes_of(U, layout.bins)[:, 0]):
        inside = (np.ceil(first[codes]) <= values[:, 0]) & (values[:, 0] <= last[codes])
        assert values[~inside].tolist() == []


def test_examples_of_a_forecast_have_the_records_and_fill_the_rounds():
    method = AIM(rounds=1, tables=3, bins=8)
    state = method.init(None, SCHEMA)
    for t in range(2):
        query, params = method.ask(state)
        value = method.example(state, np.zeros(query.cells), 1e-3, 500.0)
        used = params["shapes"].prod(1) > 0
        assert value.sum() == pytest.approx(500.0 * params["weights"][used].sum())
        state = method.tell(state, Release(t, value, 1e-3, Event(1.0)))
    assert (state["tables"][0, :, 0] >= 0).all()


def test_without_noise_the_rows_have_the_pairs_of_the_records():
    method, data = AIM(rounds=2, tables=6, samples=4000, iterations=400, bins=8), records()
    state = noise_free(method, data)
    made = method.finish(state, SCHEMA)
    bins = bins_of(SCHEMA, 8)
    real, rows = (
        np.column_stack([codes_of(U, bins), y])
        for U, y in ((SCHEMA.to_unit(data.X), data.y), (made.X, made.y))
    )  # fmt: skip
    sizes = Layout.of(SCHEMA, 8, 6).sizes
    for pair in itertools.combinations(range(5), 2):
        difference = counts_of(real, pair, sizes) - counts_of(rows, pair, sizes)
        assert np.abs(difference).sum() / 2 / 4000 < 0.1, pair
        shares = np.outer(counts_of(real, pair[:1], sizes), counts_of(real, pair[1:], sizes)) / 4000
        if pair in ((0, 1), (1, 2), (0, 2)):  # which independent columns would miss
            assert np.abs(counts_of(real, pair, sizes) - shares).sum() / 2 / 4000 > 0.3
    one = made.marginals
    exact = one.estimate({1: np.array([False, True, False, False]), 4: np.array([False, True])})
    assert exact.rows == pytest.approx(((data.X[:, 1] == 1) & (data.y == 1)).sum(), abs=1e-6)
    assert one.total == pytest.approx(4000, abs=1e-6)


def test_counts_come_back_from_their_arrays():
    made = run.distill(table_records(60), tiny("aim"), Budget(5.0), entropy=SeededEntropy(1)).distilled
    back = ReleasedCounts.from_arrays(made.marginals.to_arrays(), made.schema)
    for one, other in zip(made.marginals.tables, back.tables, strict=True):
        assert one.attributes == other.attributes
        np.testing.assert_array_equal(one.values, other.values)
        assert one.stddev == other.stddev
    for name, array in made.marginals.to_arrays().items():
        np.testing.assert_array_equal(array, back.to_arrays()[name])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("intervals", lambda a: np.array(1)),
        ("maps", lambda a: a[:, :-1]),
        ("maps", lambda a: a + 1000),
        ("maps", lambda a: a - 1),
        ("maps", lambda a: a.astype(float)),
        ("tables", lambda a: a[:, :2]),
        ("tables", lambda a: np.where(a == 0, 99, a)),
        ("counts", lambda a: a[:-1]),
        ("counts", lambda a: a + 0j),
        ("counts", lambda a: np.full_like(a, np.nan)),
        ("stddev", lambda a: -a),
        ("stddev", lambda a: a[:-1]),
    ],
)
def test_changed_arrays_are_refused(name, change):
    arrays = dict(_arrays())
    arrays[name] = change(arrays[name])
    with pytest.raises(ValueError, match="Expected released counts of the schema's columns"):
        ReleasedCounts.from_arrays(arrays, SCHEMA)


def _arrays():
    method = AIM(rounds=1, tables=3, bins=8)
    state = method.init(None, SCHEMA)
    for t in range(3):
        state = method.tell(state, Release(t, plain_release(method, state, records(500)), 1.0, Event(1.0)))
    seen = method._view(state)
    tables = (*seen.one_way, *seen.coarse_counts, *seen.chosen(0))
    return ReleasedCounts(8, (seen.whole, seen.coarse, seen.fine), tables).to_arrays()


def test_intervals_cover_the_truth():
    """20 runs of noise, 2,000 random one- and two-way questions: 95 % intervals cover at least 94 %."""
    data, rng = records(3000), np.random.default_rng(5)
    method, codes = AIM(rounds=1, tables=4, bins=8), None
    codes = np.column_stack([codes_of(SCHEMA.to_unit(data.X), bins_of(SCHEMA, 8)), data.y])
    sizes, exact, split = Layout.of(SCHEMA, 8, 6).sizes, [], []
    for _ in range(20):
        state = method.init(None, SCHEMA)
        for t in range(3):
            noise = rng.normal(0.0, 6.0, method.ask(state)[0].cells)
            state = method.tell(state, Release(t, plain_release(method, state, data) + noise, 6.0, Event(6.0)))
        seen = method._view(state)
        released = ReleasedCounts(8, (seen.whole, seen.coarse, seen.fine), (*seen.one_way, *seen.coarse_counts))
        drawn = rng.integers(0, len(codes), 300)
        for _ in range(100):
            question = {}
            for a in rng.choice(len(sizes), rng.integers(1, 3), False).tolist():
                groups = seen.coarse[a] if rng.random() < 0.7 else np.arange(sizes[a])
                question[a] = (rng.random(groups.max() + 1) < 0.5)[groups]
            truth = np.all([of[codes[:, a]] for a, of in question.items()], 0).sum()
            if found := released.estimate(question):
                exact.append(abs(found.rows - truth) <= LEVEL * found.stddev)
            else:
                low, high = released.bracket(question, question, codes[drawn])
                split.append(low <= truth <= high)
    assert len(exact) + len(split) == 2000
    assert len(exact) > 1000
    assert 0.94 <= np.mean(exact) < 0.975
    assert np.mean(split) >= 0.94
