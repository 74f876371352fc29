"""Runs with kernels, generators and released classifiers, from the command line."""

from __future__ import annotations

import json
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from run_command import dpdistill, files_of, refused, succeeds
from small_sets import CLASSIFIER, ENCODER, TARGETS, Kernelled

from dpdistill import evaluation as evaluate
from dpdistill import run
from dpdistill.evaluation.student import margin_weights
from dpdistill.features.gamma_correction import GammaCorrected
from dpdistill.folder.save import read_distilled, read_generator
from dpdistill.kernels import KERNELS
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.methods.generator import Generator
from dpdistill.networks.mixing import mix_pictures
from dpdistill.public_images.pictures import draw_pictures
from dpdistill.recipe.build import from_fields


class TestGeneratedImages:
    """A generator of images: more of them, and scores of many."""

    @pytest.mark.slow
    def test_more_images_are_the_generators(self, made, tmp_path):
        out = succeeds("sample", made, "--n", 30, "--out", tmp_path / "a.npz", "--seed", 5)
        assert "30 generated images with their classes, at no further epsilon" in out
        back = read_distilled(made)
        X, y = Generator.from_arrays(read_generator(made), back.schema).sample(30, 5)
        with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
            np.testing.assert_allclose(file["X"], (X + 1) * 8, atol=1e-5)
            np.testing.assert_array_equal(file["y"], y)
            assert "targets" not in file
            about = json.loads(str(file["about"]))
        files = json.loads((made / "certificate.json").read_text())["files"]
        assert about["generator_sha256"] == files["generator.npz"]
        succeeds("sample", made, "--n", 3, "--out", tmp_path / "last.npz", "--seed", 2**32 - 1)
        succeeds("sample", made, "--n", 30, "--out", tmp_path / "folder", "--seed", 5, "--kind", "generated")
        rows = (tmp_path / "folder" / "labels.csv").read_text().splitlines()
        assert rows[0] == "file,class"
        assert [int(row.split(",")[1]) for row in rows[1:]] == y.tolist()
        assert "no released classifier" in refused("sample", made, "--n", 3, "--out", tmp_path / "b", "--kind", "drawn")
        bench = ("sample", made, "--n", 30, "--out", tmp_path / "bench", "--seed", 5, "--format", "dpimagebench")
        assert "trains on the first 55,000 images and validates on the rest" in dpdistill(*bench)[2]
        with np.load(tmp_path / "bench" / "gen" / "gen.npz", allow_pickle=False) as file:
            assert (file["x"].dtype, file["x"].shape) == (np.float32, (30, 1, 8, 8))
            np.testing.assert_allclose(file["x"][:, 0], (X[..., 0] + 1) / 2, atol=1e-6)
            np.testing.assert_array_equal(file["y"], y)
        broken = shutil.copytree(made, tmp_path / "broken")
        with np.load(made / "generator.npz") as file:
            np.savez(broken / "generator.npz", **{**dict(file), "code_size": np.array(2.0)})
        said = refused("sample", broken, "--n", 3, "--out", tmp_path / "e")
        assert "broken: Expected class_shares of 10 classes and code_size of a generator." in said
        (broken / "generator.npz").unlink()
        said = refused("sample", broken, "--n", 3, "--out", tmp_path / "e", "--kind", "generated")
        assert said.count("broken") == 1
        assert "broken has no generator" in said
        again = ("sample", made, "--n", 3, "--out")
        assert "Expected --out as a folder with --format" in refused(*again, "c.npz", "--format", "dpimagebench")
        assert "Unknown format 'x'" in refused(*again, tmp_path / "d", "--format", "x")


