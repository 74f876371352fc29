"""classifier.onnx: every kernel of a released classifier exports, with our scores; verify makes the file again."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from chosen_tests import few
from PIL import Image

import dpdistill as dp
from dpdistill import graphs, verify
from dpdistill.features.apply import encode
from dpdistill.graphs.classifier import MOST_BYTES, classifier_model, model_bytes
from dpdistill.graphs.refusal import NotExported
from dpdistill.graphs.released import encoder_in, released_model, same_model
from dpdistill.kernels import KERNELS
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.method import Distilled
from dpdistill.public_images.pictures import draw_pictures
from dpdistill.publish.export import Publisher, export, program
from dpdistill.recipe.kernels import KERNELS as NAMED
from dpdistill.recipe.parts import fields_of_kind
from dpdistill.schema import DataError, Schema
from dpdistill.verification import _is_model

FEATURES = [name for name, kernel in KERNELS.items() if isinstance(kernel, FeatureKernel)]
SLOW = {
    *("perceptual", "scatternet-normalised", "scatternet-gamma", "scatternet-mirrored", "scatternet-position"),
    "scatternet-silhouettes",
}
SCHEMA = Schema((16, 16, 1), (0.0, 255.0), ("a", "b", "c"))


def weights(encoder, schema: Schema) -> np.ndarray:
    d = jax.eval_shape(encoder, jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32)).shape[1]
    return np.random.default_rng(0).normal(size=(d, len(schema.classes))).astype(np.float32)


def run(model: bytes, X: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model)
    return np.asarray(session.run(None, {"images": X.astype(np.float32)})[0])


@pytest.mark.parametrize("name", few(FEATURES, *(name for name in FEATURES if name not in SLOW)))
@pytest.mark.parametrize("colours", few([1, 3], 1))
def test_every_kernel_of_a_released_classifier_exports_with_its_scores(name, colours):
    schema = replace(SCHEMA, shape=(16, 16, colours))
    encoder = KERNELS[name].features
    W = weights(encoder, schema)
    X = np.round(schema.from_unit(draw_pictures(5, schema.shape, seed=1)))
    model = classifier_model(encoder, W, schema)
    onnx.checker.check_model(onnx.load_from_string(model))
    ours = np.asarray(encode(encoder, schema.to_unit(X))) @ W
    with jax.enable_x64(True):
        exact = np.asarray(jax.jit(encoder.__call__)(jnp.asarray(schema.to_unit(X), jnp.float64))) @ W.astype(
            np.float64
        )
    # `drawn` takes powers of numbers near zero: single precision alone moves its scores by more than 1e-4.
    bound = max(1e-4, 2 * abs(ours - exact).max())
    assert bound < 5e-3
    for n in (5, 1):
        np.testing.assert_allclose(run(model, X[:n]), ours[:n], rtol=0, atol=bound)
    assert abs(ours).max() > 0.1


def test_kernels_without_features_release_no_classifier():
    for name in sorted(NAMED.keys() - {*FEATURES}):
        with pytest.raises(DataError, match="a kernel of fixed features"):
            encoder_in({"kernel": name})
    with pytest.raises(DataError, match="a kernel of fixed features"):
        encoder_in({})


def test_a_primitive_without_a_translation_is_refused_by_name():
    with pytest.raises(NotExported, match="would need cumsum, which has no ONNX operator"):
        model_bytes(lambda X: jnp.cumsum(X.reshape(len(X), -1), 1), SCHEMA)
    with pytest.raises(NotExported, match="would need a part of the records"):
        model_bytes(lambda X: X[1:].reshape(len(X) - 1, -1), SCHEMA)


def test_a_large_file_is_refused_with_its_size():
    W = np.zeros((MOST_BYTES // 4 + 1, 1), np.float32)
    with pytest.raises(NotExported, match="would have 64 MiB of constants, more than 64"):
        classifier_model(lambda X: X, W, SCHEMA)


def test_values_outside_of_the_bounds_count_as_the_bounds():
    model = model_bytes(lambda X: X.reshape(len(X), -1)[:, :2], replace(SCHEMA, bounds=(-1000.0, 1000.0)))
    X = np.zeros((3, 16, 16, 1))
    X[:, 0, 0, 0], X[:, 0, 1, 0] = (-2000, 0, 500), 9000
    np.testing.assert_allclose(run(model, X), [[-1, 1], [0, 1], [0.5, 1]], rtol=0, atol=1e-6)


@pytest.fixture(scope="module")
def result():
    X = np.round(SCHEMA.from_unit(draw_pictures(60, SCHEMA.shape, seed=2)))
    records = dp.Records.from_arrays(X, np.arange(60) % 3, classes=SCHEMA.classes, bounds=SCHEMA.bounds)
    kernel: Any = NAMED["scatternet"]
    method = dp.DecoupledKIP(kernel=kernel, rounds=2, steps=2, per_class=1)
    return dp.distill(records, method, dp.Budget(5.0))


class TestTheFolder:
    @pytest.fixture
    def folder(self, result, tmp_path) -> Path:
        return result.save(tmp_path / "shared")

    def test_the_file_is_listed_and_made_again(self, folder):
        assert "classifier.onnx" in json.loads((folder / "certificate.json").read_text())["files"]
        verification = verify(folder)
        assert verification.outcome == "PASSED"
        assert "for any program; <code>predict.py</code> runs it" in (folder / "report.html").read_text()
        said = {check.name: check.detail for check in verification.checks}
        assert said["predict.py"] == "predict.py agrees with the certificate."

    def test_its_scores_are_those_of_the_result(self, folder, result):
        X = np.round(SCHEMA.from_unit(draw_pictures(7, SCHEMA.shape, seed=3)))
        found = run((folder / "classifier.onnx").read_bytes(), X)
        np.testing.assert_allclose(found - found.mean(1, keepdims=True), result.teacher(X), rtol=0, atol=1e-4)

    def test_another_classifier_is_found(self, folder, result):
        recipe = json.loads((folder / "recipe.json").read_text())
        content = (folder / "classifier.onnx").read_bytes()
        assert _is_model(recipe, content, result.distilled)
        assert not _is_model(recipe, content, replace(result.distilled, classifier=-result.distilled.classifier))

    def test_without_onnx_the_file_is_not_checked_and_not_written(self, folder, result, tmp_path, monkeypatch):
        for name in ("classifier", "graph", "operators", "translate"):
            monkeypatch.delitem(sys.modules, f"dpdistill.graphs.{name}", raising=False)
            monkeypatch.delattr(graphs, name, raising=False)
        monkeypatch.setitem(sys.modules, "onnx", None)
        verification = verify(folder)
        assert verification.outcome == "GUARANTEE PASSED, DOCUMENTS NOT COMPARED"
        (said,) = [check.detail for check in verification.checks if check.name == "contents"]
        assert "classifier.onnx was not checked" in said
        assert "pip install" in said
        bare = result.save(tmp_path / "bare")
        assert not (bare / "classifier.onnx").exists()
        assert not (bare / "predict.py").exists()
        assert "`dpdistill export DIR --to onnx` writes the finished classifier" in (bare / "README.md").read_text()
        with pytest.raises(DataError, match=r"dpdistill\[onnx\]"):
            export(bare, "onnx", tmp_path / "exported")

    def test_an_export_holds_the_same_file(self, folder, tmp_path):
        made = export(folder, "onnx", tmp_path / "exported")
        assert (made / "classifier.onnx").read_bytes() == (folder / "classifier.onnx").read_bytes()
        assert (made / "predict.py").read_bytes() == (folder / "predict.py").read_bytes()
        assert {path.name for path in made.iterdir()} == {
            *("classifier.onnx", "predict.py", "README.md", "certificate.json", "recipe.json"),
        }

    def test_the_program_classifies_files(self, folder, result, tmp_path):
        X = np.round(SCHEMA.from_unit(draw_pictures(4, SCHEMA.shape, seed=4))).astype(np.uint8)
        for i, x in enumerate(X):
            Image.fromarray(x[:, :, 0]).save(tmp_path / f"{i}.png")
        np.save(tmp_path / "all.npy", X)
        files = [*(str(tmp_path / f"{i}.png") for i in range(4)), str(tmp_path / "all.npy")]
        done = subprocess.run(
            [sys.executable, folder / "predict.py", *files], capture_output=True, text=True, check=True
        )
        scores = result.teacher(X)
        lines = [line.split("\t") for line in done.stdout.splitlines()]
        assert [name for _, name, _ in lines] == [SCHEMA.classes[k] for k in scores.argmax(1)] * 2
        leads = np.sort(scores, 1)[:, -1] - np.sort(scores, 1)[:, -2]
        np.testing.assert_allclose([float(lead) for *_, lead in lines], [*leads, *leads], rtol=0, atol=6e-4)

    def test_the_card_says_how_to_use_it(self, folder, monkeypatch, capsys):
        monkeypatch.chdir(folder)
        code = re.findall(r"^```python\n(.*?)^```$", Path("README.md").read_text("utf-8"), re.M | re.S)
        names: dict = {}
        exec(code[3], names)
        assert names["scores"].shape == (3, 3)
        assert capsys.readouterr().out.strip()[1:-1].replace("'", "").split(", ") == [
            SCHEMA.classes[k] for k in names["scores"].argmax(1)
        ]

    def test_a_changed_program_is_not_to_be_run(self, folder):
        with (folder / "predict.py").open("a") as file:
            file.write("print('more')\n")
        (check,) = [check for check in verify(folder).checks if check.name == "predict.py"]
        assert (check.passed, check.detail) == (False, "predict.py is not the program of this folder: do not run it.")


def test_straightened_images_are_straightened_by_the_program(tmp_path):
    schema = replace(SCHEMA, straightened=True)
    X = np.round(schema.from_unit(draw_pictures(6, schema.shape, seed=5))).astype(np.uint8)
    distilled = Distilled(schema.to_unit(X), (np.arange(6) % 3).astype(np.int32), schema)
    folders: list[Any] = [SimpleNamespace(schema=each) for each in (schema, SCHEMA)]
    text, plain = (program.describe(folder, Publisher()) for folder in folders)
    assert "straight" not in plain
    encoder = KERNELS["scatternet"].features
    W = weights(encoder, schema)
    (tmp_path / "classifier.onnx").write_bytes(released_model(replace(distilled, classifier=W), encoder))
    (tmp_path / "predict.py").write_text(text)
    names: dict[str, Any] = {"__file__": str(tmp_path / "predict.py"), "__name__": "predict"}
    exec(compile(text, "predict.py", "exec"), names)
    found = names["Classifier"]().scores(X)
    wanted = np.asarray(encode(encoder, schema.to_unit(dp.straighten_images(X)))) @ W
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)


@pytest.fixture(scope="module")
def model() -> bytes:
    encoder = KERNELS["scatternet"].features
    return classifier_model(encoder, weights(encoder, SCHEMA), SCHEMA)


class TestSameModel:
    def changed(self, model: bytes, by: float) -> bytes:
        read = onnx.load_from_string(model)
        largest = max(read.graph.initializer, key=lambda tensor: len(tensor.raw_data))
        array = onnx.numpy_helper.to_array(largest).copy()
        array.flat[0] += by * abs(array).max()
        largest.CopyFrom(onnx.numpy_helper.from_array(array, largest.name))
        return read.SerializeToString(deterministic=True)

    def test_rounding_of_another_machine_is_the_same(self, model):
        assert same_model(model, model)
        assert same_model(self.changed(model, 1e-6), model)

    def test_another_weight_node_or_byte_is_not(self, model):
        assert not same_model(self.changed(model, 0.01), model)
        read = onnx.load_from_string(model)
        read.graph.node[3].op_type = "Neg"
        assert not same_model(read.SerializeToString(deterministic=True), model)
        read = onnx.load_from_string(model)
        read.doc_string = "more"
        assert not same_model(read.SerializeToString(deterministic=True), model)
        assert not same_model(model + b"\x00", model)
        assert not same_model(model[:-9], model)
        assert not same_model(b"", model)

    def test_whole_numbers_are_compared_exactly(self, model):
        read = onnx.load_from_string(model)
        index = next(tensor for tensor in read.graph.initializer if tensor.data_type == onnx.TensorProto.INT64)
        array = onnx.numpy_helper.to_array(index) + 1
        index.CopyFrom(onnx.numpy_helper.from_array(array, index.name))
        assert not same_model(read.SerializeToString(deterministic=True), model)


def test_kinds_of_kernels_are_those_of_the_table():
    """A new kind of kernel with features must be a FeatureKernel, so that the table above covers it."""
    with_features = {name for name, kernel in KERNELS.items() if kernel.features is not None}
    assert with_features == {*FEATURES}
    assert {fields_of_kind(type(KERNELS[name])).__name__ for name in FEATURES} == {"FeatureKernel"}
