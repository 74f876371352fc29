"""Parameters come back from a file bit for bit, and a file of something else is refused with what differs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chosen_tests import few

from dpdistill.evaluation import ARCHITECTURES, check_network
from dpdistill.networks.network import times
from dpdistill.networks.parameters import Hidden, named, read_parameters, sized, write_parameters
from dpdistill.schema import DataError, Schema

SHAPE = (16, 16, 1)
MLP = ARCHITECTURES["mlp"]


@pytest.mark.parametrize("name", few(ARCHITECTURES, "convnet", "mlp", "lenet", "vit"))
def test_parameters_come_back_bit_for_bit(name, tmp_path):
    network = ARCHITECTURES[name]
    params = jax.tree.map(lambda a: a + 0.25, network.init(SHAPE, 7))
    write_parameters(tmp_path / "net.npz", params)
    back = read_parameters(tmp_path / "net.npz", network, SHAPE)
    assert jax.tree.structure(back) == jax.tree.structure(params)
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(back), strict=True))


@pytest.mark.parametrize("name", few(ARCHITECTURES, "convnet", "mlp", "lenet"))
def test_a_file_says_how_many_units_its_layers_have(name, tmp_path):
    network = ARCHITECTURES[name]
    twice = times(network, 2)
    for used in (network, twice):
        write_parameters(tmp_path / "net.npz", params := used.init(SHAPE, 7))
        assert sized(network, tmp_path / "net.npz") == used
        back = read_parameters(tmp_path / "net.npz", used, SHAPE)
        assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(back), strict=True))
    if name in ("mlp", "lenet"):
        assert twice.widths == tuple(2 * width for width in network.widths)
    else:
        assert twice.width == 2 * network.width


def test_parameters_of_something_else_leave_the_architecture_as_it_is(tmp_path):
    write_parameters(tmp_path / "net.npz", {"kernel": np.zeros(3)})
    assert sized(ARCHITECTURES["resnet18"], tmp_path / "net.npz") == ARCHITECTURES["resnet18"]
    write_parameters(tmp_path / "none.npz", {})
    with pytest.raises(DataError, match="holds no arrays"):
        sized(MLP, tmp_path / "none.npz")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_network_takes_images_of_a_side_or_says_that_it_does_not(name):
    for side in range(1, 20):
        schema = Schema(classes=("a", "b"), shape=(side, 24, 3), bounds=(0.0, 1.0))
        if side >= ARCHITECTURES[name].least_side:
            check_network(ARCHITECTURES[name], schema)
        else:
            with pytest.raises(DataError, match=r"Expected shape=\(h, w, c\) with sides >= "):
                check_network(ARCHITECTURES[name], schema)


def test_names_say_where_a_parameter_stands():
    assert "blocks/0/kernel" in named(ARCHITECTURES["convnet"].init(SHAPE, 3))
    assert list(named({"b": np.zeros(1), "a": [np.ones(2), np.ones(3)]})) == ["a/0", "a/1", "b"]


def test_features_are_the_last_hidden_layer(tmp_path):
    params = MLP.init(SHAPE, 3)
    X = np.random.default_rng(0).uniform(-1, 1, (5, *SHAPE)).astype(np.float32)
    h = X.reshape(5, -1)
    for layer in params[:-1]:
        h = np.maximum(h @ layer["kernel"] + layer["bias"], 0)
    np.testing.assert_allclose(Hidden(MLP, params)(jnp.asarray(X)), h, atol=1e-5)


def test_files_of_something_else_are_refused(tmp_path):
    path = tmp_path / "net.npz"
    with pytest.raises(DataError, match=r"Expected the parameters of a MLP in an \.npz file"):
        read_parameters(path, MLP, SHAPE)
    path.write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"Expected the parameters of a MLP in an \.npz file"):
        read_parameters(path, MLP, SHAPE)
    write_parameters(path, {})
    with pytest.raises(DataError, match="holds no arrays"):
        read_parameters(path, MLP, SHAPE)
    params = MLP.init(SHAPE, 3)
    write_parameters(path, MLP.init((8, 8, 1), 3))
    with pytest.raises(DataError, match=r"expected '0/kernel' of shape \(256, 128\); got \(64, 128\)"):
        read_parameters(path, MLP, SHAPE)
    write_parameters(path, [*params, {"kernel": np.zeros((2, 2))}])
    with pytest.raises(DataError, match="it also has '3/kernel'"):
        read_parameters(path, MLP, SHAPE)
    write_parameters(path, params[:-1])
    with pytest.raises(DataError, match="it has no array '2/bias'"):
        read_parameters(path, MLP, SHAPE)
    for bad in (np.nan, 1):
        params[0]["bias"] = np.full(128, bad)
        write_parameters(path, params)
        with pytest.raises(DataError, match="Expected finite floating-point numbers"):
            read_parameters(path, MLP, SHAPE)
