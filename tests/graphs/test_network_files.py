"""Every architecture of a student exports to ONNX with our logits, and its weights as safetensors."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import onnxruntime
import pytest
from chosen_tests import few

from dpdistill.graphs.released import function_model
from dpdistill.networks.network import Network
from dpdistill.networks.parameters import named
from dpdistill.public_images.pictures import draw_pictures
from dpdistill.recipe.networks import ARCHITECTURES
from dpdistill.recipe.parts import implement
from dpdistill.schema import Schema
from dpdistill.storage.safetensors import safetensors_bytes

SCHEMA = Schema((18, 17, 3), (0.0, 255.0), ("a", "b", "c"))


def small(name: str) -> Network:
    part = ARCHITECTURES[name]
    sizes = {"width": 8} if getattr(part, "width", 8) > 8 else {}
    return implement(replace(part, **sizes), Network)


@pytest.mark.parametrize("name", few([*ARCHITECTURES], "convnet", "mlp", "lenet", "vit", "vgg11"))
def test_every_architecture_exports_with_its_logits(name):
    network = small(name)
    params = network.init(SCHEMA.shape, 3)
    X = np.round(SCHEMA.from_unit(draw_pictures(5, SCHEMA.shape, seed=1))).astype(np.float32)
    logits = jax.jit(network.apply)
    session = onnxruntime.InferenceSession(function_model(lambda X: network.apply(params, X), SCHEMA))
    for n in (5, 1):
        found = np.asarray(session.run(None, {"images": X[:n]})[0])
        wanted = np.asarray(logits(params, SCHEMA.to_unit(X[:n])))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)
    assert np.ptp(wanted) > 1e-3


def test_safetensors_are_read_by_their_own_library(tmp_path):
    from safetensors.numpy import load_file

    arrays = {name: np.asarray(value) for name, value in named(small("mlp").init(SCHEMA.shape, 3)).items()}
    path = tmp_path / "x.safetensors"
    path.write_bytes(safetensors_bytes(arrays, {"architecture": "MLP"}))
    found = load_file(path)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