class TestKernels:
    def test_the_recipe_holds_them_and_they_come_back(self, led):
        recipe = json.loads((led / "recipe.json").read_text())
        assert recipe["method"] == "kernel-led"
        encoder = {"kind": "ScatterNet", "J": 1, "L": 2, "groups": 3, "per_position": False, "normalise": False}
        assert recipe["fields"]["kernel"] == {"kind": "FeatureKernel", "encoder": encoder}
        assert recipe["changed"] == ["per_class", "sampling_prob", "second"]
        expected = Kernelled(per_class=2, sampling_prob=1.0, second=KERNELS["scatternet"])
        assert from_fields("kernel-led", recipe["fields"]) == expected
        page = re.sub(r"<[^>]+>", " ", (led / "report.html").read_text())
        assert "FeatureKernel, the inner product of features (encoder: ScatterNet, two layers" in page
        assert "classifier.npz" in page

    def test_everything_of_the_result_is_saved_and_verified(self, led, tmp_path):
        assert {"classifier.npz", "synthetic.npz"} < set(files_of(led))
        back = read_distilled(led)
        np.testing.assert_array_equal(back.targets, TARGETS.astype(np.float32))
        np.testing.assert_array_equal(back.classifier, CLASSIFIER.astype(np.float32))
        assert re.search(r"^ok   plan: ", succeeds("verify", led), re.M)
        with np.load(led / "classifier.npz") as file:
            np.savez(led / "classifier.npz", classifier=2 * file["classifier"])
        code, out, _ = dpdistill("verify", led)
        assert code == 1
        assert "classifier.npz was changed" in out
        command = ("distill", "digits:train", "--out", led, "--overwrite", "--method", "ldpdc")
        succeeds(*command, "--set", "sampling_prob=1")
        assert "classifier.npz" not in files_of(led)
        assert read_distilled(led).classifier is read_distilled(led).targets is None

    def test_slopes_of_a_teacher_that_sees_a_root_of_the_light_have_units(self, led, tmp_path):
        folder, made = shutil.copytree(led, tmp_path / "rooted"), tmp_path / "slopes.npz"
        recipe = json.loads((folder / "recipe.json").read_text())
        encoder = recipe["fields"]["kernel"]["encoder"]
        recipe["fields"]["kernel"]["encoder"] = {"kind": "GammaCorrected", "encoder": encoder, "exponent": 0.5}
        (folder / "recipe.json").write_text(json.dumps(recipe))
        succeeds("sample", folder, "--n", 30, "--out", made, "--seed", 5, "--slopes")
        with np.load(made, allow_pickle=False) as file:
            stored = dict(file)
        rooted, X = GammaCorrected(ENCODER, 0.5), draw_pictures(30, (8, 8, 1), 5)
        teacher = evaluate.Teacher(CLASSIFIER.astype(np.float32), FeatureKernel(rooted), read_distilled(led).schema)
        np.testing.assert_allclose(stored["units"], rooted.units(X), rtol=1e-6)
        _, by_pixel = teacher.sloped(X, margin_weights)
        np.testing.assert_allclose(stored["slopes"], by_pixel / 8, rtol=1e-4, atol=1e-5)
        assert "multiply a network's gradients and slopes by these" in json.loads(str(stored["about"]))["units"]

    def test_a_released_classifier_scores_pictures(self, led, tmp_path):
        pictures = tmp_path / "pictures.npz"
        out = succeeds("sample", led, "--n", 30, "--out", pictures, "--seed", 5)
        assert "30 drawn images with the released classifier's scores, at no further epsilon" in out
        with np.load(pictures, allow_pickle=False) as file:
            stored = dict(file)
        X = draw_pictures(30, (8, 8, 1), 5)
        np.testing.assert_allclose(stored["X"], (X + 1) * 8, atol=1e-5)
        expected = np.asarray(ENCODER(X)) @ CLASSIFIER.astype(np.float32)
        expected -= expected.mean(1, keepdims=True)
        np.testing.assert_allclose(stored["targets"], expected, atol=1e-4)
        np.testing.assert_array_equal(stored["y"], expected.argmax(1))
        about = json.loads(str(stored["about"]))
        assert about["seed"] == 5
        assert (
            about["classifier_sha256"] == json.loads((led / "certificate.json").read_text())["files"]["classifier.npz"]
        )
        with_slopes = tmp_path / "slopes.npz"
        succeeds("sample", led, "--n", 30, "--out", with_slopes, "--seed", 5, "--slopes")
        with np.load(with_slopes, allow_pickle=False) as file:
            more = dict(file)
        assert set(more) - set(stored) == {"margins", "slopes"}
        np.testing.assert_array_equal(more["margins"], np.argsort(-stored["targets"], 1)[:, :2])
        first, second = more["margins"].T
        weights = CLASSIFIER.astype(np.float32)[:, first] - CLASSIFIER.astype(np.float32)[:, second]
        slopes = jax.grad(lambda U: jnp.vdot(ENCODER(U), weights.T))(X) / 8
        np.testing.assert_allclose(more["slopes"], slopes, atol=1e-3 * np.abs(slopes).max())
        assert ".npz file with --slopes" in refused("sample", led, "--n", 3, "--out", tmp_path / "c", "--slopes")
        as_benchmark = ("--format", "dpimagebench", "--slopes")
        for out in ("c", "c.npz"):
            said = refused("sample", led, "--n", 3, "--out", tmp_path / out, "--kind", "drawn", *as_benchmark)
            assert "dpimagebench has no slopes" in said
        folder = tmp_path / "folder"
        succeeds("sample", led, "--n", 30, "--out", folder, "--seed", 5)
        rows = [line.split(",") for line in (folder / "labels.csv").read_text().splitlines()]
        assert rows[0][:3] == ["file", "class", "score of 0"]
        assert [int(row[1]) for row in rows[1:]] == stored["y"].tolist()
        np.testing.assert_allclose(np.array([row[2:] for row in rows[1:]], float), expected, rtol=1e-3, atol=1e-4)
        picture = np.asarray(Image.open(folder / rows[7][0]), np.float32)
        np.testing.assert_allclose(picture / 127.5 - 1, X[6, :, :, 0], atol=0.005)
        assert json.loads((folder / "about.json").read_text()) == about
        assert "exists: choose another" in refused("sample", led, "--n", 3, "--out", pictures)
        assert ".npz file or a folder" in refused("sample", led, "--n", 3, "--out", tmp_path / "a.csv")
        mixed = tmp_path / "mixed.npz"
        out = succeeds("sample", led, "--n", 30, "--out", mixed, "--seed", 5, "--kind", "mixed")
        assert "30 mixed images with the released classifier's scores, at no further epsilon" in out
        with np.load(mixed, allow_pickle=False) as file:
            np.testing.assert_allclose(file["X"] / 8 - 1, mix_pictures(X, read_distilled(led).X, 5), atol=1e-5)
            assert "mixed with the folder's synthetic images" in str(file["about"])
            files = json.loads((led / "certificate.json").read_text())["files"]
            assert json.loads(str(file["about"]))["images_sha256"] == files["synthetic.npz"]
        for kind in ("x", "drawn+x", "drawn+drawn", "+"):
            said = refused("sample", led, "--n", 3, "--out", tmp_path / "b.npz", "--kind", kind)
            several = "choose among drawn, generated, mixed, or several kinds, each once: drawn+generated."
            assert f"Unknown kind {kind!r} of images: {several}" in said

    def test_releases_are_used_again_with_another_kernel_for_finish_only(self, led, tmp_path):
        again = ("distill", "--from", led.with_name("led.run"), "--out")
        succeeds(*again, tmp_path / "b", "--set", "second=fc-ntk")
        assert json.loads((tmp_path / "b" / "recipe.json").read_text())["fields"]["second"]["kind"] == "FCNTK"
        assert "second" in succeeds("verify", tmp_path / "b", "--run", led.with_name("led.run"))
        assert "another kernel: they do not fit" in refused(*again, tmp_path / "c", "--set", "kernel=fc-ntk")

    def test_methods_shows_the_short_name(self, led):
        out = succeeds("methods")
        assert re.search(r"^second +fc-ntk +Kernel +free +another kernel", out, re.M)
        assert re.search(r"^kernel +FeatureKernel\(", out, re.M)
        assert f"Kernels: {', '.join(KERNELS)}.\n" in out

    @pytest.mark.parametrize("name", KERNELS)
    def test_every_kernel_of_the_table_is_saved_and_read(self, led, name):
        fields = run.recipe_of(Kernelled(kernel=KERNELS[name]), 0)["fields"]
        made = from_fields("kernel-led", json.loads(json.dumps(fields)))
        assert made.kernel == KERNELS[name]
        assert hash(made.kernel) == hash(KERNELS[name])


