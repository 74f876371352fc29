"""Recipes of papers: every row builds, says where it is from, and is named for what it holds; and recipes in files."""

import re

import pytest

from dpdistill import run
from dpdistill.methods import DOS, METHODS
from dpdistill.recipe.build import fields_of
from dpdistill.recipe.kernels import KERNELS
from dpdistill.recipe.published import all_published, notes, published, read_recipe
from dpdistill.schema import DataError

ROWS = all_published()
RECORDS = {"mnist": 60_000, "fashion-mnist": 60_000, "svhn": 73_257, "cifar10": 50_000, "cifar100": 50_000}
TABLES = ("isolet", "covtype", "epileptic", "credit", "cervical", "census", "adult", "intrusion")
NAME = re.compile(
    r"(?P<what>[a-z-]+?)-(?P<data>fashion-mnist|mnist|svhn|cifar100|cifar10|celeba|auto|" + "|".join(TABLES) + r")"
    r"(?:-eps(?P<epsilon>[0-9.]+)|-non-private)?(?:-ipc(?P<per_class>[0-9]+))?"
)
WHAT = {
    "kip-e-ntk": "kip", "kip-perceptual": "kip", "kip-scatternet": "kip",
    "dp-kip-fc-ntk": "dp-kip", "dp-kip-scatternet": "dp-kip", "dp-ntk": "dp-ntk",
    "dos-kip": "dos-kip", "decoupled-kip": "decoupled-kip",
    "dosser": "dos", "dosser-pea": "dos", "dos-pea": "dos", "ndpdc": "ndpdc", "psg": "psg", "dm": "dm",
}  # fmt: skip


@pytest.mark.parametrize("name", list(ROWS))
def test_a_row_builds_and_is_named_for_what_it_holds(name):
    row, said = ROWS[name], NAME.fullmatch(name)
    assert said, name
    method = row.build()
    assert METHODS[row.method] is type(method)
    assert set(row.fields) <= set(fields_of(row.method))
    assert {field: getattr(row.recipe(), field) for field in row.fields} == row.fields
    assert WHAT[said["what"]] == row.method
    assert row.epsilon == (None if said["epsilon"] is None else float(said["epsilon"]))
    assert (row.epsilon is None) == (not method.private or "non-private" in name)
    assert row.fields.get("per_class") == (None if said["per_class"] is None else int(said["per_class"]))
    assert re.fullmatch(r"[A-Z].*, 20\d\d \([A-Z].*\)", row.paper)
    assert re.search(r"table \d+|ablation|code|our benchmarks", row.where)
    own = row.where == "our benchmarks"
    assert re.match(
        r"(MNIST|Fashion-MNIST|CIFAR-10)'s training set(; [a-z ,]+ on its test set)?$" if own else "$", row.selected
    ) or ("-auto-" in name and row.selected.endswith("training sets; two releases choose the kernel"))
    assert row.origin == f"recipe {name}: {row.paper}, {row.where}" + f"; selected on {row.selected}" * own
    if "batch" in row.fields or "sampling_prob" not in row.fields:
        assert row.method in ("dp-ntk", "dos-kip", "decoupled-kip")  # dp-ntk: the batch is of generated records
    elif said["data"] in RECORDS:
        batch = row.fields["sampling_prob"] * RECORDS[said["data"]]
        assert batch == pytest.approx(round(batch), abs=1e-6)
        assert 20 <= batch <= 5000
    if "strategies" in row.fields:
        assert ("flip" in row.fields["strategies"]) == (said["data"] != "mnist")


@pytest.mark.parametrize(("short", "method"), [("auto", "dos-kip"), ("auto-classifier", "decoupled-kip")])
def test_short_names_are_those_of_recipes(short, method):
    row = published(short)
    assert (row.name, row.method) == (f"{method}-auto-eps1-ipc10", method)
    assert row.fields["candidates"] == ("scatternet-white", "drawn")


def test_every_table_is_there():
    sources = {}
    for row in ROWS.values():
        sources.setdefault((row.paper.partition(",")[0], row.where.partition(",")[0]), []).append(row)
    counts = {key: len(rows) for key, rows in sources.items()}
    paper_a = {("Vinaroz & Park", f"table {n}"): 15 for n in range(8, 15)}
    assert counts == {
        **paper_a,
        ("Vinaroz & Park", "table 15"): 8,
        ("Yang et al.", "table 5"): 18,
        ("Zheng et al.", "table 1"): 24,
        ("Zheng et al.", "ablation"): 6,
        ("Chen et al.", "its public code"): 6,
        ("The package's authors", "our benchmarks"): 10,
    }
    assert {row.paper for row in ROWS.values()} - {"Chen et al., 2022 (PSG)"} == set(notes())


