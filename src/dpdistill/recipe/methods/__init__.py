"""Recipes of the methods, one per file; RECIPES is the only table of them."""

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
"""Recipes by the name of their method; callers add the classes of their own methods here."""
DEFAULTS: dict[type[AnySchema], str] = {Schema: "dos-kip", TableSchema: "dp-merf"}
"""Default method for each kind of records."""


def check_method(name: str) -> None:
    """Refuses an unknown method.

    Raises:
        DataError: an unknown name; the message lists the known ones.
    """
    if name not in RECIPES:
        raise DataError(f"Unknown method {name!r}: choose among {', '.join(RECIPES)}.")


def default_recipe(schema: AnySchema) -> Recipe:
    """Returns the default recipe for a kind of records."""
    return RECIPES[DEFAULTS[type(schema)]]()


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