@pytest.mark.slow
def test_pictures_of_two_kinds_are_equal_parts_of_both(whole, tmp_path):
    out = succeeds("sample", whole, "--n", 31, "--out", tmp_path / "v.npz", "--seed", 5, "--kind", "mixed+generated")
    assert "31 mixed+generated images with the released classifier's scores" in out
    back = read_distilled(whole)
    mixed = mix_pictures(draw_pictures(15, (8, 8, 1), 5), back.train_set[0], 5)
    made, _ = Generator.from_arrays(read_generator(whole), back.schema).sample(16, 5)
    with np.load(tmp_path / "v.npz", allow_pickle=False) as file:
        found, about = file["X"] / 8 - 1, json.loads(str(file["about"]))
    expected = np.concatenate([mixed, made])
    order = [np.abs(expected - picture).sum((1, 2, 3)).argmin() for picture in found]
    assert sorted(order) == list(range(31))
    assert order != list(range(31))
    np.testing.assert_allclose(found, expected[order], atol=1e-5)
    files = json.loads((whole / "certificate.json").read_text())["files"]
    assert about["images_sha256"] == files["synthetic.npz"]
    assert about["generator_sha256"] == files["generator.npz"]
    succeeds("sample", whole, "--n", 1, "--out", tmp_path / "one.npz", "--seed", 5, "--kind", "drawn+generated")
    with np.load(tmp_path / "one.npz", allow_pickle=False) as file:
        made, _ = Generator.from_arrays(read_generator(whole), back.schema).sample(1, 5)
        np.testing.assert_allclose(file["X"] / 8 - 1, made, atol=1e-5)
    bare = shutil.copytree(whole, tmp_path / "bare")
    (bare / "generator.npz").unlink()
    assert "bare has no generator" in refused(
        "sample", bare, "--n", 3, "--out", tmp_path / "w.npz", "--kind", "mixed+generated"
    )
