"""SER: signals keep the principal directions of public images, which are drawn or named, and the recipe says which."""

import dataclasses
import json
import shutil

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import SCHEMA, make_records, tiny, toy_records

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.api.recipes import build, build_again
from dpdistill.certificate.build import scope, write_certificate
from dpdistill.errors import LedgerError
from dpdistill.methods import dos
from dpdistill.methods.centre import pictures_around
from dpdistill.methods.kept_rows import KeptRows
from dpdistill.methods.matching import features, network, principal_directions
from dpdistill.private.noise import SeededEntropy
from dpdistill.public_images.image_source import MOST, Drawn, PublicImages
from dpdistill.recipe.build import from_fields
from dpdistill.recipe.parts import implement
from dpdistill.run import forecast
from dpdistill.schema import DataError

HUGE = Budget(150.0)
PICTURES = np.random.default_rng(8).uniform(-1, 1, (60, *SCHEMA.shape)).astype(np.float32)
PUBLIC = PublicImages.of([PICTURES[:40], PICTURES[40:]])


def subspaced(**changes):
    return tiny("dos", **{"width": 8, "subspace": 5, "public_images": PUBLIC, **changes})


def test_directions_are_those_of_a_singular_value_decomposition():
    params = network(jax.random.key(1), 3, SCHEMA.shape, 8)
    mean, V = principal_directions(params, PICTURES, 6)
    phi = np.asarray(features(params, jnp.asarray(PICTURES)), np.float64)
    np.testing.assert_allclose(mean, phi.mean(0), atol=1e-5)
    expected = np.linalg.svd(phi - phi.mean(0), full_matrices=False)[2][:6]
    np.testing.assert_allclose(np.abs(expected @ V), np.eye(6), atol=2e-3)


@pytest.mark.parametrize("pilot_share", [0.0, 0.05])
def test_directions_that_are_too_large_for_memory_are_read_from_the_file_of_the_run(tmp_path, monkeypatch, pilot_share):
    records, method = toy_records(30), subspaced(networks=4, steps=6, pilot_share=pilot_share)
    held, computed = run.distill(records, method, HUGE, entropy=SeededEntropy(1)), []
    directions = dos.principal_directions
    monkeypatch.setattr(dos, "principal_directions", lambda *given: computed.append(1) or directions(*given))
    monkeypatch.setattr(dos, "MOST_HELD", 0)
    assert method.finish_bytes(SCHEMA) == 0
    assert method.disk_bytes(SCHEMA) == 4 * 4 * (1 + 5) * 128
    kept = run.distill(records, method, HUGE, entropy=SeededEntropy(1), run_dir=tmp_path / "x.run")
    np.testing.assert_array_equal(kept.X, held.X)
    (file,) = (tmp_path / "x.run").glob("public-*.bin")
    assert file.stat().st_size == method.disk_bytes(SCHEMA) + 4
    assert file.stat().st_mode & 0o077 == 0
    computed.clear()
    again = run.finish_again(tmp_path / "x.run", dataclasses.replace(method, steps=7))
    assert not computed
    assert not np.array_equal(again.X, kept.X)
    np.testing.assert_array_equal(run.distill(records, method, HUGE, entropy=SeededEntropy(1)).X, held.X)


def test_a_row_that_was_not_written_whole_is_none(tmp_path):
    rows = KeptRows(tmp_path / "rows.bin", 3, (2, 2))
    assert rows.read(2) is None
    rows.write(1, np.arange(4.0).reshape(2, 2))
    again = KeptRows(tmp_path / "rows.bin", 3, (2, 2))
    np.testing.assert_array_equal(again.read(1), [[0, 1], [2, 3]])
    assert again.read(0) is again.read(2) is None


def test_a_disk_that_is_too_small_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(dos, "MOST_HELD", 0)
    free = shutil.disk_usage(tmp_path)._replace(free=12_287)
    monkeypatch.setattr(forecast, "disk_usage", lambda _: free)
    with pytest.raises(DataError, match=r"free on the disk of .*; dos would store 1\.14e-05 GiB: take fewer networks"):
        forecast.check_size(subspaced(networks=4), SCHEMA, folder=tmp_path / "x.run")
    forecast.check_size(subspaced(networks=3), SCHEMA, folder=tmp_path / "x.run")


