"""Recipes of the methods, one a file. RECIPES is the one table of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from dpdistill.recipe.fields import Recipe
from dpdistill.recipe.methods.decoupled_kip import DecoupledKIP
from dpdistill.recipe.methods.dm import DM
from dpdistill.recipe.methods.dos import DOS
from dpdistill.recipe.methods.dos_kip import DOSKIP
from dpdistill.recipe.methods.dp_hp import DPHP
from dpdistill.recipe.methods.dp_kip import DPKIP
from dpdistill.recipe.methods.dp_merf import DPMERF
from dpdistill.recipe.methods.dp_ntk import DPNTK
from dpdistill.recipe.methods.dp_sgd import DPSGD
from dpdistill.recipe.methods.kip import KIP
from dpdistill.recipe.methods.ldpdc import LDPDC
from dpdistill.recipe.methods.ndpdc import NDPDC
from dpdistill.recipe.methods.psg import PSG
from dpdistill.schema import AnySchema, DataError, Schema, TableSchema

RECIPES: dict[str, type[Recipe]] = {
    recipe.name: recipe
    for recipe in (DOS, DecoupledKIP, DOSKIP, DPKIP, DPMERF, DPHP, DPNTK, NDPDC, LDPDC, PSG, DPSGD, DM, KIP)
}
"""Every recipe by the name of its method; the class of a method of one's own is added here."""
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