def test_values_of_rows_by_hand():
    row = published("dp-kip-scatternet-cifar10-eps10")
    assert row is ROWS["dp-kip-scatternet-cifar10-eps10-ipc10"]
    assert row.fields == {
        "kernel": KERNELS["scatternet-position"], "average": 0.0, "per_class": 10, "rounds": 50 * 100,
        "sampling_prob": 0.01, "learning_rate": 0.01, "clip_norm": 1e-4, "ridge": 1e-4,
    }  # fmt: skip
    assert (row.epsilon, row.delta) == (10, 1e-5)
    dosser = published("dosser-mnist-eps1-ipc10")
    assert dosser.fields["sampling_prob"] == pytest.approx(50 / 6000)
    assert (dosser.fields["networks"], dosser.fields["steps"], dosser.fields["pilot_share"]) == (10_000, 200_000, 0.0)
    assert published("dosser-pea-mnist-eps1-ipc50").fields["expand"] == 2
    photographs = published("dos-kip-cifar10-eps1")
    assert photographs.fields == {
        "per_class": 10, "kernel": KERNELS["drawn"], "step": 18.0, "networks": 80, "taught": 35, "pictures": 30_000,
        "hold": 8,
    }  # fmt: skip
    assert published("dos-kip-cifar10-eps1-ipc50").fields == {**photographs.fields, "per_class": 50, "steps": 300}
    clothes = published("dos-kip-fashion-mnist-eps1")
    assert clothes.fields == {
        "per_class": 10, "share": 0.7, "kernel": KERNELS["scatternet-silhouettes"], "rounds": 100, "step": 7.0,
        "means": 0.05, "taught": 50, "cells": 4,
    }  # fmt: skip
    fifty = {**clothes.fields, "per_class": 50, "expand": 1, "hold": 2}
    assert published("dos-kip-fashion-mnist-eps1-ipc50").fields == fifty
    photographs = published("decoupled-kip-cifar10-eps1")
    assert photographs.fields == {
        "per_class": 10, "kernel": KERNELS["drawn"], "rounds": 150, "step": 11.0, "means": 0.05, "learning_rate": 0.2,
        "expand": 2, "steps": 120,
    }  # fmt: skip
    adult = published("dp-kip-fc-ntk-adult-eps1")
    assert (adult.fields["rounds"], adult.fields["sampling_prob"], adult.fields["ridge"]) == (13, 0.8, 1e-6)
    assert published("dp-ntk-adult-eps1").fields["second_width"] == 200


def test_an_unknown_name_is_refused():
    with pytest.raises(DataError, match=r"Expected a recipe's name, as `dpdistill methods --recipes` .* got 'nosuch'"):
        published("nosuch")


def test_what_differs_from_a_row_is_named():
    name = "dosser-cifar10-eps1-ipc50"
    row = published(name)
    recipe = run.recipe_of(row.build(), 3, name)
    assert (recipe["changed"], recipe["named"]) == ([], name)
    assert recipe["origin"] == f"recipe {name}: Zheng et al., 2025 (DOSSER), table 1, Dosser"
    changed = DOS(**{**row.fields, "steps": 7, "width": 9})
    recipe = run.recipe_of(changed, 3, name)
    assert recipe["changed"] == ["width", "steps"]
    assert recipe["origin"].endswith("table 1, Dosser; caller changed width, steps")
    assert "named" not in run.recipe_of(changed, 3)
    with pytest.raises(ValueError, match=r"Expected method dos with the recipe dosser-.*; got ldpdc\."):
        run.recipe_of(METHODS["ldpdc"](), 3, name)


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "mine.yaml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def test_a_recipe_in_a_file(written):
    row = read_recipe(written("method: dp-kip\nepsilon: 3\nfields: {kernel: scatternet, rounds: 7}\n"))
    assert (row.method, row.epsilon, row.delta) == ("dp-kip", 3, 1e-5)
    assert row.fields == {"kernel": KERNELS["scatternet"], "rounds": 7}
    row = read_recipe(written("method: dos\ndelta: 1.0e-6\nfields: {strategies: [crop, flip]}\n"))
    assert (row.epsilon, row.delta, row.build().strategies) == (None, 1e-6, ("crop", "flip"))
    assert read_recipe(written("method: dos\ndelta: 0")).delta == 0  # which no budget takes
    assert read_recipe(written("method: ldpdc")).build() == METHODS["ldpdc"]()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("method: [", "Expected YAML in mine.yaml"),
        (b"\xff\xfe\xff", "Expected YAML in mine.yaml"),
        ("- dos", "Expected method: NAME in mine.yaml."),
        ("method: 3", "Expected method: NAME in mine.yaml."),
        ("method: nosuch", "Unknown method 'nosuch': choose among"),
        ("method: dos\nsteps: 3", "Expected method, epsilon, delta, fields in mine.yaml; got 'steps'."),
        ("method: dos\nfields: [steps]", "Expected fields: a name and a value each in mine.yaml."),
        ("method: dos\nfields: {nosuch: 3}", "Method dos has no field 'nosuch': it has"),
        ("method: dos\nfields: {steps: 0}", "Expected steps=0 >= 1."),
        ("method: dp-kip\nfields: {kernel: nosuch}", "Unknown kernel 'nosuch': choose among"),
        ("method: dp-kip\nfields: {kernel: {a: 1}}", "Unknown kernel {'a': 1}: choose among"),
        ("method: dos\nepsilon: one", "Expected epsilon as a number in mine.yaml; got 'one'."),
        ("method: dos\ndelta: true", "Expected delta as a number in mine.yaml; got True."),
        ("method: dos # " + 100_000 * "x", "Expected a recipe of at most 100,000 bytes in mine.yaml."),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(written, text, said):
    with pytest.raises(DataError, match=re.escape(said)):
        read_recipe(written(text))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(
        DataError, match=r"Expected a recipe in gone\.yaml: the file does not exist or cannot be read\."
    ):
        read_recipe(tmp_path / "gone.yaml")
