"""Distillation methods, one per file; all post-process releases. `dpdistill.recipe.methods` defines their recipes."""

from collections.abc import Iterator, Mapping

from dpdistill.method import Method
from dpdistill.recipe.fields import Recipe
from dpdistill.recipe.methods import RECIPES
from dpdistill.recipe.parts import code_of


def _code(recipe: type[Recipe]) -> type[Method]:
    found = code_of(recipe)
    if not issubclass(found, Method):
        raise TypeError(f"Expected the code of {recipe.__name__} in {recipe.code} to be a Method.")
    return found


class Methods(Mapping[str, type[Method]]):
    """Mapping from names to method classes, in the order of RECIPES."""

    def __getitem__(self, name: str) -> type[Method]:
        return _code(RECIPES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(RECIPES)

    def __len__(self) -> int:
        return len(RECIPES)


METHODS = Methods()
"""Source of the package's method names and of the conformance tests."""


def __getattr__(name: str) -> type[Method]:
    for recipe in RECIPES.values():
        if recipe.__name__ == name:
            return _code(recipe)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(["METHODS", "Methods", *(recipe.__name__ for recipe in RECIPES.values())])
