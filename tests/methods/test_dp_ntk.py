"""DP-NTK: its features are a network's gradient, its linear query is the plain one, and its generator learns."""

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chosen_tests import few
from contract import SCHEMA, check_linear_is_plain, rows_of, toy_records

from dpdistill import run
from dpdistill.methods.dp_ntk import DPNTK
from dpdistill.methods.tangents import TangentMatch, TangentQuery, tangent
from dpdistill.methods.training import distance
from dpdistill.query import Release
from dpdistill.run.fit import fitting
from dpdistill.run.start import queries_of
from dpdistill.schema import DataError

METHODS = {
    "one layer": DPNTK(width=9),
    "two layers": DPNTK(width=7, second_width=5),
    "a length scale": DPNTK(width=9, length_scale=4.0),
}
CLASSES = len(SCHEMA.classes)


def network(parts, top, x):
    """Sum of the outputs of a network whose parameters are kernels and biases, one dense layer after another."""
    h = x
    for W, b in parts:
        h = jnp.maximum(h @ W + b, 0)
    z = (h - h.mean()) / jnp.sqrt(jnp.mean(jnp.square(h - h.mean())) + 1e-5)
    W, b = top
    return jnp.sum(z @ W + b)


def whole(weights, rng):
    """Parameters of the network that stands behind `weights`: any last layer with these sums will do."""
    last = rng.normal(size=(len(weights[-1]), CLASSES))
    last[:, -1] += weights[-1] - last.sum(1)
    return [(np.float64(W[:-1]), np.float64(W[-1])) for W in weights[:-1]], (last, rng.normal(size=CLASSES))


def flat(weights, x):
    """The normalised gradient in the order of a tangent's layers, the last layer's outputs one after the other."""
    with jax.enable_x64(True):
        parts, top = whole(weights, np.random.default_rng(1))
        (by_parts, (by_W, by_b)) = jax.grad(network, (0, 1))(parts, top, jnp.asarray(x, jnp.float64))
        layers = [np.concatenate([np.asarray(W), np.asarray(b)[None]]) for W, b in by_parts]
        layers.append(np.concatenate([np.asarray(by_W), np.asarray(by_b)[None]]))
    return [layer / np.sqrt(sum(np.square(one).sum() for one in layers)) for layer in layers]


def weights_of(method):
    return method.init(jax.random.key(3), SCHEMA)["weights"]


@pytest.mark.parametrize("name", few(METHODS, "a length scale"))
def test_a_tangent_is_the_normalised_gradient_of_the_summed_outputs(name):
    weights = weights_of(METHODS[name])
    for x in np.random.default_rng(0).uniform(-1, 1, (5, SCHEMA.dimension)):
        expected = flat(weights, x)
        with jax.enable_x64(True):
            inputs, outputs, scale = jax.tree.map(np.asarray, tangent(weights, jnp.asarray(x), CLASSES))
        for a, b, layer in zip(inputs[:-1], outputs[:-1], expected[:-1], strict=True):
            np.testing.assert_allclose(scale * np.outer(a, b), layer, atol=1e-6)
            assert np.abs(layer).max() > 1e-6
        # All outputs of the last layer have the same gradient: it stands once, as long as all of them.
        last = scale * np.outer(inputs[-1], outputs[-1])
        np.testing.assert_allclose(np.repeat(last, CLASSES, 1) / np.sqrt(CLASSES), expected[-1], atol=1e-6)


