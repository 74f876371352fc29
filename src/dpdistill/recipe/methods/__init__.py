"""Recipes of the methods, one a file. RECIPES is the one table of them, and finds the files by itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import iter_modules

from dpdistill.recipe.fields import Recipe
from dpdistill.schema import AnySchema, DataError, Schema, TableSchema

FIRST = ("dos", "decoupled-kip", "dos-kip", "dp-kip", "dp-merf", "dp-hp", "dp-ntk", "ndpdc", "ldpdc", "psg", "dp-sgd")
"""Methods in the order in which people are told of them; others follow by name, those without a guarantee last."""


def _found() -> Iterator[type[Recipe]]:
    """The recipes in the modules of this package: classes with a name of their own."""
    for module in (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)):
        for value in vars(module).values():
            own = isinstance(value, type) and value.__module__ == module.__name__ and "name" in vars(value)
            if own and issubclass(value, Recipe):
                yield value


def _place(recipe: type[Recipe]) -> tuple[int, bool, str]:
    return FIRST.index(recipe.name) if recipe.name in FIRST else len(FIRST), not recipe.private, recipe.name


RECIPES: dict[str, type[Recipe]] = {recipe.name: recipe for recipe in sorted(_found(), key=_place)}
"""Every recipe by the name of its method; the class of a method of one's own is added by `listed`."""
DEFAULTS: dict[type[AnySchema], str] = {Schema: "dos-kip", TableSchema: "dp-merf"}
"""The method for each kind of records, where a caller names none."""


def check_method(name: str) -> None:
    """Refuse a name that is no method's.

    Raises:
        DataError: with the names that are.
    """
    if name not in RECIPES:
        raise DataError(f"Unknown method {name!r}: choose among {', '.join(RECIPES)}.")


def default_recipe(schema: AnySchema) -> Recipe:
    """The recipe for records of a kind, where a caller names none."""
    return RECIPES[DEFAULTS[type(schema)]]()


@contextmanager
def listed(recipe: type[Recipe]) -> Iterator[None]:
    """Adds the class of a method of one's own to RECIPES for a while."""
    before = RECIPES.get(recipe.name)
    RECIPES[recipe.name] = recipe
    try:
        yield
    finally:
        RECIPES.pop(recipe.name)
        if before is not None:
            RECIPES[recipe.name] = before
