"""Features of public encoders: of norm 1, of one record alone, differentiable, and side by side with others."""

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract.encoders import small_cnn, small_vit, write_encoder

from dpdistill.encoders import cards
from dpdistill.encoders.cards import read_by_hash
from dpdistill.encoders.onnx_file import Graph, Node, read_graph
from dpdistill.encoders.program import pooled
from dpdistill.errors import DataError
from dpdistill.features.apply import encode
from dpdistill.features.eight_bits import EightBits
from dpdistill.features.public_encoder import PublicEncoder
from dpdistill.features.scattering import ScatterNet
from dpdistill.features.side_by_side import SideBySide
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.methods.softmax import SoftmaxQuery
from dpdistill.programs import clipping
from dpdistill.programs.self_test import check_rows
from dpdistill.query import ByValue
from dpdistill.recipe.encoders import ENCODERS, encoder_named
from dpdistill.recipe.parts import implement
from dpdistill.schema import Schema

RESIZED = jax.jit(lambda X: jax.image.resize(X, (len(X), 16, 16, 3), "bilinear"))
KERNEL = jax.jit(lambda kernel, X, Z: kernel(X, Z), static_argnums=0)
COLOUR = Schema((12, 10, 3), (-1.0, 1.0), contract.NAMES)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv(cards.VARIABLE, raising=False)


@pytest.fixture
def encoder(tmp_path) -> PublicEncoder:
    return implement(encoder_named(str(write_encoder(tmp_path))), PublicEncoder)


@pytest.fixture
def attention(tmp_path) -> PublicEncoder:
    file = write_encoder(tmp_path, small_vit(), "vit", outputs=["features", "patches"])
    return implement(encoder_named(str(file)), PublicEncoder)


def images(n: int = 4, shape: tuple = (12, 10, 3), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (n, *shape)).astype(np.float32)


def test_features_are_the_activations_of_the_resized_and_scaled_image(encoder):
    X = images()
    large = RESIZED((X + 1) / 2)
    graph = read_graph(read_by_hash(encoder.sha256, "small"))
    expected = np.concatenate(
        jax.jit(lambda X: pooled(graph, X, ["block", "features"]))(
            (large - 0.5) / np.array([0.25, 0.25, 0.5], np.float32)
        ),
        1,
    )
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert expected.shape == (4, 28)
    np.testing.assert_allclose(encode(encoder, X), expected, rtol=1e-4, atol=1e-6)


def test_grey_images_are_three_equal_channels(encoder):
    grey = images(shape=(12, 10, 1))
    np.testing.assert_allclose(encode(encoder, grey), encode(encoder, np.repeat(grey, 3, 3)), rtol=1e-5, atol=1e-6)