@pytest.mark.parametrize("pilot_share", [0.0, 0.05])
def test_a_signal_is_what_is_left_of_a_record_in_the_directions(pilot_share):
    method = subspaced(pilot_share=pilot_share)
    state = method.init(jax.random.key(0), SCHEMA)
    pilots = method.plan()[0].rounds if pilot_share else 0
    pilot = np.random.default_rng(2).uniform(-1, 1, state["pilot"].shape).astype(np.float32)
    state = {**state, "pilot": pilot, "round": np.int64(pilots)}
    query, params = method.ask(state)
    assert state["signals"].shape[2] == 6
    plain = {**params, "centre": None, "directions": None}
    phi = np.asarray(features(plain, jnp.asarray(PICTURES)), np.float64)
    centre = np.asarray(features(plain, pictures_around(pilot[0]))).mean(0) if pilot_share else phi.mean(0)
    x = PICTURES[3]
    v = (np.asarray(features(plain, x[None])[0], np.float64) - centre) @ np.asarray(params["directions"], np.float64)
    v *= min(1.0, query.bound / np.linalg.norm(v))
    np.testing.assert_allclose(query.contribution(params, x, 0), [query.count, *v], atol=2e-5)
    vectors = np.linalg.svd(phi - phi.mean(0), full_matrices=False)[2][:5]
    np.testing.assert_allclose(np.abs(vectors @ params["directions"]), np.eye(5), atol=5e-3)


def test_it_learns_the_classes():
    method = subspaced(networks=6, steps=120, learning_rate=0.1, average=0.9)
    result = run.distill(toy_records(600), method, HUGE, entropy=SeededEntropy(1))
    means = np.stack([result.distilled.X[result.y == c].mean(0) for c in range(3)])
    real, y = toy_records(600).take(np.arange(600))
    own = [np.corrcoef(means[c].ravel(), real[y == c].mean(0).ravel())[0, 1] for c in range(3)]
    assert min(own) > 0.7


def test_directions_are_computed_once_a_network(monkeypatch):
    asked = []

    def counted(*given):
        asked.append(given)
        return principal_directions(*given)

    monkeypatch.setattr(dos, "principal_directions", counted)
    method = subspaced(networks=4, learning_rate=0.03)
    run.distill(toy_records(60), method, HUGE, entropy=SeededEntropy(1))
    assert len(asked) == 4
    others = PublicImages.of([PICTURES[::-1] / 2])
    found = []
    for changed, seed in ((method, 0), (method, 1), (dataclasses.replace(method, public_images=others), 0)):
        state = changed.init(jax.random.key(seed), SCHEMA)
        _, params = changed.ask({**state, "round": np.int64(1)})
        plain = network(jax.random.key(seed), 0, SCHEMA.shape, 8)
        expected = principal_directions(plain, changed.public_images.images(SCHEMA.shape), 5)[1]
        np.testing.assert_allclose(np.abs(expected.T @ params["directions"]), np.eye(5), atol=5e-3)
        found.append(params["directions"].tobytes())
    assert len(set(found)) == 3


@pytest.mark.parametrize("public_images", [PUBLIC, Drawn(40, seed=3)])
def test_it_is_a_method_like_the_others(public_images):
    method = tiny("dos", width=8, subspace=5, public_images=public_images)
    state = method.init(jax.random.key(0), SCHEMA)
    query, params = method.ask({**state, "round": state["round"] + 1})
    contract.check_add_remove(query, params, make_records(9))
    contract.check_replace_one(query, params, make_records(9))
    recipe = run.recipe_of(method, 0)
    again = implement(from_fields("dos", recipe["fields"]))
    assert again == method
    assert again.plan() == method.plan()


