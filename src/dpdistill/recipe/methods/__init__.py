"""Recipes of the methods, one per file; RECIPES is the only table of them, and finds the files itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import iter_modules

from dpdistill.recipe.fields import Recipe
from dpdistill.schema import AnySchema, DataError, Schema, TableSchema

FIRST = (
    "dos",
    "decoupled-kip",
    "dos-kip",
    "dp-kip",
    "dp-merf",
    "dp-hp",
    "table-classifier",
    "table-regression",
    "aim",
    "dp-ntk",
    "ndpdc",
    "ldpdc",
    "psg",
    "dp-sgd",
)
"""Methods in the order of lists; others follow by name, methods without a guarantee last."""


def _found() -> Iterator[type[Recipe]]:
    """Yields the recipes in the modules of this package: classes that state a name."""
    for module in (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)):
        for value in vars(module).values():
            own = isinstance(value, type) and value.__module__ == module.__name__ and "name" in vars(value)
            if own and issubclass(value, Recipe):
                yield value


def _place(recipe: type[Recipe]) -> tuple[int, bool, str]:
    return FIRST.index(recipe.name) if recipe.name in FIRST else len(FIRST), not recipe.private, recipe.name


RECIPES: dict[str, type[Recipe]] = {recipe.name: recipe for recipe in sorted(_found(), key=_place)}
"""Recipes by the name of their method; `listed` adds the class of a caller's own method."""
PURPOSES: dict[type[AnySchema], dict[str, str]] = {
    Schema: {"networks": "dos-kip", "kernel": "decoupled-kip", "classifier": "decoupled-kip"},
    TableSchema: {
        "models": "dp-merf",
        "counts": "aim",
        "classifier": "table-classifier",
        "number": "table-regression",
    },
}
"""Methods by what a set is for; the first purpose of each kind of records is the default."""


def method_for(kind: type[AnySchema], purpose: str | None = None) -> str:
    """Returns the name of the method for a kind of records and what the set is for; None for the default.

    Raises:
        DataError: another purpose than those of the kind; the message lists them.
    """
    methods = PURPOSES[kind]
    purpose = next(iter(methods)) if purpose is None else purpose
    if purpose not in methods:
        records = "images" if kind is Schema else "tables"
        raise DataError(f"Expected --for {', '.join(methods)} for {records}; got {purpose!r:.40}.")
    return methods[purpose]


def check_method(name: str) -> None:
    """Refuses an unknown method.

    Raises:
        DataError: an unknown name; the message lists the known ones.
    """
    if name not in RECIPES:
        raise DataError(f"Unknown method {name!r}: choose among {', '.join(RECIPES)}.")


def default_recipe(schema: AnySchema) -> Recipe:
    """Returns the default recipe for a kind of records."""
    return RECIPES[method_for(type(schema))]()


@contextmanager
def listed(recipe: type[Recipe]) -> Iterator[None]:
    """Adds the class of a caller's own method to RECIPES within a `with` block."""
    before = RECIPES.get(recipe.name)
    RECIPES[recipe.name] = recipe
    try:
        yield
    finally:
        RECIPES.pop(recipe.name)
        if before is not None:
            RECIPES[recipe.name] = before
