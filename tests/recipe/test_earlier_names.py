"""Names of recipe fields in earlier versions: read wherever a recipe is read, and never written."""

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from contract import SCHEMA, make_records, tiny

import dpdistill as dp
from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.api.recipes import build, build_again
from dpdistill.benchmark.suite import read_suite
from dpdistill.certificate.build import build_certificate, recipe_content, write_certificate
from dpdistill.ledger.run import RUN_LEDGER, RunLedger
from dpdistill.private.noise import SeededEntropy
from dpdistill.public_images.image_source import PublicImages
from dpdistill.publish.export import write_documents
from dpdistill.publish.report import write_report
from dpdistill.recipe.build import from_fields
from dpdistill.recipe.earlier_names import EARLIER_NAMES, current_fields, current_recipe, first_fields
from dpdistill.recipe.methods import RECIPES
from dpdistill.recipe.text import fields_from_file
from dpdistill.schema import DataError

PUBLIC = PublicImages.of([np.random.default_rng(8).uniform(-1, 1, (60, *SCHEMA.shape)).astype(np.float32)])
BUDGET = Budget(5.0)
OLD = {new: old for names in EARLIER_NAMES.values() for old, new in names.items()}


def with_public_images():
    return tiny("dos", width=8, subspace=5, public_images=PUBLIC)


def earlier(recipe):
    """A recipe as an earlier version wrote it."""
    text = json.dumps(recipe)
    for new, old in OLD.items():
        text = text.replace(f'"{new}"', f'"{old}"').replace(f" {new},", f" {old},")
    return json.loads(text)


def test_the_table_names_fields_that_exist():
    for owner, names in EARLIER_NAMES.items():
        kind = RECIPES.get(owner, PublicImages)
        assert set(names.values()) <= set(kind.__dataclass_fields__), owner
        assert not set(names) & set(kind.__dataclass_fields__), owner


def test_an_earlier_recipe_is_the_same_recipe():
    written = json.loads(json.dumps(run.recipe_of(with_public_images(), 0)))
    assert not set(OLD.values()) & {*written["fields"], *written["fields"]["public_images"], *written["changed"]}
    before = earlier(written)
    assert before["fields"]["auxiliary"]["word"] == "the caller"
    assert "auxiliary" in before["origin"]
    assert "public_images" not in json.dumps(before)
    assert from_fields("dos", before["fields"]) == from_fields("dos", written["fields"])
    assert current_recipe(before) == written == current_recipe(written)
    assert fields_from_file("dos", {"subspace": 3}) == {"subspace": 3}


def test_both_names_of_a_field_are_refused():
    fields = run.recipe_of(with_public_images(), 0)["fields"]
    with pytest.raises(
        DataError, match="Expected the field 'public_images' once; got it also under its earlier name 'auxiliary'"
    ):
        from_fields("dos", {**fields, "auxiliary": fields["public_images"]})
    with pytest.raises(
        DataError, match="Expected the field 'declared_by' once; got it also under its earlier name 'word'"
    ):
        from_fields("dos", {**fields, "public_images": {**fields["public_images"], "word": "them"}})
    with pytest.raises(DataError, match="The field 'public_images' is set twice"):
        build("dos", ("auxiliary=x", "public_images=x"))


@pytest.mark.parametrize("recipe", [{}, {"method": [], "fields": {}}, {"fields": 3}, {"method": "dos", "changed": 1}])
def test_what_is_no_recipe_is_left_as_it_is(recipe):
    assert current_recipe(recipe) == recipe


def test_only_the_method_that_had_a_name_has_it():
    assert current_fields("dp-kip", {"auxiliary": 1}) == {"auxiliary": 1} == first_fields("dp-kip", {"auxiliary": 1})
    assert first_fields("dos", {"public_images": 1, "steps": 2}) == {"auxiliary": 1, "steps": 2}


@pytest.fixture
def paid(tmp_path):
    """The owner's folder of a run that an earlier version made, and the set that it shared."""
    owner, shared = tmp_path / "shared.run", tmp_path / "shared"
    result = run.distill(make_records(40), with_public_images(), BUDGET, run_dir=owner, entropy=SeededEntropy(1))
    result.save(shared)
    with sqlite3.connect(owner / RUN_LEDGER) as db:
        (recipe,) = db.execute("SELECT recipe FROM run").fetchone()
        db.execute("UPDATE run SET recipe = ?", (json.dumps(earlier(json.loads(recipe)), sort_keys=True),))
    return owner, shared


def rewrite(folder: Path) -> None:
    """Writes a shared folder as an earlier version did."""
    certificate = json.loads((folder / "certificate.json").read_text())
    recipe = earlier(certificate["recipe"])
    (folder / "recipe.json").write_bytes(recipe_content(recipe))
    found = RunLedger.read(folder.with_name("shared.run"))
    stated = {key: certificate[key] for key in ("noise", "slack", "backend", "self_test", "releases")}
    write_certificate(
        folder, build_certificate(folder, schedule=found.schedule, recipe=recipe, schema=SCHEMA, **stated)
    )
    write_documents(folder)
    write_report(folder)


def test_an_earlier_run_is_used_again_resumed_and_verified(paid):
    owner, shared = paid
    assert RunLedger.read(owner).recipe["fields"]["public_images"]["declared_by"] == "the caller"
    again = run.finish_again(owner, build_again(owner, None, (), public_images=PUBLIC, per_class=3))
    assert len(again.X) == 9
    assert "auxiliary" not in json.dumps(again.recipe)
    resumed = run.distill(make_records(40), with_public_images(), BUDGET, run_dir=owner, entropy=SeededEntropy(2))
    assert resumed.payment is not None
    failed = {check.name for check in dp.verify(shared).checks if check.passed is False}
    assert failed == {"noise"}  # seeded: it is a test
    rewrite(shared)
    text = (shared / "certificate.json").read_text()
    assert '"auxiliary"' in text
    assert '"word": "the caller"' in text
    verification = dp.verify(shared, owner)
    assert {check.name for check in verification.checks if check.passed is False} == {"noise", "handover"}
    assert f"by the word of {PUBLIC.declared_by}" in text


def test_an_earlier_certificate_may_not_state_other_fields(paid):
    _, shared = paid
    rewrite(shared)
    certificate = json.loads((shared / "certificate.json").read_text())
    certificate["recipe"]["fields"]["auxiliary"]["word"] = "another"
    write_certificate(shared, certificate)
    failed = {check.name for check in dp.verify(shared).checks if check.passed is False}
    assert {"recipe", "ledger", "public inputs", "events"} <= failed


def test_a_benchmark_finds_the_releases_that_earlier_versions_paid():
    runs = {made.name: made.release for made in read_suite("dosser")[1].all_runs()}
    assert runs["mnist-dos-cc2085024b18"] == "mnist-dos-66133fabd4b4"
    assert runs["mnist-dos-5d2b3f104744"] == "mnist-dos-66957fbabdd8"