class TestPublicImages:
    def test_a_recipe_holds_their_hash_alone(self):
        fields = json.loads(json.dumps(run.recipe_of(subspaced(), 0)["fields"]))
        assert fields["public_images"] == {
            "kind": "PublicImages",
            "sha256": PUBLIC.sha256,
            "pictures": 60,
            "declared_by": "the caller",
        }

    def test_another_image_or_order_has_another_hash(self):
        other = PICTURES.copy()
        other[59, 0, 0] += 1e-6
        hashes = {PublicImages.of([X[:40], X[40:]]).sha256 for X in (PICTURES, other, PICTURES[::-1])}
        assert len(hashes) == 3
        assert PublicImages.of([PICTURES[:40], PICTURES[40:]]) == PUBLIC

    def test_so_many_are_kept(self):
        made = PublicImages.of([np.full((1, 1, 1, 1), i, np.float32) for i in range(MOST + 500)])
        kept = made.images((1, 1, 1)).ravel()
        assert len(np.unique(kept)) == MOST
        assert made.pictures == MOST + 500
        assert kept.max() > MOST

    @pytest.mark.parametrize(
        ("chunks", "said"),
        [([PICTURES[:1]], "at least two public images; got 1"), ([PICTURES * np.nan], "of finite values")],
    )
    def test_what_is_none_is_refused(self, chunks, said):
        with pytest.raises(ValueError, match=said):
            PublicImages.of(chunks)

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"subspace": 0}, "Expected subspace > 0 with public images"),
            ({"subspace": 60}, "Expected more public images than subspace=60; got 60"),
            ({"subspace": 10_000}, "Expected subspace=10000 <= "),
            ({"public_images": PublicImages.of([PICTURES[:, :4]])}, "Expected public images of shape"),
            ({"public_images": dataclasses.replace(PUBLIC, X=None)}, "Name the public images with sha256 "),
        ],
    )
    def test_what_does_not_fit_is_refused_before_anything_is_paid(self, changes, said):
        with pytest.raises(ValueError, match=said):
            run.distill(make_records(40), dataclasses.replace(subspaced(width=32), **changes))

    def test_a_certificate_says_by_whose_word_they_are_public(self, tmp_path):
        result = run.distill(make_records(40), subspaced(), Budget(5.0), entropy=SeededEntropy(1))
        certificate = json.loads((result.save(tmp_path / "shared") / "certificate.json").read_text())
        said = f"the 60 images with sha256 {PUBLIC.sha256}: by the word of the caller they are public."
        assert said in certificate["scope"]
        assert said not in scope(Budget(5.0), run.recipe_of(tiny("dos"), 0))
        assert PUBLIC.sha256 in (tmp_path / "shared" / "report.html").read_text()
        altered = json.loads((tmp_path / "shared" / "certificate.json").read_text())
        altered["scope"] = scope(Budget(5.0), {})
        write_certificate(tmp_path / "shared", altered)
        failed = [check for check in run_verify(tmp_path / "shared") if check.passed is False]
        assert any("scope" in check.detail for check in failed)

    def test_releases_are_used_again_with_the_same_ones_only(self, tmp_path):
        run.distill(make_records(40), subspaced(), Budget(5.0), run_dir=tmp_path, entropy=SeededEntropy(1))
        with pytest.raises(ValueError, match="Name the public images"):
            run.finish_again(tmp_path, build_again(str(tmp_path), None, ()))
        again = build_again(str(tmp_path), None, (), public_images=PUBLIC, per_class=3)
        assert len(run.finish_again(tmp_path, again).X) == 9
        others = build_again(str(tmp_path), None, (), public_images=PublicImages.of([PICTURES[1:]]))
        with pytest.raises(LedgerError, match="made with another public_images"):
            run.finish_again(tmp_path, others)

    def test_a_method_that_reads_none_says_so(self):
        with pytest.raises(DataError, match="Method dp-kip reads no public images: leave --public out"):
            build("dp-kip", (), public_images=PUBLIC)
        with pytest.raises(DataError, match="name them with --public DATA"):
            build("dos", ("public_images=scatternet",))


def run_verify(folder):
    from dpdistill.verification import verify

    return verify(folder, None).checks
