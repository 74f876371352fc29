"""A method in two files and one line of a list: the command line, Python and `verify` take it."""

import dataclasses
import importlib
import sys

import numpy as np
import pytest

import dpdistill
import dpdistill.methods
import dpdistill.recipe.methods
from dpdistill.cli import main
from dpdistill.folder.save import read_distilled
from dpdistill.kernels.kernel import Kernel
from dpdistill.recipe.methods import RECIPES, listed
from dpdistill.recipe.parts import implement
from dpdistill.recipe.text import recipe_from_text
from dpdistill.schema import DataError

RECIPE = '''
from dataclasses import dataclass
from typing import Literal

from dpdistill.query import Stage
from dpdistill.recipe.fields import Recipe, finish_field, release_field


@dataclass(frozen=True, kw_only=True)
class Throwaway(Recipe):
    """Fields of a method that means one thing."""

    rounds: int = release_field(1, "releases of the same sums", ge=1, le=9)
    centre: Literal["mean", "zero"] = finish_field("mean", "where the images are")
    per_class: int = finish_field(1, "synthetic records a class", ge=1)

    name = "throw-away"
    title = "THROW-AWAY: class means"
    references = ("Nobody, A. (2024). Means.",)
    code = "dpdistill.methods.throwaway"

    def plan(self):
        return (Stage(self.rounds),)
'''
CODE = """
import jax.numpy as jnp
import numpy as np
from dataclasses import dataclass

from dpdistill.method import Distilled, Method, no_progress
from dpdistill.recipe.methods import throwaway as recipe


@dataclass(frozen=True)
class Pixels:
    clip_norm: float = 2.0**0.5
    by_class: bool = True
    encoder: None = None

    def contribution(self, params, x, y):
        return jnp.concatenate([jnp.ones(1), x.ravel() / x.size**0.5])


class Throwaway(recipe.Throwaway, Method):
    def init(self, key, schema):
        return {"sums": np.zeros((len(schema.classes), 1 + schema.dimension))}

    def ask(self, state):
        return Pixels(), {}

    def tell(self, state, release):
        return {"sums": state["sums"] + release.value / self.rounds}

    def finish(self, state, schema, progress=no_progress):
        counts, sums = np.maximum(state["sums"][:, :1], 1.0), state["sums"][:, 1:]
        means = np.clip(sums * schema.dimension**0.5 / counts, -1.0, 1.0) * (self.centre == "mean")
        y = np.repeat(np.arange(len(schema.classes), dtype=np.int32), self.per_class)
        return Distilled(means.astype(np.float32)[y].reshape(-1, *schema.shape), y, schema)
"""


@pytest.fixture
def throwaway(tmp_path, monkeypatch):
    """The class of the recipe, as from a file more in recipe/methods/ and one in methods/, listed in RECIPES."""
    for package, text in ((dpdistill.recipe.methods, RECIPE), (dpdistill.methods, CODE)):
        folder = tmp_path / package.__name__
        folder.mkdir()
        (folder / "throwaway.py").write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    recipe = importlib.import_module("dpdistill.recipe.methods.throwaway").Throwaway
    with listed(recipe):
        yield recipe
    for package in (dpdistill.recipe.methods, dpdistill.methods):
        sys.modules.pop(f"{package.__name__}.throwaway", None)
        vars(package).pop("throwaway", None)


def command(monkeypatch, *argv):
    """The exit code of a command."""
    monkeypatch.setattr(sys, "argv", ["dpdistill", *map(str, argv)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


def test_it_is_listed_with_what_its_fields_may_hold(throwaway, monkeypatch, capsys):
    assert command(monkeypatch, "methods", "throw-away") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "throw-away: class means" in said
    assert "rounds 1 1 <= whole <= 9 paid releases of the same sums" in said
    assert "centre mean mean or zero free where the images are" in said
    assert "dpdistill.methods.throwaway" not in sys.modules  # its code is not needed


def test_it_is_distilled_and_verified(throwaway, monkeypatch, tmp_path, capsys):
    settings = ("--method", "throw-away", "--set", "rounds=2", "--per-class", 3, "--epsilon", 8)
    assert command(monkeypatch, "distill", "digits:train", "--out", tmp_path / "out", *settings) == 0
    distilled = read_distilled(tmp_path / "out")
    assert distilled.X.shape == (30, 8, 8, 1)
    assert np.unique(distilled.X[distilled.y == 4], axis=0).shape[0] == 1
    # Noise is sqrt(2) sigma / 140 records a class and pixel; digits differ by far more.
    assert np.abs(distilled.X[0] - distilled.X[3]).max() > 0.5
    capsys.readouterr()
    assert command(monkeypatch, "verify", tmp_path / "out") == 0
    assert "PASSED" in capsys.readouterr().out


def test_it_is_a_class_of_the_package(throwaway):
    kind = dpdistill.methods.METHODS["throw-away"]
    assert kind is dpdistill.methods.Throwaway
    assert implement(throwaway(rounds=3)) == kind(rounds=3)
    assert type(implement(throwaway(rounds=3), dpdistill.methods.Method)) is kind
    with pytest.raises(TypeError, match=r"Expected Throwaway to be a Kernel\."):
        implement(throwaway(), Kernel)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("rounds=10", "Expected 1 <= rounds=10 <= 9."),
        ("rounds=two", "Expected rounds as a whole number; got rounds='two'."),
        ("centre=edge", "Expected centre among mean, zero; got edge."),
        ("center=mean", "Method throw-away has no field 'center': it has rounds, centre, per_class."),
        ("rounds", "Expected --set field=value; got 'rounds'."),
    ],
)
def test_its_fields_are_checked_when_they_are_written(throwaway, setting, said):
    with pytest.raises(DataError) as refusal:
        recipe_from_text("throw-away", [setting])
    assert str(refusal.value) == said


def test_text_and_values_make_the_same_recipe(throwaway):
    stated = recipe_from_text("throw-away", ["rounds=4", "centre=zero"], {"rounds": 2, "per_class": 7}, per_class=5)
    assert stated == throwaway(rounds=4, centre="zero", per_class=5)
    assert hash(stated) == hash(dataclasses.replace(stated))
    with pytest.raises(DataError, match=r"^The field 'per_class' is set twice\.$"):
        recipe_from_text("throw-away", ["per_class=4"], per_class=5)


def test_it_is_gone_with_its_line():
    assert "throw-away" not in RECIPES
    with pytest.raises(AttributeError, match="no attribute 'Throwaway'"):
        dpdistill.methods.Throwaway  # noqa: B018