def test_a_network_of_grey_images_gets_the_mean_of_the_colours(tmp_path):
    graph = small_cnn()
    constants = {**graph.constants, "W1": graph.constants["W1"][:, :1]}
    graph = type(graph)(graph.nodes, constants, {"image": (None, 1, None, None)}, graph.outputs, graph.opset)
    file = write_encoder(tmp_path, graph, "grey", mean=[0.5], scale=[0.25])
    encoder, X = implement(encoder_named(str(file)), PublicEncoder), images()
    np.testing.assert_allclose(encode(encoder, X), encode(encoder, X.mean(3, keepdims=True)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_features_that_are_not_finite_are_zeros(encoder, value):
    X = images()
    X[1, 3, 4, 0] = value
    features = np.asarray(encode(encoder, X))
    assert np.isfinite(features).all()
    assert not features[1].any() or value == 3e38
    assert np.linalg.norm(features, axis=1)[[0, 2, 3]] == pytest.approx(1, abs=1e-5)
    assert np.linalg.norm(features, axis=1).max() < 1 + 1e-5


def test_weights_that_make_infinite_features_contribute_nothing(tmp_path):
    graph = small_cnn()
    constants = {**graph.constants, "d": np.full(12, np.inf, np.float32)}
    graph = type(graph)(graph.nodes, constants, graph.inputs, graph.outputs, graph.opset)
    encoder = implement(encoder_named(str(write_encoder(tmp_path, graph))), PublicEncoder)
    assert not np.asarray(encode(encoder, images())).any()
    assert not np.asarray(encode(EightBits(encoder), images())).any()


@pytest.mark.parametrize("chunk", [1, 5, 16])
@pytest.mark.parametrize("name", ["encoder", "attention"])
def test_removing_a_record_changes_no_bit_of_another(name, chunk, request):
    encoder = request.getfixturevalue(name)
    contract.check_features(encoder, COLOUR, chunk, min(2 * chunk + 1, 11))


def test_a_sum_over_the_batch_is_of_one_record(tmp_path):
    """Records that are computed in one piece share nothing, though the graph adds up its batch."""
    nodes = (
        Node("ReduceSum", ("x", "first"), ("s",), {"keepdims": 1}),
        Node("Add", ("x", "s"), ("z",)),
        Node("Conv", ("z", "W"), ("y",)),
    )
    constants = {"first": np.array([0]), "W": small_cnn().constants["W1"]}
    graph = Graph(nodes, constants, {"x": (None, 3, None, None)}, {"y": None}, 17)
    encoder = implement(encoder_named(str(write_encoder(tmp_path, graph, outputs=["y"]))), PublicEncoder)
    X = images(8)
    np.testing.assert_allclose(
        encode(encoder, X), np.concatenate([encode(encoder, x[None]) for x in X]), rtol=1e-4, atol=1e-6
    )
    contract.check_features(encoder, COLOUR, 5, 11)


@pytest.mark.parametrize("name", ["encoder", "attention"])
def test_the_self_test_finds_no_dependence_on_hostile_rows(name, request):
    encoder = request.getfixturevalue(name)
    query = SoftmaxQuery(0.1, 3, EightBits(encoder))
    W = np.random.default_rng(1).normal(size=(encode(encoder, images()).shape[1], 3))
    assert check_rows(query, W, COLOUR, 8)
    assert check_rows(query, W, COLOUR, 3, rows_per_unit=2)


def test_a_record_has_the_same_bits_in_any_order_and_after_hostile_ones(encoder):
    """There is no session, hence no state: an earlier call changes nothing."""
    X, rows = images(6), ByValue(encoder)
    first = np.asarray(clipping.encode_rows(rows, X)).view(np.uint32)
    np.asarray(clipping.encode_rows(rows, np.full_like(X, np.nan)))
    np.asarray(clipping.encode_rows(rows, np.full_like(X, 1e38)))
    assert np.array_equal(np.asarray(clipping.encode_rows(rows, X)).view(np.uint32), first)


def test_gradients_reach_the_pixels(encoder):
    X, direction = images(2), images(2, seed=7)

    @jax.jit
    def loss(X):
        return jnp.sum(encoder(X)[:, :5] ** 2)

    slope = float(np.sum(np.asarray(jax.jit(jax.grad(loss))(X)) * direction))
    assert slope == pytest.approx(float(loss(X + 1e-2 * direction) - loss(X - 1e-2 * direction)) / 2e-2, rel=5e-2)
    assert abs(slope) > 1e-4


def test_side_by_side_is_the_weighted_sum_of_two_kernels(encoder):
    X, Z, other = images(3), images(2, seed=5), ScatterNet(J=1, L=2, groups=3, normalise=True)
    both = FeatureKernel(SideBySide(encoder, other, 0.25))
    found, first, second = (KERNEL(kernel, X, Z) for kernel in (both, FeatureKernel(encoder), FeatureKernel(other)))
    expected = 0.75 * first + 0.25 * second
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_a_part_of_any_size_has_norm_1_side_by_side(encoder):
    both = SideBySide(lambda X: 1e6 * X.reshape(len(X), -1), encoder, 0.5)
    features = np.asarray(encode(both, images()))
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(features[:, -28:], axis=1), 0.5**0.5, atol=1e-5)
    contract.check_features(SideBySide(encoder, encoder), COLOUR, 3, 7)


def test_a_missing_file_is_refused_before_anything_is_paid():
    missing = implement(ENCODERS["efficientnet-lite0"])
    missing = type(missing)(**{**vars(missing), "sha256": "0" * 64})
    method = contract.tiny("decoupled-kip", kernel=FeatureKernel(missing))
    with pytest.raises(DataError, match=r"^Expected the file of the encoder efficientnet-lite0 \(sha256 0000"):
        method.init(jax.random.key(0), COLOUR)


def test_a_refused_file_is_refused_before_anything_is_paid(tmp_path):
    graph = small_cnn()
    graph = type(graph)(graph.nodes, graph.constants, {"image": (8, 3, 16, 16)}, graph.outputs, graph.opset)
    encoder = implement(encoder_named(str(write_encoder(tmp_path, graph))), PublicEncoder)
    method = contract.tiny("decoupled-kip", kernel=FeatureKernel(encoder))
    with pytest.raises(DataError, match=r"^Expected a network of one image \(1, 3, 16, 16\); its input is \(8, 3, 16"):
        method.init(jax.random.key(0), COLOUR)
