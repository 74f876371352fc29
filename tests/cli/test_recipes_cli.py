"""Recipes by name and in files, from the command line: what the certificate says of them, and that verify checks it."""

import json

import pytest
from run_command import dpdistill, refused, succeeds

import dpdistill as dp
from dpdistill.certificate.build import write_certificate
from dpdistill.folder.layout import CERTIFICATE
from dpdistill.recipe.methods import PURPOSES, RECIPES, method_for
from dpdistill.recipe.published import all_published
from dpdistill.recipe.published.statements import named_under, stated_by
from dpdistill.schema import DataError, Schema, TableSchema

NAME = "dosser-mnist-eps1-ipc10"
ORIGIN = f"recipe {NAME}: Zheng et al., 2025 (DOSSER), table 1, Dosser; caller changed "
SMALL = [
    "--set",
    "networks=2",
    "--set",
    "width=2",
    "--set",
    "steps=2",
    "--set",
    "sampling_prob=1",
    "--set",
    "subspace=5",
]


def certificate(folder):
    return json.loads((folder / CERTIFICATE).read_text())


@pytest.fixture(scope="module")
def by_name(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipes") / "shared"
    succeeds("distill", "digits:train", "--out", folder, "--recipe", "dosser-mnist-eps1", *SMALL, "--per-class", 2)
    return folder


@pytest.mark.slow
def test_the_certificate_names_the_recipe_and_what_was_changed(by_name):
    found = certificate(by_name)
    recipe = found["recipe"]
    assert recipe["origin"] == ORIGIN + "networks, sampling_prob, width, subspace, per_class, steps"
    assert (recipe["named"], recipe["method"], recipe["references"][0][:6]) == (NAME, "dos", "Zheng,")
    assert found["claim"] == {"epsilon": 1.0, "delta": 1e-5}
    stated = {
        **all_published()[NAME].fields,
        "networks": 2,
        "width": 2,
        "steps": 2,
        "sampling_prob": 1.0,
        "subspace": 5,
    }
    assert {field: recipe["fields"][field] for field in stated} == {
        **stated, "per_class": 2, "strategies": list(stated["strategies"])
    }  # fmt: skip
    assert ORIGIN in (by_name / "report.html").read_text()


def test_verify_checks_what_is_said_of_the_recipe(by_name):
    out = succeeds("verify", by_name)
    assert "ok   origin: " in out
    assert "ok   ledger: " in out
    before = (by_name / CERTIFICATE).read_text()
    changes = ({"origin": ORIGIN + "nothing"}, {"named": "dosser-cifar10-eps1-ipc10"}, {"named": None}, {"changed": []})
    for change in changes:
        forged = json.loads(before)
        forged["recipe"] |= change
        write_certificate(by_name, forged)
        code, out, _ = dpdistill("verify", by_name)
        assert code == 1
        assert "FAIL origin: The method states another " in out
    for unknown in ("nosuch", 3, ["x"]):
        forged = json.loads(before)
        forged["recipe"] |= {"named": unknown, "origin": "recipe nosuch: the best"}
        write_certificate(by_name, forged)
        code, out, _ = dpdistill("verify", by_name)
        assert code == 1
        assert "FAIL origin: The method states another " in out
    (by_name / CERTIFICATE).write_text(before)


def test_what_is_finished_again_keeps_the_recipe(by_name, tmp_path):
    run = f"{by_name}.run"
    succeeds("distill", "--from", run, "--out", tmp_path / "same")
    assert certificate(tmp_path / "same")["recipe"] == certificate(by_name)["recipe"]
    succeeds("distill", "--from", run, "--out", tmp_path / "more", "--set", "expand=2")
    origin = certificate(tmp_path / "more")["recipe"]["origin"]
    assert origin == ORIGIN + "networks, sampling_prob, width, subspace, per_class, expand, steps"
    for name in ("same", "more"):
        assert "ok   ledger: " in succeeds("verify", tmp_path / name, "--run", run)


def test_a_recipe_of_another_budget_is_not_named(tmp_path):
    succeeds(
        *("distill", "digits:train", "--out", tmp_path / "plain", "--non-private"),
        *("--recipe", "dosser-mnist-eps1", *SMALL, "--per-class", 2),
    )
    found = certificate(tmp_path / "plain")["recipe"]
    assert "named" not in found
    assert found["origin"].startswith("caller changed")
    without, of_one = stated_by("dp-ntk-cifar10-non-private"), stated_by("dosser-mnist-eps1")
    budgets = (None, (1.0, 1e-5), (1.0, 1e-6), (2.0, 1e-5))
    assert [named_under(without, budget) for budget in budgets] == ["dp-ntk-cifar10-non-private", None, None, None]
    assert [named_under(of_one, budget) for budget in budgets] == [None, "dosser-mnist-eps1-ipc10", None, None]
    assert named_under({"epsilon": 1.0}, (1.0, 1e-5)) is None


def test_what_is_stated_goes_before_the_recipe(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("method: ldpdc\nepsilon: 3\ndelta: 1.0e-6\nfields: {per_class: 3, sampling_prob: 1.0}\n")
    succeeds("distill", "digits:train", "--out", tmp_path / "mine", "--recipe", path)
    found = certificate(tmp_path / "mine")
    assert found["claim"] == {"epsilon": 3.0, "delta": 1e-6}
    assert found["recipe"]["origin"] == "caller changed per_class, sampling_prob"
    assert "named" not in found["recipe"]
    stated = ("--per-class", 2, "--epsilon", 2, "--set", "count_floor=2")
    succeeds("distill", "digits:train", "--out", tmp_path / "other", "--recipe", path, *stated)
    found = certificate(tmp_path / "other")
    assert found["claim"] == {"epsilon": 2.0, "delta": 1e-6}
    fields = found["recipe"]["fields"]
    assert (fields["per_class"], fields["sampling_prob"], fields["count_floor"]) == (2, 1.0, 2.0)


@pytest.mark.parametrize(
    ("stated", "claim"), [("epsilon: 3", (3.0, 1e-5)), ("delta: 1.0e-6", (1.0, 1e-6)), ("", (1.0, 1e-5))]
)
def test_a_recipe_may_state_a_part_of_the_budget(stated, claim, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(f"method: ldpdc\nfields: {{sampling_prob: 1.0}}\n{stated}\n")
    succeeds("distill", "digits:train", "--out", tmp_path / "mine", "--recipe", path)
    assert tuple(certificate(tmp_path / "mine")["claim"].values()) == claim


def test_recipes_are_listed_in_eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = succeeds("methods", "--recipes").splitlines()
    rows = {line.split()[0]: line for line in lines if line.strip() and line.split()[0] in all_published()}
    assert set(rows) == set(all_published())
    assert max(map(len, rows.values())) <= 80
    assert rows["dp-kip-scatternet-cifar10-eps10-ipc10"].split()[1:] == ["dp-kip", "10", "table", "14"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--recipe", "nosuch"], "Expected a recipe's name"),
        (["--recipe", "gone.yaml"], "Expected a recipe in gone.yaml"),
        (["--recipe", NAME, "--method", "dos"], "leave out --method and --from with --recipe"),
        (["--recipe", NAME, "--set", "nosuch=1"], "Method dos has no field 'nosuch'"),
        (["--recipe", "dm-mnist-ipc10"], "--non-private"),
    ],
)
def test_recipes_that_cannot_be_used_are_refused(argv, said, tmp_path):
    assert said in refused("distill", "digits:train", "--out", tmp_path / "out", *argv)
    assert list(tmp_path.iterdir()) == []


def test_what_a_set_is_for_determines_the_method(tmp_path):
    assert (method_for(Schema), method_for(TableSchema)) == ("dos-kip", "dp-merf")
    assert method_for(Schema, "classifier") == method_for(Schema, "kernel") == "decoupled-kip"
    assert method_for(TableSchema, "counts") == "aim"
    for kind, methods in PURPOSES.items():
        assert all(RECIPES[name].private and kind in RECIPES[name].schemas for name in methods.values())
    succeeds("distill", "digits:train", "--out", tmp_path / "out", "--for", "classifier", "--set", "steps=1")
    assert certificate(tmp_path / "out")["recipe"]["method"] == "decoupled-kip"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--for", "counts"], "Expected --for networks, kernel, classifier for images; got 'counts'."),
        (["--for", "kernel", "--method", "dos"], "--for determines the method: leave it out with --method"),
        (["--for", "kernel", "--recipe", NAME], "--for determines the method: leave it out with --method and --recipe"),
    ],
)
def test_another_purpose_and_two_answers_are_refused(argv, said, tmp_path):
    assert said in refused("distill", "digits:train", "--out", tmp_path / "out", *argv)
    assert list(tmp_path.iterdir()) == []


def test_a_run_determines_its_method(by_name, tmp_path):
    said = refused("distill", "--from", f"{by_name}.run", "--out", tmp_path / "out", "--for", "kernel")
    assert "A run determines its method: leave out --for with --from." in said
    with pytest.raises(DataError, match="leave out --for"):
        dp.finish_again(f"{by_name}.run", dp.RecipeChoice(purpose="kernel"))
