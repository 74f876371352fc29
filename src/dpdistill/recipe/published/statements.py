"""Statements of a recipe by its name or its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpdistill.recipe.published.rows import all_published, full_name, is_file, published, read_recipe
from dpdistill.schema import DataError


def published_fields(recipe: str) -> dict[str, Any]:
    """Returns the fields of a published recipe by name, or of a recipe in a .yaml file."""
    return (read_recipe(recipe) if is_file(recipe) else published(recipe)).fields


def stated_by(recipe: str) -> dict[str, Any]:
    """Returns the statements of a recipe: method, and epsilon and delta of a budget.

    Args:
        recipe: name of a published recipe, or a .yaml file.

    Returns:
        The statements, and the full name of a published recipe.

    Raises:
        DataError: an unknown name or file, or an invalid field.
    """
    row = read_recipe(recipe) if is_file(recipe) else all_published().get(full_name(recipe) or "")
    if row is None:
        raise DataError(
            f"Expected a recipe's name, as `dpdistill methods --recipes` lists them, or a .yaml file; got {recipe!r}."
        )
    stated = {name: getattr(row, name) for name in ("method", "epsilon", "delta")}
    return stated if is_file(recipe) else {"name": row.name, **stated}


def named_under(stated: Mapping[str, Any], budget: tuple[float, float] | None) -> str | None:
    """Returns the name of a published recipe for a certificate; None if the name's budget is not the run's.

    Args:
        stated: statements of the recipe, from `stated_by`; empty for none.
        budget: (epsilon, delta) of the run; None without a guarantee.
    """
    if "name" not in stated:
        return None
    own = None if stated["epsilon"] is None else (stated["epsilon"], stated["delta"])
    return stated["name"] if own == budget else None
