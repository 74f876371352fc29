"""PSG: its contributions are gradients, its images follow their directions, and a network learns from them."""

import dataclasses
import math
from functools import partial

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import SCHEMA, tiny, toy_records

from dpdistill import run
from dpdistill.evaluation.score import named_by
from dpdistill.methods.baselines.psg import PSG, cross_entropy, distance, kernels, pull
from dpdistill.networks.convnet import embed_convnet
from dpdistill.networks.network import ConvNet
from dpdistill.networks.training import Training, train_classifier
from dpdistill.query import Event, Release

CLASSES = len(SCHEMA.classes)
FAST = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
compiled = partial(jax.jit, compiler_options=FAST)


@pytest.fixture(scope="module")
def network():
    return ConvNet(3, 4).init((16, 16, 3), CLASSES)


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    return jnp.asarray(rng.uniform(-1, 1, (6, 16, 16, 3)), jnp.float32), np.arange(6) % CLASSES


def softmax(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_a_contribution_is_the_gradient_by_the_kernels(network, images):
    (X, y), query = images, PSG().ask({"network": network})[0]
    found = np.asarray(compiled(query.contribution)(network, X[1], jnp.int32(y[1])), np.float64)
    assert len(network["blocks"]) == 2
    phi = np.asarray(embed_convnet(network["blocks"], X[1:2]), np.float64)[0]
    p = softmax(phi @ np.float64(network["head"]["kernel"]) + np.float64(network["head"]["bias"]))
    head = np.outer(phi, p - np.eye(CLASSES)[y[1]])
    np.testing.assert_allclose(found[-head.size :], head.ravel(), atol=1e-5)
    # The first kernel's, by differences of the loss: one entry of each of its channels.
    kernel, h = np.float64(network["blocks"][0]["kernel"]), 1e-6
    assert found.size == kernel.size + network["blocks"][1]["kernel"].size + head.size
    with jax.enable_x64(True):
        exact, loss_of = jax.tree.map(np.float64, network), compiled(cross_entropy)
        for channel in range(4):
            at, slope = (1, 2, channel % 3, channel), 0.0
            for sign in (1, -1):
                moved = kernel.copy()
                moved[at] += sign * h
                blocks = [{**exact["blocks"][0], "kernel": moved}, exact["blocks"][1]]
                loss = loss_of({**exact, "blocks": blocks}, np.float64(X[1:2]), jnp.asarray(y[1:2]))
                slope += sign * float(loss) / (2 * h)
            assert found[np.ravel_multi_index(at, kernel.shape)] == pytest.approx(slope, abs=1e-5)
    assert np.abs(found[: kernel.size]).max() > 0.02


def test_the_distance_is_of_output_channels():
    rng = np.random.default_rng(1)
    g = [rng.normal(size=(3, 3, 2, 4)), rng.normal(size=(8, 3))]
    t = [rng.normal(size=(3, 3, 2, 4)), rng.normal(size=(8, 3))]
    g[1][:, 2] = 0.0
    expected = 0.0
    for a, b in zip(g, t, strict=True):
        for k in range(a.shape[-1]):
            u, v = a[..., k].ravel(), b[..., k].ravel()
            length = np.linalg.norm(u) * np.linalg.norm(v)
            expected += 1.0 - (u @ v / length if length else 0.0)
    g, t = ([jnp.asarray(kernel, jnp.float32) for kernel in each] for each in (g, t))
    assert float(distance(g, t)) == pytest.approx(expected, rel=1e-5)
    assert float(distance(t, [7.0 * kernel for kernel in t])) == pytest.approx(0.0, abs=1e-5)
    assert float(distance(t, [-kernel for kernel in t])) == pytest.approx(14.0, rel=1e-5)


def test_images_are_pulled_down_the_distance(network, images):
    (X, y), rng = images, np.random.default_rng(2)
    target = [jnp.asarray(rng.normal(size=kernel.shape), jnp.float32) for kernel in kernels(network)]

    def loss(X):
        return distance(kernels(jax.grad(cross_entropy)(network, X, y)), target)

    expected = compiled(jax.grad(loss))(X)
    found = pull(network, X, y, target)
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(found, expected, atol=1e-4 * float(np.abs(expected).max()))
    loss = compiled(loss)
    assert loss(X - 0.01 * found / np.abs(found).max()) < loss(X)


def test_networks_go_their_way_on_the_images_and_start_afresh():
    method = tiny("psg", network_rate=0.5)
    assert (method.networks, method.outer, method.batches, method.inner) == (2, 2, 2, 2)
    state, seen = method.init(jax.random.key(0), SCHEMA), []
    y = np.repeat(np.arange(CLASSES), 2)
    rng = np.random.default_rng(3)
    for t in range(8):
        query, params = method.ask(state)
        seen.append(params)
        value = rng.normal(size=contract.release_shape(query, params))
        state = method.tell(state, Release(t, value, 1.0, Event(1.0)))
        if t == 1:
            trained, gradient_of = params, compiled(jax.grad(cross_entropy))
            for _ in range(2):
                gradient = gradient_of(trained, state["images"].X, y)
                trained = jax.tree.map(lambda p, g: p - 0.5 * g, trained, gradient)

    def moved(a, b):
        return max(float(np.abs(p - q).max()) for p, q in zip(*map(jax.tree.leaves, (a, b)), strict=True))

    for one, same in ((0, 1), (2, 3), (4, 5), (6, 7)):
        assert moved(seen[one], seen[same]) == 0.0
    assert moved(seen[2], trained) < 1e-5 < 1e-2 < moved(seen[2], seen[0])
    assert moved(seen[4], seen[0]) > 0.1
    fresh = state["network"]["blocks"][0]
    np.testing.assert_array_equal(fresh["scale"], 1.0)


def test_a_release_pulls_as_much_whatever_its_length():
    method = tiny("psg")
    state = method.init(jax.random.key(0), SCHEMA)
    value = np.random.default_rng(0).normal(size=contract.release_shape(*method.ask(state)))
    one, many = (method.tell(state, Release(0, s * value, 1.0, None))["images"].X for s in (1.0, 1e4))
    np.testing.assert_allclose(one, many, atol=1e-4)
    assert np.abs(one - state["images"].X).max() > 0.01


@pytest.mark.slow
def test_a_network_learns_from_what_was_made_without_noise():
    records, test = toy_records(240), toy_records(300, 9)
    method = PSG(per_class=2, networks=4, outer=2, batches=5, inner=10, sampling_prob=0.3, width=8, learning_rate=0.1)
    made = run.distill_without_privacy(records, method)
    assert made.epsilon == math.inf
    X, y = test.take(np.arange(300))
    training = Training(epochs=40, learning_rate=0.05, schedule="cosine", strategies=(), network=ConvNet(width=8))

    def taught(images, y_s):
        net = train_classifier(jax.random.key(1), images, np.eye(CLASSES)[y_s], training)
        return np.mean(named_by(net, X) == y)

    start = dataclasses.replace(method, networks=1, outer=1, batches=1, learning_rate=1e-9)
    untouched = run.distill_without_privacy(records, start)
    assert taught(made.X, made.y) > 0.9 > taught(untouched.X, untouched.y)


def test_images_of_one_pixel_a_side_are_refused():
    schema = dataclasses.replace(SCHEMA, shape=(1, 8, 1))
    with pytest.raises(ValueError, match="Expected images of at least 2x2 pixels for a ConvNet; got 1x8"):
        PSG().init(jax.random.key(0), schema)
