"""Statements of a recipe that is named: a published one, or one in a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpdistill.recipe.published.rows import all_published, full_name, is_file, published, read_recipe
from dpdistill.schema import DataError


def published_fields(recipe: str) -> dict[str, Any]:
    """The fields of a published recipe, by its name, or of one in a .yaml file."""
    return (read_recipe(recipe) if is_file(recipe) else published(recipe)).fields


def stated_by(recipe: str) -> dict[str, Any]:
    """What a published recipe, or one in a .yaml file, states: method, and epsilon and delta of a budget.

    Args:
        recipe: its name or file.

    Returns:
        these, and the whole name of a published one.

    Raises:
        DataError: neither such a name nor such a file, or a field that cannot be.
    """
    row = read_recipe(recipe) if is_file(recipe) else all_published().get(full_name(recipe) or "")
    if row is None:
        raise DataError(
            f"Expected a recipe's name, as `dpdistill methods --recipes` lists them, or a .yaml file; got {recipe!r}."
        )
    stated = {name: getattr(row, name) for name in ("method", "epsilon", "delta")}
    return stated if is_file(recipe) else {"name": row.name, **stated}


def named_under(stated: Mapping[str, Any], budget: tuple[float, float] | None) -> str | None:
    """The name of a published recipe where a certificate may state it: a name says a budget, which has to be this one.

    Args:
        stated: by the recipe, `stated_by`; empty for none.
        budget: (epsilon, delta) of the run; None without a guarantee.
    """
    if "name" not in stated:
        return None
    own = None if stated["epsilon"] is None else (stated["epsilon"], stated["delta"])
    return stated["name"] if own == budget else None