@pytest.mark.parametrize("name", few(METHODS, "two layers", "a length scale"))
def test_the_linear_query_is_the_plain_one(name):
    method = METHODS[name]
    query, weights = TangentQuery(0.1, CLASSES, method.length_scale), weights_of(method)
    records = toy_records(9)
    X = rows_of(query, records)
    rest = np.sqrt(1 - 0.1**2)
    expected = []
    for x, y in zip(X, records.y, strict=True):
        own = np.eye(CLASSES)[y]
        layers = flat(weights, np.asarray(x).ravel() / method.length_scale)
        layers[-1] = np.sqrt(CLASSES) * layers[-1][:, :1]
        parts = [np.einsum("c,ik->ick", own, layer).ravel() for layer in layers]
        expected.append(np.concatenate([0.1 * own, *(rest * part for part in parts)]))
    norms = np.linalg.norm(expected, axis=1)
    np.testing.assert_allclose(norms, 1.0, atol=1e-6)
    check_linear_is_plain(query, tuple(map(np.float64, weights)), X, records.y, np.array(expected), 1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_released_sums_come_back_by_class_and_layer(name):
    method, records = METHODS[name], toy_records(40)
    state = method.init(jax.random.key(3), SCHEMA)
    query, weights = method.ask(state)
    X = rows_of(query, records)
    total = contract.contributions(query, weights, X, records.y).sum(0)
    coordinates, sums = query.by_classes(method.tell(state, Release(0, total, 1.0, None))["sums"], weights)
    np.testing.assert_allclose(coordinates / query.count, np.bincount(records.y, minlength=CLASSES), rtol=1e-5)
    for c in range(CLASSES):
        layers = [flat(weights, np.asarray(x).ravel() / method.length_scale) for x in X[records.y == c]]
        expected = [sum(each) for each in zip(*layers, strict=True)]
        for i, part in enumerate(sums[:-1]):
            np.testing.assert_allclose(part[c], query.bound * expected[i], atol=1e-4)


@pytest.mark.parametrize("name", few(METHODS, "a length scale"))
def test_the_loss_is_the_distance_of_mean_embeddings(name):
    rng = np.random.default_rng(2)
    weights, scale = weights_of(METHODS[name]), METHODS[name].length_scale
    X = rng.uniform(-1, 1, (CLASSES, 6, SCHEMA.dimension)).astype(np.float32)
    phi = np.array(
        [[np.concatenate([layer.ravel() for layer in flat(weights, x / scale)]) for x in each] for each in X]
    )
    targets = [rng.normal(size=(CLASSES, *W.shape)).astype(np.float32) * 0.01 for W in weights[:-1]]
    top = rng.normal(size=(CLASSES, len(weights[-1]) + 1, 1)).astype(np.float32) * 0.01
    spread = np.repeat(top, CLASSES, 2) / np.sqrt(CLASSES)
    whole_target = np.concatenate([t.reshape(CLASSES, -1) for t in (*targets, spread)], 1)
    params = {"weights": weights, "targets": (*targets, top)}
    np.testing.assert_allclose(
        TangentMatch(TangentQuery(0.1, CLASSES, scale))(params, X, 0), distance(phi, whole_target), atol=1e-5
    )


@pytest.mark.slow
def test_images_are_learned():
    records = toy_records(300)
    method = DPNTK(width=100, hidden=32, steps=300, batch=60, samples=300)
    made = run.distill_without_privacy(records, method).distilled
    X, _ = records.take(np.arange(300))
    means = np.stack([X[records.y == c].mean(0).ravel() for c in range(CLASSES)])
    fake = made.X.reshape(300, 1, -1)
    nearest = np.square(fake - means).sum(2).argmin(1)
    assert np.mean(nearest == made.y) > 0.95


@pytest.mark.parametrize("name", few(METHODS, "a length scale"))
@pytest.mark.parametrize("equal", [True, False])
def test_norms_and_sums_of_a_block_against_exact_arithmetic(name, equal):
    query, weights = TangentQuery(0.1, CLASSES, METHODS[name].length_scale), weights_of(METHODS[name])
    records = toy_records(128)
    X, y = rows_of(query, records), records.y
    if equal:
        X, y = np.repeat(X[:1], 128, 0), np.repeat(y[:1], 128)
    coefficients = contract.coefficients_of(query, weights, X, y)
    (inputs, outputs, scale), own = jax.tree.map(contract.exact, coefficients)
    formed = []
    for i in range(128):
        parts = [
            np.einsum("c,i,k->ick", own[i], a[i], b[i]).ravel() * scale[i] * contract.exact(query.bound)
            for a, b in zip(inputs, outputs, strict=True)
        ]
        formed.append(np.concatenate([contract.exact(query.count) * own[i], *parts]))
    assert 0 < contract.check_error_bound(query, weights, coefficients, formed) < 1
    plain = contract.contributions(query, weights, X, y)
    np.testing.assert_allclose(np.stack(formed).astype(float), plain, atol=1e-6)


def test_a_release_that_no_machine_holds_is_refused_before_any_record_is_read():
    method = DPNTK(width=400_000)
    with pytest.raises(
        DataError, match=r"fit into 2 GiB .* record of dp-ntk needs 5\.31 GiB: lower width \(now 400000"
    ):
        fitting(method, SCHEMA, queries_of(method, SCHEMA), None, room=2 << 30)


def test_a_length_scale_shows_how_large_records_are():
    """Records along one line are nearly the same to networks, unless their coordinates are divided."""
    x = np.full(SCHEMA.dimension, 0.5)
    apart = {1.0: 0.0, 8.0: 0.0}
    for key in jax.random.split(jax.random.key(0), 6):
        weights = DPNTK(width=400).init(key, SCHEMA)["weights"]
        for scale in apart:
            one, other = (np.concatenate([layer.ravel() for layer in flat(weights, v / scale)]) for v in (x, 2 * x))
            apart[scale] += 1 - one @ other
    assert apart[8.0] > 4.5 * apart[1.0]


CONVOLUTIONAL = {
    "an image": (DPNTK(network="convolutional", width=4, second_width=3), SCHEMA),
    "one layer": (DPNTK(network="convolutional", width=4), SCHEMA),
    "a table": (DPNTK(network="convolutional", width=3, second_width=2, length_scale=3.0), contract.TABLE),
}


def gradient_of_convolutions(weights, x, shape, classes):
    """The normalised gradient of the summed outputs, by a network written out with all its outputs, in float64."""
    rng = np.random.default_rng(1)
    last = rng.normal(size=(len(weights[-1]), classes))
    last[:, -1] += weights[-1] - last.sum(1)
    top, bias = jnp.asarray(last), jnp.asarray(rng.normal(size=classes))

    def total(layers, top, bias):
        h = jnp.asarray(np.pad(x, (0, np.prod(shape) - len(x))).reshape(shape))
        for W, b in zip(layers[::2], layers[1::2], strict=True):
            padded = jnp.pad(h, ((1, 1), (1, 1), (0, 0)))
            rows, columns = h.shape[:2]
            shifts = [[padded[i : i + rows, j : j + columns] @ W[i, j] for j in range(3)] for i in range(3)]
            h = jnp.maximum(sum(map(sum, shifts)) + b, 0)
        z = h.ravel()
        z = (z - z.mean()) / jnp.sqrt(jnp.mean(jnp.square(z - z.mean())) + 1e-5)
        return jnp.sum(z @ top + bias)

    gradient = jax.jit(jax.grad(total, (0, 1, 2)))
    layers, by_top, by_bias = gradient([jnp.asarray(np.float64(W)) for W in weights[:-1]], top, bias)
    parts = [np.asarray(each).ravel() for each in (*layers, *by_top.T, by_bias)]
    return np.concatenate(parts) / np.linalg.norm(np.concatenate(parts))


@pytest.mark.slow
@pytest.mark.parametrize("name", few(CONVOLUTIONAL, "an image"))
def test_features_of_convolutions_are_the_normalised_gradient(name):
    method, schema = CONVOLUTIONAL[name]
    classes = len(schema.classes)
    with jax.enable_x64(True):
        query, weights = method.ask(method.init(jax.random.key(3), schema))
        X = np.random.default_rng(0).uniform(-1, 1, (2, schema.dimension))
        found = np.asarray(query.features(jax.tree.map(jnp.asarray, weights), jnp.asarray(X)))
        expected = [gradient_of_convolutions(weights, x / method.length_scale, query.shape, classes) for x in X]
    assert query.shape == (schema.shape if schema is SCHEMA else (4, 4, 1))
    D = found.shape[1]
    units = len(weights[-1])  # each output's own gradient stands once, as long as all of them
    hidden = D - units - 1
    for phi, whole_phi in zip(found, np.array(expected), strict=True):
        np.testing.assert_allclose(phi[:hidden], whole_phi[:hidden], atol=1e-6)
        assert np.abs(phi[:hidden]).max() > 1e-4
        for c in range(classes):
            own = whole_phi[hidden + c * units : hidden + (c + 1) * units]
            np.testing.assert_allclose(phi[hidden:-1] / np.sqrt(classes), own, atol=1e-6)
        np.testing.assert_allclose(phi[-1] / np.sqrt(classes), whole_phi[-1], atol=1e-6)


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.slow
def test_norms_and_sums_of_convolutions_against_exact_arithmetic(equal):
    method, schema = CONVOLUTIONAL["an image"]
    query, weights = method.ask(method.init(jax.random.key(3), schema))
    records = toy_records(128)
    X, y = rows_of(query, records), records.y
    if equal:
        X, y = np.repeat(X[:1], 128, 0), np.repeat(y[:1], 128)
    coefficients = contract.coefficients_of(query, weights, X, y)
    phi, own = jax.tree.map(contract.exact, coefficients)
    count, bound = contract.exact(query.count), contract.exact(query.bound)
    formed = [np.concatenate([count * o, (bound * np.outer(o, p)).ravel()]) for p, o in zip(phi, own, strict=True)]
    assert 0 < contract.check_error_bound(query, weights, coefficients, formed) < 1


@pytest.mark.slow
def test_convolutions_learn_images():
    records = toy_records(300)
    method = DPNTK(network="convolutional", width=4, second_width=6, hidden=32, steps=400, batch=60, samples=300)
    made = run.distill_without_privacy(records, method).distilled
    X, _ = records.take(np.arange(300))
    means = np.stack([X[records.y == c].mean(0).ravel() for c in range(CLASSES)])
    nearest = np.square(made.X.reshape(300, 1, -1) - means).sum(2).argmin(1)
    assert np.mean(nearest == made.y) > 0.95
